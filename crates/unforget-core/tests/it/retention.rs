//! Cleaning up: what goes can come back, what stays is untouched, and a crash at any operation loses nothing.

use std::sync::Arc;

use unforget_core::blob::references;
use unforget_core::directory::{Directory, Entry};
use unforget_core::key::Key;
use unforget_core::log::Durability;
use unforget_core::medium::Medium as _;
use unforget_core::record::Draft;
use unforget_core::retention::{self, Action, Due, Keep, Kept, Outcome, Pattern, Period, Plan, Purge, Rules};
use unforget_core::scan::scan;
use unforget_core::stamp::{SessionId, Source};
use unforget_core::summary::State;
use unforget_core::{Error, doctor, json, layout};
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Survival};

use crate::support::{crash_store, disk_store, store_on};

/// A hundred days after the beginning of the tests' clock.
const LATER: i64 = 1_767_225_600_000 + 100 * 86_400_000;

/// Length of a payload.
const PAYLOAD: usize = 1000;

/// The clock of the day on which things are cleaned up.
struct Later;

impl Source for Later {
    fn now_ms(&self) -> i64 {
        LATER
    }

    fn new_id(&self, _: i64) -> SessionId {
        SessionId::parse("01900000-0000-7000-8000-999999999999").unwrap()
    }
}

/// The same store on that day.
fn later(store: &Directory) -> Directory {
    Directory::new(store.medium().clone(), Arc::new(Later), Durability::PowerLoss)
}

fn rules() -> Rules {
    Rules {
        keys: vec![(Pattern::parse("main:cli:*").unwrap(), Keep::parse("30d").unwrap())],
        trash: Some(Period::parse("30d").unwrap()),
        disk_budget: None,
    }
}

/// A session with a payload outside of its lines.
fn session(store: &Directory, peer: &str, label: Option<&str>, payload: char) -> Result<(), Error> {
    let mut session = store.create(&Key::new("main", "cli", None, peer)?, label)?;
    let full = json::quote(&payload.to_string().repeat(PAYLOAD));
    session.append(&[
        Draft::user(&format!("words of {peer}")),
        Draft::tool_use(None, "toolu_1", "read_file", "{}"),
        Draft::tool_result("toolu_1", "\"the ends of it\"").raw("full", &full),
    ])?;
    Ok(())
}

/// Asserts that a transcript is whole and that its payloads are there.
fn assert_whole(store: &Directory, entry: &Entry, what: &str) {
    let bytes = store.read(entry).unwrap().read_all().unwrap();
    let scanned = scan(&bytes);
    assert_eq!(scanned.report.damage().next(), None, "{what}: {:?}", entry.row.key);
    let references: Vec<_> = scanned.records.iter().flat_map(references).collect();
    assert_eq!(references.len(), 1, "{what}");
    for reference in references.into_iter().flatten() {
        let payload = store.blobs().get(&reference.sha256);
        assert!(payload.is_ok(), "{what}: the payload of {:?} is gone: {payload:?}", entry.row.key);
    }
}

fn entry(store: &Directory, peer: &str) -> Entry {
    let key = format!("main:cli:{peer}");
    let listing = store.list().unwrap();
    let mut all = listing.entries.into_iter().chain(store.deleted().unwrap());
    all.find(|entry| entry.row.key.as_deref() == Some(&key)).unwrap()
}

fn bytes(store: &Directory, peer: &str) -> Vec<u8> {
    store.read(&entry(store, peer)).unwrap().read_all().unwrap()
}

fn decide(store: &Directory, rules: &Rules) -> Result<Plan, Error> {
    let mut survey = retention::survey(store, |_| {})?;
    Ok(retention::decide(store, &mut survey, rules, &Purge::ByRules, LATER))
}

fn clean_up(store: &Directory) -> Result<Outcome, Error> {
    let store = later(store);
    retention::apply(&store, &decide(&store, &rules())?, &rules(), |_| {})
}

fn blobs(medium: &CrashMedium) -> usize {
    medium.paths().iter().filter(|path| path.starts_with("blobs/")).count()
}

