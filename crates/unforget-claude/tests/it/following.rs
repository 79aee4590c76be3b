//! Saving follows what is written: whole lines, only what is new, and nothing that was kept is ever lost.

use std::fs;

use proptest::prelude::*;
use unforget_claude::copy::Rewrite;
use unforget_claude::keep::Saved;
use unforget_claude::mirror::Mirror;
use unforget_testkit::generate::Dice;
use unforget_testkit::mutants::recorded;

use crate::scene::{Scene, id, line};

#[test]
fn only_whole_lines_are_kept_and_the_rest_when_it_is_whole() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    let (half, rest) = two.split_at(40);
    scene.say(&format!("{one}{half}"));
    let saved = scene.save().unwrap();
    assert_eq!((saved.lines, saved.is_new, scene.kept()), (1, true, one.clone()));
    assert!(scene.save().unwrap().is_empty());
    scene.say(rest);
    assert_eq!(scene.save().unwrap().lines, 1);
    assert_eq!(scene.kept(), format!("{one}{two}"));
}

#[test]
fn a_line_that_lacks_only_its_end_is_kept_once() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    scene.say(one.trim_end());
    scene.save().unwrap();
    assert_eq!(scene.kept(), one);
    scene.say(&format!("\n{two}"));
    assert_eq!(scene.save().unwrap().lines, 1);
    assert_eq!(scene.kept(), format!("{one}{two}"));
}

#[test]
fn what_the_program_takes_back_stays_and_what_it_says_instead_is_added() {
    let scene = Scene::new("/home/ada/app");
    let (one, two, other) = (line("a", None, "one"), line("b", Some("a"), "two"), line("c", Some("a"), "another two"));
    scene.say(&format!("{one}{two}"));
    scene.save().unwrap();
    fs::write(scene.transcript(), format!("{one}{other}")).unwrap();
    let saved = scene.save().unwrap();
    assert!(saved.is_merged && saved.lines == 1, "{saved:?}");
    assert_eq!(scene.kept(), format!("{one}{two}{other}"));
    assert!(scene.save().unwrap().is_empty(), "and that is all");
    scene.say(&line("d", Some("c"), "three"));
    assert_eq!(scene.save().unwrap().lines, 1, "it goes on from there");
}

#[test]
fn a_file_that_became_shorter_takes_nothing_away() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    scene.say(&format!("{one}{two}"));
    scene.save().unwrap();
    fs::write(scene.transcript(), &one).unwrap();
    assert!(scene.save().unwrap().is_empty());
    assert_eq!(scene.kept(), format!("{one}{two}"));
}

#[test]
fn a_file_that_was_deleted_and_begun_anew_is_kept_behind_what_was_there() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    scene.say(&one);
    scene.save().unwrap();
    fs::remove_file(scene.transcript()).unwrap();
    scene.say(&two);
    scene.save().unwrap();
    assert_eq!(scene.kept(), format!("{one}{two}"));
}

#[test]
fn without_its_marks_saving_finds_out_by_comparing() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    scene.say(&one);
    scene.save().unwrap();
    fs::remove_dir_all(scene.folder.path().join("home/copies")).unwrap();
    scene.say(&two);
    assert_eq!(scene.save().unwrap().lines, 1);
    assert_eq!(scene.kept(), format!("{one}{two}"));
}

#[test]
fn a_file_is_kept_again_only_if_its_content_is_another() {
    let scene = Scene::new("/home/ada/app");
    scene.say(&line("a", None, "one"));
    let path = format!("projects/{}/{}/tool-results/x.txt", scene.project, id());
    scene.put(&path, b"first");
    assert_eq!(scene.save().unwrap().files, 1);
    scene.put(&path, b"first");
    assert_eq!(scene.save().unwrap().files, 0, "touched is not changed");
    scene.put(&path, b"second");
    assert_eq!(scene.save().unwrap().files, 1);
}

