//! `push`, `pull` and `sync`: sessions to and from a remote.
//!
//! One session that cannot be carried does not keep the others from it: each is told with what became of it, and the exit code is that
//! of the worst.

use std::io::Write as _;
use std::time::Duration;

use unforget_core::directory::Entry;
use unforget_core::json::quote;
use unforget_core::layout::AgentDir;
use unforget_core::layout::Place as Shelf;
use unforget_core::stamp::SessionId;
use unforget_remote::sync::{self, Link, Local as _, Native, Rebased};
use unforget_remote::uplink::{Divergence, Fetched, PushRules, Sent};
use unforget_remote::{Counts, Error, Stream};

use super::{Place, lead_of, wait};
use crate::cli;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;
use crate::screen;

pub(crate) fn push(context: &Context, args: &cli::Push) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    let entries = match args.all {
        true => context.all(Shelf::Agents)?,
        false if args.names.is_empty() => lacking(context, &place)?,
        false => args.names.iter().map(|name| whole(context, name)).collect::<Result<Vec<_>>>()?,
    };
    wait(async {
        let mut told = Told::new(context, &place);
        for entry in &entries {
            let (local, stream) = place.of_entry(context, entry)?;
            if args.again {
                let link = Link { local: &local, remote: &place.remote, stream: &stream, bookmarks: &place.bookmarks };
                sync::forget(&link)?;
            }
            let outcome = send(context, &place, &local, &stream, entry).await;
            told.line(&stream, outcome)?;
        }
        told.end()
    })
}

/// The sessions that the remote lacks something of, as far as this machine knows: those that wait to be sent, and those with lines that the remote
/// never confirmed. One that was deleted there is not sent again.
fn lacking(context: &Context, place: &Place) -> Result<Vec<Entry>> {
    let mut waits = std::collections::BTreeSet::new();
    for waiting in place.outbox.list()? {
        match context.find(Shelf::Agents, waiting.id.as_str()) {
            Ok(_) => drop(waits.insert(waiting.id.to_string())),
            // In the trash, or gone: there is nothing to send.
            Err(unforget_core::Error::NotFound { .. }) => place.outbox.remove(&waiting.dir, &waiting.id)?,
            Err(error) => return Err(error.into()),
        }
    }
    let mut entries = context.all(Shelf::Agents)?;
    entries.retain(|entry| {
        let known = SessionId::parse(&entry.row.id).and_then(|id| place.bookmarks.get(&entry.dir, &id));
        let is_behind = known.is_none_or(|known| !known.is_gone() && known.end.bytes < entry.row.bytes);
        waits.contains(&entry.row.id) || is_behind
    });
    Ok(entries)
}

/// The session that a name means, with all that its row says: a full id is found without one.
fn whole(context: &Context, name: &str) -> Result<Entry> {
    let entry = context.resolve(name)?;
    Ok(context.find(Shelf::Agents, &entry.row.id).unwrap_or(entry))
}

/// Sends a session, and leads its key to it.
async fn send(context: &Context, place: &Place, local: &Native, stream: &Stream, entry: &Entry) -> Result<Carried> {
    let rules = PushRules {
        divergence: divergence(local.dir()),
        lead: lead_of(&entry.row),
        is_proved: true,
        is_tidy: true,
        ..PushRules::default()
    };
    let progress = Progress::bytes("sending");
    let sent = place.uplink().push(local, stream, &rules, &mut |at| progress.at(at.bytes, at.of_bytes)).await;
    drop(progress);
    let Sent { pushed, rebased } = sent?;
    tell_rebased(context, local.id(), rebased.as_ref())?;
    Ok(Carried { sent: pushed.lines, came: 0, lines: pushed.at.lines, missing: pushed.missing.len() })
}

/// Lines of Claude Code name their parents, so nobody has to choose between two sides of such a session.
fn divergence(dir: &AgentDir) -> Divergence {
    match *dir == unforget_claude::keep::agent() {
        true => Divergence::Append,
        false => Divergence::Report,
    }
}

fn tell_rebased(context: &Context, id: &SessionId, rebased: Option<&Rebased>) -> Result<()> {
    match rebased {
        None => Ok(()),
        Some(_) => context.tell(&format!(
            "session {id} went on here and there; the lines of both are kept, as branches (`unforget tree {id}`)"
        )),
    }
}

pub(crate) fn pull(context: &Context, args: &cli::Pull) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    wait(async {
        let mut told = Told::new(context, &place);
        let mut wanted = Vec::new();
        if args.all {
            for stream in place.sessions().await? {
                wanted.extend(local_of(context, &stream).map(|local| (local, stream)));
            }
        }
        for name in &args.names {
            wanted.push(place.named(context, name).await?);
        }
        for (local, stream) in wanted {
            let outcome = fetch(context, &place, &local, &stream, args).await;
            told.line(&stream, outcome)?;
        }
        told.end()
    })
}

