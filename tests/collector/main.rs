//! A real OpenTelemetry Collector, configured with the very files of `deploy/collector`, in front of `failproof-otel serve`.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod collector;
mod fan_out;
mod kafka;
mod logs;
mod restarts;
mod runs;
#[path = "../support/mod.rs"]
mod support;

use collector::Collector;
use support::programs::{by_recording, run_pydantic_ai};
use support::serving::Gateway;

#[test]
#[ignore = "needs a Collector: .ci/run has it"]
fn the_collector_takes_every_recipe() {
    let recipes = collector::recipes();
    assert!(recipes.len() >= 6, "{recipes:?}");
    for recipe in recipes {
        collector::validate(&recipe);
    }
}

#[test]
#[ignore = "needs a Collector, and Python with Pydantic AI: .ci/run has them"]
fn pydantic_ai_over_grpc_through_an_agent() {
    programs_through("agent.yaml", "--endpoint-grpc", |collector| collector.grpc.clone());
}

#[test]
#[ignore = "needs a Collector, and Python with Pydantic AI: .ci/run has them"]
fn pydantic_ai_over_http_through_storage() {
    programs_through("durable.yaml", "--endpoint-http", |collector| format!("http://{}", collector.http));
}

/// Whether the Collector is there or not: the same events.
fn programs_through(recipe: &str, transport: &str, endpoint: impl Fn(&Collector) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path());
    let collector = Collector::start(recipe, folder.path(), &[("FAILPROOF_GATEWAY", &gateway.grpc)]);
    let recordings = run_pydantic_ai(&folder.path().join("recordings"), transport, &endpoint(&collector));
    gateway.wait_for(recordings.iter().map(|recording| recording.events().len()).sum());
    collector.stop();
    by_recording(recordings, &gateway.stop());
}
