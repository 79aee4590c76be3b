//! From there to here: only the difference, proved before it is visible.
//!
//! A session that is not here is fetched into a file of its own, which becomes the session when it is whole; it never takes the place of one
//! that appeared meanwhile. A session that is here is added to, under its lock, in whole pages that were proved; each of them is safe
//! when it is written, so a pull that was killed is gone on with by the next one. What is here and not there is left alone: nothing is
//! ever shortened.
//!
//! It guards against three things that end in the same loss: an answer that did not come being taken for "there is nothing", an old
//! copy being put over a newer file, and bytes that were changed on the way.

use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::sync::bookmark::Bookmark;
use crate::sync::compare::{Standing, compare, diverged, proved};
use crate::sync::head::{self, Witnesses};
use crate::sync::part::Part;
use crate::sync::{Link, PLANS, Plan, Progress, Watch, local, payload, sides};

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulled {
    /// Lines that were fetched.
    pub lines: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What both sides have now.
    pub at: Frontier,
    /// How many lines are here beyond that.
    pub ahead: u64,
    /// Payloads that lines refer to and that are not there.
    pub missing: Vec<String>,
}

/// Fetches what is not here. If the remote has no such stream, that is [`Error::NotFound`]; if it could not be asked, it is not.
pub async fn pull(link: &Link<'_>, watch: Watch<'_>) -> Result<Pulled> {
    let mut pulled = pull_lines(link, watch).await?;
    pulled.missing.extend(sides::pull(link).await?);
    Ok(pulled)
}

/// Fetches what is not here of one stream.
pub(super) async fn pull_lines(link: &Link<'_>, watch: Watch<'_>) -> Result<Pulled> {
    for _ in 0..PLANS {
        let is_here = local::open(link.local)?.is_some();
        let pulled = if is_here { go_on(link, &mut *watch).await? } else { begin(link, &mut *watch).await? };
        if let Some(pulled) = pulled {
            return Ok(pulled);
        }
    }
    let reason = "the session here keeps changing".to_owned();
    Err(Error::Unavailable { place: link.stream.to_string(), reason, wait: None })
}

/// Fetches a session that is not here; none if it is here now.
async fn begin(link: &Link<'_>, watch: Watch<'_>) -> Result<Option<Pulled>> {
    let part = Part::fetch(link, watch).await?;
    let is_new = link.local.admit(&link.local.part())?;
    if !is_new {
        part.remove(link.local)?;
        return Ok(None);
    }
    link.bookmarks.put(link.local, &part.end);
    let at = part.frontier();
    Ok(Some(Pulled { lines: part.lines, bytes: part.bytes, at, ahead: 0, missing: part.missing }))
}

/// Adds to a session that is here; none if it changed meanwhile.
async fn go_on(link: &Link<'_>, watch: Watch<'_>) -> Result<Option<Pulled>> {
    let (found, witnesses) = head::frontier(link).await?;
    let standing = compare(link, found).await?;
    match standing.plan {
        Plan::InSync | Plan::Push { .. } => {
            let (here, both) = (standing.here, standing.from);
            link.bookmarks.put(link.local, &both);
            let ahead = here.end.lines - both.end.lines;
            Ok(Some(Pulled { at: both.end, ahead, ..Pulled::default() }))
        }
        Plan::Diverged { .. } => Err(diverged(link, &standing).await),
        Plan::Pull { .. } => take_in(link, standing, &witnesses, watch).await,
    }
}

async fn take_in(
    link: &Link<'_>,
    standing: Standing,
    witnesses: &Witnesses,
    watch: Watch<'_>,
) -> Result<Option<Pulled>> {
    let mut intake = link.local.intake()?;
    let mut at = standing.here;
    {
        // Looked at again behind the lock: who wrote meanwhile, or left half a line, goes on differently.
        let reader = intake.reader()?;
        if reader.len() != at.end.bytes || reader.identity() != at.file() {
            return Ok(None);
        }
    }
    let of_bytes = standing.there.bytes - at.end.bytes;
    let mut pulled = Pulled::default();
    let mut ready = standing.page;
    while at.end.lines < standing.there.lines {
        let page = match ready.take() {
            Some(page) => page,
            None => link.remote.read(link.stream, at.end.lines).await?,
        };
        proved(link.stream, &at.end, &page)?;
        if page.lines.is_empty() {
            break;
        }
        witnesses.check_page(link.stream, &page)?;
        if page.after.lines == standing.there.lines && page.after != standing.there {
            let reason = "its lines are not those that it says it has".to_owned();
            return Err(Error::Corrupt { what: link.stream.to_string(), reason });
        }
        pulled.missing.extend(payload::fetch(link, &page.lines).await?);
        let mut batch = Vec::new();
        let mut next: Bookmark = at;
        for line in &page.lines {
            batch.extend_from_slice(line);
            batch.push(b'\n');
            next.pass(line);
        }
        intake.append(&batch)?;
        at = next;
        link.bookmarks.put(link.local, &at);
        pulled.lines += page.lines.len() as u64;
        pulled.bytes += batch.len() as u64;
        watch(Progress { lines: pulled.lines, bytes: pulled.bytes, of_bytes });
    }
    intake.close();
    Ok(Some(Pulled { at: at.end, ..pulled }))
}
