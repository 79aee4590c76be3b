//! The program itself, as a person starts it: whole commands, and the time to the first prompt.
//!
//! Here the start of the process is inside the clock. The environment is empty but for a home that holds nothing else, so that no
//! configuration of the machine is measured.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::contestant::{Entrant, Reply};
use crate::{Result, context};

/// Ends the prompt of the chat.
const PROMPT: &[u8] = b"] > ";
/// What an adapter prints when it could ask for the first line.
const PEER_PROMPT: &[u8] = b"> ";
const WINDOW: PtySize = PtySize { rows: 40, cols: 100, pixel_width: 0, pixel_height: 0 };
/// More than any start says.
const MOST_OUTPUT: usize = 1 << 20;
/// Exit code of a command line that was not understood.
const NOT_UNDERSTOOD: i32 = 2;

/// The program, with a store.
pub(crate) struct Program {
    path: PathBuf,
    home: PathBuf,
    empty: PathBuf,
}

impl Program {
    /// `empty` is a folder for everything that is not the store.
    pub(crate) fn new(path: &Path, home: &Path, empty: &Path) -> Result<Self> {
        context(std::fs::create_dir_all(empty), empty.display())?;
        Ok(Self { path: path.to_owned(), home: home.to_owned(), empty: empty.to_owned() })
    }

    /// Runs a command to its end; counts the lines that it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Reply {
        let mut command = Command::new(&self.path);
        command
            .arg("--home")
            .arg(&self.home)
            .args(arguments)
            .current_dir(&self.empty)
            .env_clear()
            .env("HOME", &self.empty);
        // A search that finds nothing says so, as grep does.
        let fine: &[i32] = if arguments.first() == Some(&"search") { &[0, 1] } else { &[0] };
        whole(&mut command, fine)
    }

    /// Starts the chat in a terminal and waits for its prompt.
    pub(crate) fn start(&self) -> Reply {
        self.prompt().unwrap_or_else(Reply::trouble)
    }

    fn prompt(&self) -> Result<Reply> {
        let pair = context(native_pty_system().openpty(WINDOW), "a terminal")?;
        let mut command = CommandBuilder::new(&self.path);
        command.arg("--home");
        command.arg(&self.home);
        command.args(["chat", "--model", "offline"]);
        command.env_clear();
        command.env("HOME", &self.empty);
        command.env("TERM", "xterm-256color");
        command.cwd(&self.empty);
        let mut output = context(pair.master.try_clone_reader(), "a terminal")?;
        let begun = Instant::now();
        let mut child = context(pair.slave.spawn_command(command), self.path.display())?;
        drop(pair.slave);
        let seen = until(&mut output, PROMPT);
        let seconds = begun.elapsed().as_secs_f64();
        if let Err(error) = child.kill() {
            eprintln!("note: the chat could not be stopped: {error}");
        }
        context(child.wait(), "wait")?;
        seen.map(|()| Reply { seconds: Some(seconds), ..Reply::default() })
    }
}

/// Runs a command to its end; any of the given exit codes is a success.
pub(crate) fn whole(command: &mut Command, good: &[i32]) -> Reply {
    let begun = Instant::now();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return Reply::trouble(format!("does not start: {error}")),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().next().unwrap_or_default();
    match output.status.code() {
        Some(code) if good.contains(&code) => {
            let count = output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
            Reply { seconds: Some(seconds), count: Some(count), ..Reply::default() }
        }
        Some(NOT_UNDERSTOOD) => Reply::trouble(format!("this build has no such command ({last})")),
        _ => Reply::trouble(format!("{}: {last}", output.status)),
    }
}

/// Starts a peer's adapter and waits for its prompt.
pub(crate) fn start_peer(entrant: &Entrant, work: &Path) -> Reply {
    let mut command = entrant.command(work);
    command.arg("--start").stdin(Stdio::null()).stdout(Stdio::piped());
    let begun = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Reply::trouble(format!("does not start: {error}")),
    };
    let seen = child.stdout.as_mut().map_or(Err("no output".to_owned()), |output| until(output, PEER_PROMPT));
    let seconds = begun.elapsed().as_secs_f64();
    match (seen, child.wait()) {
        (Ok(()), Ok(_)) => Reply { seconds: Some(seconds), ..Reply::default() },
        (Err(why), _) => Reply::trouble(why),
        (_, Err(error)) => Reply::trouble(error.to_string()),
    }
}

/// Reads until a text has come.
fn until(output: &mut impl Read, text: &[u8]) -> Result {
    let (mut seen, mut block) = (Vec::new(), [0; 4096]);
    while seen.len() < MOST_OUTPUT {
        let read = output.read(&mut block).unwrap_or(0);
        if read == 0 {
            break;
        }
        seen.extend_from_slice(&block[..read]);
        if memchr::memmem::find(&seen, text).is_some() {
            return Ok(());
        }
    }
    let end = String::from_utf8_lossy(&seen);
    Err(format!("no prompt came; the last words were {:?}", end.lines().last().unwrap_or_default()))
}
