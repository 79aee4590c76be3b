//! Each kind of fault, the count that leads to it, and the end of it.

use super::*;

#[test]
fn torn_write_lands_in_part_and_fails() {
    let table = [
        (Keep::One, "abcdef", "a"),
        (Keep::Half, "abcdef", "abc"),
        (Keep::AllButOne, "abcdef", "abcde"),
        (Keep::One, "a", ""),
        (Keep::Half, "a", ""),
        (Keep::AllButOne, "a", ""),
        (Keep::AllButOne, "", ""),
    ];
    for (keep, written, landed) in table {
        let medium = CrashMedium::new();
        let mut handle = open(&medium, "a", Access::CreateNew);
        medium.inject(once(2, FaultKind::TornWrite { keep }));
        assert_eq!(handle.write(written.as_bytes()).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(text(&medium, "a").as_deref(), Some(landed), "{keep:?} of {written:?}");
        handle.write(b"!").unwrap();
    }
}

#[test]
fn short_write_tells_and_the_next_one_tells_why() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    medium.inject(once(2, FaultKind::ShortWrite));
    assert_eq!(handle.write(b"abcde").unwrap(), 2);
    handle.sync_data().unwrap();
    assert_eq!(handle.write(b"cde").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(handle.write(b"cde").unwrap(), 3);
    assert_eq!(text(&medium, "a").as_deref(), Some("abcde"));
}

#[test]
fn write_too_short_to_halve_fails() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    medium.inject(once(2, FaultKind::ShortWrite));
    assert_eq!(handle.write(b"a").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(handle.write(b"a").unwrap(), 1);
}

#[test]
fn sticky_short_write_leaves_the_disk_full() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    let short = once(2, FaultKind::ShortWrite);
    medium.inject(Fault { sticky: true, ..short });
    assert_eq!(handle.write(b"abcd").unwrap(), 2);
    for _ in 0..3 {
        assert_eq!(handle.write(b"cd").unwrap_err().kind(), ErrorKind::StorageFull);
    }
    medium.clear();
    assert_eq!(handle.write(b"cd").unwrap(), 2);
}

#[test]
fn every_kind_of_fault_fails_other_operations_without_effect() {
    let kinds = [
        FaultKind::Error(ErrorKind::PermissionDenied),
        FaultKind::Errno(EIO),
        FaultKind::TornWrite { keep: Keep::Half },
        FaultKind::ShortWrite,
        FaultKind::PowerCut,
    ];
    for kind in kinds {
        let medium = CrashMedium::new();
        medium.write_file("a", b"kept").unwrap();
        medium.inject(once(1, kind));
        let error = medium.remove(Path::new("a")).unwrap_err();
        match kind {
            FaultKind::Error(kind) => assert_eq!(error.kind(), kind),
            FaultKind::Errno(number) => assert_eq!(error.raw_os_error(), Some(number)),
            FaultKind::TornWrite { .. } | FaultKind::ShortWrite => assert_eq!(error.kind(), ErrorKind::StorageFull),
            FaultKind::PowerCut => assert!(is_power_cut(&error)),
        }
        assert_eq!(medium.paths(), ["a"], "{kind:?}");
        assert_eq!(medium.remove(Path::new("a")).is_ok(), kind != FaultKind::PowerCut, "{kind:?}");
    }
}

#[test]
fn failed_sync_saves_nothing() {
    let medium = CrashMedium::new();
    medium.write_file("a", b"old").unwrap();
    let mut handle = open(&medium, "a", Access::Append);
    handle.write(b" new").unwrap();
    medium.inject(once(3, FaultKind::Errno(EIO)));
    assert_eq!(handle.sync_data().unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(text(&medium.restart(Survival::OnlySynced), "a").as_deref(), Some("old"));
}

#[test]
fn sticky_fault_stays_with_its_sort_of_operation_until_cleared() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    let kind = FaultKind::Errno(EIO);
    medium.inject(Fault { at: 3, kind, sticky: true });
    handle.write(b"x").unwrap();
    assert!(handle.sync_data().is_err());
    assert!(handle.sync_data().is_err());
    handle.write(b"y").unwrap();
    medium.sync_dir(Path::new("")).unwrap();
    medium.clear();
    handle.sync_data().unwrap();
}

#[test]
fn clear_forgets_what_was_planned() {
    let medium = CrashMedium::new();
    medium.inject(once(1, FaultKind::PowerCut));
    medium.clear();
    open(&medium, "a", Access::CreateNew);
}

