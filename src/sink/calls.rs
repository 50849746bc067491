//! Calls of gRPC servers from the thread of a queue, which has no runtime of its own.

use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tonic::{Response, Status};

use super::SendError;

/// How long a connection may lie idle before a new one is made: nobody looks after it meanwhile.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// A client, and the runtime that it needs.
///
/// All work is done within one call on the caller's thread. The runtime is made there as well: one could not be dropped on a
/// thread that runs tasks.
pub(super) struct Calls<C> {
    timeout: Duration,
    runtime: Option<Runtime>,
    /// With when it was used last.
    client: Option<(C, Instant)>,
}

impl<C> Calls<C> {
    /// Each call may take so long.
    pub fn new(timeout: Duration) -> Self {
        Calls { timeout, runtime: None, client: None }
    }

    /// Calls by the client, which `connect` makes anew where it is not fresh; `judge` says what a failure means.
    pub fn call<T>(
        &mut self,
        connect: impl FnOnce() -> C,
        call: impl AsyncFnOnce(&mut C) -> Result<Response<T>, Status>,
        judge: impl FnOnce(&Status) -> SendError,
    ) -> Result<T, SendError> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build().map_err(|error| retry(error.to_string()))?,
        };
        let last = self.client.take().filter(|(_, used)| used.elapsed() < IDLE_LIMIT);
        let exchange = async {
            let mut client = last.map_or_else(connect, |(client, _)| client);
            let answer = tokio::time::timeout(self.timeout, call(&mut client)).await;
            (client, answer)
        };
        let (client, answer) = runtime.block_on(exchange);
        self.runtime = Some(runtime);
        match answer {
            Ok(Ok(answer)) => {
                self.client = Some((client, Instant::now()));
                Ok(answer.into_inner())
            }
            Ok(Err(status)) => Err(judge(&status)),
            Err(_) => Err(retry(format!("no answer within {:?}", self.timeout))),
        }
    }
}

/// A failure that may be over when it is tried again.
pub(super) fn retry(cause: String) -> SendError {
    SendError::Retry { after: None, cause }
}
