//! What is kept, for how long, and what it took: `gc`, `expire`, `label`, `usage`, and the same in the chat.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use unforget_core::directory::Directory;
use unforget_core::key::Key;
use unforget_core::log::Durability;
use unforget_core::medium::Os;
use unforget_core::record::Draft;
use unforget_core::stamp::{SessionId, Source};

use crate::scene::Scene;
use crate::support::{Home, Said};

/// A clock that stands at the beginning of 2026, and ids that count up.
#[derive(Default)]
struct Past(AtomicU64);

impl Source for Past {
    fn now_ms(&self) -> i64 {
        1_767_225_600_000
    }

    fn new_id(&self, _: i64) -> SessionId {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        SessionId::parse(&format!("019b0000-0000-7000-8000-{count:012}")).unwrap()
    }
}

/// Sessions that were used last at the beginning of 2026, one for each peer; one with a colon in it has that label.
fn past(home: &Home, peers: &[&str]) -> Vec<String> {
    let store = Directory::new(Arc::new(Os::new(home.path("home"))), Arc::new(Past::default()), Durability::PowerLoss);
    let create = |peer: &&str| {
        let (peer, label) = peer.split_once(':').map_or((*peer, None), |(peer, label)| (peer, Some(label)));
        let mut session = store.create(&Key::new("main", "cli", None, peer).unwrap(), label).unwrap();
        let call = r#"{"type":"turn","state":"done","model":"claude-sonnet-4-5","usage":{"input_tokens":1000,"output_tokens":200,"cache_read_input_tokens":3000}}"#;
        let context = Draft::new("context").text("model", "claude-sonnet-4-5");
        session
            .append(&[context, Draft::user(&format!("help {peer} with the tests")), Draft::from_json(call).unwrap()])
            .unwrap();
        session.id().to_string()
    };
    peers.iter().map(create).collect()
}

fn run(home: &Home, settings: &str, args: &[&str]) -> Said {
    let file = home.write("config.toml", settings);
    crate::scene::said(home.command().env("UNFORGET_CONFIG", file).args(args).output().unwrap())
}

const RULES: &str = "[retention]\n'main:cli:*' = '90d'\ntrash = '30d'\n";

#[test]
fn nothing_expires_without_a_setting() {
    let home = Home::new();
    past(&home, &["old"]);
    let said = run(&home, "", &["gc"]);
    assert_eq!((said.code, said.out.as_str()), (0, "Nothing to do: 1 kept (no rule is about it).\n"));
    assert!(said.err.contains("nothing expires unless [retention]"), "{said:?}");
    assert!(!home.path("home/trash").exists(), "looking creates nothing");
}

#[test]
fn what_expired_goes_to_the_trash_with_a_receipt_and_comes_back_the_same() {
    let home = Home::new();
    let ids = past(&home, &["old", "named:work"]);
    let before = std::fs::read(home.transcript(&ids[0])).unwrap();
    let dry = run(&home, RULES, &["gc", "--dry-run"]);
    assert!(dry.out.starts_with(&format!("would go to the trash  {}  main:cli:old", ids[0])), "{dry:?}");
    assert!(home.transcript(&ids[0]).exists());
    let said = run(&home, RULES, &["gc"]);
    assert_eq!(said.code, 0);
    assert!(
        said.out.contains("not used for 90d (rule main:cli:*)") && said.out.contains("1 session moved to the trash")
    );
    assert!(said.err.contains("`unforget undelete ID` brings a session back; the trash keeps it for 30d"), "{said:?}");
    let receipt: Value =
        serde_json::from_str(std::fs::read_to_string(home.path("home/trash/receipts.jsonl")).unwrap().trim()).unwrap();
    assert_eq!((receipt["action"].as_str(), receipt["id"].as_str()), (Some("expired"), Some(ids[0].as_str())));
    let deleted = run(&home, RULES, &["sessions", "--deleted"]);
    assert!(deleted.err.contains(&format!("{} leaves the trash for good: ", ids[0])), "{deleted:?}");
    assert_eq!(run(&home, "", &["undelete", &ids[0]]).code, 0);
    assert_eq!(std::fs::read(home.transcript(&ids[0])).unwrap(), before);
    assert!(home.transcript(&ids[1]).exists(), "a label protects");
}

