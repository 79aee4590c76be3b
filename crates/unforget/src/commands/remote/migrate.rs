//! `remote migrate`: seals what was sent before there was a key.
//!
//! Nothing tells a genuine line in plain from a forged one, so a person sees what is there before it is sealed: each session with its size, its last
//! words, and how it compares with the session on this machine. Leases and heads in plain are not sealed but removed: a forged one misleads, and writers leave
//! others.

use std::io::{IsTerminal as _, Write as _};

use unforget_core::frontier::Frontier;
use unforget_core::json::quote;
use unforget_core::layout::AgentDir;
use unforget_core::reader::LogReader;
use unforget_core::record::Record;
use unforget_core::stamp::SessionId;
use unforget_remote::lease::LEASES;
use unforget_remote::migrate::{self, Views};
use unforget_remote::sync::KEYS;
use unforget_remote::sync::head::{self, HEADS};
use unforget_remote::{Error, Remote, Sealing, Stream};

use super::{Place, open_sealing, wait};
use crate::cli;
use crate::commands::{Context, conversation};
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;
use crate::screen;

/// How many columns the last words of a session take.
const WORDS: usize = 60;
/// How much of an answer is looked at.
const MAX_ANSWER: usize = 8;

/// A stream that lies there in plain.
struct Finding {
    stream: Stream,
    end: Frontier,
    kind: &'static str,
    /// How it compares with the session on this machine.
    local: &'static str,
    words: String,
}

/// What a look at all streams found.
#[derive(Default)]
struct Found {
    plain: Vec<Finding>,
    /// What migrations left that were interrupted.
    stages: Vec<Stream>,
    damaged: u64,
}

pub(super) fn run(context: &Context, args: &cli::Migrate) -> Result<Outcome> {
    let place = Place::open(context, &args.there)?;
    let Some(key) = place.key.clone() else {
        return Err(Failure::usage("a migration seals with a key, and none is named")
            .hint("`--encrypt` takes the key beside the configuration or makes one; `--key-file FILE` names another"));
    };
    let either = open_sealing(&place.address, Sealing::Migrating(key))?;
    let views = Views { either: either.as_ref(), sealed: &place.remote };
    let found = wait(look(context, &place, &views))?;
    show(context, &found.plain)?;
    let is_work = !found.plain.is_empty() || !found.stages.is_empty();
    let mut sealed = 0_u64;
    if is_work && !args.dry_run {
        if !args.yes {
            ask(&found)?;
        }
        sealed = wait(seal_all(&place, &views, &found))?;
    }
    let (streams, lines) = (found.plain.len(), found.plain.iter().map(|plain| plain.end.lines).sum::<u64>());
    let (stages, damaged) = (found.stages.len(), found.damaged);
    if context.json {
        writeln!(
            anstream::stdout().lock(),
            "{{\"streams\":{streams},\"lines\":{lines},\"interrupted\":{stages},\"damaged\":{damaged},\"sealed\":{sealed},\"dry_run\":{}}}",
            args.dry_run
        )?;
    } else {
        context.tell(&match (is_work, args.dry_run) {
            (false, _) => format!("nothing lies in plain at {}", place.address),
            (true, true) => format!("{streams} streams with {lines} lines lie in plain; nothing was changed"),
            (true, false) => format!("{sealed} streams at {} are sealed now", place.address),
        })?;
    }
    Ok(if damaged > 0 { Outcome::MetDamage } else { Outcome::Done })
}

