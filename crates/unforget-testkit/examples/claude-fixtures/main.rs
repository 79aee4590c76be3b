//! Lets the real Claude CLI write sessions, and keeps them as fixtures, without the vendor's prompts.
//!
//! For every version that is installed and every scenario there are afterwards `<scenario>.jsonl`, the transcript as it
//! is after its last answer; `<scenario>.request.json`, the `messages` that the CLI sent to get that answer; and
//! `<scenario>/`, what the CLI keeps beside a transcript, if there is any. What we rebuild from the first, without its
//! last answer, must be the second.
//!
//! Usage: `cargo xtask claude-fixtures [SCENARIO…]`. The fixtures of a version are replaced, not added to. Run it for
//! versions that have no fixtures yet: those that are there are what the tests rely on.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a tool for people that talks to the terminal, writes files, and stops at the first problem"
)]

mod cut;
mod rewrite;
mod scenarios;

use std::fs;
use std::path::{Path, PathBuf};

use unforget_testkit::api::{FakeApi, Options};
use unforget_testkit::claude::{Claude, Machine, requests};

use self::cut::Cut;
use self::scenarios::Scenario;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for claude in Claude::all() {
        let place = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../unforget-core/tests/fixtures")
            .join(format!("claude-{}", claude.version()));
        fs::create_dir_all(&place).unwrap();
        for (number, scenario) in scenarios::ALL.iter().enumerate() {
            if wanted.is_empty() || wanted.iter().any(|name| name == scenario.name) {
                eprintln!("{} {}", claude.version(), scenario.name);
                record(&claude, scenario, number, &place);
            }
        }
    }
}

fn record(claude: &Claude, scenario: &Scenario, number: usize, place: &Path) {
    let api = FakeApi::start(Options::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(claude, folder.path(), &api.url());
    let session = format!("5e551011-0000-4000-8000-{number:012}");
    (scenario.play)(&mut scenarios::Stage { api: &api, machine: &mut machine, session: &session });
    for refused in api.refusals() {
        eprintln!("  refused: {}", refused.refusal.unwrap());
    }
    let transcript = machine.transcript(&session).expect("a transcript");
    let lines = fs::read_to_string(&transcript).unwrap();
    let request = requests::last_messages(&api, &session).expect("a request with tools");
    let cut = Cut::new(&machine, &lines);
    fs::write(place.join(format!("{}.jsonl", scenario.name)), cut.lines(&lines)).unwrap();
    let request = cut.messages(request.get());
    fs::write(place.join(format!("{}.request.json", scenario.name)), request + "\n").unwrap();
    let beside = place.join(scenario.name);
    if beside.exists() {
        fs::remove_dir_all(&beside).unwrap();
    }
    copy(&transcript.with_extension(""), &beside, &cut);
    copy(&machine.config.join("file-history").join(&session), &beside.join("file-history"), &cut);
}

/// Copies a folder, if it is there, with everything in it.
fn copy(from: &Path, to: &Path, cut: &Cut) {
    let Ok(entries) = fs::read_dir(from) else { return };
    fs::create_dir_all(to).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target, cut);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let is_transcript = path.extension().is_some_and(|end| end == "jsonl");
        // An agent's transcript has prompts of its own.
        let kept = if is_transcript { cut.and(&text).lines(&text) } else { cut.paths(&text) };
        fs::write(target, kept).unwrap();
    }
}
