//! Integration tests of the core, one binary.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod bundle;
mod claude;
mod claude_mutants;
mod corpus;
mod crash;
mod edits;
mod examples;
mod faults_conversation;
mod faults_file;
mod faults_index;
mod faults_key;
mod fed;
mod fed_faults;
mod foreign;
mod fork;
mod hostile;
mod index;
mod log;
mod model;
mod oddities;
mod property;
mod reads;
mod retention;
mod review;
mod search;
mod search_quality;
mod support;
mod tree;
mod usage;
mod views;

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"));
    let forgotten = unforget_testkit::modules::forgotten(folder, include_str!("main.rs")).unwrap();
    assert!(forgotten.is_empty(), "not part of the tests: {forgotten:?}");
}

#[test]
fn every_fault_has_a_test() {
    fn sources(folder: &std::path::Path, out: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, out);
            } else {
                out.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut tests = String::new();
    sources(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it")), &mut tests);
    let list = include_str!("../fixtures/faults/README.md");
    let ids: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()).skip(1).collect();
    assert_eq!(ids.len(), 99);
    let missing: Vec<&&str> = ids.iter().filter(|id| !tests.contains(&format!("fn {}_", id.to_lowercase()))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
