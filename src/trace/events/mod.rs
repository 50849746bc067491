//! From the tree to events: one file for each kind.

mod agent;
mod by_hand;
mod model;
mod pause;
mod tool;

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value as Json;

use super::identity::Agent;
use super::order::Place;
use super::outcome::LeafEnd;
use super::run::Run;
use super::tree::{Node, Role, Tree};
use super::{EventKey, Mapping};
use crate::dialect::{Fact, Kind, Reading};
use crate::event::{Event, EventType, Field};
use crate::exception::{Class, Exception};
use crate::span::{Resource, Span, SpanId, TraceId};

pub(super) use by_hand::has_events as has_events_by_hand;

/// The version of this crate, as `integration_version` tells it.
const INTEGRATION_VERSION: &str = env!("CARGO_PKG_VERSION");

/// An event and where it belongs.
pub(super) struct Placed {
    pub key: EventKey,
    pub place: Place,
    pub event: Event,
}

/// All events of a tree, in no order yet.
pub(super) fn of_tree(tree: &Tree<'_>, mapping: &Mapping) -> Vec<Placed> {
    let mut writer = Writer { tree, mapping, events: Vec::new() };
    for agent in 0..tree.agents.len() {
        // More calls can come, earlier ones too: nothing is said of an agent that was made before all of them ended.
        let made_agent_goes_on = tree.agents[agent].node.is_none() && tree.agents[agent].is_open;
        if made_agent_goes_on {
            continue;
        }
        let run = Run::new(tree, agent);
        agent::write(&mut writer, agent, &run);
        for leaf in &tree.agents[agent].leaves {
            write_leaf(&mut writer, *leaf, &run);
        }
    }
    pause::write_stops(&mut writer);
    by_hand::write(&mut writer);
    writer.events
}

fn write_leaf(writer: &mut Writer<'_, '_>, at: usize, run: &Run<'_, '_>) {
    let tree = writer.tree;
    let node = &tree.nodes[at];
    let (Some(reading), Some(agent)) = (&node.reading, node.agent) else { return };
    let leaf = Leaf { at, node, reading, agent: &tree.agents[agent], end: LeafEnd::of(tree, at) };
    match reading.kind {
        Kind::Model => model::write(writer, &leaf, run),
        Kind::Tool => tool::write(writer, &leaf, run),
        Kind::Hook => pause::write_hook(writer, &leaf),
        Kind::Human => pause::write_human(writer, &leaf),
        Kind::Agent | Kind::Transparent => {}
    }
}

/// A leaf with all that its events need.
struct Leaf<'t, 's> {
    at: usize,
    node: &'t Node<'s>,
    reading: &'t Reading<'s>,
    agent: &'t Agent,
    end: LeafEnd,
}

impl Leaf<'_, '_> {
    /// What the leaf was ended by; nothing that came after its run had ended.
    fn exception(&self) -> Option<&Exception> {
        self.node.exception.as_ref().filter(|_| !self.end.incomplete)
    }

    /// The text of its error, if it has one.
    fn error(&self) -> Option<String> {
        self.exception().filter(|exception| exception.is_error()).map(Exception::describe)
    }

    /// The exception that steered the run past it.
    fn control_flow(&self) -> Option<&str> {
        let exception = self.exception().filter(|exception| exception.class == Class::ControlFlow);
        exception.map(|exception| exception.type_name.as_str())
    }

    /// Whether it came to its end by itself and without an exception.
    fn is_complete(&self) -> bool {
        !self.end.incomplete && self.node.exception.is_none()
    }

    /// Whole milliseconds from start to end; `None` if that is beyond any sense.
    fn duration_ms(&self) -> Option<u32> {
        if let Some(seconds) = self.reading.number(Fact::Duration).filter(|seconds| *seconds >= 0.0) {
            return Some((seconds * 1e3) as u32);
        }
        u32::try_from((self.end.end - self.end.start) / 1_000_000).ok()
    }
}

/// Makes events of a tree.
struct Writer<'t, 's> {
    tree: &'t Tree<'s>,
    mapping: &'t Mapping,
    events: Vec<Placed>,
}

impl Writer<'_, '_> {
    /// A draft of an event of a leaf: `part` counts the events of the leaf in their order.
    fn of_leaf(&self, leaf: &Leaf<'_, '_>, kind: EventType, part: u32) -> Draft {
        let time = if part == 0 { leaf.end.start } else { leaf.end.end };
        self.draft(kind, time, leaf.agent, leaf.node.span, Some(leaf.reading), Place::Leaf(part, leaf.at))
    }

