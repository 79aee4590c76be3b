//! Machines: a home on a disk that can crash, and a way to a remote that can fail.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use unforget_core::directory::{Directory, Entry};
use unforget_core::frontier::Frontier;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::log::Durability;
use unforget_core::record::Draft;
use unforget_core::stamp::{SessionId, Source};
use unforget_remote::sync::{Bookmarks, Native, Outbox, Pushed};
use unforget_remote::uplink::{PushRules, Uplink};
use unforget_remote::{BoxFuture, Error, Listing, Page, Prefix, Remote, Result, Stream};
use unforget_testkit::crash::CrashMedium;

pub(crate) const TENANT: &str = "tenant";
pub(crate) const NOW: i64 = 1_767_225_600_000;

/// A clock that ticks, and ids that tell the machine.
#[derive(Debug)]
struct Ticking {
    machine: u64,
    ticks: AtomicU64,
}

impl Source for Ticking {
    fn now_ms(&self) -> i64 {
        NOW + i64::try_from(self.ticks.fetch_add(1000, Ordering::Relaxed)).unwrap()
    }

    fn new_id(&self, _: i64) -> SessionId {
        let count = self.ticks.fetch_add(1, Ordering::Relaxed);
        SessionId::parse(&format!("019b76da-a800-7000-8000-{:04}{count:08}", self.machine)).unwrap()
    }
}

/// A clock that stands, for what is not about time.
struct Still;

impl Source for Still {
    fn now_ms(&self) -> i64 {
        NOW
    }

    fn new_id(&self, now_ms: i64) -> SessionId {
        Ticking { machine: 0, ticks: AtomicU64::new(0) }.new_id(now_ms)
    }
}

/// A machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) number: u64,
    pub(crate) medium: CrashMedium,
    pub(crate) store: Directory,
    pub(crate) bookmarks: Bookmarks,
    pub(crate) outbox: Outbox,
}

impl Machine {
    pub(crate) fn new(number: u64) -> Self {
        Self::on(number, CrashMedium::new(), 0)
    }

    /// A machine on a disk; its clock is at `ticks` milliseconds.
    pub(crate) fn on(number: u64, medium: CrashMedium, ticks: u64) -> Self {
        let source = Arc::new(Ticking { machine: number, ticks: AtomicU64::new(ticks) });
        let store = Directory::new(Arc::new(medium.clone()), source, Durability::PowerLoss);
        let bookmarks = Bookmarks::new(Arc::new(medium.clone()), "there");
        let outbox = Outbox::new(Arc::new(medium.clone()), "there");
        Self { number, medium, store, bookmarks, outbox }
    }

    /// Begins a session with some words.
    pub(crate) fn begin(&self, words: &[&str]) -> SessionId {
        let mut session = self.store.create(&Key::default(), None).unwrap();
        for word in words {
            session.append(&[Draft::user(word)]).unwrap();
        }
        session.id().clone()
    }

    /// Says something in a session; an error says that nothing was said.
    pub(crate) fn say(&self, id: &SessionId, word: &str) -> unforget_core::Result<()> {
        let mut session = self.store.open(&self.entry(id)?)?;
        session.append(&[Draft::user(word)]).map(drop)
    }

    fn entry(&self, id: &SessionId) -> unforget_core::Result<Entry> {
        let found = self.store.list()?.entries.into_iter().find(|entry| entry.row.id == id.as_str());
        found.ok_or_else(|| unforget_core::Error::NotFound { what: "session", name: id.to_string() })
    }

    /// Sends a session as every front end does.
    pub(crate) async fn send(&self, remote: &dyn Remote, id: &SessionId, rules: &PushRules<'_>) -> Result<Pushed> {
        let Self { bookmarks, outbox, .. } = self;
        let uplink = Uplink { remote, tenant: TENANT, bookmarks, outbox, clock: &Still };
        Ok(uplink.push(&self.native(id), &stream(id), rules, &mut |_| {}).await?.pushed)
    }