/// The session here that a stream is of.
fn local_of(context: &Context, stream: &Stream) -> Option<Native> {
    let id = SessionId::parse(stream.session())?;
    Some(Native::new(&context.store, &AgentDir::of(stream.place()), &id))
}

async fn fetch(context: &Context, place: &Place, local: &Native, stream: &Stream, args: &cli::Pull) -> Result<Carried> {
    let link = Link { local, remote: &place.remote, stream, bookmarks: &place.bookmarks };
    let now_ms = context.store.source().now_ms();
    if args.accept_loss {
        // The witnesses of what was lost are dismissed, here and there.
        sync::forget(&link)?;
        sync::head::remove(&place.remote, stream).await?;
    }
    let uplink = place.uplink();
    // What the arguments ask for is done below.
    let asked = if args.fork { Divergence::Report } else { divergence(local.dir()) };
    let progress = Progress::bytes("fetching");
    let pulled = uplink.pull(local, stream, asked, &mut |at| progress.at(at.bytes, at.of_bytes)).await;
    drop(progress);
    match pulled {
        Ok(Fetched { pulled, rebased: Some(rebased) }) => {
            tell_rebased(context, local.id(), Some(&rebased))?;
            let sent = uplink.push(local, stream, &PushRules::default(), &mut |_| {}).await?.pushed;
            let missing = pulled.missing.len() + sent.missing.len();
            Ok(Carried { sent: sent.lines, came: 0, lines: sent.at.lines, missing })
        }
        Ok(Fetched { pulled, rebased: None }) => {
            Ok(Carried { sent: 0, came: pulled.lines, lines: pulled.at.lines, missing: pulled.missing.len() })
        }
        Err(Error::Diverged { .. }) if args.fork => {
            let forked = sync::resolve_by_fork(&link, &place.outbox, now_ms, &mut |_| {}).await?;
            let lines = forked.as_ref().map_or(0, |forked| forked.lines);
            if let Some(forked) = forked {
                context.tell(&format!(
                    "what was said here is the session {} now; the old file is in the trash as {}",
                    forked.branch, forked.trashed
                ))?;
            }
            Ok(Carried { sent: 0, came: lines, lines, missing: 0 })
        }
        Err(Error::Diverged { .. }) if args.rebase => {
            let rebased = sync::resolve_by_rebase(&link, &place.outbox, now_ms, &mut |_| {}).await?;
            if let Some(rebased) = rebased {
                let (again, trashed) = (rebased.records, rebased.trashed);
                context.tell(&format!(
                    "said {again} records again behind what is there ({} could not be); the old file is in the trash as {trashed}",
                    rebased.left_out
                ))?;
            }
            let pushed = uplink.push(local, stream, &PushRules::default(), &mut |_| {}).await?.pushed;
            Ok(Carried { sent: pushed.lines, came: 0, lines: pushed.at.lines, missing: pushed.missing.len() })
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn sync(context: &Context, args: &cli::Sync) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    wait(async {
        loop {
            let mut told = Told::new(context, &place);
            both_ways(context, &place, &mut told).await?;
            let outcome = told.end()?;
            if !args.watch {
                return Ok(outcome);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(args.every)) => {}
                ended = tokio::signal::ctrl_c() => return ended.map(|()| Outcome::Aborted).map_err(Failure::from),
            }
        }
    })
}

async fn both_ways(context: &Context, place: &Place, told: &mut Told<'_>) -> Result<()> {
    let here = context.all(Shelf::Agents)?;
    place.remote.ready().await?;
    let mut there: std::collections::BTreeSet<Stream> = place.sessions().await?.into_iter().collect();
    for entry in &here {
        let (local, stream) = place.of_entry(context, entry)?;
        there.remove(&stream);
        let outcome = sync_one(context, place, &local, &stream, entry).await;
        told.line(&stream, outcome)?;
    }
    for stream in there {
        let Some(local) = local_of(context, &stream) else { continue };
        let link = Link { local: &local, remote: &place.remote, stream: &stream, bookmarks: &place.bookmarks };
        // One that was deleted here on purpose is not brought back by the way.
        if context.find(Shelf::Trash, stream.session()).is_ok() {
            continue;
        }
        let outcome = match sync::pull(&link, &mut |_| {}).await {
            Ok(pulled) => {
                Ok(Carried { sent: 0, came: pulled.lines, lines: pulled.at.lines, missing: pulled.missing.len() })
            }
            Err(error) => Err(error.into()),
        };
        told.line(&stream, outcome)?;
    }
    Ok(())
}

/// Fetches what is new of a session, then sends what is new here.
async fn sync_one(context: &Context, place: &Place, local: &Native, stream: &Stream, entry: &Entry) -> Result<Carried> {
    let uplink = place.uplink();
    let came = match uplink.pull(local, stream, divergence(local.dir()), &mut |_| {}).await {
        Ok(Fetched { pulled, rebased }) => {
            tell_rebased(context, local.id(), rebased.as_ref())?;
            if pulled.ahead == 0 {
                let (came, lines) = (pulled.lines, pulled.at.lines);
                let waits = place.outbox.has(local.dir(), local.id());
                if !waits {
                    return Ok(Carried { sent: 0, came, lines, missing: 0 });
                }
            }
            pulled.lines
        }
        Err(Error::NotFound { .. }) => 0,
        Err(error) => return Err(error.into()),
    };
    let lead = lead_of(&entry.row);
    let rules = PushRules { divergence: divergence(local.dir()), lead, is_tidy: true, ..PushRules::default() };
    let Sent { pushed, rebased } = uplink.push(local, stream, &rules, &mut |_| {}).await?;
    tell_rebased(context, local.id(), rebased.as_ref())?;
    Ok(Carried { sent: pushed.lines, came, lines: pushed.at.lines, missing: 0 })
}

/// What became of one session.
struct Carried {
    sent: u64,
    came: u64,
    lines: u64,
    /// Payloads that are on neither side.
    missing: usize,
}

/// Tells what became of each session, and how it all went.
struct Told<'c> {
    context: &'c Context,
    place: &'c Place,
    failed: Option<Failure>,
    sessions: u64,
    moved: u64,
}

