//! Bad input: what, where, what to do, and an exit code that is not 0.

use std::io::Write as _;

use crate::support::Home;

#[test]
fn a_bad_record_is_named_by_its_line_and_what_came_before_it_is_saved() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &[]);
    for (line, why) in [
        ("not json", "not JSON"),
        ("[1]", "must be a JSON object"),
        ("{\"content\":\"x\"}", "needs a `type`"),
        ("{\"type\":\"user\"}", "`content` is missing"),
        ("{\"type\":\"user\",\"content\":5}", "must be a string or content blocks"),
        ("{\"type\":\"tool_use\",\"tool_use_id\":\"a\",\"name\":\"b\",\"input\":\"{\"}", "must be an object"),
        ("{\"type\":\"user\",\"content\":\"x\",\"n\":7}", "`n` is set by the writer"),
        ("{\"type\":\"user\",\"content\":\"x\",\"crc\":\"00000000\"}", "`crc` is set by the writer"),
        ("{\"type\":\"user\",\"content\":\"x\",\"blobs\":[\"/content\"]}", "`blobs` is set by the writer"),
        ("{\"type\":\"turn\"}", "`state` must be a string"),
        ("{\"type\":\"session\",\"key\":\"x\"}", "is the header, which the writer sets"),
        ("{\"type\":\"compaction\",\"summary\":\" \"}", "`summary` must be a string with words in it"),
    ] {
        let before = std::fs::read(home.transcript(&id)).unwrap();
        let said = home.feed(&["append", &id], &format!("{{\"type\":\"user\",\"content\":\"good\"}}\n{line}\n"));
        assert_eq!(said.code, 1, "{line}: {said:?}");
        assert!(said.err.contains("stdin, line 2") && said.err.contains(why), "{line}: {said:?}");
        let after = std::fs::read(home.transcript(&id)).unwrap();
        assert!(after.starts_with(&before) && after.len() > before.len(), "{line}: the good line is saved");
        assert_eq!(home.run(&["doctor"]).code, 0, "{line}");
    }
}

#[test]
fn damage_is_told_with_file_and_byte_and_does_not_hide_the_rest() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let path = home.transcript(&id);
    let at = std::fs::metadata(&path).unwrap().len();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"garbage\n").unwrap();
    drop(file);
    home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"two\"}\n");
    let said = home.run(&["show", &id]);
    assert_eq!(said.code, 4);
    assert!(said.out.contains("one") && said.out.contains("two"), "{said:?}");
    assert!(said.err.contains(&format!("{}, line 3, byte {at}: not JSON", path.display())), "{said:?}");
    let said = home.run(&["doctor"]);
    assert!(said.code == 4 && said.out.contains(&format!("byte {at}: not JSON")), "{said:?}");
    let said = home.run(&["show", &id, "--messages"]);
    assert!(said.code == 4 && said.err.contains("\"kind\":\"malformed\""), "{said:?}");
    assert!(home.ok(&["sessions"]).contains("1 damaged place"));
}

#[test]
fn a_torn_tail_is_kept_aside_by_the_next_writer() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let path = home.transcript(&id);
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn.extend_from_slice(b"{\"v\":1,\"n\":2,\"par");
    std::fs::write(&path, &torn).unwrap();
    assert_eq!(home.run(&["show", &id]).code, 4);
    assert_eq!(std::fs::read(&path).unwrap(), torn, "readers never write");
    let said = home.run(&["doctor", "--fix"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    assert_eq!(std::fs::read(path.with_extension("torn-1")).unwrap(), b"{\"v\":1,\"n\":2,\"par");
    assert_eq!(home.run(&["doctor"]).code, 0);
}

#[test]
fn a_missing_transcript_is_missed_and_never_made_up() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    home.ok(&["sessions"]);
    std::fs::remove_file(home.transcript(&id)).unwrap();
    assert!(home.ok(&["sessions"]).contains("transcript missing"));
    for args in
        [vec!["show", "main:cli:user"], vec!["append", "main:cli:user"], vec!["append", "--create", "main:cli:user"]]
    {
        let said = home.run(&args);
        assert!(said.code == 4 && said.err.contains("is missing"), "{args:?}: {said:?}");
    }
    assert!(!home.transcript(&id).exists());
    assert_eq!(home.run(&["doctor"]).code, 4);
    assert_eq!(home.run(&["rm", &id]).code, 0, "it can be forgotten");
    assert_eq!(home.ok(&["sessions", "--json"]), "");
}

#[test]
fn foreign_files_keys_and_names_are_refused_clearly() {
    let home = Home::new();
    home.write("x.jsonl", b"\x1f\x8b\x08\0stuff");
    for (args, code, why) in [
        (vec!["show", "x.jsonl"], 4, "looks like gzip data"),
        (vec!["import", "x.jsonl"], 4, "looks like gzip data"),
        (vec!["import", "nowhere"], 1, "does not exist"),
        (vec!["new", "--key", "a:b"], 2, "is not a session key"),
        (vec!["new", "--key", ""], 2, "it is empty"),
        (vec!["show", "nobody"], 1, "no session matches `nobody`"),
        (vec!["undelete", "nobody"], 1, "no deleted session matches `nobody`"),
        (vec!["append", "nobody:at:all"], 1, "--create"),
    ] {
        let said = home.run(&args);
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert!(said.err.contains(why), "{args:?}: {said:?}");
    }
}

