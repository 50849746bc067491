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

/// A stack trace of Python begins so.
const START: &str = "Traceback (most recent call last):";
/// What LangGraph notes on an exception stands behind its text.
const NOTE: &str = "\nDuring task with name ";

/// An exception that was written as one text: its `repr`, and right behind it its stack trace.
pub(super) struct Written<'t> {
    pub class: &'t str,
    pub message: &'t str,
    pub trace: &'t str,
}

/// Takes apart such a text, `ValueError('no data')Traceback (most recent call last):…`. A trace that was cut names no
/// class; then the `repr` does.
pub(super) fn written(text: &str) -> Option<Written<'_>> {
    let at = text.find(START)?;
    let (repr, trace) = (text.get(..at)?, text.get(at..)?);
    let (named, arguments) = repr.split_once('(')?;
    let is_name = !named.is_empty() && named.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '.'));
    let ended = || {
        let class = last_class(trace).filter(|class| class.rsplit('.').next() == named.rsplit('.').next())?;
        let message = trace.get(trace.rfind(&format!("\n{class}"))? + 1 + class.len()..)?;
        Some((class, message.split(NOTE).next()?.trim_start_matches(':').trim()))
    };
    let quoted = || {
        let inner = arguments.trim_end().trim_end_matches(')');
        let bare = ['\'', '"'].iter().find_map(|quote| inner.strip_prefix(*quote)?.strip_suffix(*quote));
        (named, bare.unwrap_or(inner))
    };
    is_name.then(|| ended().unwrap_or_else(quoted)).map(|(class, message)| Written { class, message, trace })
}

/// What JavaScript makes of an error that was written as text and then thrown again: an `Error` with the text
/// `TypeError: no data`.
pub(super) fn thrown_again(text: &str) -> Option<(&str, &str)> {
    let (class, message) = text.split_once(": ")?;
    let is_class = class.ends_with("Error") && class.chars().all(|char| char.is_alphanumeric() || char == '_');
    is_class.then_some((class, message))
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
    #[test]
    fn an_exception_in_one_text_is_taken_apart() {
        let parts = |text| written(text).map(|written| (written.class, written.message));
        let whole = "ValueError('no data')Traceback (most recent call last):\n\n\n  File \"a.py\", line 1, in f\n    raise X\n\n\nValueError: no data\n\n\nDuring task with name 'tools' and id '1'";
        assert_eq!(parts(whole), Some(("ValueError", "no data")));
        let module = "Closed('a: b\\nc')Traceback (most recent call last):\n  File\nshop.errors.Closed: a: b\nc\n";
        assert_eq!(parts(module), Some(("shop.errors.Closed", "a: b\nc")));
        let cut = "Closed('until monday')Traceback (most recent call last):\n  File \"a.p";
        assert_eq!(parts(cut), Some(("Closed", "until monday")));
        assert_eq!(parts("CancelledError()Traceback (most recent call last):\n"), Some(("CancelledError", "")));
        assert_eq!(thrown_again("TypeError: no: data"), Some(("TypeError", "no: data")));
        assert_eq!(thrown_again("no error: data"), None);
        assert_eq!(parts("no exception (at all)"), None);
        assert_eq!(parts("I saw (a) Traceback (most recent call last):"), None);
    }
}
