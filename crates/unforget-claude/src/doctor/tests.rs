//! Small transcripts of the shape that 2.1.325 writes, each with one thing wrong.

use proptest::prelude::*;
use unforget_core::{json, lines};

use super::*;
use crate::id::SessionId;

const OLD: &str = "11111111-1111-4111-8111-111111111111";
const NEW: &str = "22222222-2222-4222-8222-222222222222";

fn line(type_: &str, uuid: &str, parent: &str, rest: &str) -> String {
    let parent = if parent == "-" { "null".to_owned() } else { json::quote(parent) };
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{type_}",{rest},"uuid":"{uuid}","timestamp":"2026-01-01T00:00:00.000Z","userType":"external","cwd":"/home/ada/app","sessionId":"{OLD}","version":"2.1.325"}}"#
    )
}

fn prompt(uuid: &str, parent: &str, words: &str) -> String {
    line("user", uuid, parent, &format!(r#""message":{{"role":"user","content":{}}}"#, json::quote(words)))
}

fn block(uuid: &str, parent: &str, message: &str, content: &str) -> String {
    let message = format!(r#""message":{{"id":"{message}","role":"assistant","content":[{content}]}}"#);
    line("assistant", uuid, parent, &message)
}

fn says(uuid: &str, parent: &str, message: &str) -> String {
    block(uuid, parent, message, r#"{"type":"text","text":"yes"}"#)
}

fn call(uuid: &str, parent: &str, message: &str, id: &str) -> String {
    block(uuid, parent, message, &format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}"#))
}

fn result(uuid: &str, parent: &str, id: &str) -> String {
    let content = format!(r#"{{"tool_use_id":"{id}","type":"tool_result","content":"done"}}"#);
    line("user", uuid, parent, &format!(r#""message":{{"role":"user","content":[{content}]}}"#))
}

fn attachment(uuid: &str, parent: &str) -> String {
    line("attachment", uuid, parent, r#""attachment":{"type":"date"}"#)
}

fn ends_at(uuid: &str) -> String {
    format!(r#"{{"type":"last-prompt","lastPrompt":"words","leafUuid":"{uuid}","sessionId":"{OLD}"}}"#)
}

fn boundary(uuid: &str, before: &str, named: &str) -> String {
    let rest = format!(
        r#""subtype":"compact_boundary","logicalParentUuid":"{before}","compactMetadata":{{"trigger":"manual","preservedMessages":{{"anchorUuid":"s1","uuids":["{named}"],"allUuids":["{named}"]}}}}"#
    );
    line("system", uuid, "-", &rest)
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn told(text: &str, activity: Activity) -> Vec<(u64, Problem)> {
    let findings = examine(text.as_bytes(), activity, &|_| true);
    findings.into_iter().map(|finding| (finding.line, finding.problem)).collect()
}

fn found(lines: &[String]) -> Vec<(u64, Problem)> {
    told(&joined(lines), Activity::Ended)
}

fn orphan(id: &str) -> Problem {
    Problem::OrphanedCall { id: id.to_owned(), tool: "Bash".to_owned() }
}

fn stray(id: &str) -> Problem {
    Problem::StrayResult { id: id.to_owned() }
}

fn broken(parent: &str) -> Problem {
    Problem::BrokenParent { parent: Some(parent.to_owned()) }
}

fn dropped(last_line: u64, prompts: u64, messages: u64, words: &str) -> Problem {
    Problem::DroppedBranch { last_line, prompts, messages, words: words.to_owned() }
}

/// Two calls that ran together: each result hangs below its own call, and the answer below the one that came last.
fn together() -> Vec<String> {
    vec![
        prompt("u1", "-", "both"),
        attachment("x1", "u1"),
        says("a1", "x1", "m1"),
        call("a2", "a1", "m1", "c1"),
        call("a3", "a2", "m1", "c2"),
        result("r2", "a3", "c2"),
        result("r1", "a2", "c1"),
        attachment("x2", "r1"),
        says("a4", "x2", "m2"),
        ends_at("a4"),
        prompt("u2", "a4", "next"),
        says("a5", "u2", "m3"),
        ends_at("a5"),
    ]
}

/// The copy, and that nothing is wrong with it.
fn repaired(lines: &[String]) -> Vec<String> {
    copied(lines).unwrap()
}

fn copied(lines: &[String]) -> Result<Vec<String>, Refusal> {
    let (session, mut count) = (SessionId::parse(NEW).unwrap(), 0);
    let mut new_uuid = || {
        count += 1;
        format!("new{count}")
    };
    let mut stamp = Stamp { session: &session, new_uuid: &mut new_uuid, now: "2026-02-02T00:00:00.000Z" };
    let copy = repair(joined(lines).as_bytes(), &mut stamp)?;
    assert_eq!(found(&copy), []);
    Ok(copy)
}

/// Identity and parent of each line of the tree.
fn tree(lines: &[String]) -> Vec<String> {
    let text = |line: &str, name: &str| {
        let members = json::members(line).unwrap();
        json::member(&members, name).map(|raw| json::string(raw).map_or("-".to_owned(), std::borrow::Cow::into_owned))
    };
    let pair = |line: &String| Some(format!("{}<{}", text(line, "uuid")?, text(line, "parentUuid")?));
    lines.iter().filter_map(pair).collect()
}

#[test]
fn calls_that_ran_together_are_no_branches() {
    assert_eq!(found(&together()), []);
}

#[test]
fn a_call_without_a_result_is_told_unless_it_may_still_come() {
    let mut lines = together();
    lines.remove(5);
    assert_eq!(found(&lines), [(5, orphan("c2"))]);
    assert_eq!(told(&joined(&lines), Activity::Live), [(5, orphan("c2"))]);
    let open = [prompt("u1", "-", "go"), call("a1", "u1", "m1", "c1")];
    assert_eq!(found(&open), [(2, orphan("c1"))]);
    assert_eq!(told(&joined(&open), Activity::Live), []);
}

#[test]
fn a_result_without_a_call_is_told() {
    let lines = [prompt("u1", "-", "go"), result("r1", "u1", "c9"), says("a1", "r1", "m1")];
    assert_eq!(found(&lines), [(2, stray("c9"))]);
    assert_eq!(tree(&repaired(&lines)), ["u1<-", "a1<u1"]);
}

#[test]
fn a_line_that_continues_nothing_is_told_and_bridged() {
    let lines = [
        prompt("u1", "-", "one"),
        says("a1", "u1", "m1"),
        says("a2", "gone", "m2"),
        prompt("u3", "a2", "three").replace("\"parentUuid\":\"a2\",", ""),
    ];
    assert_eq!(found(&lines), [(3, broken("gone")), (4, Problem::BrokenParent { parent: None })]);
    assert_eq!(tree(&repaired(&lines)), ["u1<-", "a1<u1", "a2<a1", "u3<a2"]);
}

#[test]
fn what_a_second_window_wrote_is_told_and_stays_behind() {
    let lines = [
        prompt("u1", "-", "one"),
        says("a1", "u1", "m1"),
        attachment("x1", "a1"),
        prompt("l1", "x1", "left  \u{1b}[2J window"),
        says("l2", "l1", "m2"),
        prompt("r1", "a1", "right"),
        says("r2", "r1", "m3"),
        format!(r#"{{"type":"file-history-snapshot","messageId":"l1","sessionId":"{OLD}"}}"#),
    ];
    assert_eq!(found(&lines), [(4, dropped(5, 1, 2, "left [2J window"))]);
    let copy = repaired(&lines);
    assert_eq!(tree(&copy), ["u1<-", "a1<u1", "r1<a1", "r2<r1"]);
    assert_eq!(copy.len(), 5);
}

#[test]
fn the_end_is_where_the_transcript_says_unless_it_goes_on_from_there() {
    let branch = |end: Option<&str>| {
        let mut lines = vec![
            prompt("u1", "-", "one"),
            says("a1", "u1", "m1"),
            prompt("u2", "a1", "two"),
            says("a2", "u2", "m2"),
            prompt("u3", "a1", "three"),
            says("a3", "u3", "m3"),
        ];
        lines.extend(end.map(ends_at));
        found(&lines)
    };
    assert_eq!(branch(None), [(3, dropped(4, 1, 2, "two"))]);
    assert_eq!(branch(Some("a2")), [(5, dropped(6, 1, 2, "three"))]);
    assert_eq!(branch(Some("u3")), [(3, dropped(4, 1, 2, "two"))]);
    assert_eq!(branch(Some("gone")), [(3, dropped(4, 1, 2, "two"))]);
}

#[test]
fn an_end_that_a_person_chose_counts_until_something_is_said() {
    let chosen = ends_at("a1").replace("\"sessionId\"", "\"explicit\":true,\"sessionId\"");
    let mut lines = vec![
        prompt("u1", "-", "one"),
        says("a1", "u1", "m1"),
        prompt("u2", "a1", "two"),
        says("a2", "u2", "m2"),
        chosen,
    ];
    assert_eq!(found(&lines), [(3, dropped(4, 1, 2, "two"))]);
    lines.push(prompt("u3", "a2", "three"));
    assert_eq!(found(&lines), []);
}

#[test]
fn what_was_said_before_a_boundary_is_part_of_the_conversation() {
    let lines = [
        prompt("u1", "-", "one"),
        says("a1", "u1", "m1"),
        boundary("b1", "a1", "a1"),
        prompt("s1", "b1", "summary"),
        says("a2", "s1", "m2"),
    ];
    assert_eq!(found(&lines), []);
    assert_eq!(tree(&repaired(&lines)), ["u1<-", "a1<u1", "b1<-", "s1<b1", "a2<s1"]);
    // With its tail alone, the line that the boundary names has no parent, and needs none.
    assert_eq!(found(&lines[1..]), []);
    assert_eq!(tree(&repaired(&lines[1..])), ["a1<u1", "b1<-", "s1<b1", "a2<s1"]);
}

#[test]
fn of_two_lines_with_one_identity_the_later_counts_in_the_place_of_the_first() {
    let lines = [prompt("u1", "-", "one"), says("a1", "u1", "m1"), prompt("u1", "-", "other"), says("a1", "u1", "m1")];
    assert_eq!(found(&lines), [(3, Problem::DifferentDouble { uuid: "u1".to_owned(), earlier_line: 1 })]);
    let copy = repaired(&lines);
    assert_eq!(tree(&copy), ["u1<-", "a1<u1"]);
    assert!(copy[0].contains("\"other\""));
}

#[test]
fn lines_that_cannot_be_read_and_a_missing_line_feed_are_told() {
    let text = format!("{}\n\nnot json\n{}", prompt("u1", "-", "one"), says("a1", "u1", "m1"));
    assert_eq!(told(&text, Activity::Ended), [(3, Problem::NotAnObject), (4, Problem::NoFinalLineFeed)]);
    let torn = format!("{}\n{{\"type\":\"us", prompt("u1", "-", "one"));
    assert_eq!(told(&torn, Activity::Live), []);
    assert_eq!(told(&torn, Activity::Ended), [(2, Problem::NotAnObject), (2, Problem::NoFinalLineFeed)]);
    assert_eq!(told("", Activity::Ended), []);
}

#[test]
fn files_that_are_missing_are_told_once() {
    let output = r#""message":{"role":"user","content":[{"tool_use_id":"c1","type":"tool_result","content":"<persisted-output>\nOutput too large (340.7KB). Full output saved to: /c/projects/-app/1/tool-results/b2.txt\n\nPreview"}]},"toolUseResult":{"agentId":"a7c4"}"#;
    let lines = [
        prompt("u1", "-", "go"),
        call("a1", "u1", "m1", "c1"),
        line("user", "r1", "a1", output),
        line("user", "r2", "r1", &output.replace("b2", "b3")),
    ];
    let asked = std::cell::RefCell::new(Vec::new());
    let findings = examine(joined(&lines).as_bytes(), Activity::Ended, &|name| {
        asked.borrow_mut().push(name.to_owned());
        !name.ends_with("b2.txt")
    });
    let missing = Problem::MissingFile { name: "/c/projects/-app/1/tool-results/b2.txt".to_owned() };
    assert_eq!(findings, [Finding { line: 3, problem: missing }]);
    let files =
        ["/c/projects/-app/1/tool-results/b2.txt", "subagents/agent-a7c4", "/c/projects/-app/1/tool-results/b3.txt"];
    assert_eq!(asked.into_inner(), files);
}

#[test]
fn an_agents_transcript_is_looked_at_like_any_other() {
    let lines = [prompt("u1", "-", "go"), call("a1", "u1", "m1", "c1")];
    let lines = lines.map(|line| line.replace("\"isSidechain\":false", "\"isSidechain\":true"));
    assert_eq!(found(&lines), [(2, orphan("c1"))]);
}

#[test]
fn calls_without_results_are_answered_behind_their_message() {
    let mut lines = together();
    lines.drain(5..10);
    lines[5] = prompt("u2", "a3", "next");
    assert_eq!(found(&lines), [(4, orphan("c1")), (5, orphan("c2"))]);
    let copy = repaired(&lines);
    let expected = ["u1<-", "x1<u1", "a1<x1", "a2<a1", "a3<a2", "new1<a2", "new2<a3", "u2<new2", "a5<u2"];
    assert_eq!(tree(&copy), expected);
    let answer = r#"{"parentUuid":"a2","isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"No result of this call was recorded: "#;
    assert!(copy[5].starts_with(answer));
    assert!(copy[5].contains(r#""is_error":true,"tool_use_id":"c1""#));
    assert!(
        copy[5].contains(r#""timestamp":"2026-02-02T00:00:00.000Z""#) && copy[5].contains(r#""cwd":"/home/ada/app""#)
    );
}

#[test]
fn the_copy_is_another_session_and_otherwise_the_same_lines() {
    let mut lines = together();
    lines.insert(3, format!(r#"{{"type":"cost-state","x":{{"sessionId":"{OLD}"}},"sessionId":"{OLD}"}}"#));
    let copy = repaired(&lines);
    let mut expected: Vec<String> = lines.iter().filter(|line| !line.contains("last-prompt")).cloned().collect();
    for line in &mut expected {
        // The last one is the line's own.
        let at = line.rfind(OLD).unwrap();
        line.replace_range(at..at + OLD.len(), NEW);
    }
    expected.push(format!(
        r#"{{"type":"last-prompt","lastPrompt":"words","leafUuid":"a5","explicit":true,"sessionId":"{NEW}"}}"#
    ));
    assert_eq!(copy, expected);
}

#[test]
fn lines_that_name_each_other_end() {
    let lines = [prompt("u1", "a1", "one"), says("a1", "u1", "m1"), attachment("x1", "x2"), attachment("x2", "x1")];
    assert_eq!(found(&lines), [(1, dropped(2, 1, 2, "one"))]);
}

proptest! {
    /// Whatever is lost, and whatever is written again at the end, nothing is wrong with the copy, and a copy of it is the same;
    /// where lines contradict each other there may be none.
    #[test]
    fn a_copy_needs_no_repair(kept in proptest::collection::vec(any::<bool>(), 17), again in proptest::collection::vec(0..17_usize, 0..3)) {
        let mut pool = together();
        pool.extend([prompt("u9", "a4", "other"), call("a9", "u9", "m9", "c9"), boundary("b1", "a5", "a5"), "torn {".to_owned()]);
        let once = pool.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(line, _)| line.clone());
        let lines: Vec<String> = once.chain(again.iter().map(|index| pool[*index].clone())).collect();
        let Ok(copy) = copied(&lines) else { return Ok(()) };
        prop_assert!(copy.iter().all(|line| lines::is_object(line.as_bytes())));
        prop_assert_eq!(repaired(&copy), copy);
    }
}

#[test]
fn b11_a_branch_without_words_has_no_empty_quotation() {
    let told = |words: &str, prompts| {
        let words = words.to_owned();
        super::Problem::DroppedBranch { last_line: 7, prompts, messages: 1, words }.to_string()
    };
    assert_eq!(told("", 0), "resuming leaves out a branch up to line 7 (0 prompts, 1 message)");
    assert_eq!(told("hello", 1), "resuming leaves out a branch up to line 7 (1 prompt, 1 message): `hello`");
}
