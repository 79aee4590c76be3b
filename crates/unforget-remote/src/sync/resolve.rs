//! Both sides went on: how both sides' words are kept.
//!
//! By a fork, what is said here becomes a session of its own, and the id follows the remote. By a rebase, the id follows the remote, and what
//! only this side said is said again on top of it. Either way the order is the same: first everything new is durable (the copy of the remote, the
//! branch, its mark in the outbox, the old transcript in the trash), then one rename changes what the id means. Killed before it, the
//! session is as diverged as before, and the same call comes to the same end; killed after it, there is nothing left to do.
//!
//! The session's lock is held throughout: nobody adds words that the decision did not know of. Lines of
//! another program name their parents themselves, so they are said again as they are.

use unforget_core::reader::LogReader;
use unforget_core::rebase::rebase;
use unforget_core::recent::End;
use unforget_core::replica::Intake;
use unforget_core::stamp::SessionId;

use crate::error::{Error, Result};
use crate::sync::compare::{common, compare};
use crate::sync::part::Part;
use crate::sync::{Link, Native, Outbox, Plan, Watch};

/// What became of a session whose own words branched off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The session that has what was said here.
    pub branch: SessionId,
    /// The old transcript in the trash.
    pub trashed: SessionId,
    /// How many lines both sides had in common.
    pub at: u64,
    /// How many lines the id has now.
    pub lines: u64,
}

/// What became of a session whose own words were said again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebased {
    /// The old transcript in the trash.
    pub trashed: SessionId,
    /// How many lines both sides had in common.
    pub at: u64,
    /// How many records were said again.
    pub records: u64,
    /// How many could not be; the trash has them.
    pub left_out: u64,
}

/// Makes a session of its own of what is said here, then follows the remote; none if the sides do not differ.
///
/// The branch waits in the outbox.
pub async fn resolve_by_fork(
    link: &Link<'_>,
    outbox: &Outbox,
    now_ms: i64,
    watch: Watch<'_>,
) -> Result<Option<Forked>> {
    let Some(Differing { native, intake, at, part }) = Differing::find(link, watch).await? else { return Ok(None) };
    let (store, dir, id) = (native.store(), link.local.dir(), link.local.id());
    let branch = store.branch_off(dir, id, at)?;
    outbox.add(dir, &branch, now_ms)?;
    let trashed = store.supersede(intake, dir, id, &link.local.part())?;
    link.bookmarks.put(link.local, &part.end);
    outbox.remove(dir, id)?;
    Ok(Some(Forked { branch, trashed, at, lines: part.frontier().lines }))
}

/// Follows the remote and says again on top of it what only this side said; none if the sides do not differ.
///
/// The session waits in the outbox.
pub async fn resolve_by_rebase(
    link: &Link<'_>,
    outbox: &Outbox,
    now_ms: i64,
    watch: Watch<'_>,
) -> Result<Option<Rebased>> {
    let Some(Differing { native, intake, at, mut part }) = Differing::find(link, watch).await? else { return Ok(None) };
    let (store, dir, id) = (native.store(), link.local.dir(), link.local.id());
    let onto = End::of(&LogReader::open(store.medium().as_ref(), &link.local.part())?)?;
    let own = intake.reader()?.read_all()?;
    let rebased = rebase(&own, at, onto, now_ms)?;
    part.extend(link.local, &rebased.bytes)?;
    outbox.add(dir, id, now_ms)?;
    let trashed = store.supersede(intake, dir, id, &link.local.part())?;
    link.bookmarks.put(link.local, &part.end);
    Ok(Some(Rebased { trashed, at, records: rebased.records, left_out: rebased.left_out + rebased.damaged }))
}

/// A session whose sides differ, locked, and the remote's side of it.
struct Differing<'a> {
    native: &'a Native,
    intake: Intake,
    /// How many lines both sides have.
    at: u64,
    part: Part,
}

impl<'a> Differing<'a> {
    async fn find(link: &Link<'a>, watch: Watch<'_>) -> Result<Option<Self>> {
        let native = link
            .local
            .native()
            .ok_or_else(|| Error::Invalid("only a session of this program can be forked or rebased".to_owned()))?;
        let intake = link.local.intake()?;
        let found = link.remote.frontier(link.stream).await?;
        let Plan::Diverged { .. } = compare(link, found).await?.plan else {
            intake.close();
            return Ok(None);
        };
        let part = Part::fetch(link, watch).await?;
        let at = common(link).await?.lines;
        Ok(Some(Self { native, intake, at, part }))
    }
}
