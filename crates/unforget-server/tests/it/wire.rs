//! Connections whose bytes a test writes and reads itself: what no well-behaved client would send, and what one would not show.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::scene::Scene;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to which bytes are written one by one, if one wants to.
pub(crate) fn raw(scene: &Scene) -> TcpStream {
    let stream = TcpStream::connect(scene.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection that became a WebSocket.
pub(crate) fn upgraded(scene: &Scene) -> TcpStream {
    let mut stream = raw(scene);
    let own = scene.head();
    let head = format!(
        "GET /ws HTTP/1.1\r\n{own}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let answer = head_of(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    stream
}

/// The head of a response.
pub(crate) fn head_of(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&head)));
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Everything until the end; how a connection ends does not matter.
pub(crate) fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 65536]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it was not closed"),
            Err(_) => return all,
        }
    }
}

/// The code of a close frame.
pub(crate) fn close_code(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[0], 0x88, "a close frame");
    u16::from_be_bytes([head[2], head[3]])
}

/// Says something, in one frame.
pub(crate) fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(&frame(0x81, text.as_bytes())).unwrap();
}

/// A frame as a client sends it.
pub(crate) fn frame(head: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![head];
    match u8::try_from(bytes.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0xff);
            frame.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        }
    }
    // A mask of nothing leaves the bytes as they are.
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(bytes);
    frame
}

/// The next frame: its first byte, and what is in it.
pub(crate) fn next_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[1] & 0x80, 0, "a server does not mask");
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            usize::from(u16::from_be_bytes(length))
        }
        127 => {
            let mut length = [0; 8];
            stream.read_exact(&mut length).unwrap();
            usize::try_from(u64::from_be_bytes(length)).unwrap()
        }
        length => usize::from(length),
    };
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    (head[0], bytes)
}
