//! `EventService`: events in, once each; and out, as they are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use opentelemetry_failproof::gateway::Tls;
use opentelemetry_failproof::proto::event_service_client::EventServiceClient;
use opentelemetry_failproof::proto::subscribe_response::Message as Seen;
use opentelemetry_failproof::proto::{
    Event, ExportEventsRequest, ExportEventsResponse, Member, SubscribeRequest, SubscribeResponse,
};
use opentelemetry_failproof::sink::{
    Backoff, Batch, Grpc, GrpcOptions, Queue, QueueOptions, ReceiverUrl, SendError, Sender, Sink, SinkError,
};
use prost::Message;
use serde_json::{Value, json};
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status, Streaming};

use crate::server::{Collected, Server, channel};
use crate::{expected, request};

const EXPORT_EVENTS: &str = "/failproof.events.v1.EventService/Export";
const SUBSCRIBE: &str = "/failproof.events.v1.EventService/Subscribe";

fn event(change: impl FnOnce(&mut Value)) -> Event {
    let mut event = json!({
        "timestamp": "2026-01-02T03:04:05.678901Z", "session_id": "s", "agent_id": "a", "type": "tool_result",
        "tool_name": "bash", "tool_call_id": "1", "environment": "dev", "output": {"b": [1, 2.0], "a": null}, "fw_x": 1,
    });
    change(&mut event);
    Event::from_json(event.to_string().as_bytes()).unwrap()
}

fn numbered(number: usize) -> Event {
    event(|event| event["tool_call_id"] = number.to_string().into())
}

fn line(event: &Event) -> String {
    event.to_json().unwrap() + "\n"
}

fn export(server: &Server, events: Vec<Event>) -> Result<ExportEventsResponse, Status> {
    server.runtime.block_on(async {
        let mut client = EventServiceClient::new(channel(server.grpc).await).send_compressed(CompressionEncoding::Zstd);
        client.export(ExportEventsRequest { events }).await.map(tonic::Response::into_inner)
    })
}

fn reasons(response: &ExportEventsResponse) -> Vec<(u64, &str)> {
    response.rejected.iter().map(|rejected| (rejected.index, rejected.reason.as_str())).collect()
}

fn subscribe(server: &Server, request: SubscribeRequest) -> Result<Streaming<SubscribeResponse>, Status> {
    server.runtime.block_on(async {
        let mut client = EventServiceClient::new(channel(server.grpc).await);
        client.subscribe(request).await.map(tonic::Response::into_inner)
    })
}

fn next(server: &Server, stream: &mut Streaming<SubscribeResponse>) -> Result<Option<Seen>, Status> {
    let next = async { tokio::time::timeout(Duration::from_secs(60), stream.message()).await };
    server.runtime.block_on(next).expect("something comes").map(|response| response.and_then(|seen| seen.message))
}

fn next_line(server: &Server, stream: &mut Streaming<SubscribeResponse>) -> String {
    match next(server, stream) {
        Ok(Some(Seen::Event(event))) => line(&event),
        other => panic!("{other:?}"),
    }
}

#[test]
fn good_events_are_written_once_and_bad_ones_are_told_with_their_reasons() {
    let server = Server::start();
    let events = vec![
        numbered(1),
        event(|event| event["environment"] = "a,b".into()),
        event(|event| event["session_id"] = " ".into()),
        event(|event| event["duration_ms"] = (-1).into()),
        event(|event| drop(event.as_object_mut().unwrap().remove("tool_name"))),
        event(|event| event["type"] = "sk-ant-api03-aaaabbbbccccddddeeeeffff".into()),
        Event { extras: vec![Member { name: "session_id".to_owned(), value: None }], ..numbered(3) },
        numbered(2),
        numbered(1),
    ];
    let response = export(&server, events.clone()).unwrap();
    assert_eq!(
        reasons(&response),
        [
            (1, "environment \"a,b\" holds a comma, which Failproof does not store"),
            (2, "session_id must be text that is not blank"),
            (3, "duration_ms must be a whole number from 0 to 4294967295"),
            (4, "tool_name is missing"),
            (5, "\"[redacted:anthropic-key]\" is no type of event"),
            (6, "\"session_id\" stands twice in one object"),
        ]
    );
    assert_eq!(response.rejected_events, 6);
    // Again, in other company.
    let mut again = vec![numbered(4)];
    again.extend(events);
    assert_eq!(export(&server, again).unwrap().rejected_events, 6);
    let (lines, summary) = server.stop();
    assert_eq!(lines, [numbered(1), numbered(2), numbered(4)].iter().map(line).collect::<String>());
    assert_eq!((summary.events, summary.rejected_events, summary.refused), (3, 12, 0));
}

