//! The sink `otlp-logs` before receivers of both transports: what they get is the events, and what they answer counts.
#![cfg(feature = "otlp-logs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::event::BATCH_LIMIT;
use opentelemetry_failproof::sink::{Batch, OtlpLogs, OtlpLogsOptions, ReceiverUrl, SendError, Sender};
use opentelemetry_failproof::trace::Mapping;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;
use serde_json::Value;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// What a receiver answers; whatever is left out is taken.
#[derive(Clone)]
enum Answer {
    Take,
    Reject(i64),
    Http(&'static str),
    Grpc(Status),
}

#[derive(Clone, Default)]
struct Receiver {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<ExportLogsServiceRequest>>>,
    /// The value of the header `api-key` of each request.
    keys: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    fn take(&self, request: ExportLogsServiceRequest, key: &str) -> Answer {
        self.requests.lock().unwrap().push(request);
        self.keys.lock().unwrap().push(key.to_owned());
        self.answers.lock().unwrap().pop_front().unwrap_or(Answer::Take)
    }

    fn records(&self) -> Vec<LogRecord> {
        let requests = self.requests.lock().unwrap().clone();
        let scopes = requests.into_iter().flat_map(|request| request.resource_logs).flat_map(|logs| logs.scope_logs);
        scopes.flat_map(|scope| scope.log_records).collect()
    }

    fn serve_http(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let receiver = self.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = BufReader::new(connection.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if connection.read_line(&mut head).unwrap() == 0 {
                        return;
                    }
                }
                assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
                let header = |name: &str| {
                    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")));
                    line.map_or("", |line| &line[name.len() + 2..])
                };
                assert_eq!(header("content-type"), "application/x-protobuf");
                let mut body = vec![0; header("content-length").parse().unwrap()];
                connection.read_exact(&mut body).unwrap();
                if header("content-encoding") == "gzip" {
                    let packed = std::mem::take(&mut body);
                    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut body).unwrap();
                }
                let request = ExportLogsServiceRequest::decode(&body[..]).unwrap();
                let (status, body) = match receiver.take(request, header("api-key")) {
                    Answer::Http(status) => (status, b"<html>".to_vec()),
                    answer => ("200 OK", response(&answer).encode_to_vec()),
                };
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                connection.get_mut().write_all(&[head.as_bytes(), &body].concat()).unwrap();
            }
        });
        url
    }

    fn serve_grpc(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = LogsServiceServer::new(self.clone()).accept_compressed(CompressionEncoding::Gzip);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming =
                    tonic::transport::server::TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
                tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
            });
        });
        url
    }
}

#[tonic::async_trait]
impl LogsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let key = |metadata: &MetadataMap| metadata.get("api-key").map(|key| key.to_str().unwrap().to_owned());
        let key = key(request.metadata()).unwrap_or_default();
        match self.take(request.into_inner(), &key) {
            Answer::Grpc(status) => Err(status),
            answer => Ok(Response::new(response(&answer))),
        }
    }
}

fn response(answer: &Answer) -> ExportLogsServiceResponse {
    let partial_success = match answer {
        Answer::Reject(rejected_log_records) => Some(ExportLogsPartialSuccess {
            rejected_log_records: *rejected_log_records,
            error_message: "odd".to_owned(),
        }),
        _ => None,
    };
    ExportLogsServiceResponse { partial_success }
}

fn sender(url: &str, variables: &[(&str, &str)]) -> OtlpLogs {
    let value = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let options = OtlpLogsOptions::from_variables(&ReceiverUrl::parse(url).unwrap(), &value).unwrap();
    OtlpLogs::new(options).unwrap()
}

/// Senders over both transports, each with its receiver.
fn both(variables: &[(&str, &str)]) -> [(Receiver, OtlpLogs); 2] {
    let (http, grpc) = (Receiver::default(), Receiver::default());
    let over_http = sender(&http.serve_http(), variables);
    let grpc_variables = [variables, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]].concat();
    let over_grpc = sender(&grpc.serve_grpc(), &grpc_variables);
    [(http, over_http), (grpc, over_grpc)]
}

/// The event that a body is.
fn json(value: Option<AnyValue>) -> Value {
    match value.and_then(|value| value.value) {
        None => Value::Null,
        Some(Any::StringValue(text)) => Value::from(text),
        Some(Any::BoolValue(value)) => Value::from(value),
        Some(Any::IntValue(number)) => Value::from(number),
        Some(Any::DoubleValue(number)) => Value::from(number),
        Some(Any::ArrayValue(array)) => array.values.into_iter().map(|value| json(Some(value))).collect(),
        Some(Any::KvlistValue(list)) => {
            Value::Object(list.values.into_iter().map(|pair| (pair.key, json(pair.value))).collect())
        }
        Some(other) => panic!("no JSON: {other:?}"),
    }
}

fn is_refused(result: &Result<(), SendError>, because: &str) -> bool {
    matches!(result, Err(SendError::Refused { cause }) if cause.contains(because))
}

