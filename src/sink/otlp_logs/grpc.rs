//! OTLP/gRPC.

use std::error::Error;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use tonic::codec::CompressionEncoding;
use tonic::metadata::{AsciiMetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use super::super::SendError;
use super::super::calls::Calls;
use super::{OtlpLogsOptions, Transport};
use crate::secret;

/// Codes that speak of the request, and are not tried again; all others, and what breaks on the way, speak of the server.
const REFUSALS: [Code; 7] = [
    Code::InvalidArgument,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::FailedPrecondition,
    Code::Unimplemented,
    Code::Unauthenticated,
];

pub(super) struct Grpc {
    endpoint: Endpoint,
    metadata: MetadataMap,
    gzip: bool,
    calls: Calls<LogsServiceClient<Channel>>,
}

impl Grpc {
    pub fn new(options: &OtlpLogsOptions) -> Result<Self, String> {
        let OtlpLogsOptions { url, headers, ca_file, gzip, timeout, .. } = options;
        let endpoint = Endpoint::from_shared(url.as_str().to_owned()).map_err(|_| "it is no URL".to_owned())?;
        let mut endpoint = endpoint.connect_timeout(*timeout);
        if url.is_https() {
            let tls = match ca_file {
                None => ClientTlsConfig::new().with_native_roots(),
                Some(path) => {
                    let pem =
                        secret::read_public(path).map_err(|why| format!("the CA file {}: {why}", path.display()))?;
                    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
                }
            };
            endpoint = endpoint.tls_config(tls).map_err(|cause| cause.to_string())?;
        }
        let mut metadata = MetadataMap::new();
        for (name, value) in headers {
            let wrong = || format!("the header {name} can't be sent over gRPC");
            let value = MetadataValue::try_from(value).map_err(|_| wrong())?;
            metadata.insert(AsciiMetadataKey::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
        }
        Ok(Grpc { endpoint, metadata, gzip: *gzip, calls: Calls::new(*timeout) })
    }
}

impl Transport for Grpc {
    fn export(&mut self, request: ExportLogsServiceRequest) -> Result<ExportLogsServiceResponse, SendError> {
        let mut request = Request::new(request);
        *request.metadata_mut() = self.metadata.clone();
        let Grpc { endpoint, gzip, calls, .. } = self;
        let connect = || {
            let client = LogsServiceClient::new(endpoint.connect_lazy());
            if *gzip { client.send_compressed(CompressionEncoding::Gzip) } else { client }
        };
        calls.call(connect, async |client| client.export(request).await, failure)
    }
}

fn failure(status: &Status) -> SendError {
    let mut cause = format!("{}: {}", status.code().description(), status.message());
    let mut source = status.source();
    let is_broken = source.is_some();
    while let Some(error) = source {
        cause.push_str(&format!(": {error}"));
        source = error.source();
    }
    let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    // For good only where the server does not say when to come again: it is too much at once.
    let is_too_much = status.code() == Code::ResourceExhausted && after.is_none();
    // With an error of this side below it, the status does not come from the server.
    match (REFUSALS.contains(&status.code()) || is_too_much) && !is_broken {
        true => SendError::Refused { cause },
        false => SendError::Retry { after, cause },
    }
}
