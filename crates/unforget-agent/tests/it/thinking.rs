//! Thinking: its signatures survive restarts, and what no longer fits its conversation stays out.

use unforget_agent::model::Thinking;

use crate::support::{Scene, blocks};

const BINDING: &str = "claude-opus-5-5";
const MANUAL: &str = "claude-sonnet-4-5";

#[tokio::test]
async fn signatures_survive_restarts_to_the_byte() {
    let mut scene = Scene::with(200_000, BINDING);
    scene.says("[[think]] [[bash:echo a]]").await;
    scene.says("[[think]] and").await;
    scene.restart();
    scene.says("now").await;
    let request = scene.last_request();
    let sent: Vec<_> = blocks(&request, "thinking").into_iter().cloned().collect();
    assert_eq!(sent.len(), 2);
    let kept: Vec<_> = scene.of_type("assistant").iter().map(|said| said["content"][0].clone()).collect();
    for thought in &sent {
        assert!(thought["signature"].as_str().is_some_and(|signature| !signature.is_empty()));
        assert!(kept.contains(thought), "{thought}");
    }
    scene.assert_no_refusal();
}

#[tokio::test]
async fn g17_thinking_that_a_compaction_kept_stays_out() {
    let mut scene = Scene::with(200_000, BINDING);
    for turn in 0..8 {
        scene.says(&format!("turn {turn} [[think]]")).await;
    }
    assert_eq!(blocks(&scene.last_request(), "thinking").len(), 7);
    scene.compact().await.unwrap();
    scene.says("after [[think]]").await;
    assert!(blocks(&scene.last_request(), "thinking").is_empty());
    scene.restart();
    scene.says("and on").await;
    assert_eq!(blocks(&scene.last_request(), "thinking").len(), 1, "what was thought since stays");
    scene.undo().unwrap();
    scene.says("back").await;
    assert!(blocks(&scene.last_request(), "thinking").is_empty());
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_budget_for_thinking_and_a_compaction_in_the_middle_of_a_turn_go_together() {
    let mut scene = Scene::with(11_000, MANUAL);
    scene.settings.thinking = Thinking::Budget(1024);
    scene.settings.max_tokens = 2048;
    scene.settings.tool_output = 4000;
    for turn in 0..6 {
        scene.says(&format!("turn {turn} {}", "words and more words ".repeat(30))).await;
    }
    let first = scene.requests()[0].json();
    assert_eq!(first["thinking"]["type"], "enabled");
    scene.says("[[chain:12|long 100]]").await;
    assert!(!scene.of_type("compaction").is_empty() || !scene.of_type("trim").is_empty(), "the guard was at work");
    for turn in 0..3 {
        scene.says(&format!("more {turn}")).await;
        scene.restart();
    }
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_budget_for_thinking_goes_on_after_an_answer_without_any() {
    let mut scene = Scene::with(200_000, MANUAL);
    scene.says("[[bash:echo a]]").await;
    scene.settings.thinking = Thinking::Budget(1024);
    scene.settings.max_tokens = 2048;
    scene.says("[[chain:3|echo b]]").await;
    scene.says("and now").await;
    scene.assert_no_refusal();
}
