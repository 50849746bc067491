//! What the README says of the code is what the code says of itself.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use opentelemetry_failproof::dialect::DIALECTS;

const README: &str = include_str!("../README.md");

#[test]
fn the_table_of_dialects_is_made_of_their_own_words() {
    let mut table =
        String::from("| Dialect | Emitted by | Verified with | What its spans can't tell |\n|---|---|---|---|\n");
    for dialect in DIALECTS {
        let about = dialect.about();
        writeln!(table, "| `{}` | {} | {} | {} |", about.name, about.emitted_by, about.verified, about.gaps).unwrap();
    }
    let start = README.find("<!-- dialects").unwrap();
    let (_, rest) = README[start..].split_once("-->\n").unwrap();
    let (found, _) = rest.split_once("<!-- /dialects -->").unwrap();
    assert_eq!(found, table, "put this table into the README:\n\n{table}");
}
