//! What carries a chat's words to a remote, beside the chat.
//!
//! A turn is safe when it is on this disk, and is sent from there: the courier works in a thread of its own and reads what was written. Before
//! anything is written the session is marked in the outbox, durably; the mark goes when the remote has confirmed the whole turn. So
//! whatever happens in between, the next chat (or `push`, or `sync`) knows what to send. Words are on their way while a turn is still
//! running, a second apart at most, so that a machine that dies in the middle of a long turn leaves most of it behind.
//!
//! It also holds the session's lease, which tells another machine who is writing. Nothing here can fail a turn: whoever wants to
//! know whether the words are there asks with [`Courier::wait`].

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use unforget_core::key::Key;
use unforget_core::medium::{Os, read_small};
use unforget_core::stamp::SharedSource;
use unforget_core::store::Store;
use unforget_remote::lease::{self, Acquired, Lease};
use unforget_remote::sync::{self, Link, Local as _, Native, Pointer};
use unforget_remote::{Error, Remote as _, Stream};

use crate::commands::remote::Place;
use crate::failure::{Failure, Result};

/// How far apart the sendings within a turn are at least.
const WITHIN_A_TURN: Duration = Duration::from_secs(1);
/// How long after a failure it is tried again, and how long at the most.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_LONGEST: Duration = Duration::from_secs(60);
/// After so many sendings, what was sent in pieces is put together there.
const COMPACT_EVERY: u64 = 32;
/// The longest name of a machine.
const MAX_NAME: u64 = 256;
/// How long a lease holds without a sign of life.
const LEASE: Duration = Duration::from_secs(120);

/// A session, as it is sent.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) local: Native,
    pub(super) stream: Stream,
    pub(super) key: Key,
    pub(super) created_ms: i64,
}

/// How it stands with what was to be sent.
#[derive(Debug, Clone, Default)]
struct State {
    /// Up to which number everything is there.
    there: u64,
    /// Why something is not, and its number.
    trouble: Option<(u64, String)>,
    /// Whether it is known who writes the session.
    is_claimed: bool,
}

/// Whether words are where they should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    There,
    /// Saved here only; why, if that is known.
    Waiting(Option<String>),
}

enum Order {
    /// Send what there is of a session; with a number, it is the end of what was expected under it.
    Carry(Arc<Parcel>, Option<u64>),
    /// Say that this machine is writing a session.
    Claim(Arc<Parcel>),
    End,
}

/// The thread that sends, and what is known of its work.
pub(super) struct Courier {
    place: Arc<Place>,
    source: SharedSource,
    orders: mpsc::UnboundedSender<Order>,
    state: watch::Receiver<State>,
    /// What is to be told.
    news: mpsc::UnboundedReceiver<String>,
    runtime: Handle,
    /// Held while marks are changed.
    expected: Arc<Mutex<Expected>>,
    thread: Option<JoinHandle<()>>,
}

/// What is to be sent.
#[derive(Debug, Default)]
struct Expected {
    /// The number of what was expected last.
    number: u64,
    /// How long the transcript was when it was expected, until something comes of it.
    len: Option<u64>,
}

