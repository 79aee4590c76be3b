//! The conversation as the model sees it, in memory, fed by what the log acknowledged.
//!
//! `load` reads the newest records from the transcript and keeps them parsed, payloads put back. `View::feed` takes
//! the lines of an append that the log acknowledged, so the next request needs no reading. A compaction, a trim or a move of
//! the head chooses anew among the records in memory. Where the file alone can tell (`View::feed` says so), the owner
//! drops the view and loads it again.
//!
//! Invariants: a fed view equals a loaded one, record by record; no line is in it that the log did not acknowledge. The
//! lines of other programs and of the tutorials are never kept: what they mean depends on all lines before them.

use self_cell::self_cell;

use crate::blob::Blobs;
use crate::error::Result;
use crate::history::{self, History, Limits, Path};
use crate::lines::split;
use crate::medium::Medium;
use crate::reader::LogReader;
use crate::recent::{Candidate, Cut, Recent, Repeatable, budget, choose_again, context_among};
use crate::record::Record;
use crate::report::{Note, Report};
use crate::scan::Scanner;
use crate::tokens;

mod cache;

pub(crate) use cache::Slot;
pub use cache::{BUDGET, ViewCache};

self_cell!(
    /// A line and the record in it.
    struct Line {
        owner: String,
        #[covariant]
        dependent: Record,
    }
);

/// A record that is kept.
struct Kept {
    line: Line,
    /// The line with its payloads put back, if it refers to any.
    full: Option<Line>,
    /// The estimated tokens of the line.
    tokens: u64,
}

impl Kept {
    /// None for a record that only its neighbours give a meaning.
    fn of(record: &Record<'_>, full: Option<String>) -> Option<Self> {
        if record.version == 0 || record.foreign.is_some() {
            return None;
        }
        let (offset, n) = (record.offset, record.n);
        let line = |text: String| Line::try_new(text, |text| Record::parse(text, offset, n)).ok();
        let tokens = tokens::estimate(record.raw.as_bytes());
        let full = match full {
            Some(full) => Some(line(full)?),
            None => None,
        };
        Some(Self { line: line(record.raw.to_owned())?, full, tokens })
    }

    fn record(&self) -> &Record<'_> {
        self.line.borrow_dependent()
    }

    fn shown(&self) -> &Record<'_> {
        self.full.as_ref().unwrap_or(&self.line).borrow_dependent()
    }

    fn bytes(&self) -> usize {
        let of = |line: &Line| line.borrow_owner().len() + size_of::<Record<'_>>();
        size_of::<Self>() + of(&self.line) + self.full.as_ref().map_or(0, of)
    }
}

/// The records that a conversation goes on from.
pub(crate) struct View {
    limits: Limits,
    /// How many bytes of the file it reflects, and which file that is.
    len: u64,
    identity: (u64, u64),
    scanner: Scanner,
    /// System prompt and tools from further back.
    context: Option<Kept>,
    records: Vec<Kept>,
    cut: Option<Cut>,
    /// What was met when payloads were put back.
    notes: Vec<Note>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("len", &self.len).field("records", &self.records.len()).finish_non_exhaustive()
    }
}

/// A history, and how it went.
#[derive(Debug)]
pub struct Restored {
    /// The conversation as it would be sent.
    pub history: History<'static>,
    /// Everything that was met on the way to it.
    pub report: Report,
}

/// Rebuilds the history of a transcript.
pub fn restore(medium: &dyn Medium, path: &std::path::Path, blobs: &Blobs, limits: &Limits) -> Result<Restored> {
    read(medium, path, blobs, limits, |path, report| Restored {
        history: history::rebuild(path, limits).into_owned(),
        report,
    })
}

/// Shows the records that the conversation of a transcript goes on from, payloads put back.
pub fn read<T>(
    medium: &dyn Medium,
    path: &std::path::Path,
    blobs: &Blobs,
    limits: &Limits,
    look: impl FnOnce(&Path<'_, '_>, Report) -> T,
) -> Result<T> {
    load(&LogReader::open(medium, path)?, blobs, limits, false, look).map(|(seen, _)| seen)
}

