//! What the measurements are made on: a store on the real disk, and transcripts of any length in it.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use unforget_core::directory::{Directory, Entry};
use unforget_core::layout::AgentDir;
use unforget_core::log::Durability;
use unforget_core::medium::Os;
use unforget_core::record::{Draft, Envelope, Record};
use unforget_core::stamp::{SessionId, System};
use unforget_core::summary::Row;
use unforget_testkit::generate::{self, Dice};

/// How much is measured.
pub(crate) struct Scale {
    /// Rounds of what is short.
    pub(crate) rounds: usize,
    /// Rounds of what goes through a large transcript.
    pub(crate) long_rounds: usize,
    /// Bytes of the transcript that is rebuilt whole.
    pub(crate) whole: u64,
    /// Bytes of the transcripts that are resumed.
    pub(crate) resumed: &'static [u64],
    /// Sessions in a full store.
    pub(crate) sessions: usize,
}

impl Scale {
    pub(crate) const QUICK: Self = Self {
        rounds: 60,
        long_rounds: 3,
        whole: 24_000_000,
        resumed: &[1_000_000, 10_000_000, 100_000_000],
        sessions: 1_000,
    };
    pub(crate) const FULL: Self = Self {
        rounds: 300,
        long_rounds: 7,
        whole: 116_000_000,
        resumed: &[1_000_000, 10_000_000, 116_000_000, 1_000_000_000],
        sessions: 10_000,
    };
}

/// A home directory that goes away with this value.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let within = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(within).unwrap();
        let home = Self(TempDir::new_in(within).unwrap());
        std::fs::create_dir_all(home.path().join(agent().sessions())).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn store(&self, durability: Durability) -> Directory {
        Directory::new(Arc::new(Os::new(self.path())), Arc::new(System), durability)
    }

    /// Where session `number` is.
    pub(crate) fn transcript(&self, number: usize) -> PathBuf {
        self.path().join(agent().transcript(&session_id(number)))
    }

    /// Writes session `number` with about that many bytes.
    pub(crate) fn write(&self, number: usize, bytes: u64) {
        write_transcript(&self.transcript(number), number, bytes);
    }
}

/// The only agent of the store.
pub(crate) fn agent() -> AgentDir {
    AgentDir::of("main")
}

fn session_id(number: usize) -> SessionId {
    SessionId::parse(&format!("01900000-0000-7000-8000-{number:012}")).unwrap()
}

/// The key of session `number`.
pub(crate) fn key(number: usize) -> String {
    format!("main:bench:{number}")
}

/// Session `number` as a list would name it.
pub(crate) fn entry(number: usize) -> Entry {
    let row = Row { id: session_id(number).to_string(), key: Some(key(number)), ..Row::default() };
    Entry { dir: agent(), row }
}

/// Streams a transcript to disk, so that a gigabyte of it is never in memory.
fn write_transcript(path: &Path, number: usize, bytes: u64) {
    let mut dice = Dice::new(number as u64);
    let mut chain = Chain::default();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let header = Draft::new("session").text("id", session_id(number).as_str()).text("key", &key(number));
    out.write_all(chain.line(&header).as_bytes()).unwrap();
    let mut turn = 0;
    while chain.bytes < bytes {
        for draft in generate::turn(&mut dice, turn) {
            out.write_all(chain.line(&draft).as_bytes()).unwrap();
        }
        turn += 1;
    }
    out.into_inner().unwrap().sync_all().unwrap();
}

/// Lines one after the other, each numbered and chained to the one before it.
#[derive(Default)]
pub(crate) struct Chain {
    next: u64,
    crc: u32,
    bytes: u64,
}

impl Chain {
    pub(crate) fn line(&mut self, draft: &Draft) -> String {
        let now_ms = 1_767_225_600_000 + i64::try_from(self.next).unwrap();
        let parent = Some(self.next.saturating_sub(1));
        let envelope = Envelope { n: self.next, parent, now_ms, previous_crc: self.crc };
        let line = draft.encode(envelope, &[]);
        self.crc = Record::parse(line.trim_end(), 0, self.next).unwrap().crc.unwrap();
        self.next += 1;
        self.bytes += line.len() as u64;
        line
    }
}
