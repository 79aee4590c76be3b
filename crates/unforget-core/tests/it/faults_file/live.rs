//! What happens to a file under a live writer, and around it: deletion, links, locks, descriptors.

use std::path::Path;

use unforget_core::directory::OnMissing;
use unforget_core::doctor::{self, Mode};
use unforget_core::error::{Change, Error};
use unforget_core::history::Limits;
use unforget_core::medium::Access;
use unforget_testkit::crash::{Fault, FaultKind};

use super::*;
use crate::support::{disk_store, store_on};
use unforget_testkit::counting::Counting;

const EMFILE: i32 = 24;
/// More operations than any scenario here makes.
const ENOUGH: u64 = 500;

#[test]
fn f51_a_writer_whose_file_was_deleted_stops_loudly() {
    let (home, _store, mut session) = live();
    std::fs::remove_file(home.path().join("home").join(session.path())).unwrap();
    for _ in 0..2 {
        assert_eq!(change(try_save(&mut session, 2).unwrap_err()), Change::Unlinked);
    }
    assert!(!home.path().join("home").join(session.path()).exists());
}

#[test]
fn f51_a_writer_whose_file_was_replaced_stops_loudly_and_leaves_the_new_one_alone() {
    let (home, _store, mut session) = live();
    let file = home.path().join("home").join(session.path());
    let copy = file.with_extension("copy");
    std::fs::copy(&file, &copy).unwrap();
    std::fs::rename(&copy, &file).unwrap();
    let before = std::fs::read(&file).unwrap();
    assert_eq!(change(try_save(&mut session, 2).unwrap_err()), Change::Replaced);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn f51_a_writer_whose_file_was_shortened_stops_loudly() {
    let (home, _store, mut session) = live();
    let file = home.path().join("home").join(session.path());
    let before = std::fs::read(&file).unwrap();
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(100).unwrap();
    assert_eq!(change(try_save(&mut session, 2).unwrap_err()), Change::Shortened);
    assert_eq!(std::fs::read(&file).unwrap(), before[..100]);
}

#[test]
fn f51_lines_that_another_program_added_are_kept_and_ours_come_behind_them() {
    let (home, store, mut session) = live();
    let file = home.path().join("home").join(session.path());
    let before = std::fs::read(&file).unwrap();
    let after = with_line(&before, 4, &Draft::title("theirs"));
    let mut other = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut other, &after[before.len()..]).unwrap();
    save(&mut session, 2);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!(entry.row.title.as_deref(), Some("theirs"));
    let restored = store.history(&entry, &Limits::default()).unwrap();
    assert_eq!((outline(&restored.history), notes(&restored.report)), (turns(1..=2), Vec::new()));
}

#[test]
fn f51_a_session_goes_on_with_the_file_that_took_its_place_only_when_reopened() {
    let (home, store, mut session) = live();
    let file = home.path().join("home").join(session.path());
    let copy = file.with_extension("copy");
    std::fs::copy(&file, &copy).unwrap();
    std::fs::rename(&copy, &file).unwrap();
    try_save(&mut session, 2).unwrap_err();
    session.reopen().unwrap();
    save(&mut session, 2);
    let entry = store.list().unwrap().entries.remove(0);
    let restored = store.history(&entry, &Limits::default()).unwrap();
    assert_eq!((outline(&restored.history), notes(&restored.report)), (turns(1..=2), Vec::new()));
}

