//! Transcripts that are too large for any one request, line or patience.

use unforget_core::directory::OnMissing;
use unforget_core::history::Limits;
use unforget_core::log::Sealed;
use unforget_core::medium::Os;
use unforget_core::reader::LogReader;
use unforget_core::report::NoteKind;
use unforget_testkit::generate;

use super::*;
use crate::support::{disk_store, store_on};
use unforget_testkit::counting::Counting;

const MB: usize = 1 << 20;
/// What the API refuses to take.
const MAX_REQUEST: usize = 32 * 1000 * 1000;
const MAX_MESSAGES: usize = 100_000;

#[test]
fn f40_a_line_of_fifty_megabytes_is_sent_shortened() {
    let (home, store) = disk_store();
    let mut bytes = fixture("F32_header_only");
    bytes.extend(b"{\"type\":\"user\",\"content\":\"go\"}\n");
    bytes.extend(b"{\"type\":\"tool_use\",\"name\":\"t\",\"tool_use_id\":\"toolu_1\",\"input\":{}}\n");
    bytes.extend(b"{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_1\",\"output\":\"");
    bytes.resize(bytes.len() + 50 * MB, b'x');
    bytes.extend(b"\"}\n{\"type\":\"assistant\",\"content\":\"done\"}\n");
    place(&home, &bytes);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!((entry.row.records, entry.row.damage), (5, 0));
    let restored = store.history(&entry, &Limits::default()).unwrap();
    assert_eq!(
        outline(&restored.history),
        ["user: go", "assistant: call toolu_1", "user: result toolu_1", "assistant: done"]
    );
    assert!(restored.history.to_request("claude-opus-5", 1024).len() < MAX_REQUEST);
    assert_accepted(&restored.history, "a line of 50 MB");
    assert!(restored.history.repairs.iter().any(|repair| repair.kind.name() == "shortened"));
}

#[test]
fn f40_a_result_of_fifty_megabytes_goes_to_a_blob_and_its_line_stays_short() {
    let (home, store) = disk_store();
    let mut session = store.create(&"main:cli:user".parse().unwrap(), None).unwrap();
    let output = format!("\"{}\"", "x".repeat(50 * MB));
    let call = Draft::tool_use(None, "toolu_1", "t", "{}");
    session.append(&[Draft::user("go"), call, Draft::tool_result("toolu_1", &output)]).unwrap();
    let file = std::fs::read(home.path().join("home").join(session.path())).unwrap();
    assert!(file.len() < 2000, "{} bytes", file.len());
    let line: serde_json::Value = serde_json::from_slice(physical(&file)[3].1).unwrap();
    let hash = line["output"]["sha256"].as_str().unwrap();
    assert_eq!(store.blobs().get(hash).unwrap(), output.as_bytes());
    let restored = session.history(&Limits::default()).unwrap();
    assert!(restored.history.to_request("claude-opus-5", 1024).len() < MAX_REQUEST);
    assert_accepted(&restored.history, "a blob of 50 MB");
}

#[test]
fn f41_hundreds_of_thousands_of_lines_give_a_request_that_the_api_takes() {
    // 200,000 lines instead of a million, so that a debug build is done in a few seconds.
    let (home, store) = disk_store();
    let mut bytes = fixture("F32_header_only");
    for turn in 0..100_000 {
        bytes.extend(format!("{{\"type\":\"user\",\"content\":\"q{turn}\"}}\n").bytes());
        bytes.extend(format!("{{\"type\":\"assistant\",\"content\":\"a{turn}\"}}\n").bytes());
    }
    place(&home, &bytes);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!((entry.row.records, entry.row.turns), (200_001, 100_000));
    let restored = store.history(&entry, &Limits::default()).unwrap();
    let said = outline(&restored.history);
    assert!(said.len() < MAX_MESSAGES, "{} messages", said.len());
    assert!(said.len() > MAX_MESSAGES / 2, "{} messages", said.len());
    assert_eq!(said.last().unwrap(), "assistant: a99999");
    assert!(restored.history.repairs.iter().any(|repair| repair.kind.name() == "earlier_left_out"));
    assert_accepted(&restored.history, "200,000 lines");
}

#[test]
fn f41_resuming_reads_only_the_end_of_a_long_transcript() {
    let (home, store) = disk_store();
    place(&home, &generate::transcript(1, "abc123", 20 * MB));
    let medium = Counting::new(Os::new(home.path().join("home")));
    let entry = store.list().unwrap().entries.remove(0);
    let counted = store_on(medium.clone());
    let restored = counted.history(&entry, &Limits::tokens(20_000)).unwrap();
    assert_accepted(&restored.history, "the end of 20 MB");
    assert!(restored.history.messages.len() > 10);
    assert!(medium.bytes_read() < MB as u64, "{} bytes read", medium.bytes_read());
}

#[test]
fn f41_resuming_reads_nothing_before_the_last_compaction() {
    let (home, store) = disk_store();
    place(&home, &generate::transcript(1, "abc123", 20 * MB));
    let mut session = store.load(&"main:cli:user".parse().unwrap(), OnMissing::Fail).unwrap();
    session.append(&[Draft::compaction("all of it in short", None), Draft::user("on")]).unwrap();
    drop(session);
    let medium = Counting::new(Os::new(home.path().join("home")));
    let entry = store.list().unwrap().entries.remove(0);
    let restored = store_on(medium.clone()).history(&entry, &Limits::tokens(1_000_000)).unwrap();
    assert_eq!(outline(&restored.history), ["user: [Summary of the conversation so far]\nall of it in short | on"]);
    assert!(medium.bytes_read() < MB as u64, "{} bytes read", medium.bytes_read());
}

