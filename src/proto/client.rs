//! Clients of a gateway's `EventService`: where it is, and as whom it is asked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::event_service_client::EventServiceClient;
use crate::secret;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the gateway is asked whether it still lives, and how long it may take to say
/// so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// What comes back: answers tell of a thousand events, and an event has a few megabytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A gateway, as its clients see it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    endpoint: Endpoint,
    token_file: Option<PathBuf>,
}

impl Remote {
    /// A gateway at `http://host:port` or `https://host:port`. The first token in `token_file` goes with every request; the
    /// certificates in `ca_file` are trusted instead of those that the system trusts.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn new(url: &str, token_file: Option<&Path>, ca_file: Option<&Path>) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| format!("{url:?} is no URL"))?;
        let is_https = match endpoint.uri().scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(format!("{url:?} is no URL: write http://HOST:PORT or https://HOST:PORT")),
        };
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .keep_alive_while_idle(true);
        let endpoint = if is_https { with_tls(endpoint, ca_file)? } else { endpoint };
        if token_file.is_some() && !is_https && !is_loopback(endpoint.uri().host().unwrap_or_default()) {
            return Err(format!("{url}: the token would travel unencrypted: use https"));
        }
        let remote = Remote { endpoint, token_file: token_file.map(Path::to_owned) };
        remote.token()?;
        Ok(remote)
    }

    /// A client that connects when it is used first. Within a runtime.
    pub fn client(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.endpoint.connect_lazy()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// A request with the token that the file has now.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn request<T>(&self, message: T) -> Result<Request<T>, String> {
        let mut request = Request::new(message);
        if let Some(token) = self.token()? {
            request.metadata_mut().insert("authorization", token);
        }
        Ok(request)
    }

    fn token(&self) -> Result<Option<MetadataValue<Ascii>>, String> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let read = || {
            let tokens = secret::tokens(&secret::read(path)?)?;
            let token = tokens.first().map(String::as_str).unwrap_or_default();
            let mut value: MetadataValue<Ascii> =
                format!("Bearer {token}").parse().map_err(|_| "its token cannot stand in a header".to_owned())?;
            value.set_sensitive(true);
            Ok(value)
        };
        read()
            .map(Some)
            .map_err(|problem: String| format!("{} cannot be the file of a token: {problem}", path.display()))
    }
}

fn with_tls(endpoint: Endpoint, ca_file: Option<&Path>) -> Result<Endpoint, String> {
    let config = match ca_file {
        None => ClientTlsConfig::new().with_native_roots(),
        Some(path) => {
            let wrong = |problem: &str| format!("{} cannot be the file of authorities: {problem}", path.display());
            let pem = secret::read_public(path).map_err(|problem| wrong(&problem))?;
            if !pem.windows(27).any(|text| text == b"-----BEGIN CERTIFICATE-----") {
                return Err(wrong("it has no certificate in PEM"));
            }
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
    };
    endpoint.tls_config(config).map_err(|error| format!("TLS cannot be set up: {error}"))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_travels_encrypted_or_on_this_machine_and_shows_itself_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "made-up-token\nolder\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        for url in ["http://127.0.0.1:4317", "http://[::1]:4317", "http://localhost:1", "https://a.example"] {
            let remote = Remote::new(url, Some(&file), None).unwrap();
            let request = remote.request(()).unwrap();
            assert_eq!(request.metadata().get("authorization").unwrap().to_str().unwrap(), "Bearer made-up-token");
            assert!(!format!("{remote:?} {request:?}").contains("made-up"), "{request:?}");
        }
        let error = Remote::new("http://a.example:4317", Some(&file), None).unwrap_err();
        assert_eq!(error, "http://a.example:4317: the token would travel unencrypted: use https");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let error = Remote::new("https://a.example", Some(&file), None).unwrap_err();
        assert!(error.contains("token") && error.contains("chmod"), "{error}");
    }

    #[test]
    fn what_is_no_address_is_told() {
        for url in ["", "127.0.0.1:4317", "ftp://a.example", "http://", "http://a b"] {
            let error = Remote::new(url, None, None).unwrap_err();
            assert!(error.contains("is no URL"), "{error}");
        }
        let error = Remote::new("https://a.example", None, Some(Path::new("/nowhere/ca.pem"))).unwrap_err();
        assert!(error.starts_with("/nowhere/ca.pem cannot be the file of authorities: "), "{error}");
    }
}
