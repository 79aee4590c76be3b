//! The faults of conversations that a live turn meets, one by one.

use serde_json::{Value, json};
use unforget_agent::turn::{Input, State};
use unforget_core::record::Draft;
use unforget_testkit::api::{CutIn, Reply};

use crate::support::{self, Scene, blocks, holds, prefix};

/// A model that binds the signatures of its thinking to the conversation before it.
const BINDING: &str = "claude-opus-5-5";

#[tokio::test]
async fn c07_words_that_came_while_a_tool_ran_stand_behind_its_result() {
    let mut scene = Scene::new();
    scene.append(&[
        Draft::user("start"),
        Draft::tool_use(Some("msg_1"), "toolu_1", "bash", "{\"command\":\"echo a\"}"),
        Draft::user("also look left"),
        Draft::tool_result("toolu_1", "\"a\""),
    ]);
    scene.says("and right").await;
    let request = scene.last_request();
    let last = request["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().clone();
    let kinds: Vec<&str> = last.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_result", "text", "text"]);
    assert_eq!((&last[1]["text"], &last[2]["text"]), (&json!("also look left"), &json!("and right")));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c18_a_call_whose_arguments_were_cut_off_is_not_run() {
    let mut scene = Scene::new();
    scene.api.push(Reply::CutInput { name: "bash".to_owned(), input: "{\"command\":\"rm -r".to_owned() });
    let ended = scene.says("clean up").await;
    assert_eq!(ended.state, State::Done);
    assert!(scene.runs.commands().is_empty());
    let request = scene.last_request();
    assert_eq!(blocks(&request, "tool_use")[0]["input"], json!({}));
    let result = blocks(&request, "tool_result")[0].clone();
    assert!(holds(&result, "the arguments of this call were cut off; it was not run"), "{result}");
    assert_eq!(result["is_error"], true);
    scene.restart();
    scene.says("and now?").await;
    let requests = scene.requests();
    assert!(prefix(&requests[2]).starts_with(&prefix(&requests[1])), "the answer to it stays the same");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_model_that_is_cut_off_again_and_again_comes_to_an_end() {
    let mut scene = Scene::new();
    for _ in 0..10 {
        scene.api.push(Reply::CutInput { name: "bash".to_owned(), input: "{\"command\":\"rm -r".to_owned() });
    }
    let ended = scene.says("clean up").await;
    assert_eq!((ended.state, ended.stop_reason.as_deref()), (State::Done, Some("max_tokens")));
    assert_eq!(scene.requests().len(), 4);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c24_another_model_is_stated_and_gets_no_foreign_thinking() {
    let mut scene = Scene::with(200_000, BINDING);
    scene.says("first [[think]]").await;
    scene.says("second").await;
    assert_eq!(blocks(&scene.last_request(), "thinking").len(), 1);
    scene.restart();
    scene.model = "claude-fable-5-1".to_owned();
    scene.says("third").await;
    let request = scene.last_request();
    assert_eq!(request["model"], "claude-fable-5-1");
    assert!(blocks(&request, "thinking").is_empty());
    let models: Vec<Value> = scene.of_type("context").iter().map(|context| context["model"].clone()).collect();
    assert_eq!(models, [BINDING, "claude-fable-5-1"]);
    assert_eq!(scene.of_type("turn")[2]["model"], "claude-fable-5-1");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c25_a_changed_system_prompt_is_stated_and_thinking_before_it_stays_out() {
    let mut scene = Scene::with(200_000, BINDING);
    scene.says("first [[think]]").await;
    scene.restart();
    scene.settings.system = "You are a tesT.".to_owned();
    scene.says("second").await;
    let request = scene.last_request();
    assert!(blocks(&request, "thinking").is_empty());
    assert!(holds(&request["system"], "tesT"));
    assert_eq!(scene.of_type("context").len(), 2);
    scene.says("third [[think]]").await;
    scene.says("fourth").await;
    assert_eq!(blocks(&scene.last_request(), "thinking").len(), 1);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c26_a_changed_tool_is_stated_and_thinking_before_it_stays_out() {
    let mut scene = Scene::with(200_000, BINDING);
    scene.says("first [[think]] [[bash:echo a]]").await;
    scene.restart();
    scene.kit.description = "Runs a command, with care.";
    scene.says("second").await;
    let request = scene.last_request();
    assert!(blocks(&request, "thinking").is_empty());
    assert!(holds(&request["tools"], "with care"));
    assert_eq!(scene.of_type("context").len(), 2);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c27_every_request_is_the_beginning_of_the_next_one_also_across_restarts() {
    let mut scene = Scene::with(200_000, BINDING);
    let odd = json!({"type": "tool_use", "name": "bash", "input": {"z": 1.0, "command": "echo a/\u{e9}", "a": 1e3}});
    for (at, words) in ["plain", "[[think]] [[bash:echo \u{8a18}]]", "odd", "[[parallel:echo a||fail||echo b]]", "end"]
        .iter()
        .enumerate()
    {
        if *words == "odd" {
            scene.api.push(Reply::Blocks { blocks: vec![odd.clone()], stop_reason: "tool_use".to_owned() });
        }
        scene.says(words).await;
        if at % 2 == 0 {
            scene.restart();
        }
    }
    let requests = scene.requests();
    assert_eq!(requests.len(), 8);
    for pair in requests.windows(2) {
        assert!(prefix(&pair[1]).starts_with(&prefix(&pair[0])), "{}\n{}", prefix(&pair[0]), prefix(&pair[1]));
    }
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c32_a_call_that_was_cut_in_the_stream_is_not_kept() {
    let mut scene = Scene::new();
    scene.api.push(Reply::Cut { text: "{\"command\":\"rm -r".to_owned(), block: CutIn::ToolUse });
    scene.say("clean up").await.unwrap_err();
    assert!(scene.of_type("tool_use").is_empty());
    assert!(scene.runs.commands().is_empty());
    assert_eq!(scene.state(), "failed");
    scene.restart();
    scene.says("again").await;
    assert!(blocks(&scene.last_request(), "tool_use").is_empty());
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c33_half_an_answer_is_kept_and_the_user_goes_on_from_it() {
    let mut scene = Scene::new();
    scene.api.push(Reply::Cut { text: "The answer is forty".to_owned(), block: CutIn::Text });
    scene.say("what is it?").await.unwrap_err();
    let said = scene.of_type("assistant");
    assert_eq!((said.len(), &said[0]["interrupted"]), (1, &json!(true)));
    assert_eq!(scene.state(), "failed");
    scene.restart();
    scene.says("go on").await;
    let request = scene.last_request();
    assert_eq!(request["messages"][1]["content"][0]["text"], "The answer is forty");
    assert_eq!(request["messages"][2]["content"][0]["text"], "go on");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn half_an_answer_goes_on_without_new_words_of_the_user() {
    let mut scene = Scene::new();
    scene.api.push(Reply::Cut { text: "The answer is forty".to_owned(), block: CutIn::Text });
    scene.say("what is it?").await.unwrap_err();
    scene.restart();
    let ended = scene.turn(Input::Nothing).await.unwrap();
    assert_eq!(ended.state, State::Done);
    let request = scene.last_request();
    let roles: Vec<&str> =
        request["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    scene.assert_no_refusal();
}

#[tokio::test]
async fn thinking_that_was_cut_in_the_stream_is_not_kept() {
    let mut scene = Scene::with(200_000, BINDING);
    scene.api.push(Reply::Cut { text: "Hm, let me".to_owned(), block: CutIn::Thinking });
    scene.say("think").await.unwrap_err();
    assert!(scene.of_type("assistant").is_empty());
    scene.restart();
    scene.says("again").await;
    assert!(blocks(&scene.last_request(), "thinking").is_empty());
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c35_a_paused_turn_goes_on_with_what_the_model_said() {
    let mut scene = Scene::new();
    scene.kit.name = "web_search";
    let paused = vec![
        json!({"type": "text", "text": "I will look."}),
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}),
    ];
    scene.api.push(Reply::Blocks { blocks: paused.clone(), stop_reason: "pause_turn".to_owned() });
    scene.api.push(support::text("found"));
    let ended = scene.says("search").await;
    assert_eq!(ended.text, "found");
    let request = scene.last_request();
    assert_eq!(request["messages"].as_array().unwrap().len(), 2);
    assert_eq!(request["messages"][1]["content"], Value::from(paused));
    scene.restart();
    scene.says("and now?").await;
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c43_a_session_that_restarts_sends_what_one_that_lives_on_would_have_sent() {
    let script =
        ["hello", "[[bash:long 300]]", "[[think]] more", "[[parallel:long 200||cjk 900]]", "[[bash:long 400]]"];
    let mut bodies = Vec::new();
    for restarts in [0, 1] {
        let mut scene = Scene::with(12_000, BINDING);
        for round in 0..4 {
            for words in script {
                scene.says(&format!("{words} {round} {}", "and so on ".repeat(200))).await;
                if restarts == 1 {
                    scene.restart();
                }
            }
        }
        assert!(!scene.of_type("compaction").is_empty(), "the guard was at work");
        scene.assert_no_refusal();
        bodies.push(scene.api.messages().iter().map(|request| request.body.clone()).collect::<Vec<_>>());
    }
    assert_eq!(bodies[0].len(), bodies[1].len());
    for (at, (live, cold)) in bodies[0].iter().zip(&bodies[1]).enumerate() {
        assert_eq!(live, cold, "request {at}");
    }
}

#[tokio::test]
async fn c44_an_error_is_a_record_of_its_own_and_never_sent() {
    let mut scene = Scene::new();
    scene.api.push(support::error(400, "invalid_request_error", "strange new rule", None));
    let error = scene.say("hello").await.unwrap_err();
    assert!(error.to_string().contains("strange new rule"));
    assert_eq!(scene.of_type("error")[0]["message"], json!(error.to_string()));
    assert!(scene.of_type("assistant").is_empty());
    scene.restart();
    scene.says("again").await;
    let request = scene.last_request();
    assert!(!holds(&request, "strange new rule"));
    assert!(holds(&request["messages"][0], "hello"), "the words are not lost");
    scene.assert_no_refusal();
}

#[tokio::test]
async fn c48_marks_for_the_cache_are_at_most_four_and_never_stored() {
    let mut scene = Scene::with(200_000, BINDING);
    let many = (0..30).map(|at| format!("echo {at}")).collect::<Vec<_>>().join("||");
    for words in ["[[think]] hello", "again", &format!("[[parallel:{many}]]"), "[[think]] and more", "end"] {
        scene.says(words).await;
        scene.restart();
    }
    for request in scene.requests() {
        let marks = String::from_utf8_lossy(&request.body).matches("\"cache_control\"").count();
        assert!((3..=4).contains(&marks), "{marks} marks");
    }
    assert!(scene.raw_lines().iter().all(|line| !line.contains("cache_control")));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn h2_a_streamed_call_with_an_argument_twice_is_not_run() {
    let mut scene = Scene::new();
    let input = r#"{"command":"echo benign","command":"echo SHADOW"}"#.to_owned();
    scene.api.push(Reply::CutInput { name: "bash".to_owned(), input });
    scene.says("go").await;
    assert!(scene.runs.commands().is_empty());
    let request = scene.last_request();
    assert_eq!(blocks(&request, "tool_use")[0]["input"], json!({}));
    let result = blocks(&request, "tool_result")[0].clone();
    assert!(holds(&result, "the arguments of this call have one name twice; it was not run"), "{result}");
    scene.assert_no_refusal();
}
