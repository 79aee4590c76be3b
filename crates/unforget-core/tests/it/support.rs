//! What the tests share: a clock and ids that repeat, and short ways to say common things.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unforget_core::directory::Directory;
use unforget_core::history::{History, Limits, rebuild_all};
use unforget_core::log::Durability;
use unforget_core::medium::{Medium, Os};
use unforget_core::scan::scan;
use unforget_core::stamp::{SessionId, Source};
use unforget_testkit::crash::CrashMedium;
use unforget_testkit::rules;

/// A clock that ticks one second a call, and ids that count up.
#[derive(Debug, Default)]
pub(crate) struct Ticking {
    time: AtomicU64,
    ids: AtomicU64,
}

impl Ticking {
    /// One whose ids begin elsewhere, for a second process on the same files.
    pub(crate) fn counting_from(ids: u64) -> Self {
        Self { ids: AtomicU64::new(ids), ..Self::default() }
    }
}

impl Source for Ticking {
    fn now_ms(&self) -> i64 {
        1_767_225_600_000 + i64::try_from(self.time.fetch_add(1000, Ordering::Relaxed)).unwrap()
    }

    fn new_id(&self, _: i64) -> SessionId {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        SessionId::parse(&format!("01900000-0000-7000-8000-{count:012}")).unwrap()
    }
}

pub(crate) fn store_on(medium: impl Medium + 'static) -> Directory {
    Directory::new(Arc::new(medium), Arc::new(Ticking::default()), Durability::PowerLoss)
}

pub(crate) fn crash_store() -> (CrashMedium, Directory) {
    let medium = CrashMedium::new();
    (medium.clone(), store_on(medium))
}

pub(crate) fn disk_store() -> (tempfile::TempDir, Directory) {
    let home = tempfile::tempdir().unwrap();
    let store = store_on(Os::new(home.path().join("home")));
    (home, store)
}

/// The history of a whole transcript, independent of the bytes.
pub(crate) fn history(bytes: &[u8]) -> History<'static> {
    rebuild_all(&scan(bytes).records, &Limits::default()).into_owned()
}

/// The messages as they would be sent with the user's next words, checked by the API's rules.
pub(crate) fn assert_accepted(history: &History<'_>, what: &str) {
    if let Err(rejection) = accepted(history) {
        panic!("{what}: {rejection}\n{}", history.to_json());
    }
}

pub(crate) fn accepted(history: &History<'_>) -> Result<(), rules::Rejection> {
    let mut messages = history.to_json();
    if messages == "[]" {
        return Ok(());
    }
    if let Some(last) = history.messages.last()
        && last.role.name() == "assistant"
        // A paused turn goes on with what the model said; the user does not speak in between.
        && !has_open_server_call(&last.blocks)
    {
        messages.truncate(messages.len() - 1);
        messages.push_str(",{\"role\":\"user\",\"content\":\"go on\"}]");
    }
    let tools = history.tools.as_deref().unwrap_or("[]");
    let body = format!("{{\"model\":\"claude-opus-5\",\"max_tokens\":1024,\"tools\":{tools},\"messages\":{messages}}}");
    rules::check(body.as_bytes(), &rules::Server::default())
}

fn has_open_server_call(blocks: &[std::borrow::Cow<'_, str>]) -> bool {
    let blocks: Vec<serde_json::Value> = blocks.iter().filter_map(|block| serde_json::from_str(block).ok()).collect();
    let ids = |kind: fn(&str) -> bool, id: &'static str| -> Vec<&serde_json::Value> {
        blocks.iter().filter(|block| block["type"].as_str().is_some_and(kind)).map(|block| &block[id]).collect()
    };
    let done = ids(|kind| kind.ends_with("_tool_result"), "tool_use_id");
    ids(|kind| kind == "server_tool_use", "id").iter().any(|id| !done.contains(id))
}
