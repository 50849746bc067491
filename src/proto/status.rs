//! What stands behind a status: `google.rpc.Status`, and in it how long to wait.

use std::time::Duration;

use prost::Message;
use serde::Serialize;

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct RpcStatus {
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

impl RpcStatus {
    /// A status, and when to try again, if that can help.
    pub fn new(code: i32, message: String, retry: Option<Duration>) -> Self {
        let details = retry.map(|delay| Any {
            type_url: RETRY_INFO.to_owned(),
            value: RetryInfo { retry_delay: Some(delay.into()) }.encode_to_vec(),
        });
        RpcStatus { code, message, details: details.into_iter().collect() }
    }

    /// How long a server wants to be left alone, by the details of its status.
    pub fn retry_delay(details: &[u8]) -> Option<Duration> {
        let status = RpcStatus::decode(details).ok()?;
        let info = status.details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
        let ProtoDuration { seconds, nanos } = RetryInfo::decode(&*info.value).ok()?.retry_delay?;
        let seconds = Duration::from_secs(u64::try_from(seconds).ok()?);
        Some(seconds.saturating_add(Duration::from_nanos(u64::try_from(nanos).ok()?)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_read_as_it_is_written() {
        let details = |retry| RpcStatus::new(14, String::new(), retry).encode_to_vec();
        let delay = Duration::new(3, 500_000_000);
        assert_eq!(RpcStatus::retry_delay(&details(Some(delay))), Some(delay));
        assert_eq!(RpcStatus::retry_delay(&details(None)), None);
        assert_eq!(RpcStatus::retry_delay(b"\xff"), None);
        let before = ProtoDuration { seconds: -1, nanos: 0 };
        let value = RetryInfo { retry_delay: Some(before) }.encode_to_vec();
        let details = vec![Any { type_url: RETRY_INFO.to_owned(), value }];
        let status = RpcStatus { code: 14, message: String::new(), details };
        assert_eq!(RpcStatus::retry_delay(&status.encode_to_vec()), None);
    }
}
