//! How a run ends when something is wrong: the remote is away, or the system wants it to end.
//!
//! What was said is kept on this machine in any case, and the exit code is the program's own. What the remote does not have yet is marked, told, and sent
//! by the next `push`. On SIGTERM everything is over in fifteen seconds, and what was said up to then is on the remote.

use unforget_testkit::claude::{Gate, Signal};
use unforget_testkit::servers::postgres::{Kind, Server};

use super::{CALL, World, assert_same_lines, until};
use crate::elsewhere::Place;
use crate::scene::runs;

#[test]
fn words_are_kept_while_the_remote_is_away_and_sent_later() {
    let Some(world) = World::new() else { return };
    let server = Server::start(Kind::Usual);
    let url = server.url("claude_away");
    let (one, two) = (world.host("one"), world.host("two"));
    let id = one.ask(&["--remote", &url], "remember BANANA").session_id;
    let gate = Gate::new();
    let run =
        one.start(&["--remote", &url, "--resume", &id], &format!("and the KIWI [[bash:{}]]", gate.command()), &[]);
    let held = gate.wait();
    server.kill();
    drop(held);
    // The program has ended, and what is left cannot be sent; someone does not want to wait for that.
    until("the program ends", || one.machine.live().is_empty().then_some(()));
    until("the run ends", || {
        run.signal(Signal::INT);
        (!runs(&run.pid().to_string())).then_some(())
    });
    let ended = run.wait();
    assert!(ended.status.success() && ended.answer().is_some_and(|answer| !answer.is_error), "{ended:?}");
    assert!(ended.stderr.contains("not yet") && ended.stderr.contains("unforget push"), "{ended:?}");
    assert!(!ended.stderr.contains("and at"), "nobody may believe that it is there: {ended:?}");
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "all of it is kept here");
    assert_eq!(one.waiting(), 1);

    server.revive();
    // Meanwhile it goes on elsewhere, without the answer to those words.
    let meanwhile = two.ask(&["--remote", &url, "--resume", &id], "the HERON, meanwhile [[recall]]");
    assert!(meanwhile.result.contains("BANANA") && !two.kept(&id).contains("TOOL-DONE"), "{}", meanwhile.result);
    one.ok(&["push", "--remote", &url]);
    assert_eq!(one.waiting(), 0);
    two.ok(&["pull", &id, "--remote", &url]);
    for host in [&one, &two] {
        let kept = host.kept(&id);
        assert!(
            ["BANANA", "KIWI", "TOOL-DONE", "HERON"].iter().all(|word| kept.contains(word)),
            "{}",
            host.store.display()
        );
    }
    let third = world.host("three").ask(&["--remote", &url, "--resume", &id], "[[recall]]");
    assert!(third.result.contains("BANANA"), "{}", third.result);
}

fn ends_in_time(place: &Place) {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host_at("one", place), world.host_at("two", place));
    let gate = Gate::new();
    let run = one.start(&["--remote", &place.url], &format!("the KIWI waits [[bash:{}]]", gate.command()), &[]);
    let _held = gate.wait();
    run.signal(Signal::TERM);
    let ended = run.wait();
    assert_eq!(ended.status.code(), Some(143), "{ended:?}");
    assert_eq!(one.waiting(), 0, "{ended:?}");
    let id = ended.stderr.split_whitespace().find(|word| word.len() == 36 && word.matches('-').count() == 4);
    let id = id.unwrap_or_else(|| panic!("the session is told: {ended:?}"));
    two.ok(&["pull", id, "--remote", &place.url]);
    let there = two.kept(id);
    assert!(there.contains("the KIWI waits") && there.contains(CALL), "{there}");
    assert_eq!(there.as_bytes(), one.transcript(id), "all that the program wrote");
    // The lease is given back: nobody has to wait for it to end.
    let recalled = two.ask(&["--remote", &place.url, "--resume", id], "[[recall]]");
    assert!(recalled.result.contains("the KIWI waits"), "{}", recalled.result);
}

#[test]
fn on_sigterm_everything_is_there_in_time_by_a_directory() {
    ends_in_time(&Place::directory());
}

#[test]
fn on_sigterm_everything_is_there_in_time_by_postgres() {
    ends_in_time(&Place::database("claude_sigterm"));
}

#[test]
fn on_sigterm_everything_is_there_in_time_by_agentcore() {
    ends_in_time(&Place::memory());
}

#[test]
fn the_program_goes_on_when_whoever_keeps_it_is_killed() {
    let Some(world) = World::new() else { return };
    let place = Place::directory();
    let one = world.host_at("one", &place);
    let id = one.ask(&["--remote", &place.url], "remember BANANA").session_id;
    let resume = ["--remote", place.url.as_str(), "--resume", &id];
    let gate = Gate::new();
    let run = one.start(&resume, &format!("the KIWI waits [[bash:{}]]", gate.command()), &[]);
    let held = gate.wait();
    one.machine.wait_for(&id, |lines| lines.contains(CALL));
    let program = one.writer(&id);
    run.signal(Signal::KILL);
    // Nobody holds a lock or a lease any more, and still it is being written.
    until("the lock is free", || {
        let refused = one.through(&resume, "me, too");
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        refused.stderr.contains(&format!("process {program}")).then_some(())
    });
    drop(held);
    let ended = run.wait();
    assert!(ended.answer().is_some_and(|answer| answer.result.starts_with("TOOL-DONE")), "{ended:?}");
    until("the program ends", || one.machine.live().is_empty().then_some(()));
    let recalled = one.ask(&resume, "[[recall]]");
    assert!(recalled.result.contains("BANANA") && recalled.result.contains("the KIWI waits"), "{}", recalled.result);
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "what nobody kept is kept now");
    // On a busy machine a run may end before its last lines are there; then it leaves them to the next `push`.
    until("everything is there", || {
        one.ok(&["push", "--remote", &place.url]);
        (one.waiting() == 0).then_some(())
    });
}
