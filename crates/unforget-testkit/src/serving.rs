//! The server as a process, and clients that talk to it over real sockets.
//!
//! [`Server`] is `unforget serve`, started, killed, paused and ended as an operating system does it; [`Client`] is a WebSocket. On top of both:
//! [`fleet`] kills one of several servers again and again and holds what clients were told against what the remote has at the end;
//! [`load`] measures what a turn costs around the model call, with a [`model`] that says how long it took itself and a [`bare`] server that
//! keeps nothing, to compare with.
//!
//! It knows the protocol (docs/protocol.md) and the files of a home, and nothing of the server's inside. The failure it guards against is one that
//! only shows between processes: what was acknowledged by one that is no more.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub mod bare;
pub mod fleet;
pub mod load;
pub mod model;
mod transcript;

pub use transcript::{Said, Transcript};

/// What can go wrong: words for a person.
pub type Result<T = (), E = String> = std::result::Result<T, E>;

/// How often it is looked whether something has come about.
const LOOK: Duration = Duration::from_millis(20);

/// A server that runs; killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it is: `http://host:port`.
    pub url: String,
    /// Kept, so that it has somebody to write to.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a program that prints `{"listening":URL}` when it can be reached.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut output = BufReader::new(child.stdout.take().ok_or("the server has no output")?);
        let mut line = String::new();
        let read = output.read_line(&mut line).map_err(|error| error.to_string());
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        match (read, said["listening"].as_str()) {
            (Ok(_), Some(url)) => Ok(Self { url: url.to_owned(), child, _output: output }),
            (read, _) => {
                drop(child.kill());
                let ended = child.wait();
                Err(format!("the server did not start: {line:?} {read:?} {ended:?}"))
            }
        }
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a machine does that is gone, and waits until it is.
    pub fn kill(&mut self) {
        // Gone already is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Tells it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Lets it sleep.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Wakes it.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // Gone already is as good.
        kill_process(Pid::from_child(&self.child), signal).unwrap_or_default();
    }

    /// How it ended; none if it did not in this time.
    pub fn ends(&mut self, within: Duration) -> Option<ExitStatus> {
        let mut ended = None;
        until(within, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        });
        ended
    }

    /// The memory that it has, in bytes.
    pub fn memory(&self) -> u64 {
        memory(self.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The memory that a process has, in bytes; nothing of one that is gone.
#[expect(clippy::disallowed_methods, reason = "the process table is no file of the store")]
fn memory(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}

/// Waits until something has come about; `false` if it has not in this time.
pub fn until(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// A WebSocket.
#[derive(Debug)]
pub struct Client {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// What came.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A message.
    Said(Value),
    /// The end, with its code, if it was said.
    Closed(Option<u16>),
}

impl Client {
    /// Connects to a server.
    pub async fn connect(url: &str) -> Result<Self> {
        let address = url.replacen("http", "ws", 1) + "/ws";
        let connected = tokio_tungstenite::connect_async(address).await.map_err(|error| error.to_string())?;
        if let MaybeTlsStream::Plain(stream) = connected.0.get_ref() {
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
        }
        Ok(Self { stream: connected.0 })
    }

    /// Says something.
    pub async fn say(&mut self, message: &Value) -> Result {
        self.stream.send(Message::text(message.to_string())).await.map_err(|error| error.to_string())
    }

    /// What comes next.
    pub async fn hear(&mut self) -> Heard {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    return Heard::Said(serde_json::from_str(&text).unwrap_or_default());
                }
                Some(Ok(Message::Close(frame))) => return Heard::Closed(frame.map(|frame| frame.code.into())),
                Some(Err(_)) | None => return Heard::Closed(None),
                Some(Ok(_)) => {}
            }
        }
    }
}
