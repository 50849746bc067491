//! A recording of any form, recognised by its content:
//!
//! - one OTLP/JSON document, also spread over many lines
//! - one JSON document a line (the Collector's file exporter), or one behind the other
//! - one protobuf request
//! - messages behind their length in four bytes, big-endian (the file exporter with `format: proto` or with
//!   `compression: zstd`), each protobuf or JSON, each compressed or not
//! - gzip or zstd of any of these
//!
//! A bad line or message is reported with its place; the good ones around it are read.

use serde_json::value::RawValue;

use super::{Budget, ReadError, Rejected, Spans, json, protobuf, tree};
use crate::span::Span;

/// What a file held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileContents {
    /// The good spans, in the file's order.
    pub spans: Vec<Span<'static>>,
    /// What could not be read, or not wholly.
    pub problems: Vec<Problem>,
    /// Problems beyond the [`FileContents::MAX_PROBLEMS`] that are told one by one.
    pub more_problems: usize,
}

/// One thing in a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands: `line 3: resourceSpans[0].scopeSpans[0].spans[2] (chat)`, or `message 7 at byte 1234`; empty if
    /// it is about the file as a whole.
    pub place: String,
    /// What is wrong, and what helps.
    pub cause: String,
}

/// Reads a file's bytes. Whatever is wrong with them is in [`FileContents::problems`].
///
/// Compressed bytes may grow to [`MAX_UNPACKED`]. Without the feature `compression` they are a problem.
pub fn read_file(bytes: &[u8]) -> FileContents {
    let mut reader = Reader::default();
    reader.content(bytes, "", MAX_LAYERS);
    reader.contents
}

/// How many bytes compressed content may give: 1 GiB.
pub const MAX_UNPACKED: usize = 1 << 30;

/// How often content may be compressed: once by who wrote it, once by who stored it.
const MAX_LAYERS: usize = 2;

/// How often a document that breaks off may be looked for over the rest of the file. After that a bad line is one
/// line, or a file of `[` alone would be read once for every line.
const MAX_FAR_SEARCHES: usize = 32;

impl FileContents {
    /// How many problems are told one by one.
    pub const MAX_PROBLEMS: usize = 1_000;
}

#[derive(Default)]
struct Reader {
    contents: FileContents,
}

impl Reader {
    fn content(&mut self, bytes: &[u8], place: &str, layers: usize) {
        match Form::of(bytes) {
            Form::Empty => self.problem(place, "it is empty: no spans were recorded"),
            Form::Compressed if layers == 0 => self.problem(place, "compressed more than twice; unpack it first"),
            Form::Compressed => self.compressed(bytes, place, layers - 1),
            Form::Json | Form::Text => self.json(&String::from_utf8_lossy(bytes), place),
            Form::Protobuf => self.spans(protobuf::read(bytes, &Budget::FILE), place),
            Form::Framed => self.framed(bytes, place, layers),
            Form::Unknown => self.problem(
                place,
                "neither OTLP/JSON nor OTLP protobuf, nor gzip or zstd of these; check that it is a recording of spans",
            ),
        }
    }

    #[cfg(feature = "compression")]
    fn compressed(&mut self, bytes: &[u8], place: &str, layers: usize) {
        use super::decompress::{Encoding, decompress};

        let Some(encoding) = Encoding::sniff(bytes) else { return };
        match decompress(bytes, encoding, MAX_UNPACKED) {
            Ok(unpacked) => self.content(&unpacked, place, layers),
            Err(error) => self.problem(place, error),
        }
    }

    #[cfg(not(feature = "compression"))]
    fn compressed(&mut self, _bytes: &[u8], place: &str, _layers: usize) {
        self.problem(place, "it is compressed; unpack it first, or build with the feature `compression`");
    }

