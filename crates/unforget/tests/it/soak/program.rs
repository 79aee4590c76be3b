//! The real binary: started, spoken to, listened to, killed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use unforget_testkit::api::FakeApi;

use crate::support::Home;

/// Longer than anything takes; a program that hangs fails the test instead of stopping it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Lines of output that may wait to be looked at; a program that says more waits.
const WAITING_LINES: usize = 100_000;

/// Where the program runs, and how.
pub(super) struct Setting {
    pub(super) home: Home,
    flags: Vec<String>,
    url: String,
    running: Receiver<String>,
}

impl Setting {
    pub(super) fn new(home: Home, api: &FakeApi, model: &str, window: u64) -> Self {
        let work = home.path("work");
        std::fs::create_dir_all(&work).unwrap();
        let fifo = work.join("running");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        // Open for both, so that neither side ever waits for the other to come.
        let fifo = OpenOptions::new().read(true).write(true).open(fifo).unwrap();
        let flags = [
            "--key=main:cli:soak".to_owned(),
            format!("--model={model}"),
            format!("--window={window}"),
            "--max-tokens=900".to_owned(),
            "--tool-output=6000".to_owned(),
            "--allow=bash,write_file".to_owned(),
            format!("--workspace={}", work.display()),
        ];
        Self { home, flags: flags.to_vec(), url: api.url(), running: lines(fifo) }
    }

    /// Waits until a command says that it runs.
    pub(super) fn wait_for_tool(&self, token: &str) {
        loop {
            match self.running.recv_timeout(PATIENCE) {
                Ok(line) if line == token => return,
                Ok(_) => {}
                Err(error) => panic!("the command {token} did not begin: {error}; {}", self.errors()),
            }
        }
    }

    /// The tokens of the commands that ran, in their order.
    pub(super) fn ran(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path("work/ran")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn errors_file(&self) -> PathBuf {
        self.home.path("stderr")
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.errors_file()).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command();
        command
            .args(arguments)
            .args(&self.flags)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("ANTHROPIC_API_KEY", "sk-fake")
            .env("ANTHROPIC_BASE_URL", &self.url)
            .env("HOME", self.home.path("person"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(self.errors_file()).unwrap());
        command
    }
}

/// A process of the program.
pub(super) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    errors: PathBuf,
    one_prompt: Option<OnePrompt>,
    saved: Option<u64>,
}

/// Marks a process that answers one prompt and ends.
struct OnePrompt;

impl Program {
    /// A chat that reads lines from a pipe.
    pub(super) fn in_a_pipe(setting: &Setting) -> Self {
        Self::start(setting, &["chat"], None)
    }

    /// A process that answers one prompt, with events.
    pub(super) fn for_one_prompt(setting: &Setting) -> Self {
        Self::start(setting, &["chat", "--prompt=-", "--json"], Some(OnePrompt))
    }

    fn start(setting: &Setting, arguments: &[&str], one_prompt: Option<OnePrompt>) -> Self {
        let mut child = setting.command(arguments).spawn().unwrap();
        let input = child.stdin.take();
        let output = lines(child.stdout.take().unwrap());
        Self { child, input, output, errors: setting.errors_file(), one_prompt, saved: None }
    }

    pub(super) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        // A prompt of its own is taken as it is, with a line feed if there is one.
        let end = if self.one_prompt.is_some() { "" } else { "\n" };
        if let Err(error) = write!(input, "{line}{end}") {
            panic!("the program does not listen: {error}; {}", self.errors());
        }
    }

    /// A prompt of its own ends with the input; a chat in a pipe is left open, so that it cannot end by itself.
    pub(super) fn finish_saying_if_one(&mut self) {
        if self.one_prompt.is_some() {
            self.input = None;
        }
    }

    /// Waits for a line of the output that is wanted.
    pub(super) fn wait_for_line(&mut self, wanted: impl Fn(&str) -> bool) {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix("{\"event\":\"saved\",\"n\":") {
                        self.saved = rest.trim_end_matches('}').parse().ok();
                    }
                    if wanted(&line) {
                        return;
                    }
                }
                Err(error) => panic!("what is waited for does not come: {error}; {}", self.errors()),
            }
        }
    }

    /// The newest record that was acknowledged, as far as the output was looked at.
    pub(super) fn saved(&self) -> Option<u64> {
        self.saved
    }

    /// Ends the input and waits until the program has ended; it must have met no trouble.
    pub(super) fn end(mut self) {
        self.input = None;
        let mut last = String::new();
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(line) => last = line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program hangs after `{last}`; {}", self.errors()),
            }
        }
        let status = self.child.wait().unwrap();
        let errors = self.errors();
        assert!(status.success() && !errors.contains("error"), "{status}: {errors}; last line: {last}");
    }

    /// Kills the program; false if it had ended before.
    pub(super) fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap().signal() == Some(9)
    }

    /// The largest resident size of the process so far, in kilobytes, where the system tells.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

/// Lines as they come, read by a thread of their own, so that whoever waits for one can give up.
fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(WAITING_LINES);
    std::thread::spawn(move || {
        let whole = BufReader::new(from).lines().map_while(Result::ok);
        for line in whole {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
