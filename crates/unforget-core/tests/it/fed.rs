//! A view that is fed equals one that is loaded, byte for byte, whatever happens to a session in between.

use std::sync::Arc;

use unforget_core::directory::Directory;
use unforget_core::edit::{self, Edit, EditScope, Target};
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::medium::Os;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::summary::{self, Row};
use unforget_core::view;
use unforget_core::view::{Restored, ViewCache};
use unforget_core::{OnMissing, Store};
use unforget_testkit::counting::Counting;
use unforget_testkit::generate::{self, Dice};

use crate::support::crash_store;

/// Asks once more if a fault that was planned happens now.
fn again<T>(ask: impl Fn() -> unforget_core::Result<T>) -> T {
    ask().or_else(|_| ask()).unwrap()
}

/// Everything that a reader is told: what would be sent, and what was met.
pub(crate) fn told(restored: &Restored) -> (String, String) {
    let Restored { history, report } = restored;
    let facts = (&history.unanswered, &history.pending, &history.model, &history.repairs, report);
    (history.to_request("m", 1), format!("{facts:?} {}", history.messages.len()))
}

pub(crate) fn seen(session: &Session, limits: &Limits) -> (String, String) {
    told(&again(|| session.history(limits)))
}

/// The same by someone who has only the file.
pub(crate) fn loaded(store: &Directory, session: &Session, limits: &Limits) -> (String, String) {
    let (medium, blobs) = (store.medium().as_ref(), session.blobs());
    told(&again(|| view::restore(medium, session.path(), blobs, limits)))
}

/// What a row says of a session, by the session and by someone who has only the file.
pub(crate) fn rows(session: &Session) -> [Row; 2] {
    let (row, _) = again(|| summary::summarise(&session.reader()?, session.id().as_str()));
    [again(|| session.row()), row]
}

/// Something that happens to a session.
fn happen(dice: &mut Dice, session: &mut Session, turn: usize) -> String {
    let tree = session.tree().unwrap();
    let path: Vec<u64> = tree.path().ranges().flatten().filter(|n| *n > 0).collect();
    let any = |dice: &mut Dice| if path.is_empty() { 0 } else { path[dice.below(path.len())] };
    let next = tree.last().map_or(1, |place| place.n) + 1;
    let draft = match dice.below(22) {
        0 => Draft::compaction(&format!("SUMMARY {turn}"), Some(any(dice))),
        1 => Draft::compaction(&format!("SUMMARY {turn}"), None),
        2 => Draft::trim(&[any(dice), any(dice), next + 40], 60),
        3 => Draft::undo(any(dice)),
        4 => Draft::pin(any(dice), Some("a pin")),
        5 => Draft::new("context")
            .text("system", &format!("system {}", dice.below(3)))
            .raw("tools", "[]")
            .text("model", "m"),
        6 => Draft::head(Some(dice.below(usize::try_from(next).unwrap()) as u64), "rewind"),
        7 => Draft::head(None, "rewind"),
        8 => Draft::label(Some(any(dice)), &format!("name {}", dice.below(3))),
        9 => Draft::title("a title"),
        10 => Draft::tool_use(Some(&format!("m{turn}")), &format!("toolu_open_{turn}"), "t", "{}"),
        11 => Draft::user(&"large ".repeat(if dice.one_in(3) { 50_000 } else { 50 })),
        12 => {
            let edits = [
                Edit::Undo {},
                Edit::Redo {},
                Edit::Retry {},
                Edit::UndoCompaction {},
                Edit::Rewind { to: Target::Start },
            ];
            let edit = edits[dice.below(edits.len())].clone();
            let what = format!("{edit:?}");
            return match edit::apply_one(session, edit, &EditScope::default()) {
                Ok(_) => what,
                Err(error) => format!("{what}: {error}"),
            };
        }
        13 => {
            session.reopen().unwrap();
            return "reopen".to_owned();
        }
        14 => return format!("{:?}", session.settle(&Limits::default()).unwrap()),
        _ => {
            session.append(&generate::turn(dice, turn)).unwrap();
            return "turn".to_owned();
        }
    };
    session.append(std::slice::from_ref(&draft)).unwrap();
    format!("{:?}", draft.kind())
}

#[test]
fn a_fed_view_is_the_loaded_one() {
    for seed in 0..300 {
        let (_medium, store) = crash_store();
        let mut dice = Dice::new(seed);
        let mut session = store.create(&Key::default(), None).unwrap();
        let limits = match dice.below(5) {
            0 => Limits::default(),
            // Read whole while it is short, and from the end when it has grown.
            4 => Limits { bytes: 500 + dice.below(3000), ..Limits::default() },
            1 => Limits::tokens(60 + dice.below(400) as u64),
            2 => Limits::tokens(4000),
            _ => Limits::tokens(1_000_000),
        };
        let mut life = Vec::new();
        for turn in 0..40 {
            life.push(happen(&mut dice, &mut session, turn));
            // Some appends are fed one after the other before anybody looks.
            if dice.one_in(3) {
                continue;
            }
            let (fed, file) = (seen(&session, &limits), loaded(&store, &session, &limits));
            assert_eq!(fed, file, "seed {seed}, {limits:?}: {life:?}");
            let records = |session: &Session| {
                session.view(&limits, |path, _| path.records.iter().map(|it| it.raw.to_owned()).collect::<Vec<_>>())
            };
            let fed = records(&session).unwrap();
            let file = view::read(store.medium().as_ref(), session.path(), session.blobs(), &limits, |path, _| {
                path.records.iter().map(|it| it.raw.to_owned()).collect::<Vec<_>>()
            });
            assert_eq!(fed, file.unwrap(), "seed {seed}, {limits:?}: {life:?}");
            let [fed, file] = rows(&session);
            assert_eq!(fed, file, "seed {seed}: {life:?}");
        }
    }
}

