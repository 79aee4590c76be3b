//! W4: the newest 180,000 tokens of a transcript, against a read of the bytes that they are.
//!
//! Neither time nor memory may depend on how long the transcript is.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::value::RawValue;
use unforget_core::blob::Blobs;
use unforget_core::history::Limits;
use unforget_core::lines;
use unforget_core::medium::{Medium, Os, parent};
use unforget_core::reader::LogReader;
use unforget_core::recent::Recent;

use crate::child::{self, peak_of};
use crate::scene::{Home, Scale};
use crate::table::{Task, head, interleaved, memory, row, size, timed};

const BUDGET: u64 = 180_000;
const BLOCK: usize = 64 * 1024;

pub(crate) fn run(scale: &Scale) {
    let home = Home::new();
    let rounds = scale.rounds.div_ceil(2);
    for (number, bytes) in scale.resumed.iter().enumerate() {
        home.write(number, *bytes);
    }
    let tails: Vec<u64> = (0..scale.resumed.len()).map(|number| tail(&home.transcript(number))).collect();
    head(&format!("W4  resume within {BUDGET} tokens, the last {} of a transcript", size(tails[tails.len() - 1])));
    let paths: Vec<_> = (0..scale.resumed.len()).map(|number| home.transcript(number)).collect();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for (path, tail) in paths.iter().zip(&tails) {
        tasks.push(Box::new(|| timed(|| restore(path))));
        tasks.push(Box::new(|| timed(|| read_tail(path, *tail))));
        tasks.push(Box::new(|| timed(|| validate(&read_tail(path, *tail)))));
    }
    let times = interleaved(rounds, &mut tasks);
    drop(tasks);
    let lengths: Vec<String> = scale.resumed.iter().map(|bytes| size(*bytes)).collect();
    let against = |what: &str, bare: usize, goal: &str| {
        for (length, times) in lengths.iter().zip(times.chunks_exact(3)) {
            row(&format!("{length}, against {what}"), times[0], times[bare], goal);
        }
    };
    against("a read of the tail", 1, "flat");
    against("a read and a check that it is JSON", 2, "<= 1.3x, flat");
    row("longest transcript, against the second shortest", last(&times, 3), times[3], "1x");
    for ((path, length), tail) in paths.iter().zip(&lengths).zip(&tails) {
        memory(&format!("{length}, peak memory"), peak_of(child::RESTORE, path), Some(*tail), "<= tail + 16 MB, flat");
    }
}

fn last(times: &[Duration], group: usize) -> Duration {
    times[times.len() - group]
}

/// The conversation of a transcript, as much of it as the budget holds.
pub(crate) fn restore(path: &Path) -> usize {
    let medium = std::sync::Arc::new(Os::new(parent(path)));
    let blobs = Blobs::new(medium.clone());
    let name = Path::new(path.file_name().unwrap());
    let restored = unforget_core::view::restore(medium.as_ref(), name, &blobs, &Limits::tokens(BUDGET)).unwrap();
    restored.history.to_json().len()
}

/// How many bytes at the end of a transcript are read for it.
fn tail(path: &Path) -> u64 {
    let medium: &dyn Medium = &Os::new(parent(path));
    let reader = LogReader::open(medium, Path::new(path.file_name().unwrap())).unwrap();
    let recent = Recent::read(&reader, &Limits::tokens(BUDGET)).unwrap();
    let (records, _) = recent.scan();
    reader.len() - records[0].offset
}

/// The end of a file, read backward in blocks.
fn read_tail(path: &Path, tail: u64) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let end = file.metadata().unwrap().len();
    let mut bytes = vec![0; usize::try_from(tail).unwrap()];
    let begin = end - tail;
    let mut rest = bytes.len();
    while rest > 0 {
        let from = rest.saturating_sub(BLOCK);
        file.read_exact_at(&mut bytes[from..rest], begin + from as u64).unwrap();
        rest = from;
    }
    bytes
}

fn validate(bytes: &[u8]) -> usize {
    lines::split(bytes, 0).filter(|line| serde_json::from_slice::<&RawValue>(line.bytes).is_ok()).count()
}
