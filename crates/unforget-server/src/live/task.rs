//! The task of a live session: one job after the other, and nothing when there is none.
//!
//! The transcript is opened for the first job and stays open for a while after the last one, so that a conversation does not pay for it with each
//! turn, and a terminal may have it afterwards. While it is not open here, somebody else may write it: those who watch are shown
//! what comes. When nobody watches and nothing is to be done, the task ends, and with it everything that the session costs.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use unforget_agent::turn::{Ended, State as End};
use unforget_core::record::Draft;

use super::event::Event;
use super::host::Watched;
use super::{Job, Live, Prompt, Running, Standing};
use crate::agent::{Input, Voice};
use crate::error::{Code, Problem, Result};
use crate::ledger::Accepted;
use crate::protocol::{Durability, Outcome, TurnState};
use crate::trace;
use crate::transcript::INTERRUPTED;
use crate::transcript::lines::Numbering;

/// How often it is looked whether somebody else wrote, and whether the right to write is still held.
const LOOK: Duration = Duration::from_millis(500);
/// How long the end of a turn waits for a remote that may have it later.
const BRIEFLY: Duration = Duration::from_secs(3);

/// What is to be done next.
enum Next {
    Do(Job, Option<CancellationToken>),
    /// Nothing, for this long.
    Nothing(Duration),
    Over,
}

/// Runs the jobs of a session until it is over.
pub(crate) async fn run(live: Arc<Live>) {
    let mut voice: Option<Box<dyn Voice>> = None;
    let mut idle = Duration::ZERO;
    loop {
        let patience = live.shared.limits.linger.clamp(LOOK / 10, LOOK);
        match next(&live, patience).await {
            Next::Do(job, abort) => {
                idle = Duration::ZERO;
                work(&live, &mut voice, job, abort).await;
            }
            Next::Nothing(time) => {
                idle += time;
                if idle >= live.shared.limits.linger {
                    if let Some(voice) = voice.take() {
                        voice.close().await;
                    }
                    if is_left(&live) {
                        break;
                    }
                }
                look(&live, voice.is_some());
            }
            Next::Over => break,
        }
    }
    if let Some(voice) = voice.take() {
        voice.close().await;
    }
    if let Some(hold) = live.held() {
        hold.release().await;
    }
}

/// Whether nobody watches and nothing is to be done; then the session is over.
fn is_left(live: &Live) -> bool {
    let mut state = live.lock();
    let is_left = state.viewers == 0 && state.queue.is_empty();
    if is_left {
        state.over = Some(Problem::new(Code::Unavailable, "the session was let go; attach again"));
    }
    is_left
}

/// Waits for a job.
async fn next(live: &Live, patience: Duration) -> Next {
    loop {
        {
            let mut state = live.lock();
            // What was accepted is in the ledger, and what runs was aborted: nothing is begun any more.
            if state.over.is_some() {
                return Next::Over;
            }
            // What waits is run after the server has started again.
            let job = if live.shared.is_stopping() { None } else { state.queue.pop_front() };
            match job {
                Some(Job::Compact(focus, done)) => {
                    let abort = CancellationToken::new();
                    state.turn = Some(Running { is_turn: false, ..Running::new(None, None, abort.clone()) });
                    return Next::Do(Job::Compact(focus, done), Some(abort));
                }
                Some(Job::Turn(prompt)) => {
                    let abort = CancellationToken::new();
                    let client_id = prompt.client_id.clone();
                    if let Some(client_id) = &client_id {
                        state.seen.set(client_id.clone(), Standing::Running);
                    }
                    state.turn = Some(Running::new(
                        client_id.clone(),
                        prompt.accepted.as_ref().map(|kept| kept.id.clone()),
                        abort.clone(),
                    ));
                    live.tell(&state, Event::Started(client_id));
                    return Next::Do(Job::Turn(prompt), Some(abort));
                }
                Some(job) => return Next::Do(job, None),
                None => {}
            }
        }
        if tokio::time::timeout(patience, live.work.notified()).await.is_err() {
            return Next::Nothing(patience);
        }
    }
}

