//! Crashes: whatever prefix of its records a turn leaves behind, the next one goes on from it.
//!
//! Each append is one write, so what a crash leaves are whole records: a session is recorded once and then cut behind
//! every single one of them.

use std::collections::HashMap;

use unforget_agent::host::Answer;
use unforget_agent::turn::{Input, State};
use unforget_core::history::UNKNOWN_OUTCOME;

use crate::support::{self, Asks, Scene, holds};

const WORDS: &str = "go [[parallel:echo alpha||echo beta]]";

/// A session with one turn before the one that crashes.
async fn recorded(scene: &mut Scene) -> Vec<String> {
    scene.says("hello").await;
    scene.says(WORDS).await;
    assert_eq!(scene.runs.commands(), ["echo alpha", "echo beta"]);
    scene.raw_lines()
}

#[tokio::test]
async fn after_a_crash_behind_any_record_the_next_words_are_answered() {
    let mut scene = Scene::new();
    let lines = recorded(&mut scene).await;
    for cut in 1..=lines.len() {
        let left: Vec<String> = lines[..cut].to_vec();
        let parsed: Vec<serde_json::Value> = left.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut open: HashMap<String, ()> = HashMap::new();
        for record in &parsed {
            let id = record["tool_use_id"].as_str().unwrap_or_default().to_owned();
            match record["type"].as_str().unwrap() {
                "tool_use" => drop(open.insert(id, ())),
                "tool_result" => drop(open.remove(&id)),
                _ => {}
            }
        }
        scene.restart_from(&left);
        let ended =
            scene.say("what now? [[recall]]").await.unwrap_or_else(|error| panic!("behind record {cut}: {error}"));
        assert!(ended.text.contains("what now?"), "behind record {cut}: {}", ended.text);
        let request = scene.last_request();
        let results = support::blocks(&request, "tool_result");
        let unknown: Vec<&str> = results
            .iter()
            .filter(|result| result["content"] == UNKNOWN_OUTCOME && result["is_error"] == true)
            .map(|result| result["tool_use_id"].as_str().unwrap())
            .collect();
        let mut wanted: Vec<&str> = open.keys().map(String::as_str).collect();
        wanted.sort_unstable_by_key(|id| results.iter().position(|result| result["tool_use_id"] == *id));
        assert_eq!(unknown, wanted, "behind record {cut}");
    }
    assert_eq!(scene.runs.commands().len(), 2, "no call was run again");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn after_a_crash_behind_any_record_the_turn_can_go_on_without_new_words() {
    let mut scene = Scene::new();
    let lines = recorded(&mut scene).await;
    // Behind the first words there is something to answer, up to the record with the last answer.
    let from = lines.iter().position(|line| line.contains("[[parallel")).unwrap() + 1;
    let until = lines.iter().rposition(|line| line.contains("\"type\":\"assistant\"")).unwrap();
    for cut in from..=until {
        scene.restart_from(&lines[..cut]);
        let ended = scene.turn(Input::Nothing).await.unwrap_or_else(|error| panic!("behind record {cut}: {error}"));
        assert_eq!(ended.state, State::Done);
        assert_eq!(scene.of_type("user").len(), 2, "behind record {cut}");
    }
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c01_a_call_without_a_result_is_answered_as_unknown_and_not_run_again() {
    let mut scene = Scene::new();
    let lines = recorded(&mut scene).await;
    let call = lines.iter().position(|line| line.contains("\"type\":\"tool_use\"")).unwrap();
    scene.restart_from(&lines[..=call]);
    scene.says("what happened?").await;
    assert!(holds(&scene.last_request(), UNKNOWN_OUTCOME));
    let results = scene.of_type("tool_result");
    assert_eq!((results.len(), &results[0]["output"]), (1, &UNKNOWN_OUTCOME.into()));
    assert_eq!((&results[0]["is_error"], &results[0]["repair"]), (&true.into(), &true.into()));
    assert_eq!(scene.runs.commands().len(), 2);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c09_of_two_calls_only_the_one_without_a_result_gets_a_stand_in() {
    one_of_two_results("c09").await;
}

#[tokio::test]
async fn c19_a_crash_between_two_results_costs_the_second_only() {
    one_of_two_results("c19").await;
}

async fn one_of_two_results(words: &str) {
    let mut scene = Scene::new();
    let lines = recorded(&mut scene).await;
    let result = lines.iter().position(|line| line.contains("\"type\":\"tool_result\"")).unwrap();
    scene.restart_from(&lines[..=result]);
    scene.says(words).await;
    let request = scene.last_request();
    let contents: Vec<_> =
        support::blocks(&request, "tool_result").into_iter().map(|result| result["content"].clone()).collect();
    assert_eq!(contents, ["alpha", UNKNOWN_OUTCOME]);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c37_a_stand_in_is_a_record_and_the_same_after_the_next_restart() {
    let mut scene = Scene::new();
    let lines = recorded(&mut scene).await;
    let call = lines.iter().position(|line| line.contains("\"type\":\"tool_use\"")).unwrap();
    scene.restart_from(&lines[..=call]);
    scene.says("first").await;
    scene.restart();
    scene.says("second").await;
    let requests = scene.requests();
    let [first, second] = &requests[requests.len() - 2..] else { panic!() };
    assert!(support::prefix(second).starts_with(&support::prefix(first)));
    assert_eq!(scene.of_type("tool_result").len(), 1);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c38_a_call_that_was_never_saved_gets_no_stand_in() {
    let mut scene = Scene::new();
    let lines = recorded(&mut scene).await;
    let text = lines.iter().rposition(|line| line.contains("\"type\":\"user\"")).unwrap();
    scene.restart_from(&lines[..=text]);
    scene.says("anything lost? [[recall]]").await;
    assert!(scene.of_type("tool_result").is_empty());
    assert!(support::blocks(&scene.last_request(), "tool_result").is_empty());
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c45_a_question_that_was_open_at_the_crash_is_asked_again() {
    let mut scene = Scene::new();
    scene.kit.asks = Asks::First;
    scene.person.answers.push_back(Answer::Allowed { by: "person" });
    scene.says("[[bash:echo alpha]]").await;
    let lines = scene.raw_lines();
    let pending = lines.iter().position(|line| line.contains("\"state\":\"pending\"")).unwrap();
    assert!(lines[pending + 1].contains("\"state\":\"allowed\""));
    scene.restart_from(&lines[..=pending]);
    assert_eq!(scene.history().pending.len(), 1);
    scene.person.answers.push_back(Answer::Allowed { by: "person" });
    let ended = scene.turn(Input::Nothing).await.unwrap();
    assert_eq!(scene.person.asked.len(), 1, "asked again");
    assert_eq!(scene.runs.commands().len(), 2, "run after it was allowed");
    assert!(ended.text.contains("alpha"), "{}", ended.text);
    // Allowed, but no result: it may have run, so it is not run again.
    scene.restart_from(&lines[..=pending + 1]);
    scene.turn(Input::Nothing).await.unwrap();
    assert_eq!((scene.person.asked.len(), scene.runs.commands().len()), (0, 2));
    assert!(holds(&scene.last_request(), UNKNOWN_OUTCOME));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_question_that_is_passed_over_is_denied() {
    let mut scene = Scene::new();
    scene.kit.asks = Asks::First;
    scene.person.answers.push_back(Answer::Allowed { by: "person" });
    scene.says("[[bash:echo alpha]]").await;
    let lines = scene.raw_lines();
    let pending = lines.iter().position(|line| line.contains("\"state\":\"pending\"")).unwrap();
    scene.restart_from(&lines[..=pending]);
    scene.says("never mind").await;
    assert_eq!(scene.runs.commands().len(), 1);
    assert_eq!(scene.of_type("approval").last().unwrap()["state"], "denied");
    assert!(holds(&scene.last_request(), "[not run: the user went on without allowing it]"));
    scene.assert_no_refusal();
}
