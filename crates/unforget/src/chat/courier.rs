//! What carries a chat's words to a remote, beside the chat.
//!
//! A turn is safe when it is on this disk, and is sent from there: the courier works in a thread of its own and reads what was written. Before
//! anything is written the session is marked in the outbox, durably; the mark goes when the remote has confirmed the whole turn and its key leads to
//! the session. So whatever happens in between, the next chat (or `push`, or `sync`) knows what to send. Words are on their way while a turn is still
//! running, a second apart at most, so that a machine that dies in the middle of a long turn leaves most of it behind.
//!
//! It also holds the session's lease, which tells another machine who is writing. Nothing here can fail a turn: whoever wants to
//! know whether the words are there asks with [`Courier::wait`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use unforget_core::directory::Directory;
use unforget_core::key::Key;
use unforget_core::stamp::{SessionId, SharedSource};
use unforget_remote::Stream;
use unforget_remote::sync::{Local as _, Native};

use crate::commands::remote::Place;
use crate::failure::{Failure, Result};

mod worker;

use worker::{Order, Worker};

/// How long the end of the program waits for a thread that has not sent everything.
const FAREWELL: Duration = Duration::from_millis(500);

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
    /// Whether everything that was expected is there.
    pub(super) fn is_there(&self) -> bool {
        let standing = self.standing.borrow();
        standing.there >= standing.expected
    }

    fn len(&self) -> Option<u64> {
        self.local.medium().stat(&self.local.path()).ok().map(|stat| stat.len)
    }
}

impl Courier {
    /// Starts it. With the first order it also begins to send what earlier runs left behind.
    pub(super) fn start(place: Place, store: &Directory) -> Result<Self> {
        let place = Arc::new(place);
        let (orders, received) = mpsc::unbounded_channel();
        let (teller, news) = mpsc::unbounded_channel();
        let (claims, claimed) = watch::channel(false);
        let open = Arc::new(Mutex::new(None));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let worker = Worker::new(place.clone(), store.clone(), teller, claims, open.clone());
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
