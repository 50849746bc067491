//! A real Pydantic AI program, the official adapter beside it, exports over OTLP to a running `failproof-otel serve`: the
//! events in the spool agree with those of the adapter by the rules of the parity test.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::parity::differences::differences;
use support::parity::{Report, compare};
use support::programs::{by_recording, run_pydantic_ai};
use support::serving::Gateway;

fn agrees(transport: &str, endpoint: impl Fn(&Gateway) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path());
    let recordings = run_pydantic_ai(&folder.path().join("recordings"), transport, &endpoint(&gateway));
    let mut report = Report::default();
    for (recording, ours) in by_recording(recordings, &gateway.stop()) {
        compare(recording, &ours, &mut report);
    }
    let (unexplained, _) = report.unexplained_and_stale(&differences());
    assert_eq!(unexplained, Vec::<String>::new());
}

#[test]
#[ignore = "needs Python with Pydantic AI: .ci/run has it"]
fn pydantic_ai_over_grpc_gives_what_the_official_adapter_gives() {
    agrees("--endpoint-grpc", |gateway| gateway.grpc.clone());
}

#[test]
#[ignore = "needs Python with Pydantic AI: .ci/run has it"]
fn pydantic_ai_over_http_gives_what_the_official_adapter_gives() {
    agrees("--endpoint-http", |gateway| format!("http://{}", gateway.http));
}
