//! Lines into records, with a report of everything that was not one.
//!
//! The scanner carries what a reader must remember from line to line: the last number, checksum and
//! time. It is fed physical lines in file order, from a buffer or from a stream, and hands out records.

use serde::{Deserialize, Serialize};

use crate::json;
use crate::lines::{self, Physical, Piece};
use crate::record::{Body, Parent, Record, VERSION};
use crate::report::{Note, NoteKind, Report};

mod claude;

/// Lines into records, carrying on from line to line.
///
/// Its serialised form is what it carries on, without the report: a reader that goes on later starts a report of its own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Scanner {
    /// Everything unusual so far.
    #[serde(skip)]
    pub report: Report,
    /// Number that the next record should have.
    next: u64,
    chain: Chain,
    previous_ts: String,
    started: bool,
    /// Lines before the first one scanned are not known, as in a read from the end.
    partial: bool,
    /// What only a reader that has seen all lines so far can tell.
    #[serde(skip, default = "Whole::unknown")]
    whole: Whole,
    /// What the tree of another program needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<Box<claude::Links>>,
}

/// What the next line's checksum is chained to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Chain {
    Known(u32),
    /// The line before it is lost or was not read.
    Unknown,
}

/// What a reader knows that began at the beginning.
#[derive(Debug, Clone)]
struct Whole {
    /// How many lines were taken; none if that is not known.
    lines: Option<u64>,
    has_header: bool,
    head: Head,
    /// The greatest number of a step.
    last: u64,
}

impl Default for Whole {
    fn default() -> Self {
        Self { lines: Some(0), has_header: false, head: Head::At(None), last: 0 }
    }
}

impl Whole {
    fn unknown() -> Self {
        Self { lines: None, has_header: false, head: Head::Unknown, last: 0 }
    }
}

/// The record that the conversation stands on.
#[derive(Debug, Clone, Copy)]
enum Head {
    At(Option<u64>),
    /// Lines are missing that may have moved it.
    Unknown,
}

impl Default for Chain {
    fn default() -> Self {
        Chain::Known(0)
    }
}

/// A whole buffer of lines as records.
#[derive(Debug)]
pub struct Scan<'a> {
    /// The records in file order.
    pub records: Vec<Record<'a>>,
    /// Everything that was unusual.
    pub report: Report,
}

/// Scans a buffer that holds a whole transcript.
pub fn scan(buffer: &[u8]) -> Scan<'_> {
    let mut scanner = Scanner::default();
    let mut records = Vec::new();
    for line in lines::split(buffer, 0) {
        scanner.feed(&line, |record| records.push(record));
    }
    Scan { records, report: scanner.report }
}

impl Scanner {
    /// A scanner for lines that do not begin at the beginning: `place` is the number of the first one.
    pub fn partial(place: u64) -> Self {
        let whole = Whole::unknown();
        Self { next: place, partial: true, started: true, chain: Chain::Unknown, whole, ..Self::default() }
    }

    /// The number that a record appended now would get.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The checksum that a line appended now is chained to.
    pub fn last_crc(&self) -> u32 {
        match self.chain {
            Chain::Known(crc) => crc,
            Chain::Unknown => 0,
        }
    }

    /// Whether lines of another program were met.
    pub fn is_foreign(&self) -> bool {
        self.links.is_some()
    }

    /// Takes the next line and hands out the records in it.
    pub fn feed<'a>(&mut self, line: &Physical<'a>, mut hand_out: impl FnMut(Record<'a>)) {
        let first = !std::mem::replace(&mut self.started, true);
        self.whole.lines = self.whole.lines.map(|lines| lines + 1);
        let plain = line.bytes.trim_ascii_end();
        if plain.first() == Some(&b'{')
            && let Ok(text) = std::str::from_utf8(plain)
            && let Ok(record) = Record::parse(text, line.offset, self.next)
        {
            self.take(record, &mut hand_out);
            self.check_end(line, plain.len());
            return;
        }
        let kept_any = self.pieces(line, first, &mut hand_out);
        if !kept_any {
            self.chain = Chain::Unknown;
            self.whole.head = Head::Unknown;
        }
    }

    /// Notes what is between the last record of a line, which ends at `end`, and the next line.
    fn check_end(&mut self, line: &Physical<'_>, end: usize) {
        let (offset, blanks) = (line.offset + end as u64, &line.bytes[end..]);
        match blanks {
            [] => {}
            b"\r" if line.terminated => self.note(offset, 1, NoteKind::CarriageReturn { lines: 1 }, 0),
            _ => self.note(offset, blanks.len() as u64, NoteKind::TrailingBlanks, 0),
        }
        if !line.terminated {
            self.note(line.offset + line.len, 0, NoteKind::MissingLineFeed, 0);
        }
    }

