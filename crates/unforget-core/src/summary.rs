//! What a list says about a session: a fold over its records.
//!
//! A row is computed, never kept as truth: the same records give the same row. A title that a person gave stays against
//! one that a model thought of, and both stand before the one that [`crate::title`] makes of the user's words.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::json;
use crate::key::Key;
use crate::layout::CLAUDE_AGENT;
use crate::reader::LogReader;
use crate::record::{Body, Record};
use crate::report::Report;
use crate::scan::Scanner;
use crate::title;
use crate::tree::Tree;
use crate::usage;

/// How much of a label, or of a title that someone gave, a row holds.
const NAME_CHARS: usize = 200;

/// One row of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Row {
    /// The session's id.
    pub id: String,
    /// Its key; none if the header is lost or belongs to another session.
    pub key: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// Its title, or one made of the user's first words.
    pub title: Option<String>,
    /// When it was created, in milliseconds since the epoch.
    pub created_ms: Option<i64>,
    /// When it was used last: names, titles and expiries are said about a session, not in it, and do not count.
    pub updated_ms: Option<i64>,
    /// When its last record was written, whatever it says.
    #[serde(default)]
    pub written_ms: Option<i64>,
    /// How often the user spoke on the way to the head.
    pub turns: u64,
    /// How many records it has.
    pub records: u64,
    /// Tokens that its calls took, in and out, as the API counted them.
    #[serde(default)]
    pub tokens: u64,
    /// The model that answered last.
    #[serde(default)]
    pub model: Option<String>,
    /// The record that the conversation goes on from.
    #[serde(default)]
    pub head: Option<u64>,
    /// How long it is kept, if that was said of it: `30d`, `never`.
    #[serde(default)]
    pub expires: Option<String>,
    /// Whether a person keeps it at the top of the list.
    #[serde(default)]
    pub pinned: bool,
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
///
/// Its serialised form is what it knows so far; fed with the rest, it gives the same row as one that was fed with
/// everything.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Fold {
    row: Row,
    tree: Tree,
    titled_by: TitledBy,
    /// What stands for a title if the user never says anything: what came instead of words.
    attachment: Option<String>,
    header_id: Option<String>,
    /// Number of the first record that is no copy.
    first_own: u64,
}

/// Who gave a session its title; the later one in this order wins.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum TitledBy {
    #[default]
    Nobody,
    Model,
    Person,
}

impl Fold {
    /// The fold of a whole transcript.
    pub fn read(reader: &LogReader) -> Result<Self> {
        let (mut scanner, mut fold) = (Scanner::default(), Self::default());
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| fold.feed(&record));
        }
        Ok(fold)
    }

    /// The row so far, without what only its file says.
    pub(crate) fn row(&self) -> &Row {
        &self.row
    }

    /// The title that a person gave, if it is in force.
    pub(crate) fn given_title(&self) -> Option<&str> {
        self.row.title.as_deref().filter(|_| self.titled_by == TitledBy::Person)
    }

    /// Takes the next record.
    pub fn feed(&mut self, record: &Record<'_>) {
        self.tree.feed(record);
        let row = &mut self.row;
        row.records += 1;
        if let Some(ms) = record.time_ms() {
            row.created_ms.get_or_insert(ms);
            row.written_ms = Some(ms);
            if is_use(&record.body) || row.updated_ms.is_none() {
                row.updated_ms = Some(ms);
            }
        }
        if let Some(tokens) = usage::of_call(record).filter(|_| record.n >= self.first_own) {
            row.tokens = row.tokens.saturating_add(tokens.total());
        }
        let own = |text: &Option<Cow<'_, str>>| text.as_ref().map(|text| text.clone().into_owned());
        if let Some(foreign) = record.foreign.as_deref() {
            row.key = row.key.take().or_else(|| foreign.cwd.as_deref().and_then(claude_key));
            row.model = foreign.model.as_deref().map(|model| shorten(model, NAME_CHARS)).or(row.model.take());
        }
        match &record.body {
            Body::Session(header) if self.header_id.is_none() => {
                self.header_id = own(&header.id);
                row.key = own(&header.key);
                row.label = header.label.as_deref().map(|label| shorten(label, NAME_CHARS));
                row.origin = header.origin_sha256();
                self.first_own = usage::first_own(header);
            }
            Body::User { content } => {
                if self.titled_by == TitledBy::Nobody
                    && row.title.is_none()
                    && let Some(said) = Said::of(content)
                {
                    row.title = said.texts.iter().find_map(|text| title::from_words(text));
                    self.attachment = self.attachment.take().or(said.attachment);
                }
            }
            Body::Label { to: None, name } => {
                row.label = Some(shorten(name, NAME_CHARS)).filter(|label| !label.is_empty());
            }
            Body::Turn { model: Some(model), .. } => row.model = Some(shorten(model, NAME_CHARS)),
            Body::Expire { after } => row.expires = own(after),
            Body::Pinned { on } => row.pinned = *on,
            Body::Title { title, .. } => {
                let by = titled_by(record);
                if by >= self.titled_by {
                    self.titled_by = by;
                    row.title = Some(shorten(title, NAME_CHARS));
                }
            }
            _ => {}
        }
    }

    /// The branches.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The row of a session, given its file.
    pub fn finish(self, id: &str, bytes: u64, modified_ns: i64, damage: u64) -> Row {
        let mut row = self.row;
        (row.head, row.turns) = (self.tree.head(), self.tree.turns());
        id.clone_into(&mut row.id);
        row.bytes = bytes;
        row.modified_ns = modified_ns;
        row.damage = damage;
        row.title = row.title.or(self.attachment);
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
    let row = fold.finish(id, reader.len(), reader.modified_ns(), scanner.report.damage_count());
    Ok((row, scanner.report))
}

