//! Who may talk to the gateway: whoever reaches a loopback address and is no web page, else whoever shows a token or a
//! certificate.
//!
//! A browser runs anybody's programs. They reach loopback addresses too, and would write events if we let them: what
//! has an `Origin` is refused, and every request of a page that could carry spans has one. A page may also have its own
//! name point at this machine, so that a browser takes the gateway for a part of that site ("DNS rebinding"): where no
//! token is needed, a `Host` that the public DNS could have made point here is refused.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Request};
use subtle::{Choice, ConstantTimeEq};

use super::http::{HEALTH, READY};
use super::refused::{Refused, shorten};
use super::secret;
use super::{GatewayError, http};
use crate::secret::tokens;

/// What may be asked without a token: whether the gateway is alive and whether it is ready, which supervisors ask.
const OPEN: [&str; 2] = [HEALTH, READY];

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub peer: SocketAddr,
    /// Whether it came in by a loopback address.
    pub is_local: bool,
}

/// What a request must have to be looked at.
pub(super) struct Access {
    /// Any of these, if there are any.
    tokens: Vec<String>,
    /// Whether every connection has shown a certificate before.
    has_certificate: bool,
}

impl Access {
    /// Reads the tokens: one a line, so that a new one can be handed out before the old one goes.
    ///
    /// # Errors
    /// If others can read the file, or it has no token.
    pub fn load(file: Option<&Path>, has_certificate: bool) -> Result<Self, GatewayError> {
        let tokens = match file {
            None => Vec::new(),
            Some(path) => {
                let text = secret::read(path, PURPOSE)?;
                tokens(&text).map_err(|problem| GatewayError::File { path: path.into(), purpose: PURPOSE, problem })?
            }
        };
        Ok(Access { tokens, has_certificate })
    }

    /// Whether everybody who can connect may write.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && !self.has_certificate
    }

    /// Whether tokens travel.
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether a request may be looked at.
    pub fn check<B>(&self, request: &Request<B>, is_local: bool) -> Result<(), Refused> {
        let headers = request.headers();
        if headers.contains_key(ORIGIN) {
            return Err(Refused::Origin { found: shorten(&http::text(headers, ORIGIN)) });
        }
        if is_local && self.is_open() {
            check_host(request)?;
        }
        if self.has_tokens() && !OPEN.contains(&request.uri().path()) && !self.has_token(headers) {
            return Err(Refused::Token);
        }
        Ok(())
    }

    /// Takes as long for a wrong token as for a right one.
    fn has_token(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).into_iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, token)) = value.as_bytes().split_at_checked("Bearer ".len()) else { return false };
        let same = self.tokens.iter().fold(Choice::from(0), |same, known| same | known.as_bytes().ct_eq(token));
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(same)
    }
}

const PURPOSE: &str = "the file of tokens";

/// Whether the names by which a client calls us are addresses or names that no site can have.
fn check_host<B>(request: &Request<B>) -> Result<(), Refused> {
    let named = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let headers = request.headers().get_all(HOST).into_iter();
    let headers = headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match named.into_iter().chain(headers).find(|name| !is_private_name(name)) {
        Some(found) => Err(Refused::Host { found: shorten(&found) }),
        None => Ok(()),
    }
}

/// Names without a dot, and those below `localhost` and `internal`, are in nobody's public DNS.
fn is_private_name(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let name = host.strip_suffix('.').unwrap_or(&host);
    host.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || [".localhost", ".internal"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_site_can_have_are_private() {
        for host in [
            "127.0.0.1:4318",
            "[::1]:4318",
            "[::1]",
            "10.0.0.7",
            "localhost",
            "LocalHost:4318",
            "localhost.",
            "gateway:4317",
            "a.localhost",
            "host.docker.internal:4318",
        ] {
            assert!(is_private_name(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:4318",
            "evil.example.:4318",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost.co",
            "",
            "a b",
            "localhost, evil.example",
        ] {
            assert!(!is_private_name(host), "{host}");
        }
    }
}
