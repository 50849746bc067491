//! Straight to the platform: NDJSON over HTTPS.
//!
//! A batch is sent when the answer says so in the words of the ingest endpoint, not before: a login page answers 200 too.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use twox_hash::XxHash3_128;
use ureq::http::StatusCode;

use super::queue::random;
use super::{Batch, Home, ReceiverUrl, SendError, Sender, SinkError, http};
use crate::secret;

/// Where the key is when no file is named.
const KEY_VARIABLE: &str = "FAILPROOF_API_KEY";
/// A machine without a name of its own.
const UNKNOWN_MACHINE: &str = "unknown";
/// What an endpoint answers is a few bytes.
const ANSWER_LIMIT: u64 = 64 << 10;

/// The key to the platform. It shows itself to nobody but the endpoint.
#[derive(Clone)]
pub struct ApiKey(Source);

#[derive(Clone)]
enum Source {
    Text(String),
    File(PathBuf),
}

impl ApiKey {
    /// The key in a file, which nobody but its owner may read. It is read again for each attempt, so that a new key needs no
    /// new start.
    ///
    /// # Errors
    /// What is wrong with the file, without what is in it.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let key = ApiKey(Source::File(path.to_owned()));
        key.read().map(|_| key)
    }

    /// The key in the variable `FAILPROOF_API_KEY`.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_env() -> Result<Self, String> {
        let key = std::env::var(KEY_VARIABLE).ok().and_then(|text| Self::new(&text));
        key.ok_or_else(|| format!("no key: put it into a file and name that, or set {KEY_VARIABLE}"))
    }

    /// A key, without the blanks around it; `None` if a header could not hold it.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_fit = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_fit.then(|| ApiKey(Source::Text(text.to_owned())))
    }

    fn read(&self) -> Result<String, String> {
        match &self.0 {
            Source::Text(text) => Ok(text.clone()),
            Source::File(path) => {
                let tokens = secret::read(path).and_then(|text| secret::tokens(&text));
                let first = tokens.map(|mut tokens| tokens.swap_remove(0));
                first.map_err(|why| format!("the key file {}: {why}", path.display()))
            }
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// What an [`Ingest`] is made of. Start from [`IngestOptions::new`] and change what shall differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IngestOptions {
    /// The endpoint: https, or http on this machine.
    pub url: ReceiverUrl,
    /// The key to it.
    pub key: ApiKey,
    /// What this machine is called in the server's logs: `collector.machine_id` of the Failproof home by default.
    pub machine_id: String,
    /// The certificates to trust; those that the system trusts by default.
    pub ca_file: Option<PathBuf>,
    /// Whether bodies are compressed. Off by default: not every server takes that.
    pub gzip: bool,
    /// How long a whole exchange may take. 60 seconds by default.
    pub timeout: Duration,
}

impl IngestOptions {
    /// The defaults, for an endpoint and its key.
    pub fn new(url: ReceiverUrl, key: ApiKey) -> Self {
        let machine_id = Home::from_env().and_then(|home| home.machine_id());
        let machine_id = machine_id.unwrap_or_else(|| UNKNOWN_MACHINE.to_owned());
        IngestOptions { url, key, machine_id, ca_file: None, gzip: false, timeout: Duration::from_secs(60) }
    }
}

/// Sends to the ingest endpoint. Put a [`Queue`](super::Queue) before it.
pub struct Ingest {
    options: IngestOptions,
    client: ureq::Agent,
}

/// What the endpoint says of a batch.
#[derive(Deserialize)]
struct Acknowledgement {
    accepted: u64,
    skipped: u64,
}

impl Ingest {
    /// Sets up the client; sends nothing yet.
    ///
    /// # Errors
    /// If the key would travel unencrypted, or the certificates can't be read.
    pub fn new(options: IngestOptions) -> Result<Self, SinkError> {
        let client = match options.url.is_https() || options.url.is_loopback() {
            true => http::client(&options.url, options.ca_file.as_deref(), options.timeout),
            false => Err("the key would travel unencrypted: use https".to_owned()),
        };
        match client {
            Ok(client) => Ok(Ingest { options, client }),
            Err(why) => Err(SinkError::Setup { receiver: describe(&options.url), why }),
        }
    }

    fn body(&self, batch: &Batch) -> Result<Vec<u8>, SendError> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let body = encoder.write_all(batch.lines()).and_then(|()| encoder.finish());
        body.map_err(|cause| SendError::Retry { after: None, cause: cause.to_string() })
    }
}

