//! Integration tests of the agent, one binary: whole turns against a server that is as strict as the real one.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod aborts;
mod compaction;
mod crash;
mod examples;
mod faults_guard;
mod faults_turn;
mod files;
mod gauge;
mod order;
mod output;
mod overflow;
mod property;
mod reads;
mod review;
mod summariser;
mod support;
mod thinking;

/// The faults that happen around a turn; those of files, keys and lists are the core's.
const FAULTS: &str = "G01 G02 G04 G05 G06 G08 G09 G10 G13 G14 G15 G17 G19 G20 \
    C00 C01 C07 C09 C18 C19 C24 C25 C26 C27 C32 C33 C35 C37 C38 C43 C44 C45 C48";

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
    let forgotten = unforget_testkit::modules::forgotten(folder, include_str!("main.rs")).unwrap();
    assert!(forgotten.is_empty(), "not part of the tests: {forgotten:?}");
}

#[test]
fn every_fault_has_a_test() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let tests: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let ids: Vec<&str> = FAULTS.split_whitespace().collect();
    assert_eq!(ids.len(), 33);
    let missing: Vec<&&str> = ids.iter().filter(|id| !tests.contains(&format!("fn {}_", id.to_lowercase()))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