/// Does a job.
async fn work(live: &Arc<Live>, voice: &mut Option<Box<dyn Voice>>, job: Job, abort: Option<CancellationToken>) {
    if voice.is_none() {
        match live.agent.open(&live.realm, &live.name).await {
            Ok(mut opened) => {
                live.follow(opened.session().map(|session| session.follow()).unwrap_or_default());
                *voice = Some(opened);
            }
            Err(problem) => return refuse(live, job, &problem),
        }
    }
    let Some(open) = voice.as_mut() else { return };
    match job {
        Job::Turn(prompt) => turn(live, open.as_mut(), prompt, &abort.unwrap_or_default()).await,
        Job::Edit(change) => {
            let answer = change(open.session().ok_or_else(not_ours));
            let sent = wrote(live).await;
            let is_lost = sent.as_ref().err().filter(|problem| problem.code == Code::Moved).cloned();
            answer(sent);
            is_lost.into_iter().for_each(|problem| live.end(problem));
        }
        Job::Compact(focus, done) => {
            let _busy = live.shared.activity.begin();
            let mut host = Watched::new(live, false, None);
            let compacted = open.compact(focus.as_deref(), &mut host, &abort.unwrap_or_default()).await;
            let sent = wrote(live).await;
            over(live);
            // Who asked may be gone.
            drop(done.send(sent.and(compacted)));
        }
    }
}

/// A compaction is out of hand.
fn over(live: &Live) {
    live.shared.discharge(live.realm.actor());
    live.lock().turn = None;
    live.idle.notify_waiters();
}

/// Lets everybody know what a job wrote, also other servers. If the remote is away it is sent later.
async fn wrote(live: &Live) -> Result<()> {
    if let Err(problem) = live.publish() {
        tracing::error!(%problem, session = %live.name.id, "what was written cannot be read");
    }
    live.deliver().await.map(drop)
}

fn not_ours() -> Problem {
    Problem::new(Code::Conflict, "this is a session of another program: it is not changed here")
}

/// A job that cannot be done.
fn refuse(live: &Live, job: Job, problem: &Problem) {
    match job {
        Job::Turn(prompt) => failed(live, prompt, problem.clone(), false),
        Job::Edit(change) => change(Err(problem.clone()))(Ok(())),
        Job::Compact(_, done) => {
            over(live);
            drop(done.send(Err(problem.clone())));
        }
    }
}

/// Runs a turn, and tells how it ended when its last word is safe.
async fn turn(live: &Arc<Live>, voice: &mut dyn Voice, prompt: Prompt, abort: &CancellationToken) {
    let _busy = live.shared.activity.begin();
    let mut prompt = prompt;
    let (saved, is_attended) = (prompt.saved.take(), prompt.is_attended);
    let mut host = Watched::new(live, is_attended, saved);
    let left = begin(live, &prompt);
    let started = std::time::Instant::now();
    let span = trace::turn(&prompt.span, live.agent.name(), &live.name);
    let ended = tokio::select! {
        biased;
        ended = voice.turn(&prompt.input, &mut host, abort).instrument(span.clone()) => Some(ended),
        () = live.stopping.cancelled() => None,
    };
    prompt.saved = host.saved.take();
    let Some(ended) = ended else { return interrupted(live, voice, prompt).await };
    span.record("outcome", ended.as_ref().map_or_else(|problem| problem.code.name(), |_| "ended"));
    let is_said = host.first.is_some() || matches!(prompt.input, Input::GoOn);
    let said = match (&prompt.input, live.numbering()) {
        (_, Numbering::Counted) => None,
        (Input::Words { .. }, Numbering::Own) => host.first,
        (Input::GoOn, Numbering::Own) => left,
    };
    live.shared.metrics.turn(started.elapsed(), ended.as_ref().err());
    if let Err(problem) = live.publish() {
        tracing::error!(%problem, session = %live.name.id, "what was written cannot be read");
    }
    let ended = match ended {
        Ok(ended) => live.deliver().await.map(|durability| (ended, durability)),
        Err(problem) => {
            // Also of a turn that failed the words are sent; that they are not there is the smaller trouble now.
            if let Err(problem) = live.deliver().await {
                tracing::warn!(%problem, session = %live.name.id, "what was written is not there yet");
            }
            Err(problem)
        }
    };
    match ended {
        Ok((ended, durability)) => done(live, prompt, ended, durability, said),
        Err(problem) if problem.code == Code::Moved => {
            failed(live, prompt, problem.clone(), is_said);
            live.end(problem);
        }
        Err(problem) => failed(live, prompt, problem, is_said),
    }
}

