//! A repaired copy is never worse than the original: the API's rules say so of recorded sessions and of hundreds of damaged ones.

use std::collections::BTreeMap;

use unforget_claude::doctor::{Activity, Refusal, Stamp, examine, repair};
use unforget_claude::id::SessionId;
use unforget_core::history::foreign_messages;
use unforget_core::scan::scan;
use unforget_testkit::mutants::{mutants, recorded};
use unforget_testkit::rules;

const COPY: &str = "22222222-2222-4222-8222-222222222222";

fn fixed(bytes: &[u8]) -> Result<String, Refusal> {
    let (session, mut count) = (SessionId::parse(COPY).unwrap(), 0);
    let mut new_uuid = || {
        count += 1;
        format!("33333333-3333-4333-8333-{count:012}")
    };
    let mut stamp = Stamp { session: &session, new_uuid: &mut new_uuid, now: "2026-02-02T00:00:00.000Z" };
    Ok(repair(bytes, &mut stamp)?.iter().map(|line| format!("{line}\n")).collect())
}

/// What the API says to the messages, with the next words of a person if the model spoke last.
fn accepted(text: &str) -> Result<usize, rules::Rejection> {
    let history = foreign_messages(&scan(text.as_bytes()).records);
    assert_eq!(history.repairs, [], "{text}");
    let mut messages = history.messages;
    let count = messages.len();
    match messages.last() {
        None => return Ok(0),
        Some(last) if last.starts_with("{\"role\":\"assistant\"") => {
            messages.push("{\"role\":\"user\",\"content\":\"go on\"}".to_owned());
        }
        Some(_) => {}
    }
    rules::check_messages(format!("[{}]", messages.join(",")).as_bytes()).map(|()| count)
}

/// Everything that is said, a text and how often; ids are no words.
fn words(text: &str) -> BTreeMap<String, usize> {
    fn collect(value: &serde_json::Value, words: &mut BTreeMap<String, usize>) {
        match value {
            serde_json::Value::String(text) => *words.entry(text.trim().to_owned()).or_default() += 1,
            serde_json::Value::Array(list) => list.iter().for_each(|value| collect(value, words)),
            serde_json::Value::Object(members) => {
                let members = members.iter().filter(|(name, _)| !["id", "tool_use_id"].contains(&name.as_str()));
                members.for_each(|(_, value)| collect(value, words));
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    for message in foreign_messages(&scan(text.as_bytes()).records).messages {
        collect(&serde_json::from_str(&message).unwrap(), &mut found);
    }
    found
}

#[test]
fn h5_a_copy_of_a_recorded_session_says_all_that_the_original_says() {
    for (name, text) in recorded() {
        let copy = fixed(text.as_bytes()).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        accepted(&copy).unwrap_or_else(|rejection| panic!("{name}: {rejection}"));
        let (before, after) = (words(&text), words(&copy));
        let missing: Vec<&String> = before.keys().filter(|word| !after.contains_key(*word)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
fn h5_a_copy_of_a_damaged_session_is_valid_or_there_is_none() {
    let (mut copies, mut refused, mut changed) = (0, Vec::new(), 0);
    for (name, bytes) in mutants(24, 11) {
        match fixed(&bytes) {
            Ok(copy) => {
                copies += 1;
                accepted(&copy).unwrap_or_else(|rejection| panic!("{name}: {rejection}"));
                assert_eq!(examine(copy.as_bytes(), Activity::Ended, &|_| true), [], "{name}");
                changed += usize::from(fixed(copy.as_bytes()).as_deref() != Ok(copy.as_str()));
            }
            Err(refusal) => refused.push(format!("{name}: {refusal}")),
        }
    }
    assert_eq!(changed, 0, "a copy of a copy is another");
    assert!(copies > 800 && refused.len() * 20 < copies, "{copies} copies, refused:\n{}", refused.join("\n"));
}

#[test]
fn h5_a_call_with_a_bad_id_that_was_never_answered_is_renamed_and_answered() {
    let (name, text) = recorded().into_iter().find(|(name, _)| name.ends_with("2.1.197 killed")).unwrap();
    let (before, rest) = text.split_once("\"id\":\"toolu_").unwrap();
    let id = format!("toolu_{}", rest.split('"').next().unwrap());
    let damaged = format!("{before}\"id\":\"toolu_{rest}").replace(&id, "toolu.bad:1");
    let copy = fixed(damaged.as_bytes()).unwrap();
    assert!(
        !copy.contains("\"id\":\"toolu.bad:1\"") && !copy.contains("\"tool_use_id\":\"toolu.bad:1\""),
        "{name}: {copy}"
    );
    accepted(&copy).unwrap();
    let shown = foreign_messages(&scan(copy.as_bytes()).records).messages.join("\n");
    assert!(shown.contains("No result of this call was recorded"), "{shown}");
}
