//! A server that replies with the bytes it was given, one connection after the other.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// What the server does on one connection after it has read the request.
pub(super) struct Reply {
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) then: Then,
}

pub(super) enum Then {
    /// Closes the connection.
    Close,
    /// Says nothing more until the client goes away.
    Silence,
}

pub(super) struct Server {
    pub(super) url: String,
    requests: mpsc::Receiver<String>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Answers one connection after the other, and then none.
    pub(super) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            for reply in replies {
                let (mut stream, _) = listener.accept().unwrap();
                sender.send(read_request(&mut stream)).unwrap();
                for chunk in &reply.chunks {
                    stream.write_all(chunk).unwrap();
                    stream.flush().unwrap();
                }
                match reply.then {
                    Then::Close => stream.shutdown(Shutdown::Write).unwrap(),
                    Then::Silence => {}
                }
                drain(&mut stream);
            }
        });
        Self { url, requests, thread }
    }

    /// The requests that came, once all replies were given.
    pub(super) fn requests(self) -> Vec<String> {
        self.thread.join().unwrap();
        self.requests.try_iter().collect()
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the request broke off");
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0_usize) {
            return text;
        }
    }
}

/// Waits for the client to go away.
fn drain(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

pub(super) fn reply(status: &str, headers: &[&str], body: &str) -> Reply {
    let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    Reply { chunks: vec![format!("{head}\r\n").into_bytes(), body.as_bytes().to_vec()], then: Then::Close }
}
