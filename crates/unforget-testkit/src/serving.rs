//! The server as a process, and clients that talk to it over real sockets.
//!
//! [`Server`] is `unforget serve`, started, killed, paused and ended as an operating system does it; [`Client`] is a WebSocket. On top of both:
//! [`fleet`] kills one of several servers again and again and holds what clients were told against what the remote has at the end;
//! [`load`] measures what a turn costs around the model call, with a [`model`] that says how long it took itself and a [`bare`] server that
//! keeps nothing, to compare with.
//!
//! It knows the protocol (docs/protocol.md) and the files of a home, and nothing of the server's inside. The failure it guards against is one that
//! only shows between processes: what was acknowledged by one that is no more.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub mod bare;
pub mod fleet;
pub mod load;
pub mod model;
pub mod tls;
mod transcript;

pub use transcript::{Said, Transcript};

/// What can go wrong: words for a person.
pub type Result<T = (), E = String> = std::result::Result<T, E>;

/// How often it is looked whether something has come about.
const LOOK: Duration = Duration::from_millis(20);

/// The owner's token of each server that was started here, by its address.
///
/// A server for oneself lets in only who can read its token file. The clients of this module send what that file says, so that a test
/// has to know an address and nothing else.
static OWNERS: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

/// The owner's token of a server that was started here; none of one that is for others.
pub fn owner_token(url: &str) -> Option<String> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
}

/// The line of a request's head by which a program of the owner says so; empty for a server that is for others.
pub fn owner_header(url: &str) -> String {
    owner_token(url).map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
}

/// Gives a server the secret of the cluster that all servers of a test share; tells where it is.
#[expect(clippy::disallowed_methods, reason = "the home of another process")]
pub fn plant_cluster_key(home: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    let folder = home.join("server");
    let file = folder.join("cluster.key");
    let planted = || {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file)?;
        std::io::Write::write_all(&mut file, format!("{CLUSTER_KEY}\n").as_bytes())
    };
    planted().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// The secret of a cluster in tests.
pub const CLUSTER_KEY: &str = "the-secret-of-the-servers-of-one-test";

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
            (Ok(_), Some(url)) => {
                remember(url, child.id(), said["token_file"].as_str())?;
                Ok(Self { url: url.to_owned(), child, _output: output })
            }
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

/// Notes what the token file of a server says; that of a server with a file system of its own is where its process sees it.
#[expect(clippy::disallowed_methods, reason = "the home of another process")]
fn remember(url: &str, process: u32, file: Option<&str>) -> Result {
    let read = |file: &str| {
        let within = || std::fs::read_to_string(format!("/proc/{process}/root{file}"));
        std::fs::read_to_string(file).or_else(|_| within()).map_err(|error| format!("{file}: {error}"))
    };
    let token = file.map(read).transpose()?;
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    owners.remove(url);
    owners.extend(token.map(|token| (url.to_owned(), token.trim().to_owned())));
    Ok(())
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
    /// Connects to a server, as its owner if it is for its owner and was started here.
    pub async fn connect(url: &str) -> Result<Self> {
        let address = url.replacen("http", "ws", 1) + "/ws";
        let mut request = address.into_client_request().map_err(|error| error.to_string())?;
        if let Some(token) = owner_token(url) {
            let value = format!("Bearer {token}").parse().map_err(|_| "the token is no header".to_owned())?;
            request.headers_mut().insert("authorization", value);
        }
        let connected = tokio_tungstenite::connect_async(request).await.map_err(|error| error.to_string())?;
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
