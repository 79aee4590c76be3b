//! Integration tests of the server, one binary: real sockets, real files, a model that does as it is told.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod again;
mod claude;
mod clients;
mod contract;
mod elsewhere;
mod ids;
mod limits;
mod lists;
mod log;
mod matrix;
mod metrics;
mod owner;
mod page;
mod peers;
mod puppet;
mod saying;
mod scene;
mod schema;
mod strangers;
mod turns;
mod twins;
mod wire;

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
    let forgotten = unforget_testkit::modules::forgotten(folder, include_str!("main.rs")).unwrap();
    assert!(forgotten.is_empty(), "not part of the tests: {forgotten:?}");
}
