//! Where a receiver is.

use std::fmt;
use std::net::IpAddr;

/// The URL of a receiver. It holds no secrets, so that it can be logged: no user, no query, no fragment.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ReceiverUrl {
    text: String,
    is_https: bool,
    is_loopback: bool,
    has_path: bool,
    port: Option<u16>,
}

impl ReceiverUrl {
    /// Reads `https://host:port/path`, or the same with `http`.
    ///
    /// # Errors
    /// What is wrong with it; the text itself is left out, for it may hold a secret.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (is_https, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            _ => return Err("a URL starts with https:// or http://"),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if rest.contains('@') {
            return Err("a URL must hold no user and no password, for it is logged");
        }
        if rest.contains(['?', '#']) {
            return Err("a URL must hold no query and no fragment, for it is logged");
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a URL holds visible ASCII characters alone");
        }
        let (host, port) = host_and_port(authority).ok_or("the URL's host or port cannot be read")?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback =
            host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let has_path = !path.trim_matches('/').is_empty();
        Ok(ReceiverUrl { text: text.to_owned(), is_https, is_loopback, has_path, port })
    }

    /// The URL as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Whether it names more than a host.
    pub fn has_path(&self) -> bool {
        self.has_path
    }

    /// The port, if it is named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    // The colons of an IPv6 address stand within brackets.
    let after_address = authority.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match authority[after_address..].find(':') {
        None => (authority, None),
        Some(at) => {
            let (host, port) = authority.split_at(after_address + at);
            (host, Some(port[1..].parse::<u16>().ok().filter(|port| *port != 0)?))
        }
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_and_where_it_leads() {
        for (text, https, loopback, path, port) in [
            ("https://a.example", true, false, false, None),
            ("https://a.example:8443/v1/events", true, false, true, Some(8443)),
            ("HTTP://LocalHost:1/", false, true, false, Some(1)),
            ("http://127.8.0.1", false, true, false, None),
            ("http://[::1]:4318", false, true, false, Some(4318)),
            ("http://[2001:db8::1]", false, false, false, None),
            ("http://localhost.a.example", false, false, false, None),
            ("http://128.0.0.1", false, false, false, None),
        ] {
            let url = ReceiverUrl::parse(text).unwrap();
            let found = (url.is_https(), url.is_loopback(), url.has_path(), url.port());
            assert_eq!(found, (https, loopback, path, port), "{text}");
            assert_eq!(url.to_string(), text);
        }
    }

    #[test]
    fn what_could_hold_a_secret_or_leads_nowhere_is_refused_and_not_repeated() {
        for text in [
            "",
            "a.example",
            "ftp://a.example",
            "https://",
            "https:///path",
            "https://:443",
            "https://a.example:0",
            "https://a.example:99999",
            "https://a.example:",
            "https://user:secret@a.example",
            "https://127.0.0.1/@secret",
            "https://a.example?key=secret",
            "https://a.example/#secret",
            "https://a.example/a b",
            "https://a.example/\r\nsecret: x",
        ] {
            let why = ReceiverUrl::parse(text).unwrap_err();
            assert!(!why.contains("secret"), "{text}");
        }
    }
}
