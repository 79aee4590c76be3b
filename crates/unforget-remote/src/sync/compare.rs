//! Where both sides are, asked of both: the part of the comparison that needs a disk and a network.
//!
//! The remote's frontier costs one round trip; if it has more than this side, one page more, whose beginning proves that this side is the
//! beginning of it. Only where both differ is it looked for where they begin to, by reading both from the last place that both are known to
//! share.

use unforget_core::frontier::Frontier;
use unforget_core::lines::MAX_LINE;

use crate::error::{Error, Result};
use crate::remote::Page;
use crate::stream::Stream;
use crate::sync::bookmark::Bookmark;
use crate::sync::head::{Witnesses, rewound};
use crate::sync::local::{self, missing};
use crate::sync::{Link, Plan, Side, plan};

/// Where both sides are.
pub(super) struct Standing {
    /// The end of the transcript here.
    pub(super) here: Bookmark,
    /// The end of the stream there.
    pub(super) there: Frontier,
    /// The place here up to which the remote has it, if it is to be pushed.
    pub(super) from: Bookmark,
    /// What has to be done.
    pub(super) plan: Plan,
    /// The remote's lines behind the end here, if they were asked for.
    pub(super) page: Option<Page>,
}

/// Compares both sides; `found` is where the remote said it is, if it said so just now.
pub(super) async fn compare(link: &Link<'_>, found: Frontier) -> Result<Standing> {
    let (here, crossing) = {
        let reader = local::open(link.local)?.ok_or_else(|| missing(link.local))?;
        let start = Bookmark::start(reader.identity());
        let known = link.bookmarks.proved(link.local, &reader)?.filter(|known| known.end.lines <= found.lines);
        known.unwrap_or(start).walk(&reader, found.lines)?
    };
    let mut page = None;
    if found.lines > here.end.lines && here.end.lines > 0 {
        page = Some(link.remote.read(link.stream, here.end.lines).await?);
    }
    let sides = (
        Side { end: here.end, crossing: crossing.map(|place| place.end) },
        Side { end: found, crossing: page.as_ref().map(|page| page.before) },
    );
    let plan = plan(&sides.0, &sides.1);
    Ok(Standing { here, there: found, from: crossing.unwrap_or(here), plan, page })
}

/// The error that tells where both sides begin to differ.
pub(super) async fn diverged(link: &Link<'_>, standing: &Standing) -> Error {
    match still_has(link).await.and(common(link).await) {
        Ok(common) => Error::Diverged { at: common.lines, local: standing.here.end, remote: standing.there },
        Err(error) => error,
    }
}

/// Refuses a remote that has other lines than this machine saw there: then it is not this side that went on differently.
async fn still_has(link: &Link<'_>) -> Result<()> {
    let local = Witnesses::local(link.bookmarks, link.local);
    let Some(seen) = local.seen() else { return Ok(()) };
    match link.remote.read(link.stream, seen.1.lines).await {
        Ok(page) if page.before == seen.1 => Ok(()),
        Ok(page) => Err(rewound(link.stream, seen, &page.before)),
        Err(Error::Conflict { found }) => Err(rewound(link.stream, seen, &found)),
        Err(error) => Err(error),
    }
}

/// The lines that both sides have.
pub(super) async fn common(link: &Link<'_>) -> Result<Frontier> {
    let reader = local::open(link.local)?.ok_or_else(|| missing(link.local))?;
    let mut at = Frontier::default();
    if let Some(known) = link.bookmarks.proved(link.local, &reader)? {
        // What the remote once confirmed is shared, unless it was deleted and written anew.
        match link.remote.read(link.stream, known.end.lines).await {
            Ok(page) if page.before == known.end => at = known.end,
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    // Ends where the shorter side does, or before.
    loop {
        let page = link.remote.read(link.stream, at.lines).await?;
        proved(link.stream, &at, &page)?;
        if page.lines.is_empty() {
            return Ok(at);
        }
        let mut forward = reader.forward(at.bytes);
        for theirs in &page.lines {
            match forward.next()? {
                Some(ours) if ours.terminated && !ours.is_overlong() && ours.bytes == theirs => at = at.after(theirs),
                _ => return Ok(at),
            }
        }
    }
}

/// Refuses a page that does not go on from where this side is, or whose lines are not those that its digest proves.
pub(super) fn proved(stream: &Stream, at: &Frontier, page: &Page) -> Result<()> {
    let corrupt = |reason: String| Err(Error::Corrupt { what: stream.to_string(), reason });
    if page.before != *at {
        return corrupt(format!("what it has before line {} is not what it had", at.lines));
    }
    if let Some(line) = page.lines.iter().find(|line| line.contains(&b'\n') || line.len() > MAX_LINE) {
        return corrupt(format!("behind line {} is something of {} bytes that is no line", at.lines, line.len()));
    }
    if page.lines.iter().fold(*at, |frontier, line| frontier.after(line)) != page.after {
        return corrupt(format!("the lines from {} on are not those that were written", at.lines));
    }
    Ok(())
}
