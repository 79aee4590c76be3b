//! Saving, by hand and as a hook of the real program.
//!
//! A hook is started by Claude Code with JSON on stdin, at a moment when the program has not written its last lines yet; what matters is that the
//! session is kept then, and that the next saving takes just what is missing. A transcript whose end was replaced, which the program does when it takes a
//! line back, must cost nothing: what was kept stays, and what is new comes behind it.

use std::fs;

use unforget_testkit::claude::Running;

use super::{Host, UNFORGET, World, assert_same_lines, copy, records, session};

#[test]
fn a_hook_keeps_the_session_and_the_next_saving_only_what_is_new() {
    let Some(world) = World::new() else { return };
    let mut one = world.host("one");
    // What a hook's command finds in its environment is what the program was started with.
    one.machine.variables.push(("UNFORGET_HOME".to_owned(), one.store.display().to_string()));
    let hook = format!(r#"[{{"hooks":[{{"type":"command","command":"{UNFORGET} claude save --hook"}}]}}]"#);
    // At a stop the last lines may not be written yet; at the end of the session they are.
    let settings = format!(r#"{{"hooks":{{"Stop":{hook},"SessionEnd":{hook}}}}}"#);
    let hooked = |prompt: &str, more: &[&str]| {
        let mut args = vec!["--settings", settings.as_str()];
        args.extend(more);
        let answer = one.machine.ask(prompt, &args);
        assert!(!answer.is_error, "{}", answer.raw);
        answer.session_id
    };
    let id = hooked("remember BANANA [[bash:echo out-$((40+2))]]", &[]);
    let kept = one.kept(&id);
    assert!(kept.contains("BANANA") && kept.contains("TOOL-DONE: out-42"), "the answer is kept when the program ends");
    assert_same_lines(kept.as_bytes(), &one.transcript(&id), "all of it");
    let again = hooked("and MANGO", &["--resume", &id]);
    assert_eq!(again, id);
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "all of it, again");

    one.machine.resume(&id, "and PEACH, without a hook");
    let said = one.ok(&["claude", "save"]);
    assert!(said.err.contains("1 of 1 session of Claude Code had something new"), "{said:?}");
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "what was missing");
    let said = one.ok(&["claude", "save"]);
    assert!(said.out.is_empty() && said.err.contains("1 session of Claude Code, nothing new"), "{said:?}");
    // Another one is all that is new then.
    let other = session(&one, "remember PEAR");
    let said = one.ok(&["--json", "claude", "save"]);
    let told = records(&said.out);
    let new: Vec<&str> =
        told.iter().filter(|told| told["lines"] != 0).filter_map(|told| told["session"].as_str()).collect();
    assert_eq!(new, [other.as_str()], "{said:?}");
    // A remote that is not there keeps nothing from being kept here.
    one.machine.resume(&other, "and QUINCE");
    let nowhere = format!("file://{}", world.path("not-mounted").display());
    let said = one.ok(&["claude", "save", "--remote", &nowhere]);
    assert!(said.err.contains("there is no directory") && said.err.contains("kept here, not yet at"), "{said:?}");
    assert!(one.waiting() > 0, "it is marked, and sent when the place is there");
    std::fs::create_dir(world.path("not-mounted")).unwrap();
    one.ok(&["push", "--remote", &nowhere]);
    assert_eq!(one.waiting(), 0);
    assert_same_lines(one.kept(&other).as_bytes(), &one.transcript(&other), "it is kept here");
}

#[test]
fn a_hook_that_cannot_do_its_work_says_why_and_one_without_a_transcript_is_content() {
    let Some(world) = World::new() else { return };
    let mut one = world.host("one");
    let hook = |host: &Host, input: &str| {
        let file = world.path("stdin");
        fs::write(&file, input).unwrap();
        let stdin = fs::File::open(file).unwrap();
        crate::scene::said(host.command(&["claude", "save", "--hook"]).stdin(stdin).output().unwrap())
    };
    let said = hook(&one, "");
    assert!(said.code == 1 && said.err.contains("transcript_path"), "{said:?}");
    let nowhere = one.machine.config.join("projects/-x/0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b.jsonl");
    let about = format!(
        "{{\"session_id\":\"0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b\",\"transcript_path\":\"{}\"}}",
        nowhere.display()
    );
    let said = hook(&one, &about);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""), "{said:?}");
    // With the code of a wrong command line a hook keeps the program from stopping.
    one.variables.push(("UNFORGET_REMOTE", "gopher://nobody".to_owned()));
    let said = hook(&one, &about);
    assert!(said.code == 1 && said.err.contains("must be an address"), "{said:?}");
}

#[test]
fn a_transcript_that_was_changed_in_the_middle_is_kept_in_both_ways() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let id = session(&one, "remember BANANA [[bash:echo hi]]");
    one.ok(&["claude", "save"]);
    let before = one.kept(&id);
    // The end is taken back, and another line is in its place.
    let path = one.machine.transcript(&id).unwrap();
    let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
    let last = lines.iter().rposition(|line| line.contains("\"uuid\":")).unwrap();
    let uuid = records(&lines[last])[0]["uuid"].as_str().unwrap().to_owned();
    let other = lines[last].replace(&uuid, "aaaaaaaa-0000-4000-8000-000000000001");
    lines.truncate(last);
    lines.push(other.clone());
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let said = one.ok(&["claude", "save"]);
    assert!(said.out.contains("both are kept"), "{said:?}");
    let after = one.kept(&id);
    assert!(after.starts_with(&before), "what was kept is kept");
    assert_eq!(after.strip_prefix(&before).unwrap(), other + "\n", "and the new line, once");
    let said = one.ok(&["claude", "save"]);
    assert!(said.err.contains("nothing new"), "{said:?}");
    // The real program goes on with what is kept.
    fs::remove_file(&path).unwrap();
    one.ok(&["claude", "restore", &id]);
    let recalled = one.machine.resume(&id, "[[recall]]");
    assert!(recalled.result.contains("BANANA"), "{}", recalled.result);
}

#[test]
fn a_saving_that_was_killed_is_not_repeated_and_many_at_once_are_as_one() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let id = session(&one, "remember BANANA [[bash:echo hi]]");
    one.ok(&["claude", "save"]);
    // The lines were added, and the note that they were was not.
    let notes = one.store.join("copies");
    copy(&notes, &world.path("notes"));
    one.machine.resume(&id, "and MANGO");
    one.ok(&["claude", "save"]);
    copy(&world.path("notes"), &notes);
    let said = one.ok(&["claude", "save"]);
    assert!(said.err.contains("nothing new"), "{said:?}");
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "once");
    // And the same with something new behind them.
    copy(&world.path("notes"), &notes);
    one.machine.resume(&id, "and PEACH");
    one.ok(&["claude", "save"]);
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "once, and what is new");

    one.machine.resume(&id, "and PEAR");
    let all: Vec<_> = (0..6).map(|_| Running::start(&mut one.command(&["claude", "save"]))).collect();
    for saving in all {
        let ended = saving.wait();
        assert!(ended.status.success(), "{ended:?}");
    }
    assert_same_lines(one.kept(&id).as_bytes(), &one.transcript(&id), "many at once");
}
