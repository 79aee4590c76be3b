//! Commands about the conversation itself: its history, title, pins, model, and the clipboard.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::scene::{Scene, of_type};

#[test]
fn history_shows_what_was_said_and_can_be_short() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    assert!(terminal.say("/history").contains("(nothing was said yet)"));
    terminal.say("first words");
    terminal.say("second words");
    let all = terminal.say("/history");
    assert!(all.contains(" you ") && all.contains("     first words") && all.contains("     second words"), "{all}");
    let short = terminal.say("/history 2");
    assert!(!short.contains("first words") && short.contains("     second words"), "{short}");
    assert!(short.contains("earlier records: /history 4"), "{short}");
    assert!(terminal.say("/history all").contains("first words"));
    assert!(terminal.say("/history many").contains("error: /history takes a number"));
}

#[test]
fn a_title_is_shown_set_and_found_again() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    assert!(terminal.say("/title").contains("Title: (none)"));
    terminal.say("my name is Ada");
    assert!(terminal.say("/title").contains("Title: my name is Ada"));
    assert!(terminal.say("/title Meeting Ada").contains("Title: Meeting Ada"));
    terminal.begin("/quit");
    terminal.ends();
    let mut again = scene.chat();
    assert!(again.text().contains("  Title: Meeting Ada\n"), "{}", again.text());
    again.say("/new");
    assert!(again.say("/switch Meeting").contains("Restored: 1 previous turn"));
}

#[test]
fn pins_are_made_listed_and_let_go() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    assert!(terminal.say("/pin").contains("error: nothing was said yet"));
    terminal.say("my name is Ada");
    let told = terminal.say("/pin");
    assert!(told.contains("Pinned record") && told.contains("my name is Ada"), "{told}");
    assert!(terminal.say("/pin list").contains("my name is Ada"));
    let records = scene.records();
    let pin = of_type(&records, "pin");
    assert_eq!(pin.len(), 1);
    let number = &pin[0]["to"];
    assert!(terminal.say(&format!("/pin off {number}")).contains("is pinned no longer"));
    assert!(terminal.say("/pin list").contains("Nothing is pinned."));
    assert!(terminal.say("/pin 999").contains("error: there is no record 999 in what the model sees"));
}

#[test]
fn the_model_is_shown_and_changed() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    assert!(terminal.say("/model").contains("Model: claude-sonnet-4-5 (window 200,000 tokens)"));
    assert!(terminal.say("/model claude-haiku-4-5").contains("Model: claude-haiku-4-5"));
    terminal.say("hello");
    assert_eq!(scene.last_request()["model"], "claude-haiku-4-5");
    terminal.say("/model offline");
    assert!(terminal.say("my name is Ada").contains("Nice to meet you"));
    assert_eq!(scene.api().messages().len(), 1);
}

#[test]
fn without_a_key_there_is_no_other_model() {
    let mut terminal = Scene::offline().chat();
    let told = terminal.say("/model claude-haiku-4-5");
    assert!(told.contains("error: there is no key") && told.contains("hint: set ANTHROPIC_API_KEY"), "{told}");
    assert!(terminal.say("/model").contains("Model: offline"));
}

#[test]
fn copy_hands_the_last_answer_to_the_terminal() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    assert!(terminal.say("/copy").contains("There is no answer yet."));
    terminal.say("ünïcode and **stars**");
    assert!(terminal.say("/copy").contains("Copied "));
    let encoded = STANDARD.encode("ECHO(1 messages): ünïcode and **stars**");
    let wanted = format!("\u{1b}]52;c;{encoded}\u{7}").into_bytes();
    assert!(terminal.bytes().windows(wanted.len()).any(|window| window == wanted));
}

#[test]
fn help_lists_every_command_that_is_understood() {
    let mut terminal = Scene::offline().chat();
    let help = terminal.say("/help");
    for name in ["new", "sessions", "switch", "history", "context", "compact", "undo-compact", "pin", "retry", "copy"] {
        assert!(help.contains(&format!("/{name} ")), "{name} is not in the help:\n{help}");
    }
    for name in ["undo", "redo", "rewind", "branch", "switch-branch", "tree", "fork", "checkpoint", "restore"] {
        assert!(help.contains(&format!("/{name} ")), "{name} is not in the help:\n{help}");
    }
    for name in ["title", "model", "delete", "undelete", "tools", "quit", "help"] {
        assert!(help.contains(&format!("/{name} ")), "{name} is not in the help:\n{help}");
    }
}