#[test]
fn what_expired_comes_back_with_the_same_bytes() {
    let (medium, store) = crash_store();
    session(&store, "old", None, 'a').unwrap();
    session(&store, "named", Some("work"), 'b').unwrap();
    let before = bytes(&store, "old");
    let outcome = clean_up(&store).unwrap();
    assert_eq!(outcome.deeds.len(), 1);
    assert_eq!((outcome.deeds[0].action, outcome.deeds[0].key.as_deref()), (Action::Expired, Some("main:cli:old")));
    assert_eq!((outcome.failed, outcome.kept, outcome.payloads), (vec![], vec![], None));
    assert_eq!((entry(&store, "old").row.state, entry(&store, "named").row.state), (State::Deleted, State::Ok));
    let receipts = String::from_utf8(medium.read(layout::receipts()).unwrap()).unwrap();
    assert!(receipts.contains("\"action\":\"expired\"") && receipts.contains("rule main:cli:*"), "{receipts}");
    assert_eq!(clean_up(&store).unwrap(), Outcome::default(), "a second time there is nothing to do");
    store.undelete(&entry(&store, "old")).unwrap();
    assert_eq!(bytes(&store, "old"), before);
}

#[test]
fn a_session_in_use_stays_and_one_that_was_used_since_the_plan_stays_too() {
    let (_medium, store) = crash_store();
    session(&store, "live", None, 'a').unwrap();
    session(&store, "used", None, 'b').unwrap();
    let writer = store.open(&entry(&store, "live")).unwrap();
    let plan = decide(&store, &rules()).unwrap();
    assert!(plan.kept.contains(&(entry(&store, "live").row.id, Kept::Live)), "{:?}", plan.kept);
    drop(writer);
    let plan = decide(&store, &rules()).unwrap();
    assert_eq!(plan.expire.len(), 2);
    let _writer = store.open(&entry(&store, "live")).unwrap();
    store.open(&entry(&store, "used")).unwrap().append(&[Draft::user("one more thing")]).unwrap();
    let outcome = retention::apply(&store, &plan, &rules(), |_| {}).unwrap();
    let mut kept: Vec<Kept> = outcome.kept.into_iter().map(|(_, kept)| kept).collect();
    kept.sort_by_key(ToString::to_string);
    assert_eq!((outcome.deeds, kept), (vec![], vec![Kept::Changed, Kept::Live]));
}

/// A snapshot may be wrong about a session; the transcript decides.
#[test]
fn a_label_that_the_list_forgot_still_protects() {
    let (_medium, store) = crash_store();
    session(&store, "named", Some("work"), 'a').unwrap();
    let mut plan = decide(&store, &rules()).unwrap();
    let entry = entry(&store, "named");
    plan.expire.push((entry.clone(), retention::Why::Budget));
    let outcome = retention::apply(&store, &plan, &rules(), |_| {}).unwrap();
    assert_eq!((outcome.deeds, outcome.kept), (vec![], vec![(entry.row.id, Kept::Labelled)]));
}

#[test]
fn purging_removes_the_payloads_that_nobody_else_refers_to() {
    let (medium, store) = crash_store();
    for (peer, payload) in [("gone", 'a'), ("sharing", 'b'), ("kept", 'b')] {
        session(&store, peer, None, payload).unwrap();
    }
    for peer in ["gone", "sharing"] {
        store.delete(&entry(&store, peer)).unwrap();
    }
    let torn = format!("trash/main/{}.torn-1", entry(&store, "gone").row.id);
    medium.write_file(&torn, b"{\"v\":1,").unwrap();
    let rules = Rules { keys: vec![], ..rules() };
    assert_eq!(blobs(&medium), 2);
    let outcome = retention::apply(&store, &decide(&store, &rules).unwrap(), &rules, |_| {}).unwrap();
    assert_eq!(outcome.deeds.iter().filter(|deed| deed.action == Action::Purged).count(), 2);
    let payloads = outcome.payloads.unwrap();
    assert_eq!((payloads.removed, payloads.bytes, payloads.stopped), (1, PAYLOAD as u64 + 2, None));
    assert_eq!((blobs(&medium), store.deleted().unwrap()), (1, vec![]));
    let left: Vec<String> = medium.paths().into_iter().filter(|path| path.starts_with("trash/")).collect();
    assert_eq!(left, ["trash/gc.lock", "trash/receipts.jsonl"]);
    assert_whole(&store, &entry(&store, "kept"), "after the purge");
}

