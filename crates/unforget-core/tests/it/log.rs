//! The writer: one at a time, whole lines, nothing half done.

use std::path::Path;
use std::sync::Arc;

use unforget_core::log::{Durability, Log, Sealed};
use unforget_core::medium::{Medium as _, Os};
use unforget_core::{Change, Error};
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind};

const NAME: &str = "a.jsonl";

fn medium(bytes: &[u8]) -> CrashMedium {
    let medium = CrashMedium::new();
    medium.write_file(Path::new(NAME), bytes).unwrap();
    medium
}

fn open(medium: &CrashMedium) -> Result<(Log, Option<Sealed>), Error> {
    Log::open(Arc::new(medium.clone()), Path::new(NAME), Durability::PowerLoss)
}

#[test]
fn a_second_writer_is_refused_and_told_who_has_it() {
    let medium = medium(b"{}\n");
    let first = open(&medium).unwrap();
    assert!(matches!(open(&medium), Err(Error::Busy { holder, .. }) if holder == "process 1 (test)"));
    drop(first);
    assert!(open(&medium).is_ok());
}

#[test]
fn the_real_lock_names_the_process_that_holds_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(NAME), "{}\n").unwrap();
    let open = || Log::open(Arc::new(Os::new(home.path())), Path::new(NAME), Durability::PowerLoss);
    let held = open().unwrap();
    let holder = match open() {
        Err(Error::Busy { holder, .. }) => holder,
        other => panic!("{other:?}"),
    };
    assert!(holder.contains(&format!("process {}", std::process::id())), "{holder}");
    drop(held);
}

#[test]
fn a_torn_tail_is_moved_aside_byte_for_byte_and_numbered() {
    let medium = medium(b"{\"a\":1}\n{\"b\":");
    let (log, sealed) = open(&medium).unwrap();
    assert_eq!(sealed, Some(Sealed::MovedAside { to: "a.torn-1".into(), bytes: 5 }));
    assert_eq!(log.len(), 8);
    drop(log);
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"{\"a\":1}\n");
    assert_eq!(medium.read(Path::new("a.torn-1")).unwrap(), b"{\"b\":");
    medium.write_file(Path::new(NAME), b"{\"a\":1}\n\0\0").unwrap();
    let (_, sealed) = open(&medium).unwrap();
    assert_eq!(sealed, Some(Sealed::MovedAside { to: "a.torn-2".into(), bytes: 2 }));
}

#[test]
fn a_whole_last_line_only_gets_its_line_feed() {
    let medium = medium(b"{\"a\":1}\n{\"b\":2}");
    let (mut log, sealed) = open(&medium).unwrap();
    assert_eq!(sealed, Some(Sealed::Completed));
    log.append(b"{\"c\":3}\n").unwrap();
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
}

#[test]
fn a_batch_without_its_last_line_feed_is_refused() {
    let medium = medium(b"");
    let (mut log, _) = open(&medium).unwrap();
    assert!(matches!(log.append(b"{}"), Err(Error::Invalid(_))));
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"");
}

#[test]
fn a_file_that_was_deleted_replaced_shortened_or_added_to_is_noticed_before_anything_is_written() {
    type Meddle = fn(&CrashMedium);
    let cases: [(Meddle, Change); 4] = [
        (|medium| medium.remove(Path::new(NAME)).unwrap(), Change::Unlinked),
        (
            |medium| {
                medium.write_file(Path::new("b"), b"{}\n").unwrap();
                medium.replace(Path::new("b"), Path::new(NAME)).unwrap();
            },
            Change::Replaced,
        ),
        (|medium| medium.write_file(Path::new(NAME), b"{").unwrap(), Change::Shortened),
        (|medium| medium.write_file(Path::new(NAME), b"{}\n{}\n").unwrap(), Change::Grown),
    ];
    for (meddle, expected) in cases {
        let medium = medium(b"{}\n");
        let (mut log, _) = open(&medium).unwrap();
        meddle(&medium);
        let before = medium.read(Path::new(NAME));
        match log.append(b"{\"x\":1}\n") {
            Err(Error::Changed { change, .. }) => assert_eq!(change, expected),
            other => panic!("{expected:?}: {other:?}"),
        }
        assert_eq!(medium.read(Path::new(NAME)), before);
    }
}

#[test]
fn after_a_full_disk_the_file_ends_where_it_was_and_the_same_append_works_later() {
    let medium = medium(b"{}\n");
    let (mut log, _) = open(&medium).unwrap();
    medium.capacity(8);
    let error = log.append(b"{\"long\":\"line\"}\n").unwrap_err();
    assert!(error.is_io(std::io::ErrorKind::StorageFull), "{error}");
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"{}\n");
    medium.capacity(1000);
    log.append(b"{\"long\":\"line\"}\n").unwrap();
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"{}\n{\"long\":\"line\"}\n");
}

#[test]
fn after_a_failed_sync_the_descriptor_is_never_used_again() {
    let medium = medium(b"{}\n");
    let (mut log, _) = open(&medium).unwrap();
    // stat, stat, write, sync: the fourth operation of an append.
    let at = medium.operations() + 4;
    medium.inject(Fault { at, kind: FaultKind::Errno(5), sticky: false });
    assert!(matches!(log.append(b"{\"a\":1}\n"), Err(Error::Io { .. })));
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"{}\n");
    assert!(matches!(log.append(b"{\"a\":1}\n"), Err(Error::Poisoned { .. })));
    log.reopen().unwrap();
    log.append(b"{\"a\":1}\n").unwrap();
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"{}\n{\"a\":1}\n");
}

#[test]
fn a_lock_that_keeps_nobody_out_is_refused() {
    let medium = medium(b"{}\n");
    medium.ignore_locks();
    assert!(matches!(open(&medium), Err(Error::LockIneffective { .. })));
}

#[test]
fn a_listing_with_stats_says_what_single_stats_say() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "12345").unwrap();
    std::fs::create_dir(home.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("file", home.path().join("link")).unwrap();
    let medium = Os::new(home.path());
    let mut listed = medium.list_stats(Path::new("")).unwrap();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(listed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["file", "folder", "link"]);
    for name in ["file", "folder"] {
        let found = listed.iter().find(|(listed, _)| listed == name).unwrap().1;
        assert_eq!(found, medium.stat(Path::new(name)).unwrap(), "{name}");
    }
    assert_eq!(listed[2].1.kind, unforget_core::medium::FileKind::Other);
}