/// A turn begins: what was left open before is left behind, unless it is this that goes on. Tells which words that was.
fn begin(live: &Live, prompt: &Prompt) -> Option<u64> {
    let mut state = live.lock();
    let left = state.interrupted.take()?;
    let n = left.n;
    if let Some(client_id) = left.client_id.filter(|id| prompt.client_id.as_ref() != Some(id)) {
        let message = "its turn was interrupted and the conversation went on; send it under another client_id";
        state.seen.set(client_id, Standing::Failed(Problem::new(Code::Conflict, message)));
    }
    Some(n)
}

/// A turn that the server's end leaves in the middle. It stays in the ledger. If the transcript says that it was left, it goes on when the server starts
/// again; otherwise whoever attaches is told of it.
async fn interrupted(live: &Live, voice: &mut dyn Voice, mut prompt: Prompt) {
    let written = voice.session().map(|session| session.append(&[Draft::turn(INTERRUPTED)]));
    if let Some(Err(error)) = &written {
        tracing::warn!(%error, session = %live.name.id, "that a turn was interrupted is not written down");
    }
    if let Err(problem) = wrote(live).await {
        tracing::warn!(%problem, session = %live.name.id, "what was written is not there yet");
    }
    let message = match prompt.accepted.is_some() && matches!(written, Some(Ok(_))) {
        true => "the server stops; the turn goes on when it is there again",
        false => "the server stops; `resume` goes on with the turn when it is there again",
    };
    let problem = Problem::new(Code::Unavailable, message);
    if let Some(saved) = prompt.saved.take() {
        // Its words are nowhere, and whoever sent it is told so.
        drop(saved.send(Err(problem.clone())));
        prompt.accepted.iter().for_each(|kept| live.shared.ledger.end(&kept.id));
    }
    live.shared.discharge(live.realm.actor());
    let mut state = live.lock();
    state.turn = None;
    if let Some(kept) = &prompt.accepted {
        state.settle(&kept.client_id, &kept.id);
    }
    live.tell(&state, Event::Failed { client_id: prompt.client_id, problem });
    drop(state);
    live.idle.notify_waiters();
}

fn done(live: &Live, mut prompt: Prompt, ended: Ended, durability: Durability, said: Option<u64>) {
    let state = match ended.state {
        End::Done => TurnState::Done,
        End::Aborted => TurnState::Aborted,
        End::OutOfSteps => TurnState::OutOfSteps,
    };
    let Ended { text, stop_reason, usage, n, .. } = ended;
    let client_id = prompt.client_id.clone();
    let outcome = Arc::new(Outcome { client_id, state, n, said, text, stop_reason, usage, durability });
    if let Some(saved) = prompt.saved.take() {
        // An agent that had heard it before has nothing to save.
        drop(saved.send(Ok(n)));
    }
    finish(live, &prompt, Event::Done(outcome.clone()), Standing::Done(outcome));
}

/// A turn that did not end well, or could not begin.
fn failed(live: &Live, mut prompt: Prompt, problem: Problem, is_said: bool) {
    if let Some(saved) = prompt.saved.take() {
        // Its words are not saved, so nobody has to remember it: it may be sent again.
        drop(saved.send(Err(problem.clone())));
        if let Some(client_id) = &prompt.client_id {
            live.lock().seen.forget(client_id);
        }
        let client_id = prompt.client_id.take();
        return finish(live, &prompt, Event::Failed { client_id, problem: problem.clone() }, Standing::Failed(problem));
    }
    let is_passing =
        matches!(problem.code, Code::Busy | Code::Storage | Code::Unavailable | Code::Moved | Code::Internal);
    if let Some(kept) = prompt.accepted.take_if(|_| !is_said && is_passing) {
        return wait(live, *kept, &problem);
    }
    let event = Event::Failed { client_id: prompt.client_id.clone(), problem: problem.clone() };
    finish(live, &prompt, event, Standing::Failed(problem));
}

