//! The end of a transcript, as far as it is needed and no further.
//!
//! Resuming a conversation takes the newest records on its path: back to the last compaction, or as many
//! as a token budget holds. They are found from the end of the file, so that a transcript of a gigabyte
//! resumes as fast as one of a megabyte. Version 0 has no numbers to walk back on; such a file is read whole.
//!
//! The way back only chooses lines. What they say, and what is wrong with them, is told by the same scanner that reads
//! whole files, on one way forward over the part that was visited; only the chosen lines stay in memory.
//!
//! System prompt and tools are stated once and hold from there on. If they are not in what was chosen, the way back
//! goes on along the path for their sake alone, by at most `CONTEXT_REACH`: further back a budget is not
//! worth the time, and a session without any would be read whole each time. A writer states them again behind every
//! compaction, so that they are near.

use std::collections::HashSet;

use crate::error::Result;
use crate::history::{self, Limits, Path, Trims};
use crate::lines::{Physical, split};
use crate::reader::{Backward, LogReader};
use crate::record::{Body, Draft, Parent, Record};
use crate::report::NoteKind;
use crate::scan::Scanner;
use crate::tokens;

mod visited;

use visited::Visited;

/// How far beyond what is needed the way back goes to find system prompt and tools, in bytes.
const CONTEXT_REACH: u64 = 512 * 1024;

/// Transcripts of more bytes than this many requests are read from the end, also without a token budget.
const WHOLE_REQUESTS: u64 = 4;

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
    /// Has met all that was visited.
    scanner: Scanner,
    /// Where the lines begin; none if they are the whole transcript.
    cut: Option<Cut>,
    /// Whether the first line is from further back, for the sake of its system prompt and tools.
    has_context: bool,
}

/// Where the part of a transcript begins that a conversation goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Number of the oldest record that belongs to it.
    oldest: u64,
    /// Whether the budget is why it begins there.
    over_budget: bool,
    /// Where the lines that were visited begin.
    begin: u64,
    /// The step whose system prompt and tools were looked for further back, and whether they are those of the head before it.
    sought: Option<(u64, bool)>,
}

impl Cut {
    /// Whether system prompt and tools are among what was chosen.
    pub(crate) fn has_context(self) -> bool {
        self.sought.is_none()
    }

    /// The path through chosen records: parents before the cut are not missing; they were not read.
    pub(crate) fn path<'r, 'a>(cut: Option<Self>, records: &'r [Record<'a>]) -> Path<'r, 'a> {
        let mut path = history::path(records);
        if let Some(cut) = cut {
            path.begins_late = cut.over_budget;
            path.notes.retain(|note| !matches!(note.kind, NoteKind::UnknownParent(n) if n < cut.oldest));
        }
        path
    }
}

/// How many tokens are read back at most; none if a transcript of that length is read whole.
pub(crate) fn budget(len: u64, limits: &Limits) -> Option<u64> {
    let too_long = len > (limits.bytes as u64).saturating_mul(WHOLE_REQUESTS);
    limits.tokens.or(too_long.then(|| tokens::of_bytes(limits.bytes.saturating_mul(2))))
}

impl Recent {
    /// Reads what the newest part of the conversation consists of; without a token budget everything, unless that is
    /// far more than a request can hold.
    pub fn read(reader: &LogReader, limits: &Limits) -> Result<Self> {
        if let Some(budget) = budget(reader.len(), limits)
            && let Some(recent) = Self::from_the_end(reader, budget)?
        {
            return Ok(recent);
        }
        Ok(Self { lines: vec![(0, reader.read_all()?)], scanner: Scanner::default(), cut: None, has_context: false })
    }

