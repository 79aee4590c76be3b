//! `files` and `restore-files`: the list, the preview, the restore and its undo, as a script has them.

use serde_json::{Value, json};

use crate::scene::{Scene, of_type};
use crate::support::Said;

/// A session in which the built-in model wrote one file and edited another.
fn worked() -> Scene {
    let scene = Scene::offline();
    std::fs::write(scene.work().join("list.txt"), "milk\neggs\n").unwrap();
    for words in ["write hello into notes/x.md", "replace eggs with bread in list.txt"] {
        let said = scene.run(&["chat", "--allow", "write_file,edit_file", "-p", words]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
    assert_eq!((scene.worked("notes/x.md"), scene.worked("list.txt")), ("hello".into(), "milk\nbread\n".into()));
    scene
}

fn objects(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn restore(scene: &Scene, more: &[&str]) -> Said {
    scene.run(&[&["restore-files", "main:cli:user"], more].concat())
}

#[test]
fn changed_files_are_listed_up_to_and_since_a_record() {
    let scene = worked();
    let said = scene.run(&["files", "main:cli:user"]);
    let rows: Vec<&str> = said.out.lines().collect();
    assert!(rows[0].starts_with("  in ") && rows[0].ends_with("/work:"), "{}", said.out);
    assert!(rows[1].starts_with("  changed   list.txt ") && rows[1].contains(" +1 -1 "), "{}", said.out);
    assert!(rows[2].starts_with("  created   notes/x.md ") && rows[2].contains(" +1 "), "{}", said.out);
    assert!(rows[3].contains("Changes by commands (bash) are not recorded"), "{}", said.out);
    let records = scene.records();
    let first = of_type(&records, "file")[0]["n"].to_string();
    let paths = |said: Said| objects(&said).iter().map(|row| row["path"].clone()).collect::<Vec<_>>();
    assert_eq!(paths(scene.run(&["files", "main:cli:user", "--json", "--at", &first])), ["notes/x.md"]);
    assert_eq!(paths(scene.run(&["files", "main:cli:user", "--json", "--since", &first])), ["list.txt"]);
    let row = &objects(&scene.run(&["files", "main:cli:user", "--json", "--at", &first]))[0];
    assert_eq!((&row["what"], &row["added"], &row["changes"]), (&json!("created"), &json!(1), &json!(1)));
}

#[test]
fn a_preview_changes_nothing_and_a_restore_has_an_undo() {
    let scene = worked();
    let count = scene.records().len();
    let said = restore(&scene, &["--at", "1", "--dry-run", "--diff"]);
    for wanted in ["  deleted  notes/x.md", "  changed  list.txt", "    -bread\n", "    +eggs\n", "are not recorded"] {
        assert!(said.out.contains(wanted), "{wanted}: {}", said.out);
    }
    assert_eq!((scene.records().len(), scene.worked("notes/x.md")), (count, "hello".into()));
    // Nobody is there to be asked.
    let said = restore(&scene, &["--at", "1"]);
    assert_eq!((said.code, scene.records().len()), (2, count), "{}", said.err);
    assert!(said.err.contains("--yes"), "{}", said.err);

    let said = restore(&scene, &["--at", "1", "--yes"]);
    assert!(said.code == 0 && said.out.contains("Restored 2 files."), "{} {}", said.out, said.err);
    assert_eq!((scene.worked("list.txt"), scene.work().join("notes").exists()), ("milk\neggs\n".into(), false));
    let undo = said.out.split(" --at ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    let said = restore(&scene, &["--at", &undo, "--yes", "--json"]);
    let done: Vec<Value> = objects(&said).iter().map(|row| row["restored"].clone()).collect();
    assert_eq!(done, [true, true], "{}", said.out);
    assert_eq!((scene.worked("notes/x.md"), scene.worked("list.txt")), ("hello".into(), "milk\nbread\n".into()));
    let said = scene.run(&["doctor"]);
    assert_eq!(said.code, 0, "{}", said.out);
}

#[test]
fn what_something_else_changed_stays_without_force() {
    let scene = worked();
    std::fs::write(scene.work().join("list.txt"), "by hand\n").unwrap();
    let said = restore(&scene, &["--at", "1", "--yes"]);
    assert_eq!((said.code, scene.worked("list.txt")), (1, "by hand\n".into()), "{}", said.out);
    assert!(said.out.contains("stays    list.txt") && said.out.contains("changed by something else"), "{}", said.out);
    assert!(said.err.contains("--force"), "{}", said.err);
    let said = restore(&scene, &["--at", "1", "--yes", "--force"]);
    assert_eq!((said.code, scene.worked("list.txt")), (0, "milk\neggs\n".into()), "{}", said.err);
}

#[test]
fn files_of_another_folder_are_restored_only_where_someone_says() {
    let scene = worked();
    let other = scene.home.path("other");
    std::fs::create_dir(&other).unwrap();
    let mut command = scene.command(&["restore-files", "main:cli:user", "--at", "1", "--yes"]);
    let said = crate::scene::said(command.current_dir(&other).output().unwrap());
    assert!(said.code == 2 && said.err.contains("--workspace DIR"), "{}", said.err);
    let last = scene.records().len() - 1;
    let there = other.to_str().unwrap();
    let said = restore(&scene, &["--at", &last.to_string(), "--workspace", there, "--yes", "--force"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    assert_eq!(std::fs::read_to_string(other.join("notes/x.md")).unwrap(), "hello");
    assert!(restore(&scene, &["--at", "1", "--workspace", there, "--yes"]).code == 0);
    assert_eq!(std::fs::read_to_string(other.join("list.txt")).unwrap(), "milk\neggs\n");
    assert_eq!(scene.worked("list.txt"), "milk\nbread\n", "the first folder was left alone");
}

#[test]
fn a_checkpoint_is_as_good_as_a_number_and_a_wrong_name_is_told() {
    let scene = worked();
    let id = scene.sessions().remove(0);
    let label = scene.feed(&["append", &id], "{\"type\":\"label\",\"to\":1,\"name\":\"start\"}\n");
    assert_eq!(label.code, 0, "{}", label.err);
    assert!(restore(&scene, &["--at", "start", "--yes"]).code == 0);
    assert_eq!(scene.worked("list.txt"), "milk\neggs\n");
    for wrong in ["never", "99999"] {
        let said = restore(&scene, &["--at", wrong, "--yes"]);
        assert!(said.code == 2 && said.err.contains(wrong), "{}", said.err);
    }
}