#[test]
fn a_mirror_saves_what_it_is_told_of_and_finds_what_it_is_not() {
    let scene = Scene::new("/home/ada/app");
    let mut mirror = Mirror::begin(&scene.keeper).unwrap();
    scene.say(&line("a", None, "one"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut lines = 0;
    while lines == 0 && std::time::Instant::now() < deadline {
        let kept = mirror.turn(std::time::Duration::from_millis(500), &|_| true).unwrap();
        lines += kept.into_iter().map(|kept| kept.outcome.unwrap().lines).sum::<u64>();
    }
    assert_eq!(lines, 1);
    scene.say(&line("b", Some("a"), "two"));
    let swept: u64 = mirror.sweep(&|_| true).unwrap().into_iter().map(|kept| kept.outcome.unwrap().lines).sum();
    assert_eq!(swept, 1);
    assert!(mirror.sweep(&|_| true).unwrap().iter().all(|kept| kept.outcome.as_ref().unwrap().is_empty()));
}

#[test]
fn a_part_that_cannot_be_kept_keeps_no_words_from_being_kept() {
    let scene = Scene::new("/home/ada/app");
    scene.say(&line("a", None, "one"));
    scene.put(&format!("projects/{}/{}/subagents/{}.jsonl", scene.project, id(), "A".repeat(80)), b"{}\n");
    scene.put(&format!("projects/{}/{}/subagents/agent-1.jsonl", scene.project, id()), b"PK\x03\x04 no lines");
    let saved = scene.save().unwrap();
    assert_eq!((saved.lines, saved.left_out.len()), (1, 2), "{saved:?}");
}

#[test]
fn what_was_deleted_on_purpose_is_not_kept_again_by_the_way() {
    let scene = Scene::new("/home/ada/app");
    scene.say(&line("a", None, "one"));
    scene.save().unwrap();
    let store = scene.keeper.store();
    store.delete(&store.list().unwrap().entries[0]).unwrap();
    assert!(matches!(scene.save(), Err(unforget_claude::Error::Deleted { .. })));
    store.undelete(&store.deleted().unwrap()[0]).unwrap();
    scene.say(&line("b", Some("a"), "two"));
    assert_eq!(scene.save().unwrap().lines, 1);
}

#[test]
fn reading_is_no_change() {
    let scene = Scene::new("/home/ada/app");
    scene.say(&line("a", None, "one"));
    let mut mirror = Mirror::begin(&scene.keeper).unwrap();
    mirror.sweep(&|_| true).unwrap();
    for _ in 0..3 {
        fs::read(scene.transcript()).unwrap();
        scene.found();
        let kept = mirror.turn(std::time::Duration::from_millis(300), &|_| true).unwrap();
        assert!(kept.is_empty(), "{kept:?}");
    }
}

/// What happens to a transcript between two savings.
#[derive(Debug, Clone)]
enum Event {
    Say(u8),
    /// Half a line, whose rest comes next.
    Half(u8, usize),
    Save,
    /// The marks are gone.
    Forget,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => any::<u8>().prop_map(Event::Say),
        2 => (any::<u8>(), 1..100_usize).prop_map(|(word, at)| Event::Half(word, at)),
        4 => Just(Event::Save),
        1 => Just(Event::Forget),
    ];
    proptest::collection::vec(event, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whenever_it_is_saved_what_is_kept_is_what_was_written_in_whole_lines(events in events()) {
        let scene = Scene::new("/home/ada/app");
        let (mut written, mut rest, mut count) = (String::new(), String::new(), 0);
        for event in events {
            match event {
                Event::Say(word) | Event::Half(word, _) => {
                    count += 1;
                    let said = line(&format!("{count}"), None, &format!("word {word}"));
                    let whole = format!("{rest}{said}");
                    let cut = if let Event::Half(_, at) = event { rest.len() + at.min(said.len() - 2) } else { whole.len() };
                    scene.say(&whole[..cut]);
                    written.push_str(&whole[..cut]);
                    whole[cut..].clone_into(&mut rest);
                }
                Event::Save if !written.is_empty() => {
                    scene.save().unwrap();
                    let whole = written.rfind('\n').map_or("", |end| &written[..=end]);
                    if !whole.is_empty() {
                        prop_assert_eq!(scene.kept(), whole);
                    }
                }
                Event::Save => {}
                Event::Forget => drop(fs::remove_dir_all(scene.folder.path().join("home/copies"))),
            }
        }
    }
}

/// Lines of a transcript with their ends, as bytes.
fn pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// The whole lines of the program's file that are neither kept byte for byte nor told.
fn lost(scene: &Scene, saved: &Saved) -> Vec<u64> {
    let kept = pieces(scene.kept().as_bytes());
    let there = fs::read(scene.transcript()).unwrap();
    let numbered = pieces(&there).into_iter().zip(1..).filter(|(line, _)| line.ends_with(b"\n"));
    let is_told = |number: u64| saved.rewritten.iter().any(|told| told.side.is_none() && told.rewrite.line == number);
    numbered.filter(|(line, number)| !kept.contains(line) && !is_told(*number)).map(|(_, number)| number).collect()
}

#[test]
fn h5_a_line_that_is_changed_in_place_is_kept_in_both_forms_and_told() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    let filler: String = (0..9).map(|at| line(&format!("f{at}"), Some("b"), &"filler ".repeat(20))).collect();
    scene.say(&format!("{one}{two}{filler}"));
    scene.save().unwrap();
    // The same length, far before the end: nothing but all of the bytes tells.
    let changed = one.replace("one", "uno");
    fs::write(scene.transcript(), format!("{changed}{two}{filler}")).unwrap();
    let saved = scene.save().unwrap();
    let told = [Rewrite { line: 1, uuid: "a".to_owned(), is_blank: false }];
    assert_eq!(saved.rewritten.iter().map(|told| told.rewrite.clone()).collect::<Vec<_>>(), told);
    assert_eq!((saved.lines, saved.is_merged), (1, false));
    assert_eq!(scene.kept(), format!("{one}{two}{filler}{changed}"));
    let again = scene.save().unwrap();
    assert!(again.is_empty() && again.rewritten.is_empty(), "{again:?}");
    scene.say(&line("c", Some("f8"), "three"));
    let on = scene.save().unwrap();
    assert_eq!((on.lines, on.is_merged, on.rewritten.len()), (1, false, 0), "it goes on from there");
}

#[test]
fn h5_a_line_that_got_a_carriage_return_stays_as_it_was_and_is_told() {
    let scene = Scene::new("/home/ada/app");
    let (one, two) = (line("a", None, "one"), line("b", Some("a"), "two"));
    scene.say(&format!("{one}{two}"));
    scene.save().unwrap();
    fs::write(scene.transcript(), format!("{}\r\n{two}", one.trim_end())).unwrap();
    let saved = scene.save().unwrap();
    let told = [Rewrite { line: 1, uuid: "a".to_owned(), is_blank: true }];
    assert_eq!(saved.rewritten.iter().map(|told| told.rewrite.clone()).collect::<Vec<_>>(), told);
    assert_eq!((saved.lines, scene.kept()), (0, format!("{one}{two}")));
    assert_eq!(scene.keeper.rewritten(&scene.found()).unwrap(), told, "and can be asked for");
    // Of a line that had no end when it was saved, too.
    let other = Scene::new("/home/ada/app");
    other.say(one.trim_end());
    other.save().unwrap();
    other.say(&format!("\r\n{two}"));
    let saved = other.save().unwrap();
    assert_eq!((saved.rewritten.len(), other.kept()), (1, format!("{one}{two}")));
}

#[test]
fn h5_a_quick_saving_leaves_changes_in_the_middle_to_the_next_whole_one() {
    let scene = Scene::new("/home/ada/app");
    let filler: String = (0..9).map(|at| line(&format!("f{at}"), None, &"filler ".repeat(20))).collect();
    scene.say(&format!("{}{filler}", line("a", None, "one")));
    scene.save().unwrap();
    fs::write(scene.transcript(), format!("{}{filler}{}", line("a", None, "uno"), line("c", None, "more"))).unwrap();
    let quick = scene.keeper.save_added(&scene.found()).unwrap();
    assert_eq!((quick.lines, quick.rewritten.len()), (1, 0));
    let whole = scene.save().unwrap();
    assert_eq!((whole.lines, whole.rewritten.len()), (1, 1));
    assert_eq!(lost(&scene, &whole), Vec::<u64>::new());
}

#[test]
fn h5_every_byte_of_a_changed_file_is_kept_or_its_line_is_told() {
    let mut dice = Dice::new(7);
    let (mut changed_lines, mut told, mut failed) = (0, 0, Vec::new());
    for (name, text) in recorded() {
        for round in 0..4 {
            let scene = Scene::new("/home/ada/app");
            scene.say(&text);
            scene.save().unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for _ in 0..=dice.below(4) {
                let at = dice.below(lines.len());
                changed_lines += 1;
                match dice.below(6) {
                    0 => lines[at].push('\r'),
                    1 => lines[at].push(' '),
                    // The same length.
                    2 => lines[at] = lines[at].replace("\"external\"", "\"internal\""),
                    3 => lines[at] = lines[at].replace("\"version\":\"2.", "\"version\":\"two."),
                    4 => {
                        let middle = lines[at].floor_char_boundary(lines[at].len() / 2);
                        lines[at].truncate(middle);
                    }
                    _ => {
                        let other = dice.below(lines.len());
                        lines.swap(at, other);
                    }
                }
            }
            let is_forgotten = dice.one_in(3);
            if is_forgotten {
                fs::remove_dir_all(scene.folder.path().join("home/copies")).unwrap();
            }
            let changed: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(scene.transcript(), changed).unwrap();
            let saved = scene.save().unwrap();
            told += saved.rewritten.len();
            let lost = lost(&scene, &saved);
            if !lost.is_empty() || !scene.kept().starts_with(&text) {
                failed.push(format!("{name} #{round}, without marks {is_forgotten}: lines {lost:?}"));
            }
            let again = scene.save().unwrap();
            assert!(again.is_empty(), "{name} #{round}: {again:?}");
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(changed_lines > 200 && told > 100, "{changed_lines} changes, {told} told");
}
