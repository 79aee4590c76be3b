//! What is not as it should be is said: by `append`, `show`, `doctor` and in their JSON.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::Value;

use crate::support::Home;

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn h2_append_refuses_a_name_twice_and_says_which() {
    let home = Home::new();
    let said = home.feed(
        &["append", "--create", "main:cli:ada"],
        "{\"type\":\"user\",\"content\":\"benign\",\"content\":\"SHADOW\"}\n",
    );
    assert!(said.code == 1 && said.out.is_empty(), "{said:?}");
    assert!(said.err.contains("stdin, line 1: ") && said.err.contains("`content` twice"), "{said:?}");
}

#[test]
fn h3_show_doctor_and_their_json_tell_each_oddity_with_line_and_byte() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one", "two"]);
    let path = home.transcript(&id);
    let text = std::fs::read_to_string(&path).unwrap();
    let second = text.find('\n').unwrap() + 1;
    let third = second + text[second..].find('\n').unwrap() + 1;
    std::fs::write(&path, format!("\u{feff}{}\n{}{}", &text[..second], &text[second..third - 1], &text[third..]))
        .unwrap();
    // Behind the mark and an empty line.
    let glued = third + 3;
    let said = home.run(&["show", &id]);
    assert_eq!(said.code, 0, "nothing is lost: {said:?}");
    for what in [
        "line 1, byte 0: byte order mark",
        &format!("line 2, byte {}: blank", second + 3),
        &format!("line 3, byte {glued}: a line feed is missing"),
    ] {
        assert!(said.err.contains(&format!("note: {}, {what}", path.display())), "{what}: {said:?}");
        assert!(said.out.contains(&format!("! {what}")), "{what}: {said:?}");
    }
    let shown = json_lines(&home.run(&["show", &id, "--json"]).out);
    let told: Vec<(u64, u64, &str, &str)> = shown
        .iter()
        .filter_map(|line| line.get("note"))
        .map(|note| {
            let number = |name: &str| note[name].as_u64().unwrap();
            (number("line"), number("offset"), note["weight"].as_str().unwrap(), note["kind"].as_str().unwrap())
        })
        .collect();
    let (blank, glued) = (second as u64 + 3, glued as u64);
    assert_eq!(
        told,
        [(1, 0, "oddity", "byte_order_mark"), (2, blank, "oddity", "blank"), (3, glued, "oddity", "missing_line_feed")]
    );
    let said = home.run(&["doctor"]);
    assert!(said.code == 0 && said.out.contains("all is well; 3 oddities that harm nothing are noted"), "{said:?}");
    assert!(said.out.contains("noted  ") && said.out.contains("line 1, byte 0: byte order mark"), "{said:?}");
    let found = json_lines(&home.run(&["doctor", "--json"]).out);
    assert_eq!(found.iter().filter(|line| line["weight"] == "oddity").count(), 3);
    assert_eq!(found.last().unwrap()["oddities"], 3);
}

#[test]
fn h7_append_refuses_a_user_record_without_words() {
    let home = Home::new();
    for content in ["\"\"", "\" \\n\"", "[]"] {
        let line = format!("{{\"type\":\"user\",\"content\":{content}}}\n");
        let said = home.feed(&["append", "--create", "main:cli:ada"], &line);
        assert!(said.code == 1 && said.out.is_empty() && said.err.contains("without words"), "{content}: {said:?}");
    }
}

#[test]
fn h7_a_type_with_letters_that_look_like_others_is_spelled_out() {
    let home = Home::new();
    let said = home.feed(&["append", "--create", "main:cli:ada"], "{\"type\":\"us\u{435}r\",\"content\":\"hi\"}\n");
    assert!(said.code == 0 && said.err.contains("`us\\u{435}r` is no type"), "{said:?}");
    let said = home.run(&["doctor"]);
    assert!(said.out.contains("unknown type `us\\u{435}r`"), "{said:?}");
}

#[test]
fn h7_a_transcript_that_others_can_change_is_reported_and_told_to_its_writer() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let (path, own) = (home.transcript(&id), std::fs::metadata("/proc/self").unwrap().uid());
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    let append = || home.feed(&["append", &id], "{\"type\":\"user\",\"content\":\"more\"}\n");
    mode(0o666);
    let said = append();
    assert!(said.code == 0 && said.err.starts_with("warning: ") && said.err.contains("(mode 666)"), "{said:?}");
    let said = home.run(&["doctor"]);
    assert!(said.code == 4 && said.out.contains("other users can change it (mode 666)"), "{said:?}");
    // A group that was let in is reported, and its members are not warned each time.
    mode(0o660);
    assert_eq!((append().err.as_str(), home.run(&["doctor"]).code), ("", 4));
    assert_eq!(home.run(&["doctor", "--fix"]).code, 0);
    if own == 0 {
        std::os::unix::fs::chown(&path, Some(4242), None).unwrap();
        let said = append();
        assert!(said.err.contains("it belongs to another user (uid 4242)"), "{said:?}");
        let said = home.run(&["doctor", "--fix"]);
        assert!(said.code == 4 && said.out.contains("belongs to another user (uid 4242)"), "{said:?}");
    }
}
