//! Turns belong to sessions, and connections are nothing.

use std::time::Duration;

use serde_json::json;
use unforget_server::Limits;

use crate::scene::{Scene, Setting, numbers, spoken};

#[test]
fn the_short_form_answers_and_closes() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "prompt": "hello there", "session_id": null, "user_id": "somebody" }));
    let heard = client.until("done");
    assert_eq!(heard[0]["type"], "attached");
    assert_eq!(spoken(&heard), "you said: hello there");
    assert_eq!(heard.last().unwrap()["text"], "you said: hello there");
    assert_eq!(client.closed(), Some(1000));
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    let mut again = scene.connect();
    again.say(&json!({ "prompt": "recall", "session_id": id }));
    assert_eq!(again.until("done").last().unwrap()["text"], "hello there | recall");
}

#[test]
fn s02_a_dropped_connection_does_not_stop_the_turn_and_coming_back_misses_nothing() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold this answer please", "client_id": "c1" }));
    let heard = client.until("delta");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    let seen = numbers(&heard).last().copied();
    drop(client);
    let mut back = scene.connect();
    let mut heard = back.attach(&id, seen);
    assert_eq!(heard[0]["turn"]["client_id"], "c1");
    scene.puppet.let_go();
    heard.extend(back.until("done"));
    assert_eq!(spoken(&heard), "you said: hold this answer please");
    let all: Vec<u64> = scene.transcript(&id).iter().map(|line| line["n"].as_u64().unwrap()).collect();
    let told: Vec<u64> = (0..=seen.unwrap()).chain(numbers(&heard)).collect();
    assert_eq!(told, all);
    assert_eq!(scene.puppet.asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn s01_prompts_of_two_connections_run_one_after_the_other_and_both_see_both() {
    let scene = Scene::new();
    let mut one = scene.connect();
    one.say(&json!({ "type": "prompt", "prompt": "hold one", "client_id": "c1" }));
    let mut first = one.until("accepted");
    let id = first[0]["session_id"].as_str().unwrap().to_owned();
    let mut two = scene.connect();
    let mut second = two.attach(&id, None);
    two.say(&json!({ "type": "prompt", "prompt": "hold two", "client_id": "c2" }));
    second.extend(two.until("accepted"));
    assert_eq!(second.last().unwrap()["state"], "queued");
    scene.puppet.let_go();
    scene.puppet.let_go();
    for (client, heard) in [(&mut one, &mut first), (&mut two, &mut second)] {
        heard.extend(client.until("done"));
        assert_eq!(heard.last().unwrap()["client_id"], "c1");
        heard.extend(client.until("done"));
        assert_eq!(heard.last().unwrap()["client_id"], "c2");
    }
    let lines = scene.transcript(&id);
    let said: Vec<_> = lines.iter().filter(|line| line["type"] == "user").map(|line| &line["content"]).collect();
    assert_eq!(said, ["hold one", "hold two"]);
    let order: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(order, ["session", "context", "user", "assistant", "turn", "user", "assistant", "turn"]);
}

#[test]
fn a_prompt_that_is_sent_twice_is_taken_once() {
    let mut scene = Scene::new();
    let prompt = json!({ "type": "prompt", "prompt": "once", "client_id": "c1" });
    let mut client = scene.connect();
    client.say(&prompt);
    let heard = client.until("done");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    let again = json!({ "type": "prompt", "prompt": "once", "client_id": "c1", "session_id": id });
    client.say(&again);
    let heard = client.until("done");
    let is_it = |told: &serde_json::Value| told["duplicate"] == true && told["state"] == "done";
    assert!(heard.iter().any(|told| told["type"] == "accepted" && is_it(told)), "{heard:#?}");
    drop(client);
    scene.stop();
    scene.start();
    let mut client = scene.connect();
    client.say(&again);
    let heard = client.until("done");
    assert!(heard.iter().any(|message| message["type"] == "accepted" && message["duplicate"] == true));
    assert_eq!(heard.last().unwrap()["text"], "you said: once");
    let lines = scene.transcript(&id);
    assert_eq!(lines.iter().filter(|line| line["type"] == "user").count(), 1);
}

#[test]
fn s13_a_panic_in_one_session_does_not_touch_another() {
    let scene = Scene::new();
    let (mut bad, mut good) = (scene.connect(), scene.connect());
    good.say(&json!({ "type": "prompt", "prompt": "hold on" }));
    good.until("delta");
    bad.say(&json!({ "type": "prompt", "prompt": "panic now", "client_id": "c1" }));
    let heard = bad.until("failed");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    scene.puppet.let_go();
    good.until("done");
    // Whoever comes at the very moment in which it ends is told to come again.
    let shared = scene.app().hub.shared().clone();
    scene.wait("it is gone", || shared.metrics.panics.get() == 1 && shared.metrics.sessions.get() == 1);
    let mut again = scene.connect();
    again.attach(&id, None);
    again.say(&json!({ "type": "prompt", "prompt": "and now" }));
    assert_eq!(again.until("done").last().unwrap()["text"], "you said: and now");
}

#[test]
fn a_question_is_answered_by_whoever_watches() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": r#"tool bash {"command":"echo moin > file; cat file"}"# }));
    let heard = client.until("question");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    let mut other = scene.connect();
    other.attach(&id, None);
    let question = other.until("question");
    let call = question.last().unwrap()["call_id"].as_str().unwrap();
    other.say(&json!({ "type": "answer", "call_id": call, "allow": true }));
    let heard = client.until("done");
    assert!(heard.iter().any(|message| message["type"] == "tool_ended" && message["is_error"] == false));
    let output = scene.transcript(&id).into_iter().find(|line| line["type"] == "tool_result").unwrap();
    assert!(output["output"].as_str().unwrap().contains("moin"), "{output}");
    let decided = scene.transcript(&id).into_iter().filter(|line| line["type"] == "approval").count();
    assert_eq!(decided, 2);
}

