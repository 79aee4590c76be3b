//! What must hold for every input, as functions that panic when it does not.
//!
//! The fuzzer calls [`reader`] and [`request`] with bytes of its own making; an ordinary test calls them with the
//! inputs that the fuzzer once found worth keeping. Both run the same code, so what one finds the other repeats.
//!
//! [`reader`] holds the line layer to its word: no byte of a file is unaccounted for, and a file reads the same from
//! either end. [`request`] holds the record layer to its own: whatever the bytes are, the messages rebuilt from them
//! are ones that the API takes.

#![expect(clippy::panic, reason = "a violation has no caller to be reported to, only a fuzzer to be stopped")]

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use unforget_core::Error;
use unforget_core::blob::Blobs;
use unforget_core::history::{History, Limits, Role, rebuild_all};
use unforget_core::lines::{self, Physical, Piece};
use unforget_core::reader::LogReader;
use unforget_core::recent::End;
use unforget_core::report::NoteKind;
use unforget_core::scan::{Scan, scan};
use unforget_core::view;

use crate::crash::CrashMedium;
use crate::rules::{self, Rejection, Server};

const FILE: &str = "transcript.jsonl";
/// How much the reader takes at once from the end of a file, and from its beginning.
const BLOCKS: [usize; 2] = [64 * 1024, 256 * 1024];
/// Budgets that leave nothing, next to nothing, a few steps, and most of a small transcript.
const BUDGETS: [u64; 4] = [0, 40, 200, 1000];

/// Reads bytes in every way that a transcript is read, and panics if some of them get lost or the ways differ.
pub fn reader(bytes: &[u8]) {
    let lines: Vec<Physical<'_>> = lines::split(bytes, 0).collect();
    check_lines(&lines, bytes);
    let objects: usize = lines.iter().enumerate().map(|(place, line)| check_pieces(line, place == 0)).sum();
    let scanned = scan(bytes);
    assert_eq!(scanned.records.len(), objects, "each whole object is a record");
    check_accounts(&scanned, bytes);
    check_both_ways(bytes);
    // The same lines across the edges of the blocks that they are read in; dear, so only for some lengths.
    if bytes.len().is_multiple_of(8) {
        let [backward, forward] = BLOCKS.map(|block| vec![b'x'; block.saturating_sub(bytes.len() / 2)]);
        check_both_ways(&[&forward, &b"\n"[..], bytes, &backward].concat());
    }
}