#[test]
fn what_comes_from_another_gateway_is_redacted_and_limited_again() {
    let server = Server::start();
    let event = event(|event| {
        event["output"] = vec!["x"; 300].into();
        event["error"] = "password=correct-horse-battery".into();
    });
    assert_eq!(export(&server, vec![event]).unwrap(), ExportEventsResponse::default());
    let (lines, _) = server.stop();
    assert!(!lines.contains("correct-horse") && lines.contains("[redacted:"), "{lines}");
    assert!(lines.contains("[200 more items truncated]") && lines.ends_with("\"fw_truncated\":true}\n"), "{lines}");
}

/// Fails as long as it is told to.
struct Failing(Arc<AtomicBool>, Collected);

impl Sink for Failing {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        match self.0.load(Ordering::SeqCst) {
            true => Err(SinkError::Stdout { source: std::io::ErrorKind::StorageFull.into() }),
            false => self.1.write(lines),
        }
    }

    fn describe(&self) -> String {
        "a full disk".to_owned()
    }
}

#[test]
fn what_the_sink_does_not_take_is_not_acknowledged_and_comes_once_in_the_end() {
    let fails = Arc::new(AtomicBool::new(true));
    let lines = Collected::default();
    let sink = Failing(fails.clone(), lines.clone());
    let server = Server::start_with(|options| options.sink = Box::new(sink));
    let events = vec![numbered(1), numbered(2)];
    let refused = export(&server, events.clone()).unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("could not be written: cannot write to standard output"), "{refused:?}");
    assert!(
        refused.details().windows(25).any(|text| text == b"google.rpc.RetryInfo\x12\x04\x0a\x02\x08"),
        "{refused:?}"
    );
    fails.store(false, Ordering::SeqCst);
    // The sink is left alone for a moment after it failed.
    while export(&server, events.clone()).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    server.stop();
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(lines, events.iter().map(line).collect::<String>());
}

#[test]
fn no_bytes_harm_it() {
    let server = Server::start();
    let call = |bytes: &[u8]| {
        server
            .call(EXPORT_EVENTS, None, Bytes::copy_from_slice(bytes))
            .map_err(|status| (status.code(), status.message().to_owned()))
    };
    let good = ExportEventsRequest { events: vec![numbered(1), numbered(2)] }.encode_to_vec();
    for cut in 1..good.len() {
        match call(&good[..cut]) {
            Err((code, message)) => {
                assert!(code == Code::InvalidArgument && message.contains(" at byte "), "{message}")
            }
            // One whole event.
            Ok(_) => assert!(cut < good.len() / 2 + 2),
        }
    }
    // Two bytes each: events without anything, and no answer of megabytes.
    let empty = [10, 0].repeat(65_537);
    assert_eq!(
        call(&empty),
        Err((Code::ResourceExhausted, "more than 65536 events in one request; send smaller batches".to_owned()))
    );
    let response = ExportEventsResponse::decode(call(&empty[..131_072]).unwrap()).unwrap();
    assert_eq!((response.rejected_events, response.rejected.len()), (65_536, 1_000));
    assert_eq!(response.rejected[0].reason, "timestamp is missing");
    assert_eq!(server.call(SUBSCRIBE, None, Bytes::from_static(&[0xff])).unwrap_err().code(), Code::InvalidArgument);
    for compression in [None, Some(CompressionEncoding::Gzip)] {
        let big = SubscribeRequest { session_id: Some("x".repeat(65_536)), ..SubscribeRequest::default() };
        let refused = server.call(SUBSCRIBE, compression, big.encode_to_vec().into()).unwrap_err();
        assert!(refused.code() == Code::ResourceExhausted && refused.message().contains("65536 bytes"), "{refused:?}");
    }
    let (lines, _) = server.stop();
    assert_eq!(lines, line(&numbered(1)));
}

