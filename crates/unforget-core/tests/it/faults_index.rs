//! Faults of the index: `sessions.json` lost, cut, stale, or ahead of what is on the disk.

use std::collections::BTreeSet;
use std::path::Path;

use unforget_core::directory::{Directory, Entry, OnMissing};
use unforget_core::doctor::{self, Mode};
use unforget_core::error::Error;
use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::snapshot::{self, Found};
use unforget_core::summary::State;
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Scope, Survival, is_power_cut};

use crate::support::{crash_store, disk_store, store_on};

const SNAPSHOT: &str = "agents/main/sessions.json";
/// More operations than any scenario here makes.
const ENOUGH: u64 = 500;

#[test]
fn x01_an_empty_index_loses_no_session() {
    let (medium, store, before) = indexed(3);
    medium.write_file(SNAPSHOT, b"").unwrap();
    let listing = store.list().unwrap();
    assert_eq!(listing.entries, before);
    assert_eq!(listing.unusable, [(SNAPSHOT.into(), "it is empty".to_owned())]);
    for entry in &before {
        let found = store.load(&key_of(entry), OnMissing::Create).unwrap();
        assert_eq!(found.id().as_str(), entry.row.id);
    }
    assert_eq!(store.list().unwrap().entries.len(), 3, "none was created");
}

#[test]
fn x01_an_empty_index_is_rebuilt_and_kept_beside_the_new_one() {
    let (medium, store, before) = indexed(3);
    medium.write_file(SNAPSHOT, b"").unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    assert_eq!((store.list().unwrap().unusable, rows(&medium)), (Vec::new(), ids(&before)));
    assert_eq!(bad(&medium), [Vec::<u8>::new()]);
}

#[test]
fn x01_the_doctor_tells_of_an_unusable_index_and_rebuilds_it_when_told() {
    let (medium, store, before) = indexed(2);
    medium.write_file(SNAPSHOT, b"").unwrap();
    let look = doctor::examine(&store, None, Mode::Look, |_| {}).unwrap();
    assert_eq!(look.findings[0].problem, "the snapshot is of no use: it is empty");
    assert_eq!(medium.read(SNAPSHOT).unwrap(), b"");
    doctor::examine(&store, None, Mode::Fix, |_| {}).unwrap();
    assert_eq!(doctor::examine(&store, None, Mode::Look, |_| {}).unwrap().findings, []);
    assert_eq!(rows(&medium), ids(&before));
}

#[test]
fn x02_an_index_cut_anywhere_loses_no_session() {
    let (medium, store, before) = indexed(2);
    let whole = medium.read(SNAPSHOT).unwrap();
    // The last two bytes are the closing brace and the line feed.
    for len in 1..whole.len() - 1 {
        medium.write_file(SNAPSHOT, &whole[..len]).unwrap();
        let listing = store.list().unwrap();
        assert_eq!(listing.entries, before, "cut at {len}");
        assert_eq!(listing.unusable.len(), 1, "cut at {len}");
    }
}

#[test]
fn x02_an_index_that_was_cut_is_kept_byte_for_byte() {
    let (medium, store, before) = indexed(2);
    let whole = medium.read(SNAPSHOT).unwrap();
    medium.write_file(SNAPSHOT, &whole[..whole.len() / 2]).unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    assert_eq!(bad(&medium), [whole[..whole.len() / 2].to_vec()]);
    assert_eq!(rows(&medium), ids(&before));
}

#[test]
fn x02_h7_a_list_of_a_newer_version_is_not_taken_for_ours_and_left_alone() {
    let (medium, store, before) = indexed(2);
    for newer in [&br#"{"version":2,"sessions":[]}"#[..], br#"{"version":3,"sessions":{"of":"another form"}}"#] {
        medium.write_file(SNAPSHOT, newer).unwrap();
        let listing = store.list().unwrap();
        assert_eq!((&listing.entries, listing.unusable.len(), listing.newer.len()), (&before, 0, 1));
        store.refresh(&listing).unwrap();
        let told = doctor::examine(&store, None, Mode::Fix, |_| {}).unwrap();
        assert_eq!((told.open().count(), told.oddities().count()), (0, 1), "{told:?}");
        assert_eq!((medium.read(SNAPSHOT).unwrap(), bad(&medium)), (newer.to_vec(), Vec::new()));
    }
}

#[test]
fn x03_a_session_whose_file_is_gone_is_listed_as_missing() {
    let (home, store, entry) = on_disk();
    std::fs::remove_file(home.path().join("home").join(store.path(&entry).unwrap())).unwrap();
    let found = store.list().unwrap().entries.remove(0);
    assert_eq!(
        (&found.row.state, &found.row.key, &found.row.title),
        (&State::Missing, &entry.row.key, &entry.row.title)
    );
    store.refresh(&store.list().unwrap()).unwrap();
    assert_eq!(store.list().unwrap().entries[0].row.state, State::Missing, "and stays so");
}

