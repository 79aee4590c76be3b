//! What carries sessions of Claude Code to a remote, beside what saves them.
//!
//! A session is marked in the outbox before it is sent, and the mark goes when the remote has confirmed all of it: whatever happens in between,
//! `push` or the next run knows what to send. If it went on elsewhere meanwhile, the lines of both are kept, theirs first: lines of Claude Code
//! name their parents, so both are branches of one tree.
//!
//! In a thread of its own, so that a remote that does not answer keeps nobody from saving. It also holds the session's lease, which tells
//! another machine who is writing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use unforget_claude::keep::agent;
use unforget_core::directory::Directory;
use unforget_core::frontier::Frontier;
use unforget_core::key::Key;
use unforget_core::reader::LogReader;
use unforget_core::scan::Scanner;
use unforget_core::stamp::SessionId;
use unforget_core::summary::claude_key;
use unforget_remote::Error;
use unforget_remote::lease::{self, Acquired, Lease};
use unforget_remote::sync::{self, Native, Outbox};
use unforget_remote::uplink::{self, Divergence, Lead, PushRules};

use crate::commands::remote::Place;
use crate::machine;

/// How long a lease lasts that is not renewed.
const LEASE: Duration = Duration::from_secs(120);
/// How long a remote that did not answer before is tried at the end.
const BRIEFLY: Duration = Duration::from_secs(10);
/// How often a lease is looked after.
const CARE: Duration = Duration::from_secs(10);
/// How long lies between two attempts: the first and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How many lines are looked at for the folder of a session.
const ABOUT_LINES: u64 = 1000;

/// Sends sessions, one after the other; tells which could not be sent, and why.
pub(super) async fn send_all(
    store: &Directory,
    place: &Place,
    ids: &[SessionId],
) -> crate::failure::Result<Vec<(SessionId, Error)>> {
    let mut failed = Vec::new();
    for id in ids {
        if store.medium().stat(&agent().transcript(id)).is_err() {
            continue;
        }
        if let Err(error) = send(store, place, id).await {
            let is_passing = error.is_passing();
            failed.push((id.clone(), error));
            if is_passing {
                // It does not answer: the others are marked, and wait with it.
                let now_ms = store.source().now_ms();
                ids.iter().try_for_each(|id| place.outbox.add(&agent(), id, now_ms).map(drop))?;
                break;
            }
        }
    }
    Ok(failed)
}

/// Sends what is new of a session, and leads its folder's key to it: it is the one that was used last there.
pub(super) async fn send(store: &Directory, place: &Place, id: &SessionId) -> Result<Sent, Error> {
    let dir = agent();
    let (local, stream) = (Native::new(store, &dir, id), place.stream(&dir, id)?);
    let lead = key_of(store, id)?.map_or(Lead::Nowhere, Lead::LastUsed);
    let rules = PushRules { divergence: Divergence::Append, lead, is_proved: true, ..PushRules::default() };
    let uplink::Sent { pushed, rebased } = place.uplink().push(&local, &stream, &rules, &mut |_| {}).await?;
    for missing in &pushed.missing {
        tracing::warn!(session = %id, missing, "not there");
    }
    Ok(Sent { lines: pushed.lines, at: pushed.at, is_merged: rebased.is_some() })
}

/// What was sent of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) lines: u64,
    /// Where the remote's copy ends.
    at: Frontier,
    /// Whether it had gone on elsewhere.
    pub(super) is_merged: bool,
}

/// The key of the folder that a session works in.
fn key_of(store: &Directory, id: &SessionId) -> Result<Option<Key>, Error> {
    let reader = LogReader::open(store.medium().as_ref(), &agent().transcript(id))?;
    let (mut scanner, mut folder) = (Scanner::default(), None);
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| {
            let cwd = record.foreign.as_deref().and_then(|foreign| foreign.cwd.as_deref().map(str::to_owned));
            folder = folder.take().or(cwd);
        });
        if folder.is_some() || scanner.next_number() > ABOUT_LINES {
            break;
        }
    }
    Ok(folder.as_deref().and_then(claude_key).and_then(|key| key.parse().ok()))
}

/// Whether someone else is writing a session.
pub(super) async fn claim(store: &Directory, place: &Place, id: &SessionId) -> Result<Acquired, Error> {
    let stream = place.stream(&agent(), id)?;
    let now_ms = store.source().now_ms();
    let acquired = lease::acquire(&place.remote, &stream, &machine::holder(), now_ms, LEASE).await?;
    match acquired {
        // As if its time were over.
        Acquired::Taken { holder, until_ms } if machine::is_dead(&holder) => {
            lease::acquire(&place.remote, &stream, &machine::holder(), until_ms + 1, LEASE).await
        }
        other => Ok(other),
    }
}

