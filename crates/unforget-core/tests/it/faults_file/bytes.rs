//! Bytes that are no lines: torn tails, NUL blocks, byte order marks, foreign line ends.

use unforget_core::doctor::Mode;
use unforget_core::history::Limits;
use unforget_core::log::Sealed;

use super::*;

#[test]
fn f00_a_clean_transcript_gives_its_messages_and_no_repairs() {
    let scene = Scene::of("F00_clean");
    let restored = scene.restored();
    assert_eq!(outline(&restored.history), CLEAN);
    assert_eq!((restored.history.repairs, restored.report), (Vec::new(), Report::default()));
}

#[test]
fn f00_opening_a_clean_transcript_for_writing_keeps_every_byte() {
    let scene = Scene::of("F00_clean");
    assert_eq!(scene.open().sealed(), None);
    assert_eq!(scene.file(), scene.bytes);
    assert_eq!(scene.medium.paths(), [FIXTURE]);
}

#[test]
fn f00_the_doctor_finds_nothing_wrong_with_a_clean_transcript() {
    assert_eq!(Scene::of("F00_clean").diagnosis(Mode::Look), []);
}

#[test]
fn f01_a_torn_last_line_is_reported_and_everything_before_it_loads() {
    let scene = Scene::of("F01_torn_last_line");
    assert_eq!(scene.outline(), CLEAN);
    assert_eq!(scene.notes(), [(CLEAN_BYTES, 40, "torn")]);
}

#[test]
fn f01_a_session_with_a_torn_tail_is_listed_under_its_key() {
    let scene = Scene::of("F01_torn_last_line");
    let entry = scene.entry();
    assert_eq!(entry.row.key.as_deref(), Some("main:cli:user"));
    assert_eq!((entry.row.damage, entry.row.state.name()), (1, "ok"));
}

#[test]
fn f01_a_writer_moves_a_torn_tail_aside_before_it_appends() {
    let scene = Scene::of("F01_torn_last_line");
    let mut session = scene.open();
    let torn = PathBuf::from("agents/main/sessions/abc123.torn-1");
    assert_eq!(session.sealed(), Some(&Sealed::MovedAside { to: torn.clone(), bytes: 40 }));
    assert_eq!(scene.medium.read(&torn).unwrap(), scene.bytes[CLEAN_BYTES as usize..]);
    session.append(&[Draft::user("again")]).unwrap();
    let file = scene.file();
    assert_eq!(file[..CLEAN_BYTES as usize], scene.bytes[..CLEAN_BYTES as usize]);
    assert_eq!(scan(&file).report, Report::default());
    assert_eq!(scene.outline().last().unwrap(), "user: again");
}

#[test]
fn f01_a_second_torn_tail_does_not_replace_the_first() {
    let scene = Scene::of("F01_torn_last_line");
    drop(scene.open());
    let mut torn_again = scene.file();
    torn_again.extend(b"{\"type\":\"us");
    scene.medium.write_file(FIXTURE, &torn_again).unwrap();
    drop(scene.open());
    assert_eq!(scene.medium.read("agents/main/sessions/abc123.torn-1").unwrap().len(), 40);
    assert_eq!(scene.medium.read("agents/main/sessions/abc123.torn-2").unwrap(), b"{\"type\":\"us");
}

#[test]
fn f01_the_doctor_reports_a_torn_tail_and_moves_it_only_when_told() {
    let scene = Scene::of("F01_torn_last_line");
    let found = scene.diagnosis(Mode::Look);
    assert_eq!(found, [("line 7, byte 505: a line that was cut off".to_owned(), false)]);
    assert_eq!(scene.file(), scene.bytes);
    let mended = scene.diagnosis(Mode::Fix);
    assert_eq!(mended, [("its last line was cut off; the bytes are in a .torn file now".to_owned(), true)]);
    assert_eq!(scene.diagnosis(Mode::Look), []);
}

#[test]
fn f01_a_whole_last_line_that_lacks_only_its_line_feed_is_kept() {
    let clean = fixture("F00_clean");
    let scene = Scene::with(&clean[..clean.len() - 1]);
    let missing = vec![(CLEAN_BYTES - 1, 0, "missing_line_feed")];
    assert_eq!((scene.outline(), scene.notes()), (CLEAN.map(str::to_owned).to_vec(), missing));
    assert_eq!(scene.open().sealed(), Some(&Sealed::Completed));
    assert_eq!(scene.file(), clean);
}

#[test]
fn f02_a_tail_torn_inside_a_character_costs_only_itself() {
    let scene = Scene::of("F02_torn_multibyte");
    assert_eq!(scene.outline(), CLEAN);
    assert_eq!(scene.notes(), [(CLEAN_BYTES, 30, "torn")]);
    drop(scene.open());
    let torn = scene.medium.read("agents/main/sessions/abc123.torn-1").unwrap();
    assert!(torn.ends_with(b"\xe6\x97"));
    assert_eq!(scene.file(), scene.bytes[..CLEAN_BYTES as usize]);
}

