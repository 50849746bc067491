//! Who may talk to the gateway.

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use opentelemetry_failproof::gateway::{Gateway, Options};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::Code;

use crate::server::{Collected, JSON, PROTOBUF, Reply, Server, channel};
use crate::{expected, recording, request};

/// A file that only we may read.
pub fn private(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    set_mode(&path, 0o600);
    path
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// What starting says, if it fails.
pub fn bind(address: impl Into<SocketAddr>, change: impl FnOnce(&mut Options)) -> Result<(), String> {
    let data = tempfile::tempdir().unwrap();
    let mut options = Options::new(Box::new(Collected::default()), data.path());
    (options.grpc, options.http) = (Some(address.into()), None);
    change(&mut options);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(Gateway::bind(options)).map(|_| ()).map_err(|error| error.to_string())
}

fn export(server: &Server, name: &'static str, value: &str) -> Result<(), tonic::Status> {
    let mut request = tonic::Request::new(request());
    request.metadata_mut().insert(name, value.parse().unwrap());
    server
        .runtime
        .block_on(async { TraceServiceClient::new(channel(server.grpc).await).export(request).await.map(|_| ()) })
}

impl Server {
    fn with_tokens(tokens: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = private(folder.path(), "tokens", tokens);
        Server::start_with(|options| options.guards.auth_token_file = Some(file))
    }

    /// Sends a request as it stands there.
    fn send(&self, text: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        Reply::read(&mut BufReader::new(stream))
    }
}

#[test]
fn an_address_that_others_reach_needs_tokens_or_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = private(folder.path(), "tokens", "a-token\n");
    for address in ["0.0.0.0:0", "[::]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let error = bind(address, |_| {}).unwrap_err();
        assert!(error.starts_with(&format!("{address} can be reached by others")), "{error}");
        assert!(error.contains("--auth-token-file") && error.contains("--insecure-no-auth"), "{error}");
        bind(address, |options| options.guards.insecure_no_auth = true).unwrap();
        bind(address, |options| options.guards.auth_token_file = Some(tokens.clone())).unwrap();
    }
    for address in ["127.0.0.1:0", "127.3.2.1:0", "[::1]:0"] {
        bind(address.parse::<SocketAddr>().unwrap(), |_| {}).unwrap();
    }
    let error = bind(([127, 0, 0, 1], 0), |options| options.http = Some(([0, 0, 0, 0], 0).into())).unwrap_err();
    assert!(error.starts_with("0.0.0.0:0 can be reached"), "both addresses are looked at: {error}");
}

#[test]
fn a_token_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = private(folder.path(), "tokens", "a-token\n");
    let start = || bind(([127, 0, 0, 1], 0), |options| options.guards.auth_token_file = Some(file.clone()));
    for mode in [0o600, 0o400] {
        set_mode(&file, mode);
        start().unwrap();
    }
    for mode in [0o644, 0o604, 0o660, 0o602] {
        set_mode(&file, mode);
        let error = start().unwrap_err();
        assert!(error.starts_with(&format!("{} cannot be the file of tokens: ", file.display())), "{error}");
        assert!(error.ends_with(&format!("(mode {mode:04o}); chmod it to 0600")), "{error}");
    }
    private(folder.path(), "tokens", "\n\n");
    assert!(start().unwrap_err().contains("it has no token; write one on a line"));
    private(folder.path(), "tokens", "a-token\nanother one\n");
    assert!(start().unwrap_err().contains("line 2 is no token"));
    std::fs::remove_file(&file).unwrap();
    assert!(start().unwrap_err().contains("No such file"));
}

