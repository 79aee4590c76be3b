//! Carrying a plan out, one step at a time, each looked at again right before it is done.
//!
//! The list that a plan was made of is a cache, and time has passed since. So a session that would expire is read once more, and the rules are
//! asked once more; if it was used meanwhile it stays. It is then moved by [`Directory::delete`], which keeps writers out, and looked at a last time in the trash: if it
//! grew on the way it comes back. What leaves the trash for good is written down first.
//!
//! A crash at any point leaves every session in one place and readable; the next run goes on from what it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Kept, Payloads, Plan, Rules, Trashed, Verdict, Why, journal, payloads, survey, verdict};
use crate::directory::{Directory, Entry};
use crate::error::{Error, IoContext as _, Result};
use crate::json::quote;
use crate::key::Key;
use crate::layout::{self, AgentDir};
use crate::medium::Access;
use crate::reader::LogReader;
use crate::stamp::{self, SessionId};
use crate::summary::{self, Row, State};

/// What was done with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It was moved to the trash.
    Expired,
    /// It was removed from the trash, for good.
    Purged,
}

impl Action {
    /// A short name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Action::Expired => "expired",
            Action::Purged => "purged",
        }
    }
}

/// Something that was done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// What.
    pub action: Action,
    /// The session.
    pub id: String,
    /// Its key.
    pub key: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Length of its transcript.
    pub bytes: u64,
    /// Why.
    pub why: Why,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
}

impl Deed {
    fn new(action: Action, row: Row, bytes: u64, why: &Why, at_ms: i64) -> Self {
        Self { action, id: row.id, key: row.key, title: row.title, bytes, why: why.clone(), at_ms }
    }

    /// The line of the receipt.
    pub fn to_json(&self) -> String {
        let text = |text: &Option<String>| text.as_deref().map_or("null".to_owned(), quote);
        format!(
            "{{\"ts\":{},\"action\":\"{}\",\"id\":{},\"key\":{},\"title\":{},\"bytes\":{},\"why\":{}}}",
            quote(&stamp::rfc3339(self.at_ms)),
            self.action.name(),
            quote(&self.id),
            text(&self.key),
            text(&self.title),
            self.bytes,
            quote(&self.why.to_string())
        )
    }
}

/// How a plan went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// What was done.
    pub deeds: Vec<Deed>,
    /// What stayed although the plan said otherwise, and why.
    pub kept: Vec<(String, Kept)>,
    /// What went wrong, by session.
    pub failed: Vec<(String, String)>,
    /// What happened to payloads; nothing if no session was purged.
    pub payloads: Option<Payloads>,
}

/// Carries a plan out. Only one process does so at a time; another one gets [`Error::Busy`].
///
/// `progress` hears of each transcript that is looked at.
pub fn apply(store: &Directory, plan: &Plan, rules: &Rules, mut progress: impl FnMut(&Path)) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    if plan.expire.is_empty() && plan.purge.is_empty() && !journal::owes_payloads(store) {
        return Ok(outcome);
    }
    let _turn = journal::take_turn(store)?;
    if !plan.purge.is_empty() {
        forget(store, &plan.purge)?;
    }
    let mut torn: BTreeMap<&AgentDir, Vec<String>> = BTreeMap::new();
    for (trashed, why) in &plan.purge {
        progress(&trashed.dir.trashed(&trashed.id));
        if !torn.contains_key(&trashed.dir) {
            torn.insert(&trashed.dir, torn_pieces(store, &trashed.dir)?);
        }
        let torn = torn.get(&trashed.dir).map_or(&[][..], Vec::as_slice);
        match purge(store, trashed, torn, why) {
            Ok(Ok(deed)) => {
                store.forget_purged(&trashed.dir, &trashed.id);
                outcome.deeds.push(deed);
            }
            Ok(Err(kept)) => outcome.kept.push((trashed.id.to_string(), kept)),
            Err(error) => outcome.failed.push((trashed.id.to_string(), error.to_string())),
        }
    }
    for (entry, why) in &plan.expire {
        progress(Path::new(&entry.row.id));
        match expire(store, entry, why, rules, plan.now_ms) {
            Ok(Ok(deed)) => outcome.deeds.push(deed),
            Ok(Err(kept)) => outcome.kept.push((entry.row.id.clone(), kept)),
            Err(error) => outcome.failed.push((entry.row.id.clone(), error.to_string())),
        }
    }
    if journal::owes_payloads(store) {
        let payloads = payloads::sweep(store, store.source().now_ms(), &mut progress)?;
        if payloads.stopped.is_none() && payloads.young == 0 {
            journal::payloads_done(store)?;
        }
        outcome.payloads = Some(payloads);
    }
    Ok(outcome)
}

