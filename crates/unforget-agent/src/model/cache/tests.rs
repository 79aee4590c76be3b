use unforget_core::history::{Limits, Message, rebuild_all};
use unforget_core::scan;
use unforget_testkit::{generate, rules};

use super::*;

const TEXT: &str = r#"{"type":"text","text":"x"}"#;

fn message(role: Role, blocks: &[&str]) -> Message<'static> {
    Message { role, blocks: blocks.iter().map(|block| Cow::Owned((*block).to_owned())).collect() }
}

fn history(messages: Vec<Message<'static>>) -> History<'static> {
    History { messages, ..History::default() }
}

fn full(messages: Vec<Message<'static>>) -> History<'static> {
    let tools = r#"[{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object"}}]"#;
    History { system: Some("\"Be brief.\"".into()), tools: Some(tools.into()), ..history(messages) }
}

fn request(history: &History<'_>) -> String {
    let marked = mark(history);
    let member = |name: &str, value: &Option<Cow<'_, str>>| {
        value.as_ref().map(|value| format!("\"{name}\":{value},")).unwrap_or_default()
    };
    format!(
        "{{\"model\":\"m\",\"max_tokens\":9,{}{}\"messages\":{}}}",
        member("system", &marked.system),
        member("tools", &marked.tools),
        marked.messages
    )
}

/// A turn in which the model thinks, calls that many tools at once and is answered.
fn turn(number: usize, calls: usize) -> Vec<Message<'static>> {
    let uses: Vec<String> = (0..calls)
        .map(|call| format!(r#"{{"type":"tool_use","id":"t{number}_{call}","name":"a","input":{{"n":1.0}}}}"#))
        .collect();
    let results: Vec<String> = (0..calls)
        .map(|call| format!(r#"{{"type":"tool_result","tool_use_id":"t{number}_{call}","content":"ok"}}"#))
        .collect();
    let blocks = |texts: &[String]| texts.iter().map(|text| Cow::Owned(text.clone())).collect();
    vec![
        Message { role: Role::Assistant, blocks: blocks(&uses) },
        Message { role: Role::User, blocks: blocks(&results) },
    ]
}

#[test]
fn the_four_places_are_marked() {
    let user = |text: &str| message(Role::User, &[TEXT, &format!(r#"{{"type":"text","text":"{text}"}}"#)]);
    let history = full(vec![
        user("1"),
        message(Role::Assistant, &[TEXT]),
        user("2"),
        message(Role::Assistant, &[TEXT]),
        user("3"),
    ]);
    let marked = mark(&history);
    let mark = r#","cache_control":{"type":"ephemeral"}}"#;
    assert_eq!(marked.system.as_deref(), Some(format!(r#"[{{"type":"text","text":"Be brief."{mark}]"#).as_str()));
    let tools = r#"[{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object"}"#;
    assert_eq!(marked.tools.as_deref(), Some(format!("{tools}{mark}]").as_str()));
    let wanted = history.to_json().replace(r#""text":"2"}"#, &format!(r#""text":"2"{mark}"#));
    assert_eq!(marked.messages, wanted.replace(r#""text":"3"}"#, &format!(r#""text":"3"{mark}"#)));
    assert_eq!(rules::check(request(&history).as_bytes(), &rules::Server::default()), Ok(()));
}

#[test]
fn only_blocks_that_take_a_mark_get_one() {
    let thinking = r#"{"type":"thinking","thinking":"x","signature":"s"}"#;
    let redacted = r#"{"type":"redacted_thinking","data":"x"}"#;
    let blank = r#"{"type":"text","text":" \n"}"#;
    let unknown = r#"{"type":"brand_new"}"#;
    let marked = |blocks: &[&str]| {
        let place = last_places(&history(vec![message(Role::User, blocks)]));
        place.first().map(|place| place.block)
    };
    assert_eq!(marked(&[TEXT, thinking, redacted, blank, unknown]), Some(0));
    assert_eq!(marked(&[TEXT, TEXT, r#"{"type":"text","text":""}"#]), Some(1));
    assert_eq!(marked(&[thinking, blank]), None);
    assert_eq!(marked(&[]), None);
}

#[test]
fn a_place_that_does_not_exist_is_passed_over() {
    let bare = history(vec![message(Role::User, &[TEXT])]);
    let marked = mark(&bare);
    assert_eq!((marked.system, marked.tools), (None, None));
    assert_eq!(marked.messages.matches("cache_control").count(), 1);

    let empty = History { system: Some("\"\"".into()), tools: Some("[]".into()), ..history(vec![]) };
    let wanted = Marked { system: Some("\"\"".into()), tools: Some("[]".into()), messages: "[]".to_owned() };
    assert_eq!(mark(&empty), wanted);

    let deferred = r#"[{"name":"a"},{"name":"b","defer_loading":true}]"#;
    let marked = mark_tools(deferred).unwrap();
    assert_eq!(marked, format!(r#"[{{"name":"a",{MARK}}},{{"name":"b","defer_loading":true}}]"#));
}

#[test]
fn a_list_of_system_texts_is_marked_at_its_end() {
    let marked = mark_system(&format!("[{TEXT}, {TEXT}]")).unwrap();
    assert_eq!(marked, format!(r#"[{TEXT},{{"type":"text","text":"x",{MARK}}}]"#));
}

/// Where the marks of a request are, counted in blocks of its messages.
fn positions(history: &History<'_>) -> Vec<usize> {
    let value: serde_json::Value = serde_json::from_str(&mark(history).messages).unwrap();
    let messages = value.as_array().unwrap();
    let blocks = messages.iter().flat_map(|message| message["content"].as_array().unwrap());
    let marked = blocks.enumerate().filter(|(_, block)| block.get("cache_control").is_some());
    marked.map(|(position, _)| position).collect()
}

#[test]
fn a_gap_wider_than_the_look_back_gets_a_mark_of_its_own() {
    let conversation = |calls| {
        let mut messages = vec![message(Role::User, &[TEXT])];
        messages.extend(turn(1, calls));
        messages
    };
    // The last mark is as many blocks away as there are calls and results.
    assert_eq!(positions(&history(conversation(10))), [0, 20]);
    assert_eq!(positions(&history(conversation(11))), [0, 2, 22]);
    assert_eq!(positions(&history(conversation(15))), [0, 10, 30]);
    assert_eq!(positions(&history(conversation(40))), [0, 60, 80]);
    let full = full(conversation(15));
    let marked = mark(&full);
    assert_eq!(marked.tools, full.tools.as_deref().map(Cow::Borrowed), "the mark of the tools makes room");
    assert!(marked.system.unwrap().contains(MARK));
    assert_eq!(positions(&full), [0, 10, 30]);
    assert_eq!(rules::check(request(&full).as_bytes(), &rules::Server::default()), Ok(()));
}

/// A request without its marks, as far as its last mark.
fn remembered(request: &str) -> String {
    let end = request.rfind(MARK).unwrap();
    request[..end].replace(&format!(",{MARK}"), "").trim_end_matches(',').to_owned()
}

#[test]
fn what_a_request_leaves_in_the_cache_is_found_by_the_next_one() {
    for calls in [1, 3, 9, 12, 30] {
        let mut messages = vec![message(Role::User, &[TEXT])];
        let mut before: Option<(String, usize)> = None;
        for number in 0..12 {
            let now = full(messages.clone());
            let text = request(&now);
            let marks = positions(&now);
            if let Some((prefix, at)) = &before {
                assert!(
                    text.replace(&format!(",{MARK}"), "").starts_with(prefix),
                    "{text} does not begin with {prefix}"
                );
                assert!(marks.iter().any(|mark| mark >= at && mark - at < LOOK_BACK), "{at} is not found by {marks:?}");
            }
            before = Some((remembered(&text), *marks.last().unwrap()));
            messages.extend(turn(number, calls));
        }
    }
}

#[test]
fn marks_change_nothing_else_and_obey_the_rules() {
    for seed in 0..60 {
        let bytes = if seed % 2 == 0 { generate::soup(seed, 60) } else { generate::transcript(seed, "s", 20_000) };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let scanned = scan::scan(text.as_bytes());
        let history = rebuild_all(&scanned.records, &Limits::default());
        if history.messages.is_empty() {
            continue;
        }
        let marked = mark(&history);
        let (mark, only) = (format!(",{MARK}"), format!("{{{MARK}}}"));
        assert!(!marked.messages.contains(&only));
        assert_eq!(marked.messages.replace(&mark, ""), history.to_json(), "seed {seed}");
        assert!(request(&history).matches(&mark).count() <= MAX_MARKS);
        let verdict = |request: String| rules::check(request.as_bytes(), &rules::Server::default());
        assert_eq!(verdict(request(&history)), verdict(history.to_request("m", 9)), "seed {seed}");
    }
}
