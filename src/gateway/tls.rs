//! TLS from files: a certificate for us, and authorities for those who must show one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::{GatewayError, secret};

/// Files in PEM, read when the gateway starts.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The gateway's certificate and those between it and its authority, in this order.
    pub certificate: PathBuf,
    /// The key of the certificate. Nobody else may be able to read it.
    pub key: PathBuf,
    /// Authorities for clients. With them every client must show a certificate that one of them vouches for.
    pub client_ca: Option<PathBuf>,
}

/// What clients are told that is spoken here, the better one first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file is of no use, and why.
    pub(super) fn load(&self) -> Result<TlsAcceptor, GatewayError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| fault(&self.certificate, CERTIFICATE)(error.to_string()))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let fault = fault(path, CLIENT_CA);
                let mut roots = RootCertStore::empty();
                for certificate in certificates(&secret::read_public(path, CLIENT_CA)?).map_err(&fault)? {
                    roots.add(certificate).map_err(|error| fault(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| fault(error.to_string()))?)
            }
        };
        let chain = certificates(&secret::read_public(&self.certificate, CERTIFICATE)?);
        let chain = chain.map_err(fault(&self.certificate, CERTIFICATE))?;
        let key = PrivateKeyDer::from_pem_slice(&secret::read(&self.key, KEY)?);
        let key = key.map_err(|error| fault(&self.key, KEY)(format!("no private key in PEM: {error}")))?;
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| fault(&self.key, KEY)(error.to_string()))?;
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
        Ok(Arc::new(config).into())
    }
}

fn fault(path: &Path, purpose: &'static str) -> impl Fn(String) -> GatewayError {
    move |problem| GatewayError::File { path: path.to_owned(), purpose, problem }
}

const CERTIFICATE: &str = "the TLS certificate";
const KEY: &str = "the TLS key";
const CLIENT_CA: &str = "the authorities of clients";

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("no certificate in PEM".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("no certificate in PEM: {error}")),
    }
}
