//! Reading, writing, editing and listing.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use super::Scene;

#[tokio::test]
async fn a_file_is_read_with_its_range_of_lines() {
    let scene = Scene::new();
    scene.write("notes.txt", "one\ntwo\nthree\n");
    assert_eq!(scene.ok("read_file", json!({"path": "notes.txt"})).await, "one\ntwo\nthree\n[lines 1-3 of 3]");
    assert_eq!(scene.ok("read_file", json!({"file_path": "./notes.txt"})).await, "one\ntwo\nthree\n[lines 1-3 of 3]");
    let page = scene.ok("read_file", json!({"path": "notes.txt", "limit": 2})).await;
    assert_eq!(page, "one\ntwo\n[lines 1-2; the file of 14 bytes goes on: read on with offset 3]");
    let page = scene.ok("read_file", json!({"path": "notes.txt", "offset": 3, "limit": 2})).await;
    assert_eq!(page, "three\n[line 3 of 3]");
    let text = scene.failed("read_file", json!({"path": "notes.txt", "offset": 4})).await;
    assert_eq!(text, "`notes.txt` has 3 lines; `offset` must not be larger than that");
}

#[tokio::test]
async fn what_a_text_has_beside_lines_is_told() {
    let scene = Scene::new();
    scene.write("empty", "");
    scene.write("crlf", "a\r\nb");
    scene.write("latin", b"Gr\xfc\xdfe\n");
    assert_eq!(scene.ok("read_file", json!({"path": "empty"})).await, "[the file is empty]");
    let text = scene.ok("read_file", json!({"path": "crlf"})).await;
    assert_eq!(text, "a\r\nb\n[lines 1-2 of 2; lines end with CRLF; no line feed at the end]");
    let text = scene.ok("read_file", json!({"path": "latin"})).await;
    assert_eq!(text, "Gr\u{fffd}\u{fffd}e\n[line 1 of 1; bytes that are not UTF-8 are shown as \u{fffd}]");
}

#[tokio::test]
async fn pages_of_a_large_file_follow_each_other() {
    let scene = Scene::new();
    let whole: String = (1..=60_000).map(|n| format!("line {n}\n")).collect();
    scene.write("large", &whole);
    let (mut offset, mut text, mut pages) = (1, String::new(), 0);
    for _ in 0..10 {
        let page = scene.ok("read_file", json!({"path": "large", "offset": offset})).await;
        assert!(page.len() < 257 * 1024);
        let (lines, note) = page.rsplit_once('[').unwrap();
        text.push_str(lines);
        pages += 1;
        let Some((_, next)) = note.split_once("read on with offset ") else { break };
        offset = next.trim_end_matches(']').parse().unwrap();
    }
    assert!(text == whole, "{} of {} bytes in {pages} pages", text.len(), whole.len());
    assert_eq!(pages, 3);
}

#[tokio::test]
async fn what_cannot_be_read_is_explained() {
    let scene = Scene::new();
    scene.write("folder/image", b"\x89PNG\r\n\x1a\n\0\0");
    let text = scene.failed("read_file", json!({"path": "folder/image"})).await;
    assert!(text.starts_with("`folder/image` is a PNG image (10 bytes), not text"), "{text}");
    let text = scene.failed("read_file", json!({"path": "missing"})).await;
    assert!(text.starts_with("cannot read `missing`: there is no such file or folder; list_directory"), "{text}");
    for folder in ["folder", "folder/", ".", ".."] {
        let text = scene.failed("read_file", json!({"path": folder})).await;
        assert!(text.contains("it is a folder"), "{folder}: {text}");
    }
    let text = scene.failed("read_file", json!({"path": "folder/image/x"})).await;
    assert!(text.contains("is not a folder"), "{text}");
    scene.failed("read_file", json!({"path": "nul\0byte"})).await;
}

#[tokio::test]
async fn a_file_is_written_with_the_folders_on_the_way() {
    let scene = Scene::new();
    let text = scene.ok("write_file", json!({"path": "new/deep/file.txt", "content": "größer"})).await;
    assert_eq!(text, "created `new/deep/file.txt` (8 bytes)");
    assert_eq!(scene.read("new/deep/file.txt"), "größer");
    let text = scene.ok("write_file", json!({"file_path": "new/deep/file.txt", "content": ""})).await;
    assert_eq!(text, "replaced `new/deep/file.txt` (0 bytes)");
    assert_eq!(scene.names("new/deep"), ["file.txt"]);
    assert!(scene.failed("write_file", json!({"path": "new/deep", "content": ""})).await.contains("folder"));
    assert!(scene.failed("write_file", json!({"path": "new/x/", "content": ""})).await.contains("folder"));
    scene.failed("write_file", json!({"path": "absent/../../x", "content": ""})).await;
    assert_eq!(scene.names("."), ["new", "store"]);
}

