//! A sink as it is named on a command line or in a configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use super::stdout::QueuedStdout;
use super::{Home, Queue, QueueOptions, ReceiverUrl, Sender, Several, Sink, SinkError, Spool, Stdout};

/// What can be written after `--to`; a receiver only with the feature of its name.
pub(super) const FORMS: &str = "`spool`, `spool:DIR`, `stdout`, `ingest:URL`, `otlp-logs:URL`, `grpc:URL`";

/// Where events shall go: `spool`, `spool:DIR`, `stdout`, or a receiver and its URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// The spool in a directory; without one, the spool of the Failproof home.
    Spool(Option<PathBuf>),
    /// Standard output.
    Stdout,
    /// A receiver that can fail, with a queue before it.
    Receiver(Receiver, ReceiverUrl),
}

/// The kinds of receivers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Receiver {
    /// The platform's ingest endpoint.
    Ingest,
    /// A Collector, or any other receiver of OTLP logs.
    OtlpLogs,
    /// Another gateway, or any server of the `EventService` of `proto/`.
    Grpc,
}

/// Each kind of receiver, and how it is named.
const RECEIVERS: [(Receiver, &str); 3] =
    [(Receiver::Ingest, "ingest"), (Receiver::OtlpLogs, "otlp-logs"), (Receiver::Grpc, "grpc")];

/// What sinks need to know beside where they lead.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The file with the key to the platform, readable by its owner alone; `FAILPROOF_API_KEY` by default.
    pub api_key_file: Option<PathBuf>,
    /// The file with the token for servers of `EventService`, readable by its owner alone; none by default.
    pub grpc_token_file: Option<PathBuf>,
    /// The certificates to trust instead of those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// Whether bodies to the ingest endpoint are compressed with gzip.
    pub gzip: bool,
    /// The directory below which each receiver has its queue; `custom-agents/queues` of the Failproof home by default.
    pub queue_dir: Option<PathBuf>,
    /// How many bytes each queue holds at most; 1 GiB by default.
    pub queue_max_bytes: Option<u64>,
    /// How many bytes the spool holds at most; 4 GiB by default.
    pub spool_max_bytes: Option<u64>,
}

/// Opens the sinks of some destinations: with one, that one; with several, all of them at once, each with its own
/// progress.
///
/// # Errors
/// If one of them can't be opened.
pub fn open(destinations: &[Destination], settings: &Settings) -> Result<Box<dyn Sink>, SinkError> {
    if let [destination] = destinations {
        return destination.open(settings);
    }
    let sinks = destinations.iter().map(|destination| match destination {
        Destination::Stdout => Ok(Box::new(QueuedStdout::start()?) as Box<dyn Sink>),
        other => other.open(settings),
    });
    Ok(Box::new(Several::new(sinks.collect::<Result<Vec<_>, _>>()?)))
}

impl Destination {
    /// Opens the sink.
    ///
    /// # Errors
    /// If the spool or the queue can't be made or is refused, or what the receiver needs is not there.
    pub fn open(&self, settings: &Settings) -> Result<Box<dyn Sink>, SinkError> {
        Ok(match self {
            Destination::Spool(directory) => {
                let spool = match directory {
                    Some(directory) => Spool::open(directory)?,
                    None => Spool::open_default()?,
                };
                match settings.spool_max_bytes {
                    Some(bytes) => Box::new(spool.with_max_bytes(bytes)),
                    None => Box::new(spool),
                }
            }
            Destination::Stdout => Box::new(Stdout),
            Destination::Receiver(receiver, url) => Box::new(receiver.open(url, settings)?),
        })
    }

    /// What keeps it from being opened, as far as that shows without making or asking anything.
    ///
    /// # Errors
    /// As for [`Destination::open`].
    pub fn check(&self, settings: &Settings) -> Result<(), SinkError> {
        match self {
            Destination::Spool(Some(directory)) => Spool::check(directory),
            Destination::Spool(None) => Spool::check(&Home::from_env().ok_or(SinkError::NoHome)?.spool()),
            Destination::Stdout => Ok(()),
            Destination::Receiver(receiver, url) => {
                receiver.sender(url, settings).and_then(|_| Spool::check(&receiver.queue(url, settings)?))
            }
        }
    }
}

