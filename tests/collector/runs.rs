//! Many small runs of an agent, sent to a Collector span by span.

use std::collections::HashMap;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::otlp::{Budget, protobuf};
use opentelemetry_failproof::trace::Mapping;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use super::support;
use super::support::programs::assert_same;
use super::support::serving::{Gateway, wait_until};
use super::support::spans::{MS, NOW};

/// How long a gateway has to wait for late spans: a Collector that tries again brings a run's spans out of order, and up to
/// its longest interval apart.
pub const GRACE: &str = "10s";
/// How many spans a run has.
pub const SPANS: usize = 5;

/// The requests of some runs, a span each: first a span of every run, then the next of every run; as SDKs export them,
/// what is called before who calls, so that all runs are incomplete until the last of them.
pub fn interleaved(runs: std::ops::Range<usize>) -> Vec<Request> {
    (0..SPANS).flat_map(|at| runs.clone().map(move |run| request(span(run, at)))).collect()
}

/// The events that the requests' spans have to give.
pub fn events_of(requests: &[Request]) -> Vec<Value> {
    let all = Request { resource_spans: requests.iter().flat_map(|request| request.resource_spans.clone()).collect() };
    let bytes = all.encode_to_vec();
    let read = protobuf::read(&bytes, &Budget::FILE).unwrap();
    assert_eq!(read.rejected, []);
    support::events(&read.spans, &Mapping::default(), Policy::default())
}

/// Waits until the gateways' spools have that many events together.
pub fn wait_for(gateways: &[Gateway], events: usize) {
    let what = format!("{events} events are in the spools");
    wait_until(&what, || gateways.iter().map(Gateway::written).sum::<usize>() >= events);
}

/// What the gateways tell is what they have to; each has its share, and none has a part of another's trace.
pub fn assert_whole(told: &[Vec<Value>], expected: &[Value]) {
    assert_same(&told.concat(), expected, "the gateways");
    assert!(told.iter().all(|events| !events.is_empty()), "every gateway has its share");
    let mut gateway_of: HashMap<&str, usize> = HashMap::new();
    for (gateway, events) in told.iter().enumerate() {
        for event in events {
            let trace = event["fw_trace_id"].as_str().unwrap();
            assert_eq!(*gateway_of.entry(trace).or_insert(gateway), gateway, "trace {trace} is torn");
        }
    }
}

/// A run asks its model, calls a tool, asks another agent, whose model answers.
fn span(run: usize, at: usize) -> Span {
    let (number, parent, operation, name, key) = [
        (2, 1, "chat", "scripted-1", "gen_ai.request.model"),
        (3, 1, "execute_tool", "weather", "gen_ai.tool.name"),
        (5, 4, "chat", "scripted-2", "gen_ai.request.model"),
        (4, 1, "invoke_agent", "researcher", "gen_ai.agent.name"),
        (1, 0, "invoke_agent", "concierge", "gen_ai.agent.name"),
    ][at];
    let id = |number: u64| if number == 0 { Vec::new() } else { (run as u64 * 8 + number).to_be_bytes().to_vec() };
    Span {
        trace_id: (1 + run as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes().to_vec(),
        span_id: id(number),
        parent_span_id: id(parent),
        name: format!("{operation} {name}"),
        start_time_unix_nano: NOW + number * MS,
        end_time_unix_nano: NOW + (1_000 - number) * MS,
        attributes: vec![
            text("gen_ai.operation.name", operation.to_owned()),
            text(key, name.to_owned()),
            text("gen_ai.conversation.id", format!("conversation-{run}")),
            text("gen_ai.tool.call.id", format!("call-{run}-{number}")),
        ],
        ..Span::default()
    }
}

fn text(key: &str, value: String) -> KeyValue {
    let value = AnyValue { value: Some(Any::StringValue(value)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn request(span: Span) -> Request {
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    Request { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] }
}

/// A program that exports over gRPC.
pub struct Sender {
    runtime: Runtime,
    client: TraceServiceClient<Channel>,
}

impl Sender {
    pub fn connect(address: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let client = TraceServiceClient::new(runtime.block_on(endpoint.connect()).unwrap());
        Sender { runtime, client }
    }

    /// Sends them one after the other; each was acknowledged.
    pub fn send(&mut self, requests: &[Request]) {
        for request in requests {
            self.runtime.block_on(self.client.export(request.clone())).unwrap();
        }
    }
}
