//! The event contract, checked on lines as they are written: from `contract.md` by hand, so that a mistake in the crate's
//! own tables does not hide itself.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

const TEXT: usize = 8_192;
const EXTRAS: usize = 16 * TEXT;
const LINE: usize = 4 << 20;
const EVERYWHERE: [&str; 3] = ["framework", "framework_version", "integration_version"];

/// Type, fields before `environment`, fields after it.
#[rustfmt::skip]
const TYPES: [(&str, &str, &str); 15] = [
    ("agent_start", "", "goal parent_id"),
    ("agent_end", "", "outcome summary usage"),
    ("agent_pause", "pause_id", "reason user_id"),
    ("agent_resume", "pause_id", "duration_ms reason user_id"),
    ("tool_use", "tool_name tool_call_id", "input"),
    ("tool_result", "tool_name tool_call_id", "output error duration_ms"),
    ("model_request", "", "model messages system tools request_id"),
    ("model_response", "", "model stop_reason input_tokens output_tokens content role request_id error duration_ms usage"),
    ("hook_triggered", "hook_name hook_id", "trigger_event input"),
    ("hook_completed", "hook_name hook_id", "outcome output error duration_ms"),
    ("error", "error_type message", "traceback"),
    ("human_wait", "input_id", "prompt options reason"),
    ("human_input", "input_id", "response duration_ms"),
    ("human_pause", "", "reason user_id"),
    ("human_interrupt", "", "reason user_id at_step"),
];

/// Start, end, the id that they share, and whether every start needs its end.
const PAIRS: [(&str, &str, &str, bool); 5] = [
    ("model_request", "model_response", "request_id", true),
    ("tool_use", "tool_result", "tool_call_id", true),
    ("hook_triggered", "hook_completed", "hook_id", true),
    ("agent_pause", "agent_resume", "pause_id", false),
    ("human_wait", "human_input", "input_id", false),
];

/// The first thing that is wrong with the lines of one or more finished sessions.
pub fn check(lines: &str) -> Result<(), String> {
    if !lines.is_empty() && !lines.ends_with('\n') {
        return Err("the last line has no newline".to_owned());
    }
    let mut sessions = Sessions::default();
    for line in lines.lines() {
        let event = check_line(line).and_then(|event| sessions.take(&event));
        event.map_err(|why| format!("{why}: {}", line.chars().take(400).collect::<String>()))?;
    }
    sessions.check_ends()
}

fn check_line(line: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    ensure(line.len() < LINE, || "the line is too long".to_owned())?;
    // Compact, and no key twice.
    let written = value.to_string();
    ensure(written == line, || format!("is not the JSON of its value: {written}"))?;
    let event = value.as_object().ok_or("is no object")?;
    let kind = text(&value, "type").to_owned();
    let (_, required, optional) = TYPES.iter().find(|(name, ..)| *name == kind).ok_or("has an unknown type")?;

    let mut keys = event.keys().map(String::as_str).peekable();
    let fixed = ["timestamp", "session_id", "agent_id", "type"];
    for expected in fixed.into_iter().chain(required.split_whitespace()).chain(["environment"]) {
        ensure(keys.next() == Some(expected), || format!("{expected} is not in its place"))?;
    }
    for name in optional.split_whitespace() {
        keys.next_if_eq(&name);
    }
    let extras: Vec<&str> = keys.collect();
    for extra in &extras {
        let known = EVERYWHERE.contains(extra) || extra.strip_prefix("fw_").is_some_and(|rest| !rest.is_empty());
        ensure(known, || format!("{extra} is no extra, or a field in the wrong place"))?;
    }
    let size: usize = extras.iter().map(|name| event[*name].to_string().len()).sum();
    ensure(size <= EXTRAS, || format!("the extras take {size} bytes"))?;
    for (name, field) in event {
        check_field(&kind, name, field).map_err(|why| format!("{name} {why}"))?;
    }
    Ok(value)
}

fn check_field(kind: &str, name: &str, value: &Value) -> Result<(), String> {
    let objects = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_object));
    let fits = match name {
        "timestamp" => value.as_str().is_some_and(is_timestamp),
        "agent_id" | "parent_id" => value.as_str().is_some_and(is_agent_id),
        "environment" => value.as_str().is_some_and(|text| !text.trim().is_empty() && !text.contains(',')),
        "session_id"
        | "tool_name"
        | "tool_call_id"
        | "hook_name"
        | "hook_id"
        | "input_id"
        | "pause_id"
        | "request_id"
        | "error_type"
        | "model"
        | "framework"
        | "integration_version" => value.as_str().is_some_and(|text| !text.trim().is_empty()),
        "duration_ms" | "input_tokens" | "output_tokens" => {
            value.as_u64().is_some_and(|number| u32::try_from(number).is_ok())
        }
        "outcome" if kind == "hook_completed" => {
            ["success", "failed", "cancelled", "paused"].iter().any(|word| value == word)
        }
        "outcome" => ["success", "failed", "cancelled"].iter().any(|word| value == word),
        "goal" | "summary" | "message" | "error" | "traceback" | "reason" | "system" | "stop_reason" | "role"
        | "user_id" | "prompt" => value.is_string(),
        "input" if kind == "tool_use" => value.is_object(),
        "usage" => value.as_object().is_some_and(is_usage),
        "messages" => objects(value) && value.as_array().is_some_and(|messages| messages.len() <= 20),
        "tools" => objects(value),
        "options" => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        "fw_truncated" | "fw_incomplete" => *value == Value::Bool(true),
        _ => !value.is_null(),
    };
    ensure(fits, || format!("has the wrong shape or range: {value}"))?;
    check_size(value, 0)
}

