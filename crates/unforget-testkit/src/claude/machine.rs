//! A place where the CLI runs: its configuration, the folder it works in, and the server it talks to.
//!
//! Two machines with one folder to work in and two configurations are what moving a session is about; so are two
//! folders with one configuration. The environment is cleared: a key, a proxy or a setting of the developer must
//! neither change a test nor be used by it. Whoever makes a machine owns its folders.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Answer, Claude, PATIENCE, Running};

/// It is not a key, and the server takes any.
const KEY: &str = "sk-ant-offline-dummy";
const QUIET: &[&str] = &[
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
];
/// Between two looks at a file that another program writes.
const GLANCE: Duration = Duration::from_millis(10);
/// What every prompt may do without being asked.
const ALLOWED: &str = "Bash,Read,Write,Agent,Task";

/// Where the CLI runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The version that runs.
    pub claude: Claude,
    /// `CLAUDE_CONFIG_DIR`.
    pub config: PathBuf,
    /// The folder to work in; it decides where transcripts are.
    pub cwd: PathBuf,
    /// `HOME`, so that the developer's is left alone.
    pub home: PathBuf,
    /// `ANTHROPIC_BASE_URL`.
    pub url: String,
    /// More variables, for what only they can switch on.
    pub variables: Vec<(String, String)>,
}

impl Machine {
    /// Makes a machine with its folders below this one, which must be there.
    pub fn new(claude: &Claude, folder: &Path, url: &str) -> Self {
        // The CLI resolves links before it names a project after a folder.
        let folder = folder.canonicalize().unwrap();
        let machine = Self {
            claude: claude.clone(),
            config: folder.join("config"),
            cwd: folder.join("app"),
            home: folder.join("home"),
            url: url.to_owned(),
            variables: Vec::new(),
        };
        machine.make_folders();
        machine
    }

    /// The same with another configuration: another computer with the same checkout.
    pub fn with_config(&self, config: &Path) -> Self {
        let other = Self { config: config.to_owned(), ..self.clone() };
        other.make_folders();
        other
    }

    /// The same with another folder to work in.
    pub fn with_cwd(&self, cwd: &Path) -> Self {
        fs::create_dir_all(cwd).unwrap();
        Self { cwd: cwd.canonicalize().unwrap(), ..self.clone() }
    }

    fn make_folders(&self) {
        for folder in [&self.config, &self.cwd, &self.home] {
            fs::create_dir_all(folder).unwrap();
        }
    }

    /// The program with its environment, and nothing to read from.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(self.claude.program());
        command.args(arguments).current_dir(&self.cwd).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &self.home).env("CLAUDE_CONFIG_DIR", &self.config);
        command.env("ANTHROPIC_BASE_URL", &self.url).env("ANTHROPIC_API_KEY", KEY);
        command.envs(QUIET.iter().map(|name| (name, "1")));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts to answer a prompt.
    pub fn spawn(&self, prompt: &str, arguments: &[&str]) -> Running {
        let mut all = vec!["-p", prompt, "--output-format", "json", "--allowedTools", ALLOWED];
        all.extend(arguments);
        Running::start(&mut self.command(&all))
    }

    /// Answers a prompt.
    pub fn ask(&self, prompt: &str, arguments: &[&str]) -> Answer {
        let finished = self.spawn(prompt, arguments).wait();
        finished.answer().unwrap_or_else(|| panic!("{prompt}: the CLI did not answer: {finished:?}"))
    }

    /// Answers a prompt in a session that is there.
    pub fn resume(&self, session: &str, prompt: &str) -> Answer {
        self.ask(prompt, &["--resume", session])
    }

    /// The transcript of a session, wherever it is filed.
    pub fn transcript(&self, session: &str) -> Option<PathBuf> {
        let projects = fs::read_dir(self.config.join("projects")).ok()?;
        let mut places = projects.flatten().map(|project| project.path().join(format!("{session}.jsonl")));
        places.find(|place| place.is_file())
    }

    /// Waits until the transcript of a session is as it should be, but not for ever, and returns it.
    ///
    /// The CLI acts first and writes a moment later, and nothing but the file tells when it has.
    pub fn wait_for(&self, session: &str, is_there: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let lines = self.transcript(session).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
            if is_there(&lines) {
                return lines;
            }
            thread::sleep(GLANCE);
        }
        panic!("the transcript of {session} did not become what it should in {PATIENCE:?}")
    }

    /// What the CLI says of its own running processes: the files of `sessions/`, by name.
    pub fn live(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.config.join("sessions")).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "json"));
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        files.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path()))).collect()
    }
}
