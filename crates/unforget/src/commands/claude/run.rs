//! `claude run`: the session is fetched and restored, the program runs, and what it writes is kept and sent all the while.
//!
//! What the program prints, what it is asked and how it ends is its own: its streams are not touched, and its exit code is this one's. What is said
//! here is said on stderr, in a few lines. On SIGTERM the program is asked to end, and everything is kept and sent before fifteen seconds are over.
//!
//! A session that someone else has is not begun: who it is is told, and `--fork` goes on in a copy. The rule is the lease on the remote,
//! the lock in the store, and what Claude Code itself says about who is running.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, agent, kept_id};
use unforget_claude::live;
use unforget_claude::mirror::{Kept, Mirror};
use unforget_claude::place::Found;
use unforget_claude::project::ProjectKey;
use unforget_core::key::Key;
use unforget_core::medium::{Access, Handle, parent};
use unforget_core::summary::claude_key;
use unforget_remote::lease::{Acquired, Lease};
use unforget_remote::sync;

use super::carrier::{self, Carrier, Orders, Report};
use super::restore::{self, How};
use super::watch::speak;
use super::{is_alive, keeper, named, new_id, project};
use crate::cli;
use crate::commands::Context;
use crate::commands::remote::{Place, wait};
use crate::config::{self, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::machine::process_parent;

/// How long everything takes at most once the system wants this program to end.
const ENDING: Duration = Duration::from_secs(14);
/// How long the program has for its own end; then it is killed.
const CHILD_ENDING: Duration = Duration::from_secs(7);
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
/// How many generations away a process may be from the one that was started.
const GENERATIONS: usize = 16;
/// What the program must not be told twice.
const OURS: [&str; 7] =
    ["--resume", "-r", "--continue", "-c", "--session-id", "--fork-session", "--no-session-persistence"];

/// Which session, and how it is begun.
enum Begin {
    New(SessionId),
    Resume(SessionId),
    /// A copy of the first, under the second id.
    Fork(SessionId, SessionId),
}

impl Begin {
    /// The session that is written.
    fn id(&self) -> &SessionId {
        match self {
            Begin::New(id) | Begin::Resume(id) | Begin::Fork(_, id) => id,
        }
    }

    fn arguments(&self) -> Vec<String> {
        match self {
            Begin::New(id) => vec!["--session-id".to_owned(), id.to_string()],
            Begin::Resume(id) => vec!["--resume".to_owned(), id.to_string()],
            Begin::Fork(from, id) => {
                let [resume, fork, new] = ["--resume", "--fork-session", "--session-id"].map(str::to_owned);
                vec![resume, from.to_string(), fork, new, id.to_string()]
            }
        }
    }
}

pub(super) fn run(context: &Context, args: &cli::Run) -> Result<Outcome> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no program is named").hint("unforget claude run -- claude"));
    };
    if let Some(word) = rest.iter().find(|word| OURS.iter().any(|ours| is_option(word, ours))) {
        return Err(Failure::usage(format!("`{}` is for unforget to say", word.to_string_lossy()))
            .hint("unforget claude run --resume SESSION -- claude …, `--continue`, `--new` or `--fork`: before the two hyphens"));
    }
    let keeper = keeper(context, &args.program)?;
    let keeper = if args.memory { keeper.with_memory() } else { keeper };
    let (folder, project) = project(None)?;
    let place = Place::find(context, &args.there, &config::load(&Flags::default())?)?;
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
        (Begin::Resume(_), true) => Place::find(context, &args.there, &config::load(&Flags::default())?)?,
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
fn complete(keeper: &Keeper, place: &Place, id: &SessionId, orders: &Orders, until: Instant) -> Result<Vec<String>> {
    let kept = kept_id(id)?;
    loop {
        let mut troubles = Vec::new();
        for found in keeper.config().find(id)?.sessions {
            match keeper.save(&found) {
                Ok(_) => orders.send(kept.clone()),
                Err(error) => troubles.push(format!("{id}: {error}")),
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

/// The session that was asked for.
fn choose(
    context: &Context,
    args: &cli::Run,
    keeper: &Keeper,
    place: Option<&Place>,
    folder: &Path,
    project: &ProjectKey,
) -> Result<Begin> {
    let from = match (&args.resume, args.resume_last) {
        (Some(name), _) => Some(named(context, name)?),
        (None, true) => last(context, keeper, place, folder, project)?,
        (None, false) => None,
    };
    match from {
        Some(id) if args.fork => Ok(Begin::Fork(id, new_id())),
        Some(id) => Ok(Begin::Resume(id)),
        None if args.fork => {
            Err(Failure::usage("there is nothing to fork").hint("`--fork` goes with `--resume` or `--continue`"))
        }
        None => {
            if args.resume_last {
                context.tell("no session of this folder yet; a new one begins")?;
            }
            Ok(Begin::New(new_id()))
        }
    }
}

/// The session of a folder that was used last: in Claude Code's directory, in the store, or elsewhere.
fn last(
    context: &Context,
    keeper: &Keeper,
    place: Option<&Place>,
    folder: &Path,
    project: &ProjectKey,
) -> Result<Option<SessionId>> {
    let mut known: Vec<(i64, SessionId)> = Vec::new();
    if let Some(found) = keeper.config().newest(project)? {
        known.push((found.stat.modified_ns / 1_000_000, found.id));
    }
    let Some(key) = claude_key(&folder.display().to_string()).and_then(|key| key.parse::<Key>().ok()) else {
        return Ok(known.pop().map(|(_, id)| id));
    };
    if let Some(entry) = context.catalog.last_used(&key, &mut |_, _| {})?.value {
        let used_ms = entry.row.updated_ms.unwrap_or(0);
        known.extend(SessionId::parse(&entry.row.id).map(|id| (used_ms, id)));
    }
    if let Some(place) = place {
        match wait(async { Ok(sync::find_by_key(&place.remote, &place.tenant, &key).await) })? {
            Ok(pointer) => {
                let there = pointer.and_then(|to| Some((to.created_ms, SessionId::parse(to.session.as_str())?)));
                known.extend(there);
            }
            Err(error) if error.is_passing() && !known.is_empty() => {
                context.tell(&format!("note: {error}; going on with what is here"))?;
            }
            // What could not be asked is not taken for "there is nothing".
            Err(error) => return Err(Failure::from(error).hint("`--new` begins a new session all the same")),
        }
    }
    Ok(known.into_iter().max_by_key(|(ms, _)| *ms).map(|(_, id)| id))
}

/// What keeps others from a session: on this machine, and elsewhere.
type Reserved = (Option<Box<dyn Handle>>, Option<Lease>);

/// Sees that nobody else has the session, and has it.
fn reserve(context: &Context, place: Option<&Place>, id: &SessionId) -> Result<Reserved> {
    let kept = kept_id(id)?;
    let lock = lock(context, id)?;
    let Some(place) = place else { return Ok((Some(lock), None)) };
    match wait(async { Ok(carrier::claim(&context.store, place, &kept).await) })? {
        Ok(Acquired::Held(lease)) => Ok((Some(lock), Some(lease))),
        Ok(Acquired::Taken { holder, until_ms }) => {
            Err(taken(id, &format!("{holder} (until {}, unless it goes on)", crate::screen::time(until_ms))))
        }
        Err(error) if error.is_passing() => {
            context.tell(&format!("note: {error}; whether another machine has this session is not known"))?;
            Ok((Some(lock), None))
        }
        Err(error) => Err(error.into()),
    }
}

/// Lets others have a session that was not begun after all.
fn give_back(place: Option<&Place>, lease: Option<Lease>) -> Result<()> {
    let Some((place, lease)) = place.zip(lease) else { return Ok(()) };
    wait(async {
        match tokio::time::timeout(GIVING_BACK, lease.release(&place.remote)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the lease was not given back"),
            Err(_) => tracing::debug!("the lease was not given back in time"),
        }
        Ok(())
    })
}

fn taken(id: &SessionId, by: &str) -> Failure {
    Failure::busy(format!("session {id} is in use by {by}"))
        .hint("wait for it, or go on in a copy of it: `unforget claude run --resume SESSION --fork -- claude …`")
}

/// The lock of a session on this machine; it ends with this program.
fn lock(context: &Context, id: &SessionId) -> Result<Box<dyn Handle>> {
    let medium = context.store.medium();
    let path = PathBuf::from("copies").join(format!("{id}.run"));
    medium.create_dir(parent(&path))?;
    let file = match medium.open(&path, Access::CreateNew) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => medium.open(&path, Access::Append),
        other => other,
    }?;
    if file.try_lock()? {
        return Ok(file);
    }
    let holder = file.stat().ok().and_then(|stat| medium.lock_holder(&stat));
    Err(taken(id, &holder.unwrap_or_else(|| "another process".to_owned())))
}

/// Has a session in the place where the program finds it; says whether only its end is there.
fn prepare(
    context: &Context,
    args: &cli::Run,
    keeper: &Keeper,
    place: Option<&Place>,
    id: &SessionId,
    folder: &Path,
    project: &ProjectKey,
) -> Result<bool> {
    let there = keeper.config().find(id)?.sessions.into_iter().next();
    if let Some(found) = &there {
        match keeper.save(found) {
            Ok(_) | Err(unforget_claude::Error::Partial { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let is_kept = context.store.medium().stat(&agent().transcript(&kept_id(id)?)).is_ok();
    if !is_kept && place.is_none() {
        return Err(Failure::new(format!("session {id} is not here"))
            .hint("`--remote URL` fetches it; `unforget sessions --agent claude` lists what is here"));
    }
    // What someone is writing is in its place, and is copied as it is.
    if args.fork && there.is_some() && !live::live(keeper.config(), id, &is_alive)?.writers.is_empty() {
        return Ok(false);
    }
    // The program finds a session in whichever project it is.
    let project = there.as_ref().map_or(project, |found| &found.project);
    let how = How { rewrite_paths: args.rewrite_paths, tail: args.tail };
    let restored = restore::one(context, keeper, place, id, folder, project, how)?;
    for left in &restored.left_alone {
        context.tell(&format!("note: left as it is: {left}"))?;
    }
    Ok(restored.is_tail && !is_kept)
}

/// How a run ended.
struct Ended {
    status: ExitStatus,
    /// When everything has to be over.
    deadline: Option<Instant>,
    /// The sessions that were written.
    sessions: BTreeSet<SessionId>,
    troubles: Vec<String>,
}

/// Runs the program, and keeps what it writes while it runs.
async fn attend(
    command: &mut Command,
    program: &OsString,
    keeper: &Keeper,
    project: &ProjectKey,
    id: &SessionId,
    orders: Option<Orders>,
) -> Result<Ended> {
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    // In a terminal Ctrl-C reaches the program by itself, and what it means there is the program's to say.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let is_terminal =
        std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    let before: BTreeSet<SessionId> =
        keeper.config().sessions_of(project)?.sessions.into_iter().map(|found| found.id).collect();
    let mirror = Mirror::begin(keeper)?;
    let mut child = command.spawn().map_err(|error| {
        Failure::new(format!("cannot run `{}`: {error}", program.to_string_lossy()))
            .hint("behind the two hyphens comes the program: unforget claude run -- claude")
    })?;
    let mine = Mine {
        keeper: keeper.clone(),
        project: project.clone(),
        pid: child.id(),
        before,
        known: Mutex::new(BTreeSet::from([id.clone()])),
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let keeping = std::thread::Builder::new().name("mirror".to_owned()).spawn({
        let is_over = is_over.clone();
        move || keep(mirror, &mine, orders.as_ref(), &is_over)
    })?;
    let (mut deadline, mut is_killed) = (None, false);
    let status = loop {
        let kill_at = deadline.map(|deadline: Instant| deadline - (ENDING - CHILD_ENDING)).filter(|_| !is_killed);
        tokio::select! {
            status = child.wait() => break status?,
            _ = terminate.recv() => end(&child, rustix::process::Signal::TERM, &mut deadline)?,
            _ = hang_up.recv() => end(&child, rustix::process::Signal::HUP, &mut deadline)?,
            _ = interrupt.recv() => if !is_terminal {
                tell_child(&child, rustix::process::Signal::INT)?;
            },
            () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now).into()), if kill_at.is_some() => {
                child.start_kill()?;
                is_killed = true;
            }
        }
    };
    is_over.store(true, Ordering::Relaxed);
    let kept = keeping.join().map_err(|_| Failure::new("what was kept is not known: the mirror ended badly"))?;
    Ok(Ended { status, deadline, sessions: kept.sessions, troubles: kept.troubles })
}

/// Asks the program to end, and sets the time by which everything is over.
fn end(child: &Child, signal: rustix::process::Signal, deadline: &mut Option<Instant>) -> Result<()> {
    deadline.get_or_insert_with(|| Instant::now() + ENDING);
    tell_child(child, signal)
}

fn tell_child(child: &Child, signal: rustix::process::Signal) -> Result<()> {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    match pid.map(|pid| rustix::process::kill_process(pid, signal)) {
        // It has ended by itself.
        None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
        Some(Err(error)) => Err(std::io::Error::from(error).into()),
    }
}

/// Which sessions are this run's.
struct Mine {
    keeper: Keeper,
    project: ProjectKey,
    pid: Option<u32>,
    /// Those that were there when it began.
    before: BTreeSet<SessionId>,
    known: Mutex<BTreeSet<SessionId>>,
}

impl Mine {
    /// Whether the program that was started writes a session: the one it was given, one that it says it has (after `/clear` it is another), or
    /// a new one of this folder that nobody else says to have.
    fn has(&self, found: &Found) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&found.id) {
            return true;
        }
        let writers =
            live::live(self.keeper.config(), &found.id, &is_alive).map(|live| live.writers).unwrap_or_default();
        let is_ours = writers.iter().any(|writer| self.pid.is_some_and(|pid| descends(writer.pid, pid)));
        let is_new = writers.is_empty() && found.project == self.project && !self.before.contains(&found.id);
        if is_ours || is_new {
            known.insert(found.id.clone());
        }
        is_ours || is_new
    }
}

/// Whether a process was started by another, or is it.
fn descends(pid: u32, from: u32) -> bool {
    let mut at = Some(pid);
    for _ in 0..GENERATIONS {
        match at {
            Some(pid) if pid == from => return true,
            Some(pid) => at = process_parent(pid),
            None => return false,
        }
    }
    false
}

/// What was kept of a run.
#[derive(Default)]
struct WasKept {
    sessions: BTreeSet<SessionId>,
    troubles: Vec<String>,
}

/// Keeps what the program writes until it is over, and then what is left.
fn keep(mut mirror: Mirror, mine: &Mine, orders: Option<&Orders>, is_over: &AtomicBool) -> WasKept {
    let mut was = WasKept::default();
    let is_wanted = |found: &Found| mine.has(found);
    loop {
        let is_last = is_over.load(Ordering::Relaxed);
        let kept = if is_last { what_is_left(&mut mirror, mine) } else { mirror.turn(LISTEN, &is_wanted) };
        was.troubles.clear();
        match kept {
            Ok(kept) => {
                for kept in kept {
                    match (kept.outcome, kept_id(&kept.found.id)) {
                        (Ok(saved), Ok(id)) => {
                            was.sessions.insert(kept.found.id);
                            if let Some(orders) = orders.filter(|_| !saved.is_empty() || is_last) {
                                orders.send(id);
                            }
                        }
                        (Err(error), _) | (_, Err(error)) => was.troubles.push(format!("{}: {error}", kept.found.id)),
                    }
                }
            }
            Err(error) => was.troubles.push(error.to_string()),
        }
        if is_last {
            return was;
        }
    }
}

/// Keeps what is left: what the system told of, and once more all that is this run's.
fn what_is_left(mirror: &mut Mirror, mine: &Mine) -> unforget_claude::Result<Vec<Kept>> {
    let mut kept = mirror.sweep(&|found| mine.has(found))?;
    let known = mine.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
    kept.extend(mirror.last(&known)?);
    Ok(kept)
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
    for trouble in &ended.troubles {
        context.tell(&format!("error: not all of it is kept: {trouble}"))?;
    }
    for id in &ended.sessions {
        let is_waiting = kept_id(id).ok().and_then(|id| report.lacks(&id).map(str::to_owned));
        let there = match (address, is_waiting) {
            (Some(_), Some(why)) => format!(", not yet there: {why} (`unforget push` sends it)"),
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
