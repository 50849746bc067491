//! Which exception ended a span.

use std::borrow::Cow;

use crate::dialect::{Fact, Reading};
use crate::exception::{Class, Classifier, Exception};
use crate::span::{Span, SpanEvent, StatusCode};

/// The exception that a span ended by: what its `exception` events, `error.type`, its status, a deferral and at last its
/// dialect say.
///
/// An exception that was only noted on a span that goes on is none; but one that steers or cancels is, whatever the status
/// says.
pub(super) fn exception_of(
    span: &Span<'_>,
    reading: Option<&Reading<'_>>,
    classifier: &Classifier,
) -> Option<Exception> {
    if let Some(name) = reading.and_then(|reading| reading.text(Fact::Deferral)) {
        let deferred = classifier.exception(&name, "", None);
        return Some(Exception { class: Class::ControlFlow, ..deferred });
    }
    let error_type = span.attributes.text("error.type");
    let failed = span.status.code == StatusCode::Error || error_type.is_some();
    let mut noted = span.events.iter().filter(|event| event.name == "exception");
    let escaped = |event: &&SpanEvent<'_>| {
        event.attributes.get("exception.escaped").and_then(|escaped| escaped.as_bool()) == Some(true)
    };
    match noted.clone().rev().find(escaped).or_else(|| noted.next_back()) {
        Some(event) => {
            let exception = from_event(event, span, error_type, classifier);
            let steers = matches!(exception.class, Class::ControlFlow | Class::Cancellation);
            (failed || steers || escaped(&event)).then_some(exception)
        }
        None if failed => {
            // A bare status says nothing; the span's own words may.
            let is_bare = error_type.is_none() && span.status.message.trim().is_empty();
            let told = reading.filter(|_| is_bare).and_then(|reading| told_by_attributes(reading, classifier));
            Some(told.unwrap_or_else(|| from_status(span, error_type, classifier)))
        }
        None => told_by_attributes(reading?, classifier),
    }
}

/// An error that a dialect found in the span's own words: a result that says it is an error, a level, a flag.
fn told_by_attributes(reading: &Reading<'_>, classifier: &Classifier) -> Option<Exception> {
    let (spelled, message) = (reading.text(Fact::ErrorType), reading.text(Fact::ErrorMessage));
    (spelled.is_some() || message.is_some())
        .then(|| classifier.exception(&spelled.unwrap_or_default(), &message.unwrap_or_default(), None))
}

fn from_event(event: &SpanEvent<'_>, span: &Span<'_>, error_type: Option<&str>, classifier: &Classifier) -> Exception {
    let spelled = event.attributes.text("exception.type").or(error_type).unwrap_or_default();
    let stacktrace = event.attributes.text("exception.stacktrace");
    let message = match event.attributes.get("exception.message") {
        Some(message) => message.as_str().map_or_else(|| Cow::Owned(message.to_json().to_string()), Cow::Borrowed),
        None => Cow::Borrowed(split_status(span, Some(spelled)).1),
    };
    classifier.exception(spelled, &message, stacktrace)
}

fn from_status(span: &Span<'_>, error_type: Option<&str>, classifier: &Classifier) -> Exception {
    let error_type = error_type.filter(|error_type| *error_type != "_OTHER");
    let (named, message) = split_status(span, error_type);
    let message = if message.is_empty() { span.attributes.text("error.message").unwrap_or_default() } else { message };
    classifier.exception(error_type.or(named).unwrap_or_default(), message, None)
}

/// A status message as class and text: `ClassName: text` is what many SDKs write. A word before a colon is a class only
/// if it is the one that is known already, or looks like one.
fn split_status<'a>(span: &'a Span<'_>, known: Option<&str>) -> (Option<&'a str>, &'a str) {
    let message = span.status.message.trim();
    let (head, rest) = message.split_once(':').unwrap_or((message, ""));
    let short = head.rsplit('.').next().unwrap_or(head);
    let is_identifier = !short.is_empty() && head.chars().all(|char| char.is_alphanumeric() || "._".contains(char));
    let looks_like_class = ["Error", "Exception", "Exit", "Interrupt"].iter().any(|ending| short.ends_with(ending));
    let is_known = known.is_some_and(|known| known.rsplit('.').next() == Some(short));
    if is_identifier && (is_known || looks_like_class) { (Some(head), rest.trim()) } else { (None, message) }
}
