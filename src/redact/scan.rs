//! Finds credentials in one pass over a text, in time linear in its length.
//!
//! A table of byte pairs ([`PAIRS`]) picks the few places where a credential may begin, and a
//! hand-written check decides. No check reads far and then fails: a rule fails because what
//! follows is too short, or else what it read is never read again by that rule.

use super::rules::{self, Ending, PAIRS, PREFIXES, Pair, Source};

/// The credentials of a text, in order and apart from each other.
#[derive(Default)]
pub(super) struct Found {
    spans: Vec<Span>,
    /// Whether the SDK finds one too.
    pub by_sdk: bool,
}

struct Span {
    start: usize,
    end: usize,
    marker: &'static str,
}

impl Found {
    /// The text with every credential replaced, or none if there is nothing to replace.
    pub fn replaced(&self, text: &str) -> Option<String> {
        if self.spans.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for span in &self.spans {
            out.push_str(text.get(copied..span.start).unwrap_or_default());
            out.push_str(span.marker);
            copied = span.end;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Some(out)
    }
}

pub(super) fn scan(text: &str) -> Found {
    let mut scan = Scan { text, bytes: text.as_bytes(), found: Found::default(), cursor: 0, no_jwt_before: 0 };
    if text.len() >= rules::SHORTEST {
        let (blocks, tail) = scan.bytes.as_chunks::<BLOCK>();
        for (n, block) in blocks.iter().enumerate() {
            if is_worth_a_look(block) {
                scan.visit(n * BLOCK, block);
            }
        }
        scan.visit(blocks.len() * BLOCK, tail);
    }
    scan.found
}

const BLOCK: usize = 8;

/// Looks at every other pair only; see [`PAIRS`].
fn is_worth_a_look(block: &[u8; BLOCK]) -> bool {
    let (pairs, _) = block.as_chunks::<2>();
    pairs.iter().fold(0, |any, &pair| any | pair_of(pair) as u8) != Pair::Plain as u8
}

fn pair_of(bytes: [u8; 2]) -> Pair {
    PAIRS[usize::from(u16::from_le_bytes(bytes))]
}

struct Scan<'t> {
    text: &'t str,
    bytes: &'t [u8],
    found: Found,
    /// Where the last match of the SDK's rules ends; no later one begins before it.
    cursor: usize,
    /// No JSON web token begins before this; see [`Scan::jwt`].
    no_jwt_before: usize,
}

impl<'t> Scan<'t> {
    /// Checks what begins with, or is announced by, a byte of the block and the one before it.
    #[inline]
    fn visit(&mut self, start: usize, block: &[u8]) {
        let mut previous = self.before(start).last().copied().unwrap_or_default();
        for (at, &byte) in (start..).zip(block) {
            let pair = pair_of([previous, byte]);
            if !matches!(pair, Pair::Plain | Pair::Second) {
                self.check(pair, at);
            }
            previous = byte;
        }
    }

    /// The checks themselves stay out of line: inlined here, what they save and restore slows every refusal down.
    fn check(&mut self, pair: Pair, at: usize) {
        match pair {
            Pair::Plain | Pair::Second => {}
            Pair::Assignment => self.assignment(at),
            Pair::Field => self.field(at),
            kind @ (Pair::Prefix | Pair::Jwt | Pair::Bearer) => _ = self.token(kind, at - 1),
        }
    }

    /// Takes the token of this kind that begins at `start`; false if the SDK has none there.
    fn token(&mut self, kind: Pair, start: usize) -> bool {
        start >= self.cursor
            && match kind {
                Pair::Prefix => self.is_boundary(start) && self.prefix(start),
                Pair::Jwt => self.is_boundary(start) && self.jwt(start),
                Pair::Bearer => self.bearer(start),
                _ => false,
            }
    }

    /// [`Scan::token`] of any kind.
    fn any_token(&mut self, start: usize) -> bool {
        let kind = self.after(start).first_chunk().map_or(Pair::Plain, |&bytes| pair_of(bytes));
        self.token(kind, start)
    }

