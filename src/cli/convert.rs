//! `convert`: recorded spans in, events out; and the reading of recordings that `explain` shares.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::options::Options;
use super::receivers::Receivers;
use super::{Failure, complain};
use crate::encode::encode;
use crate::otlp::file::read_file;
use crate::sink::{self, Destination, Sink, SinkError};
use crate::span::Span;
use crate::trace;

/// How long receivers get for what is converted. What they have not taken then waits for the next start.
const SEND_LIMIT: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
pub(super) struct Convert {
    /// Recordings of spans; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where events go: stdout, spool, spool:DIR, ingest:URL, otlp-logs:URL or grpc:URL (repeatable).
    #[arg(long, default_value = "stdout", value_name = "SINK")]
    to: Vec<Destination>,
    #[command(flatten)]
    receivers: Receivers,
    #[command(flatten)]
    options: Options,
}

impl Convert {
    pub fn run(self) -> Result<(), Failure> {
        let config = self.options.config().map_err(Some)?;
        let sink = sink::open(&self.to, &self.receivers.settings());
        let mut sink = sink.map_err(|error| Some(error.to_string()))?;
        let recording = Recording::read(&self.files);
        let lines = encode(trace::map(&recording.spans, config.mapping()), config.policy());
        match sink.write(&lines).and_then(|()| sink.close(Instant::now() + SEND_LIMIT)) {
            // Whoever closed the pipe has seen enough.
            Ok(()) | Err(SinkError::Closed) => refused(&*sink).map_or_else(|| recording.result(), |why| Err(Some(why))),
            Err(error) => Err(Some(error.to_string())),
        }
    }
}

/// What the receivers refused, if they did.
fn refused(sink: &dyn Sink) -> Option<String> {
    let told = sink.progress().into_iter().filter(|progress| progress.status().parked > 0).map(|progress| {
        let parked = progress.directory().join("parked");
        format!("{} refused events: they are in {}, with the cause", progress.receiver(), parked.display())
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

/// The spans of some files, and whether all of them could be read.
pub(super) struct Recording {
    pub spans: Vec<Span<'static>>,
    is_whole: bool,
}

impl Recording {
    /// Reads the files. What is wrong with one is told, a line each, and does not keep the rest from being read.
    pub fn read(files: &[PathBuf]) -> Self {
        let mut recording = Recording { spans: Vec::new(), is_whole: true };
        for file in files {
            match read_bytes(file) {
                Ok(bytes) => recording.take(&name_of(file), &bytes),
                Err(error) => recording.note(&format!("{}: {error}", name_of(file))),
            }
        }
        recording
    }

    /// An error if something could not be read; it has been told already.
    pub fn result(self) -> Result<(), Failure> {
        if self.is_whole { Ok(()) } else { Err(None) }
    }

    fn take(&mut self, name: &str, bytes: &[u8]) {
        let contents = read_file(bytes);
        self.spans.extend(contents.spans);
        for problem in contents.problems {
            let place = if problem.place.is_empty() { String::new() } else { format!("{}: ", problem.place) };
            self.note(&format!("{name}: {place}{}", problem.cause));
        }
        if contents.more_problems > 0 {
            self.note(&format!("{name}: and {} more of such problems", contents.more_problems));
        }
    }

    fn note(&mut self, problem: &str) {
        self.is_whole = false;
        complain(problem);
    }
}

fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        Ok(bytes)
    } else {
        std::fs::read(file)
    }
}
