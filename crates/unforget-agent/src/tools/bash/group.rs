//! The processes of a command, ended together.
//!
//! Killing the shell alone leaves what it started running, with nobody to stop it. The number of a group belongs to its
//! processes as long as one of them is there, the shell included until it is reaped; after that the number may be given to
//! strangers, so it is forgotten as soon as the shell was reaped by an ordinary end.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

/// How long a command that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// How long the kernel may take to end what was killed.
const KILL_WAIT: Duration = Duration::from_secs(1);
/// How often it is looked whether all have gone.
const TICK: Duration = Duration::from_millis(10);

/// A process group that is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// The group that this process leads.
    pub(super) fn of(child: &Child) -> Self {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        Self { leader: number.and_then(Pid::from_raw) }
    }

    /// Lets the group go on without the shell.
    pub(super) fn forget(&mut self) {
        self.leader = None;
    }

    /// Asks all to end, kills those that do not, and reaps the shell.
    pub(super) async fn end(&mut self, child: &mut Child) {
        let Some(leader) = self.leader else { return };
        // An error means that nobody is left or that they belong to somebody else; both show below.
        kill_process_group(leader, Signal::TERM).ok();
        if !gone_within(GRACE, leader, child).await {
            kill_process_group(leader, Signal::KILL).ok();
            gone_within(KILL_WAIT, leader, child).await;
        }
        self.forget();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}

/// Waits until the shell is reaped and no other process of the group is left.
async fn gone_within(bound: Duration, leader: Pid, child: &mut Child) -> bool {
    let deadline = Instant::now() + bound;
    while Instant::now() < deadline {
        let reaped = !matches!(child.try_wait(), Ok(None));
        if reaped && test_kill_process_group(leader) == Err(Errno::SRCH) {
            return true;
        }
        sleep(TICK).await;
    }
    false
}

/// A signal's name in brackets, if it is one that ends commands often.
pub(super) fn signal_name(signal: i32) -> &'static str {
    const NAMES: [(Signal, &str); 12] = [
        (Signal::HUP, " (SIGHUP)"),
        (Signal::INT, " (SIGINT)"),
        (Signal::QUIT, " (SIGQUIT)"),
        (Signal::ILL, " (SIGILL)"),
        (Signal::ABORT, " (SIGABRT)"),
        (Signal::BUS, " (SIGBUS)"),
        (Signal::FPE, " (SIGFPE)"),
        (Signal::KILL, " (SIGKILL)"),
        (Signal::SEGV, " (SIGSEGV)"),
        (Signal::PIPE, " (SIGPIPE)"),
        (Signal::ALARM, " (SIGALRM)"),
        (Signal::TERM, " (SIGTERM)"),
    ];
    NAMES.iter().find(|(known, _)| known.as_raw() == signal).map_or("", |(_, name)| name)
}
