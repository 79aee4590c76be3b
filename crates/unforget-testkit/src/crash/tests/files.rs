//! Files, names, locks and space while nothing goes wrong.

use unforget_core::medium::{FileKind, Stat};

use super::*;

#[test]
fn handle_follows_its_inode_through_rename_and_removal() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    handle.write(b"one").unwrap();
    medium.rename(Path::new("a"), Path::new("b")).unwrap();
    handle.write(b" two").unwrap();
    assert_eq!(text(&medium, "b").as_deref(), Some("one two"));
    assert_eq!(handle.stat().unwrap().links, 1);

    medium.remove(Path::new("b")).unwrap();
    handle.write(b" three").unwrap();
    assert_eq!(content(handle.as_ref()), b"one two three");
    assert_eq!(handle.stat().unwrap().links, 0);
    assert!(medium.paths().is_empty());
}

#[test]
fn stat_tells_what_changed() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    let before = handle.stat().unwrap();
    assert_eq!((before.len, before.links, before.mode, before.kind), (0, 1, 0o600, FileKind::File));
    handle.write(b"bytes").unwrap();
    medium.set_mode(Path::new("a"), 0o640).unwrap();
    let after = medium.stat(Path::new("a")).unwrap();
    assert!(after.modified_ns > before.modified_ns);
    let expected = Stat { len: 5, mode: 0o640, modified_ns: after.modified_ns, ..before };
    assert_eq!(after, expected);
}

#[test]
fn replacing_changes_the_identity_behind_a_name() {
    let medium = CrashMedium::new();
    medium.write_file("old", b"old").unwrap();
    medium.write_file("new", b"new").unwrap();
    let old = open(&medium, "old", Access::Read);
    medium.replace(Path::new("new"), Path::new("old")).unwrap();
    assert_eq!(medium.paths(), ["old"]);
    assert_ne!(medium.stat(Path::new("old")).unwrap().identity, old.stat().unwrap().identity);
    assert_eq!((old.stat().unwrap().links, content(old.as_ref())), (0, b"old".to_vec()));
}

#[test]
fn list_gives_names_and_kinds_of_one_directory() {
    let medium = CrashMedium::new();
    medium.write_file("dir/file", b"").unwrap();
    medium.write_file("dir/below/deep", b"").unwrap();
    let expected = [("below".to_owned(), FileKind::Directory), ("file".to_owned(), FileKind::File)];
    assert_eq!(medium.list(Path::new("dir")).unwrap(), expected);
    assert_eq!(medium.paths(), ["dir/below/deep", "dir/file"]);
}

#[test]
fn impossible_requests_fail_as_on_a_real_disk() {
    type Attempt = fn(&CrashMedium) -> std::io::Result<()>;
    let attempts: [(&str, Attempt, ErrorKind); 15] = [
        ("open missing", |m| m.open(Path::new("no"), Access::Append).map(drop), ErrorKind::NotFound),
        ("create existing", |m| m.open(Path::new("f"), Access::CreateNew).map(drop), ErrorKind::AlreadyExists),
        ("create in nothing", |m| m.open(Path::new("no/f"), Access::CreateNew).map(drop), ErrorKind::NotFound),
        ("open through a file", |m| m.open(Path::new("f/x"), Access::Read).map(drop), ErrorKind::NotADirectory),
        ("read a directory", |m| m.open(Path::new("d"), Access::Read).map(drop), ErrorKind::InvalidInput),
        ("append to a directory", |m| m.open(Path::new("d"), Access::Append).map(drop), ErrorKind::IsADirectory),
        ("leave by dots", |m| m.stat(Path::new("d/../f")).map(drop), ErrorKind::InvalidInput),
        ("leave by root", |m| m.stat(Path::new("/f")).map(drop), ErrorKind::InvalidInput),
        ("list a file", |m| m.list(Path::new("f")).map(drop), ErrorKind::NotADirectory),
        ("directory over a file", |m| m.create_dir(Path::new("f/x")), ErrorKind::NotADirectory),
        ("rename onto a file", |m| m.rename(Path::new("f"), Path::new("d/g")), ErrorKind::AlreadyExists),
        ("replace a directory", |m| m.replace(Path::new("f"), Path::new("d")), ErrorKind::IsADirectory),
        ("directory into itself", |m| m.rename(Path::new("d"), Path::new("d/e")), ErrorKind::InvalidInput),
        ("remove missing", |m| m.remove(Path::new("no")), ErrorKind::NotFound),
        ("sync missing", |m| m.sync_dir(Path::new("no")), ErrorKind::NotFound),
    ];
    for (what, attempt, kind) in attempts {
        let medium = CrashMedium::new();
        medium.write_file("f", b"").unwrap();
        medium.write_file("d/g", b"").unwrap();
        assert_eq!(attempt(&medium).unwrap_err().kind(), kind, "{what}");
        assert_eq!(medium.paths(), ["d/g", "f"], "{what}");
    }
}

