//! The commands, as a person uses them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::support::{Home, files};

#[test]
fn a_newcomer_is_told_what_to_do_and_nothing_is_created() {
    let home = Home::new();
    let out = home.ok(&["sessions"]);
    assert!(out.starts_with("No sessions yet in ") && out.contains("unforget import PATH"), "{out}");
    assert!(!home.path("home").exists());
}

#[test]
fn a_session_is_created_appended_to_shown_and_listed() {
    let home = Home::new();
    let id = home.ok(&["new", "--key", "main:cli:ada", "--label", "work"]).trim().to_owned();
    let said = home.feed(
        &["append", "work"],
        concat!(
            r#"{"type":"user","content":"read a","ts":"2026-01-01T00:00:01Z"}"#, "\n\n",
            r#"{"type":"assistant","msg":"m1","content":[{"type":"text","text":"I will."}],"ts":"2026-01-01T00:00:02Z"}"#, "\n",
            r#"{"type":"tool_use","msg":"m1","tool_use_id":"toolu_1","name":"read_file","input":{"path":"a"},"ts":"2026-01-01T00:00:03Z"}"#, "\n",
        ),
    );
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n", ""));
    assert_eq!(
        home.ok(&["show", &id]),
        "   1 you  2026-01-01 00:00:01\n     read a\n   2 assistant  2026-01-01 00:00:02\n     I will.\n   \
         3 tool read_file toolu_1  2026-01-01 00:00:03\n     {\"path\":\"a\"}\n   \
         3 put right for the model: call toolu_1 has no result; the model is told that its outcome is unknown\n"
    );
    let row: serde_json::Value = serde_json::from_str(&home.ok(&["sessions", "--json"])).unwrap();
    assert_eq!(
        (row["id"].as_str(), row["key"].as_str(), row["label"].as_str(), row["title"].as_str(), row["turns"].as_u64()),
        (Some(id.as_str()), Some("main:cli:ada"), Some("work"), Some("read a"), Some(1))
    );
    let table = home.ok(&["ls"]);
    assert!(
        table.lines().nth(1).unwrap().contains("main:cli:ada      1       -          -  2026-01-01  [work] read a"),
        "{table}"
    );
    assert_eq!(
        files(&home.path("home")),
        [
            "agents/main/sessions.json".to_owned(),
            format!("agents/main/sessions/{id}.jsonl"),
            "catalog.lock".to_owned(),
            "index.sqlite".to_owned()
        ]
    );
}

