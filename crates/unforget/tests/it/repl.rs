//! The chat as a person has it: typed into a terminal, read from a screen, ended in every way there is.

mod branches;
mod checkpoints;
mod commands;
mod files;
mod screen;
mod sessions;
mod stream;
mod tools;
mod typing;
mod window;

use rustix::process::Signal;
use serde_json::json;

use crate::scene::{Scene, turns, user_words};
use crate::terminal::{CTRL_C, CTRL_D};

#[test]
fn a_restart_restores_the_conversation() {
    let scene = Scene::offline();
    let mut first = scene.chat();
    assert!(!first.text().contains("Restored"), "{}", first.text());
    assert!(first.say("my name is Ada").contains("Nice to meet you, Ada."));
    first.begin("/quit");
    assert_eq!(first.ends(), 0);

    let mut second = scene.chat();
    assert!(second.text().contains("  Restored: 1 previous turn (last just now)\n"), "{}", second.text());
    let answer = second.say("what is my name?");
    assert!(answer.contains("Your name is Ada."), "{answer}");
    assert_eq!(user_words(&scene.records()), ["my name is Ada", "what is my name?"]);
}

#[test]
fn ctrl_d_and_the_words_quit_and_exit_leave() {
    let scene = Scene::offline();
    for leave in [CTRL_D, "quit\r", "EXIT\r", "/exit\r"] {
        let mut terminal = scene.chat();
        terminal.keys(leave);
        assert_eq!(terminal.ends(), 0, "{leave:?}");
        assert!(terminal.text().ends_with("Bye. `unforget` goes on where you stopped."), "{}", terminal.text());
    }
    assert!(user_words(&scene.records()).is_empty());
}

#[test]
fn ctrl_c_at_the_prompt_does_not_leave_and_drops_the_line() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.keys("half a thou");
    terminal.wait_for("half a thou");
    terminal.keys(CTRL_C);
    terminal.wait_for("(Ctrl-D or /quit leaves; everything is saved)");
    assert!(terminal.say("my name is Ada").contains("Ada"));
    assert_eq!(user_words(&scene.records()), ["my name is Ada"]);
}

#[test]
fn a_signal_to_end_ends_at_the_prompt_too() {
    let scene = Scene::offline();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = scene.chat();
        terminal.say("my name is Ada");
        terminal.signal(signal);
        assert_eq!(terminal.ends(), 128 + u32::try_from(signal.as_raw()).unwrap());
    }
}

#[test]
fn a_pipe_is_a_conversation_without_questions() {
    let scene = Scene::offline();
    let said = scene.feed(&[], "my name is Ada\nwhat is my name?\nrun `touch made`\n/quit\nnot this\n");
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(said.out.contains("Your name is Ada."), "{}", said.out);
    assert!(!said.out.contains("Allow?") && !said.out.contains('\u{1b}'), "{}", said.out);
    let records = scene.records();
    assert_eq!(user_words(&records), ["my name is Ada", "what is my name?", "run `touch made`"]);
    assert!(!scene.work().join("made").exists());
    let denial = records.iter().find(|record| record["type"] == "approval").unwrap();
    assert_eq!((&denial["state"], &denial["by"]), (&json!("denied"), &json!("setting")));
    assert_eq!(turns(&records).last(), Some(&"done"));
}

#[test]
fn the_end_of_a_pipe_is_the_end_of_the_chat() {
    let scene = Scene::offline();
    assert_eq!(scene.feed(&[], "my name is Ada").code, 0);
    assert_eq!(user_words(&scene.records()), ["my name is Ada"]);
}

#[test]
fn a_second_window_is_refused_and_told_who_has_the_session() {
    let scene = Scene::offline();
    let mut first = scene.chat();
    let mut second = scene.start(&[]);
    assert_eq!(second.ends(), 3);
    let told = second.text();
    assert!(told.contains("error:") && told.contains("hint: `unforget chat --new`"), "{told}");
    let process = first.process().to_string();
    assert!(told.contains(&process), "the holder {process} is not named: {told}");
    // The first window has not noticed anything.
    assert!(first.say("my name is Ada").contains("Ada"));
    let mut third = scene.start(&["chat", "--new"]);
    third.prompt();
    assert!(third.say("my name is Bob").contains("Bob"));
}