#[test]
fn a_transcript_that_cannot_be_read_stops_the_removal_of_payloads() {
    let (medium, store) = crash_store();
    session(&store, "gone", None, 'a').unwrap();
    session(&store, "kept", None, 'b').unwrap();
    store.delete(&entry(&store, "gone")).unwrap();
    let rules = Rules { keys: vec![], ..rules() };
    let plan = decide(&store, &rules).unwrap();
    let path = format!("agents/main/sessions/{}.jsonl", entry(&store, "kept").row.id);
    // The last thing to be opened is the transcript that is looked through.
    let opened = std::cell::Cell::new(0);
    let stop = |found: &std::path::Path| {
        opened.set(opened.get() + 1);
        if found == std::path::Path::new(&path) {
            medium.inject(Fault { at: medium.operations() + 1, kind: FaultKind::Errno(5), sticky: false });
        }
    };
    let outcome = retention::apply(&store, &plan, &rules, stop).unwrap();
    let payloads = outcome.payloads.unwrap();
    assert!(payloads.removed == 0 && payloads.stopped.is_some(), "{payloads:?}");
    assert_eq!(blobs(&medium), 2);
    // It is made up for the next time, with nothing left to purge.
    let again = retention::apply(&store, &decide(&store, &rules).unwrap(), &rules, |_| {}).unwrap();
    assert_eq!((again.payloads.unwrap().removed, blobs(&medium)), (1, 1));
}

#[test]
fn a_damaged_line_and_a_torn_piece_still_hold_on_to_their_payloads() {
    let (medium, store) = crash_store();
    session(&store, "gone", None, 'a').unwrap();
    let hash =
        medium.paths().iter().find_map(|path| path.strip_prefix("blobs/").map(|name| name[3..].to_owned())).unwrap();
    store.delete(&entry(&store, "gone")).unwrap();
    medium.write_file("agents/main/sessions/other.torn-1", format!("garbage\u{0}{hash}\"").as_bytes()).unwrap();
    let rules = Rules { keys: vec![], ..rules() };
    let outcome = retention::apply(&store, &decide(&store, &rules).unwrap(), &rules, |_| {}).unwrap();
    assert_eq!((outcome.payloads.unwrap().removed, blobs(&medium)), (0, 1));
}

/// Makes a payload a day older than the day on which things are cleaned up.
fn age(path: &std::path::Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let then = std::time::Duration::from_millis(u64::try_from(LATER).unwrap() - 86_400_000);
    file.set_modified(std::time::UNIX_EPOCH + then).unwrap();
}

#[test]
fn a_young_payload_is_left_alone_and_looked_at_again() {
    let (home, store) = disk_store();
    session(&store, "gone", None, 'a').unwrap();
    let hash = store.blobs().put(json::quote(&"a".repeat(PAYLOAD)).as_bytes()).unwrap();
    let path = home.path().join("home").join(layout::blob(&hash));
    store.delete(&entry(&store, "gone")).unwrap();
    let first = clean_up(&store).unwrap();
    let payloads = first.payloads.unwrap();
    assert_eq!((first.deeds.len(), payloads.removed, payloads.young, path.exists()), (1, 0, 1, true));
    age(&path);
    let second = clean_up(&store).unwrap();
    assert_eq!((second.deeds, second.payloads.unwrap().removed, path.exists()), (vec![], 1, false));
    assert_eq!(clean_up(&store).unwrap(), Outcome::default());
}

#[test]
fn a_payload_that_is_stored_again_becomes_young() {
    let (home, store) = disk_store();
    let hash = store.blobs().put(b"\"payload\"").unwrap();
    let path = home.path().join("home").join(layout::blob(&hash));
    age(&path);
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    store.blobs().put(b"\"payload\"").unwrap();
    assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > before);
}

#[test]
fn only_one_process_cleans_up_at_a_time() {
    let (medium, store) = crash_store();
    session(&store, "old", None, 'a').unwrap();
    let plan = decide(&store, &rules()).unwrap();
    medium.write_file(layout::gc_lock(), b"").unwrap();
    let file =
        unforget_core::medium::Medium::open(&medium, &layout::gc_lock(), unforget_core::medium::Access::Read).unwrap();
    assert!(file.try_lock().unwrap());
    assert!(matches!(retention::apply(&store, &plan, &rules(), |_| {}), Err(Error::Busy { .. })));
    drop(file);
    assert_eq!(retention::apply(&store, &plan, &rules(), |_| {}).unwrap().deeds.len(), 1);
    // A plan that somebody else has carried out meanwhile does no harm.
    let late = retention::apply(&store, &plan, &rules(), |_| {}).unwrap();
    assert_eq!((late.deeds, late.kept.len(), late.failed), (vec![], 1, vec![]));
}

#[test]
fn it_is_due_once_a_day_and_only_with_rules() {
    let (medium, store) = crash_store();
    let due = |rules: &Rules| retention::due(&store, rules).unwrap();
    assert_eq!((due(&Rules::default()), due(&rules()), due(&rules())), (Due::No, Due::Now, Due::No));
    medium.write_file(layout::gc_stamp(), b"2025-12-31T00:00:00.000Z\n").unwrap();
    assert_eq!(due(&rules()), Due::Now);
    medium.write_file(layout::gc_stamp(), b"2999-12-31T00:00:00.000Z\n").unwrap();
    assert_eq!(due(&rules()), Due::Now, "a clock that was wrong does not stop it for ever");
}