#[test]
fn a_subscriber_sees_what_is_written_as_it_asked() {
    let server = Server::start_with(|options| options.timing.grace = Duration::ZERO);
    let mut all = subscribe(&server, SubscribeRequest::default()).unwrap();
    let types = vec!["agent_start".to_owned(), "agent_end".to_owned()];
    let mut some = subscribe(&server, SubscribeRequest { types, ..SubscribeRequest::default() }).unwrap();
    let session_id = Some("s".to_owned());
    let agent_id = Some("a".to_owned());
    let mut one = subscribe(&server, SubscribeRequest { session_id, agent_id, types: Vec::new() }).unwrap();
    server.export(&request()).unwrap();
    let seen: String = expected().lines().map(|_| next_line(&server, &mut all)).collect();
    assert_eq!(seen, expected());
    export(&server, vec![numbered(7)]).unwrap();
    assert_eq!(next_line(&server, &mut all), line(&numbered(7)));
    assert_eq!(next_line(&server, &mut one), line(&numbered(7)));
    for event in expected().split_inclusive('\n').filter(|line| line.contains("\"type\":\"agent_")) {
        assert_eq!(next_line(&server, &mut some), event);
    }
    let unknown = SubscribeRequest { types: vec!["tool".to_owned()], ..SubscribeRequest::default() };
    let refused = subscribe(&server, unknown).unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "\"tool\" is no type of event"));

    // The streams end with the gateway, and do not keep it.
    let stopping = server.ask_to_stop();
    let ended = stopping.block_on(async { (all.message().await, some.message().await) });
    assert_eq!(ended.0.unwrap_err().code(), Code::Unavailable);
    assert_eq!(ended.1.unwrap_err().message(), "the gateway stops");
    stopping.wait();
}

#[test]
fn a_slow_subscriber_is_told_what_it_missed_and_slows_nobody() {
    let server = Server::start();
    let mut slow = subscribe(&server, SubscribeRequest::default()).unwrap();
    let big = |number: usize| {
        event(|event| {
            event["tool_call_id"] = number.to_string().into();
            event["output"] = vec!["x".repeat(8_000); 100].into();
        })
    };
    // More than the window and all buffers on the way hold.
    let count = 36;
    for number in 0..count {
        export(&server, vec![big(number)]).unwrap();
    }
    let (mut seen, mut missed) = (0, 0);
    let mut expected = 0;
    while seen + missed < count {
        match next(&server, &mut slow).unwrap() {
            Some(Seen::Event(event)) => {
                assert_eq!(event, big(expected));
                (seen, expected) = (seen + 1, expected + 1);
            }
            Some(Seen::MissedEvents(more)) => {
                let more = usize::try_from(more).unwrap();
                (missed, expected) = (missed + more, expected + more);
            }
            None => panic!("the stream has ended"),
        }
    }
    assert!(missed > 0 && seen > 10, "{seen} {missed}");
    let (lines, _) = server.stop();
    assert_eq!(lines.lines().count(), count);
}

fn sender(url: &str) -> Grpc {
    Grpc::new(GrpcOptions::new(ReceiverUrl::parse(url).unwrap())).unwrap()
}

fn sender_to(server: &Server) -> Grpc {
    sender(&format!("http://{}", server.grpc))
}

#[test]
fn a_batch_arrives_whole_and_once_however_big_it_is_and_however_often_it_is_sent() {
    let server = Server::start();
    let big = |number: usize| {
        event(|event| {
            event["tool_call_id"] = number.to_string().into();
            event["output"] = vec!["x".repeat(8_000); 100].into();
        })
    };
    // More than a request takes.
    let lines: String = (0..9).map(|number| line(&big(number))).collect();
    let mut sender = sender_to(&server);
    let batch = Batch::new("one", lines.as_bytes());
    assert_eq!(sender.send(&batch), Ok(()));
    assert_eq!(sender.send(&batch), Ok(()));
    assert_eq!(sender_to(&server).send(&batch), Ok(()));
    assert_eq!(server.stop().0, lines);
}

