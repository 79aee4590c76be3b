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

/// How many transcripts there are beneath a folder.
fn transcripts(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => transcripts(&entry.path()),
        false => usize::from(entry.path().extension().is_some_and(|it| it == "jsonl")),
    };
    entries.map(|entry| count(entry.unwrap())).sum()
}

#[test]
fn h4_a_refused_attach_creates_nothing() {
    const MOST: usize = 3;
    let limits = Limits { sessions_per_actor: MOST, linger: PATIENCE, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada"]) });
    let mut held: Vec<Client<'_>> = (0..10).map(|_| scene.connect_as("ada")).collect();
    let mut attached = 0;
    for (at, client) in held.iter_mut().enumerate() {
        client.say(&json!({ "type": "attach", "key": format!("main:web:k{at}") }));
        let told = client.hear().unwrap();
        match told["type"].as_str().unwrap() {
            "attached" => attached += 1,
            _ => assert_eq!(told["error"]["code"], "too_many", "{told}"),
        }
    }
    assert_eq!((attached, transcripts(&scene.realm("ada").join("agents"))), (MOST, MOST));
    // Nor do prompts and requests, with a key or without.
    let mut client = scene.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": "hello", "client_id": "c1" }));
    assert_eq!(client.hear().unwrap()["error"]["code"], "too_many");
    let answer = scene.ask_as("ada", "POST", "/invocations", Some(r#"{"prompt":"hello","key":"main:web:other"}"#));
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!(answer.headers.contains_key("retry-after") && answer.json()["code"] == "too_many");
    assert_eq!(transcripts(&scene.realm("ada").join("agents")), MOST);
}

#[test]
fn h4_a_connection_that_says_nothing_begins_few_sessions() {
    let scene = with(Limits { unused_sessions: 3, ..usual() });
    let mut client = scene.connect();
    let attach = |client: &mut Client<'_>, key: &str| {
        client.say(&json!({ "type": "attach", "key": format!("main:web:{key}") }));
        loop {
            match client.hear().unwrap() {
                told if told["type"] == "attached" => return true,
                told if told["type"] == "error" => {
                    assert!(told["error"]["message"].as_str().unwrap().contains("unused_sessions"), "{told}");
                    return false;
                }
                _ => {}
            }
        }
    };
    let begun = (0..40).filter(|at| attach(&mut client, &format!("k{at}"))).count();
    assert_eq!((begun, transcripts(&scene.home().join("agents"))), (3, 3));
    // One that is there can be watched, and who says something may begin more.
    assert!(attach(&mut client, "k0"));
    client.say(&json!({ "type": "prompt", "prompt": "hello" }));
    client.until("done");
    assert!(attach(&mut client, "new"));
}

#[test]
fn h4_a_prompt_that_is_refused_begins_no_session() {
    let limits = Limits { prompts_per_actor: 1, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada"]) });
    let mut first = scene.connect_as("ada");
    first.say(&json!({ "type": "prompt", "prompt": "hold this" }));
    first.until("delta");
    for at in 0..3 {
        let mut other = scene.connect_as("ada");
        other.say(&json!({ "type": "prompt", "prompt": "x", "key": format!("main:web:{at}"), "client_id": "c" }));
        assert_eq!(other.hear().unwrap()["error"]["code"], "too_many");
    }
    assert_eq!(transcripts(&scene.realm("ada").join("agents")), 1);
    scene.puppet.let_go();
    first.until("done");
}

#[test]
fn s9_prompts_new_sessions_and_the_disk_of_an_actor_have_quotas() {
    let limits = Limits { prompts_per_minute: 2, new_sessions_per_minute: 4, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada", "bob"]) });
    let ask = |actor: &str, path: &str, body: &str| scene.ask_as(actor, "POST", path, Some(body));
    for _ in 0..2 {
        assert_eq!(ask("ada", "/invocations", r#"{"prompt":"hello"}"#).status, 200);
    }
    let refused = ask("ada", "/invocations", r#"{"prompt":"hello"}"#);
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("prompts_per_minute"), "{}", refused.text());
    for _ in 0..2 {
        assert_eq!(ask("ada", "/v1/sessions", "{}").status, 201);
    }
    let refused = ask("ada", "/v1/sessions", "{}");
    assert_eq!(refused.status, 429);
    let wait: u32 = refused.headers["retry-after"].parse().unwrap();
    assert!((1..=60).contains(&wait) && refused.text().contains("new_sessions_per_minute"), "{}", refused.text());
    assert_eq!(ask("bob", "/invocations", r#"{"prompt":"hello"}"#).status, 200, "others have quotas of their own");

    let limits = Limits { disk: 1000, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada"]) });
    let append = |text: &str| {
        let body = json!({ "key": { "project_key": "p", "session_id": "s" }, "entries": [{ "a": text }] });
        scene.ask_as("ada", "POST", "/v1/entries/append", Some(&body.to_string()))
    };
    assert_eq!(append(&"x".repeat(2000)).status, 200, "what is over the bound is found when it is there");
    for answer in [append("y"), scene.ask_as("ada", "POST", "/v1/sessions", Some("{}"))] {
        assert_eq!(answer.status, 507, "{}", answer.text());
        assert!(answer.text().contains("`disk`"), "{}", answer.text());
    }
}

#[test]
fn s9_bodies_of_many_small_values_are_refused() {
    let scene = with(Limits { entries: 100, values: 100, ..usual() });
    let many = format!("[{}{{}}]", "{},".repeat(200));
    let append = format!(r#"{{"key":{{"project_key":"p","session_id":"s"}},"entries":{many}}}"#);
    for (path, body) in [
        ("/v1/entries/append", append),
        ("/invocations", format!(r#"{{"prompt":"x","more":{many}}}"#)),
        ("/v1/sessions", format!(r#"{{"label":{many}}}"#)),
    ] {
        assert_eq!(scene.ask("POST", path, Some(&body)).0, 413, "{path}");
    }
    let mut client = scene.connect();
    client.blurt(&format!(r#"{{"type":"ping","more":{many}}}"#));
    assert_eq!(client.hear().unwrap()["error"]["code"], "too_large");
}

#[test]
fn s18_who_breaks_the_protocol_hears_so() {
    let scene = Scene::new();
    let cases: [(&str, Vec<u8>, u16); 9] = [
        ("unmasked", vec![0x81, 2, b'{', b'}'], 1002),
        ("a reserved bit", frame(0xc1, b"{}"), 1002),
        ("a reserved opcode", frame(0x83, b"{}"), 1002),
        ("a continuation of nothing", frame(0x80, b"{}"), 1002),
        ("a message within a message", [frame(0x01, b"{"), frame(0x81, b"{}")].concat(), 1002),
        ("a ping in pieces", frame(0x09, b""), 1002),
        ("a long ping", frame(0x89, &[0; 126]), 1002),
        ("text that is none", frame(0x81, &[0xff, 0xfe]), 1007),
        ("bytes that are no text", frame(0x82, &[0xff, 0xfe]), 1007),
    ];
    for (what, bytes, code) in cases {
        let mut stream = upgraded(&scene);
        stream.write_all(&bytes).unwrap();
        assert_eq!(close_code(&mut stream), code, "{what}");
    }
    let mut stream = upgraded(&scene);
    stream.write_all(&frame(0x88, &1000u16.to_be_bytes())).unwrap();
    assert_eq!(close_code(&mut stream), 1000, "who says goodbye hears the same");
}

#[test]
fn s9_floods_of_frames_and_pings_end_a_connection_and_nobody_elses() {
    let limits = Limits { fragments: 100, pings_per_second: 50, frames_per_second: 500, ..usual() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada", "bob"]) });
    let flood = |bytes: Vec<u8>| {
        let mut stream = upgraded(&scene);
        say(&mut stream, &json!({ "type": "auth", "token": scene.token("ada") }).to_string());
        // The server may have gone before all is written.
        drop(stream.write_all(&bytes));
        loop {
            let (head, bytes) = next_frame(&mut stream);
            if head == 0x88 {
                return u16::from_be_bytes([bytes[0], bytes[1]]);
            }
        }
    };
    assert_eq!(flood([frame(0x01, b"x"), frame(0x00, b"x").repeat(20_000)].concat()), 1009);
    assert_eq!(flood(frame(0x89, b"").repeat(20_000)), 1013);
    assert_eq!(flood(frame(0x81, br#"{"type":"ping"}"#).repeat(20_000)), 1013);
    let mut bob = scene.connect_as("bob");
    bob.say(&json!({ "type": "prompt", "prompt": "hello" }));
    bob.until("done");
}
