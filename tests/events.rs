//! The fifteen events as bytes, worked out by hand from the contract, and every limit on both of its sides.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use opentelemetry_failproof::event::{
    EXTRAS_LIMIT, Event, EventType, Field, FieldError, ITEMS_LIMIT, LINE_LIMIT, MESSAGES_LIMIT, Shape, TEXT_LIMIT,
};
use opentelemetry_failproof::{Policy, encode};
use serde_json::{Value, json};

/// 2026-01-02T03:04:05.678901Z and a part of a microsecond, which is not written.
const TIME: u64 = 1_767_323_045_678_901_999;

fn event(kind: EventType) -> Event {
    Event::new(kind, TIME, Arc::from("sess-1"), Arc::from("agent-1"), Arc::from("prod"))
}

fn with(kind: EventType, fields: &[(Field, Value)]) -> Event {
    let mut event = event(kind);
    for (field, value) in fields {
        event.set(*field, value.clone()).unwrap();
    }
    event
}

fn line_under(policy: Policy, event: Event) -> String {
    String::from_utf8(encode([event], policy)).unwrap()
}

fn line(event: Event) -> String {
    line_under(Policy::default(), event)
}

fn parsed(event: Event) -> Value {
    serde_json::from_str(&line(event)).unwrap()
}

/// A line of that type: the identity, and what comes behind it.
fn golden(kind: &str, rest: &str) -> String {
    format!(
        "{{\"timestamp\":\"2026-01-02T03:04:05.678901Z\",\"session_id\":\"sess-1\",\"agent_id\":\"agent-1\",\"type\":\"{kind}\",{rest}}}\n"
    )
}

type Golden = (EventType, Vec<(Field, Value)>, &'static str, &'static str);

