//! What is around a turn in a server: everybody who watches, and whoever of them answers first.

use std::sync::Arc;

use tokio::sync::oneshot;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::{BoxFuture, Delta, Event as Piece};
use unforget_agent::tools::Call;

use super::event::Event;
use super::{Live, Partial};
use crate::error::Result;
use crate::protocol::{Called, Durability, Kind};

/// The host of a turn.
pub(super) struct Watched {
    pub(super) live: Arc<Live>,
    /// Whether somebody may be there to answer.
    pub(super) is_attended: bool,
    /// Who waits for the words to be saved.
    pub(super) saved: Option<oneshot::Sender<Result<u64>>>,
    /// The first record that was saved: the words of the person, if there were any.
    pub(super) first: Option<u64>,
}

impl Watched {
    pub(super) fn new(live: &Arc<Live>, is_attended: bool, saved: Option<oneshot::Sender<Result<u64>>>) -> Self {
        Self { live: live.clone(), is_attended, saved, first: None }
    }

    fn publish(&self) {
        if let Err(problem) = self.live.publish() {
            // Who watches hears of it with the next lines; the turn goes on.
            tracing::error!(%problem, session = %self.live.name.id, "what was written cannot be read");
        }
    }

    fn event(&self, event: Event) {
        let state = self.live.lock();
        self.live.tell(&state, event);
    }

    fn delta(&self, block: usize, kind: Kind, text: &str) {
        let mut state = self.live.lock();
        if let Some(turn) = &mut state.turn {
            match turn.partial.iter_mut().rev().find(|part| part.block == block && part.kind == kind) {
                Some(part) => part.text.push_str(text),
                None => turn.partial.push(Partial { block, kind, text: text.to_owned() }),
            }
        }
        self.live.tell(&state, Event::Delta { block, kind, text: text.into() });
    }
}

impl Host for Watched {
    fn tell(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Asking => {
                self.publish();
                let mut state = self.live.lock();
                state.turn.iter_mut().for_each(|turn| turn.partial.clear());
                self.live.tell(&state, Event::Answering);
            }
            Notice::Model(Piece::Delta { index, delta }) => match delta {
                Delta::Text(text) => self.delta(*index, Kind::Text, text),
                Delta::Thinking(text) => self.delta(*index, Kind::Thinking, text),
                Delta::Input(text) => self.delta(*index, Kind::Input, text),
                Delta::Signature(_) | Delta::Other(_) => {}
            },
            Notice::Model(Piece::Retrying { attempt, of, wait, why }) => {
                let ms = wait.as_millis();
                self.event(Event::Notice(format!("retry {attempt} of {of} in {ms} ms: {why}").into()));
            }
            Notice::ToolStarted(call) => {
                let called = Arc::new(called(call));
                self.publish();
                let mut state = self.live.lock();
                state.turn.iter_mut().for_each(|turn| turn.tools.push(called.clone()));
                self.live.tell(&state, Event::ToolStarted(called));
            }
            Notice::ToolEnded { call, output, took } => {
                self.publish();
                let mut state = self.live.lock();
                state.turn.iter_mut().for_each(|turn| turn.tools.retain(|running| running.id != call.id));
                let (id, is_error) = (call.id.as_str().into(), output.is_error);
                self.live.tell(&state, Event::ToolEnded { id, is_error, took });
            }
            Notice::Guard(line) => self.event(Event::Notice(line.into())),
            Notice::Saved { n } => {
                self.first.get_or_insert(n);
                self.live.lock().turn.iter_mut().for_each(|turn| turn.is_said = true);
                self.publish();
                if let Some(saved) = self.saved.take() {
                    // Who sent it may be gone.
                    drop(saved.send(Ok(n)));
                }
                self.event(Event::Saved { n, durability: Durability::Disk });
                self.live.send_soon();
            }
            _ => {}
        }
    }

    fn standing(&self, call: &Call) -> Option<Answer> {
        let allowed = &self.live.shared.allowed;
        if unforget_agent::tools::is_allowed_by(call, allowed.iter()) {
            return Some(Answer::Allowed { by: "setting" });
        }
        let reason = "nobody is there to allow it".to_owned();
        (!self.is_attended).then_some(Answer::Denied { by: "setting", reason: Some(reason) })
    }

    fn approve<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            let called = Arc::new(called(call));
            self.publish();
            {
                let mut state = self.live.lock();
                state.questions.insert(call.id.clone(), (called.clone(), sender));
                self.live.tell(&state, Event::Question(called));
            }
            let _open = Open { live: self.live.clone(), id: call.id.clone() };
            let patience = self.live.shared.limits.question;
            match tokio::time::timeout(patience, receiver).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Answer::Denied { by: "setting", reason: Some("the server stopped".to_owned()) },
                Err(_) => Answer::Denied { by: "setting", reason: Some("nobody answered in time".to_owned()) },
            }
        })
    }
}

/// A question that is open; one that nobody waits for any more is not.
struct Open {
    live: Arc<Live>,
    id: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.live.lock();
        if state.questions.remove(&self.id).is_some() {
            self.live.tell(&state, Event::Answered { id: self.id.as_str().into(), allowed: false });
        }
    }
}

fn called(call: &Call) -> Called {
    Called { id: call.id.clone(), name: call.name.clone(), input: call.input.clone() }
}
