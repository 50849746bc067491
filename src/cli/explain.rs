//! `explain`: the tree of spans, and what became of each.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::convert::Recording;
use super::options::Options;
use crate::trace::{self, Explained};

#[derive(Args, Debug)]
pub(super) struct Explain {
    /// Recordings of spans; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also say which attribute each fact came from.
    #[arg(long)]
    facts: bool,
    #[command(flatten)]
    options: Options,
}

impl Explain {
    pub fn run(self) -> Result<(), Failure> {
        let config = self.options.config().map_err(Some)?;
        let recording = Recording::read(&self.files);
        let text = render(&trace::explain(&recording.spans, config.mapping()), self.facts);
        match io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Some(format!("standard output: {error}"))),
            _ => recording.result(),
        }
    }
}

fn render(spans: &[Explained], facts: bool) -> String {
    let mut out = String::new();
    let mut trace_id = None;
    for span in spans {
        if trace_id != Some(span.trace_id) {
            trace_id = Some(span.trace_id);
            let _ = writeln!(out, "trace {}", span.trace_id);
        }
        render_span(&mut out, span, facts);
    }
    let silent = spans.iter().filter(|span| span.events.is_empty()).count();
    let events: usize = spans.iter().map(|span| span.events.len()).sum();
    let _ = writeln!(out, "{} spans, {silent} of them without an event of their own; {events} events", spans.len());
    out
}

fn render_span(out: &mut String, span: &Explained, facts: bool) {
    // Deeper than that nobody can follow by the eye anyway.
    let indent = "  ".repeat(span.depth.min(40) + 1);
    let _ = writeln!(out, "{indent}{} [{}] {}", span.name, span.scope, span.span_id);
    let dialect = span.dialect.unwrap_or("no dialect");
    let _ = writeln!(out, "{indent}  {} by {dialect}: {}", span.kind, span.why);
    if let Some((agent, session)) = &span.belongs_to {
        let _ = writeln!(out, "{indent}  agent {agent}, session {session}");
    }
    if span.events.is_empty() {
        let _ = writeln!(out, "{indent}  no event");
    } else {
        let _ = writeln!(out, "{indent}  gives {}", span.events.join(", "));
    }
    if facts {
        for (fact, source) in &span.facts {
            let _ = writeln!(out, "{indent}    {fact:?} from {source}");
        }
    }
}
