//! Events for a person: one line each.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Map, Value};

/// How many characters of a content are shown.
const SHOWN: usize = 160;
/// How many blocks of a message are looked at: what they say is cut anyway.
const BLOCKS_SHOWN: usize = 20;
/// How wide the column of agents is; longer names push the rest of their line.
const AGENT_WIDTH: usize = 20;
/// How many of the last characters of a session tell it from others.
const SESSION_SHOWN: usize = 8;
/// How many agents are remembered for their place below others; beyond, all are forgotten.
const AGENTS_LIMIT: usize = 10_000;
/// How far names are moved in, however deep agents nest.
const DEEPEST: usize = 8;

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

/// What a word is, and so which colour it gets.
#[derive(Clone, Copy)]
enum Kind {
    Aside,
    Agent,
    Model,
    Tool,
    Person,
    Good,
    Bad,
}

impl Kind {
    fn colour(self) -> &'static str {
        match self {
            Kind::Aside => "2",
            Kind::Agent => "1",
            Kind::Model => "35",
            Kind::Tool => "36",
            Kind::Person => "33",
            Kind::Good => "32",
            Kind::Bad => "31",
        }
    }
}

/// Makes lines of events; remembers which agent called which.
pub(super) struct View {
    style: Style,
    shows_sessions: bool,
    depths: HashMap<(String, String), usize>,
}

impl View {
    pub fn new(style: Style, shows_sessions: bool) -> Self {
        View { style, shows_sessions, depths: HashMap::new() }
    }

    /// The line of an event, without a newline. Nothing in it controls a terminal but our own colours.
    pub fn line(&mut self, event: &Map<String, Value>) -> String {
        let depth = self.depth(event);
        let mut line = String::new();
        // 12:34:56.789 of 2026-01-02T12:34:56.789012Z
        let time = text(event, "timestamp");
        self.word(&mut line, Kind::Aside, &escape(time.get(11..23).unwrap_or(time), SHOWN));
        line.push(' ');
        if self.shows_sessions {
            let session = text(event, "session_id");
            let start = session.char_indices().rev().nth(SESSION_SHOWN - 1).map_or(0, |(at, _)| at);
            let session = escape(&session[start..], SESSION_SHOWN);
            self.word(&mut line, Kind::Aside, &format!("{session:SESSION_SHOWN$}"));
            line.push(' ');
        }
        let agent = format!("{}{}", "  ".repeat(depth.min(DEEPEST)), escape(text(event, "agent_id"), SHOWN));
        self.word(&mut line, Kind::Agent, &format!("{agent:AGENT_WIDTH$}"));
        line.push(' ');
        self.what(&mut line, event);
        line.truncate(line.trim_end().len());
        line
    }

    /// How many agents stand above that of the event, as far as its start was seen.
    fn depth(&mut self, event: &Map<String, Value>) -> usize {
        let key = |agent: &str| (text(event, "session_id").to_owned(), agent.to_owned());
        let own = key(text(event, "agent_id"));
        if text(event, "type") == "agent_start" {
            let parent = event.get("parent_id").and_then(Value::as_str);
            let depth = parent.map_or(0, |parent| self.depths.get(&key(parent)).copied().unwrap_or(0) + 1);
            if self.depths.len() >= AGENTS_LIMIT {
                self.depths.clear();
            }
            self.depths.insert(own, depth);
            return depth;
        }
        self.depths.get(&own).copied().unwrap_or(0)
    }

    fn what(&self, line: &mut String, event: &Map<String, Value>) {
        let name = |name| escape(text(event, name), SHOWN);
        match text(event, "type") {
            "agent_start" => {
                self.word(line, Kind::Agent, "starts");
                self.content(line, event, "goal");
            }
            "agent_end" => {
                self.word(line, Kind::Agent, "ends ");
                self.outcome(line, event);
                self.content(line, event, "summary");
            }
            "agent_pause" => {
                self.word(line, Kind::Person, "pauses");
                self.content(line, event, "reason");
            }
            "agent_resume" => {
                self.word(line, Kind::Person, "goes on");
                self.content(line, event, "reason");
                self.measures(line, event);
            }
            "tool_use" => {
                self.word(line, Kind::Tool, &format!("tool {}", name("tool_name")));
                self.content(line, event, "input");
            }
            "tool_result" => {
                self.word(line, Kind::Tool, &format!("tool {}", name("tool_name")));
                self.answer(line, event, "output");
            }
            "model_request" => {
                self.word(line, Kind::Model, &format!("asks {}", or_a_model(&name("model"))));
                let last = event.get("messages").and_then(Value::as_array).and_then(|messages| messages.last());
                let content = last.map(|last| last.get("content").unwrap_or(last));
                content.into_iter().for_each(|content| push_content(line, content));
            }
            "model_response" => {
                self.word(line, Kind::Model, or_a_model(&name("model")));
                self.answer(line, event, "content");
            }
            "hook_triggered" => {
                self.word(line, Kind::Aside, &format!("step {}", name("hook_name")));
                self.content(line, event, "input");
            }
            "hook_completed" => {
                self.word(line, Kind::Aside, &format!("step {} ", name("hook_name")));
                self.outcome(line, event);
                self.answer(line, event, "output");
            }
            "error" => {
                self.word(line, Kind::Bad, &format!("error {}", name("error_type")));
                self.content(line, event, "message");
            }
            "human_wait" => {
                self.word(line, Kind::Person, "asks a person");
                self.content(line, event, "prompt");
                self.content(line, event, "options");
            }
            "human_input" => {
                self.word(line, Kind::Person, "a person answers");
                self.content(line, event, "response");
                self.measures(line, event);
            }
            "human_pause" => {
                self.word(line, Kind::Person, "paused by a person");
                self.content(line, event, "reason");
            }
            "human_interrupt" => {
                self.word(line, Kind::Person, "interrupted by a person");
                self.content(line, event, "reason");
            }
            other => line.push_str(&escape(other, SHOWN)),
        }
    }

