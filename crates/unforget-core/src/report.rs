//! What a reader met on its way: damage, gaps and oddities, with their places.
//!
//! Reading is total, so everything unusual ends up here instead of in an error. The list is bounded: a
//! file that is garbage from end to end is described by its first thousand notes and a count. Oddities have a
//! list of their own length, so that a file with a thousand blank lines still tells of its damage.

use std::fmt;

/// How many notes a report lists one by one, oddities apart.
pub const LISTED_NOTES: usize = 1000;
/// How many oddities a report lists one by one.
pub const LISTED_ODDITIES: usize = 1000;
/// How much of a name from a file a note repeats, in characters.
const SHOWN_NAME: usize = 64;

/// What a reader met on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The notes in file order, at most [`LISTED_NOTES`] and [`LISTED_ODDITIES`].
    pub notes: Vec<Note>,
    /// How many further notes of damage were not listed.
    pub unlisted: u64,
    /// How many further oddities were not listed.
    pub unlisted_oddities: u64,
    /// How many of the notes are oddities.
    listed_oddities: usize,
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
    /// The line that it is in, counted from 1; none if the reader did not begin at the beginning.
    pub line: Option<u64>,
    /// What it is.
    pub kind: NoteKind,
}

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Something is lost, or does not mean what it says.
    Damage,
    /// Everything was read, but the file is not as a writer of this format leaves it.
    Oddity,
    /// Nothing is wrong.
    Remark,
}

impl Weight {
    /// A short, stable name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Damage => "damage",
            Weight::Oddity => "oddity",
            Weight::Remark => "remark",
        }
    }
}

