//! `claude run`: the program is the program, and a session has one writer.
//!
//! Whoever runs Claude Code this way must not notice it: its exit code, its words and its options are its own, except for the few that say which
//! session it is. Who wants a session that somebody has is told who has it, here and on another machine, and can go on in a copy meanwhile.

use unforget_testkit::claude::{Gate, Held, Running};

use super::{CALL, Host, World};
use crate::elsewhere::Place;

/// A run that waits in a tool call, with what it waits for.
fn held(host: &Host, ours: &[&str], id: &str) -> (Running, Held) {
    let gate = Gate::new();
    let run = host.start(ours, &format!("wait [[bash:{}]]", gate.command()), &[]);
    let held = gate.wait();
    host.machine.wait_for(id, |lines| lines.contains(CALL));
    (run, held)
}

fn has_one_writer(place: &Place) {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host_at("one", place), world.host_at("two", place));
    let remote = ["--remote", place.url.as_str()];
    let id = one.ask(&remote, "remember BANANA").session_id;
    let resume = ["--remote", place.url.as_str(), "--resume", &id];
    let (run, held) = held(&one, &resume, &id);
    let before = one.transcript(&id);
    for (host, name) in [(&one, "here"), (&two, "there")] {
        let refused = host.through(&resume, "me, too");
        assert_eq!(refused.status.code(), Some(3), "{name}: {refused:?}");
        assert!(refused.stderr.contains("in use by") && refused.stderr.contains(&run.pid().to_string()), "{refused:?}");
        assert!(refused.stderr.contains("--fork") && refused.stdout.is_empty(), "{refused:?}");
    }
    assert!(one.transcript(&id) == before, "nothing was written");
    for (host, name) in [(&two, "there"), (&one, "here")] {
        let fork = ["--remote", place.url.as_str(), "--resume", &id, "--fork"];
        let copy = host.ask(&fork, &format!("a copy {name} [[recall]]"));
        assert_ne!(copy.session_id, id);
        assert!(copy.result.contains("BANANA"), "{}", copy.result);
        assert!(host.kept(&copy.session_id).contains(&format!("a copy {name}")));
        assert!(!host.kept(&id).contains(&format!("a copy {name}")), "{name}: theirs stays theirs");
    }
    drop(held);
    let ended = run.wait();
    assert!(ended.status.success() && ended.answer().is_some_and(|answer| answer.session_id == id), "{ended:?}");
    // It is free again, and has what was said meanwhile.
    let answer = two.ask(&resume, "my turn [[recall]]");
    assert!(answer.result.contains("wait") && !answer.result.contains("a copy"), "{}", answer.result);
}

#[test]
fn a_session_has_one_writer_and_a_copy_has_another_by_a_directory() {
    has_one_writer(&Place::directory());
}

#[test]
fn a_session_has_one_writer_and_a_copy_has_another_by_postgres() {
    has_one_writer(&Place::database("claude_writer"));
}

#[test]
fn a_session_has_one_writer_and_a_copy_has_another_by_agentcore() {
    has_one_writer(&Place::memory());
}

#[test]
fn the_program_is_as_it_would_be_by_itself() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let (claude, home) = (one.machine.claude.program().to_str().unwrap(), world.host("alone"));
    let arguments = ["--no-such-option"];
    let alone = home.machine.command(&arguments).output().unwrap();
    let through = one.run(&["claude", "run", "--", claude, arguments[0]]);
    assert_eq!(Some(through.code), alone.status.code());
    assert_ne!(through.code, 0);
    assert!(through.err.contains("unknown option"), "{through:?}");
    assert_eq!(through.out, String::from_utf8(alone.stdout).unwrap());
    for code in [0, 7] {
        let script = world.path("script");
        // By a child: a file that this process writes may be open for writing in a child of another thread, and then it cannot be run.
        let written = ["-c", "printf '#!/bin/sh\\nexit %s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\""];
        let mut writing = std::process::Command::new("/bin/sh");
        assert!(writing.args(written).arg(&script).arg(code.to_string()).status().unwrap().success());
        let said = one.run(&["claude", "run", "--", script.to_str().unwrap()]);
        assert_eq!(said.code, code, "{said:?}");
    }
    let said = one.run(&["claude", "run", "--", "no-such-program"]);
    assert!(said.code == 1 && said.err.contains("cannot run `no-such-program`"), "{said:?}");
    for option in ["--resume", "-r", "--continue", "-c", "--session-id=x", "--fork-session", "--no-session-persistence"]
    {
        let said = one.run(&["claude", "run", "--", claude, "-p", "hello", option]);
        assert_eq!(said.code, 2, "{option}: {said:?}");
        assert!(said.err.contains("is for unforget to say") && said.err.contains("before the two hyphens"), "{said:?}");
    }
    let said = one.run(&["claude", "run", "--fork", "--", claude, "-p", "hello"]);
    assert!(said.code == 2 && said.err.contains("nothing to fork"), "{said:?}");
    let nobody = "0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b";
    let said = one.run(&["claude", "run", "--resume", nobody, "--", claude, "-p", "hello"]);
    assert!(said.code == 1 && said.err.contains("is not here"), "{said:?}");
    assert!(world.api.messages().is_empty(), "nobody was asked anything");
}

#[test]
fn which_session_it_is_can_be_left_to_the_folder() {
    let Some(world) = World::new() else { return };
    let place = Place::directory();
    let one = world.host_at("one", &place);
    let remote = ["--remote", place.url.as_str()];
    let none = one.through(&["--remote", &place.url, "--continue"], "the first PEAR");
    assert!(none.stderr.contains("no session of this folder yet"), "{none:?}");
    let first = none.answer().unwrap().session_id;
    let second = one.ask(&["--new", "--remote", &place.url], "the second PLUM").session_id;
    let third = one.ask(&remote, "the third QUINCE").session_id;
    assert!(first != second && second != third && first != third);
    one.ask(&["--remote", &place.url, "--resume", &second], "once more");
    let answer = one.ask(&["--remote", &place.url, "--continue"], "[[recall]]");
    assert_eq!(answer.session_id, second);
    // On another machine with the same folder, the remote knows.
    let two = world.host_at("two", &place);
    let two = Host { machine: two.machine.with_cwd(&one.machine.cwd), ..two };
    let answer = two.ask(&["--remote", &place.url, "--continue"], "[[recall]]");
    assert_eq!(answer.session_id, second);
    assert!(answer.result.contains("PLUM") && answer.result.contains("once more"), "{}", answer.result);
}