#[test]
fn a_clock_that_leapt_ahead_expires_nothing_before_a_person_said_that_it_is_right() {
    let (medium, store) = crash_store();
    session(&store, "old", None, 'a').unwrap();
    // A hundred days later by the clock, and so says what is written now.
    let ahead = later(&store);
    session(&ahead, "new", None, 'b').unwrap();
    let is_doubtful = || matches!(retention::due(&ahead, &rules()).unwrap(), Due::Doubtful { now_ms: LATER, .. });
    assert!(is_doubtful(), "by the newest session from before today");
    assert!(is_doubtful(), "and it stays in doubt");
    assert_eq!(retention::due(&store, &rules()).unwrap(), Due::Now, "the right clock is believed");
    assert!(is_doubtful(), "by the last clean-up");
    retention::believe_clock(&ahead).unwrap();
    assert_eq!(retention::doubt(&ahead).unwrap(), None);
    medium.write_file(layout::gc_stamp(), b"2026-04-01T00:00:00.000Z\n").unwrap();
    assert_eq!(retention::due(&ahead, &rules()).unwrap(), Due::Now, "some days without a chat are no leap");
}

/// What a crash leaves between moving a payload aside and removing it, or moving it back because somebody wrote it again.
fn left_aside(medium: &CrashMedium) -> (String, Vec<u8>) {
    let path = medium.paths().into_iter().find(|path| path.starts_with("blobs/")).unwrap();
    let bytes = medium.read(&path).unwrap();
    medium.rename(path.as_ref(), format!("{path}.tmp-gc").as_ref()).unwrap();
    (path, bytes)
}

#[test]
fn a_payload_that_a_crash_left_aside_is_brought_back_by_the_doctor_and_by_the_next_clean_up() {
    for by_doctor in [true, false] {
        let (medium, store) = crash_store();
        session(&store, "kept", Some("work"), 'a').unwrap();
        let (path, bytes) = left_aside(&medium);
        medium.write_file(layout::payloads_due(), b"").unwrap();
        if by_doctor {
            let look = doctor::examine(&later(&store), None, doctor::Mode::Look, |_| {}).unwrap();
            assert!(look.open().any(|finding| finding.subject.ends_with(".tmp-gc")), "{look:?}");
            let fix = doctor::examine(&later(&store), None, doctor::Mode::Fix, |_| {}).unwrap();
            assert_eq!((fix.open().count(), fix.findings.len()), (0, 1), "{fix:?}");
        } else {
            clean_up(&store).unwrap();
        }
        assert_eq!(medium.read(&path).unwrap(), bytes);
        assert_whole(&store, &entry(&store, "kept"), "after it was brought back");
        assert!(!medium.paths().iter().any(|path| path.ends_with(".tmp-gc")));
    }
}

#[test]
fn a_payload_that_nobody_refers_to_is_removed_although_a_crash_left_it_aside() {
    let (medium, store) = crash_store();
    session(&store, "gone", None, 'a').unwrap();
    store.delete(&entry(&store, "gone")).unwrap();
    let (path, bytes) = left_aside(&medium);
    // Somebody stored it again since.
    medium.write_file(&path, &bytes).unwrap();
    let outcome = clean_up(&store).unwrap();
    assert_eq!(outcome.payloads.unwrap().removed, 1);
    assert_eq!(blobs(&medium), 0, "{:?}", medium.paths());
}

#[test]
fn a_session_that_came_back_and_is_being_written_is_not_replaced_by_its_deleted_self() {
    let (medium, store) = crash_store();
    session(&store, "twice", None, 'a').unwrap();
    let here = entry(&store, "twice");
    let path = store.path(&here).unwrap();
    let short = bytes(&store, "twice");
    store.open(&here).unwrap().append(&[Draft::user("deleted words")]).unwrap();
    let long = bytes(&store, "twice");
    store.delete(&here).unwrap();
    // It was imported again, as it once was, and someone talks there.
    medium.write_file(&path, &short).unwrap();
    let deleted = store.deleted().unwrap().remove(0);
    let mut writer = store.open(&here).unwrap();
    assert!(matches!(store.undelete(&deleted), Err(Error::Busy { .. })));
    assert_eq!(medium.read(&path).unwrap(), short, "nothing was moved");
    assert_eq!(store.read(&deleted).unwrap().read_all().unwrap(), long);
    writer.append(&[Draft::user("new words")]).unwrap();
    drop(writer);
    let grown = medium.read(&path).unwrap();
    assert!(matches!(store.undelete(&deleted), Err(Error::Exists { .. })), "both have words that the other has not");
    assert_eq!(medium.read(&path).unwrap(), grown);
    assert_eq!(store.read(&deleted).unwrap().read_all().unwrap(), long);
    // As long as nobody writes and nothing was added, the longer one takes its place.
    medium.write_file(&path, &short).unwrap();
    store.undelete(&deleted).unwrap();
    assert_eq!(medium.read(&path).unwrap(), long);
}

