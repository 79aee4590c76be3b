//! A person who has heard enough: at any moment, and the next words are answered.

use serde_json::json;
use unforget_agent::host::Answer;
use unforget_agent::turn::State;
use unforget_testkit::api::{Recorded, Reply};

use crate::support::{self, Asks, Scene, holds, soon};

/// A condition that picks no request, but sends the person away when one of those arrives.
fn gone(scene: &Scene, which: fn(&Recorded) -> bool) -> impl Fn(&Recorded) -> bool + Send + 'static {
    let abort = scene.abort.clone();
    move |request| {
        if which(request) {
            abort.cancel();
        }
        false
    }
}

#[tokio::test]
async fn an_abort_while_the_model_speaks_keeps_what_it_said() {
    let mut scene = Scene::new();
    scene.api.push(Reply::Stall { text: "half an answer".to_owned() });
    let (abort, hears) = (scene.abort.clone(), scene.person.hears.clone());
    let (ended, ()) = tokio::join!(scene.say("speak"), async {
        soon(&hears).await;
        abort.cancel();
    });
    let ended = ended.unwrap();
    assert_eq!(ended.state, State::Aborted);
    assert_eq!(scene.state(), "aborted");
    let said = scene.of_type("assistant");
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["interrupted"], true);
    let half = said[0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!("half an answer".starts_with(&half) && !half.is_empty(), "{half}");
    scene.restart();
    scene.says("go on").await;
    assert!(holds(&scene.last_request(), &half));
    assert_eq!(scene.api.wait_for_hang_ups(1), 1, "the server is told");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn an_abort_before_the_first_word_leaves_the_users_words_only() {
    let mut scene = Scene::new();
    scene.api.push_for(gone(&scene, |_| true), Reply::Silence);
    scene.api.push(Reply::Stall { text: String::new() });
    let ended = scene.say("speak").await.unwrap();
    assert_eq!(ended.state, State::Aborted);
    assert!(scene.of_type("assistant").is_empty());
    assert_eq!(scene.state(), "aborted");
    scene.restart();
    scene.says("again").await;
    assert_eq!(scene.last_request()["messages"].as_array().unwrap().len(), 1);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn an_abort_while_a_tool_runs_answers_all_calls() {
    let mut scene = Scene::new();
    let (abort, runs) = (scene.abort.clone(), scene.runs.clone());
    let (ended, ()) = tokio::join!(scene.say("[[parallel:wait||echo beta]]"), async {
        soon(&runs.began).await;
        abort.cancel();
    });
    assert_eq!(ended.unwrap().state, State::Aborted);
    assert_eq!(scene.state(), "aborted");
    assert_eq!(scene.runs.commands(), ["wait"], "the second one was not begun");
    let outputs: Vec<_> = scene.of_type("tool_result").iter().map(|result| result["output"].clone()).collect();
    assert_eq!(outputs, ["[aborted by the user]", "[not run: the user aborted the turn]"]);
    assert_eq!(scene.requests().len(), 1);
    scene.restart();
    scene.says("go on").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn an_abort_while_a_question_is_open_withdraws_it() {
    let mut scene = Scene::new();
    scene.kit.asks = Asks::First;
    let (abort, ponders) = (scene.abort.clone(), scene.person.ponders.clone());
    let (ended, ()) = tokio::join!(scene.say("[[bash:echo alpha]]"), async {
        soon(&ponders).await;
        abort.cancel();
    });
    assert_eq!(ended.unwrap().state, State::Aborted);
    let states: Vec<_> = scene.of_type("approval").iter().map(|approval| approval["state"].clone()).collect();
    assert_eq!(states, ["pending", "denied"]);
    assert_eq!(scene.of_type("approval")[1]["by"], "abort");
    assert!(scene.runs.commands().is_empty());
    assert_eq!(scene.state(), "aborted");
    scene.restart();
    scene.says("go on").await;
    assert!(scene.history().pending.is_empty());
    assert!(holds(&scene.last_request(), "[not run: the user aborted the turn]"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn what_a_person_denies_is_not_run_and_the_model_is_told_why() {
    let mut scene = Scene::new();
    scene.kit.asks = Asks::First;
    scene.person.answers.push_back(Answer::Denied { by: "person", reason: Some("use git instead".to_owned()) });
    scene.says("[[bash:echo alpha]]").await;
    assert!(scene.runs.commands().is_empty());
    assert!(holds(&scene.last_request(), "[not run: the user said: use git instead]"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn an_abort_during_a_summary_changes_nothing() {
    let mut scene = Scene::new();
    for turn in 0..8 {
        scene.says(&format!("turn {turn}")).await;
    }
    let before = scene.raw_lines();
    scene.api.push_for(gone(&scene, support::is_summary), Reply::Silence);
    scene.push_for_summary(Reply::Silence);
    let done = scene.compact().await;
    assert_eq!(done, None);
    assert_eq!(scene.raw_lines(), before);
    scene.restart();
    scene.says("go on").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_whole_call_of_half_an_answer_is_answered_as_not_run() {
    let mut scene = Scene::new();
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let call = json!({"type": "tool_use", "id": "toolu_half", "name": "bash", "input": {"command": "echo alpha"}});
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_half", "model": "m", "usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": call}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    scene.api.push(Reply::Raw { status: 200, headers, body: body.into_bytes() });
    scene.say("run it").await.unwrap_err();
    assert!(scene.runs.commands().is_empty());
    let results = scene.of_type("tool_result");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["output"], "[not run: the answer broke off]");
    assert_eq!(scene.state(), "failed");
    scene.restart();
    scene.says("again").await;
    assert!(scene.runs.commands().is_empty());
    scene.assert_no_refusal();
}
