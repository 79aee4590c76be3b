//! Which conversation goes on when there is a remote, and how what was said elsewhere gets here first.
//!
//! The rule is that of one machine, with one more thing to look at: a session of the key that was created later, on another machine, and
//! is not here yet. What is there is fetched before the session is opened.
//!
//! The failure to guard against is a machine that could not ask and takes that for "there is nothing": it would begin an empty session
//! under an old name. So without an answer, what is here goes on, and if nothing is here, nothing is begun.

use std::io::{IsTerminal as _, Write as _};

use unforget_core::directory::Entry;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::layout::Place as Shelf;
use unforget_core::record::Record;
use unforget_remote::sync::{self, Link, Local as _, Native};
use unforget_remote::{Error, Remote as _, Stream};

use crate::cli;
use crate::commands::remote::Place;
use crate::commands::{Context, conversation};
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// A session of more bytes shows its end before all of it is here.
const LONG: u64 = 4 << 20;
/// How much of it is fetched for that, and how many records are shown.
const PREVIEW: u64 = 64 << 10;
const SHOWN: usize = 6;

/// Finds the session that was asked for, here or there, and has it here as it is there; none if there is none yet.
pub(super) async fn fetch(context: &Context, place: &Place, args: &cli::Chat, key: &Key) -> Result<Option<Entry>> {
    let (local, stream) = match (&args.session, args.new) {
        (_, true) => return Ok(None),
        (Some(name), _) => place.named(context, name).await?,
        (None, false) => match of_key(context, place, key).await? {
            Known::There(local, stream) => (local, stream),
            Known::Here(entry) => return Ok(Some(entry)),
            Known::Nowhere => return Ok(None),
        },
    };
    catch_up(context, place, &local, &stream).await?;
    if let Some(entry) = context.store.entry(local.id())? {
        return Ok(Some(entry));
    }
    // The key leads to a session that was deleted there, or lost: what is here goes on, as it is there.
    context.tell(&format!(
        "note: the last conversation of this key, {}, is not at {} any more: it was deleted there, or lost",
        local.id(),
        place.address
    ))?;
    let Some(entry) = context.catalog.last_used(key, &mut |_, _| {})?.value else { return Ok(None) };
    let (local, stream) = place.of_entry(context, &entry)?;
    catch_up(context, place, &local, &stream).await?;
    Ok(Some(entry))
}

/// What is known of the session of a key.
enum Known {
    /// The remote may know more of it.
    There(Native, Stream),
    /// The remote cannot be asked.
    Here(Entry),
    Nowhere,
}

/// The session of a key: the one that was used last here, unless a later one was begun elsewhere.
async fn of_key(context: &Context, place: &Place, key: &Key) -> Result<Known> {
    let here = context.catalog.last_used(key, &mut |_, _| {})?.value;
    let there = match (sync::find_by_key(&place.remote, &place.tenant, key).await, &here) {
        (Ok(pointer), _) => pointer,
        (Err(error), Some(entry)) if error.is_passing() => {
            context.tell(&format!("note: {error}; going on with what is here"))?;
            return Ok(Known::Here(entry.clone()));
        }
        (Err(error), _) => return Err(unasked(error)),
    };
    if let Some(pointer) = there {
        let is_later = here.as_ref().and_then(|entry| entry.row.created_ms).is_none_or(|ms| pointer.created_ms > ms);
        let is_known = context.store.entry(&pointer.session)?.is_some()
            // One that was deleted here on purpose is not brought back by the way.
            || context.find(Shelf::Trash, pointer.session.as_str()).is_ok();
        if is_later && !is_known {
            let dir = AgentDir::of(key.agent());
            let stream = place.stream(&dir, &pointer.session)?;
            return Ok(Known::There(Native::new(&context.store, &dir, &pointer.session), stream));
        }
    }
    match here {
        Some(entry) => place.of_entry(context, &entry).map(|(local, stream)| Known::There(local, stream)),
        None => Ok(Known::Nowhere),
    }
}

fn unasked(error: Error) -> Failure {
    let is_passing = error.is_passing();
    let is_diverged = matches!(error, Error::Diverged { .. } | Error::Rewound { .. } | Error::NotSealed { .. });
    let failure = Failure::from(error);
    match is_passing {
        false if is_diverged => failure.hint("`--no-remote` goes on with what is here"),
        true => failure
            .hint("nothing was begun, since the conversation may be there; `--new` begins one all the same, `--no-remote` does without the remote"),
        false => failure,
    }
}

/// Shows the end of a long conversation at once, while the rest is on its way. What goes wrong here goes wrong again in what follows.
async fn preview(place: &Place, stream: &Stream) -> Result<()> {
    let is_long = place.remote.frontier(stream).await.is_ok_and(|end| end.bytes > LONG);
    if !is_long {
        return Ok(());
    }
    let Ok(tail) = sync::tail(&place.remote, stream, PREVIEW).await else { return Ok(()) };
    let mut out = anstream::stdout().lock();
    writeln!(out, "The end of the conversation; the rest of it is being fetched:")?;
    let lines = tail.lines.iter().filter_map(|line| std::str::from_utf8(line).ok());
    let shown: Vec<String> =
        lines.filter_map(|line| Record::parse(line, 0, 0).ok()).map(|record| conversation::terminal(&record)).collect();
    let shown: Vec<&String> = shown.iter().filter(|text| !text.is_empty()).collect();
    for text in &shown[shown.len().saturating_sub(SHOWN)..] {
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Fetches what was said elsewhere.
async fn catch_up(context: &Context, place: &Place, local: &Native, stream: &Stream) -> Result<()> {
    let link = Link { local, remote: &place.remote, stream, bookmarks: &place.bookmarks };
    let is_here = || local.medium().stat(&local.path()).is_ok();
    if !is_here() && std::io::stdout().is_terminal() {
        preview(place, stream).await?;
    }
    let progress = Progress::bytes("fetching");
    let pulled = sync::pull(&link, &mut |at| progress.at(at.bytes, at.of_bytes)).await;
    drop(progress);
    match pulled {
        Ok(pulled) => {
            if pulled.lines > 0 {
                let mut err = anstream::stderr().lock();
                writeln!(err, "{} lines fetched from {}", pulled.lines, place.address)?;
            }
            Ok(())
        }
        Err(Error::NotFound { .. }) => {
            if place.bookmarks.get(local.dir(), local.id()).is_some_and(|known| known.end.lines > 0) {
                context.tell("note: this conversation was deleted there; what is here stays here (`unforget push REF --again` sends all of it anew)")?;
            }
            Ok(())
        }
        Err(error) if error.is_passing() && is_here() => {
            context.tell(&format!("note: {error}; going on with what is here"))
        }
        // Whoever writes it here knows more than the remote; opening it says who that is.
        Err(Error::Local(unforget_core::Error::Busy { .. })) => Ok(()),
        Err(error) => Err(unasked(error)),
    }
}
