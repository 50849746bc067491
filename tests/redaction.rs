//! The redactor against the official SDK's, on a recorded table of inputs. See
//! `tests/record/redaction_oracle.py` for how to record it again.

// The helpers of tests may unwrap as tests do, which clippy can't tell by itself.
#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::time::{Duration, Instant};

use opentelemetry_failproof::redact::{is_secret_name, redact_field, redact_field_text, redact_text, redact_value};
use proptest::prelude::*;
use serde_json::{Value, json};

fn oracle() -> Vec<Value> {
    let lines = include_str!("fixtures/redaction/oracle.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn redacted(value: &Value) -> Value {
    let mut value = value.clone();
    redact_value(&mut value);
    value
}

/// As text, because that tells the order of keys too.
fn assert_same(ours: &Value, expected: &Value, input: &Value) {
    assert_eq!(ours.to_string(), expected.to_string(), "of {input}");
}

#[test]
fn every_recorded_input_gives_the_sdks_output_unless_listed_as_more() {
    for case in oracle().iter().filter(|case| case["superset"].is_null()) {
        assert_same(&redacted(&case["input"]), &case["output"], &case["input"]);
    }
}

#[test]
fn inputs_listed_as_more_give_the_output_worked_out_by_hand() {
    for case in oracle().iter().filter(|case| case["superset"].is_string()) {
        assert_same(&redacted(&case["input"]), &case["ours"], &case["input"]);
        assert_ne!(case["ours"], case["output"], "the SDK does the same to {}", case["input"]);
    }
}

#[test]
fn the_recorded_table_is_a_large_one() {
    let (more, same): (Vec<_>, Vec<_>) = oracle().into_iter().partition(|case| case["superset"].is_string());
    let changed = same.iter().filter(|case| case["input"] != case["output"]).count();
    assert!(changed > 400 && same.len() - changed > 400 && more.len() >= 20);
}

#[test]
fn text_without_a_credential_is_borrowed() {
    for case in oracle() {
        if let Some(text) = case["input"].as_str() {
            assert_borrowed_if_unchanged(text);
        }
    }
}

fn assert_borrowed_if_unchanged(text: &str) {
    let ours = redact_text(text);
    // The name of a secret and a marker give the same marker again.
    if ours == text && !text.contains("[redacted:") {
        assert!(matches!(ours, Cow::Borrowed(_)), "{text:?}");
    }
}

#[test]
fn a_secret_field_loses_all_of_its_literal_value() {
    let marker = "[redacted:secret-assignment]";
    assert_eq!(redact_field_text("db_password", "correct horse"), marker);
    assert_eq!(redact_field_text("db_password", "short"), "short");
    assert_eq!(redact_field_text("text", "correct horse"), "correct horse");

    let mut value = json!(["correct horse", ["battery staple"], {"text": "correct horse"}]);
    redact_field("db_password", &mut value);
    assert_eq!(value, json!([marker, [marker], {"text": "correct horse"}]));
}

#[test]
fn a_secret_field_loses_the_rest_of_its_value_when_only_our_rules_find_a_token_in_it() {
    let value = format!("correct horse sbp_{}", "a".repeat(16));
    assert_eq!(redact_field_text("db_password", &value), "[redacted:secret-assignment]");
}

#[test]
fn secret_names_are_compounds_of_key_and_token_and_all_that_end_in_secret_and_its_like() {
    for name in ["api_key", "apiKey", "x-api-key", "KEY", "--access-token-", "password", "mysecret"] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["key", "token", "monkey", "-key-", "max_tokens", "key_id", "secrets", ""] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn many_keys_that_become_equal_are_told_apart_in_linear_time() {
    let fields = (0..20_000).map(|i| (format!("sk-{i:016}"), json!(i)));
    let mut value = Value::Object(fields.collect());
    redact_value(&mut value);
    assert_eq!(value.as_object().unwrap().len(), 20_000);
    assert_eq!(value["[redacted:api-key]#20000"], 19_999);
}

#[test]
fn a_megabyte_of_text_made_to_be_slow_takes_no_longer_than_any_other() {
    let made_to_be_slow = [
        "a_a_a_=",
        "eyJ",
        "eyJ=",
        "eyJ.",
        "eyJa.eyJ=",
        "sk-",
        "sk- ",
        "key=",
        "a_key=",
        "a_key=\"",
        "a_key=x ",
        "a_key='b_key=\"",
        "Bearer ",
        "bearer",
        "\"a_key\":\"",
        "\"a_key\":",
        "y\" ",
        "\\",
        "a_key=\\\"",
        "\\\"a_key\\\": \\\"",
        "-",
        "-=",
        "é=",
        "y\\",
        "sbp_aaaaaaaaaaaaaaaa ",
        "\"a_key\":\"sk-aaaaaaaaaaaaaaaa\\\"",
    ];
    for piece in made_to_be_slow {
        let text = piece.repeat((1 << 20) / piece.len());
        let begun = Instant::now();
        redact_text(&text);
        // A pass takes well under a second without optimisation; a quadratic one takes hours.
        assert!(begun.elapsed() < Duration::from_secs(20), "{piece:?}");
    }
}

/// A token of one of the kinds, at least as long as it must be.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        "sk-(ant-|ant-api03-|proj-|)[A-Za-z0-9_-]{16,60}",
        "(gh[pousr]_|github_pat_)[A-Za-z0-9_-]{20,80}",
        "(sb_secret_|sbp_|xox[bp]-|AKIA|ASIA)[A-Za-z0-9_-]{16,60}",
        "eyJ[A-Za-z0-9_=-]{12,40}\\.[A-Za-z0-9_=-]{12,40}\\.[A-Za-z0-9_=-]{12,40}",
    ]
}