/// The kinds of things that a reader meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteKind {
    /// A UTF-8 byte order mark, ignored.
    ByteOrderMark,
    /// Empty lines, or blanks before a record, ignored.
    Blank,
    /// Carriage returns before the line feeds of some lines in a row, ignored.
    CarriageReturn {
        /// How many lines.
        lines: u64,
    },
    /// Blanks behind a record, ignored.
    TrailingBlanks,
    /// A record that begins or ends without the line feed that belongs there.
    MissingLineFeed,
    /// A header behind the first one; it changes nothing.
    SecondHeader,
    /// A record that does not follow the one that the conversation stood on.
    OddParent {
        /// The record that it names.
        parent: u64,
        /// Whether the conversation goes on from that one; bookkeeping does not move it.
        is_followed: bool,
    },
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
    /// A member of that name is in the same object twice.
    DuplicateName(String),
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
        self.weight() == Weight::Damage
    }

    /// How much it matters.
    pub fn weight(&self) -> Weight {
        match self {
            NoteKind::ByteOrderMark
            | NoteKind::Blank
            | NoteKind::CarriageReturn { .. }
            | NoteKind::TrailingBlanks
            | NoteKind::MissingLineFeed
            | NoteKind::SecondHeader
            | NoteKind::OddParent { .. } => Weight::Oddity,
            // A name with other letters than ours may be there to be taken for one of ours.
            NoteKind::UnknownType(name) if !name.is_ascii() => Weight::Oddity,
            NoteKind::UnknownType(_) | NoteKind::ClockBackwards => Weight::Remark,
            NoteKind::Torn
            | NoteKind::Nul
            | NoteKind::InvalidUtf8
            | NoteKind::Malformed(_)
            | NoteKind::NotAnObject
            | NoteKind::TooLong
            | NoteKind::InvalidRecord(_)
            | NoteKind::DuplicateName(_)
            | NoteKind::Gap { .. }
            | NoteKind::Repeated(_)
            | NoteKind::ChecksumMismatch
            | NoteKind::UnknownParent(_)
            | NoteKind::BlobUnreadable(_) => Weight::Damage,
        }
    }

    /// A short, stable name for machines.
    pub fn name(&self) -> &'static str {
        match self {
            NoteKind::ByteOrderMark => "byte_order_mark",
            NoteKind::Blank => "blank",
            NoteKind::CarriageReturn { .. } => "carriage_return",
            NoteKind::TrailingBlanks => "trailing_blanks",
            NoteKind::MissingLineFeed => "missing_line_feed",
            NoteKind::SecondHeader => "second_header",
            NoteKind::OddParent { .. } => "odd_parent",
            NoteKind::UnknownType(_) => "unknown_type",
            NoteKind::ClockBackwards => "clock_backwards",
            NoteKind::Torn => "torn",
            NoteKind::Nul => "nul",
            NoteKind::InvalidUtf8 => "invalid_utf8",
            NoteKind::Malformed(_) => "malformed",
            NoteKind::NotAnObject => "not_an_object",
            NoteKind::TooLong => "too_long",
            NoteKind::InvalidRecord(_) => "invalid_record",
            NoteKind::DuplicateName(_) => "duplicate_name",
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
            NoteKind::CarriageReturn { lines: 1 } => write!(f, "a carriage return before the line feed, ignored"),
            NoteKind::CarriageReturn { lines } => {
                write!(f, "carriage returns before the line feeds of {lines} lines from here on, ignored")
            }
            NoteKind::TrailingBlanks => write!(f, "blanks behind the record, ignored"),
            NoteKind::MissingLineFeed => write!(f, "a line feed is missing here; the records around it are read"),
            NoteKind::SecondHeader => write!(f, "a second header; the first one counts"),
            NoteKind::OddParent { parent, is_followed: true } => {
                write!(
                    f,
                    "it follows record {parent}, though no `head` record leads there; the conversation goes on from it"
                )
            }
            NoteKind::OddParent { parent, is_followed: false } => {
                write!(f, "it says that it follows record {parent}; the conversation stays where it was")
            }
            NoteKind::UnknownType(name) if !name.is_ascii() => {
                write!(f, "record of unknown type `{}`, kept; it has letters that are not ASCII", visible(name))
            }
            NoteKind::UnknownType(name) => write!(f, "record of unknown type `{name}`, kept"),
            NoteKind::ClockBackwards => write!(f, "the clock went backwards; order is that of the file"),
            NoteKind::Torn => write!(f, "a line that was cut off"),
            NoteKind::Nul => write!(f, "NUL bytes, as a power loss leaves them"),
            NoteKind::InvalidUtf8 => write!(f, "not UTF-8"),
            NoteKind::Malformed(why) => write!(f, "not JSON: {why}"),
            NoteKind::NotAnObject => write!(f, "JSON, but not an object"),
            NoteKind::TooLong => write!(f, "longer than any line may be"),
            NoteKind::InvalidRecord(why) => write!(f, "not a usable record: {why}"),
            NoteKind::DuplicateName(name) => {
                write!(
                    f,
                    "the member `{}` is there twice; the last one is shown, and nothing of it is sent",
                    visible(name)
                )
            }
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

/// A name from a file in which every character that is not ASCII is spelled out, so that none looks like another.
pub fn visible(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars().take(SHOWN_NAME) {
        match character {
            ' '..='~' => out.push(character),
            other => out.push_str(&format!("\\u{{{:x}}}", u32::from(other))),
        }
    }
    out
}

impl Note {
    /// Where it is, in words.
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("line {line}, byte {}", self.offset),
            None => format!("byte {}", self.offset),
        }
    }

    /// Whether another note is about the very next thing of the same kind; then it becomes part of this one.
    fn absorbs(&mut self, next: &Note) -> bool {
        match (&mut self.kind, &next.kind) {
            (NoteKind::Blank, NoteKind::Blank) if self.offset + self.len == next.offset => {}
            (NoteKind::CarriageReturn { lines }, NoteKind::CarriageReturn { lines: more })
                if self.line.is_some() && self.line.map(|line| line.saturating_add(*lines)) == next.line =>
            {
                *lines += more;
            }
            _ => return false,
        }
        self.len = next.offset + next.len - self.offset;
        true
    }
}

impl Report {
    /// Adds a note; `skipped` bytes belong to no line.
    pub fn add(&mut self, note: Note, skipped: u64) {
        self.skipped_bytes += skipped;
        if self.notes.last_mut().is_some_and(|last| last.absorbs(&note)) {
            return;
        }
        let weight = note.kind.weight();
        let is_listed = match weight {
            Weight::Oddity => self.listed_oddities < LISTED_ODDITIES,
            Weight::Damage | Weight::Remark => self.notes.len() - self.listed_oddities < LISTED_NOTES,
        };
        match weight {
            Weight::Oddity if is_listed => self.listed_oddities += 1,
            Weight::Oddity => self.unlisted_oddities += 1,
            Weight::Damage if !is_listed => self.unlisted += 1,
            Weight::Damage | Weight::Remark => {}
        }
        if is_listed {
            self.notes.push(note);
        }
    }

    /// Adds a note unless the same thing is already noted at that place.
    pub fn add_once(&mut self, note: Note) {
        if !self.notes.iter().any(|known| known.offset == note.offset && known.kind == note.kind) {
            self.add(note, 0);
        }
    }

    /// The notes that tell of oddities.
    pub fn oddities(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.kind.weight() == Weight::Oddity)
    }

    /// How many notes tell of oddities, listed or not.
    pub fn oddity_count(&self) -> u64 {
        self.listed_oddities as u64 + self.unlisted_oddities
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