    fn draft(
        &self,
        kind: EventType,
        time: u64,
        agent: &Agent,
        span: &Span<'_>,
        reading: Option<&Reading<'_>>,
        place: Place,
    ) -> Draft {
        let part = match place {
            Place::Start(..) => 0,
            Place::Leaf(part, _) | Place::End(_, _, part) => part,
        };
        let environment = environment(&span.resource, self.mapping);
        let mut event = Event::new(kind, time, agent.session.clone(), agent.id.clone(), environment);
        event.dialect = reading.map_or(event.dialect, |reading| reading.dialect);
        let extras = framework_extras(span, reading);
        let key = (span.span_id, kind.name(), part);
        Draft { placed: Placed { key, place, event }, extras, ids: (span.trace_id, span.span_id) }
    }

    fn start_of(&self, agent: usize) -> Place {
        Place::Start(self.tree.agents[agent].depth, agent)
    }

    fn end_of(&self, agent: usize, part: u32) -> Place {
        Place::End(Reverse(self.tree.agents[agent].depth), agent, part)
    }

    fn finish(&mut self, draft: Draft) {
        self.events.push(draft.done());
    }
}

/// An event in the making: fields first, then the extras, in the order of the official adapters.
struct Draft {
    placed: Placed,
    extras: Vec<(&'static str, Json)>,
    /// The span that the event can be found by in any trace store.
    ids: (TraceId, SpanId),
}

impl Draft {
    /// Sets a field; one without a value, or with a value that consumers would not take, stays out.
    fn set(&mut self, field: Field, value: Option<impl Into<Json>>) {
        if let Some(value) = value {
            // A value of another shape than the contract's is one that consumers would turn into null.
            let _ = self.placed.event.set(field, value);
        }
    }

    fn extra(&mut self, name: &'static str, value: Option<impl Into<Json>>) {
        if let Some(value) = value {
            self.extras.push((name, value.into()));
        }
    }

    fn done(mut self) -> Placed {
        for (name, value) in self.extras.drain(..) {
            self.placed.event.set_extra(name, value);
        }
        self.placed.event.set_extra("fw_trace_id", self.ids.0.to_string());
        self.placed.event.set_extra("fw_span_id", self.ids.1.to_string());
        self.placed
    }
}

/// Attributes of the environment's name on a resource: the stable convention, then the older one.
const ENVIRONMENT_KEYS: [&str; 2] = ["deployment.environment.name", "deployment.environment"];

/// The environment of a span: configured, else its resource's, else the default. One with a comma would make the server
/// skip the line.
fn environment(resource: &Resource, mapping: &Mapping) -> Arc<str> {
    if let Some(environment) = &mapping.environment {
        return environment.clone();
    }
    let mut named = ENVIRONMENT_KEYS.iter().filter_map(|key| resource.attributes.text(key)).map(str::trim);
    let first = named.clone().next();
    match (named.find(|name| !name.contains(',')), first) {
        (Some(name), _) => Arc::from(name),
        (None, first) => {
            if let Some(name) = first {
                crate::once::warn("environment-comma", || {
                    let instead = &mapping.default_environment;
                    format!("environment {name:?} holds a comma, which Failproof does not store: using {instead}")
                });
            }
            mapping.default_environment.clone()
        }
    }
}

/// Scopes of packages that instrument a framework start so: their version is not the framework's.
const INSTRUMENTATIONS: [&str; 5] = [
    "opentelemetry.instrumentation.",
    "opentelemetry.util.",
    "openinference.instrumentation.",
    "@traceloop/",
    "@arizeai/",
];

fn framework_extras(span: &Span<'_>, reading: Option<&Reading<'_>>) -> Vec<(&'static str, Json)> {
    let scope = &span.scope;
    let named = reading.and_then(|reading| reading.framework).unwrap_or(&scope.name);
    let mut extras: Vec<(&'static str, Json)> = Vec::with_capacity(12);
    if !named.is_empty() {
        extras.push(("framework", named.into()));
    }
    extras.push(("integration_version", INTEGRATION_VERSION.into()));
    let told = reading.and_then(|reading| reading.text(Fact::FrameworkVersion));
    let is_own = !scope.version.is_empty() && !INSTRUMENTATIONS.iter().any(|prefix| scope.name.starts_with(prefix));
    if let Some(version) = told.as_deref().or(is_own.then_some(scope.version.as_str())) {
        extras.push(("framework_version", version.into()));
    }
    extras
}

/// Whether a role gives events of its own.
pub(super) fn gives_events(role: Role) -> bool {
    matches!(role, Role::Agent(_) | Role::Leaf)
}