fn check_size(value: &Value, depth: usize) -> Result<(), String> {
    let is_long = |text: &str| text.len() > TEXT && text.chars().count() > TEXT;
    match value {
        Value::String(text) => ensure(!is_long(text), || "is longer than 8,192 characters".to_owned()),
        Value::Array(_) | Value::Object(_) if depth == 6 => Err("is nested too deep".to_owned()),
        Value::Array(items) => {
            // One entry may say how many more there were.
            ensure(items.len() <= 101, || format!("has {} items", items.len()))?;
            items.iter().try_for_each(|item| check_size(item, depth + 1))
        }
        Value::Object(members) => {
            ensure(members.len() <= 101, || format!("has {} keys", members.len()))?;
            ensure(!members.keys().any(|key| is_long(key)), || "has a key longer than 8,192 characters".to_owned())?;
            members.values().try_for_each(|member| check_size(member, depth + 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn is_usage(usage: &Map<String, Value>) -> bool {
    let known = [
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "requests",
        "tool_calls",
    ];
    usage.iter().all(|(name, count)| known.contains(&name.as_str()) && count.as_u64().is_some_and(|count| count > 0))
}

/// UTC, microseconds, `Z`.
fn is_timestamp(text: &str) -> bool {
    let shape: String = text.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    shape == "0000-00-00T00:00:00.000000Z"
}

/// A name, never the id of a run.
fn is_agent_id(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_hex = |part: &str| part.len() >= 16 && part.chars().all(|char| char.is_ascii_hexdigit());
    let has_id = text.split([' ', '-', '_', '.', ':', '/']).any(is_hex);
    !words.is_empty() && words.join(" ") == text && text.chars().count() <= 64 && !has_id
}

type Agent = (String, String);

/// What is open and what was seen, event by event.
#[derive(Default)]
struct Sessions {
    /// How many runs of an agent are open.
    running: HashMap<Agent, usize>,
    /// How many starts of that kind and id wait for their end.
    open: HashMap<(Agent, &'static str, String), usize>,
    requests: HashSet<String>,
    /// The spans that go on from a pause.
    resumed: HashSet<String>,
    /// The latest time of each trace.
    latest: HashMap<String, String>,
}

impl Sessions {
    fn take(&mut self, event: &Value) -> Result<(), String> {
        let kind = text(event, "type");
        let agent = (text(event, "session_id").to_owned(), text(event, "agent_id").to_owned());

        let (time, latest) = (text(event, "timestamp"), self.latest.entry(text(event, "fw_trace_id").to_owned()));
        let latest = latest.or_default();
        ensure(latest.as_str() <= time, || format!("comes after {latest}"))?;
        time.clone_into(latest);

        if let Some(parent) = event.get("parent_id").and_then(Value::as_str) {
            let parent = (agent.0.clone(), parent.to_owned());
            ensure(self.running.contains_key(&parent), || "its parent never started".to_owned())?;
        }
        if ["agent_start", "agent_resume"].contains(&kind) {
            // An agent that was paused goes on; one that was paused in lines that are not here starts for us, once however
            // many answers it goes on with.
            let pause = (agent.clone(), "agent_pause", text(event, "pause_id").to_owned());
            let goes_on_here = self.open.get(&pause).is_some_and(|open| *open > 0);
            if kind == "agent_start" || (self.resumed.insert(text(event, "fw_span_id").to_owned()) && !goes_on_here) {
                *self.running.entry(agent.clone()).or_default() += 1;
            }
        }
        let running = self.running.entry(agent.clone()).or_default();
        ensure(*running > 0, || "its agent is not running".to_owned())?;
        if kind == "agent_end" {
            *running -= 1;
        }
        self.pair(kind, agent, event)
    }

    fn pair(&mut self, kind: &str, agent: Agent, event: &Value) -> Result<(), String> {
        let Some((start, end, id, strict)) = PAIRS.iter().find(|(start, end, ..)| [start, end].contains(&&kind)) else {
            return Ok(());
        };
        let id = text(event, id);
        if kind == "model_request" {
            ensure(self.requests.insert(id.to_owned()), || format!("{id} is the id of another request"))?;
        }
        let open = self.open.entry((agent, start, id.to_owned())).or_default();
        if kind == *start {
            *open += 1;
        } else {
            ensure(*open > 0 || !strict, || format!("{end} {id} without {start}"))?;
            *open = open.saturating_sub(1);
        }
        Ok(())
    }

    fn check_ends(&self) -> Result<(), String> {
        let open = || self.open.iter().filter(|(_, count)| **count > 0).map(|(key, _)| key);
        let strict = |start: &str| PAIRS.iter().any(|(name, .., strict)| *name == start && *strict);
        if let Some((agent, start, id)) = open().find(|(_, start, _)| strict(start)) {
            return Err(format!("{start} {id} of {agent:?} has no end"));
        }
        // A run may be left open only after a pause of its agent.
        let paused: HashSet<&Agent> =
            open().filter(|(_, start, _)| *start == "agent_pause").map(|(agent, ..)| agent).collect();
        let endless = self.running.iter().find(|(agent, count)| **count > 0 && !paused.contains(agent));
        endless.map_or(Ok(()), |(agent, _)| Err(format!("{agent:?} never ends")))
    }
}

fn text<'v>(event: &'v Value, name: &str) -> &'v str {
    event[name].as_str().unwrap_or_default()
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}
