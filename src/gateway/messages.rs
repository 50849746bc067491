//! The protobuf messages of answers, with their JSON form.

use prost::Message;
use serde::{Serialize, Serializer};

use super::admission::Accepted;

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse`
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportResponse {
    /// Unset on full success, as OTLP wants it.
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "as_text")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl From<&Accepted> for ExportResponse {
    /// A message without rejected spans is a warning in OTLP.
    fn from(accepted: &Accepted) -> Self {
        let partial_success = (!accepted.message.is_empty()).then(|| PartialSuccess {
            rejected_spans: i64::try_from(accepted.rejected_spans).unwrap_or(i64::MAX),
            error_message: accepted.message.clone(),
        });
        ExportResponse { partial_success }
    }
}

/// Numbers of 64 bits are text in the JSON of protobuf.
fn as_text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
