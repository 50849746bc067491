//! Agent ids are names: `agent_id` is a low-cardinality column and the first facet of every dashboard.

/// The longest agent id, in characters.
const AGENT_ID_LIMIT: usize = 64;
/// From this many hex digits on, a run of them is an id, not a word.
const HEX_RUN: usize = 16;
/// What an agent is called that has no name.
pub(crate) const UNNAMED_AGENT: &str = "main";
/// Groups of hex digits of a UUID in its dashed form.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// The name that an agent's raw name stands for.
///
/// Whitespace collapses; a value that is an id as a whole is `main`; an id inside a name is removed with its separators
/// (`agent-<uuid>` gives `agent`, `crew_<uuid>_worker` gives `crew worker`); names without one stay as they are; at most
/// 64 characters stay. Source: the Failproof contract, "Agent ids".
pub fn normalize_agent_id(raw: &str) -> String {
    let collapsed = raw.split_whitespace().collect::<Vec<_>>().join(" ");
    let undashed: String = collapsed.chars().filter(|char| !matches!(char, '-' | '{' | '}')).collect();
    if is_hex_run(undashed.strip_prefix("urn:uuid:").unwrap_or(&undashed)) {
        return UNNAMED_AGENT.to_owned();
    }
    let without_uuids = blank_uuids(&collapsed);
    let parts = without_uuids.split(is_separator).filter(|part| !part.is_empty());
    let words: Vec<&str> = parts.clone().filter(|part| !is_hex_run(part)).collect();
    let held_an_id = without_uuids != collapsed || words.len() < parts.count();
    let name = if held_an_id { words.join(" ") } else { collapsed };
    let name: String = name.chars().take(AGENT_ID_LIMIT).collect();
    match name.trim_end() {
        "" => UNNAMED_AGENT.to_owned(),
        name => name.to_owned(),
    }
}

fn is_separator(char: char) -> bool {
    char.is_whitespace() || matches!(char, '-' | '_' | '.' | ':' | '/')
}

fn is_hex_run(text: &str) -> bool {
    text.len() >= HEX_RUN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The text with every UUID in its dashed form replaced by a space.
fn blank_uuids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let length = uuid_length(rest.as_bytes()).unwrap_or(0);
        if length > 0 {
            out.push(' ');
        } else {
            out.push(char);
        }
        rest = rest.get(length.max(char.len_utf8())..).unwrap_or("");
    }
    if out.trim() == text.trim() { text.to_owned() } else { out }
}

/// The length of the UUID that the bytes start with.
fn uuid_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for (group, digits) in UUID_GROUPS.into_iter().enumerate() {
        if group > 0 {
            (*bytes.get(at)? == b'-').then_some(())?;
            at += 1;
        }
        bytes.get(at..at + digits)?.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += digits;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_removed_and_names_stay() {
        let uuid = "3f9a1c2b-1111-4222-8333-444455556666";
        // Right-hand sides: what the official SDK gives for the same names.
        for (raw, expected) in [
            ("inventory", "inventory"),
            ("agent-v2", "agent-v2"),
            ("step-3", "step-3"),
            ("node_a_b.c/d:e", "node_a_b.c/d:e"),
            ("  two   words\n", "two words"),
            (uuid, "main"),
            ("3f9a1c2b111142228333444455556666", "main"),
            ("{3f9a1c2b-1111-4222-8333-444455556666}", "main"),
            ("urn:uuid:3f9a1c2b-1111-4222-8333-444455556666", "main"),
            ("deadbeefdeadbeef", "main"),
            ("deadbeef-deadbeef", "main"),
            ("1234567890123456", "main"),
            ("deadbeefdeadbee", "deadbeefdeadbee"),
            ("agent-3f9a1c2b-1111-4222-8333-444455556666", "agent"),
            ("x3f9a1c2b-1111-4222-8333-444455556666", "x"),
            ("crew_3f9a1c2b-1111-4222-8333-444455556666_worker", "crew worker"),
            ("a_b-c-3f9a1c2b-1111-4222-8333-444455556666-d.e", "a b c d e"),
            ("task-deadbeefdeadbeef00", "task"),
            ("agent(deadbeefdeadbeef)", "agent(deadbeefdeadbeef)"),
            ("", "main"),
            ("   ", "main"),
            ("é-3f9a1c2b-1111-4222-8333-444455556666", "é"),
        ] {
            assert_eq!(normalize_agent_id(raw), expected, "{raw:?}");
        }
        assert_eq!(normalize_agent_id(&"n".repeat(80)), "n".repeat(64));
    }

    #[test]
    fn normalizing_twice_changes_nothing_more() {
        for raw in ["crew_3f9a1c2b-1111-4222-8333-444455556666_worker", "a  b", "....", "agent-v2"] {
            let once = normalize_agent_id(raw);
            assert_eq!(normalize_agent_id(&once), once);
        }
    }
}
