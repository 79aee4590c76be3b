//! Tools: asked about, run once, stopped, and never run again after a crash.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use unforget_testkit::api::Reply;

use crate::scene::{Scene, of_type, results, runs, turns};
use crate::terminal::{CTRL_C, CTRL_D};

/// The states of the approvals, with who gave them.
fn approvals(scene: &Scene) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    of_type(&scene.records(), "approval").iter().map(|record| (text(&record["state"]), text(&record["by"]))).collect()
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(state, by)| ((*state).to_owned(), (*by).to_owned())).collect()
}

#[test]
fn a_tool_runs_after_yes_and_not_after_no() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo run >> ran; echo it works]]");
    let question = terminal.question();
    assert!(question.contains("bash wants to run:"), "{question}");
    assert!(question.contains("command: echo run >> ran; echo it works"), "{question}");
    assert_eq!(scene.worked("ran"), "", "it ran before it was allowed");
    assert_eq!(approvals(&scene), pairs(&[("pending", "-")]));
    terminal.answer("y\r");
    let told = terminal.prompt();
    assert!(told.contains("[tool] bash: echo run >> ran") && told.contains("TOOL-DONE: it works"), "{told}");
    assert_eq!(scene.worked("ran"), "run\n");

    terminal.begin("[[bash:echo run >> ran]]");
    terminal.answer("n\r");
    let told = terminal.prompt();
    assert!(told.contains("TOOL-DONE: [not run: the user did not allow it]"), "{told}");
    assert_eq!(scene.worked("ran"), "run\n");
    let wanted = [("pending", "-"), ("allowed", "person"), ("pending", "-"), ("denied", "person")];
    assert_eq!(approvals(&scene), pairs(&wanted));
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn words_instead_of_an_answer_are_the_reason_for_a_no() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo run >> ran]]");
    // Neither nothing nor a letter that means nothing is an answer.
    terminal.answer("\r");
    terminal.answer("x\r");
    terminal.answer("Use make instead\r");
    let told = terminal.prompt();
    assert!(told.contains("[not run: the user said: Use make instead]"), "{told}");
    assert_eq!(scene.worked("ran"), "");
}

#[test]
fn always_asks_once_for_each_tool_and_until_the_end() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo one >> ran]]");
    terminal.answer("a\r");
    terminal.prompt();
    assert!(terminal.say("[[bash:echo two >> ran]]").contains("TOOL-DONE"), "{}", terminal.text());
    assert_eq!(scene.worked("ran"), "one\ntwo\n");
    assert!(terminal.say("/tools").contains("bash               allowed"));
    assert_eq!(approvals(&scene), pairs(&[("pending", "-"), ("allowed", "person"), ("allowed", "always")]));
    terminal.begin("[[write:file|text]]");
    terminal.answer("always\r");
    terminal.prompt();
    assert_eq!(scene.worked("file"), "text");
    terminal.begin("/quit");
    terminal.ends();

    let mut again = scene.chat();
    again.begin("[[bash:echo three >> ran]]");
    again.question();
    assert_eq!(scene.worked("ran"), "one\ntwo\n");
}

