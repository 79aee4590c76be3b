//! `remote ls`, `stat`, `rm`, `verify` and `copy`: what is there.

use std::io::Write as _;

use unforget_core::frontier::Frontier;
use unforget_core::json::quote;
use unforget_remote::sync::{Local as _, is_session};
use unforget_remote::{Address, Error, Page, Prefix, Remote, Stream};

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
        for stream in &sessions {
            // One that is deleted between two questions is not there any more.
            let frontier = match place.remote.frontier(stream).await {
                Err(Error::NotFound { .. }) => continue,
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
        Ok(Outcome::Done)
    })
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
            place.remote.frontier(&main).await?;
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
            context.tell(&format!("{} is not at {} any more; what is here stays", main.session(), place.address))?;
        }
        Ok(Outcome::Done)
    })
}

/// Hands all pages of a stream to `take`.
async fn each_page(
    remote: &dyn Remote,
    stream: &Stream,
    from: u64,
    mut take: impl AsyncFnMut(Page) -> Result<()>,
) -> Result<Frontier> {
    let mut at: Option<Frontier> = None;
    loop {
        let next = at.map_or(from, |at| at.lines);
        let page = remote.read(stream, next).await?;
        if at.is_some_and(|at| at != page.before) {
            return Err(Error::Corrupt {
                what: stream.to_string(),
                reason: format!("the lines from {next} on do not go on from those before"),
            }
            .into());
        }
        let after = page.after;
        if page.lines.is_empty() {
            return Ok(after);
        }
        at = Some(after);
        take(page).await?;
    }
}

pub(super) fn verify(context: &Context, there: &cli::There) -> Result<Outcome> {
    let place = Place::open(context, there)?;
    wait(async {
        let progress = Progress::new("reading streams");
        let (mut streams, mut lines, mut damaged) = (0_u64, 0_u64, 0_u64);
        let mut out = anstream::stdout().lock();
        for stream in place.streams().await? {
            progress.step();
            match each_page(&place.remote, &stream, 0, async |_| Ok(())).await {
                Ok(end) => (streams, lines) = (streams + 1, lines + end.lines),
                Err(failure) => {
                    damaged += 1;
                    if context.json {
                        let error = quote(failure.message());
                        writeln!(out, "{{\"session\":{},\"error\":{error}}}", quote(stream.session()))?;
                    } else {
                        context.tell(&format!("damage: {}: {}", stream.session(), failure.message()))?;
                    }
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
                    return Err(Error::Diverged { at: from.lines, local: page.before, remote: at }.into());
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
