//! The end of a transcript, as far as it is needed and no further.
//!
//! Resuming a conversation takes the newest records on its path: back to the last compaction, or as many
//! as a token budget holds. They are read from the end of the file, so that a transcript of a gigabyte
//! resumes as fast as one of a megabyte. Version 0 has no numbers to walk back on; such a file is read whole.

use crate::error::Result;
use crate::history::{self, History, Limits, Path};
use crate::lines::{Physical, Piece, salvage};
use crate::reader::LogReader;
use crate::record::{Body, CRC_TAIL, Parent, Record, VERSION, checksum};
use crate::report::{Note, NoteKind, Report};
use crate::scan::{self, Scanner};
use crate::tokens;

/// Where a transcript ends, as its next writer must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// Number of the next record.
    pub next: u64,
    /// The record that the conversation goes on from.
    pub head: Option<u64>,
    /// Checksum that the next line is chained to.
    pub crc: u32,
}

impl End {
    /// Finds the end of a transcript, reading no more of it than necessary.
    pub fn of(reader: &LogReader) -> Result<Self> {
        let mut backward = reader.backward();
        let mut found: Option<Self> = None;
        while let Some(line) = backward.next()? {
            let mut scanner = Scanner::partial(0);
            let mut records = Vec::new();
            scanner.feed(&line, |record| records.push(record));
            for record in records.iter().rev() {
                if record.version == 0 {
                    return Self::by_scanning(reader);
                }
                let next = record.n.saturating_add(1);
                let end = found.get_or_insert(Self { next, head: None, crc: scanner.last_crc() });
                end.next = end.next.max(next);
                match record.body {
                    Body::Head { to } => end.head = to,
                    _ if record.is_step() => end.head = Some(record.n),
                    _ => continue,
                }
                return Ok(*end);
            }
            let is_blank = line.bytes.trim_ascii().is_empty();
            if records.is_empty() && !is_blank && found.is_none() {
                // A damaged last line: the next checksum starts anew.
                found = Some(Self::default());
            }
        }
        Ok(found.unwrap_or_default())
    }

    fn by_scanning(reader: &LogReader) -> Result<Self> {
        let mut scanner = Scanner::default();
        let mut head = None;
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| match record.body {
                Body::Head { to } => head = to,
                _ if record.is_step() => head = Some(record.n),
                _ => {}
            });
        }
        Ok(Self { next: scanner.next_number(), head, crc: scanner.last_crc() })
    }
}

/// The lines that a conversation goes on from.
#[derive(Debug)]
pub struct Recent {
    /// The lines in file order, each with its offset.
    lines: Vec<(u64, Vec<u8>)>,
    /// Whether records before the first line were left unread.
    begins_late: bool,
    /// Damage met on the way.
    report: Report,
    /// Whether the lines are the whole transcript.
    whole: bool,
}

impl Recent {
    /// Reads what the newest part of the conversation consists of; everything if there is no token budget.
    pub fn read(reader: &LogReader, limits: &Limits) -> Result<Self> {
        if let Some(budget) = limits.tokens
            && let Some(recent) = Self::from_the_end(reader, budget)?
        {
            return Ok(recent);
        }
        let whole = vec![(0, reader.read_all()?)];
        Ok(Self { lines: whole, begins_late: false, report: Report::default(), whole: true })
    }

    fn from_the_end(reader: &LogReader, budget: u64) -> Result<Option<Self>> {
        let mut walk = Walk::default();
        let mut backward = reader.backward();
        let mut recent = Self { lines: Vec::new(), begins_late: false, report: Report::default(), whole: false };
        let mut later: Option<Later> = None;
        while let Some(line) = backward.next()? {
            let mut notes = Vec::new();
            let records = records_of(&line, &mut notes);
            if let Some(later) = &mut later
                && records.is_empty()
                && !line.bytes.trim_ascii().is_empty()
            {
                later.chained = false;
            }
            let mut wanted = false;
            for record in records.iter().rev() {
                if record.version == 0 {
                    return Ok(None);
                }
                notes.extend(later.iter().flat_map(|later| later.notes(Some(record))));
                later = Some(Later::of(record));
                wanted |= walk.visit(record, budget);
                if walk.finished {
                    break;
                }
            }
            recent.report.notes.append(&mut notes);
            if wanted {
                recent.lines.push((line.offset, line.bytes.to_vec()));
            }
            if walk.finished {
                break;
            }
        }
        if backward.position() == 0 {
            recent.report.notes.extend(later.iter().flat_map(|later| later.notes(None)));
        }
        recent.report.notes.sort_by_key(|note| note.offset);
        recent.begins_late = walk.over_budget;
        recent.lines.reverse();
        Ok(Some(recent))
    }

    /// The records of the lines, and what was met on the way.
    pub fn scan(&self) -> (Vec<Record<'_>>, Report) {
        if self.whole {
            let bytes = self.lines.first().map_or(&[][..], |(_, bytes)| bytes);
            let scanned = scan::scan(bytes);
            return (scanned.records, scanned.report);
        }
        let mut records = Vec::new();
        for (offset, bytes) in &self.lines {
            let line = Physical { offset: *offset, bytes, len: bytes.len() as u64, terminated: true };
            records.extend(records_of(&line, &mut Vec::new()));
        }
        (records, self.report.clone())
    }

