//! Restarts: what was put right stays put right, and what is read cold is what was there live.

use serde_json::json;
use unforget_core::history::{Limits, RepairKind};
use unforget_core::record::{Draft, Envelope, Parent, Record};
use unforget_core::report::NoteKind;
use unforget_core::scan::scan;
use unforget_testkit::crash::{CrashMedium, Fault, FaultKind, Scope};

use super::{
    FIXTURE_PATH, after_power_loss, assistant, fixture_store, opened, repairs, restored, restored_within, sent,
    session_with, store_of, text, user, words,
};
use crate::support::{self, assert_accepted};

#[test]
fn c37_repairs_are_written_down_and_read_back_as_the_same_bytes() {
    for name in [
        "C01_tool_use_no_result_tail",
        "C02_tool_use_no_result_mid",
        "C04_dup_tool_ids_same_msg",
        "C09_parallel_partial",
        "C19_ends_with_assistant_tool",
    ] {
        let (medium, store) = fixture_store(name);
        let (before, file) = (restored(&store).history, medium.read(FIXTURE_PATH).unwrap());
        assert_eq!(opened(&store).settle(&Limits::default()).unwrap().count(), 1, "{name}");
        let (medium, store) = after_power_loss(&medium);
        let after = restored(&store).history;
        assert_eq!(after.to_json(), before.to_json(), "{name}");
        assert_eq!(after.unanswered, [], "{name}");
        let settled = medium.read(FIXTURE_PATH).unwrap();
        assert_eq!(settled[..file.len()], file, "{name}");
        assert_eq!(opened(&store).settle(&Limits::default()).unwrap().count(), 0, "{name}");
        assert_eq!(medium.read(FIXTURE_PATH).unwrap(), settled, "{name} was settled twice");
    }
}

#[test]
fn c37_settling_a_call_whose_arguments_were_cut_off_changes_no_byte_either() {
    let lines = [
        r#"{"type":"session","id":"abc123","key":"main:cli:user"}"#,
        r#"{"type":"user","content":"x"}"#,
        r#"{"type":"tool_use","tool_use_id":"a","name":"write","input":"{\"path\":\"/tm"}"#,
        "",
    ];
    let (medium, store) = store_of(lines.join("\n").as_bytes());
    let before = restored(&store).history.to_json();
    opened(&store).settle(&Limits::default()).unwrap();
    let (_, store) = after_power_loss(&medium);
    assert_eq!(restored(&store).history.to_json(), before);
}

#[test]
fn c37_after_settling_a_late_result_changes_nothing() {
    let (medium, store) = fixture_store("C01_tool_use_no_result_tail");
    let before = restored(&store).history.to_json();
    let mut session = opened(&store);
    session.settle(&Limits::default()).unwrap();
    session.append(&[Draft::tool_result("toolu_01", "\"late\"")]).unwrap();
    let (_, store) = after_power_loss(&medium);
    let after = restored(&store).history;
    assert_eq!(after.to_json(), before);
    assert_eq!(repairs(&after), [(5, RepairKind::SecondResult("toolu_01".to_owned()))]);
}

#[test]
fn c38_nothing_is_answered_for_a_call_that_was_never_saved() {
    let whole =
        "{\"type\":\"session\",\"id\":\"abc123\",\"key\":\"main:cli:user\"}\n{\"type\":\"user\",\"content\":\"hi\"}\n";
    let call = r#"{"type":"tool_use","name":"t","tool_use_id":"toolu_01","input":{"path":"a"}}"#;
    for torn in 1..call.len() {
        let (medium, store) = store_of(format!("{whole}{}", &call[..torn]).as_bytes());
        assert!(opened(&store).settle(&Limits::default()).unwrap().is_empty(), "cut at {torn}");
        assert_eq!(medium.read(FIXTURE_PATH).unwrap(), whole.as_bytes(), "cut at {torn}");
        let history = restored(&store).history;
        assert_eq!(sent(&history), json!([user(json!([text("hi")]))]), "cut at {torn}");
    }
}

#[test]
fn c38_a_result_whose_call_was_lost_brings_no_call_back() {
    let (medium, store) = fixture_store("C03_orphan_result");
    let before = medium.read(FIXTURE_PATH).unwrap();
    let mut session = opened(&store);
    assert!(session.settle(&Limits::default()).unwrap().is_empty());
    assert_eq!(medium.read(FIXTURE_PATH).unwrap(), before);
    let history = session.history(&Limits::default()).unwrap().history;
    assert_eq!(sent(&history), json!([user(json!([text("hi")])), assistant(json!([text("ok")]))]));
}

#[test]
fn c40_after_a_failed_append_the_next_record_follows_one_that_is_on_disk() {
    let medium = CrashMedium::counting(Scope::Writes);
    let store = support::store_on(medium.clone());
    let mut session = session_with(&store, &[Draft::user("one")]);
    let next = medium.operations() + 1;
    medium.inject(Fault { at: next, kind: FaultKind::Errno(28), sticky: false });
    session.append(&[Draft::user("lost"), Draft::user("lost too")]).unwrap_err();
    session.append(&[Draft::user("two")]).unwrap();
    let (medium, store) = {
        let path = session.path().to_owned();
        let (medium, store) = after_power_loss(&medium);
        (medium.read(path).unwrap(), store)
    };
    let links: Vec<(u64, Parent)> = scan(&medium).records.iter().map(|record| (record.n, record.parent)).collect();
    assert_eq!(links, [(0, Parent::Nothing), (1, Parent::Record(0)), (2, Parent::Record(1))]);
    assert_eq!(sent(&restored(&store).history), json!([user(json!([text("one"), text("two")]))]));
}

