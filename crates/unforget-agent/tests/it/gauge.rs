//! The gauge against what the server counts.

use serde_json::{Value, json};
use unforget_agent::gauge;
use unforget_agent::guard::Agent;
use unforget_agent::model::{Model as _, Request, Thinking};
use unforget_core::record::Draft;

use crate::support::Scene;

/// The head of a picture of 1000 by 600 pixels, which is 800 tokens.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAJYCAIAAAB+fFty";

/// What the server would count if the conversation were sent now.
async fn counted(scene: &Scene) -> u64 {
    let client = scene.client();
    let session = scene.session.as_ref().unwrap();
    let view = Agent { model: &client, settings: &scene.settings }.look(session).unwrap();
    let request = Request { history: &view.history, max_tokens: 1024, thinking: Thinking::Default };
    client.count(&request).await.unwrap()
}

/// Texts of many kinds, a few thousand bytes each.
fn texts() -> Vec<(&'static str, String)> {
    let code =
        "    for (index, value) in values.iter().enumerate() {\n        if value % 2 == 0 { sum += index; }\n    }\n";
    let noise =
        |at: u64| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[at as usize % 64]);
    vec![
        ("prose", "The quick brown fox jumps over the lazy dog, and then it rests. ".repeat(60)),
        ("chinese", "重启不丢上下文，才是真正可用的智能体。".repeat(60)),
        ("japanese", "再起動してもコンテキストを失わない。".repeat(60)),
        ("korean", "다시 시작해도 대화를 잃지 않는다. ".repeat(60)),
        ("russian", "Память переживает перезапуск и сбой. ".repeat(60)),
        ("emoji", "🦀🧠💾 ".repeat(200)),
        ("base64", (0..4000_u64).map(|at| noise(at.wrapping_mul(2_654_435_761) >> 7)).collect()),
        ("code", code.repeat(30)),
        ("json", "{\"name\":\"value\",\"list\":[1,2,3],\"path\":\"C:\\\\dir\\\\file\"}".repeat(60)),
    ]
}

#[tokio::test]
async fn after_a_call_the_gauge_is_what_the_server_reported() {
    let mut scene = Scene::new();
    scene.says("hello [[bash:echo a]]").await;
    let usage = scene.of_type("turn").last().unwrap()["usage"].to_string();
    let read = scene.gauge();
    assert_eq!((read.measured, read.estimated), (gauge::total(&usage).unwrap(), 0));
    assert_eq!(read.tokens, read.measured);
    assert_eq!(read.provenance(), "measured by the last call");
    scene.restart();
    assert_eq!(scene.gauge(), read, "a restart changes nothing");
    scene.append(&[Draft::user("some more words")]);
    let later = scene.gauge();
    assert_eq!((later.measured, later.measured_at), (read.measured, read.measured_at));
    assert!((4..40).contains(&later.estimated), "{later:?}");
    assert_eq!(later.tokens, later.measured + later.estimated);
    scene.says("again").await;
    assert!(scene.gauge().measured > later.measured);
}

#[tokio::test]
async fn g13_before_any_call_the_estimate_is_within_a_factor_of_two() {
    for (kind, text) in texts() {
        let mut scene = Scene::new();
        scene.append(&[Draft::user(&text)]);
        let (read, counted) = (scene.gauge().tokens, counted(&scene).await);
        assert!(read <= counted * 2 && counted <= read * 2, "{kind}: {read} estimated, {counted} counted");
    }
}

#[tokio::test]
async fn g13_after_some_calls_the_estimate_is_within_fifteen_percent() {
    for (kind, text) in texts() {
        let mut scene = Scene::new();
        for turn in 0..4 {
            scene.says(&format!("{turn} {text}")).await;
        }
        scene.append(&[Draft::user(&format!("new {text} {text}"))]);
        let (read, counted) = (scene.gauge(), counted(&scene).await);
        let off = read.tokens.abs_diff(counted) * 100;
        assert!(off <= counted * 15, "{kind}: {read:?}, {counted} counted");
        // Nothing but the estimate is left behind a change of the beginning.
        scene.append(&[Draft::new("context").text("system", "another")]);
        let (read, counted) = (scene.gauge(), self::counted(&scene).await);
        assert_eq!(read.measured, 0);
        let off = read.tokens.abs_diff(counted) * 100;
        assert!(off <= counted * 15, "{kind}, all estimated: {read:?}, {counted} counted");
    }
}

