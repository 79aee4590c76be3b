//! A client that means harm: it withholds, floods and begins what it never uses, with a token and without one.
//!
//! Each attack runs against the real server while somebody else talks to it, and is measured by the memory of its process. What each bound does is tested where it is
//! (`unforget-server`); here is what all of them are worth together.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use unforget_testkit::attacks::{Tally, memory_of};
use unforget_testkit::serving::Server;

use crate::scene::Scene;
use crate::serve::{PATIENCE, Person, serve};

/// A server for two, of whom one means harm.
struct Attacked {
    scene: Scene,
    server: Server,
    eve: String,
    bob: String,
}

struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Attacked {
    fn new(limits: &[&str]) -> Self {
        let scene = Scene::offline();
        let token = |name: &str| {
            let said = scene.run(&["token", "add", name]);
            assert!(said.out.starts_with("uft_"), "{said:?}");
            said.out.trim_end().to_owned()
        };
        let (eve, bob) = (token("eve"), token("bob"));
        let limits: Vec<&str> = limits.iter().flat_map(|limit| ["--limit", limit]).collect();
        let server = serve(&scene, &limits);
        Self { scene, server, eve, bob }
    }

    fn host(&self) -> &str {
        self.server.url.strip_prefix("http://").unwrap()
    }

    /// Runs attacks while somebody is served; how much memory that took above what the server has when it is idle.
    fn attack(&self, tally: &mut Tally, attacks: impl FnOnce(&mut Tally)) {
        let mut honest = Person::at(&self.server.url);
        honest.say(&json!({ "type": "auth", "token": self.bob }));
        honest.prompt(None, "first", "hello");
        assert_eq!(honest.answer("first")["type"], "done");
        let (idle, _) = memory_of(self.server.id()).unwrap();
        let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // Also an attack that fails the test ends the other thread.
            let _over = SetAtEnd(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let name = format!("c{}", answered.load(Ordering::SeqCst));
                    honest.prompt(None, &name, "hello");
                    assert_eq!(honest.answer(&name)["type"], "done");
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
            attacks(tally);
        });
        assert!(answered.into_inner() > 0, "somebody who means no harm was not served");
        let peak = memory_of(self.server.id()).unwrap().1.saturating_sub(idle);
        tally.memory(peak);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    /// Begins a request whose body is to follow.
    fn post(&self, path: &str, headers: &str) -> TcpStream {
        let (mut stream, host) = (self.connect(), self.host());
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// A WebSocket; somebody's, if there is a token.
    fn socket(&self, token: Option<&str>) -> TcpStream {
        let (mut stream, host) = (self.connect(), self.host());
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             {bearer}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
        stream
    }
}

/// A frame as a client sends it, masked with nothing.
fn frame(head: u8, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len();
    let mut frame = match u8::try_from(length) {
        Ok(short) if short < 126 => vec![head, 0x80 | short],
        _ => [&[head, 0xff][..], &(length as u64).to_be_bytes()].concat(),
    };
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(bytes);
    frame
}

/// Sends pieces until all are sent or the server takes no more; how many.
fn send(stream: &mut TcpStream, piece: &[u8], times: usize) -> usize {
    (0..times).take_while(|_| stream.write_all(piece).is_ok()).count()
}

/// Whether the server refused: it says so in its answer, or has gone.
fn is_refused(stream: &mut TcpStream, is_so: impl Fn(&[u8]) -> bool) -> bool {
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(count) => heard.extend_from_slice(&piece[..count]),
            Err(error) => {
                return !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
        if is_so(&heard) {
            return true;
        }
    }
}

/// Whether an answer over HTTP refuses.
fn is_http_refusal(heard: &[u8]) -> bool {
    [&b"HTTP/1.1 413"[..], b"HTTP/1.1 408", b"HTTP/1.1 429", b"HTTP/1.1 431"]
        .iter()
        .any(|begin| heard.starts_with(begin))
}

/// Whether there is a close frame among frames, with one of these codes.
fn has_close(heard: &[u8], codes: &[u16]) -> bool {
    heard.windows(4).any(|window| {
        window[0] == 0x88 && window[1] < 126 && codes.contains(&u16::from_be_bytes([window[2], window[3]]))
    })
}

#[test]
fn s3_somebody_who_is_not_known_cannot_fill_the_memory() {
    let attacked = Attacked::new(&[]);
    let mut tally = Tally::new("client-stranger", 30 + 30 + 150 + 1);
    attacked.attack(&mut tally, |tally| {
        let origin = format!("Origin: {}", attacked.server.url);
        let claimed = format!("{origin}\r\nContent-Length: 104857600");
        let mut logins: Vec<TcpStream> = (0..30).map(|_| attacked.post("/v1/login", &claimed)).collect();
        for login in &mut logins {
            send(login, &[b' '; 64 << 10], 48);
        }
        let piece = [b"10000\r\n".as_slice(), &[b' '; 64 << 10], b"\r\n"].concat();
        let chunked = format!("{origin}\r\nTransfer-Encoding: chunked");
        logins.extend((0..30).map(|_| {
            let mut login = attacked.post("/v1/login", &chunked);
            send(&mut login, &piece, 48);
            login
        }));
        for login in &mut logins {
            tally.attack("a login whose body is withheld", is_refused(login, is_http_refusal));
        }
        let (first, more) = (frame(0x01, &[b'x'; 64 << 10]), frame(0x00, &[b'x'; 64 << 10]));
        let mut sockets: Vec<TcpStream> = (0..150).map(|_| attacked.socket(None)).collect();
        for socket in &mut sockets {
            send(socket, &first, 1);
            send(socket, &more, 7);
        }
        for socket in &mut sockets {
            tally.attack("fragments before `auth`", is_refused(socket, |heard| has_close(heard, &[1009, 1008])));
        }
        let mut long = attacked.connect();
        send(&mut long, b"GET /v1/health HTTP/1.1\r\n", 1);
        send(&mut long, format!("X-Long: {}\r\n", "x".repeat(1000)).as_bytes(), 60);
        tally.attack("a long head", is_refused(&mut long, is_http_refusal));
    });
    tally.finish().unwrap();
}

#[test]
fn s9_somebody_who_is_known_cannot_fill_the_memory_either() {
    let attacked = Attacked::new(&[]);
    let mut tally = Tally::new("client-known", 5);
    attacked.attack(&mut tally, |tally| {
        let headers = format!("Authorization: Bearer {}\r\nTransfer-Encoding: chunked", attacked.eve);
        let chunk = |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        for (path, begin) in [
            ("/v1/entries/append", r#"{"key":{"project_key":"p","session_id":"s"},"entries":["#),
            ("/invocations", r#"{"prompt":"x","more":["#),
        ] {
            let mut stream = attacked.post(path, &headers);
            send(&mut stream, &chunk(begin.as_bytes()), 1);
            send(&mut stream, &chunk("{},".repeat(1 << 16).as_bytes()), 160);
            send(&mut stream, &[chunk(b"{}]}"), chunk(b"")].concat(), 1);
            tally.attack("30 MiB of `{},`", is_refused(&mut stream, is_http_refusal));
        }
        let socket = || attacked.socket(Some(&attacked.eve));
        let mut stream = socket();
        send(&mut stream, &frame(0x01, b"x"), 1);
        send(&mut stream, &frame(0x00, b"x").repeat(1000), 200);
        tally.attack("200,000 fragments", is_refused(&mut stream, |heard| has_close(heard, &[1009])));
        let mut stream = socket();
        send(&mut stream, &frame(0x89, b"are you there?").repeat(1000), 100);
        tally.attack("100,000 pings", is_refused(&mut stream, |heard| has_close(heard, &[1013])));
        let mut stream = socket();
        let values = format!(r#"{{"type":"ping","more":[{}0]}}"#, "0,".repeat(450_000));
        send(&mut stream, &frame(0x81, values.as_bytes()), 1);
        let is_told = |heard: &[u8]| String::from_utf8_lossy(heard).contains("too_large");
        tally.attack("a message of many values", is_refused(&mut stream, is_told));
    });
    tally.finish().unwrap();
}

/// How many transcripts there are beneath a folder.
fn transcripts(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => transcripts(&entry.path()),
        false => usize::from(entry.path().extension().is_some_and(|it| it == "jsonl")),
    };
    entries.map(|entry| count(entry.unwrap())).sum()
}

#[test]
fn h4_attaches_that_are_refused_leave_nothing() {
    const MOST: usize = 5;
    let attacked = Attacked::new(&["sessions_per_actor=5", "linger=600"]);
    let mut tally = Tally::new("client-attaches", 72 + 400);
    attacked.attack(&mut tally, |tally| {
        let attach = |person: &mut Person, key: String| {
            person.say(&json!({ "type": "attach", "key": key }));
            let ends = |message: &serde_json::Value| matches!(message["type"].as_str(), Some("attached" | "error"));
            person.until(ends).pop().unwrap()["type"] == "attached"
        };
        let mut held = Vec::new();
        let mut begun = 0;
        for at in 0..72 {
            let mut eve = Person::at(&attacked.server.url);
            eve.say(&json!({ "type": "auth", "token": attacked.eve }));
            let is_attached = attach(&mut eve, format!("main:web:k{at}"));
            begun += usize::from(is_attached);
            tally.attack("an attach over the bound", !is_attached || begun <= MOST);
            held.push(eve);
        }
        let eve = held.last_mut().unwrap();
        for at in 0..400 {
            tally.attack("a key without a prompt", !attach(eve, format!("main:web:other{at}")));
        }
        let left = transcripts(&attacked.scene.home.path("home/actors/eve/agents"));
        assert_eq!((begun, left), (MOST, MOST));
    });
    tally.finish().unwrap();
}
