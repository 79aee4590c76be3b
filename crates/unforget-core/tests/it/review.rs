//! Scenes in which something goes wrong, someone tries again, and then the power goes.

use std::path::Path;
use std::sync::Arc;

use unforget_core::blob::Blobs;
use unforget_core::directory::OnMissing;
use unforget_core::error::Error;
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::layout;
use unforget_core::log::{Durability, Log};
use unforget_core::record::Draft;
use unforget_core::summary::State;
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Scope, Survival};

use crate::support::{crash_store, disk_store, store_on};

/// A session whose creator failed at the very end is found by the next process, and what that one saves stays.
#[test]
fn what_is_appended_to_a_session_whose_creation_was_interrupted_survives_a_power_cut() {
    for at in 1..30 {
        let medium = CrashMedium::counting(Scope::Writes);
        medium.inject(Fault { at, kind: FaultKind::Errno(5), sticky: false });
        let created = store_on(medium.clone()).create(&Key::default(), None).map(drop);
        medium.clear();
        let store = store_on(medium.clone());
        let Ok(mut session) = store.load(&Key::default(), OnMissing::Create) else { continue };
        session.append(&[Draft::user("acknowledged")]).unwrap();
        drop(session);
        let store = store_on(medium.restart(Survival::OnlySynced));
        let entry = store
            .list()
            .unwrap()
            .entries
            .pop()
            .unwrap_or_else(|| panic!("write {at}, {created:?}: the session is gone"));
        assert_eq!(entry.row.turns, 1, "write {at}");
    }
}

#[test]
fn a_payload_that_was_reported_as_stored_is_there_after_a_failed_try_and_a_power_cut() {
    let payload = vec![b'x'; 1000];
    for at in 1..20 {
        let medium = CrashMedium::counting(Scope::Writes);
        let blobs = Blobs::new(Arc::new(medium.clone()));
        medium.inject(Fault { at, kind: FaultKind::Errno(5), sticky: false });
        drop(blobs.put(&payload));
        medium.clear();
        let hash = blobs.put(&payload).unwrap();
        let after = Blobs::new(Arc::new(medium.restart(Survival::OnlySynced)));
        assert_eq!(after.get(&hash).unwrap(), payload, "write {at}");
    }
}

#[test]
fn a_damaged_payload_is_mended_when_it_comes_again() {
    let medium = CrashMedium::new();
    let blobs = Blobs::new(Arc::new(medium.clone()));
    let hash = blobs.put(b"the right one").unwrap();
    for wrong in [&b"short"[..], b"the wrong one"] {
        medium.write_file(layout::blob(&hash), wrong).unwrap();
        assert!(blobs.get(&hash).is_err());
        assert_eq!(blobs.put(b"the right one").unwrap(), hash);
        assert_eq!(blobs.get(&hash).unwrap(), b"the right one");
    }
}

