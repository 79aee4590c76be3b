//! One turn of Claude Code: from the words that it is told to its verdict, whatever it asks in between.
//!
//! What it says is told to the host as it comes, and what it writes is kept as it is written: first that the words are kept, then everything else.
//! A question waits for as long as a person takes; meanwhile the rest of what is said is put by, because the host has only one ear. A turn may
//! be as long as it likes, but a child that has ended, that never begins or that does not stop when it is told to is not waited for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::{Delta, Event};
use unforget_agent::tools::{Call, Output};

use super::child::{Child, Heard};
use super::id::{ClaudeSessionId, PromptId};
use super::kept::Kept;
use super::stream::Stream;
use super::wire::{self, Message, Said, Verdict};
use crate::error::{Code, Problem, Result};

/// Between two glances at what is written.
const GLANCE: Duration = Duration::from_millis(100);
/// How long a child may be silent before it says its first word.
const BEGINNING: Duration = Duration::from_secs(60);
/// How long a child has to stop when it is told to.
const GRACE: Duration = Duration::from_secs(5);
/// After which time a call that nobody was asked about must be running.
const RUNNING: Duration = Duration::from_secs(3);
/// How much is put by while a question is open; then the child has to wait.
const MAX_PUT_BY: usize = 1000;
/// What the model is told of a call that was not allowed, if nothing else was said.
const NOT_ALLOWED: &str = "The user does not want this to be done.";

/// How listening to a turn ended.
#[derive(Debug)]
pub(super) enum Over {
    /// As it should.
    Verdict(Verdict),
    /// The child knew the prompt already, and does nothing.
    Known,
    /// It was to stop, and did not.
    Stuck,
    /// Nothing more will come.
    Gone(Problem),
}

/// A turn that runs.
pub(super) struct Turn<'a> {
    id: &'a ClaudeSessionId,
    prompt: &'a PromptId,
    child: &'a mut Child,
    kept: &'a mut Kept,
    host: &'a mut dyn Host,
    abort: &'a CancellationToken,
    stream: Stream,
    calls: HashMap<String, Running>,
    put_by: VecDeque<Said>,
    /// The last line of the conversation that was said; it will be in the transcript.
    awaited: Option<String>,
    has_begun: bool,
    /// The last line that the host was told of.
    told: Option<u64>,
    /// What the model said in its last answer.
    pub(super) words: String,
    /// JSON text of the usage of the last answer.
    pub(super) usage: Option<String>,
}

