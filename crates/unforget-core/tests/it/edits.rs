//! Edits through a store: each outcome, its records, its inverse, its errors.

use unforget_core::edit::{self, Applied, Change, Edit, EditError, EditScope, Target};
use unforget_core::history::Limits;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::tree::{HeadState, Kind};
use unforget_core::{speech, summary};

use crate::support::crash_store;
use unforget_core::directory::Directory;
use unforget_core::key::Key;

/// A session with so many turns, each a question and an answer.
fn session(store: &Directory, turns: u64) -> Session {
    let mut session = store.create(&Key::default(), None).unwrap();
    for turn in 0..turns {
        let answer = format!("[{{\"type\":\"text\",\"text\":\"answer {turn}\"}}]");
        session.save_turn(&format!("question {turn}"), &answer).unwrap();
    }
    session
}

fn apply(session: &mut Session, edit: Edit) -> Result<Applied, EditError> {
    edit::apply_one(session, edit, &EditScope::default())
}

fn done(session: &mut Session, edit: Edit) -> Applied {
    apply(session, edit).unwrap()
}

fn refused(session: &mut Session, edit: Edit) -> String {
    let before = session.reader().unwrap().len();
    let error = apply(session, edit).unwrap_err();
    assert_eq!(session.reader().unwrap().len(), before, "a refused edit writes nothing");
    error.to_string()
}

fn step(n: u64) -> Target {
    Target::Step(n)
}

fn name(text: &str) -> Target {
    Target::Name(text.parse().unwrap())
}

fn words(session: &Session) -> String {
    session.history(&Limits::default()).unwrap().history.to_request("m", 1)
}

#[test]
fn undo_and_redo_go_turn_by_turn_and_redo_only_forward() {
    let (_medium, store) = crash_store();
    let mut session = session(&store, 3);
    let tip = session.head();
    let whole = words(&session);
    for turn in [2, 1, 0] {
        let applied = done(&mut session, Edit::Undo {});
        assert_eq!(applied.change, Change::Moved { words: Some(format!("question {turn}")) });
        assert_eq!(session.tree().unwrap().turns(), turn, "the count is that of the way to the head");
    }
    assert_eq!(refused(&mut session, Edit::Undo {}), "there is nothing to take back");
    for turns in 1..=3 {
        let applied = done(&mut session, Edit::Redo {});
        assert!(applied.after.head > applied.before.head, "{applied:?}");
        assert_eq!(session.tree().unwrap().turns(), turns);
    }
    assert_eq!((session.head(), words(&session)), (tip, whole));
    assert!(refused(&mut session, Edit::Redo {}).starts_with("there is nothing to go forward to"));
    // A move sideways or forward is no move back (B6).
    let early = done(&mut session, Edit::Checkpoint { name: "early".parse().unwrap(), at: Some(step(3)) });
    assert!(matches!(early.change, Change::Named { to: 3, instead: None, .. }));
    done(&mut session, Edit::Restore { name: "early".parse().unwrap() });
    done(&mut session, Edit::Switch { to: step(tip.unwrap()) });
    assert!(refused(&mut session, Edit::Redo {}).starts_with("there is nothing to go forward to"));
    // Words end what can be redone.
    done(&mut session, Edit::Undo {});
    session.append(&[Draft::user("otherwise")]).unwrap();
    assert!(refused(&mut session, Edit::Redo {}).starts_with("there is nothing to go forward to"));
}

