//! The faults of services and of security that are known (`faults.txt`), and that each has a test which carries its id.

use std::collections::BTreeMap;
use std::path::Path;

const FAULTS: &str = include_str!("../faults.txt");

/// The names of all tests in the workspace's own sources.
fn tests() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut names, mut folders) = (Vec::new(), vec![crates.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                names.extend(tests_of(&text));
            }
        }
    }
    names
}

/// The names of the functions that are marked as tests.
fn tests_of(source: &str) -> Vec<String> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in source.lines().map(str::trim_start) {
        match line.split_once("fn ") {
            _ if line.starts_with("#[test]") || line.starts_with("#[tokio::test") => is_test = true,
            Some((_, name)) if !line.starts_with("//") => {
                names.extend(is_test.then(|| name.split(['(', '<']).next().unwrap().to_owned()));
                is_test = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn only_what_is_run_counts_as_a_test() {
    let source = "#[test]\n#[cfg(unix)]\nfn z01_one() {}\n// fn z02_two\nfn z03_three() {}\n    #[tokio::test(a)]\n    async fn z04_four() {}";
    assert_eq!(tests_of(source), ["z01_one", "z04_four"]);
}

#[test]
fn every_known_fault_has_a_test() {
    let all = tests();
    let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, _) in FAULTS.lines().map(|line| line.split_once(' ').unwrap()) {
        let prefix = format!("{}_", id.to_lowercase());
        tests.insert(id, all.iter().filter(|name| name.starts_with(&prefix)).count());
    }
    let untested: Vec<_> = tests.iter().filter(|(_, count)| **count == 0).collect();
    assert!(tests.len() > 20 && untested.is_empty(), "without a test: {untested:?}");
}

#[test]
fn z17_every_dependency_is_the_one_whose_checksum_is_known() {
    let lock = include_str!("../../../../Cargo.lock");
    let packages: Vec<&str> = lock.split("[[package]]").skip(1).collect();
    assert!(packages.len() > 100);
    for package in packages {
        let Some((_, rest)) = package.split_once("\nsource = \"") else {
            assert!(package.contains("\nname = \"unforget") || package.contains("\nname = \"xtask\""), "{package}");
            continue;
        };
        assert!(rest.starts_with("registry+https://github.com/rust-lang/crates.io-index\""), "{package}");
        assert!(package.contains("\nchecksum = \""), "{package}");
    }
    let deny = include_str!("../../../../deny.toml");
    assert!(deny.contains("unknown-registry = \"deny\"") && deny.contains("unknown-git = \"deny\""));
}
