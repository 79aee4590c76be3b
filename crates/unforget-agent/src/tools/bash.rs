//! `bash`: a command of the shell, with an end.
//!
//! A command runs in a process group of its own, and that group is what is ended: at the time limit, at an abort, or when
//! nobody waits for it any more. First it is asked to end, then it is killed. Three ways in which a command would never
//! come back are guarded against: it waits for input (there is none), it runs for ever (the limit), it has ended and a
//! background process still holds its output (a short wait, and the process is left alone).
//!
//! A command asks first. It runs in the `sandbox`, if there is one and the call does not ask for a run outside it, which is
//! allowed separately; without one it may do what the user may do. Its environment is what `commands` passes on. What it prints is bounded by `capture`.

mod group;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::group::Group;
use super::arguments::Arguments;
use super::capture::Capture;
use super::commands::Commands;
use super::workspace::Workspace;
use super::{Output, Tool};

/// How long a command may run if the call does not say.
const DEFAULT_LIMIT: Duration = Duration::from_secs(120);
/// How long a command may run at most.
const MAX_LIMIT: Duration = Duration::from_secs(600);
/// How much of the output is kept, in bytes.
const MAX_OUTPUT: usize = 10 * 1024 * 1024;
/// How long the output of a command that has ended is waited for.
const DRAIN: Duration = Duration::from_millis(500);
/// What programs say when the kernel refuses something.
const REFUSALS: [&str; 3] = ["ermission denied", "peration not permitted", "Read-only file system"];
/// What a model has to know then.
const IN_SANDBOX: &str = "the command ran in a sandbox, which refuses writes outside the workspace and reads of \
                          credentials; with `outside` the person is asked to run it without";
/// How much is read at once, in bytes.
const PIECE: usize = 64 * 1024;

/// Runs a command.
#[derive(Debug)]
pub(super) struct Bash {
    pub(super) workspace: Arc<Workspace>,
    pub(super) commands: Commands,
}

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command with bash in the workspace folder. Gives stdout and stderr as they come, then the exit code. There \
         is no input, and each call starts a new shell. Processes left in the background need their output redirected. \
         Commands may be in a sandbox: writing outside the workspace and reading credentials is refused there."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string","description":"The command."},"timeout":{"type":"number","exclusiveMinimum":0,"maximum":600,"description":"Seconds until it is ended; 120 if absent, at most 600."},"outside":{"type":"boolean","description":"Run outside the sandbox. The person is asked each time; only if the sandbox refused what the task needs."}},"required":["command"],"additionalProperties":false}"#
    }

    fn asks_first(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            let (command, limit, is_outside) = match arguments(input) {
                Ok(arguments) => arguments,
                Err(output) => return output,
            };
            if abort.is_cancelled() {
                return Output::failed("[aborted by the user before it began]");
            }
            match Running::start(command, self.workspace.path(), &self.commands, is_outside) {
                Ok(running) => running.finish(limit, abort).await,
                Err(error) => Output::failed(format!(
                    "the command cannot be started: {error}; a very long one can be written to a file and run from there"
                )),
            }
        })
    }
}

fn arguments(input: &Value) -> Result<(&str, Duration, bool), Output> {
    let arguments = Arguments::new(input, &["command", "timeout", "outside"])?;
    let command = arguments.text("command")?;
    if command.trim().is_empty() {
        return Err(Output::failed("the argument `command` must not be empty"));
    }
    let limit = arguments.positive("timeout")?.map_or(DEFAULT_LIMIT, |seconds| {
        // What is too long for a duration is too long for a command.
        Duration::try_from_secs_f64(seconds).unwrap_or(MAX_LIMIT).min(MAX_LIMIT)
    });
    Ok((command, limit, arguments.flag("outside")?))
}

/// Why a command is no longer waited for.
enum End {
    Exited(ExitStatus),
    Background(ExitStatus),
    TimedOut,
    Aborted(Duration),
    Lost(io::Error),
}

/// A command that runs.
struct Running {
    // Dropped first: while the shell is not reaped, the group's number is its own.
    group: Group,
    child: Child,
    speech: Speech,
    began: Instant,
    is_confined: bool,
}

