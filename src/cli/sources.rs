//! Where settings come from: flags come first, then the environment, then the file of `--config`, then the defaults.
//!
//! A setting is one row: a field with clap's attributes in the structure of its command. Its flag, `--read-timeout`, gives it
//! its variable, `FAILPROOF_OTEL_READ_TIMEOUT`, and, in the table of its command in the file, its key, `read_timeout`. What
//! variable and file say is handed to clap as the value that holds where no flag is given, so that one parser reads all three
//! and one place decides which comes first. (So clap's `requires` and `conflicts_with`, which look at flags alone, are not
//! for settings.)

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use toml::de::{DeTable, DeValue};

use super::Failure;
use super::options::line_number;

/// What the name of every variable begins with.
const PREFIX: &str = "FAILPROOF_OTEL_";

/// What the environment and the file gave, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// By the id of a setting, where its value stands: a variable, or file and line.
    origins: BTreeMap<String, String>,
    /// One line each.
    pub problems: Vec<String>,
}

/// A setting that has its value.
#[derive(Debug)]
pub(super) struct Effective {
    /// Its key in a file.
    pub key: String,
    /// As it is written; several if it may be repeated, none if it is not set.
    pub values: Vec<String>,
    /// A flag, a variable, file and line, or `default`.
    pub origin: String,
}

impl Sources {
    /// Lets the environment speak for the settings of `G` in a command. A blank variable counts as unset, as everywhere in
    /// OpenTelemetry.
    pub fn environment<G: Args>(&mut self, mut command: Command) -> Command {
        for setting in settings::<G>() {
            let variable = variable(&setting);
            let Some(value) = env::var_os(&variable).filter(|value| !value.is_empty()) else { continue };
            let values: Vec<String> = match value.to_str() {
                None => {
                    self.problems.push(format!("{variable}: its value is not UTF-8"));
                    continue;
                }
                Some(text) if text.trim().is_empty() => continue,
                Some(text) if is_list(&setting) => text.split(',').map(|part| part.trim().to_owned()).collect(),
                Some(text) => vec![text.to_owned()],
            };
            command = self.give(command, &setting, values, &variable, variable.clone());
        }
        command
    }

    /// Lets a table of a file speak for the settings of `G` in a command, where the environment does not.
    pub fn file<G: Args>(&mut self, mut command: Command, path: &Path, table: &str) -> Command {
        // Whether it can be read as a whole is another's question: see `Options::config`.
        let Ok(text) = fs::read_to_string(path) else { return command };
        let Ok(document) = DeTable::parse(&text) else { return command };
        let found = match document.get_ref().get_key_value(table) {
            None => return command,
            Some((key, value)) => match value.get_ref() {
                DeValue::Table(found) => found,
                other => {
                    let place = format!("{}:{}", path.display(), line_number(&text, key.span().start));
                    let why = format!("a table is needed, and it is a value of type {}", other.type_str());
                    self.problems.push(format!("{place}: {table}: {why}"));
                    return command;
                }
            },
        };
        let settings: BTreeMap<String, Arg> =
            settings::<G>().map(|setting| (setting.get_id().to_string(), setting)).collect();
        let mut found: Vec<_> = found.iter().collect();
        found.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in found {
            let place = format!("{}:{}", path.display(), line_number(&text, key.span().start));
            let named = format!("{place}: {table}.{}", key.get_ref());
            let Some(setting) = settings.get(key.get_ref().as_ref()) else {
                let known = settings.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                self.problems.push(format!("{named}: there is no such setting; there are {known}"));
                continue;
            };
            match texts(value.get_ref(), is_list(setting)) {
                Err(why) => self.problems.push(format!("{named}: {why}")),
                Ok(_) if self.origins.contains_key(key.get_ref().as_ref()) => {}
                Ok(values) => command = self.give(command, setting, values, &named, place),
            }
        }
        command
    }

    /// Fails if something is wrong.
    pub fn check(&self) -> Result<(), Failure> {
        if self.problems.is_empty() { Ok(()) } else { Err(Some(self.problems.join("\n"))) }
    }

    /// The settings of `G` as they are in the end.
    pub fn effective<G: Args>(&self, matches: &ArgMatches) -> Vec<Effective> {
        let effective = |setting: Arg| {
            let id = setting.get_id().as_str();
            let values = matches.get_raw(id).into_iter().flatten();
            let origin = match matches.value_source(id) {
                Some(ValueSource::CommandLine) => format!("--{}", setting.get_long().unwrap_or(id)),
                _ => self.origins.get(id).cloned().unwrap_or_else(|| "default".to_owned()),
            };
            Effective {
                key: id.to_owned(),
                values: values.map(|value| value.to_string_lossy().into_owned()).collect(),
                origin,
            }
        };
        settings::<G>().map(effective).collect()
    }

    /// Makes the values the ones that hold where no flag is given, if the setting's own parser takes them.
    fn give(&mut self, command: Command, setting: &Arg, values: Vec<String>, named: &str, origin: String) -> Command {
        let id = setting.get_id().to_string();
        let flags = values.iter().map(|value| format!("--{}={value}", setting.get_long().unwrap_or(&id)));
        let line = [command.get_name().to_owned()].into_iter().chain(flags);
        if let Err(error) = command.clone().try_get_matches_from(line)
            && matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation)
        {
            self.problems.push(format!("{named}: {}", in_one_line(&error)));
            return command;
        }
        self.origins.insert(id.clone(), origin);
        command.mut_arg(id, |setting| setting.default_values(values))
    }
}

/// The rows of a structure.
fn settings<G: Args>() -> impl Iterator<Item = Arg> {
    let rows: Vec<Arg> = G::augment_args(Command::new("")).get_arguments().cloned().collect();
    rows.into_iter().filter(|row| row.get_long().is_some())
}

fn variable(setting: &Arg) -> String {
    format!("{PREFIX}{}", setting.get_id().as_str().to_ascii_uppercase())
}

fn is_list(setting: &Arg) -> bool {
    matches!(setting.get_action(), ArgAction::Append)
}

/// A value of a file as it would be written behind a flag.
fn texts(value: &DeValue<'_>, is_list: bool) -> Result<Vec<String>, String> {
    match value {
        DeValue::String(text) => Ok(vec![text.to_string()]),
        DeValue::Boolean(is_on) => Ok(vec![is_on.to_string()]),
        DeValue::Integer(number) if number.radix() == 10 => Ok(vec![number.as_str().to_owned()]),
        DeValue::Array(values) if is_list => values
            .iter()
            .map(|value| match value.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                other => Err(format!("a list of texts is needed, and it holds a value of type {}", other.type_str())),
            })
            .collect(),
        other => Err(format!("a value of type {} is not for this setting", other.type_str())),
    }
}

/// What clap says, without its advice on how to ask for help.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    said.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
