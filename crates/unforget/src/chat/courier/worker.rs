//! The courier's thread: one thing at a time, the session of the chat first, then what others left behind.
//!
//! A mark is taken out of the outbox only when the remote has all lines, the key leads to the session, and nobody is writing to it.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use unforget_core::directory::Directory;
use unforget_core::frontier::Frontier;
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId;
use unforget_core::summary;
use unforget_remote::lease::{self, Acquired, Lease};
use unforget_remote::sync::{self, Local as _, Native};
use unforget_remote::uplink::{Lead, PushRules};
use unforget_remote::{Error, Remote as _, Stream};

use super::{Open, Parcel, lock};
use crate::commands::remote::{Place, lead_of};
use crate::machine;

/// How far apart the sendings within a turn are at least.
const WITHIN_A_TURN: Duration = Duration::from_secs(1);
/// How long after a failure it is tried again, and how long at the most.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_LONGEST: Duration = Duration::from_secs(60);
/// After so many sendings, what was sent in pieces is put together there.
const COMPACT_EVERY: u64 = 32;
/// How long a lease holds without a sign of life.
const LEASE: Duration = Duration::from_secs(120);

/// What the thread is told to do.
pub(super) enum Order {
    /// Send what there is of a session; with a number, it is the end of what was expected under it.
    Carry(Arc<Parcel>, Option<u64>),
    /// Say that this machine is writing a session.
    Claim(Arc<Parcel>),
    End,
}

/// What runs in the thread.
pub(super) struct Worker {
    place: Arc<Place>,
    store: Directory,
    news: mpsc::UnboundedSender<String>,
    claims: watch::Sender<bool>,
    open: Arc<Mutex<Option<Open>>>,
    /// Sessions that their keys lead to, for all that is known.
    led: HashSet<SessionId>,
    /// Sessions that were looked at while what was left behind is sent.
    passed: HashSet<SessionId>,
    sent: u64,
    /// The stream that was added to last, and where it ends: what a head is left of.
    end: Option<(Stream, Frontier)>,
    /// The session whose lease is wanted, until it is held.
    wanted: Option<Arc<Parcel>>,
    lease: Option<Lease>,
    /// Who was told to write the session, too.
    warned: Option<String>,
}

/// A session and the number of what was expected of it last, if that is to be confirmed.
type Errand = (Arc<Parcel>, Option<u64>);

impl Worker {
    pub(super) fn new(
        place: Arc<Place>,
        store: Directory,
        news: mpsc::UnboundedSender<String>,
        claims: watch::Sender<bool>,
        open: Arc<Mutex<Option<Open>>>,
    ) -> Self {
        let (led, passed) = (HashSet::new(), HashSet::new());
        Self {
            place,
            store,
            news,
            claims,
            open,
            led,
            passed,
            sent: 0,
            end: None,
            wanted: None,
            lease: None,
            warned: None,
        }
    }

    /// Works until it is told to end.
    pub(super) async fn work(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
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
                        Err(_) => is_left_behind &= errand.is_some(),
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
        self.leave_head().await;
        self.release().await;
    }

    /// Tells machines that never saw it how far the stream is that was added to last.
    async fn leave_head(&mut self) {
        if let Some((stream, end)) = self.end.take() {
            sync::head::leave_or_log(&self.place.remote, &stream, &end).await;
        }
    }

    /// Sends a session, and tells how it went.
    async fn deliver(&mut self, (parcel, number): &Errand) -> Result<(), Error> {
        if let Err(error) = self.send(parcel, *number).await {
            // Somebody else may have believed that all of it is there.
            let now_ms = self.store.source().now_ms();
            if let Err(error) = self.place.outbox.add(parcel.local.dir(), parcel.local.id(), now_ms) {
                self.tell(format!("that this waits to be sent cannot be written down: {error}"));
            }
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
        let lead = match self.led.contains(id) {
            true => Lead::Nowhere,
            false => Lead::Created { key: parcel.key.clone(), created_ms: parcel.created_ms },
        };
        // Keep the mark while another write has begun, or more is expected than this sends.
        let is_open = || {
            let is_written = lock(&self.open).as_ref().is_some_and(|open| open.id == *id);
            is_written || number != Some(parcel.standing.borrow().expected)
        };
        let rules = PushRules { lead, is_open: &is_open, ..PushRules::default() };
        let pushed = place.uplink().push(&parcel.local, &parcel.stream, &rules, &mut |_| {}).await?.pushed;
        self.led.insert(id.clone());
        if pushed.lines > 0 {
            if self.end.as_ref().is_some_and(|(stream, _)| *stream != parcel.stream) {
                self.leave_head().await;
            }
            self.end = Some((parcel.stream.clone(), pushed.at));
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
        let stat = match store.medium().stat(&local.path()) {
            Ok(stat) => stat,
            Err(error) => {
                self.passed.insert(waiting.id.clone());
                // One in the trash, or gone: there is nothing to send. One that could not be looked at is another matter.
                if error.kind() == ErrorKind::NotFound {
                    place.outbox.remove(&waiting.dir, &waiting.id)?;
                }
                return Ok(true);
            }
        };
        // Whoever writes it takes care of it.
        let is_in_use = || store.medium().lock_holders().is_some_and(|holders| holders.contains_key(&stat.identity));
        if is_in_use() {
            self.passed.insert(waiting.id.clone());
            return Ok(true);
        }
        let sent = self.send_left(&local, &is_in_use).await;
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

    async fn send_left(&self, local: &Native, is_in_use: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        let (dir, id) = (local.dir(), local.id());
        let reader = LogReader::open(local.medium().as_ref(), &local.path())?;
        let (row, _) = summary::summarise(&reader, id.as_str())?;
        let rules = PushRules { lead: lead_of(&row), is_open: is_in_use, ..PushRules::default() };
        let stream = self.place.stream(dir, id)?;
        self.place.uplink().push(local, &stream, &rules, &mut |_| {}).await.map(drop)
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
        let mut acquired = lease::acquire(&place.remote, &parcel.stream, &machine::holder(), now_ms, LEASE).await;
        if let Ok(Acquired::Taken { holder, until_ms }) = &acquired
            && machine::is_dead(holder)
        {
            // As if its time were over.
            acquired = lease::acquire(&place.remote, &parcel.stream, &machine::holder(), until_ms + 1, LEASE).await;
        }
        match acquired {
            Ok(Acquired::Held(held)) => (self.lease, self.wanted) = (Some(held), None),
            // It is tried again with the next words, and told once.
            Ok(Acquired::Taken { holder, until_ms }) => {
                if self.warned.as_ref() != Some(&holder) {
                    let until = crate::screen::time(until_ms);
                    self.tell(format!("{holder} may be writing this session, too (its lease ends {until})"));
                    self.warned = Some(holder);
                }
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
            format!(
                "{error}; `unforget pull {key} --rebase` (or `--fork`) with the same remote, outside of the chat, keeps the words of both"
            )
        }
        Error::Deleted { .. } => {
            format!("{error}; `unforget push {key} --again` with the same remote sends all of it anew")
        }
        _ => error.to_string(),
    }
}