impl Receiver {
    /// How it is named.
    pub fn name(self) -> &'static str {
        RECEIVERS.iter().find(|(receiver, _)| *receiver == self).map_or("", |(_, name)| name)
    }

    fn open(self, url: &ReceiverUrl, settings: &Settings) -> Result<Queue, SinkError> {
        let sender = self.sender(url, settings)?;
        let mut options = QueueOptions::new(self.queue(url, settings)?);
        options.max_bytes = settings.queue_max_bytes.unwrap_or(options.max_bytes);
        Queue::start(options, sender)
    }

    /// The directory of its queue.
    fn queue(self, url: &ReceiverUrl, settings: &Settings) -> Result<PathBuf, SinkError> {
        Ok(match &settings.queue_dir {
            Some(directory) => Home::queue_below(directory, self.name(), url.as_str()),
            None => Home::from_env().ok_or(SinkError::NoHome)?.queue(self.name(), url.as_str()),
        })
    }

    fn sender(self, url: &ReceiverUrl, settings: &Settings) -> Result<Box<dyn Sender>, SinkError> {
        let _ = settings;
        match self {
            #[cfg(feature = "ingest")]
            Receiver::Ingest => {
                let key = match &settings.api_key_file {
                    Some(path) => super::ApiKey::from_file(path),
                    None => super::ApiKey::from_env(),
                };
                let key = key.map_err(|why| self.setup(url, why))?;
                let mut options = super::IngestOptions::new(url.clone(), key);
                options.ca_file.clone_from(&settings.ca_file);
                options.gzip = settings.gzip;
                Ok(Box::new(super::Ingest::new(options)?))
            }
            #[cfg(feature = "otlp-logs")]
            Receiver::OtlpLogs => {
                let options = super::OtlpLogsOptions::from_env(url);
                let mut options = options.map_err(|why| self.setup(url, why))?;
                options.ca_file = settings.ca_file.clone().or(options.ca_file);
                Ok(Box::new(super::OtlpLogs::new(options)?))
            }
            #[cfg(feature = "grpc")]
            Receiver::Grpc => {
                let mut options = super::GrpcOptions::new(url.clone());
                options.token_file.clone_from(&settings.grpc_token_file);
                options.ca_file.clone_from(&settings.ca_file);
                Ok(Box::new(super::Grpc::new(options)?))
            }
            #[allow(unreachable_patterns, reason = "with all features there is no other")]
            _ => Err(self.setup(url, format!("this build lacks the feature `{}`", self.name()))),
        }
    }

    fn setup(self, url: &ReceiverUrl, why: String) -> SinkError {
        SinkError::Setup { receiver: format!("{} {url}", self.name()), why }
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
        let wrong = |text: &str, why| Err(SinkError::Destination { text: text.to_owned(), why });
        match text.split_once(':') {
            None if text == "spool" => Ok(Destination::Spool(None)),
            None if text == "stdout" => Ok(Destination::Stdout),
            // The variables of OpenTelemetry name the receiver.
            #[cfg(feature = "otlp-logs")]
            None if text == "otlp-logs" => super::otlp_logs::endpoint(&|name| std::env::var(name).ok())
                .map(|url| Destination::Receiver(Receiver::OtlpLogs, url))
                .or_else(|why| wrong(text, why)),
            Some(("spool", directory)) if directory.trim().is_empty() => wrong(text, "a directory is missing"),
            // A shell leaves it as it is in the middle of a word, and nothing reads a spool in a directory named `~`.
            Some(("spool", directory)) if directory.starts_with('~') => wrong(text, "`~` has no meaning here"),
            Some(("spool", directory)) => Ok(Destination::Spool(Some(directory.into()))),
            Some((kind, url)) => match RECEIVERS.iter().find(|(_, name)| *name == kind) {
                // The URL stays out of the message: a secret may be what is wrong with it.
                Some((receiver, name)) => ReceiverUrl::parse(url)
                    .map(|url| Destination::Receiver(*receiver, url))
                    .or_else(|why| wrong(&format!("{name}:…"), why)),
                None => wrong(text, "there is no such destination"),
            },
            None => wrong(text, "there is no such destination"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Spool(Some(directory)) => write!(f, "spool:{}", directory.display()),
            Destination::Spool(None) => f.write_str("spool"),
            Destination::Stdout => f.write_str("stdout"),
            Destination::Receiver(receiver, url) => write!(f, "{}:{url}", receiver.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let url = ReceiverUrl::parse("https://a.example:8443/events").unwrap();
        for (text, destination) in [
            ("spool", Destination::default()),
            ("spool:/a/b c:d", Destination::Spool(Some("/a/b c:d".into()))),
            ("stdout", Destination::Stdout),
            ("ingest:https://a.example:8443/events", Destination::Receiver(Receiver::Ingest, url.clone())),
            ("otlp-logs:https://a.example:8443/events", Destination::Receiver(Receiver::OtlpLogs, url)),
        ] {
            assert_eq!(text.parse::<Destination>().unwrap(), destination);
            assert_eq!(destination.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_destination_lists_what_is() {
        for text in ["", "file", "Spool", "spool:", "spool: ", "spool:~/events", "stdout:x", "kafka:https://x"] {
            let error = text.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
            assert!(error.ends_with(&format!("possible are {FORMS}")), "{error}");
        }
        for (_, name) in RECEIVERS {
            assert!(FORMS.contains(&format!("`{name}:URL`")), "{FORMS}");
        }
    }

    #[test]
    fn a_url_that_may_hold_a_secret_is_not_repeated() {
        let error = "ingest:https://user:made-up@a.example".parse::<Destination>().unwrap_err().to_string();
        assert!(error.starts_with("`ingest:…`: ") && !error.contains("made-up"), "{error}");
    }
}
