//! Sessions of Claude Code, kept and restored, with the real program: what it says afterwards is the proof.
//!
//! No test here believes that a file is right because it looks right. The real CLI writes a session, our binary keeps it, carries it away and
//! puts it somewhere else, and the real CLI goes on there: what it then sends to the server is what it knows. The server is our own
//! and repeats what it was told (`[[recall]]`). Two versions of the CLI are installed by `cargo xtask test`; where there is none, each test says
//! loudly that it was skipped.
//!
//! A [`World`] is a server and a folder; a [`Host`] is a machine in it, with a home, a store and a directory of Claude Code of its own, and nothing of
//! the tester's. Where a test has to act in the middle of something, a gate says when, or a file is looked at until it is as it should be.

mod apart;
mod ending;
mod examined;
mod interactive;
mod journey;
mod listed;
mod restoring;
mod running;
mod same_request;
mod saving;
mod tail;
mod watching;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use unforget_testkit::api::{FakeApi, Options};
use unforget_testkit::claude::{Answer, Claude, Finished, Machine, Running};

use crate::elsewhere::Place;
use crate::support::{Said, files};

pub(crate) const UNFORGET: &str = env!("CARGO_BIN_EXE_unforget");
/// No wait is longer than this; what is waited for takes a second or two.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that another program changes.
const GLANCE: Duration = Duration::from_millis(20);
/// Is in a transcript when a call of a tool is.
pub(crate) const CALL: &str = "\"type\":\"tool_use\"";

/// A server that answers, and a folder for machines.
pub(crate) struct World {
    pub(crate) claude: Claude,
    pub(crate) api: FakeApi,
    folder: TempDir,
}

impl World {
    /// With the newest version; none if it is not installed.
    pub(crate) fn new() -> Option<Self> {
        Claude::latest().map(Self::of)
    }

    pub(crate) fn of(claude: Claude) -> Self {
        let api = FakeApi::start(Options::default()).unwrap();
        Self { claude, api, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// A machine that nothing has happened on yet.
    pub(crate) fn host(&self, name: &str) -> Host {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        let machine = Machine::new(&self.claude, &folder, &self.api.url());
        Host { machine, store: folder.join("store"), variables: Vec::new() }
    }

    /// One that knows how to reach a place.
    pub(crate) fn host_at(&self, name: &str, place: &Place) -> Host {
        Host { variables: place.variables.clone(), ..self.host(name) }
    }
}

/// A server that refused something was asked wrongly by a session that we put together.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let refused = self.api.refusals().iter().map(|said| format!("{:?}", said.refusal)).collect::<Vec<_>>();
            // In a terminal the program also asks for something that our server does not know, and goes on without.
            let refused: Vec<String> = refused.into_iter().filter(|said| !said.contains("\"safeguards:")).collect();
            assert_eq!(refused, Vec::<String>::new());
        }
    }
}

/// A machine.
pub(crate) struct Host {
    pub(crate) machine: Machine,
    /// `UNFORGET_HOME`.
    pub(crate) store: PathBuf,
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Host {
    /// The binary, in the folder that Claude Code works in.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(UNFORGET);
        command.args(args).current_dir(&self.machine.cwd).stdin(Stdio::null()).env_clear();
        let theirs = self.machine.command::<&str>(&[]);
        command.envs(theirs.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("UNFORGET_HOME", &self.store).env("TZ", "UTC");
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        crate::scene::said(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> Said {
        let said = self.run(args);
        assert_eq!(said.code, 0, "unforget {args:?}: {said:?}");
        said
    }

    /// `unforget claude run OURS -- claude -p PROMPT THEIRS`, under way.
    pub(crate) fn start(&self, ours: &[&str], prompt: &str, theirs: &[&str]) -> Running {
        let mut args = vec!["claude", "run"];
        args.extend(ours);
        args.extend(["--", self.machine.claude.program().to_str().unwrap(), "-p", prompt]);
        args.extend(["--output-format", "json", "--allowedTools", "Bash,Read,Write,Agent,Task"]);
        args.extend(theirs);
        Running::start(&mut self.command(&args))
    }

    /// The same, to its end.
    pub(crate) fn through(&self, ours: &[&str], prompt: &str) -> Finished {
        self.start(ours, prompt, &[]).wait()
    }

    /// The same, which has to end well; returns what the CLI answered.
    #[track_caller]
    pub(crate) fn ask(&self, ours: &[&str], prompt: &str) -> Answer {
        let finished = self.through(ours, prompt);
        let answer = finished.answer().filter(|answer| finished.status.success() && !answer.is_error);
        answer.unwrap_or_else(|| panic!("{ours:?} {prompt}: {finished:?}"))
    }

    /// The transcript of a session in Claude Code's directory.
    #[track_caller]
    pub(crate) fn transcript(&self, id: &str) -> Vec<u8> {
        fs::read(self.machine.transcript(id).expect("the session is there")).unwrap()
    }

    /// What is kept of a session here; nothing if it is not.
    pub(crate) fn kept(&self, id: &str) -> String {
        fs::read_to_string(self.store.join(format!("agents/claude/sessions/{id}.jsonl"))).unwrap_or_default()
    }

    /// The files of a session besides its transcript, by name.
    pub(crate) fn parts(&self, id: &str) -> Vec<(String, Vec<u8>)> {
        let folder = self.machine.transcript(id).expect("the session is there").with_extension("");
        // What the program was about to put in place when it was killed is no part of the session yet.
        let names = files(&folder).into_iter().filter(|name| !name.contains(".tmp."));
        names.map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
    }

    /// The process of Claude Code that has a session open.
    pub(crate) fn writer(&self, id: &str) -> u32 {
        let live = self.machine.live();
        let (name, _) = live.iter().find(|(_, text)| text.contains(id)).expect("someone has the session");
        name.strip_suffix(".json").unwrap().parse().unwrap()
    }

    /// How many sessions wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        files(&self.store.join("outbox")).len()
    }
}

/// Looks until there is something, but not for ever.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Some(found) => return found,
            None if Instant::now() < deadline => std::thread::sleep(GLANCE),
            None => panic!("{what}: not in {PATIENCE:?}"),
        }
    }
}

/// Ends a process as a power cut would.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A new session on a machine, without our binary; returns its id.
pub(crate) fn session(host: &Host, prompt: &str) -> String {
    host.machine.ask(prompt, &[]).session_id
}

/// The records of a transcript.
pub(crate) fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares two transcripts line by line, because all of both is too long to be read.
#[track_caller]
pub(crate) fn assert_same_lines(one: &[u8], other: &[u8], what: &str) {
    if one == other {
        return;
    }
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    let short = |line: &str| line.chars().take(150).collect::<String>();
    let only = |these: &str, those: &str| {
        let those: Vec<&str> = those.lines().collect();
        these
            .lines()
            .enumerate()
            .filter(|(_, line)| !those.contains(line))
            .map(|(at, line)| format!("{at}: {}", short(line)))
            .collect::<Vec<_>>()
    };
    let (left, right) = (only(&one, &other), only(&other, &one));
    panic!(
        "{what}: {} and {} lines; only here {left:#?}, only there {right:#?}",
        one.lines().count(),
        other.lines().count()
    );
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    for name in files(from) {
        fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

#[test]
fn every_file_of_the_folder_is_a_module() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/claude");
    let forgotten = unforget_testkit::modules::forgotten(&folder, include_str!("claude.rs")).unwrap();
    assert!(forgotten.is_empty(), "not part of the tests: {forgotten:?}");
}
