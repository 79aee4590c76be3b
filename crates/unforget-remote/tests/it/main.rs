//! Remotes, put to the suite and to attacks.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests look at files as they are, fail loudly and print their seeds"
)]

#[cfg(feature = "agentcore")]
mod agentcore;
#[cfg(feature = "agentcore")]
mod agentcore_stand_in;
mod examples;
mod kills;
mod machine;
#[cfg(feature = "postgres")]
mod postgres;
mod remotes;
mod rewound;
#[cfg(feature = "s3")]
mod s3;
mod sides;
mod simulation;
mod sync;
mod uplink;

/// The faults that happen between machines.
const FAULTS: &str = "r01 r02 r04 r05 r06 r08 r09 r10 r11 r13 r14 r15 r17 r18 r19 r21";

#[test]
fn every_fault_has_a_test() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"))];
    let mut tests = String::new();
    while let Some(folder) = folders.pop() {
        for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => tests.push_str(&std::fs::read_to_string(path).unwrap()),
            }
        }
    }
    let missing: Vec<&str> = FAULTS.split_whitespace().filter(|id| !tests.contains(&format!("fn {id}_"))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
