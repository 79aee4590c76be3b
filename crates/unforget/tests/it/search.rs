//! `search`, `show --at` and `/search`, as a person uses them.

use crate::scene::Scene;
use crate::support::Home;

/// A home with a session in which something is said, called, answered and taken back.
fn home() -> (Home, String) {
    let home = Home::new();
    let id = home.ok(&["new", "--key", "main:cli:ada"]).trim().to_owned();
    let said = home.feed(
        &["append", &id],
        concat!(
            r#"{"type":"user","content":"where is session_id lost?","ts":"2026-01-01T00:00:01Z"}"#, "\n",
            r#"{"type":"tool_use","tool_use_id":"t1","name":"bash","input":{"command":"grep session_id"},"ts":"2026-01-01T00:00:02Z"}"#, "\n",
            r#"{"type":"tool_result","tool_use_id":"t1","output":"session_id=1\nkey sk-ant-api03-abcdefghijklmnopqrstuvwxyz","ts":"2026-01-01T00:00:03Z"}"#, "\n",
            r#"{"type":"head","to":1,"reason":"rewind","ts":"2026-01-01T00:00:04Z"}"#, "\n",
            r#"{"type":"assistant","content":"東京のサーバーです\u001b[2J","ts":"2026-01-02T00:00:05Z"}"#, "\n",
        ),
    );
    assert_eq!(said.code, 0, "{said:?}");
    (home, id)
}

#[test]
fn hits_are_grouped_by_session_marked_and_lead_to_their_record() {
    let (home, id) = home();
    assert_eq!(
        home.ok(&["search", "session_id"]),
        format!(
            "where is session_id lost?  main:cli:ada  2026-01-01  {id}\n   1 user\n     where is session_id lost?\n   \
             2 tool_use bash  (abandoned branch)\n     bash command: grep session_id\n   \
             3 tool_result bash  (abandoned branch)\n     session_id=1 key sk-a…[masked 39]\n\n\
             A record and what is around it: unforget show {id} --at 1\n"
        )
    );
    let shown = home.ok(&["show", &id, "--at", "3", "--around", "1"]);
    assert!(shown.starts_with("    2 tool bash t1") && shown.contains("\n>   3 result t1"), "{shown}");
    assert_eq!(shown.matches("  (abandoned branch)\n").count(), 2, "{shown}");
    assert!(!home.ok(&["show", &id, "--at", "1", "--around", "0"]).contains("abandoned"));
    let record = home.ok(&["show", &id, "--at", "3", "--around", "0", "--json"]);
    assert!(record.contains("\"abandoned\":true"), "{record}");
    assert!(!shown.contains("where is") && shown.ends_with("rewind to record 1  2026-01-01 00:00:04\n"), "{shown}");
    let said = home.run(&["show", &id, "--at", "99"]);
    assert!(said.code == 2 && said.err.contains("there is no record 99\nhint: the last one is 5"), "{said:?}");
    let records = home.ok(&["show", &id, "--at", "1", "--around", "0", "--json"]);
    let records: Vec<&str> = records.lines().filter(|line| line.starts_with("{\"n\":")).collect();
    assert!(records.len() == 1 && records[0].starts_with("{\"n\":1,"), "{records:?}");
}

#[test]
fn nothing_found_is_exit_code_1_and_a_bad_question_is_2() {
    let (home, _) = home();
    let said = home.run(&["search", "nosuchword"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (1, "", "nothing was found\n"));
    let said = home.run(&["search", "say \"hello"]);
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with("error: a quotation mark has no other half (at `\"hello`)\nhint: close"), "{said:?}");
    for args in [["search", "++"], ["search", "NOT this"]] {
        assert_eq!(home.run(&args).code, 2, "{args:?}");
    }
    for args in [["--since", "soon"], ["--role", "nobody"], ["--key", "a:b"], ["--limit", "x"]] {
        assert_eq!(home.run(&["search", "x", args[0], args[1]]).code, 2, "{args:?}");
    }
    assert_eq!(Home::new().run(&["search", "x"]).code, 1, "no home at all");
}

#[test]
fn a_word_that_is_the_beginning_of_one_is_offered_with_a_star() {
    let home = Home::new();
    home.conversation("main:cli:user", &["see zebrafishfarm in the docs"]);
    let said = home.run(&["search", "zebrafish docs"]);
    assert_eq!(said.code, 1, "what was asked for is not there");
    assert_eq!(
        said.err,
        "nothing was found\nhint: `zebrafish* docs*` finds something: a star stands for the rest of a word\n"
    );
    assert_eq!(home.run(&["search", "zebrafish* docs*"]).code, 0);
    assert_eq!(home.run(&["search", "--json", "zebrafish"]).err, "");
}

