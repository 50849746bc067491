//! What a credential looks like, as data: the rows of the Failproof redaction contract.

/// Which list a rule stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The official SDK and the daemon have the rule too.
    Sdk,
    /// The contract names the credential, but the SDK lets it through.
    Ours,
}

/// A token known by how it begins.
pub(super) struct Prefix {
    pub literal: &'static str,
    /// How many token characters must follow the literal.
    pub more: usize,
    pub marker: &'static str,
    pub source: Source,
}

const fn prefix(literal: &'static str, more: usize, marker: &'static str, source: Source) -> Prefix {
    Prefix { literal, more, marker, source }
}

/// What stands for a credential of this kind.
macro_rules! redacted {
    ($kind:literal) => {
        concat!("[redacted:", $kind, "]")
    };
}

const GITHUB_TOKEN: &str = redacted!("github-token");
const SUPABASE_KEY: &str = redacted!("supabase-key");
const SLACK_TOKEN: &str = redacted!("slack-token");
const AWS_ACCESS_KEY_ID: &str = redacted!("aws-access-key-id");

/// Tried in this order, so a longer literal stands before the one it begins with: `sk-ant-` and
/// 12 characters are too few for an Anthropic key and still an `api-key`.
pub(super) const PREFIXES: &[Prefix] = &[
    prefix("sk-ant-", 16, redacted!("anthropic-key"), Source::Sdk),
    prefix("sk-proj-", 16, redacted!("openai-key"), Source::Sdk),
    prefix("sk-", 16, redacted!("api-key"), Source::Sdk),
    prefix("ghp_", 20, GITHUB_TOKEN, Source::Sdk),
    prefix("gho_", 20, GITHUB_TOKEN, Source::Sdk),
    prefix("ghu_", 20, GITHUB_TOKEN, Source::Sdk),
    prefix("ghs_", 20, GITHUB_TOKEN, Source::Sdk),
    prefix("ghr_", 20, GITHUB_TOKEN, Source::Sdk),
    prefix("github_pat_", 20, GITHUB_TOKEN, Source::Sdk),
    prefix("sb_secret_", 16, SUPABASE_KEY, Source::Sdk),
    prefix("sbp_", 20, SUPABASE_KEY, Source::Sdk),
    prefix("sbp_", 16, SUPABASE_KEY, Source::Ours),
    prefix("xoxb-", 16, SLACK_TOKEN, Source::Sdk),
    prefix("xoxp-", 16, SLACK_TOKEN, Source::Sdk),
    prefix("AKIA", 16, AWS_ACCESS_KEY_ID, Source::Sdk),
    prefix("ASIA", 16, AWS_ACCESS_KEY_ID, Source::Sdk),
];

/// The length of the shortest of them.
pub(super) const PREFIXED_MIN: usize = {
    let mut least = usize::MAX;
    let mut i = 0;
    while i < PREFIXES.len() {
        let length = PREFIXES[i].literal.len() + PREFIXES[i].more;
        least = if length < least { length } else { least };
        i += 1;
    }
    least
};

pub(super) const JWT: &str = "eyJ";
pub(super) const JWT_SEGMENTS: usize = 3;
pub(super) const JWT_MIN: usize = 40;
pub(super) const JWT_MARKER: &str = redacted!("jwt");

/// Compared without regard to case, and wherever it stands: the SDK asks for no word boundary.
pub(super) const BEARER: &str = "bearer ";
pub(super) const BEARER_MIN: usize = 8;
pub(super) const BEARER_MARKER: &str = redacted!("bearer-token");

/// What the names of secrets end in.
const NAMES: &[Name] = &[
    name("secret", Ending::Strong),
    name("password", Ending::Strong),
    name("passwd", Ending::Strong),
    name("credential", Ending::Strong),
    name("key", Ending::Weak),
    name("token", Ending::Weak),
];

struct Name {
    /// The lower-case letters as one number, the last one lowest.
    letters: u128,
    bits: u32,
    ending: Ending,
}

const fn name(letters: &str, ending: Ending) -> Name {
    let letters = letters.as_bytes();
    Name { letters: number(letters), bits: letters.len() as u32 * 8, ending }
}

/// At most the last 16 bytes as one number.
const fn number(mut bytes: &[u8]) -> u128 {
    if let Some(last) = bytes.last_chunk() {
        return u128::from_be_bytes(*last);
    }
    let mut number = 0;
    while let [first, rest @ ..] = bytes {
        number = number << 8 | *first as u128;
        bytes = rest;
    }
    number
}

#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// Marks a secret by itself.
    Strong,
    /// Marks a secret in a compound name only: `api_key`, but not `monkey`.
    Weak,
}

pub(super) const SECRET_MIN: usize = 12;
pub(super) const SECRET_MARKER: &str = redacted!("secret-assignment");

/// No rule matches a text shorter than this; the shortest match is a bearer token.
pub(super) const SHORTEST: usize = BEARER.len() + BEARER_MIN;

/// Whether a field or variable of this name holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let is_secret = |name: &str| match ending(name.as_bytes()) {
        Some(Ending::Strong) => true,
        Some(Ending::Weak) => is_compound(name),
        None => false,
    };
    if name.is_ascii() {
        is_secret(name)
    } else {
        // Unicode case, as in the SDK: the Kelvin sign is an upper-case k.
        is_secret(&name.replace('\u{212a}', "K"))
    }
}

