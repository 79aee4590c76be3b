//! End-to-end tests: the real binary, real files, real signals.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod attack;
mod branches;
#[cfg(all(feature = "agentcore", feature = "postgres", feature = "s3"))]
mod claude;
mod commands;
mod config;
mod container;
mod edits;
#[cfg(all(feature = "agentcore", feature = "postgres", feature = "s3"))]
mod elsewhere;
mod errors;
mod export;
mod file_size;
mod files;
mod import;
mod keep;
mod kill;
mod oddities;
mod oneshot;
#[cfg(all(feature = "agentcore", feature = "postgres", feature = "s3"))]
mod packages;
mod page;
mod readme;
mod remote;
mod repl;
mod review;
mod scene;
mod search;
mod serve;
mod soak;
mod support;
mod terminal;
mod token;
mod traces;

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
    let forgotten = unforget_testkit::modules::forgotten(folder, include_str!("main.rs")).unwrap();
    assert!(forgotten.is_empty(), "not part of the tests: {forgotten:?}");
}
