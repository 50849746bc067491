//! The classes that are not failures, by framework. Data alone: a new one is a new row.

use super::Class;
use super::name::{ClassName, is_within};

struct Row {
    class: Class,
    names: &'static [&'static str],
    /// Where the classes live. A spelling with a module must lie in one of these; a bare name matches by itself.
    modules: &'static [&'static str],
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Pydantic AI 2.68: the model is asked to try again.
    Row { class: Class::ToolFailure, names: &["ModelRetry", "ToolRetryError", "ToolFailedError", "ToolFailed"], modules: &["pydantic_ai"] },
    // Pydantic AI 2.68: hooks that skip a step, and calls left to somebody else.
    Row { class: Class::ControlFlow, names: &["SkipToolExecution", "SkipToolValidation", "SkipModelRequest", "CallDeferred", "ApprovalRequired"], modules: &["pydantic_ai"] },
    // LangGraph 1.2: a graph that stops for a person, is drained, or hands over to the graph around it.
    Row { class: Class::ControlFlow, names: &["GraphBubbleUp", "GraphInterrupt", "NodeInterrupt", "GraphDrained", "ParentCommand"], modules: &["langgraph"] },
    // CrewAI 1.15: a flow that waits for a person.
    Row { class: Class::ControlFlow, names: &["HumanFeedbackPending"], modules: &["crewai"] },
    // LlamaIndex workflows 2.26: a step that waits for an event of a person, and runs again then.
    Row { class: Class::ControlFlow, names: &["WaitingForEvent", "WorkflowDone"], modules: &["workflows", "llama_index"] },
    Row { class: Class::Cancellation, names: &["WorkflowCancelledByUser"], modules: &["workflows", "llama_index"] },
    // Agno 3.1: a tool that ends the run, a tool that asks the model to try again, a run that was cancelled.
    Row { class: Class::ControlFlow, names: &["StopAgentRun"], modules: &["agno"] },
    Row { class: Class::ToolFailure, names: &["RetryAgentRun"], modules: &["agno"] },
    Row { class: Class::Cancellation, names: &["RunCancelledException"], modules: &["agno"] },
    // JavaScript: an AbortController's signal, as the platform and the clients of Anthropic and OpenAI name it; `TurnAborted`: Codex.
    Row { class: Class::Cancellation, names: &["AbortError", "APIUserAbortError", "ResponseAborted", "TurnAborted"], modules: &[] },
    // Genkit 1.42: a tool that stops the run for a person.
    Row { class: Class::ControlFlow, names: &["ToolInterruptError"], modules: &[] },
    // Strands 1.62: a tool that stops for a person.
    Row { class: Class::ControlFlow, names: &["InterruptException"], modules: &["strands"] },
    // Agent Framework 1.23: middleware that ends the run, a tool that needs a person.
    Row { class: Class::ControlFlow, names: &["MiddlewareTermination", "UserInputRequiredException"], modules: &["agent_framework"] },
    // ADK 2.13: a node of a workflow that stops for a person.
    Row { class: Class::ControlFlow, names: &["NodeInterruptedError"], modules: &["google.adk"] },
    // Python: a task or a generator that its caller gave up.
    Row { class: Class::Cancellation, names: &["CancelledError"], modules: &["asyncio", "concurrent.futures", "builtins"] },
    Row { class: Class::Cancellation, names: &["GeneratorExit"], modules: &["builtins"] },
];

/// Texts that stand where an exception has no type of its own, and the class that they tell of.
const SPOKEN: &[(&str, &str)] = &[("abandoned stream", "GeneratorExit"), ("Abandoned", "GeneratorExit")];

/// The class that a text alone tells of.
pub(super) fn spoken(message: &str) -> Option<&'static str> {
    SPOKEN.iter().find(|(text, _)| *text == message.trim()).map(|(_, class)| *class)
}

/// The class of a name, if it stands in the table.
pub(super) fn class_of(name: ClassName<'_>) -> Option<Class> {
    let fits = |row: &&Row| {
        let module_fits = |module| row.modules.iter().any(|root| is_within(module, root));
        row.names.contains(&name.short) && name.module.is_none_or(module_fits)
    };
    TABLE.iter().find(fits).map(|row| row.class)
}