#[test]
fn what_is_written_does_not_depend_on_whether_there_is_a_view() {
    for seed in 0..150 {
        // All records, or those that are sent.
        let limits = if seed % 2 == 0 { Limits::default() } else { Limits::tokens(400) };
        let [fed, none] = [true, false].map(|has_view| {
            let (medium, store) = crash_store();
            let mut dice = Dice::new(seed);
            let mut session = store.create(&Key::default(), None).unwrap();
            for turn in 0..40 {
                match has_view {
                    true => drop(session.history(&limits).unwrap()),
                    false => session.reopen().unwrap(),
                }
                happen(&mut dice, &mut session, turn);
            }
            medium.read(session.path()).unwrap()
        });
        assert_eq!(String::from_utf8(fed).unwrap(), String::from_utf8(none).unwrap(), "seed {seed}");
    }
}

#[test]
fn lines_that_another_program_adds_without_the_lock_are_seen() {
    let (medium, store) = crash_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    session.append(&[Draft::user("one")]).unwrap();
    let limits = Limits::default();
    seen(&session, &limits);
    let mut bytes = medium.read(session.path()).unwrap();
    bytes.extend_from_slice(b"{\"v\":1,\"n\":2,\"parent\":1,\"type\":\"user\",\"content\":\"strange\"}\n");
    medium.write_file(session.path(), &bytes).unwrap();
    let (history, _) = seen(&session, &limits);
    assert!(history.contains("strange"), "{history}");
    assert_eq!(seen(&session, &limits), loaded(&store, &session, &limits));
    let [fed, file] = rows(&session);
    assert_eq!(fed, file);
}

#[test]
fn a_turn_reads_nothing_of_its_transcript_and_opening_reads_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let os = Os::new(folder.path());
    let counting = Counting::new(os);
    let store = Store::builder(folder.path()).medium(Arc::new(counting.clone())).open().unwrap();
    let key = Key::default();
    let mut session = store.create(&key, None).unwrap();
    let answer = "an answer of some length ".repeat(40);
    let turns: Vec<Draft> = (0..4000)
        .flat_map(|turn| {
            let block = format!("[{{\"type\":\"text\",\"text\":\"{answer}\"}}]");
            [Draft::user(&format!("question {turn}")), Draft::assistant(None, &block), Draft::turn("done")]
        })
        .collect();
    session.append(&turns).unwrap();
    session.append(&[Draft::compaction("SUMMARY", Some(session.head().unwrap() - 60))]).unwrap();
    session.close().unwrap();
    // Opening, the row, the branches, and what would be sent: the end of the file, and what the index says of the rest.
    let before = counting.bytes_read();
    let mut session = store.load(&key, OnMissing::Fail).unwrap();
    let limits = Limits::tokens(1_600_000);
    let len = session.reader().unwrap().len();
    assert!(len > 4_000_000, "{len}");
    assert_eq!(session.row().unwrap().turns, 4000);
    assert_eq!(session.tree().unwrap().turns(), 4000);
    assert!(session.history(&limits).unwrap().history.messages.len() > 20);
    let opened = counting.bytes_read() - before;
    assert!(opened < 1_000_000, "opening read {opened} of {len} bytes");
    // A turn: words, a look, an answer, another look, a checkpoint.
    let before = counting.bytes_read();
    session.append(&[Draft::user("and now?")]).unwrap();
    let asked = session.history(&limits).unwrap().history.to_request("m", 1);
    session.append(&[Draft::assistant(None, "\"this\""), Draft::turn("done")]).unwrap();
    let answered = session.history(&limits).unwrap().history.to_request("m", 1);
    assert!(asked.contains("and now?") && answered.contains("this"));
    edit::apply_one(&mut session, Edit::Checkpoint { name: "here".parse().unwrap(), at: None }, &EditScope::default())
        .unwrap();
    assert_eq!(session.row().unwrap().turns, 4001);
    assert_eq!(counting.bytes_read() - before, 0, "a turn reads nothing again");
}

#[test]
fn views_share_a_budget_and_leave_with_their_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let counting = Counting::new(Os::new(folder.path()));
    let views = Arc::new(ViewCache::new(100_000));
    let store = Store::builder(folder.path()).medium(Arc::new(counting.clone())).views(views.clone()).open().unwrap();
    let limits = Limits::default();
    let open = |peer: &str| {
        let mut session = store.create(&format!("main:cli:{peer}").parse().unwrap(), None).unwrap();
        session.append(&[Draft::user(&peer.repeat(30_000))]).unwrap();
        session
    };
    let looked = |session: &Session| {
        let before = counting.bytes_read();
        assert_eq!(session.history(&limits).unwrap().history.messages.len(), 1);
        counting.bytes_read() - before
    };
    let sessions = ["a", "b", "c", "d"].map(open);
    for session in &sessions {
        assert!(looked(session) > 30_000, "the first look reads");
    }
    assert!((60_000..=100_000).contains(&views.bytes()), "{}", views.bytes());
    // The first one had to go for the last one; looked at again, it takes the place of the second.
    assert_eq!(looked(&sessions[3]), 0);
    assert!(looked(&sessions[0]) > 30_000);
    assert_eq!((looked(&sessions[0]), looked(&sessions[3])), (0, 0));
    assert!(looked(&sessions[1]) > 30_000);
    drop(sessions);
    assert_eq!(views.bytes(), 0);
}
