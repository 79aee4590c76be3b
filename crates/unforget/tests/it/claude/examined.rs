//! What resuming would lose is told, and a copy in which it is put right goes on in the real program.

use serde_json::Value;
use unforget_testkit::claude::Gate;

use super::{World, kill, session};

fn found(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_branch_that_resuming_would_drop_is_told_and_the_original_is_not_touched() {
    let Some(world) = World::new() else { return };
    let host = world.host("one");
    let id = session(&host, "remember BANANA");
    // Someone goes back to the first answer and on from there: the words in between are on a branch that nobody resumes.
    host.machine.resume(&id, "the PELICAN, left behind");
    let text = String::from_utf8(host.transcript(&id)).unwrap();
    let answer = super::records(&text).into_iter().find(|line| line["type"] == "assistant").unwrap();
    let at = answer["uuid"].as_str().unwrap();
    host.machine.ask("from the beginning", &["--resume", &id, "--resume-session-at", at]);
    host.ok(&["claude", "save"]);
    let before = host.kept(&id);

    let said = host.run(&["claude", "doctor", "--json"]);
    assert_eq!(said.code, 4, "{said:?}");
    let problems = found(&said.out);
    assert_eq!(problems[0]["problem"], "dropped_branch", "{said:?}");
    assert!(problems[0]["message"].as_str().unwrap().contains("PELICAN"), "{said:?}");
    let told = host.run(&["doctor"]).err;
    assert!(told.contains("unforget claude doctor"), "{told}");

    let fixed = host.ok(&["claude", "doctor", &id, "--fix", "--json"]);
    let copy = found(&fixed.out).iter().find_map(|line| line["copy"].as_str().map(str::to_owned)).unwrap();
    assert_eq!(host.kept(&id), before, "the original stays as it is");
    host.ok(&["claude", "doctor", &copy]);
    host.ok(&["claude", "restore", &copy]);
    let recalled = host.machine.resume(&copy, "[[recall]]").result;
    assert!(recalled.contains("BANANA") && recalled.contains("from the beginning"), "{recalled}");
    let branch = found(&fixed.out).iter().find_map(|line| line["branch"].as_str().map(str::to_owned)).unwrap();
    host.ok(&["claude", "restore", &branch]);
    let recalled = host.machine.resume(&branch, "[[recall]]").result;
    assert!(recalled.contains("PELICAN") && !recalled.contains("from the beginning"), "{recalled}");
}

#[test]
fn a_call_that_was_never_answered_is_told_and_answered_in_the_copy() {
    let Some(world) = World::new() else { return };
    let host = world.host("one");
    let gate = Gate::new();
    let id = session(&host, "remember BANANA");
    let running = host.start(&["--resume", &id], &format!("[[bash:{}]]", gate.command()), &[]);
    let held = gate.wait();
    super::until("the call is kept", || host.kept(&id).contains(super::CALL).then_some(()));
    kill(host.writer(&id));
    running.wait();
    drop(held);

    let said = host.run(&["claude", "doctor", &id, "--json"]);
    assert_eq!((said.code, found(&said.out)[0]["problem"].as_str()), (4, Some("orphaned_call")), "{said:?}");
    let fixed = host.ok(&["claude", "doctor", &id, "--fix", "--json"]);
    let copy = found(&fixed.out).iter().find_map(|line| line["copy"].as_str().map(str::to_owned)).unwrap();
    assert!(host.kept(&copy).contains("No result of this call was recorded"), "{}", host.kept(&copy));
    host.ok(&["claude", "doctor", &copy]);
    host.ok(&["claude", "restore", &copy]);
    assert!(host.machine.resume(&copy, "[[recall]]").result.contains("BANANA"));
}
