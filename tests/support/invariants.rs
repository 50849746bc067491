//! What holds for the events of any spans whatever: the contract's rules that can be seen on the lines alone.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Checks lines in their order.
///
/// # Errors
/// The first rule that is broken, and the line.
pub fn check(lines: &str) -> Result<(), String> {
    let mut state = State::default();
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let event = event.as_object().ok_or_else(|| format!("no object: {line}"))?;
        state.take(event).map_err(|broken| format!("{broken}: {line}\nin\n{lines}"))?;
    }
    state.end().map_err(|broken| format!("{broken} in\n{lines}"))
}

/// Types that close what another one opened, and the field that joins the two.
const PAIRS: [(&str, &str, &str); 3] = [
    ("tool_use", "tool_result", "tool_call_id"),
    ("model_request", "model_response", "request_id"),
    ("hook_triggered", "hook_completed", "hook_id"),
];

/// Fields that rows are joined by: text, and never blank.
const IDS: [&str; 11] = [
    "session_id",
    "agent_id",
    "type",
    "environment",
    "tool_name",
    "tool_call_id",
    "hook_name",
    "hook_id",
    "input_id",
    "pause_id",
    "parent_id",
];

/// Fields that types of that beginning must have, ids apart.
const NEEDED: [(&str, &[&str]); 3] =
    [("tool_", &["tool_name"]), ("hook_", &["hook_name"]), ("error", &["error_type", "message"])];

#[derive(Default)]
struct State {
    /// How many runs of an agent are open, by trace, session and agent.
    open_agents: HashMap<[String; 3], i64>,
    /// How many pauses of an agent nothing went on from.
    paused_agents: HashMap<[String; 3], i64>,
    /// The spans that go on from a pause.
    resumed: HashSet<String>,
    /// How many starts of a pair wait for their end.
    open_pairs: HashMap<(usize, [String; 3]), i64>,
    last_times: HashMap<String, String>,
    /// The agent of an `error` that the next event of its trace has to end.
    told_error: Option<[String; 3]>,
}

impl State {
    fn take(&mut self, event: &Map<String, Value>) -> Result<(), String> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        well_formed(event)?;
        let (kind, trace, time) = (text("type"), text("fw_trace_id"), text("timestamp"));
        if self.last_times.insert(trace.clone(), time.clone()).is_some_and(|last| last > time) {
            return Err("earlier than the event before it".into());
        }
        let agent = [trace.clone(), text("session_id"), text("agent_id")];
        if self.told_error.take().is_some_and(|told| kind != "agent_end" || told != agent) {
            return Err("an error that its agent_end does not follow at once".into());
        }
        match kind.as_str() {
            "agent_start" => {
                let parent = [trace, text("session_id"), text("parent_id")];
                if event.contains_key("parent_id") && !self.is_open(&parent) {
                    return Err("its parent has not started".into());
                }
                *self.open_agents.entry(agent).or_default() += 1;
                return Ok(());
            }
            "agent_resume" => {
                let paused = self.paused_agents.entry(agent.clone()).or_default();
                let goes_on_here = *paused > 0;
                *paused = (*paused - 1).max(0);
                // What was paused in another trace starts for this one, once however many answers it goes on with.
                if self.resumed.insert(id_of_span(event)) && !goes_on_here {
                    *self.open_agents.entry(agent).or_default() += 1;
                }
            }
            _ if !self.is_open(&agent) => return Err("outside of its agent's start and end".into()),
            "agent_pause" => *self.paused_agents.entry(agent).or_default() += 1,
            "agent_end" => *self.open_agents.entry(agent).or_default() -= 1,
            "error" => self.told_error = Some(agent),
            _ => self.pair(&kind, &agent, event)?,
        }
        Ok(())
    }

    fn pair(&mut self, kind: &str, agent: &[String; 3], event: &Map<String, Value>) -> Result<(), String> {
        for (at, (start, end, id)) in PAIRS.into_iter().enumerate() {
            if kind != start && kind != end {
                continue;
            }
            let id = event.get(id).and_then(Value::as_str).ok_or_else(|| format!("{id} is missing"))?;
            let open = self.open_pairs.entry((at, [agent.concat(), id.into(), id_of_span(event)])).or_default();
            *open += if kind == start { 1 } else { -1 };
            if *open < 0 {
                return Err(format!("{end} without its {start}"));
            }
        }
        Ok(())
    }

    fn is_open(&self, agent: &[String; 3]) -> bool {
        self.open_agents.get(agent).is_some_and(|open| *open > 0)
    }

    fn end(&self) -> Result<(), String> {
        let paused = |agent: &[String; 3]| self.paused_agents.get(agent).copied().unwrap_or_default();
        let is_wrong = |(agent, open): &(&[String; 3], &i64)| **open < 0 || **open > paused(agent);
        let agent = self.open_agents.iter().find(is_wrong).map(|(agent, _)| format!("{agent:?} is open"));
        let pair = self.open_pairs.iter().find(|(_, open)| **open != 0).map(|(pair, _)| format!("{pair:?} is open"));
        match agent.or(pair).or(self.told_error.as_ref().map(|agent| format!("error without agent_end: {agent:?}"))) {
            Some(broken) => Err(broken),
            None => Ok(()),
        }
    }
}

fn id_of_span(event: &Map<String, Value>) -> String {
    event.get("fw_span_id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn well_formed(event: &Map<String, Value>) -> Result<(), String> {
    let blank = |name: &&str| event.get(*name).is_some_and(|id| id.as_str().is_none_or(|id| id.trim().is_empty()));
    if let Some(name) = IDS.iter().find(|name| blank(name)) {
        return Err(format!("{name} is no text or blank"));
    }
    if let Some(name) =
        ["timestamp", "session_id", "agent_id", "type", "environment"].iter().find(|name| !event.contains_key(**name))
    {
        return Err(format!("{name} is missing"));
    }
    let kind = event["type"].as_str().unwrap_or_default();
    let needed = NEEDED.iter().filter(|(prefix, _)| kind.starts_with(prefix)).flat_map(|(_, names)| names.iter());
    if let Some(name) = needed.copied().find(|name| !event.contains_key(*name)) {
        return Err(format!("{name} is missing"));
    }
    if event["environment"].as_str().is_some_and(|environment| environment.contains(',')) {
        return Err("a comma in environment".into());
    }
    if let Some((name, _)) = event.iter().find(|(_, value)| value.is_null()) {
        return Err(format!("{name} is null"));
    }
    let wrong_number =
        |name: &&str| event.get(*name).is_some_and(|it| it.as_u64().is_none_or(|it| it > u64::from(u32::MAX)));
    if let Some(name) = ["duration_ms", "input_tokens", "output_tokens"].iter().find(|name| wrong_number(name)) {
        return Err(format!("{name} is no u32"));
    }
    match event.get("outcome").and_then(Value::as_str) {
        None | Some("success" | "failed" | "cancelled" | "paused") => Ok(()),
        Some(other) => Err(format!("outcome {other}")),
    }
}
