//! The server from outside, through a socket: this file holds a client that is as plain as can be, its children the
//! facts.

mod answers;
mod charges;
mod refusals;
mod trouble;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{COUNT_TOKENS, FakeApi, MESSAGES, Options};

/// So that a broken server fails a test instead of holding it.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "x-api-key: k\r\n";
const VERSION: &str = "anthropic-version: 2023-06-01\r\n";

struct Heard {
    status: u16,
    head: String,
    /// The pieces of the body, as they were sent.
    pieces: Vec<Vec<u8>>,
    /// Whether the body ended as it should.
    is_whole: bool,
}

impl Heard {
    fn body(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap()
    }

    fn events(&self) -> Vec<Value> {
        let body = String::from_utf8(self.body()).unwrap();
        body.split_terminator("\n\n")
            .map(|event| {
                let (name, data) = event.split_once('\n').unwrap();
                let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                assert_eq!(data["type"], name.strip_prefix("event: ").unwrap());
                data
            })
            .collect()
    }

    /// What all deltas of a kind add up to.
    fn told(&self, kind: &str, member: &str) -> String {
        let deltas = self.events().into_iter().filter(|event| event["delta"]["type"] == kind);
        deltas.map(|event| event["delta"][member].as_str().unwrap().to_owned()).collect()
    }

    fn text(&self) -> String {
        self.told("text_delta", "text")
    }

    /// The arguments of the only call.
    fn input(&self) -> Value {
        serde_json::from_str(&self.told("input_json_delta", "partial_json")).unwrap()
    }

    fn started_blocks(&self) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["type"] == "content_block_start");
        events.into_iter().map(|mut event| event["content_block"].take()).collect()
    }

    fn stop_reason(&self) -> Value {
        let events = self.events();
        events.iter().find(|event| event["type"] == "message_delta").unwrap()["delta"]["stop_reason"].clone()
    }

    fn error(&self) -> (u16, String, String) {
        let body = self.json();
        assert_eq!(body["type"], "error");
        let text = |name: &str| body["error"][name].as_str().unwrap().to_owned();
        (self.status, text("type"), text("message"))
    }
}

fn start() -> FakeApi {
    FakeApi::start(Options::default()).unwrap()
}

fn start_as(model: &str, window: u64) -> FakeApi {
    FakeApi::start(Options { model: model.to_owned(), window, ..Options::default() }).unwrap()
}

fn open(api: &FakeApi, request_line: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", api.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head =
        format!("{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

fn hear(mut stream: TcpStream) -> Heard {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    parse(&bytes)
}

/// Reads what was sent so far.
fn parse(bytes: &[u8]) -> Heard {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Heard { status: 0, head: String::new(), pieces: Vec::new(), is_whole: false };
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut rest = &bytes[end + 4..];
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return Heard { status, head, pieces: vec![rest.to_vec()], is_whole: true };
    }
    let (mut pieces, mut is_whole) = (Vec::new(), false);
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        is_whole = length == 0;
        if is_whole {
            break;
        }
        let Some(piece) = rest.get(at + 2..at + 2 + length) else { break };
        pieces.push(piece.to_vec());
        rest = rest.get(at + 2 + length + 2..).unwrap_or_default();
    }
    Heard { status, head, pieces, is_whole }
}

fn post(api: &FakeApi, path: &str, body: &Value) -> TcpStream {
    open(api, &format!("POST {path}"), &format!("{KEY}{VERSION}"), body.to_string().as_bytes())
}

/// Asks for a message.
fn ask(api: &FakeApi, body: &Value) -> Heard {
    hear(post(api, MESSAGES, body))
}

fn count(api: &FakeApi, body: &Value) -> Heard {
    hear(post(api, COUNT_TOKENS, body))
}

/// A streaming request with these messages.
fn request(messages: &[Value]) -> Value {
    json!({"model": "claude-opus-5", "max_tokens": 4096, "stream": true, "messages": messages})
}

/// A streaming request with one text.
fn say(text: &str) -> Value {
    request(&[user(json!(text))])
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}
