//! Lines that are JSON, or nearly, and what a request makes of them.

use unforget_core::directory::OnMissing;
use unforget_core::doctor::Mode;
use unforget_core::error::Error;
use unforget_core::import::{self, Candidate, Outcome};

use super::*;

#[test]
fn f16_invalid_utf8_costs_only_its_own_record() {
    let scene = Scene::of("F16_invalid_utf8_mid");
    assert_eq!(scene.outline(), ["user: hello | next"]);
    let (offset, line) = physical(&scene.bytes)[2];
    assert_eq!(scene.notes(), [(offset as u64, line.len() as u64 - 1, "invalid_utf8")]);
    assert_eq!(scene.entry().row.damage, 1);
}

#[test]
fn f17_unicode_line_separators_in_a_string_end_no_line() {
    let scene = Scene::of("F17_u2028_in_string");
    assert_eq!(scene.outline(), ["user: line\u{2028}sep\u{2029}and\u{85}nel", "assistant: Hi"]);
    assert_eq!(scene.notes(), []);
}

#[test]
fn f17_the_writer_escapes_unicode_line_separators() {
    let said = "line\u{2028}sep\u{2029}and\u{85}nel";
    let scene = Scene::native(0);
    scene.open().append(&[Draft::user(said)]).unwrap();
    let text = String::from_utf8(scene.file()).unwrap();
    assert!(!text.contains(['\u{2028}', '\u{2029}', '\u{85}']), "{text}");
    assert_eq!(scene.outline(), [format!("user: {said}")]);
}