#[test]
fn the_messages_form_is_what_the_api_accepts_and_its_repairs_are_json() {
    let home = Home::new();
    home.feed(&["append", "--create", "main:cli:ada"], "{\"type\":\"user\",\"content\":\"x\"}\n{\"type\":\"tool_use\",\"tool_use_id\":\"t|1\",\"name\":\"n\",\"input\":{}}\n");
    let said = home.run(&["show", "main:cli:ada", "--messages"]);
    assert_eq!(said.code, 0);
    unforget_testkit::rules::check_messages(said.out.trim().as_bytes()).unwrap();
    let told: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    let kinds: Vec<&str> =
        told["repairs"].as_array().unwrap().iter().map(|repair| repair["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["call_renamed", "result_added"]);
    assert_eq!(told["damage"], serde_json::json!([]));
}

#[test]
fn raw_is_the_file_and_json_has_every_record() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one", "two"]);
    let bytes = std::fs::read_to_string(home.transcript(&id)).unwrap();
    assert_eq!(home.ok(&["show", &id, "--raw"]), bytes);
    let records: Vec<serde_json::Value> =
        home.ok(&["show", &id, "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let raw: Vec<serde_json::Value> = bytes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.iter().map(|record| record["record"].clone()).collect::<Vec<_>>(), raw);
    assert_eq!(records.iter().map(|record| record["n"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn markdown_fences_what_machines_said() {
    let home = Home::new();
    home.feed(
        &["append", "--create", "main:cli:ada"],
        "{\"type\":\"user\",\"content\":\"hi\"}\n{\"type\":\"tool_use\",\"tool_use_id\":\"t1\",\"name\":\"n\",\"input\":{\"a\":\"```\"}}\n",
    );
    assert_eq!(
        home.ok(&["show", "main:cli:ada", "--markdown"]),
        "# main:cli:ada\n\n**you**\n\nhi\n\n**tool** `n t1`\n\n````\n{\"a\":\"```\"}\n````\n\n"
    );
}

#[test]
fn tail_shows_the_last_records_and_follows_new_ones() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one", "two", "three"]);
    let last = home.ok(&["tail", &id, "-n", "2", "--json"]);
    assert_eq!(last.lines().count(), 2);
    assert!(last.contains("\"two\"") && last.contains("\"three\""));

    let mut follower =
        home.command().args(["tail", "-f", "-n", "1", "--json", &id]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"three\""));
    // The writer comes second, so whatever the follower prints now it has seen arrive.
    home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"four\"}\n");
    assert!(lines.next().unwrap().unwrap().contains("\"four\""));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn tail_counts_what_it_shows() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one", "two"]);
    let more = concat!(
        "{\"type\":\"turn\",\"state\":\"done\"}\n{\"type\":\"context\",\"model\":\"m\"}\n",
        "{\"type\":\"turn\",\"state\":\"done\"}\n"
    );
    assert_eq!(home.feed(&["append", &id], more).code, 0);
    let shown = home.ok(&["tail", "-n", "1", &id]);
    assert!(shown.contains("two") && !shown.contains("one"), "{shown}");
    assert!(home.ok(&["tail", "-n", "2", &id]).contains("one"));
    assert_eq!(home.ok(&["tail", "-n", "0", &id]), "");
    assert_eq!(home.ok(&["tail", "-n", "2", &id, "--json"]).lines().count(), 2, "a program is given every record");
}

#[test]
fn a_deleted_session_comes_back_whole() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["keep me"]);
    let bytes = std::fs::read(home.transcript(&id)).unwrap();
    let said = home.run(&["rm", "main:cli:user"]);
    assert_eq!((said.code, said.out.as_str()), (0, format!("deleted {id}  main:cli:user\n").as_str()));
    assert_eq!(home.ok(&["sessions", "--json"]), "");
    let again = home.run(&["rm", &id]);
    assert!(again.code == 1 && again.err.contains("it is in the trash: `unforget undelete"), "{again:?}");
    assert!(home.ok(&["sessions", "--deleted"]).contains("keep me"));
    assert_eq!(home.ok(&["undelete", "keep m"]), format!("undeleted {id}  main:cli:user\n"));
    assert_eq!(std::fs::read(home.transcript(&id)).unwrap(), bytes);
    assert_eq!(home.ok(&["sessions", "--json", "--deleted"]), "");
    assert_eq!(home.ok(&["doctor"]).lines().last().unwrap().split(": ").last(), Some("all is well"));
}

#[test]
fn deleting_several_deletes_none_if_one_of_them_is_unknown() {
    let home = Home::new();
    home.conversation("main:cli:a", &["one"]);
    assert_eq!(home.run(&["rm", "main:cli:a", "nonsense"]).code, 1);
    assert_eq!(home.ok(&["sessions", "--json"]).lines().count(), 1);
}

#[test]
fn an_export_is_imported_elsewhere_with_its_payloads() {
    let (home, other) = (Home::new(), Home::new());
    let big = "x".repeat(400_000);
    home.feed(
        &["append", "--create", "main:cli:user"],
        &format!("{{\"type\":\"tool_use\",\"tool_use_id\":\"t\",\"name\":\"n\",\"input\":{{}}}}\n{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"output\":\"{big}\"}}\n"),
    );
    let file = other.path("out.jsonl");
    assert_eq!(home.run(&["export", "main:cli:user", "-o", file.to_str().unwrap()]).code, 0);
    assert!(std::fs::metadata(&file).unwrap().len() < 10_000, "the payload is not in the line");
    let said = other.run(&["import", "out.jsonl"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(other.run(&["show", "main:cli:user", "--messages"]), home.run(&["show", "main:cli:user", "--messages"]));
    assert_eq!(home.run(&["export", "main:cli:user", "-o", file.to_str().unwrap()]).code, 1, "an existing file stays");
}

#[test]
fn several_sessions_of_a_key_the_newest_is_current_and_prefixes_find_the_rest() {
    let home = Home::new();
    let first = home.conversation("main:cli:user", &["alpha project"]);
    let second = home.conversation("main:cli:user", &["beta project"]);
    assert!(home.ok(&["show", "main:cli:user"]).contains("beta"));
    assert!(home.ok(&["show", &first]).contains("alpha"));
    assert!(home.ok(&["show", "ALPHA"]).contains("alpha"), "titles are found by their beginning, in any case");
    let shared: String = first.chars().zip(second.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let said = home.run(&["show", &shared]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("matches 2 sessions") && said.err.contains(&first) && said.err.contains(&second),
        "{said:?}"
    );
}

#[test]
fn a_transcript_anywhere_can_be_shown_by_its_path() {
    let home = Home::new();
    home.write("tutorial.jsonl", "{\"type\":\"user\",\"content\":\"from a file\",\"ts\":1767225601.5}\n");
    assert_eq!(home.ok(&["show", "tutorial.jsonl"]), "   0 you  2026-01-01 00:00:01\n     from a file\n");
}

#[test]
fn stored_text_cannot_drive_the_terminal() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["a\\u001b[2Jb\\u202ec\\u009b"]);
    // A title that is made here has none of these; one that was given has what it was given.
    assert_eq!(home.feed(&["append", &id], "{\"type\":\"title\",\"title\":\"a\\u001b[2Jb\\u202ec\\u009b\"}\n").code, 0);
    for args in [vec!["show", &id], vec!["sessions"], vec!["tail", &id], vec!["show", &id, "--markdown"]] {
        let out = home.ok(&args);
        assert!(out.contains("a␛[2Jb<U+202E>c<U+009B>"), "{args:?}: {out:?}");
        assert!(!out.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{args:?}");
    }
}

#[test]
fn nobody_else_can_read_the_store() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["secret"]);
    home.ok(&["sessions"]);
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.path("home")), 0o700);
    assert_eq!(mode(home.transcript(&id)), 0o600);
    assert_eq!(mode(home.path("home/agents/main/sessions.json")), 0o600);
    std::fs::set_permissions(home.transcript(&id), std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = home.run(&["doctor"]);
    assert!(said.code == 4 && said.out.contains("other users can reach it"), "{said:?}");
    assert_eq!(home.run(&["doctor", "--fix"]).code, 0);
    assert_eq!(mode(home.transcript(&id)), 0o600);
}

#[test]
fn help_completions_and_the_manual_come_from_the_same_definitions() {
    let home = Home::new();
    assert!(home.ok(&["--help"]).contains("Exit codes: 0 done"));
    assert!(home.ok(&["completions", "bash"]).contains("_unforget"));
    assert!(home.ok(&["man"]).contains(".TH unforget 1"));
    assert_eq!(home.run(&["nonsense"]).code, 2);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::new();
    let text = "word ".repeat(40_000);
    let id = home.conversation("main:cli:user", &[&text]);
    let mut child = home.command().args(["show", &id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_second_writer_is_told_who_has_the_session_and_readers_are_not_disturbed() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let mut holder = home.command().args(["append", &id]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = holder.stdin.take().unwrap();
    writeln!(input, "{{\"type\":\"user\",\"content\":\"two\"}}").unwrap();
    let mut acks = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert_eq!(acks.next().unwrap().unwrap(), "{\"n\":2}");

    for args in [vec!["append", id.as_str()], vec!["rm", id.as_str()]] {
        let said = home.feed(&args, "{\"type\":\"user\",\"content\":\"no\"}\n");
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains(&format!("process {}", holder.id())), "{said:?}");
    }
    assert!(home.ok(&["show", &id]).contains("two"));
    drop(input);
    assert!(holder.wait().unwrap().success());
    assert_eq!(home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"three\"}\n").out, "{\"n\":3}\n");
}

#[test]
fn a_newer_export_carries_the_session_on_and_a_different_one_is_refused() {
    let (home, other) = (Home::new(), Home::new());
    let id = home.conversation("main:cli:user", &["one"]);
    let export = |name: &str| {
        let path = other.path(name);
        assert_eq!(home.run(&["export", &id, "-o", path.to_str().unwrap()]).code, 0);
    };
    export("first.jsonl");
    home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"two\"}\n");
    export("second.jsonl");
    other.ok(&["import", "first.jsonl"]);
    assert_eq!(other.ok(&["import", "second.jsonl"]), format!("updated {id}: 1 more records from ./second.jsonl\n"));
    assert_eq!(std::fs::read(other.transcript(&id)).unwrap(), std::fs::read(home.transcript(&id)).unwrap());
    assert!(other.ok(&["import", "first.jsonl"]).starts_with("already here as "), "an older one takes nothing away");
    other.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"ours\"}\n");
    home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"theirs\"}\n");
    export("third.jsonl");
    let before = std::fs::read(other.transcript(&id)).unwrap();
    let said = other.run(&["import", "third.jsonl"]);
    assert!(said.code == 4 && said.out.contains("goes on differently from byte"), "{said:?}");
    assert_eq!(std::fs::read(other.transcript(&id)).unwrap(), before);
}

