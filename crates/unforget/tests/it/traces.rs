//! Traces of the server, as a collector gets them.
#![cfg(feature = "otel")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// A collector: takes what is posted, and hands the bodies on.
fn collector() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || take(stream.unwrap(), &sender));
        }
    });
    (address, receiver)
}

fn take(stream: TcpStream, sender: &mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        drop(sender.send(body));
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

fn request(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "{head}\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_callers_trace_goes_on_through_the_request_and_its_turn_without_a_word_of_it() {
    let (collector, posted) = collector();
    let home = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_unforget"))
        .args(["--json", "--home"])
        .arg(home.path())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("XDG_CONFIG_HOME", home.path())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("http_proxy")
        .env_remove("HTTP_PROXY")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let listening: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = listening["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let token = std::fs::read_to_string(listening["token_file"].as_str().unwrap()).unwrap();
    let head = format!(
        "POST /invocations HTTP/1.1\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\n\
         traceparent: 00-{trace}-b7ad6b7169203331-01",
        token.trim()
    );
    let answer = request(&address, &head, r#"{"prompt":"my name is Rumpelstiltskin"}"#);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    let sent: Vec<u8> = posted.try_iter().flatten().collect();
    let has = |what: &[u8]| sent.windows(what.len()).any(|piece| piece == what);
    let id: Vec<u8> = (0..16).map(|at| u8::from_str_radix(&trace[2 * at..2 * at + 2], 16).unwrap()).collect();
    let count = sent.windows(16).filter(|piece| *piece == id).count();
    assert!(count >= 2, "the request and its turn belong to the caller's trace: {count}");
    assert!(has(b"/invocations") && has(b"turn"));
    assert!(!has(b"Rumpelstiltskin"));
}