    /// Documents one behind the other, with or without line breaks between or inside them.
    fn json(&mut self, text: &str, place: &str) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = Lines { text, at: 0, line: 1 };
        let mut far_searches = 0;
        while let Some(rest) = lines.skip_blank() {
            let searched = if far_searches < MAX_FAR_SEARCHES { rest } else { first_line(rest) };
            let mut documents = serde_json::Deserializer::from_str(searched).into_iter::<&RawValue>();
            match documents.next() {
                Some(Ok(document)) => {
                    self.spans(json::read_text(document.get(), &Budget::FILE), &join(place, &lines.place()));
                    lines.advance(documents.byte_offset());
                }
                Some(Err(error)) => {
                    far_searches += 1;
                    let inner =
                        if error.line() > 1 { format!(", {} lines further", error.line() - 1) } else { String::new() };
                    self.problem(
                        &join(place, &lines.place()),
                        format_args!("no JSON: {} at column {}{inner}", tree::cause(&error), error.column()),
                    );
                    lines.skip_to_document();
                }
                None => return,
            }
        }
    }

    fn framed(&mut self, bytes: &[u8], place: &str, layers: usize) {
        let mut rest = bytes;
        for number in 1.. {
            let start = bytes.len() - rest.len();
            let place = join(place, &format!("message {number} at byte {start}"));
            let Some((length, after)) = rest.split_first_chunk() else {
                if !rest.is_empty() {
                    self.problem(&place, "the file was cut inside a length");
                }
                return;
            };
            let length = u32::from_be_bytes(*length) as usize;
            let Some((message, after)) = after.split_at_checked(length) else {
                self.problem(&place, format_args!("{length} bytes announced, {} left: the file was cut", after.len()));
                return;
            };
            match Form::of(message) {
                // A request without spans has no bytes.
                Form::Empty => {}
                Form::Framed | Form::Text | Form::Unknown => self.spans(protobuf::read(message, &Budget::FILE), &place),
                _ => self.content(message, &place, layers),
            }
            rest = after;
        }
    }

    fn spans(&mut self, read: Result<Spans<'_>, ReadError>, place: &str) {
        match read {
            Ok(found) => {
                for Rejected { place: inner, cause } in found.rejected {
                    self.problem(&join(place, &inner), cause);
                }
                self.contents.more_problems += found.more_rejected;
                self.contents.spans.extend(found.spans.into_iter().map(Span::into_owned));
            }
            Err(error) => self.problem(place, error),
        }
    }

    fn problem(&mut self, place: &str, cause: impl ToString) {
        if self.contents.problems.len() < FileContents::MAX_PROBLEMS {
            self.contents.problems.push(Problem { place: place.to_owned(), cause: cause.to_string() });
        } else {
            self.contents.more_problems += 1;
        }
    }
}

enum Form {
    Empty,
    Compressed,
    Json,
    /// Its first line is no JSON; later ones may be.
    Text,
    Protobuf,
    Framed,
    Unknown,
}

impl Form {
    fn of(bytes: &[u8]) -> Form {
        let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let text = bytes.get(blank..).unwrap_or_default();
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        match bytes {
            [] => Form::Empty,
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => Form::Compressed,
            // Before JSON: its first byte is a line break, and its second can be a brace.
            _ if protobuf::is_framed(bytes) => Form::Protobuf,
            _ if text.is_empty() => Form::Empty,
            _ if matches!(text, [b'{' | b'[', ..]) => Form::Json,
            [a, b, c, d, rest @ ..] if u32::from_be_bytes([*a, *b, *c, *d]) as usize <= rest.len() => Form::Framed,
            _ if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => Form::Text,
            // A request that was cut.
            [0x0a, ..] => Form::Protobuf,
            [0, ..] => Form::Framed,
            _ => Form::Unknown,
        }
    }
}

/// A place in a text of many documents.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    /// The text from the next character that is not blank; `None` at the end.
    fn skip_blank(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_ascii_start().len();
        self.advance(blank);
        Some(self.rest()).filter(|rest| !rest.is_empty())
    }

    /// To the next line that starts as a document does. In a document that is spread over lines, all are indented.
    fn skip_to_document(&mut self) {
        loop {
            self.advance(first_line(self.rest()).len());
            if self.rest().is_empty() || self.rest().starts_with(['{', '[']) {
                return;
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        let passed = self.rest().get(..bytes).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed.as_bytes()).count();
        self.at += bytes;
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn place(&self) -> String {
        format!("line {}", self.line)
    }
}

/// With its line break.
fn first_line(text: &str) -> &str {
    text.split_inclusive('\n').next().unwrap_or_default()
}

fn join(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}: {inner}") }
}
