//! Crashes: the power of the store's disk is cut at every single write, and nothing that was in a file is lost.

use serde_json::json;
use unforget_agent::files::Conflicts;
use unforget_core::files::{Content, Files};
use unforget_testkit::crash::{Fault, FaultKind, Survival};

use super::scene::Work;

/// More writes than a turn or a restore here has.
const ENOUGH: u64 = 200;

fn cut(work: &Work, after: u64) {
    let at = work.medium.operations() + after;
    work.medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: true });
}

#[tokio::test]
async fn what_a_tool_replaced_is_in_the_log_wherever_the_power_was_cut() {
    let (mut changed_and_cut, mut finished) = (0, false);
    for after in 1..ENOUGH {
        let mut work = Work::new();
        work.write("a", "precious");
        let before = work.head();
        cut(&work, after);
        finished = work.try_tool("write_file", json!({"path": "a", "content": "new"})).await.is_ok();
        work.reboot(Survival::OnlySynced);
        let is_new = work.read("a") == "new";
        changed_and_cut += u32::from(is_new && !finished);
        if is_new {
            let files = Files::read(&work.session().reader().unwrap()).unwrap();
            let root = work.root();
            let (_, changes) = files.of(&root).next().unwrap_or_else(|| panic!("nothing was written, cut {after}"));
            assert!(matches!(changes.at(before), Content::Kept { .. }), "cut {after}");
        }
        // Made or not, it is no conflict, and it comes back.
        let restored = work.restore(before, Conflicts::Leave);
        assert_eq!(restored.left, [], "cut {after}");
        assert_eq!(work.read("a"), "precious", "cut {after}");
        if finished {
            break;
        }
    }
    assert!(finished && changed_and_cut > 0, "{changed_and_cut}");
}

#[tokio::test]
async fn a_restore_that_was_cut_off_is_finished_by_the_same_restore() {
    let (mut half, mut finished) = (0, false);
    for after in 1..ENOUGH {
        let mut work = Work::new();
        work.write("a", "old a");
        work.write("b", "old b");
        let before = work.head();
        for (path, content) in [("a", "new a"), ("b", "new b"), ("c/d", "new d")] {
            work.tool("write_file", json!({"path": path, "content": content})).await;
        }
        let (last, latest) = (work.head(), work.tree());
        cut(&work, after);
        finished = work.try_restore(before, Conflicts::Leave).is_ok();
        work.reboot(Survival::OnlySynced);
        let tree = work.tree();
        for (path, content) in &tree {
            assert!(content.starts_with("old ") || content.starts_with("new "), "{path}: {content}");
        }
        half += u32::from(!finished && tree != latest);
        if after % 2 == 0 {
            // Or back again.
            assert_eq!(work.restore(last, Conflicts::Leave).left, [], "cut {after}");
            assert_eq!(work.tree(), latest, "cut {after}");
        }
        assert_eq!(work.restore(before, Conflicts::Leave).left, [], "cut {after}");
        let wanted = [("a", "old a"), ("b", "old b")].map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(work.tree(), wanted.into(), "cut {after}");
        if finished {
            break;
        }
    }
    assert!(finished && half > 0, "{half}");
}