/// Reads everything that is there, and tells what is not sealed.
async fn look(context: &Context, place: &Place, views: &Views<'_>) -> Result<Found> {
    let progress = Progress::new("reading streams");
    let mut found = Found::default();
    for stream in place.streams().await? {
        progress.step();
        if migrate::is_stage(&stream) {
            found.stages.push(stream);
            continue;
        }
        match examine(context, views, &stream).await {
            Ok(finding) => found.plain.extend(finding),
            Err(Error::NotFound { .. }) => {}
            Err(error @ Error::WrongKey { .. }) => return Err(error.into()),
            Err(error @ Error::Corrupt { .. }) => {
                found.damaged += 1;
                context.tell(&format!("damage: {}: {error}; left as it is", stream.session()))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

async fn examine(context: &Context, views: &Views<'_>, stream: &Stream) -> unforget_remote::Result<Option<Finding>> {
    if migrate::is_sealed(views, stream).await? {
        return Ok(None);
    }
    let end = views.either.frontier(stream).await?;
    let kind = match (stream.session(), stream.side()) {
        (_, LEASES) => "lease",
        (_, HEADS) => "head",
        (KEYS, _) => "key",
        (session, _) if session.starts_with('@') => "mark",
        (_, "") => "session",
        (_, side) if side.starts_with("blob/") => "payload",
        _ => "companion file",
    };
    let local = if kind == "session" { compare(context, views.either, stream, &end).await? } else { "" };
    let last = views.either.read(stream, end.lines.saturating_sub(1)).await?;
    let words = last.lines.last().map_or_else(String::new, |line| words(kind, line));
    Ok(Some(Finding { stream: stream.clone(), end, kind, local, words }))
}

/// The end of a session, or where a key leads.
fn words(kind: &str, line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let text = match (kind, Record::parse(&line, 0, 0)) {
        ("session", Ok(record)) => anstream::adapter::strip_str(&conversation::terminal(&record)).to_string(),
        ("payload", _) => String::new(),
        _ => line.into_owned(),
    };
    screen::fit(&screen::one_line(text.trim()), WORDS)
}

/// How a session there compares with the one on this machine.
async fn compare(
    context: &Context,
    remote: &dyn Remote,
    stream: &Stream,
    end: &Frontier,
) -> unforget_remote::Result<&'static str> {
    let Some(id) = SessionId::parse(stream.session()) else { return Ok("not local") };
    let path = AgentDir::of(stream.place()).transcript(&id);
    let local = {
        let Ok(reader) = LogReader::open(context.store.medium().as_ref(), &path) else { return Ok("not local") };
        let (mut at, mut forward) = (Frontier::default(), reader.forward(0));
        while at.lines < end.lines {
            match forward.next()? {
                Some(line) if line.terminated && !line.is_overlong() => at = at.after(line.bytes),
                _ => break,
            }
        }
        at
    };
    if local.lines == end.lines {
        return Ok(if local == *end { "same as local" } else { "differs from local" });
    }
    let page = remote.read(stream, local.lines).await?;
    Ok(if page.before == local { "longer than local" } else { "differs from local" })
}

fn show(context: &Context, plain: &[Finding]) -> Result<()> {
    let mut out = anstream::stdout().lock();
    for Finding { stream, end, kind, local, words } in plain {
        let (lines, bytes) = (end.lines, end.bytes);
        if context.json {
            let [_, agent, session, side] = stream.parts().map(quote);
            let (local, words) = (quote(local), quote(words));
            writeln!(
                out,
                "{{\"kind\":\"{kind}\",\"agent\":{agent},\"session\":{session},\"side\":{side},\"lines\":{lines},\"bytes\":{bytes},\"local\":{local},\"last\":{words}}}"
            )?;
            continue;
        }
        let name = if *kind == "session" { stream.session() } else { stream.side() };
        let name = screen::one_line(if name.is_empty() { stream.session() } else { name });
        let local = if local.is_empty() { String::new() } else { format!(", {local}") };
        writeln!(out, "{kind}  {name}  {lines} lines, {}{local}  {words}", screen::bytes(bytes))?;
    }
    Ok(())
}

/// Asks whether what was shown may be sealed; anything but a yes ends the command.
fn ask(found: &Found) -> Result<()> {
    let what = format!("{} streams lie there in plain", found.plain.len() + found.stages.len());
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{what}, and nobody can be asked whether to seal them"))
            .hint("`unforget remote migrate --yes` seals what is shown; `--dry-run` only shows it"));
    }
    let mut err = anstream::stderr().lock();
    write!(err, "{what}. Anybody who can write there may have written them. Seal them as yours? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let answer: String = answer.trim().chars().take(MAX_ANSWER).collect();
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was changed")),
    }
}

/// Seals what was found; tells how many streams.
async fn seal_all(place: &Place, views: &Views<'_>, found: &Found) -> Result<u64> {
    let progress = Progress::new("sealing streams");
    // Machines without the key are to send nothing from here on. A mark in plain is no mark.
    let mark = unforget_remote::guarded::encryption_mark(&place.tenant)?;
    if found.plain.iter().any(|plain| plain.stream == mark) {
        views.either.delete(&mark).await?;
    }
    place.remote.ready().await?;
    // What is removed goes first: a head in plain would be in the way of a sealed one.
    for Finding { stream, .. } in found.plain.iter().filter(|plain| matches!(plain.kind, "lease" | "head")) {
        views.either.delete(stream).await?;
    }
    let mut sealed = 0;
    for stage in &found.stages {
        progress.step();
        sealed += u64::from(migrate::finish(views, stage).await?.is_some());
    }
    for Finding { stream, kind, .. } in &found.plain {
        progress.step();
        if matches!(*kind, "lease" | "head") || *stream == mark {
            continue;
        }
        // A stage may have brought it back already.
        match migrate::is_sealed(views, stream).await {
            Ok(false) => {
                let end = migrate::seal(views, stream).await?;
                if *kind == "session" {
                    head::leave(views.sealed, stream, &end).await?;
                }
            }
            Ok(true) | Err(Error::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        }
        sealed += 1;
    }
    Ok(sealed)
}
