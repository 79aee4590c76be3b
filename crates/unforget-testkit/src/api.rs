//! A server that speaks the Messages API, offline, and is as strict as the real one.
//!
//! Whatever is sent to it goes through [`rules`](crate::rules): a request that the real server would refuse is refused
//! here, with the same words, and remembered for the test to see. Accepted requests are answered by a function of the
//! request (`answer`), unless a test has planned something else ([`Reply`]): errors, half answers, silence.
//!
//! The parts: `serve` takes a request from its arrival to its answer, `prompt` counts its tokens, `cache` charges them,
//! `counting` is the other endpoint, `conversation` and `directive` read what was said, `outcome`, `events` and `wire`
//! turn an answer into bytes, `state` is what the server remembers, `script` and `record` are the test's side.
//!
//! It knows nothing of logs or agents. The failure it guards against is a client that works with a kind server only.
//!
//! # Directives
//!
//! In the last text of a person, `[[bash:CMD]]`, `[[read:PATH]]`, `[[write:PATH|TEXT]]`, `[[list:PATH]]`,
//! `[[tool:NAME|JSON]]` and `[[parallel:CMD||CMD]]` call tools; `[[chain:N|CMD]]` calls one in each of N rounds;
//! `[[recall]]` lists every text of a person in the request; `[[long:N]]` says N words. `[[think]]` puts thinking before
//! any of these, and `[[stop:REASON]]` changes the reason to stop. A text without directives is repeated.
//!
//! `[[agent:PROMPT]]` calls the tool that starts another agent; the prompt may hold directives of its own, which that
//! agent's requests obey. `[[tokens:N]]` says that the request has N tokens, whatever it has, as long as this text is
//! answered: a client that compacts by that number does so, although nothing is long.
//!
//! # Looser than the server
//!
//! `stop_sequences`, `context_management` and dropped thinking blocks (`input_transformations`) have no effect on the
//! answer. There is no rate limit but a planned one. The cache keeps prefixes of any length, for ever.

mod answer;
mod cache;
mod conversation;
mod counting;
mod directive;
mod events;
mod outcome;
mod prompt;
mod record;
mod script;
mod serve;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt as _;
use tokio::sync::oneshot;

pub use self::record::Recorded;
pub use self::script::{CutIn, Reply};
use self::state::Shared;

const MESSAGES: &str = "/v1/messages";
const COUNT_TOKENS: &str = "/v1/messages/count_tokens";

/// Is told of every request once it is answered.
pub type Log = Box<dyn Fn(&Recorded) + Send + Sync>;

/// What kind of server it is.
pub struct Options {
    /// The context window in tokens.
    pub window: u64,
    /// The model whose rules apply, whatever a request says.
    pub model: String,
    /// The port; any free one if there is none.
    pub port: Option<u16>,
    /// The only key that is accepted; any if there is none.
    pub key: Option<String>,
    /// How long to wait between two pieces of a stream.
    pub pace: Duration,
    /// Who is told of the requests.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window: 200_000,
            model: "claude-opus-5".to_owned(),
            port: None,
            key: None,
            pace: Duration::ZERO,
            log: None,
        }
    }
}

/// A running server; it stops when this is dropped.
pub struct FakeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeApi {
    /// Starts a server on the loopback interface, on a thread of its own.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port.unwrap_or(0)))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(options));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        // Each piece of a stream travels by itself. Without this it does so only most of the time, which is no error.
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap_or_default());
        let router = Router::new().fallback(serve::handle).with_state(Arc::clone(&shared));
        let thread = thread::Builder::new().name("fake-api".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
            // Dropping the runtime closes all connections.
        })?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The address to put into `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Plans the answer to the next streaming request that is accepted; several are used in order.
    pub fn push(&self, reply: Reply) {
        self.push_for(Recorded::is_streaming, reply);
    }

    /// Plans the answer to the next accepted request for a message, streaming or not, that the condition picks.
    ///
    /// The condition must not call the server: it is asked while the server decides.
    pub fn push_for(&self, condition: impl Fn(&Recorded) -> bool + Send + 'static, reply: Reply) {
        self.shared.lock().script.push(Box::new(condition), reply);
    }

    /// How many planned answers were not used yet.
    pub fn planned(&self) -> usize {
        self.shared.lock().script.len()
    }

    /// Lets everything go on that stalls or is silent now.
    pub fn release(&self) {
        self.shared.release();
    }

    /// Makes `count_tokens` fail with an error of the server, or work again.
    pub fn fail_counts(&self, fail: bool) {
        self.shared.lock().fails_counts = fail;
    }

    /// All requests, of any kind, in the order of their arrival; the oldest of very many are forgotten.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().recorded.iter().cloned().collect()
    }

    /// The requests for a message.
    pub fn messages(&self) -> Vec<Recorded> {
        self.requests().into_iter().filter(Recorded::is_message).collect()
    }

    /// The requests that the rules refused; an error that was planned is not among them.
    pub fn refusals(&self) -> Vec<Recorded> {
        self.requests().into_iter().filter(|request| request.refusal.is_some()).collect()
    }

    /// Waits until so many requests for a message arrived, and returns them; fewer if they do not come in a minute.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Recorded> {
        drop(self.shared.wait_until(|state| state.messages >= count));
        self.messages()
    }

    /// How many clients went away before they had the whole answer.
    pub fn hang_ups(&self) -> usize {
        self.shared.lock().hang_ups
    }

    /// Waits until so many clients went away, and returns how many did; fewer if they do not in a minute.
    pub fn wait_for_hang_ups(&self, count: usize) -> usize {
        self.shared.wait_until(|state| state.hang_ups >= count).hang_ups
    }

    /// Serves until the process is ended.
    pub fn serve(mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread ends only by a panic of its own, which it has told by then.
            drop(thread.join());
        }
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        // Dropping the sender is the signal.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
