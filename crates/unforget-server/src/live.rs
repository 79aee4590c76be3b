//! One session that is in use: its turns, one after the other, and those who watch.
//!
//! A [`Live`] session is loaded when somebody asks for it and let go when nobody does. Its task alone opens the transcript for writing; prompts wait in its
//! queue, and everybody who watches hears the same events. A connection is not part of it: prompts, answers to questions and aborts come from anywhere,
//! and when all connections are gone the turn goes on.
//!
//! What is remembered here is only what a file does not hold: the answer in the making, the open questions, which prompts are waiting. The state is
//! behind one lock that is never held across an `await`, and every event is sent while it is held: so whoever attaches sees the state at one moment and
//! then every event behind that moment, no more and no less.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Span;
use unforget_agent::host::Answer;
use unforget_core::reader::LogReader;
use unforget_core::session::{Follower, Position, Session};

use crate::agent::{Agent, Input, Said};
use crate::budget::Claim;
use crate::error::{Code, Problem, Result};
use crate::fleet::Hold;
use crate::ledger::Accepted;
use crate::protocol::{After, Attached, Called, ClientId, Interrupted, Kind, RunningTurn};
use crate::realm::{Name, Realm};
use crate::shared::Shared;
use crate::transcript;
use crate::transcript::lines::{self, Numbering};

pub mod event;
mod host;
mod prompts;
mod seen;
mod task;
mod viewer;

use event::Event;
pub(crate) use prompts::Recovered;
pub use prompts::Taken;
use seen::Seen;
pub use seen::Standing;
pub(crate) use task::run;
pub use viewer::{Gone, Told, Viewer};

/// A session that is in use.
pub struct Live {
    name: Name,
    realm: Arc<Realm>,
    agent: Arc<dyn Agent>,
    shared: Arc<Shared>,
    events: broadcast::Sender<Event>,
    state: Mutex<State>,
    /// That there is something to do.
    work: Notify,
    /// That a turn has ended.
    idle: Notify,
    /// That the server stops, and the turn goes on after it.
    stopping: CancellationToken,
    /// That the task has ended.
    finished: CancellationToken,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("actor", self.realm.actor()).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What is known of a live session that no file holds.
#[derive(Default)]
struct State {
    /// How far the transcript may be read.
    published: Position,
    /// Knows how far it is written while it is open here.
    writer: Follower,
    /// What waits to be done.
    queue: VecDeque<Job>,
    /// What is being done.
    turn: Option<Running>,
    seen: Seen,
    /// What says whether the words of a prompt are safe, until its turn has ended; with what the ledger calls it.
    saving: HashMap<ClientId, (String, prompts::Safe)>,
    questions: HashMap<String, (Arc<Called>, oneshot::Sender<Answer>)>,
    /// The last turn, if it never came to its end.
    interrupted: Option<Interrupted>,
    viewers: usize,
    /// Why nobody can come in any more.
    over: Option<Problem>,
    /// What says that no other server writes it, if there are others.
    hold: Option<Arc<Hold>>,
}

impl State {
    /// A prompt has come to its end, or was not taken. One that was sent under the same name since is another one.
    fn settle(&mut self, client_id: &ClientId, id: &str) {
        if self.saving.get(client_id).is_some_and(|(of, _)| of == id) {
            self.saving.remove(client_id);
        }
    }
}

/// Something to do, one at a time.
enum Job {
    Turn(Prompt),
    /// A change of the session itself.
    Edit(Change),
    Compact(Option<String>, oneshot::Sender<Result<Option<u64>>>),
}

/// Changes an open session, if there is one.
type Change = Box<dyn FnOnce(Result<&mut Session>) -> Answering + Send>;

/// Tells whoever asked for a change how it went, once it is known whether it was sent.
type Answering = Box<dyn FnOnce(Result<()>) + Send>;

/// A prompt on its way.
struct Prompt {
    /// What the client calls it; none if the conversation goes on by itself.
    client_id: Option<ClientId>,
    input: Input,
    /// Its line in the ledger.
    accepted: Option<Box<Accepted>>,
    /// Whether somebody may answer questions about it.
    is_attended: bool,
    /// Who waits for its words to be saved.
    saved: Option<oneshot::Sender<Result<u64>>>,
    /// What asked for it, for those who trace.
    span: Span,
    /// Its bytes, charged to its actor as long as it is here.
    _charge: Option<Claim>,
}

/// A turn that is running.
struct Running {
    client_id: Option<ClientId>,
    ledger: Option<String>,
    abort: CancellationToken,
    /// What came of the answer that is not in the transcript yet.
    partial: Vec<Partial>,
    tools: Vec<Arc<Called>>,
    /// Whether it is a turn, and not a compaction.
    is_turn: bool,
    /// Whether its words are in the transcript.
    is_said: bool,
}

impl Running {
    fn new(client_id: Option<ClientId>, ledger: Option<String>, abort: CancellationToken) -> Self {
        Self { client_id, ledger, abort, partial: Vec::new(), tools: Vec::new(), is_turn: true, is_said: false }
    }
}

/// A part of an answer in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Partial {
    block: usize,
    kind: Kind,
    text: String,
}

