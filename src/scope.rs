//! Said by hand in Rust: which session, which agent, over the OpenTelemetry context.
//!
//! [`session`] puts the session's id into the baggage of the context; [`agent`] starts a span that is the agent. Both hold
//! for all that is started below them, also across `await` ([`SessionScope::run`], [`AgentScope::run`]) and, with a baggage
//! propagator, in other processes.

use std::borrow::Cow;
use std::error::Error;
use std::future::Future;

use opentelemetry::baggage::BaggageExt;
use opentelemetry::trace::{FutureExt, Span as _, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, ContextGuard, KeyValue, global};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use crate::dialect::{AGENT_ID, EVENT_PREFIX, GOAL, OUTCOME, SESSION_ID, SUMMARY};

/// The instrumentation scope of spans that [`agent`] starts.
const SCOPE: &str = "opentelemetry-failproof";

/// All that is started below it belongs to this session.
///
/// ```
/// let _session = opentelemetry_failproof::session("chat-42").enter();
/// // Whatever an agent does from here on is in the session `chat-42`.
/// ```
#[must_use = "a session holds only where it is entered"]
pub fn session(id: impl Into<String>) -> SessionScope {
    SessionScope { id: id.into() }
}

/// All that is started below it belongs to an agent of this name.
///
/// The name is a role, never the id of a run.
///
/// ```
/// let agent = opentelemetry_failproof::agent("inventory").goal("stock report").enter();
/// // Model and tool calls from here on belong to `inventory`.
/// agent.summary("12 bolts");
/// ```
#[must_use = "an agent runs only where it is entered"]
pub fn agent(name: impl Into<String>) -> AgentScope {
    AgentScope { name: name.into(), goal: None }
}

/// A session to enter; made by [`session`].
#[derive(Clone, Debug)]
pub struct SessionScope {
    id: String,
}

/// An agent to enter; made by [`agent`].
#[derive(Clone, Debug)]
pub struct AgentScope {
    name: String,
    goal: Option<String>,
}

/// The session holds on this thread until it is dropped.
#[derive(Debug)]
pub struct SessionGuard {
    _attached: ContextGuard,
}

/// The agent runs on this thread until it is dropped. A panic through it is a failure of the agent.
#[derive(Debug)]
pub struct AgentGuard {
    context: Context,
    _attached: ContextGuard,
}

impl SessionScope {
    /// Enters it on this thread. Across `await`, use [`run`](Self::run).
    pub fn enter(self) -> SessionGuard {
        SessionGuard { _attached: self.context().attach() }
    }

    /// Runs a future in it.
    pub fn run<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        future.with_context(self.context())
    }

    fn context(self) -> Context {
        Context::current().with_baggage([KeyValue::new(SESSION_ID, self.id)])
    }
}

impl AgentScope {
    /// What the agent is asked.
    pub fn goal(mut self, goal: impl Into<String>) -> Self {
        self.goal = Some(goal.into());
        self
    }

    /// Starts the agent on this thread, with the global tracer provider. Across `await`, use [`run`](Self::run).
    pub fn enter(self) -> AgentGuard {
        self.enter_with(&global::tracer(SCOPE))
    }

    /// Starts the agent on this thread, with a tracer of your own.
    pub fn enter_with<T>(self, tracer: &T) -> AgentGuard
    where
        T: Tracer,
        T::Span: Send + Sync + 'static,
    {
        let context = self.start(tracer);
        AgentGuard { _attached: context.clone().attach(), context }
    }

    /// Runs a future as the agent, with the global tracer provider: it starts with the first poll, and ends with the
    /// future.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        let context = self.start(&global::tracer(SCOPE));
        let output = future.with_context(context.clone()).await;
        context.span().end();
        output
    }

    fn start<T>(self, tracer: &T) -> Context
    where
        T: Tracer,
        T::Span: Send + Sync + 'static,
    {
        let parent = Context::current();
        let mut attributes = vec![KeyValue::new(AGENT_ID, self.name.clone())];
        attributes.extend(self.goal.map(|goal| KeyValue::new(GOAL, goal)));
        // For exporters, which never see the context that a span was started in.
        attributes.extend(scope_attributes(&parent));
        let builder = tracer.span_builder(format!("agent {}", self.name)).with_attributes(attributes);
        let span = tracer.build_with_context(builder, &parent);
        parent.with_span(span)
    }
}

impl AgentGuard {
    /// What the agent gave.
    pub fn summary(&self, summary: impl Into<String>) {
        self.context.span().set_attribute(KeyValue::new(SUMMARY, summary.into()));
    }

    /// The agent was cancelled.
    pub fn cancel(&self) {
        self.context.span().set_attribute(KeyValue::new(OUTCOME, "cancelled"));
    }

    /// The agent failed: there will be an `error`, and the outcome `failed`. The type of the error is what Rust calls it.
    pub fn fail<E: Error>(&self, error: &E) {
        self.fail_as(std::any::type_name::<E>(), &error.to_string());
    }

    /// The context that the agent runs in: to start spans in, on other threads too.
    pub fn context(&self) -> &Context {
        &self.context
    }

    fn fail_as(&self, error_type: &'static str, message: &str) {
        let span = self.context.span();
        let exception =
            vec![KeyValue::new("exception.type", error_type), KeyValue::new("exception.message", message.to_owned())];
        span.add_event("exception", exception);
        span.set_status(Status::error(message.to_owned()));
    }
}

impl Drop for AgentGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail_as("Panic", "the agent panicked");
        }
        self.context.span().end();
    }
}

/// Copies what is said around a span onto it: what the processor does by itself, for use beside
/// [`FailproofSpanExporter`](crate::FailproofSpanExporter).
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeSpanProcessor;

impl SpanProcessor for ScopeSpanProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        copy_scope(span, context);
    }

    fn on_end(&self, _span: SpanData) {}

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: std::time::Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Puts the baggage `failproof.*` of a context onto a span.
pub(crate) fn copy_scope(span: &mut Span, context: &Context) {
    for attribute in scope_attributes(context) {
        span.set_attribute(attribute);
    }
}

fn scope_attributes(context: &Context) -> impl Iterator<Item = KeyValue> {
    let said = context.baggage().iter().filter(|(key, _)| key.as_str().starts_with(EVENT_PREFIX));
    said.map(|(key, (value, _))| KeyValue::new(Cow::Owned::<str>(key.as_str().to_owned()), value.as_str().to_owned()))
}
