//! The faults of conversations, one by one: whatever happened to the records, what is sent is right.
//!
//! Each test carries the number of its fault. Those with a fixture start from the bytes that the fault leaves behind;
//! the others play the situation through on a store.

use serde_json::{Value, json};
use unforget_core::directory::{Directory, OnMissing};
use unforget_core::history::{History, Limits, RepairKind, UNKNOWN_OUTCOME};
use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::view::Restored;
use unforget_testkit::crash::{CrashMedium, Survival};
use unforget_testkit::rules;

use crate::support;

mod calls;
mod images;
mod messages;
mod restarts;
mod thinking;
mod turns;

/// Where the transcript of a fixture is put.
const FIXTURE_PATH: &str = "agents/main/sessions/abc123.jsonl";

/// A store that holds the fixture of a fault as its only session.
fn fixture_store(name: &str) -> (CrashMedium, Directory) {
    let file = format!("{}/tests/fixtures/faults/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    store_of(&std::fs::read(file).unwrap())
}

/// A store that holds one session of these bytes.
fn store_of(bytes: &[u8]) -> (CrashMedium, Directory) {
    let (medium, store) = support::crash_store();
    medium.write_file(FIXTURE_PATH, bytes).unwrap();
    (medium, store)
}

/// The history of a fixture: accepted by the API, and rebuilt without a change to the transcript.
fn history_of_fixture(name: &str) -> History<'static> {
    let (medium, store) = fixture_store(name);
    let before = medium.read(FIXTURE_PATH).unwrap();
    let history = restored(&store).history;
    assert_eq!(medium.read(FIXTURE_PATH).unwrap(), before, "{name} was rewritten");
    assert_eq!(history, support::history(&before), "{name} reads differently through the store");
    support::assert_accepted(&history, name);
    history
}

/// The history of these lines; checked like that of a fixture.
fn history_of_lines(lines: &[&str]) -> History<'static> {
    let history = support::history(lines.join("\n").as_bytes());
    support::assert_accepted(&history, "lines");
    history
}

/// What the store rebuilds of its only session.
fn restored(store: &Directory) -> Restored {
    restored_within(store, &Limits::default())
}

fn restored_within(store: &Directory, limits: &Limits) -> Restored {
    let listing = store.list().unwrap();
    assert_eq!(listing.entries.len(), 1);
    store.history(&listing.entries[0], limits).unwrap()
}

/// A new session with these records.
fn session_with(store: &Directory, drafts: &[Draft]) -> Session {
    let mut session = store.create(&key(), None).unwrap();
    session.append(drafts).unwrap();
    session
}

/// The session of the store, opened for writing.
fn opened(store: &Directory) -> Session {
    store.load(&key(), OnMissing::Fail).unwrap()
}

fn key() -> Key {
    "main:cli:user".parse().unwrap()
}

/// The same disk after the power came back.
fn after_power_loss(medium: &CrashMedium) -> (CrashMedium, Directory) {
    let medium = medium.restart(Survival::OnlySynced);
    (medium.clone(), support::store_on(medium))
}

/// The messages, as values.
fn sent(history: &History<'_>) -> Value {
    serde_json::from_str(&history.to_json()).unwrap()
}

/// What the server says to a request of this history.
fn answer_of(history: &History<'_>, server: &rules::Server<'_>) -> Result<(), rules::Rejection> {
    rules::check(history.to_request(server.model, 1024).as_bytes(), server)
}

/// The repairs, each with the record that it is about.
fn repairs(history: &History<'_>) -> Vec<(u64, RepairKind)> {
    history.repairs.iter().map(|repair| (repair.n, repair.kind.clone())).collect()
}

fn user(blocks: Value) -> Value {
    json!({"role": "user", "content": blocks})
}

fn assistant(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The call that most fixtures make.
fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": "a"}})
}

fn result(id: &str, content: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

/// The result that stands in for one that was never saved.
fn unknown(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": UNKNOWN_OUTCOME, "is_error": true})
}

/// Content with one block of text.
fn words(text: &str) -> String {
    format!(r#"[{{"type":"text","text":{}}}]"#, unforget_core::json::quote(text))
}