#[test]
fn c40_a_record_whose_parent_was_never_written_follows_the_last_one_before_it() {
    let (_, store) = store_of(&transcript_with_phantom_parent());
    let restored = restored(&store);
    assert_eq!(
        sent(&restored.history),
        json!([user(json!([text("one")])), assistant(json!([text("two")])), user(json!([text("three")]))])
    );
    let notes: Vec<&NoteKind> = restored.report.notes.iter().map(|note| &note.kind).collect();
    assert_eq!(notes, [&NoteKind::UnknownParent(77)]);
    assert_accepted(&restored.history, "phantom parent");
}

#[test]
fn c40_such_a_parent_is_reported_beside_payloads_in_the_blob_store_too() {
    let (_, store) = store_of(&transcript_with_phantom_parent());
    opened(&store).append(&[Draft::user(&"x".repeat(300_000))]).unwrap();
    let restored = restored(&store);
    assert_eq!(restored.history.messages.len(), 3);
    let notes: Vec<&NoteKind> = restored.report.notes.iter().map(|note| &note.kind).collect();
    assert_eq!(notes, [&NoteKind::UnknownParent(77)]);
}

#[test]
fn c40_a_rewind_to_a_record_that_was_never_written_goes_nowhere() {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[Draft::user("one")]);
    assert!(session.append(&[Draft::head(Some(99), "rewind")]).is_err(), "it is not written");
    let path = session.path().to_owned();
    drop(session);
    // And where a copy gone wrong has one, it harms nothing.
    let mut bytes = medium.read(&path).unwrap();
    bytes.extend_from_slice(b"{\"v\":1,\"n\":2,\"type\":\"head\",\"to\":99}\n");
    medium.write_file(&path, &bytes).unwrap();
    let restored = restored(&store);
    assert_eq!(sent(&restored.history), json!([user(json!([text("one")]))]));
    assert!(restored.report.notes.iter().any(|note| note.kind == NoteKind::UnknownParent(99)));
}

#[test]
fn c43_live_and_cold_the_history_is_the_same_after_every_append() {
    let script = script();
    let limits = [Limits::default(), Limits::tokens(100_000)];
    for done in 1..=script.len() {
        let (medium, store) = support::crash_store();
        let mut session = session_with(&store, &[]);
        for drafts in &script[..done] {
            session.append(drafts).unwrap();
        }
        let live = limits.map(|limits| session.history(&limits).unwrap().history);
        let beside = limits.map(|limits| restored_within(&store, &limits).history);
        assert_eq!(beside, live, "beside the writer, step {done}");
        let (_, store) = after_power_loss(&medium);
        let cold = limits.map(|limits| restored_within(&store, &limits).history);
        assert_eq!(cold, live, "after a restart, step {done}");
        assert_eq!(cold[1].to_json(), cold[0].to_json(), "with a budget that leaves room, step {done}");
        assert_accepted(&cold[0], &format!("step {done}"));
    }
}

#[test]
fn c43_what_a_compaction_and_a_rewind_removed_does_not_come_back() {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[]);
    for drafts in script() {
        session.append(&drafts).unwrap();
    }
    let (_, store) = after_power_loss(&medium);
    let history = restored(&store).history;
    assert_eq!(history.system.as_deref(), Some("\"be kind\""));
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("[Summary of the conversation so far]\nthey met"), text("two")])),
            assistant(json!([text("second")])),
            user(json!([text("four")])),
        ])
    );
}

/// Turns with everything that moves the beginning or the end of a history.
fn script() -> Vec<Vec<Draft>> {
    vec![
        vec![Draft::new("context").text("system", "be kind").text("model", "claude-opus-5")],
        vec![Draft::user("one"), Draft::tool_use(Some("m1"), "a", "t", "{}")],
        vec![Draft::tool_result("a", "\"ok\""), Draft::assistant(Some("m2"), &words("first"))],
        // Number 6, counted from the header.
        vec![Draft::user("two")],
        vec![Draft::assistant(Some("m3"), &words("second")), Draft::turn("done")],
        vec![Draft::compaction("they met", Some(6))],
        vec![Draft::user("three"), Draft::tool_use(Some("m4"), "b", "t", "{}")],
        vec![Draft::new("error").text("message", "it broke")],
        vec![Draft::head(Some(9), "rewind")],
        vec![Draft::user("four")],
    ]
}

/// A transcript that is whole but for a parent that is nowhere.
fn transcript_with_phantom_parent() -> Vec<u8> {
    let drafts = [
        (0, Draft::new("session").text("id", "abc123").text("key", "main:cli:user")),
        (0, Draft::user("one")),
        (1, Draft::assistant(None, &words("two"))),
        (77, Draft::user("three")),
    ];
    let mut text = String::new();
    let mut previous_crc = 0;
    for ((parent, draft), n) in drafts.iter().zip(0..) {
        let line = draft.encode(Envelope { n, parent: Some(*parent), now_ms: 1_767_225_600_000, previous_crc }, &[]);
        previous_crc = Record::parse(line.trim_end(), 0, n).unwrap().crc.unwrap();
        text.push_str(&line);
    }
    text.into_bytes()
}
