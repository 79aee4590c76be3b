//! Power cuts: at every operation, with everything that a disk may leave behind.

use unforget_core::directory::OnMissing;
use unforget_core::key::Key;
use unforget_testkit::crash::{Fault, FaultKind, Scope, Survival, is_power_cut};

use super::*;
use crate::support::store_on;

/// More operations than the workload makes.
const ENOUGH: u64 = 500;

/// What the workload was told is safe.
#[derive(Default)]
struct Acknowledged {
    path: Option<PathBuf>,
    turns: usize,
    bytes: Vec<u8>,
}

#[test]
fn f49_an_acknowledged_turn_is_there_after_every_power_cut() {
    let mut cuts = 0;
    for at in 1..ENOUGH {
        let medium = CrashMedium::counting(Scope::Writes);
        medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: false });
        let (acknowledged, end) = work(&medium);
        for survival in Survival::ALL {
            check(&medium.restart(survival), &acknowledged, &format!("cut at {at}, {survival:?}"));
        }
        match end {
            Ok(()) => break,
            Err(error) => assert!(is_power_cut(&error), "{error}"),
        }
        cuts += 1;
    }
    assert!(cuts > 10 && cuts < ENOUGH - 1, "{cuts} cuts");
}

#[test]
fn f49_after_a_power_cut_the_session_goes_on() {
    for survival in Survival::ALL {
        let medium = CrashMedium::counting(Scope::Writes);
        // In the middle of the third turn: written, not yet synced.
        let (_, clean) = work(&medium);
        clean.unwrap();
        let cut_at = medium.operations();
        let medium = CrashMedium::counting(Scope::Writes);
        medium.inject(Fault { at: cut_at, kind: FaultKind::PowerCut, sticky: false });
        let (acknowledged, end) = work(&medium);
        assert!(is_power_cut(&end.unwrap_err()));
        assert_eq!(acknowledged.turns, 2);
        let store = store_on(medium.restart(survival));
        let mut session = store.load(&key(), OnMissing::Fail).unwrap();
        save(&mut session, 9);
        let restored = session.history(&unforget_core::history::Limits::default()).unwrap();
        let said = outline(&restored.history);
        assert_eq!(said[..4], turns(1..=2), "{survival:?}");
        // Words of the turn that was cut short may be in front of the new ones.
        assert!(said[said.len() - 2].ends_with("question 9"), "{survival:?}: {said:?}");
        assert_eq!(said[said.len() - 1], "assistant: answer 9", "{survival:?}");
    }
}

#[test]
fn f50_a_new_session_is_there_after_a_power_cut_right_behind_its_creation() {
    for survival in Survival::ALL {
        let (medium, store) = crash_store();
        let id = store.create(&key(), Some("label")).unwrap().id().clone();
        let restarted = store_on(medium.restart(survival));
        let entries = restarted.list().unwrap().entries;
        assert_eq!(entries.len(), 1, "{survival:?}");
        assert_eq!((entries[0].row.id.as_str(), entries[0].row.state.name()), (id.as_str(), "ok"), "{survival:?}");
        assert_eq!(restarted.load(&key(), OnMissing::Fail).unwrap().id(), &id, "{survival:?}");
    }
}

#[test]
fn f50_a_move_to_the_trash_and_back_is_durable_when_it_is_done() {
    for survival in Survival::ALL {
        let (medium, store) = crash_store();
        save(&mut store.create(&key(), None).unwrap(), 1);
        let entry = store.list().unwrap().entries.remove(0);
        store.delete(&entry).unwrap();
        let restarted = store_on(medium.restart(survival));
        assert_eq!(
            (restarted.list().unwrap().entries.len(), restarted.deleted().unwrap().len()),
            (0, 1),
            "{survival:?}"
        );

        let (medium, store) = crash_store();
        save(&mut store.create(&key(), None).unwrap(), 1);
        store.delete(&store.list().unwrap().entries.remove(0)).unwrap();
        store.undelete(&store.deleted().unwrap().remove(0)).unwrap();
        let restarted = store_on(medium.restart(survival));
        assert_eq!(
            (restarted.list().unwrap().entries.len(), restarted.deleted().unwrap().len()),
            (1, 0),
            "{survival:?}"
        );
    }
}

#[test]
fn f50_a_payload_is_there_before_the_line_that_refers_to_it() {
    let large = "x".repeat(300 * 1024);
    for survival in Survival::ALL {
        let (medium, store) = crash_store();
        let mut session = store.create(&key(), None).unwrap();
        session.append(&[unforget_core::record::Draft::user(&large)]).unwrap();
        let restarted = store_on(medium.restart(survival));
        let entry = restarted.list().unwrap().entries.remove(0);
        let restored = restarted.history(&entry, &unforget_core::history::Limits::default()).unwrap();
        assert_eq!(restored.report, Report::default(), "{survival:?}");
        assert!(restored.history.to_json().contains(&large), "{survival:?}");
    }
}

fn key() -> Key {
    "main:cli:user".parse().unwrap()
}

/// Creates a session and saves three turns, until something fails.
fn work(medium: &CrashMedium) -> (Acknowledged, unforget_core::Result<()>) {
    let store = store_on(medium.clone());
    let mut acknowledged = Acknowledged::default();
    let mut run = || {
        let mut session = store.create(&key(), None)?;
        let path = session.path().to_path_buf();
        for turn in 0..=3 {
            if turn > 0 {
                try_save(&mut session, turn)?;
            }
            let bytes = medium.read(&path).unwrap();
            acknowledged = Acknowledged { path: Some(path.clone()), turns: turn, bytes };
        }
        Ok(())
    };
    let end = run();
    (acknowledged, end)
}

fn check(medium: &CrashMedium, acknowledged: &Acknowledged, what: &str) {
    let store = store_on(medium.clone());
    let entries = store.list().unwrap().entries;
    let Some(path) = &acknowledged.path else {
        assert!(entries.iter().all(|entry| entry.row.state.name() == "ok"), "{what}");
        return;
    };
    assert!(medium.read(path).unwrap().starts_with(&acknowledged.bytes), "{what}");
    let restored = store.history(&entries[0], &unforget_core::history::Limits::default()).unwrap();
    assert_accepted(&restored.history, what);
    assert_eq!(outline(&restored.history)[..acknowledged.turns * 2], turns(1..=acknowledged.turns), "{what}");
}
