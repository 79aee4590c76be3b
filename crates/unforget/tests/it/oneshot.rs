//! `chat -p`: one prompt, one answer, for scripts. What is on which stream, and with which code it ends.

mod events;
mod trouble;

use std::io::Write as _;
use std::process::Stdio;

use crate::scene::{SECRET, Scene, of_type, results, said, user_words};

#[test]
fn the_answer_is_on_stdout_and_nothing_else() {
    let scene = Scene::online();
    let said = scene.run(&["chat", "-p", "hello"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "ECHO(1 messages): hello\n", ""));
    let said = scene.run(&["chat", "-p", "hello again"]);
    assert_eq!((said.code, said.out.as_str()), (0, "ECHO(3 messages): hello again\n"));
    assert_eq!(user_words(&scene.records()), ["hello", "hello again"]);
}

#[test]
fn tools_are_noted_on_stderr() {
    let scene = Scene::online();
    let said = scene.run(&["chat", "--allow", "bash", "-p", "[[bash:echo it works]]"]);
    assert_eq!((said.code, said.out.as_str()), (0, "Running it.\nTOOL-DONE: it works\n[exit code 0]\n"), "{said:?}");
    assert_eq!(said.err, "[tool] bash: echo it works\n");
}

#[test]
fn what_stdin_has_is_added_to_the_prompt() {
    let scene = Scene::online();
    assert_eq!(scene.feed(&["chat", "-p", "what is this?"], "some\nlines\n").code, 0);
    assert_eq!(scene.feed(&["chat", "-p", "-"], "all of it\nfrom stdin\n").code, 0);
    assert_eq!(scene.feed(&["chat", "-p", "just this"], " \n").code, 0);
    let wanted = ["what is this?\n\nsome\nlines\n", "all of it\nfrom stdin\n", "just this"];
    assert_eq!(user_words(&scene.records()), wanted);
}

#[test]
fn an_empty_prompt_is_refused_before_anything_is_made() {
    let scene = Scene::online();
    for (arguments, input) in [(["chat", "-p", " "], ""), (["chat", "-p", "-"], "\n"), (["chat", "-p", ""], "")] {
        let said = scene.feed(&arguments, input);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        assert_eq!(said.err, "error: the prompt is empty\n");
    }
    let said = scene.run(&["chat", "--json"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(scene.sessions().is_empty(), "a session was made for nothing");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let scene = Scene::online();
    let mut child = scene.command(&["chat", "-p", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\xff\xfe").unwrap();
    let said = said(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.err.as_str()), (2, "error: stdin is not UTF-8 text\n"));
}

#[test]
fn a_prompt_that_is_still_being_written_does_not_keep_others_out() {
    let scene = Scene::online();
    let mut waits = scene.command(&["chat", "-p", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = waits.stdin.take().unwrap();
    // More than a pipe holds: once it is written, the program reads.
    input.write_all("word ".repeat(40_000).as_bytes()).unwrap();
    let other = scene.run(&["chat", "-p", "hello"]);
    assert_eq!(other.code, 0, "{other:?}");
    drop(input);
    assert!(waits.wait().unwrap().success());
    assert_eq!(user_words(&scene.records()).len(), 2);
}

#[test]
fn a_session_is_chosen_by_name_and_an_unknown_one_is_an_error() {
    let scene = Scene::online();
    assert_eq!(scene.run(&["chat", "--new", "--label", "first", "-p", "one"]).code, 0);
    assert_eq!(scene.run(&["chat", "--new", "--label", "second", "-p", "two"]).code, 0);
    assert_eq!(scene.run(&["chat", "--session", "first", "-p", "three"]).out, "ECHO(3 messages): three\n");
    assert_eq!(scene.run(&["chat", "--key", "main:cli:other", "-p", "four"]).out, "ECHO(1 messages): four\n");
    let said = scene.run(&["chat", "--session", "nowhere", "-p", "five"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("nowhere") && said.err.contains("hint: `unforget sessions`"), "{said:?}");
    assert_eq!(scene.sessions().len(), 3);
}

#[test]
fn tools_are_denied_unless_they_are_allowed() {
    let scene = Scene::online();
    let denied = scene.run(&["chat", "-p", "[[bash:echo run >> ran]]"]);
    assert_eq!(denied.code, 0, "{denied:?}");
    assert!(denied.out.contains("nobody is there to allow it"), "{denied:?}");
    assert_eq!(scene.worked("ran"), "");
    let other = scene.run(&["chat", "--allow", "write_file", "-p", "[[bash:echo run >> ran]]"]);
    assert!(other.out.contains("nobody is there to allow it"), "{other:?}");
    let allowed = scene.run(&["chat", "--allow", "bash", "-p", "[[bash:echo run >> ran]]"]);
    assert_eq!((allowed.code, scene.worked("ran").as_str()), (0, "run\n"), "{allowed:?}");
    let records = scene.records();
    let states: Vec<&str> = of_type(&records, "approval").iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["denied", "denied", "allowed"]);
    assert_eq!(results(&scene.last_request()).len(), 3);
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let scene = Scene::online();
    scene
        .home
        .write("config/unforget/config.toml", "max_tokens = 1111\nsystem = \"Be brief.\"\nmodel = \"of-the-file\"\n");
    assert_eq!(scene.run(&["chat", "-p", "one"]).code, 0);
    let request = scene.last_request();
    assert_eq!((&request["max_tokens"], &request["model"]), (&1111.into(), &"of-the-file".into()));
    assert!(request["system"].to_string().contains("Be brief."), "{}", request["system"]);

    let scene = scene.with("UNFORGET_MAX_TOKENS", "2222").with("MODEL_ID", "of-the-environment");
    assert_eq!(scene.run(&["chat", "-p", "two"]).code, 0);
    let request = scene.last_request();
    assert_eq!((&request["max_tokens"], &request["model"]), (&2222.into(), &"of-the-environment".into()));

    assert_eq!(scene.run(&["chat", "--max-tokens", "3333", "--model", "of-the-flag", "-p", "three"]).code, 0);
    let request = scene.last_request();
    assert_eq!((&request["max_tokens"], &request["model"]), (&3333.into(), &"of-the-flag".into()));
    assert_eq!(scene.api().messages()[0].header("x-api-key"), Some(SECRET));
}

#[test]
fn the_built_in_model_answers_without_a_key() {
    let scene = Scene::offline();
    assert_eq!(scene.run(&["chat", "-p", "my name is Ada"]).code, 0);
    let said = scene.run(&["chat", "-p", "what is my name?"]);
    assert!(said.out.contains("Ada") && said.err.is_empty(), "{said:?}");
}