#[test]
fn what_came_back_is_not_taken_by_the_next_clean_up() {
    let home = Home::new();
    let ids = past(&home, &["old", "own"]);
    assert_eq!(run(&home, "", &["rm", &ids[1]]).code, 0);
    assert!(run(&home, RULES, &["gc"]).out.contains("1 session moved to the trash"));
    let before = std::fs::read(home.path(&format!("home/trash/main/{}.jsonl", ids[0]))).unwrap();
    let said = run(&home, RULES, &["undelete", &ids[0], &ids[1]]);
    assert_eq!(said.err.matches("note: its time was over and begins anew: it stays until 20").count(), 2, "{said:?}");
    let after = std::fs::read(home.transcript(&ids[0])).unwrap();
    assert!(after.starts_with(&before), "what was there is still there");
    assert!(run(&home, RULES, &["gc"]).out.contains("Nothing to do: 2 kept (its time has not come)"));
    assert!(home.transcript(&ids[0]).exists() && home.transcript(&ids[1]).exists());
    // It was brought back, not used: the list still says when someone was in it.
    assert!(run(&home, "", &["sessions"]).out.contains("2026-01-01"));
    assert!(run(&home, "", &["sessions", "--json"]).out.contains("\"expires\":null"));
}

#[test]
fn a_label_is_taken_off_in_the_same_words_everywhere() {
    let home = Home::new();
    let id = &past(&home, &["old"])[0];
    for off in ["", "off", "--off"] {
        assert!(run(&home, "", &["label", "old", "mine"]).out.contains("is labelled mine"));
        assert_eq!(run(&home, "", &["label", "old", off]).out, format!("{id} has no label\n"), "{off}");
    }
    assert_eq!(run(&home, "", &["label", "old"]).code, 2);
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    for off in ["off", "--off", "\"\""] {
        assert!(terminal.say("/label mine").contains("Label: mine"));
        assert!(terminal.say(&format!("/label {off}")).contains("Label: (none)"), "{off}");
    }
}

#[test]
fn a_session_is_pinned_and_marked_until_it_is_not() {
    let home = Home::new();
    let ids = past(&home, &["a", "b"]);
    assert_eq!(run(&home, "", &["pin", "a"]).out, format!("{} is pinned\n", ids[0]));
    let listed = |args: &[&str]| run(&home, "", args).out;
    assert!(listed(&["sessions"]).contains("  * "), "{}", listed(&["sessions"]));
    let only = listed(&["sessions", "--pinned", "--json"]);
    assert!(only.contains(&ids[0]) && only.contains("\"pinned\":true") && !only.contains(&ids[1]), "{only}");
    assert_eq!(
        run(&home, "", &["pin", "a", "--off", "--json"]).out,
        format!("{{\"id\":\"{}\",\"pinned\":false}}\n", ids[0])
    );
    assert!(!listed(&["sessions"]).contains("  * "));
    assert_eq!(listed(&["sessions", "--pinned"]), "No session is like that.\n");
    assert!(listed(&["show", "a"]).contains("this session no longer"), "{}", listed(&["show", "a"]));
    assert_eq!(run(&home, "", &["doctor"]).code, 0, "it is no damage");
}