#[tokio::test]
async fn a_picture_counts_for_its_pixels_and_not_for_its_bytes() {
    let mut scene = Scene::new();
    let before = (scene.gauge().tokens, counted_or_none(&scene).await);
    let data = format!("{PICTURE}{}", "AAAA".repeat(50_000));
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let content = Value::from(vec![image, json!({"type": "text", "text": "what is it?"})]);
    scene.append(&[Draft::new("user").raw("content", &content.to_string())]);
    let (read, counted) = (scene.gauge().tokens, counted(&scene).await);
    assert_eq!(before, (0, 0));
    assert!((780..900).contains(&read), "{read} estimated");
    assert!(read.abs_diff(counted) * 100 <= counted * 15, "{read} estimated, {counted} counted");
}

/// Nothing said is nothing sent.
async fn counted_or_none(scene: &Scene) -> u64 {
    if scene.history().messages.is_empty() { 0 } else { counted(scene).await }
}

#[tokio::test]
async fn thinking_that_is_sent_no_longer_counts_no_longer() {
    let mut scene = Scene::with(200_000, "claude-opus-5-5");
    for turn in 0..6 {
        scene.says(&format!("turn {turn} [[think]]")).await;
    }
    scene.append(&[Draft::new("context").text("system", "You are another test."), Draft::user("and now?")]);
    let (read, counted) = (scene.gauge(), counted(&scene).await);
    assert_eq!(read.measured, 0);
    assert!(read.tokens.abs_diff(counted) * 100 <= counted * 30, "{read:?}, {counted} counted");
}

#[tokio::test]
async fn what_was_shortened_makes_the_gauge_smaller_and_its_scale_no_larger() {
    let mut scene = Scene::new();
    for round in 0..4 {
        scene.says(&format!("round {round} [[bash:long 300]]")).await;
    }
    let before = scene.gauge();
    let results: Vec<u64> = scene.of_type("tool_result").iter().map(|result| result["n"].as_u64().unwrap()).collect();
    scene.append(&[Draft::trim(&results[..2], 1024), Draft::user("and now?")]);
    let (after, counted) = (scene.gauge(), counted(&scene).await);
    assert!(after.tokens < before.tokens, "{before:?}, then {after:?}");
    assert!(after.tokens.abs_diff(counted) * 100 <= counted * 15, "{after:?}, {counted} counted");
    scene.says("more").await;
    scene.append(&[Draft::trim(&results[2..], 1024), Draft::user("and more")]);
    let (after, counted) = (scene.gauge(), self::counted(&scene).await);
    assert!(after.tokens.abs_diff(counted) * 100 <= counted * 30, "{after:?}, {counted} counted");
}

#[tokio::test]
async fn behind_a_compaction_the_old_measurement_counts_no_longer() {
    let mut scene = Scene::new();
    for turn in 0..8 {
        scene.says(&format!("turn {turn} {}", "words ".repeat(200))).await;
    }
    let before = scene.gauge();
    scene.compact().await.unwrap();
    scene.append(&[Draft::user("and now?")]);
    let (after, counted) = (scene.gauge(), counted(&scene).await);
    assert_eq!(after.measured, 0);
    assert!(after.tokens < before.tokens);
    assert!(after.tokens.abs_diff(counted) * 100 <= counted * 15, "{after:?}, {counted} counted");
    assert!(after.provenance().starts_with("estimated, calibrated"), "{}", after.provenance());
    scene.says("next").await;
    assert!(scene.gauge().measured > 0);
}