#[test]
fn json_has_the_same_fields_for_every_hit() {
    let (home, id) = home();
    let out = home.ok(&["search", "--json", "session_id", "--role", "tool_use"]);
    let hit: serde_json::Value = serde_json::from_str(&out).unwrap();
    let offset = hit["offset"].as_u64().unwrap();
    assert_eq!(
        hit,
        serde_json::json!({
            "session": id, "key": "main:cli:ada", "title": "where is session_id lost?", "n": 2, "offset": offset,
            "at": "2026-01-01T00:00:02.000Z", "role": "tool_use", "tool": "bash", "trashed": false, "abandoned": true,
            "tokens": 7, "snippet": "bash command: grep session_id", "marks": [[19, 29]],
        })
    );
    let bytes = std::fs::read(home.transcript(&id)).unwrap();
    assert!(bytes[usize::try_from(offset).unwrap()..].starts_with(b"{\"v\":1,\"n\":2,"));
    let said = home.run(&["search", "--json", "nosuchword"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (1, "", ""));
}

#[test]
fn filters_narrow_and_the_trash_is_marked() {
    let (home, id) = home();
    let count = |args: &[&str]| home.run(&[&["search", "--json"], args].concat()).out.lines().count();
    assert_eq!(count(&["session"]), 3);
    assert_eq!(count(&["session", "--tool", "bash"]), 2);
    assert_eq!(count(&["session", "--role", "user", "--role", "tool_use"]), 2);
    assert_eq!(count(&["東京", "--since", "2026-01-02"]), 1);
    assert_eq!(count(&["東京", "--until", "2026-01-01"]), 0);
    assert_eq!(count(&["session", "--until", "2026-01-01"]), 3, "a day counts up to its end");
    assert_eq!(count(&["session", "--agent", "other"]), 0);
    assert_eq!(count(&["session", "--key", "main:cli:ada", "--scan", "-n", "1"]), 1);
    for scan in [&["--scan"][..], &[]] {
        for (pattern, hits) in [("main:*:*", 3), ("*:cli:a*", 3), ("a*", 3), ("*", 3), ("main:web:*", 0), ("main:*", 0)]
        {
            assert_eq!(count(&[&["session", "--key", pattern], scan].concat()), hits, "{pattern}");
        }
    }
    assert!(home.run(&["search", "x", "--key", "main:*"]).err.contains("is no pattern for keys"));
    home.run(&["rm", &id]);
    let out = home.ok(&["grep", "東京"]);
    assert!(out.contains(&format!("{id}  (trash)\n")) && out.contains(&format!("unforget undelete {id}")), "{out}");
    assert_eq!(home.run(&["search", "東京", "--no-trash"]).code, 1);
}

#[test]
fn stored_text_cannot_drive_the_terminal_from_a_snippet() {
    let (home, _) = home();
    let out = home.ok(&["search", "サーバー"]);
    assert!(out.contains("     東京のサーバーです [2J\n") && !out.contains('\u{1b}'), "{out:?}");
    let id = home.conversation("main:cli:bo", &["a \\u202eneedle\\u009b"]);
    assert_eq!(home.feed(&["append", &id], "{\"type\":\"title\",\"title\":\"t\\u001b]0;x\\u0007\"}\n").code, 0);
    let out = home.ok(&["search", "needle"]);
    assert!(out.contains("a <U+202E>needle") && !out.contains(['\u{202e}', '\u{9b}', '\u{1b}', '\u{7}']), "{out:?}");
}

#[test]
fn a_secret_is_found_and_not_shown() {
    let home = Home::new();
    let secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz";
    home.conversation("main:cli:user", &[&format!("my key: {secret}")]);
    for args in [vec!["search", secret], vec!["search", "--json", secret], vec!["search", "key"]] {
        let out = home.ok(&args);
        assert!(out.contains("sk-a…[masked 39]") && !out.contains("api03"), "{out}");
    }
}

#[test]
fn many_sessions_are_searched_by_several_threads_with_one_answer() {
    let home = Home::new();
    let folder = home.path("home/agents/main/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..300 {
        let text = format!("{{\"type\":\"user\",\"content\":\"needle {n}\",\"ts\":{}}}\n", 1_767_225_600 + n);
        std::fs::write(folder.join(format!("s{n}.jsonl")), text).unwrap();
    }
    let first = home.ok(&["search", "needle", "--json", "-n", "300"]);
    assert_eq!(first.lines().count(), 300);
    assert_eq!(home.ok(&["search", "needle", "--json", "-n", "300"]), first);
    let newest: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!(newest["session"], "s299");
    assert!(
        home.ok(&["search", "needle"]).contains("(there is more: say more words, or see `unforget search --limit`)")
    );
}

#[test]
fn the_chat_finds_and_says_how_to_go_on_there() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.say("my name is Ada");
    terminal.say("/new");
    let told = terminal.say("/search ada");
    assert!(told.contains("my name is Ada") && told.contains("Go on there: /switch 0"), "{told}");
    assert!(terminal.say("/search").contains("error: what for? /search <words"), "{}", terminal.text());
    assert!(terminal.say("/search nosuchword").contains("nothing was found"));
    assert!(terminal.say("/help").contains("/search"));
}
