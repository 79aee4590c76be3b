//! Claude Code as an agent: the program runs as a child process, and its sessions are kept like any other.
//!
//! Claude Code owns the conversation while it runs. What we own is what it survives: a session is reserved, put in its place from the store, and
//! while the program writes its transcript every line is kept a moment later. So a turn may end in any way (an answer, an abort, a killed child, a
//! machine that is gone), and the next one goes on from what is kept. Nothing that matters is in the child, which is why it may be killed at any time.
//!
//! [`id`] keeps its names apart from ours, `place` is where it works for an actor, `child` the process, `wire` and `stream` what it says, `turn` one
//! turn, `kept` how far it is safe, `past` how far the turns of an earlier server came.
//!
//! A prompt gets a name that is made of the client's ([`PromptId`]), and the program writes it down with the words. One that is sent again is found in the
//! transcript: if it was answered, the answer is told again, and if it was not, the conversation goes on.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use unforget_agent::host::{Host, Notice};
use unforget_agent::model::BoxFuture;
use unforget_agent::turn::{Ended, State};
use unforget_claude::keep::agent;
use unforget_core::key::Key;
use unforget_core::layout::CLAUDE_AGENT;
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId;

use super::{Agent, Input, Said, Voice};
use crate::error::{Code, Problem, Result};
use crate::protocol::ClientId;
use crate::realm::{Name, Realm};

mod child;
pub mod id;
mod kept;
mod past;
mod place;
mod stream;
#[cfg(test)]
mod tests;
mod turn;
mod wire;

pub use id::{ClaudeSessionId, PromptId};

use child::Child;
use kept::{Kept, Last};
use place::Place;
use turn::{Over, Turn};
use wire::Verdict;

/// What is said to go on with a conversation that has stopped in the middle.
const GO_ON: &str = "Continue from where you left off.";
/// The program's own command for making a conversation smaller.
const COMPACT: &str = "/compact";
/// Its commands after which it is in another session, which nobody here has.
const ELSEWHERE: [&str; 6] = ["/clear", "/new", "/reset", "/resume", "/continue", "/branch"];
/// How a turn is spoken about with the program.
const SPEECH: [&str; 9] = [
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--include-partial-messages",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
];
/// How long it takes at most until the program has written what it said.
const SETTLING: Duration = Duration::from_secs(5);
/// How often a turn is begun: again if the program knew the words already.
const ATTEMPTS: usize = 2;

/// Claude Code.
#[derive(Debug, Clone)]
pub struct ClaudeCode {
    /// The program.
    pub program: PathBuf,
    /// More arguments: a model, tools that need no question. Which session it is, and how it is spoken with, is said here.
    pub arguments: Vec<String>,
    /// The folder to work in, for every session of every actor; without one each session has its own.
    pub folder: Option<PathBuf>,
    /// Where programs are looked for: its `PATH`.
    pub path: OsString,
    /// More variables: the key, the address of the API. The program and its tools can read them.
    pub environment: Vec<(String, SecretString)>,
}

impl Agent for ClaudeCode {
    fn kind(&self) -> &'static str {
        "claude-code"
    }

    fn name(&self) -> &str {
        CLAUDE_AGENT
    }

    fn begin<'a>(&'a self, realm: &'a Arc<Realm>, key: &'a Key, label: Option<&'a str>) -> BoxFuture<'a, Result<Name>> {
        Box::pin(async move {
            let id = ClaudeSessionId::new(realm.store().source())?;
            place::begin(realm, &id, key, label)?;
            Ok(Name { dir: agent(), id: id.kept()? })
        })
    }

    fn current(&self, realm: &Realm, key: &Key) -> Result<Option<(SessionId, Option<i64>)>> {
        place::current(realm, key)
    }

    fn has_begun(&self, realm: &Realm, id: &SessionId) -> bool {
        ClaudeSessionId::of_kept(id).is_some_and(|id| place::has_begun(realm, &id))
    }

    fn gather(&self, realm: &Realm, id: &SessionId) -> Result<()> {
        ClaudeSessionId::of_kept(id).map_or(Ok(()), |id| place::gather(realm, &id))
    }

    fn left_open(&self, reader: &LogReader) -> Result<Option<Said>> {
        Ok(past::find(reader, None)?.filter(|said| !said.is_ended))
    }

    fn find(&self, reader: &LogReader, id: &SessionId, client_id: &ClientId) -> Result<Option<Said>> {
        let Some(id) = ClaudeSessionId::of_kept(id) else { return Ok(None) };
        past::find(reader, Some(&PromptId::of(&id, client_id)))
    }

    fn open<'a>(&'a self, realm: &'a Arc<Realm>, name: &'a Name) -> BoxFuture<'a, Result<Box<dyn Voice>>> {
        Box::pin(async move {
            let id = ClaudeSessionId::of_kept(&name.id).filter(|_| name.dir == agent());
            let id = id.ok_or_else(Problem::no_session)?;
            let place = Place::open(realm, &id, self.folder.as_deref())?;
            let kept = Kept::open(&place, &id)?;
            let speaking = Speaking { agent: self.clone(), id, child: None, kept, place };
            Ok(Box::new(speaking) as Box<dyn Voice>)
        })
    }
}

