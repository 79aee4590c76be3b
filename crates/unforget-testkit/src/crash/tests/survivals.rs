//! What each crash leaves of bytes, cuts and names.

use std::collections::BTreeSet;

use unforget_core::medium::{replace_durable, write_full};

use super::*;

/// A log with a synced line and an unsynced one, and a new file that nobody synced.
fn half_synced() -> CrashMedium {
    let medium = CrashMedium::new();
    let mut log = open(&medium, "log", Access::CreateNew);
    log.write(b"AAAA").unwrap();
    log.sync_data().unwrap();
    medium.sync_dir(Path::new("")).unwrap();
    log.write(b"bbcc").unwrap();
    open(&medium, "new", Access::CreateNew).write(b"1234").unwrap();
    medium
}

#[test]
fn unsynced_bytes_and_names_survive_by_mode() {
    let table = [
        (Survival::OnlySynced, "AAAA", None),
        (Survival::Everything, "AAAAbbcc", Some("1234")),
        (Survival::Half, "AAAAbb", Some("12")),
        (Survival::NulFill, "AAAA\0\0\0\0", Some("\0\0\0\0")),
        (Survival::NamesWithoutData, "AAAA", Some("")),
    ];
    assert_eq!(table.map(|(survival, ..)| survival), Survival::ALL);
    let crashed = half_synced();
    for (survival, log, new) in table {
        let medium = crashed.restart(survival);
        assert_eq!(text(&medium, "log").as_deref(), Some(log), "{survival:?}");
        assert_eq!(text(&medium, "new").as_deref(), new, "{survival:?}");
    }
}

#[test]
fn unsynced_cut_survives_by_mode() {
    let table = [
        (Survival::OnlySynced, "AAAA", "AAAA"),
        (Survival::Everything, "AA", "AAzz"),
        (Survival::Half, "AA", "AAz"),
        (Survival::NulFill, "AA", "AA\0\0"),
        (Survival::NamesWithoutData, "AAAA", "AAAA"),
    ];
    for (survival, cut, cut_and_written) in table {
        for (written, left) in [("", cut), ("zz", cut_and_written)] {
            let medium = CrashMedium::new();
            medium.write_file("log", b"AAAA").unwrap();
            let mut log = open(&medium, "log", Access::Append);
            log.set_len(2).unwrap();
            log.write(written.as_bytes()).unwrap();
            let medium = medium.restart(survival);
            assert_eq!(text(&medium, "log").as_deref(), Some(left), "{survival:?}");
        }
    }
}

#[test]
fn synced_bytes_survive_in_every_mode() {
    for survival in Survival::ALL {
        let medium = CrashMedium::new();
        medium.write_file("log", b"AAAA").unwrap();
        let mut log = open(&medium, "log", Access::Append);
        log.set_len(3).unwrap();
        log.write(b"bbbbb").unwrap();
        log.sync_data().unwrap();
        let modified_ns = log.stat().unwrap().modified_ns;
        let medium = medium.restart(survival);
        assert_eq!(text(&medium, "log").as_deref(), Some("AAAbbbbb"), "{survival:?}");
        assert_eq!(medium.stat(Path::new("log")).unwrap().modified_ns, modified_ns, "{survival:?}");
    }
}

#[test]
fn killed_process_leaves_unsynced_bytes_to_a_later_power_cut() {
    let killed = half_synced().restart(Survival::Everything);
    killed.remove(Path::new("log")).unwrap();
    let killed = killed.restart(Survival::Everything);
    assert_eq!(killed.paths(), ["new"]);
    let cut = killed.restart(Survival::OnlySynced);
    assert_eq!((cut.paths(), text(&cut, "log").as_deref()), (vec!["log".to_owned()], Some("AAAA")));
}

#[test]
fn what_a_power_cut_left_is_durable() {
    for survival in [Survival::Half, Survival::NulFill, Survival::NamesWithoutData] {
        let left = half_synced().restart(survival);
        let again = left.restart(Survival::OnlySynced);
        assert_eq!(again.paths(), ["log", "new"], "{survival:?}");
        assert_eq!(again.read("log"), left.read("log"), "{survival:?}");
    }
}

#[test]
fn synced_file_without_synced_name_is_lost_and_the_other_way_is_empty() {
    let medium = CrashMedium::new();
    open(&medium, "named", Access::CreateNew).write(b"x").unwrap();
    medium.sync_dir(Path::new("")).unwrap();
    let mut nameless = open(&medium, "nameless", Access::CreateNew);
    nameless.write(b"x").unwrap();
    nameless.sync_data().unwrap();
    let medium = medium.restart(Survival::OnlySynced);
    assert_eq!((medium.paths(), medium.read("named")), (vec!["named".to_owned()], Some(vec![])));
}