/// A's append fails so badly that its bytes stay; B takes over and is acknowledged; A comes back.
#[test]
fn reopening_never_cuts_off_what_another_writer_got_acknowledged() {
    let medium = CrashMedium::new();
    let path = Path::new("a.jsonl");
    medium.write_file(path, b"{}\n").unwrap();
    let open = || Log::open(Arc::new(medium.clone()), path, Durability::PowerLoss);
    let (mut a, _) = open().unwrap();
    // Two stats and a write, then neither the sync nor the cut works.
    medium.inject(Fault { at: medium.operations() + 4, kind: FaultKind::Errno(5), sticky: true });
    medium.inject(Fault { at: medium.operations() + 5, kind: FaultKind::Errno(5), sticky: true });
    assert!(a.append(b"{\"a\":1}\n").is_err());
    // A's descriptor dies with its process's first try to reopen, which fails for want of descriptors.
    medium.clear();
    medium.inject(Fault { at: medium.operations() + 2, kind: FaultKind::Errno(24), sticky: false });
    assert!(a.reopen().is_err());
    medium.clear();
    if let Ok((mut b, _)) = open() {
        b.append(b"{\"b\":1}\n").unwrap();
        drop(b);
        a.reopen().unwrap();
        let bytes = medium.read(path).unwrap();
        assert!(bytes.ends_with(b"{\"b\":1}\n"), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_copy_of_an_agents_folder_never_gets_the_originals_appends() {
    let (home, store) = disk_store();
    let id = store.create(&Key::default(), None).unwrap().id().clone();
    let agents = home.path().join("home/agents");
    std::fs::create_dir_all(agents.join("backup/sessions")).unwrap();
    let name = format!("sessions/{id}.jsonl");
    std::fs::copy(agents.join("main").join(&name), agents.join("backup").join(&name)).unwrap();
    let entry = store.entry(&id).unwrap().unwrap();
    assert_eq!(entry.dir.as_str(), "main");
    assert_eq!(store.resolve(&store.list().unwrap(), id.as_str()).unwrap().dir.as_str(), "main");
    let copy = store.list().unwrap().entries.into_iter().find(|entry| entry.row.state == State::Mismatch).unwrap();
    assert!(matches!(store.open(&copy), Err(Error::Mismatch { .. })));
}

#[test]
fn a_damaged_header_does_not_make_a_key_forget_its_conversation() {
    let (home, store) = disk_store();
    let mut session = store.create(&Key::default(), Some("work")).unwrap();
    session.append(&[Draft::user("one")]).unwrap();
    let path = home.path().join("home").join(session.path());
    drop(session);
    store.refresh(&store.list().unwrap()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1] = b'?';
    std::fs::write(&path, bytes).unwrap();
    let session = store.load(&Key::default(), OnMissing::Create).unwrap();
    assert!(path.ends_with(session.path()), "another session took its place");
    drop(session);
    std::fs::remove_file(home.path().join("home/agents/main/sessions.json")).unwrap();
    let row = &store.list().unwrap().entries[0].row;
    assert_eq!(row.key.as_deref(), Some("main:cli:user"), "the header was written again");
}

#[test]
fn a_list_with_wrong_keys_leads_nobody_into_a_strangers_session() {
    let (home, store) = disk_store();
    for key in ["main:cli:alice", "main:cli:bobby"] {
        store.create(&key.parse().unwrap(), None).unwrap();
    }
    store.refresh(&store.list().unwrap()).unwrap();
    let snapshot = home.path().join("home/agents/main/sessions.json");
    let text = std::fs::read_to_string(&snapshot).unwrap();
    let swapped = text.replace("alice", "x").replace("bobby", "alice").replace(":x", ":bobby");
    std::fs::write(&snapshot, swapped).unwrap();
    assert!(matches!(store.load(&"main:cli:alice".parse().unwrap(), OnMissing::Create), Err(Error::Mismatch { .. })));
}

#[test]
fn of_several_that_create_at_once_all_get_the_same_session() {
    let (home, _) = disk_store();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let root = home.path().join("home");
            std::thread::spawn(move || {
                let medium = Arc::new(unforget_core::medium::Os::new(root));
                let store = unforget_core::directory::Directory::new(
                    medium,
                    Arc::new(unforget_core::stamp::System),
                    Durability::PowerLoss,
                );
                // The one that comes second may find the session busy, which is fine: it is the same one.
                drop(store.load(&Key::default(), OnMissing::Create));
                store.list().unwrap().entries.len()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 1);
    }
}

#[test]
fn a_session_deleted_imported_and_deleted_again_is_in_the_trash_once() {
    let (home, store) = disk_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    session.append(&[Draft::user("one")]).unwrap();
    let path = home.path().join("home").join(session.path());
    drop(session);
    let bytes = std::fs::read(&path).unwrap();
    for _ in 0..2 {
        std::fs::write(&path, &bytes).unwrap();
        store.delete(&store.list().unwrap().entries[0]).unwrap();
        assert_eq!((store.list().unwrap().entries.len(), store.deleted().unwrap().len()), (0, 1));
    }
    store.undelete(&store.deleted().unwrap()[0]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_deletion_that_worked_is_not_reported_as_failed_because_of_a_list() {
    let (medium, store) = crash_store();
    drop(store.create(&Key::default(), None).unwrap());
    let entry = store.list().unwrap().entries.remove(0);
    medium.write_file(Path::new("agents/main/sessions.json"), b"garbage").unwrap();
    store.delete(&entry).unwrap();
    assert_eq!(store.deleted().unwrap().len(), 1);
}

#[test]
fn ids_made_at_once_rise() {
    let (_home, _) = disk_store();
    let source = unforget_core::stamp::System;
    use unforget_core::stamp::Source as _;
    let ids: Vec<_> = (0..1000).map(|_| source.new_id(source.now_ms())).collect();
    assert!(ids.is_sorted());
    assert!(
        source.new_id(source.now_ms() + 1_000_000_000) < source.new_id(source.now_ms()),
        "nobody is from the future"
    );
}

#[test]
fn a_head_that_points_nowhere_is_refused() {
    let (_, store) = crash_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    session.append(&[Draft::user("one")]).unwrap();
    assert!(matches!(session.append(&[Draft::head(Some(999), "rewind")]), Err(Error::Invalid(_))));
    session.append(&[Draft::head(Some(0), "rewind")]).unwrap();
    assert!(session.history(&Limits::default()).unwrap().history.messages.is_empty());
}

#[test]
fn words_without_a_parent_are_sent_and_told_of() {
    let (medium, store) = crash_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    session.append(&[Draft::user("one")]).unwrap();
    let path = session.path().to_owned();
    drop(session);
    let mut bytes = medium.read(&path).unwrap();
    bytes.extend_from_slice(b"{\"v\":1,\"n\":2,\"type\":\"user\",\"content\":\"by hand\"}\n");
    medium.write_file(&path, &bytes).unwrap();
    let entry = &store.list().unwrap().entries[0];
    for limits in [Limits::default(), Limits::tokens(1000)] {
        let restored = store.history(entry, &limits).unwrap();
        assert!(restored.history.to_json().contains("by hand") && restored.history.to_json().contains("one"));
        assert!(restored.report.damage().any(|note| note.kind.to_string().contains("`parent` is missing")));
    }
}