/// A session that is open. The child comes first: it ends before the session is given back.
struct Speaking {
    agent: ClaudeCode,
    id: ClaudeSessionId,
    child: Option<Child>,
    kept: Kept,
    place: Place,
}

impl Voice for Speaking {
    fn turn<'a>(
        &'a mut self,
        input: &'a Input,
        host: &'a mut dyn Host,
        abort: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Ended>> {
        Box::pin(self.speak(input, host, abort))
    }

    fn compact<'a>(
        &'a mut self,
        focus: Option<&'a str>,
        host: &'a mut dyn Host,
        abort: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<u64>>> {
        Box::pin(self.shorten(focus, host, abort))
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Some(child) = self.child.take() {
                child.end().await;
            }
            if let Err(problem) = self.kept.save() {
                tracing::warn!(session = self.id.as_str(), %problem, "the last lines are not kept");
            }
        })
    }
}

impl Speaking {
    /// Runs a turn. The child belongs to it meanwhile: a turn that is dropped takes it along.
    async fn speak(&mut self, input: &Input, host: &mut dyn Host, abort: &CancellationToken) -> Result<Ended> {
        self.kept.save()?;
        let (mut prompt, mut words) = match input {
            Input::Words { text, .. } if leads_elsewhere(text) => {
                let message = "this command of Claude Code leads to another session; begin or attach to one instead";
                return Err(Problem::invalid(message));
            }
            Input::Words { text, client_id } => (PromptId::of(&self.id, client_id), text.as_str()),
            Input::GoOn if *self.kept.last() == Last::Nothing => {
                return Err(Problem::new(Code::Conflict, "nothing was said in this session yet"));
            }
            Input::GoOn => (PromptId::random(), GO_ON),
        };
        for _ in 0..ATTEMPTS {
            if self.kept.has_prompt(&prompt) {
                if !self.kept.is_newest(&prompt) {
                    let message =
                        "this prompt is in the conversation, which went on since; its answer is in the transcript";
                    return Err(Problem::new(Code::Conflict, message));
                }
                if let Last::Answered { text, stop_reason, usage } = self.kept.last().clone() {
                    return Ok(self.ended(State::Done, text, stop_reason, usage));
                }
                (prompt, words) = (PromptId::random(), GO_ON);
            }
            if let Some(ended) = self.converse(&prompt, words, host, abort).await? {
                return Ok(ended);
            }
        }
        Err(Problem::new(Code::Unavailable, "Claude Code takes the words for words that it knows; try again"))
    }