    fn from_the_end(reader: &LogReader, budget: u64) -> Result<Option<Self>> {
        let mut walk = Walk::default();
        let mut backward = reader.backward();
        let mut visited = Visited::default();
        while !walk.finished
            && let Some(line) = backward.next()?
        {
            let mut is_chosen = false;
            for record in records_of(&line).iter().rev() {
                if record.version == 0 {
                    return Ok(None);
                }
                is_chosen |= walk.visit(record, || tokens::estimate(record.raw.as_bytes()), budget);
                if walk.finished {
                    break;
                }
            }
            visited.push(&line, is_chosen);
        }
        let begin = backward.position();
        let mut lines = Vec::new();
        let sought = walk.sought();
        if let Some((want, follows_head)) = sought {
            lines.extend(nearest_context(&mut backward, WayBack { want, follows_head }, CONTEXT_REACH)?);
        }
        let has_context = !lines.is_empty();
        let scanner = if begin == 0 { Scanner::default() } else { Scanner::partial(0) };
        let scanner = visited.scan(reader, begin, scanner, &mut lines)?;
        let cut = Cut { oldest: walk.oldest, over_budget: walk.over_budget, begin, sought };
        Ok(Some(Self { lines, scanner, cut: Some(cut), has_context }))
    }

    /// The records of the lines, and the scanner that has met everything up to the end.
    pub fn scan(&self) -> (Vec<Record<'_>>, Scanner) {
        if self.cut.is_none() {
            let bytes = self.lines.first().map_or(&[][..], |(_, bytes)| bytes);
            let (mut scanner, mut records) = (Scanner::default(), Vec::new());
            for line in split(bytes, 0) {
                scanner.feed(&line, |record| records.push(record));
            }
            return (records, scanner);
        }
        let lines = self.lines.iter().map(|(offset, bytes)| Physical::new(*offset, bytes, true));
        (lines.flat_map(|line| records_of(&line)).collect(), self.scanner.clone())
    }

    /// Where the lines begin.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Whether the first line is from further back, for the sake of its system prompt and tools.
    pub(crate) fn has_context(&self) -> bool {
        self.has_context
    }

    /// The path through the records.
    pub fn path<'r, 'a>(&self, records: &'r [Record<'a>]) -> Path<'r, 'a> {
        Cut::path(self.cut, records)
    }
}

/// A record that was chosen before, and what it costs.
pub(crate) struct Candidate<'r, 'a> {
    pub(crate) record: &'r Record<'a>,
    /// The estimated tokens of its line.
    pub(crate) tokens: u64,
}

/// Chooses among the records that were chosen before and those that were appended since, in file order, as a reader of the
/// file would; the new cut, and which of them belong to it. None if that takes lines that are not among them.
///
/// What was left out before is on no path that the new lines can name, unless they move the head: then the step must be here.
pub(crate) fn choose_again(
    candidates: &[Candidate<'_, '_>],
    before: Cut,
    budget: u64,
    has_notes: bool,
) -> Option<(Cut, Vec<bool>)> {
    let mut walk = Walk::default();
    let mut chosen = vec![false; candidates.len()];
    let mut begin = before.begin;
    for (candidate, is_chosen) in candidates.iter().zip(&mut chosen).rev() {
        let (record, named) = (candidate.record, walk.named);
        let takes = walk.visit(record, || candidate.tokens, budget);
        // Another step in its place would do for a reader who has seen that it is missing.
        if takes && record.is_step() && named.is_some_and(|n| n != record.n) {
            return None;
        }
        *is_chosen = takes;
        if walk.finished {
            begin = record.offset;
            break;
        }
    }
    let sought = walk.sought();
    let is_known = (walk.finished || before.begin == 0) && (sought.is_none() || sought == before.sought);
    // What was met before the new beginning would not be met by a reader.
    let is_met = !has_notes || begin == before.begin;
    let cut = Cut { oldest: walk.oldest, over_budget: walk.over_budget, begin, sought };
    (is_known && is_met).then_some((cut, chosen))
}

/// A `context` record as it can be written again: its draft and where it refers to blobs.
pub(crate) type Repeatable = (Draft, Vec<String>);

