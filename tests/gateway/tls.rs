//! TLS, with certificates made on the spot.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opentelemetry_failproof::gateway::{Options, Tls};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::access::{bind, private, set_mode};
use crate::server::{JSON, Server};
use crate::{expected, recording, request};

/// An authority, and whom it vouches for.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key in PEM.
struct Certified {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn certify(&self, name: &str) -> Certified {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Certified { certificate, key: key.serialize_pem() }
    }
}

impl Certified {
    fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate, &self.key)
    }
}

/// The gateway's files in a folder.
fn files(folder: &Path, certified: &Certified, clients: Option<&Authority>) -> Tls {
    Tls {
        certificate: private(folder, "tls.crt", &certified.certificate),
        key: private(folder, "tls.key", &certified.key),
        client_ca: clients.map(|authority| private(folder, "clients.crt", &authority.pem())),
    }
}

fn start(authority: &Authority, clients: Option<&Authority>, change: impl FnOnce(&mut Options)) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let tls = files(folder.path(), &authority.certify("localhost"), clients);
    Server::start_with(|options| {
        options.guards.tls = Some(tls);
        change(options);
    })
}

/// Exports by tonic, which trusts `authority` and shows `identity`.
fn export(server: &Server, authority: &Authority, identity: Option<&Certified>) -> Result<(), String> {
    let mut tls =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem())).domain_name("localhost");
    if let Some(identity) = identity {
        tls = tls.identity(identity.identity());
    }
    let endpoint = Endpoint::from_shared(format!("https://{}", server.grpc)).unwrap().tls_config(tls).unwrap();
    server.runtime.block_on(async {
        let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
        TraceServiceClient::new(channel).export(request()).await.map(|_| ()).map_err(|status| format!("{status:?}"))
    })
}

/// Posts over HTTP/1.1; what comes back, as text.
fn post(server: &Server, authority: &Authority, identity: Option<&Certified>) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let body = recording();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {JSON}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    server.runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.http).await?;
        let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    })
}

#[test]
fn both_transports_are_served_over_tls() {
    let authority = Authority::new();
    let server = start(&authority, None, |_| {});
    export(&server, &authority, None).unwrap();
    assert!(post(&server, &authority, None).unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    // Whoever trusts somebody else does not talk to us, and whoever speaks in the clear gets no answer.
    assert!(export(&server, &Authority::new(), None).is_err());
    let mut clear = server.connect();
    clear.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut clear, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let (lines, summary) = server.stop();
    assert_eq!((lines, summary.requests), (expected(), 2));
}

#[test]
fn with_an_authority_for_clients_each_must_show_its_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = start(&authority, Some(&clients), |_| {});
    let (good, foreign) = (clients.certify("collector"), authority.certify("collector"));
    for wrong in [None, Some(&foreign)] {
        assert!(export(&server, &authority, wrong).is_err());
        assert!(post(&server, &authority, wrong).is_err());
    }
    export(&server, &authority, Some(&good)).unwrap();
    assert!(post(&server, &authority, Some(&good)).unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    let (lines, summary) = server.stop();
    assert_eq!((lines, summary.requests, summary.refused), (expected(), 2, 0));
}

#[test]
fn certificates_of_clients_guard_an_address_that_others_reach_and_tls_alone_does_not() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let mut tls = files(folder.path(), &authority.certify("localhost"), Some(&authority));
    let start = |tls: &Tls| bind(([0, 0, 0, 0], 0), |options| options.guards.tls = Some(tls.clone()));
    start(&tls).unwrap();
    tls.client_ca = None;
    assert!(start(&tls).unwrap_err().contains("can be reached by others"));
}

#[test]
fn a_handshake_that_does_not_end_ends_its_connection() {
    let authority = Authority::new();
    let server = start(&authority, None, |options| options.read_timeout = std::time::Duration::from_millis(300));
    // The beginning of a hello, and nothing at all.
    for start in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b""] {
        let mut slow = server.connect();
        slow.write_all(start).unwrap();
        let _ = std::io::Read::read_to_end(&mut slow, &mut Vec::new());
    }
    export(&server, &authority, None).unwrap();
    // One that is in the middle of it does not hold up the end.
    let _slow = server.connect();
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_file_that_is_of_no_use_is_named_with_what_is_wrong() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let good = files(folder.path(), &authority.certify("localhost"), Some(&authority));
    let start = |change: &dyn Fn(&mut Tls)| {
        let mut tls = good.clone();
        change(&mut tls);
        bind(([127, 0, 0, 1], 0), |options| options.guards.tls = Some(tls)).err().unwrap_or_default()
    };
    assert_eq!(start(&|_| {}), "");
    let empty = private(folder.path(), "empty", "");
    let rubbish = private(folder.path(), "rubbish", "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n");
    let other = private(folder.path(), "other", &authority.certify("localhost").key);
    let shown = private(folder.path(), "shown", &authority.certify("localhost").key);
    set_mode(&shown, 0o644);
    let missing = folder.path().join("missing");
    type Change<'a> = Box<dyn Fn(&mut Tls) + 'a>;
    let certificate = |path: &PathBuf| -> Change<'_> {
        let path = path.clone();
        Box::new(move |tls| tls.certificate = path.clone())
    };
    let key = |path: &PathBuf| -> Change<'_> {
        let path = path.clone();
        Box::new(move |tls| tls.key = path.clone())
    };
    let clients = |path: &PathBuf| -> Change<'_> {
        let path = path.clone();
        Box::new(move |tls| tls.client_ca = Some(path.clone()))
    };
    for (change, path, purpose, problem) in [
        (certificate(&missing), &missing, "the TLS certificate", "No such file"),
        (certificate(&empty), &empty, "the TLS certificate", "no certificate in PEM"),
        (certificate(&rubbish), &rubbish, "the TLS certificate", "no certificate in PEM"),
        (certificate(&other), &other, "the TLS certificate", "no certificate in PEM"),
        (key(&missing), &missing, "the TLS key", "No such file"),
        (key(&empty), &empty, "the TLS key", "no private key in PEM"),
        (key(&good.certificate), &good.certificate, "the TLS key", "no private key in PEM"),
        (key(&other), &other, "the TLS key", "key"),
        (key(&shown), &shown, "the TLS key", "others may use it (mode 0644); chmod it to 0600"),
        (clients(&empty), &empty, "the authorities of clients", "no certificate in PEM"),
    ] {
        let error = start(&change);
        assert!(error.starts_with(&format!("{} cannot be {purpose}: ", path.display())), "{error}");
        assert!(error.contains(problem), "{error}");
    }
}
