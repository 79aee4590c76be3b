//! What a remote may not have yet: a set of names.
//!
//! The words are in the transcripts; the outbox only says which of them to look at, so that a
//! restart does not have to compare all sessions. A mark is durable before the first attempt and
//! removed when the remote has confirmed everything that is here. The removal is not synced: a mark
//! that comes back costs one comparison. [`flush`] sends what waits, the oldest first, several
//! sessions at a time, and goes on past one that fails.
//!
//! It guards against the silence after a failed save: what is not there yet is known, counted and
//! told.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use unforget_core::json;
use unforget_core::layout::{self, AgentDir};
use unforget_core::medium::{FileKind, Medium, TEMPORARY, parent, publish_durable, read_small};
use unforget_core::stamp::{self, SessionId};

use crate::error::{Error, Result};
use crate::remote::Remote;
use crate::stream::Stream;
use crate::sync::bookmark::Bookmark;
use crate::sync::part::failed;
use crate::sync::{Bookmarks, Link, Local, Pushed, local, push, sides};

/// The longest mark that is read.
const MAX_MARK: u64 = 4096;
/// How many sessions are sent at a time.
const AT_A_TIME: usize = 8;

/// What one remote may not have yet.
#[derive(Debug, Clone)]
pub struct Outbox {
    medium: Arc<dyn Medium>,
    remote: String,
}

/// A session that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The agent's directory.
    pub dir: AgentDir,
    /// The session.
    pub id: SessionId,
    /// Since when, in milliseconds; none if the mark does not say.
    pub since_ms: Option<i64>,
}

impl Outbox {
    /// The outbox of a remote that goes by a name in this home.
    pub fn new(medium: Arc<dyn Medium>, remote: &str) -> Self {
        Self { medium, remote: remote.to_owned() }
    }

    /// Says, durably, that the remote may lack something of a session; `false` if that was known.
    pub fn add(&self, dir: &AgentDir, id: &SessionId, now_ms: i64) -> Result<bool> {
        let path = dir.waiting(&self.remote, id);
        if self.medium.stat(&path).is_ok() {
            return Ok(false);
        }
        self.medium.create_dir(parent(&path)).map_err(|source| failed("create", parent(&path), source))?;
        let mark = format!("{{\"since\":\"{}\"}}\n", stamp::rfc3339(now_ms));
        let published = publish_durable(self.medium.as_ref(), &path, mark.as_bytes());
        published.map_err(|source| failed("write", &path, source))
    }

    /// Whether the remote may lack something of a session.
    pub fn has(&self, dir: &AgentDir, id: &SessionId) -> bool {
        self.medium.stat(&dir.waiting(&self.remote, id)).is_ok()
    }

    /// Says that the remote has everything of a session.
    pub fn remove(&self, dir: &AgentDir, id: &SessionId) -> Result<()> {
        let path = dir.waiting(&self.remote, id);
        match self.medium.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// Removes the mark of a session that was pushed, unless it has more by now.
    pub fn settle(&self, link: &Link<'_>, pushed: &Pushed, now_ms: i64) -> Result<()> {
        let (dir, id) = (link.local.dir(), link.local.id());
        self.remove(dir, id)?;
        // Who wrote and marked between the push and the removal would be forgotten. A tail without
        // its line feed is no line yet.
        let Some(reader) = local::open(link.local)? else { return Ok(()) };
        match reader.len() > pushed.at.bytes || sides::is_ahead(link)? {
            true => self.add(dir, id, now_ms).map(drop),
            false => Ok(()),
        }
    }

    /// The sessions that wait, the longest waiting first.
    pub fn list(&self) -> Result<Vec<Waiting>> {
        let mut waiting = Vec::new();
        let top = layout::outbox(&self.remote);
        for (dir, _) in self.names(&top)?.into_iter().filter(|(_, kind)| *kind == FileKind::Directory) {
            for (name, kind) in self.names(&top.join(&dir))? {
                let Some(id) = SessionId::parse(&name).filter(|_| kind == FileKind::File && !name.contains(TEMPORARY))
                else {
                    continue;
                };
                let mark = read_small(self.medium.as_ref(), &top.join(&dir).join(&name), MAX_MARK).unwrap_or_default();
                let since_ms = since(&String::from_utf8_lossy(&mark));
                waiting.push(Waiting { dir: AgentDir::found(&dir), id, since_ms });
            }
        }
        waiting.sort_by(|a, b| (a.since_ms, &a.id).cmp(&(b.since_ms, &b.id)));
        Ok(waiting)
    }

    fn names(&self, dir: &Path) -> Result<Vec<(String, FileKind)>> {
        match self.medium.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|source| failed("list", dir, source)),
        }
    }
}

