//! Pulls, forks and rebases that are killed at every step, on a disk that forgets what was not synced.

use unforget_core::scan::scan;
use unforget_core::stamp::SessionId;
use unforget_remote::Error;
use unforget_remote::memory::Memory;
use unforget_remote::sync::{pull, push, resolve_by_fork, resolve_by_rebase};
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Scope, Survival};

use crate::machine::{Machine, NOW, linked, there, unwatched};

/// The most steps that anything here takes.
const STEPS: u64 = 500;

/// How both sides are brought together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Fork,
    Rebase,
}

/// A machine whose session went on here and there, and the place where it did.
async fn diverged(place: &Memory) -> (Machine, SessionId) {
    let (first, second) = (Machine::on(1, CrashMedium::counting(Scope::Writes), 0), Machine::new(2));
    let remote = place.remote();
    let id = first.begin(&["both"]);
    linked!(first, &remote, &id, |link| push(&link, &mut unwatched()).await).unwrap();
    linked!(second, &remote, &id, |link| pull(&link, &mut unwatched()).await).unwrap();
    for word in ["theirs 1", "theirs 2"] {
        second.say(&id, word).unwrap();
    }
    linked!(second, &remote, &id, |link| push(&link, &mut unwatched()).await).unwrap();
    first.say(&id, "ours 1").unwrap();
    first.say(&id, "ours 2").unwrap();
    (first, id)
}

async fn resolved(machine: &Machine, place: &Memory, id: &SessionId, way: Way) -> Result<(), Error> {
    let remote = place.remote();
    linked!(machine, &remote, id, |link| match way {
        Way::Fork => resolve_by_fork(&link, &machine.outbox, NOW, &mut unwatched()).await.map(drop),
        Way::Rebase => resolve_by_rebase(&link, &machine.outbox, NOW, &mut unwatched()).await.map(drop),
    })
}

/// Everything that the sessions of a machine say, the trash left out.
fn said(machine: &Machine) -> String {
    let paths = machine.medium.paths();
    let sessions = paths.iter().filter(|path| path.starts_with("agents/") && path.ends_with(".jsonl"));
    sessions.map(|path| String::from_utf8(machine.medium.read(path).unwrap()).unwrap()).collect()
}

async fn killed_at_every_step(way: Way) {
    let mut finished = false;
    for step in 1..STEPS {
        let place = Memory::default();
        let (machine, id) = diverged(&place).await;
        let theirs = there(&place.remote(), &id).await;
        let at = machine.medium.operations() + step;
        machine.medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: false });
        let first = resolved(&machine, &place, &id, way).await;
        for survival in Survival::ALL {
            // What is sent below is not there for the next one.
            let other = Memory::default();
            other.objects().extend(place.objects().clone());
            let place = other;
            let machine = Machine::on(1, machine.medium.restart(survival), 1_000_000);
            let words = said(&machine);
            assert!(words.contains("ours 1") && words.contains("ours 2"), "{way:?} {step} {survival:?}: {words}");
            resolved(&machine, &place, &id, way).await.unwrap();
            let words = said(&machine);
            for word in ["both", "theirs 1", "theirs 2", "ours 1", "ours 2"] {
                assert!(words.contains(word), "{word} after {way:?} {step} {survival:?}");
            }
            let now = machine.text(&id);
            assert!(now.starts_with(&theirs), "{way:?} {step} {survival:?}");
            assert_eq!(now.contains("ours"), way == Way::Rebase);
            assert_eq!(words.matches("ours 2").count(), 1, "{way:?} {step} {survival:?}");
            assert_eq!(scan(now.as_bytes()).report.damage_count(), 0);
            let old = machine.store.deleted().unwrap();
            assert_eq!(old.len(), 1, "the old transcript can be brought back: {way:?} {step} {survival:?}");
            for waiting in machine.outbox.list().unwrap() {
                let remote = place.remote();
                linked!(machine, &remote, &waiting.id, |link| push(&link, &mut unwatched()).await).unwrap();
            }
        }
        if first.is_ok() {
            finished = true;
            break;
        }
    }
    assert!(finished, "more steps than were tried");
}

#[tokio::test]
async fn a_fork_that_is_killed_anywhere_keeps_both_sides() {
    killed_at_every_step(Way::Fork).await;
}

#[tokio::test]
async fn a_rebase_that_is_killed_anywhere_keeps_both_sides() {
    killed_at_every_step(Way::Rebase).await;
}

#[tokio::test]
async fn a_pull_that_is_killed_anywhere_is_gone_on_with() {
    let place = Memory::default();
    let remote = place.remote();
    let source = Machine::new(1);
    let id = source.begin(&["one", &"large ".repeat(60_000)]);
    linked!(source, &remote, &id, |link| push(&link, &mut unwatched()).await).unwrap();
    let middle = source.text(&id);
    source.say(&id, "two").unwrap();
    linked!(source, &remote, &id, |link| push(&link, &mut unwatched()).await).unwrap();
    for begun in ["", middle.as_str()] {
        let mut finished = false;
        for step in 1..STEPS {
            let machine = Machine::on(2, CrashMedium::counting(Scope::Writes), 0);
            if !begun.is_empty() {
                machine.medium.write_file(machine.path(&id), begun.as_bytes()).unwrap();
            }
            let at = machine.medium.operations() + step;
            machine.medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: false });
            let first = linked!(machine, &remote, &id, |link| pull(&link, &mut unwatched()).await);
            for survival in Survival::ALL {
                let machine = Machine::on(2, machine.medium.restart(survival), 0);
                let left = machine.text(&id);
                let is_whole = left.is_empty() || left == source.text(&id);
                let is_fine = if begun.is_empty() { is_whole } else { left.starts_with(begun) };
                assert!(is_fine, "whole or not at all, and never shorter: {step} {survival:?}");
                linked!(machine, &remote, &id, |link| pull(&link, &mut unwatched()).await).unwrap();
                assert_eq!(machine.text(&id), source.text(&id), "{step} {survival:?}");
            }
            if first.is_ok() {
                finished = true;
                break;
            }
        }
        assert!(finished, "more steps than were tried");
    }
}
