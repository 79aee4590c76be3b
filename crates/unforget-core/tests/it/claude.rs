//! Sessions of Claude Code, read in place: files that two versions of the real program wrote, with the requests that it sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use unforget_core::Error;
use unforget_core::history::foreign_messages;
use unforget_core::layout::AgentDir;
use unforget_core::lines::{Physical, split};
use unforget_core::listing::ListQuery;
use unforget_core::medium::Os;
use unforget_core::record::{Body, Record};
use unforget_core::scan::{Scan, Scanner, scan};
use unforget_core::search::Query;
use unforget_core::stamp::SessionId;
use unforget_core::store::Store;
use unforget_core::tree::Tree;
use unforget_core::usage::{Ledger, Tokens};
use unforget_testkit::counting::Counting;

use crate::support::disk_store;

const VERSIONS: [&str; 2] = ["2.1.325", "2.1.197"];
const LAST: &str = "the last prompt";

fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/claude-{version}"))
}

fn fixture(version: &str, name: &str) -> String {
    std::fs::read_to_string(folder(version).join(format!("{name}.jsonl"))).unwrap()
}

/// The names of the sessions that were recorded with a version.
fn names(version: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder(version)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.to_str()?.strip_suffix(".jsonl")?.to_owned())).collect();
    names.sort();
    assert!(names.len() >= 19, "{names:?}");
    names
}

/// What was in the file when the last prompt was sent.
fn when_sent(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let is_prompt = |line: &&str| {
        let line = kind(line);
        line["type"] == "user" && line["message"]["content"].to_string().contains(LAST)
    };
    let prompt = lines.iter().rposition(is_prompt).unwrap();
    let answer = lines[prompt..].iter().position(|line| kind(line)["type"] == "assistant");
    let end = answer.map_or(lines.len(), |at| prompt + at);
    lines[..end].iter().map(|line| format!("{line}\n")).collect()
}

/// Messages with what means the same spelled the same: one text is a string, marks for the cache are none of the conversation.
fn plain(messages: Vec<Value>, version: &str) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for mut message in messages {
        // An older version makes these up for each request; they are in no file.
        if version == "2.1.197" && message["role"] == "system" {
            continue;
        }
        let object = message.as_object_mut().unwrap();
        object.remove("output_config");
        if let Some(blocks) = object.get_mut("content").and_then(Value::as_array_mut) {
            blocks.iter_mut().for_each(|block| drop(block.as_object_mut().unwrap().remove("cache_control")));
            let is_made_up = |block: &Value| {
                block["text"]
                    .as_str()
                    .is_some_and(|text| text.trim_start().starts_with("<system-reminder>\n[cut]") || text == "[cut]")
            };
            blocks.retain(|block| version != "2.1.197" || !is_made_up(block));
            if blocks.is_empty() {
                continue;
            }
            if let [block] = blocks.as_slice()
                && block["type"] == "text"
            {
                let text = block["text"].clone();
                object.insert("content".to_owned(), text);
            }
        }
        out.push(message);
    }
    out
}

