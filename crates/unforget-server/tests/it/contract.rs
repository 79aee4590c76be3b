//! The contract of AgentCore Runtime: what a container has to answer there, byte by byte where it says so.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use unforget_server::Limits;

use crate::scene::{Answer, Scene, Setting, spoken};
use crate::twins::Line;
use crate::wire::{next_frame, say, upgraded};

/// The largest frame that the runtime lets through.
const FRAME: usize = 64 * 1024;
const SESSION: &str = "x-amzn-bedrock-agentcore-runtime-session-id";
const REQUEST: &str = "x-amzn-bedrock-agentcore-runtime-request-id";
/// As long as the runtime's own are.
const NAME: &str = "a-session-of-the-runtime-0123456789";

fn ping(scene: &Scene) -> (String, u64) {
    let (status, told) = scene.ask("GET", "/ping", None);
    assert_eq!(status, 200);
    (told["status"].as_str().unwrap().to_owned(), told["time_of_last_update"].as_u64().unwrap())
}

/// The events of a stream.
fn events(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    // There are comments between them when nothing happens for a while.
    let events = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    events.map(|event| serde_json::from_str(event).unwrap()).collect()
}

/// A server that does not wait for its remote, and the line to it.
fn hasty() -> (Scene, Line) {
    let line = Line::to_memory();
    let remote: Option<Arc<dyn unforget_remote::Remote>> = Some(Arc::new(line.clone()));
    (Scene::with(Setting { remote, is_awaited: false, ..Setting::default() }), line)
}

/// A server for a model that says everything at once.
fn patient() -> Scene {
    Scene::with(Setting { limits: Limits { events: 1 << 17, ..Setting::default().limits }, ..Setting::default() })
}

#[test]
fn no_frame_is_larger_than_the_runtime_lets_through() {
    let scene = patient();
    let mut stream = upgraded(&scene);
    say(&mut stream, &json!({ "prompt": "long 60000" }).to_string());
    let (mut whole, mut pieces, mut most) = (Vec::new(), 0, 0);
    let done = loop {
        let (head, bytes) = next_frame(&mut stream);
        assert!(bytes.len() <= FRAME, "a frame of {} bytes", bytes.len());
        // The first frame of a message says what it is, the others that they go on with it.
        assert_eq!(head & 0x0f, if pieces == 0 { 1 } else { 0 }, "{head:#x}");
        whole.extend_from_slice(&bytes);
        pieces += 1;
        if head & 0x80 == 0 {
            continue;
        }
        most = most.max(pieces);
        let message: Value = serde_json::from_slice(&whole).unwrap();
        (whole, pieces) = (Vec::new(), 0);
        if message["type"] == "done" {
            break message;
        }
    };
    assert_eq!(done["text"].as_str().unwrap().len(), 300_000);
    assert_eq!(most, 5, "300 KB are five frames");
}

#[test]
fn an_answer_that_comes_faster_than_anybody_reads_is_told_in_few_messages() {
    let scene = patient();
    let mut client = scene.connect();
    let begun = Instant::now();
    client.say(&json!({ "type": "prompt", "prompt": "long 20000" }));
    let heard = client.until("done");
    let took = begun.elapsed();
    assert_eq!(spoken(&heard), "word ".repeat(20000));
    let deltas = heard.iter().filter(|message| message["type"] == "delta").count();
    // One in five milliseconds, or as much of it as fits into half a frame.
    let most = took.as_millis() / 5 + 100_000 / (FRAME as u128 / 2) + 2;
    assert!(deltas as u128 <= most, "{deltas} deltas in {took:?}");
}

