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

#[test]
fn h5_a_bad_id_of_a_call_is_told_and_the_copy_goes_on_in_the_real_program() {
    let Some(world) = World::new() else { return };
    let host = world.host("one");
    for (word, is_answered) in [("PELICAN", true), ("HERON", false)] {
        let id = session(&host, &format!("remember {word} [[bash:echo ahoy]]"));
        let path = host.machine.transcript(&id).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let call = super::records(&text).into_iter().find_map(|line| {
            line["message"]["content"].as_array()?.iter().find_map(|block| block["id"].as_str().map(str::to_owned))
        });
        let damaged = text.replace(&call.unwrap(), "toolu.bad:1");
        // Without its result the copy has to answer the call.
        let end = damaged.lines().position(|line| line.contains(super::CALL)).unwrap() + 1;
        let count = if is_answered { usize::MAX } else { end };
        let damaged: String = damaged.lines().take(count).map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, damaged).unwrap();
        host.ok(&["claude", "save", &id]);
        let said = host.run(&["claude", "doctor", &id, "--json"]);
        let expected = if is_answered { "not_sendable" } else { "orphaned_call" };
        assert_eq!((said.code, found(&said.out)[0]["problem"].as_str()), (4, Some(expected)), "{said:?}");
        let fixed = host.ok(&["claude", "doctor", &id, "--fix", "--json"]);
        let copy = found(&fixed.out).iter().find_map(|line| line["copy"].as_str().map(str::to_owned)).unwrap();
        assert!(!host.kept(&copy).contains("\"id\":\"toolu.bad:1\""), "{}", host.kept(&copy));
        host.ok(&["claude", "doctor", &copy]);
        host.ok(&["claude", "restore", &copy]);
        // The server is as strict as the API; what it refuses fails this test at its end.
        let answer = host.machine.resume(&copy, "[[recall]]");
        assert!(!answer.is_error && answer.result.contains(word), "{answer:?}");
    }
}

#[test]
fn h5_a_prompt_that_was_changed_in_place_is_told_and_goes_on_in_its_later_form() {
    let Some(world) = World::new() else { return };
    let host = world.host("one");
    let id = session(&host, "remember BANANA");
    host.machine.resume(&id, "and the PELICAN");
    host.ok(&["claude", "save"]);
    let path = host.machine.transcript(&id).unwrap();
    let changed = |line: &str| match line.contains("\"type\":\"user\"") {
        true => line.replace("BANANA", "CHERRY"),
        false => line.to_owned(),
    };
    let text = std::fs::read_to_string(&path).unwrap();
    let other: String = text.lines().map(|line| format!("{}\n", changed(line))).collect();
    assert!(other != text && other.len() == text.len());
    std::fs::write(&path, other).unwrap();
    let told = host.run(&["claude", "doctor", &id]);
    assert!(told.out.contains("was changed in Claude Code's file"), "{told:?}");
    let saved = host.ok(&["claude", "save", &id, "--json"]);
    assert!(saved.err.contains("both forms are kept"), "{saved:?}");
    assert_eq!(found(&saved.out)[0]["rewritten"][0]["both_kept"], true, "{saved:?}");
    assert!(host.kept(&id).starts_with(&text), "what was kept stays");
    std::fs::remove_file(&path).unwrap();
    host.ok(&["claude", "restore", &id]);
    let recalled = host.machine.resume(&id, "[[recall]]").result;
    assert!(recalled.contains("CHERRY") && recalled.contains("PELICAN") && !recalled.contains("BANANA"), "{recalled}");
}
