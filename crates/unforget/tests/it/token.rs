//! Tokens for a server, from end to end: made, listed, taken back.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{Home, Said};

/// Runs a command with its settings in the home.
fn run(home: &Home, args: &[&str]) -> Said {
    let output = home.command().env("UNFORGET_CONFIG", home.path("settings/config.toml")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

fn listed(home: &Home) -> Vec<Value> {
    let said = run(home, &["token", "ls", "--json"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn z06_a_token_is_told_once_and_alone_on_stdout() {
    let home = Home::new();
    let said = run(&home, &["token", "add", "ada", "--label", "laptop", "--expires", "30d"]);
    assert_eq!(said.code, 0, "{said:?}");
    let token = said.out.trim_end();
    assert!(token.starts_with("uft_") && token.len() == 47 && said.out == format!("{token}\n"), "{said:?}");
    assert!(said.err.contains("whoever sends it is ada, until ") && !said.err.contains(token), "{said:?}");
    let file = home.path("settings/tokens.jsonl");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let list = run(&home, &["token", "ls"]);
    for text in [std::fs::read_to_string(&file).unwrap(), list.out] {
        assert!(text.contains("ada") && text.contains("laptop") && !text.contains(&token[4..]), "{text}");
    }
}

#[test]
fn tokens_are_listed_and_taken_back_by_the_beginning_of_their_id() {
    let home = Home::new();
    let empty = run(&home, &["token", "ls"]);
    assert_eq!((empty.code, empty.out.as_str()), (0, ""), "{empty:?}");
    assert!(empty.err.contains("unforget token add ACTOR"), "{empty:?}");
    let made: Value = serde_json::from_str(&run(&home, &["token", "add", "ada", "--json"]).out).unwrap();
    run(&home, &["token", "add", "bob"]);
    let all = listed(&home);
    assert_eq!((all.len(), &all[0]["actor"], &all[1]["actor"]), (2, &"ada".into(), &"bob".into()));
    assert_eq!((&all[0]["id"], &all[0]["expires"]), (&made["id"], &Value::Null));
    assert!(all[0].get("token").is_none() && made["token"].as_str().unwrap().starts_with("uft_"));
    let id = made["id"].as_str().unwrap();
    let removed = run(&home, &["token", "rm", &id[..10]]);
    assert_eq!((removed.code, removed.out), (0, format!("removed {id} of ada\n")));
    assert_eq!(listed(&home), all[1..]);
    let again = run(&home, &["token", "rm", id]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("unforget token ls"), "{again:?}");
}

#[test]
fn what_is_no_name_and_no_time_is_refused() {
    let home = Home::new();
    for args in [["token", "add", "", "--expires", "1d"], ["token", "add", "ada", "--expires", "6m"]] {
        let said = run(&home, &args);
        assert_ne!(said.code, 0, "{said:?}");
        assert_eq!(said.out, "");
    }
    assert!(!home.path("settings").exists());
}
