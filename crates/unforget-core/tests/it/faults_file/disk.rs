//! Disks that refuse: no permission, no room, half a write, a sync that fails.

use std::io::ErrorKind;

use unforget_core::directory::OnMissing;
use unforget_core::error::Error;
use unforget_core::history::Limits;
use unforget_testkit::crash::{Fault, FaultKind, Keep, Scope, Survival};

use super::*;
use crate::support::store_on;
use unforget_testkit::counting::Counting;

const EIO: i32 = 5;
/// More operations than any scenario here makes.
const ENOUGH: u64 = 500;

#[test]
fn f43_a_session_that_may_not_be_written_is_refused_before_a_turn_begins() {
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
        let scene = Scene::of("F00_clean");
        let entry = scene.entry();
        let mut refused = 0;
        for at in 1..ENOUGH {
            scene.medium.inject(next(&scene.medium, at, FaultKind::Error(kind)));
            let opened = scene.store.open(&entry);
            scene.medium.clear();
            match opened {
                Ok(_) => break,
                Err(error) => assert!(error.is_io(kind), "operation {at}: {error}"),
            }
            refused += 1;
            assert_eq!(scene.file(), scene.bytes, "operation {at}");
            assert_eq!(scene.outline(), CLEAN, "reading goes on");
        }
        assert!(refused > 5, "only {refused} operations were tried");
    }
}

#[test]
fn f43_words_that_cannot_be_written_are_an_error_and_reading_goes_on() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    // The first operation that changes anything is the write.
    let writes = write_at(&scene, &mut session);
    scene.medium.inject(Fault { at: writes, kind: FaultKind::Error(ErrorKind::ReadOnlyFilesystem), sticky: true });
    for _ in 0..3 {
        let error = session.append(&[Draft::user("hello?")]).unwrap_err();
        assert!(error.is_io(ErrorKind::ReadOnlyFilesystem), "{error}");
        assert!(error.to_string().contains(scene.path.to_str().unwrap()), "{error}");
        assert_eq!(scene.outline(), turns([1]));
    }
    scene.medium.clear();
    save(&mut session, 2);
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()));
}

#[test]
fn f43_a_store_that_may_not_be_written_refuses_a_new_session() {
    let (medium, kind) = (CrashMedium::counting(Scope::Writes), ErrorKind::ReadOnlyFilesystem);
    let store = store_on(medium.clone());
    medium.inject(Fault { at: 1, kind: FaultKind::Error(kind), sticky: true });
    let error = store.load(&"main:cli:user".parse().unwrap(), OnMissing::Create).unwrap_err();
    assert!(error.is_io(kind), "{error}");
    assert_eq!(store.list().unwrap().entries, []);
    assert_eq!(medium.paths(), [] as [&str; 0]);
}

#[test]
fn f43_on_a_real_disk_a_read_only_folder_can_be_read_and_not_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let (home, store) = crate::support::disk_store();
    let mut session = store.create(&"main:cli:user".parse().unwrap(), None).unwrap();
    save(&mut session, 1);
    let file = home.path().join("home").join(session.path());
    drop(session);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!(outline(&store.history(&entry, &Limits::default()).unwrap().history), turns([1]));
    // Permission bits stop nobody who is root; there the other tests have to do.
    if std::fs::OpenOptions::new().append(true).open(&file).is_err() {
        assert!(store.open(&entry).unwrap_err().is_io(ErrorKind::PermissionDenied));
    }
}

#[test]
fn f44_a_full_disk_fails_the_turn_and_leaves_no_part_of_it() {
    let needed = appended_bytes();
    for room in 0..needed {
        let scene = Scene::native(1);
        let mut session = scene.open();
        scene.medium.capacity(scene.bytes.len() as u64 + room);
        let error = try_save(&mut session, 2).unwrap_err();
        assert!(error.is_io(ErrorKind::StorageFull), "{error}");
        assert_eq!(scene.file(), scene.bytes, "{room} bytes of room");
    }
}