impl<'c> Told<'c> {
    fn new(context: &'c Context, place: &'c Place) -> Self {
        Self { context, place, failed: None, sessions: 0, moved: 0 }
    }

    fn line(&mut self, stream: &Stream, outcome: Result<Carried>) -> Result<()> {
        let mut out = anstream::stdout().lock();
        let id = stream.session();
        match outcome {
            Ok(carried) => {
                let Carried { sent, came, lines, missing } = carried;
                self.sessions += 1;
                self.moved += sent + came;
                if self.context.json {
                    let agent = quote(stream.place());
                    writeln!(
                        out,
                        "{{\"session\":{},\"agent\":{agent},\"sent\":{sent},\"fetched\":{came},\"lines\":{lines},\"missing\":{missing}}}",
                        quote(id)
                    )?;
                } else if sent + came > 0 {
                    let moved = match (sent, came) {
                        (sent, 0) => format!("{} sent", screen::number_of(sent, "line")),
                        (0, came) => format!("{} fetched", screen::number_of(came, "line")),
                        (sent, came) => format!("{} fetched, {sent} sent", screen::number_of(came, "line")),
                    };
                    writeln!(out, "{id}  {moved}, {lines} in all")?;
                }
                if missing > 0 {
                    self.context.tell(&format!(
                        "note: {id}: on neither side: {}",
                        screen::number_of(missing as u64, "payload")
                    ))?;
                }
            }
            Err(failure) => {
                let failure = failure.of(id);
                if self.context.json {
                    let (id, error) = (quote(id), quote(failure.message()));
                    writeln!(out, "{{\"session\":{id},\"error\":{error}}}")?;
                }
                // The last one ends the program with its message; those before it are told here.
                if let Some(before) = self.failed.replace(failure) {
                    before.tell()?;
                }
            }
        }
        Ok(())
    }

    /// The worst of it, or how much it was.
    fn end(self) -> Result<Outcome> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        if self.context.json {
            let Counts { operations, failures, bytes_sent, bytes_read, micros, .. } =
                self.place.remote.metrics().counts();
            writeln!(
                anstream::stdout().lock(),
                "{{\"total\":{{\"sessions\":{},\"lines\":{},\"operations\":{operations},\"failures\":{failures},\"bytes_sent\":{bytes_sent},\"bytes_fetched\":{bytes_read},\"ms\":{}}}}}",
                self.sessions,
                self.moved,
                micros / 1000
            )?;
        } else {
            let (moved, address) = (self.moved, &self.place.address);
            let sessions =
                if self.sessions == 1 { "1 session".to_owned() } else { format!("{} sessions", self.sessions) };
            self.context.tell(&match moved {
                0 => format!("{sessions}, nothing new; {address}"),
                _ => format!("{sessions}, {moved} lines; {address}"),
            })?;
        }
        Ok(Outcome::Done)
    }
}
