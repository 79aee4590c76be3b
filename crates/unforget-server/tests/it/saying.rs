//! Answers, aborts and going on, said over a socket; and what is said when it is too late.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::scene::{Scene, Setting};

#[test]
fn a_turn_that_failed_goes_on_when_somebody_says_so() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "stumble once", "client_id": "c1" }));
    let heard = client.until("failed");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "resume" }));
    let done = client.until("done").pop().unwrap();
    assert_eq!((&done["state"], &done["text"]), (&json!("done"), &json!("you said: stumble once")));
    let lines = scene.transcript(&id);
    assert_eq!(lines.iter().filter(|line| line["type"] == "user").count(), 1, "nothing is said twice: {lines:#?}");
    assert_eq!(scene.puppet.asked.load(Ordering::SeqCst), 2);
}

#[test]
fn a_turn_that_runs_is_not_begun_again() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold this" }));
    client.until("delta");
    client.say(&json!({ "type": "resume" }));
    assert_eq!(client.until("error").pop().unwrap()["error"]["code"], "busy");
    scene.puppet.let_go();
    client.until("done");
    assert_eq!(scene.puppet.asked.load(Ordering::SeqCst), 1);
    let mut stranger = scene.connect();
    stranger.say(&json!({ "type": "resume" }));
    assert_eq!(stranger.hear().unwrap()["error"]["code"], "invalid", "who watches nothing can go on with nothing");
}

#[test]
fn a_no_is_heard_with_its_reason_and_the_first_answer_counts() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": r#"tool bash {"command":"touch made"}"# }));
    let heard = client.until("question");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    let call = heard.last().unwrap()["call_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "answer", "call_id": "toolu_of_nobody", "allow": true }));
    assert_eq!(client.until("error").pop().unwrap()["error"]["code"], "not_found");
    client.say(&json!({ "type": "answer", "call_id": call, "allow": false, "reason": "not on this machine" }));
    client.say(&json!({ "type": "answer", "call_id": call, "allow": true }));
    let mut heard = client.until("error");
    if !heard.iter().any(|message| message["type"] == "done") {
        heard.extend(client.until("done"));
    }
    let kinds: Vec<_> = heard.iter().filter_map(|message| message["type"].as_str()).collect();
    let of = |kind: &str| heard.iter().filter(|message| message["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("answered").len(), 1, "{kinds:?}");
    assert_eq!(of("answered")[0]["allowed"], false);
    assert_eq!(of("error").len(), 1, "the second answer is told to be late: {kinds:?}");
    assert_eq!(of("error")[0]["error"]["code"], "not_found");
    assert!(of("tool_started").is_empty(), "{kinds:?}");
    let lines = scene.transcript(&id);
    let result = lines.iter().find(|line| line["type"] == "tool_result").unwrap();
    assert!(result["is_error"] == true && result.to_string().contains("not on this machine"), "{result}");
    assert!(!scene.home().join("work").join(&id).join("made").exists());
}

#[test]
fn z06_a_token_that_is_taken_back_ends_the_connections_that_were_opened_with_it() {
    let scene = Scene::with(Setting::of(&["ada", "bob"]));
    let mut shown = scene.connect_as("ada");
    shown.say(&json!({ "type": "prompt", "prompt": "hold this" }));
    let id = shown.until("delta")[0]["session_id"].as_str().unwrap().to_owned();
    let mut said = scene.connect();
    said.say(&json!({ "type": "auth", "token": scene.token("ada") }));
    said.say(&json!({ "type": "ping" }));
    said.until("pong");
    let mut bob = scene.connect_as("bob");
    bob.say(&json!({ "type": "ping" }));
    bob.until("pong");
    scene.revoke("ada");
    assert_eq!(shown.closed(), Some(1008));
    assert_eq!(said.closed(), Some(1008));
    bob.say(&json!({ "type": "ping" }));
    bob.until("pong");
    // What was accepted before is answered all the same.
    scene.puppet.let_go();
    scene.wait("the turn ends", || scene.transcript_of("ada", &id).last().unwrap()["state"] == "done");
    assert_eq!(scene.ask_as("ada", "GET", "/v1/sessions", None).status, 401);
}

#[test]
fn s11_a_prompt_that_has_to_wait_and_cannot_be_written_down_is_not_accepted() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold this", "client_id": "c1" }));
    let id = client.until("delta")[0]["session_id"].as_str().unwrap().to_owned();
    // A directory where the ledger was takes no line, however often it is opened.
    let ledger = scene.home().join("server/accepted.jsonl");
    std::fs::rename(&ledger, ledger.with_extension("away")).unwrap();
    std::fs::create_dir(&ledger).unwrap();
    client.say(&json!({ "type": "prompt", "prompt": "and this waits", "client_id": "c2" }));
    let heard = client.until("error");
    assert_eq!(heard.last().unwrap()["client_id"], "c2");
    let taken = |message: &&Value| message["type"] == "accepted" || message["type"] == "queued";
    assert!(heard.iter().filter(taken).all(|message| message["client_id"] != "c2"), "{heard:#?}");
    std::fs::remove_dir(&ledger).unwrap();
    std::fs::rename(ledger.with_extension("away"), &ledger).unwrap();
    scene.puppet.let_go();
    assert_eq!(client.until("done").pop().unwrap()["client_id"], "c1");
    client.say(&json!({ "type": "prompt", "prompt": "recall", "client_id": "c3" }));
    let told = loop {
        let done = client.until("done").pop().unwrap();
        if done["client_id"] == "c3" {
            break done["text"].as_str().unwrap().to_owned();
        }
    };
    assert_eq!(told, "hold this | recall", "what was refused was not run");
    assert!(!scene.transcript(&id).iter().any(|line| line["client_id"] == "c2"));
}