#[test]
fn each_inverse_leads_back() {
    let (_medium, store) = crash_store();
    let mut session = session(&store, 3);
    done(&mut session, Edit::Checkpoint { name: "here".parse().unwrap(), at: Some(step(4)) });
    done(&mut session, Edit::Branch { name: "side".parse().unwrap(), at: Some(step(4)) });
    session.append(&[Draft::user("aside")]).unwrap();
    done(&mut session, Edit::Switch { to: name("main") });
    done(&mut session, Edit::Title { title: "first".parse().unwrap() });
    let edits = [
        Edit::Undo {},
        Edit::Rewind { to: step(1) },
        Edit::Rewind { to: Target::Start },
        Edit::Rewind { to: name("side") },
        Edit::Switch { to: name("side") },
        Edit::Restore { name: "here".parse().unwrap() },
        Edit::Retry {},
        Edit::Checkpoint { name: "new".parse().unwrap(), at: None },
        Edit::Checkpoint { name: "here".parse().unwrap(), at: None },
        Edit::Branch { name: "other".parse().unwrap(), at: None },
        Edit::Branch { name: "other".parse().unwrap(), at: Some(step(4)) },
        Edit::DropName { name: "here".parse().unwrap() },
        Edit::DropName { name: "side".parse().unwrap() },
        Edit::DropName { name: "main".parse().unwrap() },
        Edit::PinSession { on: true },
        Edit::Label { label: Some("kept".parse().unwrap()) },
        Edit::Title { title: "second".parse().unwrap() },
        Edit::Expire { after: Some("30d".to_owned().try_into().unwrap()) },
    ];
    let state = |session: &Session| {
        let tree = session.tree().unwrap();
        let names: Vec<_> = tree.labels().into_iter().map(|it| (it.name, it.kind, it.to)).collect();
        let id = session.id().as_str();
        let (row, _) = summary::summarise(&session.reader().unwrap(), id).unwrap();
        let pins = session.view(&Limits::default(), |path, _| speech::pins(path));
        (tree.state(), names, pins.unwrap(), row.title, row.label, row.pinned, row.expires, row.turns)
    };
    for edit in edits {
        let before = state(&session);
        let applied = done(&mut session, edit.clone());
        assert!(applied.record.is_some() && !applied.inverse.is_empty(), "{edit:?}: {applied:?}");
        assert_ne!(state(&session), before, "{edit:?}");
        // One append for all of them.
        edit::apply(&mut session, &applied.inverse, &EditScope::default()).unwrap();
        assert_eq!(state(&session), before, "{edit:?}: {:?}", applied.inverse);
    }
    // A pin is a step, so the head moves on; the words are pinned no longer.
    let applied = done(&mut session, Edit::Pin { n: Some(1) });
    assert_eq!(state(&session).2, [(1, "question 0".to_owned())]);
    edit::apply(&mut session, &applied.inverse, &EditScope::default()).unwrap();
    assert_eq!(state(&session).2, []);
}

#[test]
fn what_is_so_already_is_not_written_again() {
    let (_medium, store) = crash_store();
    let mut session = session(&store, 2);
    done(&mut session, Edit::Pin { n: Some(1) });
    let head = session.head().unwrap();
    let before = session.reader().unwrap().len();
    for edit in [
        Edit::Pin { n: Some(1) },
        Edit::Unpin { n: 3 },
        Edit::Switch { to: name("main") },
        Edit::Rewind { to: step(head) },
    ] {
        let applied = done(&mut session, edit);
        assert_eq!((applied.record, &applied.before), (None, &applied.after));
    }
    assert_eq!(session.reader().unwrap().len(), before);
}

#[test]
fn a_name_belongs_to_one_thing() {
    let (_medium, store) = crash_store();
    let mut session = session(&store, 2);
    done(&mut session, Edit::Branch { name: "side".parse().unwrap(), at: None });
    done(&mut session, Edit::Checkpoint { name: "here".parse().unwrap(), at: None });
    let checkpoint = |name: &str| Edit::Checkpoint { name: name.parse().unwrap(), at: None };
    let branch = |name: &str| Edit::Branch { name: name.parse().unwrap(), at: None };
    assert_eq!(refused(&mut session, checkpoint("side")), "there is a branch `side` already");
    assert_eq!(refused(&mut session, checkpoint("main")), "there is a branch `main` already");
    assert_eq!(refused(&mut session, branch("here")), "there is a checkpoint `here` already");
    assert_eq!(refused(&mut session, Edit::Restore { name: "side".parse().unwrap() }), "`side` is a branch");
    assert_eq!(refused(&mut session, Edit::Switch { to: name("here") }), "`here` is a checkpoint");
    assert_eq!(refused(&mut session, Edit::Switch { to: name("gone") }), "there is no branch `gone`");
    assert_eq!(
        refused(&mut session, Edit::DropName { name: "gone".parse().unwrap() }),
        "there is no branch or checkpoint `gone`"
    );
    // Given up, a name can be given again, to anything.
    done(&mut session, Edit::DropName { name: "side".parse().unwrap() });
    done(&mut session, checkpoint("side"));
    assert_eq!(session.tree().unwrap().label("side").unwrap().kind, Kind::Checkpoint);
}

