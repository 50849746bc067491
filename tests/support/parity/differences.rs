//! The tables of the differences that stay, each with its cause: `differences.tsv` in a folder of `tests/fixtures`.

use std::collections::HashSet;

use super::Report;
use crate::support::fixtures;

/// A row: where our events differ, and why.
pub struct Difference {
    pub field: String,
    /// `scenario/label`, `*` for any text.
    pub patterns: Vec<String>,
    pub kind: String,
}

/// The rows of Pydantic AI.
pub fn differences() -> Vec<Difference> {
    differences_in("parity")
}

/// The rows of a folder's table.
pub fn differences_in(folder: &str) -> Vec<Difference> {
    let table = std::fs::read_to_string(fixtures(folder).join("differences.tsv")).expect("the table can be read");
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [field, patterns, cause, kind] = columns[..] else { panic!("four columns, not: {line}") };
        assert!(!cause.trim().is_empty(), "a cause: {line}");
        assert!(is_kind(kind), "a kind that is known: {line}");
        let patterns = patterns.split_whitespace().map(str::to_owned).collect();
        Difference { field: field.to_owned(), patterns, kind: kind.to_owned() }
    };
    table.lines().skip(1).filter(|line| !line.trim().is_empty()).map(row).collect()
}

fn is_kind(kind: &str) -> bool {
    // The number is that of `mapping.md`, "Where we differ on purpose"; a rule is one of another part of it or of the
    // contract, which the cause names.
    kind.strip_prefix("on purpose ").is_some_and(|number| number.parse::<u8>().is_ok())
        || ["rule", "not in the spans", "python rendering", "spans know more", "timing"].contains(&kind)
}

impl Report {
    /// Fails unless every difference has a row and every row a difference, and prints what there is. `PARITY_ONLY` compares
    /// some recordings alone: rows of others explain nothing then.
    pub fn assert_explained(&self, rows: &[Difference]) {
        println!("{self}");
        let (unexplained, stale) = self.unexplained_and_stale(rows);
        for difference in &unexplained {
            println!("{difference}");
        }
        assert!(unexplained.is_empty(), "{} differences that no row explains", unexplained.len());
        let all_were_compared = std::env::var_os("PARITY_ONLY").is_none();
        assert!(!all_were_compared || stale.is_empty(), "rows that explain nothing: {stale:#?}");
    }

    /// The differences that no row explains, and the patterns that explain none.
    pub fn unexplained_and_stale(&self, rows: &[Difference]) -> (Vec<String>, Vec<String>) {
        let mut used: HashSet<(&str, &str)> = HashSet::new();
        let mut unexplained = Vec::new();
        for (field, comparisons) in &self.0 {
            let of_field = rows.iter().filter(|row| row.field == *field);
            let patterns: Vec<&str> = of_field.flat_map(|row| &row.patterns).map(String::as_str).collect();
            for comparison in comparisons {
                let Some(difference) = &comparison.difference else { continue };
                let recording = comparison.recording.name();
                let matching = || patterns.iter().filter(|pattern| matches(pattern, &recording));
                if matching().next().is_none() {
                    unexplained.push(format!("{field}: {recording}: {difference}"));
                }
                used.extend(matching().map(|pattern| (field.as_str(), *pattern)));
            }
        }
        let all = rows.iter().flat_map(|row| row.patterns.iter().map(|pattern| (row.field.as_str(), pattern.as_str())));
        let stale = all.filter(|row| !used.contains(row)).map(|(field, pattern)| format!("{field}: {pattern}"));
        (unexplained, stale.collect())
    }
}

/// Whether the text has the pattern's pieces in their order, from its start to its end.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
        }),
    }
}