/// The row of a transcript that cannot be read.
pub fn unreadable(id: &str, error: &Error) -> Row {
    Row { id: id.to_owned(), state: State::Unreadable(error.to_string()), ..Row::default() }
}

/// Whether a record shows that someone was in the conversation.
fn is_use(body: &Body<'_>) -> bool {
    !matches!(body, Body::Label { .. } | Body::Title { .. } | Body::Expire { .. } | Body::Pinned { .. })
}

/// The key of Claude Code's sessions in a folder; none if the folder's name is too long for one.
pub fn claude_key(folder: &str) -> Option<String> {
    Key::new(CLAUDE_AGENT, "code", None, folder).ok().map(|key| key.to_string())
}

/// Who gave a title, by the record that gives it.
fn titled_by(record: &Record<'_>) -> TitledBy {
    if let Some(foreign) = &record.foreign {
        return if foreign.by_model { TitledBy::Model } else { TitledBy::Person };
    }
    let members = json::members(record.raw).unwrap_or_default();
    match json::member(&members, "by").and_then(json::string).as_deref() {
        Some("model") => TitledBy::Model,
        _ => TitledBy::Person,
    }
}

/// What the user says in a record.
struct Said<'a> {
    texts: Vec<Cow<'a, str>>,
    /// The name of the first thing that is not words.
    attachment: Option<String>,
}

impl<'a> Said<'a> {
    /// What there is in a record's content; none if these are only tool results.
    fn of(content: &'a str) -> Option<Self> {
        // A payload that is elsewhere has its beginning here.
        let preview = |raw| json::member(&json::members(raw)?, "preview").and_then(json::string);
        if let Some(text) = json::string(content).or_else(|| preview(content)) {
            return Some(Self { texts: vec![text], attachment: None });
        }
        let mut said = Self { texts: Vec::new(), attachment: None };
        for block in json::elements(content)? {
            let Some(members) = json::members(block) else { continue };
            let kind = json::member(&members, "type").and_then(json::string);
            match kind.as_deref() {
                None => said.texts.extend(preview(block)),
                Some("text") => said.texts.extend(json::member(&members, "text").and_then(json::string)),
                Some("tool_result") => {}
                Some(other) if said.attachment.is_none() => {
                    said.attachment = Some(shorten(&format!("[{other}]"), NAME_CHARS));
                }
                Some(_) => {}
            }
        }
        (!said.texts.is_empty() || said.attachment.is_some()).then_some(said)
    }
}