#[test]
fn parts_of_an_answer_are_not_mixed_when_they_are_told_together() {
    let scene = Scene::with(Setting { allowed: &["all"], ..Setting::default() });
    let mut client = scene.connect();
    let prompt = r#"tool write_file {"path":"a.txt","content":"moin"}"#;
    client.say(&json!({ "type": "prompt", "prompt": prompt }));
    let heard = client.until("tool_started");
    let of = |block: u64, kind: &str| {
        let deltas = heard.iter().filter(|message| message["type"] == "delta");
        let own = deltas.filter(|message| message["block"] == block && message["kind"] == kind);
        own.map(|message| message["text"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!(of(0, "text"), format!("you said: {prompt}"));
    assert_eq!(of(1, "input"), prompt.strip_prefix("tool write_file ").unwrap());
    let all = heard.iter().filter(|message| message["type"] == "delta").count();
    let at = |kind: &str| heard.iter().position(|message| message["type"] == kind).unwrap();
    assert!(all >= 2 && at("delta") < at("tool_started"));
    // What is in a record was told before it.
    let record = heard.iter().position(|message| message["record"]["type"] == "assistant").unwrap();
    assert!(heard[record..].iter().all(|message| message["type"] != "delta"), "{heard:#?}");
}

#[test]
fn in_the_runtime_a_long_replay_keeps_to_its_frames_a_second() {
    const TURNS: usize = 120;
    let scene = Scene::new();
    let mut client = scene.dial("/ws", &[(SESSION, NAME)]).unwrap();
    client.say(&json!({ "type": "attach" }));
    let id = client.until("caught_up")[0]["session_id"].as_str().unwrap().to_owned();
    for turn in 0..TURNS {
        let body = json!({ "prompt": format!("turn {turn}"), "session_id": id }).to_string();
        assert_eq!(scene.ask("POST", "/invocations", Some(&body)).0, 200);
    }
    drop(client);
    let records = scene.transcript(&id).len();
    let replay = |headers: &[(&str, &str)]| {
        let mut client = scene.dial("/ws", headers).unwrap();
        let begun = Instant::now();
        let frames = client.attach(&id, None).len();
        (frames, begun.elapsed())
    };
    let (frames, took) = replay(&[(SESSION, NAME)]);
    assert_eq!(frames, records + 2);
    // Some at once, the others five milliseconds apart: 250 in the first second, 200 in each other.
    assert!(took >= Duration::from_millis((frames as u64 - 50) * 5), "{frames} frames in {took:?}");
    // Once is enough: the machine may stand still in the middle of one.
    let elsewhere: Vec<_> = (0..5).map(|_| replay(&[])).collect();
    assert!(elsewhere.iter().all(|(frames, _)| *frames == records + 2));
    let is_sooner = elsewhere.iter().any(|(_, elsewhere)| *elsewhere < took);
    assert!(is_sooner, "where nobody counts, nobody waits: {elsewhere:?}");
}

#[test]
fn ping_says_when_it_changed_and_only_then() {
    let scene = Scene::new();
    let (status, since) = ping(&scene);
    assert_eq!(status, "Healthy");
    // The time is told in seconds.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    scene.wait("another second", || now() > since);
    assert_eq!(ping(&scene), (status, since), "asking changes nothing");
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold it" }));
    client.until("delta");
    let (status, busy_since) = ping(&scene);
    assert_eq!(status, "HealthyBusy");
    assert!(busy_since > since);
    scene.wait("another second", || now() > busy_since);
    assert_eq!(ping(&scene), (status, busy_since));
    scene.puppet.let_go();
    client.until("done");
    scene.wait("nothing is in hand", || ping(&scene).0 == "Healthy");
    assert!(ping(&scene).1 > busy_since);
}

#[test]
fn ping_is_busy_as_long_as_something_was_not_sent() {
    let (scene, line) = hasty();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    client.until("done");
    scene.wait("all is sent", || ping(&scene).0 == "Healthy");
    line.cut(true);
    client.say(&json!({ "type": "prompt", "prompt": "second" }));
    let done = client.until("done").pop().unwrap();
    assert_eq!(done["durability"], "disk");
    for _ in 0..20 {
        assert_eq!(ping(&scene).0, "HealthyBusy", "no machine is taken away that has the only copy");
    }
    line.cut(false);
    scene.wait("all is sent", || ping(&scene).0 == "Healthy");
}

#[test]
fn ping_is_busy_as_long_as_a_prompt_waits_for_somebody_to_run_it() {
    let line = Line::to_memory();
    let limits =
        Limits { shutdown: Duration::from_secs(8), linger: Duration::from_secs(600), ..Setting::default().limits };
    let setting = Setting { remote: Some(line.to.clone()), limits, ..Setting::default() };
    let mut one = Scene::with(setting.clone());
    let mut client = one.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold one", "client_id": "c1" }));
    let id = client.until("delta")[0]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "prompt", "prompt": "two", "client_id": "c2" }));
    client.until_accepted("c2");
    drop(client);
    one.stop();
    // Another server has the session when the first is there again.
    let other = Scene::with(setting);
    let mut watching = other.connect();
    watching.attach(&id, None);
    one.start();
    one.wait("it is noticed", || ping(&one).0 == "HealthyBusy");
    let shared = one.app().hub.shared().clone();
    one.wait("it was tried", || shared.metrics.recovered.get() >= 3);
    for _ in 0..20 {
        assert_eq!(ping(&one).0, "HealthyBusy");
    }
}

