//! Random edits, changes by hand and restores, against pictures of the whole tree.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use unforget_agent::files::Conflicts;

use super::scene::Work;

const PATHS: [&str; 4] = ["a", "b", "folder/c", "folder/deep/d"];

#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Edit(usize),
    ByHand(usize),
    DeleteByHand(usize),
    Restore(prop::sample::Index),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => path.clone().prop_map(Step::Write),
        2 => path.clone().prop_map(Step::Edit),
        2 => path.clone().prop_map(Step::ByHand),
        1 => path.prop_map(Step::DeleteByHand),
        3 => any::<prop::sample::Index>().prop_map(Step::Restore),
        1 => Just(Step::Reopen),
    ]
}

/// What the files were at a record; those that no tool had touched until later are filled in when one does.
type Picture = BTreeMap<String, Option<String>>;

/// The simple truth: a picture of the known files for each point.
struct Pictures(Vec<(u64, Picture)>);

impl Pictures {
    fn touched(&mut self, work: &Work, path: &str, before: Option<String>) {
        for (_, picture) in &mut self.0 {
            picture.entry(path.to_owned()).or_insert_with(|| before.clone());
        }
        let mut picture = self.0.last().unwrap().1.clone();
        picture.insert(path.to_owned(), work.tree().get(path).cloned());
        self.0.push((work.head(), picture));
    }
}

async fn play(steps: Vec<Step>) {
    let mut work = Work::new();
    work.write("b", "text 0\n");
    let mut pictures = Pictures(vec![(work.head(), Picture::new())]);
    for (count, step) in steps.into_iter().enumerate() {
        let text = format!("text {}\n", count + 1);
        match step {
            Step::Write(at) => {
                let before = work.tree().get(PATHS[at]).cloned();
                work.tool("write_file", json!({"path": PATHS[at], "content": text})).await;
                pictures.touched(&work, PATHS[at], before);
            }
            Step::Edit(at) => {
                let Some(before) = work.tree().get(PATHS[at]).cloned() else { continue };
                let edit = json!({"path": PATHS[at], "old_string": "text", "new_string": format!("edit {count} text")});
                work.tool("edit_file", edit).await;
                pictures.touched(&work, PATHS[at], Some(before));
            }
            Step::ByHand(at) => work.write(PATHS[at], &format!("by hand {text}")),
            Step::DeleteByHand(at) => {
                // There may be none.
                std::fs::remove_file(work.path(PATHS[at])).ok();
            }
            Step::Restore(which) => {
                let (n, picture) = pictures.0[which.index(pictures.0.len())].clone();
                let mut wanted = work.tree();
                for (path, content) in &picture {
                    match content {
                        Some(content) => drop(wanted.insert(path.clone(), content.clone())),
                        None => drop(wanted.remove(path)),
                    }
                }
                let restored = work.restore(n, Conflicts::Overwrite);
                assert_eq!(restored.left, []);
                assert_eq!(work.tree(), wanted);
                pictures.0.push((work.head(), picture));
            }
            Step::Reopen => work.restart(),
        }
    }
}

#[tokio::test]
async fn a_file_that_was_restored_and_then_deleted_by_hand_is_still_known_at_that_point() {
    let mut work = Work::new();
    work.write("b", "text 0\n");
    let beginning = work.head();
    work.tool("write_file", json!({"path": "d", "content": "text 1\n"})).await;
    let written = work.head();
    work.restore(beginning, Conflicts::Overwrite);
    work.restore(written, Conflicts::Overwrite);
    let restored = work.head();
    std::fs::remove_file(work.path("d")).unwrap();
    work.restore(beginning, Conflicts::Overwrite);
    work.restore(restored, Conflicts::Overwrite);
    assert_eq!(work.read("d"), "text 1\n");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn files_are_what_they_were_whatever_happened(steps in prop::collection::vec(step(), 1..25)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play(steps));
    }
}
