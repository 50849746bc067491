//! Our events beside those of the official adapter for the same run, field by field.

use std::collections::BTreeMap;

use serde_json::Value;

/// One field that both should have alike, of all recordings together.
#[derive(Default, Debug)]
pub struct Tally {
    pub equal: usize,
    pub compared: usize,
    /// Where they differ: the recording, and both values.
    pub differences: Vec<(String, String)>,
}

/// All fields.
#[derive(Default, Debug)]
pub struct Report(pub BTreeMap<String, Tally>);

impl Report {
    pub fn note(&mut self, field: &str, equal: bool, recording: &str, difference: impl FnOnce() -> String) {
        let tally = self.0.entry(field.to_owned()).or_default();
        tally.compared += 1;
        if equal {
            tally.equal += 1;
        } else {
            tally.differences.push((recording.to_owned(), difference()));
        }
    }

    fn note_values(&mut self, field: &str, official: &Value, ours: &Value, recording: &str) {
        self.note(field, official == ours, recording, || format!("official {official}, ours {ours}"));
    }
}

/// What an event of ours is called in the run: its own type, id and order, so that two of one run meet.
fn keyed(events: &[Value]) -> BTreeMap<String, &Value> {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut keyed = BTreeMap::new();
    let mut requests: BTreeMap<String, String> = BTreeMap::new();
    for event in events {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let kind = text("type");
        let agent = format!("{}/{}", text("session_id"), text("agent_id"));
        if kind == "agent_start" {
            *runs.entry(agent.clone()).or_default() += 1;
        }
        let name = match kind.as_str() {
            "tool_use" | "tool_result" => format!("{agent} {kind} {}", text("tool_call_id")),
            "model_request" => {
                let at = counts.entry(format!("{agent} request")).or_default();
                *at += 1;
                let name = format!("{agent} model {at}");
                requests.insert(text("request_id"), name.clone());
                format!("{name} request")
            }
            "model_response" => format!("{} response", requests.get(&text("request_id")).cloned().unwrap_or_default()),
            _ => format!("{agent} {kind}"),
        };
        let nth = counts.entry(name.clone()).or_default();
        *nth += 1;
        keyed.insert(format!("{name} #{nth}"), event);
    }
    keyed
}

/// Compares the events of one recording.
pub fn compare(recording: &str, official: &[Value], ours: &[Value], report: &mut Report) {
    let (official, ours) = (keyed(official), keyed(ours));
    for (name, theirs) in &official {
        let kind = theirs["type"].as_str().unwrap_or_default();
        let field = |name: &str| format!("{kind}.{name}");
        let Some(own) = ours.get(name) else {
            report.note(&field("present"), false, recording, || format!("only official: {name} {theirs}"));
            continue;
        };
        report.note(&field("present"), true, recording, String::new);
        compare_event(kind, recording, theirs, own, report);
    }
    for (name, own) in &ours {
        if !official.contains_key(name) {
            let kind = own["type"].as_str().unwrap_or_default();
            report.note(&format!("{kind}.present"), false, recording, || format!("only ours: {name} {own}"));
        }
    }
}

/// Fields that must be equal, of each type.
const EXACT: &[(&str, &[&str])] = &[
    ("agent_start", &["goal", "parent_id", "fw_run_id", "fw_conversation_id", "fw_model", "fw_metadata"]),
    ("agent_end", &["outcome", "summary", "usage"]),
    ("tool_use", &["tool_name", "tool_call_id", "input", "fw_tool_kind", "fw_run_step"]),
    ("tool_result", &["tool_name", "tool_call_id", "output", "error", "fw_incomplete"]),
    ("model_request", &["model", "fw_run_step", "fw_streaming", "fw_messages_omitted"]),
    (
        "model_response",
        &[
            "model",
            "stop_reason",
            "input_tokens",
            "output_tokens",
            "role",
            "usage",
            "error",
            "fw_provider",
            "fw_provider_response_id",
            "fw_run_step",
            "fw_streaming",
            "fw_incomplete",
        ],
    ),
    ("error", &["error_type", "message"]),
];