/// Two sessions that expire, one that is named, and one in the trash that is purged; the payload `b` is shared.
fn scene(medium: &CrashMedium) -> Directory {
    let store = store_on(medium.clone());
    session(&store, "one", None, 'a').unwrap();
    session(&store, "two", None, 'b').unwrap();
    session(&store, "named", Some("work"), 'c').unwrap();
    session(&store, "gone", None, 'b').unwrap();
    session(&store, "away", None, 'd').unwrap();
    store.refresh(&store.list().unwrap()).unwrap();
    for peer in ["gone", "away"] {
        store.delete(&entry(&store, peer)).unwrap();
    }
    store
}

fn check(medium: &CrashMedium, expected: &[(&str, Vec<u8>)], what: &str) {
    let store = store_on(medium.clone());
    let (listed, deleted) = (store.list().unwrap().entries, store.deleted().unwrap());
    for (peer, bytes) in expected {
        let key = format!("main:cli:{peer}");
        let found: Vec<&Entry> =
            listed.iter().chain(&deleted).filter(|entry| entry.row.key.as_deref() == Some(&key)).collect();
        if found.is_empty() && ["gone", "away"].contains(peer) {
            continue;
        }
        assert_eq!(found.len(), 1, "{what}: {peer} is in {} places", found.len());
        assert!(matches!(found[0].row.state, State::Ok | State::Deleted), "{what}: {:?}", found[0].row);
        assert!(store.read(found[0]).unwrap().read_all().unwrap() == *bytes, "{what}: {peer} has other bytes");
        assert_whole(&store, found[0], what);
    }
    let is_usable = |entry: &Entry| entry.row.state == State::Ok;
    assert!(listed.iter().all(is_usable), "{what}: something is missed: {listed:?}");
    // The next run does the rest, and what expired comes back whole.
    clean_up(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
    let aside = medium.paths().into_iter().find(|path| path.ends_with(".tmp-gc"));
    assert_eq!(aside, None, "{what}: no payload is left aside");
    let left = store.list().unwrap().entries;
    assert!(left.len() == 1 && left.iter().all(is_usable), "{what}: {left:?}");
    assert_eq!(store.deleted().unwrap().len(), 2, "{what}");
    for (peer, bytes) in &expected[..2] {
        store.undelete(&entry(&store, peer)).unwrap();
        assert!(self::bytes(&store, peer) == *bytes, "{what}: {peer} came back with other bytes");
        assert_whole(&store, &entry(&store, peer), what);
    }
}

#[test]
fn whatever_fails_at_whatever_operation_every_session_is_in_one_place_and_readable() {
    let mut rounds = 0;
    for kind in [FaultKind::PowerCut, FaultKind::Errno(5), FaultKind::Errno(28)] {
        for k in 1.. {
            let medium = CrashMedium::new();
            let store = scene(&medium);
            let peers = ["one", "two", "named", "gone", "away"];
            let expected: Vec<(&str, Vec<u8>)> = peers.iter().map(|peer| (*peer, bytes(&store, peer))).collect();
            let at = medium.operations() + k;
            medium.inject(Fault { at, kind, sticky: false });
            // What went wrong is told by the result; here it only matters what is left.
            let told = clean_up(&store);
            if medium.operations() < at {
                let outcome = told.unwrap();
                assert!(k > 100 && outcome.failed.is_empty() && outcome.deeds.len() == 4, "{k} {outcome:?}");
                assert_eq!(outcome.payloads.unwrap().removed, 1);
                break;
            }
            let all = [Survival::OnlySynced, Survival::Everything, Survival::Half, Survival::NamesWithoutData];
            let survivals = if kind == FaultKind::PowerCut { &all[..] } else { &all[1..2] };
            for survival in survivals.iter().copied() {
                rounds += 1;
                check(&medium.restart(survival), &expected, &format!("{kind:?} at {k}, {survival:?}"));
            }
        }
    }
    assert!(rounds > 300, "{rounds}");
}