/// Moves a session to the trash, if it still is one that may go.
fn expire(store: &Directory, entry: &Entry, why: &Why, rules: &Rules, now_ms: i64) -> Result<Result<Deed, Kept>> {
    let (Some(id), Ok(path)) = (SessionId::parse(&entry.row.id), store.path(entry)) else {
        return Ok(Err(Kept::Unusable("missing")));
    };
    let reader = match LogReader::open(store.medium().as_ref(), &path) {
        Err(error) if error.is_io(std::io::ErrorKind::NotFound) => return Ok(Err(Kept::Changed)),
        other => other?,
    };
    let (row, _) = summary::summarise(&reader, id.as_str())?;
    drop(reader);
    if let Some(kept) = second_thoughts(&entry.row, &row, &entry.dir, why, rules, now_ms) {
        return Ok(Err(kept));
    }
    let bytes = row.bytes;
    match store.delete(entry) {
        Err(Error::Busy { .. }) => return Ok(Err(Kept::Live)),
        other => other?,
    }
    let trashed = entry.dir.trashed(&id);
    let stat = store.medium().stat(&trashed).context("look at", &trashed)?;
    if stat.len != bytes {
        store.undelete(&Entry { row: Row { state: State::Deleted, ..row }, dir: entry.dir.clone() })?;
        return Ok(Err(Kept::Changed));
    }
    let deed = Deed::new(Action::Expired, row, bytes, why, store.source().now_ms());
    journal::write(store, &deed.to_json())?;
    Ok(Ok(deed))
}

/// Why a session stays after all, now that its transcript was read once more.
fn second_thoughts(known: &Row, row: &Row, dir: &AgentDir, why: &Why, rules: &Rules, now_ms: i64) -> Option<Kept> {
    let agent = row.key.as_deref().and_then(|key| key.parse::<Key>().ok()).map(|key| AgentDir::of(key.agent()));
    if agent.is_some_and(|agent| agent != *dir) {
        return Some(Kept::Unusable(State::Mismatch.name()));
    }
    if row.bytes != known.bytes {
        return Some(Kept::Changed);
    }
    match (verdict(row, rules, now_ms), why) {
        (Verdict::Expire(_), _) => None,
        (Verdict::Keep(Kept::NoRule | Kept::NotYet(_)), Why::Budget) => None,
        (Verdict::Keep(kept), _) => Some(kept),
    }
}

/// Makes the index and the snapshots forget what is in the trash: one that still knows a session from before it was deleted would miss it for ever.
fn forget(store: &Directory, purge: &[(Trashed, Why)]) -> Result<()> {
    let leaving: BTreeSet<(&AgentDir, &str)> = purge.iter().map(|(it, _)| (&it.dir, it.id.as_str())).collect();
    if let Some(observer) = store.observer() {
        observer.trashed(&purge.iter().map(|(it, _)| (&it.dir, &it.id)).collect::<Vec<_>>());
    }
    let mut listing = store.list()?;
    let is_leaving =
        |entry: &Entry| entry.row.state == State::Missing && leaving.contains(&(&entry.dir, entry.row.id.as_str()));
    let stale: Vec<AgentDir> =
        listing.entries.iter().filter(|entry| is_leaving(entry)).map(|entry| entry.dir.clone()).collect();
    listing.entries.retain(|entry| !is_leaving(entry));
    listing.stale.extend(stale);
    store.refresh(&listing)
}

/// Names of torn pieces in an agent's trash. They are few, and a directory of many sessions is listed only once.
fn torn_pieces(store: &Directory, dir: &AgentDir) -> Result<Vec<String>> {
    let trash = dir.trash();
    let names = store.medium().list(&trash).context("list", &trash)?.into_iter().map(|(name, _)| name);
    Ok(names.filter(|name| layout::transcript_id(name).is_none() && name.contains(".torn-")).collect())
}

/// Removes a session from the trash, for good.
fn purge(store: &Directory, trashed: &Trashed, torn: &[String], why: &Why) -> Result<Result<Deed, Kept>> {
    let medium = store.medium();
    let Trashed { dir, id, .. } = trashed;
    let path = dir.trashed(id);
    let file = match medium.open(&path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Err(Kept::Changed)),
        other => other.context("open", &path)?,
    };
    // Whoever holds the lock reads or moves it; whoever wants to delete the session again has to wait for this one.
    if !file.try_lock().context("lock", &path)? {
        return Ok(Err(Kept::Live));
    }
    let stat = file.stat().context("look at", &path)?;
    let is_same = medium.stat(&path).is_ok_and(|now| now.identity == stat.identity);
    let note = survey::deleted_ms(store, dir, id)?;
    if !is_same
        || stat.len != trashed.bytes
        || note != trashed.deleted_ms
        || survey::is_back(store, dir, id, stat.identity)
    {
        return Ok(Err(Kept::Changed));
    }
    // What a receipt says besides the id is for people; a transcript that cannot be read still has one.
    let row = LogReader::open(medium.as_ref(), &path).and_then(|reader| summary::summarise(&reader, id.as_str()));
    let row = row.map_or_else(|_| Row { id: id.to_string(), ..Row::default() }, |(row, _)| row);
    let deed = Deed::new(Action::Purged, row, stat.len, why, store.source().now_ms());
    journal::write(store, &deed.to_json())?;
    journal::owe_payloads(store)?;
    let trash = dir.trash();
    for name in torn.iter().filter(|name| layout::is_torn_piece(name, id)) {
        remove(store, &trash.join(name))?;
    }
    // One of the same name that came back meanwhile has them still.
    if medium.stat(&dir.transcript(id)).is_err() {
        store.remove_sides(dir, id)?;
    }
    remove(store, &path)?;
    medium.sync_dir(&trash).context("sync", &trash)?;
    remove(store, &dir.receipt(id))?;
    medium.sync_dir(&trash).context("sync", &trash)?;
    Ok(Ok(deed))
}

fn remove(store: &Directory, path: &Path) -> Result<()> {
    match store.medium().remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("remove", path),
        _ => Ok(()),
    }
}