    /// The path through those records.
    pub fn path<'r, 'a>(&self, records: &'r [Record<'a>]) -> Path<'r, 'a> {
        let mut path = history::path(records);
        path.begins_late = self.begins_late;
        path
    }
}

/// What a history was rebuilt from, and how it went.
#[derive(Debug)]
pub struct Restored {
    /// The messages and their repairs.
    pub history: History<'static>,
    /// Damage met in what was read.
    pub report: Report,
}

fn records_of<'a>(line: &Physical<'a>, notes: &mut Vec<Note>) -> Vec<Record<'a>> {
    let plain = line.bytes.trim_ascii_end();
    if plain.first() == Some(&b'{')
        && let Ok(text) = std::str::from_utf8(plain)
        && let Ok(record) = Record::parse(text, line.offset, 0)
    {
        return vec![record];
    }
    let mut records = Vec::new();
    for piece in salvage(line, line.offset == 0) {
        match piece {
            Piece::Skip(range, kind) => {
                notes.push(Note { offset: line.offset + range.start as u64, len: range.len() as u64, kind });
            }
            Piece::Object(range) => {
                let offset = line.offset + range.start as u64;
                let text = std::str::from_utf8(line.bytes[range].trim_ascii_end()).ok();
                records.extend(text.and_then(|text| Record::parse(text, offset, 0).ok()));
            }
        }
    }
    records
}

/// What the way back remembers of a record, to hold it against the one before it.
#[derive(Debug)]
struct Later {
    version: u64,
    n: u64,
    offset: u64,
    crc: Option<u32>,
    raw: String,
    /// Whether no damaged line is between it and the record before it.
    chained: bool,
}

impl Later {
    fn of(record: &Record<'_>) -> Self {
        let (version, n, offset, crc) = (record.version, record.n, record.offset, record.crc);
        Self { version, n, offset, crc, raw: record.raw.to_owned(), chained: true }
    }

    /// What is wrong between it and the record before it; `None` is the beginning of the file.
    fn notes(&self, before: Option<&Record<'_>>) -> Vec<Note> {
        let mut notes = Vec::new();
        let next = before.map_or(0, |record| record.n.saturating_add(1));
        if self.n > next {
            notes.push(Note { offset: self.offset, len: 0, kind: NoteKind::Gap { first: next, last: self.n - 1 } });
        } else if self.n < next {
            notes.push(Note { offset: self.offset, len: 0, kind: NoteKind::Repeated(self.n) });
        }
        let previous = before.and_then(|record| record.crc).unwrap_or(0);
        let end = self.raw.len().saturating_sub(CRC_TAIL);
        let checks = match (self.version, self.crc) {
            (VERSION, None) => false,
            (_, Some(crc)) if self.chained => crc == checksum(previous, &self.raw.as_bytes()[..end]),
            (_, _) => true,
        };
        if !checks {
            let len = self.raw.len() as u64;
            notes.push(Note { offset: self.offset, len, kind: NoteKind::ChecksumMismatch });
        }
        notes
    }
}

/// The walk from the head towards the root, over records in reverse file order.
#[derive(Debug, Default)]
struct Walk {
    /// The record that comes next; `None` while the head is still to be found.
    want: Option<u64>,
    started: bool,
    /// Where the newest compaction lets the history begin.
    keep_from: Option<u64>,
    compacted: bool,
    tokens: u64,
    finished: bool,
    over_budget: bool,
}

impl Walk {
    /// Looks at a record; tells whether it is part of the conversation (or decides where it is).
    fn visit(&mut self, record: &Record<'_>, budget: u64) -> bool {
        if let Body::Head { to } = record.body
            && !self.started
        {
            self.started = true;
            self.want = to;
            self.finished = to.is_none();
            return true;
        }
        if !record.is_step() || self.want.is_some_and(|want| record.n > want) {
            return false;
        }
        self.started = true;
        self.tokens += tokens::estimate(record.raw.as_bytes());
        self.want = match record.parent {
            // A parent that does not come before its child is damage; the step before it stands in.
            Parent::Record(parent) => Some(parent.min(record.n.saturating_sub(1))),
            Parent::Previous | Parent::Nothing => None,
        };
        if let Body::Compaction { first_kept, .. } = record.body
            && !self.compacted
        {
            self.compacted = true;
            self.keep_from = first_kept.filter(|kept| *kept < record.n);
            self.finished = self.keep_from.is_none();
        }
        self.finished |= self.want.is_none() || self.keep_from.is_some_and(|kept| record.n <= kept);
        if !self.finished && self.tokens > budget {
            let turn_begins = matches!(record.body, Body::User { .. });
            if turn_begins || self.tokens > budget.saturating_mul(2) {
                self.finished = true;
                self.over_budget = true;
            }
        }
        true
    }
}
