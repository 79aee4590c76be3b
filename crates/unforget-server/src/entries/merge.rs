//! Two sides that went on from the same entry, each in its own way, put together: what is there first, then what only this side has.
//!
//! Entries name their predecessors themselves, or stand in the order in which they were appended; nothing in them depends on which line they are. So nobody has
//! to choose, and nothing is lost. The whole is written beside the file and takes its place at once, while the file is locked: whoever appends
//! meanwhile finds another file under the name, and looks again.
//!
//! If the remote has nothing any more, or something that began anew, somebody deleted it there: what both sides had is gone here as well, and only what was
//! appended here since is kept.

use std::sync::Arc;
use std::time::Duration;

use unforget_core::log::{Durability, Log};
use unforget_core::medium::{Medium, create_durable, parent};
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId;
use unforget_remote::Error;
use unforget_remote::sync::{self, Link, Local as _, Plain};

use super::here::encoded;
use super::known::Known;
use super::place::Header;
use super::there::Parcel;
use crate::error::{Problem, Result};
use crate::realm::Realm;

/// How long a file that somebody writes is left alone.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// What became of the other side.
#[derive(Debug, Clone, Copy)]
enum OtherSide {
    /// All of it was fetched.
    Fetched,
    /// Somebody deleted it.
    Deleted,
}

/// Puts both sides together, here.
pub(super) async fn merge(realm: &Arc<Realm>, parcel: &Parcel) -> Result<()> {
    let store = realm.store();
    let (medium, born) = (store.medium(), store.source().new_id(store.source().now_ms()));
    let path = parcel.place.file();
    let whole = path.with_extension(format!("merging-{born}"));
    let beside = Plain::new(medium.clone(), &whole, parcel.local.dir(), &born);
    let link = Link { local: &beside, ..parcel.link() };
    let side = match sync::pull(&link, &mut |_| parcel.heard()).await {
        Ok(_) => OtherSide::Fetched,
        Err(Error::NotFound { .. }) => OtherSide::Deleted,
        Err(error) => return Err(error.into()),
    };
    parcel.bookmarks.forget(beside.dir(), beside.id())?;
    let put = put_together(medium, parcel, &whole, side, &born);
    if put.is_err()
        && let Err(error) = medium.remove(&whole)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::debug!(%error, "what was fetched to be put together is left behind");
    }
    put
}

/// What is in `whole` and what only this side has take the place of this side's file.
fn put_together(
    medium: &Arc<dyn Medium>,
    parcel: &Parcel,
    whole: &std::path::Path,
    side: OtherSide,
    born: &SessionId,
) -> Result<()> {
    let path = parcel.place.file();
    let failed = |source| unforget_core::Error::Io { action: "put together", path: path.clone(), source };
    // Held until the end: nobody appends to what is about to be replaced.
    let held = match Log::open(medium.clone(), &path, Durability::PowerLoss) {
        // Somebody writes; whoever called looks again.
        Err(unforget_core::Error::Busy { .. } | unforget_core::Error::Changed { .. }) => {
            std::thread::sleep(PAUSE);
            medium.remove(whole).or_else(gone).map_err(failed)?;
            return Ok(());
        }
        other => other?,
    };
    let here = LogReader::open(medium.as_ref(), &path)?;
    let common = match side {
        OtherSide::Fetched => common(&here, &LogReader::open(medium.as_ref(), whole)?)?,
        OtherSide::Deleted => 0,
    };
    let own = match common {
        // Not even the beginning is the same: what was there has been deleted, and perhaps begun anew. What the remote had of this side went with it.
        0 => {
            let sent = parcel.bookmarks.proved(&parcel.local, &here)?;
            entries_from(&here, sent.map_or(0, |sent| sent.end.bytes))?
        }
        common => entries_from(&here, common)?,
    };
    match side {
        OtherSide::Deleted if own.is_empty() => {
            medium.remove(&path).or_else(gone).map_err(failed)?;
            medium.remove(&parcel.place.summary()).or_else(gone).map_err(failed)?;
        }
        OtherSide::Deleted => {
            let key = Header::first(&here)?.ok_or_else(Problem::no_session)?.key()?;
            let text = encoded(&Header::of(&key, born).to_line(), &texts(&own));
            create_durable(medium.as_ref(), whole, text.as_bytes()).map_err(failed)?;
            medium.replace(whole, &path).map_err(failed)?;
        }
        OtherSide::Fetched => {
            let mut known = Known::default();
            known.catch_up(&LogReader::open(medium.as_ref(), whole)?)?;
            let (mut log, _) = Log::open(medium.clone(), whole, Durability::PowerLoss)?;
            log.append(encoded("", &known.fresh(&texts(&own))).as_bytes())?;
            medium.replace(whole, &path).map_err(failed)?;
        }
    }
    medium.sync_dir(parent(&path)).map_err(failed)?;
    drop(held);
    parcel.bookmarks.forget(parcel.local.dir(), parcel.local.id())?;
    Ok(())
}

/// How many bytes both files begin with, in whole lines.
fn common(here: &LogReader, there: &LogReader) -> Result<u64> {
    let (mut ours, mut theirs) = (here.forward(0), there.forward(0));
    let mut end = 0;
    while let Some(line) = ours.next()?.filter(|line| line.terminated) {
        if theirs.next()?.is_none_or(|it| it.bytes != line.bytes) {
            break;
        }
        end = line.end();
    }
    Ok(end)
}

/// The entries from an offset on.
fn entries_from(reader: &LogReader, offset: u64) -> Result<Vec<String>> {
    let mut entries = Vec::new();
    let mut forward = reader.forward(offset);
    while let Some(line) = forward.next()?.filter(|line| line.terminated) {
        if let Some(text) = std::str::from_utf8(line.bytes).ok().filter(|_| line.offset > 0) {
            entries.push(text.to_owned());
        }
    }
    Ok(entries)
}

fn texts(entries: &[String]) -> Vec<&str> {
    entries.iter().map(String::as_str).collect()
}

/// That there is no file is as good as removing it.
fn gone(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
