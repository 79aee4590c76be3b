//! Faults of transcripts: what is in the file, what the disk does, and what happens to it behind our back.

use std::path::PathBuf;

use unforget_core::directory::{Directory, Entry};
use unforget_core::doctor::{self, Mode};
use unforget_core::history::{History, Limits};
use unforget_core::record::{Draft, Envelope};
use unforget_core::report::Report;
use unforget_core::scan::scan;
use unforget_core::session::Session;
use unforget_core::view::Restored;
use unforget_testkit::crash::CrashMedium;

use crate::support::{assert_accepted, crash_store};

mod bytes;
mod disk;
mod gaps;
mod headers;
mod large;
mod live;
mod power;
mod records;

/// What every fixture that begins with the clean transcript says.
const CLEAN: [&str; 4] =
    ["user: hello", "assistant: Hi there! | call toolu_01", "user: result toolu_01", "assistant: done"];
/// Length of the clean transcript.
const CLEAN_BYTES: u64 = 505;
/// The session that the fixtures are.
const FIXTURE: &str = "agents/main/sessions/abc123.jsonl";

/// One transcript in a store in memory.
struct Scene {
    medium: CrashMedium,
    store: Directory,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Scene {
    /// A fixture as the transcript of the session `abc123`.
    fn of(name: &str) -> Self {
        Self::with(&fixture(name))
    }

    /// Any bytes as the transcript of the session `abc123`.
    fn with(bytes: &[u8]) -> Self {
        let (medium, store) = crash_store();
        medium.write_file(FIXTURE, bytes).unwrap();
        Self { medium, store, path: FIXTURE.into(), bytes: bytes.to_vec() }
    }

    /// A native transcript of a few turns, `question 1` and `answer 1` and so on.
    fn native(turns: usize) -> Self {
        let (medium, store) = crash_store();
        let mut session = store.create(&"main:cli:user".parse().unwrap(), None).unwrap();
        for turn in 1..=turns {
            save(&mut session, turn);
        }
        let path = session.path().to_path_buf();
        let bytes = medium.read(&path).unwrap();
        Self { medium, store, path, bytes }
    }

    /// The same session with other bytes.
    fn edited(&self, bytes: &[u8]) -> Self {
        self.medium.write_file(&self.path, bytes).unwrap();
        Self { medium: self.medium.clone(), store: self.store.clone(), path: self.path.clone(), bytes: bytes.to_vec() }
    }

    fn file(&self) -> Vec<u8> {
        self.medium.read(&self.path).unwrap()
    }

    /// The only session in the list.
    fn entry(&self) -> Entry {
        let mut entries = self.store.list().unwrap().entries;
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    fn open(&self) -> Session {
        self.store.open(&self.entry()).unwrap()
    }

    /// What a reader gets, having changed nothing on the disk.
    fn restored(&self) -> Restored {
        let before = (self.medium.paths(), self.file());
        let restored = self.store.history(&self.entry(), &Limits::default()).unwrap();
        assert_accepted(&restored.history, "restored");
        assert_eq!((self.medium.paths(), self.file()), before, "a reader changed something");
        restored
    }

    fn outline(&self) -> Vec<String> {
        outline(&self.restored().history)
    }

    /// Place, length and name of everything that the load report tells.
    fn notes(&self) -> Vec<(u64, u64, &'static str)> {
        notes(&self.restored().report)
    }

    /// As [`Scene::notes`], without what harms nothing.
    fn damage(&self) -> Vec<(u64, u64, &'static str)> {
        self.restored().report.damage().map(|note| (note.offset, note.len, note.kind.name())).collect()
    }

    /// Names of the repairs in the history.
    fn repairs(&self) -> Vec<&'static str> {
        self.restored().history.repairs.iter().map(|repair| repair.kind.name()).collect()
    }

    /// What the doctor says is wrong, each with whether it was put right.
    fn diagnosis(&self, mode: Mode) -> Vec<(String, bool)> {
        let diagnosis = doctor::examine(&self.store, None, mode, |_| {}).unwrap();
        let faults = diagnosis.findings.into_iter().filter(|finding| !finding.is_oddity);
        faults.map(|finding| (finding.problem, finding.fixed)).collect()
    }
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/fixtures/faults/{name}.jsonl", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn notes(report: &Report) -> Vec<(u64, u64, &'static str)> {
    report.notes.iter().map(|note| (note.offset, note.len, note.kind.name())).collect()
}

fn save(session: &mut Session, turn: usize) {
    try_save(session, turn).unwrap();
}

fn try_save(session: &mut Session, turn: usize) -> unforget_core::Result<()> {
    let blocks = format!("[{{\"type\":\"text\",\"text\":\"answer {turn}\"}}]");
    session.save_turn(&format!("question {turn}"), &blocks).map(|_| ())
}

/// What [`save`] leaves in the history.
fn turns(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers
        .into_iter()
        .flat_map(|turn| [format!("user: question {turn}"), format!("assistant: answer {turn}")])
        .collect()
}

/// Each message as one line: who speaks, and the blocks in short.
fn outline(history: &History<'_>) -> Vec<String> {
    let block = |raw: &str| {
        let value: serde_json::Value = serde_json::from_str(raw).unwrap_or_default();
        match value["type"].as_str() {
            Some("text") => value["text"].as_str().unwrap().to_owned(),
            Some("tool_use") => format!("call {}", value["id"].as_str().unwrap()),
            Some("tool_result") => format!("result {}", value["tool_use_id"].as_str().unwrap()),
            _ => raw.to_owned(),
        }
    };
    let message = |message: &unforget_core::history::Message<'_>| {
        let blocks: Vec<String> = message.blocks.iter().map(|raw| block(raw)).collect();
        format!("{}: {}", message.role.name(), blocks.join(" | "))
    };
    history.messages.iter().map(message).collect()
}

/// A transcript with one more native line, which no session wrote.
fn with_line(bytes: &[u8], n: u64, draft: &Draft) -> Vec<u8> {
    let scanned = scan(bytes);
    let last = scanned.records.last().unwrap();
    let (now_ms, previous_crc) = (last.time_ms().unwrap(), last.crc.unwrap());
    let line = draft.encode(Envelope { n, parent: Some(n - 1), now_ms, previous_crc }, &[]);
    [bytes, line.as_bytes()].concat()
}

/// Where each line of a file begins, and its bytes with their line feed.
fn physical(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut at = 0;
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            let start = at;
            at += line.len();
            (start, line)
        })
        .collect()
}
