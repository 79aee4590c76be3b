//! One run of the CLI, from its start to its end, which comes in time or is made to.
//!
//! The process is not reaped before its output has ended, so that a signal can never reach another process that has
//! its number by then. A run that is dropped is killed: a test that fails leaves nothing behind.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;

/// A process that answers a prompt.
pub struct Running {
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
}

/// A process that has ended, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it said.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// What the CLI says when a prompt is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The session that it belongs to.
    pub session_id: String,
    /// The last text; empty if there is none.
    pub result: String,
    /// Whether it is no answer but a complaint.
    pub is_error: bool,
    /// All of it.
    pub raw: Value,
}

impl Running {
    /// Starts the CLI, or a program that starts it.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends the process as a power cut would.
    pub fn kill(self) -> Finished {
        self.signal(Signal::KILL);
        self.wait()
    }

    /// Waits until the process ends, but not for ever.
    pub fn wait(mut self) -> Finished {
        let deadline = Instant::now() + PATIENCE;
        let mut rest = |output: &Receiver<Vec<u8>>| {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = output.recv_timeout(left).unwrap_or_else(|_| {
                drop(self.child.kill());
                panic!("the CLI did not end in {PATIENCE:?}")
            });
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        Finished { status: self.child.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing to a process that was waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Finished {
    /// The answer on the last line; none if the process ended without.
    pub fn answer(&self) -> Option<Answer> {
        let raw: Value = serde_json::from_str(self.stdout.lines().last()?).ok()?;
        let text = |name: &str| raw.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_error = raw.get("is_error").and_then(Value::as_bool)?;
        let session_id = text("session_id")?;
        Some(Answer { session_id, result: text("result").unwrap_or_default(), is_error, raw })
    }
}

fn collect(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a pipe breaks is all there is.
        drop(output.read_to_end(&mut bytes));
        // Nobody listens if the run was dropped.
        drop(send.send(bytes));
    });
    receive
}
