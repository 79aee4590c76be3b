//! The program runs, and what it writes is kept.
//!
//! Its streams are its own. A thread keeps what it writes; which sessions are this run's is found out from what the program says about itself. When the
//! system wants this program to end, the other one is asked to, and killed if it does not.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, kept_id};
use unforget_claude::live;
use unforget_claude::mirror::{Kept, Mirror};
use unforget_claude::place::Found;
use unforget_claude::project::ProjectKey;

use super::{ENDING, LISTEN};
use crate::commands::claude::carrier::Orders;
use crate::commands::claude::is_alive;
use crate::failure::{Failure, Result};
use crate::machine::process_parent;

/// How long the program has for its own end; then it is killed.
const CHILD_ENDING: Duration = Duration::from_secs(7);
/// How many generations away a process may be from the one that was started.
const GENERATIONS: usize = 16;

/// How a run ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// When everything has to be over.
    pub(super) deadline: Option<Instant>,
    /// The sessions that were written.
    pub(super) sessions: BTreeSet<SessionId>,
    /// What could not be kept, by the session that it is about; of none, everything.
    pub(super) troubles: Vec<(Option<SessionId>, String)>,
    /// Lines that the program changed after they were saved.
    pub(super) changed: Vec<(SessionId, String)>,
}

/// Runs the program, and keeps what it writes while it runs.
pub(super) async fn attend(
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
    Ok(Ended { status, deadline, sessions: kept.sessions, troubles: kept.troubles, changed: kept.changed })
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
    troubles: Vec<(Option<SessionId>, String)>,
    changed: Vec<(SessionId, String)>,
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
                            let of = kept.found.id.clone();
                            was.changed
                                .extend(saved.rewritten.iter().map(|rewritten| (of.clone(), rewritten.to_string())));
                            was.sessions.insert(kept.found.id);
                            if let Some(orders) = orders.filter(|_| !saved.is_empty() || is_last) {
                                orders.send(id);
                            }
                        }
                        (Err(error), _) | (_, Err(error)) => {
                            was.troubles.push((Some(kept.found.id), error.to_string()));
                        }
                    }
                }
            }
            Err(error) => was.troubles.push((None, error.to_string())),
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