/// How a text ends, if it ends in the name of a secret.
pub(super) fn ending(mut text: &[u8]) -> Option<Ending> {
    while let [shorter @ .., b'-'] = text {
        text = shorter;
    }
    // All of them at once: most names are no secret's, and this stands in front of every value.
    let letters = number(text) | LOWER_CASE;
    let found = NAMES.iter().find(|name| (letters ^ name.letters) << (u128::BITS - name.bits) == 0);
    found.map(|name| name.ending)
}

/// The bits that make ASCII letters lower-case ones and nothing else a lower-case letter.
const LOWER_CASE: u128 = u128::from_ne_bytes([0x20; 16]);

/// Several words in one: `api_key`, `api-key`, `apiKey`, and, as in the SDK, `KEY`.
pub(super) fn is_compound(mut name: &str) -> bool {
    while let Some(shorter) = name.strip_prefix('-').or(name.strip_suffix('-')) {
        name = shorter;
    }
    let mut chars = name.chars();
    chars.next() == Some('_') || chars.any(|char| matches!(char, '_' | '-') || char.is_uppercase())
}

/// Whether a value is written down here, rather than filled in later by a template or a shell.
pub(super) fn is_literal(value: &str) -> bool {
    !value.starts_with(['{', '$', '<', '(', '`'])
}

/// Whether the value of a secret's field is the secret: long enough, literal, not yet redacted.
pub(super) fn is_secret_value(value: &str) -> bool {
    value.len() >= SECRET_MIN && is_literal(value) && !value.starts_with("[redacted:")
}

/// The characters of tokens and of variable names.
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-');
        byte += 1;
    }
    table
};

/// ASCII white space as Python has it, with the four separators `1c` to `1f`.
pub(super) fn is_ascii_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | 0x1c..=b' ')
}

/// What two neighbouring bytes may be the beginning of.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Pair {
    /// Nothing: nearly every pair of ordinary text.
    Plain = 0,
    /// Nothing, but a beginning may stand one byte earlier.
    Second,
    Prefix,
    Jwt,
    Bearer,
    /// The `=` after a variable's name that may be a secret's.
    Assignment,
    /// The quote, perhaps escaped, after a JSON field's name that may be a secret's.
    Field,
}

/// The [`Pair`] of every two bytes, at `first + 256 * second`.
///
/// Every beginning marks the pair it starts with and, as [`Pair::Second`], the pair after it.
/// So looking at every other pair of a text finds all of them.
pub(super) static PAIRS: [Pair; 1 << 16] = {
    let mut pairs = [Pair::Plain; 1 << 16];
    let mut i = 0;
    while i < PREFIXES.len() {
        let literal = PREFIXES[i].literal.as_bytes();
        mark(&mut pairs, literal[0], literal[1], Pair::Prefix);
        mark(&mut pairs, literal[1], literal[2], Pair::Second);
        i += 1;
    }
    let jwt = JWT.as_bytes();
    mark(&mut pairs, jwt[0], jwt[1], Pair::Jwt);
    mark(&mut pairs, jwt[1], jwt[2], Pair::Second);
    let bearer = BEARER.as_bytes();
    mark_any_case(&mut pairs, bearer[0], bearer[1], Pair::Bearer);
    mark_any_case(&mut pairs, bearer[1], bearer[2], Pair::Second);

    let mut i = 0;
    while i <= NAMES.len() {
        // Dashes may follow a name.
        let last = if i < NAMES.len() { NAMES[i].letters as u8 } else { b'-' };
        mark_any_case(&mut pairs, last, b'=', Pair::Assignment);
        mark_any_case(&mut pairs, last, b'"', Pair::Field);
        mark_any_case(&mut pairs, last, b'\\', Pair::Field);
        i += 1;
    }
    let mut byte = 0;
    while byte <= 0xff {
        mark(&mut pairs, b'=', byte as u8, Pair::Second);
        byte += 1;
    }
    let mut i = 0;
    while i < AFTER_FIELD.len() {
        mark(&mut pairs, AFTER_FIELD[i].0, AFTER_FIELD[i].1, Pair::Second);
        i += 1;
    }
    pairs
};

/// What may follow the name of a field: the end of its quote and a byte more.
const AFTER_FIELD: &[(u8, u8)] =
    &[(b'"', b':'), (b'"', b' '), (b'"', b'\t'), (b'"', b'\n'), (b'"', b'\r'), (b'\\', b'"'), (b'\\', b'\\')];

/// A beginning goes before a second pair of another.
const fn mark(pairs: &mut [Pair; 1 << 16], first: u8, second: u8, pair: Pair) {
    let known = &mut pairs[u16::from_le_bytes([first, second]) as usize];
    if matches!(known, Pair::Plain | Pair::Second) {
        *known = pair;
    }
}

const fn mark_any_case(pairs: &mut [Pair; 1 << 16], first: u8, second: u8, pair: Pair) {
    mark(pairs, first, second, pair);
    mark(pairs, first, second.to_ascii_uppercase(), pair);
    mark(pairs, first.to_ascii_uppercase(), second, pair);
    mark(pairs, first.to_ascii_uppercase(), second.to_ascii_uppercase(), pair);
}
