//! What can be asked of a list: which sessions, in which order, and from where on. No I/O, and no database.
//!
//! A page ends with a [`Cursor`] that names the last row by what it is sorted by, its id and its directory. The next page begins
//! behind that place, whatever came or went since: nothing is shown twice, and nothing that stayed is left out.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::directory::Entry;
use crate::key::Key;
use crate::layout::Place;
use crate::summary::{Row, State};

/// How many sessions a page has if nobody says.
pub const PAGE: usize = 50;

/// Which sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this agent.
    pub agent: Option<String>,
    /// On this channel.
    pub channel: Option<String>,
    /// With this peer.
    pub peer: Option<String>,
    /// Used at or after this time.
    pub since_ms: Option<i64>,
    /// Not used after this time.
    pub until_ms: Option<i64>,
    /// With this label.
    pub label: Option<String>,
    /// In this state.
    pub state: Option<Wanted>,
    /// Kept at the top of the list, or not.
    pub pinned: Option<bool>,
}

/// The state that a session should be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It can be used.
    Ok,
    /// Someone is writing it now.
    Live,
    /// Something in its transcript is damaged.
    Damaged,
    /// Its transcript is gone.
    Missing,
    /// Its header is that of another session.
    Mismatch,
    /// It cannot be read.
    Unreadable,
}

/// What the list is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Most recently used first.
    #[default]
    Updated,
    /// Newest first.
    Created,
    /// By title.
    Title,
    /// Most turns first.
    Turns,
    /// Most tokens first.
    Tokens,
    /// Largest first.
    Bytes,
}

/// What a row is sorted by, in the order of the database: nothing, numbers, text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Not known.
    Nothing,
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub(crate) sort: Sort,
    pub(crate) value: Value,
    pub(crate) id: String,
    pub(crate) dir: String,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// From the agents' sessions, or from the trash.
    pub place: Place,
    /// Which ones.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// How many at most.
    pub limit: usize,
    /// Behind which place.
    pub after: Option<Cursor>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { place: Place::Agents, filter: Filter::default(), sort: Sort::Updated, limit: PAGE, after: None }
    }
}

/// A part of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The sessions.
    pub entries: Vec<Entry>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

impl Sort {
    /// Whether small values come first.
    pub(crate) fn is_rising(self) -> bool {
        self == Sort::Title
    }

    /// What a row is sorted by.
    pub(crate) fn value(self, row: &Row) -> Value {
        let number = |number: Option<i64>| number.map_or(Value::Nothing, Value::Number);
        let count = |count: u64| Value::Number(i64::try_from(count).unwrap_or(i64::MAX));
        match self {
            Sort::Updated => number(row.updated_ms),
            Sort::Created => number(row.created_ms),
            Sort::Title => row.title.as_ref().map_or(Value::Nothing, |title| Value::Text(title.to_lowercase())),
            Sort::Turns => count(row.turns),
            Sort::Tokens => count(row.tokens),
            Sort::Bytes => count(row.bytes),
        }
    }

    /// The order of two sessions.
    pub(crate) fn order(self, a: &Entry, b: &Entry) -> Ordering {
        let values = self.value(&b.row).cmp(&self.value(&a.row));
        let values = if self.is_rising() { values.reverse() } else { values };
        values.then_with(|| b.row.id.cmp(&a.row.id)).then_with(|| a.dir.cmp(&b.dir))
    }
}

impl Cursor {
    /// The place behind a session.
    pub(crate) fn behind(sort: Sort, entry: &Entry) -> Self {
        let (id, dir) = (entry.row.id.clone(), entry.dir.as_str().to_owned());
        Self { sort, value: sort.value(&entry.row), id, dir }
    }

    /// The cursor as a text that people and programs can hand back.
    pub fn to_text(&self) -> String {
        // A struct of numbers and texts always has a JSON text.
        BASE64.encode(serde_json::to_string(self).unwrap_or_default())
    }

    /// The cursor of a text, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_slice(&BASE64.decode(text.trim()).ok()?).ok()
    }

    /// Whether it is of a list that is sorted like that.
    pub fn is_for(&self, sort: Sort) -> bool {
        self.sort == sort
    }

    fn is_before(&self, entry: &Entry) -> bool {
        let row = Row { id: self.id.clone(), ..Row::default() };
        let values = self.sort.value(&entry.row).cmp(&self.value);
        let values = if self.sort.is_rising() { values.reverse() } else { values };
        let order =
            values.then_with(|| entry.row.id.cmp(&row.id)).then_with(|| self.dir.as_str().cmp(entry.dir.as_str()));
        order == Ordering::Less
    }
}

impl Filter {
    /// Whether a session is wanted; whether it is live is for the caller to say.
    pub(crate) fn admits(&self, row: &Row, is_live: impl FnOnce() -> bool) -> bool {
        let key = || row.key.as_deref().and_then(|key| key.parse::<Key>().ok());
        let same = |wanted: &Option<String>, part: fn(&Key) -> &str| match wanted {
            None => true,
            Some(wanted) => key().is_some_and(|key| part(&key) == wanted),
        };
        same(&self.agent, Key::agent)
            && same(&self.channel, Key::channel)
            && same(&self.peer, Key::peer)
            && self.since_ms.is_none_or(|since| row.updated_ms.is_some_and(|updated| updated >= since))
            && self.until_ms.is_none_or(|until| row.updated_ms.is_some_and(|updated| updated <= until))
            && self.label.as_ref().is_none_or(|label| row.label.as_ref() == Some(label))
            && self.pinned.is_none_or(|pinned| row.pinned == pinned)
            && match self.state {
                None => true,
                Some(Wanted::Ok) => row.state == State::Ok,
                Some(Wanted::Live) => is_live(),
                Some(Wanted::Damaged) => row.damage > 0,
                Some(Wanted::Missing) => row.state == State::Missing,
                Some(Wanted::Mismatch) => row.state == State::Mismatch,
                Some(Wanted::Unreadable) => matches!(row.state, State::Unreadable(_)),
            }
    }
}

/// The part of a whole list that was asked for.
pub(crate) fn cut(mut entries: Vec<Entry>, ask: &ListQuery, is_live: impl Fn(&Entry) -> bool) -> Page {
    entries.retain(|entry| ask.filter.admits(&entry.row, || is_live(entry)));
    entries.sort_by(|a, b| ask.sort.order(a, b));
    if let Some(after) = &ask.after {
        entries.retain(|entry| after.is_before(entry));
    }
    close(entries, ask)
}

/// A page of the first entries; there is a next one if there are more than the page holds.
pub(crate) fn close(mut entries: Vec<Entry>, ask: &ListQuery) -> Page {
    let is_more = entries.len() > ask.limit;
    entries.truncate(ask.limit);
    let next = entries.last().filter(|_| is_more).map(|last| Cursor::behind(ask.sort, last));
    Page { entries, next }
}
