//! One turn of a conversation: from the user's words to the end of the answer, whatever happens in between.
//!
//! The order of writing is the promise. The user's words are on the disk before the model is asked; a response is on the disk
//! before one of its tools runs; a result is on the disk before it is sent; the end of the turn comes last. So a crash
//! anywhere leaves a log that tells what was done and what may have been done: a tool is never run twice for one
//! call, and a call whose result was never written is answered as "outcome unknown". Nothing is kept outside the log:
//! each request is built from it anew, live and after a restart alike.
//!
//! Appends wait for the disk. A turn is meant to run on a thread that may block, not among the workers of a server.

use tokio_util::sync::CancellationToken;
use unforget_core::history::{History, Role, UNKNOWN_OUTCOME};
use unforget_core::json;
use unforget_core::record::Draft;
use unforget_core::session::Session;

use crate::error::{Error, Result};
use crate::guard::{Agent, OVERFLOWS, Stated, View};
use crate::host::{Host, Notice};
use crate::model::assembly::Assembly;
use crate::model::{Limit, ModelError, Request};
use crate::tools::Toolbox;

mod calls;

/// What a call that the person did not allow, but passed over, is answered with.
const PASSED_OVER: &str = "[not run: the user went on without allowing it]";
/// What a call is answered with that was not run because the turn was aborted.
const ABORTED: &str = "[not run: the user aborted the turn]";
/// What a whole call of half an answer is answered with.
const BROKEN_OFF: &str = "[not run: the answer broke off]";
/// What stands for the user's words if there are none and the model had the last word, as when its answer broke off: a
/// request must not end with an answer.
const GO_ON: &str = "Go on.";
/// How often in a row a model may run out of room in the middle of its arguments.
const MAX_CUT_OFF: u32 = 3;

/// What a turn begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// Words of the user, which are saved first.
    Words(&'a str),
    /// Words that whoever sent them has a name for, which is written down with them: so they are known if they are sent again.
    Prompt {
        /// The words.
        words: &'a str,
        /// What the sender calls them.
        client_id: &'a str,
    },
    /// Nothing new: the conversation goes on from where it is, as after a failure or an open question.
    Nothing,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The model has said all it wanted.
    Done,
    /// The person had enough.
    Aborted,
    /// The model wanted to call tools more often than it may in one turn.
    OutOfSteps,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub state: State,
    /// What the model said last.
    pub text: String,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// JSON text of the usage of the last call.
    pub usage: Option<String>,
    /// The last record, which is on the disk.
    pub n: u64,
}

/// Runs one turn.
pub async fn run_turn(
    session: &mut Session,
    input: Input<'_>,
    agent: &Agent<'_>,
    tools: &Toolbox,
    host: &mut dyn Host,
    abort: &CancellationToken,
) -> Result<Ended> {
    let mut turn = Turn { agent, tools, host, abort, overflows: 0, cut_off: 0 };
    turn.begin(session, input).await?;
    let mut steps = 0;
    while steps < agent.settings.max_steps.max(1) {
        if let Some(ended) = turn.step(session).await? {
            return Ok(ended);
        }
        // Making room is no step of the model's, and has a bound of its own.
        steps += u32::from(turn.overflows == 0);
        if abort.is_cancelled() {
            return turn.aborted(session, &Assembly::default());
        }
    }
    let n = session.append(&[Draft::turn("done").text("reason", "max_steps")])?.end - 1;
    Ok(Ended { state: State::OutOfSteps, text: String::new(), stop_reason: None, usage: None, n })
}

struct Turn<'a, 'b> {
    agent: &'a Agent<'b>,
    tools: &'a Toolbox,
    host: &'a mut dyn Host,
    abort: &'a CancellationToken,
    overflows: u32,
    cut_off: u32,
}

/// How a call of the model went.
enum Answered {
    Whole(Assembly),
    Aborted(Assembly),
    Failed(Assembly, ModelError),
}