#[test]
fn whoever_shows_a_token_is_served_over_both_transports() {
    let server = Server::with_tokens("old-token\nnew-token\n");
    let post = |authorization: &str| {
        server.ask("POST /v1/traces", &format!("Content-Type: {JSON}\r\n{authorization}"), &recording())
    };
    for wrong in [
        "",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer new-toke\r\n",
        "Authorization: Bearer new-token1\r\n",
        "Authorization: Bearer old-token new-token\r\n",
        "Authorization: Basic new-token\r\n",
        "Authorization: new-token\r\n",
        "Authorization: Bearer new-token\r\nAuthorization: Bearer new-token\r\n",
    ] {
        let reply = post(wrong);
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{wrong:?}");
        assert_eq!((reply.content_type(), &reply.json()["code"]), (JSON, &(Code::Unauthenticated as i32).into()));
        assert_eq!(reply.header("retry-after"), None, "the same again would not help");
    }
    assert_eq!(server.export(&request()).unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(export(&server, "authorization", "Bearer x").unwrap_err().code(), Code::Unauthenticated);
    for path in ["/metrics", "/anything"] {
        assert_eq!(server.ask(&format!("GET {path}"), "", b"").status, 401, "{path}");
    }
    assert_eq!(server.ask("GET /healthz", "", b"").status, 200);

    for token in ["old-token", "new-token"] {
        assert_eq!(post(&format!("Authorization: Bearer {token}\r\n")).status, 200);
        assert_eq!(post(&format!("authorization: bearer {token}\r\n")).status, 200);
        export(&server, "authorization", &format!("Bearer {token}")).unwrap();
    }
    let (lines, summary) = server.stop();
    assert_eq!((lines, summary.requests, summary.refused), (expected(), 6, 12));
}

#[test]
fn the_body_of_whoever_shows_no_token_is_not_waited_for() {
    let server = Server::with_tokens("a-token\n");
    // Neither sends its body, and is answered all the same, without being asked for it.
    for head in ["Content-Length: 10\r\nExpect: 100-continue\r\n", "Content-Length: 60000000\r\n"] {
        let text = format!("POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\n{head}\r\n");
        let mut reader = BufReader::new(server.connect());
        reader.get_mut().write_all(text.as_bytes()).unwrap();
        let reply = Reply::read(&mut reader);
        assert_eq!((reply.status, reply.content_type(), reply.header("connection")), (401, PROTOBUF, Some("close")));
        assert_eq!(reader.read(&mut [0]).unwrap_or(0), 0, "closed");
    }
    server.stop();
}

#[test]
fn a_web_page_is_refused_whatever_it_asks_for() {
    let server = Server::start();
    let body = String::from_utf8(recording()).unwrap();
    let head = format!("Content-Type: {JSON}\r\nContent-Length: {}\r\n", body.len());
    for text in [
        format!("POST /v1/traces HTTP/1.1\r\nHost: {}\r\nOrigin: https://a.example\r\n{head}\r\n{body}", server.http),
        format!("POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n{head}\r\n{body}"),
        format!("POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n{head}\r\n{body}"),
        "OPTIONS /v1/traces HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\n\
         Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
            .to_owned(),
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\n\r\n".to_owned(),
        // A name of its own that it has made to point here.
        "GET /metrics HTTP/1.1\r\nHost: a.example:4318\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: a.example\r\n\r\n".to_owned(),
        "GET http://a.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        format!("POST /v1/traces HTTP/1.1\r\nHost: a.example\r\n{head}\r\n{body}"),
    ] {
        let reply = server.send(&text);
        assert_eq!((reply.status, &reply.json()["code"]), (403, &(Code::PermissionDenied as i32).into()), "{text}");
        assert!(!reply.has_header_of("access-control-"), "{text}");
    }
    assert_eq!(export(&server, "origin", "https://a.example").unwrap_err().code(), Code::PermissionDenied);
    for host in ["localhost", "LOCALHOST:4318", "127.0.0.1", "[::1]:4318", "gateway", "host.docker.internal:4318"] {
        let text = format!("POST /v1/traces HTTP/1.1\r\nHost: {host}\r\n{head}\r\n{body}");
        assert_eq!(server.send(&text).status, 200, "{host}");
    }
    assert_eq!(server.stop().0, expected());

    // With tokens a page gets nowhere by whatever name, and names are free.
    let server = Server::with_tokens("a-token\n");
    let text =
        format!("POST /v1/traces HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer a-token\r\n{head}\r\n{body}");
    assert_eq!(server.send(&text).status, 200);
    assert_eq!(server.send(&text.replace("a.example\r\n", "a.example\r\nOrigin: null\r\n")).status, 403);
    server.stop();
}