    /// What came back: the error if there is one, else the content; and what it took.
    fn answer(&self, line: &mut String, event: &Map<String, Value>, content: &str) {
        match event.get("error").and_then(Value::as_str) {
            Some(error) => {
                line.push(' ');
                self.word(line, Kind::Bad, &format!("failed: {}", escape(error, SHOWN)));
            }
            None => {
                if let Some(content) = event.get(content) {
                    line.push_str(" →");
                    push_content(line, content);
                }
            }
        }
        self.measures(line, event);
    }

    fn outcome(&self, line: &mut String, event: &Map<String, Value>) {
        let outcome = text(event, "outcome");
        let kind = match outcome {
            "success" => Kind::Good,
            "failed" | "error" | "timeout" | "rejected" => Kind::Bad,
            _ => Kind::Person,
        };
        self.word(line, kind, &escape(outcome, SHOWN));
    }

    /// Milliseconds and tokens, as far as they are known.
    fn measures(&self, line: &mut String, event: &Map<String, Value>) {
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        let mut measures = Vec::new();
        measures.extend(number("duration_ms").map(|milliseconds| match milliseconds {
            0..1_000 => format!("{milliseconds} ms"),
            _ => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        }));
        measures.extend(number("input_tokens").map(|tokens| format!("{tokens} tokens in")));
        measures.extend(number("output_tokens").map(|tokens| format!("{tokens} out")));
        if !measures.is_empty() {
            line.push(' ');
            self.word(line, Kind::Aside, &format!("({})", measures.join(", ")));
        }
    }

    fn content(&self, line: &mut String, event: &Map<String, Value>, name: &str) {
        if let Some(value) = event.get(name) {
            push_content(line, value);
        }
    }

    /// A word that holds nothing to escape.
    fn word(&self, line: &mut String, kind: Kind, word: &str) {
        if word.is_empty() {
            return;
        }
        let _ = match self.style {
            Style::Plain => write!(line, "{word}"),
            Style::Coloured => write!(line, "\x1b[{}m{word}\x1b[0m", kind.colour()),
        };
    }
}

fn or_a_model(name: &str) -> &str {
    if name.is_empty() { "a model" } else { name }
}

fn text<'e>(event: &'e Map<String, Value>, name: &str) -> &'e str {
    event.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A text as it is, what content blocks say, or JSON.
fn push_content(line: &mut String, value: &Value) {
    let shown = match value {
        Value::String(text) => escape(text, SHOWN),
        Value::Array(blocks) if !blocks.is_empty() && blocks.iter().all(|block| block.get("type").is_some()) => {
            let blocks = blocks.iter().take(BLOCKS_SHOWN).map(block);
            escape(&blocks.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" · "), SHOWN)
        }
        other => escape(&other.to_string(), SHOWN),
    };
    if !shown.is_empty() {
        line.push(' ');
        line.push_str(&shown);
    }
}

/// What a block of a message says; nothing if its content was left out.
fn block(block: &Value) -> String {
    let said = |name: &str| match block.get(name) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    match block.get("type").and_then(Value::as_str) {
        Some("tool_use") => format!("{} {}", said("name"), said("input")),
        Some("tool_result") => said("content"),
        Some("text") => said("text"),
        _ => block.to_string(),
    }
}