#[test]
fn x03_a_key_whose_file_is_gone_gets_an_error_and_no_new_session() {
    let (home, store, entry) = on_disk();
    let file = home.path().join("home").join(store.path(&entry).unwrap());
    std::fs::remove_file(&file).unwrap();
    for on_missing in [OnMissing::Create, OnMissing::Fail] {
        let error = store.load(&key_of(&entry), on_missing).unwrap_err();
        assert!(matches!(&error, Error::Missing { id, path } if *id == entry.row.id && *path == file), "{error}");
    }
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn x03_the_doctor_tells_of_a_missing_file_and_keeps_its_row() {
    let (home, store, entry) = on_disk();
    std::fs::remove_file(home.path().join("home").join(store.path(&entry).unwrap())).unwrap();
    let told = doctor::examine(&store, None, Mode::Fix, |_| {}).unwrap();
    assert!(told.findings.iter().any(|finding| finding.subject == entry.row.id && !finding.fixed), "{told:?}");
    assert_eq!(store.list().unwrap().entries[0].row.state, State::Missing);
}

#[test]
fn x03_a_file_that_comes_back_is_a_session_again() {
    let (home, store, entry) = on_disk();
    let file = home.path().join("home").join(store.path(&entry).unwrap());
    let away = home.path().join("away");
    std::fs::rename(&file, &away).unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(store.list().unwrap().entries, [entry]);
}

#[test]
fn x03_a_missing_session_is_forgotten_only_when_it_is_deleted() {
    let (home, store, entry) = on_disk();
    std::fs::remove_file(home.path().join("home").join(store.path(&entry).unwrap())).unwrap();
    store.delete(&store.list().unwrap().entries.remove(0)).unwrap();
    assert_eq!(store.list().unwrap().entries, []);
    store.load(&key_of(&entry), OnMissing::Create).unwrap();
}

#[test]
fn x04_transcripts_that_no_index_knows_are_listed() {
    let (medium, store) = crash_store();
    for number in 0..3214 {
        medium.write_file(format!("agents/main/sessions/orphan-{number}.jsonl"), header(number).as_bytes()).unwrap();
    }
    assert_eq!(store.list().unwrap().entries.len(), 3214);
    let found = store.load(&"main:cli:peer1234".parse().unwrap(), OnMissing::Fail).unwrap();
    assert_eq!(found.id().as_str(), "orphan-1234");
}

#[test]
fn x04_a_transcript_that_an_index_does_not_know_is_listed_beside_those_that_it_knows() {
    let (medium, store, before) = indexed(2);
    medium.write_file("agents/main/sessions/orphan-7.jsonl", header(7).as_bytes()).unwrap();
    let listing = store.list().unwrap();
    assert_eq!((listing.entries.len(), listing.stale.len()), (3, 1));
    assert!(before.iter().all(|entry| listing.entries.contains(entry)));
    store.refresh(&listing).unwrap();
    assert!(rows(&medium).contains("orphan-7"));
}

#[test]
fn x06_a_rebuilt_index_has_every_file_that_is_there_readable_or_not() {
    let (medium, store, _) = indexed(2);
    let odd: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("garbage", b"\xff\xfe\n\n[]\n"),
        ("gzip", b"\x1f\x8b\x08\x00"),
        ("headless", b"{\"type\":\"user\",\"content\":\"hello\"}\n"),
        ("stranger", b"{\"type\":\"session\",\"id\":\"OTHER\",\"key\":\"main:cli:mallory\"}\n"),
    ];
    for (name, bytes) in odd {
        medium.write_file(format!("agents/main/sessions/{name}.jsonl"), bytes).unwrap();
    }
    medium.write_file(SNAPSHOT, b"").unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    let on_disk: BTreeSet<String> = medium
        .paths()
        .iter()
        .filter_map(|path| path.strip_prefix("agents/main/sessions/")?.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    assert_eq!(on_disk.len(), 7);
    assert_eq!(rows(&medium), on_disk);
}

#[test]
fn x06_a_list_without_an_index_says_the_same_as_one_with_it() {
    let (medium, _store, before) = indexed(5);
    let restarted = medium.restart(Survival::Everything);
    unforget_core::medium::Medium::remove(&restarted, Path::new(SNAPSHOT)).unwrap();
    assert_eq!(store_on(restarted).list().unwrap().entries, before);
}

#[test]
fn x07_a_power_cut_while_the_index_is_replaced_leaves_the_old_one_or_the_new_one() {
    let mut cuts = 0;
    for at in 1..ENOUGH {
        let (medium, before) = ready_to_replace();
        medium.inject(Fault { at: medium.operations() + at, kind: FaultKind::PowerCut, sticky: false });
        let store = store_on(medium.clone());
        let end = store.list().and_then(|listing| store.refresh(&listing));
        for survival in Survival::ALL {
            let restarted = medium.restart(survival);
            let what = format!("cut at {at}, {survival:?}");
            let found = rows(&restarted);
            assert!(found.len() == 2 || found == ids(&before), "{what}: {found:?}");
            assert_eq!(ids(&store_on(restarted).list().unwrap().entries), ids(&before), "{what}");
        }
        match end {
            Ok(()) => break,
            Err(error) => assert!(is_power_cut(&error), "{error}"),
        }
        cuts += 1;
    }
    assert!(cuts >= 4, "only {cuts} cuts");
}

#[test]
fn x07_a_replaced_index_is_durable_when_the_call_returns() {
    for survival in Survival::ALL {
        let (medium, before) = ready_to_replace();
        let store = store_on(medium.clone());
        store.refresh(&store.list().unwrap()).unwrap();
        assert_eq!(rows(&medium.restart(survival)), ids(&before), "{survival:?}");
    }
}

#[test]
fn x08_a_snapshot_of_seven_thousand_sessions_stays_small() {
    let (medium, store) = crash_store();
    let words = "many words of the user ".repeat(100);
    for number in 0..7000 {
        let text = format!("{}{{\"type\":\"user\",\"content\":\"{words}\"}}\n", header(number));
        medium.write_file(format!("agents/main/sessions/orphan-{number}.jsonl"), text.as_bytes()).unwrap();
    }
    store.refresh(&store.list().unwrap()).unwrap();
    let len = medium.read(SNAPSHOT).unwrap().len();
    assert!(len < snapshot::ROWS * 500, "{len} bytes, however many sessions there are");
    let mut read = 0;
    let listing = store.list_with(|_, _| read += 1).unwrap();
    assert_eq!((listing.entries.len(), read), (7000, 7000 - snapshot::ROWS), "what is in it is not read again");
}

#[test]
fn x08_no_title_and_no_label_makes_a_row_large() {
    let (medium, store) = crash_store();
    let long = "long ".repeat(20_000);
    let mut session = store.create(&"main:cli:user".parse().unwrap(), Some(&long)).unwrap();
    session.append(&[Draft::user(&long), Draft::title(&long)]).unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    let len = medium.read(SNAPSHOT).unwrap().len();
    assert!(len < 2000, "{len} bytes");
}

#[test]
fn x08_a_turn_does_not_rewrite_the_index_and_the_next_list_reads_only_its_session() {
    let (medium, store, before) = indexed(5);
    let index = medium.read(SNAPSHOT).unwrap();
    let mut session = store.open(&before[0]).unwrap();
    session.save_turn("hello", "[]").unwrap();
    assert_eq!(medium.read(SNAPSHOT).unwrap(), index);
    let mut read = Vec::new();
    store.list_with(|path, _| read.push(path.to_path_buf())).unwrap();
    assert_eq!(read, [session.path()]);
}

#[test]
fn x10_a_crash_while_a_session_is_created_leaves_a_whole_session_or_none() {
    let key: Key = "main:cli:user".parse().unwrap();
    let mut cuts = 0;
    for at in 1..ENOUGH {
        let medium = CrashMedium::counting(Scope::Writes);
        medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: false });
        let store = store_on(medium.clone());
        let end = store.create(&key, None).map(|_| ()).and_then(|()| store.refresh(&store.list()?));
        for survival in Survival::ALL {
            let what = format!("cut at {at}, {survival:?}");
            let store = store_on(medium.restart(survival));
            let entries = store.list().unwrap().entries;
            assert!(entries.len() <= 1, "{what}: {entries:?}");
            for entry in &entries {
                assert_eq!((&entry.row.state, entry.row.key.as_deref()), (&State::Ok, Some("main:cli:user")), "{what}");
            }
            // The key is not poisoned: it gets its session, the old one or a new one.
            let mut session = store.load(&key, OnMissing::Create).unwrap();
            session.save_turn("hello", "[]").unwrap();
        }
        match end {
            Ok(()) => break,
            Err(error) => assert!(is_power_cut(&error), "{error}"),
        }
        cuts += 1;
    }
    assert!(cuts >= 6, "only {cuts} cuts");
}

