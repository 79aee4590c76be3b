//! Compactions one after the other: they do not grow, they forget no pin and no request, and each can be undone.

use serde_json::Value;
use unforget_core::record::Draft;

use crate::support::{Scene, holds};

const PIN: &str = "The deploy key is in vault/path-7 and \"never\" in the repository.\n  記憶";
const ROUNDS: usize = 15;

async fn talk(scene: &mut Scene, turns: usize) {
    for turn in 0..turns {
        scene.says(&format!("turn {turn}, see src/file_{turn}.rs {}", "words ".repeat(100))).await;
    }
}

#[tokio::test]
async fn g08_summaries_of_summaries_do_not_grow() {
    let mut scene = Scene::new();
    let mut after = Vec::new();
    for round in 0..ROUNDS {
        talk(&mut scene, 6).await;
        scene.says(&format!("task_{round:04}x {}", "important ".repeat(50))).await;
        scene.restart();
        let done = scene.compact().await.unwrap();
        assert!(done.tokens.1 < done.tokens.0, "round {round}");
        after.push(done.tokens.1);
    }
    let lengths: Vec<usize> =
        scene.of_type("compaction").iter().map(|found| found["summary"].as_str().unwrap().len()).collect();
    assert_eq!(lengths.len(), ROUNDS);
    let (first, last) = (lengths[1].max(2000), lengths[ROUNDS - 1]);
    assert!(last <= first * 2, "{lengths:?}");
    assert!(after[ROUNDS - 1] <= after[1] * 3 / 2, "{after:?}");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn digests_of_digests_do_not_grow() {
    let mut scene = Scene::new();
    for _ in 0..ROUNDS {
        talk(&mut scene, 8).await;
        scene.push_for_summary(crate::support::error(400, "invalid_request_error", "no", None));
        scene.compact().await.unwrap();
    }
    let lengths: Vec<usize> =
        scene.of_type("compaction").iter().map(|found| found["summary"].as_str().unwrap().len()).collect();
    assert!(lengths.iter().all(|length| *length < 12_000 + 10_000), "{lengths:?}");
    assert!(lengths[ROUNDS - 1] <= lengths[3] * 3 / 2, "{lengths:?}");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn pins_survive_all_compactions_word_for_word() {
    let mut scene = Scene::new();
    let n = scene.says("where is the key?").await.n;
    scene.append(&[Draft::pin(n, Some(PIN)), Draft::pin(2, Some("let go")), Draft::pin(2, None)]);
    for _ in 0..ROUNDS {
        talk(&mut scene, 6).await;
        scene.restart();
        scene.compact().await.unwrap();
        scene.says("still there?").await;
        let request = scene.last_request();
        assert!(holds(&request["messages"][0], PIN), "{}", request["messages"][0]);
        assert!(!holds(&request, "let go"));
    }
    assert_eq!(scene.of_type("pin").len(), 3);
    scene.append(&[Draft::pin(n, None)]);
    talk(&mut scene, 6).await;
    scene.compact().await.unwrap();
    assert!(!scene.history().to_json().contains("deploy key"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn the_latest_request_survives_every_compaction_of_a_long_turn() {
    let request = "Please rename the field colour_of_door to hue [[chain:60|long 35]]";
    let mut scene = Scene::with_window(9_000);
    scene.settings.max_steps = 60;
    talk(&mut scene, 4).await;
    scene.says(request).await;
    let compactions = scene.of_type("compaction").len();
    assert!(compactions >= 3, "{compactions} compactions");
    for sent in scene.requests().iter().skip_while(|sent| !holds(&sent.json(), "colour_of_door")) {
        assert!(holds(&sent.json(), request), "{}", sent.json()["messages"][0]);
    }
    assert_eq!(scene.runs.commands().len(), 60);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn undo_brings_the_view_back_and_undoing_twice_the_one_before() {
    let mut scene = Scene::new();
    talk(&mut scene, 8).await;
    let first = scene.history().to_json();
    scene.compact().await.unwrap();
    talk(&mut scene, 6).await;
    let second = scene.history().to_json();
    let newest = scene.compact().await.unwrap().n;
    let third = scene.history().to_json();
    assert!(third.len() < second.len());
    scene.restart();
    assert_eq!(scene.undo(), Some(newest));
    assert_eq!(scene.history().to_json(), second);
    scene.restart();
    assert!(scene.undo().is_some_and(|n| n < newest));
    let whole = scene.history().to_json();
    assert!(whole.starts_with(first.trim_end_matches(['}', ']'])), "everything is back");
    assert!(!whole.contains("[Summary of the conversation so far]"));
    assert_eq!(scene.undo(), None);
    scene.says("go on").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_trim_is_undone_before_the_compaction_that_came_before_it() {
    let mut scene = Scene::new();
    talk(&mut scene, 8).await;
    let compaction = scene.compact().await.unwrap().n;
    scene.says("[[bash:long 200]]").await;
    let before = scene.history().to_json();
    let result = scene.of_type("tool_result")[0]["n"].as_u64().unwrap();
    let trim = scene.append(&[Draft::trim(&[result], 1024)]).start;
    assert!(scene.history().to_json().len() < before.len() - 5000);
    assert_eq!(scene.undo(), Some(trim));
    assert_eq!(scene.history().to_json(), before);
    assert_eq!(scene.undo(), Some(compaction));
    scene.says("go on").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_compaction_after_an_undo_counts() {
    let mut scene = Scene::new();
    talk(&mut scene, 8).await;
    scene.compact().await.unwrap();
    scene.undo().unwrap();
    talk(&mut scene, 2).await;
    let again = scene.compact().await.unwrap().n;
    scene.says("after").await;
    assert!(holds(&scene.last_request()["messages"][0], "[Summary of the conversation so far]"));
    assert_eq!(scene.undo(), Some(again));
    scene.says("back").await;
    assert!(!holds(&scene.last_request(), "[Summary of the conversation so far]"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_call_that_was_answered_much_later_by_a_stand_in_holds_up_no_compaction() {
    let mut scene = Scene::new();
    scene.append(&[
        Draft::user("start"),
        Draft::tool_use(Some("msg_1"), "toolu_lost", "bash", "{\"command\":\"echo a\"}"),
    ]);
    for turn in 0..8 {
        let words = format!("turn {turn} {}", "words ".repeat(100));
        scene.append(&[Draft::user(&words), Draft::assistant(Some(&format!("m{turn}")), "\"fine\"")]);
    }
    scene.says("settle it").await;
    let results: Vec<Value> = scene.of_type("tool_result");
    assert_eq!((results.len(), &results[0]["repair"]), (1, &true.into()));
    let done = scene.compact().await.expect("something to replace");
    assert!(done.messages.1 <= done.messages.0 / 2 + 1, "{:?}", done.messages);
    scene.says("after").await;
    scene.assert_no_refusal();
}
