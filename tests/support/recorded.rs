//! Recordings of programs: the spans that were exported, and what the official adapter told of the same run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::span::Span;
use opentelemetry_failproof::trace::Mapping;
use serde_json::Value;

use super::{fixtures, lines, parse_lines, spans_of};

/// One program, recorded under one setting of the instrumentation.
pub struct Recording {
    /// The program; of another framework than Pydantic AI: the framework and what wrote its spans.
    pub scenario: String,
    /// The setting; of another framework: the program.
    pub label: String,
    /// The spans as OTLP/JSON.
    pub json: String,
    /// The events of the official adapter; none if it was not there.
    pub official: Vec<Value>,
    lines: OnceLock<String>,
}

/// All of Pydantic AI that `tests/fixtures` has, in order of their names.
pub fn recordings() -> &'static [Recording] {
    static ALL: LazyLock<Vec<Recording>> = LazyLock::new(|| all_of(&folder()));
    &ALL
}

/// All of the other frameworks, in order of their names.
pub fn of_frameworks() -> &'static [Recording] {
    static ALL: LazyLock<Vec<Recording>> = LazyLock::new(|| all_of(&fixtures("frameworks")));
    &ALL
}

fn all_of(folder: &Path) -> Vec<Recording> {
    let folders = list(folder).into_iter().filter(|path| path.is_dir());
    let mut all: Vec<Recording> = folders.flat_map(|scenario| labels(&scenario)).collect();
    all.sort_by_key(Recording::name);
    all
}

/// What the recorder has just written to a folder.
pub fn just_recorded(folder: &Path) -> &'static [Recording] {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("the recorder wrote it");
    let recording = |path: PathBuf| Recording {
        scenario: name_of(path.parent().expect("a label lies in a scenario")),
        label: name_of(&path),
        json: read(path.join("spans.otlp.json")),
        official: parse_lines(&read(path.join("events.jsonl"))),
        lines: OnceLock::new(),
    };
    let all: Vec<Recording> = list(folder).iter().flat_map(|scenario| list(scenario)).map(recording).collect();
    // As long as the test runs, like those of the fixtures.
    all.leak()
}

/// The recordings of one scenario.
pub fn scenario(name: &str) -> impl Iterator<Item = &'static Recording> {
    let mut found = recordings().iter().filter(move |recording| recording.scenario == name).peekable();
    assert!(found.peek().is_some(), "there is a recording of {name}");
    found
}

/// The recording of a scenario under one label.
pub fn recording(name: &str, label: &str) -> &'static Recording {
    scenario(name).find(|recording| recording.label == label).expect("the recording exists")
}

/// What each span of a recording held when it started, in the order of the starts; for a few recordings only.
pub fn starts(scenario: &str, label: &str) -> Option<Vec<Value>> {
    let path = folder().join(scenario).join(format!("{label}.starts.json.zst"));
    path.exists().then(|| serde_json::from_str(&unpack(&path)).expect("the starts are JSON"))
}

impl Recording {
    pub fn name(&self) -> String {
        format!("{}/{}", self.scenario, self.label)
    }

    pub fn spans(&self) -> Vec<Span<'static>> {
        spans_of(self.json.as_bytes())
    }

    /// The traces that the spans belong to.
    pub fn trace_ids(&self) -> BTreeSet<String> {
        self.spans().iter().map(|span| span.trace_id.to_string()).collect()
    }

    /// Whether the spans were to hold what was said.
    pub fn has_content(&self) -> bool {
        !self.label.contains("nocontent")
    }

    /// Our lines, as the defaults give them.
    pub fn lines(&self) -> &str {
        self.lines.get_or_init(|| self.mapped(&Mapping::default()))
    }

    /// Our events, as the defaults give them.
    pub fn events(&self) -> Vec<Value> {
        parse_lines(self.lines())
    }

    /// Our lines, with content captured as the official adapter was told to.
    pub fn mapped(&self, mapping: &Mapping) -> String {
        let capture_content = !self.label.ends_with("nocontent");
        lines(&self.spans(), mapping, Policy { capture_content, ..Policy::default() })
    }
}

fn folder() -> PathBuf {
    fixtures("pydantic-ai")
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8").to_owned()
}

fn labels(scenario: &Path) -> Vec<Recording> {
    let recording = |spans: &PathBuf| {
        let label = name_of(spans).strip_suffix(".spans.json.zst")?.to_owned();
        let events = scenario.join(format!("{label}.events.jsonl.zst"));
        let official = if events.exists() { parse_lines(&unpack(&events)) } else { Vec::new() };
        Some(Recording { scenario: name_of(scenario), label, json: unpack(spans), official, lines: OnceLock::new() })
    };
    list(scenario).iter().filter_map(recording).collect()
}

fn list(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).expect("the folder exists").map(|entry| entry.expect("it can be read").path()).collect()
}

fn unpack(path: &Path) -> String {
    let packed = std::fs::read(path).expect("the file can be read");
    String::from_utf8(zstd::decode_all(packed.as_slice()).expect("it is zstd")).expect("it is UTF-8")
}
