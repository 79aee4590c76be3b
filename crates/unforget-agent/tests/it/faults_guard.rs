//! The faults of the context guard, one by one. Those of the estimate are with the gauge.

use serde_json::json;
use unforget_agent::compact::{self, By, Keep};
use unforget_agent::guard::Agent;
use unforget_agent::turn::Input;
use unforget_agent::{Error, model::ModelError};
use unforget_core::directory::OnMissing;
use unforget_core::record::Draft;
use unforget_testkit::rules;

use crate::support::{self, Scene, blocks, holds};

/// A conversation with words and calls.
async fn talk(scene: &mut Scene, turns: usize) {
    for turn in 0..turns {
        scene.says(&format!("turn {turn} [[chain:2|echo result {turn}]]")).await;
    }
}

#[tokio::test]
async fn g01_an_error_that_only_speaks_of_tokens_costs_the_conversation_nothing() {
    for (status, kind, message) in [
        (429, "rate_limit_error", "This request would exceed your rate limit of 40,000 input tokens per minute."),
        (401, "authentication_error", "OAuth token has expired."),
        (400, "invalid_request_error", "max_tokens: 99999999 > 64000, the maximum allowed number of output tokens"),
        (400, "invalid_request_error", "context_management: Extra inputs are not permitted"),
        (400, "invalid_request_error", "the context window of the cached prompt is too long ago"),
        (403, "permission_error", "this context is not allowed"),
        (404, "not_found_error", "model: context-1m"),
    ] {
        let mut scene = Scene::new();
        talk(&mut scene, 4).await;
        let sent = scene.requests().len();
        scene.api.push(support::error(status, kind, message, None));
        let error = scene.say("next").await.unwrap_err();
        assert!(matches!(&error, Error::Model(error) if !error.is_overflow()), "{message}: {error}");
        assert_eq!(scene.requests().len(), sent + 1, "{message}");
        assert!(scene.of_type("compaction").is_empty() && scene.of_type("trim").is_empty(), "{message}");
        assert_eq!(scene.summaries(), 0);
    }
}

