//! Whatever fails at whatever operation, what a session would send next is what a fresh load would send.

use unforget_core::OnMissing;
use unforget_core::directory::Directory;
use unforget_core::edit::{self, Edit, EditScope, Target};
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Keep, Survival};

use crate::fed::{loaded, rows, seen, told};
use crate::support::{crash_store, store_on};

/// The views that a life is looked at with: the whole file, the end of it, and less than a turn.
const LIMITS: [fn() -> Limits; 3] = [Limits::default, || Limits::tokens(100_000), || Limits::tokens(60)];

/// So many steps are followed behind what went wrong.
const FOLLOWED: usize = 4;

/// What happens to a session, one after the other; no step depends on what the one before it came to.
const LIFE: [fn(&mut Session) -> bool; 19] = [
    |it| {
        append(
            it,
            &[context("one"), Draft::user("question"), Draft::assistant(None, "\"answer\""), Draft::turn("done")],
        )
    },
    |it| append(it, &[Draft::user("question of the second turn"), Draft::turn("done")]),
    |it| {
        let result = Draft::tool_result("toolu_1", "\"both ends\"").text("full", &"all of it ".repeat(2000));
        append(it, &[Draft::tool_use(Some("m1"), "toolu_1", "t", "{}"), result])
    },
    |it| append(it, &[Draft::trim(&[3, 4, 7], 30)]),
    |it| append(it, &[Draft::compaction("SUMMARY", Some(4))]),
    |it| append(it, &[Draft::user("behind it"), Draft::assistant(None, "\"answer\""), Draft::turn("done")]),
    |it| edited(it, Edit::UndoCompaction {}),
    |it| append(it, &[context("two"), Draft::user("question two"), Draft::turn("done")]),
    |it| edited(it, Edit::Undo {}),
    |it| edited(it, Edit::Redo {}),
    |it| edited(it, Edit::Checkpoint { name: "here".parse().unwrap(), at: None }),
    |it| edited(it, Edit::Rewind { to: Target::Step(3) }),
    |it| append(it, &[Draft::user("on another branch"), Draft::tool_use(Some("m2"), "toolu_2", "t", "{}")]),
    |it| append(it, &[Draft::user(&"large ".repeat(45_000))]),
    |it| it.reopen().is_ok(),
    |it| it.settle(&Limits::default()).is_ok(),
    |it| append(it, &[Draft::compaction("SUMMARY", None), Draft::user("last question")]),
    |it| edited(it, Edit::Rewind { to: Target::Start }),
    |it| append(it, &[Draft::user("from the start")]),
];

fn append(session: &mut Session, drafts: &[Draft]) -> bool {
    session.append(drafts).is_ok()
}

fn edited(session: &mut Session, edit: Edit) -> bool {
    edit::apply_one(session, edit, &EditScope::default()).is_ok()
}

fn context(system: &str) -> Draft {
    Draft::new("context").text("system", system).raw("tools", "[]").text("model", "m")
}

fn assert_fed_is_loaded(store: &Directory, session: &Session, limits: &Limits, what: &str) {
    assert_eq!(seen(session, limits), loaded(store, session, limits), "{what}");
    let [fed, file] = rows(session);
    assert_eq!(fed, file, "{what}");
}

#[test]
fn every_step_of_that_life_succeeds_when_nothing_fails() {
    let (_medium, store) = crash_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    for (at, step) in LIFE.iter().enumerate() {
        assert!(step(&mut session), "step {at}");
    }
}

#[test]
fn after_a_fault_at_any_operation_a_fed_view_is_the_loaded_one() {
    let kinds = [FaultKind::Errno(5), FaultKind::TornWrite { keep: Keep::One }, FaultKind::ShortWrite];
    let mut failed = 0;
    for (kind, limits) in kinds.iter().flat_map(|kind| LIMITS.map(|limits| (*kind, limits()))) {
        for at in 1.. {
            let (medium, store) = crash_store();
            let mut session = store.create(&Key::default(), None).unwrap();
            let begin = medium.operations();
            medium.inject(Fault { at: begin + at, kind, sticky: false });
            let mut behind = 0;
            for (turn, step) in LIFE.iter().enumerate() {
                let done = step(&mut session);
                // Looked at between the appends, as a turn does; the look may be what fails.
                let looked = session.history(&limits);
                failed += usize::from(!done) + usize::from(looked.is_err());
                if !done {
                    session.reopen().or_else(|_| session.reopen()).unwrap();
                }
                if medium.operations() < begin + at {
                    continue;
                }
                assert_fed_is_loaded(&store, &session, &limits, &format!("{limits:?}, {kind:?} at {at}, step {turn}"));
                behind += 1;
                if behind == FOLLOWED {
                    break;
                }
            }
            if medium.operations() < begin + at {
                break;
            }
        }
    }
    assert!(failed > 300, "{failed} calls failed");
}