fn since(mark: &str) -> Option<i64> {
    let members = json::members(mark.trim_end())?;
    stamp::parse_rfc3339(&json::string(json::member(&members, "since")?)?)
}

/// A session that waits, as it can be sent.
pub type Found = (Box<dyn Local>, Stream);

/// What is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// How many sessions.
    pub sessions: u64,
    /// How many lines of them.
    pub lines: u64,
    /// Since when the first of them waits, in milliseconds.
    pub oldest_ms: Option<i64>,
}

/// What became of what waited.
#[derive(Debug, Default)]
pub struct Flushed {
    /// Sessions that are there now.
    pub sent: Vec<(Waiting, Pushed)>,
    /// Sessions that still wait, and why.
    pub failed: Vec<(Waiting, Error)>,
    /// Sessions that waited and are not here any more.
    pub gone: Vec<Waiting>,
    /// What is not there yet.
    pub lag: Lag,
}

/// Sends what waits; `find` knows the sessions by their names.
///
/// It leads no key to them, and does not ask whether somebody is writing one of them at the time:
/// whoever needs either sends one by one.
pub async fn flush(
    outbox: &Outbox,
    remote: &dyn Remote,
    bookmarks: &Bookmarks,
    find: &(dyn Fn(&Waiting) -> Option<Found> + Sync),
    now_ms: i64,
) -> Result<Flushed> {
    let mut flushed = Flushed::default();
    let mut rest = outbox.list()?.into_iter();
    let send = |waiting: Waiting| async move {
        let Some((local, stream)) = find(&waiting) else { return (waiting, Ok(None)) };
        let link = Link { local: local.as_ref(), remote, stream: &stream, bookmarks };
        match local::open(link.local) {
            Ok(None) => return (waiting, Ok(None)),
            Ok(Some(_)) => {}
            Err(error) => return (waiting, Err(error.into())),
        }
        let pushed = match push(&link, &mut |_| {}).await {
            Ok(pushed) => outbox.settle(&link, &pushed, now_ms).map(|()| Some(pushed)),
            Err(error) => Err(error),
        };
        (waiting, pushed)
    };
    for (waiting, pushed) in side_by_side(|| rest.next().map(&send)).await {
        match pushed {
            Ok(Some(pushed)) => flushed.sent.push((waiting, pushed)),
            Ok(None) => {
                outbox.remove(&waiting.dir, &waiting.id)?;
                flushed.gone.push(waiting);
            }
            Err(error) => flushed.failed.push((waiting, error)),
        }
    }
    flushed.lag = lag(outbox, bookmarks, find)?;
    Ok(flushed)
}

/// What is not there yet, as far as this side knows.
pub fn lag(outbox: &Outbox, bookmarks: &Bookmarks, find: &dyn Fn(&Waiting) -> Option<Found>) -> Result<Lag> {
    let mut lag = Lag::default();
    for waiting in outbox.list()? {
        let Some((local, _)) = find(&waiting) else { continue };
        let Some(reader) = local::open(local.as_ref())? else { continue };
        let known = bookmarks.proved(local.as_ref(), &reader)?.unwrap_or(Bookmark::start(reader.identity()));
        let (end, _) = known.walk(&reader, 0)?;
        lag.sessions += 1;
        lag.lines += end.end.lines - known.end.lines;
        lag.oldest_ms = lag.oldest_ms.or(waiting.since_ms);
    }
    Ok(lag)
}

/// Runs futures as they come, a bounded number at a time.
async fn side_by_side<F: Future>(mut next: impl FnMut() -> Option<F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = Vec::new();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        // Ends when a round finishes nothing, or nothing is left.
        loop {
            while running.len() < AT_A_TIME
                && let Some(future) = next()
            {
                running.push(Box::pin(future));
            }
            let before = running.len();
            running.retain_mut(|future| match future.as_mut().poll(context) {
                Poll::Ready(output) => {
                    done.push(output);
                    false
                }
                Poll::Pending => true,
            });
            match running.len() {
                0 if before == 0 => return Poll::Ready(()),
                left if left == before => return Poll::Pending,
                _ => {}
            }
        }
    })
    .await;
    done
}