#[test]
fn cut_power_fails_everything_until_the_restart() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    medium.inject(once(2, FaultKind::PowerCut));
    let errors = [
        handle.write(b"x").unwrap_err(),
        handle.write(b"x").unwrap_err(),
        handle.sync_data().unwrap_err(),
        handle.set_len(0).unwrap_err(),
        handle.stat().unwrap_err(),
        handle.try_lock().unwrap_err(),
        handle.read_at(&mut [0], 0).unwrap_err(),
        medium.open(Path::new("a"), Access::Read).unwrap_err(),
        medium.stat(Path::new("a")).unwrap_err(),
        medium.list(Path::new("")).unwrap_err(),
        medium.create_dir(Path::new("d")).unwrap_err(),
        medium.rename(Path::new("a"), Path::new("b")).unwrap_err(),
        medium.replace(Path::new("a"), Path::new("b")).unwrap_err(),
        medium.remove(Path::new("a")).unwrap_err(),
        medium.sync_dir(Path::new("")).unwrap_err(),
        medium.set_mode(Path::new("a"), 0).unwrap_err(),
    ];
    assert!(errors.iter().all(|error| is_power_cut(error)));
    assert_eq!(medium.operations(), 2);
    medium.clear();
    assert!(is_power_cut(&handle.write(b"x").unwrap_err()));

    let started = medium.restart(Survival::Everything);
    assert_eq!(text(&started, "a").as_deref(), Some(""));
    open(&started, "a", Access::Append).write(b"y").unwrap();
    assert_eq!(started.operations(), 2);
    assert!(is_power_cut(&handle.write(b"x").unwrap_err()));
    assert!(is_power_cut(&medium.list(Path::new("")).unwrap_err()));
}

#[test]
fn restart_stops_a_running_medium() {
    let medium = CrashMedium::new();
    let mut handle = open(&medium, "a", Access::CreateNew);
    let started = medium.restart(Survival::Everything);
    assert!(is_power_cut(&handle.write(b"x").unwrap_err()));
    assert!(is_power_cut(&medium.list(Path::new("")).unwrap_err()));
    assert_eq!(text(&started, "a").as_deref(), Some(""));
}

#[test]
fn power_cut_is_recognised_through_wrapping() {
    let medium = CrashMedium::new();
    medium.inject(once(1, FaultKind::PowerCut));
    let cut = medium.list(Path::new("")).unwrap_err();
    let reworded = std::io::Error::new(cut.kind(), format!("{cut} (and more)"));
    assert!(is_power_cut(&reworded));
    assert!(is_power_cut(&std::io::Error::other(cut)));
    assert!(!is_power_cut(&std::io::Error::from_raw_os_error(EIO)));
}

#[test]
fn scope_decides_what_counts() {
    for (scope, counts) in [
        (Scope::All, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        (Scope::Writes, [1, 2, 3, 4, 4, 4, 4, 5, 6, 7, 8, 8, 8, 8, 9, 10]),
    ] {
        let medium = CrashMedium::counting(scope);
        let mut counted = Vec::new();
        let mut count = || counted.push(medium.operations());
        medium.create_dir(Path::new("d")).unwrap();
        count();
        let mut handle = open(&medium, "a", Access::CreateNew);
        count();
        handle.write(b"x").unwrap();
        count();
        handle.sync_data().unwrap();
        count();
        handle.read_at(&mut [0], 0).unwrap();
        count();
        let stat = handle.stat().unwrap();
        count();
        handle.try_lock().unwrap();
        count();
        handle.set_len(0).unwrap();
        count();
        medium.rename(Path::new("a"), Path::new("b")).unwrap();
        count();
        medium.replace(Path::new("b"), Path::new("c")).unwrap();
        count();
        medium.set_mode(Path::new("c"), 0o600).unwrap();
        count();
        medium.stat(Path::new("c")).unwrap();
        count();
        medium.list(Path::new("")).unwrap();
        count();
        open(&medium, "c", Access::Append);
        count();
        medium.remove(Path::new("c")).unwrap();
        count();
        medium.sync_dir(Path::new("")).unwrap();
        count();
        assert_eq!(counted, counts, "{scope:?}");

        medium.lock_holder(&stat);
        medium.root();
        medium.write_file("e", b"").unwrap();
        medium.read("e");
        medium.paths();
        assert_eq!(medium.operations(), counts[15], "{scope:?}");
    }
}

#[test]
fn failed_operations_count_and_unscoped_ones_are_never_hit() {
    let medium = CrashMedium::counting(Scope::Writes);
    medium.inject(once(2, FaultKind::Errno(EIO)));
    assert_eq!(medium.remove(Path::new("no")).unwrap_err().kind(), ErrorKind::NotFound);
    medium.list(Path::new("")).unwrap();
    assert_eq!(medium.sync_dir(Path::new("")).unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(medium.operations(), 2);
}
