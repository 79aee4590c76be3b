//! Who takes part, and the conversation with one of them: a line there, a line back.
//!
//! A contestant that does not start, dies or falls silent is not the end of the run: every question has an answer, and "it is
//! missing, because" is one.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use crate::install::Peers;
use crate::options::Options;
use crate::{Result, context, serve};

/// Longest wait for an answer: taking over a large store is slow for some.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// What a contestant is measured as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Bare,
    Ours,
    Peer,
}

/// One who takes part.
#[derive(Debug, Clone)]
pub(crate) struct Entrant {
    /// As in the table.
    pub(crate) name: &'static str,
    /// As on the command line, and as a folder.
    pub(crate) slug: &'static str,
    pub(crate) side: Side,
    /// Whether a turn is on the disk when it says so.
    pub(crate) is_durable: bool,
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Everybody who takes part in this run.
pub(crate) fn entrants(options: &Options, peers: &Peers) -> Result<Vec<Entrant>> {
    let here = context(std::env::current_exe(), "this program")?;
    let own = |name, slug, side, contestant: &str, is_durable: bool| {
        let mut arguments: Vec<OsString> = serve::arguments(contestant).into_iter().map(OsString::from).collect();
        arguments.extend((!is_durable).then(|| OsString::from("--unsynced")));
        Entrant { name, slug, side, is_durable, program: here.clone(), arguments }
    };
    let script = |name, slug, file: &str, is_durable: bool, more: &[&str]| {
        let mut arguments = vec![peers.scripts.join(file).into_os_string()];
        arguments.extend(more.iter().map(OsString::from));
        Entrant { name, slug, side: Side::Peer, is_durable, program: peers.python.clone(), arguments }
    };
    let pi = Entrant {
        program: PathBuf::from("node"),
        arguments: vec![
            // The largest session alone takes pi more memory than node allows itself.
            "--max-old-space-size=8192".into(),
            peers.scripts.join("pi.mjs").into(),
            "--modules".into(),
            peers.modules.clone().into(),
        ],
        ..script("pi SessionManager", "pi", "pi.mjs", false, &[])
    };
    let mut all = vec![
        own("bare", "bare", Side::Bare, "bare", true),
        own("unforget", "ours", Side::Ours, "ours", true),
        own("bare, no sync", "bare-unsynced", Side::Bare, "bare", false),
        own("unforget, no sync", "ours-unsynced", Side::Ours, "ours", false),
        script("OpenAI SQLiteSession", "openai", "openai_agents.py", true, &[]),
        script("LangGraph SqliteSaver", "langgraph", "langgraph_sqlite.py", true, &[]),
        script("tutorial + fsync", "tutorial-fsync", "tutorial.py", true, &["--fsync"]),
        script("tutorial", "tutorial", "tutorial.py", false, &[]),
        script("Strands FileSessionManager", "strands", "strands_file.py", false, &[]),
        pi,
    ];
    all.retain(|entrant| entrant.side != Side::Peer || options.wants_peer(entrant.slug.trim_end_matches("-fsync")));
    Ok(all)
}

impl Entrant {
    /// The command that starts it.
    pub(crate) fn command(&self, work: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--work").arg(work);
        command
    }
}

/// What a contestant answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) seconds: Option<f64>,
    /// By how many bytes the process grew at most.
    pub(crate) peak: Option<u64>,
    pub(crate) count: Option<u64>,
    /// Why there is no figure.
    pub(crate) trouble: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) sync: Option<String>,
}

impl Reply {
    pub(crate) fn trouble(why: impl Into<String>) -> Self {
        Self { trouble: Some(why.into()), ..Self::default() }
    }

    fn read(line: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return Self::trouble("it answered no JSON") };
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        Self {
            seconds: value.get("seconds").and_then(Value::as_f64),
            peak: number("peak"),
            count: number("count"),
            trouble: text("missing").or_else(|| text("error")),
            version: text("version"),
            sync: text("sync"),
        }
    }
}

/// A contestant that runs, or the reason why it does not.
pub(crate) struct Contestant {
    pub(crate) entrant: Entrant,
    about: Reply,
    running: std::result::Result<Running, String>,
}

struct Running {
    child: Child,
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Contestant {
    /// Starts it and waits until it is ready: imports are no part of any figure but W6.
    pub(crate) fn start(entrant: &Entrant, work: &Path, turns: &Path) -> Self {
        let running = Running::start(entrant, work, turns);
        let mut contestant = Self { entrant: entrant.clone(), about: Reply::default(), running };
        contestant.about = contestant.ask(&serde_json::json!({ "op": "hello" }));
        if let Some(why) = &contestant.about.trouble {
            contestant.running = Err(why.clone());
        }
        contestant
    }

    /// Its version and when it syncs, or why it does not run.
    pub(crate) fn about(&self) -> String {
        let Reply { version, sync, trouble, .. } = &self.about;
        match trouble {
            Some(why) => format!("missing: {why}"),
            None => format!("{}; syncs: {}", version.as_deref().unwrap_or("?"), sync.as_deref().unwrap_or("?")),
        }
    }

    /// Asks something and waits for the answer.
    pub(crate) fn ask(&mut self, request: &Value) -> Reply {
        let running = match &mut self.running {
            Ok(running) => running,
            Err(why) => return Reply::trouble(why.clone()),
        };
        match running.ask(request) {
            Ok(line) => Reply::read(&line),
            Err(why) => {
                self.running = Err(why.clone());
                Reply::trouble(why)
            }
        }
    }
}

impl Running {
    fn start(entrant: &Entrant, work: &Path, turns: &Path) -> Result<Self> {
        context(std::fs::create_dir_all(work), work.display())?;
        let mut command = entrant.command(work);
        command.arg("--turns").arg(turns).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = context(command.spawn(), "does not start")?;
        let (questions, output) = (child.stdin.take(), child.stdout.take().ok_or("it has no output")?);
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            // Whoever asked may be gone, and then nobody wants the rest.
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Self { child, questions, answers })
    }

    fn ask(&mut self, request: &Value) -> Result<String> {
        let questions = self.questions.as_mut().ok_or("it has ended")?;
        context(writeln!(questions, "{request}").and_then(|()| questions.flush()), "it has ended")?;
        self.answers.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no answer within {} minutes", PATIENCE.as_secs() / 60),
            RecvTimeoutError::Disconnected => "it ended without an answer (see above)".to_owned(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of the questions is the end of a contestant; one that does not understand is stopped.
        drop(self.questions.take());
        if self.answers.recv_timeout(Duration::from_secs(5)) == Err(RecvTimeoutError::Timeout)
            && let Err(error) = self.child.kill()
        {
            eprintln!("note: a contestant could not be stopped: {error}");
        }
        if let Err(error) = self.child.wait() {
            eprintln!("note: a contestant's end was not seen: {error}");
        }
    }
}
