//! The direction of the house: who may know whom, how long a file gets, what a dialect says of itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Whom each module of the core may know beside itself. What is not listed stands on top and may know all.
const MAY_KNOW: [(&str, &[&str]); 14] = [
    ("count", &[]),
    ("once", &["count"]),
    ("disk", &[]),
    ("event", &[]),
    ("span", &["event"]),
    ("otlp", &["span", "event"]),
    ("dialect", &["span", "event"]),
    ("exception", &["span", "event"]),
    ("trace", &["dialect", "exception", "span", "event", "once"]),
    ("redact", &["event"]),
    ("encode", &["redact", "event"]),
    ("secret", &[]),
    ("proto", &["otlp", "event", "secret"]),
    ("sink", &["disk", "event", "once", "count", "proto", "secret"]),
];

/// What a dialect, which reads one span, has no use for; the whole core below `sink` neither.
const INPUT_AND_OUTPUT: [&str; 4] = ["tokio", "std::fs", "std::net", "std::thread"];

/// The most lines of a file: one that is longer tells of two things.
const LONGEST_FILE: usize = 500;

fn source_files() -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// The modules on the way to a file: `trace/events/mod.rs` is `trace`, `events`.
fn module_path(file: &Path) -> Vec<String> {
    let parts = file.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| !["mod", "lib", "main"].contains(&part.as_str())).collect()
}

/// Whether a file holds nothing but the tests of its module.
fn is_of_tests(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "tests.rs")
}

/// The code without comments and without its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The first names of the paths that follow a prefix: `{a, b::{c, d}}` and `a::c` give `a`, `b` and `a`.
fn first_names(path: &str) -> Vec<&str> {
    let name = |text: &'_ str| text.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(text.len());
    let Some(group) = path.strip_prefix('{') else { return vec![&path[..name(path)]] };
    let mut names = Vec::new();
    let (mut depth, mut is_first) = (0, true);
    for (at, char) in group.char_indices() {
        match char {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            _ if is_first && depth == 0 && !char.is_whitespace() => {
                names.push(&group[at..at + name(&group[at..])]);
                is_first = false;
            }
            _ => {}
        }
    }
    names
}

/// The top-level modules that a file names by `crate::…` or by `super::…` out of its own.
fn known_by(file: &Path, text: &str) -> BTreeSet<String> {
    let depth = module_path(file).len();
    let code = code(text);
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (at, prefix) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let before = &code[..at];
        let is_continued = before.ends_with(|char: char| char.is_alphanumeric() || matches!(char, '_' | '$' | ':'));
        let rest = code[at..].trim_start_matches("super::");
        let leaves_the_module = match prefix {
            "super::" => (code[at..].len() - rest.len()) / "super::".len() >= depth,
            _ => true,
        };
        if !is_continued && leaves_the_module {
            let rest = rest.strip_prefix("crate::").unwrap_or(rest);
            known.extend(first_names(rest).into_iter().map(str::to_owned));
        }
    }
    known
}

#[test]
fn nothing_in_the_core_knows_what_stands_above_it() {
    let allowed: BTreeMap<_, _> = MAY_KNOW.into_iter().collect();
    let modules: BTreeSet<String> =
        source_files().iter().filter_map(|(file, _)| module_path(file).first().cloned()).collect();
    for name in allowed.keys() {
        assert!(modules.contains(*name), "{name} is no module any more: change the table");
    }
    for (file, text) in source_files().into_iter().filter(|(file, _)| !is_of_tests(file)) {
        let Some(own) = module_path(&file).first().cloned() else { continue };
        let Some(may_know) = allowed.get(own.as_str()) else { continue };
        for other in known_by(&file, &text).iter().filter(|other| modules.contains(*other) && **other != own) {
            assert!(
                may_know.contains(&other.as_str()),
                "{} knows {other}; {own} may know {may_know:?}",
                file.display()
            );
        }
    }
}

#[test]
fn a_dialect_reads_one_span_and_touches_nothing_else() {
    for (file, text) in source_files().into_iter().filter(|(file, _)| !is_of_tests(file)) {
        let own = module_path(&file);
        if !["dialect", "exception", "event", "span", "trace", "redact"]
            .contains(&own.first().map_or("", String::as_str))
        {
            continue;
        }
        for name in INPUT_AND_OUTPUT {
            assert!(!code(&text).contains(&format!("{name}::")), "{} uses {name}", file.display());
        }
    }
}

#[test]
fn no_file_tells_more_than_fits_on_five_hundred_lines() {
    for (file, text) in source_files().into_iter().filter(|(_, text)| !text.starts_with("// This file is @generated")) {
        let lines = text.lines().count();
        assert!(lines <= LONGEST_FILE, "{} has {lines} lines", file.display());
    }
}

#[test]
fn every_dialect_says_who_emits_it_how_it_is_detected_and_what_it_cannot_know() {
    let dialects: Vec<_> = source_files()
        .into_iter()
        .filter(|(file, text)| {
            file.starts_with("dialect") && text.lines().any(|line| line.starts_with("impl Dialect for"))
        })
        .collect();
    assert!(dialects.len() >= 3);
    for (file, text) in dialects {
        let comment: String = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .map(|line| line.trim_start_matches("//!"))
            .collect();
        for words in ["Emitted by", "Detected by", "Known gaps"] {
            assert!(comment.to_lowercase().contains(&words.to_lowercase()), "{} does not say: {words}", file.display());
        }
    }
}

#[test]
fn the_reader_of_paths_sees_what_it_has_to_see() {
    let see = |file: &str, text: &str| known_by(Path::new(file), text).into_iter().collect::<Vec<_>>();
    assert_eq!(
        see("event/line.rs", "use crate::span::Span; pub(crate) fn f() { crate::once::warn() }"),
        ["once", "span"]
    );
    assert_eq!(see("event/line.rs", "use crate::{\n    span::{Span, Value},\n    trace,\n};"), ["span", "trace"]);
    assert_eq!(
        see("trace/events/tool.rs", "use super::super::run::Run; use super::super::super::sink::Sink;"),
        ["sink"]
    );
    assert_eq!(see("encode.rs", "use super::redact; // crate::no\n/// crate::neither\n$crate::macros"), ["redact"]);
    assert_eq!(see("event/mod.rs", "#[cfg(test)]\nmod tests { use crate::trace; }"), Vec::<String>::new());
}
