//! Every bound, reached: what is over it is refused with words that say so, and what is below it is not.
//!
//! Those of frames, bodies and connections that mean no good are in `strangers`; here are those that anybody may come to.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use unforget_core::frontier::Frontier;
use unforget_remote::{BoxFuture, Listing, Page, Prefix, Remote, Result, Stream};
use unforget_server::Limits;

use crate::scene::{Client, Scene, Setting};
use crate::wire::{PATIENCE, close_code, frame, next_frame, raw, rest_of, say, upgraded};

const SOON: Duration = Duration::from_millis(300);

fn usual() -> Limits {
    Setting::default().limits
}

fn with(limits: Limits) -> Scene {
    Scene::with(Setting { limits, ..Setting::default() })
}

/// What a client hears that begins a session, or says why it cannot.
fn begin(client: &mut Client<'_>) -> Value {
    client.say(&json!({ "type": "attach" }));
    client.hear().unwrap()
}

#[test]
fn s07_connections_are_counted_in_all() {
    let scene = with(Limits { connections: 3, handshake: PATIENCE * 3, ..usual() });
    let metrics = scene.app().hub.shared().clone();
    let held: Vec<TcpStream> = (0..3).map(|_| raw(&scene)).collect();
    scene.wait("three are in", || metrics.metrics.connections.get() == 3);
    assert!(rest_of(&mut raw(&scene)).is_empty(), "a fourth is closed without a word");
    drop(held);
    scene.wait("they are out", || metrics.metrics.connections.get() == 0);
    assert_eq!(scene.ask("GET", "/ping", None).0, 200);
}

#[test]
fn live_sessions_are_counted_in_all() {
    let scene = Scene::with(Setting { limits: Limits { sessions: 2, ..usual() }, ..Setting::of(&["ada", "bob"]) });
    let (mut ada, mut bob, mut third) = (scene.connect_as("ada"), scene.connect_as("bob"), scene.connect_as("bob"));
    assert_eq!(begin(&mut ada)["type"], "attached");
    assert_eq!(begin(&mut bob)["type"], "attached");
    assert_eq!(begin(&mut third)["error"]["code"], "too_many");
    drop(ada);
    scene.wait("one is let go", || begin(&mut third)["type"] == "attached");
}

