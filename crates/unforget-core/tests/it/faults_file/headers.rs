//! Who a transcript belongs to: lost and wrong headers, two writers, files that are something else.

use unforget_core::directory::OnMissing;
use unforget_core::doctor::Mode;
use unforget_core::error::Error;
use unforget_core::history::Limits;
use unforget_core::import::{self, Candidate, Outcome};

use super::*;
use crate::support::disk_store;

#[test]
fn f12_a_second_writer_is_refused_and_told_who_the_first_is() {
    let (_home, store) = disk_store();
    let key = "main:cli:user".parse().unwrap();
    let mut first = store.create(&key, None).unwrap();
    let refused = store.load(&key, OnMissing::Create).unwrap_err();
    let own = format!("process {}", std::process::id());
    assert!(matches!(&refused, Error::Busy { holder, .. } if holder.starts_with(&own)), "{refused}");
    save(&mut first, 1);
    drop(first);
    save(&mut store.load(&key, OnMissing::Fail).unwrap(), 2);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!(outline(&store.history(&entry, &Limits::default()).unwrap().history), turns(1..=2));
}

#[test]
fn f12_turns_that_two_old_writers_interleaved_lose_no_words_and_no_result() {
    let scene = Scene::of("F12_interleaved_turns");
    assert_eq!(
        scene.outline(),
        [
            "user: A1 | B1",
            "assistant: call toolu_A | call toolu_B",
            "user: result toolu_A | result toolu_B",
            "assistant: ansA | ansB"
        ]
    );
    assert_eq!(scene.restored().report.damage_count(), 0);
}

#[test]
fn f12_branches_of_two_writers_with_numbered_records_are_not_mixed() {
    // Both went on from record 3; each names what it follows, so the later one's branch stands alone.
    let native = Scene::native(1);
    let mut bytes = native.bytes.clone();
    for line in [
        r#"{"v":1,"n":4,"parent":3,"type":"user","content":"A asks"}"#,
        r#"{"v":1,"n":5,"parent":3,"type":"user","content":"B asks"}"#,
        r#"{"v":1,"n":6,"parent":4,"type":"assistant","content":"to A"}"#,
        r#"{"v":1,"n":7,"parent":5,"type":"assistant","content":"to B"}"#,
    ] {
        bytes.extend(line.as_bytes());
        bytes.push(b'\n');
    }
    let scene = native.edited(&bytes);
    let mut said = turns([1]);
    said.extend(["user: B asks".to_owned(), "assistant: to B".to_owned()]);
    assert_eq!(scene.outline(), said);
}

#[test]
fn f12_a_number_that_two_writers_used_is_reported() {
    let native = Scene::native(1);
    let scene = native.edited(&with_line(&native.bytes, 3, &Draft::user("me too")));
    assert_eq!(scene.damage(), [(native.bytes.len() as u64, 0, "repeated")]);
}