#[test]
fn reading_handle_changes_nothing() {
    let medium = CrashMedium::new();
    medium.write_file("a", b"kept").unwrap();
    let mut handle = open(&medium, "a", Access::Read);
    assert!(handle.write(b"more").is_err());
    assert!(handle.set_len(0).is_err());
    assert_eq!(text(&medium, "a").as_deref(), Some("kept"));
}

#[test]
fn lock_belongs_to_one_handle_until_it_drops() {
    let medium = CrashMedium::new();
    medium.write_file("a", b"").unwrap();
    let stat = medium.stat(Path::new("a")).unwrap();
    let (first, second) = (open(&medium, "a", Access::Append), open(&medium.clone(), "a", Access::Append));
    assert_eq!(medium.lock_holder(&stat), None);
    assert!(first.try_lock().unwrap());
    assert!(first.try_lock().unwrap());
    assert!(!second.try_lock().unwrap());
    assert_eq!(medium.lock_holder(&stat).as_deref(), Some("process 1 (test)"));

    drop(second);
    assert!(medium.lock_holder(&stat).is_some());
    drop(first);
    assert_eq!(medium.lock_holder(&stat), None);
    assert!(open(&medium, "a", Access::Append).try_lock().unwrap());
}

#[test]
fn crash_releases_locks() {
    let medium = CrashMedium::new();
    medium.write_file("a", b"").unwrap();
    let held = open(&medium, "a", Access::Append);
    assert!(held.try_lock().unwrap());
    let medium = medium.restart(Survival::Everything);
    assert!(open(&medium, "a", Access::Append).try_lock().unwrap());
}

#[test]
fn ignored_locks_exclude_nobody_even_after_a_restart() {
    let medium = CrashMedium::new();
    medium.write_file("a", b"").unwrap();
    let holder = open(&medium, "a", Access::Append);
    assert!(holder.try_lock().unwrap());
    medium.ignore_locks();
    assert_eq!(medium.lock_holder(&holder.stat().unwrap()), None);
    let all_get_it = |medium: &CrashMedium| {
        let (first, second) = (open(medium, "a", Access::Append), open(medium, "a", Access::Append));
        first.try_lock().unwrap() && second.try_lock().unwrap()
    };
    assert!(all_get_it(&medium));
    assert!(all_get_it(&medium.restart(Survival::OnlySynced)));
}

#[test]
fn full_disk_takes_what_fits_and_recovers_when_freed() {
    let medium = CrashMedium::new();
    medium.write_file("other", b"1234").unwrap();
    medium.capacity(10);
    let mut handle = open(&medium, "log", Access::CreateNew);
    assert_eq!(handle.write(b"abcdefgh").unwrap(), 6);
    let full = handle.write(b"gh").unwrap_err();
    assert_eq!((full.kind(), full.raw_os_error()), (ErrorKind::StorageFull, Some(28)));
    assert_eq!(handle.set_len(7).unwrap_err().kind(), ErrorKind::StorageFull);
    handle.set_len(5).unwrap();
    assert_eq!(handle.write(b"xyz").unwrap(), 1);

    let other = open(&medium, "other", Access::Read);
    medium.remove(Path::new("other")).unwrap();
    assert!(handle.write(b"y").is_err(), "an open file keeps its room");
    drop(other);
    assert_eq!(handle.write(b"yz").unwrap(), 2);
    medium.capacity(100);
    assert_eq!(handle.write(b"0123456789").unwrap(), 10);
    assert_eq!(text(&medium, "log").as_deref(), Some("abcdexyz0123456789"));

    let medium = medium.restart(Survival::Everything);
    let mut handle = open(&medium, "log", Access::Append);
    assert_eq!(handle.write(&[b'.'; 100]).unwrap(), 82, "a restart does not enlarge the disk");
}

#[test]
fn state_outlives_a_panic_in_another_thread() {
    let medium = CrashMedium::new();
    medium.write_file("a", b"kept").unwrap();
    let clone = medium.clone();
    let panicked = std::thread::spawn(move || {
        let _state = clone.state();
        std::panic::resume_unwind(Box::new(()));
    })
    .join();
    assert!(panicked.is_err());
    assert_eq!(text(&medium, "a").as_deref(), Some("kept"));
}