#[test]
fn an_invocation_that_fails_is_answered_as_the_contract_says() {
    let scene = Scene::new();
    let names = [(SESSION, NAME), (REQUEST, "request-1")];
    let answer = scene.send("POST", "/invocations", Some(r#"{"prompt":"fail"}"#), &names);
    assert_eq!(answer.status, 500, "{}", answer.text());
    let told = answer.json();
    assert!(told["error"].as_str().unwrap().contains("as it was told"), "{told}");
    assert_eq!(told["code"], "model");
    for (name, value) in names {
        assert_eq!(answer.headers[name], value);
    }
    let answer = scene.send("POST", "/invocations", Some(r#"{"prompt":"fail","stream":true}"#), &names);
    assert_eq!(answer.status, 200);
    let events = events(&answer);
    let [.., failed, last] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!(failed["type"], "failed");
    assert_eq!(last["error_type"], "model");
    assert_eq!(
        (last["error"].as_str(), last["message"].as_str()),
        (failed["error"]["message"].as_str(), last["error"].as_str())
    );
    assert_eq!(events.iter().filter(|event| event.get("error_type").is_some()).count(), 1);
    for (name, value) in names {
        assert_eq!(answer.headers[name], value);
    }
    // What the caller did is the caller's.
    for (body, status) in [
        ("{nonsense", 400),
        (r#"{"prompt":""}"#, 400),
        (r#"{"prompt":"hi","session_id":"019a8e5c-6f5e-7d2a-9f43-1c8f1b6f0a11"}"#, 404),
    ] {
        let answer = scene.send("POST", "/invocations", Some(body), &names);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.json()["error"].is_string() && answer.headers[REQUEST] == "request-1", "{answer:?}");
    }
}

#[test]
fn an_invocation_may_be_as_large_as_the_contract_says() {
    let scene = Scene::new();
    let body = json!({ "prompt": "hello", "attachment": "x".repeat(99_000_000) }).to_string();
    let (status, answer) = scene.ask("POST", "/invocations", Some(&body));
    assert_eq!((status, &answer["response"]), (200, &json!("you said: hello")));
}

#[test]
fn an_invocation_that_is_answered_elsewhere_has_its_names_in_both_directions() {
    let line = Line::to_memory();
    let limits = Limits { linger: Duration::from_secs(60), ..Setting::default().limits };
    let setting = Setting { remote: Some(line.to.clone()), limits, ..Setting::default() };
    let (holder, other) = (Scene::with(setting.clone()), Scene::with(setting));
    let invoke = |scene: &Scene, prompt: &str, request: &str| {
        let body = json!({ "prompt": prompt }).to_string();
        scene.send("POST", "/invocations", Some(&body), &[(SESSION, NAME), (REQUEST, request)])
    };
    let first = invoke(&holder, "my name is Ada", "request-1");
    assert_eq!(first.status, 200, "{}", first.text());
    let second = invoke(&other, "recall", "request-2");
    assert_eq!(second.status, 200, "{}", second.text());
    // The session's name led to the conversation there, and both names came back.
    assert_eq!(second.json()["response"], "my name is Ada | recall");
    assert_eq!(second.json()["session_id"], first.json()["session_id"]);
    assert_eq!(other.puppet.asked.load(std::sync::atomic::Ordering::SeqCst), 0, "it was answered by the holder");
    assert_eq!((second.headers[SESSION].as_str(), second.headers[REQUEST].as_str()), (NAME, "request-2"));
    let failed = invoke(&other, "fail", "request-3");
    assert_eq!((failed.status, failed.headers[REQUEST].as_str()), (500, "request-3"));
}