impl Turn<'_, '_> {
    /// Writes down what the turn begins with, and what an earlier one left open.
    async fn begin(&mut self, session: &mut Session, input: Input<'_>) -> Result<()> {
        let View { history, stated, .. } = self.agent.look(session)?;
        let mut drafts = Vec::new();
        if let Some(context) = self.changed_context(&stated) {
            drafts.push(context);
        }
        for (id, _) in &history.unanswered {
            drafts.push(failed_result(id, UNKNOWN_OUTCOME).raw("repair", "true"));
        }
        let said = match input {
            Input::Words(words) => Some(Draft::user(words)),
            Input::Prompt { words, client_id } => Some(Draft::user(words).text("client_id", client_id)),
            Input::Nothing => None,
        };
        let Some(said) = said else {
            if ends_with_answer(&history) {
                drafts.push(Draft::user(GO_ON).text("by", "rule"));
            }
            session.append(&drafts)?;
            return self.pending(session, &history).await;
        };
        for (id, _) in &history.pending {
            drafts.push(calls::approval(id, "denied", "person"));
            drafts.push(failed_result(id, PASSED_OVER));
        }
        drafts.push(said);
        let numbers = session.append(&drafts)?;
        self.host.tell(Notice::Saved { n: numbers.end - 1 });
        Ok(())
    }

    /// The context, if it is not the one in force. Compared as it is stated, not as it is sent: a prompt that has to be
    /// put right for the API would be another one each time.
    fn changed_context(&self, stated: &Stated) -> Option<Draft> {
        let system = &self.agent.settings.system;
        let wanted = Stated {
            system: (!system.trim().is_empty()).then(|| json::quote(system)),
            tools: Some(self.tools.definitions().to_owned()),
            model: Some(self.agent.model.name().to_owned()),
        };
        (wanted != *stated).then(|| {
            let mut draft = Draft::new("context");
            for (name, value) in [("system", &wanted.system), ("tools", &wanted.tools)] {
                draft = value.iter().fold(draft, |draft, value| draft.raw(name, value));
            }
            draft.text("model", self.agent.model.name())
        })
    }

    /// One call of the model and the tools that it asks for; tells when the turn has ended.
    async fn step(&mut self, session: &mut Session) -> Result<Option<Ended>> {
        let view = self.agent.prepare(session, self.host, self.abort).await?;
        if self.abort.is_cancelled() {
            return self.aborted(session, &Assembly::default()).map(Some);
        }
        let assembly = match self.ask(&view).await {
            Answered::Aborted(assembly) => return self.aborted(session, &assembly).map(Some),
            Answered::Failed(assembly, ModelError::Overflow { limit, message }) if assembly.is_empty() => {
                return self.overflowed(session, limit, message).await;
            }
            Answered::Failed(assembly, error) => return self.failed(session, &assembly, error),
            Answered::Whole(assembly) if is_window_exceeded(&assembly) => {
                let mut note =
                    Draft::new("error").text("message", "the context window was full before the answer ended");
                note = note.text("stop_reason", "model_context_window_exceeded").text("partial", &assembly.text());
                session.append(&[note])?;
                let message = "the answer did not fit behind the conversation".to_owned();
                return self.overflowed(session, Limit::Tokens, message).await;
            }
            Answered::Whole(assembly) => assembly,
        };
        self.overflows = 0;
        let calls = assembly.calls();
        let stop_reason = assembly.stop_reason.clone();
        let cut_off = assembly.cut_off();
        self.cut_off = if cut_off.is_empty() { 0 } else { self.cut_off + 1 };
        let goes_on = !calls.is_empty()
            || (!cut_off.is_empty() && self.cut_off <= MAX_CUT_OFF)
            || (stop_reason.as_deref() == Some("pause_turn") && assembly.waits_for_server());
        let mut drafts = assembly.drafts(&format!("msg-{}", session.head().unwrap_or(0)));
        drafts.push(self.turn_record(if goes_on { "running" } else { "done" }, &assembly));
        let n = session.append(&drafts)?.end - 1;
        self.host.tell(Notice::Saved { n });
        if !goes_on {
            let usage = assembly.usage.clone();
            return Ok(Some(Ended { state: State::Done, text: assembly.text(), stop_reason, usage, n }));
        }
        self.run_calls(session, &calls, calls::From::Model).await?;
        Ok(None)
    }

