//! What is not as a writer leaves it: read as well as possible, and reported with its place.

use unforget_core::directory::Directory;
use unforget_core::doctor::{self, Mode};
use unforget_core::history::{Limits, RepairKind, rebuild_all};
use unforget_core::record::{Draft, Envelope};
use unforget_core::report::{NoteKind, Weight};
use unforget_core::scan::scan;
use unforget_testkit::crash::CrashMedium;

use crate::support::{assert_accepted, crash_store};

const KEY: &str = "main:cli:user";

/// A native session with these records in it, and its bytes.
fn session(drafts: &[Draft]) -> (CrashMedium, Directory, std::path::PathBuf, Vec<u8>) {
    let (medium, store) = crash_store();
    let mut session = store.create(&KEY.parse().unwrap(), None).unwrap();
    session.append(drafts).unwrap();
    let path = session.path().to_path_buf();
    let bytes = medium.read(&path).unwrap();
    (medium, store, path, bytes)
}

fn three_turns() -> Vec<Draft> {
    let turn = |n: u64| [Draft::user(&format!("question {n}")), Draft::assistant(None, &format!("\"answer {n}\""))];
    (1..=3).flat_map(turn).collect()
}

/// Line, offset and name of everything that is damage or odd.
fn notes(bytes: &[u8]) -> Vec<(Option<u64>, u64, &'static str)> {
    let report = scan(bytes).report;
    let told = report.notes.iter().filter(|note| note.kind.weight() != Weight::Remark);
    told.map(|note| (note.line, note.offset, note.kind.name())).collect()
}

/// Where a line begins; the first one is line 1.
fn line_at(bytes: &[u8], line: usize) -> u64 {
    bytes.split_inclusive(|byte| *byte == b'\n').take(line - 1).map(<[u8]>::len).sum::<usize>() as u64
}

