//! Those who mean no good or do no good: clients that do not read, do not write, write too much, and say that they are somebody else.
//!
//! Bounds are made small here, so that they are reached soon. What is proved is that each of them is looked at before memory or time is spent.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use unforget_server::Limits;

use crate::log;
use crate::scene::{Scene, Setting};
use crate::wire::{PATIENCE, close_code, frame, head_of, next_frame, raw, rest_of, upgraded};

const SOON: Duration = Duration::from_millis(300);

/// Bounds that no test comes to by accident, however long the machine stands still. Whoever wants to come to one says which.
fn long() -> Limits {
    let (handshake, body_time, send) = (PATIENCE, PATIENCE, PATIENCE);
    Limits { linger: SOON, handshake, body_time, send, ..Limits::default() }
}

fn with(limits: Limits) -> Scene {
    Scene::with(Setting { limits, ..Setting::default() })
}

#[test]
fn s05_who_does_not_read_is_dropped_and_nobody_else_notices() {
    const STEPS: usize = 40;
    let scene = with(Limits { send: Duration::from_secs(10), ..long() });
    let mut good = scene.connect();
    good.say(&json!({ "type": "prompt", "prompt": format!("steps {STEPS}") }));
    let id = good.until("attached")[0]["session_id"].as_str().unwrap().to_owned();
    let mut slow = upgraded(&scene);
    let attach = json!({ "type": "attach", "session_id": id }).to_string();
    let mut frame = vec![0x81, 0x80 | u8::try_from(attach.len()).unwrap(), 0, 0, 0, 0];
    frame.extend_from_slice(attach.as_bytes());
    slow.write_all(&frame).unwrap();
    let metrics = scene.app().hub.shared().clone();
    scene.wait("it watches", || metrics.metrics.sockets.get() == 2);
    let mut heard = 0;
    for step in 1..STEPS {
        while heard < step * 64 * 4096 {
            heard += good.until("delta").pop().unwrap()["text"].as_str().unwrap().len();
        }
        scene.puppet.let_go();
    }
    let done = good.until("done").pop().unwrap();
    assert_eq!(done["text"].as_str().unwrap().len(), STEPS * 64 * 4096);
    scene.wait("it is dropped", || metrics.metrics.slow_readers.get() > 0 && metrics.metrics.sockets.get() == 1);
    // What it did not read was kept by nobody: there is only what the kernel had taken.
    let left = rest_of(&mut slow).len();
    assert!(left < STEPS * 64 * 4096 * 3 / 4, "{left} bytes were kept for it");
    let mut back = scene.connect();
    back.attach(&id, Some(0));
}

#[test]
fn s06_a_frame_is_refused_by_its_head() {
    let scene = Scene::new();
    let mut stream = upgraded(&scene);
    let mut head = vec![0x81, 0xff];
    head.extend_from_slice(&(100u64 << 20).to_be_bytes());
    head.extend_from_slice(&[0; 4]);
    stream.write_all(&head).unwrap();
    assert_eq!(close_code(&mut stream), 1009);
}

#[test]
fn s06_a_message_in_many_frames_is_refused_when_it_is_too_long() {
    let scene = with(Limits { message: 100_000, ..long() });
    let mut stream = upgraded(&scene);
    for at in 0..2u8 {
        let mut frame = vec![if at == 0 { 0x01 } else { 0x00 }, 0xff];
        frame.extend_from_slice(&65536u64.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&[b'x'; 65536]);
        stream.write_all(&frame).unwrap();
    }
    assert_eq!(close_code(&mut stream), 1009);
}

