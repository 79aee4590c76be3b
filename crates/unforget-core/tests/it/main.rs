//! Integration tests of the core, one binary.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod crash;
mod faults_conversation;
mod faults_file;
mod faults_index;
mod faults_key;
mod log;
mod property;
mod support;

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let here = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        assert!(
            module == "main" || here.contains(&format!("mod {module};")),
            "tests/it/{name} is not part of the tests"
        );
    }
}
