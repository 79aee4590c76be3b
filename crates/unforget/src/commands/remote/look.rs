//! `remote ls`, `stat`, `rm`, `verify` and `copy`: what is there.

use std::io::Write as _;

use unforget_core::frontier::Frontier;
use unforget_core::json::quote;
use unforget_core::layout::AgentDir;
use unforget_core::stamp::SessionId;
use unforget_remote::sync::head::Witnesses;
use unforget_remote::sync::{Local as _, Native, is_session};
use unforget_remote::{Address, Error, Page, Prefix, Remote as _, Stream, each_page};

use super::{Place, open, wait};
use crate::cli;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;

pub(super) fn list(context: &Context, there: &cli::There) -> Result<Outcome> {
    let place = Place::open(context, there)?;
    wait(async {
        let sessions = place.sessions().await?;
        let mut out = anstream::stdout().lock();
        let mut outcome = Outcome::Done;
        for stream in &sessions {
            let frontier = match place.remote.frontier(stream).await {
                // One that is deleted between two questions is not there any more.
                Err(Error::NotFound { .. }) => continue,
                // One that is forged or damaged does not hide the others.
                Err(error @ (Error::NotSealed { .. } | Error::Corrupt { .. })) => {
                    tell_damage(context, &mut out, stream, error.into())?;
                    outcome = Outcome::MetDamage;
                    continue;
                }
                other => other?,
            };
            let (id, agent) = (stream.session(), stream.place());
            if context.json {
                writeln!(out, "{}", described(stream, &frontier))?;
            } else {
                let (lines, bytes) = (frontier.lines, frontier.bytes);
                writeln!(out, "{id}  {}  {lines} lines, {bytes} bytes", crate::screen::one_line(agent))?;
            }
        }
        if sessions.is_empty() {
            context.tell(&format!("no sessions of the tenant `{}` are at {}", place.tenant, place.address))?;
        }
        Ok(outcome)
    })
}

/// Names a stream that cannot be believed.
fn tell_damage(context: &Context, out: &mut dyn std::io::Write, stream: &Stream, failure: Failure) -> Result<()> {
    if context.json {
        let (id, side, error) = (quote(stream.session()), quote(stream.side()), quote(failure.message()));
        return Ok(writeln!(out, "{{\"session\":{id},\"side\":{side},\"error\":{error}}}")?);
    }
    context.tell(&format!("damage: {}: {}", stream.session(), failure.message()))?;
    failure.hints().try_for_each(|hint| context.tell(&format!("hint: {hint}")))
}

fn described(stream: &Stream, frontier: &Frontier) -> String {
    let (id, agent) = (quote(stream.session()), quote(stream.place()));
    let (lines, bytes, digest) = (frontier.lines, frontier.bytes, frontier.hex());
    format!("{{\"session\":{id},\"agent\":{agent},\"lines\":{lines},\"bytes\":{bytes},\"digest\":\"{digest}\"}}")
}

pub(super) fn stat(context: &Context, args: &cli::Streams) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    wait(async {
        let mut out = anstream::stdout().lock();
        for name in &args.names {
            let (_, stream) = place.named(context, name).await?;
            let frontier = place.remote.frontier(&stream).await?;
            let lease = unforget_remote::lease::look(&place.remote, &stream).await?;
            if context.json {
                writeln!(out, "{}", described(&stream, &frontier))?;
                continue;
            }
            writeln!(out, "session  {}", stream.session())?;
            writeln!(out, "lines    {}", frontier.lines)?;
            writeln!(out, "bytes    {}", frontier.bytes)?;
            writeln!(out, "digest   {}", frontier.hex())?;
            if let Some(claim) = lease.filter(|claim| claim.until_ms > context.store.source().now_ms()) {
                let until = crate::screen::time(claim.until_ms);
                writeln!(out, "lease    {} until {until}", crate::screen::one_line(&claim.holder))?;
            }
        }
        Ok(Outcome::Done)
    })
}

pub(super) fn remove(context: &Context, args: &cli::Streams) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    wait(async {
        for name in &args.names {
            let (local, main) = place.named(context, name).await?;
            match place.remote.frontier(&main).await {
                // It may be forged or damaged, and go all the same.
                Ok(_) | Err(Error::NotSealed { .. } | Error::Corrupt { .. }) => {}
                Err(Error::NotFound { .. }) if place.bookmarks.get(local.dir(), local.id()).is_some() => {}
                Err(error) => return Err(error.into()),
            }
            let of_session = Prefix::tenant(&place.tenant)?.place(main.place())?.session(main.session())?;
            // The session itself goes last: as long as it is there, a deletion that was cut off can be repeated by its name.
            let mut cursor: Option<String> = None;
            loop {
                let page = place.remote.list(&of_session, cursor.as_deref()).await?;
                for stream in page.streams.iter().filter(|stream| !stream.side().is_empty()) {
                    place.remote.delete(stream).await?;
                }
                match page.next {
                    Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                    _ => break,
                }
            }
            place.remote.delete(&main).await?;
            place.outbox.remove(local.dir(), local.id())?;
            place.bookmarks.mark_gone(local.dir(), local.id());
            context.tell(&format!("{} is not at {} any more; what is here stays", main.session(), place.address))?;
        }
        Ok(Outcome::Done)
    })
}