fn compare_event(kind: &str, recording: &str, theirs: &Value, own: &Value, report: &mut Report) {
    let exact = EXACT.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, fields)| fields);
    for name in exact {
        if theirs[*name] != Value::Null || own[*name] != Value::Null {
            report.note_values(&format!("{kind}.{name}"), &theirs[*name], &own[*name], recording);
        }
    }
    for name in ["framework", "framework_version"] {
        report.note_values(name, &theirs[name], &own[name], recording);
    }
    if let (Some(theirs), Some(own)) = (theirs["duration_ms"].as_i64(), own["duration_ms"].as_i64()) {
        report.note("duration within 5 ms", (theirs - own).abs() <= 5, recording, || {
            format!("official {theirs}, ours {own}")
        });
    }
    match kind {
        "model_request" => {
            let (theirs, own) = (official_messages(&theirs["messages"]), our_messages(&own["messages"]));
            report.note("model_request.messages", theirs == own, recording, || {
                format!("official {theirs:?}, ours {own:?}")
            });
        }
        "model_response" => {
            let (theirs, own) = (official_parts(&theirs["content"]), our_parts(&own["content"]));
            report.note("model_response.content", theirs == own, recording, || {
                format!("official {theirs:?}, ours {own:?}")
            });
        }
        "error" => {
            let (theirs, own) = (theirs["traceback"].as_str(), own["traceback"].as_str());
            let last = |text: Option<&str>| text.and_then(|text| text.trim_end().lines().last().map(str::to_owned));
            report.note("error.traceback last line", last(theirs) == last(own), recording, || {
                format!("{theirs:?} {own:?}")
            });
        }
        _ => {}
    }
    if kind == "model_request" {
        let tools = |value: &Value| -> Vec<(Value, Value)> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .map(|tool| (tool["name"].clone(), tool["description"].clone()))
                .collect()
        };
        let (theirs, own) = (tools(&theirs["tools"]), tools(&own["tools"]));
        report.note("model_request.tools", theirs == own, recording, || format!("official {theirs:?}, ours {own:?}"));
    }
}

/// What both forms of messages say: parts as (what, name or id, content).
type Part = (String, String, Value);

fn official_messages(messages: &Value) -> Vec<Part> {
    messages.as_array().into_iter().flatten().flat_map(|message| official_parts(&message["parts"])).collect()
}

fn official_parts(parts: &Value) -> Vec<Part> {
    let part = |part: &Value| {
        let id = part["tool_call_id"].as_str().unwrap_or_default().to_owned();
        match part["part_kind"].as_str().unwrap_or_default() {
            "tool-call" => ("tool_use".into(), id, part["content"].clone()),
            "tool-return" | "retry-prompt" if !id.is_empty() => ("tool_result".into(), id, part["content"].clone()),
            "thinking" => ("thinking".into(), String::new(), part["content"].clone()),
            _ => ("text".into(), String::new(), part["content"].clone()),
        }
    };
    parts.as_array().into_iter().flatten().map(part).collect()
}

fn our_messages(messages: &Value) -> Vec<Part> {
    messages.as_array().into_iter().flatten().flat_map(|message| our_parts(&message["content"])).collect()
}

fn our_parts(content: &Value) -> Vec<Part> {
    if content.is_string() {
        return vec![("text".into(), String::new(), content.clone())];
    }
    let part = |block: &Value| {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        match text("type").as_str() {
            "tool_use" => ("tool_use".into(), text("id"), block["input"].clone()),
            "tool_result" => ("tool_result".into(), text("tool_use_id"), block["content"].clone()),
            "thinking" => ("thinking".into(), String::new(), block["thinking"].clone()),
            _ => ("text".into(), String::new(), block["text"].clone()),
        }
    };
    content.as_array().into_iter().flatten().map(part).collect()
}
