//! Conversations that become too long, in every way: they go on, and requests change their beginning only where the log
//! says so.

use unforget_agent::{Error, model::ModelError};
use unforget_core::record::Draft;
use unforget_testkit::api::Reply;

use crate::support::{self, Scene, holds};

#[tokio::test]
async fn a_small_window_holds_any_number_of_long_turns() {
    let mut scene = Scene::with_window(30_000);
    let seen = scene.watch();
    for round in 0..14 {
        scene.says(&format!("round {round} [[bash:long 400]]")).await;
        scene.says(&format!("round {round} {}", "a long story about a door ".repeat(300))).await;
        scene.restart();
        scene.says(&format!("round {round} [[parallel:long 100||cjk 3000||fail]]")).await;
        scene.says(&format!("round {round} [[chain:4|long 250]]")).await;
    }
    let changed = scene.assert_prefixes(&seen);
    assert!(!scene.of_type("compaction").is_empty() && !scene.of_type("trim").is_empty());
    let sent = scene.requests().len();
    assert!(changed * 3 < sent, "{changed} of {sent} requests begin anew");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn results_that_were_shortened_push_nothing_else_out() {
    let mut scene = Scene::with_window(30_000);
    scene.settings.tool_output = 64 * 1024;
    let seen = scene.watch();
    for round in 0..20 {
        scene.says(&format!("round {round} [[bash:long 1200]]")).await;
    }
    scene.assert_prefixes(&seen);
    assert!(!holds(&scene.last_request(), "[Earlier messages of this conversation are not included.]"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn words_that_are_larger_than_the_window_are_shortened_and_answered() {
    let mut scene = Scene::with_window(30_000);
    scene.says("hello").await;
    let words = format!("Begin here. {} The end is here.", "middle ".repeat(60_000));
    scene.says(&words).await;
    let request = scene.last_request();
    assert!(holds(&request, "Begin here.") && holds(&request, "The end is here."), "both ends are there");
    let kept = &scene.of_type("user")[1]["content"];
    assert_eq!(kept["bytes"], words.len() + 2, "all of it is kept, with its quotation marks");
    scene.restart();
    scene.says("and now?").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn words_that_are_larger_than_many_windows_are_shortened_and_answered() {
    let mut scene = Scene::with_window(30_000);
    let words = format!("Begin here. {} The end is here.", "middle ".repeat(300_000));
    scene.says(&words).await;
    assert!(holds(&scene.last_request(), "The end is here."));
    scene.restart();
    scene.says("and now?").await;
    assert!(holds(&scene.last_request(), "and now?"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_result_that_is_larger_than_the_window_is_shortened_and_answered() {
    let mut scene = Scene::with_window(30_000);
    scene.settings.tool_output = 4 * 1024 * 1024;
    scene.says("hello").await;
    let ended = scene.says("[[bash:long 10000]]").await;
    assert!(ended.text.contains("line 00000000"));
    assert!(holds(&scene.last_request(), "line 00009999"), "both ends are there");
    scene.restart();
    scene.says("and now?").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_system_prompt_that_fills_the_window_is_an_error_and_not_a_loop() {
    let mut scene = Scene::with_window(30_000);
    scene.settings.system = "rule ".repeat(45_000);
    let error = scene.say("hello").await.unwrap_err();
    assert!(matches!(&error, Error::Model(ModelError::Overflow { .. })), "{error}");
    assert!(error.to_string().contains("too long"), "{error}");
    let sent = scene.api.messages().len();
    assert!(sent <= 16, "{sent} requests");
    assert!(scene.raw_lines().len() < 40, "{} records", scene.raw_lines().len());
    assert_eq!(scene.state(), "failed");
    scene.settings.system = "short".to_owned();
    scene.restart();
    let ended = scene.says("and now?").await;
    assert!(ended.text.contains("and now?"));
}

#[tokio::test]
async fn a_system_prompt_that_nearly_fills_the_window_leaves_room_for_words() {
    let mut scene = Scene::with_window(30_000);
    scene.settings.system = "rule ".repeat(19_000);
    for turn in 0..12 {
        let ended = scene.says(&format!("turn {turn} {}", "some more words ".repeat(60))).await;
        assert!(ended.text.contains(&format!("turn {turn}")));
    }
    for request in scene.api.refusals() {
        assert!(request.refusal.unwrap().message.starts_with("prompt is too long"));
    }
}

#[tokio::test]
async fn an_answer_that_filled_the_window_is_asked_for_again_with_more_room() {
    let mut scene = Scene::new();
    for turn in 0..8 {
        scene.says(&format!("turn {turn} {}", "words ".repeat(200))).await;
    }
    let blocks = vec![serde_json::json!({"type": "text", "text": "half of"})];
    scene.api.push(Reply::Blocks { blocks, stop_reason: "model_context_window_exceeded".to_owned() });
    let ended = scene.says("go").await;
    assert!(ended.text.contains("go"));
    assert!(!holds(&scene.last_request(), "half of"));
    assert_eq!(scene.of_type("error")[0]["partial"], "half of");
    assert_eq!(scene.of_type("compaction").len() + scene.of_type("trim").len(), 1);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_model_that_always_overflows_is_given_up() {
    let mut scene = Scene::new();
    for turn in 0..8 {
        scene.says(&format!("turn {turn} {}", "words ".repeat(200))).await;
    }
    let sent = scene.api.messages().len();
    for _ in 0..100 {
        let full = "prompt is too long: 200001 tokens > 200000 maximum";
        scene.api.push(support::error(400, "invalid_request_error", full, None));
    }
    let error = scene.say("go").await.unwrap_err();
    assert!(matches!(error, Error::Model(error) if error.is_overflow()));
    let tries = scene.api.messages().len() - sent;
    assert!(tries <= 20, "{tries} requests");
}

#[tokio::test]
async fn the_oldest_results_give_way_before_anything_is_summarised() {
    let mut scene = Scene::with_window(30_000);
    let mut rounds = 0;
    while scene.of_type("trim").is_empty() {
        scene.says(&format!("round {rounds} [[bash:long 300]]")).await;
        rounds += 1;
        assert!(rounds < 50);
    }
    assert!(scene.of_type("compaction").is_empty(), "{:?}", scene.person.guard);
    let trimmed = scene.of_type("trim")[0]["records"].as_array().unwrap().clone();
    let results: Vec<_> = scene.of_type("tool_result").iter().map(|result| result["n"].clone()).collect();
    assert_eq!(trimmed[..], results[..trimmed.len()], "the oldest ones");
    assert!(trimmed.len() < results.len());
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_conversation_from_a_larger_window_goes_on_in_a_small_one() {
    let mut scene = Scene::with_window(30_000);
    for turn in 0..30 {
        let words = format!("turn {turn} {}", "from elsewhere ".repeat(400));
        let id = format!("toolu_{turn}");
        let msg = format!("msg_{turn}");
        let result = serde_json::Value::from(support::numbered(200)).to_string();
        scene.append(&[
            Draft::user(&words),
            Draft::tool_use(Some(&msg), &id, "bash", "{\"command\":\"x\"}"),
            Draft::tool_result(&id, &result),
        ]);
    }
    let ended = scene.says("and now?").await;
    assert!(ended.text.contains("and now?"));
    scene.assert_no_refusal();
}