/// What became of what was to be carried.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Lines that were sent.
    pub(super) lines: u64,
    /// Sessions that had gone on elsewhere.
    pub(super) merged: BTreeSet<SessionId>,
    /// Sessions that are not there yet, and why.
    pub(super) waiting: BTreeMap<SessionId, String>,
    /// Whether it is not known what became of the rest.
    pub(super) is_late: bool,
}

impl Report {
    /// Why a session is not there; none if it is.
    pub(super) fn lacks(&self, id: &SessionId) -> Option<&str> {
        let late = self.is_late.then_some("there was no answer in time");
        self.waiting.get(id).map(String::as_str).or(late)
    }
}

/// The thread that carries.
pub(super) struct Carrier {
    orders: Orders,
    /// By when all is over, for whoever is in the middle of something.
    deadline: watch::Sender<Option<Instant>>,
    reports: mpsc::Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

/// Says what is to be carried.
#[derive(Clone)]
pub(super) struct Orders {
    sender: tokio::sync::mpsc::UnboundedSender<Order>,
    outbox: Outbox,
    store: Directory,
}

impl Orders {
    /// Has a session sent. It is marked here and now: the carrier may be busy, and everything may end before it gets to it.
    pub(super) fn send(&self, id: SessionId) {
        if let Err(error) = self.outbox.add(&agent(), &id, self.store.source().now_ms()) {
            tracing::warn!(%id, %error, "what has to be sent is not marked");
        }
        // Without a carrier its mark is still there.
        drop(self.sender.send(Order::Send(id)));
    }

    /// Has the rest of a session fetched.
    pub(super) fn fetch(&self, id: SessionId) {
        drop(self.sender.send(Order::Fetch(id)));
    }
}

enum Order {
    /// A session has something new.
    Send(SessionId),
    /// The rest of a session has to be fetched before anything of it is sent.
    Fetch(SessionId),
    /// What is left, until then.
    End(Instant),
}

impl Carrier {
    /// Begins; `told` hears of what a person should know.
    pub(super) fn begin(
        store: &Directory,
        place: Place,
        lease: Option<Lease>,
        told: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, mut incoming) = tokio::sync::mpsc::unbounded_channel();
        let (deadline, mut ending) = watch::channel(None);
        let (report, reports) = mpsc::channel();
        let orders = Orders { sender, outbox: place.outbox.clone(), store: store.clone() };
        let store = store.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("carrier".to_owned()).spawn(move || {
            let work =
                Work { store, place, lease, told: Box::new(told), report: Report::default(), ends: BTreeMap::new() };
            let done = runtime.block_on(work.go(&mut incoming, &mut ending));
            // Without a receiver nobody wants to know any more.
            drop(report.send(done));
        })?;
        Ok(Self { orders, deadline, reports, thread: Some(thread) })
    }

    /// Who takes orders.
    pub(super) fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Sends what is left, for no longer than that, and gives the lease back.
    pub(super) fn end(mut self, within: Duration) -> Report {
        let deadline = Instant::now() + within;
        self.deadline.send_replace(Some(deadline));
        drop(self.orders.sender.send(Order::End(deadline)));
        // A connection that hangs is left to the system. Who does not report has not done it.
        let report = self.reports.recv_timeout(within + Duration::from_millis(500));
        let report = report.unwrap_or_else(|_| Report { is_late: true, ..Report::default() });
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished)
            && thread.join().is_err()
        {
            tracing::warn!("the carrier ended badly; what waits is marked");
        }
        report
    }
}

struct Work {
    store: Directory,
    place: Place,
    lease: Option<Lease>,
    told: Box<dyn Fn(String) + Send>,
    report: Report,
    /// Where the copies end that were added to: what heads are left of.
    ends: BTreeMap<SessionId, Frontier>,
}

