//! OTLP/HTTP with protobuf.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use prost::Message;

use super::super::{SendError, http};
use super::{OtlpLogsOptions, Transport};

/// What the specification lets a client try again.
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];
const ANSWER_LIMIT: u64 = 1 << 20;

pub(super) struct Http {
    options: OtlpLogsOptions,
    client: ureq::Agent,
}

impl Http {
    pub fn new(options: OtlpLogsOptions) -> Result<Self, String> {
        let client = http::client(&options.url, options.ca_file.as_deref(), options.timeout)?;
        Ok(Http { options, client })
    }
}

impl Transport for Http {
    fn export(&mut self, request: ExportLogsServiceRequest) -> Result<ExportLogsServiceResponse, SendError> {
        let mut body = request.encode_to_vec();
        let mut post = self.client.post(self.options.url.as_str()).header("content-type", "application/x-protobuf");
        for (name, value) in &self.options.headers {
            post = post.header(name, value);
        }
        if self.options.gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            body = encoder.write_all(&body).and_then(|()| encoder.finish()).map_err(retry)?;
            post = post.header("content-encoding", "gzip");
        }
        let mut answer = post.send(&body[..]).map_err(retry)?;
        let status = answer.status();
        let cause = format!("status {status}");
        if !status.is_success() {
            let after = http::retry_after(answer.headers());
            return Err(match RETRYABLE.contains(&status.as_u16()) {
                true => SendError::Retry { after, cause },
                false => SendError::Refused { cause },
            });
        }
        let no_answer =
            || SendError::Refused { cause: "the answer is not that of a receiver of OTLP: see the URL".to_owned() };
        let body = match answer.body_mut().with_config().limit(ANSWER_LIMIT).read_to_vec() {
            Ok(body) => body,
            Err(ureq::Error::BodyExceedsLimit(_)) => return Err(no_answer()),
            Err(cause) => return Err(retry(cause)),
        };
        ExportLogsServiceResponse::decode(&body[..]).map_err(|_| no_answer())
    }
}

/// What goes wrong on the way tells nothing about the batch.
fn retry(cause: impl ToString) -> SendError {
    SendError::Retry { after: None, cause: cause.to_string() }
}
