//! The tree against the history: every parent walked one by one, over files that break every rule.

use std::collections::HashMap;

use proptest::prelude::*;
use unforget_core::history;
use unforget_core::record::Record;
use unforget_core::scan::scan;
use unforget_core::tree::{Detail, Outline, Tree, Turns};
use unforget_testkit::generate::{self, Dice};

/// Lines of a session with heads, names and titles, some numbers used twice, left out or unknown.
fn branchy(seed: u64, lines: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut out = String::new();
    let (mut next, mut head) = (0, 0);
    for at in 0..lines {
        let n = match dice.below(30) {
            0 => dice.below(next + 2),
            1 => next + dice.below(3),
            _ => next,
        };
        next = next.max(n + 1);
        let parent = if dice.one_in(12) { dice.below(next + 1) } else { head };
        let line = match dice.below(20) {
            _ if at == 0 => format!("{{\"v\":1,\"n\":{n},\"type\":\"session\",\"id\":\"x\"}}"),
            0..=2 => {
                let to = if dice.one_in(10) { "null".to_owned() } else { dice.below(next + 1).to_string() };
                let reason = dice.pick(&["rewind", "redo", "undo"]);
                let branch =
                    dice.pick(&["", ",\"branch\":null", ",\"branch\":\"a\"", ",\"branch\":\"main\"", ",\"branch\":7"]);
                head = to.parse().unwrap_or(0);
                format!("{{\"v\":1,\"n\":{n},\"type\":\"head\",\"to\":{to},\"reason\":\"{reason}\"{branch}}}")
            }
            3 => {
                let name = dice.pick(&["a", "b", "main", ""]);
                let kind = dice.pick(&["", ",\"as\":\"branch\""]);
                let to = if dice.one_in(2) { head } else { dice.below(next + 1) };
                format!("{{\"v\":1,\"n\":{n},\"type\":\"label\",\"to\":{to},\"name\":\"{name}\"{kind}}}")
            }
            4 => format!("{{\"v\":1,\"n\":{n},\"type\":\"title\",\"title\":\"t\"}}"),
            5 if dice.one_in(4) => "{\"type\":\"user\",\"content\":\"version 0\"}".to_owned(),
            5 if dice.one_in(4) => format!("{{\"v\":1,\"n\":{n},\"type\":\"user\",\"content\":\"no parent\"}}"),
            6 if dice.one_in(4) => "damaged".to_owned(),
            _ => {
                head = n;
                let kind = dice.pick(&["user", "assistant", "user", "turn"]);
                format!(
                    "{{\"v\":1,\"n\":{n},\"parent\":{parent},\"type\":\"{kind}\",\"content\":\"c{at}\",\"state\":\"done\"}}"
                )
            }
        };
        out.push_str(&line);
        out.push('\n');
    }
    out.into_bytes()
}

fn tree_of(bytes: &[u8]) -> Tree {
    let mut tree = Tree::default();
    scan(bytes).records.iter().for_each(|record| tree.feed(record));
    tree
}

fn assert_agrees(bytes: &[u8], what: &str) {
    let records = scan(bytes).records;
    let tree = tree_of(bytes);
    let path = history::path(&records);
    let walked: Vec<u64> = path.records.iter().map(|record| record.n).collect();
    let ours: Vec<u64> = tree.path().ranges().flatten().collect();
    assert_eq!((tree.head(), ours), (path.head, walked.clone()), "{what}");
    for n in 0..=records.len() as u64 + 3 {
        assert_eq!(tree.is_on_path(n), walked.contains(&n), "{what}: {n}");
        let is_step = records.iter().any(|record| record.n == n && record.is_step());
        assert_eq!(tree.has_step(n), is_step, "{what}: {n}");
    }
    // Which places are on the path, where numbers are not enough.
    let (mut now, trail) = (Tree::default(), tree.path());
    let mut held = Vec::new();
    for record in &records {
        now.feed(record);
        if record.is_step() && now.last().is_some_and(|place| trail.holds(place)) {
            held.push(record.offset);
        }
    }
    assert_eq!(held, path.records.iter().map(|record| record.offset).collect::<Vec<_>>(), "{what}");
    let steps = records.iter().filter(|record| record.is_step()).count() as u64;
    let branches = tree.branches();
    assert_eq!(branches.iter().map(|branch| branch.records).sum::<u64>(), steps, "{what}");
    let mut outline = Outline::new(&tree, Detail::EveryTurn);
    records.iter().for_each(|record| outline.feed(record));
    let lines = outline.finish();
    let stretches = || lines.iter().flat_map(|line| &line.stretches);
    assert_eq!(stretches().map(|stretch| stretch.records).sum::<u64>(), steps, "{what}");
    let turns = branches.iter().map(|branch| branch.turns).sum::<u64>();
    assert_eq!(stretches().map(|stretch| stretch.turns).sum::<u64>(), turns, "{what}");
    assert_eq!(
        stretches().filter_map(|stretch| stretch.head).collect::<Vec<_>>(),
        Vec::from_iter(tree.head()),
        "{what}"
    );
    let hanging = stretches().flat_map(|stretch| &stretch.children).count();
    assert_eq!(hanging, lines.iter().filter(|line| line.from.is_some()).count(), "{what}");
    assert_turns_agree(&records, &walked, turns, what);
}