impl Work {
    async fn go(
        mut self,
        orders: &mut tokio::sync::mpsc::UnboundedReceiver<Order>,
        ending: &mut watch::Receiver<Option<Instant>>,
    ) -> Report {
        let (mut wanted, mut fetch): (BTreeSet<SessionId>, BTreeSet<SessionId>) = Default::default();
        let (mut next, mut pause) = (Instant::now(), PAUSES.0);
        let mut care = Instant::now() + CARE;
        let end = loop {
            let has_work = !wanted.is_empty() || !fetch.is_empty();
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Send(id)) => drop(wanted.insert(id)),
                    Some(Order::Fetch(id)) => drop(fetch.insert(id)),
                    Some(Order::End(deadline)) => break deadline,
                    None => break Instant::now(),
                },
                () = tokio::time::sleep_until(next), if has_work => {
                    let went = tokio::select! {
                        went = self.carry(&mut wanted, &mut fetch) => went,
                        () = over(ending) => false,
                    };
                    pause = if went { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
                    next = Instant::now() + pause;
                }
                () = tokio::time::sleep_until(care) => {
                    self.renew().await;
                    care = Instant::now() + CARE;
                }
            }
        };
        // One that did not answer before is not waited for as long as one that did.
        let end = if self.report.waiting.is_empty() { end } else { end.min(Instant::now() + BRIEFLY) };
        let rest = async {
            while (!wanted.is_empty() || !fetch.is_empty()) && !self.carry(&mut wanted, &mut fetch).await {
                tokio::time::sleep(PAUSES.0).await;
            }
            for (id, end) in std::mem::take(&mut self.ends) {
                match self.place.stream(&agent(), &id) {
                    Ok(stream) => sync::head::leave_or_log(&self.place.remote, &stream, &end).await,
                    Err(error) => tracing::debug!(%id, %error, "no head was left"),
                }
            }
            if let Some(lease) = self.lease.take()
                && let Err(error) = lease.release(&self.place.remote).await
            {
                tracing::debug!(%error, "the lease was not given back");
            }
        };
        // What is left is not there, for whatever reason.
        drop(tokio::time::timeout_at(end, rest).await);
        for id in wanted.iter().chain(&fetch) {
            let entry = self.report.waiting.entry(id.clone());
            entry.or_insert_with(|| "there was no time left".to_owned());
        }
        self.report
    }

    /// Carries what there is to carry; `false` if some of it has to be tried again. Whoever failed before comes last, so that one session that
    /// cannot be carried keeps no other from it.
    async fn carry(&mut self, wanted: &mut BTreeSet<SessionId>, fetch: &mut BTreeSet<SessionId>) -> bool {
        for id in self.in_turn(fetch) {
            match super::fetch::pull(&self.store, &self.place, &id).await {
                Ok(_) => drop(fetch.remove(&id)),
                Err(error) if self.is_over_for_now(&id, &error) => return false,
                Err(_) => drop(fetch.remove(&id)),
            }
        }
        for id in self.in_turn(wanted) {
            match send(&self.store, &self.place, &id).await {
                Ok(sent) => {
                    wanted.remove(&id);
                    self.report.lines += sent.lines;
                    if sent.lines > 0 {
                        self.ends.insert(id.clone(), sent.at);
                    }
                    if sent.is_merged && self.report.merged.insert(id.clone()) {
                        (self.told)(format!(
                            "session {id} went on elsewhere meanwhile; the lines of both are kept, as branches (`unforget tree {id}`)"
                        ));
                    }
                    if self.report.waiting.remove(&id).is_some() {
                        (self.told)(format!("session {id} is there again, all of it"));
                    }
                }
                Err(error) if self.is_over_for_now(&id, &error) => return false,
                Err(_) => drop(wanted.remove(&id)),
            }
        }
        true
    }

    fn in_turn(&self, ids: &BTreeSet<SessionId>) -> Vec<SessionId> {
        let (last, first): (Vec<_>, Vec<_>) = ids.iter().cloned().partition(|id| self.report.waiting.contains_key(id));
        first.into_iter().chain(last).collect()
    }

    /// Remembers why a session is not there, and says whether to wait: one that will not get there by waiting is not tried again.
    fn is_over_for_now(&mut self, id: &SessionId, error: &Error) -> bool {
        let is_new = self.report.waiting.insert(id.clone(), error.to_string()).is_none();
        if is_new {
            (self.told)(format!("session {id} is kept here, not yet at {}: {error}", self.place.address));
        }
        error.is_passing() || matches!(error, Error::Local(unforget_core::Error::Busy { .. }))
    }

    async fn renew(&mut self) {
        let now_ms = self.store.source().now_ms();
        if let Some(lease) = &mut self.lease {
            match lease.renew(&self.place.remote, now_ms).await {
                Err(Error::Conflict { .. }) => {
                    self.lease = None;
                    (self.told)(
                        "another machine has taken over this session; the lines of both will be kept".to_owned(),
                    );
                }
                Err(error) => tracing::debug!(%error, "the lease was not extended"),
                Ok(()) => {}
            }
        }
    }
}

/// Waits until everything has to be over.
async fn over(ending: &mut watch::Receiver<Option<Instant>>) {
    let deadline = ending.wait_for(Option::is_some).await.map(|deadline| *deadline);
    match deadline {
        Ok(Some(deadline)) => tokio::time::sleep_until(deadline).await,
        _ => std::future::pending().await,
    }
}
