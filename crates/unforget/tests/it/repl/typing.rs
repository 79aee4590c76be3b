//! What keys do: completion, several lines, paste, the history, slashes that are no commands.

use crate::scene::{Scene, user_words};
use crate::terminal::{ENTER, LEFT, TAB, UP};

#[test]
fn tab_completes_a_command() {
    let mut terminal = Scene::offline().chat();
    terminal.keys("/del");
    terminal.keys(TAB);
    // What the command takes stands behind it as a ghost.
    terminal.wait_for("> /delete <session>");
    terminal.keys("nothing-like-it");
    terminal.wait_for_last_row("[main:cli:user] > /delete nothing-like-it");
}

#[test]
fn tab_completes_the_name_of_a_session() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.say("/new holiday plans");
    terminal.say("/new work");
    terminal.keys("/switch holi");
    terminal.keys(TAB);
    terminal.wait_for_last_row("[main:cli:user work] > /switch holiday plans");
    terminal.keys(ENTER);
    terminal.wait_for("Switched to:");
}

#[test]
fn a_backslash_at_the_end_makes_one_message_of_two_lines() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.keys("my name is Ada\\\r");
    terminal.wait_for_last_row("…");
    terminal.keys("and I like tea\r");
    terminal.wait_for("meet you");
    terminal.prompt();
    assert_eq!(user_words(&scene.records()), ["my name is Ada\nand I like tea"]);
}

#[test]
fn an_open_fence_goes_on_until_it_is_closed() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.keys("```sh\rfrobnicate \\\r```\r");
    terminal.wait_for("small built-in model");
    assert_eq!(user_words(&scene.records()), ["```sh\nfrobnicate \\\n```"]);
}

#[test]
fn pasted_lines_are_one_message() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.keys("\u{1b}[200~my name is Ada\rand I like tea\u{1b}[201~");
    terminal.wait_for("and I like tea");
    assert!(user_words(&scene.records()).is_empty());
    terminal.keys(ENTER);
    terminal.wait_for("meet you");
    terminal.prompt();
    assert_eq!(user_words(&scene.records()), ["my name is Ada\nand I like tea"]);
}

#[test]
fn arrows_edit_the_line_and_bring_back_old_ones_after_a_restart() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.keys("my name is da");
    terminal.keys(&LEFT.repeat(2));
    terminal.keys("A\r");
    terminal.wait_for("meet you, Ada");
    terminal.prompt();
    terminal.begin("/quit");
    terminal.ends();
    let mut terminal = scene.chat();
    terminal.keys(&UP.repeat(2));
    terminal.wait_for_last_row("[main:cli:user] > my name is Ada");
    terminal.keys(ENTER);
    terminal.wait_for("meet you");
    assert_eq!(user_words(&scene.records()), ["my name is Ada", "my name is Ada"]);
}

#[test]
fn an_unknown_command_names_the_nearest_and_is_not_sent() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    let told = terminal.say("/swicth somewhere");
    assert!(told.contains("error: unknown command: /swicth"), "{told}");
    assert!(told.contains("did you mean /switch?"), "{told}");
    assert!(scene.api().requests().is_empty());
    assert_eq!(scene.records().len(), 1, "the log holds more than its header: {:?}", scene.records());
}

#[test]
fn two_slashes_say_one_and_a_path_is_no_command() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    assert!(terminal.say("//new is a word").contains("ECHO(1 messages): /new is a word"));
    assert!(terminal.say("/usr/bin is full").contains("/usr/bin is full"));
    assert_eq!(user_words(&scene.records()), ["/new is a word", "/usr/bin is full"]);
}