impl Courier {
    /// Starts it; it begins with what earlier runs left behind.
    pub(super) fn start(place: Place, store: &Store) -> Result<Self> {
        let place = Arc::new(place);
        let (orders, received) = mpsc::unbounded_channel();
        let (told, state) = watch::channel(State::default());
        let (teller, news) = mpsc::unbounded_channel();
        let expected = Arc::new(Mutex::new(Expected::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let worker = Worker {
            place: place.clone(),
            store: store.clone(),
            state: told,
            news: teller,
            expected: expected.clone(),
            led: HashSet::new(),
            sent: 0,
            wanted: None,
            lease: None,
        };
        let work = move || runtime.block_on(worker.work(received));
        let thread = std::thread::Builder::new().name("courier".to_owned()).spawn(work)?;
        let source = store.source().clone();
        Ok(Self { place, source, orders, state, news, runtime: handle, expected, thread: Some(thread) })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Runs something that asks the remote. Its connections belong to the courier's thread, which has to be there meanwhile.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Says, durably, that something is about to be written that has to be sent.
    pub(super) fn expect(&self, parcel: &Parcel) -> Result<()> {
        let mut expected = lock(&self.expected);
        expected.number += 1;
        expected.len = Some(len(parcel));
        Ok(self.place.outbox.add(parcel.local.dir(), parcel.local.id(), self.source.now_ms())?)
    }

    /// Tells another machine that this one is writing.
    pub(super) fn claim(&self, parcel: &Arc<Parcel>) {
        self.order(Order::Claim(parcel.clone()));
    }

    /// Sends what there is of something that goes on.
    pub(super) fn hurry(&self, parcel: &Arc<Parcel>) {
        self.order(Order::Carry(parcel.clone(), None));
    }

    /// Sends what was expected, if anything was written.
    pub(super) fn carry(&self, parcel: &Arc<Parcel>) {
        let mut expected = lock(&self.expected);
        if expected.len.take() == Some(len(parcel)) {
            expected.number -= 1;
            if self.state.borrow().there >= expected.number
                && let Err(error) = self.place.outbox.remove(parcel.local.dir(), parcel.local.id())
            {
                tracing::debug!(%error, "a mark stays, and costs one comparison");
            }
            return;
        }
        self.order(Order::Carry(parcel.clone(), Some(expected.number)));
    }

    fn order(&self, order: Order) {
        // If the thread is gone, the mark in the outbox stays, and the next one sends it.
        drop(self.orders.send(order));
    }

    /// Waits until everything that was expected is there, or is known not to be; `None` waits as long as that takes.
    pub(super) async fn wait(&self, longest: Option<Duration>) -> Delivery {
        let number = lock(&self.expected).number;
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| {
            state.there >= number || state.trouble.as_ref().is_some_and(|(failed, _)| *failed >= number)
        });
        let decided = match longest {
            Some(longest) => tokio::time::timeout(longest, decided).await.ok(),
            None => Some(decided.await),
        };
        match decided {
            Some(Ok(state)) if state.there >= number => Delivery::There,
            Some(Ok(state)) => Delivery::Waiting(state.trouble.as_ref().map(|(_, why)| why.clone())),
            Some(Err(_)) => Delivery::Waiting(Some("what sends it has ended".to_owned())),
            None => Delivery::Waiting(self.state.borrow().trouble.as_ref().map(|(_, why)| why.clone())),
        }
    }

    /// Whether everything that was expected is there.
    pub(super) fn is_done(&self) -> bool {
        self.state.borrow().there >= lock(&self.expected).number
    }

    /// What is to be told next.
    pub(super) fn news(&mut self) -> Option<String> {
        self.news.try_recv().ok()
    }

    /// Waits until it is known who else writes the session, for a moment.
    pub(super) async fn wait_for_claim(&self, longest: Duration) {
        let mut state = self.state.clone();
        let told = state.wait_for(|state| state.is_claimed);
        // Without an answer there is nothing to tell yet.
        drop(tokio::time::timeout(longest, told).await);
    }

    /// Ends it, after it has sent what it can within a time.
    pub(super) fn finish(mut self, longest: Duration) -> Delivery {
        let delivery = self.block_on(self.wait(Some(longest)));
        self.order(Order::End);
        if let Some(thread) = self.thread.take() {
            // What it does not finish now, the next one does.
            let begin = std::time::Instant::now();
            while !thread.is_finished() && begin.elapsed() < longest {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        delivery
    }
}

/// What runs in the thread.
struct Worker {
    place: Arc<Place>,
    store: Store,
    state: watch::Sender<State>,
    news: mpsc::UnboundedSender<String>,
    expected: Arc<Mutex<Expected>>,
    /// Sessions that their keys lead to, for all that is known.
    led: HashSet<String>,
    sent: u64,
    /// The session whose lease is wanted, until it is held.
    wanted: Option<Arc<Parcel>>,
    lease: Option<Lease>,
}

/// A session and the number of what was expected of it last, if that is to be confirmed.
type Errand = (Arc<Parcel>, Option<u64>);

impl Worker {
    async fn work(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let (mut errand, mut is_left_behind): (Option<Errand>, bool) = (None, true);
        // When something is done next, when it was done last, and how long to wait if it fails.
        let (mut due, mut last, mut pause) = (Instant::now(), None, AGAIN);
        loop {
            let is_idle = errand.is_none() && !is_left_behind;
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                () = tokio::time::sleep_until(due), if !is_idle => {
                    let done = match &errand {
                        Some(errand) => self.deliver(errand).await,
                        None => self.send_what_was_left().await,
                    };
                    last = Some(Instant::now());
                    match done {
                        Err(error) if error.is_passing() => {
                            due = Instant::now() + pause;
                            pause = (pause * 2).min(AGAIN_LONGEST);
                            continue;
                        }
                        // What does not pass is the person's to decide; the mark in the outbox stays.
                        Ok(()) | Err(_) => {}
                    }
                    // What could not be sent before may go now, too.
                    is_left_behind = errand.take().is_some() && (is_left_behind || pause > AGAIN);
                    (due, pause) = (Instant::now(), AGAIN);
                    continue;
                }
            };
            match order {
                Some(Order::Carry(parcel, number)) => {
                    // The newest says it all. What is left of another session has its mark in the outbox.
                    let (same, other): (Option<Errand>, Option<Errand>) = match errand.take() {
                        Some(before) if before.0.local.id() == parcel.local.id() => (Some(before), None),
                        other => (None, other),
                    };
                    is_left_behind |= other.is_some();
                    let number = number.max(same.and_then(|(_, number)| number));
                    let soonest = last.map_or_else(Instant::now, |last| last + WITHIN_A_TURN);
                    due = if number.is_some() { Instant::now() } else { due.max(soonest) };
                    errand = Some((parcel, number));
                }
                Some(Order::Claim(parcel)) => {
                    self.release().await;
                    self.wanted = Some(parcel);
                    self.claim().await;
                    self.state.send_modify(|state| state.is_claimed = true);
                }
                Some(Order::End) | None => break,
            }
        }
        self.release().await;
    }

    /// Sends a session, and tells how it went.
    async fn deliver(&mut self, errand: &Errand) -> Result<(), Error> {
        let sent = self.send(errand).await;
        let (_, number) = errand;
        self.state.send_modify(|state| match (&sent, number) {
            (Ok(()), Some(number)) => {
                state.there = state.there.max(*number);
                if state.trouble.take().is_some() {
                    self.tell("everything is there again".to_owned());
                }
            }
            (Err(error), Some(number)) => state.trouble = Some((*number, explained(error, &errand.0))),
            // There is more to come, and another attempt.
            (_, None) => {}
        });
        sent
    }

    async fn send(&mut self, (parcel, number): &Errand) -> Result<(), Error> {
        let place = self.place.clone();
        let link = link(&place, parcel);
        let pushed = sync::push(&link, &mut |_| {}).await?;
        if self.led.insert(parcel.local.id().to_string()) {
            let to = Pointer { session: parcel.local.id().clone(), created_ms: parcel.created_ms };
            let led = sync::point(&place.remote, &place.tenant, &parcel.key, &to).await;
            if led.is_err() {
                self.led.remove(parcel.local.id().as_str());
            }
            led?;
        }
        if let Some(number) = number {
            let expected = lock(&self.expected);
            // Whoever is writing again needs the mark.
            if expected.number == *number && expected.len.is_none() {
                place.outbox.settle(&link, &pushed, self.store.source().now_ms())?;
            }
        }
        self.sent += 1;
        if self.sent.is_multiple_of(COMPACT_EVERY)
            && let Err(error) = place.remote.compact(&parcel.stream).await
        {
            tracing::debug!(stream = %parcel.stream, %error, "not put together");
        }
        self.claim().await;
        Ok(())
    }

    /// Sends what earlier runs and other sessions left behind.
    async fn send_what_was_left(&mut self) -> Result<(), Error> {
        let (place, store) = (self.place.clone(), self.store.clone());
        let find = |waiting: &sync::Waiting| {
            let stream = place.stream(&waiting.dir, &waiting.id).ok()?;
            Some((Box::new(Native::new(&store, &waiting.dir, &waiting.id)) as Box<dyn sync::Local>, stream))
        };
        let now_ms = store.source().now_ms();
        let flushed = sync::flush(&place.outbox, &place.remote, &place.bookmarks, &find, now_ms).await?;
        for (waiting, _) in &flushed.sent {
            place.lead(&store, &waiting.dir, &waiting.id).await?;
        }
        match flushed.failed.into_iter().find(|(_, error)| error.is_passing()) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes the lease that is wanted, or extends the one that is held. It is advice: without it everything goes on.
    async fn claim(&mut self) {
        let (place, now_ms) = (self.place.clone(), self.store.source().now_ms());
        let remote = &place.remote;
        if let Some(held) = &mut self.lease {
            match held.renew(remote, now_ms).await {
                Err(Error::Conflict { .. }) => {
                    self.lease = None;
                    self.tell("another machine has taken over the writing of this session".to_owned());
                }
                Err(error) => tracing::debug!(%error, "the lease was not extended"),
                Ok(()) => {}
            }
        }
        let Some(parcel) = self.wanted.clone() else { return };
        match lease::acquire(remote, &parcel.stream, &holder(), now_ms, LEASE).await {
            Ok(Acquired::Held(held)) => (self.lease, self.wanted) = (Some(held), None),
            Ok(Acquired::Taken { holder, until_ms }) => {
                self.wanted = None;
                let until = crate::screen::time(until_ms);
                self.tell(format!("{holder} may be writing this session, too (its lease ends {until})"));
            }
            Err(error) => tracing::debug!(%error, "the lease was not taken"),
        }
    }

    async fn release(&mut self) {
        self.wanted = None;
        if let Some(held) = self.lease.take()
            && let Err(error) = held.release(&self.place.remote).await
        {
            // It ends by itself.
            tracing::debug!(%error, "the lease was not given back");
        }
    }

    fn tell(&self, news: String) {
        // Nobody may be there any more to hear it.
        drop(self.news.send(news));
    }
}

/// What went wrong, and what the person can do about it.
fn explained(error: &Error, parcel: &Parcel) -> String {
    let key = &parcel.key;
    match error {
        Error::Diverged { .. } => {
            format!("{error}; `/quit`, then `unforget pull {key} --rebase` or `--fork` keeps the words of both")
        }
        Error::Deleted { .. } => format!("{error}; `/quit`, then `unforget push {key} --again` sends all of it anew"),
        _ => error.to_string(),
    }
}

fn link<'a>(place: &'a Place, parcel: &'a Parcel) -> Link<'a> {
    Link { local: &parcel.local, remote: &place.remote, stream: &parcel.stream, bookmarks: &place.bookmarks }
}

fn len(parcel: &Parcel) -> u64 {
    parcel.local.medium().stat(&parcel.local.path()).map_or(0, |stat| stat.len)
}

/// This machine and program, for others to read.
fn holder() -> String {
    let name = read_small(&Os::new("/etc"), Path::new("hostname"), MAX_NAME).ok();
    let name = name.and_then(|name| String::from_utf8(name).ok()).unwrap_or_default();
    let name = if name.trim().is_empty() { "a machine" } else { name.trim() };
    format!("{name}/{}", std::process::id())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a person is told of words that are not where they should be.
pub(super) fn not_yet(why: Option<&str>, address: &unforget_remote::Address) -> String {
    match why {
        Some(why) => format!("saved here, not yet there: {why}"),
        None => format!("saved here, not yet there ({address} has not answered yet)"),
    }
}

/// The error of a turn that had to be there and is not.
pub(super) fn not_acknowledged(why: Option<&str>, address: &unforget_remote::Address) -> Failure {
    Failure::new(not_yet(why, address))
        .hint("nothing is lost: the next turn, the next chat with this remote or `unforget push` sends it")
}
