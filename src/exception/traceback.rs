//! Stack traces as text.

/// How far from the end the line that names the exception is looked for: messages can have lines of their own.
const TAIL_LINES: usize = 200;

/// The class that a Python stack trace ends with: the last line that is not indented and reads `module.Class` or
/// `module.Class: text`.
pub(super) fn last_class(trace: &str) -> Option<&str> {
    trace.trim_end().lines().rev().take(TAIL_LINES).find_map(|line| {
        let name = line.split_once(':').map_or(line, |(name, _)| name);
        let is_segment = |segment: &str| {
            segment.starts_with(|char: char| char.is_alphabetic() || char == '_')
                && segment.chars().all(|char| char.is_alphanumeric() || char == '_')
        };
        let last_segment = name.rsplit('.').next().unwrap_or(name);
        let is_class = name.split('.').all(is_segment) && last_segment.starts_with(|char: char| char.is_uppercase());
        is_class.then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_found_behind_a_message_of_many_lines() {
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    raise X\nshop.errors.Closed: until\n  monday\nmorning\n";
        assert_eq!(last_class(trace), Some("shop.errors.Closed"));
        assert_eq!(last_class("ValueError"), Some("ValueError"));
        assert_eq!(last_class(""), None);
    }
}