/// The `context` record in force behind record `head`.
pub(crate) fn context_in_force(reader: &LogReader, head: u64) -> Result<Option<Repeatable>> {
    let found = nearest_context(&mut reader.backward(), WayBack::from(head), u64::MAX)?;
    Ok(found.and_then(|(offset, bytes)| {
        Some(repeatable(&Record::parse(std::str::from_utf8(&bytes).ok()?, offset, 0).ok()?))
    }))
}

/// The same from records that were chosen before, the newest first; none if only the file can tell.
pub(crate) fn context_among<'r, 'a: 'r>(
    records: impl Iterator<Item = &'r Record<'a>>,
    head: u64,
) -> Option<Option<Repeatable>> {
    let mut way = WayBack::from(head);
    for record in records {
        match way.meet(record) {
            Met::Context => return Some(Some(repeatable(record))),
            Met::Root => return Some(None),
            Met::Other => {}
        }
    }
    None
}

fn repeatable(record: &Record<'_>) -> Repeatable {
    (Draft::again(record), record.blobs.iter().map(|pointer| pointer.clone().into_owned()).collect())
}

/// The way from a step towards the root, over records in reverse file order.
#[derive(Debug, Clone, Copy)]
struct WayBack {
    /// The step that comes next, or any before it.
    want: u64,
    /// Whether it is instead where the conversation stood before the step behind `want`.
    follows_head: bool,
}

/// What a record is on the way to system prompt and tools.
enum Met {
    Context,
    /// The way ends before there were any.
    Root,
    Other,
}

impl WayBack {
    fn from(head: u64) -> Self {
        Self { want: head, follows_head: false }
    }

    fn meet(&mut self, record: &Record<'_>) -> Met {
        if let Body::Head { to } = record.body
            && std::mem::take(&mut self.follows_head)
        {
            let Some(to) = to else { return Met::Root };
            self.want = to;
        }
        if !record.is_step() || (record.version > 0 && record.n > self.want) {
            return Met::Other;
        }
        if matches!(record.body, Body::Context { .. }) {
            return Met::Context;
        }
        self.follows_head = matches!(record.parent, Parent::Head(_));
        match record.parent {
            Parent::Record(parent) => self.want = parent.min(record.n.saturating_sub(1)),
            Parent::Head(_) => self.want = record.n.saturating_sub(1),
            Parent::Previous => {}
            Parent::Nothing => return Met::Root,
        }
        Met::Other
    }
}

/// The nearest `context` record on that way, at most `reach` bytes further back.
fn nearest_context(backward: &mut Backward<'_>, way: WayBack, reach: u64) -> Result<Option<(u64, Vec<u8>)>> {
    let mut way = way;
    let stop = backward.position().saturating_sub(reach);
    while backward.position() > stop
        && let Some(line) = backward.next()?
    {
        if let Some(glance) = Glance::of(line.bytes) {
            if glance.n > way.want {
                continue;
            }
            if glance.kind != Glanced::Context {
                let before = glance.n.saturating_sub(1);
                let follows_head = glance.kind == Glanced::Bookkeeping;
                way = WayBack { want: if follows_head { before } else { glance.parent.min(before) }, follows_head };
                continue;
            }
        }
        for record in records_of(&line).iter().rev() {
            match way.meet(record) {
                Met::Context => return Ok(Some((record.offset, record.raw.as_bytes().to_vec()))),
                Met::Root => return Ok(None),
                Met::Other => {}
            }
        }
    }
    Ok(None)
}

/// What the first bytes of a native line tell, without a look at the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Glance {
    n: u64,
    parent: u64,
    kind: Glanced,
}

/// What a step is, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Glanced {
    Context,
    /// It follows the record that it names.
    Said,
    /// It follows whatever the conversation stands on.
    Bookkeeping,
}

/// The types of steps that follow the record that they name, whatever else was written since.
const SAID: [&[u8]; 7] = [b"user", b"assistant", b"tool_use", b"tool_result", b"compaction", b"trim", b"undo"];

