//! Fail, tear, fill the disk or pull the plug at the k-th operation, for every k of a scripted session.
//!
//! After each fault the store is opened again on what survived, and the promises are checked: acknowledged records are
//! there (P1), nothing else is damaged (P2), what was odd is told (P3), the history is valid (P4) and has the earlier one as
//! its beginning (P5), and the list is the same without its snapshot (P6).

use std::path::Path;

use unforget_core::directory::{Directory, OnMissing};
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::medium::Medium as _;
use unforget_core::record::Draft;
use unforget_core::scan::scan;
use unforget_core::summary::State;
use unforget_core::{Error, json};
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Keep, Survival};

use crate::support::{assert_accepted, store_on};

/// What the script got acknowledged: the texts of the user, in order, and the last history that was sent.
#[derive(Debug, Default, Clone)]
struct Acked {
    created: bool,
    texts: Vec<String>,
    sent: Vec<String>,
    deleted: bool,
}

/// A session from creation to deletion: three turns with a call each, one of them with a result that goes to the blob store.
fn script(store: &Directory, acked: &mut Acked) -> Result<(), Error> {
    let key = Key::default();
    let mut session = store.create(&key, Some("work"))?;
    acked.created = true;
    for turn in 0..3 {
        let text = format!("question {turn}");
        session.append(&[Draft::user(&text)])?;
        acked.texts.push(text);
        acked.sent.push(session.history(&Limits::default())?.history.to_json());
        let (msg, call) = (format!("m{turn}"), format!("toolu_{turn}"));
        session.append(&[
            Draft::assistant(Some(&msg), r#"[{"type":"text","text":"let me see"}]"#),
            Draft::tool_use(Some(&msg), &call, "read_file", "{}"),
        ])?;
        let output = if turn == 1 { "x".repeat(300_000) } else { "small".to_owned() };
        session.append(&[Draft::tool_result(&call, &json::quote(&output))])?;
        acked.sent.push(session.history(&Limits::default())?.history.to_json());
        session.append(&[
            Draft::assistant(Some(&format!("m{turn}b")), r#"[{"type":"text","text":"done"}]"#),
            Draft::turn("done"),
        ])?;
    }
    drop(session);
    let listing = store.list()?;
    store.refresh(&listing)?;
    store.delete(&listing.entries[0])?;
    acked.deleted = true;
    Ok(())
}

/// Runs the script until it ends or fails, as a program does that gives up at the first error.
fn run(medium: &CrashMedium) -> (Acked, Result<(), Error>) {
    let store = store_on(medium.clone());
    let mut acked = Acked::default();
    let outcome = script(&store, &mut acked);
    (acked, outcome)
}

fn check(medium: &CrashMedium, acked: &Acked, what: &str) {
    let store = store_on(medium.clone());
    let listing = store.list().unwrap_or_else(|error| panic!("{what}: list: {error}"));
    let deleted = store.deleted().unwrap_or_else(|error| panic!("{what}: trash: {error}"));
    let found = listing.entries.len() + deleted.len();
    assert!(found == 1 || (found == 0 && !acked.created), "{what}: {found} sessions");
    assert!(listing.entries.iter().all(|entry| entry.row.state == State::Ok), "{what}: {:?}", listing.entries);
    if acked.deleted {
        assert_eq!(deleted.len(), 1, "{what}: a deletion that was reported is undone");
    }
    let Some(entry) = listing.entries.first().or(deleted.first()) else { return };
    if deleted.len() == 1 {
        store.undelete(entry).unwrap_or_else(|error| panic!("{what}: undelete: {error}"));
    }

    // P6: the snapshot changes no answer.
    let with = store.list().unwrap().entries;
    for path in medium.paths().iter().filter(|path| path.ends_with("sessions.json")) {
        medium.remove(Path::new(path)).unwrap();
    }
    assert_eq!(with, store.list().unwrap().entries, "{what}: the list depends on its snapshot");

    // P1 and P2: every acknowledged text is there, in order, and what is not acknowledged damages nothing.
    let entry = &with[0];
    let bytes = store.read(entry).unwrap().read_all().unwrap();
    let texts = user_texts(&bytes);
    assert!(texts.starts_with(&acked.texts), "{what}: acknowledged {:?}, found {texts:?}", acked.texts);

    // P4 and P5: what was sent is how the history begins, before and after going on with the session.
    let before = store.history(entry, &Limits::default()).unwrap();
    assert_accepted(&before.history, what);
    let mut session = store.load(&Key::default(), OnMissing::Fail).unwrap_or_else(|error| panic!("{what}: {error}"));
    session.settle(&Limits::default()).unwrap();
    session.append(&[Draft::user("after the crash")]).unwrap();
    drop(session);
    let bytes = store.read(entry).unwrap().read_all().unwrap();
    let report = scan(&bytes).report;
    assert_eq!(report.damage().next(), None, "{what}: the sealed transcript is whole");
    let after = store.history(entry, &Limits::default()).unwrap();
    assert_eq!(after.report.damage().next(), None, "{what}: {:?}", after.report);
    assert_accepted(&after.history, what);
    let now = after.history.to_json();
    for sent in &acked.sent {
        let open = sent.trim_end_matches([']', '}']);
        let shared = now.bytes().zip(open.bytes()).take_while(|(a, b)| a == b).count();
        assert!(shared == open.len(), "{what}: what was sent goes on with {:.300}", &open[shared..]);
    }
}

fn user_texts(bytes: &[u8]) -> Vec<String> {
    let records = scan(bytes).records;
    let texts = records.iter().filter_map(|record| match &record.body {
        unforget_core::record::Body::User { content } => json::string(content).map(std::borrow::Cow::into_owned),
        _ => None,
    });
    texts.collect()
}

const FAULTS: [FaultKind; 8] = [
    FaultKind::PowerCut,
    FaultKind::Errno(5),
    FaultKind::Errno(28),
    FaultKind::Errno(24),
    FaultKind::TornWrite { keep: Keep::Half },
    FaultKind::TornWrite { keep: Keep::AllButOne },
    FaultKind::TornWrite { keep: Keep::One },
    FaultKind::ShortWrite,
];

#[test]
fn the_script_runs_without_faults() {
    let medium = CrashMedium::new();
    let (acked, outcome) = run(&medium);
    outcome.unwrap();
    assert!(acked.deleted && acked.texts.len() == 3);
    check(&medium.restart(Survival::OnlySynced), &acked, "no fault");
}

#[test]
fn whatever_fails_at_whatever_operation_nothing_acknowledged_is_lost() {
    let mut rounds = 0;
    for kind in FAULTS {
        for at in 1.. {
            let medium = CrashMedium::new();
            medium.inject(Fault { at, kind, sticky: false });
            let (acked, outcome) = run(&medium);
            if medium.operations() < at {
                assert!(at > 50, "the script has fewer operations than it should: {at}");
                outcome.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                break;
            }
            // Where the power stays on, two of the five crash states are enough.
            let survivals = if kind == FaultKind::PowerCut {
                &Survival::ALL[..]
            } else {
                &[Survival::Everything, Survival::OnlySynced]
            };
            for survival in survivals.iter().copied() {
                rounds += 1;
                check(&medium.restart(survival), &acked, &format!("{kind:?} at {at}, {survival:?}"));
            }
        }
    }
    assert!(rounds > 2000, "{rounds}");
}

#[test]
fn a_disk_that_stays_full_loses_nothing_and_can_be_gone_on_with() {
    for capacity in (0..8000).step_by(97) {
        let medium = CrashMedium::new();
        medium.capacity(capacity);
        let (acked, _) = run(&medium);
        medium.capacity(u64::MAX);
        check(&medium.restart(Survival::Everything), &acked, &format!("capacity {capacity}"));
        check(&medium.restart(Survival::OnlySynced), &acked, &format!("capacity {capacity}, power lost"));
    }
}
