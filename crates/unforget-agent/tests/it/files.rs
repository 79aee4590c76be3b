//! Files of the workspace: written down before they are changed, and brought back as they were.
//!
//! The turns and the files are real; the model plays a script, and the store is a disk that can crash.

mod crash;
mod property;
mod scene;

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;
use unforget_agent::files::Conflicts;
use unforget_core::files::{Action, MAX_KEPT, Standing};
use unforget_core::record::Draft;

use scene::Work;

#[tokio::test]
async fn what_was_in_a_file_is_written_down_before_it_is_changed() {
    let mut work = Work::new();
    work.write("a.txt", "old");
    work.tool("write_file", json!({"path": "a.txt", "content": "new"})).await;
    let records = work.records();
    let at = |kind: &str| records.iter().position(|record| record["type"] == kind).unwrap();
    assert!(at("tool_use") < at("file") && at("file") + 1 == at("tool_result"), "{records:#?}");
    let file = &records[at("file")];
    assert_eq!((&file["path"], &file["blobs"]), (&json!("a.txt"), &json!(["/before", "/after"])));
    assert_eq!(file["tool_use_id"], records[at("tool_result")]["tool_use_id"]);
    let mut kept = |member: &str| work.session().blobs().get(file[member]["sha256"].as_str().unwrap()).unwrap();
    assert_eq!((kept("before"), kept("after")), (b"\"old\"".to_vec(), b"\"new\"".to_vec()));
}

#[tokio::test]
async fn the_model_sees_nothing_of_what_is_kept() {
    let mut work = Work::new();
    work.write("a.txt", "the old words");
    work.tool("write_file", json!({"path": "a.txt", "content": "short"})).await;
    let sent = work.history().to_json();
    assert!(sent.contains("replaced `a.txt`") && !sent.contains("the old words"), "{sent}");
}

#[tokio::test]
async fn files_come_back_as_they_were_at_each_record() {
    let mut work = Work::new();
    work.write("kept.txt", "one\ntwo\n");
    let mut seen = vec![(work.head(), work.tree())];
    for (tool, input) in [
        ("write_file", json!({"path": "new/deep/a.txt", "content": "first"})),
        ("edit_file", json!({"path": "kept.txt", "old_string": "two", "new_string": "2"})),
        ("write_file", json!({"path": "new/b.txt", "content": ""})),
        ("write_file", json!({"path": "new/deep/a.txt", "content": "second"})),
        ("edit_file", json!({"path": "new/deep/a.txt", "old_string": "second", "new_string": "third"})),
    ] {
        work.tool(tool, input).await;
        seen.push((work.head(), work.tree()));
    }
    // To and fro: a restore is a change like any other.
    for at in [0, 5, 2, 4, 1, 3, 0] {
        let (n, tree) = &seen[at];
        let restored = work.restore(*n, Conflicts::Leave);
        assert_eq!(restored.left, []);
        assert_eq!(work.tree(), *tree, "state {at}");
    }
    assert_eq!(work.folders(), Vec::<String>::new(), "folders that were made went with their files");
}

#[tokio::test]
async fn a_folder_that_was_there_before_stays() {
    let mut work = Work::new();
    std::fs::create_dir(work.path("empty")).unwrap();
    let before = work.head();
    work.tool("write_file", json!({"path": "empty/made/a", "content": "x"})).await;
    work.restore(before, Conflicts::Leave);
    assert_eq!(work.folders(), ["empty"]);
}

#[tokio::test]
async fn a_restore_is_undone_by_a_restore() {
    let mut work = Work::new();
    let before = work.head();
    work.tool("write_file", json!({"path": "a", "content": "mine"})).await;
    let tree = work.tree();
    let undo = work.restore(before, Conflicts::Leave).undo.unwrap();
    assert!(work.tree().is_empty());
    work.restart();
    let redo = work.restore(undo, Conflicts::Leave).undo.unwrap();
    assert_eq!(work.tree(), tree);
    work.restore(redo, Conflicts::Leave);
    assert!(work.tree().is_empty());
}

#[tokio::test]
async fn what_a_person_changed_stays_unless_someone_insists() {
    let mut work = Work::new();
    let before = work.head();
    for name in ["a", "b"] {
        work.tool("write_file", json!({"path": name, "content": "by the tool"})).await;
    }
    work.write("a", "by hand");
    let plan = work.plan(before);
    let standings: Vec<_> = plan.steps.iter().map(|step| (step.action, step.standing.clone())).collect();
    assert_eq!(standings, [(Action::Delete, Standing::Conflict), (Action::Delete, Standing::Clear)]);
    let restored = work.restore(before, Conflicts::Leave);
    assert_eq!(restored.left, [("a".to_owned(), "it was changed by something else".to_owned())]);
    assert_eq!(work.tree(), [("a".to_owned(), "by hand".to_owned())].into());
    let undo = work.restore(before, Conflicts::Overwrite).undo.unwrap();
    assert!(work.tree().is_empty());
    work.restore(undo, Conflicts::Leave);
    assert_eq!(work.tree()["a"], "by hand", "what was overwritten is kept");
}