#[test]
fn a_list_tells_costs_and_when_someone_was_in_a_session() {
    let home = Home::new();
    let ids = past(&home, &["a", "b"]);
    assert_eq!(home.feed(&["append", &ids[1]], r#"{"type":"turn","state":"done","model":"house","ts":"2026-01-01T00:00:00Z","usage":{"input_tokens":7,"output_tokens":8}}"#).code, 0);
    let new = home.ok(&["new", "--key", "main:cli:c"]);
    for args in [["label", "a", "mine"], ["expire", "b", "never"]] {
        assert_eq!(run(&home, "", &args).code, 0);
    }
    let row = |out: &str, id: &str| -> Value {
        out.lines().map(|line| serde_json::from_str(line).unwrap()).find(|row: &Value| row["id"] == *id).unwrap()
    };
    for _ in ["without an index", "with one"] {
        let out = home.ok(&["sessions", "--json"]);
        assert_eq!(row(&out, &ids[0])["cost_usd"].as_f64(), Some(0.0069));
        assert_eq!(row(&out, &ids[1])["cost_usd"], Value::Null, "a part of it has no price");
        assert_eq!(row(&out, new.trim())["cost_usd"].as_f64(), Some(0.0));
        assert_eq!(row(&out, &ids[0])["updated_ms"], 1_767_225_600_000_u64, "a label is no use");
    }
    let out = home.ok(&["sessions"]);
    assert!(out.starts_with("ID ") && out.contains("TOKENS       COST  LAST USED"), "{out}");
    assert!(out.contains("4.2k    $0.0069  2026-01-01") && out.contains("> $0.0069"), "{out}");
    let own = run(&home, "[prices.house]\ninput = 1000\noutput = 1000\n", &["sessions", "--json"]).out;
    assert_eq!(row(&own, &ids[1])["cost_usd"].as_f64(), Some(0.0219));
}

#[test]
fn the_trash_is_emptied_only_when_a_person_says_so() {
    let home = Home::new();
    let ids = past(&home, &["old", "other"]);
    home.ok(&["sessions"]);
    home.ok(&["sessions", "--json"]);
    assert_eq!(run(&home, "", &["rm", &ids[0]]).code, 0);
    let said = run(&home, "", &["gc", "--purge-trash"]);
    assert!(said.code == 2 && said.err.contains("nobody can be asked"), "{said:?}");
    let said = run(&home, "", &["gc", "--purge-trash", "--older-than", "1d", "--yes"]);
    assert!(said.out.contains("Nothing to do"), "it was deleted just now: {said:?}");
    for wrong in ["0", "-1d", "soon"] {
        let said = run(&home, "", &["gc", "--purge-trash", "--yes", &format!("--older-than={wrong}")]);
        assert!(said.code == 2 && said.err.contains("is no time to keep something"), "{said:?}");
    }
    let said = run(&home, "", &["gc", "--purge-trash", "--yes", "--json"]);
    let lines: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines[0]["action"].as_str(), lines[1]["purged"].as_u64()), (Some("purged"), Some(1)));
    assert_eq!(crate::support::files(&home.path("home/trash")), ["gc.lock", "receipts.jsonl"]);
    let left: Vec<String> = home.ok(&["sessions", "--json"]).lines().map(str::to_owned).collect();
    assert!(left.len() == 1 && left[0].contains(&ids[1]), "nothing is missed: {left:?}");
}

#[test]
fn a_wrong_rule_ends_every_program_that_would_follow_it() {
    let home = Home::new();
    past(&home, &["old"]);
    for settings in
        ["[retention]\n'*' = '0'\n", "[retention]\n'*' = 0\n", "[retention]\nmain = '30d'\n", "retention = '1d'\n"]
    {
        let said = run(&home, settings, &["gc"]);
        assert!(said.code == 2 && said.err.contains("config.toml, line 1: `retention` must be"), "{said:?}");
    }
    assert!(run(&home, "", &["config", "set", "retention", "30d"]).err.contains("a table in the file"));
    let shown = run(&home, RULES, &["config"]);
    assert!(shown.out.contains("main:cli:* = 90d, trash = 30d"), "{shown:?}");
}