/// A call that has no result yet.
struct Running {
    call: Call,
    seen: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Whether it has to be asked about is not known.
    Seen,
    Started(Instant),
    Denied,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        id: &'a ClaudeSessionId,
        prompt: &'a PromptId,
        child: &'a mut Child,
        kept: &'a mut Kept,
        host: &'a mut dyn Host,
        abort: &'a CancellationToken,
    ) -> Self {
        let told = kept.last_line();
        Self {
            id,
            prompt,
            child,
            kept,
            host,
            abort,
            stream: Stream::default(),
            calls: HashMap::new(),
            put_by: VecDeque::new(),
            awaited: None,
            has_begun: false,
            told,
            words: String::new(),
            usage: None,
        }
    }

    /// Tells the child the words, and listens until it is over.
    pub(super) async fn run(&mut self, words: &str) -> Over {
        // What was said since the turn before is nobody's; what was asked is refused.
        while let Some(said) = self.child.overheard() {
            if let Said::Ask { request, .. } = said
                && let Err(problem) = self.child.tell(&wire::deny(&request, NOT_ALLOWED)).await
            {
                return Over::Gone(problem);
            }
        }
        if let Err(problem) = self.child.tell(&wire::prompt(self.prompt, words)).await {
            return Over::Gone(problem);
        }
        self.listen().await
    }

    async fn listen(&mut self) -> Over {
        let (mut glances, mut is_aborting) = (glances(), false);
        let mut until = Some(Instant::now() + BEGINNING);
        loop {
            let said = match self.put_by.pop_front() {
                Some(said) => said,
                None => tokio::select! {
                    biased;
                    () = self.abort.cancelled(), if !is_aborting => {
                        (is_aborting, until) = (true, Some(Instant::now() + GRACE));
                        if self.child.tell(&wire::interrupt(&PromptId::random())).await.is_err() {
                            return Over::Stuck;
                        }
                        continue;
                    }
                    () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                        return if is_aborting { Over::Stuck } else { Over::Gone(silent()) };
                    }
                    heard = self.child.hear() => match heard {
                        Heard::Said(said) => said,
                        Heard::Ended(_) if is_aborting => return Over::Stuck,
                        Heard::Ended(problem) => return Over::Gone(problem),
                    },
                    _ = glances.tick() => {
                        self.look();
                        continue;
                    }
                },
            };
            if !is_aborting {
                until = None;
            }
            match self.take(said).await {
                Ok(None) => {}
                Ok(Some(over)) => return over,
                Err(_) if is_aborting => return Over::Stuck,
                Err(problem) => return Over::Gone(problem),
            }
        }
    }

    /// Takes what was said; tells if the turn is over by it.
    async fn take(&mut self, said: Said) -> Result<Option<Over>> {
        match said {
            Said::Began { session } => self.check(&session)?,
            Said::Asking => self.host.tell(Notice::Asking),
            Said::Retrying { attempt, of, wait, why } => {
                self.host.tell(Notice::Model(&Event::Retrying { attempt, of, wait, why }));
            }
            Said::Compacted => self.host.tell(Notice::Guard("Claude Code made the conversation smaller")),
            Said::Stream(event) => {
                if let Some(event) = self.stream.take(&event) {
                    self.say(&event);
                }
            }
            Said::Message(message) => self.note(message),
            Said::Ask { request, call, input } => self.ask(&request, call, &input).await?,
            Said::Request { request, subtype } => {
                tracing::debug!(subtype, "nobody here can answer that");
                self.child.tell(&wire::refuse(&request)).await?;
            }
            Said::Lifecycle { prompt, state } if prompt == self.prompt.as_str() => match state.as_str() {
                "started" => self.has_begun = true,
                "completed" | "cancelled" if !self.has_begun => return Ok(Some(Over::Known)),
                _ => {}
            },
            Said::Verdict(verdict) => {
                if let Some(session) = &verdict.session {
                    self.check(session)?;
                }
                let is_ours = verdict.prompts.is_empty() || verdict.prompts.iter().any(|id| id == self.prompt.as_str());
                return Ok(is_ours.then_some(Over::Verdict(verdict)));
            }
            Said::Lifecycle { .. } | Said::Withdrawn { .. } | Said::Other => {}
        }
        Ok(None)
    }

    /// Sees that it is the session that was meant.
    fn check(&self, session: &str) -> Result<()> {
        if session == self.id.as_str() {
            return Ok(());
        }
        tracing::error!(wanted = self.id.as_str(), got = session, "Claude Code answers with another session");
        Err(Problem::new(Code::Unavailable, "Claude Code answered in another session; nothing of it is shown"))
    }

    fn say(&mut self, event: &Event) {
        match event {
            Event::Started { .. } => self.words.clear(),
            Event::Delta { delta: Delta::Text(text), .. } => self.words.push_str(text),
            Event::Ended { usage, .. } => self.usage = Some(usage.clone()),
            Event::Retrying { .. } | Event::BlockStarted { .. } | Event::Delta { .. } | Event::BlockEnded { .. } => {}
        }
        self.host.tell(Notice::Model(event));
    }

    /// Takes note of calls and results.
    fn note(&mut self, message: Message) {
        if !message.is_below && message.uuid.is_some() {
            self.awaited = message.uuid;
        }
        if let Some(whole) = message.answer.filter(|_| !message.is_below) {
            for event in self.stream.take_whole(&whole) {
                self.say(&event);
            }
        }
        for call in message.calls {
            let id = call.id.clone();
            self.calls.entry(id).or_insert(Running { call, seen: Instant::now(), state: State::Seen });
        }
        for (id, output) in message.results {
            self.ended(&id, &output);
        }
    }

    fn ended(&mut self, id: &str, output: &Output) {
        let Some(running) = self.calls.remove(id) else { return };
        let took = match running.state {
            State::Started(at) => at.elapsed(),
            State::Denied => Duration::ZERO,
            State::Seen => {
                self.host.tell(Notice::ToolStarted(&running.call));
                running.seen.elapsed()
            }
        };
        self.host.tell(Notice::ToolEnded { call: &running.call, output, took });
    }

    /// Asks whether a call may run, and passes the answer on. One that nobody waits for any more is not answered.
    async fn ask(&mut self, request: &str, call: Call, input: &Value) -> Result<()> {
        let answer = match self.host.standing(&call) {
            Some(answer) => answer,
            None => match self.question(request, &call).await? {
                Some(answer) => answer,
                None => return Ok(()),
            },
        };
        let (state, response) = match answer {
            Answer::Allowed { .. } => (State::Started(Instant::now()), wire::allow(request, input)),
            Answer::Denied { reason, .. } => {
                (State::Denied, wire::deny(request, reason.as_deref().unwrap_or(NOT_ALLOWED)))
            }
        };
        self.child.tell(&response).await?;
        // One that was waited for long enough was taken for one that needs no question.
        let is_told = self.calls.get(&call.id).is_some_and(|known| matches!(known.state, State::Started(_)));
        if let State::Started(_) = state
            && !is_told
        {
            self.host.tell(Notice::ToolStarted(&call));
        }
        self.calls.insert(call.id.clone(), Running { call, seen: Instant::now(), state });
        Ok(())
    }

    /// Waits for a person's answer; none if the question was withdrawn or the turn is to end.
    async fn question(&mut self, request: &str, call: &Call) -> Result<Option<Answer>> {
        let Self { child, kept, host, abort, put_by, .. } = self;
        let mut glances = glances();
        let mut answer = host.approve(call);
        loop {
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(None),
                answer = &mut answer => return Ok(Some(answer)),
                heard = child.hear(), if put_by.len() < MAX_PUT_BY => match heard {
                    Heard::Said(Said::Withdrawn { request: which }) if which == request => return Ok(None),
                    Heard::Said(said) => put_by.push_back(said),
                    Heard::Ended(problem) => return Err(problem),
                },
                _ = glances.tick() => report(kept.glance()),
            }
        }
    }

    /// Keeps what is written, and tells what is known by now.
    fn look(&mut self) {
        report(self.kept.glance());
        self.tell_saved();
        for running in self.calls.values_mut() {
            if running.state == State::Seen && running.seen.elapsed() >= RUNNING {
                running.state = State::Started(running.seen);
                self.host.tell(Notice::ToolStarted(&running.call));
            }
        }
    }

    /// Tells how far everything is kept, once the words that began the turn are.
    fn tell_saved(&mut self) {
        let last = self.kept.last_line();
        if let Some(n) = last.filter(|_| self.kept.has_prompt(self.prompt) && last > self.told) {
            self.told = Some(n);
            self.host.tell(Notice::Saved { n });
        }
    }

    /// Waits until everything that was said is written and kept, for no longer than that; then keeps what there is. Lines are written in the
    /// order in which they are said, and a command of the program's own may have another name than the one it was given.
    pub(super) async fn settle(&mut self, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        let awaited = self.awaited.as_deref().unwrap_or(self.prompt.as_str());
        loop {
            self.kept.save()?;
            if self.kept.has(awaited) || Instant::now() >= until {
                break;
            }
            tokio::time::sleep(GLANCE / 5).await;
        }
        let last = self.kept.last_line();
        if let Some(n) = last.filter(|_| last > self.told) {
            self.told = Some(n);
            self.host.tell(Notice::Saved { n });
        }
        Ok(())
    }
}

fn glances() -> Interval {
    let mut glances = interval(GLANCE);
    glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
    glances
}

/// What cannot be kept now is tried again; what cannot be kept at the end of a turn fails it.
fn report(kept: Result<bool>) {
    if let Err(problem) = kept {
        tracing::warn!(%problem, "not kept yet");
    }
}

fn silent() -> Problem {
    Problem::new(Code::Unavailable, "Claude Code says nothing; the turn was given up")
}
