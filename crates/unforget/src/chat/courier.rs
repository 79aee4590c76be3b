//! What carries a chat's words to a remote, beside the chat.
//!
//! A turn is safe when it is on this disk, and is sent from there: the courier works in a thread of its own and reads what was written. Before
//! anything is written the session is marked in the outbox, durably; the mark goes when the remote has confirmed the whole turn and its key leads to
//! the session. So whatever happens in between, the next chat (or `push`, or `sync`) knows what to send. Words are on their way while a turn is still
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
use unforget_core::stamp::{SessionId, SharedSource};
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
/// How long the end of the program waits for a thread that has not sent everything.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long a lease holds without a sign of life.
const LEASE: Duration = Duration::from_secs(120);

/// A session, as it is sent, and how it stands with it.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) local: Native,
    pub(super) stream: Stream,
    pub(super) key: Key,
    pub(super) created_ms: i64,
    pub(super) standing: watch::Sender<Standing>,
}

/// How it stands with a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    /// How often something was expected to be written.
    expected: u64,
    /// Up to which of these everything is there.
    there: u64,
    /// Why something is not, and up to which of these.
    trouble: Option<(u64, String)>,
}

/// Something that is about to be written, or is being written.
#[derive(Debug)]
struct Open {
    id: SessionId,
    /// How long the transcript was before, if that could be seen.
    len: Option<u64>,
    /// Whether the mark is there only for this.
    is_marked_for_it: bool,
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
    /// What is to be told.
    news: mpsc::UnboundedReceiver<String>,
    /// Whether it is known who else writes the session.
    claimed: watch::Receiver<bool>,
    runtime: Handle,
    /// Held while marks are changed.
    open: Arc<Mutex<Option<Open>>>,
    thread: Option<JoinHandle<()>>,
}

impl Parcel {
    fn is_there(&self) -> bool {
        let standing = self.standing.borrow();
        standing.there >= standing.expected
    }

    fn len(&self) -> Option<u64> {
        self.local.medium().stat(&self.local.path()).ok().map(|stat| stat.len)
    }
}