#[test]
fn events_that_are_rejected_are_parked_with_their_reasons_and_the_others_arrive() {
    let server = Server::start();
    let bad = event(|event| event["environment"] = "a,b".into());
    let lines = [line(&numbered(1)), line(&bad), "no event\n".to_owned(), line(&numbered(2))].concat();
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::start(QueueOptions::new(folder.path().join("queue")), sender_to(&server)).unwrap();
    queue.write(lines.as_bytes()).unwrap();
    queue.close(Instant::now() + Duration::from_secs(60)).unwrap();
    let parked = std::fs::read_dir(folder.path().join("queue/parked")).unwrap();
    let mut parked: Vec<String> = parked.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    parked.sort_by_key(|content| !content.starts_with('{'));
    assert_eq!(parked.len(), 2);
    assert_eq!(parked[0], lines);
    let reasons = "2 events were rejected, the others taken: line 3: no JSON object: expected ident at line 1 column 2; \
                   line 2: environment \\\"a,b\\\" holds a comma, which Failproof does not store";
    assert!(parked[1].contains(reasons), "{}", parked[1]);
    assert_eq!(server.stop().0, line(&numbered(1)) + &line(&numbered(2)));
}

#[test]
fn what_cannot_be_taken_now_is_sent_again_when_the_server_says() {
    let fails = Arc::new(AtomicBool::new(true));
    let lines = Collected::default();
    let sink = Failing(fails.clone(), lines.clone());
    let server = Server::start_with(|options| options.sink = Box::new(sink));
    let mut sender = sender_to(&server);
    let batch = Batch::new("one", line(&numbered(1)));
    match sender.send(&batch) {
        Err(SendError::Retry { after: Some(after), cause }) => {
            assert_eq!(after, Duration::from_secs(1));
            assert!(cause.contains("the events could not be written: "), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    fails.store(false, Ordering::SeqCst);
    let folder = tempfile::tempdir().unwrap();
    let mut options = QueueOptions::new(folder.path().join("queue"));
    options.backoff = Backoff { first: Duration::from_millis(10), limit: Duration::from_millis(10) };
    let mut queue = Queue::start(options, sender).unwrap();
    queue.write(batch.lines()).unwrap();
    queue.close(Instant::now() + Duration::from_secs(60)).unwrap();
    server.stop();
    assert_eq!(String::from_utf8(lines.0.lock().unwrap().clone()).unwrap(), line(&numbered(1)));
}

#[test]
fn what_is_wrong_with_the_way_or_the_server_is_tried_again() {
    let batch = Batch::new("one", line(&numbered(1)));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cause = |mut sender: Grpc| match sender.send(&batch) {
        Err(SendError::Retry { after: None, cause }) => cause,
        other => panic!("{other:?}"),
    };
    let nobody = cause(sender(&format!("http://127.0.0.1:{port}")));
    assert!(nobody.to_lowercase().contains("connection refused"), "{nobody}");

    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "made-up-token\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let server = Server::start_with(|options| options.guards.auth_token_file = Some(tokens.clone()));
    let without = cause(sender_to(&server));
    assert!(without.contains("token"), "{without}");
    let mut options = GrpcOptions::new(ReceiverUrl::parse(&format!("http://{}", server.grpc)).unwrap());
    options.token_file = Some(tokens);
    assert_eq!(Grpc::new(options).unwrap().send(&batch), Ok(()));
    assert_eq!(server.stop().0, line(&numbered(1)));
}

#[test]
fn a_sender_trusts_the_authorities_that_it_is_told_of_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path
    };
    let certificate = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (ours, other) = (certificate(), certificate());
    let certificate = file("cert.pem", &ours.cert.pem());
    let tls = Tls {
        certificate: certificate.clone(),
        key: file("key.pem", &ours.signing_key.serialize_pem()),
        client_ca: None,
    };
    let server = Server::start_with(|options| options.guards.tls = Some(tls));
    let send = |ca_file| {
        let url = format!("https://localhost:{}", server.grpc.port());
        let mut options = GrpcOptions::new(ReceiverUrl::parse(&url).unwrap());
        options.ca_file = Some(ca_file);
        Grpc::new(options).unwrap().send(&Batch::new("one", line(&numbered(1))))
    };
    let refused = send(file("other.pem", &other.cert.pem()));
    assert!(matches!(&refused, Err(SendError::Retry { cause, .. }) if cause.contains("certificate")), "{refused:?}");
    assert_eq!(send(certificate), Ok(()));
    assert_eq!(server.stop().0, line(&numbered(1)));
}
