//! Claude Code as a child process: its environment, its two streams, and its end, with everything that it started.
//!
//! The environment is made from nothing: what the server knows is not the program's to know. The program runs in a process group of its own, but
//! its tools run in sessions of theirs, which no signal to a group reaches, and they outlive a program that is killed. So whatever it starts
//! carries a [`Mark`] in its environment by which it is found again: when this is dropped, whoever drops it, and when the session is opened by the
//! next server because this one died without a word.
//!
//! Every line has a bound, every wait has one, and what it complains about goes to the log, so much of it.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc;
use unforget_core::encode::sha256_hex;

use super::id::ClaudeSessionId;
use super::wire::{self, Said};
use crate::error::{Code, Problem, Result};

/// The variable that marks everything that a child started.
const MARK: &str = "UNFORGET_CHILD";
/// The longest line, in bytes: images and large results are in it.
const MAX_LINE: u64 = 64 << 20;
/// How many lines wait to be taken before the child has to.
const MAX_WAITING: usize = 256;
/// How many lines that are no objects are passed over.
const MAX_GARBAGE: u32 = 100;
/// How long a child may take to read what it is told.
const SENDING: Duration = Duration::from_secs(30);
/// How long a child that was told that nothing more comes has for its own end.
const ENDING: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });
/// How long the rest of what a child said is waited for when it has ended.
const REST: Duration = Duration::from_secs(1);
/// How long it takes at most until the system has taken a killed child away.
const REAPING: Duration = Duration::from_secs(5);
/// How many digits of a digest tell two realms apart.
const MARK_DIGITS: usize = 16;
/// How long what a dead server left running is waited for, and how often it is looked for.
const CLEARING: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(10);
/// How many complaints are told to the log, and how much of each.
const MAX_COMPLAINTS: usize = 1000;
const COMPLAINT: u64 = 2000;

/// What everything carries that was started for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark(String);

impl Mark {
    /// The mark of a session in a realm: the same id in a copy of the realm is another.
    pub(super) fn of(realm: &Path, id: &ClaudeSessionId) -> Self {
        let realm = sha256_hex(realm.as_os_str().as_encoded_bytes());
        Self(format!("{}-{}", id.as_str(), realm.get(..MARK_DIGITS).unwrap_or_default()))
    }

    /// Kills everything that has it, and waits until nothing has, but not for long. Only for whoever has the session.
    pub(super) fn clear(&self) {
        let until = Instant::now() + CLEARING;
        let mut count = self.kill();
        if count > 0 {
            tracing::warn!(count, mark = self.0, "processes of a server that died were still running");
        }
        while count > 0 && Instant::now() < until {
            std::thread::sleep(GLANCE);
            count = self.kill();
        }
    }

    /// Kills every process that has it; tells how many there were. A process's number is held while its environment is read, so that no other
    /// can be meant.
    #[expect(clippy::disallowed_methods, reason = "what the kernel says is no file of a store")]
    fn kill(&self) -> usize {
        let wanted = format!("{MARK}={}", self.0);
        let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut count = 0;
        for pid in numbers.filter_map(Pid::from_raw) {
            let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // One that has ended has no environment any more.
            let Ok(environment) = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else { continue };
            if !environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
                continue;
            }
            count += 1;
            if let Err(error) = pidfd_send_signal(&held, Signal::KILL)
                && error != rustix::io::Errno::SRCH
            {
                tracing::warn!(%error, "a process of Claude Code's cannot be killed");
            }
        }
        count
    }
}

/// A running Claude Code.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    group: Option<Pid>,
    mark: Mark,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<Vec<u8>>,
    garbage: u32,
    /// Until when the rest of what it says is waited for, once it has ended or fallen silent.
    ending: Option<Instant>,
}

/// What comes from a child.
#[derive(Debug)]
pub(super) enum Heard {
    /// It said something.
    Said(Said),
    /// It has ended, or it said something that ends it.
    Ended(Problem),
}

