//! A session that begins where another one was: a new file that stands alone.
//!
//! The way from the root to one step is said again under new numbers, with its times; what is not on it stays behind.
//! References between records (`first_kept`, `records`, `of`, `to`, `pinned`) are led to the new numbers, payloads are shared by
//! their hash, and the header tells where it comes from. The history of the fork is, byte for byte, what was sent at that
//! step, so a provider's cache still knows it. The file appears whole or not at all, and the original is only read: it
//! may have a writer.
//!
//! The copy ends with a `head` record of its own. So the fork counts as used now, and not as old as its last words.

use std::collections::{BTreeSet, HashMap};

use crate::blob::references;
use crate::directory::{Directory, Entry};
use crate::error::{Error, Result};
use crate::json;
use crate::key::Key;
use crate::lines::MAX_LINE;
use crate::reader::LogReader;
use crate::recent::End;
use crate::record::{Body, Draft, Record, VERSION};
use crate::scan::Scanner;
use crate::session::{CLAUDE_CODE, encode_next, header_draft};
use crate::stamp::SessionId;
use crate::tree::{Kind, Trail, Tree};

/// What a fork is made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// The step that it ends with; the head if none is given.
    pub at: Option<u64>,
    /// Its key; that of the original if none is given.
    pub key: Option<&'a Key>,
    /// Its label.
    pub label: Option<&'a str>,
}

/// A fork that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The new session.
    pub id: SessionId,
    /// Its key.
    pub key: Key,
    /// The step of the original that it goes on from; none for the very beginning.
    pub at: Option<u64>,
    /// How many steps were copied.
    pub steps: u64,
    /// Steps of types or versions that cannot be said again; they were never sent to a model.
    pub left_out: u64,
}

/// Makes a session of the way to one step of another.
pub fn fork(store: &Directory, entry: &Entry, wish: Wish<'_>) -> Result<Forked> {
    let reader = store.read(entry)?;
    let tree = Tree::read(&reader)?;
    let trail = match wish.at {
        None => tree.path(),
        Some(n) => tree.path_to(n).ok_or_else(|| no_step(n))?,
    };
    let key = match (wish.key, entry.row.key.as_deref()) {
        (Some(key), _) => key.clone(),
        (None, Some(key)) => key.parse()?,
        (None, None) => return Err(Error::Invalid("the session has lost its key; the fork needs one".to_owned())),
    };
    let now_ms = store.source().now_ms();
    let id = store.source().new_id(now_ms);
    let at = trail.end().map(|place| place.n);
    // The header says how much was copied, so the copy comes first.
    let copy = Copy::of(&reader, &tree, &trail, now_ms)?;
    let origin = format!(
        "{{\"format\":\"fork\",\"id\":{},\"at\":{},\"copied\":{}}}",
        json::quote(&entry.row.id),
        at.map_or("null".to_owned(), |n| n.to_string()),
        copy.next()
    );
    let header = header_draft(&id, &key, wish.label).raw("origin", &origin);
    let text = copy.encode(&header, now_ms)?;
    for hash in &copy.payloads {
        // One that is not there was not there for the original either.
        store.blobs().renew(hash)?;
    }
    store.adopt(&key, &id, text.as_bytes())?;
    Ok(Forked { id, key, at, steps: copy.steps, left_out: copy.left_out })
}

/// The error for a number that no step has.
fn no_step(n: u64) -> Error {
    Error::Invalid(format!("record {n} is no step of the conversation"))
}

/// Records that are said again.
struct Copy {
    /// What comes behind the header.
    records: Vec<Again>,
    /// New numbers by the old ones.
    numbers: HashMap<u64, u64>,
    /// What the records refer to.
    payloads: BTreeSet<String>,
    steps: u64,
    left_out: u64,
}

/// A record that is said again.
pub(crate) struct Again {
    pub(crate) draft: Draft,
    /// Where it refers to payloads.
    pointers: Vec<String>,
    /// The line of a tutorial's record. What it means depends on its version, so it stays as it is.
    foreign: Option<String>,
}

