//! The protobuf messages of answers, with their JSON form.

use std::time::Duration;

use prost::Message;
use serde::{Serialize, Serializer};

use super::admission::Accepted;
use super::refused::Answer;

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

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    /// In JSON the header says it.
    #[prost(message, repeated, tag = "3")]
    #[serde(skip)]
    details: Vec<Any>,
}

/// `google.protobuf.Any`
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

/// `google.protobuf.Duration`
#[derive(Clone, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
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

impl Status {
    pub fn new(answer: &Answer, message: String) -> Self {
        let details = answer.retry.map(|delay| Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: RetryInfo { retry_delay: Some(delay.into()) }.encode_to_vec(),
        });
        Status { code: answer.code as i32, message, details: details.into_iter().collect() }
    }
}

impl From<Duration> for ProtoDuration {
    fn from(duration: Duration) -> Self {
        ProtoDuration {
            seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            nanos: duration.subsec_nanos().cast_signed(),
        }
    }
}

/// Numbers of 64 bits are text in the JSON of protobuf.
fn as_text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