#[tokio::test]
async fn g02_too_many_bytes_shorten_the_largest_and_ask_no_summariser() {
    let mut scene = Scene::new();
    talk(&mut scene, 4).await;
    scene.says("[[bash:long 300]]").await;
    scene.api.push(support::error(413, "request_too_large", "Request exceeds the maximum size", None));
    scene.says("next").await;
    assert_eq!(scene.of_type("trim").len(), 1);
    assert!(scene.of_type("compaction").is_empty());
    assert_eq!(scene.summaries(), 0);
    let requests = scene.requests();
    let [refused, answered] = &requests[requests.len() - 2..] else { panic!() };
    assert!(answered.body.len() < refused.body.len() * 3 / 4, "{} of {}", answered.body.len(), refused.body.len());
    assert!(holds(&answered.json(), "next"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn g04_a_compaction_never_cuts_between_a_call_and_its_result() {
    for keep in [1, 60, 120, 180, 240, 300, 360, 420, 500, 600] {
        let mut scene = Scene::new();
        scene.says("[[parallel:echo a||echo b||echo c]]").await;
        talk(&mut scene, 10).await;
        scene.says("[[parallel:echo d||fail||echo e]]").await;
        scene.settings.keep_tokens = Some(keep);
        let done = scene.compact().await.unwrap_or_else(|| panic!("keep {keep}: nothing is replaced"));
        let first_kept = scene.of_type("compaction")[0]["first_kept"].as_u64().unwrap();
        assert!(done.messages.1 <= done.messages.0 && done.tokens.1 < done.tokens.0);
        for result in scene.of_type("tool_result").iter().filter(|result| result["n"].as_u64() >= Some(first_kept)) {
            let of = |call: &&serde_json::Value| call["tool_use_id"] == result["tool_use_id"];
            let call = scene.of_type("tool_use").iter().find(of).cloned().unwrap();
            assert!(call["n"].as_u64() >= Some(first_kept), "keep {keep}: {call} is gone, its result is not");
        }
        scene.says("after").await;
        scene.assert_no_refusal();
    }
}

#[tokio::test]
async fn g05_a_compaction_holds_after_a_restart_and_is_not_paid_for_again() {
    let mut scene = Scene::with_window(16_000);
    let mut turn = 0;
    while scene.of_type("compaction").is_empty() {
        scene.says(&format!("turn {turn} {}", "some more words ".repeat(100))).await;
        turn += 1;
        assert!(turn < 100);
    }
    let asked = scene.summaries();
    for _ in 0..3 {
        scene.restart();
        scene.says("short").await;
        assert!(holds(&scene.last_request(), "[Summary of the conversation so far]"));
    }
    assert_eq!((scene.of_type("compaction").len(), scene.summaries()), (1, asked));
    scene.assert_no_refusal();
}

/// Much more than a window holds, as from a session with another model.
fn grow(scene: &mut Scene) {
    let text = "the quick brown fox jumps over the lazy dog ".repeat(100);
    for turn in 0..60 {
        let words = format!("question {turn}: {text}");
        let answer = format!("[{{\"type\":\"text\",\"text\":\"answer {turn}: {text}\"}}]");
        scene.append(&[Draft::user(&words), Draft::assistant(Some(&format!("msg_{turn}")), &answer)]);
    }
}

#[tokio::test]
async fn g06_what_is_too_long_for_the_summariser_is_summarised_in_pieces() {
    let mut scene = Scene::with_window(30_000);
    grow(&mut scene);
    assert!(scene.gauge().tokens > 100_000);
    scene.says("the latest request").await;
    assert!(scene.summaries() > 1);
    assert!(holds(&scene.last_request(), "the latest request"));
    assert_eq!(scene.of_type("compaction").last().unwrap()["by"], "model");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn g06_a_window_that_is_smaller_than_believed_ends_no_conversation() {
    let mut scene = Scene::with_window(30_000);
    scene.window = 200_000;
    grow(&mut scene);
    let ended = scene.says("the latest request").await;
    assert!(ended.text.contains("the latest request"));
    for turn in 0..10 {
        scene.says(&format!("turn {turn} {}", "some more words ".repeat(300))).await;
    }
    for request in scene.api.refusals() {
        let refusal = request.refusal.unwrap();
        assert!(rules::is_overflow(refusal.status, refusal.kind, &refusal.message), "{refusal}");
    }
}

#[tokio::test]
async fn g09_what_is_said_while_a_summary_is_written_stays_behind_it() {
    let mut scene = Scene::new();
    talk(&mut scene, 6).await;
    let client = scene.client();
    let limits = Agent { model: &client, settings: &scene.settings }.limits();
    let session = scene.session.as_mut().unwrap();
    let plan = compact::plan(session, &limits, "claude-opus-5", Keep::Share { tokens: 500 }).unwrap().unwrap();
    session.append(&[Draft::user("said meanwhile")]).unwrap();
    plan.record(session, "what came before", By::Model).unwrap().unwrap();
    scene.turn(Input::Nothing).await.unwrap();
    let request = scene.last_request();
    assert!(holds(&request, "what came before"));
    assert_eq!(support::count(&request["messages"], "said meanwhile"), 1);
    assert!(holds(request["messages"].as_array().unwrap().last().unwrap(), "said meanwhile"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn g10_a_compaction_only_appends() {
    let mut scene = Scene::new();
    talk(&mut scene, 6).await;
    let before = scene.raw_lines();
    scene.compact().await.unwrap();
    scene.says("after").await;
    let after = scene.raw_lines();
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()..].iter().filter(|line| line.contains("\"compaction\"")).count(), 1);
}

#[tokio::test]
async fn g14_a_rate_limit_that_names_no_time_is_told_and_not_waited_for() {
    let mut scene = Scene::new();
    scene.api.push(support::error(429, "rate_limit_error", "You have reached your spend limit.", None));
    let error = scene.say("hello").await.unwrap_err();
    assert!(matches!(error, Error::Model(ModelError::RateLimited { retry_after: None, .. })), "{error}");
    assert_eq!((scene.requests().len(), scene.person.retries), (1, 0));
    assert_eq!(scene.state(), "failed");
    scene.turn(Input::Nothing).await.unwrap();
    assert_eq!(scene.of_type("user").len(), 1);
}

#[tokio::test]
async fn g19_what_cannot_be_counted_is_estimated() {
    let mut scene = Scene::with_window(16_000);
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}});
    let text = json!({"type": "text", "text": "look at this"});
    scene.append(&[Draft::new("user").raw("content", &json!([image, text]).to_string())]);
    for turn in 0..24 {
        let words = format!("turn {turn} {}", "some more words ".repeat(150));
        scene.append(&[Draft::user(&words), Draft::assistant(Some(&format!("msg_{turn}")), "\"fine\"")]);
    }
    scene.says("and now").await;
    let counted: Vec<_> = scene.api.requests().into_iter().filter(|request| !request.is_message()).collect();
    assert!(!counted.is_empty() && counted.iter().all(|request| request.status == Some(400)), "{}", counted.len());
    assert!(!scene.of_type("compaction").is_empty());
    assert!(scene.api.messages().iter().all(|request| request.refusal.is_none()));
}

#[tokio::test]
async fn a_count_that_fails_does_not_hold_up_a_turn() {
    let mut scene = Scene::with_window(16_000);
    scene.api.fail_counts(true);
    for turn in 0..20 {
        scene.says(&format!("turn {turn} {}", "some more words ".repeat(150))).await;
    }
    assert!(!scene.of_type("compaction").is_empty());
    scene.assert_no_refusal();
}

#[tokio::test]
async fn g20_of_two_who_compact_one_is_refused_and_two_plans_of_one_do_no_harm() {
    let mut scene = Scene::new();
    talk(&mut scene, 6).await;
    let second = scene.store().load(&"main".parse().unwrap(), OnMissing::Fail);
    assert!(matches!(second, Err(unforget_core::Error::Busy { .. })));
    let client = scene.client();
    let limits = Agent { model: &client, settings: &scene.settings }.limits();
    let session = scene.session.as_mut().unwrap();
    let plan = || compact::plan(session, &limits, "claude-opus-5", Keep::Share { tokens: 500 }).unwrap().unwrap();
    let plans = [plan(), plan()];
    for plan in &plans {
        plan.record(session, "what came before", By::Model).unwrap().unwrap();
    }
    scene.says("after [[bash:echo x]]").await;
    let request = scene.last_request();
    assert_eq!(support::count(&request, "what came before"), 1);
    assert_eq!(blocks(&request, "tool_use").len(), blocks(&request, "tool_result").len());
    scene.assert_no_refusal();
}