#[test]
fn f44_a_part_of_a_turn_that_cannot_be_taken_back_is_set_aside_by_the_next_writer() {
    for keep in [Keep::One, Keep::Half] {
        let scene = Scene::native(1);
        let mut session = scene.open();
        let at = write_at(&scene, &mut session);
        scene.medium.inject(Fault { at, kind: FaultKind::TornWrite { keep }, sticky: false });
        scene.medium.inject(Fault { at: at + 1, kind: FaultKind::Errno(EIO), sticky: false });
        session.append(&[Draft::user("cut short")]).unwrap_err();
        assert!(matches!(session.append(&[Draft::user("cut short")]), Err(Error::Poisoned { .. })));
        drop(session);
        save(&mut scene.open(), 2);
        assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()), "{keep:?}");
        assert!(scene.medium.paths().iter().any(|path| path.ends_with(".torn-1")), "{keep:?}");
    }
}

#[test]
fn f44_an_append_never_lands_behind_a_torn_tail_that_could_not_be_set_aside() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let at = write_at(&scene, &mut session);
    scene.medium.inject(Fault { at, kind: FaultKind::TornWrite { keep: Keep::Half }, sticky: false });
    scene.medium.inject(Fault { at: at + 1, kind: FaultKind::Errno(EIO), sticky: false });
    session.append(&[Draft::user("cut short")]).unwrap_err();
    let torn = scene.file();
    scene.medium.capacity(torn.len() as u64);
    session.reopen().unwrap_err();
    scene.medium.capacity(u64::MAX);
    assert!(matches!(session.append(&[Draft::user("glued?")]), Err(Error::Poisoned { .. })));
    assert_eq!(scene.file(), torn);
    session.reopen().unwrap();
    save(&mut session, 2);
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()));
}

#[test]
fn f45_when_room_is_made_the_same_records_go_in_and_in_order() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    scene.medium.capacity(scene.bytes.len() as u64 + 20);
    for turn in 2..=4 {
        // Tried again and again while the disk is full, then once more.
        assert!(try_save(&mut session, turn).unwrap_err().is_io(ErrorKind::StorageFull));
    }
    scene.medium.capacity(u64::MAX);
    for turn in 2..=4 {
        save(&mut session, turn);
    }
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=4), Vec::new()));
}

#[test]
fn f45_a_payload_that_found_no_room_leaves_no_reference_behind() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let large = "x".repeat(300 * 1024);
    scene.medium.capacity(scene.bytes.len() as u64 + 100 * 1024);
    assert!(session.append(&[Draft::user(&large)]).unwrap_err().is_io(ErrorKind::StorageFull));
    assert_eq!(scene.file(), scene.bytes);
    assert_eq!(scene.medium.paths(), [scene.path.to_str().unwrap()]);
    scene.medium.capacity(u64::MAX);
    session.append(&[Draft::user(&large)]).unwrap();
    assert_eq!(scene.outline().last().unwrap().len(), "user: ".len() + large.len());
}

#[test]
fn f46_after_a_failed_sync_nothing_more_is_written_until_the_session_is_reopened() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let at = write_at(&scene, &mut session) + 1;
    scene.medium.inject(Fault { at, kind: FaultKind::Errno(EIO), sticky: false });
    let error = try_save(&mut session, 2).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.raw_os_error() == Some(EIO)), "{error}");
    assert_eq!(scene.file(), scene.bytes, "what was not acknowledged is taken back");
    assert!(matches!(try_save(&mut session, 2), Err(Error::Poisoned { .. })));
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f46_after_a_failed_sync_the_same_append_works_once_reopened_and_nothing_is_there_twice() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let at = write_at(&scene, &mut session) + 1;
    scene.medium.inject(Fault { at, kind: FaultKind::Errno(EIO), sticky: false });
    try_save(&mut session, 2).unwrap_err();
    session.reopen().unwrap();
    save(&mut session, 2);
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()));
    let after = scene.medium.restart(Survival::OnlySynced);
    assert_eq!(after.read(&scene.path).unwrap(), scene.file());
}

#[test]
fn f46_a_turn_whose_sync_failed_and_that_cannot_be_taken_back_is_not_there_twice_after_a_retry() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let at = write_at(&scene, &mut session) + 1;
    scene.medium.inject(Fault { at, kind: FaultKind::Errno(EIO), sticky: false });
    scene.medium.inject(Fault { at: at + 1, kind: FaultKind::Errno(EIO), sticky: false });
    try_save(&mut session, 2).unwrap_err();
    session.reopen().unwrap();
    save(&mut session, 2);
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()));
    save(&mut session, 3);
    session.reopen().unwrap();
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=3), Vec::new()), "what was acknowledged stays");
}