#[test]
fn a_broken_snapshot_hides_nothing_and_is_kept() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let listed = home.ok(&["sessions", "--json"]);
    let snapshot = home.path("home/agents/main/sessions.json");
    for bytes in ["", "{\"version\":1,\"sess", "[]", "\0\0\0"] {
        std::fs::write(&snapshot, bytes).unwrap();
        let said = home.run(&["sessions", "--json"]);
        assert_eq!((said.code, said.out.as_str()), (0, listed.as_str()), "{bytes:?}");
        assert!(said.err.contains("the list was rebuilt from the transcripts"), "{bytes:?}: {said:?}");
        assert_eq!(home.ok(&["sessions", "--json"]), listed);
    }
    std::fs::remove_file(&snapshot).unwrap();
    assert_eq!(home.ok(&["sessions", "--json"]), listed);
    let kept = crate::support::files(&home.path("home/agents/main"));
    assert!(kept.iter().any(|name| name.starts_with("sessions.json.bad-")), "{kept:?}");
    assert!(kept.contains(&format!("sessions/{id}.jsonl")));
}

#[test]
fn h7_a_list_of_a_newer_version_is_left_alone_and_told_once_in_a_run() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let snapshot = home.path("home/agents/main/sessions.json");
    let newer = "{\"version\":99,\"future\":true}";
    std::fs::write(&snapshot, newer).unwrap();
    let said = home.run(&["sessions", "--json"]);
    assert!(said.code == 0 && said.out.contains(&id), "{said:?}");
    assert_eq!(said.err.matches("a newer version of unforget made it (version 99").count(), 1, "{said:?}");
    assert_eq!(home.run(&["doctor", "--fix"]).code, 0);
    assert_eq!(std::fs::read_to_string(&snapshot).unwrap(), newer);
    let kept = crate::support::files(&home.path("home/agents/main"));
    assert!(!kept.iter().any(|name| name.contains(".bad-")), "{kept:?}");
}

#[test]
fn any_text_is_not_a_session() {
    let home = Home::new();
    home.write(
        "notes.jsonl",
        "# Notes\n\nsome text\n{\"type\":\"user\",\"content\":\"a snippet\",\"ts\":1}\nmore text\n",
    );
    home.write("empty.jsonl", "\n\n");
    let said = home.run(&["import", "notes.jsonl"]);
    assert!(said.code == 4 && said.out.contains("most of its lines are no records"), "{said:?}");
    assert_eq!(home.ok(&["import", "empty.jsonl"]), "nothing in ./empty.jsonl\n");
    // In the store, it is reported and left alone.
    let path = home.write("home/agents/main/sessions/passwd.jsonl", "root:x:0:0\n");
    let said = home.run(&["doctor", "--fix"]);
    assert!(said.code == 4 && said.out.contains("there is no record in it"), "{said:?}");
    assert_eq!(std::fs::read(path).unwrap(), b"root:x:0:0\n");
}

#[test]
fn a_transcript_that_lost_its_end_is_noticed() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one", "two"]);
    home.ok(&["sessions"]);
    let bytes = std::fs::read(home.transcript(&id)).unwrap();
    let cut = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    std::fs::write(home.transcript(&id), &bytes[..cut]).unwrap();
    let said = home.run(&["doctor"]);
    assert!(said.code == 4 && said.out.contains("its end is gone"), "{said:?}");
    let said = home.run(&["sessions"]);
    assert!(said.err.contains("had 3 records and now has 1"), "{said:?}");
}

#[test]
fn a_torn_end_is_told_by_tail_as_well() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let path = home.transcript(&id);
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"v\":1,");
    std::fs::write(&path, torn).unwrap();
    let said = home.run(&["tail", "-n", "1", &id]);
    assert!(said.code == 4 && said.out.contains("one") && said.err.contains("a line that was cut off"), "{said:?}");
    let said = home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"two\"}\n");
    assert!(said.code == 0 && said.err.contains("a crash had cut the last line off; its 7 bytes are in"), "{said:?}");
}

#[test]
fn an_ambiguous_name_never_creates_a_session() {
    let home = Home::new();
    for _ in 0..2 {
        home.ok(&["new", "--label", "x"]);
    }
    let said = home.feed(&["append", "--create", "x"], "{\"type\":\"user\",\"content\":\"where?\"}\n");
    assert_eq!(said.code, 2, "{said:?}");
    assert_eq!(home.ok(&["sessions", "--json"]).lines().count(), 2);
}

#[test]
fn what_is_in_the_trash_is_said_to_be_there() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    home.run(&["rm", &id]);
    let said = home.run(&["show", "main:cli:user"]);
    assert!(said.code == 1 && said.err.contains("it is in the trash"), "{said:?}");
    assert!(home.ok(&["sessions"]).contains("1 in the trash"));
}