    #[inline(never)]
    fn prefix(&mut self, start: usize) -> bool {
        let rest = self.after(start);
        let length = leading(rest, rules::is_token);
        if length < rules::PREFIXED_MIN {
            return false;
        }
        let rule = PREFIXES
            .iter()
            .find(|rule| length >= rule.literal.len() + rule.more && rest.starts_with(rule.literal.as_bytes()));
        rule.is_some_and(|rule| self.take(start, start + length, rule.marker, rule.source))
    }

    /// Segments may hold `=`, so more candidates may follow within the first segment. When one
    /// fails so do they: they have the same segments and are shorter.
    #[inline(never)]
    fn jwt(&mut self, start: usize) -> bool {
        if start < self.no_jwt_before || !self.after(start).starts_with(rules::JWT.as_bytes()) {
            return false;
        }
        let mut end = start;
        for segment in 1..=rules::JWT_SEGMENTS {
            let length = leading(self.after(end), |byte| rules::is_token(byte) || byte == b'=');
            end += length;
            if segment == 1 {
                self.no_jwt_before = end;
            }
            let is_last = segment == rules::JWT_SEGMENTS;
            if length == 0 || !(is_last || self.after(end).first() == Some(&b'.')) {
                return false;
            }
            end += usize::from(!is_last);
        }
        end - start >= rules::JWT_MIN && self.take(start, end, rules::JWT_MARKER, Source::Sdk)
    }

    #[inline(never)]
    fn bearer(&mut self, start: usize) -> bool {
        let value = start + rules::BEARER.len();
        let Some(scheme) = self.bytes.get(start..value) else {
            return false;
        };
        if !scheme.iter().zip(rules::BEARER.as_bytes()).all(|(a, b)| a.to_ascii_lowercase() == *b) {
            return false;
        }
        let end = self.end_of_word(value, |byte| matches!(byte, b'"' | b'\''));
        end - value >= rules::BEARER_MIN && self.take(start, end, rules::BEARER_MARKER, Source::Sdk)
    }

    /// `NAME=value`, `NAME="value"`, `NAME='value'`, and ours: `NAME=\"value\"`.
    #[inline(never)]
    fn assignment(&mut self, equals: usize) {
        if !self.follows_secret_name(equals, rules::is_token) {
            return;
        }
        let quote = self.after(equals + 1).first().filter(|byte| matches!(byte, b'"' | b'\''));
        let value = equals + 1 + usize::from(quote.is_some());
        let rest = self.text.get(value..).unwrap_or_default();
        if value < self.cursor || self.any_token(value) || !rules::is_literal(rest) {
            return;
        }
        let end = match quote {
            Some(&quote) => value + leading(rest.as_bytes(), |byte| byte != quote),
            None => self.end_of_word(value, |byte| matches!(byte, b';' | b'&' | b'"' | b'\'')),
        };
        if end - value >= rules::SECRET_MIN {
            self.take(value, end, rules::SECRET_MARKER, Source::Sdk);
        } else if let Some(escapes @ 1..) = self.escapes_of_quote(value) {
            self.quoted(value, escapes);
        }
    }

    /// `"name": "value"`, a field of JSON text that is itself escaped any number of times.
    #[inline(never)]
    fn field(&mut self, name_end: usize) {
        if !self.follows_secret_name(name_end, |byte| byte != b'"') {
            return;
        }
        let Some(escapes) = self.escapes_of_quote(name_end) else {
            return;
        };
        let colon = self.after_space(name_end + escapes + 1);
        let value = self.after_space(colon + 1);
        if self.bytes.get(colon) == Some(&b':')
            && self.escapes_of_quote(value) == Some(escapes)
            && !self.any_token(value + escapes + 1)
        {
            self.quoted(value, escapes);
        }
    }

    fn after_space(&self, start: usize) -> usize {
        start + leading(self.after(start), |byte| byte.is_ascii_whitespace())
    }