#[test]
fn payloads_are_shown_counted_and_missed_when_they_are_gone() {
    let (home, other) = (Home::new(), Home::new());
    let big = format!("beginning {}", "x".repeat(400_000));
    home.feed(&["append", "--create", "main:cli:user"], &format!("{{\"type\":\"user\",\"content\":\"{big}\"}}\n"));
    assert!(home.ok(&["show", "main:cli:user"]).contains(&big), "all of it is shown");
    assert!(home.ok(&["tail", "main:cli:user"]).contains("(400.0 kB in all)"));
    let row: serde_json::Value = serde_json::from_str(&home.ok(&["sessions", "--json"])).unwrap();
    assert_eq!(row["turns"], 1);
    assert!(row["title"].as_str().unwrap().starts_with("beginning xxx"));
    other.write("bare.jsonl", home.run(&["export", "main:cli:user"]).out);
    let said = other.run(&["import", "bare.jsonl"]);
    assert!(said.code == 4 && said.out.contains("damage: record 1: its payload"), "{said:?}");
    assert_eq!(other.run(&["show", "main:cli:user"]).code, 4);
    let whole = other.path("whole.jsonl");
    home.run(&["export", "main:cli:user", "-o", whole.to_str().unwrap()]);
    other.run(&["import", "whole.jsonl"]);
    assert_eq!(other.run(&["doctor"]).code, 0, "the payload came with the second import");
}