/// Shows the records that the conversation of a transcript goes on from, payloads put back; the view of them, if it can be fed.
pub(crate) fn load<T>(
    reader: &LogReader,
    blobs: &Blobs,
    limits: &Limits,
    keep: bool,
    look: impl FnOnce(&Path<'_, '_>, Report) -> T,
) -> Result<(T, Option<View>)> {
    let recent = Recent::read(reader, limits)?;
    let (records, scanner) = recent.scan();
    let mut notes = Vec::new();
    let texts = records.iter().map(|record| blobs.restore_shown(record, &mut notes)).collect::<Result<Vec<_>>>()?;
    let full: Vec<Record<'_>> =
        records.iter().zip(&texts).map(|(record, text)| record.with_text(text.as_deref())).collect();
    let path = recent.path(&full);
    let seen = look(&path, report(&scanner, &notes, &path));
    let view = keep.then(|| {
        let kept = records.iter().zip(&texts).map(|(record, text)| Kept::of(record, text.clone()));
        let mut records = kept.collect::<Option<Vec<Kept>>>()?;
        let context = recent.has_context().then(|| records.remove(0));
        let (len, identity) = (reader.len(), reader.identity());
        Some(View { limits: *limits, len, identity, scanner, context, records, cut: recent.cut(), notes })
    });
    Ok((seen, view.flatten()))
}

impl View {
    /// Whether it is that of a file of this length and identity, within these limits.
    pub(crate) fn is_of(&self, len: u64, identity: (u64, u64), limits: &Limits) -> bool {
        (self.len, self.identity) == (len, identity) && self.limits == *limits
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.records.iter().chain(&self.context).map(Kept::bytes).sum()
    }

    /// Takes lines that the log has just acknowledged. If it returns `false`, only the file can tell what the view is now.
    pub(crate) fn feed(&mut self, lines: &str, blobs: &Blobs) -> bool {
        for line in split(lines.as_bytes(), self.len) {
            let mut records = Vec::new();
            self.scanner.feed(&line, |record| records.push(record));
            for record in &records {
                let Ok(full) = blobs.restore_shown(record, &mut self.notes) else { return false };
                let Some(kept) = Kept::of(record, full) else { return false };
                self.records.push(kept);
            }
        }
        self.len += lines.len() as u64;
        self.choose()
    }

    /// Keeps what a reader would choose now.
    fn choose(&mut self) -> bool {
        let budget = budget(self.len, &self.limits);
        let (Some(cut), Some(budget)) = (self.cut, budget) else { return self.cut.is_none() && budget.is_none() };
        let has_notes = self.scanner.report != Report::default() || !self.notes.is_empty();
        let candidates: Vec<Candidate<'_, '_>> =
            self.records.iter().map(|it| Candidate { record: it.record(), tokens: it.tokens }).collect();
        let Some((cut, chosen)) = choose_again(&candidates, cut, budget, has_notes) else { return false };
        let mut chosen = chosen.into_iter();
        self.records.retain(|_| chosen.next().unwrap_or(false));
        self.cut = Some(cut);
        if cut.has_context() {
            self.context = None;
        }
        true
    }

    /// The `context` record in force behind record `head`; none if only the file can tell.
    pub(crate) fn context_in_force(&self, head: u64) -> Option<Option<Repeatable>> {
        context_among(self.context.iter().chain(&self.records).rev().map(Kept::record), head)
    }

    /// Shows the records, payloads put back.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Path<'_, '_>, Report) -> T) -> T {
        let records: Vec<Record<'_>> = self.context.iter().chain(&self.records).map(|it| it.shown().clone()).collect();
        let path = Cut::path(self.cut, &records);
        look(&path, report(&self.scanner, &self.notes, &path))
    }
}

/// Everything that was met on the way to a path.
fn report(scanner: &Scanner, notes: &[Note], path: &Path<'_, '_>) -> Report {
    let mut report = scanner.report.clone();
    for note in notes.iter().chain(&path.notes) {
        report.add_once(note.clone());
    }
    report
}
