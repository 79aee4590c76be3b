//! What the server is sent: seen at the moment of its arrival, while the program waits for the answer.
//!
//! At that moment the log says everything that the request was made from, so its length tells which records lie between two
//! requests. A conversation that only grew must be sent as the same bytes and more: anything else would lose the
//! server's cache and the thinking that is bound to what comes before it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use unforget_testkit::api::{FakeApi, Log as ApiLog, Recorded, Reply};

use super::log::Log;
use super::program::PATIENCE;

/// More than one process sends.
const WAITING: usize = 10_000;
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";
/// Records that may change the beginning of a conversation.
const CHANGES: [&str; 5] = ["compaction", "trim", "undo", "head", "context"];

/// A request, and how long the log was when it came.
struct Seen {
    body: String,
    log: u64,
}

/// Looks at the requests of a server.
pub(super) struct Requests {
    seen: Receiver<Seen>,
    last: Option<(Vec<String>, u64)>,
    pub(super) compared: usize,
    /// Requests that are not of the conversation: summaries.
    pub(super) others: usize,
    pub(super) new_beginnings: usize,
}

impl Requests {
    pub(super) fn watch(api: &FakeApi, log: &Log) -> Self {
        let (sender, seen) = sync_channel(WAITING);
        let path = log.path.clone();
        let look = move |request: &Recorded| {
            let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            let body = String::from_utf8_lossy(&request.body).into_owned();
            sender.try_send(Seen { body, log: length }).unwrap();
            false
        };
        // A condition that never holds: it is asked about every request that was accepted.
        api.push_for(look, Reply::Silence);
        Self { seen, last: None, compared: 0, others: 0, new_beginnings: 0 }
    }

    /// Compares each new request with the one before it.
    pub(super) fn check(&mut self, log: &Log) {
        for seen in self.seen.try_iter() {
            if !has_tools(&seen.body) {
                self.others += 1;
                continue;
            }
            let bare = seen.body.replace(MARK, "");
            assert!(!bare.contains("cache_control"), "a mark in an unknown place: {bare}");
            let blocks = blocks(&bare);
            if let Some((before, length)) = &self.last {
                self.compared += 1;
                let same = before.iter().zip(&blocks).take_while(|(one, other)| one == other).count();
                if same < before.len() {
                    let between = log.kinds(*length, seen.log);
                    let reason = between.iter().any(|kind| CHANGES.contains(&kind.as_str()));
                    let now = blocks.get(same).map_or("nothing", String::as_str);
                    assert!(
                        reason,
                        "block {same} of {} was\n{}\nand is\n{now}\nbut there are only {between:?} in between",
                        before.len(),
                        before[same]
                    );
                    self.new_beginnings += 1;
                }
            }
            self.last = Some((blocks, seen.log));
        }
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: &'a str,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// A request as the server reads it: tools, system prompt, and each block with who said it.
fn blocks(body: &str) -> Vec<String> {
    let body: Body<'_> = serde_json::from_str(body).unwrap();
    let text = |raw: Option<&RawValue>| raw.map_or(String::new(), |raw| raw.get().to_owned());
    let mut blocks = vec![text(body.tools), text(body.system)];
    for message in &body.messages {
        blocks.extend(message.content.iter().map(|block| format!("{} {}", message.role, block.get())));
    }
    blocks
}

fn has_tools(body: &str) -> bool {
    body.contains("\"tools\":[{")
}

/// Whether a request is one of the conversation; the summariser has no tools.
pub(super) fn is_of_conversation(body: &str) -> bool {
    has_tools(body)
}

/// Collects what the rules of the server find wrong.
pub(super) fn refusals() -> (Arc<Mutex<Vec<String>>>, ApiLog) {
    let found = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&found);
    let note = move |request: &Recorded| {
        if let Some(refusal) = &request.refusal {
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {refusal:?}", request.number));
        }
    };
    (found, Box::new(note))
}

/// A planned reply to one request of one prompt, which says when it is used.
pub(super) struct Trap {
    sprung: Receiver<()>,
    armed: Arc<Mutex<Option<SyncSender<()>>>>,
}

impl Trap {
    /// Answers so to the request number `which` that has the marker and is picked.
    pub(super) fn set(api: &FakeApi, marker: &str, which: usize, pick: fn(&str) -> bool, reply: Reply) -> Self {
        let (sender, sprung) = sync_channel(1);
        let armed = Arc::new(Mutex::new(Some(sender)));
        let (shared, marker, seen) = (Arc::clone(&armed), marker.to_owned(), Mutex::new(0));
        let condition = move |request: &Recorded| {
            let mut armed = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let body = String::from_utf8_lossy(&request.body);
            if armed.is_none() || !body.contains(&marker) || !pick(&body) {
                return false;
            }
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            *seen += 1;
            if *seen < which {
                return false;
            }
            armed.take().is_some_and(|sender| sender.send(()).is_ok())
        };
        api.push_for(condition, reply);
        Self { sprung, armed }
    }

    /// Waits until the request is there.
    pub(super) fn wait(self, otherwise: impl Fn() -> String) {
        let came = self.sprung.recv_timeout(PATIENCE);
        self.armed.lock().unwrap_or_else(PoisonError::into_inner).take();
        assert!(came.is_ok(), "the request does not come; {}", otherwise());
    }
}