    pub(crate) fn native(&self, id: &SessionId) -> Native {
        Native::new(&self.store, &dir(), id)
    }

    pub(crate) fn path(&self, id: &SessionId) -> PathBuf {
        dir().transcript(id)
    }

    /// The transcript as it is.
    pub(crate) fn bytes(&self, id: &SessionId) -> Option<Vec<u8>> {
        self.medium.read(self.path(id))
    }

    pub(crate) fn text(&self, id: &SessionId) -> String {
        String::from_utf8(self.bytes(id).unwrap_or_default()).unwrap()
    }
}

pub(crate) fn dir() -> AgentDir {
    AgentDir::of("main")
}

pub(crate) fn stream(id: &SessionId) -> Stream {
    Stream::new(TENANT, "main", id.as_str()).unwrap()
}

/// Calls something with a link between a machine and a remote.
macro_rules! linked {
    ($machine:expr, $remote:expr, $id:expr, |$link:ident| $call:expr) => {{
        let (native, stream) = ($machine.native($id), $crate::machine::stream($id));
        let bookmarks = $machine.bookmarks.clone();
        let $link =
            unforget_remote::sync::Link { local: &native, remote: $remote, stream: &stream, bookmarks: &bookmarks };
        $call
    }};
}
pub(crate) use linked;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Weather {
    /// It is made, and its answer comes.
    #[default]
    Fair,
    /// It is not made.
    Down,
    /// It is made, and its answer is lost.
    Mute,
    /// What is read comes back changed.
    Altered,
}

/// A way to a remote that can fail, and that remembers what was asked.
#[derive(Debug)]
pub(crate) struct Way<R> {
    inner: R,
    pub(crate) weather: Mutex<Weather>,
    pub(crate) calls: Mutex<Vec<String>>,
}

impl<R: Remote> Way<R> {
    pub(crate) fn to(inner: R) -> Self {
        Self { inner, weather: Mutex::default(), calls: Mutex::default() }
    }

    pub(crate) fn set(&self, weather: Weather) {
        *self.weather.lock().unwrap() = weather;
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    async fn call<T>(&self, what: String, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.calls.lock().unwrap().push(what);
        let weather = *self.weather.lock().unwrap();
        let lost = || Error::Unavailable { place: "the way".to_owned(), reason: format!("{weather:?}"), wait: None };
        match weather {
            Weather::Fair | Weather::Altered => call.await,
            Weather::Down => Err(lost()),
            Weather::Mute => call.await.and_then(|_| Err(lost())),
        }
    }
}

impl<R: Remote> Remote for Way<R> {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(self.call(format!("frontier {}", stream.side()), self.inner.frontier(stream)))
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        let what = format!("append {} {}", stream.side(), lines.len());
        Box::pin(self.call(what, self.inner.append(stream, after, lines)))
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            let mut page = self.call(format!("read {} {from}", stream.side()), self.inner.read(stream, from)).await?;
            if *self.weather.lock().unwrap() == Weather::Altered {
                for line in &mut page.lines {
                    *line = Bytes::from(String::from_utf8_lossy(line).replace("good", "evil"));
                }
            }
            Ok(page)
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        Box::pin(self.call("list".to_owned(), self.inner.list(prefix, cursor)))
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.call("delete".to_owned(), self.inner.delete(stream)))
    }
}

/// Everything that a remote has of a session.
pub(crate) async fn there(remote: &dyn Remote, id: &SessionId) -> String {
    let lines = unforget_remote::conformance::read_all(remote, &stream(id), 0).await;
    lines.iter().map(|line| format!("{}\n", String::from_utf8_lossy(line))).collect()
}

/// For those who do not watch.
pub(crate) fn unwatched() -> impl FnMut(unforget_remote::sync::Progress) + Send {
    |_| {}
}
