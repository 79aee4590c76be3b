//! `claude run`: the session is fetched and restored, the program runs, and what it writes is kept and sent all the while.
//!
//! What the program prints, what it is asked and how it ends is its own: its streams are not touched, and its exit code is this one's. What is said
//! here is said on stderr, in a few lines. On SIGTERM the program is asked to end, and everything is kept and sent before fifteen seconds are over.
//!
//! A session that someone else has is not begun: who it is is told, and `--fork` goes on in a copy. The rule is the lease on the remote,
//! the lock in the store, and what Claude Code itself says about who is running.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, kept_id};

use super::carrier::{Carrier, Orders, Report};
use super::watch::speak;
use super::{keeper, project, remote_of};
use crate::cli;
use crate::commands::Context;
use crate::commands::remote::{Place, wait};
use crate::failure::{Failure, Outcome, Result};

mod attend;
mod choose;

pub(crate) use choose::lock;

use attend::{Ended, attend};
use choose::{Begin, choose, give_back, prepare, reserve};

/// How long everything takes at most once the system wants this program to end.
const ENDING: Duration = Duration::from_secs(14);
/// How long what is left is sent after the program ended by itself.
const FLUSH: Duration = Duration::from_secs(60);
/// How much of the time for ending is left for sending, when something has to be fetched first.
const FETCH_LEAVES: Duration = Duration::from_secs(4);
/// How long what is left is sent before that is told.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it takes at most to give a session back that was not begun.
const GIVING_BACK: Duration = Duration::from_secs(5);
/// How long it takes at most until the mirror hears that it is over.
const LISTEN: Duration = Duration::from_millis(200);
/// What the program must not be told twice.
const OURS: [&str; 7] =
    ["--resume", "-r", "--continue", "-c", "--session-id", "--fork-session", "--no-session-persistence"];

pub(super) fn run(context: &Context, args: &cli::Run) -> Result<Outcome> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no program is named").hint("unforget claude run -- claude"));
    };
    let is_claude = program.to_string_lossy().contains("claude");
    if let Some(word) = rest.iter().find(|word| is_claude && OURS.iter().any(|ours| is_option(word, ours))) {
        return Err(Failure::usage(format!("`{}` is for unforget to say", word.to_string_lossy()))
            .hint("unforget claude run --resume SESSION -- claude …, `--continue`, `--new` or `--fork`: before the two hyphens"));
    }
    let keeper = keeper(context, &args.program)?;
    let keeper = if args.memory { keeper.with_memory() } else { keeper };
    let (folder, project) = project(None)?;
    let place = remote_of(context, &args.elsewhere)?;
    let begin = choose(context, args, &keeper, place.as_ref(), &folder, &project)?;
    let (_lock, lease) = match &begin {
        Begin::Fork(..) => (None, None),
        Begin::New(id) | Begin::Resume(id) => reserve(context, place.as_ref(), id)?,
    };
    let mut is_end = false;
    if let Begin::Resume(id) | Begin::Fork(id, _) = &begin {
        is_end = match prepare(context, args, &keeper, place.as_ref(), id, &folder, &project) {
            Ok(is_end) => is_end,
            Err(failure) => {
                give_back(place.as_ref(), lease)?;
                return Err(failure);
            }
        };
    }
    // A copy is a session of its own, and needs no more than it was given.
    let rest_is_at = match (&begin, is_end) {
        (Begin::Resume(_), true) => remote_of(context, &args.elsewhere)?,
        _ => None,
    };
    let address = place.as_ref().map(|place| place.address.to_string());
    let carrier = match place {
        Some(place) => Some(Carrier::begin(&context.store, place, lease, speak)?),
        None => None,
    };
    if let (true, Some(carrier)) = (rest_is_at.is_some(), &carrier) {
        carrier.orders().fetch(kept_id(begin.id())?);
    }
    let mut command = Command::new(program);
    command.args(begin.arguments()).args(rest);
    if args.program.config_dir.is_some() {
        command.env("CLAUDE_CONFIG_DIR", keeper.config().medium().root());
    }
    let orders = carrier.as_ref().map(Carrier::orders);
    let mut ended = match wait(attend(&mut command, program, &keeper, &project, begin.id(), orders.clone())) {
        Ok(ended) => ended,
        Err(failure) => {
            // What it holds is given back.
            carrier.map(|carrier| carrier.end(GIVING_BACK));
            return Err(failure);
        }
    };
    if let (Some(place), Some(orders)) = (rest_is_at, orders) {
        let until = ended.deadline.map_or(Instant::now() + FLUSH, |deadline| deadline - FETCH_LEAVES);
        ended.troubles = complete(&keeper, &place, begin.id(), &orders, until)?;
    }
    let left = ended.deadline.map_or(FLUSH, |deadline| deadline.saturating_duration_since(Instant::now()));
    let report = match carrier {
        Some(carrier) => wait(flush(carrier, left, address.as_deref().unwrap_or_default()))?,
        None => Report::default(),
    };
    tell(context, &keeper, begin.id(), &ended, &report, address.as_deref())?;
    Ok(Outcome::Code(exit_code(ended.status)))
}