#[test]
fn f03_a_record_glued_to_a_torn_one_is_kept() {
    let scene = Scene::of("F03_torn_then_append");
    let mut said = CLEAN.map(str::to_owned).to_vec();
    said.extend(["user: glued record".to_owned(), "assistant: answer".to_owned()]);
    assert_eq!(scene.outline(), said);
    assert_eq!(scene.notes(), [(CLEAN_BYTES, 30, "malformed")]);
}

#[test]
fn f03_a_line_that_was_damaged_in_the_middle_stays_in_the_file_when_a_writer_goes_on() {
    let scene = Scene::of("F03_torn_then_append");
    scene.open().append(&[Draft::user("on")]).unwrap();
    assert_eq!(scene.file()[..scene.bytes.len()], scene.bytes);
    assert_eq!(scene.notes(), [(CLEAN_BYTES, 30, "malformed")]);
}

#[test]
fn f05_zeros_at_the_end_are_reported_and_moved_aside() {
    let scene = Scene::of("F05_nul_tail");
    assert_eq!(scene.outline(), CLEAN);
    assert_eq!(scene.notes(), [(CLEAN_BYTES, 4096, "nul")]);
    let to = PathBuf::from("agents/main/sessions/abc123.torn-1");
    assert_eq!(scene.open().sealed(), Some(&Sealed::MovedAside { to: to.clone(), bytes: 4096 }));
    assert_eq!(scene.medium.read(&to).unwrap(), [0; 4096]);
    assert_eq!(scene.file(), scene.bytes[..CLEAN_BYTES as usize]);
}

#[test]
fn f05_zeros_in_front_of_a_record_cost_nothing_but_themselves() {
    let mut bytes = fixture("F05_nul_tail");
    bytes.extend(b"{\"type\":\"user\",\"content\":\"next\"}\n");
    let scene = Scene::with(&bytes);
    assert_eq!(scene.outline().last().unwrap(), "user: next");
    assert_eq!(scene.notes(), [(CLEAN_BYTES, 4096, "nul")]);
}

#[test]
fn f06_lines_after_a_block_of_zeros_are_loaded() {
    let scene = Scene::of("F06_nul_block_mid");
    assert_eq!(scene.outline(), ["user: hello", "assistant: after crash"]);
    assert_eq!(scene.notes(), [(150, 512, "nul")]);
    assert_eq!(scene.diagnosis(Mode::Fix).len(), 1);
    assert_eq!(scene.file(), scene.bytes, "damage inside a transcript stays as it is");
}

#[test]
fn f08_a_byte_order_mark_is_ignored() {
    let scene = Scene::of("F08_bom");
    assert_eq!(scene.outline(), CLEAN);
    assert_eq!(scene.notes(), [(0, 3, "byte_order_mark")]);
    assert_eq!((scene.entry().row.key.as_deref(), scene.entry().row.damage), (Some("main:cli:user"), 0));
}

#[test]
fn f08_a_byte_order_mark_is_never_written() {
    let scene = Scene::native(0);
    let mut session = scene.open();
    session.append(&[Draft::user("\u{feff}hello")]).unwrap();
    let mark = "\u{feff}".as_bytes();
    assert!(!scene.file().windows(mark.len()).any(|window| window == mark));
    assert_eq!(scene.outline(), ["user: \u{feff}hello"]);
}

#[test]
fn f09_windows_line_ends_are_accepted() {
    let scene = Scene::of("F09_crlf");
    assert_eq!((scene.outline(), scene.damage()), (CLEAN.map(str::to_owned).to_vec(), Vec::new()));
    assert_eq!(scene.notes(), [(87, 423, "carriage_return")]);
    assert_eq!(scene.open().sealed(), None);
    assert_eq!(scene.file(), scene.bytes);
}

#[test]
fn f09_a_checksum_does_not_cover_the_line_end() {
    let native = Scene::native(2);
    let text = String::from_utf8(native.bytes.clone()).unwrap();
    let scene = native.edited(text.replace('\n', "\r\n").as_bytes());
    assert_eq!(scene.damage(), []);
    save(&mut scene.open(), 3);
    assert_eq!((scene.outline(), scene.damage()), (turns(1..=3), Vec::new()));
}

#[test]
fn f10_blank_lines_are_not_damage() {
    let scene = Scene::of("F10_blank_lines");
    let restored = scene.restored();
    assert_eq!(outline(&restored.history), CLEAN);
    assert_eq!(restored.report.damage_count(), 0);
    assert!(restored.report.notes.iter().all(|note| note.kind.name() == "blank"));
    assert_eq!(scene.diagnosis(Mode::Look), []);
}

#[test]
fn f10_blank_lines_do_not_break_the_chain_of_checksums() {
    let native = Scene::native(2);
    let text = String::from_utf8(native.bytes.clone()).unwrap();
    let scene = native.edited(text.replace('\n', "\n\n  \n").as_bytes());
    assert_eq!(scene.restored().report.damage_count(), 0);
    let recent = scene.store.history(&scene.entry(), &Limits::tokens(10_000)).unwrap();
    assert_eq!((outline(&recent.history), recent.report.damage_count()), (turns(1..=2), 0));
}
