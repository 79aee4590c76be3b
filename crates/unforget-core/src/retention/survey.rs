//! What there is, for a plan to be made of: the sessions as the list knows them, and the trash by its file names.
//!
//! The trash is not read through, only looked at: how long each transcript is and when it was deleted. Whether somebody writes a session is asked of those alone
//! that would go, because asking means to take its lock for a moment.

use std::io;
use std::path::Path;

use super::{Candidate, Plan, Purge, Rules, Trashed, plan};
use crate::directory::Directory;
use crate::error::{IoContext as _, Result};
use crate::json;
use crate::layout::{self, AgentDir};
use crate::medium::{Access, read_small};
use crate::stamp::{self, SessionId};

/// The largest note of a deletion that is read.
const MAX_NOTE: u64 = 4096;
/// How often a plan is made anew because something that it would move is in use.
const ROUNDS: usize = 16;

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The sessions that are not deleted.
    pub sessions: Vec<Candidate>,
    /// Those that are.
    pub trash: Vec<Trashed>,
}

/// Looks at everything; `progress` hears of each transcript that has to be read.
pub fn survey(store: &Directory, mut progress: impl FnMut(&Path)) -> Result<Survey> {
    let listing = store.list_with(|path, _| progress(path))?;
    let sessions = listing.entries.into_iter().map(|entry| Candidate { entry, live: false }).collect();
    Ok(Survey { sessions, trash: trash(store)? })
}

/// A plan in which nothing that is in use goes.
pub fn decide(store: &Directory, survey: &mut Survey, rules: &Rules, purge: &Purge, now_ms: i64) -> Plan {
    for _ in 0..ROUNDS {
        let plan = plan(&survey.sessions, &survey.trash, rules, purge, now_ms);
        let live: std::collections::BTreeSet<&str> = plan
            .expire
            .iter()
            .filter(|(entry, _)| is_live(store, entry))
            .map(|(entry, _)| entry.row.id.as_str())
            .collect();
        if live.is_empty() {
            return plan;
        }
        for candidate in &mut survey.sessions {
            candidate.live |= live.contains(candidate.entry.row.id.as_str());
        }
    }
    // Whatever is still in use is noticed once more when it would be moved.
    plan(&survey.sessions, &survey.trash, rules, purge, now_ms)
}

/// Whether someone writes a session. One that cannot be asked is not moved either: moving asks again.
fn is_live(store: &Directory, entry: &crate::directory::Entry) -> bool {
    let Ok(path) = store.path(entry) else { return false };
    match store.medium().open(&path, Access::Read).and_then(|file| file.try_lock()) {
        Ok(free) => !free,
        Err(_) => false,
    }
}

/// The sessions in the trash.
pub(super) fn trash(store: &Directory) -> Result<Vec<Trashed>> {
    let mut found = Vec::new();
    for dir in store.agents(Path::new(layout::TRASH))? {
        for (id, _, stat) in store.files(&dir.trash())? {
            if is_back(store, &dir, &id, stat.identity) {
                continue;
            }
            let deleted_ms = deleted_ms(store, &dir, &id)?;
            found.push(Trashed { dir: dir.clone(), id, bytes: stat.len, deleted_ms });
        }
    }
    Ok(found)
}

/// Whether a move that a crash cut short left both names of one file: such a session is not deleted.
pub(super) fn is_back(store: &Directory, dir: &AgentDir, id: &SessionId, identity: (u64, u64)) -> bool {
    store.medium().stat(&dir.transcript(id)).is_ok_and(|stat| stat.identity == identity)
}

/// When a session was deleted.
pub(super) fn deleted_ms(store: &Directory, dir: &AgentDir, id: &SessionId) -> Result<Option<i64>> {
    let path = dir.receipt(id);
    let bytes = match read_small(store.medium().as_ref(), &path, MAX_NOTE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.context("read", &path)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let members = json::members(text.trim()).unwrap_or_default();
    Ok(json::member(&members, "deleted").and_then(json::string).and_then(|time| stamp::parse_rfc3339(&time)))
}