/// How far a life came before the machine stopped.
#[derive(Default)]
struct Reached {
    steps: usize,
    /// Where the transcript ended and what would have been sent, when that was looked at last.
    seen: Option<(unforget_core::session::Position, (String, String))>,
}

fn live_until_it_stops(medium: &CrashMedium, limits: &Limits, reached: &mut Reached) -> Option<()> {
    let mut session = store_on(medium.clone()).create(&Key::default(), None).ok()?;
    for step in LIFE {
        step(&mut session).then_some(())?;
        reached.steps += 1;
        let looked = session.history(limits).ok()?;
        reached.seen = Some((session.position(), told(&looked)));
    }
    None
}

/// A program that was killed leaves everything, one whose machine lost power what was synced, or worse.
#[test]
fn after_a_kill_or_a_power_cut_at_any_operation_what_was_seen_last_is_sent_next() {
    let (mut same, mut gone_on) = (0, 0);
    for limits in LIMITS.map(|limits| limits()) {
        for at in 1.. {
            let medium = CrashMedium::new();
            medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: false });
            let mut reached = Reached::default();
            live_until_it_stops(&medium, &limits, &mut reached);
            if reached.steps == LIFE.len() {
                break;
            }
            for survival in Survival::ALL {
                let what = format!("{limits:?}, {survival:?} at {at}");
                let store = store_on(medium.restart(survival));
                let mut session = store.load(&Key::default(), OnMissing::Create).unwrap();
                if let Some((position, before)) = &reached.seen {
                    assert!(session.position().offset >= position.offset, "{what}: acknowledged lines are gone");
                    if session.position() == *position {
                        assert_eq!(&seen(&session, &limits), before, "{what}");
                        same += 1;
                    }
                }
                for step in LIFE.iter().skip(reached.steps).take(FOLLOWED) {
                    gone_on += usize::from(step(&mut session));
                    assert_fed_is_loaded(&store, &session, &limits, &what);
                }
            }
        }
    }
    assert!(same > 500 && gone_on > 500, "{same} were as before, {gone_on} steps behind a crash");
}

/// More is passed on the way back than is kept of it, so the file is read a second time.
#[test]
fn a_view_behind_megabytes_of_abandoned_lines_is_the_loaded_one_after_a_fault_in_its_reading() {
    let (medium, store) = crash_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    assert!(LIFE[0](&mut session));
    let aside = Draft::user(&"x".repeat(200_000));
    for _ in 0..22 {
        assert!(append(&mut session, std::slice::from_ref(&aside)));
    }
    assert!(edited(&mut session, Edit::Rewind { to: Target::Step(2) }));
    let limits = Limits::tokens(100_000);
    let before = medium.operations();
    let whole = loaded(&store, &session, &limits);
    let operations = medium.operations() - before;
    assert!(operations > 40 && !whole.0.contains("xxx"), "{operations} operations: {}", whole.0);
    let mut failed = 0;
    for at in (1..=operations).step_by(5) {
        session.reopen().unwrap();
        medium.inject(Fault { at: medium.operations() + at, kind: FaultKind::Errno(5), sticky: false });
        failed += usize::from(session.history(&limits).is_err());
        assert_eq!(seen(&session, &limits), whole, "at {at}");
    }
    assert!(failed > 5, "{failed} looks failed");
    for (turn, step) in LIFE.iter().enumerate() {
        step(&mut session);
        assert_fed_is_loaded(&store, &session, &limits, &format!("step {turn}"));
    }
}