    /// Says words to a child and waits until it is over; none if it knew them already.
    async fn converse(
        &mut self,
        prompt: &PromptId,
        words: &str,
        host: &mut dyn Host,
        abort: &CancellationToken,
    ) -> Result<Option<Ended>> {
        if abort.is_cancelled() {
            return Ok(Some(self.ended(State::Aborted, String::new(), None, None)));
        }
        let mut child = match self.child.take().and_then(Child::if_alive) {
            Some(child) => child,
            None => Child::start(&mut self.command(), &self.place.mark)?,
        };
        let mut turn = Turn::new(&self.id, prompt, &mut child, &mut self.kept, host, abort);
        let over = turn.run(words).await;
        if let Over::Verdict(_) = over {
            turn.settle(SETTLING).await?;
        }
        let (said, usage) = (std::mem::take(&mut turn.words), turn.usage.take());
        match over {
            Over::Verdict(verdict) => {
                self.child = Some(child);
                self.judge(verdict, said, usage, abort).map(Some)
            }
            Over::Known => {
                self.child = Some(child);
                self.kept.save()?;
                Ok(None)
            }
            Over::Stuck => {
                self.bury(child, prompt, host).await?;
                Ok(Some(self.ended(State::Aborted, said, None, usage)))
            }
            Over::Gone(problem) => {
                self.bury(child, prompt, host).await?;
                Err(problem)
            }
        }
    }

    /// Lets the program make the conversation smaller; tells which line says what was before.
    async fn shorten(
        &mut self,
        focus: Option<&str>,
        host: &mut dyn Host,
        abort: &CancellationToken,
    ) -> Result<Option<u64>> {
        self.kept.save()?;
        if *self.kept.last() == Last::Nothing {
            return Ok(None);
        }
        let before = self.kept.compaction();
        // A command is one line.
        let focus = focus.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let words = format!("{COMPACT} {focus}");
        self.converse(&PromptId::random(), words.trim_end(), host, abort).await?;
        Ok(self.kept.compaction().filter(|n| Some(*n) != before))
    }

    /// What a verdict means.
    fn judge(&self, verdict: Verdict, said: String, usage: Option<String>, abort: &CancellationToken) -> Result<Ended> {
        let usage = usage.or(verdict.usage);
        if !verdict.is_error {
            return Ok(self.ended(State::Done, verdict.text, verdict.stop_reason, usage));
        }
        if abort.is_cancelled() {
            return Ok(self.ended(State::Aborted, said, None, usage));
        }
        if verdict.subtype == "error_max_turns" {
            return Ok(self.ended(State::OutOfSteps, said, verdict.stop_reason, usage));
        }
        tracing::warn!(session = self.id.as_str(), subtype = verdict.subtype, text = verdict.text, "a turn failed");
        let is_locked_out = matches!(verdict.status, Some(401 | 403)) || verdict.text.contains("/login");
        if is_locked_out {
            return Err(Problem::new(
                Code::Unavailable,
                "Claude Code is not logged in on this server, or its key is refused",
            ));
        }
        Err(Problem::new(Code::Model, format!("Claude Code could not answer: {}", verdict.text)))
    }

    fn ended(&self, state: State, text: String, stop_reason: Option<String>, usage: Option<String>) -> Ended {
        Ended { state, text, stop_reason, usage, n: self.kept.last_line().unwrap_or(0) }
    }

    /// Ends a child that is of no use any more, and keeps what it wrote.
    async fn bury(&mut self, child: Child, prompt: &PromptId, host: &mut dyn Host) -> Result<()> {
        child.kill().await;
        let is_more = self.kept.save()?;
        if let Some(n) = self.kept.last_line().filter(|_| is_more && self.kept.has_prompt(prompt)) {
            host.tell(Notice::Saved { n });
        }
        Ok(())
    }

    /// The program, with an environment that is made from nothing.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.agent.program);
        let how = if self.kept.is_resumable() { "--resume" } else { "--session-id" };
        command.args(SPEECH).args([how, self.id.as_str()]).args(&self.agent.arguments);
        command.current_dir(&self.place.folder).env_clear();
        command.env("LANG", "C.UTF-8").env("TERM", "dumb").env("DISABLE_AUTOUPDATER", "1");
        command.envs(self.agent.environment.iter().map(|(name, value)| (name, value.expose_secret())));
        // Whatever else is given, these are the actor's own.
        command.env("PATH", &self.agent.path).env("HOME", &self.place.home).env("TMPDIR", &self.place.temporary);
        command.env("CLAUDE_CODE_TMPDIR", &self.place.temporary).env("CLAUDE_CONFIG_DIR", &self.place.config);
        command
    }
}

/// Whether words are a command that leads to another session.
fn leads_elsewhere(words: &str) -> bool {
    words.split_whitespace().next().is_some_and(|first| ELSEWHERE.contains(&first))
}
