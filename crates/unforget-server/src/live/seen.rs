//! Which prompts a session has seen, so that one that is sent twice is taken once.
//!
//! A client that lost its connection cannot know whether its prompt arrived, and sends it again under the same name. Names are in the transcript, with
//! the words; of those only the newest are remembered here: a client that sends something again does so soon.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::error::{Code, Problem};
use crate::protocol::{ClientId, Outcome, PromptState};

/// How many prompts are remembered.
const REMEMBERED: usize = 512;
/// Of how many the whole outcome is remembered.
const OUTCOMES: usize = 8;

/// How it stands with a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It waits.
    Queued,
    /// Its turn is running.
    Running,
    /// Its turn ended.
    Done(Arc<Outcome>),
    /// Its turn failed.
    Failed(Problem),
    /// It is in the transcript, under this number.
    Known(u64),
}

impl Standing {
    /// The name in the protocol.
    pub fn state(&self) -> PromptState {
        match self {
            Standing::Queued => PromptState::Queued,
            Standing::Running => PromptState::Running,
            Standing::Done(_) => PromptState::Done,
            Standing::Failed(_) => PromptState::Failed,
            Standing::Known(_) => PromptState::Known,
        }
    }
}

/// The prompts that were seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    standing: HashMap<ClientId, Standing>,
    order: VecDeque<ClientId>,
    done: VecDeque<ClientId>,
}

impl Seen {
    pub(super) fn get(&self, client_id: &ClientId) -> Option<Standing> {
        self.standing.get(client_id).cloned()
    }

    /// One that is in the transcript.
    pub(super) fn known(&mut self, client_id: ClientId, n: u64) {
        self.set(client_id, Standing::Known(n));
    }

    pub(super) fn set(&mut self, client_id: ClientId, standing: Standing) {
        if matches!(standing, Standing::Done(_)) {
            self.done.push_back(client_id.clone());
        }
        if self.standing.insert(client_id.clone(), standing).is_none() {
            self.order.push_back(client_id);
        }
        if self.done.len() > OUTCOMES
            && let Some(oldest) = self.done.pop_front()
            && let Some(Standing::Done(outcome)) = self.standing.get(&oldest)
        {
            let standing = outcome.said.map_or_else(unknown, Standing::Known);
            self.standing.insert(oldest, standing);
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.standing.remove(&oldest);
            }
        }
    }

    pub(super) fn forget(&mut self, client_id: &ClientId) {
        self.standing.remove(client_id);
        self.order.retain(|known| known != client_id);
    }
}

/// What is left of an outcome that was forgotten and cannot be looked up.
fn unknown() -> Standing {
    Standing::Failed(Problem::new(Code::Conflict, "it was answered before; the answer is in the transcript"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> ClientId {
        ClientId::parse(&format!("c{n}")).unwrap()
    }

    #[test]
    fn the_newest_are_remembered_and_no_more() {
        let mut seen = Seen::default();
        for n in 0..2 * REMEMBERED {
            seen.set(id(n), Standing::Queued);
            seen.set(id(n), Standing::Running);
        }
        assert_eq!(seen.get(&id(REMEMBERED - 1)), None);
        assert_eq!(seen.get(&id(REMEMBERED)), Some(Standing::Running));
        assert_eq!(seen.standing.len(), REMEMBERED);
        seen.forget(&id(REMEMBERED));
        assert_eq!(seen.get(&id(REMEMBERED)), None);
    }
}