#[tokio::test]
async fn a_rewind_takes_words_back_and_files_only_when_asked() {
    let mut work = Work::new();
    work.write("a", "one");
    let point = work.head();
    work.tool("write_file", json!({"path": "a", "content": "two"})).await;
    work.restore(point, Conflicts::Leave);
    work.session().append(&[Draft::head(Some(point), "rewind")]).unwrap();
    assert_eq!(work.read("a"), "one");
    assert!(work.history().messages.is_empty(), "the words are gone from the view");
    work.tool("write_file", json!({"path": "a", "content": "three"})).await;
    work.restore(point, Conflicts::Leave);
    assert_eq!(work.read("a"), "one");
}

#[tokio::test]
async fn bytes_that_are_no_text_and_modes_come_back() {
    let mut work = Work::new();
    std::fs::write(work.path("tool.bin"), b"\xff\0old").unwrap();
    std::fs::set_permissions(work.path("tool.bin"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let before = work.head();
    work.tool("edit_file", json!({"path": "tool.bin", "old_string": "old", "new_string": "new"})).await;
    assert_eq!(std::fs::read(work.path("tool.bin")).unwrap(), b"\xff\0new");
    std::fs::remove_file(work.path("tool.bin")).unwrap();
    work.restore(before, Conflicts::Overwrite);
    assert_eq!(std::fs::read(work.path("tool.bin")).unwrap(), b"\xff\0old");
    let mode = std::fs::metadata(work.path("tool.bin")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o750);
}

#[tokio::test]
async fn a_file_that_is_too_large_to_be_kept_is_told_and_left() {
    let mut work = Work::new();
    std::fs::write(work.path("large"), vec![b'x'; MAX_KEPT as usize + 1]).unwrap();
    let before = work.head();
    work.tool("write_file", json!({"path": "large", "content": "small"})).await;
    let record = work.records().into_iter().find(|record| record["type"] == "file").unwrap();
    assert_eq!(record["before"], json!({"not_kept": "too large", "bytes": MAX_KEPT + 1}));
    assert_eq!(record["blobs"], json!(["/after"]));
    let restored = work.restore(before, Conflicts::Overwrite);
    assert!(restored.left[0].1.contains("was not kept"), "{restored:?}");
    assert_eq!(work.read("large"), "small");
}

#[tokio::test]
async fn a_file_has_one_name_whatever_link_leads_to_it() {
    let mut work = Work::new();
    work.write("real/a", "one");
    symlink("real", work.path("link")).unwrap();
    symlink("real/a", work.path("shortcut")).unwrap();
    let before = work.head();
    for (path, content) in [("link/a", "two"), ("shortcut", "three"), ("./real/../real/a", "four")] {
        work.tool("write_file", json!({"path": path, "content": content})).await;
    }
    let plan = work.plan(before);
    assert_eq!(plan.steps.iter().map(|step| step.path.as_str()).collect::<Vec<_>>(), ["real/a"]);
    work.restore(before, Conflicts::Leave);
    assert_eq!(work.read("real/a"), "one");
    assert!(std::fs::symlink_metadata(work.path("shortcut")).unwrap().is_symlink());
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_by_now_is_not_followed() {
    let mut work = Work::new();
    work.write("other/a", "not yours");
    let before = work.head();
    work.tool("write_file", json!({"path": "folder/a", "content": "x"})).await;
    std::fs::remove_dir_all(work.path("folder")).unwrap();
    symlink("other", work.path("folder")).unwrap();
    let restored = work.restore(before, Conflicts::Overwrite);
    assert!(restored.left.iter().any(|(path, why)| path == "folder/a" && why.contains("link")), "{restored:?}");
    assert_eq!(work.read("other/a"), "not yours");
}

#[tokio::test]
async fn records_of_somebody_else_reach_nothing_outside_the_workspace() {
    let mut work = Work::new();
    let outside = work.path("../outside");
    std::fs::write(&outside, "untouched").unwrap();
    let root = work.root();
    for path in ["../outside", outside.to_str().unwrap(), "../store/agents/x", "a/../../outside", "", "a\0b", "/", "."]
    {
        let draft = Draft::new("file").text("path", path).text("root", &root);
        work.session().append(&[draft.text("before", "evil").raw("after", "null")]).unwrap();
    }
    let plan = work.plan(0);
    assert!(plan.steps.iter().all(|step| matches!(step.standing, Standing::Blocked(_))), "{plan:#?}");
    assert_eq!(work.restore(0, Conflicts::Overwrite).done, []);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "untouched");
}

#[tokio::test]
async fn a_change_that_could_not_be_made_is_taken_back_in_the_log() {
    let work = Work::new();
    let call = Work::call("write_file", &json!({"path": "folder/a", "content": "x"}));
    let prepared = work.tools.prepare(&call, &work.abort).await.unwrap().unwrap();
    // Somebody was faster.
    work.write("folder", "a file");
    let made = prepared.make().await;
    assert!(made.output.is_error && made.output.text.starts_with("cannot write `folder/a`"), "{:?}", made.output);
    let correction = made.correction.unwrap();
    let after = correction.members().iter().find(|(name, _)| name == "after").unwrap();
    assert_eq!(after.1, "null");
}