#[test]
fn f13_a_transcript_without_a_header_loads() {
    let scene = Scene::of("F13_no_header");
    assert_eq!(scene.outline(), ["user: hello", "assistant: Hi"]);
    assert_eq!((scene.entry().row.key, scene.entry().row.state.name()), (None, "ok"));
    assert_eq!(scene.diagnosis(Mode::Look), [("its header is missing".to_owned(), false)]);
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f13_a_writer_appends_the_lost_header_as_a_repair_and_only_once() {
    let scene = Scene::of("F13_no_header");
    drop(scene.open());
    let repaired = scene.file();
    assert_eq!(repaired[..scene.bytes.len()], scene.bytes);
    let added: serde_json::Value = serde_json::from_slice(&repaired[scene.bytes.len()..]).unwrap();
    assert_eq!((&added["type"], &added["id"], &added["repair"]), (&"session".into(), &"abc123".into(), &true.into()));
    assert_eq!(added["key"], "main:unknown:abc123", "the file's place is all that is known");
    drop(scene.open());
    assert_eq!(scene.file(), repaired);
}

#[test]
fn f13_a_conversation_goes_on_across_the_added_header() {
    let scene = Scene::of("F13_no_header");
    scene.open().append(&[Draft::user("on")]).unwrap();
    assert_eq!(scene.outline(), ["user: hello", "assistant: Hi", "user: on"]);
    let found = scene.store.load(&"main:unknown:abc123".parse().unwrap(), OnMissing::Fail).unwrap();
    assert_eq!(found.id().as_str(), "abc123");
}

#[test]
fn f13_the_doctor_writes_a_lost_header_again_when_told() {
    let scene = Scene::of("F13_no_header");
    assert_eq!(scene.diagnosis(Mode::Fix), [("its header was missing; it was written again".to_owned(), true)]);
    assert_eq!(scene.diagnosis(Mode::Look), []);
}

#[test]
fn f14_a_transcript_with_another_sessions_header_is_not_attached_to_its_key() {
    let scene = Scene::of("F14_wrong_header_id");
    let mallory = "main:cli:mallory".parse().unwrap();
    assert!(matches!(scene.store.load(&mallory, OnMissing::Fail), Err(Error::NotFound { .. })));
    let listing = scene.store.list().unwrap();
    assert!(matches!(scene.store.resolve(&listing, "main:cli:mallory"), Err(Error::NotFound { .. })));
    let own = scene.store.load(&mallory, OnMissing::Create).unwrap();
    assert_ne!(own.id().as_str(), "abc123");
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f14_a_transcript_with_another_sessions_header_is_not_opened_for_writing() {
    let scene = Scene::of("F14_wrong_header_id");
    let refused = scene.store.open(&scene.entry()).unwrap_err();
    assert!(matches!(&refused, Error::Mismatch { found, .. } if found == "OTHER"), "{refused}");
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f14_the_list_and_the_doctor_tell_of_another_sessions_header() {
    let scene = Scene::of("F14_wrong_header_id");
    assert_eq!(scene.entry().row.state.name(), "mismatch");
    let told = ("its header is that of another session, so no key leads to it".to_owned(), false);
    assert_eq!(scene.diagnosis(Mode::Fix), [told]);
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f14_an_import_refuses_a_file_whose_header_and_index_disagree() {
    let scene = Scene::of("F14_wrong_header_id");
    let (medium, store) = crash_store();
    let listed = Candidate { path: FIXTURE.into(), key: Some("main:cli:alice".to_owned()), ..Candidate::default() };
    let other = Candidate { path: FIXTURE.into(), id: Some("abc123".to_owned()), ..Candidate::default() };
    for candidate in [listed, other] {
        let outcome = import::import(&store, &store.list().unwrap(), &scene.medium, &candidate).unwrap();
        assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    }
    assert_eq!(medium.paths(), [] as [&str; 0]);
}

#[test]
fn f35_a_compressed_file_is_refused_with_its_format_and_left_alone() {
    let scene = Scene::of("F35_gzip_head");
    let entry = scene.entry();
    assert_eq!(entry.row.state.name(), "unreadable");
    let refusals = [
        scene.store.open(&entry).map(|_| ()).unwrap_err(),
        scene.store.history(&entry, &Limits::default()).map(|_| ()).unwrap_err(),
    ];
    for refused in refusals {
        assert!(matches!(refused, Error::Foreign { format: "gzip data", .. }), "{refused}");
    }
    let told = "`agents/main/sessions/abc123.jsonl` is not a transcript: it looks like gzip data".to_owned();
    assert_eq!(scene.diagnosis(Mode::Fix), [(told, false)]);
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f35_a_key_whose_transcript_was_compressed_is_not_given_an_empty_session() {
    let scene = Scene::of("F00_clean");
    scene.store.refresh(&scene.store.list().unwrap()).unwrap();
    scene.medium.write_file(FIXTURE, &fixture("F35_gzip_head")).unwrap();
    let refused = scene.store.load(&"main:cli:user".parse().unwrap(), OnMissing::Create).unwrap_err();
    assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
    assert_eq!(scene.store.list().unwrap().entries.len(), 1);
}
