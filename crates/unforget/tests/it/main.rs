//! End-to-end tests: the real binary, real files, real signals.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests set scenes with plain files and may fail loudly"
)]

mod commands;
mod errors;
mod import;
mod kill;
mod readme;
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
