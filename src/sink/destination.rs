//! A sink as it is named on a command line or in a configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{Home, Sink, SinkError, Spool, Stdout};

/// Where events shall go: `spool`, `spool:DIR` or `stdout`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// The spool in a directory; without one, the spool of the Failproof home.
    Spool(Option<PathBuf>),
    /// Standard output.
    Stdout,
}

impl Destination {
    /// Opens the sink.
    ///
    /// # Errors
    /// If the spool can't be made or is refused.
    pub fn open(self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(match self {
            Destination::Spool(Some(directory)) => Box::new(Spool::open(directory)?),
            Destination::Spool(None) => Box::new(Spool::open_default()?),
            Destination::Stdout => Box::new(Stdout),
        })
    }
}

impl Destination {
    /// What keeps it from being opened, as far as that shows without making anything.
    ///
    /// # Errors
    /// As for [`Destination::open`].
    pub fn check(&self) -> Result<(), SinkError> {
        match self {
            Destination::Spool(Some(directory)) => Spool::check(directory),
            Destination::Spool(None) => Spool::check(&Home::from_env().ok_or(SinkError::NoHome)?.spool()),
            Destination::Stdout => Ok(()),
        }
    }
}

impl Default for Destination {
    fn default() -> Self {
        Destination::Spool(None)
    }
}

impl FromStr for Destination {
    type Err = SinkError;

    fn from_str(text: &str) -> Result<Self, SinkError> {
        let wrong = |why| Err(SinkError::Destination { text: text.to_owned(), why });
        match text.split_once(':') {
            None if text == "spool" => Ok(Destination::Spool(None)),
            None if text == "stdout" => Ok(Destination::Stdout),
            Some(("spool", directory)) if directory.trim().is_empty() => wrong("a directory is missing"),
            // A shell leaves it as it is in the middle of a word, and nothing reads a spool in a directory named `~`.
            Some(("spool", directory)) if directory.starts_with('~') => wrong("`~` has no meaning here"),
            Some(("spool", directory)) => Ok(Destination::Spool(Some(directory.into()))),
            _ => wrong("there is no such destination"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Spool(Some(directory)) => write!(f, "spool:{}", directory.display()),
            Destination::Spool(None) => f.write_str("spool"),
            Destination::Stdout => f.write_str("stdout"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for (text, destination) in [
            ("spool", Destination::default()),
            ("spool:/a/b c:d", Destination::Spool(Some("/a/b c:d".into()))),
            ("stdout", Destination::Stdout),
        ] {
            assert_eq!(text.parse::<Destination>().unwrap(), destination);
            assert_eq!(destination.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_destination_lists_what_is() {
        for text in ["", "file", "Spool", "spool:", "spool: ", "spool:~/events", "stdout:x", "ingest:https://x"] {
            let error = text.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
            assert!(error.ends_with("possible are `spool`, `spool:DIR` and `stdout`"), "{error}");
        }
    }
}
