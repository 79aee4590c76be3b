//! What a reader met on its way: damage, gaps and oddities, with their places.
//!
//! Reading is total, so everything unusual ends up here instead of in an error. The list is bounded: a
//! file that is garbage from end to end is described by its first thousand notes and a count.

use std::fmt;

/// How many notes a report lists one by one.
pub const LISTED_NOTES: usize = 1000;

/// What a reader met on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The notes in file order, at most [`LISTED_NOTES`].
    pub notes: Vec<Note>,
    /// How many further notes of damage were not listed.
    pub unlisted: u64,
    /// Bytes that belong to no line.
    pub skipped_bytes: u64,
}

/// One thing that a reader met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// How many bytes it covers.
    pub len: u64,
    /// What it is.
    pub kind: NoteKind,
}

/// The kinds of things that a reader meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteKind {
    /// A UTF-8 byte order mark, ignored.
    ByteOrderMark,
    /// Empty lines, ignored.
    Blank,
    /// A record type or version that this program does not know; kept, not shown to the model.
    UnknownType(String),
    /// A record that is older than the one before it, by its own clock.
    ClockBackwards,
    /// The last line was cut off.
    Torn,
    /// A run of NUL bytes, as a power loss leaves them.
    Nul,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// Bytes that are not JSON.
    Malformed(String),
    /// JSON, but not an object.
    NotAnObject,
    /// A line longer than any record may be.
    TooLong,
    /// A record that lacks something or has it in the wrong form.
    InvalidRecord(String),
    /// Records are missing: numbers from `first` to `last`.
    Gap {
        /// First missing number.
        first: u64,
        /// Last missing number.
        last: u64,
    },
    /// A record number that was used before.
    Repeated(u64),
    /// The line, or the one before it, is not what was written.
    ChecksumMismatch,
    /// A parent that is not in the file; the last record before it stands in.
    UnknownParent(u64),
    /// A payload that is missing from the blob store or does not match its hash.
    BlobUnreadable(String),
}

impl NoteKind {
    /// Whether this is damage, as opposed to an oddity that harms nothing.
    pub fn is_damage(&self) -> bool {
        !matches!(self, NoteKind::ByteOrderMark | NoteKind::Blank | NoteKind::UnknownType(_) | NoteKind::ClockBackwards)
    }

    /// A short, stable name for machines.
    pub fn name(&self) -> &'static str {
        match self {
            NoteKind::ByteOrderMark => "byte_order_mark",
            NoteKind::Blank => "blank",
            NoteKind::UnknownType(_) => "unknown_type",
            NoteKind::ClockBackwards => "clock_backwards",
            NoteKind::Torn => "torn",
            NoteKind::Nul => "nul",
            NoteKind::InvalidUtf8 => "invalid_utf8",
            NoteKind::Malformed(_) => "malformed",
            NoteKind::NotAnObject => "not_an_object",
            NoteKind::TooLong => "too_long",
            NoteKind::InvalidRecord(_) => "invalid_record",
            NoteKind::Gap { .. } => "gap",
            NoteKind::Repeated(_) => "repeated",
            NoteKind::ChecksumMismatch => "checksum_mismatch",
            NoteKind::UnknownParent(_) => "unknown_parent",
            NoteKind::BlobUnreadable(_) => "blob_unreadable",
        }
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoteKind::ByteOrderMark => write!(f, "byte order mark, ignored"),
            NoteKind::Blank => write!(f, "blank, ignored"),
            NoteKind::UnknownType(name) => write!(f, "record of unknown type `{name}`, kept"),
            NoteKind::ClockBackwards => write!(f, "the clock went backwards; order is that of the file"),
            NoteKind::Torn => write!(f, "a line that was cut off"),
            NoteKind::Nul => write!(f, "NUL bytes, as a power loss leaves them"),
            NoteKind::InvalidUtf8 => write!(f, "not UTF-8"),
            NoteKind::Malformed(why) => write!(f, "not JSON: {why}"),
            NoteKind::NotAnObject => write!(f, "JSON, but not an object"),
            NoteKind::TooLong => write!(f, "longer than any line may be"),
            NoteKind::InvalidRecord(why) => write!(f, "not a usable record: {why}"),
            NoteKind::Gap { first, last } if first == last => write!(f, "record {first} is missing"),
            NoteKind::Gap { first, last } => write!(f, "records {first} to {last} are missing"),
            NoteKind::Repeated(n) => write!(f, "record number {n} was used before"),
            NoteKind::ChecksumMismatch => write!(f, "checksum mismatch: this line or the one before it was changed"),
            NoteKind::UnknownParent(n) => {
                write!(f, "its parent, record {n}, is not there; the last one before it stands in")
            }
            NoteKind::BlobUnreadable(why) => write!(f, "payload unreadable: {why}"),
        }
    }
}

impl Report {
    /// Adds a note; `skipped` bytes belong to no line.
    pub fn add(&mut self, note: Note, skipped: u64) {
        self.skipped_bytes += skipped;
        if let Some(last) = self.notes.last_mut()
            && last.kind == NoteKind::Blank
            && note.kind == NoteKind::Blank
            && last.offset + last.len == note.offset
        {
            last.len += note.len;
        } else if self.notes.len() < LISTED_NOTES {
            self.notes.push(note);
        } else if note.kind.is_damage() {
            self.unlisted += 1;
        }
    }

    /// The notes that tell of damage.
    pub fn damage(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.kind.is_damage())
    }

    /// How many notes tell of damage, listed or not.
    pub fn damage_count(&self) -> u64 {
        self.damage().count() as u64 + self.unlisted
    }
}
