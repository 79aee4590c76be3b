//! [`Remote`] on a shelf of segments: the compare-and-append, the proofs and the retries of every backend that keeps bytes.
//!
//! A writer remembers the last segment that it saw, so that a turn costs one round trip. What it remembers may be old: then the
//! number is taken, the shelf is asked, and either these very lines are there already (an answer got lost) or
//! somebody else was faster.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use unforget_core::encode;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::remote::{BoxFuture, Compacted, Listing, Page, Remote};
use crate::retry::{Patience, again};
use crate::seal::{Key, Sealing};
use crate::segment::{self, Entries, Entry, Head};
use crate::shelf::{Placed, Put, Run, Segment, Shelf, Step};
use crate::stream::{Prefix, Stream};

/// How many streams a writer remembers the end of.
const REMEMBERED: usize = 10_000;
/// How often the end of a stream is looked up for one append, and lines that seem damaged are read.
const LOOKS: usize = 3;

/// How many times segments are merged in one call.
const MERGES: usize = 16;

/// How many bytes the lines of a page have, unless one alone has more.
const PAGE: u64 = 8 << 20;
/// What a line takes in memory beside its bytes.
const PER_LINE: u64 = 64;

#[cfg(test)]
mod tests;

/// A remote that keeps segments on a shelf.
#[derive(Debug)]
pub struct Packed<S> {
    shelf: S,
    sealing: Sealing,
    patience: Patience,
    ends: Mutex<HashMap<Stream, Placed>>,
}

impl<S: Shelf> Packed<S> {
    /// A remote on a shelf.
    pub fn new(shelf: S) -> Self {
        Self { shelf, sealing: Sealing::Plain, patience: Patience::default(), ends: Mutex::default() }
    }

    /// The same, with lines sealed before they leave the machine, and nothing but sealed lines taken from it.
    #[must_use]
    pub fn sealed(self, key: Option<Key>) -> Self {
        self.sealing(key.into())
    }

    /// The same, with a choice of which lines count.
    #[must_use]
    pub fn sealing(self, sealing: Sealing) -> Self {
        Self { sealing, ..self }
    }