    /// Whether the text up to `end` ends in a secret's name, a name being made of such bytes.
    fn follows_secret_name(&self, end: usize, is_of_name: impl Fn(u8) -> bool) -> bool {
        let text = self.before(end);
        rules::ending(text).is_some_and(|ending| match ending {
            Ending::Strong => true,
            Ending::Weak => {
                let name = self.text.get(end - trailing(text, is_of_name)..end);
                name.is_some_and(rules::is_compound)
            }
        })
    }

    /// How many backslashes stand at `start`, if a quote follows them.
    fn escapes_of_quote(&self, start: usize) -> Option<usize> {
        let escapes = leading(self.after(start), is_escape);
        let quote = self.after(start + escapes).first();
        matches!(quote, Some(b'"' | b'\'')).then_some(escapes)
    }

    /// Takes the secret in the quotes that open at `open` with this many backslashes.
    ///
    /// A quote within the value has more of them. At the end of the value, backslashes that belong
    /// to it come in multiples of `2 * escapes + 2`. A value cut off ends with the text.
    fn quoted(&mut self, open: usize, escapes: usize) {
        let start = open + escapes + 1;
        if self.found.spans.last().is_some_and(|last| last.start < start && start < last.end) {
            return;
        }
        let Some((quote, value)) = self.after(start - 1).split_first() else {
            return;
        };
        let mut length = value.len();
        let mut run = 0;
        for (at, byte) in value.iter().enumerate() {
            let of_quote = run % (2 * escapes + 2);
            if byte == quote && of_quote <= escapes {
                length = at - of_quote;
                break;
            }
            run = if is_escape(*byte) { run + 1 } else { 0 };
        }
        let end = start + length;
        if self.text.get(start..end).is_some_and(rules::is_secret_value) {
            self.take(start, end, rules::SECRET_MARKER, Source::Ours);
        }
    }

    /// Where the word at `start` ends: at white space, at such an ASCII byte, or with the text.
    fn end_of_word(&self, start: usize, is_end: impl Fn(u8) -> bool) -> usize {
        let mut end = start;
        while let Some(&byte) = self.bytes.get(end) {
            if byte.is_ascii() {
                if rules::is_ascii_space(byte) || is_end(byte) {
                    break;
                }
                end += 1;
            } else {
                match self.text.get(end..).and_then(|rest| rest.chars().next()) {
                    Some(char) if !char.is_whitespace() => end += char.len_utf8(),
                    _ => break,
                }
            }
        }
        end
    }

    /// Adds a span; whether it is the SDK's is for [`Scan::token`] to tell. One that overlaps the last becomes one
    /// with it, so all that the SDK redacts is redacted whatever else is.
    fn take(&mut self, start: usize, end: usize, marker: &'static str, source: Source) -> bool {
        let is_sdks = source == Source::Sdk;
        if is_sdks {
            self.cursor = end;
            self.found.by_sdk = true;
        }
        match self.found.spans.last_mut() {
            Some(last) if start < last.end => {
                // Of two that begin together, one of them ours, the SDK's or else the longer gives the name.
                if start == last.start && (is_sdks || end > last.end) {
                    last.marker = marker;
                }
                last.end = last.end.max(end);
            }
            _ => self.found.spans.push(Span { start, end, marker }),
        }
        is_sdks
    }

    fn is_boundary(&self, start: usize) -> bool {
        !self.before(start).last().is_some_and(|&byte| rules::is_token(byte))
    }

    fn before(&self, end: usize) -> &'t [u8] {
        self.bytes.get(..end).unwrap_or_default()
    }

    fn after(&self, start: usize) -> &'t [u8] {
        self.bytes.get(start..).unwrap_or_default()
    }
}

fn leading(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !matches(*byte)).unwrap_or(bytes.len())
}

fn trailing(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    bytes.iter().rev().position(|byte| !matches(*byte)).unwrap_or(bytes.len())
}

fn is_escape(byte: u8) -> bool {
    byte == b'\\'
}