#[test]
fn f52_nothing_is_deleted_for_being_old() {
    let (home, store, session) = live();
    let file = home.path().join("home").join(session.path());
    drop(session);
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
    std::fs::OpenOptions::new().append(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    let before = std::fs::read(&file).unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    doctor::examine(&store, None, Mode::Fix, |_| {}).unwrap();
    store.create(&"main:cli:other".parse().unwrap(), None).unwrap();
    assert_eq!(store.list().unwrap().entries.len(), 2);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn f52_the_age_of_a_session_is_that_of_its_last_record() {
    let (home, store, session) = live();
    let file = home.path().join("home").join(session.path());
    drop(session);
    let updated = store.list().unwrap().entries[0].row.updated_ms;
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
    std::fs::OpenOptions::new().append(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(store.list().unwrap().entries[0].row.updated_ms, updated);
}

#[test]
fn f52_a_session_in_use_cannot_be_deleted() {
    let (_home, store, mut session) = live();
    let entry = store.list().unwrap().entries.remove(0);
    assert!(matches!(store.delete(&entry), Err(Error::Busy { .. })));
    save(&mut session, 2);
    assert_eq!(store.list().unwrap().entries.len(), 1);
    assert_eq!(store.deleted().unwrap(), []);
}

#[test]
fn f52_a_deletion_can_be_undone_with_every_byte() {
    let (home, store, session) = live();
    let file = home.path().join("home").join(session.path());
    drop(session);
    std::fs::write(file.with_extension("torn-1"), b"torn").unwrap();
    let before = std::fs::read(&file).unwrap();
    store.delete(&store.list().unwrap().entries.remove(0)).unwrap();
    assert_eq!((store.list().unwrap().entries.len(), file.exists()), (0, false));
    let deleted = store.deleted().unwrap().remove(0);
    assert_eq!(outline(&store.history(&deleted, &Limits::default()).unwrap().history), turns([1]));
    store.undelete(&deleted).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read(file.with_extension("torn-1")).unwrap(), b"torn");
    assert_eq!(store.list().unwrap().entries.len(), 1);
}

#[test]
fn f54_a_link_in_place_of_a_transcript_is_neither_read_nor_written() {
    let (home, store, session) = live();
    drop(session);
    let secret = home.path().join("secret");
    std::fs::write(&secret, fixture("F32_header_only")).unwrap();
    let link = home.path().join("home").join(FIXTURE);
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let listing = store.list().unwrap();
    assert_eq!(listing.entries.len(), 2, "the link does not hide the other session");
    let entry = store.resolve(&listing, "abc123").unwrap();
    assert_eq!((entry.row.state.name(), entry.row.key.as_deref(), entry.row.records), ("unreadable", None, 0));
    for refused in [
        store.open(&entry).map(|_| ()).unwrap_err(),
        store.history(&entry, &Limits::default()).map(|_| ()).unwrap_err(),
    ] {
        assert!(refused.is_io(std::io::ErrorKind::PermissionDenied), "{refused}");
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
    }
    doctor::examine(&store, None, Mode::Fix, |_| {}).unwrap();
    assert_eq!(std::fs::read(&secret).unwrap(), fixture("F32_header_only"));
    assert!(link.symlink_metadata().unwrap().is_symlink());
}

#[test]
fn f54_a_link_in_place_of_a_folder_is_not_followed() {
    let (home, store, session) = live();
    drop(session);
    let elsewhere = home.path().join("elsewhere/sessions");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("abc123.jsonl"), fixture("F00_clean")).unwrap();
    std::os::unix::fs::symlink(home.path().join("elsewhere"), home.path().join("home/agents/planted")).unwrap();
    assert_eq!(store.list().unwrap().entries.len(), 1);
    let error = store.create(&"planted:cli:user".parse().unwrap(), None).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}

#[test]
fn f54_a_path_that_goes_through_a_link_is_refused() {
    let (home, store, session) = live();
    drop(session);
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("abc123.jsonl"), fixture("F00_clean")).unwrap();
    std::fs::create_dir(home.path().join("home/agents/planted")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, home.path().join("home/agents/planted/sessions")).unwrap();
    let path = Path::new("agents/planted/sessions/abc123.jsonl");
    for access in [Access::Read, Access::Append] {
        let error = store.medium().open(path, access).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    }
    assert!(store.medium().remove(path).is_err());
    assert!(store.create(&"planted:cli:user".parse().unwrap(), None).is_err());
    assert_eq!(std::fs::read(elsewhere.join("abc123.jsonl")).unwrap(), fixture("F00_clean"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}

#[test]
fn f54_a_link_under_a_live_writer_is_not_followed() {
    let (home, _store, mut session) = live();
    let file = home.path().join("home").join(session.path());
    let moved = home.path().join("moved");
    std::fs::rename(&file, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &file).unwrap();
    let before = std::fs::read(&moved).unwrap();
    try_save(&mut session, 2).unwrap_err();
    session.reopen().unwrap_err();
    assert_eq!(std::fs::read(&moved).unwrap(), before);
}

#[test]
fn f54_the_home_directory_itself_may_be_a_link() {
    let (home, store, session) = live();
    drop((store, session));
    std::os::unix::fs::symlink(home.path().join("home"), home.path().join("link")).unwrap();
    let store = store_on(unforget_core::medium::Os::new(home.path().join("link")));
    save(&mut store.load(&"main:cli:user".parse().unwrap(), OnMissing::Fail).unwrap(), 2);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!(outline(&store.history(&entry, &Limits::default()).unwrap().history), turns(1..=2));
}

#[test]
fn f56_a_disk_whose_locks_keep_nobody_out_is_refused_for_writing_and_can_be_read() {
    let scene = Scene::native(1);
    scene.medium.ignore_locks();
    let entry = scene.entry();
    assert!(matches!(scene.store.open(&entry), Err(Error::LockIneffective { .. })));
    assert!(matches!(
        scene.store.load(&"main:cli:user".parse().unwrap(), OnMissing::Create),
        Err(Error::LockIneffective { .. })
    ));
    assert_eq!(scene.outline(), turns([1]));
    assert_eq!(scene.medium.paths(), [scene.path.to_str().unwrap()]);
}

#[test]
fn f56_a_disk_that_knows_no_locks_is_refused() {
    let scene = Scene::native(1);
    let entry = scene.entry();
    let mut refused = 0;
    for k in 1..ENOUGH {
        let at = scene.medium.operations() + k;
        scene.medium.inject(Fault { at, kind: FaultKind::Error(std::io::ErrorKind::Unsupported), sticky: true });
        let opened = scene.store.open(&entry);
        scene.medium.clear();
        if opened.is_ok() {
            break;
        }
        refused += 1;
        assert_eq!(scene.file(), scene.bytes);
    }
    assert!(refused > 5);
}

#[test]
fn f57_a_process_out_of_descriptors_gets_an_error_and_no_empty_session_in_place_of_its_own() {
    let key = "main:cli:user".parse().unwrap();
    for sticky in [false, true] {
        let mut refused = 0;
        for k in 1..ENOUGH {
            let scene = Scene::native(2);
            let before = scene.medium.operations();
            scene.medium.inject(Fault { at: before + k, kind: FaultKind::Errno(EMFILE), sticky });
            let loaded = scene.store.load(&key, OnMissing::Create);
            let made = scene.medium.operations() - before;
            scene.medium.clear();
            match loaded {
                Ok(mut session) => {
                    assert_eq!(session.path(), scene.path, "operation {k}: another session was made");
                    save(&mut session, 3);
                    assert_eq!(scene.outline(), turns(1..=3), "operation {k}");
                }
                Err(error) => {
                    let told = matches!(&error, Error::Io { source, .. } if source.raw_os_error() == Some(EMFILE));
                    assert!(told, "operation {k}: {error}");
                    let transcripts = scene.medium.paths().into_iter().filter(|path| !path.ends_with("create.lock"));
                    assert_eq!(transcripts.collect::<Vec<_>>(), [scene.path.to_str().unwrap()], "operation {k}");
                    assert_eq!(scene.outline(), turns(1..=2), "operation {k}");
                    refused += 1;
                }
            }
            if made < k {
                break;
            }
        }
        assert!(refused > 5, "only {refused} operations were refused");
    }
}

#[test]
fn f57_a_list_made_without_descriptors_is_not_believed_later() {
    let key = "main:cli:user".parse().unwrap();
    for k in 1..30 {
        let scene = Scene::native(1);
        let at = scene.medium.operations() + k;
        scene.medium.inject(Fault { at, kind: FaultKind::Errno(EMFILE), sticky: true });
        let listing = scene.store.list();
        scene.medium.clear();
        if let Ok(listing) = listing {
            scene.store.refresh(&listing).unwrap();
        }
        let row = scene.entry().row;
        assert_eq!((row.state.name(), row.key.as_deref()), ("ok", Some("main:cli:user")), "operation {k}");
        assert_eq!(scene.store.load(&key, OnMissing::Create).unwrap().path(), scene.path, "operation {k}");
    }
}

#[test]
fn f57_records_that_met_the_limit_go_in_when_it_is_lifted() {
    let large = "x".repeat(300 * 1024);
    let mut refused = 0;
    for k in 1..ENOUGH {
        let scene = Scene::native(1);
        let mut session = scene.open();
        let at = scene.medium.operations() + k;
        scene.medium.inject(Fault { at, kind: FaultKind::Errno(EMFILE), sticky: true });
        let first = session.append(&[Draft::user(&large)]);
        scene.medium.clear();
        if first.is_err() {
            refused += 1;
            if let Err(Error::Poisoned { .. }) = session.append(&[]) {
                session.reopen().unwrap();
            }
            session.append(&[Draft::user(&large)]).unwrap();
        }
        let said = scene.outline();
        assert_eq!((said.len(), said[2].len()), (3, "user: ".len() + large.len()), "operation {k}");
        if first.is_ok() {
            break;
        }
    }
    assert!(refused > 5, "only {refused} operations were refused");
}

#[test]
fn f57_a_list_of_two_hundred_sessions_needs_two_descriptors() {
    let (medium, store) = crash_store();
    for peer in 0..200 {
        store.create(&format!("main:cli:peer{peer}").parse().unwrap(), None).unwrap();
    }
    let counting = Counting::new(medium);
    let store = store_on(counting.clone());
    let listing = store.list().unwrap();
    store.refresh(&listing).unwrap();
    assert_eq!(listing.entries.len(), 200);
    assert!(counting.most_open() <= 2, "{} files open at a time", counting.most_open());
    // Each live session holds one for as long as it lives.
    let sessions: Vec<Session> = listing.entries[..50].iter().map(|entry| store.open(entry).unwrap()).collect();
    assert!(counting.most_open() <= sessions.len() as u64 + 2, "{} files open at a time", counting.most_open());
}

/// A session on a real disk with one turn in it.
fn live() -> (tempfile::TempDir, Directory, Session) {
    let (home, store) = disk_store();
    let mut session = store.create(&"main:cli:user".parse().unwrap(), None).unwrap();
    save(&mut session, 1);
    assert!(Path::new(home.path()).join("home").join(session.path()).exists());
    (home, store, session)
}

fn change(error: Error) -> Change {
    match error {
        Error::Changed { change, .. } => change,
        other => panic!("{other}"),
    }
}
