//! A remote that does not answer, keys that outlive their sessions, and connections that lead to another server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use unforget_core::frontier::Frontier;
use unforget_remote::memory::Memory;
use unforget_remote::{BoxFuture, Error, Listing, Page, Prefix, Remote, Result, Stream};
use unforget_server::Limits;

use crate::scene::{PATIENCE, Scene, Setting};

/// A remote that a test keeps waiting with lines of sessions.
#[derive(Debug, Clone)]
struct Gate {
    to: Arc<dyn Remote>,
    is_open: watch::Sender<bool>,
    is_refusing: Arc<AtomicBool>,
}

impl Gate {
    fn new() -> Self {
        let to: Arc<dyn Remote> = Arc::new(Memory::default().remote());
        Self { to, is_open: watch::Sender::new(true), is_refusing: Arc::default() }
    }

    fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    async fn pass(&self, stream: &Stream) {
        if stream.side().is_empty() && !stream.session().starts_with('@') {
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
        }
    }
}

fn stream(id: &str) -> Stream {
    Stream::new("the-owner", "main", id).unwrap()
}

impl Remote for Gate {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        self.to.frontier(stream)
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            self.pass(stream).await;
            if self.is_refusing.load(Ordering::SeqCst) {
                let (place, reason) = ("the database".to_owned(), "password authentication failed".to_owned());
                return Err(Error::Denied { place, reason });
            }
            self.to.append(stream, after, lines).await
        })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        self.to.read(stream, from)
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        self.to.list(prefix, cursor)
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        self.to.delete(stream)
    }
}

