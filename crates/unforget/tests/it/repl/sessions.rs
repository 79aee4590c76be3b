//! Several conversations: new ones, going back to others, the trash.

use crate::scene::{Scene, user_words};

/// Three conversations: one without a label, `holiday plans` and `work`, which is the current one.
fn three(scene: &Scene) -> crate::terminal::Terminal {
    let mut terminal = scene.chat();
    terminal.say("my name is Ada");
    let told = terminal.say("/new holiday plans");
    assert!(told.contains("New session: ") && told.contains("(holiday plans)"), "{told}");
    terminal.say("my name is Hal");
    terminal.say("/new work");
    terminal.say("my name is Wim");
    terminal
}

#[test]
fn switch_finds_a_session_by_id_label_or_key() {
    let scene = Scene::offline();
    scene.home.ok(&["new", "--key", "main:cli:other"]);
    let other = scene.sessions();
    let mut terminal = three(&scene);
    let sessions = scene.sessions();
    let first = sessions.iter().find(|id| !other.contains(id)).unwrap();

    let told = terminal.say(&format!("/switch {}", &first[..first.len() - 3]));
    assert!(told.contains("Restored: 1 previous turn") && told.contains("Title: my name is Ada"), "{told}");
    assert!(terminal.say("what is my name?").contains("Ada"));
    let told = terminal.say("/switch holi");
    assert!(told.contains("Restored: 1 previous turn"), "{told}");
    assert!(terminal.say("what is my name?").contains("Hal"));
    let told = terminal.say("/switch main:cli:other");
    assert!(told.contains("Session: main:cli:other"), "{told}");
    assert!(terminal.text().ends_with("[main:cli:other] >"));
    // A key leads to its newest session.
    terminal.say("/switch main:cli:user");
    assert!(terminal.say("what is my name?").contains("Wim"));
    assert!(terminal.say("/switch work").contains("That is this session."));
    let told = terminal.say("/switch nowhere");
    assert!(told.contains("error: ") && told.contains("nowhere"), "{told}");
    assert!(terminal.say("/switch").contains("which one?"));
    assert_eq!(user_words(&scene.records_of(first)), ["my name is Ada", "what is my name?"]);
}

#[test]
fn after_new_a_restart_goes_on_in_the_new_session() {
    let scene = Scene::offline();
    let mut terminal = three(&scene);
    terminal.begin("/quit");
    terminal.ends();
    assert!(scene.chat().say("what is my name?").contains("Wim"));
}

#[test]
fn sessions_are_listed_with_the_current_one_marked() {
    let scene = Scene::offline();
    let mut terminal = three(&scene);
    for command in ["/sessions", "/list"] {
        let told = terminal.say(command);
        let rows: Vec<&str> = told.lines().collect();
        assert_eq!(rows.len(), 4, "{told}");
        assert!(rows[1].contains("[work] my name is Wim") && rows[1].ends_with("<- here"), "{told}");
        assert!(!rows[2].contains("here") && !rows[3].contains("here"), "{told}");
    }
}

#[test]
fn a_deleted_session_comes_back_and_the_current_one_cannot_be_deleted() {
    let scene = Scene::offline();
    let mut terminal = three(&scene);
    let refused = terminal.say("/delete work");
    assert!(refused.contains("error: the current session cannot be deleted"), "{refused}");
    let count = scene.sessions().len();

    assert!(terminal.say("/delete holiday").contains("Deleted: "));
    assert_eq!(scene.sessions().len(), count - 1);
    assert!(!terminal.say("/sessions").contains("holiday"));
    let gone = terminal.say("/switch holiday");
    assert!(gone.contains("error: ") && gone.contains("trash"), "{gone}");
    assert!(terminal.say("/undelete").contains("holiday plans"));
    assert!(terminal.say("/undelete holiday").contains("Back again: "));
    assert!(terminal.say("/undelete").contains("The trash is empty."));
    terminal.say("/switch holiday");
    assert!(terminal.say("what is my name?").contains("Hal"));
}

#[test]
fn a_session_of_another_window_cannot_be_switched_to_or_deleted() {
    let scene = Scene::offline();
    let mut first = scene.chat();
    first.say("my name is Ada");
    let mut second = scene.start(&["chat", "--new", "--label", "second"]);
    second.prompt();
    for command in ["/switch my name is", "/delete my name is"] {
        let told = second.say(command);
        assert!(told.contains("error: ") && told.contains("hint: "), "{told}");
    }
    assert!(first.say("what is my name?").contains("Ada"));
}