#[test]
fn x10_creating_a_session_writes_no_index() {
    let (medium, store) = crash_store();
    let session = store.create(&"main:cli:user".parse().unwrap(), None).unwrap();
    assert_eq!(medium.paths(), [session.path().to_str().unwrap()]);
}

#[test]
fn x12_a_lock_file_with_the_number_of_a_living_process_locks_nothing() {
    let (home, store, entry) = on_disk();
    let file = home.path().join("home").join(store.path(&entry).unwrap());
    let lock = file.with_extension("jsonl.lock");
    std::fs::write(&lock, format!("{{\"pid\":{}}}", std::process::id())).unwrap();
    store.load(&key_of(&entry), OnMissing::Fail).unwrap().save_turn("hello", "[]").unwrap();
    assert!(lock.exists());
    assert_eq!(store.list().unwrap().entries.len(), 1, "and is no session");
}

#[test]
fn x12_a_writer_makes_no_lock_file_and_its_lock_ends_with_it() {
    let (home, store, entry) = on_disk();
    let folder = home.path().join("home/agents/main/sessions");
    let first = store.open(&entry).unwrap();
    assert!(matches!(store.open(&entry), Err(Error::Busy { .. })));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    drop(first);
    store.open(&entry).unwrap();
}

/// A store in memory with a few sessions and a current index.
fn indexed(count: usize) -> (CrashMedium, Directory, Vec<Entry>) {
    let (medium, store) = crash_store();
    for peer in 0..count {
        let mut session = store.create(&format!("main:cli:peer{peer}").parse().unwrap(), None).unwrap();
        session.save_turn(&format!("words {peer}"), "[]").unwrap();
    }
    let listing = store.list().unwrap();
    store.refresh(&listing).unwrap();
    (medium, store, listing.entries)
}