    /// The same, with another patience.
    #[must_use]
    pub fn patient(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The shelf.
    pub fn shelf(&self) -> &S {
        &self.shelf
    }

    fn remembered(&self, stream: &Stream) -> Option<Placed> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).get(stream).cloned()
    }

    fn remember(&self, stream: &Stream, end: Option<Placed>) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Some(end) => {
                if ends.len() >= REMEMBERED {
                    ends.clear();
                }
                ends.insert(stream.clone(), end);
            }
            None => {
                ends.remove(stream);
            }
        }
    }

    async fn look(&self, stream: &Stream) -> Result<Option<Placed>> {
        let end = again(self.patience, "last", || self.shelf.last(stream)).await?;
        self.remember(stream, end.clone());
        Ok(end)
    }

    /// Where a stream ends whose last segment this is.
    fn end_of(&self, stream: &Stream, placed: Option<&Placed>) -> Result<Frontier> {
        let Some(placed) = placed else { return Ok(Frontier::default()) };
        Ok(self.head(stream, &placed.head)?.after)
    }

    /// What a segment of a stream says of itself, if it counts.
    fn head(&self, stream: &Stream, head: &[u8]) -> Result<Head> {
        Head::decode(head, stream, &self.sealing, &self.shelf.name())
    }

    async fn add(&self, stream: &Stream, after: &Frontier, lines: &[Bytes]) -> Result<Frontier> {
        if let Some(line) = lines.iter().find(|line| line.contains(&b'\n')) {
            return Err(Error::Invalid(format!("a line of {} bytes has a line feed in it", line.len())));
        }
        segment::check_size(lines)?;
        let next = lines.iter().fold(*after, |frontier, line| frontier.after(line));
        // Nothing to write is a question, and what is remembered is no answer.
        let mut end = if lines.is_empty() { None } else { self.remembered(stream) };
        let mut is_fresh = false;
        for _ in 0..LOOKS {
            if end.is_none() && !is_fresh {
                end = self.look(stream).await?;
                is_fresh = true;
            }
            let found = self.end_of(stream, end.as_ref())?;
            if found == next && is_fresh {
                return Ok(next);
            }
            if found == *after {
                let (segment, names) = self.segment(stream, after, &next, lines).await?;
                let put = || self.shelf.put_referring(stream, end.as_ref(), &segment, &names);
                let put = again(self.patience, "put", put).await?;
                if let Put::Done(placed) = put {
                    self.remember(stream, Some(placed));
                    return Ok(next);
                }
            } else if is_fresh {
                return Err(Error::Conflict { found });
            }
            // What was remembered is old.
            self.remember(stream, None);
            (end, is_fresh) = (None, false);
        }
        Err(Error::Conflict { found: self.end_of(stream, self.look(stream).await?.as_ref())? })
    }

    /// The segment, and the names of what is kept apart for it.
    async fn segment(
        &self,
        stream: &Stream,
        before: &Frontier,
        after: &Frontier,
        lines: &[Bytes],
    ) -> Result<(Segment, Vec<String>)> {
        let key = self.sealing.key();
        let head = Head { stream: stream.clone(), before: *before, after: *after }.encode(key)?;
        let (mut entries, mut names) = (Vec::with_capacity(lines.len()), Vec::new());
        for line in lines {
            if self.shelf.large_line().is_none_or(|large| line.len() < large) {
                entries.push(Entry::Line(line.clone()));
                continue;
            }
            let name = segment::name_of(line, key);
            let bytes = segment::pack_apart(line, &name, key)?;
            let spelled = encode::hex(&name);
            again(self.patience, "keep", || self.shelf.keep(stream, &spelled, bytes.clone())).await?;
            entries.push(Entry::Apart { name, len: line.len() as u64 });
            names.push(spelled);
        }
        let body = segment::pack(&entries, &head, key)?;
        Ok((Segment { first: before.lines, end: after.lines, head, body }, names))
    }

    /// A page. One takes several questions, and a stream that is deleted or begun between two of them looks damaged.
    async fn settled(&self, stream: &Stream, from: u64) -> Result<Page> {
        for _ in 1..LOOKS {
            match self.page(stream, from).await {
                Err(Error::Corrupt { what, reason }) => tracing::warn!(what, reason, "looking again"),
                page => return page,
            }
        }
        self.page(stream, from).await
    }

    async fn page(&self, stream: &Stream, from: u64) -> Result<Page> {
        let held = again(self.patience, "holding", || self.shelf.holding(stream, from)).await?;
        let Some(held) = held else {
            let end = self.look(stream).await?;
            let missing = || Error::NotFound { what: stream.to_string() };
            let found = self.end_of(stream, Some(end.as_ref().ok_or_else(missing)?))?;
            // Beyond the end there is nothing to read, and before it there must be something.
            return match from.cmp(&found.lines) {
                std::cmp::Ordering::Equal => Ok(Page { before: found, lines: Vec::new(), after: found }),
                std::cmp::Ordering::Greater => Err(Error::Conflict { found }),
                std::cmp::Ordering::Less => Err(corrupt(stream, format!("line {from} is missing"))),
            };
        };
        let (mut lines, mut room, mut ends) = (Vec::new(), PAGE, None::<(Frontier, Frontier)>);
        self.walk(stream, held, |at, _, line| {
            let cost = line.len() as u64 + PER_LINE;
            // What is beyond the room is proved as well, and is the next page.
            let is_next = ends.map_or(at.lines == from, |(_, end)| end == *at);
            if is_next && (lines.is_empty() || cost <= room) {
                room = room.saturating_sub(cost);
                ends = Some((ends.map_or(*at, |(before, _)| before), at.after(line)));
                lines.push(line.clone());
            }
        })
        .await?;
        let (before, after) = ends.ok_or_else(|| corrupt(stream, format!("line {from} is not where it should be")))?;
        Ok(Page { before, lines, after })
    }

    /// Hands the lines of a segment to `take`, one after the other, each with what is before it. They are proved when this returns, and
    /// no sooner.
    async fn walk(
        &self,
        stream: &Stream,
        segment: Segment,
        mut take: impl FnMut(&Frontier, &Entry, &Bytes) + Send,
    ) -> Result<Head> {
        let Segment { head: bytes, body, .. } = segment;
        let head = self.head(stream, &bytes)?;
        let key = self.sealing.key().filter(|_| Head::is_sealed(&bytes));
        let mut entries = Entries::open(body, &bytes, &head, key)?;
        let mut at = head.before;
        let too_long =
            |at: &Frontier| corrupt(stream, format!("the lines from {} on are longer than they claim", at.lines));
        while let Some(entry) = entries.next()? {
            let room = head.after.bytes.saturating_sub(at.bytes);
            let line = match &entry {
                Entry::Line(line) => line.clone(),
                Entry::Apart { len, .. } if *len >= room => return Err(too_long(&at)),
                Entry::Apart { name, len } => self.fetch(stream, name, *len, key).await?,
            };
            if line.len() as u64 >= room {
                return Err(too_long(&at));
            }
            let next = at.after(&line);
            take(&at, &entry, &line);
            at = next;
        }
        if at != head.after {
            let from = head.before.lines;
            return Err(corrupt(stream, format!("the lines from {from} on are not those that were written")));
        }
        Ok(head)
    }

    /// Merges small segments of a stream, so that reading it takes fewer requests. The work of one call is bounded; it may be
    /// called at any time, by several at once, and be interrupted anywhere. Lines, positions and frontiers stay what they are.
    pub async fn compact(&self, stream: &Stream) -> Result<Compacted> {
        let mut merged = 0;
        while merged < MERGES {
            let Some(step) = again(self.patience, "step", || self.shelf.step(stream)).await? else {
                return Ok(Compacted { merged, is_done: true });
            };
            let run = match step {
                Step::Merge(run) => {
                    let segment = self.merge(stream, &run).await?;
                    // What others stored replaces nothing before it is proved to be the same.
                    if let Some(theirs) =
                        again(self.patience, "store", || self.shelf.store(stream, &run, &segment)).await?
                    {
                        self.prove(stream, &theirs, &segment.head).await?;
                    }
                    run
                }
                Step::Point(run) => {
                    for theirs in &run.segments {
                        self.prove(stream, theirs, &theirs.head).await?;
                    }
                    run
                }
            };
            again(self.patience, "point", || self.shelf.point(stream, &run)).await?;
            tracing::debug!(%stream, level = run.level, segments = run.segments.len(), "merged");
            merged += 1;
        }
        Ok(Compacted { merged, is_done: false })
    }

    /// One segment of the lines of several.
    async fn merge(&self, stream: &Stream, run: &Run) -> Result<Segment> {
        let (mut all, mut ends) = (Vec::new(), None::<(Frontier, Frontier)>);
        for segment in &run.segments {
            let head = self.walk(stream, segment.clone(), |_, entry, _| all.push(entry.clone())).await?;
            if let Some((_, end)) = ends.filter(|(_, end)| *end != head.before) {
                return Err(corrupt(stream, format!("the lines from {} on do not follow those before", end.lines)));
            }
            ends = Some((ends.map_or(head.before, |(before, _)| before), head.after));
        }
        let (before, after) = ends.ok_or_else(|| corrupt(stream, "there is nothing to merge".to_owned()))?;
        let key = self.sealing.key();
        if run.segments.iter().any(|segment| Head::is_sealed(&segment.head) != key.is_some()) {
            // What was kept apart in plain has another name than what is kept sealed.
            return Err(Error::Invalid(format!("{stream} is merged when all of it is sealed")));
        }
        let head = Head { stream: stream.clone(), before, after }.encode(key)?;
        let body = segment::pack(&all, &head, key)?;
        Ok(Segment { first: before.lines, end: after.lines, head, body })
    }

    /// Proves that a segment is whole and reaches from where to where another one does.
    async fn prove(&self, stream: &Stream, segment: &Segment, like: &[u8]) -> Result<()> {
        let head = self.walk(stream, segment.clone(), |_, _, _| {}).await?;
        if head == self.head(stream, like)? {
            return Ok(());
        }
        Err(corrupt(stream, format!("the lines from {} on were merged into others", head.before.lines)))
    }

    async fn fetch(&self, stream: &Stream, name: &[u8; 32], len: u64, key: Option<&Key>) -> Result<Bytes> {
        let spelled = encode::hex(name);
        let bytes = again(self.patience, "kept", || self.shelf.kept(stream, &spelled)).await?;
        let bytes = bytes.ok_or_else(|| corrupt(stream, format!("its large line `{spelled}` is missing")))?;
        segment::unpack_apart(bytes, name, len, key)
    }
}

fn corrupt(stream: &Stream, reason: String) -> Error {
    Error::Corrupt { what: stream.to_string(), reason }
}

impl<S: Shelf> Remote for Packed<S> {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            let end = self.look(stream).await?;
            let end = end.ok_or_else(|| Error::NotFound { what: stream.to_string() })?;
            self.end_of(stream, Some(&end))
        })
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            let done = self.add(stream, after, lines).await;
            match &done {
                Ok(next) => tracing::debug!(%stream, lines = lines.len(), at = next.lines, "appended"),
                Err(error) => tracing::debug!(%stream, lines = lines.len(), %error, "not appended"),
            }
            done
        })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.settled(stream, from))
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        Box::pin(again(self.patience, "list", move || self.shelf.list(prefix, cursor)))
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.remember(stream, None);
            again(self.patience, "delete", || self.shelf.delete(stream)).await
        })
    }

    fn compact<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Compacted>> {
        Box::pin(self.compact(stream))
    }
}
