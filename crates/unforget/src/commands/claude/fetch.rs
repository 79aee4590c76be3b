//! How a session of Claude Code gets here before it is restored: all of it, or just its end.

use unforget_claude::keep::{agent, kept_id};
use unforget_claude::tail::{Step, Tail};
use unforget_core::directory::Directory;
use unforget_core::stamp::SessionId;
use unforget_remote::sync::{self, Native, Pulled};
use unforget_remote::uplink::{Divergence, Fetched};
use unforget_remote::{Error, Remote as _};

use crate::commands::Context;
use crate::commands::remote::Place;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// How much of a session's end is fetched at first; it is four times as much each time that this was not enough.
const FIRST_REACH: u64 = 256 << 10;

/// Fetches what is not here of a session; what went on here and there is kept, both.
pub(super) async fn pull(store: &Directory, place: &Place, id: &SessionId) -> Result<Pulled, Error> {
    pull_watched(store, place, id, &mut |_| {}).await.map(|(pulled, _)| pulled)
}

/// The same; says whether it had gone on here and there.
async fn pull_watched(
    store: &Directory,
    place: &Place,
    id: &SessionId,
    watch: sync::Watch<'_>,
) -> Result<(Pulled, bool), Error> {
    let dir = agent();
    let (local, stream) = (Native::new(store, &dir, id), place.stream(&dir, id)?);
    let Fetched { pulled, rebased } = place.uplink().pull(&local, &stream, Divergence::Append, watch).await?;
    Ok((pulled, rebased.is_some()))
}

/// Has a session here as it is there. Without an answer, what is here has to do; if nothing is here, that is an error.
pub(super) async fn have(context: &Context, place: &Place, id: &unforget_claude::id::SessionId) -> Result<()> {
    let kept = kept_id(id)?;
    let is_here = context.store.medium().stat(&agent().transcript(&kept)).is_ok();
    let progress = Progress::bytes("fetching");
    let pulled = pull_watched(&context.store, place, &kept, &mut |at| progress.at(at.bytes, at.of_bytes)).await;
    drop(progress);
    match pulled {
        Ok((_, false)) => Ok(()),
        Ok((_, true)) => context.tell(&format!(
            "note: session {id} went on here and there; the lines of both are kept, and Claude Code goes on with those that were said here (`unforget claude doctor {id} --fix` makes a session of the others)"
        )),
        Err(Error::NotFound { .. }) if is_here => Ok(()),
        Err(Error::NotFound { .. }) => {
            Err(Failure::new(format!("session {id} is neither here nor at {}", place.address))
                .hint("`unforget sessions --agent claude` lists what is here, `unforget remote ls` what is there"))
        }
        Err(error) if error.is_passing() && is_here => {
            context.tell(&format!("note: {error}; going on with what is here"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The end of a session that is not here: what resuming needs; none if that is all of it.
pub(super) async fn end(place: &Place, id: &unforget_claude::id::SessionId) -> Result<Option<Vec<Vec<u8>>>> {
    let stream = place.stream(&agent(), &kept_id(id)?)?;
    let all = place.remote.frontier(&stream).await?;
    let mut reach = FIRST_REACH;
    while reach < all.bytes {
        let end = sync::tail(&place.remote, &stream, reach).await?;
        let mut tail = Tail::default();
        for line in end.lines.iter().rev() {
            if tail.feed(line) == Step::Enough {
                return Ok(Some(tail.finish().lines));
            }
        }
        reach = reach.saturating_mul(4);
    }
    Ok(None)
}