impl Glance {
    /// None if the line is not spelled the way this program spells a step.
    fn of(line: &[u8]) -> Option<Self> {
        fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = std::str::from_utf8(&bytes[..digits]).ok()?;
            Some((text.parse().ok()?, &bytes[digits..]))
        }
        let (n, rest) = number(line.strip_prefix(b"{\"v\":1,\"n\":")?)?;
        let (parent, rest) = number(rest.strip_prefix(b",\"parent\":")?)?;
        let rest = rest.strip_prefix(b",\"type\":\"")?;
        let is_said = || SAID.iter().any(|kind| rest.strip_prefix(*kind).is_some_and(|rest| rest.starts_with(b"\"")));
        let kind = match rest {
            _ if rest.starts_with(b"context\"") => Glanced::Context,
            _ if is_said() => Glanced::Said,
            _ => Glanced::Bookkeeping,
        };
        line.ends_with(b"\"}").then_some(Self { n, parent, kind })
    }
}

/// The records of one line, which may be several if lines were glued together.
fn records_of<'a>(line: &Physical<'a>) -> Vec<Record<'a>> {
    // Only at the beginning of the file is a byte order mark no damage.
    let mut scanner = if line.offset == 0 { Scanner::default() } else { Scanner::partial(0) };
    let mut records = Vec::new();
    scanner.feed(line, |record| records.push(record));
    records
}

/// The walk from the head towards the root, over records in reverse file order.
#[derive(Debug, Default)]
struct Walk {
    /// The record that comes next, or any before it; `None` while the head is still to be found.
    want: Option<u64>,
    /// The same if a record names it, and not merely what was there before.
    named: Option<u64>,
    started: bool,
    /// Whether the record that was met last follows whatever the conversation stood on: a head that was moved counts.
    follows_head: bool,
    /// Where the newest compaction lets the history begin.
    keep_from: Option<u64>,
    compacted: bool,
    tokens: u64,
    /// Number of the last step that belongs to the conversation.
    oldest: u64,
    met_context: bool,
    /// Compactions and trims that a later record took out of effect.
    undone: HashSet<u64>,
    /// What later records shorten: it counts for what is left of it.
    trims: Trims,
    finished: bool,
    over_budget: bool,
}

impl Walk {
    /// Whose system prompt and tools are still to be found, and whether they are those of the head before that step.
    fn sought(&self) -> Option<(u64, bool)> {
        self.want.filter(|_| !self.met_context).map(|want| (want, self.follows_head))
    }

    /// Looks at a record; tells whether it is part of the conversation (or decides where it is).
    fn visit(&mut self, record: &Record<'_>, estimate: impl FnOnce() -> u64, budget: u64) -> bool {
        if let Body::Head { to } = record.body
            && (!self.started || self.follows_head)
        {
            self.started = true;
            self.follows_head = false;
            self.want = to;
            self.named = to;
            self.finished = to.is_none();
            return true;
        }
        if !record.is_step() || self.want.is_some_and(|want| record.n > want) {
            return false;
        }
        self.started = true;
        self.oldest = record.n;
        self.met_context |= matches!(record.body, Body::Context { .. });
        let kept = self.trims.cap(record.n, record.raw.len());
        let whole = estimate();
        let cost = if kept < record.raw.len() { tokens::of_bytes(kept).min(whole) } else { whole };
        self.tokens = self.tokens.saturating_add(cost);
        self.follows_head = matches!(record.parent, Parent::Head(_));
        self.want = match record.parent {
            // A parent that does not come before its child is damage; the step before it stands in.
            Parent::Record(parent) => Some(parent.min(record.n.saturating_sub(1))),
            Parent::Head(_) => record.n.checked_sub(1),
            Parent::Previous => record.n.checked_sub(1),
            Parent::Nothing => None,
        };
        self.named = self.want.filter(|_| matches!(record.parent, Parent::Record(_)));
        if let Body::Undo { of } = record.body {
            self.undone.insert(of);
        }
        if let Body::Trim { records, keep } = record.body
            && !self.undone.contains(&record.n)
        {
            self.trims.add(records, keep);
        }
        if let Body::Compaction { first_kept, .. } = record.body
            && !self.compacted
            && !self.undone.contains(&record.n)
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