#[test]
fn f46_whichever_operation_fails_while_another_programs_lines_are_taken_in_no_number_is_used_twice() {
    let mut failed = 0;
    for k in 1..ENOUGH {
        let scene = Scene::native(1);
        let mut session = scene.open();
        let grown = with_line(&scene.bytes, 4, &Draft::user("from elsewhere"));
        scene.medium.write_file(&scene.path, &grown).unwrap();
        let reached = scene.medium.operations() + k;
        scene.medium.inject(next(&scene.medium, k, FaultKind::Errno(EIO)));
        let mut tries = 0_u64;
        while try_save(&mut session, 2).is_err() {
            tries += 1;
            assert!(tries < 5, "operation {k}: it does not recover");
            // Reopening may meet the same fault; then it is done again.
            if session.reopen().is_err() {
                session.reopen().unwrap();
            }
        }
        let made = scene.medium.operations() >= reached;
        scene.medium.clear();
        let mut said = turns([1]);
        said.extend(["user: from elsewhere | question 2".to_owned(), "assistant: answer 2".to_owned()]);
        assert_eq!((scene.outline(), scene.notes()), (said, Vec::new()), "operation {k}");
        failed += tries;
        if !made {
            break;
        }
    }
    assert!(failed > 10, "only {failed} operations failed");
}

#[test]
fn f46_a_retry_without_reopening_uses_no_number_twice_either() {
    for k in 1..60 {
        let scene = Scene::native(1);
        let mut session = scene.open();
        let grown = with_line(&scene.bytes, 4, &Draft::user("from elsewhere"));
        scene.medium.write_file(&scene.path, &grown).unwrap();
        scene.medium.inject(next(&scene.medium, k, FaultKind::Errno(EIO)));
        for _ in 0..4 {
            match try_save(&mut session, 2) {
                Ok(()) => break,
                Err(Error::Poisoned { .. }) => session.reopen().unwrap(),
                Err(_) => {}
            }
        }
        scene.medium.clear();
        assert_eq!(notes(&scan(&scene.file()).report), [], "operation {k}");
        assert_eq!(scene.outline().last().unwrap(), "assistant: answer 2", "operation {k}");
    }
}

#[test]
fn f47_short_writes_are_followed_up_until_the_turn_is_whole() {
    let scene = Scene::native(1);
    let store = store_on(Counting::new(scene.medium.clone()).writing_at_most(7));
    let mut session = store.open(&scene.entry()).unwrap();
    session.append(&[Draft::user("question 2"), Draft::assistant(None, "\"answer 2\"")]).unwrap();
    assert_eq!((scene.outline(), scene.damage()), (turns(1..=2), Vec::new()));
}

#[test]
fn f47_a_short_write_without_a_rest_is_taken_back() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let at = write_at(&scene, &mut session);
    scene.medium.inject(Fault { at, kind: FaultKind::ShortWrite, sticky: false });
    let error = try_save(&mut session, 2).unwrap_err();
    assert!(error.is_io(ErrorKind::StorageFull), "{error}");
    assert_eq!(scene.file(), scene.bytes, "half a batch is taken back");
    save(&mut session, 2);
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()));
}

#[test]
fn f47_an_interrupted_write_goes_on() {
    let scene = Scene::native(1);
    let mut session = scene.open();
    let at = write_at(&scene, &mut session);
    scene.medium.inject(Fault { at, kind: FaultKind::Error(ErrorKind::Interrupted), sticky: false });
    save(&mut session, 2);
    assert_eq!((scene.outline(), scene.notes()), (turns(1..=2), Vec::new()));
}

/// A fault at the k-th operation from now on.
fn next(medium: &CrashMedium, k: u64, kind: FaultKind) -> Fault {
    Fault { at: medium.operations() + k, kind, sticky: false }
}

/// The number of the operation that writes the next append: it comes behind the looks at the file.
fn write_at(scene: &Scene, session: &mut Session) -> u64 {
    let before = scene.medium.operations();
    scene.medium.inject(Fault { at: before + 1, kind: FaultKind::Errno(EIO), sticky: false });
    session.append(&[Draft::user("x")]).unwrap_err();
    scene.medium.clear();
    // Appending looks at the open file and at its name, then writes.
    scene.medium.operations() + 3
}

fn appended_bytes() -> u64 {
    let scene = Scene::native(1);
    save(&mut scene.open(), 2);
    (scene.file().len() - scene.bytes.len()) as u64
}
