//! Sessions that consist of several files: each is a stream of its own beside the main one.
//!
//! A session of another program has transcripts of sub-agents and a list of its files; they are carried with it, whoever carries it. What
//! is sent goes before the main stream, which refers to it; what is fetched comes behind it, since only the main one says that there is a
//! session. A stream that is known to be there costs no request. Leases, heads and payloads are side streams too, and none of these.

use crate::error::{Error, Result};
use crate::remote::{Remote, every_stream};
use crate::stream::{Prefix, Stream};
use crate::sync::local::Aside;
use crate::sync::pull::pull_lines;
use crate::sync::push::push_lines;
use crate::sync::{Link, Local as _, Native, payload};

/// Sends the sides of a session; tells which payloads are not here.
pub(super) async fn push(link: &Link<'_>) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let Some(session) = having_sides(link) else { return Ok(missing) };
    for name in session.store().sides(link.local.dir(), link.local.id())? {
        let (local, stream) = (Aside::new(session, &name)?, link.stream.side_stream(&name)?);
        let side = Link { local: &local, stream: &stream, ..*link };
        match push_lines(&side, &mut |_| {}).await {
            Ok(pushed) => missing.extend(pushed.missing),
            // What a sub-agent said in two places is no reason to keep the session's own words from being sent.
            Err(error @ (Error::Diverged { .. } | Error::Corrupt { .. } | Error::Rewound { .. })) => {
                missing.push(format!("{name}: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// Whether a side has lines that the remote is not known to have.
pub(super) fn is_ahead(link: &Link<'_>) -> Result<bool> {
    let Some(session) = having_sides(link) else { return Ok(false) };
    for name in session.store().sides(link.local.dir(), link.local.id())? {
        let side = Aside::new(session, &name)?;
        let known = link.bookmarks.get(side.dir(), side.id()).map_or(0, |known| known.end.bytes);
        if super::local::open(&side)?.is_some_and(|reader| reader.len() > known) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fetches the sides of a session; tells which payloads are not there.
pub(super) async fn pull(link: &Link<'_>) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let Some(session) = having_sides(link) else { return Ok(missing) };
    for stream in there(link.remote, link.stream).await? {
        let local = match Aside::new(session, stream.side()) {
            Ok(local) => local,
            // A remote may call a stream anything: the others are fetched all the same.
            Err(error) => {
                missing.push(format!("{}: {error}", stream.side()));
                continue;
            }
        };
        let side = Link { local: &local, stream: &stream, ..*link };
        match pull_lines(&side, &mut |_| {}).await {
            Ok(pulled) => missing.extend(pulled.missing),
            // It was deleted meanwhile.
            Err(Error::NotFound { .. }) => {}
            Err(error @ (Error::Diverged { .. } | Error::Corrupt { .. } | Error::Rewound { .. })) => {
                missing.push(format!("{}: {error}", stream.side()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// Forgets what a remote is known to have of a session, sides and all: the next push sends what it has not.
pub fn forget(link: &Link<'_>) -> Result<()> {
    if let Some(session) = having_sides(link) {
        for name in session.store().sides(link.local.dir(), link.local.id())? {
            let side = Aside::new(session, &name)?;
            link.bookmarks.forget(side.dir(), side.id())?;
        }
    }
    link.bookmarks.forget(link.local.dir(), link.local.id())
}

fn having_sides<'a>(link: &Link<'a>) -> Option<&'a Native> {
    link.local.native().filter(|_| link.local.dir().has_sides())
}

/// The side transcripts that a remote has of a session.
async fn there(remote: &dyn Remote, session: &Stream) -> Result<Vec<Stream>> {
    let prefix = Prefix::tenant(session.tenant())?.place(session.place())?.session(session.session())?;
    let mut all = every_stream(remote, &prefix).await?;
    all.retain(is_side);
    Ok(all)
}

/// Whether a stream is a side transcript.
fn is_side(stream: &Stream) -> bool {
    let side = stream.side();
    !side.is_empty() && side != crate::lease::LEASES && side != super::head::HEADS && !payload::is_payload(side)
}
