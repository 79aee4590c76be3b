//! What the server remembers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use unforget_core::encode;
use unforget_remote::agentcore::wire::Event;

use super::Options;
use super::faults::{Faults, Operation};
use super::tricks::Tricks;

/// How many requests are remembered.
const MAX_RECORDED: usize = 100_000;

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What was asked for, if it is known.
    pub operation: Option<Operation>,
    /// The method.
    pub method: String,
    /// The path as it was sent.
    pub path: String,
    /// The body; nothing if it is no JSON.
    pub body: Value,
    /// The answer's status; none if the connection was cut.
    pub status: Option<u16>,
    /// The name of the error that it was answered with.
    pub error: Option<String>,
}

/// A memory.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) days: u32,
    pub(super) created: Duration,
    pub(super) description: Option<String>,
    pub(super) strategies: Vec<Value>,
}

/// An event and when it ends.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) event: Event,
    pub(super) written: Duration,
    pub(super) expires: Duration,
}

/// What a client token was used for.
#[derive(Debug, Clone)]
pub(super) struct Used {
    pub(super) request: String,
    pub(super) event: Event,
    pub(super) at: Duration,
}

/// A session of an actor in a memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) memory: String,
    pub(super) actor: String,
    pub(super) session: String,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) memories: BTreeMap<String, Memory>,
    /// By session, then by id.
    pub(super) events: BTreeMap<Place, BTreeMap<String, Stored>>,
    /// When each session began.
    pub(super) sessions: BTreeMap<Place, Duration>,
    pub(super) tokens: HashMap<(String, String), Used>,
    pub(super) faults: Faults,
    pub(super) tricks: Tricks,
    pub(super) recorded: VecDeque<Recorded>,
    windows: HashMap<(Operation, Option<Place>), VecDeque<Duration>>,
    made: u64,
}

impl State {
    pub(super) fn add_memory(&mut self, name: &str, id: &str, days: u32, now: Duration) -> String {
        let memory = Memory {
            name: name.to_owned(),
            id: id.to_owned(),
            days,
            created: now,
            description: None,
            strategies: Vec::new(),
        };
        self.memories.insert(id.to_owned(), memory);
        id.to_owned()
    }

    /// Digits that nobody can foresee, and the same in every run.
    pub(super) fn digits(&mut self) -> String {
        self.made += 1;
        encode::sha256_hex(&self.made.to_le_bytes())
    }

    /// Whether one more request fits into the second that ends now.
    pub(super) fn has_room(&mut self, operation: Operation, place: Option<Place>, limit: usize, now: Duration) -> bool {
        let window = self.windows.entry((operation, place)).or_default();
        while window.front().is_some_and(|at| *at + Duration::from_secs(1) <= now) {
            window.pop_front();
        }
        let has_room = window.len() < limit;
        if has_room {
            window.push_back(now);
        }
        has_room
    }

    pub(super) fn record(&mut self, request: Recorded) {
        if self.recorded.len() == MAX_RECORDED {
            self.recorded.pop_front();
        }
        self.recorded.push_back(request);
    }

    pub(super) fn all_events(&self) -> Vec<Event> {
        self.events.values().flat_map(|events| events.values().map(|stored| stored.event.clone())).collect()
    }

    pub(super) fn fill(&mut self, events: Vec<Event>, now: Duration) {
        for event in events {
            let (memory, actor, session) = (event.memory_id.clone(), event.actor_id.clone(), event.session_id.clone());
            let place = Place { memory, actor, session };
            self.sessions.entry(place.clone()).or_insert(now);
            let stored = Stored { event: event.clone(), written: now, expires: Duration::MAX };
            self.events.entry(place).or_default().insert(event.event_id, stored);
        }
    }

    pub(super) fn tamper(&mut self, event_id: &str, change: impl FnOnce(Event) -> Option<Event>) {
        let Some(events) = self.events.values_mut().find(|events| events.contains_key(event_id)) else { return };
        let Some(mut stored) = events.remove(event_id) else { return };
        if let Some(event) = change(stored.event) {
            stored.event = event;
            events.insert(event_id.to_owned(), stored);
        }
    }
}

/// Everything that requests share.
pub(super) struct Shared {
    pub(super) options: Options,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        Self { options, state: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        (self.options.clock)()
    }
}
