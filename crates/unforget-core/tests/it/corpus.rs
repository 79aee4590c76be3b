//! The inputs that the fuzzer found worth keeping, read once more on a compiler without a fuzzer.

use unforget_testkit::fuzzing;

/// Runs a target over every file of its corpus.
fn replay(target: &str, run: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder} is empty");
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| run(&bytes));
        assert!(outcome.is_ok(), "{} breaks what must always hold, as said above", path.display());
    }
}

#[test]
fn every_kept_input_of_the_reader_is_accounted_for() {
    replay("reader", fuzzing::reader);
}

#[test]
fn every_kept_input_of_the_request_is_accepted() {
    replay("request", fuzzing::request);
}
