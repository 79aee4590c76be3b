//! The books of cleaning up: receipts, the lock, when it was done last (and so whether the clock can be believed), and what is still to be looked through.
//!
//! A receipt is one line in `trash/receipts.jsonl`. What leaves the trash for good is written down before it does: a receipt without a deed is a
//! curiosity, a deed without a receipt would be a session that vanished. A line that a crash cut off stays where it is, and the next one begins on
//! a line of its own.

use std::io;
use std::path::Path;

use super::Rules;
use crate::directory::Directory;
use crate::error::{Error, IoContext as _, Result};
use crate::layout::{self, AgentDir};
use crate::medium::{Access, Handle, read_full, read_small, replace_durable, write_full};
use crate::stamp::{self, SessionId};

/// How long after the last time it is done again without being asked.
const INTERVAL_MS: i64 = 24 * 60 * 60 * 1000;
/// How far the clock may be ahead of the last time that is known.
const LEAP_MS: i64 = 60 * 24 * 60 * 60 * 1000;
/// The longest stamp.
const MAX_STAMP: u64 = 64;

/// Whether to clean up without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Not yet, or never.
    No,
    /// Now; the next time is a day from now.
    Now,
    /// Not before a person said that the clock is right: it is this far from the last time that is known.
    Doubtful {
        /// When something was done last.
        last_ms: i64,
        /// What the clock says.
        now_ms: i64,
    },
}

/// Whether it is time to clean up without being asked.
///
/// The stamp is set first: whatever goes wrong then does not go wrong again at every start. While the clock is in doubt it is not set,
/// so that a wrong clock does not become a right one by being wrong for a day.
pub fn due(store: &Directory, rules: &Rules) -> Result<Due> {
    if rules.is_empty() {
        return Ok(Due::No);
    }
    let (last, now_ms) = (last(store)?, store.source().now_ms());
    // A stamp from the future was set by a clock that was wrong.
    if last.is_some_and(|last| last <= now_ms && now_ms.saturating_sub(last) < INTERVAL_MS) {
        return Ok(Due::No);
    }
    if let Some(last_ms) = doubt(store)? {
        return Ok(Due::Doubtful { last_ms, now_ms });
    }
    believe_clock(store)?;
    Ok(Due::Now)
}

/// The last time that is known, if the clock is so far ahead of it that it may be wrong: when it was cleaned up last or, if it never was, when
/// a session was used or deleted before today. What was written today was written by the same clock.
pub fn doubt(store: &Directory) -> Result<Option<i64>> {
    let now_ms = store.source().now_ms();
    let known = match last(store)? {
        Some(last) => Some(last),
        None => {
            let rows = store.list()?.entries.into_iter().map(|entry| entry.row);
            let used = rows.map(|row| row.updated_ms.max(row.created_ms).max(Some(row.modified_ns / 1_000_000)));
            let deleted = super::survey::trash(store)?.into_iter().map(|trashed| trashed.deleted_ms);
            used.chain(deleted).flatten().filter(|ms| *ms < now_ms.saturating_sub(INTERVAL_MS)).max()
        }
    };
    Ok(known.filter(|known| now_ms.saturating_sub(*known) > LEAP_MS))
}

/// Writes down that it is cleaned up now, and with it that the clock is right.
pub fn believe_clock(store: &Directory) -> Result<()> {
    create_trash(store)?;
    let path = layout::gc_stamp();
    let text = format!("{}\n", stamp::rfc3339(store.source().now_ms()));
    replace_durable(store.medium().as_ref(), &path, text.as_bytes()).context("write", &path)
}

fn last(store: &Directory) -> Result<Option<i64>> {
    let path = layout::gc_stamp();
    match read_small(store.medium().as_ref(), &path, MAX_STAMP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => Ok(stamp::parse_rfc3339(String::from_utf8_lossy(&other.context("read", &path)?).trim())),
    }
}

/// When a session leaves the trash by the rules, in milliseconds since the epoch; `None` if no rule says so.
pub fn purge_time(store: &Directory, dir: &AgentDir, id: &SessionId, rules: &Rules) -> Result<Option<i64>> {
    let Some(period) = &rules.trash else { return Ok(None) };
    Ok(super::survey::deleted_ms(store, dir, id)?.and_then(|deleted_ms| period.after(deleted_ms)))
}

/// Waits for nobody: one process cleans up at a time, until the handle drops.
pub(super) fn take_turn(store: &Directory) -> Result<Box<dyn Handle>> {
    create_trash(store)?;
    let path = layout::gc_lock();
    let file = match store.medium().open(&path, Access::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => store.medium().open(&path, Access::Append),
        other => other,
    };
    let file = file.context("open", &path)?;
    if file.try_lock().context("lock", &path)? {
        return Ok(file);
    }
    let holder = file.stat().ok().and_then(|stat| store.medium().lock_holder(&stat));
    Err(Error::Busy { path, holder: holder.unwrap_or_else(|| "another process".to_owned()) })
}

/// Appends a line to the receipts, durably.
pub(super) fn write(store: &Directory, line: &str) -> Result<()> {
    let path = layout::receipts();
    let is_new = matches!(store.medium().stat(&path), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let mut file = match store.medium().open(&path, if is_new { Access::CreateNew } else { Access::Append }) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => store.medium().open(&path, Access::Append),
        other => other,
    }
    .context("open", &path)?;
    let len = file.stat().context("look at", &path)?.len;
    let mut last = [b'\n'];
    if len > 0 {
        read_full(file.as_ref(), &mut last, len - 1).context("read", &path)?;
    }
    let text = format!("{}{line}\n", if last == [b'\n'] { "" } else { "\n" });
    write_full(file.as_mut(), text.as_bytes()).and_then(|()| file.sync_data()).context("write", &path)?;
    if is_new {
        store.medium().sync_dir(Path::new(layout::TRASH)).context("sync", Path::new(layout::TRASH))?;
    }
    Ok(())
}

/// Remembers, also over a crash, that payloads have to be looked through.
pub(super) fn owe_payloads(store: &Directory) -> Result<()> {
    let path = layout::payloads_due();
    if owes_payloads(store) {
        return Ok(());
    }
    replace_durable(store.medium().as_ref(), &path, b"").context("write", &path)
}

/// Whether payloads have to be looked through.
pub(super) fn owes_payloads(store: &Directory) -> bool {
    store.medium().stat(&layout::payloads_due()).is_ok()
}

/// Payloads were looked through.
pub(super) fn payloads_done(store: &Directory) -> Result<()> {
    let path = layout::payloads_due();
    match store.medium().remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("remove", &path),
        _ => Ok(()),
    }
}

fn create_trash(store: &Directory) -> Result<()> {
    let trash = Path::new(layout::TRASH);
    store.medium().create_dir(trash).context("create", trash)
}
