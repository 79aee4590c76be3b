//! Which line of Claude Code follows which.
//!
//! The file names parents by `uuid`; here they become numbers. Two things in it look like branches
//! and are none. Parallel calls of one message have a line each, and every result names its own
//! call as its parent: all of them are put in a row, the message's lines and then the results, as
//! the API gets them. And a compaction begins a tree of its own, which is joined to the last line
//! before it; a line that goes on from before it, because a second window did not know of
//! it, goes on behind its summary. What is left are real branches: someone went back, or two
//! programs wrote at once.
//!
//! A `uuid` that comes again is the same line again (the first counts), and a parent that is not in
//! the file is replaced by the step before, so that a hole costs what is in it and nothing else.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::record::{Body, Parent, Record, Tokens};

/// What a compaction begins with; its summary comes a few lines later.
const BOUNDARY: &str = "compact_boundary";

/// A `uuid` or another name, in sixteen bytes.
type Name = u128;

/// What has to be remembered of the lines before. Its serialised form is all of it, so that a
/// reader goes on where another one stopped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Kept", into = "Kept")]
pub(super) struct Links {
    /// Where each line of the tree is.
    places: HashMap<Name, Line>,
    /// Messages by name: their lines, and the results of their calls.
    messages: Vec<Message>,
    named: HashMap<Name, usize>,
    /// From where on the compaction kept something whose summary is still to come.
    kept: Option<u64>,
    /// The newest compaction: its boundary, and its summary once that came.
    newest: Option<(u64, u64)>,
}

/// A line of the tree.
#[derive(Debug, Clone, Copy)]
struct Line {
    n: u64,
    /// The message that it is a line or a result of.
    of: Option<usize>,
}

/// A message of the model, as far as it was written.
#[derive(Debug, Clone, Default)]
struct Message {
    /// Its last line, or the last result.
    tip: u64,
    counted: Tokens,
}

/// [`Links`] as lists, in the order of the file: the same lines always give the same bytes.
#[derive(Serialize, Deserialize)]
struct Kept {
    places: Vec<(Name, u64, Option<usize>)>,
    messages: Vec<(u64, Tokens)>,
    named: Vec<(Name, usize)>,
    kept: Option<u64>,
    newest: Option<(u64, u64)>,
}

impl From<Links> for Kept {
    fn from(links: Links) -> Self {
        let Links { places, messages, named, kept, newest } = links;
        let mut places: Vec<_> = places.into_iter().map(|(name, Line { n, of })| (name, n, of)).collect();
        places.sort_unstable_by_key(|(name, n, _)| (*n, *name));
        let messages = messages.into_iter().map(|Message { tip, counted }| (tip, counted)).collect();
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_unstable_by_key(|(_, at)| *at);
        Self { places, messages, named, kept, newest }
    }
}

impl From<Kept> for Links {
    fn from(kept: Kept) -> Self {
        let Kept { places, messages, named, kept, newest } = kept;
        let count = messages.len();
        // The index is a file, and may say anything.
        let known = |at: &usize| *at < count;
        Self {
            places: places.into_iter().map(|(name, n, of)| (name, Line { n, of: of.filter(known) })).collect(),
            messages: messages.into_iter().map(|(tip, counted)| Message { tip, counted }).collect(),
            named: named.into_iter().filter(|(_, at)| known(at)).collect(),
            kept,
            newest,
        }
    }
}

impl Links {
    /// Gives a record its parent, and a message what it took.
    pub(super) fn join(&mut self, record: &mut Record<'_>) {
        let Some(foreign) = record.foreign.as_deref_mut() else { return };
        let n = record.n;
        let is_known = foreign.uuid.as_deref().is_none_or(|uuid| self.places.contains_key(&name(uuid)));
        if foreign.is_sidechain || is_known {
            return;
        }
        let before = foreign.parent.as_deref().and_then(|uuid| self.places.get(&name(uuid)).copied());
        let message = foreign.message.as_deref().map(name);
        let known = message.and_then(|message| self.named.get(&message).copied());
        let of_parent = before.and_then(|before| before.of);
        let parent = known.or(of_parent).map_or(before.map(|it| it.n), |at| Some(self.messages[at].tip));
        let is_boundary = matches!(&record.body, Body::Aside { kind } if kind == BOUNDARY);
        let parent = match (parent, self.newest) {
            (Some(parent), Some((boundary, summary))) if parent < boundary && !is_boundary => Some(summary),
            (parent, _) => parent,
        };
        record.parent = parent.map_or(Parent::Previous, Parent::Record);
        let joined = match (known, message, &record.body) {
            (Some(at), ..) => Some(at),
            (None, Some(message), Body::Assistant { .. } | Body::ToolUse(_)) => {
                self.named.insert(message, self.messages.len());
                self.messages.push(Message::default());
                foreign.begins_message = true;
                Some(self.messages.len() - 1)
            }
            (None, _, Body::ToolResult(_)) => of_parent,
            _ => None,
        };
        if let Some(uuid) = foreign.uuid.as_deref() {
            self.places.insert(name(uuid), Line { n, of: joined });
        }
        if let Some(at) = joined {
            self.messages[at].tip = n;
            if let Some(counted) = foreign.counted {
                foreign.spent = Some(counted.beyond(&self.messages[at].counted));
                self.messages[at].counted = counted.or_more(&self.messages[at].counted);
            }
        }
        match &mut record.body {
            Body::Aside { .. } if is_boundary => {
                self.newest = Some((n, n));
                self.kept = foreign.first_kept.as_deref().and_then(|uuid| self.places.get(&name(uuid))).map(|it| it.n);
            }
            Body::Compaction { first_kept, .. } => {
                *first_kept = self.kept.take();
                self.newest = self.newest.map(|(boundary, _)| (boundary, n));
            }
            _ => {}
        }
    }
}

/// A name as a number: a UUID is one, and anything else is hashed.
fn name(text: &str) -> Name {
    match uuid::Uuid::try_parse(text) {
        Ok(uuid) => uuid.as_u128(),
        Err(_) => {
            let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&digest[..16]);
            u128::from_be_bytes(bytes)
        }
    }
}
