//! A session as something to read: what was said, in order, with every call beside its result.
//!
//! This is a view and nothing but: the records on the current path, from the first word on, also those that a compaction took out of
//! what the model sees. With all branches, what was abandoned is in its place and marked. Text is masked (if asked for)
//! and made harmless here, once, so that no form of it can be forgotten.

use std::collections::{HashMap, HashSet, VecDeque};

use unforget_core::blob::BlobRef;
use unforget_core::json;
use unforget_core::record::{Body, Parent, Record};
use unforget_core::summary::Row;

use crate::screen;
use unforget_core::mask::mask;

/// Which records are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    Current,
    All,
}

/// What happens to text that looks like a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    Shown,
    Masked,
}

impl Secrets {
    /// Text as it may be shown.
    pub(crate) fn clean(self, text: &str) -> String {
        match self {
            Secrets::Shown => screen::safe(text).into_owned(),
            Secrets::Masked => screen::safe(&mask(text)).into_owned(),
        }
    }
}

/// A session to read.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// What there is to know about it, by name.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) items: Vec<Item>,
}

/// One thing that happened.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) n: u64,
    pub(crate) time: String,
    pub(crate) is_abandoned: bool,
    /// Whether the model goes on speaking: then nobody needs to be told again who speaks.
    pub(crate) continues: bool,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    User(Vec<Part>),
    /// Words in the user's place that nobody said.
    Added(Vec<Part>),
    Assistant(Vec<Part>),
    Call {
        name: String,
        input: String,
        result: Option<Answer>,
    },
    /// A result whose call is not there.
    Result(Answer),
    Summary(String),
    Note {
        what: String,
        text: String,
    },
}

/// What a tool gave back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) n: u64,
    pub(crate) is_error: bool,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) enum Part {
    Words(String),
    Thinking(String),
    /// An image of a harmless kind, as base64 text.
    Image {
        media_type: &'static str,
        data: String,
    },
    Other(String),
}

/// The kinds of images that are shown.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Makes a document of a session's records, payloads put back.
pub(crate) fn document(records: &[Record<'_>], row: &Row, branches: Branches, secrets: Secrets) -> Document {
    let path = current_path(records);
    let title = row.title.clone().or(row.key.clone()).unwrap_or_else(|| row.id.clone());
    let mut document = Document { title: one_line(&title, secrets), ..Document::default() };
    document.facts = facts(row, secrets);
    let mut builder = Builder { items: Vec::new(), calls: HashMap::new(), secrets };
    for (place, record) in records.iter().enumerate() {
        let is_abandoned = record.is_step() && !path.places.contains(&place);
        if is_abandoned && branches == Branches::Current {
            continue;
        }
        match &record.body {
            // Where the conversation went is seen by what follows, unless all branches are there.
            Body::Head { .. } if branches == Branches::Current => {}
            Body::Label { to: Some(to), .. } if branches == Branches::Current && !path.numbers.contains(to) => {}
            _ => builder.take(record, is_abandoned),
        }
    }
    document.items = builder.items;
    document
}

fn facts(row: &Row, secrets: Secrets) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Session", row.id.clone())];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, one_line(&value, secrets))));
    add("Key", row.key.clone());
    add("Label", row.label.clone());
    add("Began", row.created_ms.map(screen::time));
    add("Last", row.updated_ms.map(screen::time));
    add("Model", row.model.clone());
    add("Tokens", (row.tokens > 0).then(|| row.tokens.to_string()));
    add("Records", Some(row.records.to_string()));
    add("Secrets", (secrets == Secrets::Masked).then(|| "masked in this copy".to_owned()));
    facts
}

fn one_line(text: &str, secrets: Secrets) -> String {
    screen::one_line(&secrets.clean(text))
}

#[derive(Debug, Default)]
struct OnPath {
    places: HashSet<usize>,
    numbers: HashSet<u64>,
}