    fn pieces<'a>(&mut self, line: &Physical<'a>, first: bool, hand_out: &mut impl FnMut(Record<'a>)) -> bool {
        let (mut kept_any, mut kept_object) = (false, false);
        if line.len == 0 {
            self.note(line.offset, u64::from(line.terminated), NoteKind::Blank, u64::from(line.terminated));
            return true;
        }
        for piece in lines::salvage(line, first) {
            match piece {
                Piece::Skip(range, kind) => {
                    let len = range.len() as u64;
                    kept_any |= kind == NoteKind::Blank;
                    self.note(line.offset + range.start as u64, len, kind, len);
                }
                Piece::Object(range) => {
                    let offset = line.offset + range.start as u64;
                    let is_last = range.end == line.bytes.len();
                    let bytes = line.bytes[range].trim_ascii_end();
                    if kept_object {
                        self.note(offset, 0, NoteKind::MissingLineFeed, 0);
                    }
                    kept_object = true;
                    let end = usize::try_from(offset - line.offset).unwrap_or(usize::MAX).saturating_add(bytes.len());
                    match std::str::from_utf8(bytes).ok().map(|text| Record::parse(text, offset, self.next)) {
                        Some(Ok(record)) => {
                            kept_any = true;
                            self.take(record, hand_out);
                            if is_last {
                                self.check_end(line, end);
                            }
                        }
                        Some(Err(error)) => {
                            let len = bytes.len() as u64;
                            self.note(offset, len, NoteKind::Malformed(error.to_string()), len);
                        }
                        None => self.note(offset, bytes.len() as u64, NoteKind::InvalidUtf8, bytes.len() as u64),
                    }
                }
            }
        }
        kept_any
    }

    fn take<'a>(&mut self, mut record: Record<'a>, hand_out: &mut impl FnMut(Record<'a>)) {
        if record.foreign.is_some() {
            self.links.get_or_insert_default().join(&mut record);
        }
        let (offset, len) = (record.offset, record.raw.len() as u64);
        if record.version > 0 {
            let skipped_here = std::mem::replace(&mut self.partial, false);
            if record.n > self.next && !skipped_here {
                self.note(offset, 0, NoteKind::Gap { first: self.next, last: record.n - 1 }, 0);
                self.whole.head = Head::Unknown;
            } else if record.n < self.next && !skipped_here {
                self.note(offset, 0, NoteKind::Repeated(record.n), 0);
            }
        }
        let checks = match (record.version, record.crc, self.chain) {
            // The tutorials' lines have no checksum, and a line that has one was a native one.
            (0, crc, _) => crc.is_none(),
            (VERSION, None, _) => false,
            (_, Some(crc), Chain::Known(previous)) => crc == record.checksum(previous),
            (_, _, _) => true,
        };
        if !checks {
            self.note(offset, len, NoteKind::ChecksumMismatch, 0);
        }
        if let Some(twice) = json::duplicate(record.raw) {
            let at = offset + twice.at as u64;
            self.note(at, len - twice.at as u64, NoteKind::DuplicateName(twice.name), 0);
        }
        self.check_place(&record);
        self.next = self.next.max(record.n.saturating_add(1));
        self.chain = Chain::Known(record.crc.unwrap_or(0));
        match &record.body {
            Body::Unknown { kind } => {
                self.note(offset, len, NoteKind::UnknownType(kind.chars().take(64).collect()), 0);
            }
            _ if record.version == VERSION && record.parent == Parent::Previous => {
                let why = format!("{}: `parent` is missing; it follows the record before it", record.kind());
                self.note(offset, len, NoteKind::InvalidRecord(why), 0);
            }
            Body::Invalid { kind, why } => self.note(offset, len, NoteKind::InvalidRecord(format!("{kind}: {why}")), 0),
            _ => {}
        }
        // Another program writes what happened at once in an order of its own.
        if record.foreign.is_none() {
            self.check_clock(&record);
        }
        hand_out(record);
    }

    /// Notes a header or a parent that is not where a writer puts it, and moves on with the conversation.
    fn check_place(&mut self, record: &Record<'_>) {
        let (offset, len) = (record.offset, record.raw.len() as u64);
        if let Body::Session(header) = &record.body {
            let says_why = header.is_repair || header.origin.is_some();
            if std::mem::replace(&mut self.whole.has_header, true) && !says_why {
                self.note(offset, len, NoteKind::SecondHeader, 0);
            }
        }
        let (parent, is_followed) = match record.parent {
            Parent::Record(parent) => (Some(parent), true),
            Parent::Head(parent) => (Some(parent), false),
            Parent::Previous | Parent::Nothing => (None, false),
        };
        // Behind a head that was moved to the very beginning, the next step names the header.
        if let (VERSION, Some(parent), Head::At(head)) = (record.version, parent, self.whole.head)
            && parent != head.unwrap_or(0)
        {
            match parent > self.whole.last {
                true if is_followed => self.note(offset, 0, NoteKind::UnknownParent(parent), 0),
                _ => self.note(offset, len, NoteKind::OddParent { parent, is_followed }, 0),
            }
        }
        let is_whole = self.whole.lines.is_some();
        if let Body::Head { to } = record.body {
            self.whole.head = if is_whole { Head::At(to) } else { Head::Unknown };
        } else if record.is_step() {
            self.whole.last = self.whole.last.max(record.n);
            if is_whole {
                self.whole.head = Head::At(Some(record.n));
            }
        }
    }

    fn check_clock(&mut self, record: &Record<'_>) {
        // Only times of one spelling compare as text; that is every file that one program wrote.
        let Some(ts) = record.ts.filter(|ts| ts.len() >= 20 && ts.ends_with("Z\"")) else { return };
        if ts.len() == self.previous_ts.len() && ts < self.previous_ts.as_str() {
            self.note(record.offset, record.raw.len() as u64, NoteKind::ClockBackwards, 0);
        }
        self.previous_ts.clear();
        self.previous_ts.push_str(ts);
    }

    fn note(&mut self, offset: u64, len: u64, kind: NoteKind, skipped: u64) {
        self.report.add(Note { offset, len, line: self.whole.lines, kind }, skipped);
    }
}
