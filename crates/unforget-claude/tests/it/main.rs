//! Integration tests of what keeps Claude Code's sessions, one binary. The tests play Claude Code: they write its files.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod following;
mod mending;
mod moving;
mod scene;

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
    let forgotten = unforget_testkit::modules::forgotten(folder, include_str!("main.rs")).unwrap();
    assert!(forgotten.is_empty(), "not part of the tests: {forgotten:?}");
}