impl Copy {
    fn of(reader: &LogReader, tree: &Tree, trail: &Trail, now_ms: i64) -> Result<Self> {
        let mut copy =
            Self { records: Vec::new(), numbers: HashMap::new(), payloads: BTreeSet::new(), steps: 0, left_out: 0 };
        // The same records once more: a tree that grows along tells which step each of them is.
        let mut now = Tree::default();
        let mut scanner = Scanner::default();
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| {
                now.feed(&record);
                if !record.is_step() {
                    copy.about(&record, tree, now_ms);
                } else if now.last().is_some_and(|place| trail.holds(place)) {
                    copy.step(&record, now_ms);
                }
            });
        }
        match scanner.is_foreign() {
            true => Err(Error::NotOurs { path: reader.path().to_path_buf(), owner: CLAUDE_CODE }),
            false => Ok(copy),
        }
    }

    /// The number that the next record gets; the header has the first one.
    fn next(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    /// Takes a step of the way.
    fn step(&mut self, record: &Record<'_>, now_ms: i64) {
        let is_header = matches!(record.body, Body::Session(_));
        self.numbers.insert(record.n, if is_header && self.steps == 0 { 0 } else { self.next() });
        if is_header {
            return;
        }
        let again = Again::of(record, now_ms);
        // What a newer version means is not known, and a foreign `head` or `label` with a parent would mean something here.
        if record.version > VERSION || !again.draft.is_step() {
            self.left_out += 1;
            return;
        }
        self.payloads.extend(references(record).into_iter().flatten().map(|reference| reference.sha256));
        self.records.push(again);
        self.steps += 1;
    }

    /// Takes a record about the session, if it says something about the fork, too: checkpoints on its way, and its title.
    fn about(&mut self, record: &Record<'_>, tree: &Tree, now_ms: i64) {
        let is_wanted = match &record.body {
            Body::Title { .. } => true,
            Body::Label { to: Some(to), name } => {
                let is_in_force = tree.label(name).is_some_and(|it| it.n == record.n && it.kind == Kind::Checkpoint);
                is_in_force && self.numbers.contains_key(to)
            }
            _ => false,
        };
        if is_wanted {
            self.records.push(Again::of(record, now_ms));
        }
    }

    /// The whole transcript.
    fn encode(&self, header: &Draft, now_ms: i64) -> Result<String> {
        let mut end = End::default();
        let mut text = encode_next(&mut end, header, &[], now_ms)?;
        for again in &self.records {
            text.push_str(&again.encode(&mut end, |n| self.numbers.get(&n).copied(), now_ms)?);
        }
        let head = Draft::head(end.head, "fork");
        text.push_str(&encode_next(&mut end, &head, &[], now_ms)?);
        Ok(text)
    }
}

impl Again {
    pub(crate) fn of(record: &Record<'_>, now_ms: i64) -> Self {
        Self {
            draft: Draft::again(record).dated(Some(record.time_ms().unwrap_or(now_ms))),
            pointers: record.blobs.iter().map(|pointer| pointer.clone().into_owned()).collect(),
            foreign: (record.version == 0).then(|| record.raw.to_owned()),
        }
    }

    /// The line behind `end`, which moves on; `new` knows the new numbers by the old ones.
    pub(crate) fn encode(&self, end: &mut End, new: impl Fn(u64) -> Option<u64>, now_ms: i64) -> Result<String> {
        let draft = led(&self.draft, end.next, new);
        let Some(raw) = &self.foreign else { return encode_next(end, &draft, &self.pointers, now_ms) };
        let line = if draft == self.draft { format!("{raw}\n") } else { foreign_line(&draft) };
        if line.len() > MAX_LINE {
            return Err(Error::Invalid(format!("a record of {} bytes is too long", line.len())));
        }
        *end = End { next: end.next + 1, head: Some(end.next), crc: 0 };
        Ok(line)
    }
}

/// The draft with its references led to the new numbers; `own` is the one that it gets itself.
///
/// A step that is not on the way has no number here. What was kept from there on is nothing, a trim of it is none, an
/// undo is one of the header, which never was in effect; and two pins of such steps must not replace each other.
fn led(draft: &Draft, own: u64, new: impl Fn(u64) -> Option<u64>) -> Draft {
    let members = draft.members().iter().filter_map(|(name, value)| {
        let value = match (draft.kind(), name.as_str()) {
            ("compaction", "first_kept") => json::number(value).and_then(&new)?.to_string(),
            ("compaction", "pinned") => pinned(value, |n| new(n).unwrap_or(own)),
            ("trim", "records") => {
                let old = json::elements(value).unwrap_or_default().into_iter().filter_map(json::number);
                let new: Vec<String> = old.filter_map(&new).map(|n| n.to_string()).collect();
                format!("[{}]", new.join(","))
            }
            ("undo", "of") => json::number(value).and_then(&new).unwrap_or(0).to_string(),
            ("head", "to") => json::number(value).and_then(&new).map_or("null".to_owned(), |n| n.to_string()),
            ("head", "files" | "undoes") => json::number(value).and_then(&new)?.to_string(),
            ("pin" | "label", "to") => json::number(value).and_then(&new).unwrap_or(own).to_string(),
            _ => value.clone(),
        };
        Some((name.clone(), value))
    });
    draft.with_members(members.collect())
}

/// The `pinned` member of a compaction with new numbers.
fn pinned(raw: &str, new: impl Fn(u64) -> u64) -> String {
    let Some(pins) = json::elements(raw) else { return raw.to_owned() };
    let pins = pins.into_iter().map(|pin| {
        let Some(members) = json::members(pin) else { return pin.to_owned() };
        let members = members.iter().map(|(name, value)| {
            let n = json::number(value).filter(|_| name == "n").map(&new);
            format!("{}:{}", json::quote(name), n.map_or((*value).to_owned(), |n| n.to_string()))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    });
    format!("[{}]", pins.collect::<Vec<_>>().join(","))
}

/// A tutorial's record that refers to others: its time is left out, which was never order.
fn foreign_line(draft: &Draft) -> String {
    let members = draft.members().iter().map(|(name, value)| format!(",{}:{value}", json::quote(name)));
    format!("{{\"type\":{}{}}}\n", json::quote(draft.kind()), members.collect::<String>())
}