#[test]
fn s06_a_body_is_refused_by_its_length_and_by_its_bytes() {
    let scene = with(Limits { body: 50_000, ..long() });
    let own = scene.head();
    for path in ["/invocations", "/v1/sessions", "/v1/entries/append"] {
        let head = format!("POST {path} HTTP/1.1\r\n{own}Content-Type: application/json\r\n");
        let mut stream = raw(&scene);
        stream.write_all(format!("{head}Content-Length: 104857600\r\n\r\n").as_bytes()).unwrap();
        let answer = head_of(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
        let mut stream = raw(&scene);
        stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
        let chunk = [b"fff0\r\n".as_slice(), &[b' '; 0xfff0], b"\r\n"].concat();
        stream.write_all(&chunk).unwrap();
        let answer = head_of(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
    }
}

#[test]
fn s06_a_prompt_has_a_bound_of_its_own() {
    let scene = with(Limits { prompt: 1000, ..long() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "x".repeat(1001), "client_id": "c1" }));
    let refused = client.until("error").pop().unwrap();
    assert_eq!((&refused["error"]["code"], &refused["client_id"]), (&json!("too_large"), &json!("c1")));
    client.say(&json!({ "type": "prompt", "prompt": "x".repeat(1000) }));
    client.until("done");
}

#[test]
fn s07_who_says_nothing_or_half_is_dropped() {
    let scene = with(Limits { handshake: SOON, ..long() });
    let address = scene.address;
    let mut silent = raw(&scene);
    let mut half = raw(&scene);
    half.write_all(format!("GET /ping HTTP/1.1\r\nHost: {address}\r\nX-Slow: ").as_bytes()).unwrap();
    rest_of(&mut silent);
    rest_of(&mut half);
    let scene = with(Limits { body_time: SOON, ..long() });
    let own = scene.head();
    for path in ["/invocations", "/v1/sessions"] {
        let mut body = raw(&scene);
        let head = format!("POST {path} HTTP/1.1\r\n{own}Content-Type: application/json\r\n");
        body.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).unwrap();
        let answer = head_of(&mut body);
        assert!(answer.starts_with("HTTP/1.1 408"), "{path}: {answer}");
    }
    assert_eq!(scene.ask("GET", "/ping", None).0, 200);
}

#[test]
fn s07_who_does_not_say_who_it_is_is_dropped() {
    let scene = Scene::with(Setting { limits: Limits { handshake: 10 * SOON, ..long() }, ..Setting::of(&["ada"]) });
    let mut client = scene.connect();
    let refused = client.hear().unwrap();
    assert_eq!(refused["error"]["code"], "unauthenticated");
    assert_eq!(client.closed(), Some(1008));
    let mut client = scene.connect();
    client.say(&json!({ "type": "ping" }));
    assert_eq!(client.hear().unwrap()["error"]["code"], "unauthenticated");
    assert_eq!(client.closed(), Some(1008));
}

#[test]
fn s07_connections_are_counted_by_address_before_they_are_heard() {
    let scene = with(Limits { connections_per_address: 3, ..long() });
    let held: Vec<TcpStream> = (0..3).map(|_| raw(&scene)).collect();
    let metrics = scene.app().hub.shared().clone();
    scene.wait("three are in", || metrics.metrics.connections.get() == 3);
    assert!(rest_of(&mut raw(&scene)).is_empty());
    drop(held);
    scene.wait("they are out", || metrics.metrics.connections.get() == 0);
    assert_eq!(scene.ask("GET", "/ping", None).0, 200);
}

