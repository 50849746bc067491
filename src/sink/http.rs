//! HTTP to a receiver: one client with the rules that all of them share.
//!
//! Redirects are not followed: what is sent would go to a host that nobody chose. A receiver on this machine is asked
//! without a proxy, which would see what is sent; any other is asked over TLS through the proxy that the usual variables
//! name (`ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`), which sees nothing but the host.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ureq::http::HeaderMap;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Proxy};

use super::ReceiverUrl;
use crate::secret;

/// How long the connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for a receiver. `timeout` bounds a whole exchange. Trusts the certificates in `ca_file`, or those that the
/// system trusts.
pub(super) fn client(url: &ReceiverUrl, ca_file: Option<&Path>, timeout: Duration) -> Result<Agent, String> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .https_only(url.is_https())
        .proxy(if url.is_loopback() { None } else { Proxy::try_from_env() })
        .timeout_connect(Some(CONNECT_TIMEOUT.min(timeout)))
        .timeout_global(Some(timeout))
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));
    let config = match url.is_https() {
        false => config,
        true => config.tls_config(
            TlsConfig::builder()
                .provider(TlsProvider::Rustls)
                // Named, because what else is compiled into the program may bring another.
                .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .root_certs(RootCerts::new_with_certs(&certificates(ca_file)?))
                .build(),
        ),
    };
    Ok(config.build().new_agent())
}

fn certificates(ca_file: Option<&Path>) -> Result<Vec<Certificate<'static>>, String> {
    let found: Vec<_> = match ca_file {
        Some(path) => {
            let wrong = |why: &str| format!("the CA file {}: {why}", path.display());
            let pem = secret::read_public(path).map_err(|why| wrong(&why))?;
            let items = parse_pem(&pem).collect::<Result<Vec<_>, _>>();
            let items = items.map_err(|_| wrong("it is no PEM file"))?;
            let found = items.into_iter().filter_map(|item| match item {
                PemItem::Certificate(certificate) => Some(certificate),
                _ => None,
            });
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                return Err(wrong("it holds no certificate"));
            }
            found
        }
        None => {
            let certificates = rustls_native_certs::load_native_certs().certs;
            certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    match found.is_empty() {
        true => Err("this system trusts no certificates: install its CA certificates, or name a CA file".to_owned()),
        false => Ok(found),
    }
}

/// The time that a receiver wants to be left alone: seconds, or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Option<Duration> {
        retry_after(&HeaderMap::from_iter([("retry-after".parse().unwrap(), text.parse().unwrap())]))
    }

    #[test]
    fn a_time_to_wait_is_seconds_or_a_date() {
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let in_an_hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3_600));
        assert!((3_500..=3_600).contains(&after(&in_an_hour).unwrap().as_secs()));
        for text in ["", "soon", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(after(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn a_ca_file_must_hold_a_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        let url = ReceiverUrl::parse("https://a.example").unwrap();
        let why = || client(&url, Some(&path), Duration::from_secs(1)).unwrap_err();
        assert!(why().contains("ca.pem"), "{}", why());
        for content in ["", "-----BEGIN CERTIFICATE-----\nnothing", "-----BEGIN X-----\nAAAA\n-----END X-----\n"] {
            std::fs::write(&path, content).unwrap();
            assert!(why().contains("ca.pem"), "{}", why());
        }
    }
}
