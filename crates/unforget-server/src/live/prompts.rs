//! How prompts come into a live session: taken once each, written down before anybody is told,
//! found again after a restart, and handed on when the session is let go.
//!
//! Every way in ends in the queue of the session's task, and every way keeps the same account: a
//! prompt is counted ([`Shared::admit`](crate::shared::Shared)) when it is queued and discharged
//! when it leaves, whatever became of it. The failure to guard against is a prompt that was
//! acknowledged and is nowhere.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use tokio::sync::oneshot;
use tracing::Span;

use super::event::Event;
use super::{Job, Live, Prompt, Standing, State, busy};
use crate::agent::Input;
use crate::budget::Sender;
use crate::error::{Code, Problem, Result};
use crate::ledger::Accepted;
use crate::protocol::{ClientId, Interrupted};
use crate::shared::Admission;

/// What became of a prompt that a restart found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// It is run.
    Runs,
    /// It is in the transcript, and its turn had begun to do things, or ended: it is not run again.
    Told,
    /// It cannot be run now.
    Later,
}

/// That a prompt was taken, and how it stands with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// What the client called it.
    pub client_id: ClientId,
    /// Where it is.
    pub standing: Standing,
    /// Whether it had been sent before.
    pub is_duplicate: bool,
}

/// That the words of a prompt are safe, or why they are not: for whoever sent it first, and for
/// whoever sent it again before that was known.
pub(super) type Safe = Shared<Pin<Box<dyn Future<Output = Result<()>> + Send>>>;

impl Prompt {
    /// That the conversation goes on from where it stopped.
    fn going_on(client_id: Option<ClientId>, is_attended: bool) -> Self {
        let (input, span) = (Input::GoOn, Span::current());
        Self { client_id, input, accepted: None, is_attended, saved: None, span, _charge: None }
    }
}

impl Live {
    /// Takes a prompt. When this returns, its words survive a loss of power, or it was not taken.
    ///
    /// The same client id means the same prompt: it is taken once, and how it stands with it is
    /// told. Giving up on the future takes nothing back. A place that was taken for it is used, or
    /// given back.
    pub async fn prompt(
        self: &Arc<Self>,
        client_id: ClientId,
        text: String,
        is_attended: bool,
        admission: Option<Admission>,
    ) -> Result<Taken> {
        self.shared.limits.check_prompt(&text)?;
        let accepted = Accepted {
            id: uuid::Uuid::now_v7().to_string(),
            actor: self.realm.actor().clone(),
            session: self.name.clone(),
            client_id: client_id.clone(),
            prompt: text,
            is_attended,
        };
        let (safe, usual, is_duplicate) = {
            let mut state = self.lock();
            if let Some(problem) = &state.over {
                return Err(problem.clone());
            }
            match (state.seen.get(&client_id), state.saving.get(&client_id)) {
                // It was sent a moment ago, and nobody knows yet whether it is safe.
                (Some(standing), Some((_, safe))) => (safe.clone(), standing, true),
                (Some(standing), None) => {
                    let standing = self.resumed(&mut state, &client_id, is_attended).unwrap_or(standing);
                    return Ok(Taken { client_id, standing, is_duplicate: true });
                }
                (None, _) => {
                    let (safe, usual) = self.queue(&mut state, accepted, admission)?;
                    (safe, usual, false)
                }
            }
        };
        self.work.notify_one();
        safe.await?;
        let standing = if is_duplicate { self.standing(&client_id).unwrap_or(usual) } else { usual };
        Ok(Taken { client_id, standing, is_duplicate })
    }

