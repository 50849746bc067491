//! What an exception means: a failed tool, a way to steer, a cancellation, or a failure.
//!
//! `table` has the classes as data, `name` reads the spellings of `exception.type`, and here stands how the two and the
//! user's own names meet. Source of the four classes: the Pydantic AI page of the Failproof documentation.

mod name;
mod table;
mod traceback;

use std::str::FromStr;

use name::ClassName;

/// What an exception means for the tool, the model call and the run that it crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A tool failed and the model was asked to try again: the leaf has an error, the run can still succeed, and there
    /// is never an `error` event.
    ToolFailure,
    /// The run is being steered: no error anywhere, whatever a span's status says.
    ControlFlow,
    /// The run was stopped from outside: no `error`, outcome `cancelled`.
    Cancellation,
    /// Anything else: `error`, then `agent_end` with outcome `failed`.
    Failure,
}

/// An exception as a span tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Its class.
    pub class: Class,
    /// The short name of its type: `ValueError`.
    pub type_name: String,
    /// Its text; empty if there is none or content is not captured.
    pub message: String,
    /// Its stack trace, the innermost frame last as Python writes it.
    pub stacktrace: Option<String>,
}

impl Exception {
    /// How the error of a leaf reads: `ValueError: text`, or the name alone if the text is empty; the text alone if all
    /// that is known of the type is that it is an error.
    pub fn describe(&self) -> String {
        match (self.type_name.as_str(), self.message.as_str()) {
            (name, "") => name.to_owned(),
            (UNKNOWN_TYPE, message) => message.to_owned(),
            (name, message) => format!("{name}: {message}"),
        }
    }

    /// Whether its type is known.
    pub fn is_named(&self) -> bool {
        self.type_name != UNKNOWN_TYPE
    }

    /// Whether this is an error of the leaf or run that it ended.
    pub fn is_error(&self) -> bool {
        matches!(self.class, Class::ToolFailure | Class::Failure)
    }
}

/// The classes of exceptions: the built-in table and what the user added to it.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    added: Vec<(Pattern, Class)>,
}

/// A user's name for exceptions: `Class`, `module.Class` or `module.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    module: Option<String>,
    /// `None` stands for every class of the module.
    name: Option<String>,
}

/// A pattern that could never match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no exception name; write Class, module.Class or module.*")]
pub struct PatternError(String);

impl Classifier {
    /// Adds names of the user's own; they come before the built-in ones, the first added first.
    pub fn add(&mut self, pattern: Pattern, class: Class) {
        self.added.push((pattern, class));
    }

    /// The exception behind a type as it was spelled (`module.Class`, `Class`, `<class 'module.Class'>`, …), its text and
    /// its stack trace. The stack trace's last line helps out where the spelling says nothing (`_OTHER`) or leaves the
    /// module open.
    pub fn exception(&self, spelled: &str, message: &str, stacktrace: Option<&str>) -> Exception {
        let mut spelled = ClassName::parse(spelled);
        let written = traceback::written(message).filter(|_| spelled.is_none_or(|name| name.is_placeholder()));
        if let Some(written) = &written {
            spelled = ClassName::parse(written.class);
        }
        let (message, stacktrace) =
            written.map_or((message, stacktrace), |written| (written.message, Some(written.trace)));
        let is_bare = spelled.is_some_and(|name| name.module.is_none() && name.short == UNKNOWN_TYPE);
        let again = traceback::thrown_again(message).filter(|_| is_bare);
        if let Some((class, _)) = again {
            spelled = ClassName::parse(class);
        }
        let message = again.map_or(message, |(_, message)| message);
        let traced = stacktrace.and_then(traceback::last_class).and_then(ClassName::parse);
        let name = match (spelled, traced) {
            (Some(spelled), Some(traced)) if spelled.module.is_none() && spelled.short == traced.short => Some(traced),
            (Some(spelled), _) if !spelled.is_placeholder() => Some(spelled),
            (spelled, traced) => traced
                .or_else(|| table::spoken(message).and_then(ClassName::parse))
                .or(spelled.filter(|name| name.is_class())),
        };
        Exception {
            class: name.and_then(|name| self.class_of(name)).unwrap_or(Class::Failure),
            type_name: name.map_or(UNKNOWN_TYPE, |name| name.short).to_owned(),
            message: message.to_owned(),
            stacktrace: stacktrace.filter(|trace| !trace.trim().is_empty()).map(str::to_owned),
        }
    }

