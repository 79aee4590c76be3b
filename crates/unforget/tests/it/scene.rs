//! A scene for the chat: a home, perhaps a server that speaks the API, and the environment of the program.
//!
//! Nothing of the tester's own environment gets in, and what the program remembers is read from its files, not asked
//! of the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;
use unforget_testkit::api::{FakeApi, Options, Reply};

use crate::support::{Home, Said};
use crate::terminal::{PATIENCE, Terminal};

/// The key of the server; it must be seen nowhere.
pub(crate) const SECRET: &str = "sk-ant-nobody-sees-this";

/// A home, a server, an environment.
pub(crate) struct Scene {
    pub(crate) home: Home,
    api: Option<FakeApi>,
    variables: Vec<(&'static str, String)>,
}

impl Scene {
    /// Without a key: the built-in model answers.
    pub(crate) fn offline() -> Self {
        let home = Home::new();
        std::fs::create_dir(home.path("work")).unwrap();
        Self { home, api: None, variables: Vec::new() }
    }

    /// With a server.
    pub(crate) fn online() -> Self {
        let api = FakeApi::start(Options { key: Some(SECRET.to_owned()), ..Options::default() }).unwrap();
        let scene = Self::offline().with("ANTHROPIC_BASE_URL", &api.url()).with("ANTHROPIC_API_KEY", SECRET);
        Self { api: Some(api), ..scene }
    }

    /// The same with another variable, or another value of it.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.to_owned()));
        self
    }

    pub(crate) fn api(&self) -> &FakeApi {
        self.api.as_ref().unwrap()
    }

    /// The whole environment of the program.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let place = |name: &str| self.home.path(name).display().to_string();
        let mut all = vec![
            ("HOME", place("person")),
            ("XDG_CONFIG_HOME", place("config")),
            ("XDG_DATA_HOME", place("data")),
            ("XDG_STATE_HOME", place("state")),
            ("UNFORGET_HOME", place("home")),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
        ];
        all.extend(self.variables.iter().cloned());
        all
    }

    /// The program in a terminal.
    pub(crate) fn start(&self, arguments: &[&str]) -> Terminal {
        Terminal::start(arguments, &self.environment(), &self.work())
    }

    /// The chat in a terminal, waiting for words.
    pub(crate) fn chat(&self) -> Terminal {
        let mut terminal = self.start(&[]);
        terminal.prompt();
        terminal
    }

    /// The program without a terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unforget"));
        command.env_clear().envs(self.environment()).current_dir(self.work()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.feed(arguments, "")
    }

    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Said {
        let file = self.home.write("stdin", input);
        said(self.command(arguments).stdin(std::fs::File::open(file).unwrap()).output().unwrap())
    }

    /// The folder that tools work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.path("work")
    }

    /// A file of the folder that tools work in; empty if there is none.
    pub(crate) fn worked(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    /// The ids of the sessions, oldest first.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let names = crate::support::files(&self.home.path("home/agents/main/sessions"));
        names.iter().filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect()
    }

    /// The records of the only session.
    pub(crate) fn records(&self) -> Vec<Value> {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        self.records_of(&sessions[0])
    }

    pub(crate) fn records_of(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.home.transcript(id)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the model was asked last.
    pub(crate) fn last_request(&self) -> Value {
        self.api().messages().last().unwrap().json()
    }

    /// A pipe in the folder of the tools. What a command writes into it arrives here, which tells how far it has come.
    pub(crate) fn bell(&self, name: &str) -> Bell {
        let path = self.work().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (sender, heard) = mpsc::channel();
        thread::spawn(move || sender.send(std::fs::read_to_string(path)));
        Bell(heard)
    }
}

/// Something that a command rings once.
pub(crate) struct Bell(Receiver<std::io::Result<String>>);

impl Bell {
    /// What was written into the pipe.
    pub(crate) fn rung(&self) -> String {
        self.0.recv_timeout(PATIENCE).expect("the command has not come so far").unwrap()
    }
}

pub(crate) fn said(output: std::process::Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// The records of a type.
pub(crate) fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

/// The words of the user that are in a transcript.
pub(crate) fn user_words(records: &[Value]) -> Vec<&str> {
    of_type(records, "user").iter().map(|record| record["content"].as_str().unwrap()).collect()
}

/// The states of the turns.
pub(crate) fn turns(records: &[Value]) -> Vec<&str> {
    of_type(records, "turn").iter().map(|record| record["state"].as_str().unwrap()).collect()
}

/// All results of tools that a request holds, as text.
pub(crate) fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "tool_result").map(|block| block["content"].to_string()).collect()
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub(crate) fn runs(process: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(process.trim()).join("stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// An error as the server tells it.
pub(crate) fn refusal(status: u16, kind: &str, message: &str) -> Reply {
    Reply::Error { status, kind: kind.to_owned(), message: message.to_owned(), retry_after: None }
}