/// The turns before each other are those that the way has.
fn assert_turns_agree(records: &[Record<'_>], walked: &[u64], count: u64, what: &str) {
    let mut turns = Turns::newest(usize::MAX);
    records.iter().for_each(|record| turns.feed(record));
    assert_eq!((turns.turns().len() as u64, turns.is_cut()), (count, false), "{what}");
    let parents: HashMap<u64, Option<u64>> = turns.turns().iter().map(|turn| (turn.n, turn.parent)).collect();
    if parents.len() < turns.turns().len()
        || records.iter().any(|one| records.iter().filter(|it| it.n == one.n).count() > 1)
    {
        // Numbers that were used twice name no turn.
        return;
    }
    let said: Vec<u64> = walked.iter().copied().filter(|n| parents.contains_key(n)).collect();
    let (mut back, mut at) = (Vec::new(), said.last().copied());
    while let Some(n) = at {
        back.push(n);
        at = parents[&n];
    }
    back.reverse();
    assert_eq!(back, said, "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_agrees_with_the_parents_walked_one_by_one(seed: u64, lines in 1_usize..60) {
        assert_agrees(&branchy(seed, lines), &format!("seed {seed}, {lines} lines"));
    }

    #[test]
    fn the_tree_of_any_records_agrees_with_the_history(seed: u64, lines in 1_usize..40) {
        // A compaction hides a part of the path from the history; a type that nobody knows does not.
        let bytes = generate::soup(seed, lines);
        let text = String::from_utf8_lossy(&bytes).replace("compaction", "compactiom");
        assert_agrees(text.as_bytes(), &format!("seed {seed}, {lines} lines"));
    }

    #[test]
    fn a_tree_that_is_stored_and_fed_on_equals_one_that_was_fed_everything(seed: u64, lines in 1_usize..60, cut in 0_usize..60) {
        let bytes = branchy(seed, lines);
        let records = scan(&bytes).records;
        let mut tree = Tree::default();
        for (at, record) in records.iter().enumerate() {
            if at == cut {
                tree = serde_json::from_str(&serde_json::to_string(&tree).unwrap()).unwrap();
            }
            tree.feed(record);
        }
        prop_assert_eq!(tree, tree_of(&bytes), "seed {} lines {}", seed, lines);
    }
}

#[test]
fn a_tree_grows_with_its_branches_and_not_with_its_records() {
    let bytes = generate::transcript(3, "01900000-0000-7000-8000-000000000000", 400_000);
    let tree = tree_of(&bytes);
    let stored = serde_json::to_string(&tree).unwrap();
    // A turn takes its distance from the one before it and a comma.
    let turns = usize::try_from(tree.turns()).unwrap();
    assert!(scan(&bytes).records.len() > 900 && stored.len() < 650 + 3 * turns, "{stored}");
}

#[test]
fn a_head_in_the_middle_of_a_call_gives_a_history_that_is_accepted() {
    use unforget_core::history::Limits;
    use unforget_core::record::Draft;
    let (_medium, store) = crate::support::crash_store();
    let mut session = store.create(&unforget_core::key::Key::default(), None).unwrap();
    let thinking = r#"[{"type":"thinking","thinking":"hm","signature":"c2ln"}]"#;
    let end = session
        .append(&[
            Draft::user("do both"),
            Draft::assistant(Some("m1"), thinking),
            Draft::tool_use(Some("m1"), "toolu_1", "bash", "{}"),
            Draft::tool_use(Some("m1"), "toolu_2", "bash", "{}"),
            Draft::turn("running"),
            Draft::tool_result("toolu_1", "\"one\""),
            Draft::tool_result("toolu_2", "\"two\""),
            Draft::assistant(Some("m2"), r#"[{"type":"text","text":"done"}]"#),
            Draft::turn("done"),
        ])
        .unwrap()
        .end;
    for n in 0..end {
        session.append(&[Draft::head(Some(n), "rewind")]).unwrap();
        let history = session.history(&Limits::default()).unwrap().history;
        crate::support::assert_accepted(&history, &format!("record {n}"));
        // The calls that have no result on this path are answered, and said to be so.
        let open = if (3..6).contains(&n) { n.min(4) - 2 } else { u64::from(n == 6) };
        assert_eq!(history.unanswered.len() as u64, open, "record {n}");
        session.settle(&Limits::default()).unwrap();
        session.append(&[Draft::user("go on")]).unwrap();
        crate::support::assert_accepted(&session.history(&Limits::default()).unwrap().history, &format!("behind {n}"));
    }
}