#[test]
fn f41_a_list_with_a_current_snapshot_reads_no_transcript() {
    let (home, store) = disk_store();
    place(&home, &generate::transcript(1, "abc123", 4 * MB));
    let first = store.list().unwrap();
    store.refresh(&first).unwrap();
    let medium = Counting::new(Os::new(home.path().join("home")));
    let mut read = Vec::new();
    let second = store_on(medium.clone()).list_with(|path, _| read.push(path.to_path_buf())).unwrap();
    assert_eq!((second.entries, read), (first.entries, Vec::new()));
    assert!(medium.bytes_read() < 4096, "{} bytes read", medium.bytes_read());
}

#[test]
fn f42_an_unterminated_tail_of_64_megabytes_is_passed_over() {
    let (home, store) = disk_store();
    let (bytes, tail) = giant_tail();
    place(&home, &bytes);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!((entry.row.records, entry.row.damage), (6, 1));
    let restored = store.history(&entry, &Limits::default()).unwrap();
    assert_eq!(outline(&restored.history), CLEAN);
    assert_eq!(notes(&restored.report), [(CLEAN_BYTES, tail as u64, "too_long")]);
}

#[test]
fn f42_no_more_than_the_longest_line_is_held_in_memory() {
    let (home, store) = disk_store();
    let (bytes, tail) = giant_tail();
    place(&home, &bytes);
    let entry = store.list().unwrap().entries.remove(0);
    let reader = store.read(&entry).unwrap();
    let last = |reader: &LogReader| {
        let mut backward = reader.backward();
        let line = backward.next().unwrap().unwrap();
        (line.offset, line.len, line.bytes.len(), line.terminated)
    };
    assert_eq!(last(&reader), (CLEAN_BYTES, tail as u64, 0, false));
    let mut forward = reader.forward(CLEAN_BYTES);
    let line = forward.next().unwrap().unwrap();
    assert_eq!((line.len, line.bytes.len(), line.terminated), (tail as u64, 0, false));
    assert!(forward.next().unwrap().is_none());
}

#[test]
fn f42_a_writer_moves_a_tail_of_64_megabytes_aside_intact() {
    let (home, store) = disk_store();
    let (bytes, tail) = giant_tail();
    place(&home, &bytes);
    let mut session = store.load(&"main:cli:user".parse().unwrap(), OnMissing::Fail).unwrap();
    let to = PathBuf::from("agents/main/sessions/abc123.torn-1");
    assert_eq!(session.sealed(), Some(&Sealed::MovedAside { to: to.clone(), bytes: tail as u64 }));
    assert!(std::fs::read(home.path().join("home").join(to)).unwrap() == bytes[CLEAN_BYTES as usize..]);
    save(&mut session, 1);
    let restored = session.history(&Limits::default()).unwrap();
    assert_eq!(outline(&restored.history)[4..], turns([1]));
    assert!(!restored.report.notes.iter().any(|note| note.kind == NoteKind::TooLong));
}

#[test]
fn f42_a_line_just_over_the_limit_is_too_long_for_every_reader() {
    let (home, store) = disk_store();
    let (mut bytes, tail) = giant_tail();
    bytes.extend(b"\"}\n{\"type\":\"user\",\"content\":\"next\"}\n");
    place(&home, &bytes);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!((entry.row.records, entry.row.damage), (7, 1), "forward");
    let restored = store.history(&entry, &Limits::default()).unwrap();
    assert_eq!(notes(&restored.report), [(CLEAN_BYTES, tail as u64 + 2, "too_long")], "at once");
    let reader = store.read(&entry).unwrap();
    let mut backward = reader.backward();
    backward.next().unwrap().unwrap();
    let line = backward.next().unwrap().unwrap();
    assert_eq!((line.offset, line.len, line.bytes.len()), (CLEAN_BYTES, tail as u64 + 2, 0), "backward");
}

/// The clean transcript and more than 64 MB without a line feed, and the length of those.
fn giant_tail() -> (Vec<u8>, usize) {
    let mut bytes = fixture("F00_clean");
    bytes.extend(b"{\"type\":\"user\",\"content\":\"");
    bytes.resize(bytes.len() + 64 * MB, b'x');
    let tail = bytes.len() - CLEAN_BYTES as usize;
    (bytes, tail)
}

/// Puts a transcript on a real disk as the session `abc123`.
fn place(home: &tempfile::TempDir, bytes: &[u8]) {
    let path = home.path().join("home").join(FIXTURE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn f41_without_a_budget_no_more_is_read_than_a_few_requests_hold() {
    let (home, store) = disk_store();
    place(&home, &generate::transcript(1, "abc123", 20 * MB));
    let medium = Counting::new(Os::new(home.path().join("home")));
    let entry = store.list().unwrap().entries.remove(0);
    let limits = Limits { bytes: MB, ..Limits::default() };
    let restored = store_on(medium.clone()).history(&entry, &limits).unwrap();
    assert_accepted(&restored.history, "the end of 20 MB");
    assert!(restored.history.to_json().len() > MB / 2, "what fits is there");
    assert!(medium.bytes_read() < 8 * MB as u64, "{} bytes read", medium.bytes_read());
}
