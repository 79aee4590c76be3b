use super::*;
use crate::scan;

/// A tree of lines without their envelope's beginning: `n`, the parent if there is one, and the rest.
fn tree(lines: &[(u64, Option<u64>, &str)]) -> Tree {
    let mut tree = Tree::default();
    for record in &scan::scan(text(lines).as_bytes()).records {
        tree.feed(record);
    }
    tree
}

fn text(lines: &[(u64, Option<u64>, &str)]) -> String {
    let line = |(n, parent, rest): &(u64, Option<u64>, &str)| {
        let parent = parent.map_or(String::new(), |parent| format!("\"parent\":{parent},"));
        format!("{{\"v\":1,\"n\":{n},{parent}{rest}}}\n")
    };
    lines.iter().map(line).collect()
}

const HEADER: (u64, Option<u64>, &str) = (0, None, r#""type":"session","id":"x""#);
const SAID: &str = r#""type":"user","content":"words""#;

/// Two lines from record 2: 3 and 4, then 6 and 7 after a rewind.
fn two_lines() -> Vec<(u64, Option<u64>, &'static str)> {
    vec![
        HEADER,
        (1, Some(0), SAID),
        (2, Some(1), SAID),
        (3, Some(2), r#""type":"user","content":"first way""#),
        (4, Some(3), SAID),
        (5, None, r#""type":"head","to":2,"reason":"rewind""#),
        (6, Some(2), r#""type":"user","content":[{"type":"text","text":"second\n way"}]"#),
        (7, Some(6), r#""type":"turn","state":"done""#),
    ]
}

#[test]
fn a_line_that_was_left_is_a_branch_of_its_own() {
    let tree = tree(&two_lines());
    assert_eq!(tree.head(), Some(7));
    let told: Vec<_> = tree
        .branches()
        .into_iter()
        .map(|it| (it.tip, it.from, it.first, it.records, it.turns, it.words.unwrap_or_default(), it.is_head))
        .collect();
    assert_eq!(
        told,
        [
            (4, None, Some(0), 5, 4, "words".to_owned(), false),
            (7, Some(2), Some(6), 2, 1, "second way".to_owned(), true)
        ]
    );
    assert_eq!(tree.path().ranges().collect::<Vec<_>>(), [0..=2, 6..=7]);
    assert!([0, 1, 2, 6, 7].iter().all(|n| tree.is_on_path(*n)) && ![3, 4, 5].iter().any(|n| tree.is_on_path(*n)));
}

#[test]
fn a_long_line_takes_one_segment_and_its_holes_one_more_each() {
    let mut lines = vec![HEADER];
    lines.extend((1..1000).map(|n| (n, Some(n - 1), SAID)));
    lines.push((1000, None, r#""type":"title","title":"x""#));
    lines.extend((1001..2000).map(|n| (n, Some(if n == 1001 { 999 } else { n - 1 }), SAID)));
    let tree = tree(&lines);
    assert_eq!(tree.segments.len(), 2);
    assert_eq!(tree.branches().len(), 1);
    assert_eq!((tree.has_step(999), tree.has_step(1000), tree.has_step(1001)), (true, false, true));
}

#[test]
fn a_branch_moves_on_and_a_checkpoint_stays() {
    let mut lines = vec![
        HEADER,
        (1, Some(0), SAID),
        (2, None, r#""type":"label","to":1,"name":"here""#),
        (3, None, r#""type":"label","to":1,"name":"other","as":"branch""#),
        (4, Some(1), SAID),
    ];
    let names = |lines: &[(u64, Option<u64>, &str)]| -> Vec<(String, Option<u64>)> {
        tree(lines).labels().into_iter().map(|label| (label.name, label.to)).collect()
    };
    let pair = |name: &str, n| (name.to_owned(), Some(n));
    assert_eq!(names(&lines), [pair("here", 1), pair("main", 1), pair("other", 4)]);
    assert_eq!(tree(&lines).current(), Some("other"));
    lines.extend([(5, None, r#""type":"head","to":1,"reason":"switch","branch":"main""#), (6, Some(1), SAID)]);
    assert_eq!(names(&lines), [pair("here", 1), pair("main", 6), pair("other", 4)]);
    // Back over its own steps a branch goes along; beyond them it stays behind.
    lines.push((7, None, r#""type":"head","to":4,"reason":"rewind","branch":null"#));
    lines.push((8, Some(4), SAID));
    assert_eq!(names(&lines), [pair("here", 1), pair("main", 6), pair("other", 4)]);
    assert_eq!(tree(&lines).current(), None);
}

#[test]
fn a_named_place_is_a_branch_before_anything_is_said_on_it() {
    let lines = [
        HEADER,
        (1, Some(0), SAID),
        (2, None, r#""type":"label","to":1,"name":"b","as":"branch""#),
        (3, Some(1), SAID),
    ];
    let branches = tree(&lines).branches();
    let told: Vec<_> = branches.iter().map(|it| (it.tip, it.names.join(" "), it.records)).collect();
    assert_eq!(told, [(3, "b".to_owned(), 3), (1, "main".to_owned(), 0)]);
}

#[test]
fn of_two_names_that_are_the_same_the_latest_counts() {
    let mut lines = two_lines();
    lines.push((8, None, r#""type":"label","to":1,"name":"x""#));
    lines.push((9, None, r#""type":"label","to":3,"name":"x""#));
    let label = tree(&lines).label("x").unwrap();
    assert_eq!((label.to, label.n, label.kind), (Some(3), 9, Kind::Checkpoint));
    assert_eq!(tree(&lines).label("y"), None);
}

#[test]
fn redo_leads_back_until_something_is_said() {
    let mut lines = two_lines();
    let to = |lines: &[_]| tree(lines).redo().map(|it| (it.from.head, it.from.branch.clone()));
    let main = Some("main".to_owned());
    assert_eq!(to(&lines), None);
    lines.push((8, None, r#""type":"head","to":6,"reason":"undo""#));
    lines.push((9, None, r#""type":"head","to":1,"reason":"undo""#));
    assert_eq!(to(&lines), Some((Some(6), main.clone())));
    lines.push((10, None, r#""type":"head","to":6,"reason":"redo""#));
    assert_eq!(to(&lines), Some((Some(7), main)));
    lines.push((11, Some(6), SAID));
    assert_eq!(to(&lines), None);
}

#[test]
fn files_that_come_along_are_remembered_and_say_nothing() {
    const FILE: &str = r#""type":"file","path":"a","root":"/w","before":null,"after":null,"by":"restore""#;
    let mut lines = two_lines();
    lines.push((8, Some(7), FILE));
    lines.push((9, None, r#""type":"head","to":1,"reason":"undo","files":7"#));
    let to = |lines: &[_]| tree(lines).redo().map(|it| (it.from.head, it.from.files));
    assert_eq!(to(&lines), Some((Some(8), Some(7))));
    lines.push((10, Some(1), FILE));
    assert_eq!(to(&lines), Some((Some(8), Some(7))));
    lines.push((11, Some(10), SAID));
    assert_eq!(to(&lines), None);
}

#[test]
fn moves_of_the_head_are_remembered_up_to_a_bound() {
    let mut lines = two_lines();
    let back: Vec<String> = (8..=308).rev().map(|to| format!(r#""type":"head","to":{to},"reason":"undo""#)).collect();
    lines.extend((8..=310).map(|n| (n, Some(n - 1), SAID)));
    lines.extend((311..).zip(&back).map(|(n, back)| (n, None, back.as_str())));
    let tree = tree(&lines);
    assert_eq!((tree.undone.len(), tree.redo().unwrap().n), (MAX_MOVES, 611));
}

#[test]
fn redo_never_leads_backward_or_sideways() {
    let lines = |moves: &[&'static str]| {
        let mut lines = two_lines();
        lines.extend((8..).zip(moves).map(|(n, line)| (n, None, *line)));
        lines
    };
    let to = |moves: &[&'static str]| tree(&lines(moves)).redo().map(|it| it.from.head);
    let (back, forward) = (r#""type":"head","to":2,"reason":"restore""#, r#""type":"head","to":7,"reason":"switch""#);
    let (aside, undo) = (r#""type":"head","to":4,"reason":"switch""#, r#""type":"head","to":6,"reason":"undo""#);
    assert_eq!(to(&[back]), Some(Some(7)));
    assert_eq!(to(&[back, forward]), None);
    assert_eq!(to(&[aside]), None);
    assert_eq!(to(&[undo, aside, forward]), None);
    // A redo names what it takes back, and what was undone before that can still be.
    assert_eq!(to(&[undo, back, r#""type":"head","to":6,"reason":"redo","undoes":9"#]), Some(Some(7)));
    assert_eq!(to(&[undo, back, r#""type":"head","to":7,"reason":"redo","undoes":8"#]), None);
}

#[test]
fn turns_are_those_on_the_way_to_the_head() {
    let mut lines = two_lines();
    assert_eq!(tree(&lines).turns(), 3, "the first way is not on it");
    for (n, to, turns) in [(8, "2", 2), (9, "1", 1), (10, "null", 0), (11, "4", 4), (12, "6", 3)] {
        let line: &'static str = String::leak(format!(r#""type":"head","to":{to},"reason":"rewind""#));
        lines.push((n, None, line));
        assert_eq!(tree(&lines).turns(), turns, "at {to}");
    }
}

#[test]
fn a_name_that_was_dropped_is_free_again() {
    let mut lines = two_lines();
    lines.push((8, None, r#""type":"label","to":7,"name":"b","as":"branch""#));
    assert_eq!((tree(&lines).current(), tree(&lines).labels().len()), (Some("b"), 2));
    lines.push((9, None, r#""type":"label","to":7,"name":"b","as":"dropped""#));
    assert_eq!((tree(&lines).current(), tree(&lines).label("b")), (None, None));
    lines.push((10, None, r#""type":"label","to":3,"name":"b""#));
    assert_eq!(tree(&lines).label("b").unwrap().kind, Kind::Checkpoint);
}

#[test]
fn ways_part_at_the_last_step_that_they_share() {
    let tree = tree(&two_lines());
    let (a, b) = (tree.path_to(4).unwrap(), tree.path_to(7).unwrap());
    assert_eq!(a.parting(&b).map(|place| place.n), Some(2));
    assert_eq!(a.parting(&a).map(|place| place.n), Some(4));
    assert_eq!((a.steps(), b.steps()), (5, 5));
    assert_eq!(tree.path_to(5), None);
}

#[test]
fn an_outline_counts_between_the_forks() {
    let mut lines = two_lines();
    lines.push((8, None, r#""type":"label","to":3,"name":"x""#));
    let text = text(&lines);
    let records = scan::scan(text.as_bytes()).records;
    let tree = tree(&lines);
    let mut outline = Outline::new(&tree, Detail::Folded);
    records.iter().for_each(|record| outline.feed(record));
    let drawn = outline.finish();
    let told: Vec<Vec<_>> = drawn
        .iter()
        .map(|line| {
            line.stretches.iter().map(|it| (it.first, it.last, it.turns, it.children.clone(), it.head)).collect()
        })
        .collect();
    assert_eq!(told, [vec![(0, 2, 2, vec![1], None), (3, 4, 2, vec![], None)], vec![(6, 7, 1, vec![], Some(7))]]);
    let named = |n, name: &str, kind| vec![Named { n, name: name.to_owned(), kind }];
    assert_eq!(drawn[0].stretches[1].names, named(3, "x", Kind::Checkpoint));
    assert_eq!(drawn[1].stretches[0].names, named(7, "main", Kind::Branch));
}

#[test]
fn an_outline_has_a_stretch_for_each_named_branch() {
    let label = r#""type":"label","to":2,"name":"b","as":"branch""#;
    let lines =
        [HEADER, (1, Some(0), SAID), (2, Some(1), SAID), (3, None, label), (4, Some(2), SAID), (5, Some(4), SAID)];
    let tree = tree(&lines);
    let mut outline = Outline::new(&tree, Detail::Folded);
    scan::scan(text(&lines).as_bytes()).records.iter().for_each(|record| outline.feed(record));
    let told: Vec<_> =
        outline.finish()[0].stretches.iter().map(|it| (it.first, it.last, it.names[0].name.clone())).collect();
    assert_eq!(told, [(0, 2, "main".to_owned()), (4, 5, "b".to_owned())]);
}

#[test]
fn a_stored_tree_that_was_tampered_with_is_survived() {
    let stored = serde_json::to_string(&tree(&two_lines())).unwrap();
    for (from, to) in [
        ("\"rising\":[0,1]", "\"rising\":[7,0,9]"),
        ("\"segment\":0", "\"segment\":99"),
        ("\"segment\":1", "\"segment\":2"),
        ("\"first\":0", "\"first\":900"),
        ("\"again\":{}", "\"again\":{\"3\":77}"),
        ("\"first\":6", "\"first\":900"),
    ] {
        let changed = stored.replace(from, to);
        assert_ne!(changed, stored, "{from}");
        let Ok(mut tree) = serde_json::from_str::<Tree>(&changed) else { continue };
        for record in &scan::scan(text(&two_lines()).as_bytes()).records {
            tree.feed(record);
        }
        assert!(tree.branches().len() < 20 && tree.path().steps() < 2000);
        drop((tree.labels(), tree.path_to(3), Outline::new(&tree, Detail::EveryTurn).finish()));
    }
}

#[test]
fn very_many_named_branches_take_a_time_that_grows_with_their_number() {
    let name = |n: u64| format!(r#""type":"label","to":1,"name":"b{n}","as":"branch""#);
    let names: Vec<String> = (0..200_000).map(name).collect();
    let mut lines = vec![HEADER, (1, Some(0), SAID)];
    for (at, name) in names.iter().enumerate() {
        let n = 2 + 2 * at as u64;
        lines.extend([(n, Some(1), SAID), (n + 1, None, name.as_str())]);
    }
    let tree = tree(&lines);
    let begin = std::time::Instant::now();
    assert_eq!(tree.branches().iter().map(|it| it.names.len()).sum::<usize>(), names.len() + 1);
    assert!(begin.elapsed() < std::time::Duration::from_secs(120), "{:?}", begin.elapsed());
}

#[test]
fn turns_know_how_they_ended() {
    let lines = [
        (0, None, r#""type":"session","id":"s""#),
        (1, None, r#""type":"user","content":"first""#),
        (2, Some(1), r#""type":"tool_use","tool_use_id":"t","name":"bash","input":{}"#),
        (3, Some(2), r#""type":"tool_result","tool_use_id":"t","output":"no","is_error":true"#),
        (4, Some(3), r#""type":"turn","state":"running""#),
        (5, Some(4), r#""type":"turn","state":"failed""#),
        (6, Some(1), r#""type":"assistant","content":"otherwise""#),
        (7, Some(6), r#""type":"turn","state":"done""#),
        (8, Some(5), r#""type":"user","content":"second""#),
    ];
    let text = text(&lines);
    let mut turns = Turns::newest(9);
    scan::scan(text.as_bytes()).records.iter().for_each(|record| turns.feed(record));
    let told: Vec<_> = turns.turns().iter().map(|it| (it.n, it.end, it.state.as_deref(), it.errors)).collect();
    // 6 follows 1, whatever was said in between.
    assert_eq!([3, 6, 7, 8].map(|n| turns.of(n)), [Some(1), Some(1), Some(1), Some(8)]);
    // Of two ways that lead on from the same words, the later one tells.
    assert_eq!(told, [(1, 7, Some("done"), 1), (8, 8, None, 0)]);
}

#[test]
fn turns_know_the_one_before_them_and_say_no_secrets() {
    let mut lines = two_lines();
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    // The cut would go through it.
    let said = format!(r#""type":"user","content":"{} {secret}""#, "x".repeat(60));
    lines.push((8, Some(7), r#""type":"compaction","summary":"short""#));
    lines.push((9, Some(8), &said));
    let text = text(&lines);
    let records = scan::scan(text.as_bytes()).records;
    let feed = |most| {
        let mut turns = Turns::newest(most);
        records.iter().for_each(|record| turns.feed(record));
        turns
    };
    let all = feed(100);
    let told: Vec<(u64, Option<u64>)> = all.turns().iter().map(|turn| (turn.n, turn.parent)).collect();
    assert_eq!(told, [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(3)), (6, Some(2)), (9, Some(6))]);
    assert_eq!((all.turns()[4].words.as_str(), all.is_cut()), ("second way", false));
    assert_eq!(all.compactions(), &[8]);
    let masked = &all.turns()[5].words;
    assert!(masked.contains("[mask") && !masked.contains("0123"), "{masked}");
    let ends: Vec<_> = all.turns().iter().map(|turn| (turn.before, turn.end)).collect();
    assert_eq!(ends, [(Some(0), 1), (Some(1), 2), (Some(2), 3), (Some(3), 4), (Some(2), 8), (Some(8), 9)]);
    let few = feed(2);
    assert_eq!((few.turns()[0].n, few.turns().len(), few.is_cut()), (6, 2, true));
    assert_eq!(few.tree(), &tree(&lines));
}