/// A prompt that was accepted and could not be begun: its words are in the ledger, and it is tried again. So are those behind it, which must not
/// overtake it.
pub(super) fn wait(live: &Live, kept: Accepted, problem: &Problem) {
    let mut state = live.lock();
    state.turn = None;
    let mut waiting = vec![kept];
    state.queue = std::mem::take(&mut state.queue)
        .into_iter()
        .filter_map(|job| match job {
            Job::Turn(Prompt { accepted: Some(kept), saved: None, .. }) => {
                waiting.push(*kept);
                None
            }
            job => Some(job),
        })
        .collect();
    for kept in &waiting {
        live.shared.discharge(live.realm.actor());
        state.seen.forget(&kept.client_id);
        state.settle(&kept.client_id, &kept.id);
    }
    live.tell(&state, Event::Notice(format!("a prompt waits: {problem}").into()));
    drop(state);
    live.idle.notify_waiters();
    live.shared.strand(waiting);
}

fn finish(live: &Live, prompt: &Prompt, event: Event, standing: Standing) {
    if let Some(kept) = &prompt.accepted {
        live.shared.ledger.end(&kept.id);
    }
    live.shared.discharge(live.realm.actor());
    let mut state = live.lock();
    state.turn = None;
    if let Some(kept) = &prompt.accepted {
        state.settle(&kept.client_id, &kept.id);
    }
    if let Some(client_id) = &prompt.client_id {
        state.seen.set(client_id.clone(), standing);
    }
    live.tell(&state, event);
    drop(state);
    live.idle.notify_waiters();
}

/// What others wrote is shown to those who watch.
fn look(live: &Live, is_open: bool) {
    if live.viewers() > 0
        && !is_open
        && let Err(problem) = live.publish()
    {
        tracing::debug!(%problem, session = %live.name.id, "cannot be looked at");
    }
}

impl Live {
    /// Sends what was written to where other servers can read it; what it survives then.
    pub(crate) async fn deliver(&self) -> Result<Durability> {
        let Some(hold) = self.held() else { return Ok(Durability::Disk) };
        let push = hold.push();
        tokio::pin!(push);
        let pushed = tokio::time::timeout(BRIEFLY, &mut push).await;
        if self.shared.needs_remote() {
            let pushed = match pushed {
                Ok(pushed) => pushed,
                Err(_) => {
                    let notice = "storage does not answer; your words are saved on this server, and it goes on trying";
                    self.tell(&self.lock(), Event::Notice(notice.into()));
                    push.await
                }
            };
            return pushed.map(|()| Durability::Remote);
        }
        match pushed {
            Ok(Ok(())) => Ok(Durability::Remote),
            Ok(Err(problem)) if problem.code == Code::Moved => Err(problem),
            // The turn is safe on this disk, whatever the remote says, and goes out as soon as it can.
            Ok(Err(problem)) => {
                tracing::warn!(%problem, session = %self.name.id, "saved locally, not yet uploaded");
                Ok(Durability::Disk)
            }
            Err(_) => {
                hold.hurry();
                Ok(Durability::Disk)
            }
        }
    }

    /// What is left to do when the task did not end well: its prompt has failed, and everybody is told.
    pub(crate) async fn fell(&self) {
        let problem = Problem::new(Code::Internal, "this session failed; what was saved is saved, attach again");
        let turn = self.lock().turn.take();
        if let Some(turn) = turn {
            // It would fail again after a restart; but words that are nowhere else stay in the ledger, and are tried once more then.
            turn.ledger.iter().filter(|_| turn.is_said).for_each(|id| self.shared.ledger.end(id));
            self.shared.discharge(self.realm.actor());
            let state = self.lock();
            self.tell(&state, Event::Failed { client_id: turn.client_id, problem: problem.clone() });
        }
        self.idle.notify_waiters();
        self.end(problem);
        if let Some(hold) = self.held() {
            hold.release().await;
        }
    }
}
