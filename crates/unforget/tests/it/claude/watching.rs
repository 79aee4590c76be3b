//! Watching: what the real program writes is kept a moment later, and stays when the program throws it away.
//!
//! Whoever watches may be killed at any moment; the next saving has to complete what is there, without a line twice or missing. And the
//! clean-up of Claude Code, which after thirty days removes a session with all that belongs to it, has to be undone by restoring, byte for byte.

use std::fs;

use unforget_testkit::claude::{Running, Signal};
use unforget_testkit::generate::Dice;

use super::{Host, World, assert_same_lines, session, until};

const ROUNDS: usize = 4;

fn watch(host: &Host) -> Running {
    Running::start(&mut host.command(&["claude", "watch"]))
}

#[test]
fn what_is_watched_outlives_the_clean_up() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let watching = watch(&one);
    let id = session(&one, "send MANGO out [[agent:look around [[bash:echo sub-7]]]]");
    until("the store follows", || (one.kept(&id).as_bytes() == one.transcript(&id)).then_some(()));
    one.machine.resume(&id, "a big PAPAYA [[bash:head -c 300000 /dev/zero | tr '\\0' x]]");
    until("the store follows", || (one.kept(&id).as_bytes() == one.transcript(&id)).then_some(()));
    let (transcript, parts) = (one.transcript(&id), one.parts(&id));
    assert_eq!(parts.len(), 3, "a sub-agent, what is known of it, and a large output");
    // As the clean-up does, while it is watched.
    let path = one.machine.transcript(&id).unwrap();
    fs::remove_file(&path).unwrap();
    fs::remove_dir_all(path.with_extension("")).unwrap();
    watching.signal(Signal::TERM);
    let ended = watching.wait();
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.contains("watching ") && ended.stdout.contains(&id), "{ended:?}");
    assert_same_lines(one.kept(&id).as_bytes(), &transcript, "it is not thrown away here");

    let said = one.ok(&["claude", "restore", &id]);
    assert!(said.out.contains("1 transcripts of sub-agents, 2 files"), "{said:?}");
    assert!(one.transcript(&id) == transcript);
    assert!(one.parts(&id) == parts);
    let recalled = one.machine.resume(&id, "[[recall]]");
    assert!(recalled.result.contains("MANGO") && recalled.result.contains("PAPAYA"), "{}", recalled.result);
}

#[test]
fn whoever_watches_may_be_killed() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let id = session(&one, "remember BANANA");
    let mut dice = Dice::new(2026);
    for round in 0..ROUNDS {
        let watching = watch(&one);
        // Somewhere between its start and the moment when all of this turn is kept.
        let lines = one.kept(&id).lines().count() + dice.below(12);
        let turn = one.machine.spawn(&format!("round {round} [[bash:echo hi-{round}]]"), &["--resume", &id]);
        until("some of it is kept", || (one.kept(&id).lines().count() >= lines).then_some(()));
        watching.kill();
        assert!(turn.wait().status.success());
        one.ok(&["claude", "save"]);
        assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), &format!("round {round}"));
    }
}
