//! What restoring may do to Claude Code's directory, and what it must not.
//!
//! The directory is the program's own. A transcript in it that knows more than what is kept is never replaced, nor is one that the program is
//! writing; the refusal says who or what is in the way and changes nothing. What is restored is where the program looks for it, and as it
//! would have it: under the folder it is started in, with times that keep it from being thrown away, and ended by a line feed.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use unforget_testkit::claude::Gate;

use super::{CALL, World, session};

/// What is given to every line that this test adds.
const TAG: &str = "{\"type\":\"tag\",\"tag\":\"a-heron\",\"sessionId\":\"00000000-0000-4000-8000-000000000000\"}\n";

#[test]
fn a_session_is_restored_for_the_folder_that_is_named() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host("one"), world.host("two"));
    let id = session(&one, "remember BANANA [[bash:echo hi]]");
    // The line feed at the end is what an older version would glue its next line to.
    let path = one.machine.transcript(&id).unwrap();
    let text = fs::read(&path).unwrap();
    fs::write(&path, text.strip_suffix(b"\n").unwrap()).unwrap();
    one.ok(&["claude", "save"]);
    let (cwd, config) = (world.path("some where.else"), two.machine.config.to_str().unwrap());
    let there = two.machine.with_cwd(&cwd);
    let said = one.ok(&["claude", "restore", &id, "--cwd", cwd.to_str().unwrap(), "--config-dir", config]);
    assert!(said.err.contains(&format!("claude --resume {id}")) && said.err.contains("some where.else"), "{said:?}");
    assert!(two.transcript(&id) == text, "as it was, with its line feed");
    let recalled = there.resume(&id, "[[recall]]");
    assert!(recalled.result.contains("BANANA"), "{}", recalled.result);
    assert!(there.transcript(&id).unwrap().to_string_lossy().contains("some-where-else"), "where the program looks");
}

#[test]
fn a_transcript_that_knows_more_is_left_alone() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let id = session(&one, "remember BANANA");
    one.ok(&["claude", "save"]);
    let path = one.machine.transcript(&id).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(TAG.as_bytes()).unwrap();
    let before = one.transcript(&id);
    for more in [&[][..], &["--tail"], &["--rewrite-paths"]] {
        let mut args = vec!["claude", "restore", id.as_str()];
        args.extend(more);
        let said = one.run(&args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("has lines that are not kept") && said.err.contains("claude save"), "{said:?}");
        assert!(one.transcript(&id) == before, "nothing was changed");
    }
    // As the hint says.
    one.ok(&["claude", "save"]);
    one.ok(&["claude", "restore", &id]);
    assert!(one.transcript(&id) == before);
}

#[test]
fn a_transcript_that_is_being_written_is_left_alone() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let id = session(&one, "remember BANANA");
    let gate = Gate::new();
    let run = one.machine.spawn(&format!("wait [[bash:{}]]", gate.command()), &["--resume", &id]);
    let held = gate.wait();
    one.machine.wait_for(&id, |lines| lines.contains(CALL));
    one.ok(&["claude", "save"]);
    let before = one.transcript(&id);
    let said = one.run(&["claude", "restore", &id]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains(&format!("process {}", run.pid())) && said.err.contains("--fork"), "{said:?}");
    assert!(one.transcript(&id) == before);
    drop(held);
    assert!(run.wait().status.success());
    // What a process leaves behind that was killed says nothing.
    let gate = Gate::new();
    let run = one.machine.spawn(&format!("wait [[bash:{}]]", gate.command()), &["--resume", &id]);
    let _held = gate.wait();
    run.kill();
    assert_eq!(one.machine.live().len(), 1);
    one.ok(&["claude", "save"]);
    one.ok(&["claude", "restore", &id]);
}

#[test]
fn paths_are_put_right_if_that_is_asked_for() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host("one"), world.host("two"));
    let id = session(&one, "a big one [[bash:head -c 300000 /dev/zero | tr '\\0' x]]");
    one.ok(&["claude", "save"]);
    let (config, cwd) = (two.machine.config.to_str().unwrap(), two.machine.cwd.to_str().unwrap());
    one.ok(&["claude", "restore", &id, "--rewrite-paths", "--cwd", cwd, "--config-dir", config]);
    let text = String::from_utf8(two.transcript(&id)).unwrap();
    for old in [&one.machine.config, &one.machine.cwd] {
        assert!(!text.contains(old.to_str().unwrap()), "{} is still in it", old.display());
    }
    let at = text.find("saved to: ").unwrap() + "saved to: ".len();
    let path = text[at..].split("\\n").next().unwrap();
    assert!(path.starts_with(config), "{path}");
    assert!(fs::read(path).unwrap().len() >= 300_000, "{path}");
    let recalled = two.machine.resume(&id, "[[recall]]");
    assert!(recalled.result.contains("a big one"), "{}", recalled.result);
    // What was put right there is nothing new: both are the same lines.
    let back = two.ok(&["claude", "save"]);
    assert!(back.err.contains("had something new"), "{back:?}");
}

#[test]
fn the_last_one_that_was_used_is_the_last_one_after_restoring() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host("one"), world.host("two"));
    let first = session(&one, "the first PEAR");
    let second = session(&one, "the second PLUM");
    let third = session(&one, "the third QUINCE");
    one.machine.resume(&second, "once more");
    one.ok(&["claude", "save"]);
    let (config, cwd) = (two.machine.config.to_str().unwrap(), two.machine.cwd.to_str().unwrap());
    // In no order that would do by itself.
    one.ok(&["claude", "restore", &second, &third, &first, "--cwd", cwd, "--config-dir", config]);
    let time = |id: &str| two.machine.transcript(id).unwrap().metadata().unwrap().modified().unwrap();
    assert!(time(&first) < time(&third) && time(&third) < time(&second));
    // A file that looks old is thrown away by the program.
    let age = SystemTime::now().duration_since(time(&first)).unwrap_or_default();
    assert!(age < Duration::from_secs(3600), "{age:?}");
    let answer = two.machine.ask("[[recall]]", &["--continue"]);
    assert_eq!(answer.session_id, second);
    assert!(answer.result.contains("PLUM") && answer.result.contains("once more"), "{}", answer.result);
}