    /// Puts a prompt at the end of the queue, and tells what it waits for and how it stands with it
    /// when that has come.
    fn queue(
        self: &Arc<Self>,
        state: &mut State,
        accepted: Accepted,
        admission: Option<Admission>,
    ) -> Result<(Safe, Standing)> {
        if self.shared.is_stopping() {
            return Err(Problem::new(Code::Unavailable, "the server is about to stop; send it again"));
        }
        if state.queue.len() >= self.shared.limits.queue {
            let many = state.queue.len();
            return Err(Problem::new(Code::TooMany, format!("{many} prompts are waiting in this session already")));
        }
        let charge = self.shared.budget.claim(Sender::Actor(accepted.actor.clone()));
        charge.add(accepted.prompt.len())?;
        match admission {
            Some(admission) => admission.spend(),
            None => self.shared.admit(self.realm.actor())?,
        }
        let position = state.queue.len() + usize::from(state.turn.is_some());
        let (client_id, id, is_attended) = (accepted.client_id.clone(), accepted.id.clone(), accepted.is_attended);
        let input = Input::Words { text: accepted.prompt.clone(), client_id: client_id.clone() };
        let kept = Some(Box::new(accepted.clone()));
        // While the state is held: the ledger must hear of a prompt before it hears of its end.
        let (saved, safe, usual) = match position {
            // Its words are safe in the transcript before anybody is told.
            0 => {
                let (sender, saved) = oneshot::channel();
                self.shared.ledger.note(accepted);
                let failed = || Problem::new(Code::Internal, "the session failed; attach again");
                let safe = async move { saved.await.unwrap_or_else(|_| Err(failed())).map(drop) };
                (Some(sender), safe.boxed(), Standing::Running)
            }
            position => {
                let writing = self.shared.ledger.accept(accepted);
                let (live, id, named) = (self.clone(), id.clone(), client_id.clone());
                // It goes on also if whoever sent it does not wait for it.
                let written = tokio::spawn(async move {
                    if let Err(problem) = writing.await {
                        return live.withdraw(&id, &named, problem);
                    }
                    let state = live.lock();
                    live.tell(&state, Event::Accepted { client_id: named, position });
                    Ok(())
                });
                let safe = async { written.await.unwrap_or_else(|error| Err(Problem::fallen("a prompt", &error))) };
                (None, safe.boxed(), Standing::Queued)
            }
        };
        let safe = safe.shared();
        let (named, span) = (Some(client_id.clone()), Span::current());
        let prompt =
            Prompt { client_id: named, input, accepted: kept, is_attended, saved, span, _charge: Some(charge) };
        state.queue.push_back(Job::Turn(prompt));
        state.seen.set(client_id.clone(), Standing::Queued);
        state.saving.insert(client_id, (id, safe.clone()));
        Ok((safe, usual))
    }

    /// Takes a prompt back that could not be written down. If its turn has begun it may be run all
    /// the same; who sends it again hears how it stands.
    fn withdraw(&self, id: &str, client_id: &ClientId, problem: Problem) -> Result<()> {
        let mut state = self.lock();
        let is_it = |job: &Job| matches!(job, Job::Turn(Prompt { accepted: Some(kept), .. }) if kept.id == id);
        if let Some(at) = state.queue.iter().position(is_it) {
            state.queue.remove(at);
            state.seen.forget(client_id);
            state.settle(client_id, id);
            self.shared.discharge(self.realm.actor());
        } else if matches!(state.seen.get(client_id), Some(Standing::Done(_))) {
            return Ok(());
        }
        Err(problem)
    }

