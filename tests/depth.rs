//! Chains and cycles of ten thousand spans: they end, and what they give grows as they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::span::{Span, SpanId};
use opentelemetry_failproof::trace::{Mapping, explain};
use support::invariants;
use support::spans::*;

const DEEP: u64 = 10_000;

/// A span of that number, at the time of all others, under the one before it.
fn link(number: u64, span: Span<'static>) -> Span<'static> {
    let parent = (number > 1).then(|| SpanId::from(number - 1));
    Span { span_id: SpanId::from(number), parent, start: NOW + number, end: Some(NOW + 1_000 * MS - number), ..span }
}

fn chain(length: u64, of: impl Fn(u64) -> Span<'static>) -> Vec<Span<'static>> {
    (1..=length).map(|number| link(number, of(number))).collect()
}

/// The spans with the first one under the last.
fn closed(mut spans: Vec<Span<'static>>) -> Vec<Span<'static>> {
    spans[0].parent = spans.last().map(|last| last.span_id);
    spans
}

/// The lines of half as many spans and of all of them: sound, and twice as long.
fn check(shape: &str, spans: impl Fn(u64) -> Vec<Span<'static>>, events_of_a_span: usize) {
    let lines = |length| support::lines(&spans(length), &Mapping::default(), Policy::default());
    let (half, whole) = (lines(DEEP / 2), lines(DEEP));
    assert_eq!(invariants::check(&whole), Ok(()), "{shape}");
    assert!(whole.lines().count() >= events_of_a_span * usize::try_from(DEEP).unwrap(), "{shape}");
    let ratio = whole.len() as f64 / half.len() as f64;
    assert!((1.9..2.1).contains(&ratio), "{shape}: {ratio} times the bytes for twice the spans");
}

#[test]
fn a_chain_of_agents_ends() {
    check("agents", |length| chain(length, |_| agent(1, "a")), 2);
    check("agents in a cycle", |length| closed(chain(length, |_| agent(1, "a"))), 2);
}

#[test]
fn a_chain_of_calls_ends() {
    check("tools", |length| chain(length, |number| tool(1, if number % 2 == 0 { "t" } else { "u" })), 2);
    check(
        "tools in a cycle",
        |length| closed(chain(length, |number| tool(1, if number % 2 == 0 { "t" } else { "u" }))),
        2,
    );
    check(
        "one agent's model calls",
        |length| {
            let flat = |span: Span<'static>| {
                if span.parent.is_some() { Span { parent: Some(SpanId::from(1)), ..span } } else { span }
            };
            chain(length, |number| if number == 1 { agent(1, "a") } else { model(1, "m") })
                .into_iter()
                .map(flat)
                .collect()
        },
        1,
    );
}

#[test]
fn a_chain_of_runs_with_an_exception_each_ends() {
    check("equal exceptions", |length| chain(length, |_| agent(1, "a").raises("ValueError", "no")), 2);
    check(
        "other exceptions",
        |length| chain(length, |number| agent(1, "a").raises("ValueError", &number.to_string())),
        3,
    );
}

#[test]
fn a_chain_of_unknown_spans_and_calls_below_it_end() {
    check(
        "transparent",
        |length| {
            let mut spans = chain(length, |number| if number < length { span(1, "GET /") } else { tool(1, "t") });
            let last = spans[spans.len() - 2].span_id;
            spans.extend((1..=length).map(|number| Span { parent: Some(last), ..link(length + number, tool(1, "t")) }));
            spans
        },
        2,
    );
    let calls_of_nobody = |number: u64| tool(1, "t").with("failproof.session_id", number.to_string());
    check(
        "sessions",
        |length| chain(length, calls_of_nobody).into_iter().map(|span| Span { parent: None, ..span }).collect(),
        4,
    );
}

#[test]
fn spans_that_are_their_own_parents_are_roots() {
    check(
        "self-parents",
        |length| {
            chain(length, |_| agent(1, "a"))
                .into_iter()
                .map(|span| Span { parent: Some(span.span_id), ..span })
                .collect()
        },
        2,
    );
    for size in [1, 2, 3] {
        let cycle = closed(chain(size, |_| agent(1, "a")));
        assert_eq!(events_of(&cycle).len() as u64, 2 * size);
    }
}

#[test]
fn explaining_them_ends_too() {
    let chain = chain(DEEP, |number| if number % 2 == 0 { agent(1, "a") } else { tool(1, "t") });
    assert_eq!(explain(&closed(chain), &Mapping::default()).len() as u64, DEEP);
}
