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
    // Python: a task or a generator that its caller gave up.
    Row { class: Class::Cancellation, names: &["CancelledError"], modules: &["asyncio", "concurrent.futures", "builtins"] },
    Row { class: Class::Cancellation, names: &["GeneratorExit"], modules: &["builtins"] },
];

/// The class of a name, if it stands in the table.
pub(super) fn class_of(name: ClassName<'_>) -> Option<Class> {
    let fits = |row: &&Row| {
        let module_fits = |module| row.modules.iter().any(|root| is_within(module, root));
        row.names.contains(&name.short) && name.module.is_none_or(module_fits)
    };
    TABLE.iter().find(fits).map(|row| row.class)
}