impl Running {
    fn start(command: &str, folder: &Path, commands: &Commands, is_outside: bool) -> io::Result<Self> {
        let sandbox = commands.sandbox.as_ref().filter(|_| !is_outside);
        let is_confined = sandbox.is_some();
        let shell = |name: &str| (name.into(), vec!["-c".into(), "--".into(), command.into()]);
        let (child, pipe) = match sandbox {
            Some(sandbox) => spawn(sandbox.command_line(folder, command)?, folder, commands)?,
            None => match spawn(shell("bash"), folder, commands) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => spawn(shell("sh"), folder, commands)?,
                other => other?,
            },
        };
        let speech = Speech { pipe: Some(pipe), piece: vec![0; PIECE], capture: Capture::new(MAX_OUTPUT) };
        Ok(Self { group: Group::of(&child), child, speech, began: Instant::now(), is_confined })
    }

    async fn finish(mut self, limit: Duration, abort: &CancellationToken) -> Output {
        let (note, is_error) = match self.wait(limit, abort).await {
            End::Exited(status) => (told(status), !status.success()),
            End::Background(status) => {
                let left = "a process in the background still holds the output; what it prints from now on is lost";
                (format!("{}\n[{left}]", told(status)), !status.success())
            }
            End::TimedOut => (format!("[timed out after {} s]", limit.as_secs_f64()), true),
            End::Aborted(after) => (format!("[aborted by the user after {} s]", after.as_secs()), true),
            End::Lost(error) => (format!("[the command was lost: {error}]"), true),
        };
        let mut text = self.speech.capture.into_text();
        let is_refused = is_error && self.is_confined && REFUSALS.iter().any(|refusal| text.contains(refusal));
        let note = if is_refused { format!("{note}\n[{IN_SANDBOX}]") } else { note };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Output { text: text + &note, is_error }
    }

    /// Listens until the command has ended, or ends it.
    async fn wait(&mut self, limit: Duration, abort: &CancellationToken) -> End {
        let timer = tokio::time::sleep(limit);
        tokio::pin!(timer);
        let status = loop {
            let end = tokio::select! {
                biased;
                () = abort.cancelled() => End::Aborted(self.began.elapsed()),
                () = &mut timer => End::TimedOut,
                // Before the output: a process in the background may print without end.
                ended = self.child.wait() => match ended {
                    Ok(status) => break status,
                    Err(error) => End::Lost(error),
                },
                () = self.speech.listen(), if self.speech.pipe.is_some() => continue,
            };
            self.stop().await;
            return end;
        };
        self.group.forget();
        match tokio::time::timeout(DRAIN, self.speech.listen_to_the_end()).await {
            Ok(()) => End::Exited(status),
            Err(_) => End::Background(status),
        }
    }

    /// Ends the whole group, and listens on the way.
    async fn stop(&mut self) {
        let ended = self.group.end(&mut self.child);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                biased;
                () = &mut ended => break,
                () = self.speech.listen(), if self.speech.pipe.is_some() => {}
            }
        }
        if tokio::time::timeout(DRAIN, self.speech.listen_to_the_end()).await.is_err() {
            self.speech.capture.push(b"\n[a process that left the group may still run]");
        }
    }
}

/// What a command says.
struct Speech {
    pipe: Option<Receiver>,
    piece: Vec<u8>,
    capture: Capture,
}

impl Speech {
    /// Takes a piece of it; the pipe is gone at its end.
    async fn listen(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(&mut self.piece).await {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(read) => self.capture.push(self.piece.get(..read).unwrap_or_default()),
        }
    }

    /// Takes all of it. Whoever holds the other end may do so for ever: the caller sets a bound.
    async fn listen_to_the_end(&mut self) {
        while self.pipe.is_some() {
            self.listen().await;
        }
    }
}

fn spawn(
    (program, arguments): (OsString, Vec<OsString>),
    folder: &Path,
    commands: &Commands,
) -> io::Result<(Child, Receiver)> {
    // One pipe for both, so that what is written first is read first.
    let (reader, writer) = io::pipe()?;
    let receiver = Receiver::from_owned_fd(reader.into())?;
    let mut shell = Command::new(program);
    shell.args(arguments).current_dir(folder).process_group(0).kill_on_drop(true);
    shell.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    shell.env_clear().envs(commands.environment(std::env::vars_os()));
    Ok((shell.spawn()?, receiver))
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("[exit code {code}]"),
        (None, Some(signal)) => format!("[ended by signal {signal}{}]", group::signal_name(signal)),
        (None, None) => "[ended]".to_owned(),
    }
}