#[test]
fn h2_a_name_twice_is_refused_when_written_and_nothing_is_acknowledged() {
    let (medium, store, path, before) = session(&[Draft::user("hi")]);
    let entry = store.list().unwrap().entries.remove(0);
    let mut session = store.open(&entry).unwrap();
    let shadow = r#"{"type":"user","content":"benign","content":"SHADOW"}"#;
    let told = Draft::from_json(shadow).unwrap_err().to_string();
    assert!(told.contains("`content` twice"), "{told}");
    let nested = r#"{"type":"tool_use","tool_use_id":"t","name":"bash","input":{"command":"ls","comm\u0061nd":"rm"}}"#;
    assert!(Draft::from_json(nested).unwrap_err().to_string().contains("`command` twice"));
    for draft in [
        Draft::user("a").text("content", "b"),
        Draft::assistant(None, r#"[{"type":"text","text":"a","text":"b"}]"#),
        Draft::tool_use(None, "t", "bash", r#"{"command":"ls","command":"rm"}"#),
    ] {
        session.append(&[draft]).unwrap_err();
    }
    assert_eq!(medium.read(&path).unwrap(), before);
}

#[test]
fn h2_a_name_twice_in_a_transcript_is_reported_with_its_place_and_not_sent() {
    let lines = [
        r#"{"type":"session","id":"abc123","key":"main:cli:user"}"#,
        r#"{"type":"user","content":"benign","content":"SHADOW"}"#,
        r#"{"type":"user","content":"and"}"#,
        r#"{"type":"tool_use","tool_use_id":"toolu_1","name":"bash","input":{"command":"ls","command":"rm"}}"#,
        r#"{"type":"tool_result","tool_use_id":"toolu_1","output":"done"}"#,
        "",
    ];
    let bytes = lines.join("\n").into_bytes();
    let second = line_at(&bytes, 2) + 34;
    let input = line_at(&bytes, 4) + 81;
    assert_eq!(notes(&bytes), [(Some(2), second, "duplicate_name"), (Some(4), input, "duplicate_name")]);
    let scanned = scan(&bytes);
    assert_eq!(scanned.report.damage_count(), 2);
    let history = rebuild_all(&scanned.records, &Limits::default());
    assert_accepted(&history, "with names twice");
    let sent = history.to_json();
    assert!(!sent.contains("SHADOW") && !sent.contains("benign") && !sent.contains("rm"), "{sent}");
    assert!(sent.contains("the arguments of this call have one name twice; it was not run"), "{sent}");
    let kinds: Vec<&str> = history.repairs.iter().map(|repair| repair.kind.name()).collect();
    assert_eq!(kinds, ["record_left_out", "input_ambiguous"]);
}

#[test]
fn h2_arguments_that_were_kept_as_text_are_not_decoded_if_a_name_is_in_them_twice() {
    let lines = [
        r#"{"type":"user","content":"go"}"#,
        r#"{"type":"tool_use","tool_use_id":"toolu_1","name":"bash","input":"{\"command\":\"ls\",\"command\":\"rm\"}"}"#,
        "",
    ];
    let bytes = lines.join("\n").into_bytes();
    let history = rebuild_all(&scan(&bytes).records, &Limits::default());
    assert_eq!(history.repairs[0].kind, RepairKind::InputAmbiguous("toolu_1".to_owned()));
    assert_accepted(&history, "arguments as text");
}

#[test]
fn h3_each_odd_form_of_a_file_is_read_whole_and_reported_with_line_and_byte() {
    let (_, _, _, native) = session(&three_turns());
    let header = "{\"type\":\"session\",\"id\":\"abc123\",\"key\":\"main:cli:user\"}\n";
    let one = "{\"type\":\"user\",\"content\":\"one\"}\n";
    let tutorial = format!("{header}{one}{header}{one}");
    let glued = line_at(&native, 4);
    let joined = [&native[..usize::try_from(glued).unwrap() - 1], &native[usize::try_from(glued).unwrap()..]].concat();
    let text = String::from_utf8(native.clone()).unwrap();
    let (second, third) = (line_at(&native, 2), line_at(&native, 3));
    let blank =
        format!("{}\n \t\n{}", &text[..usize::try_from(second).unwrap()], &text[usize::try_from(second).unwrap()..]);
    let spaced = text.replacen("\n", "  \n", 1);
    type Place = (Option<u64>, u64, &'static str);
    let cases: [(&str, Vec<u8>, Vec<Place>); 7] = [
        ("a line feed is missing", joined, vec![(Some(3), glued - 1, "missing_line_feed")]),
        ("a byte order mark", format!("\u{feff}{text}").into_bytes(), vec![(Some(1), 0, "byte_order_mark")]),
        ("blank lines", blank.into_bytes(), vec![(Some(2), second, "blank")]),
        ("carriage returns", text.replace('\n', "\r\n").into_bytes(), vec![(Some(1), second - 1, "carriage_return")]),
        ("blanks at the end of a line", spaced.into_bytes(), vec![(Some(1), second - 1, "trailing_blanks")]),
        (
            "no last line feed",
            native[..native.len() - 1].to_vec(),
            vec![(Some(7), native.len() as u64 - 1, "missing_line_feed")],
        ),
        (
            "a second header",
            tutorial.clone().into_bytes(),
            vec![(Some(3), line_at(tutorial.as_bytes(), 3), "second_header")],
        ),
    ];
    assert!(third > second);
    for (what, bytes, want) in cases {
        let told: Vec<_> =
            notes(&bytes).into_iter().filter(|(_, _, name)| *name != "blank" || what == "blank lines").collect();
        assert_eq!(told, want, "{what}");
        let scanned = scan(&bytes);
        assert_eq!(scanned.report.damage_count(), 0, "{what}: nothing is lost");
        let expected = if what == "a second header" { 4 } else { 7 };
        assert_eq!(scanned.records.len(), expected, "{what}: every record is read");
    }
}

#[test]
fn h3_the_doctor_tells_of_oddities_and_calls_none_of_them_a_fault() {
    let (medium, store, path, native) = session(&three_turns());
    let text = String::from_utf8(native).unwrap();
    medium.write_file(&path, format!("\u{feff}{}", text.replace('\n', "\r\n")).as_bytes()).unwrap();
    let diagnosis = doctor::examine(&store, None, Mode::Look, |_| {}).unwrap();
    assert_eq!(diagnosis.open().count(), 0);
    let told: Vec<&str> = diagnosis.oddities().map(|finding| finding.problem.as_str()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "line 1, byte 0: byte order mark, ignored");
    assert!(told[1].starts_with("line 1, byte ") && told[1].contains("of 7 lines from here on"), "{told:?}");
}

#[test]
fn h3_many_oddities_do_not_hide_damage() {
    let mut bytes = Vec::new();
    for _ in 0..5_000 {
        bytes.extend_from_slice(b"{\"type\":\"user\",\"content\":\"a\"} \n\n");
    }
    bytes.extend_from_slice(b"rubbish\n");
    let report = scan(&bytes).report;
    assert_eq!(report.damage().map(|note| note.line).collect::<Vec<_>>(), [Some(10_001)]);
    assert!(report.notes.len() < 2_100 && report.oddity_count() == 10_000, "{}", report.oddity_count());
}

/// A transcript with one more line that some other program wrote, correct in everything but its parent.
fn with_parent(bytes: &[u8], draft: &Draft, n: u64, parent: u64) -> Vec<u8> {
    let scanned = scan(bytes);
    let previous_crc = scanned.records.last().and_then(|record| record.crc).unwrap();
    let line = draft.encode(Envelope { n, parent: Some(parent), now_ms: 1_767_225_700_000, previous_crc }, &[]);
    [bytes, line.as_bytes()].concat()
}

#[test]
fn h6_a_bookkeeping_record_with_an_old_parent_does_not_move_the_head_and_is_reported() {
    let (medium, store, path, native) = session(&three_turns());
    let entry = store.list().unwrap().entries.remove(0);
    let whole = store.history(&entry, &Limits::default()).unwrap().history;
    assert_eq!(whole.messages.len(), 6);
    for draft in [
        Draft::turn("done"),
        Draft::new("error").text("message", "m"),
        Draft::new("approval").text("tool_use_id", "t").text("state", "denied"),
        Draft::new("anything").text("x", "y"),
        Draft::new("file").text("path", "a"),
    ] {
        let bytes = with_parent(&native, &draft, 7, 2);
        medium.write_file(&path, &bytes).unwrap();
        let kind = draft.kind();
        for limits in [Limits::default(), Limits::tokens(100_000)] {
            let restored = store.history(&entry, &limits).unwrap();
            assert_eq!(restored.history.messages, whole.messages, "{kind}");
        }
        let at = native.len() as u64;
        assert_eq!(notes(&bytes), [(Some(8), at, "odd_parent")], "{kind}");
        let odd = NoteKind::OddParent { parent: 2, is_followed: false };
        assert_eq!(scan(&bytes).report.oddities().next().unwrap().kind, odd);
        // The next writer goes on behind it, and the conversation is still whole.
        let mut session = store.open(&entry).unwrap();
        session.append(&[Draft::user("question 4")]).unwrap();
        drop(session);
        let after = medium.read(&path).unwrap();
        assert_eq!(notes(&after).len(), 1, "{kind}: nothing else is odd");
        for limits in [Limits::default(), Limits::tokens(100_000)] {
            assert_eq!(store.history(&entry, &limits).unwrap().history.messages.len(), 7, "{kind}");
        }
    }
}

#[test]
fn h6_bookkeeping_behind_a_rewind_stays_where_the_rewind_led() {
    let (medium, store, path, _) = session(&three_turns());
    let entry = store.list().unwrap().entries.remove(0);
    let mut session = store.open(&entry).unwrap();
    session.append(&[Draft::head(Some(2), "rewind"), Draft::turn("done"), Draft::user("another way")]).unwrap();
    drop(session);
    assert_eq!(notes(&medium.read(&path).unwrap()), []);
    for limits in [Limits::default(), Limits::tokens(100_000)] {
        let history = store.history(&entry, &limits).unwrap().history;
        let sent = history.to_json();
        assert!(sent.contains("answer 1") && sent.contains("another way") && !sent.contains("question 2"), "{sent}");
    }
}

#[test]
fn h6_words_with_an_old_parent_are_followed_and_reported() {
    let (_, _, _, native) = session(&three_turns());
    let bytes = with_parent(&native, &Draft::user("back here"), 7, 2);
    assert_eq!(notes(&bytes), [(Some(8), native.len() as u64, "odd_parent")]);
    let phantom = with_parent(&native, &Draft::user("from nowhere"), 7, 77);
    assert_eq!(notes(&phantom), [(Some(8), native.len() as u64, "unknown_parent")]);
}
