//! `tail`: follows the events of a running gateway.

mod view;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::runtime;
use tokio::time::sleep;
use tonic::{Code, Status, Streaming};

use self::view::{Style, View};
use super::logs::is_coloured;
use super::{Failure, complain};
use crate::event::EventType;
use crate::proto::client::Remote;
use crate::proto::subscribe_response::Message;
use crate::proto::{Event, SubscribeRequest, SubscribeResponse};

/// How long to wait between attempts to reach a gateway that has gone: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The command's name.
pub(super) const NAME: &str = "tail";

#[derive(Args, Debug)]
pub(super) struct Tail {
    /// Where the gateway is: HOST:PORT, or a URL.
    #[arg(default_value = "http://127.0.0.1:4317", value_name = "ADDRESS")]
    address: String,
    /// Show the events of this session alone.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Show the events of this agent alone.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Show events of this type alone: tool_use, error, … (repeatable).
    #[arg(long = "type", value_name = "TYPE", value_parser = event_type)]
    types: Vec<EventType>,
    /// Print events as they stand in the spool, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// The file with the token that the gateway asks for; nobody else may be able to read it.
    #[arg(long, value_name = "FILE")]
    auth_token_file: Option<PathBuf>,
    /// The file with the certificates to trust, instead of those that the system trusts.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Why no more is shown.
enum End {
    /// The gateway has gone, or cannot be reached.
    Gone(String),
    /// Nobody looks any more.
    Unseen,
    Failed(String),
}

impl Tail {
    pub fn run(self) -> Result<(), Failure> {
        let address =
            if self.address.contains("://") { self.address.clone() } else { format!("http://{}", self.address) };
        let remote = Remote::new(&address, self.auth_token_file.as_deref(), self.ca_file.as_deref()).map_err(Some)?;
        let mut output = self.output();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Some(format!("no runtime: {error}")))?;
        runtime.block_on(async {
            tokio::select! {
                result = self.follow(&address, &remote, &mut output) => result,
                Ok(()) = tokio::signal::ctrl_c() => Ok(()),
            }
        })
    }

    fn output(&self) -> Output {
        let is_terminal = io::stdout().is_terminal();
        match self.json {
            true => Output::Json { is_terminal },
            false => {
                let style = if is_coloured(&io::stdout()) { Style::Coloured } else { Style::Plain };
                Output::View(View::new(style, self.session.is_none()))
            }
        }
    }

    /// Shows events for as long as somebody looks, over restarts of the gateway.
    async fn follow(&self, address: &str, remote: &Remote, output: &mut Output) -> Result<(), Failure> {
        let (mut was_there, mut is_there) = (false, false);
        let mut delay = RETRY.0;
        loop {
            let end = match self.subscribe(remote).await {
                Ok(events) => {
                    if was_there {
                        complain(&format!("{address} is there again; what it wrote meanwhile is not shown"));
                    }
                    (was_there, is_there, delay) = (true, true, RETRY.0);
                    show(events, output).await
                }
                Err(end) => end,
            };
            match end {
                End::Unseen => return Ok(()),
                End::Failed(why) => return Err(Some(format!("{address}: {why}"))),
                End::Gone(why) if !was_there => {
                    return Err(Some(format!(
                        "no gateway can be reached at {address}: {why}; start `failproof-otel serve`, or name another address"
                    )));
                }
                End::Gone(why) => {
                    if is_there {
                        complain(&format!("{address} has gone ({why}): waiting for it to come back"));
                    }
                    is_there = false;
                    sleep(delay).await;
                    delay = (delay * 2).min(RETRY.1);
                }
            }
        }
    }

    async fn subscribe(&self, remote: &Remote) -> Result<Streaming<SubscribeResponse>, End> {
        let request = remote.request(SubscribeRequest {
            session_id: self.session.clone(),
            agent_id: self.agent.clone(),
            types: self.types.iter().map(|kind| kind.name().to_owned()).collect(),
        });
        let answer = remote.client().subscribe(request.map_err(End::Failed)?).await;
        answer.map(tonic::Response::into_inner).map_err(|status| end(&status))
    }
}

async fn show(mut events: Streaming<SubscribeResponse>, output: &mut Output) -> End {
    loop {
        let written = match events.message().await {
            Ok(Some(SubscribeResponse { message: Some(Message::Event(event)) })) => output.write(&event),
            Ok(Some(SubscribeResponse { message: Some(Message::MissedEvents(count)) })) => {
                complain(&format!("{count} events were missed: they came faster than they are read here"));
                Ok(())
            }
            // Something that a later version says.
            Ok(Some(SubscribeResponse { message: None })) => Ok(()),
            Ok(None) => return End::Gone("it ended the stream".to_owned()),
            Err(status) => return end(&status),
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return End::Unseen,
            Err(error) => return End::Failed(format!("standard output: {error}")),
        }
    }
}

/// What a status means for whoever looks on.
fn end(status: &Status) -> End {
    match status.code() {
        // Whatever breaks on the way comes as one of these.
        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded => {
            End::Gone(cause(status))
        }
        Code::Unauthenticated | Code::PermissionDenied => {
            End::Failed(format!("{}; name the file with the token: --auth-token-file", status.message()))
        }
        Code::Unimplemented => End::Failed("it does not show its events; is it a gateway of this version?".to_owned()),
        _ => End::Failed(status.message().to_owned()),
    }
}

/// The innermost cause, which says most.
fn cause(status: &Status) -> String {
    let mut source = std::error::Error::source(status);
    let mut cause = status.message().to_owned();
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    cause
}

fn event_type(name: &str) -> Result<EventType, String> {
    EventType::from_name(name).ok_or_else(|| {
        let known = EventType::ALL.map(EventType::name).join(", ");
        format!("there is no such type of event; there are {known}")
    })
}

enum Output {
    Json { is_terminal: bool },
    View(View),
}

impl Output {
    fn write(&mut self, event: &Event) -> io::Result<()> {
        let Ok(object) = event.to_object() else {
            complain("an event cannot be shown: its message is damaged");
            return Ok(());
        };
        let mut line = match self {
            Output::View(view) => view.line(&object),
            Output::Json { is_terminal: false } => Value::Object(object).to_string(),
            // JSON escapes what controls terminals, but for these.
            Output::Json { is_terminal: true } => view::escape_rare_controls(&Value::Object(object).to_string()),
        };
        line.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes()).and_then(|()| out.flush())
    }
}
