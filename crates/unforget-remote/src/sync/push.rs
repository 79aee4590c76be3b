//! From here to there: only what is new, in order, whole lines.
//!
//! The place that the remote confirmed last is remembered, so that a turn is read, sent and confirmed without looking at what
//! came before it. If the remote is elsewhere, both sides are compared, and what follows is a push from another place, nothing, or
//! a divergence, which is the user's to decide. A stream that the remote had and has no more was deleted by someone: it is not
//! brought back by a machine that happens to have a copy.
//!
//! It guards against the second writer: a machine that slept has a stale position, and every append is refused at it.

use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::sync::bookmark::Bookmark;
use crate::sync::compare::{compare, diverged};
use crate::sync::head::{self, EVERY, Witnesses};
use crate::sync::local::{self, missing};
use crate::sync::{Link, PLANS, Plan, Progress, Watch, payload, sides};

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pushed {
    /// Lines that were sent.
    pub lines: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What the remote has confirmed: everything that was here when it was read.
    pub at: Frontier,
    /// How many lines the remote has beyond that, as far as it was asked.
    pub behind: u64,
    /// Payloads that lines refer to and that are not here.
    pub missing: Vec<String>,
}

/// Sends what the remote has not: of a session that consists of several files, the others first.
pub async fn push(link: &Link<'_>, watch: Watch<'_>) -> Result<Pushed> {
    let missing = sides::push(link).await?;
    let mut pushed = push_lines(link, watch).await?;
    pushed.missing.extend(missing);
    if head::has_head(link.stream) && pushed.at.lines.saturating_sub(pushed.lines) / EVERY != pushed.at.lines / EVERY {
        head::leave_or_log(link.remote, link.stream, &pushed.at).await;
    }
    Ok(pushed)
}

/// Sends what the remote has not of one stream.
pub(super) async fn push_lines(link: &Link<'_>, watch: Watch<'_>) -> Result<Pushed> {
    let mut pushed = Pushed::default();
    let mut found: Option<Frontier> = None;
    for _ in 0..PLANS {
        let reader = local::open(link.local)?.ok_or_else(|| missing(link.local))?;
        let known = link.bookmarks.proved(link.local, &reader)?;
        let mut at = match (known, found.take()) {
            (Some(known), None) => known,
            (_, found) => match start(link, found).await? {
                Start::At(place) => place,
                Start::Done { at, behind } => {
                    link.bookmarks.put(link.local, &at);
                    return Ok(Pushed { at: at.end, behind, ..pushed });
                }
            },
        };
        let of_bytes = pushed.bytes + reader.len().saturating_sub(at.end.bytes);
        loop {
            let (lines, next) = at.batch(&reader)?;
            if lines.is_empty() {
                return Ok(Pushed { at: at.end, ..pushed });
            }
            // What lines refer to is there before they are.
            pushed.missing.extend(payload::send(link, &lines).await?);
            match link.remote.append(link.stream, &at.end, &lines).await {
                Ok(end) if end == next.end => {}
                Ok(_) => {
                    let reason = "it confirmed something else than was sent".to_owned();
                    return Err(Error::Corrupt { what: link.stream.to_string(), reason });
                }
                Err(Error::Conflict { found: elsewhere }) => {
                    found = Some(elsewhere);
                    break;
                }
                Err(error) => return Err(error),
            }
            link.bookmarks.put(link.local, &next);
            pushed.lines += lines.len() as u64;
            pushed.bytes += next.end.bytes - at.end.bytes;
            watch(Progress { lines: pushed.lines, bytes: pushed.bytes, of_bytes });
            at = next;
        }
    }
    Err(Error::Unavailable {
        place: link.stream.to_string(),
        reason: "others keep writing to it".to_owned(),
        wait: None,
    })
}

/// Where to begin.
enum Start {
    At(Bookmark),
    Done { at: Bookmark, behind: u64 },
}

async fn start(link: &Link<'_>, found: Option<Frontier>) -> Result<Start> {
    let found = match found {
        Some(found) => found,
        None => match link.remote.frontier(link.stream).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => Frontier::default(),
            Err(error) => return Err(error),
        },
    };
    let had = link.bookmarks.get(link.local.dir(), link.local.id()).is_some_and(|known| known.end.lines > 0);
    if found == Frontier::default() && had {
        return Err(Error::Deleted { what: link.stream.to_string() });
    }
    // What the remote confirmed and has lost is not sent again in silence.
    Witnesses::local(link.bookmarks, link.local).check_end(link.stream, &found)?;
    let standing = compare(link, found).await?;
    Ok(match standing.plan {
        Plan::InSync => Start::Done { at: standing.here, behind: 0 },
        Plan::Pull { .. } => Start::Done { at: standing.here, behind: standing.there.lines - standing.here.end.lines },
        Plan::Push { .. } => Start::At(standing.from),
        Plan::Diverged { .. } => return Err(diverged(link, &standing).await),
    })
}
