//! Where log records go, and how: what is said by hand, then `OTEL_EXPORTER_OTLP_LOGS_*`, then `OTEL_EXPORTER_OTLP_*`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::super::ReceiverUrl;

/// The port of OTLP/gRPC; any other is taken for HTTP, unless a variable says what it is.
const GRPC_PORT: u16 = 4_317;
/// Where OTLP/HTTP takes logs, where a URL names no more than a host.
const HTTP_PATH: &str = "/v1/logs";
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How log records travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP/gRPC.
    Grpc,
    /// OTLP/HTTP with protobuf.
    HttpProtobuf,
}

/// What an [`OtlpLogs`](super::OtlpLogs) is made of. Start from [`OtlpLogsOptions::from_env`] and change what shall differ.
#[derive(Clone)]
#[non_exhaustive]
pub struct OtlpLogsOptions {
    /// The receiver, with the path for HTTP.
    pub url: ReceiverUrl,
    /// How records travel.
    pub protocol: Protocol,
    /// What goes with every request, such as a key; shown to nobody else.
    pub headers: Vec<(String, String)>,
    /// The certificates to trust; those that the system trusts by default.
    pub ca_file: Option<PathBuf>,
    /// Whether requests are compressed with gzip.
    pub gzip: bool,
    /// How long a request may take. 10 seconds by default.
    pub timeout: Duration,
}

impl OtlpLogsOptions {
    /// What the variables of the process say for a receiver: `…_PROTOCOL`, `…_HEADERS`, `…_CERTIFICATE`, `…_COMPRESSION`
    /// and `…_TIMEOUT`. Without a protocol, port 4317 is gRPC and any other HTTP. A URL that names no path gets `/v1/logs`
    /// for HTTP.
    ///
    /// # Errors
    /// Which variable can't be kept, without its value.
    pub fn from_env(url: &ReceiverUrl) -> Result<Self, String> {
        Self::from_variables(url, &|name| std::env::var(name).ok())
    }

    /// The same with variables from anywhere.
    ///
    /// # Errors
    /// As above.
    pub fn from_variables(url: &ReceiverUrl, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let find = |name: &str| find(name, variable);
        let protocol = match find("PROTOCOL") {
            None if url.port() == Some(GRPC_PORT) => Protocol::Grpc,
            None => Protocol::HttpProtobuf,
            Some((_, value)) if value == "grpc" => Protocol::Grpc,
            Some((_, value)) if value == "http/protobuf" => Protocol::HttpProtobuf,
            Some((name, _)) => return Err(format!("{name} is neither grpc nor http/protobuf")),
        };
        let gzip = match find("COMPRESSION") {
            None => false,
            Some((_, value)) if value == "none" => false,
            Some((_, value)) if value == "gzip" => true,
            Some((name, _)) => return Err(format!("{name} is neither gzip nor none")),
        };
        let timeout = match find("TIMEOUT") {
            None => DEFAULT_TIMEOUT,
            Some((name, value)) => match value.parse() {
                Ok(milliseconds @ 1..) => Duration::from_millis(milliseconds),
                _ => return Err(format!("{name} is no number of milliseconds")),
            },
        };
        let headers = match find("HEADERS") {
            None => Vec::new(),
            Some((name, value)) => {
                headers(&value).ok_or_else(|| format!("{name} is no list of name=value, with commas between"))?
            }
        };
        let url = match protocol {
            Protocol::HttpProtobuf if !url.has_path() => {
                ReceiverUrl::parse(&format!("{}{HTTP_PATH}", url.as_str().trim_end_matches('/')))?
            }
            _ => url.clone(),
        };
        let ca_file = find("CERTIFICATE").map(|(_, path)| path.into());
        Ok(OtlpLogsOptions { url, protocol, headers, ca_file, gzip, timeout })
    }
}

impl fmt::Debug for OtlpLogsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("OtlpLogsOptions")
            .field("url", &self.url)
            .field("protocol", &self.protocol)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The receiver that the variables name: `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT` as it is, else `OTEL_EXPORTER_OTLP_ENDPOINT`,
