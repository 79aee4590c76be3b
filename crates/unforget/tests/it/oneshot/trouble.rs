//! One prompt that does not come to its answer: how it ends, what is told, and what is saved all the same.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use unforget_testkit::api::Reply;

use crate::scene::{SECRET, Scene, of_type, refusal, said, turns, user_words};

#[test]
fn a_refused_key_is_told_with_a_hint_and_is_never_shown() {
    let wrong = "sk-ant-wrong-but-still-secret";
    let scene = Scene::online().with("ANTHROPIC_API_KEY", wrong);
    for arguments in [["chat", "-p", "hello"].as_slice(), &["chat", "--json", "-p", "hello"]] {
        let said = scene.run(arguments);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("error: ") && said.err.contains("hint: check ANTHROPIC_API_KEY"), "{said:?}");
        assert!(!said.err.contains(wrong) && !said.out.contains(wrong), "{said:?}");
    }
    let log = std::fs::read_to_string(scene.home.transcript(&scene.sessions()[0])).unwrap();
    assert!(!log.contains(wrong) && !log.contains(SECRET));
    assert_eq!(user_words(&scene.records()), ["hello", "hello"]);
    assert_eq!(turns(&scene.records()), ["failed", "failed"]);
}

#[test]
fn an_overloaded_server_is_asked_again_and_stderr_says_so() {
    let scene = Scene::online();
    scene.api().push(refusal(529, "overloaded_error", "Overloaded"));
    let said = scene.run(&["chat", "-p", "hello"]);
    assert_eq!((said.code, said.out.as_str()), (0, "ECHO(1 messages): hello\n"), "{said:?}");
    assert!(said.err.starts_with("retry 1 of 4 in ") && said.err.contains("Overloaded"), "{said:?}");
}

#[test]
fn a_server_that_is_not_there_is_told_soon_and_the_words_are_saved() {
    // Nobody listens at the first port.
    let scene = Scene::online().with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let said = scene.run(&["chat", "-p", "hello"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("ANTHROPIC_BASE_URL") && said.err.contains("your words are saved"), "{said:?}");
    assert_eq!(user_words(&scene.records()), ["hello"]);
}

#[test]
fn a_session_that_is_busy_ends_with_three() {
    let scene = Scene::online();
    scene.api().push(Reply::Stall { text: "slow".to_owned() });
    let first = scene.command(&["chat", "-p", "hello"]).spawn().unwrap();
    scene.api().wait_for_requests(1);
    let second = scene.run(&["chat", "-p", "me too"]);
    assert_eq!((second.code, second.out.as_str()), (3, ""), "{second:?}");
    assert!(second.err.contains(&first.id().to_string()), "the holder is not named: {second:?}");
    scene.api().release();
    let first = said(first.wait_with_output().unwrap());
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(user_words(&scene.records()), ["hello"]);
}

#[test]
fn an_interrupt_keeps_what_came() {
    let scene = Scene::online();
    scene.api().push(Reply::Stall { text: "Once upon a time\n\nthere was ".to_owned() });
    let mut child = scene.command(&["chat", "-p", "a story"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "Once upon a time\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let records = scene.records();
    assert!(of_type(&records, "assistant")[0]["content"].to_string().contains("Once upon a time"), "{records:?}");
    assert_eq!(turns(&records), ["aborted"]);
    assert_eq!(scene.run(&["chat", "-p", "go on"]).out, "ECHO(3 messages): go on\n");
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_turn() {
    let scene = Scene::online();
    // More than a pipe holds, so that the program is still writing when its reader has gone.
    let mut child = scene.command(&["chat", "--max-tokens", "60000", "-p", "[[long:20000]]"]).spawn().unwrap();
    let mut head =
        Command::new("head").arg("-c1").stdin(child.stdout.take().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    assert!(head.wait().unwrap().success());
    let said = said(child.wait_with_output().unwrap());
    assert!(!said.err.contains("panicked"), "{said:?}");
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(turns(&scene.records()), ["done"]);
    let messages = scene.run(&["show", "--messages", &scene.sessions()[0]]);
    assert!(messages.out.len() > 100_000, "{}", messages.out.len());
}
