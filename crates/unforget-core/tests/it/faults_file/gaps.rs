//! Records that are gone from the middle or the beginning of a native transcript.

use unforget_core::doctor::Mode;
use unforget_core::history::Limits;

use super::*;

#[test]
fn f59_a_lost_beginning_is_reported_and_the_rest_loads() {
    let native = Scene::native(9);
    let lines = physical(&native.bytes);
    // Seven turns of three records each, and the header.
    let rest = &native.bytes[lines[22].0..];
    let scene = native.edited(rest);
    let restored = scene.restored();
    assert_eq!(outline(&restored.history), turns(8..=9));
    let first = lines[22].1.len() as u64 - 1;
    assert_eq!(notes(&restored.report), [(0, 0, "gap"), (0, first, "checksum_mismatch"), (0, 0, "unknown_parent")]);
    assert_eq!(restored.report.notes[0].kind.to_string(), "records 0 to 21 are missing");
}

#[test]
fn f59_the_list_and_the_doctor_tell_of_a_lost_beginning() {
    let native = Scene::native(9);
    let scene = native.edited(&native.bytes[physical(&native.bytes)[22].0..]);
    assert!(scene.entry().row.damage >= 2, "{:?}", scene.entry().row);
    let told: Vec<String> = scene.diagnosis(Mode::Look).into_iter().map(|(problem, _)| problem).collect();
    assert!(told.contains(&"its header is missing".to_owned()), "{told:?}");
    assert!(told.contains(&"line 1, byte 0: records 0 to 21 are missing".to_owned()), "{told:?}");
}

#[test]
fn f59_numbers_go_on_behind_a_lost_beginning() {
    let native = Scene::native(9);
    let scene = native.edited(&native.bytes[physical(&native.bytes)[22].0..]);
    save(&mut scene.open(), 10);
    assert_eq!(scene.outline(), turns(8..=10));
    let kinds: Vec<_> = scene.notes().iter().map(|note| note.2).collect();
    assert_eq!(kinds, ["gap", "checksum_mismatch", "unknown_parent"], "the writer added no damage of its own");
}

#[test]
fn f61_a_record_deleted_by_hand_is_reported_and_the_rest_loads() {
    let native = Scene::native(4);
    let scene = native.edited(&without_line(&native.bytes, 9));
    let restored = scene.restored();
    let (place, line) = physical(&native.bytes)[9];
    let next = physical(&native.bytes)[10].1.len() as u64 - 1;
    assert!(line.windows(6).any(|window| window == b"\"turn\""));
    let place = place as u64;
    assert_eq!(
        notes(&restored.report),
        [(place, 0, "gap"), (place, next, "checksum_mismatch"), (place, 0, "unknown_parent")]
    );
    assert_eq!(outline(&restored.history), turns(1..=4));
}

#[test]
fn f61_every_single_record_that_goes_missing_is_reported_and_costs_only_itself() {
    let native = Scene::native(3);
    let lines = physical(&native.bytes).len();
    // Only the very last one leaves no trace in what is left.
    for gone in 0..lines - 1 {
        let scene = native.edited(&without_line(&native.bytes, gone));
        let restored = scene.restored();
        let kinds: Vec<_> = notes(&restored.report).iter().map(|note| note.2).collect();
        assert!(kinds.starts_with(&["gap", "checksum_mismatch"]), "record {gone}: {kinds:?}");
        let said = outline(&restored.history).join(" ");
        let kept = (1..=3).flat_map(|turn| [format!("question {turn}"), format!("answer {turn}")]);
        let lost: Vec<String> = kept.filter(|words| !said.contains(words)).collect();
        assert!(lost.len() <= 1, "record {gone} took {lost:?} with it");
    }
}

#[test]
fn f61_a_record_that_went_missing_is_reported_when_only_the_end_is_read() {
    let native = Scene::native(4);
    let scene = native.edited(&without_line(&native.bytes, 9));
    let recent = scene.store.history(&scene.entry(), &Limits::tokens(100_000)).unwrap();
    assert_eq!(outline(&recent.history), turns(1..=4));
    let kinds: Vec<_> = notes(&recent.report).iter().map(|note| note.2).collect();
    assert!(kinds.contains(&"gap") && kinds.contains(&"checksum_mismatch"), "{kinds:?}");
}

#[test]
fn f61_a_record_that_went_missing_is_reported_beside_a_large_payload() {
    let native = Scene::native(1);
    native.open().append(&[Draft::user(&"x".repeat(300 * 1024)), Draft::user("gone"), Draft::user("left")]).unwrap();
    let bytes = native.file();
    native.medium.write_file(&native.path, &without_line(&bytes, 5)).unwrap();
    let kinds: Vec<_> = native.notes().iter().map(|note| note.2).collect();
    assert_eq!(kinds, ["gap", "checksum_mismatch", "unknown_parent"]);
}

#[test]
fn f61_a_changed_record_is_reported_and_still_loads() {
    let native = Scene::native(2);
    let text = String::from_utf8(native.bytes.clone()).unwrap();
    let scene = native.edited(text.replace("answer 1", "answer X").as_bytes());
    let (place, line) = physical(&native.bytes)[2];
    assert_eq!(scene.notes(), [(place as u64, line.len() as u64 - 1, "checksum_mismatch")]);
    assert_eq!(scene.outline()[1], "assistant: answer X");
}

fn without_line(bytes: &[u8], gone: usize) -> Vec<u8> {
    physical(bytes).iter().enumerate().filter(|(at, _)| *at != gone).flat_map(|(_, (_, line))| line.to_vec()).collect()
}