impl Courier {
    /// Starts it. With the first order it also begins to send what earlier runs left behind.
    pub(super) fn start(place: Place, store: &Store) -> Result<Self> {
        let place = Arc::new(place);
        let (orders, received) = mpsc::unbounded_channel();
        let (teller, news) = mpsc::unbounded_channel();
        let (claims, claimed) = watch::channel(false);
        let open = Arc::new(Mutex::new(None));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let worker = Worker {
            place: place.clone(),
            store: store.clone(),
            news: teller,
            claims,
            open: open.clone(),
            led: HashSet::new(),
            passed: HashSet::new(),
            sent: 0,
            wanted: None,
            lease: None,
        };
        let work = move || runtime.block_on(worker.work(received));
        let thread = std::thread::Builder::new().name("courier".to_owned()).spawn(work)?;
        let source = store.source().clone();
        Ok(Self { place, source, orders, news, claimed, runtime: handle, open, thread: Some(thread) })
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
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|open| open.id == *parcel.local.id()) {
            return Ok(());
        }
        let len = parcel.len();
        let is_marked_for_it = self.mark(parcel)?;
        *open = Some(Open { id: parcel.local.id().clone(), len, is_marked_for_it });
        parcel.standing.send_modify(|standing| standing.expected += 1);
        Ok(())
    }

    fn mark(&self, parcel: &Parcel) -> Result<bool> {
        Ok(self.place.outbox.add(parcel.local.dir(), parcel.local.id(), self.source.now_ms())?)
    }

    /// Sends what there is of something that goes on.
    pub(super) fn hurry(&self, parcel: &Arc<Parcel>) {
        self.order(Order::Carry(parcel.clone(), None));
    }

    /// Sends what was expected, if anything was written.
    pub(super) fn carry(&self, parcel: &Arc<Parcel>) {
        let mut open = lock(&self.open);
        let Some(before) = open.take() else { return };
        if before.len.is_some() && before.len == parcel.len() {
            parcel.standing.send_modify(|standing| standing.expected -= 1);
            if before.is_marked_for_it
                && let Err(error) = self.place.outbox.remove(parcel.local.dir(), parcel.local.id())
            {
                tracing::debug!(%error, "a mark stays, and costs one comparison");
            }
            return;
        }
        self.order(Order::Carry(parcel.clone(), Some(parcel.standing.borrow().expected)));
    }

    /// Takes up a session that has words in it already: they may not be there either. Also tells others who is writing.
    pub(super) fn take_up(&self, parcel: &Arc<Parcel>, has_words: bool) -> Result<()> {
        let mut open = lock(&self.open);
        *open = None;
        if has_words {
            self.mark(parcel)?;
            parcel.standing.send_modify(|standing| standing.expected += 1);
            self.order(Order::Carry(parcel.clone(), Some(parcel.standing.borrow().expected)));
        }
        self.order(Order::Claim(parcel.clone()));
        Ok(())
    }

    fn order(&self, order: Order) {
        // If the thread is gone, the mark in the outbox stays, and the next one sends it.
        drop(self.orders.send(order));
    }

    /// Waits until everything that was expected is there, or is known not to be; `None` waits as long as that takes.
    pub(super) async fn wait(&self, parcel: &Parcel, longest: Option<Duration>) -> Delivery {
        let mut standing = parcel.standing.subscribe();
        let decided = standing.wait_for(|now| {
            now.there >= now.expected || now.trouble.as_ref().is_some_and(|(failed, _)| *failed >= now.expected)
        });
        let decided = match longest {
            Some(longest) => tokio::time::timeout(longest, decided).await.is_ok(),
            None => decided.await.is_ok(),
        };
        let now = parcel.standing.borrow();
        match decided && now.there >= now.expected {
            true => Delivery::There,
            false => Delivery::Waiting(now.trouble.as_ref().map(|(_, why)| why.clone())),
        }
    }

    /// Whether everything that was expected of a session is there.
    pub(super) fn is_done(&self, parcel: &Parcel) -> bool {
        parcel.is_there()
    }

    /// How many sessions wait to be sent, as far as can be seen.
    pub(super) fn waiting(&self) -> usize {
        self.place.outbox.list().map_or(0, |waiting| waiting.len())
    }

    /// What is to be told next.
    pub(super) fn news(&mut self) -> Option<String> {
        self.news.try_recv().ok()
    }

    /// Waits until it is known who else writes the session, for a moment.
    pub(super) async fn wait_for_claim(&self, longest: Duration) {
        let mut claimed = self.claimed.clone();
        // Without an answer there is nothing to tell yet.
        drop(tokio::time::timeout(longest, claimed.wait_for(|claimed| *claimed)).await);
    }

    /// Ends it, after it has sent what it can within a time, or Ctrl-C.
    pub(super) fn finish(mut self, parcel: &Parcel, longest: Duration) -> Delivery {
        let delivery = self.block_on(async {
            tokio::select! {
                biased;
                delivery = self.wait(parcel, Some(longest)) => delivery,
                _ = tokio::signal::ctrl_c() => Delivery::Waiting(None),
            }
        });
        self.order(Order::End);
        if let Some(thread) = self.thread.take() {
            // What it does not finish now, the next one does.
            let begin = std::time::Instant::now();
            let patience = if delivery == Delivery::There { longest } else { FAREWELL };
            while !thread.is_finished() && begin.elapsed() < patience {
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
    news: mpsc::UnboundedSender<String>,
    claims: watch::Sender<bool>,
    open: Arc<Mutex<Option<Open>>>,
    /// Sessions that their keys lead to, for all that is known.
    led: HashSet<SessionId>,
    /// Sessions that were looked at while what was left behind is sent.
    passed: HashSet<SessionId>,
    sent: u64,
    /// The session whose lease is wanted, until it is held.
    wanted: Option<Arc<Parcel>>,
    lease: Option<Lease>,
}

/// A session and the number of what was expected of it last, if that is to be confirmed.
type Errand = (Arc<Parcel>, Option<u64>);

impl Worker {
    async fn work(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let (mut errand, mut is_left_behind): (Option<Errand>, bool) = (None, false);
        let mut is_first = true;
        // When something is done next, when it was done last, and how long to wait if it fails.
        let (mut due, mut last, mut pause) = (Instant::now(), None, AGAIN);
        loop {
            let is_idle = errand.is_none() && !is_left_behind;
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                () = tokio::time::sleep_until(due), if !is_idle => {
                    let done = match &errand {
                        Some(errand) => self.deliver(errand).await.map(|()| is_left_behind || pause > AGAIN),
                        None => self.send_one_left().await,
                    };
                    last = Some(Instant::now());
                    match done {
                        Err(error) if error.is_passing() => {
                            due = Instant::now() + pause;
                            pause = (pause * 2).min(AGAIN_LONGEST);
                            continue;
                        }
                        Ok(is_more) => is_left_behind = is_more,
                        // What does not pass is the person's to decide; the mark in the outbox stays.
                        Err(_) => {}
                    }
                    errand = None;
                    (due, pause) = (Instant::now(), AGAIN);
                    continue;
                }
            };
            // What earlier runs left behind is sent when the chat has its own session.
            is_left_behind |= std::mem::take(&mut is_first);
            match order {
                Some(Order::Carry(parcel, number)) => {
                    // The newest says it all. What is left of another session has its mark in the outbox.
                    let before = match errand.take() {
                        Some((other, number)) if Arc::ptr_eq(&other, &parcel) => number,
                        Some(_) => {
                            is_left_behind = true;
                            None
                        }
                        None => None,
                    };
                    due = match number {
                        Some(_) => Instant::now(),
                        None => due.max(last.map_or_else(Instant::now, |last| last + WITHIN_A_TURN)),
                    };
                    errand = Some((parcel, number.max(before)));
                }
                Some(Order::Claim(parcel)) => {
                    self.release().await;
                    self.wanted = Some(parcel);
                    self.claim().await;
                    self.claims.send_replace(true);
                }
                Some(Order::End) | None => break,
            }
        }
        // What was left behind goes out now, unless the remote is away; nobody waits for it for long.
        while is_left_behind && pause == AGAIN {
            is_left_behind = self.send_one_left().await.unwrap_or(false);
        }
        self.release().await;
    }

    /// Sends a session, and tells how it went.
    async fn deliver(&mut self, (parcel, number): &Errand) -> Result<(), Error> {
        if let Err(error) = self.send(parcel, *number).await {
            // Somebody else may have believed that all of it is there.
            self.place.outbox.add(parcel.local.dir(), parcel.local.id(), self.store.source().now_ms())?;
            // Without a number there is more to come, and another attempt.
            if let Some(number) = *number {
                let why = explained(&error, parcel);
                parcel.standing.send_modify(|standing| standing.trouble = Some((number, why)));
            }
            return Err(error);
        }
        if let Some(number) = *number {
            let mut had_trouble = false;
            parcel.standing.send_modify(|standing| {
                standing.there = standing.there.max(number);
                had_trouble = standing.trouble.take().is_some();
            });
            if had_trouble {
                self.tell("this conversation is there again, all of it".to_owned());
            }
        }
        self.sent += 1;
        if self.sent.is_multiple_of(COMPACT_EVERY)
            && let Err(error) = self.place.remote.compact(&parcel.stream).await
        {
            tracing::debug!(stream = %parcel.stream, %error, "not put together");
        }
        self.claim().await;
        Ok(())
    }

    async fn send(&mut self, parcel: &Parcel, number: Option<u64>) -> Result<(), Error> {
        let (place, id) = (self.place.clone(), parcel.local.id());
        let link = link(&place, &parcel.local, &parcel.stream);
        let pushed = sync::push(&link, &mut |_| {}).await?;
        if !self.led.contains(id) {
            let to = Pointer { session: id.clone(), created_ms: parcel.created_ms };
            sync::point(&place.remote, &place.tenant, &parcel.key, &to).await?;
            self.led.insert(id.clone());
        }
        let open = lock(&self.open);
        // Whoever is writing again needs the mark.
        let is_open = open.as_ref().is_some_and(|open| open.id == *id);
        if number == Some(parcel.standing.borrow().expected) && !is_open {
            place.outbox.settle(&link, &pushed, self.store.source().now_ms())?;
        }
        Ok(())
    }

    /// Sends one of the sessions that earlier runs and other sessions left behind; `false` if there is no more.
    async fn send_one_left(&mut self) -> Result<bool, Error> {
        let (place, store) = (self.place.clone(), self.store.clone());
        let Some(waiting) = place.outbox.list()?.into_iter().find(|waiting| !self.passed.contains(&waiting.id)) else {
            self.passed.clear();
            return Ok(false);
        };
        let local = Native::new(&store, &waiting.dir, &waiting.id);
        let Ok(stat) = store.medium().stat(&local.path()) else {
            self.passed.insert(waiting.id.clone());
            // One in the trash, or gone: there is nothing to send.
            place.outbox.remove(&waiting.dir, &waiting.id)?;
            return Ok(true);
        };
        // Whoever writes it takes care of it.
        let is_in_use = || store.medium().lock_holders().is_some_and(|holders| holders.contains_key(&stat.identity));
        if is_in_use() {
            self.passed.insert(waiting.id.clone());
            return Ok(true);
        }
        let stream = place.stream(&waiting.dir, &waiting.id)?;
        let link = link(&place, &local, &stream);
        let sent = async {
            let pushed = sync::push(&link, &mut |_| {}).await?;
            place.lead(&store, &waiting.dir, &waiting.id).await?;
            match is_in_use() {
                true => Ok(()),
                false => place.outbox.settle(&link, &pushed, store.source().now_ms()),
            }
        };
        let sent = sent.await;
        self.passed.insert(waiting.id.clone());
        match sent {
            Err(error) if error.is_passing() => {
                self.passed.remove(&waiting.id);
                Err(error)
            }
            Err(error) => {
                self.tell(format!("the session {} is not there: {error}", waiting.id));
                Ok(true)
            }
            Ok(()) => Ok(true),
        }
    }

    /// Takes the lease that is wanted, or extends the one that is held. It is advice: without it everything goes on.
    async fn claim(&mut self) {
        let (place, now_ms) = (self.place.clone(), self.store.source().now_ms());
        if let Some(held) = &mut self.lease {
            match held.renew(&place.remote, now_ms).await {
                Err(Error::Conflict { .. }) => {
                    self.lease = None;
                    self.tell("another machine has taken over the writing of this session".to_owned());
                }
                Err(error) => tracing::debug!(%error, "the lease was not extended"),
                Ok(()) => {}
            }
        }
        let Some(parcel) = self.wanted.clone() else { return };
        match lease::acquire(&place.remote, &parcel.stream, &holder(), now_ms, LEASE).await {
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

fn link<'a>(place: &'a Place, local: &'a Native, stream: &'a Stream) -> Link<'a> {
    Link { local, remote: &place.remote, stream, bookmarks: &place.bookmarks }
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