/// The text, or the beginning of it and a sign that there is more.
fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    fn row(lines: &[&str]) -> Row {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let scanned = scan::scan(text.as_bytes());
        let mut fold = Fold::default();
        scanned.records.iter().for_each(|record| fold.feed(record));
        fold.finish("id", 0, 0, scanned.report.damage_count())
    }

    fn title(lines: &[&str]) -> Option<String> {
        row(lines).title
    }

    #[test]
    fn what_is_said_about_a_session_is_no_use_of_it() {
        let words = r#"{"type":"user","content":"port of the server","ts":1}"#;
        let about = [
            r#"{"v":1,"n":1,"type":"label","name":"work","ts":"1970-01-01T00:00:02Z"}"#,
            r#"{"v":1,"n":1,"type":"label","to":0,"name":"here","ts":"1970-01-01T00:00:02Z"}"#,
            r#"{"v":1,"n":1,"type":"title","title":"mine","ts":"1970-01-01T00:00:02Z"}"#,
            r#"{"v":1,"n":1,"type":"expire","after":"30d","ts":"1970-01-01T00:00:02Z"}"#,
            r#"{"v":1,"n":1,"type":"pin","on":true,"ts":"1970-01-01T00:00:02Z"}"#,
        ];
        for record in about {
            let row = row(&[words, record]);
            assert_eq!((row.updated_ms, row.written_ms), (Some(1000), Some(2000)), "{record}");
        }
        let undo = r#"{"v":1,"n":1,"type":"head","to":null,"reason":"undo","ts":"1970-01-01T00:00:02Z"}"#;
        assert_eq!(row(&[words, undo]).updated_ms, Some(2000));
        assert_eq!(row(&about[..1]).updated_ms, Some(2000), "a session that nothing else tells the time of");
    }

    #[test]
    fn a_session_is_pinned_until_it_is_said_otherwise() {
        let words = r#"{"v":1,"n":1,"type":"user","content":"words","parent":0}"#;
        let said = [
            r#"{"v":1,"n":2,"type":"pin","on":true}"#,
            r#"{"v":1,"n":3,"type":"pin","parent":1,"to":1,"text":"words"}"#,
            r#"{"v":1,"n":4,"type":"pin","on":"yes"}"#,
            r#"{"v":1,"n":5,"type":"pin","on":false}"#,
        ];
        let pinned = |count: usize| row(&[&[words], &said[..count]].concat()).pinned;
        assert_eq!([0, 1, 2, 3, 4].map(pinned), [false, true, true, true, false]);
        assert_eq!(row(&[words, said[0]]).head, Some(1), "it is said about the session, not in it");
    }

    #[test]
    fn a_greeting_leaves_the_title_to_the_next_words() {
        let hello = r#"{"type":"user","content":"Hello!"}"#;
        let wish = r#"{"type":"user","content":[{"type":"text","text":"please fix the tests."}]}"#;
        assert_eq!(title(&[hello]), None);
        assert_eq!(title(&[hello, wish]).as_deref(), Some("Fix the tests"));
    }

    #[test]
    fn a_picture_names_a_session_only_while_nothing_is_said() {
        let picture = r#"{"type":"user","content":[{"type":"image","source":{}}]}"#;
        let about =
            r#"{"type":"user","content":[{"type":"image","source":{}},{"type":"text","text":"What is this?"}]}"#;
        assert_eq!(title(&[picture]).as_deref(), Some("[image]"));
        assert_eq!(title(&[picture, about]).as_deref(), Some("What is this?"));
    }

    #[test]
    fn a_models_title_never_replaces_a_persons() {
        let words = r#"{"type":"user","content":"port of the server"}"#;
        let model = r#"{"type":"title","title":"Server port","by":"model"}"#;
        let newer = r#"{"type":"title","title":"Port 8080","by":"model"}"#;
        let person = r#"{"type":"title","title":"mine"}"#;
        assert_eq!(title(&[words, model]).as_deref(), Some("Server port"));
        assert_eq!(title(&[words, model, newer]).as_deref(), Some("Port 8080"));
        assert_eq!(title(&[words, model, person, newer]).as_deref(), Some("mine"));
        assert_eq!(title(&[person, words]).as_deref(), Some("mine"));
    }
}
