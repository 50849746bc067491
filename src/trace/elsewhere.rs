//! Model calls that a second instrumentation tells in a trace of its own.
//!
//! An instrumentation of a framework that does not attach its spans to the context leaves the provider client's span
//! without a parent: the same call stands alone in another trace. Such a span is recognized by its time, within that of the
//! framework's span, and by its process, model, tokens and answer, all of them equal. Source: OpenInference for LangChain
//! and for OpenAI together.

use serde_json::Value as Json;

use super::link::without_copies;
use crate::dialect::messages::normalize_answer;
use crate::dialect::{self, Fact, Kind, Reading};
use crate::span::Span;

/// The model call that the trace is, if it is that alone and under nothing; however often it was reported.
pub(crate) fn is_lonely<'s>(spans: &[&'s Span<'s>]) -> Option<&'s Span<'s>> {
    let first = spans.first()?;
    if spans.iter().any(|span| span.span_id != first.span_id) {
        return None;
    }
    let span = without_copies(spans).pop()?;
    (span.parent.is_none() && is_call(span)).then_some(span)
}

/// Whether a span is a model call within something else.
pub(crate) fn is_nested(span: &Span<'_>) -> bool {
    span.parent.is_some() && is_call(span)
}

/// Whether the nested call, of another trace, tells what the lonely one tells.
pub(crate) fn tells(nested: &Span<'_>, lonely: &Span<'_>) -> bool {
    let is_within = nested.start <= lonely.start
        && nested.end.zip(lonely.end).is_some_and(|(nested, lonely)| lonely <= nested)
        && nested.trace_id != lonely.trace_id;
    if !is_within || nested.resource != lonely.resource {
        return false;
    }
    let (Some(nested), Some(lonely)) = (dialect::read(nested), dialect::read(lonely)) else { return false };
    let told = told(&lonely);
    // A call that tells nothing of its answer could be any other.
    told.3.is_some() && told == self::told(&nested)
}

type Told = (Option<String>, Option<i64>, Option<i64>, Option<Json>);

fn told(reading: &Reading<'_>) -> Told {
    let model = reading.text(Fact::ResponseModel).or_else(|| reading.text(Fact::RequestModel));
    let answer = reading.json(Fact::OutputMessages).and_then(normalize_answer);
    let (asked, answered) = (reading.int(Fact::InputTokens), reading.int(Fact::OutputTokens));
    (model.map(|model| model.into_owned()), asked, answered, answer)
}

fn is_call(span: &Span<'_>) -> bool {
    span.end.is_some() && dialect::read(span).is_some_and(|reading| reading.kind == Kind::Model)
}