#[test]
fn an_abort_keeps_what_was_said() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold this long answer" }));
    let heard = client.until("delta");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "abort" }));
    assert_eq!(client.until("done").last().unwrap()["state"], "aborted");
    let lines = scene.transcript(&id);
    assert!(lines.iter().any(|line| line["type"] == "assistant"));
    assert_eq!(lines.last().unwrap()["state"], "aborted");
}

#[test]
fn invocations_answer_whole_and_in_pieces() {
    let scene = Scene::new();
    let (status, answer) = scene.ask("POST", "/invocations", Some(r#"{"prompt":"hello","client_id":"c1"}"#));
    assert_eq!((status, &answer["response"]), (200, &json!("you said: hello")));
    let id = answer["session_id"].as_str().unwrap();
    let body = json!({ "prompt": "more", "session_id": id, "stream": true }).to_string();
    let (status, events) = scene.ask("POST", "/invocations", Some(&body));
    assert_eq!(status, 200);
    let events: Vec<serde_json::Value> = events
        .as_str()
        .unwrap()
        .split("\n\n")
        .filter_map(|event| Some(serde_json::from_str(event.strip_prefix("data: ")?).unwrap()))
        .collect();
    assert_eq!(spoken(&events), "you said: more");
    assert_eq!(events.last().unwrap()["type"], "done");
    let (status, answer) = scene.ask("POST", "/invocations", Some("{nonsense"));
    assert_eq!((status, &answer["error"]), (400, &json!("Invalid JSON")));
}

#[test]
fn ping_tells_whether_a_turn_runs_and_since_when() {
    let scene = Scene::new();
    let (status, idle) = scene.ask("GET", "/ping", None);
    assert_eq!((status, &idle["status"]), (200, &json!("Healthy")));
    assert_eq!(scene.ask("GET", "/ping", None).1["time_of_last_update"], idle["time_of_last_update"]);
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold it" }));
    client.until("delta");
    assert_eq!(scene.ask("GET", "/ping", None).1["status"], "HealthyBusy");
    scene.puppet.let_go();
    client.until("done");
    scene.wait("nothing is in hand", || scene.ask("GET", "/ping", None).1["status"] == "Healthy");
}

#[test]
fn s04_a_stop_in_the_middle_of_a_turn_marks_it_and_a_restart_goes_on_with_it_and_with_what_waited() {
    let mut scene = Scene::with(Setting {
        limits: Limits { shutdown: Duration::from_secs(8), ..Setting::default().limits },
        ..Setting::default()
    });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold one", "client_id": "c1" }));
    let heard = client.until("delta");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "prompt", "prompt": "two", "client_id": "c2" }));
    client.until_accepted("c2");
    scene.stop();
    let lines = scene.transcript(&id);
    assert_eq!(lines.last().unwrap()["state"], "interrupted");
    scene.start();
    scene.wait("both are taken up", || {
        let attached = scene.connect().attach(&id, None).remove(0);
        attached["turn"]["client_id"] == "c1" && attached["queued"] == 1
    });
    scene.puppet.let_go();
    let mut client = scene.connect();
    client.attach(&id, None);
    client.say(&json!({ "type": "prompt", "prompt": "two", "client_id": "c2" }));
    let heard = client.until("done");
    assert!(heard.iter().all(|message| message["type"] != "accepted" || message["duplicate"] == true));
    let lines = loop {
        let lines = scene.transcript(&id);
        if lines.iter().filter(|line| line["state"] == "done").count() == 2 {
            break lines;
        }
        std::thread::yield_now();
    };
    let said: Vec<_> = lines.iter().filter(|line| line["type"] == "user").map(|line| &line["content"]).collect();
    assert_eq!(said, ["hold one", "two"]);
    let answered: Vec<_> = lines.iter().filter(|line| line["type"] == "assistant").collect();
    assert_eq!(answered.len(), 2, "{answered:?}");
}