/// below which HTTP has a path for logs, else this machine.
///
/// # Errors
/// What is wrong with it.
pub(in crate::sink) fn endpoint(variable: &dyn Fn(&str) -> Option<String>) -> Result<ReceiverUrl, &'static str> {
    let (name, url) = match find("ENDPOINT", variable) {
        Some((name, text)) => (name, ReceiverUrl::parse(&text)?),
        None => return ReceiverUrl::parse(DEFAULT_ENDPOINT),
    };
    let is_grpc = find("PROTOCOL", variable).is_some_and(|(_, protocol)| protocol == "grpc");
    match url.has_path() && !is_grpc && !name.contains("LOGS") {
        true => ReceiverUrl::parse(&format!("{}{HTTP_PATH}", url.as_str().trim_end_matches('/'))),
        false => Ok(url),
    }
}

/// The variable for logs, else the one for all signals, and its value. A blank one counts as unset.
fn find(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<(String, String)> {
    ["OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_"].into_iter().find_map(|prefix| {
        let name = format!("{prefix}{name}");
        let value = variable(&name)?.trim().to_owned();
        (!value.is_empty()).then_some((name, value))
    })
}

/// `name=value,name=value`, the values percent-encoded.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let is_fit = !value.chars().any(char::is_control) && value.is_ascii();
        let name = name.trim().to_ascii_lowercase();
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        (is_fit && is_name && !name.is_empty()).then(|| (name, value.into_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str, variables: &[(&str, &str)]) -> Result<OtlpLogsOptions, String> {
        let value = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        OtlpLogsOptions::from_variables(&ReceiverUrl::parse(url).unwrap(), &value)
    }

    #[test]
    fn the_port_says_the_protocol_unless_a_variable_does() {
        for (url, protocol, expected, full) in [
            ("http://localhost:4317", "", Protocol::Grpc, "http://localhost:4317"),
            ("http://localhost:4318", "", Protocol::HttpProtobuf, "http://localhost:4318/v1/logs"),
            ("https://a.example/", "", Protocol::HttpProtobuf, "https://a.example/v1/logs"),
            ("https://a.example/otlp/v1/logs", "", Protocol::HttpProtobuf, "https://a.example/otlp/v1/logs"),
            ("https://a.example", "grpc", Protocol::Grpc, "https://a.example"),
            ("http://localhost:4317", "http/protobuf", Protocol::HttpProtobuf, "http://localhost:4317/v1/logs"),
        ] {
            let options = options(url, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]).unwrap();
            assert_eq!((options.protocol, options.url.as_str()), (expected, full), "{url}");
        }
    }

    #[test]
    fn what_is_said_for_logs_comes_before_what_is_said_for_all() {
        let options = options(
            "http://localhost:4318",
            &[
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
                ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "250"),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
                ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", " "),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=made%20up%3D, x=1 ,"),
            ],
        )
        .unwrap();
        assert_eq!((options.timeout, options.gzip), (Duration::from_millis(250), true));
        assert_eq!(options.ca_file, Some("/ca.pem".into()));
        let expected = [("api-key", "made up="), ("x", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(options.headers, expected);
        assert!(!format!("{options:?}").contains("made"), "{options:?}");
    }

    #[test]
    fn the_variables_can_name_the_receiver() {
        for (variables, expected) in [
            (&[][..], Some("http://localhost:4318")),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a.example")], Some("https://a.example")),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a.example/otlp/")], Some("https://a.example/otlp/v1/logs")),
            (&[("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://a.example/x")], Some("https://a.example/x")),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "a.example")], None),
        ] {
            let value =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let found = endpoint(&value).ok();
            assert_eq!(found.as_ref().map(ReceiverUrl::as_str), expected, "{variables:?}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_kept_is_named_without_its_value() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "zstd-secret"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=secret%0d%0a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a key=secret"),
        ] {
            let why = options("http://localhost:4318", &[(name, value)]).unwrap_err();
            assert!(why.contains(name) && !why.contains("secret"), "{why}");
        }
    }
}
