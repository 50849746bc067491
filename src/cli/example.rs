//! What `serve --example` sends: a recorded run, over real gRPC.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;

/// Any free port of this machine alone.
pub(super) const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// A run of the agent `inventory` of Pydantic AI 2.68 with a scripted model, as its exporter sent it: three tools in one
/// answer, of which one asks the model to try again without it.
const RECORDING: &[u8] = include_bytes!("../../examples/inventory/spans.otlp.pb");

/// Sends the recording to a gateway.
pub(super) async fn send(gateway: SocketAddr) -> Result<(), String> {
    let request = ExportTraceServiceRequest::decode(RECORDING).map_err(|error| error.to_string())?;
    let mut client =
        TraceServiceClient::connect(format!("http://{gateway}")).await.map_err(|error| error.to_string())?;
    let response = client.export(request).await.map_err(|status| format!("the gateway answered {status}"))?;
    match response.into_inner().partial_success {
        None => Ok(()),
        Some(partial) => Err(format!("the gateway did not take all: {}", partial.error_message)),
    }
}