/// Says something in a new session, and tells which.
fn begin(scene: &Scene) -> String {
    let mut client = if scene.is_own() { scene.connect() } else { scene.connect_as("ada") };
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    client.until("done")[0]["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_turn_ends_although_the_remote_does_not_answer_and_is_sent_later() {
    let gate = Gate::new();
    let scene = Scene::with(Setting { remote: Some(Arc::new(gate.clone())), is_awaited: false, ..Setting::default() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    let heard = client.until("done");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    let is_sent = || {
        let there = scene.runtime.block_on(gate.to.frontier(&stream(&id))).unwrap();
        there.lines == scene.transcript(&id).len() as u64
    };
    scene.wait("the first is sent", is_sent);
    gate.open(false);
    client.say(&json!({ "type": "prompt", "prompt": "second" }));
    assert_eq!(client.until("done").last().unwrap()["durability"], "disk");
    gate.open(true);
    scene.wait("everything is sent", is_sent);
}

#[test]
fn f6_a_client_that_waits_for_the_remote_hears_that_its_words_are_saved_here() {
    let gate = Gate::new();
    let scene = Scene::with(Setting { remote: Some(Arc::new(gate.clone())), is_awaited: true, ..Setting::default() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    client.until("done");
    gate.open(false);
    client.say(&json!({ "type": "prompt", "prompt": "second" }));
    let told = client.until("notice");
    let message = told.last().unwrap()["message"].as_str().unwrap();
    assert!(message.contains("storage does not answer") && message.contains("saved on this server"), "{message}");
    gate.open(true);
    assert_eq!(client.until("done").last().unwrap()["durability"], "remote");
}

#[test]
fn f4_a_turn_that_the_remote_refuses_is_saved_here_and_has_not_failed() {
    let gate = Gate::new();
    let scene = Scene::with(Setting { remote: Some(Arc::new(gate.clone())), is_awaited: false, ..Setting::default() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    let is_sent = || {
        let there = scene.runtime.block_on(gate.to.frontier(&stream(&id))).unwrap();
        there.lines == scene.transcript(&id).len() as u64
    };
    scene.wait("the first is sent", is_sent);
    gate.is_refusing.store(true, Ordering::SeqCst);
    client.say(&json!({ "type": "prompt", "prompt": "second", "client_id": "again" }));
    assert_eq!(client.until("done").last().unwrap()["durability"], "disk");
    gate.is_refusing.store(false, Ordering::SeqCst);
    // Sent again, it is the same prompt with the same answer.
    client.say(&json!({ "type": "prompt", "prompt": "second", "client_id": "again" }));
    assert_eq!(client.until("done").last().unwrap()["state"], "done");
    scene.wait("everything is sent", is_sent);
}

#[test]
fn the_key_of_a_deleted_session_leads_to_a_new_one_on_every_server() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let setting = Setting { remote: Some(remote), ..Setting::default() };
    let (first, second) = (Scene::with(setting.clone()), Scene::with(setting));
    let say = |scene: &Scene, words: &str| {
        let mut client = scene.connect();
        client.say(&json!({ "type": "prompt", "prompt": words, "key": "main:web:ada" }));
        client.until("done")[0]["session_id"].as_str().unwrap().to_owned()
    };
    let old = say(&first, "one");
    assert_eq!(say(&second, "two"), old);
    // Whoever serves it deletes it, for all.
    let (status, told) = first.ask("DELETE", &format!("/v1/sessions/{old}"), None);
    assert!((200..300).contains(&status), "{status} {told}");
    let new = say(&second, "three");
    assert_ne!(new, old);
    assert_eq!(say(&first, "four"), new);
}

/// A server of the cluster that serves a session, of which a test has the connections in its hands.
///
/// Its proofs are those of a real server that advertises this address and holds the session.
struct Peer {
    scene: Scene,
    /// The real one.
    other: Scene,
    id: String,
    listener: TcpListener,
}

impl Peer {
    fn new(setting: Setting) -> Self {
        let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let advertised = Some(format!("http://{}", listener.local_addr().unwrap()));
        let setting = Setting { remote: Some(remote), ..setting };
        let limits = Limits { linger: 10 * PATIENCE, ..setting.limits };
        let other = Scene::with(Setting { advertised, limits, ..setting.clone() });
        let scene = Scene::with(setting);
        let id = begin(&other);
        let listener = scene.runtime.block_on(async { TcpListener::from_std(listener).unwrap() });
        Self { scene, other, id, listener }
    }

    /// The next connection with a request, behind the proofs that are asked for first.
    async fn request(&self) -> TcpStream {
        loop {
            let accepting = tokio::time::timeout(PATIENCE, self.listener.accept());
            let (mut stream, _) = accepting.await.expect("the other server is never asked").unwrap();
            let mut begin = [0; 9];
            while stream.peek(&mut begin).await.unwrap() < begin.len() {
                tokio::task::yield_now().await;
            }
            if &begin != b"GET /peer" {
                return stream;
            }
            let head = head_of(&mut stream).await;
            let (target, host) = (head.split(' ').nth(1).unwrap(), self.other.address);
            let mut real = TcpStream::connect(host).await.unwrap();
            let asked = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            real.write_all(asked.as_bytes()).await.unwrap();
            let mut proof = Vec::new();
            real.read_to_end(&mut proof).await.unwrap();
            stream.write_all(&proof).await.unwrap();
        }
    }

    async fn accept(&self) -> tokio_tungstenite::WebSocketStream<TcpStream> {
        let stream = self.request().await;
        let usual = Limits::default();
        let config = WebSocketConfig::default().max_frame_size(Some(usual.frame)).max_message_size(Some(usual.message));
        tokio_tungstenite::accept_async_with_config(stream, Some(config)).await.unwrap()
    }
}

async fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_tunnel_passes_long_messages_on_and_the_end_as_it_was_said() {
    let limits = Limits { frame: 8 << 20, ..Setting::default().limits };
    let peer = Peer::new(Setting { limits, ..Setting::default() });
    let mut client = peer.scene.connect();
    client.say(&json!({ "type": "attach", "session_id": peer.id }));
    let mut there = peer.scene.runtime.block_on(async {
        let mut there = peer.accept().await;
        let first = there.next().await.unwrap().unwrap();
        assert!(first.to_text().unwrap().contains(&peer.id), "{first}");
        there
    });
    let long = "x".repeat(3 << 20);
    client.blurt(&long);
    peer.scene.runtime.block_on(async {
        // Signs of life come in between.
        let heard = loop {
            if let Message::Text(text) = there.next().await.unwrap().unwrap() {
                break text;
            }
        };
        assert_eq!(heard.len(), long.len());
        let frame = CloseFrame { code: CloseCode::Again, reason: "as it was said".into() };
        there.send(Message::Close(Some(frame))).await.unwrap();
    });
    assert_eq!(client.closed(), Some(1013));
}

#[test]
fn a_tunnel_to_a_server_that_does_not_read_ends() {
    let limits =
        Limits { frame: 64 << 20, message: 64 << 20, send: Duration::from_secs(1), ..Setting::default().limits };
    let peer = Peer::new(Setting { limits, ..Setting::default() });
    let mut client = peer.scene.connect();
    client.say(&json!({ "type": "attach", "session_id": peer.id }));
    let _there = peer.scene.runtime.block_on(peer.accept());
    client.blurt(&"x".repeat(32 << 20));
    assert_eq!(client.closed(), Some(1012));
}

#[test]
fn s2_neither_a_token_nor_a_cookie_of_the_page_is_shown_to_another_server() {
    let peer = Peer::new(Setting::of(&["ada"]));
    let (scene, id) = (&peer.scene, &peer.id);
    let origin = format!("http://{}", scene.address);
    let (cookie, bearer) = (format!("unforget_token={}", scene.token("ada")), format!("Bearer {}", scene.token("ada")));
    let page = [("cookie", cookie.as_str()), ("origin", origin.as_str()), ("x-unforget-page", "1")];
    let program = [("authorization", bearer.as_str())];
    // The other server answers nothing that is of use here; what it is shown counts.
    let heard = std::thread::scope(|scope| {
        let listening = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let hear = async {
                let mut heads = Vec::new();
                while heads.len() < 4 {
                    let mut stream = peer.request().await;
                    heads.push(head_of(&mut stream).await);
                    let refusal = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
                    stream.write_all(refusal).await.unwrap();
                }
                heads
            };
            runtime.block_on(hear)
        });
        for headers in [&page[..], &program[..]] {
            let mut client = scene.dial("/ws", headers).unwrap();
            client.say(&json!({ "type": "attach", "session_id": id }));
            client.until("error");
            let path = format!("/v1/sessions/{id}/checkpoint");
            assert_eq!(scene.send("POST", &path, Some(r#"{"name":"here"}"#), headers).status, 204);
        }
        listening.join().unwrap()
    });
    for head in heard {
        let lower = head.to_ascii_lowercase();
        for hidden in ["cookie", "x-unforget-page", "authorization", scene.token("ada")] {
            assert!(!lower.contains(&hidden.to_ascii_lowercase()), "{hidden} in {head}");
        }
        let passage = head.lines().find_map(|line| line.strip_prefix("x-unforget-passage: ")).unwrap();
        let payload = URL_SAFE_NO_PAD.decode(passage.split('.').next().unwrap()).unwrap();
        let said: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!((&said["actor"], &said["session"]), (&json!("actor/ada"), &json!(id)), "{said}");
    }
}