#[test]
fn what_is_received_is_the_events_to_the_byte() {
    // What recordings seldom hold.
    let odd = concat!(
        r#"{"type":"tool_result","output":{"z":null,"a":[],"o":{},"f":2.0,"i":-9223372036854775808,"t":"\u0000é"},"#,
        r#""fw_trace_id":"0102030405060708090a0b0c0d0e0f10","fw_span_id":"0102030405060708"}"#,
        "\n"
    );
    for (receiver, mut sender) in both(&[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]) {
        sender.send(&Batch::new("odd", odd)).unwrap();
        let mut sent = odd.to_owned();
        for (number, recording) in support::recorded::recordings().iter().step_by(20).enumerate() {
            let lines = support::lines(&recording.spans(), &Mapping::default(), Policy::default());
            sender.send(&Batch::new(format!("batch-{number}"), lines.as_bytes())).unwrap();
            sent += &lines;
        }
        let records = receiver.records();
        assert!(records.len() > 200, "{}", records.len());
        let mut received = String::new();
        for record in records {
            let event = json(record.body);
            assert_eq!(record.event_name, format!("failproof.{}", event["type"].as_str().unwrap()));
            assert_eq!((record.trace_id.len(), record.span_id.len()), (16, 8));
            received += &format!("{event}\n");
        }
        assert_eq!(received, sent);
    }
}

#[test]
fn what_the_environment_says_goes_with_every_request() {
    for (receiver, mut sender) in both(&[("OTEL_EXPORTER_OTLP_HEADERS", "api-key=made%20up")]) {
        sender.send(&Batch::new("batch", "{}\n")).unwrap();
        assert_eq!(*receiver.keys.lock().unwrap(), ["made up"]);
        assert!(!format!("{sender:?}").contains("made"));
    }
}

#[test]
fn what_may_be_taken_later_is_told_from_what_will_never_be() {
    let [(http, mut over_http), (grpc, mut over_grpc)] = both(&[]);
    let batch = Batch::new("batch", "{}\n");
    for (status, after) in
        [("429 X\r\nretry-after: 7", Some(7)), ("502 X", None), ("503 X\r\nretry-after: 1", Some(1)), ("504 X", None)]
    {
        http.answer([Answer::Http(status)]);
        let error = over_http.send(&batch).unwrap_err();
        assert!(
            matches!(&error, SendError::Retry { after: found, .. } if *found == after.map(Duration::from_secs)),
            "{status}: {error:?}"
        );
    }
    for status in ["400 X", "401 X", "404 X", "413 X", "500 X", "307 X\r\nlocation: /v1/logs"] {
        http.answer([Answer::Http(status)]);
        assert!(is_refused(&over_http.send(&batch), &status[..3]), "{status}");
    }
    http.answer([Answer::Http("200 OK")]);
    assert!(is_refused(&over_http.send(&batch), "see the URL"), "a login page");

    let later = ErrorDetails::with_retry_info(Some(Duration::from_secs(7)));
    let too_much = Status::with_error_details(Code::ResourceExhausted, "later", later);
    for (status, after) in [(Status::unavailable("away"), None), (Status::internal("odd"), None), (too_much, Some(7))] {
        grpc.answer([Answer::Grpc(status.clone())]);
        let error = over_grpc.send(&batch).unwrap_err();
        assert!(
            matches!(&error, SendError::Retry { after: found, .. } if *found == after.map(Duration::from_secs)),
            "{status}: {error:?}"
        );
    }
    for status in [
        Status::invalid_argument("bad"),
        Status::unauthenticated("who"),
        Status::unimplemented("no"),
        Status::resource_exhausted("too big"),
    ] {
        grpc.answer([Answer::Grpc(status.clone())]);
        assert!(is_refused(&over_grpc.send(&batch), status.message()), "{status}");
    }
    over_http.send(&batch).unwrap();
    over_grpc.send(&batch).unwrap();
}

#[test]
fn what_a_receiver_rejects_is_not_sent_again_and_not_forgotten() {
    for (receiver, mut sender) in both(&[]) {
        receiver.answer([Answer::Reject(2)]);
        let result = sender.send(&Batch::new("batch", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"));
        assert!(is_refused(&result, "2 events were rejected, the others taken: odd"), "{result:?}");
        // A warning, without anything rejected.
        receiver.answer([Answer::Reject(0)]);
        sender.send(&Batch::new("another", "{}\n")).unwrap();
    }
}

#[test]
fn a_big_batch_comes_in_requests_that_are_taken_and_each_once() {
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1 << 20));
    let lines = line.repeat(BATCH_LIMIT / line.len());
    let batch = Batch::new("batch", lines.as_bytes());
    let away = [Answer::Http("503 X"), Answer::Grpc(Status::unavailable("away"))];
    for ((receiver, mut sender), away) in both(&[]).into_iter().zip(away) {
        receiver.answer([Answer::Take, away]);
        assert!(matches!(sender.send(&batch), Err(SendError::Retry { .. })));
        sender.send(&batch).unwrap();
        let sizes: Vec<_> = receiver.requests.lock().unwrap().iter().map(Message::encoded_len).collect();
        assert!(sizes.iter().all(|size| *size < 4 << 20), "{sizes:?}");
        // The one that failed was received, but not taken.
        let requests = receiver.requests.lock().unwrap().len();
        assert_eq!(requests, 5, "{sizes:?}");
        assert_eq!(receiver.records().len(), 7 + 2);
    }
}

#[test]
fn a_receiver_that_is_away_is_tried_again() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for protocol in ["grpc", "http/protobuf"] {
        let mut sender = sender(&format!("http://{nobody}"), &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        let error = sender.send(&Batch::new("batch", "{}\n")).unwrap_err();
        assert!(matches!(&error, SendError::Retry { .. }), "{protocol}: {error:?}");
    }
}
