//! A program that is killed with `kill -9`: what had been handed over is uploaded when it runs again.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use opentelemetry::KeyValue;
use opentelemetry::trace::{Tracer, TracerProvider};
use opentelemetry_failproof::sink::Sink;
use opentelemetry_failproof::{Config, FailproofSpanProcessor};
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::Value;

use super::server::{Answer, Server};
use super::{ingest, queue_with, soon};

/// Tells the program where its queue is, and the address of the endpoint.
const DIRECTORY: &str = "KILLED_TEST_DIRECTORY";
const ADDRESS: &str = "KILLED_TEST_ADDRESS";

/// The program: runs agents for ever, and says of each run when it has been handed over. Does nothing when it is run as a
/// test.
#[test]
fn program() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let mut server = Server::start();
    server.address = std::env::var(ADDRESS).unwrap().parse().unwrap();
    let queue = queue_with(Path::new(&directory), ingest(&server));
    let processor = FailproofSpanProcessor::builder().with_config(Config::new()).with_sink(queue).build().unwrap();
    let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
    for run in 0.. {
        let attributes =
            [("gen_ai.operation.name", "invoke_agent".to_owned()), ("gen_ai.agent.name", format!("run-{run}"))];
        let attributes = attributes.map(|(key, value)| KeyValue::new(key, value));
        let tracer = provider.tracer("a-program");
        drop(tracer.build(tracer.span_builder("invoke_agent").with_attributes(attributes)));
        provider.force_flush().unwrap();
        println!("\nhanded over {run}");
    }
}

#[test]
fn what_was_handed_over_before_a_kill_is_uploaded_after_the_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start();
    // From now and then to always: killed between attempts, in the middle of one, and while all goes well.
    for (round, answer) in [Answer::Status(503, ""), Answer::Hang, Answer::Accept, Answer::Drop].into_iter().enumerate()
    {
        server.always(answer);
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args(["killed::program", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(ADDRESS, server.address.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
        let handed_over = lines.filter(|line| line.starts_with("handed over")).take(10 + 3 * round).count();
        program.kill().unwrap();
        program.wait().unwrap();
        assert_eq!(handed_over, 10 + 3 * round);

        server.always(Answer::Accept);
        queue_with(directory.path(), ingest(&server)).close(soon()).unwrap();
        let stored = server.stored();
        let starts: BTreeSet<String> = stored
            .keys()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|event| event["type"] == "agent_start")
            .map(|event| event["agent_id"].as_str().unwrap().to_owned())
            .collect();
        for run in 0..handed_over {
            assert!(starts.contains(&format!("run-{run}")), "round {round}: run {run} is lost; {starts:?}");
        }
    }
    assert_eq!(std::fs::read_dir(directory.path().join("parked")).unwrap().count(), 0);
}