/// So many characters of a text at most, in which nothing moves the cursor, changes colours or turns the direction.
fn escape(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut chars = text.trim().chars();
    for char in chars.by_ref().take(limit) {
        match char {
            '\n' | '\r' | '\t' => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            char if is_unsafe(char) => out.extend(char.escape_unicode()),
            char => out.push(char),
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// Whether a terminal does something else with it than to show it: controls, marks of direction, invisible joiners.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// JSON in which DEL and the controls from U+0080 on are written as JSON's escapes: the rest of the controls always are.
pub(super) fn escape_rare_controls(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '\u{7f}'..='\u{9f}' => _ = write!(out, "\\u{:04x}", u32::from(char)),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(view: &mut View, event: Value) -> String {
        let mut whole = json!({"timestamp": "2026-01-02T03:04:05.678901Z", "session_id": "chat-0042", "agent_id": "a"});
        whole.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        view.line(whole.as_object().unwrap())
    }

    #[test]
    fn every_type_has_its_words() {
        let mut view = View::new(Style::Plain, true);
        for (event, expected) in [
            (json!({"type": "agent_start", "goal": "a\nreport"}), "starts a report"),
            (json!({"type": "agent_end", "outcome": "failed", "summary": "none"}), "ends failed none"),
            (json!({"type": "agent_pause", "reason": "lunch"}), "pauses lunch"),
            (json!({"type": "agent_resume", "duration_ms": 61_234}), "goes on (61.2 s)"),
            (json!({"type": "tool_use", "tool_name": "bash", "input": {"cmd": "ls"}}), "tool bash {\"cmd\":\"ls\"}"),
            (
                json!({"type": "tool_result", "tool_name": "bash", "output": ["x"], "duration_ms": 12}),
                "tool bash → [\"x\"] (12 ms)",
            ),
            (json!({"type": "tool_result", "tool_name": "bash", "error": "E: no"}), "tool bash failed: E: no"),
            (
                json!({"type": "model_request", "model": "m", "messages": [{"content": "1"}, {"content": [{"type": "text", "text": "2"}]}]}),
                "asks m 2",
            ),
            (json!({"type": "model_request"}), "asks a model"),
            (
                json!({"type": "model_request", "messages": [{"content": [{"type": "text"}, {"type": "tool_result", "content": 12}]}]}),
                "asks a model 12",
            ),
            (
                json!({"type": "model_response", "content": [{"type": "text", "text": "let me see"}, {"type": "tool_use", "name": "ls", "input": {"a": 1}}]}),
                "a model → let me see · ls {\"a\":1}",
            ),
            (
                json!({"type": "model_response", "model": "m", "content": "yes", "input_tokens": 7, "output_tokens": 1}),
                "m → yes (7 tokens in, 1 out)",
            ),
            (json!({"type": "hook_triggered", "hook_name": "guard", "input": 1}), "step guard 1"),
            (json!({"type": "hook_completed", "hook_name": "guard", "outcome": "success"}), "step guard success"),
            (json!({"type": "error", "error_type": "ValueError", "message": "bad"}), "error ValueError bad"),
            (
                json!({"type": "human_wait", "prompt": "ok?", "options": ["yes", "no"]}),
                "asks a person ok? [\"yes\",\"no\"]",
            ),
            (json!({"type": "human_input", "response": "yes"}), "a person answers yes"),
            (json!({"type": "human_pause"}), "paused by a person"),
            (json!({"type": "human_interrupt", "reason": "enough"}), "interrupted by a person enough"),
        ] {
            assert_eq!(line(&mut view, event), format!("03:04:05.678 hat-0042 {:20} {expected}", "a"));
        }
    }

    #[test]
    fn an_agent_stands_below_the_one_that_called_it() {
        let mut view = View::new(Style::Plain, false);
        let start = |agent: &str, parent: &str| json!({"type": "agent_start", "agent_id": agent, "parent_id": parent});
        line(&mut view, json!({"type": "agent_start", "agent_id": "top"}));
        line(&mut view, start("middle", "top"));
        line(&mut view, start("bottom", "middle"));
        let shown = line(&mut view, json!({"type": "tool_use", "agent_id": "bottom", "tool_name": "t"}));
        assert_eq!(shown, "03:04:05.678     bottom           tool t");
        let other = json!({"type": "tool_use", "agent_id": "bottom", "tool_name": "t", "session_id": "other"});
        assert_eq!(line(&mut view, other), "03:04:05.678 bottom               tool t");
    }

    #[test]
    fn what_controls_a_terminal_does_not_reach_it() {
        let wild = "\x1b]0;title\x07\x1b[31mred\u{9b}2J\u{202e}\u{7f}";
        let event = || {
            json!({
                "type": wild, "agent_id": wild, "session_id": wild, "timestamp": wild, "tool_name": wild, "error": wild,
            })
        };
        for kind in ["tool_result", "error", "agent_end", "model_response", wild] {
            let mut event = event();
            event["type"] = kind.into();
            let shown = line(&mut View::new(Style::Plain, true), event);
            assert!(!shown.contains(is_unsafe), "{shown:?}");
        }
        assert_eq!(escape("a\x1b[31m", 10), "a\\u{1b}[31m");
        assert_eq!(escape(&"é".repeat(20), 10), format!("{}…", "é".repeat(10)));
        let json = json!(wild).to_string();
        let escaped = escape_rare_controls(&json);
        assert!(!escaped.contains(char::is_control), "{escaped:?}");
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), json!(wild));
    }

    #[test]
    fn colours_are_for_who_wants_them() {
        let event = json!({"type": "error", "error_type": "E", "message": "m"});
        assert!(!line(&mut View::new(Style::Plain, true), event.clone()).contains('\x1b'));
        assert!(line(&mut View::new(Style::Coloured, true), event).contains("\x1b[31merror E\x1b[0m m"));
    }
}