#[test]
fn s07_an_actor_has_a_bounded_number_of_sockets() {
    let limits = Limits { sockets_per_actor: 2, ..long() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada", "bob"]) });
    let mut held: Vec<_> = (0..2).map(|_| scene.connect_as("ada")).collect();
    for client in &mut held {
        client.say(&json!({ "type": "ping" }));
        client.until("pong");
    }
    let mut third = scene.connect_as("ada");
    assert_eq!(third.hear().unwrap()["error"]["code"], "too_many");
    assert_eq!(third.closed(), Some(1013));
    let mut other = scene.connect_as("bob");
    other.say(&json!({ "type": "ping" }));
    other.until("pong");
}

#[test]
fn s3_a_login_whose_body_is_long_or_withheld_is_refused() {
    let scene = Scene::with(Setting { limits: Limits { handshake: SOON, ..long() }, ..Setting::of(&["ada"]) });
    let (address, metrics) = (scene.address, scene.app().hub.shared().clone());
    let login = |more: &str, body: &[u8]| {
        let mut stream = raw(&scene);
        let head = format!(
            "POST /v1/login HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\n{more}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        head_of(&mut stream)
    };
    let answer = login("Content-Length: 104857600", b"");
    assert!(answer.starts_with("HTTP/1.1 413"), "by its length: {answer}");
    let chunk = [b"8000\r\n".as_slice(), &[b' '; 0x8000], b"\r\n"].concat();
    let answer = login("Transfer-Encoding: chunked", &chunk);
    assert!(answer.starts_with("HTTP/1.1 413"), "by its bytes: {answer}");
    let answer = login("Content-Length: 100", b"{");
    assert!(answer.starts_with("HTTP/1.1 408"), "by its time: {answer}");
    let answer = login(&format!("X-Long: {}", "x".repeat(16 << 10)), b"");
    assert!(answer.starts_with("HTTP/1.1 431"), "by its head: {answer}");
    scene.wait("all of it is given back", || metrics.metrics.connections.get() == 0);
    assert!(scene.ask_as("ada", "GET", "/v1/me", None).status == 200);
}

#[test]
fn s3_a_socket_takes_little_before_it_knows_who_speaks() {
    let scene = Scene::with(Setting { limits: long(), ..Setting::of(&["ada"]) });
    // A frame that says that it is long, many that are short, and signs of life.
    let long_one = [&[0x81, 0xff][..], &(1u64 << 20).to_be_bytes(), &[0; 4]].concat();
    let many = [frame(0x01, &[b'x'; 1000]), frame(0x00, &[b'x'; 1000]).repeat(20)].concat();
    let signs = frame(0x89, b"").repeat(4000);
    for bytes in [long_one, many, signs] {
        let mut stream = upgraded(&scene);
        stream.write_all(&bytes).unwrap();
        let mut code = None;
        while code.is_none() {
            let (head, bytes) = next_frame(&mut stream);
            code = (head == 0x88).then(|| u16::from_be_bytes([bytes[0], bytes[1]]));
        }
        assert_eq!(code, Some(1009));
    }
    // A client that says it may say more then.
    let mut client = scene.connect();
    client.say(&json!({ "type": "auth", "token": scene.token("ada") }));
    client.say(&json!({ "type": "prompt", "prompt": "x".repeat(100_000) }));
    client.until("done");
}

#[test]
fn s3_a_client_may_say_more_right_behind_its_token() {
    let scene = Scene::with(Setting { limits: long(), ..Setting::of(&["ada"]) });
    let message = |message: serde_json::Value| frame(0x81, message.to_string().as_bytes());
    let long = message(json!({ "type": "prompt", "prompt": "x".repeat(60_000) }));
    // In one packet: the server has all of it before it has looked at the token.
    let mut stream = upgraded(&scene);
    let auth = message(json!({ "type": "auth", "token": scene.token("ada") }));
    stream.write_all(&[&auth[..], &long].concat()).unwrap();
    let (head, bytes) = next_frame(&mut stream);
    assert!(head == 0x81 && !bytes.windows(7).any(|word| word == b"\"error\""), "{}", String::from_utf8_lossy(&bytes));
    // Behind a wrong token it hears that, and nothing of the length.
    let mut stream = upgraded(&scene);
    let auth = message(json!({ "type": "auth", "token": "uft_wrong" }));
    stream.write_all(&[&auth[..], &long].concat()).unwrap();
    let (_, bytes) = next_frame(&mut stream);
    assert!(String::from_utf8_lossy(&bytes).contains("unauthenticated"), "{}", String::from_utf8_lossy(&bytes));
    let (head, bytes) = next_frame(&mut stream);
    assert_eq!((head, u16::from_be_bytes([bytes[0], bytes[1]])), (0x88, 1008));
}

#[test]
fn s3_what_is_in_flight_has_a_bound_and_leaves_room_for_others() {
    let limits = Limits { in_flight: 200_000, ..long() };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada", "bob"]) });
    let mut held: Vec<TcpStream> = Vec::new();
    let unfinished = frame(0x01, &[b'x'; 60_000]);
    // Two sockets of one actor, of which both are within the bounds of a message, and together over half of the budget.
    for _ in 0..2 {
        let mut stream = upgraded(&scene);
        stream
            .write_all(&frame(0x81, json!({ "type": "auth", "token": scene.token("ada") }).to_string().as_bytes()))
            .unwrap();
        stream.write_all(&frame(0x81, br#"{"type":"ping"}"#)).unwrap();
        assert_eq!(next_frame(&mut stream).0, 0x81);
        stream.write_all(&unfinished).unwrap();
        held.push(stream);
    }
    let shared = scene.app().hub.shared().clone();
    scene.wait("one of them is refused", || shared.metrics.sockets.get() == 1);
    assert_eq!(scene.ask_as("ada", "POST", "/v1/sessions", Some(&" ".repeat(50_000))).status, 429);
    let answer = scene.ask_as("bob", "POST", "/v1/sessions", Some(&format!("{{{}}}", " ".repeat(50_000))));
    assert_eq!(answer.status, 201, "{}", answer.text());
    drop(held);
    scene.wait("all is given back", || shared.metrics.sockets.get() == 0);
    let answer = scene.ask_as("ada", "POST", "/v1/sessions", Some(&format!("{{{}}}", " ".repeat(50_000))));
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[test]
fn s11_what_was_accepted_is_on_the_disk_and_says_so() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "hold the first", "client_id": "c1" }));
    let heard = client.until("accepted");
    let accepted = heard.last().unwrap();
    assert_eq!((&accepted["state"], &accepted["durability"]), (&json!("running"), &json!("disk")));
    let id = heard[0]["session_id"].as_str().unwrap();
    assert!(scene.transcript(id).iter().any(|line| line["client_id"] == "c1"));
    client.say(&json!({ "type": "prompt", "prompt": "the second, which waits", "client_id": "c2" }));
    let accepted = client.until("accepted").pop().unwrap();
    assert_eq!((&accepted["state"], &accepted["durability"]), (&json!("queued"), &json!("disk")));
    assert!(!scene.transcript(id).iter().any(|line| line["client_id"] == "c2"));
    assert!(files(scene.home()).iter().any(|path| {
        std::fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("the second, which waits"))
    }));
    scene.puppet.let_go();
    assert_eq!(client.until("saved").pop().unwrap()["durability"], "disk");
    assert_eq!(client.until("done").pop().unwrap()["durability"], "disk");
}