impl Live {
    pub(crate) fn new(name: Name, realm: Arc<Realm>, agent: Arc<dyn Agent>, shared: Arc<Shared>) -> Self {
        let (events, _) = broadcast::channel(shared.limits.events);
        Self {
            name,
            realm,
            agent,
            shared,
            events,
            state: Mutex::default(),
            work: Notify::new(),
            idle: Notify::new(),
            stopping: CancellationToken::new(),
            finished: CancellationToken::new(),
        }
    }

    /// Which session it is.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Whose.
    pub fn realm(&self) -> &Arc<Realm> {
        &self.realm
    }

    /// What answers in it.
    pub fn agent(&self) -> &Arc<dyn Agent> {
        &self.agent
    }

    /// How its lines are numbered.
    pub fn numbering(&self) -> Numbering {
        if self.name.dir.has_sides() { Numbering::Counted } else { Numbering::Own }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it left a state that is whole: every change is a few moves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transcript; none if nothing was said yet in a session of another program.
    fn reader(&self) -> Result<Option<LogReader>> {
        let medium = self.realm.store().medium();
        match LogReader::open(medium.as_ref(), &self.name.dir.transcript(&self.name.id)) {
            Ok(reader) => Ok(Some(reader)),
            Err(unforget_core::Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// This server writes it by this right, as long as that is kept up; a session that is lost is over.
    pub(crate) fn hold(self: &Arc<Self>, hold: Arc<Hold>, turns: &Handle) {
        self.lock().hold = Some(hold.clone());
        let live = Arc::downgrade(self);
        turns.spawn(async move {
            while hold.is_due().await {
                let Some(live) = live.upgrade() else { return };
                if let Err(problem) = hold.renew().await {
                    return live.end(problem);
                }
            }
        });
    }

    pub(crate) fn held(&self) -> Option<Arc<Hold>> {
        self.lock().hold.clone()
    }

    /// Has lines that others may read sent, beside what goes on.
    fn send_soon(&self) {
        if let Some(hold) = self.held() {
            hold.hurry();
        }
    }

    /// Reads what has to be known before anybody comes in.
    pub(crate) fn load(&self) -> Result<()> {
        if let Err(problem) = self.agent.gather(&self.realm, &self.name.id) {
            // What is kept can be read; whoever wants to go on with it is told.
            tracing::warn!(%problem, session = %self.name.id, "what was left behind is not kept");
        }
        let Some(reader) = self.reader()? else { return Ok(()) };
        let end = lines::end(&reader, self.numbering())?;
        let past = transcript::read(&reader, self.numbering())?;
        let left = self.agent.left_open(&reader)?;
        let nameless = |said: Said| Interrupted { n: said.n, client_id: None, is_touched: said.is_touched };
        let mut state = self.lock();
        state.published = end;
        state.interrupted = past.interrupted.or(left.map(nameless));
        for (client_id, n) in past.prompts {
            state.seen.known(client_id, n);
        }
        Ok(())
    }

    /// Tells everybody who watches. The state is held, so that nobody attaches in between.
    fn tell(&self, _held: &State, event: Event) {
        // It is no error if nobody watches.
        drop(self.events.send(event));
    }

    /// Lets everybody read what was written. What was heard of it before is void from that moment on: whoever attaches gets the record or
    /// the pieces, never both.
    fn publish(&self) -> Result<Position> {
        let (before, written) = {
            let state = self.lock();
            (state.published, state.writer.position())
        };
        let end = match written {
            Some(position) => position,
            None => self.end_of_file(before)?,
        };
        let mut state = self.lock();
        if end != state.published {
            state.published = end;
            state.turn.iter_mut().for_each(|turn| turn.partial.clear());
            self.tell(&state, Event::Published(end));
        }
        Ok(end)
    }

    /// How far the file may be read, which another process may have written.
    fn end_of_file(&self, before: Position) -> Result<Position> {
        let Some(reader) = self.reader()? else { return Ok(Position::default()) };
        if reader.len() == before.offset {
            return Ok(before);
        }
        if self.numbering() == Numbering::Own {
            return lines::end(&reader, Numbering::Own);
        }
        let mut at = before;
        loop {
            let (found, next) = lines::read(&reader, at, reader.len(), usize::MAX, Numbering::Counted)?;
            at = next;
            if found.is_empty() {
                return Ok(at);
            }
        }
    }

    /// Notes what knows how far the transcript is written, which is open now.
    pub(crate) fn follow(&self, writer: Follower) {
        self.lock().writer = writer;
    }

    /// Begins to watch behind a record; from the beginning if none is named.
    pub fn attach(self: &Arc<Self>, after: After) -> Result<(Attached, Viewer)> {
        let reader = self.reader()?;
        let mut state = self.lock();
        if let Some(problem) = &state.over {
            return Err(problem.clone());
        }
        state.viewers += 1;
        let receiver = self.events.subscribe();
        let (to, snapshot) = (state.published, self.snapshot(&state));
        let attached = self.attached(&state);
        drop(state);
        let mut viewer = Viewer::new(self.clone(), receiver, to, snapshot);
        viewer.at = match (after, &reader) {
            (After::End, _) => to,
            (_, None) => Position::default(),
            (After::Line(n), Some(reader)) => lines::behind(reader, n, self.numbering())?,
        };
        Ok((attached, viewer))
    }

    fn attached(&self, state: &State) -> Attached {
        let turn = state.turn.as_ref().filter(|turn| turn.is_turn);
        Attached {
            session_id: self.name.id.as_str().to_owned(),
            agent: self.agent.name().to_owned(),
            agent_kind: self.agent.kind(),
            n: state.published.next.checked_sub(1),
            turn: turn.map(|turn| RunningTurn { client_id: turn.client_id.clone() }),
            queued: state.queue.len(),
            interrupted: state.interrupted.clone(),
        }
    }

    /// What a viewer has to be told that no record says.
    fn snapshot(&self, state: &State) -> Vec<Event> {
        let Some(turn) = state.turn.as_ref().filter(|turn| turn.is_turn) else { return Vec::new() };
        let mut events = vec![Event::Started(turn.client_id.clone())];
        if !turn.partial.is_empty() {
            events.push(Event::Answering);
        }
        events.extend(turn.partial.iter().map(|part| Event::Delta {
            block: part.block,
            kind: part.kind,
            text: part.text.as_str().into(),
        }));
        events.extend(turn.tools.iter().cloned().map(Event::ToolStarted));
        events.extend(state.questions.values().map(|(call, _)| Event::Question(call.clone())));
        events
    }

    fn leave(&self) {
        self.lock().viewers -= 1;
        self.work.notify_one();
    }

    /// Aborts the turn that is running; `false` if there is none, or it is another prompt's.
    pub fn abort(&self, client_id: Option<&ClientId>) -> bool {
        let state = self.lock();
        match &state.turn {
            Some(turn) if client_id.is_none() || turn.client_id.as_ref() == client_id => {
                turn.abort.cancel();
                true
            }
            _ => false,
        }
    }

    /// Answers a question; `false` if it is not open.
    pub fn answer(&self, call: &str, answer: Answer) -> bool {
        let mut state = self.lock();
        let Some((_, waiting)) = state.questions.remove(call) else { return false };
        let allowed = matches!(answer, Answer::Allowed { .. });
        let is_heard = waiting.send(answer).is_ok();
        if is_heard {
            self.tell(&state, Event::Answered { id: call.into(), allowed });
        }
        is_heard
    }

    /// Changes the session itself, between two turns; what was changed is where other servers can read it when this returns.
    pub async fn edit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        let job = move |session: Result<&mut Session>| -> Answering {
            let done = session.and_then(work);
            // Who asked may have gone meanwhile.
            Box::new(move |sent: Result<()>| drop(sender.send(sent.and(done))))
        };
        self.give(Job::Edit(Box::new(job)))?;
        receiver.await.unwrap_or_else(|_| Err(Problem::new(Code::Internal, "the session failed; try again")))
    }

    /// Makes the conversation smaller; the record that says so, or none if there is too little to replace.
    pub async fn compact(&self, focus: Option<String>) -> Result<Option<u64>> {
        let (sender, receiver) = oneshot::channel();
        self.shared.admit(self.realm.actor())?;
        if let Err(problem) = self.give(Job::Compact(focus, sender)) {
            self.shared.discharge(self.realm.actor());
            return Err(problem);
        }
        receiver.await.unwrap_or_else(|_| Err(Problem::new(Code::Internal, "the session failed; try again")))
    }

    fn give(&self, job: Job) -> Result<()> {
        let mut state = self.lock();
        if let Some(problem) = &state.over {
            return Err(problem.clone());
        }
        if self.shared.is_stopping() {
            return Err(Problem::new(Code::Unavailable, "the server is about to stop; try again"));
        }
        if state.turn.is_some() || !state.queue.is_empty() {
            return Err(busy());
        }
        state.queue.push_back(job);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Whether a turn is running or waiting.
    pub fn is_busy(&self) -> bool {
        let state = self.lock();
        state.turn.is_some() || !state.queue.is_empty()
    }

    /// How many watch.
    pub fn viewers(&self) -> usize {
        self.lock().viewers
    }

    /// Whether nobody can come in any more.
    pub fn is_over(&self) -> bool {
        self.lock().over.is_some()
    }

    /// Waits until no turn runs.
    pub(crate) async fn quiet(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.lock().turn.is_none() {
                return;
            }
            idle.await;
        }
    }

    /// Leaves the turn that is running as a crash would, but says so: it goes on when the server is there again.
    pub(crate) fn interrupt(&self) {
        self.stopping.cancel();
    }

    /// Waits until the session was let go.
    pub(crate) async fn ended(&self) {
        self.finished.cancelled().await;
    }

    /// How it stands with a prompt.
    pub fn standing(&self, client_id: &ClientId) -> Option<Standing> {
        self.lock().seen.get(client_id)
    }

    /// Ends it for everybody if nothing is done in it or waits; says whether it did.
    pub(crate) fn end_if_idle(&self, problem: Problem) -> bool {
        let mut state = self.lock();
        if state.turn.is_some() || !state.queue.is_empty() {
            return false;
        }
        if state.over.is_none() {
            state.over = Some(problem.clone());
            self.tell(&state, Event::Over(problem));
        }
        drop(state);
        self.work.notify_one();
        true
    }

    /// Ends it for everybody: nobody comes in any more, and who watches is told why.
    pub(crate) fn end(&self, problem: Problem) {
        let mut state = self.lock();
        if state.over.is_some() {
            return;
        }
        state.over = Some(problem.clone());
        if let Some(turn) = &state.turn {
            turn.abort.cancel();
        }
        state.questions.clear();
        self.tell(&state, Event::Over(problem));
        drop(state);
        self.work.notify_one();
    }
}

fn busy() -> Problem {
    Problem::new(Code::Busy, "a turn is running in this session; try again when it has ended, or abort it")
}

#[cfg(test)]
mod tests;
