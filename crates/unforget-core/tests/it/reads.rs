//! How much of a transcript is read, counted by the medium: the end of it when it is opened, and nothing of it in a turn.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use unforget_core::history::Limits;
use unforget_core::index::Depth;
use unforget_core::key::Key;
use unforget_core::medium::Os;
use unforget_core::observer::Ending;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::{OnMissing, Store};
use unforget_testkit::counting::{Counting, Reads};
use unforget_testkit::long_past::LongPast;

const GB: u64 = 1 << 30;
/// What the view of a model with a window of 200,000 tokens is read for, as the agent has it.
const WINDOWS: u64 = 8 * 200_000;

/// A store on a medium that counts.
struct Scene {
    store: Store,
    counting: Counting,
    key: Key,
    transcript: PathBuf,
    past: u64,
    _folder: TempDir,
}

impl Scene {
    /// With a session of that length whose model has almost filled its window again since the last compaction.
    fn new(bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key: Key = "main:cli:user".parse().unwrap();
        let session = Store::builder(folder.path()).without_index().open().unwrap().create(&key, None).unwrap();
        let transcript = session.path().to_owned();
        drop(session);
        let past = LongPast::new(Os::new(folder.path()), &transcript, bytes).unwrap();
        let turns = past.turns();
        let counting = Counting::new(past);
        let store = Store::builder(folder.path()).medium(Arc::new(counting.clone())).open().unwrap();
        let mut session = store.load(&key, OnMissing::Fail).unwrap();
        let context =
            Draft::new("context").text("system", &"Be brief. ".repeat(1000)).raw("tools", "[]").text("model", "m");
        session.append(&[context]).unwrap();
        say(&mut session, 25);
        let head = session.head().unwrap();
        session.append(&[Draft::compaction("SUMMARY", Some(head - 30))]).unwrap();
        say(&mut session, 25);
        session.close().unwrap();
        Self { store, counting, key, transcript, past: turns, _folder: folder }
    }

    fn reads(&self) -> Reads {
        self.counting.reads_of(&self.transcript)
    }
}

/// So many turns of about 25,000 bytes.
fn say(session: &mut Session, turns: usize) {
    let block = format!("[{{\"type\":\"text\",\"text\":\"{}\"}}]", "an answer of some length ".repeat(1000));
    for turn in 0..turns {
        session
            .append(&[Draft::user(&format!("question {turn}")), Draft::assistant(None, &block), Draft::turn("done")])
            .unwrap();
    }
}

/// What the chat asks before its first prompt: the session of the key, what a list says of it, what would be sent, and the branches.
#[test]
fn opening_a_session_of_a_gigabyte_reads_less_than_two_megabytes() {
    let scene = Scene::new(GB);
    assert!(scene.reads().bytes > GB, "the index has read it once");
    scene.counting.forget();
    let entry = scene.store.last_used(&scene.key, &mut |_, _| {}).unwrap().value.unwrap();
    let session = scene.store.open_session(&entry).unwrap();
    let row = session.row().unwrap();
    assert_eq!((row.turns, row.title.as_deref(), row.damage), (scene.past + 50, Some("question 0"), 0));
    assert!(row.bytes > GB);
    let restored = session.history(&Limits::tokens(WINDOWS)).unwrap();
    assert_eq!(restored.report.damage_count(), 0);
    assert!(restored.history.messages.len() > 50, "{}", restored.history.messages.len());
    assert_eq!(session.tree().unwrap().turns(), row.turns);
    // What is done beside it: the index catches up, and the rows of the list are put down for other programs.
    let index = scene.store.index().unwrap();
    index.catch_up(scene.store.directory(), Depth::Changed, &mut |_, _| {}).unwrap();
    index.sum_up().unwrap();
    scene.store.refresh().unwrap();
    let read = scene.reads();
    assert!(read.bytes < 2_000_000, "opening read {read:?}");
}

/// What a chat's caretaker does beside a turn: the index takes in what the turn wrote, once for the row and once for its words.
#[test]
fn the_index_beside_a_turn_reads_what_it_wrote_and_nothing_before_it() {
    let scene = Scene::new(10 << 20);
    let index = scene.store.index().unwrap();
    let beside = |session: &Session| {
        index.update(session.touched().unwrap(), Ending::Open).unwrap();
        index.catch_up(scene.store.directory(), Depth::Changed, &mut |_, _| {}).unwrap();
        index.sum_up().unwrap();
        index.take_in_words(&mut |_, _| true).unwrap();
        scene.store.refresh().unwrap();
    };
    let mut session = scene.store.load(&scene.key, OnMissing::Fail).unwrap();
    say(&mut session, 1);
    beside(&session);
    let before = session.position().offset;
    scene.counting.forget();
    say(&mut session, 1);
    assert_eq!(scene.reads(), Reads::default(), "the turn itself");
    let written = session.position().offset - before;
    beside(&session);
    session.close().unwrap();
    let read = scene.reads();
    assert!(read.bytes < 2 * written + 1000, "{read:?} of {written}");
}
