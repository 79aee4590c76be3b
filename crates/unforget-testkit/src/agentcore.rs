//! A stand-in of AWS AgentCore Memory, offline, and as strict as the service is known to be.
//!
//! It knows the events of short-term memory (create, get, list, delete; sessions; actors) and as much of the control plane as
//! the official clients need to start. What the service refuses is refused here: patterns, limits, wrong signatures, too many requests.
//! What the service does to the careless is done here: newest first, times cut to milliseconds, pages of twenty, filters that are applied after the page was taken and see new
//! events late, events that expire one by one.
//!
//! The parts: `serve` takes a request from its arrival to its answer, `signature` checks who sent it, `checks` holds patterns and limits, `events` and
//! `control` are the operations, `state` is what the server remembers, `faults` and `tricks` are the test's side.
//!
//! It knows nothing of streams or segments. The failure that it guards against is a client that works with a kind server only.
//!
//! # Not known of the real service
//!
//! The order of events of one millisecond (here: by the digits behind the `#`, which follow no order), how long a client token is remembered ([`Options::tokens`]) and
//! for what scope (here: a memory), what a page may weigh (here: anything).

mod checks;
mod control;
mod events;
mod faults;
mod serve;
pub mod signature;
mod state;
mod tricks;

use std::fmt::{self, Debug};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use axum::Router;
use tokio::sync::oneshot;
use unforget_remote::agentcore::wire::Event;

pub use self::faults::{Fault, Operation};
pub use self::signature::Keys;
pub use self::state::Recorded;
use self::state::Shared;
pub use self::tricks::{RefusedPage, Tricks};

/// What time it is, since 1970.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;
/// Is told of every request once it is answered.
pub type Log = Box<dyn Fn(&Recorded) + Send + Sync>;

/// How many requests are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// Any number.
    Unlimited,
    /// As many as the service's documents say for an actor's session.
    Documented,
}

/// What kind of server it is.
pub struct Options {
    /// The port; any free one if there is none.
    pub port: Option<u16>,
    /// The only keys whose signatures are accepted; without any, nobody looks.
    pub keys: Option<Keys>,
    /// What time it is.
    pub clock: Clock,
    /// How many requests are let through.
    pub rates: Rates,
    /// How long a client token is remembered.
    pub tokens: Duration,
    /// How late a filtered read sees an event.
    pub filter_lag: Duration,
    /// Who is told of the requests.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: None,
            keys: None,
            clock: Arc::new(|| SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()),
            rates: Rates::Unlimited,
            tokens: Duration::from_secs(24 * 3600),
            filter_lag: Duration::ZERO,
            log: None,
        }
    }
}

/// A running server; it stops when this is dropped.
pub struct FakeMemory {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Debug for FakeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeMemory").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FakeMemory {
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
        let router = Router::new().fallback(serve::handle).with_state(Arc::clone(&shared));
        let thread = thread::Builder::new().name("fake-agentcore".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The address to put into `AWS_ENDPOINT_URL_BEDROCK_AGENTCORE`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a memory whose id is `name` and ten characters, with events that expire after so many days.
    pub fn memory(&self, name: &str, days: u32) -> String {
        let now = self.shared.now();
        self.shared.lock().add_memory(name, &format!("{name}-Stand1In00"), days, now)
    }

    /// Plans a fault for the next requests of a kind; several are used in order.
    pub fn fail(&self, operation: Operation, fault: Fault, times: usize) {
        self.shared.lock().faults.plan(operation, fault, times);
    }

    /// Changes what the memory does wrong from now on.
    pub fn trick(&self, change: impl FnOnce(&mut Tricks)) {
        change(&mut self.shared.lock().tricks);
    }

    /// How many planned faults did not happen yet.
    pub fn planned(&self) -> usize {
        self.shared.lock().faults.left()
    }

    /// All requests in the order of their arrival; the oldest of very many are forgotten.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().recorded.iter().cloned().collect()
    }

    /// How many requests of a kind there were.
    pub fn count(&self, operation: Operation) -> usize {
        self.shared.lock().recorded.iter().filter(|request| request.operation == Some(operation)).count()
    }

    /// All events that are there, in the order of their ids, session by session.
    pub fn events(&self) -> Vec<Event> {
        self.shared.lock().all_events()
    }

    /// Changes an event behind everybody's back; `None` removes it.
    pub fn tamper(&self, event_id: &str, change: impl FnOnce(Event) -> Option<Event>) {
        self.shared.lock().tamper(event_id, change);
    }

    /// Puts events behind everybody's back where they say that they belong.
    pub fn fill(&self, events: Vec<Event>) {
        let now = self.shared.now();
        self.shared.lock().fill(events, now);
    }

    /// Forgets every client token, as the service does after a while that nobody knows.
    pub fn forget_tokens(&self) {
        self.shared.lock().tokens.clear();
    }

    /// Serves until the process is ended.
    pub fn serve(mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        // Dropping the sender is the signal.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
