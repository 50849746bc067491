//! HTTPS: a receiver that cannot show who it is never sees a request.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use opentelemetry_failproof::sink::{ApiKey, Batch, Ingest, IngestOptions, ReceiverUrl, SendError, Sender};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::KEY;

/// An endpoint with a certificate of its own, which accepts everything; what it is sent, decrypted.
fn start(certificate: &CertifiedKey<rcgen::KeyPair>) -> (String, Arc<Mutex<Vec<u8>>>) {
    let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.cert.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/v1/events", listener.local_addr().unwrap().port());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = seen.clone();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let tls = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(tls, connection.unwrap());
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                let mut seen = seeing.lock().unwrap();
                seen.extend_from_slice(&bytes[..count]);
                if seen.ends_with(b"{\"n\":1}\n") {
                    let body = r#"{"accepted":1,"skipped":0}"#;
                    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                }
            }
        }
    });
    (url, seen)
}

fn ingest(url: &str, pem: &str) -> Ingest {
    let directory = tempfile::tempdir().unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    let mut options = IngestOptions::new(ReceiverUrl::parse(url).unwrap(), ApiKey::new(KEY).unwrap());
    options.timeout = Duration::from_secs(10);
    options.ca_file = Some(ca_file);
    Ingest::new(options).unwrap()
}

#[test]
fn the_ca_file_says_who_is_trusted() {
    let certificate = || generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (ours, other) = (certificate(), certificate());
    let (url, seen) = start(&ours);
    let batch = Batch::new("batch", "{\"n\":1}\n");

    let error = ingest(&url, &other.cert.pem()).send(&batch).unwrap_err();
    assert!(matches!(&error, SendError::Retry { cause, .. } if cause.contains("certificate")), "{error:?}");
    assert!(seen.lock().unwrap().is_empty(), "nothing is sent to a stranger");

    ingest(&url, &ours.cert.pem()).send(&batch).unwrap();
    assert!(String::from_utf8(seen.lock().unwrap().clone()).unwrap().contains(&format!("Bearer {KEY}")));
}