/// Keeps what was said in a session whose rest had to be fetched first; tells what could not be kept.
fn complete(
    keeper: &Keeper,
    place: &Place,
    id: &SessionId,
    orders: &Orders,
    until: Instant,
) -> Result<Vec<(Option<SessionId>, String)>> {
    let kept = kept_id(id)?;
    loop {
        let mut troubles = Vec::new();
        for found in keeper.config().find(id)?.sessions {
            match keeper.save(&found) {
                Ok(saved) => {
                    saved.rewritten.iter().for_each(|rewritten| speak(format!("note: {id}: {rewritten}")));
                    orders.send(kept.clone());
                }
                Err(error) => troubles.push((Some(id.clone()), error.to_string())),
            }
        }
        if troubles.is_empty() || Instant::now() >= until {
            return Ok(troubles);
        }
        // The carrier may be at it; then this one is refused, and looks again.
        let fetched = wait(async {
            let fetch = super::fetch::pull(keeper.store(), place, &kept);
            Ok(tokio::time::timeout_at(until.into(), fetch).await)
        })?;
        if !matches!(fetched, Ok(Ok(_))) {
            std::thread::sleep(LISTEN);
        }
    }
}

/// Sends what is left. Whoever does not want to wait for it may say so: what is not sent is marked.
async fn flush(carrier: Carrier, within: Duration, address: &str) -> Result<Report> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (done, mut report) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("flush".to_owned()).spawn(move || {
        // Nobody may be waiting any more.
        drop(done.send(carrier.end(within)));
    })?;
    let (mut told, mut end) = (false, tokio::time::Instant::now() + within + ENDING);
    loop {
        tokio::select! {
            report = &mut report => return Ok(report.unwrap_or(Report { is_late: true, ..Report::default() })),
            _ = interrupt.recv() => return Ok(Report { is_late: true, ..Report::default() }),
            _ = terminate.recv() => end = end.min(tokio::time::Instant::now() + ENDING),
            () = tokio::time::sleep(PATIENCE), if !told => {
                speak(format!("sending what is left to {address} (Ctrl-C leaves it for `unforget push`)"));
                told = true;
            }
            () = tokio::time::sleep_until(end) => return Ok(Report { is_late: true, ..Report::default() }),
        }
    }
}

/// Whether a word on a command line is an option, with or without its value.
fn is_option(word: &OsStr, option: &str) -> bool {
    let word = word.to_string_lossy();
    word == option || (option.starts_with("--") && word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
}

fn tell(
    context: &Context,
    keeper: &Keeper,
    id: &SessionId,
    ended: &Ended,
    report: &Report,
    address: Option<&str>,
) -> Result<()> {
    if !ended.sessions.contains(id) && ended.troubles.is_empty() {
        let root = keeper.config().medium().root();
        context.tell(&format!("note: nothing of session {id} was written to {}", root.display()))?;
    }
    let mut told = BTreeSet::new();
    for (id, changed) in &ended.changed {
        context.tell(&format!("note: {id}: {changed}"))?;
    }
    for (id, trouble) in ended.troubles.iter().filter(|trouble| told.insert(*trouble)) {
        let what = id.as_ref().map_or("this run".to_owned(), |id| format!("session {id}"));
        context.tell(&format!("error: not all of {what} is kept: {trouble}"))?;
    }
    let is_kept = |id: &&SessionId| !ended.troubles.iter().any(|(of, _)| of.as_ref().is_none_or(|of| of == *id));
    for id in ended.sessions.iter().filter(is_kept) {
        let is_waiting = kept_id(id).ok().and_then(|id| report.lacks(&id).map(str::to_owned));
        let there = match (address, is_waiting) {
            (Some(address), Some(why)) => {
                format!(", not yet there: {why} (`unforget push {id} --remote {address}` sends it)")
            }
            (Some(address), None) => format!(", and at {address}"),
            (None, _) => String::new(),
        };
        context.tell(&format!("session {id} is kept{there}"))?;
    }
    Ok(())
}

/// The program's own exit code, as a shell tells it.
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}
