//! Our events beside the truth about a recording: what a correct mapping must give, worked out from the recorded program.
//!
//! `tests/fixtures/frameworks/truth.json` explains its own fields in `tests/record/README.md`.

use std::collections::BTreeMap;

use serde_json::Value;

/// One fact of one recording that does not hold.
#[derive(Debug)]
pub struct Miss {
    pub fact: &'static str,
    pub expected: String,
    pub got: String,
}

/// What was checked, and what of it does not hold.
#[derive(Debug, Default)]
pub struct Verdict {
    pub checked: usize,
    pub misses: Vec<Miss>,
    /// Facts that are a judgement: told, not counted.
    pub soft_misses: Vec<Miss>,
}

impl Verdict {
    fn note(&mut self, soft: &[&str], fact: &'static str, holds: bool, expected: String, got: String) {
        let is_soft = soft.contains(&fact);
        if !is_soft {
            self.checked += 1;
        }
        if !holds {
            let miss = Miss { fact, expected, got };
            if is_soft { self.soft_misses.push(miss) } else { self.misses.push(miss) }
        }
    }
}

/// Compares the events of one recording with its truth.
pub fn judge(truth: &Value, events: &[Value]) -> Verdict {
    let soft: Vec<&str> = truth["soft"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut verdict = Verdict::default();
    let of_type = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let starts = counts(&of_type("agent_start"), "agent_id");

    if !truth["agents"].is_null() {
        let alternatives = truth["agents_alt"].as_array().into_iter().flatten();
        let holds = std::iter::once(&truth["agents"]).chain(alternatives).any(|agents| agents_fit(agents, &starts));
        verdict.note(&soft, "agents", holds, truth["agents"].to_string(), format!("{starts:?}"));
    }
    if truth["agents_really"].is_object() && !agents_fit(&truth["agents_really"], &starts) {
        let (expected, got) = (truth["agents_really"].to_string(), format!("{starts:?}"));
        verdict.soft_misses.push(Miss { fact: "agents_really", expected, got });
    }
    if let Some(outcomes) = truth["outcomes"].as_object() {
        let got = outcomes_of(events);
        let holds = outcomes.iter().all(|(name, expected)| {
            let ended: Vec<&String> =
                got.iter().filter(|(agent, _)| fits(name, agent)).flat_map(|(_, outcomes)| outcomes).collect();
            let expected: Vec<&str> = expected.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            expected.len() == ended.len()
                && expected
                    .iter()
                    .zip(&ended)
                    .all(|(want, got)| want == got || (*want == "open" && *got == "cancelled"))
        });
        verdict.note(&soft, "outcomes", holds, truth["outcomes"].to_string(), format!("{got:?}"));
    }
    if let Some(calls) = truth["model_calls"].as_u64() {
        let got = of_type("model_request").len() as u64;
        verdict.note(&soft, "model_calls", calls == got, calls.to_string(), got.to_string());
    }
    if truth["tokens"].is_array() {
        let responses = of_type("model_response");
        let sum = |name: &str| responses.iter().filter_map(|event| event[name].as_u64()).sum::<u64>();
        let got = serde_json::json!([sum("input_tokens"), sum("output_tokens")]);
        let fits = |want: &Value| {
            let members = want.as_array().into_iter().flatten().zip(got.as_array().into_iter().flatten());
            want.is_array() && members.into_iter().all(|(want, got)| want.is_null() || want == got)
        };
        let holds = fits(&truth["tokens"]) || fits(&truth["tokens_alt"]);
        verdict.note(&soft, "tokens", holds, truth["tokens"].to_string(), got.to_string());
    }
    judge_tools(truth, events, &soft, &mut verdict);
    for (fact, field) in [("tool_error_text", "error"), ("tool_result_text", "output")] {
        let Some(expected) = truth[fact].as_str() else { continue };
        let got: Vec<&Value> = of_type("tool_result").into_iter().map(|event| &event[field]).collect();
        let holds = got.iter().any(|value| has_text(value, expected));
        verdict.note(&soft, fact, holds, expected.to_owned(), format!("{got:?}"));
    }
    if let Some(hooks) = truth["hooks"].as_array().or(truth["hooks_at_least"].as_array()) {
        let got: Vec<&str> = of_type("hook_triggered").iter().filter_map(|event| event["hook_name"].as_str()).collect();
        let want: Vec<&str> = hooks.iter().filter_map(Value::as_str).collect();
        verdict.note(&soft, "hooks", sorted(&want) == sorted(&got), format!("{want:?}"), format!("{got:?}"));
    }
    if let Some(errors) = truth["errors"].as_array() {
        let got: Vec<&str> = of_type("error").iter().filter_map(|event| event["error_type"].as_str()).collect();
        let holds = errors.len() == got.len() && {
            let want: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
            want.len() < errors.len() || sorted(&want) == sorted(&got)
        };
        verdict.note(&soft, "errors", holds, truth["errors"].to_string(), format!("{got:?}"));
    }
    if let Some(human) = truth["human"].as_u64() {
        let got = of_type("human_wait").len() as u64;
        verdict.note(&soft, "human", human == got, human.to_string(), got.to_string());
    }
    if let Some(parents) = truth["parents"].as_object() {
        for (child, parent) in parents {
            let got: Vec<&str> = of_type("agent_start")
                .iter()
                .filter(|event| event["agent_id"].as_str().is_some_and(|agent| fits(child, agent)))
                .map(|event| event["parent_id"].as_str().unwrap_or("none"))
                .collect();
            let holds =
                !got.is_empty() && parent.as_str().is_some_and(|parent| got.iter().all(|got| fits(parent, got)));
            verdict.note(&soft, "parents", holds, format!("{child} under {parent}"), format!("{got:?}"));
        }
    }
    let sessions = counts(&events.iter().collect::<Vec<_>>(), "session_id");
    if let Some(number) = truth["sessions"].as_u64() {
        let holds = number == sessions.len() as u64;
        verdict.note(&soft, "sessions", holds, number.to_string(), format!("{:?}", sessions.keys()));
    }
    if let Some(session) = truth["session_id"].as_str() {
        let holds = sessions.keys().all(|got| got == session);
        verdict.note(&soft, "session_id", holds, session.to_owned(), format!("{:?}", sessions.keys()));
    }
    for forbidden in truth["must_not"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let found = violation(forbidden, events);
        verdict.note(&soft, "must_not", found.is_none(), forbidden.to_owned(), found.unwrap_or_default());
    }
    verdict
}

/// Tools by their start: name, status, call id, arguments, result; each of them null where it is not to be compared.
fn judge_tools(truth: &Value, events: &[Value], soft: &[&str], verdict: &mut Verdict) {
    let Some(expected) = truth["tools"].as_array() else { return };
    let optional: Vec<&Value> = truth["tools_optional"].as_array().into_iter().flatten().collect();
    let is_optional =
        |event: &Value| optional.iter().any(|tool| tool[0] == event["tool_name"] || **tool == event["tool_name"]);
    let uses: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool_use" && !is_optional(event)).collect();
    let names: Vec<&str> = uses.iter().filter_map(|event| event["tool_name"].as_str()).collect();
    let want: Vec<&str> = expected
        .iter()
        .filter(|tool| !optional.iter().any(|other| other[0] == tool[0]))
        .filter_map(|tool| tool[0].as_str())
        .collect();
    let mut unmatched = names.clone();
    let all_there = want.iter().all(|want| {
        let found = unmatched.iter().position(|name| fits(want, name));
        found.map(|at| unmatched.remove(at)).is_some()
    });
    let holds = all_there && unmatched.is_empty();
    verdict.note(soft, "tools.names", holds, format!("{want:?}"), format!("{names:?}"));
    if !holds {
        return;
    }
    // Parallel calls can start in any order: a call is found by its id, else by its place among those of its name.
    let mut left = uses.clone();
    for tool in expected {
        let by_id = left.iter().position(|event| tool[2].is_string() && event["tool_call_id"] == tool[2]);
        let is_named =
            |event: &&Value| tool[0].as_str().zip(event["tool_name"].as_str()).is_some_and(|(a, b)| fits(a, b));
        let Some(at) = by_id.or_else(|| left.iter().position(is_named)) else { continue };
        let used = left.remove(at);
        let result = events
            .iter()
            .find(|event| event["type"] == "tool_result" && event["fw_span_id"] == used["fw_span_id"])
            .unwrap_or(&Value::Null);
        let status = match () {
            () if result["error"].is_string() => "error",
            () if !result["fw_control_flow"].is_null() => "control_flow",
            () => "ok",
        };
        if let Some(want) = tool[1].as_str() {
            verdict.note(soft, "tools.status", want == status, tool.to_string(), result.to_string());
        }
        if tool[2].is_string() {
            verdict.note(soft, "tools.ids", tool[2] == used["tool_call_id"], tool.to_string(), used.to_string());
        }
        if !tool[3].is_null() {
            verdict.note(soft, "tools.args", tool[3] == used["input"], tool[3].to_string(), used["input"].to_string());
        }
        if !tool[4].is_null() {
            let holds = tool[4] == result["output"];
            verdict.note(soft, "tools.results", holds, tool[4].to_string(), result["output"].to_string());
        }
    }
}

fn agents_fit(expected: &Value, got: &BTreeMap<String, usize>) -> bool {
    let Some(expected) = expected.as_object() else { return false };
    let fits_count = |count: &Value, got: usize| match count {
        Value::Array(counts) => counts.iter().any(|count| count.as_u64() == Some(got as u64)),
        Value::Null => true,
        count => count.as_u64() == Some(got as u64),
    };
    let all_there = expected.iter().all(|(name, count)| {
        let number = got.iter().filter(|(agent, _)| fits(name, agent)).map(|(_, number)| number).sum();
        fits_count(count, number)
    });
    all_there && got.keys().all(|agent| expected.keys().any(|name| fits(name, agent)))
}

/// Whether a text, or a text anywhere within the value, has that text in it.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(held) => held.contains(text),
        Value::Array(items) => items.iter().any(|item| has_text(item, text)),
        Value::Object(members) => members.values().any(|member| has_text(member, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `a|b` is either.
fn fits(names: &str, agent: &str) -> bool {
    names.split('|').any(|name| name == agent)
}

fn counts(events: &[&Value], field: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for value in events.iter().filter_map(|event| event[field].as_str()) {
        *counts.entry(value.to_owned()).or_default() += 1;
    }
    counts
}

/// The outcomes of each agent in the order of their ends; `open` for a run that has none.
fn outcomes_of(events: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut outcomes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut open: BTreeMap<String, i64> = BTreeMap::new();
    for event in events {
        let agent = event["agent_id"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("agent_start") => *open.entry(agent).or_default() += 1,
            // A run that goes on within what has been recorded is open already.
            Some("agent_resume") => {
                let open = open.entry(agent).or_default();
                *open = (*open).max(1);
            }
            Some("agent_end") => {
                *open.entry(agent.clone()).or_default() -= 1;
                let outcome = event["outcome"].as_str().unwrap_or("none").to_owned();
                outcomes.entry(agent).or_default().push(outcome);
            }
            _ => {}
        }
    }
    for (agent, number) in open {
        for _ in 0..number {
            outcomes.entry(agent.clone()).or_default().push("open".to_owned());
        }
    }
    outcomes
}

/// What in the events breaks a `must_not`.
fn violation(forbidden: &str, events: &[Value]) -> Option<String> {
    let find = |test: &dyn Fn(&Value) -> bool| events.iter().find(|event| test(event)).map(Value::to_string);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    let is = |kind: &str| find(&|event| event["type"] == kind);
    if let Some(name) = forbidden.strip_prefix("agent named ") {
        return find(&|event| event["agent_id"] == name);
    }
    if let Some(pattern) = forbidden.strip_prefix("agent matching ") {
        return find(&|event| event["agent_id"].as_str().is_some_and(|agent| matches_pattern(pattern, agent)));
    }
    if let Some(name) = forbidden.strip_prefix("tool named ") {
        return find(&|event| event["tool_name"] == name);
    }
    if let Some(id) = forbidden.strip_prefix("tool_call_id ") {
        return find(&|event| event["tool_call_id"] == id);
    }
    match forbidden {
        "error event" => is("error"),
        "human_wait event" => is("human_wait"),
        "model_request event" => is("model_request"),
        "tool_use event" => is("tool_use"),
        "tool_result error" => find(&|event| event["type"] == "tool_result" && event["error"].is_string()),
        "outcome failed" => find(&|event| event["type"] == "agent_end" && event["outcome"] == "failed"),
        "outcome cancelled" => find(&|event| event["type"] == "agent_end" && event["outcome"] == "cancelled"),
        "more than 1 error" => (count("error") > 1).then(|| format!("{} errors", count("error"))),
        "more than 1 agent_start" => (count("agent_start") > 1).then(|| format!("{} starts", count("agent_start"))),
        "duplicate model call" => {
            // Scripted servers give every answer the same id: one call is one answer, word by word.
            let told = |event: &Value| {
                ["fw_provider_response_id", "model", "input_tokens", "output_tokens", "content"]
                    .map(|name| event[name].clone())
            };
            let has_id = |event: &&Value| event["fw_provider_response_id"].is_string();
            let responses = events.iter().filter(|event| event["type"] == "model_response").filter(has_id);
            let all: Vec<_> = responses.map(told).collect();
            (1..all.len()).find(|at| all[..*at].contains(&all[*at])).map(|at| format!("{:?} twice", all[at]))
        }
        other => panic!("the truth forbids {other:?}, which this test cannot check"),
    }
}

/// The few patterns that the truth uses: a literal, `^` for the start, `[0-9a-f]` and `{n}`, `(a|b)`.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let is_hex = |char: char| matches!(char, '0'..='9' | 'a'..='f');
    match pattern {
        "^[0-9a-f]{16}$" => text.len() == 16 && text.chars().all(is_hex),
        "^Flow_[0-9a-f]" => text.strip_prefix("Flow_").is_some_and(|rest| rest.starts_with(is_hex)),
        "^(ChatAdapter|LM|Predict)" => ["ChatAdapter", "LM", "Predict"].iter().any(|start| text.starts_with(start)),
        literal => match literal.strip_prefix('^') {
            Some(start) => text.starts_with(start),
            None => text.contains(literal),
        },
    }
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}
