//! What the README says of the code is what the code says of itself.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "gateway")]
use std::collections::BTreeSet;
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

#[cfg(feature = "gateway")]
#[test]
fn the_table_of_settings_has_every_flag_and_no_other() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_failproof-otel")).args(["serve", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    let flag = |text: &str| {
        let end = text.find(|char: char| !char.is_ascii_alphanumeric() && char != '-').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let listed = help.lines().map(|line| line.trim_start().trim_start_matches("-h, ").trim_start_matches("-V, "));
    let flags: BTreeSet<String> = listed.filter(|line| line.starts_with("--")).map(flag).collect();
    let (_, section) = README.split_once("## Settings").unwrap();
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `--"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let told: BTreeSet<String> =
        cells.flat_map(|cell| cell.split('`')).filter(|text| text.starts_with("--")).map(flag).collect();
    // What says what to do is no setting.
    let deeds = ["--help", "--version", "--example", "--check-config", "--config"].map(str::to_owned);
    let settings: BTreeSet<String> = flags.difference(&BTreeSet::from(deeds)).cloned().collect();
    assert!(settings.len() > 10, "{help}");
    assert_eq!(told, settings);
}