#[test]
fn messages_are_those_that_the_real_program_sent() {
    let mut failed = Vec::new();
    for version in VERSIONS {
        for name in names(version) {
            let text = when_sent(&fixture(version, &name));
            let scanned = scan(text.as_bytes());
            let made: Vec<Value> = foreign_messages(&scanned.records)
                .messages
                .iter()
                .map(|text| serde_json::from_str(text).unwrap())
                .collect();
            let sent = std::fs::read_to_string(folder(version).join(format!("{name}.request.json"))).unwrap();
            let sent: Vec<Value> = serde_json::from_str(&sent).unwrap();
            let (made, sent) = (plain(made, version), plain(sent, version));
            if made != sent {
                let at =
                    made.iter().zip(&sent).position(|(one, other)| one != other).unwrap_or(made.len().min(sent.len()));
                failed.push(format!(
                    "{version} {name}: {} messages, {} were sent; message {at}:\n  {:?}\n  {:?}",
                    made.len(),
                    sent.len(),
                    made.get(at).map(ToString::to_string),
                    sent.get(at).map(ToString::to_string)
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn nothing_in_a_real_session_is_damage_and_every_line_is_a_record_with_its_bytes() {
    for version in VERSIONS {
        for name in names(version) {
            let text = fixture(version, &name);
            let scanned = scan(text.as_bytes());
            assert_eq!(scanned.report.notes, [], "{version} {name}");
            let raw: Vec<&str> = scanned.records.iter().map(|record| record.raw).collect();
            assert_eq!(raw, text.lines().collect::<Vec<_>>(), "{version} {name}");
            let numbers: Vec<u64> = scanned.records.iter().map(|record| record.n).collect();
            assert_eq!(numbers, (0..raw.len() as u64).collect::<Vec<_>>(), "{version} {name}");
        }
    }
}

/// What is said, in a few letters: who, and how it begins.
fn said(scanned: &Scan<'_>) -> Vec<String> {
    let short = |text: &str| text.chars().take(24).collect::<String>();
    scanned
        .records
        .iter()
        .filter_map(|record| match &record.body {
            Body::User { content } => Some(format!("user {}", short(content))),
            Body::Assistant { content, .. } => Some(format!("assistant {}", short(content))),
            Body::ToolUse(call) => Some(format!("call {} {}", call.name, short(call.input))),
            Body::ToolResult(result) => Some(format!("result {}", short(result.content))),
            Body::Compaction { first_kept, .. } => Some(format!("summary, kept from {first_kept:?}")),
            Body::Error { message } => Some(format!("error {}", short(message))),
            Body::Title { title } => Some(format!("title {}", short(title))),
            _ => None,
        })
        .collect()
}

#[test]
fn words_calls_results_and_summaries_are_told_apart_from_what_nobody_said() {
    let text = fixture("2.1.325", "tool");
    let lines = said(&scan(text.as_bytes()));
    assert_eq!(lines.iter().filter(|line| line.starts_with("user")).count(), 2, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("call Bash")).count(), 1, "{lines:#?}");
    for version in VERSIONS {
        for (name, what) in [
            ("compact-manual", "summary, kept from Some"),
            ("compact-auto", "summary, kept from Some"),
            ("api-error", "error "),
            ("titled", "title "),
        ] {
            let text = fixture(version, name);
            let lines = said(&scan(text.as_bytes()));
            assert!(lines.iter().any(|line| line.starts_with(what)), "{version} {name}: {lines:#?}");
        }
    }
}

fn tree(text: &str) -> (Tree, usize) {
    let scanned = scan(text.as_bytes());
    let mut tree = Tree::default();
    scanned.records.iter().for_each(|record| tree.feed(record));
    let branches = tree.branches().len();
    (tree, branches)
}

#[test]
fn parallel_calls_and_compactions_are_no_branches_and_what_was_left_behind_is_one() {
    for version in VERSIONS {
        for (name, branches) in [
            ("tool", 1),
            ("parallel", 1),
            ("parallel-reversed", 1),
            ("compact-manual", 1),
            ("compact-auto", 1),
            ("fork", 2),
            ("concurrent", 2),
        ] {
            assert_eq!(tree(&fixture(version, name)).1, branches, "{version} {name}");
        }
    }
}

/// What a scanner finds out about a line besides its bytes.
fn found(record: &Record<'_>) -> String {
    format!("{} {:?} {:?} {:?}", record.n, record.parent, record.body, record.foreign)
}

#[test]
fn a_reader_that_goes_on_later_finds_what_one_that_read_everything_finds() {
    for version in VERSIONS {
        for name in names(version) {
            let text = fixture(version, &name);
            let lines: Vec<Physical<'_>> = split(text.as_bytes(), 0).collect();
            let whole: Vec<String> = scan(text.as_bytes()).records.iter().map(found).collect();
            for stop in 0..lines.len() {
                let (mut scanner, mut records) = (Scanner::default(), Vec::new());
                lines[..stop].iter().for_each(|line| scanner.feed(line, |record| records.push(found(&record))));
                let kept = serde_json::to_string(&scanner).unwrap();
                let mut later: Scanner = serde_json::from_str(&kept).unwrap();
                assert_eq!(serde_json::to_string(&later).unwrap(), kept, "{version} {name}: {stop}");
                lines[stop..].iter().for_each(|line| later.feed(line, |record| records.push(found(&record))));
                assert_eq!(records, whole, "{version} {name}: {stop}");
            }
        }
    }
}

#[test]
fn a_list_reads_only_what_a_session_got_since_the_last_one() {
    let home = tempfile::tempdir().unwrap();
    let text = fixture(VERSIONS[0], "big-output");
    let id = SessionId::parse("6f1c2a9e-3d53-4f86-9a74-0e3b9f1f2c11").unwrap();
    let path = home.path().join(AgentDir::of("claude").transcript(&id));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // The same lines under other names, again and again.
    let copy = |n: usize| {
        let named = text.replace("\"uuid\":\"", &format!("\"uuid\":\"{n:04}"));
        named.replace("\"parentUuid\":\"", &format!("\"parentUuid\":\"{n:04}"))
    };
    let long: String = (0..20).map(copy).collect();
    std::fs::write(&path, &long).unwrap();
    let listed = |store: &Store| store.list(&ListQuery::default()).unwrap().entries[0].row.clone();
    listed(&Store::open(home.path()).unwrap());
    let more = copy(20);
    std::fs::write(&path, long + &more).unwrap();
    let counting = Counting::new(Os::new(home.path()));
    let store = Store::builder(home.path()).medium(Arc::new(counting.clone())).open().unwrap();
    let row = listed(&store);
    let read = counting.bytes_read();
    assert!(read < 2 * more.len() as u64 + 4096, "{read} bytes read for {} new ones", more.len());
    assert_eq!(row, listed(&Store::builder(home.path()).without_index().open().unwrap()));
}

#[test]
fn tokens_of_a_message_are_counted_once_however_many_lines_it_has() {
    for version in VERSIONS {
        for name in ["tool", "parallel", "thinking"] {
            let text = fixture(version, name);
            let mut largest: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                if let Some(id) = line["message"]["id"].as_str() {
                    let usage = &line["message"]["usage"];
                    let total = Tokens::parse(&usage.to_string()).unwrap().total();
                    let most = largest.entry(id.to_owned()).or_default();
                    *most = total.max(*most);
                }
            }
            let mut ledger = Ledger::default();
            scan(text.as_bytes()).records.iter().for_each(|record| ledger.feed(record));
            assert_eq!(ledger.total().tokens.total(), largest.values().sum::<u64>(), "{version} {name}");
            assert_eq!(ledger.total().calls, largest.len() as u64, "{version} {name}");
        }
    }
}

#[test]
fn a_kept_session_is_listed_found_and_read_and_never_written() {
    let (_folder, store) = disk_store();
    let dir = AgentDir::of("claude");
    let id = SessionId::parse("6f1c2a9e-3d53-4f86-9a74-0e3b9f1f2c11").unwrap();
    let text = fixture("2.1.325", "titled");
    assert!(store.begin_foreign(&dir, &id, |out| out.write_all(text.as_bytes())).unwrap());
    assert!(!store.begin_foreign(&dir, &id, |out| out.write_all(b"other")).unwrap(), "what is there stays");
    let listing = store.list().unwrap();
    let entry = &listing.entries[0];
    assert_eq!(entry.row.key.as_deref(), Some("claude:code:/home/ada/app"));
    assert!(entry.row.title.is_some() && entry.row.turns >= 1 && entry.row.tokens > 0, "{:?}", entry.row);
    assert_eq!(store.entry(&id).unwrap().unwrap().row.key, entry.row.key, "known by its id alone, too");
    assert!(matches!(store.open(entry), Err(Error::NotOurs { .. })));
    let bytes = store.read(entry).unwrap().read_all().unwrap();
    assert_eq!(bytes, text.as_bytes(), "byte for byte, also after someone wanted to write");
}

#[test]
fn its_files_are_kept_by_their_content_and_the_last_one_counts() {
    use unforget_core::directory::FileNote;
    use unforget_core::files::Seen;
    let (_folder, store) = disk_store();
    let dir = AgentDir::of("claude");
    let id = SessionId::parse("6f1c2a9e-3d53-4f86-9a74-0e3b9f1f2c11").unwrap();
    let note = |name: &str, bytes: &[u8], modified_ns| FileNote {
        name: name.to_owned(),
        seen: Seen::Bytes(bytes.to_vec()),
        bytes: bytes.len() as u64,
        modified_ns,
    };
    let notes = [note("session/a.txt", b"one", 1), note("session/b.bin", &[0xff, 0, 1], 2)];
    assert_eq!(store.keep_files(&dir, &id, &notes).unwrap(), 2);
    assert_eq!(store.keep_files(&dir, &id, &[note("session/a.txt", b"two", 3)]).unwrap(), 1);
    let kept = store.kept_files(&dir, &id).unwrap();
    let bytes = |name: &str| store.kept_bytes(&kept[name]).unwrap().unwrap();
    assert_eq!((bytes("session/a.txt"), bytes("session/b.bin")), (b"two".to_vec(), vec![0xff, 0, 1]));
    assert_eq!((kept["session/a.txt"].modified_ns, kept["session/a.txt"].bytes), (3, 3));
    assert_eq!(store.sides(&dir, &id).unwrap().len(), 1, "one list of one home");
}

#[test]
fn hostile_lines_of_another_program_are_read_without_harm() {
    let deep = format!(
        "{{\"uuid\":\"a\",\"type\":\"user\",\"message\":{{\"content\":{}1{}}}}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    let lines = [
        r#"{"uuid":"a","parentUuid":"a","type":"user","message":{"content":"my own parent"}}"#,
        r#"{"uuid":"b","parentUuid":"c","type":"user","message":{"content":"of the future"}}"#,
        r#"{"uuid":"c","parentUuid":"b","type":"assistant","message":{"id":"m","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":18446744073709551615,"output_tokens":18446744073709551615}}}"#,
        r#"{"uuid":"c","parentUuid":null,"type":"assistant","message":{"id":"m","content":"again"}}"#,
        r#"{"uuid":7,"sessionId":[],"type":"user","message":"no object"}"#,
        r#"{"sessionId":"x","type":"system","subtype":"compact_boundary","uuid":"d","logicalParentUuid":"nowhere","compactMetadata":{"preservedMessages":{"uuids":["z",1,null]}}}"#,
        r#"{"sessionId":"x","type":"user","isCompactSummary":true,"uuid":"e","parentUuid":"d","message":{"content":[]}}"#,
        &deep,
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let scanned = scan(text.as_bytes());
    assert_eq!(scanned.records.len(), lines.len());
    let before = |record: &Record<'_>| match record.parent {
        unforget_core::record::Parent::Record(n) => n < record.n,
        _ => true,
    };
    assert!(scanned.records.iter().all(before), "no way leads in a circle");
    drop(foreign_messages(&scanned.records));
    let (tree, _) = tree(&text);
    tree.branches();
}

#[test]
fn what_nobody_said_is_not_found() {
    let (_folder, store) = disk_store();
    let dir = AgentDir::of("claude");
    let id = SessionId::parse("6f1c2a9e-3d53-4f86-9a74-0e3b9f1f2c11").unwrap();
    let text = fixture("2.1.325", "tool");
    store.begin_foreign(&dir, &id, |out| out.write_all(text.as_bytes())).unwrap();
    let entry = store.list().unwrap().entries.remove(0);
    let reader = store.read(&entry).unwrap();
    let mut scanner = unforget_core::scan::Scanner::default();
    let mut ear = unforget_core::search::Ear::default();
    let mut heard = String::new();
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next().unwrap() {
        scanner.feed(&line, |record| {
            for said in ear.hear(&record, &store.blobs()).unwrap() {
                heard.push_str(&said.text);
            }
        });
    }
    assert!(heard.contains(LAST) && !heard.contains("[cut"), "{heard}");
    assert!(Query::parse(LAST).is_ok());
}

#[test]
fn a_second_window_that_did_not_know_of_the_compaction_goes_on_behind_its_summary() {
    let line = |uuid: &str, parent: &str, words: &str| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"message":{{"role":"user","content":"{words}"}}}}"#
        )
    };
    let lines = [
        line("a", "null", "long ago"),
        r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#.to_owned(),
        r#"{"type":"user","isCompactSummary":true,"uuid":"s","parentUuid":"b","message":{"role":"user","content":"the summary"}}"#.to_owned(),
        line("c", "\"s\"", "here"),
        line("d", "\"a\"", "in another window"),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let messages = foreign_messages(&scan(text.as_bytes()).records).messages;
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("the summary") && messages[0].contains("in another window"), "{messages:?}");
    assert!(!messages[0].contains("long ago") && !messages[0].contains("here"), "{messages:?}");
}
