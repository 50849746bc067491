//! What must be there before an address is served.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio_rustls::TlsAcceptor;

use super::access::Access;
use super::{GatewayError, Tls};

/// Who may talk to the gateway, and how. Without any of it: whoever reaches its loopback addresses, in the clear.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    /// A file with tokens, one a line, of which a request must show one as `Authorization: Bearer TOKEN`. Nobody but the
    /// user of this process may be able to read it.
    pub auth_token_file: Option<PathBuf>,
    /// Whether addresses other than loopback may be served without tokens or certificates of clients: whoever reaches
    /// them can write events.
    pub insecure_no_auth: bool,
    /// How connections are encrypted, and whether clients must show certificates.
    pub tls: Option<Tls>,
}

impl Guards {
    /// Reads the files, and looks whether the addresses may be served.
    ///
    /// # Errors
    /// Which file is of no use, or which address others could write to unasked.
    #[cfg(feature = "cli")]
    pub(crate) fn check(&self, addresses: impl IntoIterator<Item = SocketAddr>) -> Result<(), GatewayError> {
        self.load(addresses).map(|_| ())
    }

    pub(super) fn load(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<(Access, Option<TlsAcceptor>), GatewayError> {
        let shows_certificates = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        let access = Access::load(self.auth_token_file.as_deref(), shows_certificates)?;
        let tls = self.tls.as_ref().map(Tls::load).transpose()?;
        for address in addresses {
            if address.ip().to_canonical().is_loopback() {
                continue;
            }
            if access.is_open() && !self.insecure_no_auth {
                return Err(GatewayError::Unguarded(address));
            }
            if access.is_open() {
                tracing::warn!("{address} is open: whoever reaches it can write events");
            } else if tls.is_none() {
                tracing::warn!("tokens travel to {address} in the clear: use TLS unless something in front of it does");
            }
        }
        Ok((access, tls))
    }
}
