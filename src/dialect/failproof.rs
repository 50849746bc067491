//! What is said by hand, on any span, from any language.
//!
//! Emitted by: applications, and the guards of this crate. Detected by: attributes `failproof.*`.
//! Agent: `failproof.agent_id` makes the span an agent of that name, with `failproof.goal`, `failproof.summary` and
//! `failproof.outcome`. Kind: `failproof.kind` overrides what any other dialect says. Session: `failproof.session_id`.
//! Events: span events named `failproof.<type>`, see `trace::by_hand`. Source: the Failproof documentation, "Custom
//! agents" and "Name your spans", carried over to spans.
//! Known gaps: nothing is guessed, so what is not said is not there.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

/// The agent's name.
pub(crate) const AGENT_ID: &str = "failproof.agent_id";
/// What the agent was asked.
pub(crate) const GOAL: &str = "failproof.goal";
/// The span's kind.
pub(crate) const KIND: &str = "failproof.kind";
/// How the agent ended.
pub(crate) const OUTCOME: &str = "failproof.outcome";
/// The session of the span and all below it.
pub(crate) const SESSION_ID: &str = "failproof.session_id";
/// What the agent gave.
pub(crate) const SUMMARY: &str = "failproof.summary";
/// A span event of this prefix and a type's name is that event.
pub(crate) const EVENT_PREFIX: &str = "failproof.";

pub(super) struct Failproof;

impl Dialect for Failproof {
    fn about(&self) -> &'static About {
        &About {
            name: "failproof",
            emitted_by: "applications that say it by hand: `failproof.*` attributes and span events",
            verified: "this crate",
            gaps: "nothing is guessed: what is not said is not there",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::AgentName, &[AGENT_ID]), (Fact::Goal, &[GOAL]), (Fact::Summary, &[SUMMARY])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let said = span.attributes.text(KIND).or_else(|| span.resource.attributes.text(KIND));
        if let Some(kind) = said.and_then(Kind::from_name) {
            return Some(Recognized { kind, rule: "failproof.kind names the kind" });
        }
        span.attributes
            .text(AGENT_ID)
            .map(|_| Recognized { kind: Kind::Agent, rule: "failproof.agent_id makes it an agent" })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        // A kind said by hand on a span of no framework has nothing but the span's own name to go by.
        let name_fact = match reading.kind {
            Kind::Agent => Fact::AgentName,
            Kind::Tool => Fact::ToolName,
            Kind::Hook => Fact::HookName,
            _ => return,
        };
        if reading.dialect == self.about().name {
            reading.add(name_fact, span.name.as_ref(), "span name");
        }
    }
}
