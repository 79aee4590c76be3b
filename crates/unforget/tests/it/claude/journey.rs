//! A session that goes from machine to machine and back, through each kind of remote, with a power cut on the way.
//!
//! The other machine has nothing but the address: another home, another directory of Claude Code, another folder to work in. What it must know
//! afterwards is every word of the session, the ones before the power cut included, and what lies beside the transcript: what
//! sub-agents said and the large outputs of tools.

use unforget_testkit::claude::{Claude, Gate, OLDER, Signal};

use super::{CALL, Host, World, kill, until};
use crate::elsewhere::Place;

fn goes_there_and_back(place: &Place) {
    if let Some(world) = World::new() {
        goes_there_and_back_in(&world, place);
    }
}

fn goes_there_and_back_in(world: &World, place: &Place) {
    let (one, two) = (world.host_at("one", place), world.host_at("two", place));
    let remote = ["--remote", place.url.as_str()];
    let first = one.ask(&remote, "remember BANANA [[bash:echo out-$((40+2))]]");
    assert_eq!(first.result, "TOOL-DONE: out-42");
    let id = first.session_id.as_str();
    let resume = ["--remote", place.url.as_str(), "--resume", id];
    one.ask(&resume, "send MANGO out [[agent:look around [[bash:echo sub-7]]]]");
    one.ask(&resume, "a big PAPAYA [[bash:head -c 300000 /dev/zero | tr '\\0' x]]");
    cut_the_power(&one, &world.host_at("observer", place), id, &resume);

    let recalled = two.ask(&resume, "and the CHERRY [[recall]]");
    assert_eq!(recalled.session_id, id);
    for word in ["BANANA", "MANGO", "PAPAYA", "KIWI", "CHERRY"] {
        assert!(recalled.result.contains(word), "{word}: {}", recalled.result);
    }
    let parts = one.parts(id);
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].starts_with("subagents/agent-") && names[0].ends_with(".jsonl"), "{names:?}");
    assert!(names[1].starts_with("subagents/agent-") && names[1].ends_with(".meta.json"), "{names:?}");
    assert!(names[2].starts_with("tool-results/") && parts[2].1.len() >= 300_000, "{names:?}");
    assert!(parts == two.parts(id), "what lies beside the transcript is the same there");
    assert!(two.transcript(id).starts_with(&one.transcript(id)), "it went on from what was there");

    let back = one.ask(&["--remote", &place.url, "--continue"], "[[recall]]");
    assert_eq!(back.session_id, id, "it was the last one of this folder");
    for word in ["BANANA", "KIWI", "CHERRY"] {
        assert!(back.result.contains(word), "{word}: {}", back.result);
    }
    assert_eq!((one.waiting(), two.waiting()), (0, 0));
}

/// Kills everything in the middle of a tool call, as soon as the remote has heard of the call.
fn cut_the_power(one: &Host, observer: &Host, id: &str, resume: &[&str]) {
    let gate = Gate::new();
    let run = one.start(resume, &format!("now the KIWI [[bash:{}]]", gate.command()), &[]);
    let _held = gate.wait();
    until("the call is on the remote", || {
        observer.ok(&["pull", id, "--remote", resume[1]]);
        let kept = observer.kept(id);
        kept.lines().any(|line| line.contains(CALL) && line.contains("/dev/tcp/")).then_some(())
    });
    let writer = one.writer(id);
    run.signal(Signal::KILL);
    kill(writer);
    run.wait();
}

#[test]
fn a_session_goes_there_and_back_by_a_directory() {
    goes_there_and_back(&Place::directory());
}

#[test]
fn a_session_of_the_older_version_goes_there_and_back() {
    if let Some(claude) = Claude::find(OLDER) {
        goes_there_and_back_in(&World::of(claude), &Place::directory());
    }
}

#[test]
fn a_session_goes_there_and_back_by_postgres() {
    goes_there_and_back(&Place::database("claude_journey"));
}

#[test]
fn a_session_goes_there_and_back_by_agentcore() {
    goes_there_and_back(&Place::memory());
}
