//! The page in a real browser, against the real program: each file of `web/tests` is one test here, so that `cargo test` runs them all.
//!
//! `cargo xtask test` installs the browser and the packages (`xtask/src/web.rs`); where that is not possible the tests say loudly that they were skipped.
//! One file alone: `node --test web/tests/talk.test.mjs`.

use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                passes(stringify!($name));
            }
        )*
    };
}

files!(conversation, harness, look, network, safe, scale, sessions, steering, story, talk, tree, usage);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn passes(name: &str) {
    let needed = ["/usr/bin/chromium".into(), workspace().join("target/tools/web-tests/made-of")];
    if let Some(missing) = needed.iter().find(|path| !path.exists()) {
        println!("SKIPPED: there is no {}; `cargo xtask test` installs it", missing.display());
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_unforget"));
    let api = program.with_file_name("fake-api");
    assert!(api.exists(), "there is no fake-api: `cargo build --workspace --all-features --bins`");
    let mut command = Command::new("node");
    command.current_dir(workspace()).args(["--test", "--test-reporter=tap"]);
    // Newer versions see to it that nothing hangs for ever. The time is that of the whole file; each wait in it has a bound of its own.
    let bounds = ["--test-timeout=2400000", "--test-force-exit"];
    if Command::new("node").args(bounds).arg("--version").output().is_ok_and(|said| said.status.success()) {
        command.args(bounds);
    }
    command.arg(format!("web/tests/{name}.test.mjs")).env("UNFORGET_BIN", program).env("UNFORGET_FAKE_API", api);
    let output = command.output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{told}", output.status);
    let has_run = told.lines().any(|line| line.starts_with("# pass ") && line != "# pass 0");
    assert!(has_run, "no test was run by {command:?}\n{told}");
}

#[test]
fn every_file_is_run() {
    let entries = std::fs::read_dir(workspace().join("web/tests")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".test.mjs")?.to_owned())).collect();
    found.sort();
    assert_eq!(found, FILES);
}
