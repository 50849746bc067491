//! What a span says: one file for each way of writing spans, and the table that puts them in order.
//!
//! A dialect reads one span, never another one, into a [`Reading`]: its kind and the facts it found, each with the key
//! that it stood under. A new dialect is one file with a [`Dialect`] and one line in [`DIALECTS`]; several dialects can
//! write on one span: the first that recognizes it gives the kind, and the keys of all stay readable for facts that it
//! left empty.

mod flattened;
mod langchain;
mod langgraph;
pub(crate) mod messages;
mod payload;
mod python_literal;
mod reading;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::span::Span;

pub(crate) use failproof::{AGENT_ID, EVENT_PREFIX, GOAL, KIND, OUTCOME, SESSION_ID, SUMMARY};
pub use reading::{Completion, Fact, Found, Kind, Reading};

/// Declares each dialect's module and puts it into the table.
macro_rules! dialects {
    ($($module:ident::$dialect:ident,)*) => {
        $(mod $module;)*

        /// All dialects, the most specific first.
        pub static DIALECTS: &[&dyn Dialect] = &[$(&$module::$dialect),*];
    };
}

// A new dialect is a line here. What is said by hand comes first, the conventions that everybody shares last.
dialects! {
    failproof::Failproof,
    claude_code::ClaudeCode,
    codex::Codex,
    opencode::OpenCode,
    gemini_cli::GeminiCli,
    copilot::Copilot,
    vercel_ai::VercelAi,
    mastra::Mastra,
    genkit::Genkit,
    rig::Rig,
    spring_ai::SpringAi,
    anthropic_sdk::AnthropicSdk,
    pydantic_ai::PydanticAi,
    openinference::OpenInference,
    langsmith::LangSmith,
    langfuse::Langfuse,
    mlflow::Mlflow,
    logfire::Logfire,
    openllmetry::OpenLlmetry,
    haystack::Haystack,
    llamaindex::LlamaIndex,
    adk::Adk,
    strands::Strands,
    mcp::Mcp,
    agent_framework::AgentFramework,
    semantic_kernel::SemanticKernel,
    autogen::AutoGen,
    genai::GenAi,
}

/// One way of writing agent spans.
///
/// All that a new one takes is this in a file of its own, a line in the table, and its recordings under
/// `tests/fixtures/frameworks`:
///
/// ```
/// use opentelemetry_failproof::dialect::{About, Dialect, Fact, Kind, Reading, Recognized};
/// use opentelemetry_failproof::span::Span;
///
/// /// Foo's own spans.
/// ///
/// /// Emitted by: Foo 1.0. Detected by: `foo.kind`. Known gaps: no tokens.
/// pub struct Foo;
///
/// const KINDS: &[(&str, Kind, &str)] =
///     &[("run", Kind::Agent, "foo.kind run"), ("ask", Kind::Model, "foo.kind ask"), ("use", Kind::Tool, "foo.kind use")];
///
/// impl Dialect for Foo {
///     fn about(&self) -> &'static About {
///         &About { name: "foo", emitted_by: "Foo", verified: "foo 1.0", gaps: "tokens" }
///     }
///
///     fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
///         &[(Fact::AgentName, &["foo.agent"]), (Fact::ToolName, &["foo.tool", "tool"]), (Fact::ToolInput, &["foo.input"])]
///     }
///
///     fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
///         let kind = span.attributes.text("foo.kind")?;
///         Some(Recognized::by_name(KINDS, kind, "a kind that stands for nothing of its own"))
///     }
///
///     fn read<'s>(&self, _span: &'s Span<'_>, reading: &mut Reading<'s>) {
///         if reading.dialect == self.about().name {
///             reading.framework = Some("foo");
///         }
///     }
/// }
///
/// assert_eq!(Foo.about().name, "foo");
/// ```
pub trait Dialect: Sync {
    /// Who writes it; the source of the README's table and of `explain`'s words.
    fn about(&self) -> &'static About;

    /// Where each fact stands: a fact and its keys, the first non-empty one counts.
    fn keys(&self) -> &'static [(Fact, &'static [&'static str])];

    /// The kind of the span, if this dialect wrote it.
    fn recognize(&self, span: &Span<'_>) -> Option<Recognized>;

    /// Adds what the table of keys cannot say.
    fn read<'s>(&self, _span: &'s Span<'_>, _reading: &mut Reading<'s>) {}
}

/// Who writes a dialect, and what can't be known from it.
#[derive(Debug)]
pub struct About {
    /// Its short name, as `explain` gives it.
    pub name: &'static str,
    /// The frameworks and instrumentations that write it.
    pub emitted_by: &'static str,
    /// The versions that were checked by running them.
    pub verified: &'static str,
    /// What its spans can't tell.
    pub gaps: &'static str,
}

/// A span's kind and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognized {
    /// The kind.
    pub kind: Kind,
    /// The rule that gave it, in a few words.
    pub rule: &'static str,
}

impl Recognized {
    /// What a table of names says of one; a name that is not listed stands for nothing of its own.
    pub fn by_name(table: &[(&str, Kind, &'static str)], name: &str, otherwise: &'static str) -> Self {
        let known = table.iter().find(|(known, ..)| *known == name);
        known.map_or(Recognized { kind: Kind::Transparent, rule: otherwise }, |(_, kind, rule)| Recognized {
            kind: *kind,
            rule,
        })
    }
}

/// Reads a span by the first dialect that recognizes it. `None`: no agent framework wrote it.
pub fn read<'s>(span: &'s Span<'_>) -> Option<Reading<'s>> {
    read_with(span, DIALECTS)
}

/// Reads a span as if nobody had said anything about it by hand: for copies that baggage made.
pub(crate) fn read_without_hand<'s>(span: &'s Span<'_>) -> Option<Reading<'s>> {
    read_with(span, DIALECTS.get(1..).unwrap_or_default())
}

fn read_with<'s>(span: &'s Span<'_>, dialects: &[&'static dyn Dialect]) -> Option<Reading<'s>> {
    let (dialect, Recognized { kind, rule }) =
        dialects.iter().find_map(|dialect| Some((*dialect, dialect.recognize(span)?)))?;
    let mut reading = Reading::new(kind, dialect.about().name, rule);
    look_up(span, dialect.about().name, &mut reading);
    for dialect in dialects {
        dialect.read(span, &mut reading);
    }
    Some(reading)
}

/// A place in the dialects' tables: which dialect, which fact, how early among the keys of the fact.
struct Place {
    dialect: usize,
    fact: Fact,
    rank: usize,
}

/// The tables turned round: a span's attributes are walked once, however many dialects there are.
static PLACES: LazyLock<HashMap<&'static str, Vec<Place>>> = LazyLock::new(|| {
    let mut places: HashMap<&'static str, Vec<Place>> = HashMap::new();
    for (dialect, entry) in DIALECTS.iter().enumerate() {
        for (fact, keys) in entry.keys() {
            for (rank, key) in keys.iter().enumerate() {
                places.entry(key).or_default().push(Place { dialect, fact: *fact, rank });
            }
        }
    }
    places
});

fn look_up<'s>(span: &'s Span<'_>, recognized_by: &str, reading: &mut Reading<'s>) {
    for (key, value) in span.attributes.iter() {
        for place in PLACES.get(key).into_iter().flatten() {
            // The dialect that recognized the span comes before all others, those in the table's order.
            let is_own = DIALECTS.get(place.dialect).is_some_and(|dialect| dialect.about().name == recognized_by);
            let rank = if is_own { place.rank } else { (place.dialect + 1) << 16 | place.rank };
            reading.offer(place.fact, rank, value, key);
        }
    }
}
