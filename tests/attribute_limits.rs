//! Spans that lost attributes to an SDK's limits: Python's drops the oldest, JavaScript's and Go's the newest, and a limit
//! of length cuts texts, JSON among them, in the middle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::span::{Attributes, Span, Value};
use opentelemetry_failproof::trace::Mapping;
use support::recorded::of_frameworks;
use support::{contract, lines};

/// Every recording after that has happened to each of its spans: its events are sound, and most are left.
fn check(what: &str, limit: impl Fn(&Attributes<'static>) -> Attributes<'static>) {
    let (whole, limited) = told(what, limit);
    assert!(limited * 2 > whole, "{what}: {limited} of {whole} events are left");
}

/// How many events there were, and how many there are then.
fn told(what: &str, limit: impl Fn(&Attributes<'static>) -> Attributes<'static>) -> (usize, usize) {
    let (mut whole, mut limited) = (0, 0);
    for recording in of_frameworks() {
        let spans = recording.spans();
        let lose = |span: &Span<'static>| Span { attributes: limit(&span.attributes), ..span.clone() };
        let lost: Vec<Span<'static>> = spans.iter().map(lose).collect();
        let told = lines(&lost, &Mapping::default(), Policy::default());
        assert_eq!(contract::check(&told), Ok(()), "{}: {what}", recording.name());
        whole += recording.lines().lines().count();
        limited += told.lines().count();
    }
    (whole, limited)
}

fn skip(attributes: &Attributes<'static>, range: impl Fn(usize, usize) -> bool) -> Attributes<'static> {
    let count = attributes.len();
    let kept = attributes.iter().enumerate().filter(|(at, _)| range(*at, count));
    kept.map(|(_, (key, value))| (key.to_owned(), value.clone())).collect()
}

#[test]
fn the_oldest_attributes_can_be_lost() {
    check("without the two oldest", |attributes| skip(attributes, |at, _| at >= 2));
}

#[test]
fn the_newest_attributes_can_be_lost() {
    for lost in [1, 3] {
        check(&format!("without the {lost} newest"), |attributes| skip(attributes, |at, count| at + lost < count));
    }
}

#[test]
fn indices_can_have_gaps() {
    check("without every seventh", |attributes| skip(attributes, |at, _| at % 7 != 6));
}

#[test]
fn texts_can_be_cut_in_the_middle() {
    for limit in [40, 200] {
        check(&format!("texts of {limit} characters"), |attributes| {
            let cut = |value: &Value<'static>| match value.as_str() {
                Some(text) => Value::from(text.chars().take(limit).collect::<String>()),
                None => value.clone(),
            };
            attributes.iter().map(|(key, value)| (key.to_owned(), cut(value))).collect()
        });
    }
}

#[test]
fn json_can_be_of_any_other_shape() {
    let odd = [
        "null",
        "7",
        "true",
        "\"text\"",
        "[]",
        "{}",
        "[1,\"a\",null]",
        "[[[]]]",
        "[{}]",
        "{\"messages\":\"x\"}",
        "{\"messages\":[[\"x\"]],\"input\":[],\"content\":{}}",
        "[{\"role\":7,\"parts\":\"x\",\"content\":{\"a\":1}}]",
        "[{\"message\":\"x\",\"tool_calls\":[7,\"x\",{\"function\":[]}],\"content\":[[],7]}]",
    ];
    for text in odd {
        told(text, |attributes| {
            let is_json = |value: &str| value.starts_with(['{', '[']);
            let swapped = |value: &Value<'static>| match value.as_str() {
                Some(value) if is_json(value) => Value::from(text.to_owned()),
                _ => value.clone(),
            };
            attributes.iter().map(|(key, value)| (key.to_owned(), swapped(value))).collect()
        });
    }
}
