//! Long outputs: the model sees both ends, and can read everything between them.

use serde_json::json;
use unforget_testkit::api::Reply;

use crate::support::{Scene, blocks, numbered};

/// A run that never ends is a failure.
const MOST_PIECES: usize = 200;

/// Reads an output piece by piece, as the results tell.
async fn read_to_the_end(scene: &mut Scene, id: &str) -> String {
    let mut whole = String::new();
    for _ in 0..MOST_PIECES {
        let input = json!({"tool_use_id": id, "offset": whole.len()});
        let call = json!({"type": "tool_use", "name": "read_output", "input": input});
        scene.api.push(Reply::Blocks { blocks: vec![call], stop_reason: "tool_use".to_owned() });
        scene.says("more").await;
        let request = scene.last_request();
        let piece = blocks(&request, "tool_result").last().unwrap()["content"].as_str().unwrap().to_owned();
        assert!(piece.len() <= scene.settings.tool_output, "{}", piece.len());
        let (head, text) = piece.split_once('\n').unwrap();
        whole.push_str(text);
        let goes_on = format!("[bytes {} to {} of ", whole.len() - text.len(), whole.len());
        assert!(head.starts_with(&goes_on), "{head}");
        if head.ends_with("; this is the end]") {
            return whole;
        }
        assert!(head.ends_with(&format!("; read on with offset {}]", whole.len())), "{head}");
    }
    panic!("{} bytes and no end", whole.len());
}

#[tokio::test]
async fn a_long_output_is_read_piece_by_piece_to_its_end() {
    let mut scene = Scene::new();
    scene.says("[[bash:long 1000]]").await;
    let request = scene.last_request();
    let result = blocks(&request, "tool_result")[0].clone();
    let shown = result["content"].as_str().unwrap();
    assert!(shown.len() < scene.settings.tool_output + 200, "{}", shown.len());
    let id = result["tool_use_id"].as_str().unwrap();
    assert!(shown.contains(&format!("bytes left out; read the rest with read_output, tool_use_id {id}]")), "{shown}");
    scene.restart();
    assert_eq!(read_to_the_end(&mut scene, id).await, numbered(1000));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn pieces_are_no_longer_than_what_the_model_may_see_of_an_output() {
    let mut scene = Scene::new();
    scene.settings.tool_output = 2000;
    scene.says("[[bash:cjk 3000]]").await;
    let request = scene.last_request();
    let id = blocks(&request, "tool_result")[0]["tool_use_id"].as_str().unwrap().to_owned();
    assert_eq!(read_to_the_end(&mut scene, &id).await, "記".repeat(3000));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn an_output_is_still_there_when_its_call_has_become_part_of_a_summary() {
    let mut scene = Scene::new();
    scene.says("[[bash:long 1000]]").await;
    let id = blocks(&scene.last_request(), "tool_result")[0]["tool_use_id"].as_str().unwrap().to_owned();
    for turn in 0..8 {
        scene.says(&format!("turn {turn}")).await;
    }
    scene.compact().await.unwrap();
    scene.restart();
    assert!(!scene.history().to_json().contains(&format!("\"id\":\"{id}\"")));
    assert_eq!(read_to_the_end(&mut scene, &id).await, numbered(1000));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn an_output_that_is_not_there_is_told_and_the_turn_goes_on() {
    let mut scene = Scene::new();
    for input in [json!({"tool_use_id": "toolu_none"}), json!({}), json!({"tool_use_id": 7, "offset": "x"})] {
        let call = json!({"type": "tool_use", "name": "read_output", "input": input});
        scene.api.push(Reply::Blocks { blocks: vec![call], stop_reason: "tool_use".to_owned() });
        scene.says("more").await;
        assert_eq!(blocks(&scene.last_request(), "tool_result").last().unwrap()["is_error"], true);
    }
    scene.assert_no_refusal();
}