#[test]
fn a_prompt_whose_sender_goes_before_it_is_written_down_is_taken_all_the_same() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold one", "client_id": "c1" }));
    let heard = client.until("delta");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    for n in 0..8 {
        let mut hasty = scene.connect();
        hasty.say(&json!({ "type": "prompt", "prompt": format!("hasty {n}"), "client_id": format!("h{n}"), "session_id": id }));
        drop(hasty);
    }
    scene.puppet.let_go();
    client.until("done");
    let mut again = scene.connect();
    for n in 0..8 {
        again.say(&json!({ "type": "prompt", "prompt": format!("hasty {n}"), "client_id": format!("h{n}"), "session_id": id }));
        let done = loop {
            let done = again.until("done").pop().unwrap();
            if done["client_id"] == format!("h{n}") {
                break done;
            }
        };
        assert_eq!(done["text"], format!("you said: hasty {n}"));
    }
    let lines = scene.transcript(&id);
    assert_eq!(lines.iter().filter(|line| line["type"] == "user").count(), 9);
}

#[test]
fn an_answer_from_long_ago_is_told_again_and_a_failed_one_is_told_to_have_failed() {
    let mut scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "number 0", "client_id": "c0" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    for n in 1..12 {
        client.say(&json!({ "type": "prompt", "prompt": format!("number {n}"), "client_id": format!("c{n}") }));
        client.until("done");
    }
    client.say(&json!({ "type": "prompt", "prompt": "fail", "client_id": "bad" }));
    client.until("failed");
    let first = json!({ "type": "prompt", "prompt": "number 0", "client_id": "c0", "session_id": id });
    let bad = json!({ "type": "prompt", "prompt": "fail", "client_id": "bad", "session_id": id });
    client.say(&first);
    assert_eq!(client.until("done").last().unwrap()["text"], "you said: number 0");
    client.say(&bad);
    client.until("failed");
    drop(client);
    scene.stop();
    scene.start();
    let mut client = scene.connect();
    client.say(&first);
    assert_eq!(client.until("done").last().unwrap()["text"], "you said: number 0");
    client.say(&bad);
    client.until("failed");
}
