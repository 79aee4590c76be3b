use std::sync::Arc;

use super::*;
use crate::medium::Os;
use crate::scan::scan;

fn heard(lines: &[&str]) -> Vec<(&'static str, Option<String>, String)> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let nowhere = Blobs::new(Arc::new(Os::new(std::env::temp_dir().join("there-is-no-such-home"))));
    let mut ear = Ear::default();
    let records = scan(text.as_bytes()).records;
    let said = records.iter().flat_map(|record| ear.hear(record, &nowhere).unwrap());
    said.map(|said| (said.role.name(), said.tool, said.text.trim().replace('\n', "|"))).collect()
}

fn one(line: &str) -> String {
    heard(&[line]).iter().map(|(role, _, text)| format!("{role}: {text}")).collect::<Vec<_>>().join("; ")
}

#[test]
fn words_are_heard_and_thinking_is_not() {
    assert_eq!(one(r#"{"type":"user","content":"a\nb"}"#), "user: a|b");
    assert_eq!(
        one(
            r#"{"type":"assistant","content":[{"type":"thinking","thinking":"hmm","signature":"x"},{"type":"text","text":"Hi"},{"type":"text","text":"there"}]}"#
        ),
        "assistant: Hi|there"
    );
    assert_eq!(one(r#"{"v":1,"n":1,"type":"title","title":"T"}"#), "title: T");
    assert_eq!(one(r#"{"v":1,"n":1,"type":"label","to":3,"name":"before"}"#), "label: before");
    assert_eq!(one(r#"{"v":1,"n":1,"parent":0,"type":"compaction","summary":"S"}"#), "summary: S");
    assert_eq!(one(r#"{"v":1,"n":1,"parent":0,"type":"error","message":"E"}"#), "");
}

#[test]
fn a_call_says_its_tool_and_all_that_is_in_its_arguments() {
    assert_eq!(
        one(
            r#"{"type":"tool_use","tool_use_id":"t","name":"bash","input":{"command":"ls -l","deep":[{"k\u0065y":"v"},-42.5,true]}}"#
        ),
        "tool_use: bash|command: ls -l|deep: key: v|42.5"
    );
}

#[test]
fn a_result_knows_its_tool() {
    let call = r#"{"type":"tool_use","tool_use_id":"t","name":"bash","input":{}}"#;
    let result = r#"{"type":"tool_result","tool_use_id":"t","output":[{"type":"text","text":"done"},{"type":"image","source":{"type":"base64","data":"QUJD"}}]}"#;
    let said = heard(&[call, result]);
    assert_eq!(said[1].1.as_deref(), Some("bash"));
    assert!(said[1].2.contains("text: done"), "{said:?}");
    let blocks = r#"{"type":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"u","name":"read","input":{"path":"a"}}]}"#;
    let answer = r#"{"type":"user","content":[{"type":"tool_result","tool_use_id":"u","content":"words of a"}]}"#;
    let said = heard(&[blocks, answer]);
    let said: Vec<(&str, Option<&str>, &str)> = said.iter().map(|(r, t, x)| (*r, t.as_deref(), x.as_str())).collect();
    assert_eq!(
        said,
        [
            ("assistant", None, "I look."),
            ("tool_use", Some("read"), "read|path: a"),
            ("tool_result", Some("read"), "words of a"),
        ]
    );
}

#[test]
fn a_payload_that_is_gone_counts_by_its_beginning() {
    let hash = "0".repeat(64);
    let line = format!(
        r#"{{"v":1,"n":1,"parent":0,"type":"user","content":{{"sha256":"{hash}","bytes":300000,"preview":"the beginning"}},"blobs":["/content"]}}"#
    );
    assert_eq!(one(&line), "user: the beginning");
}

#[test]
fn encoded_files_are_not_heard_and_long_texts_are_cut() {
    let data = "A".repeat(1000);
    let line = format!(r#"{{"type":"tool_result","tool_use_id":"t","output":[{{"source":{{"data":"{data}"}}}}]}}"#);
    assert_eq!(one(&line), "tool_result: source: data:");
    let long = "é".repeat(MAX_TEXT);
    let line = format!(r#"{{"type":"user","content":"{long}"}}"#);
    assert_eq!(heard(&[&line])[0].2.len(), MAX_TEXT);
}

#[test]
fn as_many_calls_as_there_may_be_are_remembered() {
    let mut calls = Calls::default();
    for n in 0..MAX_CALLS + 10 {
        calls.add(&n.to_string(), "x");
        calls.add(&n.to_string(), "y");
    }
    assert_eq!((calls.names.len(), calls.order.len()), (MAX_CALLS, MAX_CALLS));
    assert!(calls.names.contains_key("100") && !calls.names.contains_key("5"));
}