    /// Asks the model; what it says is shown as it comes.
    async fn ask(&mut self, view: &View) -> Answered {
        let settings = self.agent.settings;
        let thinking = settings.thinking.with(&view.history);
        let request = Request { history: &view.history, max_tokens: settings.max_tokens, thinking };
        self.host.tell(Notice::Asking);
        let mut assembly = Assembly::default();
        let host = &mut *self.host;
        let mut sink = |event| {
            assembly.feed(&event);
            host.tell(Notice::Model(&event));
        };
        let outcome = tokio::select! {
            biased;
            () = self.abort.cancelled() => None,
            outcome = self.agent.model.respond(&request, &mut sink) => Some(outcome),
        };
        match outcome {
            None => Answered::Aborted(assembly),
            Some(Ok(())) => Answered::Whole(assembly),
            Some(Err(error)) => Answered::Failed(assembly, error),
        }
    }

    async fn overflowed(&mut self, session: &mut Session, limit: Limit, message: String) -> Result<Option<Ended>> {
        if self.overflows >= OVERFLOWS {
            return self.failed(session, &Assembly::default(), ModelError::Overflow { limit, message });
        }
        self.agent.after_overflow(session, self.overflows, limit, self.host, self.abort).await?;
        self.overflows += 1;
        Ok(None)
    }

    fn aborted(&mut self, session: &mut Session, assembly: &Assembly) -> Result<Ended> {
        let mut drafts = self.kept(session, assembly, ABORTED);
        drafts.push(self.turn_record("aborted", assembly));
        let n = session.append(&drafts)?.end - 1;
        self.host.tell(Notice::Saved { n });
        let (text, usage) = (assembly.text(), assembly.usage.clone());
        Ok(Ended { state: State::Aborted, text, stop_reason: None, usage, n })
    }

    fn failed(&mut self, session: &mut Session, assembly: &Assembly, error: ModelError) -> Result<Option<Ended>> {
        let mut drafts = self.kept(session, assembly, BROKEN_OFF);
        drafts.push(Draft::new("error").text("message", &error.to_string()));
        drafts.push(self.turn_record("failed", assembly));
        let n = session.append(&drafts)?.end - 1;
        self.host.tell(Notice::Saved { n });
        Err(Error::Model(error))
    }

    /// What can be kept of half an answer; its calls are answered as not run.
    fn kept(&self, session: &Session, assembly: &Assembly, why: &str) -> Vec<Draft> {
        let mut drafts = assembly.drafts(&format!("msg-{}", session.head().unwrap_or(0)));
        drafts.extend(assembly.calls().iter().map(|call| failed_result(&call.id, why)));
        drafts
    }

    fn turn_record(&self, state: &str, assembly: &Assembly) -> Draft {
        let mut draft = Draft::turn(state).text("model", self.agent.model.name());
        if let Some(usage) = assembly.usage.as_deref() {
            draft = draft.raw("usage", usage);
        }
        match &assembly.stop_reason {
            Some(reason) => draft.text("stop_reason", reason),
            None => draft,
        }
    }
}

/// A result that says why there is none.
fn failed_result(id: &str, text: &str) -> Draft {
    Draft::tool_result(id, &json::quote(text)).raw("is_error", "true")
}

/// The fourth sign of an overflow: a response that says so.
fn is_window_exceeded(assembly: &Assembly) -> bool {
    assembly.stop_reason.as_deref() == Some("model_context_window_exceeded")
}

/// Whether the model had the last word, and the server has nothing to go on with by itself.
fn ends_with_answer(history: &History<'_>) -> bool {
    let last = history.messages.last().filter(|message| message.role == Role::Assistant);
    last.is_some_and(|message| !message.blocks.last().is_some_and(|block| json::has_type(block, &["server_tool_use"])))
}
