//! A remote that does not answer, keys that outlive their sessions, and connections that lead to another server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use unforget_core::frontier::Frontier;
use unforget_remote::lease::{self, Acquired};
use unforget_remote::memory::Memory;
use unforget_remote::{BoxFuture, Listing, Page, Prefix, Remote, Result, Stream};
use unforget_server::Limits;

use crate::scene::{Scene, Setting};

/// A remote that a test keeps waiting with lines of sessions.
#[derive(Debug, Clone)]
struct Gate {
    to: Arc<dyn Remote>,
    is_open: watch::Sender<bool>,
}

impl Gate {
    fn new() -> Self {
        let to: Arc<dyn Remote> = Arc::new(Memory::default().remote());
        Self { to, is_open: watch::Sender::new(true) }
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
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    client.until("done")[0]["session_id"].as_str().unwrap().to_owned()
}

/// Waits until nobody serves a session.
fn let_go(scene: &Scene, remote: &dyn Remote, id: &str) {
    scene.wait("the lease is given back", || {
        let claim = scene.runtime.block_on(lease::look(remote, &stream(id))).unwrap();
        claim.is_some_and(|claim| claim.until_ms == 0)
    });
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

/// A server that another one believes to serve a session, with what is said to it.
struct Peer {
    scene: Scene,
    id: String,
    listener: TcpListener,
}

impl Peer {
    fn new(limits: Limits) -> Self {
        let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
        let scene = Scene::with(Setting { remote: Some(remote.clone()), limits, ..Setting::default() });
        let id = begin(&scene);
        let_go(&scene, remote.as_ref(), &id);
        let listener = scene.runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let holder = format!("http://{}#elsewhere#1", listener.local_addr().unwrap());
        let (now_ms, long) = (jiff::Timestamp::now().as_millisecond(), Duration::from_secs(600));
        let taking = async { lease::acquire(remote.as_ref(), &stream(&id), &holder, now_ms, long).await };
        let taken = scene.runtime.block_on(taking).unwrap();
        assert!(matches!(taken, Acquired::Held(_)), "{taken:?}");
        Self { scene, id, listener }
    }

    async fn accept(&self) -> tokio_tungstenite::WebSocketStream<TcpStream> {
        let (stream, _) = self.listener.accept().await.unwrap();
        let usual = Limits::default();
        let config = WebSocketConfig::default().max_frame_size(Some(usual.frame)).max_message_size(Some(usual.message));
        tokio_tungstenite::accept_async_with_config(stream, Some(config)).await.unwrap()
    }
}

#[test]
fn a_tunnel_passes_long_messages_on_and_the_end_as_it_was_said() {
    let limits = Limits { frame: 8 << 20, ..Setting::default().limits };
    let peer = Peer::new(limits);
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
    let peer = Peer::new(limits);
    let mut client = peer.scene.connect();
    client.say(&json!({ "type": "attach", "session_id": peer.id }));
    let _there = peer.scene.runtime.block_on(peer.accept());
    client.blurt(&"x".repeat(32 << 20));
    assert_eq!(client.closed(), Some(1012));
}

#[test]
fn a_cookie_of_the_page_is_shown_to_another_server_as_a_token() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let scene = Scene::with(Setting { remote: Some(remote.clone()), ..Setting::of(&["ada"]) });
    let created = scene.ask_as("ada", "POST", "/v1/sessions", Some("{}"));
    let id = created.json()["id"].as_str().unwrap().to_owned();
    // It has to be there for others before another one can serve it.
    let mut client = scene.connect_as("ada");
    client.say(&json!({ "type": "prompt", "prompt": "first", "session_id": id }));
    client.until("done");
    drop(client);
    let stream = Stream::new("actor/ada", "main", &id).unwrap();
    scene.wait("the lease is given back", || {
        let claim = scene.runtime.block_on(lease::look(remote.as_ref(), &stream)).unwrap();
        claim.is_some_and(|claim| claim.until_ms == 0)
    });
    let listener = scene.runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let holder = format!("http://{}#elsewhere#1", listener.local_addr().unwrap());
    let (now_ms, long) = (jiff::Timestamp::now().as_millisecond(), Duration::from_secs(600));
    let taking = async { lease::acquire(remote.as_ref(), &stream, &holder, now_ms, long).await };
    assert!(matches!(scene.runtime.block_on(taking).unwrap(), Acquired::Held(_)));

    let (origin, bearer) = (format!("http://{}", scene.address), format!("Bearer {}", scene.token("ada")));
    let cookie = format!("unforget_token={}", scene.token("ada"));
    let page = [("cookie", cookie.as_str()), ("origin", origin.as_str()), ("x-unforget-page", "1")];
    let mut client = scene.dial("/ws", &page[..2]).unwrap();
    client.say(&json!({ "type": "attach", "session_id": id }));
    let heads = scene.runtime.spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap());
            }
            let refusal = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, refusal).await.unwrap();
            heads.push(String::from_utf8(head).unwrap());
        }
        heads
    });
    client.until("error");
    let path = format!("/v1/sessions/{id}/checkpoint");
    assert_eq!(scene.send("POST", &path, Some(r#"{"name":"here"}"#), &page).status, 204);
    for head in scene.runtime.block_on(heads).unwrap() {
        let lower = head.to_ascii_lowercase();
        let shown = head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("authorization")));
        assert_eq!(shown.map(|(_, value)| value), Some(bearer.as_str()), "{head}");
        assert!(!lower.contains("cookie") && !lower.contains("x-unforget-page"), "{head}");
    }
}