#[test]
fn f18_a_lone_surrogate_is_replaced_only_in_the_request() {
    let scene = Scene::of("F18_lone_surrogate_escaped");
    assert_eq!(scene.outline(), ["user: x\u{fffd}", "assistant: Hi"]);
    assert!(scene.restored().history.to_json().contains("x\\ufffd"));
    drop(scene.open());
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f18_a_replaced_character_is_told_once_a_record() {
    let twice = r#"{"type":"user","content":"x\ud83d and \ude00"}"#;
    let scene = Scene::with(format!("{twice}\n").as_bytes());
    assert_eq!(scene.repairs(), ["characters_replaced"]);
    assert_eq!(Scene::of("F18_lone_surrogate_escaped").repairs(), ["characters_replaced"]);
}

#[test]
fn f20_json_of_five_thousand_levels_is_kept_and_replaced_in_the_request() {
    let scene = Scene::of("F20_deep_nesting");
    assert_eq!(scene.damage(), []);
    assert!(scene.repairs().contains(&"too_deep"), "{:?}", scene.repairs());
    let sent = scene.restored().history.to_json();
    assert!(!sent.contains(&"{\"a\":".repeat(200)));
    drop(scene.open());
    assert_eq!(scene.file(), scene.bytes);
    assert_eq!(scene.diagnosis(Mode::Look), []);
}

#[test]
fn f20_deep_json_can_be_appended_and_read_back_byte_for_byte() {
    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    let scene = Scene::native(0);
    scene.open().append(&[Draft::user("go"), Draft::tool_use(None, "toolu_1", "t", &deep)]).unwrap();
    let file = String::from_utf8(scene.file()).unwrap();
    assert!(file.contains(&deep));
    assert_eq!((scene.notes(), scene.outline().len()), (Vec::new(), 3));
}

#[test]
fn f21_lines_that_are_no_objects_are_left_out_one_by_one() {
    let scene = Scene::of("F21_array_line");
    assert_eq!(scene.outline(), ["user: hello", "assistant: Hi"]);
    let lines = physical(&scene.bytes);
    let wanted: Vec<_> =
        lines[2..6].iter().map(|(offset, line)| (*offset as u64, line.len() as u64 - 1, "not_an_object")).collect();
    assert_eq!(scene.notes(), wanted);
}

#[test]
fn f22_a_record_of_a_newer_version_is_counted_and_not_sent() {
    let scene = Scene::of("F22_unknown_type");
    assert_eq!(scene.outline(), ["user: hello", "assistant: Hi"]);
    let (offset, line) = physical(&scene.bytes)[2];
    assert_eq!(scene.notes(), [(offset as u64, line.len() as u64 - 1, "unknown_type")]);
    assert_eq!((scene.entry().row.records, scene.entry().row.damage), (4, 0));
}

#[test]
fn f22_a_record_of_a_newer_version_survives_a_writer_and_an_import_byte_for_byte() {
    let scene = Scene::of("F22_unknown_type");
    scene.open().append(&[Draft::user("on")]).unwrap();
    assert_eq!(scene.file()[..scene.bytes.len()], scene.bytes);
    let (medium, store) = crash_store();
    let candidate = Candidate { path: FIXTURE.into(), ..Candidate::default() };
    let from = Scene::of("F22_unknown_type");
    let outcome = import::import(&store, &store.list().unwrap(), &from.medium, &candidate).unwrap();
    let Outcome::Imported { id, .. } = outcome else { panic!("{outcome:?}") };
    let imported = medium.read(format!("agents/main/sessions/{id}.jsonl")).unwrap();
    assert!(String::from_utf8(imported).unwrap().contains(r#""type":"future_record","#));
    let originals: Vec<Vec<u8>> = medium
        .paths()
        .iter()
        .filter(|path| path.starts_with("blobs/"))
        .map(|path| medium.read(path).unwrap())
        .collect();
    assert_eq!(originals, [from.bytes]);
}

#[test]
fn f23_records_without_their_fields_are_reported_and_never_sent() {
    let scene = Scene::of("F23_missing_fields");
    let wanted: Vec<_> = physical(&scene.bytes)[1..]
        .iter()
        .map(|(offset, line)| (*offset as u64, line.len() as u64 - 1, "invalid_record"))
        .collect();
    assert_eq!(scene.notes(), wanted);
    assert_eq!(scene.outline(), [] as [&str; 0]);
    assert_eq!(scene.repairs(), ["record_left_out"; 4]);
}

#[test]
fn f23_the_writer_refuses_a_record_without_its_fields() {
    let scene = Scene::native(0);
    let mut session = scene.open();
    for kind in ["user", "assistant", "tool_use", "tool_result"] {
        assert!(matches!(session.append(&[Draft::user("ok"), Draft::new(kind)]), Err(Error::Invalid(_))), "{kind}");
    }
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f24_fields_of_the_wrong_type_are_left_out_or_decoded_by_rule() {
    let scene = Scene::of("F24_wrong_types");
    let lines = physical(&scene.bytes);
    let wanted: Vec<_> =
        lines[1..3].iter().map(|(offset, line)| (*offset as u64, line.len() as u64 - 1, "invalid_record")).collect();
    assert_eq!(scene.notes(), wanted);
    assert!(scene.repairs().contains(&"input_decoded"), "{:?}", scene.repairs());
    let sent = scene.restored().history.to_json();
    assert!(sent.contains(r#""input":{"a":1}"#) && !sent.contains("123"), "{sent}");
}

#[test]
fn f25_nan_in_a_call_costs_the_call_and_its_result_stays_out() {
    let scene = Scene::of("F25_nan_infinity");
    let (offset, line) = physical(&scene.bytes)[2];
    assert_eq!(scene.damage(), [(offset as u64, line.len() as u64 - 1, "malformed")]);
    assert_eq!(scene.outline(), ["user: hello", "assistant: ok"]);
    assert_eq!(scene.repairs(), ["orphan_result"]);
}

#[test]
fn f25_nan_is_never_written() {
    let scene = Scene::native(0);
    let mut session = scene.open();
    let call = Draft::tool_use(None, "toolu_1", "t", "{\"x\":NaN}");
    assert!(matches!(session.append(&[Draft::user("go"), call]), Err(Error::Invalid(_))));
    let line = r#"{"type":"tool_use","tool_use_id":"a","name":"t","input":{"x":Infinity}}"#;
    assert!(matches!(Draft::from_json(line), Err(Error::Invalid(_))));
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f27_numbers_and_key_order_are_replayed_byte_for_byte() {
    let input = r#"{"z":12345678901234567890123,"a":1.0,"m":1e400}"#;
    let old = Scene::of("F27_bigint_key_order");
    assert!(old.restored().history.to_json().contains(&format!("\"input\":{input}")));
    assert_eq!((old.damage(), old.repairs()), (Vec::new(), Vec::new()));
    let native = Scene::native(0);
    let drafts =
        [Draft::user("go"), Draft::tool_use(None, "toolu_1", "t", input), Draft::tool_result("toolu_1", "\"ok\"")];
    native.open().append(&drafts).unwrap();
    assert!(String::from_utf8(native.file()).unwrap().contains(&format!("\"input\":{input}")));
    assert!(native.restored().history.to_json().contains(&format!("\"input\":{input}")));
}

#[test]
fn f28_order_is_that_of_the_file_when_the_clock_goes_backwards() {
    let scene = Scene::of("F28_clock_backwards");
    assert_eq!(scene.outline(), ["user: first", "assistant: second", "user: third", "assistant: fourth"]);
    let wanted: Vec<_> = physical(&scene.bytes)[2..4]
        .iter()
        .map(|(offset, line)| (*offset as u64, line.len() as u64 - 1, "clock_backwards"))
        .collect();
    assert_eq!(scene.notes(), wanted);
    assert_eq!(scene.entry().row.damage, 0);
}

#[test]
fn f30_an_escaped_nul_is_replaced_only_in_the_request() {
    let scene = Scene::of("F30_escaped_nul");
    assert_eq!(scene.outline(), ["user: a\u{fffd}b", "assistant: Hi"]);
    drop(scene.open());
    assert_eq!(scene.file(), scene.bytes);
    let native = Scene::native(0);
    native.open().append(&[Draft::user("a\0b")]).unwrap();
    assert!(String::from_utf8(native.file()).unwrap().contains("a\\u0000b"));
    assert_eq!(native.outline(), ["user: a\u{fffd}b"]);
}

#[test]
fn f31_an_empty_file_is_a_session_without_words() {
    let scene = Scene::of("F31_empty");
    assert_eq!((scene.outline(), scene.notes()), (Vec::new(), Vec::new()));
    assert_eq!((scene.entry().row.records, scene.entry().row.state.name()), (0, "ok"));
}

#[test]
fn f31_a_writer_gives_an_empty_file_its_header() {
    let scene = Scene::of("F31_empty");
    let mut session = scene.open();
    let header: serde_json::Value = serde_json::from_slice(&scene.file()).unwrap();
    assert_eq!((&header["n"], &header["type"], &header["id"]), (&0.into(), &"session".into(), &"abc123".into()));
    save(&mut session, 1);
    assert_eq!((scene.outline(), scene.notes()), (turns([1]), Vec::new()));
}

#[test]
fn f32_a_header_alone_is_a_session_without_words() {
    let scene = Scene::of("F32_header_only");
    assert_eq!((scene.outline(), scene.notes()), (Vec::new(), Vec::new()));
    assert_eq!(scene.diagnosis(Mode::Look), []);
    let mut session = scene.store.load(&"main:cli:user".parse().unwrap(), OnMissing::Fail).unwrap();
    assert_eq!(scene.file(), scene.bytes);
    save(&mut session, 1);
    assert_eq!(scene.outline(), turns([1]));
}

#[test]
fn f33_a_line_feed_alone_is_a_session_without_words() {
    let scene = Scene::of("F33_only_newline");
    assert_eq!((scene.outline(), scene.notes()), (Vec::new(), vec![(0, 1, "blank")]));
    assert_eq!((scene.entry().row.damage, scene.entry().row.state.name()), (0, "ok"));
    let mut session = scene.open();
    assert_eq!(session.sealed(), None);
    save(&mut session, 1);
    assert_eq!(scene.outline(), turns([1]));
    assert_eq!(scene.file()[..1], *b"\n");
}
