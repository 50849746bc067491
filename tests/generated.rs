//! The committed Rust of `proto/` is what its compiler makes of it, so that users of the crate need neither the compiler nor
//! a build script.
#![cfg(feature = "grpc")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

/// Set to write the file anew: `UPDATE_GENERATED=1 cargo test --all-features --test generated`.
const UPDATE: &str = "UPDATE_GENERATED";

#[test]
fn the_committed_code_is_made_of_the_committed_proto() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile(["failproof/events/v1/events.proto"], [root.join("proto")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tonic_prost_build::configure().out_dir(folder.path()).build_transport(false).compile_fds(files).unwrap();
    let made = std::fs::read_to_string(folder.path().join("failproof.events.v1.rs")).unwrap();
    let committed = root.join("src/proto/generated.rs");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&committed, &made).unwrap();
    }
    let committed = std::fs::read_to_string(committed).unwrap_or_default();
    assert!(committed == made, "proto/ has changed: {UPDATE}=1 cargo test --all-features --test generated");
}