#[test]
fn another_home_is_imported_with_everything_in_it() {
    let (home, other) = (Home::new(), Home::new());
    let big = "x".repeat(300_000);
    home.feed(&["append", "--create", "main:cli:a"], &format!("{{\"type\":\"user\",\"content\":\"{big}\"}}\n"));
    home.conversation("work:cli:b", &["two"]);
    home.ok(&["sessions"]);
    let said = other.run(&["import", home.path("home").to_str().unwrap()]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert_eq!(other.ok(&["sessions", "--json"]).lines().count(), 2);
    assert_eq!(other.run(&["doctor"]).code, 0);
}

#[test]
fn a_table_in_a_pipe_is_not_cut() {
    let home = Home::new();
    let key = "main:telegram:a-rather-long-name-of-a-person-with-小明小明小明";
    home.conversation(key, &["one"]);
    assert!(home.ok(&["sessions"]).contains(key));
}

#[test]
fn z12_neither_a_command_nor_the_file_itself_shows_what_leads_a_terminal_astray() {
    let home = Home::new();
    // Clear the screen, turn the direction round, change the colour with one character: escaped, as JSON has it, and as they are.
    let escaped = home.conversation("main:cli:ada", &["a pelican \\u001b[2J and\\u202e more \\u009b31m"]);
    let bare = home.conversation("main:cli:bob", &["a bare\u{202e} pelican \u{9b}31m"]);
    let commands: [&[&str]; 8] = [
        &["show", &escaped],
        &["show", &bare],
        &["sessions"],
        &["search", "pelican"],
        &["tree", &escaped],
        &["tree", &bare],
        &["export", &escaped],
        &["show", "--json", &escaped],
    ];
    let mut shown: Vec<(String, String)> =
        commands.iter().map(|command| (command.join(" "), home.ok(command))).collect();
    shown.push(("cat".to_owned(), std::fs::read_to_string(home.transcript(&escaped)).unwrap()));
    for (command, text) in shown {
        assert!(text.contains("pelican") || command.starts_with("tree"), "{command}: {text}");
        let astray: Vec<char> = text.chars().filter(|c| matches!(c, '\u{1b}' | '\u{202e}' | '\u{9b}')).collect();
        assert!(astray.is_empty(), "{command}: {astray:?} in {text:?}");
    }
}

#[test]
fn h5_what_is_put_right_in_a_session_of_claude_code_is_told_with_its_line() {
    let home = Home::new();
    let line = |kind: &str, uuid: &str, parent: &str, content: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"sessionId\":\"s\",\"message\":{{\"role\":\"{kind}\",\"content\":{content}}}}}\n"
        )
    };
    let lines = [
        line("user", "a", "null", "\"half a character \\ud83d\""),
        "\n".to_owned(),
        line("user", "b", "\"a\"", "[{\"type\":\"tool_result\",\"tool_use_id\":\"gone\",\"content\":\"x\"}]"),
    ];
    let file = home.write("session.jsonl", lines.concat());
    let file = file.to_str().unwrap();
    let said = home.run(&["show", file, "--messages"]);
    assert_eq!(said.out, "[{\"role\":\"user\",\"content\":\"half a character \u{fffd}\"}]\n");
    assert!(said.err.contains("line 1, record 0: characters that cannot be sent"), "{said:?}");
    assert!(said.err.contains("line 3, record 1: result of gone answers no call and is left out"), "{said:?}");
    let told: serde_json::Value = serde_json::from_str(&home.run(&["--json", "show", file, "--messages"]).err).unwrap();
    let repairs: Vec<(u64, &str)> = told["repairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|repair| (repair["line"].as_u64().unwrap(), repair["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(repairs, [(1, "characters_replaced"), (3, "orphan_result")]);
}