#[test]
fn s11_what_cannot_be_written_is_not_accepted() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    drop(client);
    let metrics = scene.app().hub.shared().clone();
    scene.wait("it is let go", || metrics.metrics.sessions.get() == 0);
    // A directory where the transcript was takes no line.
    let path = scene.home().join(format!("agents/main/sessions/{id}.jsonl"));
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    std::fs::create_dir(&path).unwrap();
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "second", "session_id": id, "client_id": "c2" }));
    let heard = client.until("error");
    assert!(heard.iter().all(|message| message["type"] != "accepted"), "{heard:#?}");
}

/// All files beneath a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

#[test]
fn z01_nothing_but_the_token_says_who_is_asking() {
    let scene = Scene::with(Setting::of(&["ada", "bob"]));
    let bearer = format!("Bearer {}", scene.token("ada"));
    let claims = [
        ("authorization", bearer.as_str()),
        ("x-amzn-bedrock-agentcore-runtime-user-id", "bob"),
        ("x-user-id", "bob"),
        ("x-forwarded-user", "bob"),
        ("x-unforget-forwarded", "1"),
    ];
    let mut client = scene.dial("/ws?user_id=bob&actor=bob", &claims).unwrap();
    client.say(&json!({ "prompt": "who am I", "user_id": "bob", "actor": "bob", "actor_id": "bob" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    let body = json!({ "prompt": "who am I", "user_id": "bob", "actor_id": "bob" }).to_string();
    let answer = scene.send("POST", "/invocations?user_id=bob", Some(&body), &claims);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let other = answer.json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(scene.transcript_of("ada", &id).last().unwrap()["type"], "turn");
    assert_eq!(scene.transcript_of("ada", &other).last().unwrap()["type"], "turn");
    assert!(!scene.realm("bob").exists(), "nothing was written for anybody else");
    let mut client = scene.dial("/ws", &claims).unwrap();
    for member in ["user_id", "actor", "actor_id"] {
        client.blurt(&json!({ "type": "attach", member: "bob" }).to_string());
        assert_eq!(client.until("error").pop().unwrap()["error"]["code"], "invalid");
    }
}

#[test]
fn z01_without_a_token_the_runtimes_headers_name_nobody() {
    let scene = Scene::with(Setting::of(&["ada"]));
    let claims = [("x-amzn-bedrock-agentcore-runtime-user-id", "ada"), ("x-user-id", "ada")];
    assert_eq!(scene.send("POST", "/invocations", Some(r#"{"prompt":"hi"}"#), &claims).status, 401);
    assert_eq!(scene.send("GET", "/v1/sessions", None, &claims).status, 401);
    let mut client = scene.dial("/ws", &claims).unwrap();
    client.say(&json!({ "prompt": "hi", "user_id": "ada" }));
    assert_eq!(client.hear().unwrap()["error"]["code"], "unauthenticated");
    assert_eq!(client.closed(), Some(1008));
    assert!(!scene.home().join("actors").exists());
}

#[test]
fn z02_over_a_socket_somebody_elses_session_is_one_that_is_not_there() {
    let scene = Scene::with(Setting::of(&["ada", "bob"]));
    let mut ada = scene.connect_as("ada");
    ada.say(&json!({ "type": "prompt", "prompt": "hold my secret" }));
    let id = ada.until("delta")[0]["session_id"].as_str().unwrap().to_owned();
    let nowhere = uuid::Uuid::now_v7().to_string();
    let before = scene.transcript_of("ada", &id);
    let messages = |id: &str| {
        [
            json!({ "type": "attach", "session_id": id }),
            json!({ "type": "attach", "session_id": id, "after": 1 }),
            json!({ "type": "prompt", "prompt": "mine now", "session_id": id, "client_id": "c" }),
            json!({ "prompt": "mine now", "session_id": id, "client_id": "c" }),
        ]
    };
    for (theirs, nothing) in messages(&id).iter().zip(messages(&nowhere).iter()) {
        let told = [theirs, nothing].map(|message| {
            let mut bob = scene.connect_as("bob");
            bob.say(message);
            let told = bob.hear().unwrap();
            assert_eq!(told["error"]["code"], "not_found", "{message}");
            let is_short = message.get("type").is_none();
            (told, is_short.then(|| bob.closed()))
        });
        assert_eq!(told[0], told[1], "{theirs}");
    }
    assert_eq!(scene.transcript_of("ada", &id), before);
    scene.puppet.let_go();
    assert_eq!(ada.until("done").pop().unwrap()["state"], "done");
}

#[test]
fn z04_a_page_from_elsewhere_gets_no_socket_and_cookies_are_nobody() {
    let scene = Scene::new();
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        assert_eq!(scene.dial("/ws", &[("origin", origin)]).err(), Some(403), "{origin}");
        let answer = scene.send("POST", "/invocations", Some(r#"{"prompt":"hi"}"#), &[("origin", origin)]);
        assert_eq!(answer.status, 403);
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    let own = format!("http://{}", scene.address);
    assert!(scene.dial("/ws", &[("origin", &own)]).is_ok());
    assert_eq!(scene.send("GET", "/v1/agents", None, &[("sec-fetch-site", "cross-site")]).status, 403);
    let scene = Scene::with(Setting::of(&["ada"]));
    let cookie = format!("token={0}; authorization=Bearer {0}", scene.token("ada"));
    assert_eq!(scene.send("GET", "/v1/sessions", None, &[("cookie", &cookie)]).status, 401);
    let mut client = scene.dial("/ws", &[("cookie", &cookie)]).unwrap();
    client.say(&json!({ "type": "hello" }));
    assert_eq!(client.hear().unwrap()["error"]["code"], "unauthenticated");
}

#[test]
fn z05_a_name_that_was_rebound_gets_nothing() {
    let scene = Scene::new();
    let port = scene.address.port();
    for host in [format!("evil.example:{port}"), "evil.example".to_owned(), format!("127.0.0.1.evil.example:{port}")] {
        let origin = format!("http://{host}");
        for headers in [vec![("host", host.as_str())], vec![("host", host.as_str()), ("origin", origin.as_str())]] {
            assert_eq!(scene.dial("/ws", &headers).err(), Some(403), "{host}");
            assert_eq!(scene.send("GET", "/v1/sessions", None, &headers).status, 403, "{host}");
            assert_eq!(scene.send("GET", "/ping", None, &headers).status, 403, "{host}");
        }
    }
    assert_eq!(scene.send("GET", "/ping", None, &[("host", &format!("localhost:{port}"))]).status, 200);
}

#[test]
fn z06_a_token_in_an_address_is_refused_and_is_in_no_answer_and_no_log() {
    log::keep();
    let scene = Scene::with(Setting::of(&["ada"]));
    let token = scene.token("ada").to_owned();
    for path in [format!("/ws?token={token}"), format!("/ws?access_token={token}")] {
        assert_eq!(scene.dial(&path, &[]).err(), Some(400));
    }
    let answer = scene.send("GET", &format!("/v1/sessions?token={token}"), None, &[]);
    assert_eq!(answer.status, 400);
    assert!(!format!("{answer:?}").contains(&token));
    let mut client = scene.connect();
    client.say(&json!({ "type": "auth", "token": token }));
    client.say(&json!({ "type": "prompt", "prompt": "hello" }));
    let heard = client.until("done");
    let last = if token.ends_with('x') { 'y' } else { 'x' };
    let wrong = format!("{}{last}", &token[..token.len() - 1]);
    let mut other = scene.connect();
    other.say(&json!({ "type": "auth", "token": wrong }));
    let refused = other.hear().unwrap();
    assert_eq!(refused["error"]["code"], "unauthenticated");
    let debug = format!("{:?}", scene.app());
    let kept = files(scene.home()).iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>().concat();
    for secret in [&token, &wrong] {
        let shown = [format!("{heard:?}{refused}"), log::text(), debug.clone()];
        assert!(shown.iter().all(|text| !text.contains(secret.as_str())));
        assert!(!String::from_utf8_lossy(&kept).contains(secret.as_str()));
    }
}

#[test]
fn z08_everything_of_an_actor_is_its_own_whatever_the_mask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let scene = Scene::with(Setting { allowed: &["write_file"], ..Setting::of(&["ada"]) });
    let mut client = scene.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": r#"tool write_file {"path":"a.txt","content":"mine"}"# }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "prompt", "prompt": "hold this" }));
    client.until("delta");
    client.say(&json!({ "type": "prompt", "prompt": "and this waits", "client_id": "c2" }));
    client.until_accepted("c2");
    scene.puppet.let_go();
    client.until("done");
    assert_eq!(scene.ask_as("ada", "GET", "/v1/search?q=this", None).status, 200);
    let work = scene.realm("ada").join("work").join(&id);
    assert!(work.join("a.txt").exists());
    // What waits is in a place of the server's own.
    assert!(scene.home().join("server/accepted.jsonl").exists());
    let mut folders = vec![scene.home().join("actors"), scene.home().join("server")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        // What tools make has the modes that they choose; nobody gets there.
        if folder == work {
            continue;
        }
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 2, "only {seen} files");
    for path in files(scene.home()).iter().filter(|path| !path.starts_with(&work)) {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn z14_a_tool_reaches_nobodys_sessions_and_not_even_its_own() {
    let scene = Scene::with(Setting { allowed: &["all"], ..Setting::of(&["ada", "bob"]) });
    let mut bob = scene.connect_as("bob");
    let write = r#"tool write_file {"path":"notes.txt","content":"of bob alone"}"#;
    bob.say(&json!({ "type": "prompt", "prompt": write }));
    let theirs = bob.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    let notes = scene.realm("bob").join("work").join(&theirs).join("notes.txt");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "of bob alone");
    let mut ada = scene.connect_as("ada");
    ada.say(&json!({ "type": "prompt", "prompt": "hello" }));
    let own = ada.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    let work = scene.realm("ada").join("work").join(&own);
    std::fs::create_dir_all(&work).unwrap();
    std::os::unix::fs::symlink(scene.realm("bob"), work.join("link")).unwrap();
    let ledger = scene.home().join("server/accepted.jsonl");
    let transcript = |actor: &str, id: &str| scene.realm(actor).join(format!("agents/main/sessions/{id}.jsonl"));
    let paths = [
        notes.display().to_string(),
        format!("../../../bob/work/{theirs}/notes.txt"),
        format!("link/work/{theirs}/notes.txt"),
        transcript("bob", &theirs).display().to_string(),
        transcript("ada", &own).display().to_string(),
        format!("../../agents/main/sessions/{own}.jsonl"),
        format!("../{own}/../../agents/main/sessions/{own}.jsonl"),
        ledger.display().to_string(),
    ];
    assert!(ledger.exists(), "what is probed is there");
    for path in &paths {
        for (tool, input) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "overwritten" })),
            ("list_directory", json!({ "path": Path::new(path).parent().unwrap().display().to_string() })),
        ] {
            let before = scene.transcript_of("ada", &own).len();
            ada.say(&json!({ "type": "prompt", "prompt": format!("tool {tool} {input}") }));
            ada.until("done");
            let lines = scene.transcript_of("ada", &own);
            let result = lines[before..].iter().find(|line| line["type"] == "tool_result");
            let result = result.unwrap_or_else(|| panic!("{tool} {path}: {:#?}", &lines[before..]));
            assert_eq!(result["is_error"], true, "{tool} {path}: {result}");
            assert!(!result.to_string().contains("of bob alone"), "{result}");
        }
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "of bob alone");
    ada.say(&json!({ "type": "prompt", "prompt": r#"tool bash {"command":"id"}"# }));
    ada.until("done");
    let lines = scene.transcript_of("ada", &own);
    let result = lines.iter().rfind(|line| line["type"] == "tool_result").unwrap();
    assert_eq!(result["is_error"], true, "there are no commands where several share a machine: {result}");
}

#[test]
fn z18_what_a_person_said_is_in_no_log_also_when_a_turn_panics() {
    log::keep();
    let scene = Scene::with(Setting::of(&["ada"]));
    let mut client = scene.connect_as("ada");
    let secret = "pomegranate-4711";
    client.say(&json!({ "type": "prompt", "prompt": format!("please blab {secret}"), "client_id": "c1" }));
    let failed = client.until("failed").pop().unwrap();
    assert_eq!(failed["error"]["code"], "internal");
    assert!(!failed.to_string().contains(secret));
    let mut client = scene.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": format!("fail {secret}") }));
    client.until("failed");
    client.blurt(&format!(r#"{{"type":"prompt","prompt":"{secret}","odd":1}}"#));
    assert!(!client.until("error").pop().unwrap()["error"].to_string().contains(secret));
    let metrics = scene.app().hub.shared().clone();
    scene.wait("it was noticed", || metrics.metrics.panics.get() == 1);
    let text = log::text();
    assert!(text.contains("the task of a session did not end well"), "{text}");
    assert!(!text.contains(secret), "{}", text.lines().find(|line| line.contains(secret)).unwrap());
    assert!(!format!("{:?}", scene.app()).contains(secret));
}