/// The records from the beginning to the head, whatever was compacted.
fn current_path(records: &[Record<'_>]) -> OnPath {
    let mut by_number: HashMap<u64, usize> = HashMap::new();
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(records.len());
    let (mut last, mut head) = (None, None);
    for (place, record) in records.iter().enumerate() {
        let parent = match record.parent {
            _ if !record.is_step() => None,
            Parent::Previous => last,
            Parent::Head(_) => head,
            Parent::Nothing => None,
            // A parent that is not there is replaced by the step before.
            Parent::Record(n) => by_number.get(&n).copied().or(last),
        };
        parents.push(parent);
        if record.is_step() {
            by_number.insert(record.n, place);
            last = Some(place);
            head = last;
        } else if let Body::Head { to } = record.body {
            head = to.and_then(|n| by_number.get(&n).copied());
        }
    }
    let mut path = OnPath::default();
    while let Some(place) = head {
        path.places.insert(place);
        path.numbers.insert(records[place].n);
        head = parents[place];
    }
    path
}

struct Builder {
    items: Vec<Item>,
    /// Calls that wait for their result, by id, with their place among the items.
    calls: HashMap<String, VecDeque<usize>>,
    secrets: Secrets,
}

impl Builder {
    fn take(&mut self, record: &Record<'_>, is_abandoned: bool) {
        let Some(what) = self.what(record) else { return };
        let time = record.time_ms().map(screen::time).unwrap_or_default();
        if let Body::ToolUse(call) = &record.body {
            self.calls.entry(call.id.clone().into_owned()).or_default().push_back(self.items.len());
        }
        let speaks = self.items.iter().rev().find(|item| !matches!(item.what, What::Call { .. } | What::Note { .. }));
        let continues = matches!(what, What::Assistant(_))
            && speaks.is_some_and(|item| matches!(item.what, What::Assistant(_)) && item.is_abandoned == is_abandoned);
        self.items.push(Item { n: record.n, time, is_abandoned, continues, what });
    }

    fn what(&mut self, record: &Record<'_>) -> Option<What> {
        let note = |what: String, text: String| Some(What::Note { what, text });
        let line = |text: &str| one_line(text, self.secrets);
        match &record.body {
            Body::User { content } if is_by_rule(record.raw) => Some(What::Added(self.parts(content))),
            Body::User { content } => Some(What::User(self.parts(content))),
            Body::Assistant { content, .. } => Some(What::Assistant(self.parts(content))),
            Body::ToolUse(call) => {
                Some(What::Call { name: line(&call.name), input: self.input(call.input), result: None })
            }
            Body::ToolResult(result) => {
                let answer = Answer { n: record.n, is_error: result.is_error, parts: self.parts(result.content) };
                let waiting = self.calls.get_mut(result.id.as_ref()).and_then(VecDeque::pop_front);
                match waiting.and_then(|at| self.items.get_mut(at)) {
                    Some(Item { what: What::Call { result, .. }, .. }) => {
                        *result = Some(answer);
                        None
                    }
                    _ => Some(What::Result(answer)),
                }
            }
            Body::Compaction { summary, .. } => Some(What::Summary(self.secrets.clean(summary))),
            Body::Error { message } => note("Error".to_owned(), self.secrets.clean(message)),
            Body::Turn { state, .. } if state != "done" && state != "running" => {
                note(format!("Turn {}", line(state)), String::new())
            }
            Body::Approval { state, .. } if state == "denied" => note("The call was denied".to_owned(), String::new()),
            Body::Label { to, name } => {
                let to = to.map_or(String::new(), |n| format!(" at record {n}"));
                note(format!("Label “{}”{to}", line(name)), String::new())
            }
            Body::Head { to } => {
                let to = to.map_or("the beginning".to_owned(), |n| format!("record {n}"));
                note(format!("The conversation went on from {to}"), String::new())
            }
            Body::Pin { to, text } => {
                let what = if text.is_some() { "Pinned" } else { "No longer pinned" };
                note(format!("{what}: record {to}"), String::new())
            }
            Body::Undo { of } => note(format!("Record {of} was undone"), String::new()),
            Body::File(change) => note(format!("Changed {}", line(&change.path)), String::new()),
            Body::Session(header) => {
                let origin = header.origin.and_then(json::members)?;
                let text = |name| json::member(&origin, name).and_then(json::string);
                let format = text("format").unwrap_or_default();
                let file = text("file").unwrap_or_default();
                note(format!("Taken over from {} {}", line(&format), line(&file)).trim_end().to_owned(), String::new())
            }
            Body::Unknown { kind } => note(format!("A record of type {}", line(kind)), String::new()),
            Body::Invalid { kind, why } => note(format!("An unusable record: {}: {why}", line(kind)), String::new()),
            Body::Context { .. }
            | Body::Turn { .. }
            | Body::Approval { .. }
            | Body::Title { .. }
            | Body::Trim { .. }
            | Body::Expire { .. }
            | Body::Pinned { .. }
            | Body::Aside { .. } => None,
        }
    }

    /// Arguments as lines of `name: value`, which read better than JSON.
    fn input(&self, raw: &str) -> String {
        let Some(members) = json::members(raw) else { return self.secrets.clean(raw) };
        let shown = members.iter().map(|(name, value)| {
            let value = json::string(value).unwrap_or_else(|| (*value).into());
            let between = if value.contains('\n') { '\n' } else { ' ' };
            format!("{name}:{between}{value}")
        });
        self.secrets.clean(&shown.collect::<Vec<_>>().join("\n"))
    }

    fn parts(&self, content: &str) -> Vec<Part> {
        if let Some(text) = json::string(content) {
            return vec![Part::Words(self.secrets.clean(&text))];
        }
        match json::elements(content) {
            Some(blocks) => blocks.into_iter().map(|block| self.part(block)).collect(),
            None => vec![self.part(content)],
        }
    }

    fn part(&self, block: &str) -> Part {
        let members = json::members(block).unwrap_or_default();
        let text = |name| json::member(&members, name).and_then(json::string);
        let clean = |name| self.secrets.clean(&text(name).unwrap_or_default());
        match text("type").as_deref() {
            Some("text") => Part::Words(clean("text")),
            Some("thinking") => Part::Thinking(clean("thinking")),
            Some("image") => image(&members).unwrap_or_else(|| Part::Other("[an image that is not shown]".to_owned())),
            Some("tool_result") => Part::Other(self.secrets.clean(json::member(&members, "content").unwrap_or(""))),
            Some(kind) => Part::Other(format!("[{}]", one_line(kind, self.secrets))),
            None if BlobRef::parse(block).is_some() => Part::Other(clean("preview") + "…"),
            None => Part::Other(self.secrets.clean(block)),
        }
    }
}

/// Whether words in the user's place were put there by a program.
fn is_by_rule(raw: &str) -> bool {
    json::members(raw).is_some_and(|members| json::member(&members, "by") == Some("\"rule\""))
}

fn image(members: &[(std::borrow::Cow<'_, str>, &str)]) -> Option<Part> {
    let source = json::member(members, "source").and_then(json::members)?;
    let text = |name| json::member(&source, name).and_then(json::string);
    let stated = text("media_type")?;
    let media_type = IMAGES.into_iter().find(|kind| *kind == stated)?;
    let data = text("data").filter(|_| text("type").as_deref() == Some("base64"))?;
    let is_base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    is_base64.then(|| Part::Image { media_type, data: data.into_owned() })
}