/// Every type: its fields in an order that is not the contract's, and what stands behind the identity; then the fields
/// without content, and the same of them.
#[rustfmt::skip]
fn all_types() -> Vec<Golden> {
    use EventType as T;
    use Field as F;
    vec![
        (T::AgentStart, vec![(F::ParentId, json!("boss")), (F::Goal, json!("count the bolts"))],
            r#""environment":"prod","goal":"count the bolts","parent_id":"boss""#,
            r#""environment":"prod","parent_id":"boss""#),
        (T::AgentEnd, vec![(F::Usage, json!({"input_tokens": 3, "total_tokens": 3})), (F::Summary, json!("12")), (F::Outcome, json!("success"))],
            r#""environment":"prod","outcome":"success","summary":"12","usage":{"input_tokens":3,"total_tokens":3}"#,
            r#""environment":"prod","outcome":"success","usage":{"input_tokens":3,"total_tokens":3}"#),
        (T::AgentPause, vec![(F::UserId, json!("u-1")), (F::Reason, json!("approval")), (F::PauseId, json!("p-1"))],
            r#""pause_id":"p-1","environment":"prod","reason":"approval","user_id":"u-1""#,
            r#""pause_id":"p-1","environment":"prod","reason":"approval","user_id":"u-1""#),
        (T::AgentResume, vec![(F::UserId, json!("u-1")), (F::DurationMs, json!(0)), (F::Reason, json!("approved")), (F::PauseId, json!("p-1"))],
            r#""pause_id":"p-1","environment":"prod","duration_ms":0,"reason":"approved","user_id":"u-1""#,
            r#""pause_id":"p-1","environment":"prod","duration_ms":0,"reason":"approved","user_id":"u-1""#),
        (T::ToolUse, vec![(F::Input, json!({"item": "bolt"})), (F::ToolCallId, json!("tc-1")), (F::ToolName, json!("stock"))],
            r#""tool_name":"stock","tool_call_id":"tc-1","environment":"prod","input":{"item":"bolt"}"#,
            r#""tool_name":"stock","tool_call_id":"tc-1","environment":"prod""#),
        (T::ToolResult, vec![(F::DurationMs, json!(12)), (F::Error, json!("ValueError: no")), (F::Output, json!([1, null])), (F::ToolCallId, json!("tc-1")), (F::ToolName, json!("stock"))],
            r#""tool_name":"stock","tool_call_id":"tc-1","environment":"prod","output":[1,null],"error":"ValueError: no","duration_ms":12"#,
            r#""tool_name":"stock","tool_call_id":"tc-1","environment":"prod","error":"ValueError: no","duration_ms":12"#),
        (T::ModelRequest, vec![(F::RequestId, json!("r-1")), (F::Tools, json!([{"name": "stock", "description": "how many"}])), (F::System, json!("Be terse.")), (F::Messages, json!([{"role": "user", "content": "hi"}])), (F::Model, json!("m"))],
            r#""environment":"prod","model":"m","messages":[{"role":"user","content":"hi"}],"system":"Be terse.","tools":[{"name":"stock","description":"how many"}],"request_id":"r-1""#,
            r#""environment":"prod","model":"m","tools":[{"name":"stock"}],"request_id":"r-1""#),
        (T::ModelResponse, vec![(F::Usage, json!({"requests": 1})), (F::DurationMs, json!(7)), (F::Error, json!("E: x")), (F::RequestId, json!("r-1")), (F::Role, json!("assistant")), (F::Content, json!("hello")), (F::OutputTokens, json!(2)), (F::InputTokens, json!(1)), (F::StopReason, json!("stop")), (F::Model, json!("m"))],
            r#""environment":"prod","model":"m","stop_reason":"stop","input_tokens":1,"output_tokens":2,"content":"hello","role":"assistant","request_id":"r-1","error":"E: x","duration_ms":7,"usage":{"requests":1}"#,
            r#""environment":"prod","model":"m","stop_reason":"stop","input_tokens":1,"output_tokens":2,"role":"assistant","request_id":"r-1","error":"E: x","duration_ms":7,"usage":{"requests":1}"#),
        (T::HookTriggered, vec![(F::HookInput, json!("state")), (F::TriggerEvent, json!("graph_node")), (F::HookId, json!("h-1")), (F::HookName, json!("plan"))],
            r#""hook_name":"plan","hook_id":"h-1","environment":"prod","trigger_event":"graph_node","input":"state""#,
            r#""hook_name":"plan","hook_id":"h-1","environment":"prod","trigger_event":"graph_node""#),
        (T::HookCompleted, vec![(F::DurationMs, json!(5)), (F::Error, json!("E")), (F::Output, json!({"a": 1})), (F::Outcome, json!("failed")), (F::HookId, json!("h-1")), (F::HookName, json!("plan"))],
            r#""hook_name":"plan","hook_id":"h-1","environment":"prod","outcome":"failed","output":{"a":1},"error":"E","duration_ms":5"#,
            r#""hook_name":"plan","hook_id":"h-1","environment":"prod","outcome":"failed","error":"E","duration_ms":5"#),
        (T::Error, vec![(F::Traceback, json!("Traceback\nValueError: no")), (F::Message, json!("no")), (F::ErrorType, json!("ValueError"))],
            r#""error_type":"ValueError","message":"no","environment":"prod","traceback":"Traceback\nValueError: no""#,
            r#""error_type":"ValueError","message":"no","environment":"prod","traceback":"Traceback\nValueError: no""#),
        (T::HumanWait, vec![(F::Reason, json!("approval")), (F::Options, json!(["yes", "no"])), (F::Prompt, json!("go on?")), (F::InputId, json!("i-1"))],
            r#""input_id":"i-1","environment":"prod","prompt":"go on?","options":["yes","no"],"reason":"approval""#,
            r#""input_id":"i-1","environment":"prod","reason":"approval""#),
        (T::HumanInput, vec![(F::DurationMs, json!(9)), (F::Response, json!("yes")), (F::InputId, json!("i-1"))],
            r#""input_id":"i-1","environment":"prod","response":"yes","duration_ms":9"#,
            r#""input_id":"i-1","environment":"prod","duration_ms":9"#),
        (T::HumanPause, vec![(F::UserId, json!("u-1")), (F::Reason, json!("lunch"))],
            r#""environment":"prod","reason":"lunch","user_id":"u-1""#,
            r#""environment":"prod","reason":"lunch","user_id":"u-1""#),
        (T::HumanInterrupt, vec![(F::AtStep, json!(3)), (F::UserId, json!("u-1")), (F::Reason, json!("stop"))],
            r#""environment":"prod","reason":"stop","user_id":"u-1","at_step":3"#,
            r#""environment":"prod","reason":"stop","user_id":"u-1","at_step":3"#),
    ]
}

#[test]
fn every_type_is_written_in_the_contracts_order_whatever_order_its_fields_were_set_in() {
    let types = all_types();
    assert_eq!(types.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), EventType::ALL);
    for (kind, fields, rest, _) in types {
        let mut event = with(kind, &fields);
        event.set_extra("framework", "pydantic_ai");
        event.set_extra("fw_run_id", "run-1");
        let rest = format!(r#"{rest},"framework":"pydantic_ai","fw_run_id":"run-1""#);
        assert_eq!(line(event), golden(kind.name(), &rest));
    }
}

#[test]
fn every_type_keeps_all_but_content_when_content_is_not_captured() {
    let policy = Policy { capture_content: false, ..Policy::default() };
    for (kind, fields, _, rest) in all_types() {
        assert_eq!(line_under(policy, with(kind, &fields)), golden(kind.name(), rest));
    }
}

#[test]
fn optional_fields_that_nobody_set_are_absent() {
    for (kind, fields, ..) in all_types() {
        let required: Vec<_> = fields.into_iter().filter(|(field, _)| kind.required().contains(field)).collect();
        let members = kind.required().iter().map(|field| {
            let (_, value) = required.iter().find(|(name, _)| name == field).unwrap();
            format!("\"{}\":{value},", field.name())
        });
        let rest = members.collect::<String>() + r#""environment":"prod""#;
        assert_eq!(line(with(kind, &required)), golden(kind.name(), &rest));
    }
}

#[test]
fn a_null_is_left_out_and_is_no_error() {
    for kind in EventType::ALL {
        let mut event = event(kind);
        for field in kind.required().iter().chain(kind.optional()) {
            event.set(*field, Value::Null).unwrap();
        }
        event.set_extra("fw_node", Value::Null);
        assert!(event.missing().eq(kind.required().iter().copied()));
        assert_eq!(line(event), golden(kind.name(), r#""environment":"prod""#));
    }
}

#[test]
fn no_type_takes_a_field_that_it_does_not_declare() {
    let all_fields = || EventType::ALL.into_iter().flat_map(|kind| kind.required().iter().chain(kind.optional()));
    for kind in EventType::ALL {
        for field in all_fields().copied().filter(|field| !kind.has(*field)) {
            let refused = event(kind).set(field, json!("x")).unwrap_err();
            assert_eq!(refused, FieldError::Undeclared { kind, field });
        }
    }
}

#[test]
fn a_value_of_the_wrong_shape_is_refused_and_changes_nothing() {
    let wrong = |shape| match shape {
        Shape::Text => vec![json!(1), json!(["x"]), json!({}), json!(true)],
        Shape::Name => vec![json!(""), json!(" \t\n"), json!("\u{a0}"), json!(1), json!(["x"])],
        Shape::U32 => vec![json!(4_294_967_296_u64), json!(-1), json!(1.0), json!(0.5), json!("12"), json!(true)],
        Shape::Object => vec![json!("{}"), json!([]), json!(1)],
        Shape::Objects => vec![json!({}), json!("[]"), json!([{}, 1]), json!(["x"])],
        Shape::Texts => vec![json!("x"), json!(["x", 1]), json!({}), json!([null])],
        Shape::Any => vec![],
    };
    for (kind, fields, ..) in all_types() {
        let before = with(kind, &fields);
        for (field, _) in &fields {
            for value in wrong(field.shape()) {
                let mut event = before.clone();
                let refused = event.set(*field, value.clone()).expect_err(&format!("{field:?} {value}"));
                assert_eq!(refused, FieldError::WrongShape { field: *field, shape: field.shape() });
                assert_eq!(event, before);
            }
        }
    }
}

#[test]
fn numbers_of_the_server_s_columns_reach_up_to_two_to_the_32_less_one() {
    for (kind, field) in [
        (EventType::ToolResult, Field::DurationMs),
        (EventType::ModelResponse, Field::InputTokens),
        (EventType::ModelResponse, Field::OutputTokens),
    ] {
        for (number, fits) in [(0, true), (4_294_967_294_u64, true), (4_294_967_295, true), (4_294_967_296, false)] {
            assert_eq!(event(kind).set(field, number).is_ok(), fits, "{field:?} {number}");
        }
    }
}

#[test]
fn of_two_values_of_a_field_the_later_counts() {
    let twice = with(EventType::AgentStart, &[(Field::Goal, json!("a")), (Field::Goal, json!("b"))]);
    assert_eq!(line(twice), golden("agent_start", r#""environment":"prod","goal":"b""#));
}

#[test]
fn a_text_keeps_its_head_and_ends_in_the_marker_which_counts() {
    for unit in ["a", "é", "😀"] {
        for length in [TEXT_LIMIT - 1, TEXT_LIMIT] {
            let text = unit.repeat(length);
            let event = parsed(with(EventType::AgentStart, &[(Field::Goal, json!(text))]));
            assert_eq!((&event["goal"], &event["fw_truncated"]), (&json!(text), &Value::Null));
        }
        let event = parsed(with(EventType::AgentStart, &[(Field::Goal, json!(unit.repeat(TEXT_LIMIT + 1)))]));
        assert_eq!(event["goal"], json!(unit.repeat(8_192 - 12) + "…[truncated]"));
        assert_eq!(event["fw_truncated"], true);
    }
}

#[test]
fn texts_deep_inside_and_in_extras_are_cut_alike() {
    let long = "é".repeat(TEXT_LIMIT + 1);
    let cut = "é".repeat(8_192 - 12) + "…[truncated]";
    let mut tool = with(EventType::ToolUse, &[(Field::Input, json!({"list": [{"text": long}]}))]);
    tool.set_extra("fw_note", long.clone());
    let tool = parsed(tool);
    assert_eq!(tool["input"]["list"][0]["text"], json!(cut));
    assert_eq!(tool["fw_note"], json!(cut));
    let keyed = parsed(with(EventType::ToolUse, &[(Field::Input, json!({long: 1}))]));
    assert_eq!(keyed["input"], json!({cut: 1}));
}

#[test]
fn a_traceback_loses_its_front_and_keeps_the_exception() {
    let last = "\nValueError: é";
    for (length, is_cut) in [(TEXT_LIMIT - 1, false), (TEXT_LIMIT, false), (TEXT_LIMIT + 1, true)] {
        let traceback = "😀".repeat(length - last.chars().count()) + last;
        let event = parsed(with(EventType::Error, &[(Field::Traceback, json!(traceback))]));
        let written = event["traceback"].as_str().unwrap();
        assert!(written.ends_with(last));
        assert_eq!(written.starts_with("[older frames truncated]…\n😀"), is_cut);
        assert_eq!(written.chars().count(), length.min(8_192));
        assert_eq!(event["fw_truncated"] == true, is_cut);
    }
}

#[test]
fn a_list_keeps_a_hundred_items_and_says_how_many_more() {
    for (count, more) in
        [(ITEMS_LIMIT - 1, None), (ITEMS_LIMIT, None), (ITEMS_LIMIT + 1, Some("1 ")), (1_234, Some("1134 "))]
    {
        let items: Vec<usize> = (0..count).collect();
        let event = parsed(with(EventType::ToolResult, &[(Field::Output, json!(items))]));
        let written = event["output"].as_array().unwrap();
        assert_eq!(written[..count.min(100)], items[..count.min(100)].iter().map(|it| json!(it)).collect::<Vec<_>>());
        assert_eq!(written.len(), count.min(100) + usize::from(more.is_some()));
        assert!(more.is_none_or(|more| written[100].as_str().unwrap().contains(more)));
        assert_eq!(event["fw_truncated"] == true, more.is_some());
    }
}

#[test]
fn an_object_keeps_its_first_hundred_keys_and_says_how_many_more() {
    for (count, is_cut) in [(ITEMS_LIMIT - 1, false), (ITEMS_LIMIT, false), (ITEMS_LIMIT + 1, true)] {
        let object: serde_json::Map<_, _> = (0..count).map(|at| (format!("z{:03}", 999 - at), json!(at))).collect();
        let event = parsed(with(EventType::ToolUse, &[(Field::Input, Value::Object(object.clone()))]));
        let written = event["input"].as_object().unwrap();
        assert!(written.iter().take(100).eq(object.iter().take(100)));
        assert_eq!(written.len(), count.min(100) + usize::from(is_cut));
        assert!(!is_cut || written.values().next_back().unwrap().as_str().unwrap().contains("1 "));
        assert_eq!(event["fw_truncated"] == true, is_cut);
    }
}

#[test]
fn a_value_nests_six_levels_and_is_json_text_below() {
    let nested = |levels: usize| (1..levels).fold(json!({"leaf": 1}), |inner, _| json!([inner]));
    for levels in [5, 6] {
        let event = parsed(with(EventType::ToolResult, &[(Field::Output, nested(levels))]));
        assert_eq!((&event["output"], &event["fw_truncated"]), (&nested(levels), &Value::Null));
    }
    let event = parsed(with(EventType::ToolResult, &[(Field::Output, nested(7))]));
    assert_eq!(event["output"], json!([[[[[["{\"leaf\":1}"]]]]]]));
    assert_eq!(event["fw_truncated"], true);
    let event = parsed(with(EventType::ToolResult, &[(Field::Output, nested(64))]));
    assert_eq!(event["output"][0][0][0][0][0][0], json!(format!("{}{{\"leaf\":1}}{}", "[".repeat(57), "]".repeat(57))));
}

#[test]
fn extras_over_their_budget_lose_the_biggest_whole_and_never_the_ids() {
    for (over, is_cut) in [(-1_i64, false), (0, false), (1, true)] {
        let mut end = event(EventType::AgentEnd);
        // Quotes count: fourteen take a sixteenth of the budget each, the biggest 8,194 bytes, the ids ten.
        let last = EXTRAS_LIMIT as i64 - 14 * 8_192 - 8_194 - 10 - 2 + over;
        end.set_extra("fw_last", "l".repeat(usize::try_from(last).unwrap()));
        end.set_extra("fw_biggest", "B".repeat(8_192));
        for number in 0..14 {
            end.set_extra(&format!("fw_big_{number}"), "b".repeat(8_190));
        }
        end.set_extra("fw_run_id", "run");
        end.set_extra("fw_node", "nod");
        let end = parsed(end);
        assert_eq!((&end["fw_run_id"], &end["fw_node"]), (&json!("run"), &json!("nod")));
        assert_eq!(end["fw_big_13"].as_str().map(str::len), Some(8_190));
        assert_eq!(end.get("fw_biggest").is_none(), is_cut);
        assert_eq!(end["fw_truncated"] == true, is_cut);
    }
}

#[test]
fn a_request_keeps_its_twenty_newest_messages_and_counts_the_others() {
    for (count, omitted) in [(MESSAGES_LIMIT - 1, 0), (MESSAGES_LIMIT, 0), (MESSAGES_LIMIT + 1, 1), (150, 130)] {
        let messages: Vec<Value> = (0..count).map(|at| json!({"role": "user", "content": at.to_string()})).collect();
        let event = parsed(with(EventType::ModelRequest, &[(Field::Messages, json!(messages))]));
        assert_eq!(event["messages"], json!(messages[count.saturating_sub(20)..]));
        assert_eq!(event["fw_messages_omitted"].as_u64().unwrap_or(0), omitted);
        assert_eq!(event["fw_truncated"] == true, omitted > 0);
    }
}

/// A response whose line has that many bytes.
fn response_of(bytes: usize) -> Event {
    let with_texts = |texts: usize, last: usize| {
        let texts: Vec<Value> = (0..texts).map(|_| json!("t".repeat(8_000))).chain([json!("l".repeat(last))]).collect();
        let lists: Vec<&[Value]> = texts.chunks(100).collect();
        with(EventType::ModelResponse, &[(Field::Role, json!("assistant")), (Field::Content, json!(lists))])
    };
    let texts = bytes / 8_003 - 1;
    let rest = bytes - line(with_texts(texts, 0)).len();
    // A text longer than the limit of texts would be cut.
    if rest > 8_000 {
        with_texts(texts + 1, bytes - line(with_texts(texts + 1, 0)).len())
    } else {
        with_texts(texts, rest)
    }
}

#[test]
fn a_line_never_exceeds_four_mebibytes() {
    for bytes in [LINE_LIMIT - 1, LINE_LIMIT] {
        let written = line(response_of(bytes));
        assert_eq!(written.len(), bytes);
        assert!(!written.contains("fw_truncated"));
    }
    assert_eq!(
        line(response_of(LINE_LIMIT + 1)),
        golden("model_response", r#""environment":"prod","role":"assistant","fw_truncated":true"#)
    );
}

#[test]
fn a_line_never_exceeds_four_mebibytes_by_its_identity_or_by_the_names_of_extras() {
    let long = "n".repeat(LINE_LIMIT);
    let mut named = event(EventType::HumanPause);
    named.set_extra(&format!("fw_{long}"), 1);
    let identity = |session: &str, agent: &str, environment: &str| {
        Event::new(EventType::HumanPause, TIME, Arc::from(session), Arc::from(agent), Arc::from(environment))
    };
    let of_long_parts = [named, identity(&long, "a", "e"), identity("s", &long, "e"), identity("s", "a", &long)];
    for (at, event) in of_long_parts.into_iter().enumerate() {
        assert!(line(event).len() <= LINE_LIMIT, "part {at}");
    }
}

#[test]
fn a_credential_across_the_cut_leaves_no_part_behind() {
    let token = format!("ghp_{}", "0123456789".repeat(4));
    for before in (TEXT_LIMIT - 12 - token.len() - 2)..=TEXT_LIMIT {
        let goal = format!("{} {token} and more", "x".repeat(before - 1));
        let written = line(with(EventType::AgentStart, &[(Field::Goal, json!(goal))]));
        assert!(!written.contains("ghp_") && !written.contains("0123"), "token at {before}");
    }
    for behind in (TEXT_LIMIT - 26 - token.len() - 2)..=TEXT_LIMIT {
        let traceback = format!("front {token} {}", "x".repeat(behind - 1));
        let written = line(with(EventType::Error, &[(Field::Traceback, json!(traceback))]));
        assert!(!written.contains("56789"), "token {behind} from the end");
    }
}

#[test]
fn credentials_are_redacted_in_every_part_of_a_line() {
    let token = "sk-ant-0123456789abcdef0123456789";
    let mut tool = Event::new(EventType::ToolUse, TIME, Arc::from(token), Arc::from(token), Arc::from("prod"));
    tool.set(Field::ToolName, token).unwrap();
    tool.set(Field::Input, json!({token: {"deep": [token]}})).unwrap();
    tool.set_extra("fw_note", json!({token: token}));
    let written = line(tool.clone());
    assert!(!written.contains("0123456789"), "{written}");
    assert_eq!(written.matches("[redacted:").count(), 7, "{written}");
    let as_it_is = line_under(Policy { redact: false, ..Policy::default() }, tool);
    assert_eq!(as_it_is.matches(token).count(), 7);
}

#[test]
fn credentials_are_redacted_in_the_names_of_extras_and_in_the_environment() {
    let token = "sk-ant-0123456789abcdef0123456789";
    let mut pause = Event::new(EventType::HumanPause, TIME, Arc::from("s"), Arc::from("a"), Arc::from(token));
    pause.set_extra(token, 1);
    let written = line(pause);
    assert!(!written.contains("0123456789"), "{written}");
}
