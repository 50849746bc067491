//! Python's own writing of data (`repr`), as instrumentations write it where they should have written JSON.

use serde_json::{Map, Number, Value as Json};

/// Lists and dictionaries deeper than this are taken for no literal.
const DEEPEST: usize = 64;

/// The data that a text writes as a Python literal: dictionaries, lists, tuples, texts, numbers, `True`, `False`, `None`.
/// Anything else, objects among it, is no literal.
pub(super) fn parse(text: &str) -> Option<Json> {
    let mut reader = Reader { rest: text.trim() };
    let value = reader.value(0)?;
    reader.rest.is_empty().then_some(value)
}

/// The literal behind `name=` among a line of such pairs, as the `repr` of a dataclass or a model gives it.
pub(super) fn field(text: &str, name: &str) -> Option<Json> {
    let starts = text.match_indices(name).map(|(at, _)| at);
    starts.into_iter().find_map(|at| {
        let is_word = text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        let rest = text[at + name.len()..].strip_prefix('=').filter(|_| is_word)?;
        Reader { rest }.value(0)
    })
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEEPEST {
            return None;
        }
        self.skip_blanks();
        match self.rest.chars().next()? {
            '{' => self.dictionary(depth),
            '[' => self.items(']', depth).map(Json::Array),
            '(' => self.items(')', depth).map(Json::Array),
            '\'' | '"' => self.text().map(Json::String),
            _ => self.word(),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<Json> {
        self.eat('{')?;
        let mut members = Map::new();
        while self.eat('}').is_none() {
            let key = match self.value(depth + 1)? {
                Json::String(key) => key,
                other => other.to_string(),
            };
            self.eat(':')?;
            members.insert(key, self.value(depth + 1)?);
            if self.eat(',').is_none() {
                self.eat('}')?;
                break;
            }
        }
        Some(Json::Object(members))
    }

    fn items(&mut self, close: char, depth: usize) -> Option<Vec<Json>> {
        self.rest = self.rest.get(1..)?;
        let mut items = Vec::new();
        while self.eat(close).is_none() {
            items.push(self.value(depth + 1)?);
            if self.eat(',').is_none() {
                self.eat(close)?;
                break;
            }
        }
        Some(items)
    }

    fn text(&mut self) -> Option<String> {
        let mut chars = self.rest.char_indices();
        let (_, quote) = chars.next()?;
        let mut text = String::new();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    kind @ ('x' | 'u' | 'U') => {
                        let length = [('x', 2), ('u', 4), ('U', 8)].into_iter().find(|(name, _)| *name == kind)?.1;
                        let digits: String = chars.by_ref().take(length).map(|(_, digit)| digit).collect();
                        text.push(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)?);
                    }
                    other => text.push(other),
                },
                _ if char == quote => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(text);
                }
                _ => text.push(char),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Json> {
        let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '+' | '-');
        let end = self.rest.find(|char| !is_part(char)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        match word {
            "True" => Some(Json::Bool(true)),
            "False" => Some(Json::Bool(false)),
            "None" => Some(Json::Null),
            _ if !word.starts_with(|char: char| char.is_ascii_digit() || char == '-') => None,
            _ => match word.parse::<i64>() {
                Ok(number) => Some(number.into()),
                Err(_) => word.parse::<f64>().ok().and_then(Number::from_f64).map(Json::Number),
            },
        }
    }

    fn eat(&mut self, wanted: char) -> Option<()> {
        self.skip_blanks();
        self.rest = self.rest.strip_prefix(wanted)?;
        Some(())
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_become_json() {
        assert_eq!(
            parse(r#"{'city': "L'Aquila", 'days': (1, 2.5,), 'deep': {'a': [None, True, -3]}, 'n': 'a\n\'b\' \xe9'}"#),
            Some(json!({"city": "L'Aquila", "days": [1, 2.5], "deep": {"a": [null, true, -3]}, "n": "a\n'b' é"}))
        );
        assert_eq!(parse("{}"), Some(json!({})));
        assert_eq!(parse("'text'"), Some(json!("text")));
    }

    #[test]
    fn objects_and_cut_text_are_no_literals() {
        for text in ["", "{'a': Point(x=1)}", "{'a': 'b", "{'a'", "plain text", "{'a': 1} and more", "'\\", "'\\u12"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse(&"[".repeat(100_000)), None);
    }

    #[test]
    fn fields_of_a_repr_are_found_by_their_name() {
        let line = "status='success' result='sunny, error=none' error=None is_error=True";
        assert_eq!(field(line, "result"), Some(json!("sunny, error=none")));
        assert_eq!(field(line, "status"), Some(json!("success")));
        assert_eq!(field("is_error=True", "error"), None);
        assert_eq!(field("result=<object at 0x1>", "result"), None);
    }
}
