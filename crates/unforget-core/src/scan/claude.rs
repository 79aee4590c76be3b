//! Which line of Claude Code follows which.
//!
//! The file names parents by `uuid`; here they become numbers. Two things in it look like branches and are none. Parallel calls of one
//! message have a line each, and every result names its own call as its parent: all of them are put in a row, the message's lines and then
//! the results, as the API gets them. And a compaction begins a tree of its own, which is joined to the last line before it; whoever goes on
//! from before it all the same, because a second window did not know of it, goes on behind its summary. What is left are real branches:
//! someone went back, or two programs wrote at once.
//!
//! A `uuid` that comes again is the same line again (the first counts), and a parent that is not in the file is replaced by the step
//! before, so that a hole costs what is in it and nothing else.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::record::{Body, Parent, Record, Tokens};

/// What a compaction begins with; its summary comes a few lines later.
const BOUNDARY: &str = "compact_boundary";

/// A `uuid` or another name, in sixteen bytes.
type Name = u128;

/// What has to be remembered of the lines before.
#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    /// Where each line of the tree is.
    places: HashMap<Name, u64>,
    /// Messages by name: their lines, and the results of their calls.
    messages: Vec<Message>,
    named: HashMap<Name, usize>,
    /// The message that a record is a line or a result of.
    belongs: HashMap<u64, usize>,
    /// From where on the compaction kept something whose summary is still to come.
    kept: Option<u64>,
    /// The newest compaction: its boundary, and its summary once that came.
    newest: Option<(u64, u64)>,
}

/// A message of the model, as far as it was written.
#[derive(Debug, Clone, Default)]
struct Message {
    /// Its last line, or the last result.
    tip: u64,
    counted: Tokens,
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
        let of_parent = before.and_then(|before| self.belongs.get(&before).copied());
        let parent = known.or(of_parent).map_or(before, |at| Some(self.messages[at].tip));
        let is_boundary = matches!(&record.body, Body::Aside { kind } if kind == BOUNDARY);
        let parent = match (parent, self.newest) {
            (Some(parent), Some((boundary, summary))) if parent < boundary && !is_boundary => Some(summary),
            (parent, _) => parent,
        };
        record.parent = parent.map_or(Parent::Previous, Parent::Record);
        if let Some(uuid) = foreign.uuid.as_deref() {
            self.places.insert(name(uuid), n);
        }
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
        if let Some(at) = joined {
            self.messages[at].tip = n;
            self.belongs.insert(n, at);
            if let Some(counted) = foreign.counted {
                foreign.spent = Some(counted.beyond(&self.messages[at].counted));
                self.messages[at].counted = counted.or_more(&self.messages[at].counted);
            }
        }
        match &mut record.body {
            Body::Aside { .. } if is_boundary => {
                self.newest = Some((n, n));
                self.kept = foreign.first_kept.as_deref().and_then(|uuid| self.places.get(&name(uuid)).copied());
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
