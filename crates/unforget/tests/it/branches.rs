//! `tree`, `diff`, `fork`, `checkpoint`: branches from the command line.

use serde_json::{Value, json};

use crate::support::Home;

/// A session with two lines: records 1 to 4, and behind 2 also 6 and 7, where it is now; 3 is named `there`.
fn two_lines(home: &Home) -> String {
    let id = home.ok(&["new", "--key", "main:cli:ada"]).trim().to_owned();
    let said = |kind: &str, text: &str| {
        format!("{{\"type\":\"{kind}\",\"content\":\"{text}\",\"ts\":\"2026-01-01T00:00:00Z\"}}\n")
    };
    let lines = [
        said("user", "plan a trip"),
        said("assistant", "where to?"),
        said("user", "to Japan"),
        said("assistant", "by plane?"),
        "{\"type\":\"head\",\"to\":2,\"reason\":\"rewind\"}\n".to_owned(),
        said("user", "to Japan"),
        said("assistant", "夜行列車?"),
        "{\"type\":\"label\",\"to\":3,\"name\":\"there\"}\n".to_owned(),
    ];
    assert_eq!(home.feed(&["append", &id], &lines.concat()).code, 0);
    id
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_tree_is_drawn_and_told() {
    let home = Home::new();
    let id = two_lines(&home);
    let rows = |args: &[&str]| -> Vec<String> {
        home.ok(args).lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    // Without a locale nobody can tell whether lines can be drawn.
    let drawn = rows(&["tree", &id]);
    assert_eq!(
        drawn,
        [
            "2 branches, 3 turns, at record 7 on `main`",
            "* 1 plan a trip 1 turn, 2026-01-01",
            "|-* 6 to Japan 1 turn, 2026-01-01",
            "| 7 [main] <- here",
            "* 3 to Japan 1 turn, 2026-01-01",
            "3 @ there",
        ]
    );
    assert_eq!(rows(&["tree", &id, "--all"]).len(), 6);
    let told = objects(&home.ok(&["tree", &id, "--json"]));
    assert_eq!(told[0], json!({"head": 7, "current": "main"}));
    assert_eq!((&told[1]["branch"]["tip"], &told[1]["branch"]["from"]), (&json!(4), &Value::Null));
    assert_eq!((&told[2]["branch"]["tip"], &told[2]["branch"]["from"]), (&json!(7), &json!(2)));
    assert_eq!(told[2]["branch"]["words"], "to Japan");
    assert_eq!((&told[4]["label"]["name"], &told[4]["label"]["as"]), (&json!("there"), &json!("checkpoint")));
    let lines = home.command().args(["tree", &id]).env("LANG", "en_US.UTF-8").output().unwrap();
    assert!(String::from_utf8(lines.stdout).unwrap().contains("├─● 6 to Japan"));
}

#[test]
fn a_diff_shows_where_lines_part_and_only_what_differs() {
    let home = Home::new();
    let id = two_lines(&home);
    let whole = "They part behind record 2. One record behind it says the same in both.\n\n\
                 main (record 7, where the conversation is)\n   7 assistant\n     夜行列車?\n\n\
                 record 4\n   4 assistant\n     by plane?\n";
    assert_eq!(home.ok(&["diff", &id]), whole);
    let named = home.ok(&["diff", &id, "there", "main"]);
    assert!(named.contains("\nthere (record 3)\n     (nothing more)\n"), "{named}");
    assert!(home.ok(&["diff", &id, "2", "2"]).ends_with("They do not differ.\n"));
    let told = objects(&home.ok(&["diff", &id, "--json"]));
    assert_eq!(told[0], json!({"parting": 2, "same": 1, "a": 7, "b": 4}));
    assert_eq!((&told[1]["side"], &told[1]["record"]["content"]), (&json!("a"), &json!("夜行列車?")));
    assert_eq!((&told[2]["side"], &told[2]["n"]), (&json!("b"), &json!(4)));
    let said = home.run(&["diff", &id, "nowhere"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.contains("no branch or checkpoint `nowhere`") && said.err.contains("main, there"), "{}", said.err);
    let alone = home.conversation("main:cli:bob", &["hello"]);
    assert!(home.run(&["diff", &alone]).err.contains("there is no other line"));
}

#[test]
fn a_fork_is_a_session_of_its_own() {
    let home = Home::new();
    let id = two_lines(&home);
    let said = home.run(&["fork", &id, "--at", "there", "--key", "main:cli:bob", "--label", "plan b"]);
    assert_eq!((said.code, said.err), (0, format!("forked {id} at record 3: 3 records copied\n")));
    let forked = said.out.trim();
    let messages = |id: &str| home.run(&["show", id, "--messages"]).out;
    assert!(messages(forked).contains("to Japan") && !messages(forked).contains("plane"));
    assert!(home.ok(&["show", forked]).contains(&format!("forked from {id} at record 3")));
    assert_eq!(home.run(&["rm", &id]).code, 0);
    assert_eq!(home.feed(&["append", "plan b"], "{\"type\":\"user\",\"content\":\"more\"}\n").code, 0);
    let row: Value = serde_json::from_str(&home.ok(&["sessions", "--json"])).unwrap();
    assert_eq!((&row["key"], &row["label"]), (&json!("main:cli:bob"), &json!("plan b")));
    assert_eq!(home.ok(&["doctor"]).lines().last().unwrap().split(": ").last(), Some("all is well"));
    let told = objects(&home.ok(&["fork", "plan b", "--json"]));
    assert_eq!((&told[0]["from"], &told[0]["records"]), (&json!(forked), &json!(4)));
    let wrong = home.run(&["fork", "plan b", "--at", "99"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("record 99 is no step") && wrong.err.contains("hint: "), "{}", wrong.err);
}

#[test]
fn checkpoints_are_set_moved_and_listed() {
    let home = Home::new();
    let id = two_lines(&home);
    assert_eq!(home.ok(&["checkpoint", &id, "now"]), "checkpoint now is record 7\n");
    assert_eq!(
        home.ok(&["checkpoint", &id, "now", "--at", "4"]),
        "checkpoint now is record 4 (and no longer record 7)\n"
    );
    let listed = home.ok(&["checkpoints", &id]);
    assert!(listed.lines().nth(1).unwrap().starts_with("    4  now "), "{listed}");
    let told = objects(&home.ok(&["checkpoints", &id, "--json"]));
    assert_eq!(
        told.iter().map(|label| (&label["name"], &label["to"])).collect::<Vec<_>>(),
        [(&json!("there"), &json!(3)), (&json!("now"), &json!(4))]
    );
    assert_eq!(home.run(&["checkpoint", &id, "12"]).code, 2);
    assert_eq!(home.ok(&["checkpoints", &home.conversation("main:cli:bob", &["x"])]), "No checkpoints yet.\n");
}

#[test]
fn a_file_with_two_beginnings_is_drawn_and_compared() {
    let home = Home::new();
    let header = "{\"v\":1,\"n\":0,\"type\":\"session\",\"id\":\"x\"}\n";
    let said = |n: u64, parent: u64| {
        format!("{{\"v\":1,\"n\":{n},\"parent\":{parent},\"type\":\"user\",\"content\":\"s{n}\"}}\n")
    };
    let file = home.write("two.jsonl", [header, &said(1, 0), header, &said(3, 0), &said(4, 3)].concat());
    let file = file.display().to_string();
    let said = home.run(&["diff", &file, "1", "4"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("They have nothing in common.\n"), "{}", said.out);
    assert!(home.run(&["tree", &file]).out.contains("* 1 s1"));
}