fn check_lines(lines: &[Physical<'_>], bytes: &[u8]) {
    let mut behind = 0;
    for line in lines {
        assert_eq!(line.offset, behind, "a line begins where the one before it ends");
        assert!(!line.bytes.contains(&b'\n'), "a line holds no line feed: {line:?}");
        behind = line.end();
        assert!(line.terminated || behind == bytes.len() as u64, "only the last line may lack its line feed");
    }
    assert_eq!(behind, bytes.len() as u64, "the lines are the whole file");
}

/// Counts the objects in a line whose pieces cover it.
fn check_pieces(line: &Physical<'_>, first: bool) -> usize {
    let mut behind = 0;
    let mut objects = 0;
    for piece in lines::salvage(line, first) {
        let range = match &piece {
            Piece::Object(range) | Piece::Skip(range, _) => range.clone(),
        };
        assert!(range.start == behind && range.end > behind, "{piece:?} begins where the one before it ends");
        behind = range.end;
        if let Piece::Object(range) = piece {
            assert!(lines::is_object(&line.bytes[range.clone()]), "{range:?} of {line:?} is an object");
            objects += 1;
        }
    }
    assert_eq!(behind as u64, line.len, "the pieces are the whole line");
    objects
}

/// Adds up records and skipped ranges: what neither of them holds may only be separators and blanks.
fn check_accounts(scanned: &Scan<'_>, bytes: &[u8]) {
    let mut held = vec![false; bytes.len()];
    let mut hold = |range: Range<usize>, what: &dyn std::fmt::Debug| {
        for taken in &mut held[range.clone()] {
            assert!(!*taken, "{what:?} takes bytes of {range:?} that another has");
            *taken = true;
        }
    };
    for record in &scanned.records {
        let range = extent(record.offset, record.raw.len() as u64);
        assert_eq!(&bytes[range.clone()], record.raw.as_bytes(), "a record is where it says");
        hold(range, &record.raw);
    }
    let skips = scanned.report.notes.iter().filter(|note| is_skip(&note.kind));
    let listed: u64 = skips.clone().map(|note| note.len).sum();
    if scanned.report.unlisted == 0 && scanned.report.unlisted_oddities == 0 {
        assert_eq!(listed, scanned.report.skipped_bytes, "each skipped range has its note");
        for note in skips {
            hold(extent(note.offset, note.len), note);
        }
        let lost = held.iter().zip(bytes).position(|(held, byte)| !held && !is_separator(*byte));
        assert_eq!(lost, None, "every byte is in a record, in a skipped range, or between them");
    } else {
        let skipped = usize::try_from(scanned.report.skipped_bytes).unwrap_or(usize::MAX);
        let free = held.iter().filter(|held| !**held).count();
        let separators = held.iter().zip(bytes).filter(|(held, byte)| !**held && is_separator(**byte)).count();
        assert!(skipped <= free && free - skipped <= separators, "{skipped} of {free} free bytes were skipped");
    }
}

fn extent(offset: u64, len: u64) -> Range<usize> {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    at(offset)..at(offset + len)
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

/// Tells the notes about bytes that belong to no record from those about records.
fn is_skip(kind: &NoteKind) -> bool {
    match kind {
        NoteKind::ByteOrderMark
        | NoteKind::Blank
        | NoteKind::Torn
        | NoteKind::Nul
        | NoteKind::InvalidUtf8
        | NoteKind::Malformed(_)
        | NoteKind::NotAnObject
        | NoteKind::TooLong => true,
        NoteKind::CarriageReturn { .. }
        | NoteKind::TrailingBlanks
        | NoteKind::MissingLineFeed
        | NoteKind::SecondHeader
        | NoteKind::OddParent { .. }
        | NoteKind::DuplicateName(_)
        | NoteKind::UnknownType(_)
        | NoteKind::ClockBackwards
        | NoteKind::InvalidRecord(_)
        | NoteKind::Gap { .. }
        | NoteKind::Repeated(_)
        | NoteKind::ChecksumMismatch
        | NoteKind::UnknownParent(_)
        | NoteKind::BlobUnreadable(_) => false,
    }
}

/// Reads a file forward and backward and holds both against the lines of the buffer.
fn check_both_ways(bytes: &[u8]) {
    let Some(log) = open(&medium_with(bytes)) else { return };
    let lines: Vec<Physical<'_>> = lines::split(bytes, 0).collect();
    let mut forward = log.forward(0);
    for line in &lines {
        assert_eq!(expect("read forward", forward.next()), Some(*line), "forward");
    }
    assert_eq!(expect("read forward", forward.next()), None, "forward, at the end");
    let mut backward = log.backward();
    for line in lines.iter().rev() {
        assert_eq!(expect("read backward", backward.next()), Some(*line), "backward");
        assert_eq!(backward.position(), line.offset, "backward, after the line");
    }
    assert_eq!(expect("read backward", backward.next()), None, "backward, at the beginning");
    if let Some(middle) = lines.get(lines.len() / 2) {
        assert_eq!(expect("read", log.forward(middle.offset).next()), Some(*middle), "from the middle");
    }
    let end = expect("find the end", End::of(&log));
    assert!(end.head.is_none_or(|_| !lines.is_empty()), "an empty file has no head");
}

/// Rebuilds a request from bytes in every way that one is rebuilt, and panics if the API would refuse it.
pub fn request(bytes: &[u8]) {
    let scanned = scan(bytes);
    let whole = rebuild_all(&scanned.records, &Limits::default());
    assert_accepted(&whole, "the whole transcript");
    let again = rebuild_all(&scanned.records, &Limits::default());
    assert_eq!(whole, again, "the same records give the same history");
    let medium = medium_with(bytes);
    let openable = open(&medium).is_some();
    for budget in BUDGETS {
        let limits = Limits::tokens(budget);
        assert_accepted(&rebuild_all(&scanned.records, &limits), &format!("all records in {budget} tokens"));
        if openable {
            let blobs = Blobs::new(std::sync::Arc::new(medium.clone()));
            let restored = expect("restore", view::restore(&medium, Path::new(FILE), &blobs, &limits));
            assert_accepted(&restored.history, &format!("the end of the transcript in {budget} tokens"));
        }
    }
}

fn medium_with(bytes: &[u8]) -> CrashMedium {
    let medium = CrashMedium::new();
    expect("lay out the file", medium.write_file(FILE, bytes));
    medium
}

/// Opens the transcript, unless its beginning says that it is something else.
fn open(medium: &CrashMedium) -> Option<LogReader> {
    match LogReader::open(medium, Path::new(FILE)) {
        Err(Error::Foreign { .. }) => None,
        other => Some(expect("open", other)),
    }
}

fn expect<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("could not {what}: {error}"))
}

fn assert_accepted(history: &History<'_>, what: &str) {
    if let Err(rejection) = accepted(history) {
        panic!("{what}: {rejection}\n{}", history.to_request(Server::default().model, 1024));
    }
}

/// Asks the API's rules about the request that a history becomes with the user's next words.
pub fn accepted(history: &History<'_>) -> Result<(), Rejection> {
    let mut body = history.to_request(Server::default().model, 1024);
    let speaks_next = history.messages.last().is_none_or(|last| {
        // A paused turn goes on with what the model said; the user does not speak in between.
        last.role == Role::Assistant && !has_open_server_call(&last.blocks)
    });
    if speaks_next {
        body.truncate(body.len() - "]}".len());
        body.push_str(if history.messages.is_empty() { "" } else { "," });
        body.push_str("{\"role\":\"user\",\"content\":\"go on\"}]}");
    }
    rules::check(body.as_bytes(), &Server::default())
}

fn has_open_server_call(blocks: &[Cow<'_, str>]) -> bool {
    let blocks: Vec<Value> = blocks.iter().filter_map(|block| serde_json::from_str(block).ok()).collect();
    let ids = |kind: fn(&str) -> bool, id: &'static str| -> Vec<&Value> {
        blocks.iter().filter(|block| block["type"].as_str().is_some_and(kind)).map(|block| &block[id]).collect()
    };
    let done = ids(|kind| kind.ends_with("_tool_result"), "tool_use_id");
    ids(|kind| kind == "server_tool_use", "id").iter().any(|id| !done.contains(id))
}
