//! Whether the server has something in hand, as AgentCore Runtime wants to know: it lets a machine that is busy live on.
//!
//! Busy is a turn that runs, or words that are not yet where they belong. The time that is told is that of the last change between busy and idle,
//! and not of the question.

use std::sync::{Arc, Mutex, PoisonError};

use unforget_core::stamp::SharedSource;

/// Whether something is in hand.
pub struct Activity {
    source: SharedSource,
    state: Mutex<State>,
}

struct State {
    busy: usize,
    changed_ms: i64,
}

/// Something that is in hand, until it is dropped.
pub struct Busy(Arc<Activity>);

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activity").field("busy", &self.now().0).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Busy").finish_non_exhaustive()
    }
}

impl Activity {
    /// Nothing is in hand yet.
    pub fn new(source: SharedSource) -> Self {
        let changed_ms = source.now_ms();
        Self { source, state: Mutex::new(State { busy: 0, changed_ms }) }
    }

    /// Something is taken in hand.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Busy {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy += 1;
        if state.busy == 1 {
            state.changed_ms = self.source.now_ms();
        }
        Busy(self.clone())
    }

    /// How many things are in hand, and since when it is so that there are some, or none; in milliseconds.
    pub fn now(&self) -> (usize, i64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.busy, state.changed_ms)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy -= 1;
        if state.busy == 0 {
            state.changed_ms = self.0.source.now_ms();
        }
    }
}