impl Child {
    /// Starts a program that has its arguments, its folder and its own variables.
    pub(super) fn start(command: &mut Command, mark: &Mark) -> Result<Self> {
        command.env(MARK, &mark.0).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| {
            let program = command.as_std().get_program().to_string_lossy();
            tracing::error!(%error, %program, "Claude Code cannot be started");
            Problem::new(Code::Unavailable, "Claude Code cannot be started on this server; its log tells why")
        })?;
        let group = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (send, lines) = mpsc::channel(MAX_WAITING);
        if let Some(stdout) = process.stdout.take() {
            tokio::spawn(read(stdout, send));
        }
        if let Some(stderr) = process.stderr.take() {
            tokio::spawn(complain(stderr, process.id()));
        }
        let stdin = process.stdin.take();
        Ok(Self { process, group, mark: mark.clone(), stdin, lines, garbage: 0, ending: None })
    }

    /// The child, if it has not ended.
    pub(super) fn if_alive(mut self) -> Option<Self> {
        let is_alive = matches!(self.process.try_wait(), Ok(None)) && !self.lines.is_closed();
        is_alive.then_some(self)
    }

    /// Tells it something.
    pub(super) async fn tell(&mut self, message: &Value) -> Result<()> {
        let Some(stdin) = &mut self.stdin else { return Err(gone(None)) };
        let line = format!("{message}\n");
        let written = tokio::time::timeout(SENDING, async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "Claude Code does not listen");
                Err(gone(self.process.try_wait().ok().flatten()))
            }
            Err(_) => Err(Problem::new(Code::Unavailable, "Claude Code does not listen; the turn was given up")),
        }
    }

    /// The next thing that it says. Nothing is lost, and no wait begins anew, if this is not waited for to its end.
    pub(super) async fn hear(&mut self) -> Heard {
        loop {
            let line = match self.ending {
                None => tokio::select! {
                    biased;
                    line = self.lines.recv() => line,
                    // What it started may hold its output open.
                    _ = self.process.wait() => {
                        self.ending = Some(Instant::now() + REST);
                        continue;
                    }
                },
                Some(until) => match tokio::time::timeout_at(until.into(), self.lines.recv()).await {
                    Ok(Some(line)) => Some(line),
                    // It may have closed its output and not ended.
                    Ok(None) => match tokio::time::timeout_at(until.into(), self.process.wait()).await {
                        Ok(status) => return Heard::Ended(gone(status.ok())),
                        Err(_) => return Heard::Ended(gone(None)),
                    },
                    Err(_) => return Heard::Ended(gone(self.process.try_wait().ok().flatten())),
                },
            };
            let Some(line) = line else {
                self.ending = Some(Instant::now() + REST);
                continue;
            };
            match wire::parse(&line) {
                Some(said) => return Heard::Said(said),
                None => self.garbage += 1,
            }
            tracing::debug!(line = %String::from_utf8_lossy(&line).chars().take(200).collect::<String>(), "not understood");
            if self.garbage > MAX_GARBAGE {
                return Heard::Ended(Problem::new(Code::Unavailable, "Claude Code does not speak stream-json"));
            }
        }
    }

    /// What it said and nobody has heard; none if there is nothing.
    pub(super) fn overheard(&mut self) -> Option<Said> {
        loop {
            let line = self.lines.try_recv().ok()?;
            if let Some(said) = wire::parse(&line) {
                return Some(said);
            }
        }
    }

    /// Ends it: nothing more comes, and when it has not ended after a while, it is killed with everything that it started.
    pub(super) async fn end(mut self) {
        self.stdin = None;
        let waited = tokio::time::timeout(ENDING, async {
            // It may still have to say something before it can end.
            while self.lines.recv().await.is_some() {}
            self.process.wait().await
        });
        if waited.await.is_err() {
            tracing::debug!("Claude Code did not end by itself");
        }
        self.kill().await;
    }

    /// Kills it with everything that it started, and waits until it is gone.
    pub(super) async fn kill(mut self) {
        self.strike();
        if tokio::time::timeout(REAPING, self.process.wait()).await.is_err() {
            tracing::warn!(pid = self.process.id(), "a killed process does not go away");
        }
    }

    /// Sends everything that it started to its end.
    fn strike(&mut self) {
        // Only a process that was not waited for has its number for sure.
        if let Some(group) = self.group.filter(|_| self.process.id().is_some())
            && let Err(error) = kill_process_group(group, Signal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, "a process group cannot be killed");
        }
        self.mark.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.strike();
    }
}