/// A medium with an index of two sessions, and a third session that it does not know.
fn ready_to_replace() -> (CrashMedium, Vec<Entry>) {
    let (medium, store, _) = indexed(2);
    store.create(&"main:cli:third".parse().unwrap(), None).unwrap();
    let entries = store.list().unwrap().entries;
    (medium, entries)
}

/// A real disk with one session that the index knows.
fn on_disk() -> (tempfile::TempDir, Directory, Entry) {
    let (home, store) = disk_store();
    let mut session = store.create(&"main:cli:user".parse().unwrap(), None).unwrap();
    session.save_turn("words", "[]").unwrap();
    drop(session);
    let mut listing = store.list().unwrap();
    store.refresh(&listing).unwrap();
    (home, store, listing.entries.remove(0))
}

fn header(number: usize) -> String {
    format!(
        "{{\"type\":\"session\",\"id\":\"orphan-{number}\",\"key\":\"main:cli:peer{number}\",\"created\":\"2026-01-01T00:00:00Z\"}}\n"
    )
}

fn key_of(entry: &Entry) -> Key {
    entry.row.key.as_deref().unwrap().parse().unwrap()
}

fn ids(entries: &[Entry]) -> BTreeSet<String> {
    entries.iter().map(|entry| entry.row.id.clone()).collect()
}

/// The ids in the index, which must be a usable one.
fn rows(medium: &CrashMedium) -> BTreeSet<String> {
    match snapshot::read(medium, Path::new(SNAPSHOT)) {
        Found::Rows(rows) => rows.into_iter().map(|row| row.id).collect(),
        other => panic!("{other:?}"),
    }
}

/// What is in the indexes that were set aside.
fn bad(medium: &CrashMedium) -> Vec<Vec<u8>> {
    medium
        .paths()
        .iter()
        .filter(|path| path.starts_with("agents/main/sessions.json.bad-"))
        .map(|path| medium.read(path).unwrap())
        .collect()
}

#[test]
fn x04_a_transcript_in_another_agents_folder_is_out_of_place() {
    let (home, store) = disk_store();
    let key: Key = "a:cli:user".parse().unwrap();
    let id = store.create(&key, None).unwrap().id().to_string();
    let agents = home.path().join("home/agents");
    std::fs::create_dir_all(agents.join("z/sessions")).unwrap();
    std::fs::copy(agents.join(format!("a/sessions/{id}.jsonl")), agents.join(format!("z/sessions/{id}.jsonl")))
        .unwrap();
    let states: Vec<(String, State)> = store
        .list()
        .unwrap()
        .entries
        .into_iter()
        .map(|entry| (entry.dir.as_str().to_owned(), entry.row.state))
        .collect();
    assert!(
        states.contains(&("a".to_owned(), State::Ok)) && states.contains(&("z".to_owned(), State::Mismatch)),
        "{states:?}"
    );
    assert!(store.load(&key, OnMissing::Fail).unwrap().path().starts_with("agents/a"));
}

#[test]
fn x04_a_folder_that_cannot_be_looked_into_hides_only_itself() {
    let (home, store) = disk_store();
    store.create(&"a:cli:user".parse().unwrap(), None).unwrap();
    std::fs::create_dir_all(home.path().join("home/agents/b")).unwrap();
    std::os::unix::fs::symlink("/", home.path().join("home/agents/b/sessions")).unwrap();
    let listing = store.list().unwrap();
    assert_eq!((listing.entries.len(), listing.unreadable.len()), (1, 1));
    assert!(listing.unreadable[0].1.contains("Not a directory"), "{:?}", listing.unreadable);
}
