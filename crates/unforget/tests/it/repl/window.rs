//! The context window: made smaller by a command, still smaller after a restart, and large again if that was a mistake.

use crate::scene::{Scene, of_type};
use crate::terminal::Terminal;

/// The tokens that `/context` tells.
fn tokens(terminal: &mut Terminal) -> u64 {
    let told = terminal.say("/context");
    assert!(told.contains("  [") && told.contains("%"), "{told}");
    let row = told.lines().find_map(|row| row.trim().strip_prefix("Context usage: ")).unwrap();
    let number = row.split(" / ").next().unwrap().replace([',', '~'], "");
    number.parse().unwrap()
}

fn long_talk(scene: &Scene) -> Terminal {
    let mut terminal = scene.chat();
    for number in 1..=6 {
        assert!(terminal.say(&format!("turn {number} [[long:600]]")).contains("memory"), "{}", terminal.text());
    }
    terminal
}

#[test]
fn compact_frees_room_survives_a_restart_and_can_be_undone() {
    let scene = Scene::online().with("UNFORGET_KEEP_TOKENS", "500");
    let mut terminal = long_talk(&scene);
    let before = tokens(&mut terminal);
    let told = terminal.say("/compact keep the numbers");
    assert!(told.contains("[guard]") && told.contains("->"), "{told}");
    let asked =
        scene.api().messages().into_iter().any(|request| request.json().to_string().contains("keep the numbers"));
    assert!(asked, "the instructions were not sent");
    let after = tokens(&mut terminal);
    assert!(after < before / 2, "{after} of {before}");
    assert_eq!(of_type(&scene.records(), "compaction").len(), 1);
    terminal.begin("/quit");
    terminal.ends();

    let mut again = scene.chat();
    assert_eq!(tokens(&mut again), after);
    again.say("hello");
    assert!(scene.last_request().to_string().contains("SUMMARY:"), "{}", scene.last_request());
    assert!(again.say("/undo-compact").contains("Undone: record "), "{}", again.text());
    // It is an estimate again, and may be a little less.
    let undone = tokens(&mut again);
    assert!(undone > before * 9 / 10, "{undone} after the undo, {before} before, {after} between:\n{}", again.text());
    again.say("hello");
    assert!(!scene.last_request().to_string().contains("SUMMARY:"));
    assert!(scene.last_request().to_string().contains("turn 1 [[long:600]]"));
    assert!(again.say("/undo-compact").contains("error: nothing was compacted here"), "{}", again.text());
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn a_short_conversation_is_not_compacted() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.say("hello");
    assert!(terminal.say("/compact").contains("There is too little to compact"));
    assert!(of_type(&scene.records(), "compaction").is_empty());
}

#[test]
fn pinned_words_are_sent_after_a_compaction() {
    let scene = Scene::online().with("UNFORGET_KEEP_TOKENS", "500");
    let mut terminal = scene.chat();
    terminal.say("the password of the day is quince-marmalade");
    terminal.say("/pin");
    for number in 1..=5 {
        terminal.say(&format!("turn {number} [[long:600]]"));
    }
    terminal.say("/compact");
    terminal.say("hello");
    assert!(scene.last_request().to_string().contains("quince-marmalade"), "{}", scene.last_request());
}