    fn class_of(&self, name: ClassName<'_>) -> Option<Class> {
        let added = self.added.iter().find(|(pattern, _)| pattern.matches(name)).map(|(_, class)| *class);
        added.or_else(|| table::class_of(name))
    }
}

/// What the type of an error is called whose type nobody knows.
const UNKNOWN_TYPE: &str = "Error";

impl Pattern {
    fn matches(&self, name: ClassName<'_>) -> bool {
        let module_fits = match (&self.module, name.module) {
            (None, _) => true,
            (Some(wanted), Some(given)) => name::is_within(given, wanted),
            // A bare spelling hides its module: a pattern with a name still means it, `module.*` can't.
            (Some(_), None) => self.name.is_some(),
        };
        module_fits && self.name.as_deref().is_none_or(|wanted| wanted == name.short)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PatternError(text.to_owned());
        let (module, name) = match text.trim().rsplit_once('.') {
            Some((module, name)) => (Some(module.to_owned()), name),
            None => (None, text.trim()),
        };
        let is_segment = |segment: &str| {
            !segment.is_empty() && segment.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '$'))
        };
        if !module.as_deref().is_none_or(|module| module.split('.').all(is_segment)) {
            return Err(error());
        }
        match name {
            "*" if module.is_some() => Ok(Pattern { module, name: None }),
            name if is_segment(name) => Ok(Pattern { module, name: Some(name.to_owned()) }),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(spelled: &str) -> Class {
        Classifier::default().exception(spelled, "", None).class
    }

    #[test]
    fn every_spelling_of_a_known_class_is_recognized() {
        for spelled in [
            "pydantic_ai.exceptions.ToolRetryError",
            "ToolRetryError",
            "<class 'pydantic_ai.exceptions.ToolRetryError'>",
            " pydantic_ai.exceptions.ToolRetryError ",
        ] {
            assert_eq!(class(spelled), Class::ToolFailure, "{spelled}");
        }
        assert_eq!(class("asyncio.exceptions.CancelledError"), Class::Cancellation);
        assert_eq!(class("GeneratorExit"), Class::Cancellation);
        assert_eq!(class("pydantic_ai.exceptions.ApprovalRequired"), Class::ControlFlow);
    }

    #[test]
    fn a_class_of_the_same_name_from_elsewhere_is_a_failure() {
        for spelled in ["evil.ModelRetry", "MyModelRetry", "ModelRetryError", "evil.pydantic_ai.ModelRetry"] {
            assert_eq!(class(spelled), Class::Failure, "{spelled}");
        }
    }

    #[test]
    fn the_last_line_of_the_trace_names_what_the_type_hides() {
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1\npydantic_ai.exceptions.ModelRetry: again\nplease";
        let exception = Classifier::default().exception("_OTHER", "again\nplease", Some(trace));
        assert_eq!((exception.class, exception.type_name.as_str()), (Class::ToolFailure, "ModelRetry"));
    }

    #[test]
    fn the_users_names_come_first() -> Result<(), PatternError> {
        let mut classifier = Classifier::default();
        classifier.add("shop.errors.*".parse()?, Class::ControlFlow);
        classifier.add("app.Again".parse()?, Class::ToolFailure);
        let class = |spelled| classifier.exception(spelled, "", None).class;
        assert_eq!(class("shop.errors.deep.Closed"), Class::ControlFlow);
        assert_eq!(class("shop.errorsome.Closed"), Class::Failure);
        assert_eq!(class("app.Again"), Class::ToolFailure);
        assert_eq!(class("Again"), Class::ToolFailure);
        assert_eq!(class("other.Again"), Class::Failure);
        for bad in ["", "*", "a..b", ".x", "a b"] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad:?}");
        }
        Ok(())
    }
}