/// Text full of what rules look for.
fn busy_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,8}",
        "\\PC{0,4}",
        "(a_key|secret|apiToken|key|bearer|Bearer|eyJ|sk-|ghp_|sbp_)[=:. \"'\\\\]{0,3}",
        "[\"'\\\\=:;&.{$<\n \u{1c}\u{85}\u{3000}é日-]{1,4}",
        "[a-z0-9]{10,20}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_token_at_a_word_boundary_never_survives(
        before in busy_text(),
        boundary in "[ \"'(,;:=/\n\\\\é日]",
        token in token(),
        after in busy_text(),
    ) {
        let text = format!("{before}{boundary}{token}{after}");
        prop_assert!(!redact_text(&text).contains(&token), "{text:?}");
    }

    #[test]
    fn a_bearer_value_never_survives(
        before in busy_text(), scheme in "[Bb][Ee][Aa][Rr][Ee][Rr] ", value in "[!#-&(-~]{8,60}", after in busy_text(),
    ) {
        let text = format!("{before} {scheme}{value} {after}");
        let credential = format!("{scheme}{value}");
        prop_assert!(!redact_text(&text).contains(&credential), "{text:?}");
    }

    #[test]
    fn the_value_of_a_secret_field_in_json_text_never_survives(
        name in "[a-z]{1,8}(_key|-token|Key|_secret|password)",
        value in "[a-zA-Z0-9 \"\\\\\n/é日]{12,60}",
        times_escaped in 0..4,
    ) {
        let mut text = json!({ &name: &value, "other": 1 }).to_string();
        let mut expected = json!({ &name: "[redacted:secret-assignment]", "other": 1 }).to_string();
        for _ in 0..times_escaped {
            text = json!(text).to_string();
            expected = json!(expected).to_string();
        }
        prop_assert_eq!(redact_text(&text), expected);
    }

    #[test]
    fn any_text_that_stays_the_same_is_borrowed(text in busy_text()) {
        assert_borrowed_if_unchanged(&text);
    }
}
