//! The tutorials' sessions, in both layouts, with the defects that their code leaves behind.

use crate::support::{Home, files};

/// What the first tutorial writes for one turn with a tool: the result before everything else.
const ONE: &str = r#"{"type": "session", "id": "0123456789ab", "key": "main:cli:user", "created": "2026-01-01T00:00:00+00:00"}
{"type": "tool_result", "tool_use_id": "toolu_01", "output": "file body", "ts": "2026-01-01T00:00:04+00:00"}
{"type": "user", "content": "read a", "ts": "2026-01-01T00:00:05+00:00"}
{"type": "assistant", "content": "I'll read it", "ts": "2026-01-01T00:00:05+00:00"}
{"type": "tool_use", "name": "read_file", "tool_use_id": "toolu_01", "input": {"path": "a"}, "ts": "2026-01-01T00:00:05+00:00"}
{"type": "assistant", "content": "It says file body", "ts": "2026-01-01T00:00:05+00:00"}
"#;

/// What the second tutorial writes for one turn with two tools: every call twice.
const TWO: &str = r#"{"type": "user", "content": "what is in a and b?", "ts": 1767225601.5}
{"type": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "toolu_A", "name": "read_file", "input": {"file_path": "a"}}, {"type": "tool_use", "id": "toolu_B", "name": "read_file", "input": {"file_path": "b"}}], "ts": 1767225602.5}
{"type": "tool_use", "tool_use_id": "toolu_A", "name": "read_file", "input": {"file_path": "a"}, "ts": 1767225603}
{"type": "tool_result", "tool_use_id": "toolu_A", "content": "AAA", "ts": 1767225603}
{"type": "tool_use", "tool_use_id": "toolu_B", "name": "read_file", "input": {"file_path": "b"}, "ts": 1767225603}
{"type": "tool_result", "tool_use_id": "toolu_B", "content": "BBB", "ts": 1767225603}
{"type": "assistant", "content": [{"type": "text", "text": "AAA and BBB."}], "ts": 1767225604}
"#;

fn first_layout(home: &Home) {
    home.write("one/workspace/.sessions/transcripts/main_cli_user_0123456789ab.jsonl", ONE);
    home.write(
        "one/workspace/.sessions/sessions.json",
        r#"{"main:cli:user": {"session_key": "main:cli:user", "session_id": "0123456789ab", "created_at": "2026-01-01T00:00:00+00:00", "updated_at": "2026-01-01T00:00:05+00:00", "message_count": 1, "transcript_file": "main_cli_user_0123456789ab.jsonl"}}"#,
    );
}

fn second_layout(home: &Home) {
    home.write("two/workspace/.sessions/agents/claw0/sessions/cafecafecafe.jsonl", TWO);
    home.write(
        "two/workspace/.sessions/agents/claw0/sessions.json",
        r#"{"cafecafecafe": {"label": "my-project", "created_at": "2026-01-01T00:00:00+00:00", "last_active": "2026-01-01T00:00:05+00:00", "message_count": 7}}"#,
    );
}

fn messages(home: &Home, name: &str) -> String {
    let said = home.run(&["show", name, "--messages"]);
    assert_eq!((said.code, said.err.as_str()), (0, "{\"repairs\":[],\"damage\":[],\"oddities\":[]}\n"), "{said:?}");
    let sent = said.out.trim().strip_suffix(']').unwrap();
    let sent = format!("{sent},{{\"role\":\"user\",\"content\":\"go on\"}}]");
    unforget_testkit::rules::check_messages(sent.as_bytes()).unwrap_or_else(|rejection| panic!("{rejection}: {sent}"));
    said.out.trim().to_owned()
}