#[test]
fn live_sessions_of_an_actor_are_counted() {
    let limits = Limits { sessions_per_actor: 1, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada", "bob"]) });
    let (mut first, mut second, mut bob) = (scene.connect_as("ada"), scene.connect_as("ada"), scene.connect_as("bob"));
    let attached = begin(&mut first);
    assert_eq!(begin(&mut second)["error"]["code"], "too_many");
    assert_eq!(begin(&mut bob)["type"], "attached", "others have sessions of their own");
    // The same session again is none more.
    second.say(&json!({ "type": "attach", "session_id": attached["session_id"] }));
    assert_eq!(second.hear().unwrap()["type"], "attached");
}

#[test]
fn prompts_of_an_actor_that_are_in_hand_are_counted() {
    let limits = Limits { prompts_per_actor: 1, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada", "bob"]) });
    let (mut first, mut second, mut bob) = (scene.connect_as("ada"), scene.connect_as("ada"), scene.connect_as("bob"));
    first.say(&json!({ "type": "prompt", "prompt": "hold this" }));
    first.until("delta");
    second.say(&json!({ "type": "prompt", "prompt": "elsewhere", "client_id": "c2" }));
    let refused = second.until("error").pop().unwrap();
    assert_eq!((&refused["error"]["code"], &refused["client_id"]), (&json!("too_many"), &json!("c2")));
    bob.say(&json!({ "type": "prompt", "prompt": "mine" }));
    bob.until("done");
    scene.puppet.let_go();
    first.until("done");
    // What was refused was not counted, and what was answered is not any more.
    scene.wait("there is room again", || {
        second.say(&json!({ "type": "prompt", "prompt": "elsewhere" }));
        loop {
            match second.hear().unwrap()["type"].as_str().unwrap() {
                "error" => return false,
                "done" => return true,
                _ => {}
            }
        }
    });
}

#[test]
fn prompts_that_wait_in_a_session_are_counted() {
    let scene = with(Limits { queue: 2, ..usual() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold this", "client_id": "c0" }));
    client.until("delta");
    for name in ["c1", "c2"] {
        client.say(&json!({ "type": "prompt", "prompt": name, "client_id": name }));
        client.until_accepted(name);
    }
    client.say(&json!({ "type": "prompt", "prompt": "c3", "client_id": "c3" }));
    let refused = client.until("error").pop().unwrap();
    assert_eq!((&refused["error"]["code"], &refused["client_id"]), (&json!("too_many"), &json!("c3")));
    scene.puppet.let_go();
    for name in ["c0", "c1", "c2"] {
        assert_eq!(client.until("done").pop().unwrap()["client_id"], name);
    }
}

#[test]
fn who_gives_no_sign_of_life_is_asked_for_one_and_dropped() {
    let scene = with(Limits { silence: Duration::from_secs(3), ..usual() });
    let mut stream = upgraded(&scene);
    let (head, _) = next_frame(&mut stream);
    assert_eq!(head, 0x89, "it is asked");
    // Who answers is asked again, and not dropped.
    stream.write_all(&frame(0x8a, b"")).unwrap();
    assert_eq!(next_frame(&mut stream).0, 0x89);
    assert_eq!(close_code(&mut stream), 1013);
}

#[test]
fn a_question_that_nobody_answers_is_a_no() {
    let scene = with(Limits { question: SOON, ..usual() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": r#"tool bash {"command":"touch made"}"# }));
    let id = client.until("question")[0]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(client.until("answered").pop().unwrap()["allowed"], false);
    client.until("done");
    let lines = scene.transcript(&id);
    let result = lines.iter().find(|line| line["type"] == "tool_result").unwrap();
    assert!(result["is_error"] == true && result.to_string().contains("nobody answered in time"), "{result}");
}

#[test]
fn s05_who_reads_too_slowly_is_told_and_let_go() {
    const STEPS: usize = 60;
    // Nobody is dropped for one frame that takes long: what counts is how far behind somebody is.
    let scene = with(Limits { events: 256, send: 3 * PATIENCE, ..usual() });
    let mut good = scene.connect();
    good.say(&json!({ "type": "prompt", "prompt": format!("steps {STEPS}") }));
    let id = good.until("attached")[0]["session_id"].as_str().unwrap().to_owned();
    let mut slow = upgraded(&scene);
    say(&mut slow, &json!({ "type": "attach", "session_id": id }).to_string());
    let mut heard = 0;
    for step in 1..STEPS {
        while heard < step * 64 * 4096 {
            heard += good.until("delta").pop().unwrap()["text"].as_str().unwrap().len();
        }
        scene.puppet.let_go();
    }
    good.until("done");
    // Now it reads: what was on its way, and then why it does not hear the rest.
    let (mut last, mut whole) = (Value::Null, Vec::new());
    loop {
        let (head, bytes) = next_frame(&mut slow);
        if head == 0x88 {
            assert_eq!(u16::from_be_bytes([bytes[0], bytes[1]]), 1013);
            break;
        }
        whole.extend_from_slice(&bytes);
        if head & 0x80 != 0 {
            last = serde_json::from_slice(&std::mem::take(&mut whole)).unwrap();
        }
    }
    assert_eq!((&last["type"], &last["error"]["code"]), (&json!("error"), &json!("too_many")), "{last}");
    assert_eq!(scene.app().hub.shared().metrics.slow_readers.get(), 1);
}

#[test]
fn s05_who_does_not_read_the_answer_to_a_request_is_dropped() {
    let scene = with(Limits { send: SOON, ..usual() });
    let metrics = scene.app().hub.shared().clone();
    let mut stream = raw(&scene);
    let asking = format!("GET /v1/openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n", scene.address);
    // More than the kernel takes for somebody who does not read.
    stream.write_all(asking.repeat(500).as_bytes()).unwrap();
    let is_heard = || metrics.metrics.text().contains("/v1/openapi.json");
    scene.wait("it is heard and dropped", || is_heard() && metrics.metrics.connections.get() == 0);
    let left = rest_of(&mut stream).len();
    let whole = scene.send("GET", "/v1/openapi.json", None, &[]).bytes.len();
    assert!(left < 400 * whole, "{left} bytes were taken: this is no test of anything");
}

#[test]
fn a_frame_has_a_bound_of_its_own_and_a_message_may_have_several() {
    let scene = with(Limits { frame: 1000, ..usual() });
    let message = json!({ "type": "prompt", "prompt": "x".repeat(1200) }).to_string();
    let mut stream = upgraded(&scene);
    say(&mut stream, &message);
    assert_eq!(close_code(&mut stream), 1009);
    let mut stream = upgraded(&scene);
    let (first, second) = message.as_bytes().split_at(900);
    stream.write_all(&[frame(0x01, first), frame(0x80, second)].concat()).unwrap();
    let (head, bytes) = next_frame(&mut stream);
    let told: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((head, &told["type"]), (0x81, &json!("attached")), "{told}");
}

#[test]
fn json_that_is_nested_too_deep_is_refused_on_every_way_in() {
    let scene = with(Limits { depth: 8, ..usual() });
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let prompt = |depth: usize| format!(r#"{{"prompt":"hello","more":{}}}"#, nested(depth));
    let (status, answer) = scene.ask("POST", "/invocations", Some(&prompt(8)));
    assert_eq!((status, &answer["code"]), (400, &json!("invalid")));
    assert!(answer["details"].as_str().unwrap().contains("deeper than 8"), "{answer}");
    assert_eq!(scene.ask("POST", "/invocations", Some(&prompt(7))).0, 200);
    let mut client = scene.connect();
    client.blurt(&prompt(8));
    let refused = client.hear().unwrap();
    assert_eq!(refused["error"]["code"], "invalid");
    assert!(refused["error"]["message"].as_str().unwrap().contains("deeper"), "{refused}");
    let mut client = scene.connect();
    client.blurt(&prompt(7));
    client.until("done");
    let (status, answer) = scene.ask("POST", "/v1/sessions", Some(&format!(r#"{{"label":{}}}"#, nested(8))));
    assert_eq!(status, 400);
    assert!(answer["error"]["message"].as_str().unwrap().contains("nested deeper"), "{answer}");
}

/// A remote that never answers.
#[derive(Debug)]
struct Asleep;

impl Remote for Asleep {
    fn frontier<'a>(&'a self, _: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(std::future::pending())
    }

    fn append<'a>(&'a self, _: &'a Stream, _: &'a Frontier, _: &'a [Bytes]) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(std::future::pending())
    }

    fn read<'a>(&'a self, _: &'a Stream, _: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(std::future::pending())
    }

    fn list<'a>(&'a self, _: &'a Prefix, _: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        Box::pin(std::future::pending())
    }

    fn delete<'a>(&'a self, _: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_request_that_takes_long_here_is_not_told_to_have_come_late() {
    let limits = Limits { body_time: SOON, shutdown: Duration::from_secs(1), ..usual() };
    let scene = Scene::with(Setting { limits, remote: Some(Arc::new(Asleep)), ..Setting::default() });
    let nobody = uuid::Uuid::now_v7();
    let (status, answer) = scene.ask("GET", &format!("/v1/sessions/{nobody}"), None);
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("unavailable")), "{answer}");
}

#[test]
fn no_session_is_begun_for_a_prompt_that_cannot_be_taken() {
    let scene = with(Limits { prompt: 100, ..usual() });
    for prompt in [" ", &"x".repeat(101)] {
        let mut client = scene.connect();
        client.say(&json!({ "type": "prompt", "prompt": prompt, "client_id": "c1" }));
        assert_eq!(client.hear().unwrap()["type"], "error");
        let (status, _) = scene.ask("POST", "/invocations", Some(&json!({ "prompt": prompt }).to_string()));
        assert!((400..500).contains(&status), "{status}");
    }
    let (_, listed) = scene.ask("GET", "/v1/sessions", None);
    assert_eq!(listed["sessions"], json!([]));
}
