//! What was accepted before a stop, and how it goes on behind it.

use std::time::Duration;

use serde_json::{Value, json};
use unforget_server::Limits;

use crate::scene::{Scene, Setting};

/// A server that does not wait for turns when it stops.
fn hasty(allowed: &'static [&'static str]) -> Scene {
    let limits = Limits { shutdown: Duration::from_secs(8), ..Setting::default().limits };
    Scene::with(Setting { limits, allowed, ..Setting::default() })
}

fn count(lines: &[Value], name: &str, value: &str) -> usize {
    lines.iter().filter(|line| line[name] == value).count()
}

#[test]
fn a_turn_that_a_stop_interrupted_behind_a_tool_goes_on_by_itself_and_runs_nothing_twice() {
    let mut scene = hasty(&["bash"]);
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": r#"tool bash {"command":"echo hold"}"#, "client_id": "c1" }));
    let id = client.until("delta")[0]["session_id"].as_str().unwrap().to_owned();
    scene.puppet.let_go();
    client.until("tool_ended");
    client.until("delta");
    scene.stop();
    assert_eq!(scene.transcript(&id).last().unwrap()["state"], "interrupted");
    scene.start();
    scene.puppet.let_go();
    scene.wait("the turn ends", || count(&scene.transcript(&id), "state", "done") == 1);
    let lines = scene.transcript(&id);
    let counts = ["user", "tool_use", "tool_result"].map(|kind| count(&lines, "type", kind));
    assert_eq!(counts, [1, 1, 1], "{lines:#?}");
    // A prompt that is sent again hears how it ended.
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "whatever", "client_id": "c1", "session_id": id }));
    assert_eq!(client.until("done").last().unwrap()["state"], "done");
}

#[test]
fn a_prompt_that_nobody_answers_questions_about_is_still_one_after_a_restart() {
    let mut scene = hasty(&[]);
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold one", "client_id": "c1" }));
    let id = client.until("delta")[0]["session_id"].as_str().unwrap().to_owned();
    let mut short = scene.connect();
    short.say(&json!({ "prompt": r#"tool bash {"command":"true"}"#, "client_id": "c2", "session_id": id }));
    short.until("accepted");
    drop((client, short));
    scene.stop();
    scene.start();
    scene.puppet.let_go();
    scene.wait("both turns end", || count(&scene.transcript(&id), "state", "done") == 2);
    let denied = scene.transcript(&id).iter().any(|line| line.to_string().contains("nobody is there to allow it"));
    assert!(denied, "{:#?}", scene.transcript(&id));
}