#[test]
fn the_first_layout_is_imported_and_its_order_put_right() {
    let home = Home::new();
    first_layout(&home);
    let before = files(&home.path("one"));
    let said = home.run(&["import", "one"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(
        said.out.contains("main:cli:user  6 records")
            && said.out.contains("put right: record 1: result of toolu_01 was written before its call"),
        "{said:?}"
    );
    assert_eq!(
        messages(&home, "main:cli:user"),
        concat!(
            r#"[{"role":"user","content":[{"type":"text","text":"read a"}]},"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"I'll read it"},{"type":"tool_use","id":"toolu_01","name":"read_file","input":{"path": "a"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"file body"}]},"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"It says file body"}]}]"#
        )
    );
    assert_eq!(files(&home.path("one")), before, "the source is untouched");
    assert_eq!(home.run(&["doctor"]).code, 0);
}

#[test]
fn the_second_layout_is_imported_and_calls_are_written_once() {
    let home = Home::new();
    second_layout(&home);
    let said = home.run(&["import", "two/workspace"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(said.out.contains("call toolu_A was written twice") && said.out.contains("call toolu_B was written twice"));
    assert!(said.out.contains("claw0:cli:user  [my-project]"), "{said:?}");
    assert_eq!(
        messages(&home, "my-p"),
        concat!(
            r#"[{"role":"user","content":[{"type":"text","text":"what is in a and b?"}]},"#,
            r#"{"role":"assistant","content":[{"type": "text", "text": "Let me look."},{"type":"tool_use","id":"toolu_A","name":"read_file","input":{"file_path": "a"}},{"type":"tool_use","id":"toolu_B","name":"read_file","input":{"file_path": "b"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_A","content":"AAA"},{"type":"tool_result","tool_use_id":"toolu_B","content":"BBB"}]},"#,
            r#"{"role":"assistant","content":[{"type": "text", "text": "AAA and BBB."}]}]"#
        )
    );
}

#[test]
fn both_formats_are_read_in_place_with_the_same_messages() {
    let home = Home::new();
    first_layout(&home);
    second_layout(&home);
    home.run(&["import", "one", "two"]);
    for (file, name) in [
        ("one/workspace/.sessions/transcripts/main_cli_user_0123456789ab.jsonl", "main:cli:user"),
        ("two/workspace/.sessions/agents/claw0/sessions/cafecafecafe.jsonl", "my-project"),
    ] {
        let in_place = home.run(&["show", file, "--messages"]);
        assert_eq!(in_place.out.trim(), messages(&home, name));
    }
}

#[test]
fn importing_again_changes_nothing() {
    let home = Home::new();
    first_layout(&home);
    home.run(&["import", "one"]);
    let before = files(&home.path("home"));
    let said = home.run(&["import", "one"]);
    assert!(said.code == 0 && said.out.starts_with("already here as "), "{said:?}");
    assert_eq!(files(&home.path("home")), before);
}

#[test]
fn damaged_and_unlisted_transcripts_are_imported_too_and_the_original_is_kept() {
    let home = Home::new();
    first_layout(&home);
    let orphan = "{\"type\": \"user\", \"content\": \"orphan\", \"ts\": \"2026-01-01T00:00:05+00:00\", \"extra\": [1]}\nrubbish\n";
    home.write("one/workspace/.sessions/transcripts/main_telegram_bob_aaaaaaaaaaaa.jsonl", orphan);
    home.write("one/workspace/.sessions/sessions.json", "{\"main:cli:user\": {");
    let said = home.run(&["import", "one"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("is damaged; the transcripts are taken as they are"), "{said:?}");
    assert!(said.out.contains("damage: line 2, byte 87: not JSON"), "{said:?}");
    let shown = home.ok(&["show", "main:telegram:bob", "--json"]);
    assert!(shown.contains("\"extra\":[1]"), "unknown members are kept: {shown}");
    let blobs = files(&home.path("home/blobs"));
    let kept = blobs.iter().any(|blob| std::fs::read(home.path("home/blobs").join(blob)).unwrap() == orphan.as_bytes());
    assert!(kept, "the original is in the blob store");
}

#[test]
fn a_transcript_whose_header_and_index_disagree_is_refused() {
    let home = Home::new();
    first_layout(&home);
    let stranger = ONE.replace("main:cli:user", "main:cli:mallory");
    home.write("one/workspace/.sessions/transcripts/main_cli_user_0123456789ab.jsonl", stranger);
    let said = home.run(&["import", "one"]);
    assert!(said.code == 4 && said.out.contains("its header says key `main:cli:mallory`"), "{said:?}");
    assert_eq!(home.ok(&["sessions", "--json"]), "");
}
