//! What a list says about a session: a fold over its records.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::json;
use crate::reader::LogReader;
use crate::record::{Body, Record};
use crate::report::Report;
use crate::scan::Scanner;

/// How much of the user's first words stands in for a title.
const TITLE_CHARS: usize = 80;
/// How much of a label, or of a title that someone gave, a row holds.
const NAME_CHARS: usize = 200;

/// One row of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Row {
    /// The session's id.
    pub id: String,
    /// Its key; none if the header is lost or belongs to another session.
    pub key: Option<String>,
    /// The label that it was created with.
    pub label: Option<String>,
    /// Its title, or the user's first words.
    pub title: Option<String>,
    /// When it was created, in milliseconds since the epoch.
    pub created_ms: Option<i64>,
    /// When its last record was written.
    pub updated_ms: Option<i64>,
    /// How often the user spoke.
    pub turns: u64,
    /// How many records it has.
    pub records: u64,
    /// Length of the transcript.
    pub bytes: u64,
    /// Its modification time, in nanoseconds: with `bytes`, the proof that the row is current.
    pub modified_ns: i64,
    /// How many places are damaged.
    pub damage: u64,
    /// SHA-256 of the file that it was imported from.
    pub origin: Option<String>,
    /// Whether it can be used.
    pub state: State,
}

impl Row {
    /// Whether the row stays true as long as its file does not change; a file may be unreadable for a moment only.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self.state, State::Ok | State::Mismatch)
    }
}

/// Whether a session can be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Yes.
    #[default]
    Ok,
    /// Its transcript is gone.
    Missing,
    /// Its header is that of another session.
    Mismatch,
    /// It cannot be read.
    Unreadable(String),
    /// It is in the trash.
    Deleted,
}

impl State {
    /// A short name for machines and tables.
    pub fn name(&self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Missing => "missing",
            State::Mismatch => "mismatch",
            State::Unreadable(_) => "unreadable",
            State::Deleted => "deleted",
        }
    }
}

/// The fold behind a [`Row`].
#[derive(Debug, Default)]
pub struct Fold {
    row: Row,
    titled: bool,
    header_id: Option<String>,
}

impl Fold {
    /// Takes the next record.
    pub fn feed(&mut self, record: &Record<'_>) {
        let row = &mut self.row;
        row.records += 1;
        if let Some(ms) = record.time_ms() {
            row.created_ms.get_or_insert(ms);
            row.updated_ms = Some(ms);
        }
        let own = |text: &Option<Cow<'_, str>>| text.as_ref().map(|text| text.clone().into_owned());
        match &record.body {
            Body::Session(header) if self.header_id.is_none() => {
                self.header_id = own(&header.id);
                row.key = own(&header.key);
                row.label = header.label.as_deref().map(|label| shorten(label, NAME_CHARS));
                row.origin = header.origin_sha256();
            }
            Body::User { content } => {
                let words = first_words(content);
                row.turns += u64::from(words.is_some());
                if !self.titled && row.title.is_none() {
                    row.title = words;
                }
            }
            Body::Title { title } => {
                self.titled = true;
                row.title = Some(shorten(title, NAME_CHARS));
            }
            _ => {}
        }
    }

    /// The row of a session, given its file.
    pub fn finish(self, id: &str, bytes: u64, modified_ns: i64, report: &Report) -> Row {
        let mut row = self.row;
        id.clone_into(&mut row.id);
        row.bytes = bytes;
        row.modified_ns = modified_ns;
        row.damage = report.damage_count();
        if self.header_id.is_some_and(|found| found != id) {
            row.state = State::Mismatch;
        }
        row
    }
}

/// Reads a whole transcript for its row.
pub fn summarise(reader: &LogReader, id: &str) -> Result<(Row, Report)> {
    let mut scanner = Scanner::default();
    let mut fold = Fold::default();
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| fold.feed(&record));
    }
    let row = fold.finish(id, reader.len(), reader.modified_ns(), &scanner.report);
    Ok((row, scanner.report))
}

/// The row of a transcript that cannot be read.
pub fn unreadable(id: &str, error: &Error) -> Row {
    Row { id: id.to_owned(), state: State::Unreadable(error.to_string()), ..Row::default() }
}

/// The beginning of what the user says in a record; none if these are only tool results.
fn first_words(content: &str) -> Option<String> {
    // A payload that is elsewhere has its beginning here.
    let preview = |raw| json::member(&json::members(raw)?, "preview").and_then(json::string).map(Cow::into_owned);
    let text = match json::string(content).map(Cow::into_owned).or_else(|| preview(content)) {
        Some(text) => text,
        None => json::elements(content)?.iter().find_map(|block| {
            let members = json::members(block)?;
            let Some(kind) = json::member(&members, "type").and_then(json::string) else { return preview(block) };
            match kind.as_ref() {
                "text" => json::member(&members, "text").and_then(json::string).map(Cow::into_owned),
                "tool_result" => None,
                other => Some(format!("[{other}]")),
            }
        })?,
    };
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(shorten(&line, TITLE_CHARS))
}

/// The text, or the beginning of it and a sign that there is more.
fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
