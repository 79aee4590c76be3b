//! Points with a name: set at any time, and exactly there again.

use crate::scene::{Scene, of_type};
use crate::terminal::TAB;

#[test]
fn what_is_sent_after_a_restore_is_what_was_sent_then() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.say("one");
    let told = terminal.say("/checkpoint before it all");
    assert!(
        told.contains("Set: checkpoint before it all is record") && told.contains("/restore before it all"),
        "{told}"
    );
    terminal.say("two");
    let then = scene.api().messages().last().unwrap().body.clone();
    terminal.say("three");
    terminal.begin("/quit");
    terminal.ends();

    let mut again = scene.chat();
    let told = again.say("/restore before it all");
    assert!(told.contains("behind assistant: ECHO(1 messages): one"), "{told}");
    assert!(told.contains("Nothing is lost: /redo or /switch-branch"), "{told}");
    again.say("two");
    assert_eq!(scene.api().messages().last().unwrap().body, then);
    again.say("/undo");
    assert!(again.say("/redo").contains("ECHO(3 messages): two"));
}

#[test]
fn a_name_that_is_given_again_moves_and_says_so() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    assert!(terminal.say("/checkpoints").contains("No checkpoints yet."));
    terminal.say("my name is Ada");
    terminal.say("/checkpoint here");
    terminal.say("my name is Bob");
    let told = terminal.say("/checkpoint here");
    let to = |at: usize| of_type(&scene.records(), "label")[at]["to"].clone();
    assert!(told.contains(&format!("here is record {} (and no longer record {})", to(1), to(0))), "{told}");
    let listed = terminal.say("/checkpoints");
    assert!(listed.contains(&format!("{}  here", to(1))) && listed.contains("(here)"), "{listed}");
    assert_eq!(listed.lines().count(), 1);
    terminal.say("/rewind 0");
    assert!(terminal.say("/checkpoints").contains("(on another branch)"));
    terminal.say("/restore here");
    assert!(terminal.say("what is my name?").contains("Bob"));
}

#[test]
fn what_is_no_checkpoint_is_not_restored() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.say("/branch side");
    terminal.say("/checkpoint point");
    for (wrong, why) in [
        ("/restore", "which one?"),
        ("/restore nothing", "hint: there are: point"),
        ("/restore side", "hint: /switch-branch side goes there"),
        ("/switch-branch point", "hint: /restore point goes there"),
        ("/checkpoint", "what is it called?"),
        ("/checkpoint 7", "a name must not be a number"),
        ("/checkpoint side", "there is a branch `side` already"),
    ] {
        let told = terminal.say(wrong);
        assert!(told.contains("error: ") && told.contains(why), "{wrong}: {told}");
    }
    assert!(of_type(&scene.records(), "head").is_empty());
    terminal.keys("/restore po");
    terminal.keys(TAB);
    terminal.wait_for_last_row("[main:cli:user] > /restore point");
}