#[test]
fn a_session_says_itself_how_long_it_is_kept() {
    let home = Home::new();
    let ids = past(&home, &["old"]);
    let said = run(&home, "", &["expire", "old", "6m"]);
    assert!(said.code == 2 && said.err.contains("months are `mo`"), "{said:?}");
    let said = run(&home, "", &["expire", "old", "never"]);
    assert_eq!(said.out, format!("{} never expires\n", ids[0]));
    assert!(run(&home, RULES, &["gc"]).out.contains("1 kept (it never expires)"));
    let said = run(&home, "", &["expire", "old", "default", "--json"]);
    assert_eq!(said.out, format!("{{\"id\":\"{}\",\"expires\":null}}\n", ids[0]));
    assert!(run(&home, "", &["label", "old", "mine"]).out.contains("is labelled mine"));
    assert!(run(&home, RULES, &["gc"]).out.contains("1 kept (it has a label)"));
    assert_eq!(
        run(&home, "", &["label", "mine", "", "--json"]).out,
        format!("{{\"id\":\"{}\",\"label\":null}}\n", ids[0])
    );
    assert!(run(&home, RULES, &["gc"]).out.contains("1 kept (its time has not come)"), "it was used just now");
}

#[test]
fn usage_adds_up_with_costs_and_says_what_it_does_not_know() {
    let home = Home::new();
    let ids = past(&home, &["a", "b"]);
    let call = r#"{"type":"turn","state":"done","model":"house","ts":"2026-02-03T04:05:06Z","usage":{"input_tokens":7,"output_tokens":8}}"#;
    assert_eq!(home.feed(&["append", &ids[0]], call).code, 0);
    assert_eq!(run(&home, "", &["rm", &ids[1]]).code, 0);
    let said = run(&home, "", &["usage"]);
    assert_eq!(
        said.out,
        "DAY         TURNS  CALLS  TOOLS  INPUT  OUTPUT  CACHE WRITE  CACHE READ       COST\n\
         2026-01-01      2      2      0  2,000     400            0       6,000    $0.0138\n\
         2026-02-03      0      1      0      7       8            0           0    unknown\n\
         total           2      3      0  2,007     408            0       6,000  > $0.0138\n\
         Cache: 74% of what was sent was read from it.\n"
    );
    assert!(said.err.contains("no price is known for `house`"), "{said:?}");
    let priced = run(&home, "[prices.house]\ninput = 1000\noutput = 1000.0\n", &["usage", "--by", "model", "--json"]);
    let lines: Vec<Value> = priced.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines[0]["model"].as_str(), lines[0]["cost_usd"].as_f64()), (Some("house"), Some(0.015)));
    assert_eq!((lines[2]["total"].as_bool(), lines[2]["cost_usd"].as_f64()), (Some(true), Some(0.0288)));
    assert_eq!(priced.err, "");
    let one = run(&home, "", &["usage", "--by", "session", "--json", "--key", "main:cli:b*", "--since", "2026-01-01"]);
    assert!(one.out.lines().count() == 2 && one.out.contains("\"trashed\":true"), "{one:?}");
    let none = run(&home, "", &["usage", "--since", "2026-03-01"]);
    assert_eq!(none.out, "Nothing was used in that time.\n");
    assert!(run(&home, "", &["usage", "--by", "week", "--until", "2026-01-01"]).out.contains("2026-W01"));
    assert_eq!(run(&home, "", &["usage", "--agent", "nobody"]).out, "Nothing was used in that time.\n");
    assert_eq!(run(&home, "", &["usage", "--since", "yesterday"]).out, "Nothing was used in that time.\n");
    assert!(run(&home, "", &["usage", "--since", "50y", "--until", "2026-01-01"]).out.contains("2026-01-01"));
    assert!(run(&home, "", &["usage", "--since", "whenever"]).err.contains("`whenever` is no time"));
}

