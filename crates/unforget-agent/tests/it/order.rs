//! The order of writing: nothing happens before it is known what led to it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use unforget_testkit::api::Reply;

use crate::support::{self, Scene, holds};

/// Lets the next requests look at the transcript at the moment of their arrival.
fn watch(scene: &Scene) -> Arc<Mutex<Vec<Vec<Value>>>> {
    let seen: Arc<Mutex<Vec<Vec<Value>>>> = Arc::default();
    let (notes, root) = (Arc::clone(&seen), scene.root.clone());
    let look = move |_: &_| {
        notes.lock().unwrap().push(support::lines_of(&support::transcript(&root)));
        false
    };
    scene.api.push_for(look, Reply::Silence);
    seen
}

#[tokio::test]
async fn the_users_words_are_in_the_file_when_the_request_arrives() {
    let mut scene = Scene::new();
    let seen = watch(&scene);
    scene.says("remember the blue door").await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].last().unwrap()["content"], "remember the blue door");
}

#[tokio::test]
async fn a_call_is_in_the_file_when_its_tool_runs() {
    let mut scene = Scene::new();
    scene.says("[[bash:look]]").await;
    let looks = scene.runs.looks();
    let calls: Vec<&Value> = looks[0].iter().filter(|record| record["type"] == "tool_use").collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["input"], json!({"command": "look"}));
    assert!(looks[0].iter().all(|record| record["type"] != "tool_result"));
}

#[tokio::test]
async fn a_result_is_in_the_file_when_the_next_request_arrives() {
    let mut scene = Scene::new();
    let seen = watch(&scene);
    scene.says("[[parallel:echo one||echo two]]").await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    let results: Vec<&Value> = seen[1].iter().filter(|record| record["type"] == "tool_result").collect();
    assert_eq!(results.iter().map(|result| &result["output"]).collect::<Vec<_>>(), ["one", "two"]);
}

#[tokio::test]
async fn the_end_of_the_turn_is_written_last() {
    let mut scene = Scene::new();
    let ended = scene.says("[[bash:echo one]]").await;
    let last = scene.records().pop().unwrap();
    assert_eq!((last["type"].as_str(), last["state"].as_str()), (Some("turn"), Some("done")));
    assert_eq!(last["n"], ended.n);
    assert_eq!(scene.of_type("turn").len(), 2, "one for each call of the model");
}

#[tokio::test]
async fn c00_an_ordinary_turn_with_a_tool_is_written_in_the_order_in_which_it_happened() {
    let mut scene = Scene::new();
    scene.says("[[bash:echo one]]").await;
    let kinds: Vec<String> = scene.records().iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect();
    let wanted = ["session", "context", "user", "assistant", "tool_use", "turn", "tool_result", "assistant", "turn"];
    assert_eq!(kinds, wanted);
    scene.restart();
    scene.says("and now?").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_request_that_was_sent_again_has_the_words_once() {
    for (status, kind, after) in [(529, "overloaded_error", None), (429, "rate_limit_error", Some(0))] {
        let mut scene = Scene::new();
        scene.api.push(support::error(status, kind, "busy", after));
        scene.api.push(support::error(status, kind, "busy", after));
        let ended = scene.says("count me once").await;
        assert!(ended.text.contains("count me once"));
        assert_eq!(scene.person.retries, 2);
        assert_eq!(scene.of_type("user").len(), 1);
        let requests = scene.requests();
        assert_eq!(requests.len(), 3);
        for request in &requests {
            assert_eq!(request.body, requests[0].body);
            assert_eq!(support::count(&request.json()["messages"], "count me once"), 1);
        }
        assert!(scene.of_type("error").is_empty());
    }
}

#[tokio::test]
async fn words_whose_request_failed_are_asked_again_and_not_said_again() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.api.push(support::error(529, "overloaded_error", "busy", None));
    }
    scene.say("first try").await.unwrap_err();
    assert_eq!(scene.state(), "failed");
    scene.restart();
    scene.turn(unforget_agent::turn::Input::Nothing).await.unwrap();
    assert_eq!(scene.of_type("user").len(), 1);
    assert_eq!(support::count(&scene.last_request()["messages"], "first try"), 1);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn the_context_is_written_once_whatever_the_system_prompt_is() {
    for system in ["", " ", "plain", "tab\tand \u{1b}[31m red \u{0}", "{\"cache_control\":1}", "\u{202e}記憶🦀"] {
        let mut scene = Scene::new();
        scene.settings.system = system.to_owned();
        for words in ["one", "two", "three"] {
            scene.says(words).await;
            scene.restart();
        }
        assert_eq!(scene.of_type("context").len(), 1, "{system:?}");
        scene.assert_no_refusal();
        assert!(holds(&scene.last_request(), "three"));
    }
}
