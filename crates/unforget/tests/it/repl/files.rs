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

#[test]
fn redo_brings_back_the_files_that_an_undo_took() {
    let scene = Scene::offline().with("UNFORGET_ALLOW", "write_file");
    let mut terminal = scene.chat();
    terminal.say("write hello into notes.md");
    terminal.say("write bye into more.md");
    let told = terminal.say("/undo --files --yes");
    assert!(told.contains("deleted  more.md") && told.contains("/redo comes back, with the files."), "{told}");
    assert!(terminal.say("/undo --files --yes").contains("Taken back: write hello"));
    assert!(!scene.work().join("notes.md").exists() && !scene.work().join("more.md").exists());

    terminal.begin("/redo");
    terminal.wait_for("Restore these files? [y]es or [n]o:");
    assert!(terminal.text().contains("created  notes.md"), "{}", terminal.text());
    terminal.keys("n\r");
    assert!(terminal.prompt().contains("goes forward without the files."), "{}", terminal.text());
    assert!(!scene.work().join("notes.md").exists());

    let told = terminal.say("/redo --yes");
    assert!(told.contains("Restored 1 file.") && told.contains("Now at record"), "{told}");
    assert!(terminal.say("/redo --yes").contains("Restored 1 file."));
    assert_eq!((scene.worked("notes.md"), scene.worked("more.md")), ("hello".into(), "bye".into()));
    assert!(terminal.say("/redo").contains("error: there is nothing to go forward to"));

    assert!(terminal.say("/rewind 1 --files --yes").contains("Restored 2 files."));
    assert!(terminal.say("/redo --yes").contains("Restored 2 files."));
    assert_eq!((scene.worked("notes.md"), scene.worked("more.md")), ("hello".into(), "bye".into()));
    // An undo that leaves files alone has a redo that does.
    terminal.say("/undo");
    assert!(!terminal.say("/redo").contains("files"), "{}", terminal.text());
    assert!(terminal.say("/undo it").contains("error: /undo takes nothing but --files"));
}
