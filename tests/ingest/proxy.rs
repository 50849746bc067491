//! Proxies: the usual variables count, but never for a receiver on this machine, whose key would pass in clear text.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_failproof::sink::{ApiKey, Batch, Ingest, IngestOptions, ReceiverUrl, Sender};

use super::KEY;
use super::server::Server;

/// Tells the program where to send to.
const URL: &str = "PROXY_TEST_URL";

/// The program: sends one batch. Does nothing when it is run as a test.
#[test]
fn program() {
    let Ok(url) = std::env::var(URL) else { return };
    let mut options = IngestOptions::new(ReceiverUrl::parse(&url).unwrap(), ApiKey::new(KEY).unwrap());
    options.timeout = Duration::from_secs(2);
    let _ = Ingest::new(options).unwrap().send(&Batch::new("batch", "{\"n\":1}\n"));
}

fn send(url: &str, proxy: SocketAddr) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["proxy::program", "--exact", "--nocapture"]).env(URL, url);
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"] {
        program.env(name, format!("http://{proxy}"));
    }
    assert!(program.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap().status.success());
}

#[test]
fn a_proxy_is_asked_for_a_tunnel_and_sees_no_key() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let (seen, all_seen) = mpsc::channel();
    std::thread::spawn(move || {
        let mut connection = BufReader::new(proxy.accept().unwrap().0);
        let mut head = String::new();
        while connection.read_line(&mut head).unwrap() > 2 {}
        // Tunnelled or not, nothing else may come without TLS; the client gets no answer.
        let mut rest = Vec::new();
        let _ = connection.get_ref().set_read_timeout(Some(Duration::from_secs(10)));
        let _ = connection.read_to_end(&mut rest);
        seen.send((head, rest)).unwrap();
    });
    send("https://a.example/v1/events", address);
    let (head, rest) = all_seen.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(head.starts_with("CONNECT a.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(!head.contains(KEY) && rest.is_empty(), "{head}{rest:?}");
}

#[test]
fn a_receiver_on_this_machine_is_asked_without_a_proxy() {
    let (server, proxy) = (Server::start(), Server::start());
    send(&server.url(), proxy.address);
    assert_eq!(server.stored().len(), 1);
    assert_eq!(proxy.requests().len(), 0);
}