#[test]
fn several_calls_of_one_answer_are_asked_about_one_by_one() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[parallel:echo one >> ran||echo two >> ran||echo three >> ran]]");
    assert!(terminal.question().contains("command: echo one"));
    terminal.answer("y\r");
    assert!(terminal.question().contains("command: echo two"));
    terminal.answer("n\r");
    assert!(terminal.question().contains("command: echo three"));
    terminal.answer("y\r");
    terminal.prompt();
    assert_eq!(scene.worked("ran"), "one\nthree\n");
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn ctrl_c_at_the_question_aborts_the_turn_and_ctrl_d_denies() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[parallel:echo one >> ran||echo two >> ran]]");
    terminal.answer(CTRL_C);
    assert!(terminal.prompt().contains("[aborted"), "{}", terminal.text());
    assert_eq!(turns(&scene.records()), ["running", "aborted"]);
    assert!(terminal.say("go on").contains("go on"), "{}", terminal.text());

    terminal.begin("[[bash:echo three >> ran]]");
    terminal.answer(CTRL_D);
    assert!(terminal.prompt().contains("TOOL-DONE: [not run: the user did not allow it]"), "{}", terminal.text());
    assert_eq!(scene.worked("ran"), "");
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn ctrl_c_ends_a_running_tool_and_the_chat_goes_on() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash");
    let bell = scene.bell("bell");
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo $$ > bell; exec sleep 60]]");
    let process = bell.rung();
    assert!(runs(&process));
    terminal.keys(CTRL_C);
    assert!(terminal.prompt().contains("[aborted"), "{}", terminal.text());
    assert!(!runs(&process), "the command still runs");
    assert_eq!(turns(&scene.records()), ["running", "aborted"]);
    assert_eq!(of_type(&scene.records(), "tool_result").len(), 1);
    assert!(terminal.say("go on").contains("go on"), "{}", terminal.text());
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn a_question_that_was_open_at_a_crash_is_asked_again() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo run >> ran]]");
    terminal.question();
    terminal.kill();
    assert_eq!(scene.worked("ran"), "");

    let mut again = scene.start(&[]);
    let question = again.question();
    assert!(question.contains("A tool call waits for your answer since last time."), "{question}");
    assert!(question.contains("command: echo run >> ran"), "{question}");
    again.answer("y\r");
    assert!(again.prompt().contains("TOOL-DONE"), "{}", again.text());
    assert_eq!(scene.worked("ran"), "run\n");
    again.begin("/quit");
    again.ends();
    assert!(scene.chat().say("go on").contains("go on"));
    assert_eq!(scene.worked("ran"), "run\n");
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn a_signal_at_the_question_ends_the_program_and_leaves_the_question_open() {
    let scene = Scene::online();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = scene.start(&["chat", "--new"]);
        terminal.begin("[[bash:echo run >> ran]]");
        terminal.question();
        terminal.signal(signal);
        assert_eq!(terminal.ends(), 128 + u32::try_from(signal.as_raw()).unwrap());
        let mut again = scene.start(&[]);
        assert!(again.question().contains("A tool call waits"), "{}", again.text());
    }
    assert_eq!(scene.worked("ran"), "");
}

#[test]
fn a_tool_that_was_running_at_a_crash_is_not_run_again() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash");
    let bell = scene.bell("bell");
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo run >> ran; echo $$ > bell; exec sleep 60]]");
    let process = bell.rung();
    terminal.kill();
    let process = Pid::from_raw(process.trim().parse().unwrap()).unwrap();
    kill_process(process, Signal::KILL).unwrap();

    let mut again = scene.chat();
    again.say("what happened?");
    let results = results(&scene.last_request());
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0].contains("outcome is unknown") || results[0].contains("outcome unknown"), "{results:?}");
    assert_eq!(scene.worked("ran"), "run\n");
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn tools_that_only_look_do_not_ask() {
    let scene = Scene::online();
    std::fs::write(scene.work().join("note"), "tea at five").unwrap();
    let mut terminal = scene.chat();
    assert!(terminal.say("[[read:note]]").contains("tea at five"), "{}", terminal.text());
    let told = terminal.say("/tools");
    for (name, how) in [("read_file", ""), ("bash", "asks first"), ("write_file", "asks first")] {
        let row = told.lines().find(|row| row.trim_start().starts_with(name)).unwrap();
        assert_eq!(row.trim().strip_prefix(name).unwrap().trim(), how, "{told}");
    }
}

#[test]
fn the_key_is_kept_from_commands() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash");
    let mut terminal = scene.chat();
    terminal.say("[[bash:env > environment]]");
    let environment = scene.worked("environment");
    assert!(environment.contains("PATH=") && !environment.contains(crate::scene::SECRET), "{environment}");
    assert_eq!(of_type(&scene.records(), "approval")[0]["by"], json!("setting"));
}

#[test]
fn b10_a_call_that_was_aborted_counts_in_the_usage() {
    let scene = Scene::online();
    scene.api().push(Reply::Stall { text: "half an answer".to_owned() });
    let mut terminal = scene.chat();
    terminal.begin("hello");
    terminal.wait_for("half an");
    terminal.keys(CTRL_C);
    terminal.prompt();
    let records = scene.records();
    let aborted = of_type(&records, "turn").into_iter().find(|turn| turn["state"] == "aborted").unwrap();
    // A model counts what it puts into its cache apart.
    let counts = ["input_tokens", "cache_creation_input_tokens"].map(|name| aborted["usage"][name].as_u64());
    let sent = counts.into_iter().flatten().max().unwrap_or_default();
    assert!(sent > 0, "{aborted}");
    let told: Value = serde_json::from_str(scene.run(&["usage", "--json"]).out.lines().next().unwrap()).unwrap();
    assert!(told.to_string().contains(&format!(":{sent}")), "{told}");
}
