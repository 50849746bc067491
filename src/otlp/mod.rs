//! Bytes to spans.
//!
//! | module | reads |
//! |---|---|
//! | [`protobuf`] | an `ExportTraceServiceRequest`, text borrowed |
//! | [`json`] | OTLP/JSON, also as careless producers write it |
//! | [`sdk`] | what `opentelemetry_sdk` hands to processors and exporters |
//! | [`mod@file`] | a recording in any of these forms, recognised by content |
//! | [`mod@write`] | nothing: it writes spans as protobuf again |
//! | `decompress` | gzip and zstd, with a cap (feature `compression`) |
//!
//! All of them keep three rules. A span that can't be accepted is reported with its place and takes no neighbour along;
//! only broken framing fails a whole request. Limits are checked before memory is taken. Nothing panics, whatever the
//! bytes are.

#[cfg(feature = "compression")]
pub mod decompress;
mod encoding;
pub mod file;
mod frame;
pub mod json;
pub mod protobuf;
pub mod sdk;
mod tree;
pub(crate) mod wire;
pub mod write;

use std::fmt::Display;

use thiserror::Error;

use crate::span::Span;

/// How much one request may hold. Checked while reading, before memory is taken for what exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Spans in a request; one more and the request is refused ([`ReadError::TooManySpans`]).
    pub max_spans: usize,
    /// Attributes of a span, an event, a scope or a resource. Excess ones are left out: those of spans and events are
    /// counted in the span's `dropped_attributes`, the others are reported.
    pub max_attributes: usize,
    /// Events of a span. Excess ones are left out and reported.
    pub max_events: usize,
    /// Attributes, events, and values in lists and maps, of a whole request: 56 bytes of memory each at most, and as few as
    /// four on the wire. A longer request may have one for every [`Budget::BYTES_PER_VALUE`] of its bytes. The spans
    /// beyond are rejected.
    pub max_values: usize,
    /// How deep lists and maps may nest in an attribute; `1` is a plain value. A span that goes deeper is rejected.
    pub max_depth: usize,
}

impl Budget {
    /// For a request from the network.
    pub const REQUEST: Budget = Budget {
        // 128 batches of the SDKs' default size. An empty span takes 2 bytes on the wire and 270 in memory, so that
        // 8 MiB of them, 730 bytes when compressed, would become a gigabyte.
        max_spans: 65_536,
        // Eight times what SDKs keep by default (128).
        max_attributes: 1_024,
        max_events: 1_024,
        // 8,192 spans of 32 attributes, or 15 MB of memory: 8 KiB of gzip could otherwise become 100 MB.
        max_values: 262_144,
        // Far beyond real data, far below what a thread's stack takes.
        max_depth: 64,
    };

    /// For a file that somebody asked us to read: as many spans as there are.
    pub const FILE: Budget = Budget { max_spans: usize::MAX, max_values: usize::MAX, ..Budget::REQUEST };

    /// Fewer than an attribute of an instrumentation has, whose key alone is longer.
    pub const BYTES_PER_VALUE: usize = 32;

    /// How many values a request of so many bytes may have.
    fn values(&self, bytes: usize) -> usize {
        self.max_values.max(bytes / Self::BYTES_PER_VALUE)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::REQUEST
    }
}

/// What a request held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans<'a> {
    /// The good spans, in the sender's order.
    pub spans: Vec<Span<'a>>,
    /// How many spans were not accepted: the figure for OTLP's `partial_success`.
    pub rejected_spans: usize,
    /// What was not taken over and why: spans, and lesser things such as an attribute of a resource. The first
    /// [`Spans::MAX_REPORTS`] of them.
    pub rejected: Vec<Rejected>,
    /// How many more things were not taken over.
    pub more_rejected: usize,
}

/// One thing that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Where it stood: `resourceSpans[0].scopeSpans[2].spans[17] (name of the span)`.
    pub place: String,
    /// What is wrong with it.
    pub cause: String,
}

/// Why nothing of a request could be read. Sending the same bytes again can't help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The bytes are no protobuf, were cut, or are another message.
    #[error(
        "no OTLP trace request in protobuf: {cause} at byte {offset}; check that the body is whole and is what its content type says"
    )]
    Protobuf {
        /// What is wrong.
        cause: &'static str,
        /// Where, in bytes from the start of the request.
        offset: usize,
    },
    /// The text is no JSON, or was cut.
    #[error(
        "no OTLP/JSON: {cause} at line {line}, column {column}; check that the body is whole and is what its content type says"
    )]
    Json {
        /// What is wrong.
        cause: String,
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
    },
    /// It is JSON, but something else.
    #[error("no spans: the JSON holds {found}; expected an object with `resourceSpans`")]
    NotSpans {
        /// What it is instead.
        found: String,
    },
    /// More spans, scopes and resources in JSON than the budget allows values.
    #[error("more than {limit} spans, scopes and resources in one request; send smaller batches")]
    TooManyParts {
        /// [`Budget::max_values`], or more for a long request.
        limit: usize,
    },
    /// More spans than the budget allows.
    #[error("more than {limit} spans in one request; send smaller batches")]
    TooManySpans {
        /// [`Budget::max_spans`].
        limit: usize,
    },
}

impl Spans<'_> {
    /// How many rejections are told one by one; a request of nothing but bad spans shall not cost more than a good one.
    pub const MAX_REPORTS: usize = 100;

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Spans<'static> {
        Spans {
            spans: self.spans.into_iter().map(Span::into_owned).collect(),
            rejected_spans: self.rejected_spans,
            rejected: self.rejected,
            more_rejected: self.more_rejected,
        }
    }

    fn reject_span(&mut self, place: impl Display, name: Option<&str>, cause: impl Display) {
        self.rejected_spans += 1;
        match name {
            Some(name) if !name.is_empty() => self.report(format_args!("{place} ({})", readable(name)), cause),
            _ => self.report(place, cause),
        }
    }

    fn report(&mut self, place: impl Display, cause: impl Display) {
        if self.rejected.len() < Self::MAX_REPORTS {
            self.rejected.push(Rejected { place: place.to_string(), cause: cause.to_string() });
        } else {
            self.more_rejected += 1;
        }
    }
}

/// A name fit for a log: short, on one line.
fn readable(name: &str) -> String {
    const LONGEST: usize = 80;
    let mut text: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text
}

/// Attributes that were left out of a span because it had more than the budget allows.
fn count_dropped(sender: u32, ours: usize) -> u32 {
    sender.saturating_add(u32::try_from(ours).unwrap_or(u32::MAX))
}