#[tokio::test]
async fn a_replaced_file_keeps_its_mode_and_is_a_new_one() {
    let scene = Scene::new();
    scene.write("script", "old");
    std::fs::hard_link(scene.path("script"), scene.path("other")).unwrap();
    std::fs::set_permissions(scene.path("script"), std::fs::Permissions::from_mode(0o751)).unwrap();
    scene.ok("write_file", json!({"path": "script", "content": "new"})).await;
    assert_eq!(std::fs::metadata(scene.path("script")).unwrap().permissions().mode() & 0o7777, 0o751);
    // Written in place, the other name would show the new content, and a crash could leave half of it.
    assert_eq!((scene.read("script"), scene.read("other")), ("new".to_owned(), "old".to_owned()));
    scene.ok("edit_file", json!({"path": "script", "old_string": "new", "new_string": "edited"})).await;
    assert_eq!(std::fs::metadata(scene.path("script")).unwrap().permissions().mode() & 0o7777, 0o751);
}

#[tokio::test]
async fn a_link_that_stays_inside_is_written_through() {
    let scene = Scene::new();
    scene.write("folder/file", "old");
    symlink("folder/file", scene.path("link")).unwrap();
    symlink("folder/new", scene.path("dangling")).unwrap();
    scene.ok("write_file", json!({"path": "link", "content": "new"})).await;
    assert_eq!(scene.read("folder/file"), "new");
    assert!(scene.path("link").is_symlink());
    scene.ok("write_file", json!({"path": "dangling", "content": "made"})).await;
    assert_eq!(scene.read("folder/new"), "made");
    scene.ok("edit_file", json!({"path": "link", "old_string": "new", "new_string": "edited"})).await;
    assert_eq!(scene.ok("read_file", json!({"path": "link"})).await, "edited\n[line 1 of 1; no line feed at the end]");
}

#[tokio::test]
async fn a_text_is_replaced_exactly() {
    let scene = Scene::new();
    scene.write("file", "one\ntwo\ntwo\r\nthree\n");
    let text = scene.ok("edit_file", json!({"path": "file", "old_string": "three", "new_string": "3"})).await;
    assert_eq!(text, "edited `file` at line 4 (15 bytes)");
    let edit = json!({"path": "file", "old_string": "two", "new_string": "2"});
    assert!(scene.failed("edit_file", edit).await.contains("occurs 2 times"));
    let edit = json!({"path": "file", "old_string": "two", "new_string": "2", "replace_all": true});
    assert_eq!(scene.ok("edit_file", edit).await, "edited `file` in 2 places (11 bytes)");
    assert_eq!(scene.read("file"), "one\n2\n2\r\n3\n");
    let edit = json!({"path": "missing", "old_string": "two", "new_string": "2"});
    assert!(scene.failed("edit_file", edit).await.starts_with("cannot edit `missing`: there is no such file"));
    assert_eq!(scene.names("."), ["file", "store"]);
}

#[tokio::test]
async fn a_folder_is_listed_by_name_without_the_store() {
    let scene = Scene::new();
    scene.write("b.txt", "12345");
    scene.write(".hidden/x", "");
    scene.write("two\nlines", "");
    symlink("b.txt", scene.path("link")).unwrap();
    let expected = "[dir]  .hidden/\n[file] b.txt  (5 bytes)\n[link] link -> b.txt\n[file] two\\nlines  (0 bytes)";
    assert_eq!(scene.ok("list_directory", json!({})).await, expected);
    assert_eq!(scene.ok("list_directory", json!({"directory": scene.root()})).await, expected);
    std::fs::create_dir(scene.path("empty")).unwrap();
    assert_eq!(scene.ok("list_directory", json!({"path": "empty/"})).await, "(empty directory)");
    assert!(scene.failed("list_directory", json!({"path": "b.txt"})).await.contains("is not a folder"));
    assert!(scene.failed("list_directory", json!({"path": "missing"})).await.contains("no such file or folder"));
}

#[tokio::test]
async fn a_list_of_many_names_says_how_many_are_missing() {
    let scene = Scene::new();
    for n in 0..2003 {
        scene.write(&format!("many/{n:04}"), "");
    }
    let text = scene.ok("list_directory", json!({"path": "many"})).await;
    assert!(text.starts_with("[file] 0000  (0 bytes)\n"), "{text}");
    assert!(text.contains("[file] 1999  (0 bytes)\n[3 more names are not shown;"), "{text}");
}

#[tokio::test]
async fn nothing_is_written_after_an_abort() {
    let scene = Scene::new();
    let abort = tokio_util::sync::CancellationToken::new();
    abort.cancel();
    for (tool, input) in [
        ("write_file", json!({"path": "file", "content": "x"})),
        ("bash", json!({"command": "touch file"})),
        ("read_file", json!({"path": "file"})),
    ] {
        let output = scene.run_until(tool, input, &abort).await;
        assert!(output.is_error && output.text.starts_with("[aborted by the user"), "{}", output.text);
    }
    assert_eq!(scene.names("."), ["store"]);
}
