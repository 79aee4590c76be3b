//! What a server remembers while it runs, and how a test waits for it.
//!
//! Requests are handled on the server's thread, tests look from theirs; everything between them is behind one lock,
//! with a condition variable for those who wait. No wait is longer than [`PATIENCE`]: a test whose request never comes
//! fails with what is there instead of hanging.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Options;
use super::cache::Cache;
use super::record::Recorded;
use super::script::Script;
use crate::rules;

const PATIENCE: Duration = Duration::from_secs(60);
/// How many requests are kept; the oldest are forgotten first.
const MAX_RECORDED: usize = 4096;
const ID_DIGITS: usize = 24;

/// What the server's thread and the tests share.
pub(super) struct Shared {
    pub(super) options: Options,
    state: Mutex<State>,
    changed: Condvar,
    releases: watch::Sender<u64>,
}

/// What changes while the server runs.
#[derive(Default)]
pub(super) struct State {
    pub(super) recorded: VecDeque<Recorded>,
    /// How many requests for a message arrived.
    pub(super) messages: usize,
    /// How many clients went away before they had everything.
    pub(super) hang_ups: usize,
    pub(super) script: Script,
    pub(super) fails_counts: bool,
    pub(super) cache: Cache,
    /// Each signature that was issued, with the hash of what it is bound to.
    pub(super) signatures: HashMap<String, String>,
    requests: u64,
    ids: u64,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        let (releases, _) = watch::channel(0);
        Self { options, state: Mutex::default(), changed: Condvar::new(), releases }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a request down; from here on it counts as arrived.
    pub(super) fn arrive(&self, make: impl FnOnce(u64) -> Recorded) -> Recorded {
        let mut state = self.lock();
        state.requests += 1;
        let recorded = make(state.requests);
        state.messages += usize::from(recorded.is_message());
        if state.recorded.len() >= MAX_RECORDED {
            state.recorded.pop_front();
        }
        state.recorded.push_back(recorded.clone());
        drop(state);
        self.changed.notify_all();
        recorded
    }

    /// Writes down how a request was answered.
    pub(super) fn note_answer(&self, answered: &Recorded) {
        let mut state = self.lock();
        if let Some(recorded) = state.recorded.iter_mut().rfind(|recorded| recorded.number == answered.number) {
            recorded.clone_from(answered);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn note_hang_up(&self) {
        self.lock().hang_ups += 1;
        self.changed.notify_all();
    }

    /// Waits until the condition holds, or as long as patience lasts.
    pub(super) fn wait_until(&self, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, |state| !holds(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn release(&self) {
        self.releases.send_modify(|count| *count += 1);
    }

    pub(super) fn releases(&self) -> u64 {
        *self.releases.borrow()
    }

    /// Waits until there was a release after the first `before`.
    pub(super) async fn released(shared: Arc<Self>, before: u64) {
        let mut releases = shared.releases.subscribe();
        // The sender lives as long as this future, so there is always an answer.
        drop(releases.wait_for(|count| *count > before).await);
    }
}

impl State {
    /// Makes an id that no other block of this server has.
    pub(super) fn id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}_{}", base36(self.ids))
    }

    /// Gives ids to calls that have none, and signatures to thinking.
    pub(super) fn sign(&mut self, blocks: &mut [Value], body: &Value) {
        let at = body.get("messages").and_then(Value::as_array).map_or(0, Vec::len);
        for block in blocks {
            let has = |name: &str| block.get(name).is_some_and(|member| !member.is_null());
            match block.get("type").and_then(Value::as_str) {
                Some("tool_use") if !has("id") => block["id"] = json!(self.id("toolu")),
                Some("server_tool_use") if !has("id") => block["id"] = json!(self.id("srvtoolu")),
                Some("thinking") => {
                    let prefix = rules::prefix_hash(body, at);
                    if !has("signature") {
                        self.ids += 1;
                        block["signature"] = json!(STANDARD.encode(format!("signature {} {prefix}", self.ids)));
                    }
                    let signature = block.get("signature").and_then(Value::as_str).unwrap_or_default();
                    self.signatures.insert(signature.to_owned(), prefix);
                }
                _ => {}
            }
        }
    }
}

/// Digits and small letters, padded to a fixed length.
pub(super) fn base36(number: u64) -> String {
    let mut digits = Vec::new();
    let mut rest = number;
    while rest > 0 {
        digits.push(char::from_digit((rest % 36) as u32, 36).unwrap_or('0'));
        rest /= 36;
    }
    let digits: String = digits.into_iter().rev().collect();
    format!("{digits:0>ID_DIGITS$}")
}