#[test]
fn the_chat_labels_expires_and_counts() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.say("hello there");
    let told = terminal.say("/usage");
    assert!(
        told.contains("This session:   1 turn, 1 call, 0 tool calls; $") && told.contains("Today, in all:  1 turn"),
        "{told}"
    );
    assert!(terminal.say("/expire").contains("This session expires as the settings say."));
    assert!(terminal.say("/expire 0").contains("error: `0` is no time"));
    assert!(terminal.say("/expire 30d").contains("goes to the trash 30d after its last record"));
    assert!(terminal.say("/label").contains("Label: (none)"));
    assert!(terminal.say("/label big plan").contains("Label: big plan (it never expires"));
    assert!(terminal.text().ends_with("[main:cli:user big plan] >"), "{}", terminal.text());
    assert!(terminal.say("/expire").contains("It has a label, and stays"));
    assert!(terminal.say("/label off").contains("Label: (none)"));
    let kinds: Vec<String> = scene.records().iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect();
    assert!(kinds.ends_with(&["expire".into(), "label".into(), "label".into()]), "{kinds:?}");
}

#[test]
fn tables_fit_a_window_of_80_columns_and_pipes_get_everything() {
    let scene = Scene::offline();
    let ids = past(&scene.home, &["a-peer-with-a-name-that-is-much-longer-than-others"]);
    let title = r#"{"type":"title","title":"a title that goes on and on, over the edge of any window that is not very wide","ts":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(scene.home.feed(&["append", &ids[0]], title).code, 0);
    let file = scene.home.write("rules.toml", RULES);
    let scene = scene.with("UNFORGET_CONFIG", file.to_str().unwrap());
    let path = "a/folder/in/a/folder/in/a/folder/with/notes-that-have-a-long-name.md";
    let wish = format!("write hello into {path}");
    assert_eq!(scene.run(&["chat", "--allow", "write_file", "-p", &wish]).code, 0);
    for args in [
        &["search", "help"][..],
        &["gc", "--dry-run"],
        &["usage", "--by", "session"],
        &["files", "main:cli:user"],
        &["restore-files", "main:cli:user", "--at", "1", "--dry-run"],
        &["sessions"],
    ] {
        let mut terminal = scene.start(args);
        assert_eq!(terminal.ends(), 0, "{args:?}: {}", terminal.text());
        // Folders of this run are as long as they are.
        let wide: Vec<String> = terminal.too_wide().into_iter().filter(|row| !row.contains("/work")).collect();
        assert!(wide.is_empty(), "{args:?}: {wide:#?}");
    }
    assert!(scene.run(&["gc", "--dry-run"]).out.contains(&ids[0]));
    assert!(scene.run(&["files", "main:cli:user"]).out.contains(path));
    assert!(scene.run(&["search", "help"]).out.contains("over the edge of any window that is not very wide"));
}

#[test]
fn the_chat_cleans_up_once_a_day_beside_the_conversation() {
    let scene = Scene::offline();
    let ids = past(&scene.home, &["old"]);
    let file = scene.home.write("rules.toml", RULES);
    let scene = scene.with("UNFORGET_CONFIG", file.to_str().unwrap());
    let mut terminal = scene.chat();
    // The line comes before the prompt that follows the work; how many prompts that takes is the thread's business.
    let mut told = String::new();
    for _ in 0..150 {
        told = terminal.say("/title");
        if terminal.text().contains("sessions cleaned up") {
            break;
        }
        // Its screen has room for some hundred prompts only.
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let text = terminal.text();
    assert!(text.contains("note: sessions cleaned up: 1 expired to the trash"), "{told}\n{text}");
    terminal.begin("/quit");
    terminal.ends();
    assert!(!scene.home.transcript(&ids[0]).exists());
    assert!(scene.run(&["undelete", &ids[0]]).code == 0 && scene.home.path("home/trash/gc.stamp").exists());
    // Not again today: the session that was brought back stays.
    let mut again = scene.chat();
    again.say("my name is Ada");
    again.begin("/quit");
    again.ends();
    assert!(scene.home.transcript(&ids[0]).exists());
}