/// That it has ended, and how.
fn gone(status: Option<ExitStatus>) -> Problem {
    let how = status.map_or_else(String::new, |status| format!(" ({status})"));
    let message = format!("Claude Code ended in the middle of the turn{how}; the server's log may tell why");
    Problem::new(Code::Unavailable, message)
}

/// Reads lines until there are none, or until nobody wants them.
async fn read(output: impl AsyncRead + Unpin, send: mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await;
        match read {
            Ok(0) => return,
            Ok(_) if line.last() == Some(&b'\n') => {}
            Ok(_) => {
                tracing::warn!(bytes = line.len(), "Claude Code said a line without an end");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "what Claude Code says cannot be read");
                return;
            }
        }
        if !line.trim_ascii().is_empty() && send.send(line).await.is_err() {
            return;
        }
    }
}

/// Tells the log what a child complains about; the rest is read and dropped, so that it is never stopped by it.
async fn complain(output: impl AsyncRead + Unpin, pid: Option<u32>) {
    let mut reader = BufReader::new(output);
    let (mut line, mut count) = (Vec::new(), 0);
    loop {
        line.clear();
        match (&mut reader).take(COMPLAINT).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => count += 1,
        }
        if count <= MAX_COMPLAINTS {
            tracing::info!(pid, "Claude Code: {}", String::from_utf8_lossy(line.trim_ascii()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_clear().env("PATH", "/usr/bin:/bin");
        Child::start(&mut command, &mark()).unwrap()
    }

    /// One that no other test has.
    fn mark() -> Mark {
        Mark(uuid::Uuid::now_v7().to_string())
    }

    async fn ended(child: &mut Child) -> String {
        match tokio::time::timeout(Duration::from_secs(20), child.hear()).await.unwrap() {
            Heard::Ended(problem) => problem.message,
            Heard::Said(said) => panic!("{said:?}"),
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_a_problem() {
        let problem = Child::start(&mut Command::new("/nowhere/claude"), &mark()).unwrap_err();
        assert_eq!(problem.code, Code::Unavailable);
        assert!(!problem.message.contains("nowhere"), "{problem}");
    }

    #[tokio::test]
    async fn an_early_end_is_noticed_though_something_holds_the_output_open() {
        let mut child = shell("sleep 60 & echo oh >&2; exit 3");
        let started = std::time::Instant::now();
        assert!(ended(&mut child).await.contains("exit status: 3"));
        assert!(started.elapsed() < Duration::from_secs(15));
    }

    #[tokio::test]
    async fn garbage_is_passed_over_for_a_while() {
        let mut child = shell("echo nonsense; echo '{\"type\":\"x\"}'; yes");
        assert!(matches!(child.hear().await, Heard::Said(Said::Other)));
        assert!(ended(&mut child).await.contains("does not speak"));
        child.kill().await;
    }

    #[tokio::test]
    async fn what_a_child_started_dies_with_it_wherever_it_went() {
        let mut child = shell(
            "setsid sh -c 'echo \"{\\\"type\\\":\\\"system\\\",\\\"subtype\\\":\\\"init\\\",\\\"session_id\\\":\\\"$$\\\"}\"; exec sleep 300' & sleep 300",
        );
        let Heard::Said(Said::Began { session: pid }) = child.hear().await else { panic!("it did not start") };
        let there = || std::path::Path::new("/proc").join(&pid).join("exe").exists();
        assert!(there());
        drop(child);
        for _ in 0..6000 {
            if !there() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{pid} is still there");
    }

    #[test]
    fn what_a_dead_server_left_running_is_found() {
        let [mark, other] = [mark(), mark()];
        let mut left = std::process::Command::new("sleep").arg("300").env(MARK, &mark.0).spawn().unwrap();
        other.clear();
        assert_eq!(left.try_wait().unwrap(), None);
        mark.clear();
        assert!(!left.wait().unwrap().success());
        assert_eq!(mark.kill(), 0);
    }

    #[tokio::test]
    async fn a_child_that_listens_ends_when_nothing_more_comes() {
        let mut child = shell("cat");
        child.tell(&serde_json::json!({ "type": "x" })).await.unwrap();
        assert!(matches!(child.hear().await, Heard::Said(Said::Other)));
        let child = child.if_alive().unwrap();
        let started = std::time::Instant::now();
        child.end().await;
        assert!(started.elapsed() < ENDING);
    }
}
