//! Files in the chat: listed, previewed, restored after a yes, and restored again.

use crate::scene::Scene;

#[test]
fn files_are_listed_and_restored_after_a_yes() {
    let scene = Scene::offline().with("UNFORGET_ALLOW", "write_file");
    let mut terminal = scene.chat();
    assert!(terminal.say("/files").contains("No file was changed"));
    terminal.say("write hello into notes.md");
    let told = terminal.say("/files");
    assert!(told.contains("created   notes.md") && told.contains("+1"), "{told}");

    terminal.begin("/files restore 0 --diff");
    terminal.wait_for("Restore these files? [y]es or [n]o:");
    assert!(terminal.text().contains("-hello"), "{}", terminal.text());
    terminal.keys("n\r");
    assert!(terminal.prompt().contains("Nothing was changed."), "{}", terminal.text());
    assert_eq!(scene.worked("notes.md"), "hello");

    let told = terminal.say("/files restore 0 --yes");
    assert!(told.contains("Restored 1 file."), "{told}");
    assert!(!scene.work().join("notes.md").exists());
    let undo = told.split("/files restore ").last().unwrap().split(' ').next().unwrap().to_owned();
    assert!(terminal.say(&format!("/files restore {undo} --yes")).contains("Restored 1 file."));
    assert_eq!(scene.worked("notes.md"), "hello");
    assert!(terminal.say("/files restore 999").contains("error: there is no record or checkpoint"));
    assert!(terminal.say("/files --all").contains("error: there is no `--all` here"));
    assert!(terminal.say("what is my name?").contains("name"), "the conversation goes on");
}
