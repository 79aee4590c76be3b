//! Servers that share a remote, and what a server gets that is none of them: nothing.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use unforget_core::stamp::{Source as _, System};
use unforget_remote::memory::Memory;
use unforget_remote::{Remote, Stream, lease};

use crate::scene::{Client, Scene, Setting};

/// What is said in the sessions here: a stranger must not hear it.
const WORDS: &str = "words for the cluster alone";
/// A body that changes a session.
const CHANGE: &str = r#"{"name":"here"}"#;

/// A program that listens where a lease leads, keeps what it hears and answers as it likes.
struct Stranger {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Stranger {
    /// One that answers each request with what this makes of its head.
    fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = heard.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let head = head_of(&mut stream);
                log.lock().unwrap().push(head.clone());
                drop(stream.write_all(&answer(&head)));
            }
        });
        Self { url, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn head_of(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut some = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut some) {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&some[..count]),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn response(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

fn server(remote: &Arc<dyn Remote>, setting: Setting) -> Scene {
    Scene::with(Setting { remote: Some(remote.clone()), actors: &["ada"], ..setting })
}

/// A session of Ada's that this server serves for as long as the client stays.
fn begin(scene: &Scene) -> (String, Client<'_>) {
    let mut client = scene.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": "hello" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    (id, client)
}

/// What a server says when it is asked to change a session over HTTP, and to say something in it over a WebSocket.
fn ask_both(scene: &Scene, id: &str) -> [Value; 2] {
    let answer = scene.ask_as("ada", "POST", &format!("/v1/sessions/{id}/checkpoint"), Some(CHANGE));
    let mut client = scene.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": WORDS, "session_id": id }));
    let told = client.hear().unwrap();
    [answer.json(), told]
}

fn codes(answers: &[Value; 2]) -> Vec<&str> {
    answers.iter().map(|answer| answer["error"]["code"].as_str().unwrap_or("none")).collect()
}

#[test]
fn s2_a_lease_that_no_server_signed_leads_nowhere() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let (first, second) = (server(&remote, Setting::default()), server(&remote, Setting::default()));
    let (id, client) = begin(&first);
    drop(client);
    let stream = Stream::new("actor/ada", "main", &id).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    first.wait("the lease is given back", || {
        runtime.block_on(lease::look(remote.as_ref(), &stream)).unwrap().is_some_and(|claim| claim.until_ms == 0)
    });
    let stranger = Stranger::new(|_| response("mine"));
    // A signature of another session, a made up one, and none.
    for holder in ["#home#run", "#home#run#made-up", ""] {
        let holder = format!("{}{holder}", stranger.url);
        let acquiring = lease::acquire(remote.as_ref(), &stream, &holder, System.now_ms(), Duration::from_secs(600));
        let lease::Acquired::Held(held) = runtime.block_on(acquiring).unwrap() else { panic!("it is taken") };
        let answers = ask_both(&second, &id);
        assert_eq!(codes(&answers), ["busy", "busy"], "{answers:?}");
        runtime.block_on(held.release(remote.as_ref())).unwrap();
    }
    assert_eq!(stranger.heard(), Vec::<String>::new());
    // With the lease given back, the session is served here.
    assert_eq!(codes(&ask_both(&second, &id)), ["none", "none"]);
}

#[test]
fn s2_a_stranger_at_the_address_of_a_server_gets_no_token_and_no_words() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let third = server(&remote, Setting::default());
    let (id, _held) = begin(&third);
    let third_at = third.head().split("Host: ").nth(1).unwrap().lines().next().unwrap().trim().to_owned();
    // One that answers anything, and one that lets a real server of the cluster answer.
    let liar = Stranger::new(|_| response("e30.e30"));
    let relay = Stranger::new(move |head| {
        let mut stream = TcpStream::connect(&third_at).unwrap();
        let target = head.split(' ').nth(1).unwrap_or("/");
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {third_at}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    });
    for stranger in [liar, relay] {
        // This server has the key and signs the address; a stranger has it by now.
        let first = server(&remote, Setting { advertised: Some(stranger.url.clone()), ..Setting::default() });
        let (own, _client) = begin(&first);
        let second = server(&remote, Setting::default());
        let answers = ask_both(&second, &own);
        assert_eq!(codes(&answers), ["moved", "moved"], "{answers:?}");
        let heard = stranger.heard();
        assert_eq!(heard.len(), 2, "{heard:?}");
        for head in heard {
            assert!(head.starts_with("GET /peer?nonce="), "{head}");
            for secret in [second.token("ada"), WORDS, "here", "authorization", "passage", &own] {
                assert!(!head.to_ascii_lowercase().contains(secret), "`{secret}` in {head}");
            }
        }
    }
    drop(id);
}

#[test]
fn s2_servers_with_one_key_forward_in_the_name_of_an_actor_whose_token_only_one_of_them_takes() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let (first, second) = (server(&remote, Setting::default()), server(&remote, Setting::default()));
    let (id, mut watcher) = begin(&first);
    let mut client = second.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": "again", "session_id": id, "client_id": "c" }));
    let done = client.until("done").pop().unwrap();
    assert_eq!((&done["client_id"], &done["durability"]), (&json!("c"), &json!("remote")), "{done}");
    assert_eq!(watcher.until("done").pop().unwrap()["client_id"], "c");
    let answer = second.ask_as("ada", "POST", &format!("/v1/sessions/{id}/checkpoint"), Some(CHANGE));
    assert_eq!(answer.status, 200, "{answer:?}");
    // The server that took the token says when it is worth nothing any more.
    second.revoke("ada");
    assert_eq!(client.closed(), Some(1008), "a tunnel outlived its token");
}

#[test]
fn s2_a_server_without_the_key_or_with_another_one_gets_nothing_and_says_so() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let first = server(&remote, Setting::default());
    let (id, _client) = begin(&first);
    for cluster_key in [None, Some("another-secret-of-another-cluster")] {
        let second = server(&remote, Setting { cluster_key, ..Setting::default() });
        let answers = ask_both(&second, &id);
        assert_eq!(codes(&answers), ["busy", "busy"], "{answers:?}");
        assert!(answers[0]["error"]["message"].as_str().unwrap().contains("--cluster-key"), "{answers:?}");
    }
}

#[test]
fn s2_a_request_that_claims_to_be_forwarded_proves_it() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let first = server(&remote, Setting::default());
    for claimed in ["", "1", "e30.e30", &"x".repeat(4000)] {
        let bearer = format!("Bearer {}", first.token("ada"));
        // Also from somebody who could come in by themselves.
        for headers in
            [&[("x-unforget-passage", claimed)][..], &[("x-unforget-passage", claimed), ("authorization", &bearer)]]
        {
            assert_eq!(first.send("GET", "/v1/sessions", None, headers).status, 401, "{claimed}");
            assert_eq!(first.dial("/ws", headers).err(), Some(401), "{claimed}");
        }
    }
    assert_eq!(first.send("GET", "/peer?nonce=short", None, &[]).status, 400);
    let alone = Scene::with(Setting::of(&["ada"]));
    assert_eq!(alone.send("GET", "/peer?nonce=0123456789abcdef", None, &[]).status, 404);
}