#[test]
fn edits_that_cannot_be_are_refused_and_leave_nothing() {
    let (_medium, store) = crash_store();
    let mut empty = store.create(&Key::default(), None).unwrap();
    let nothing = |edit| move |session: &mut Session| refused(session, edit);
    assert_eq!(nothing(Edit::Retry {})(&mut empty), "there is nothing to answer again");
    assert_eq!(nothing(Edit::UndoCompaction {})(&mut empty), "nothing was compacted here");
    empty.close().unwrap();
    let mut session = session(&store, 1);
    assert_eq!(refused(&mut session, Edit::Rewind { to: step(99) }), "record 99 is no step of this conversation");
    assert_eq!(refused(&mut session, Edit::Pin { n: Some(99) }), "there is no record 99 in what the model sees");
    let turn = session.head();
    assert_eq!(
        refused(&mut session, Edit::Pin { n: turn }),
        format!("record {} says nothing that could be pinned", turn.unwrap())
    );
    // Of several edits one that cannot be keeps all of them back.
    let title = Edit::Title { title: "t".parse().unwrap() };
    let before = session.reader().unwrap().len();
    let all = edit::apply(&mut session, &[title, Edit::Undo {}], &EditScope::default()).unwrap_err();
    assert_eq!(all.to_string(), "`undo` must be the first of the edits: it depends on the conversation as it is");
    assert_eq!(session.reader().unwrap().len(), before);
    let large = "x".repeat(20_000);
    let said = session.append(&[Draft::user(&large), Draft::user(&large)]).unwrap();
    done(&mut session, Edit::Pin { n: Some(said.start) });
    assert_eq!(
        refused(&mut session, Edit::Pin { n: Some(said.start + 1) }),
        "pinned texts may have 32768 bytes in all"
    );
    session.append(&[Draft::compaction("summary", None)]).unwrap();
    assert_eq!(refused(&mut session, Edit::Undo {}), "the last turn is behind a summary");
    let applied = done(&mut session, Edit::UndoCompaction {});
    assert!(matches!(applied.change, Change::Expanded { .. }));
    done(&mut session, Edit::Undo {});
}

#[test]
fn an_edit_in_json_is_read_strictly() {
    let read = |text: &str| serde_json::from_str::<Edit>(text).map_err(|error| error.to_string());
    assert_eq!(read(r#"{"edit":"undo"}"#), Ok(Edit::Undo {}));
    assert_eq!(read(r#"{"edit":"rewind","to":null}"#), Ok(Edit::Rewind { to: Target::Start }));
    assert_eq!(read(r#"{"edit":"rewind","to":7}"#), Ok(Edit::Rewind { to: step(7) }));
    assert_eq!(read(r#"{"edit":"switch","to":"side"}"#), Ok(Edit::Switch { to: name("side") }));
    for wrong in [
        r#"{"edit":"undo","to":1}"#,
        r#"{"edit":"rewind"}"#,
        r#"{"edit":"rewind","to":"12"}"#,
        r#"{"edit":"checkpoint","name":"--x"}"#,
        r#"{"edit":"checkpoint","name":"x","files":1}"#,
        r#"{"edit":"title","title":""}"#,
        r#"{"edit":"expire","after":"soon"}"#,
        r#"{"edit":"forget"}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let state = HeadState { head: Some(1), branch: None, files: None };
    assert_eq!(serde_json::to_string(&state).unwrap(), r#"{"head":1,"branch":null}"#);
}