    /// Runs what the ledger says was accepted before a restart, if its turn had not begun to do
    /// things.
    ///
    /// Reads as much of the transcript as it takes to find the prompt.
    pub(crate) fn recover(&self, accepted: &Accepted) -> Result<Recovered> {
        let known = match self.reader()? {
            Some(reader) => self.agent.find(&reader, &self.name.id, &accepted.client_id)?,
            None => None,
        };
        let input = match known {
            None => Input::Words { text: accepted.prompt.clone(), client_id: accepted.client_id.clone() },
            Some(said) if !said.is_ended && !said.is_touched => Input::GoOn,
            Some(said) => {
                // A transcript of another program does not say what the client called it.
                if let Some(left) = self.lock().interrupted.as_mut().filter(|left| left.n == said.n) {
                    left.client_id = Some(accepted.client_id.clone());
                }
                return Ok(Recovered::Told);
            }
        };
        let mut state = self.lock();
        match state.seen.get(&accepted.client_id) {
            // It was sent again, and is on its way.
            Some(Standing::Queued | Standing::Running) => return Ok(Recovered::Later),
            // It was sent again, and its turn has ended, while the transcript was read.
            Some(Standing::Done(_) | Standing::Failed(_)) => return Ok(Recovered::Told),
            Some(Standing::Known(_)) | None => {}
        }
        let is_closed = state.over.is_some() || self.shared.is_stopping();
        if is_closed || self.shared.readmit(self.realm.actor()).is_err() {
            return Ok(Recovered::Later);
        }
        state.seen.set(accepted.client_id.clone(), Standing::Queued);
        let (client_id, kept) = (Some(accepted.client_id.clone()), Some(Box::new(accepted.clone())));
        let (is_attended, saved, span) = (accepted.is_attended, None, Span::none());
        // It was accepted, whatever room there is.
        let prompt = Prompt { client_id, input, accepted: kept, is_attended, saved, span, _charge: None };
        state.queue.push_back(Job::Turn(prompt));
        drop(state);
        self.work.notify_one();
        Ok(Recovered::Runs)
    }

    /// Runs the last prompt of a server that died, if nothing had been done about it: it was
    /// accepted, and nobody else will.
    pub(crate) fn take_up(&self) {
        let mut state = self.lock();
        let left = state.interrupted.as_ref().filter(|left| !left.is_touched);
        if let Some(client_id) = left.and_then(|left| left.client_id.clone()) {
            // How it was sent is not known here; whoever asked for the session now may be there to
            // answer.
            self.resumed(&mut state, &client_id, true);
        }
    }

    /// Takes up the turn of a prompt that is sent again because it never came to its end; how it
    /// stands with it then.
    fn resumed(&self, state: &mut State, client_id: &ClientId, is_attended: bool) -> Option<Standing> {
        let is_it = |left: &Interrupted| left.client_id.as_ref() == Some(client_id);
        let is_free = state.turn.is_none() && state.queue.is_empty() && !self.shared.is_stopping();
        if !state.interrupted.as_ref().is_some_and(is_it) || !is_free {
            return None;
        }
        self.shared.admit(self.realm.actor()).ok()?;
        state.seen.set(client_id.clone(), Standing::Queued);
        state.queue.push_back(Job::Turn(Prompt::going_on(Some(client_id.clone()), is_attended)));
        self.work.notify_one();
        Some(Standing::Queued)
    }

    /// Goes on with a turn that was interrupted, or that failed.
    pub fn go_on(&self) -> Result<()> {
        let mut state = self.lock();
        if let Some(problem) = &state.over {
            return Err(problem.clone());
        }
        if state.turn.is_some() || !state.queue.is_empty() || self.shared.is_stopping() {
            return Err(busy());
        }
        self.shared.admit(self.realm.actor())?;
        let client_id = state.interrupted.as_ref().and_then(|left| left.client_id.clone());
        state.queue.push_back(Job::Turn(Prompt::going_on(client_id, true)));
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Takes the prompts that were accepted and will not be run by this task. Who was not told so
    /// yet hears that theirs was not.
    pub(crate) fn left(&self) -> Vec<Accepted> {
        let jobs = std::mem::take(&mut self.lock().queue);
        let left = jobs.into_iter().filter_map(|job| {
            let prompt = match job {
                Job::Turn(prompt) => prompt,
                Job::Compact(..) => {
                    self.shared.discharge(self.realm.actor());
                    return None;
                }
                Job::Edit(_) => return None,
            };
            self.shared.discharge(self.realm.actor());
            let Prompt { accepted, saved, .. } = prompt;
            if let Some(saved) = saved {
                drop(saved.send(Err(Problem::new(Code::Unavailable, "the session was let go; send it again"))));
                accepted.iter().for_each(|kept| self.shared.ledger.end(&kept.id));
                return None;
            }
            accepted.map(|kept| *kept)
        });
        let left = left.collect();
        self.finished.cancel();
        left
    }
}