#[test]
fn removal_and_rename_wait_for_the_directory() {
    for (synced, left) in [(false, ["gone", "old"].as_slice()), (true, ["new"].as_slice())] {
        let medium = CrashMedium::new();
        medium.write_file("gone", b"").unwrap();
        medium.write_file("old", b"").unwrap();
        medium.remove(Path::new("gone")).unwrap();
        medium.rename(Path::new("old"), Path::new("new")).unwrap();
        if synced {
            medium.sync_dir(Path::new("")).unwrap();
        }
        assert_eq!(medium.restart(Survival::OnlySynced).paths(), left);
        assert_eq!(medium.restart(Survival::NamesWithoutData).paths(), ["new"]);
    }
}

#[test]
fn rename_between_directories_needs_both_synced() {
    let table: [(&[&str], &[&str]); 4] =
        [(&[], &["from/a"]), (&["to"], &["from/a", "to/a"]), (&["from"], &[]), (&["from", "to"], &["to/a"])];
    for (synced, left) in table {
        let medium = CrashMedium::new();
        medium.write_file("from/a", b"x").unwrap();
        medium.create_dir(Path::new("to")).unwrap();
        medium.rename(Path::new("from/a"), Path::new("to/a")).unwrap();
        for dir in synced {
            medium.sync_dir(Path::new(dir)).unwrap();
        }
        let medium = medium.restart(Survival::OnlySynced);
        assert_eq!(medium.paths(), left, "{synced:?}");
        for path in left {
            assert_eq!(medium.stat(Path::new(path)).unwrap().links, left.len() as u64, "{synced:?}");
        }
    }
}

#[test]
fn created_directories_are_durable_but_not_their_neighbours() {
    let medium = CrashMedium::new();
    open(&medium, "unsynced", Access::CreateNew);
    medium.create_dir(Path::new("a/b")).unwrap();
    let medium = medium.restart(Survival::OnlySynced);
    medium.list(Path::new("a/b")).unwrap();
    assert!(medium.paths().is_empty());
}

#[test]
fn unlinked_open_file_is_gone_after_a_crash() {
    for survival in Survival::ALL {
        let medium = CrashMedium::new();
        let mut handle = open(&medium, "a", Access::CreateNew);
        medium.remove(Path::new("a")).unwrap();
        handle.write(b"x").unwrap();
        handle.sync_data().unwrap();
        assert!(medium.restart(survival).paths().is_empty(), "{survival:?}");
    }
}

#[test]
fn directories_moved_into_each_other_by_half_synced_renames_do_not_hang() {
    let medium = CrashMedium::new();
    medium.write_file("a/file", b"").unwrap();
    medium.create_dir(Path::new("b")).unwrap();
    medium.rename(Path::new("a"), Path::new("b/a")).unwrap();
    medium.sync_dir(Path::new("b")).unwrap();
    medium.rename(Path::new("b/a"), Path::new("a")).unwrap();
    medium.rename(Path::new("b"), Path::new("a/b")).unwrap();
    medium.sync_dir(Path::new("a")).unwrap();
    assert_eq!(medium.restart(Survival::OnlySynced).paths().len(), 1);
}

/// What the crashes of an update leave of `config`, each once and sorted.
#[derive(Debug, Default, PartialEq)]
struct Outcomes {
    after_failure: BTreeSet<String>,
    after_success: BTreeSet<String>,
}

/// Cuts the power at every operation of an update of `config` from "old" to "new".
fn outcomes(update: fn(&CrashMedium) -> std::io::Result<()>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for at in 1.. {
        let medium = CrashMedium::new();
        medium.write_file("config", b"old").unwrap();
        medium.inject(once(at, FaultKind::PowerCut));
        let finished = update(&medium).is_ok();
        assert_eq!(finished, medium.operations() < at);
        let left = if finished { &mut outcomes.after_success } else { &mut outcomes.after_failure };
        left.extend(Survival::ALL.map(|survival| text(&medium.restart(survival), "config").unwrap_or_default()));
        if finished {
            break;
        }
    }
    outcomes
}

fn set<const N: usize>(contents: [&str; N]) -> BTreeSet<String> {
    contents.map(str::to_owned).into()
}

#[test]
fn durable_replacement_is_whole_at_every_power_cut() {
    let left = outcomes(|medium| replace_durable(medium, Path::new("config"), b"new"));
    let expected = Outcomes { after_failure: set(["new", "old"]), after_success: set(["new"]) };
    assert_eq!(left, expected);
}

#[test]
fn replacement_without_sync_is_caught() {
    let left = outcomes(|medium| {
        let mut file = medium.open(Path::new("temporary"), Access::CreateNew)?;
        write_full(file.as_mut(), b"new")?;
        medium.replace(Path::new("temporary"), Path::new("config"))?;
        medium.sync_dir(Path::new(""))
    });
    let expected = Outcomes {
        after_failure: set(["", "\0\0\0", "n", "new", "old"]),
        after_success: set(["", "\0\0\0", "n", "new"]),
    };
    assert_eq!(left, expected);
}