/// Reads all of a stream, and proves it against what this machine and its writers know of it; tells where it ends.
async fn proved(place: &Place, stream: &Stream, context: &Context) -> unforget_remote::Result<Frontier> {
    let id = SessionId::parse(stream.session()).filter(|_| stream.side().is_empty());
    let witnesses = match id {
        Some(id) => {
            let local = Native::new(&context.store, &AgentDir::of(stream.place()), &id);
            Witnesses::ask(&place.remote, stream, &place.bookmarks, &local).await?
        }
        None => Witnesses::default(),
    };
    let check = async |page: Page| witnesses.check_page(stream, &page);
    let end = each_page(&place.remote, stream, 0, check).await?;
    witnesses.check_end(stream, &end)?;
    Ok(end)
}

pub(super) fn verify(context: &Context, there: &cli::There) -> Result<Outcome> {
    let place = Place::open(context, there)?;
    wait(async {
        let progress = Progress::new("reading streams");
        let (mut streams, mut lines, mut damaged) = (0_u64, 0_u64, 0_u64);
        let mut out = anstream::stdout().lock();
        let all = place.streams().await?;
        for (dir, id) in place.bookmarks.known()? {
            let known = place.bookmarks.get(&dir, &id).filter(|known| known.end.lines > 0 && !known.is_gone());
            let stream = place.stream(&dir, &id)?;
            if let Some(known) = known.filter(|_| !all.contains(&stream)) {
                damaged += 1;
                let lines = known.end.lines;
                let lost = format!("{stream} is not there any more: this machine saw {lines} lines of it");
                let failure = Failure::new(lost).hint(format!(
                    "another machine may have deleted it; `unforget push {id} --again` sends it, `unforget remote rm {id}` forgets it"
                ));
                tell_damage(context, &mut out, &stream, failure)?;
            }
        }
        for stream in all {
            progress.step();
            match proved(&place, &stream, context).await {
                Ok(end) => (streams, lines) = (streams + 1, lines + end.lines),
                Err(failure) => {
                    damaged += 1;
                    tell_damage(context, &mut out, &stream, failure.into())?;
                }
            }
        }
        drop(progress);
        if context.json {
            writeln!(out, "{{\"streams\":{streams},\"lines\":{lines},\"damaged\":{damaged}}}")?;
        } else {
            writeln!(out, "{streams} streams with {lines} lines are whole; {damaged} are not")?;
        }
        Ok(if damaged > 0 { Outcome::MetDamage } else { Outcome::Done })
    })
}

pub(super) fn copy(context: &Context, args: &cli::Copy) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    let target = Address::parse(&args.to)?;
    if target == place.address {
        return Err(Failure::usage("these are one and the same remote"));
    }
    // What was sealed there must not lie open elsewhere.
    let key = match &args.to_key_file {
        Some(path) => Some(super::key(path, false)?),
        None => place.key.clone(),
    };
    let to = open(&target, key)?;
    wait(async {
        let progress = Progress::new("copying streams");
        let (mut streams, mut lines) = (0_u64, 0_u64);
        // Sessions last: what they need is there before they are.
        let mut all = place.streams().await?;
        all.sort_by_key(|stream| is_session(stream) && stream.side().is_empty());
        for stream in &all {
            progress.step();
            let mut at = match to.frontier(stream).await {
                Ok(at) => at,
                Err(Error::NotFound { .. }) => Frontier::default(),
                Err(error) => return Err(error.into()),
            };
            let from = at;
            each_page(&place.remote, stream, from.lines, async |page: Page| {
                if page.before != at {
                    return Err(Error::Diverged { at: from.lines, local: page.before, remote: at });
                }
                at = to.append(stream, &at, &page.lines).await?;
                Ok(())
            })
            .await?;
            streams += 1;
            lines += at.lines - from.lines;
        }
        drop(progress);
        let mut out = anstream::stdout().lock();
        if context.json {
            writeln!(out, "{{\"streams\":{streams},\"lines\":{lines}}}")?;
        } else {
            writeln!(out, "{streams} streams, {lines} lines copied to {target}")?;
        }
        Ok(Outcome::Done)
    })
}