impl Sender for Ingest {
    fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
        let IngestOptions { url, key, machine_id, gzip, .. } = &self.options;
        let key = key.read().map_err(|cause| SendError::Retry { after: None, cause })?;
        let request = self
            .client
            .post(url.as_str())
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/x-ndjson")
            .header("accept", "application/json")
            // Says which attempt this was; the other, which batch.
            .header("x-request-id", format!("{:016x}{:016x}", random(), random()))
            .header("x-failproofai-batch-id", format!("{:032x}", XxHash3_128::oneshot(batch.lines())))
            .header("x-failproofai-machine-id", machine_id);
        let answer = match gzip {
            true => request.header("content-encoding", "gzip").send(&self.body(batch)?[..]),
            false => request.send(batch.lines()),
        };
        let mut answer = answer.map_err(retry)?;
        let status = answer.status();
        if status.is_success() {
            let body = answer.body_mut().with_config().limit(ANSWER_LIMIT).read_to_vec();
            return match body {
                Ok(body) => acknowledged(&body),
                Err(ureq::Error::BodyExceedsLimit(_)) => acknowledged(b""),
                Err(cause) => Err(retry(cause)),
            };
        }
        let after = http::retry_after(answer.headers());
        Err(match status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                SendError::Retry { after, cause: format!("status {status}") }
            }
            _ if status.is_server_error() => SendError::Retry { after, cause: format!("status {status}") },
            _ if status.is_redirection() => SendError::Refused {
                cause: format!(
                    "status {status}: redirects are not followed, for the key would go elsewhere; see the URL"
                ),
            },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                SendError::Refused { cause: format!("status {status}: see the key") }
            }
            _ => SendError::Refused { cause: format!("status {status}") },
        })
    }

    fn describe(&self) -> String {
        describe(&self.options.url)
    }
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingest").field("options", &self.options).finish_non_exhaustive()
    }
}

fn describe(url: &ReceiverUrl) -> String {
    format!("ingest {url}")
}

fn acknowledged(body: &[u8]) -> Result<(), SendError> {
    let refused = |cause: String| Err(SendError::Refused { cause });
    match serde_json::from_slice(body) {
        Ok(Acknowledgement { skipped: 0, .. }) => Ok(()),
        Ok(Acknowledgement { accepted, skipped }) => {
            refused(format!("the server accepted {accepted} events and skipped {skipped}"))
        }
        Err(_) => refused("the answer is not that of an ingest endpoint: see the URL".to_owned()),
    }
}

/// What goes wrong on the way is tried again: it tells nothing about the batch.
fn retry(cause: ureq::Error) -> SendError {
    SendError::Retry { after: None, cause: cause.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_acknowledgement_has_a_number_of_accepted_and_nothing_skipped() {
        for body in [r#"{"accepted":3,"skipped":0}"#, r#" {"skipped":0,"accepted":0,"more":[]} "#] {
            assert_eq!(acknowledged(body.as_bytes()), Ok(()), "{body}");
        }
        for body in [
            "",
            "<html>",
            "{}",
            "[]",
            "null",
            r#"{"accepted":3}"#,
            r#"{"skipped":0}"#,
            r#"{"accepted":"3","skipped":0}"#,
            r#"{"accepted":-3,"skipped":0}"#,
            r#"{"accepted":null,"skipped":0}"#,
            r#"{"accepted":3,"skipped":"0"}"#,
            r#"{"accepted":2,"skipped":1}"#,
            r#"{"accepted":3,"skipped":0} <html>"#,
        ] {
            assert!(matches!(acknowledged(body.as_bytes()), Err(SendError::Refused { .. })), "{body}");
        }
    }

    #[test]
    fn a_key_is_read_from_a_file_of_its_owner_alone_and_shows_itself_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let write = |content: &str, mode| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        write("made-up-key\n", 0o600);
        let key = ApiKey::from_file(&path).unwrap();
        assert_eq!(key.read().unwrap(), "made-up-key");
        write("another-key\n", 0o600);
        assert_eq!(key.read().unwrap(), "another-key", "a new one needs no new start");
        for key in [key, ApiKey::new("made-up-key").unwrap()] {
            let options = IngestOptions::new(ReceiverUrl::parse("http://127.0.0.1:1").unwrap(), key);
            let shown = format!("{options:?} {:?}", Ingest::new(options.clone()).unwrap());
            assert!(!shown.contains("-key"), "{shown}");
        }
        for (content, mode) in [("made-up-key", 0o640), ("made-up-key", 0o604), ("", 0o600), ("made up key", 0o600)] {
            write(content, mode);
            let why = ApiKey::from_file(&path).unwrap_err();
            assert!(why.contains(path.to_str().unwrap()) && !why.contains("made"), "{why}");
        }
        assert!(ApiKey::from_file(directory.path()).is_err());
    }

    #[test]
    fn a_key_travels_encrypted_or_not_at_all() {
        let ingest = |url| {
            let options = IngestOptions::new(ReceiverUrl::parse(url).unwrap(), ApiKey::new("made-up-key").unwrap());
            Ingest::new(options).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(ingest("http://[::1]:1/events"), Ok(()));
        let why = ingest("http://a.example/events").unwrap_err();
        assert!(why.contains("http://a.example/events") && why.contains("use https"), "{why}");
    }
}
