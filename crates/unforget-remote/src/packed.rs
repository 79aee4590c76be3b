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
use crate::seal::Key;
use crate::segment::{self, Entry, Head};
use crate::shelf::{Placed, Put, Run, Segment, Shelf, Step};
use crate::stream::{Prefix, Stream};

/// How many streams a writer remembers the end of.
const REMEMBERED: usize = 10_000;
/// How often the end of a stream is looked up for one append, and lines that seem damaged are read.
const LOOKS: usize = 3;

/// How many times segments are merged in one call.
const MERGES: usize = 16;

/// A remote that keeps segments on a shelf.
#[derive(Debug)]
pub struct Packed<S> {
    shelf: S,
    key: Option<Key>,
    patience: Patience,
    ends: Mutex<HashMap<Stream, Placed>>,
}

impl<S: Shelf> Packed<S> {
    /// A remote on a shelf.
    pub fn new(shelf: S) -> Self {
        Self { shelf, key: None, patience: Patience::default(), ends: Mutex::default() }
    }

    /// The same, with lines sealed before they leave the machine.
    #[must_use]
    pub fn sealed(self, key: Option<Key>) -> Self {
        Self { key, ..self }
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
        let head = Head::decode(&placed.head, stream, self.key.as_ref())?;
        Ok(head.after)
    }

    async fn add(&self, stream: &Stream, after: &Frontier, lines: &[Bytes]) -> Result<Frontier> {
        if let Some(line) = lines.iter().find(|line| line.contains(&b'\n')) {
            return Err(Error::Invalid(format!("a line of {} bytes has a line feed in it", line.len())));
        }
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
        let key = self.key.as_ref();
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
        let (head, _, all) = self.opened(stream, &held).await?;
        if !(head.before.lines..head.after.lines).contains(&from) {
            return Err(corrupt(stream, format!("line {from} is not where it should be")));
        }
        let skipped = usize::try_from(from - head.before.lines).unwrap_or(usize::MAX).min(all.len());
        let before = all[..skipped].iter().fold(head.before, |frontier, line| frontier.after(line));
        Ok(Page { before, lines: all[skipped..].to_vec(), after: head.after })
    }

    /// What a segment holds, proved by its digest.
    async fn opened(&self, stream: &Stream, segment: &Segment) -> Result<(Head, Vec<Entry>, Vec<Bytes>)> {
        let key = self.key.as_ref();
        let head = Head::decode(&segment.head, stream, key)?;
        let entries = segment::unpack(&segment.body, &segment.head, &head, key)?;
        let mut lines = Vec::with_capacity(entries.len());
        for entry in &entries {
            lines.push(match entry {
                Entry::Line(line) => line.clone(),
                Entry::Apart { name, len } => self.fetch(stream, name, *len, &segment.head).await?,
            });
        }
        if lines.iter().fold(head.before, |frontier, line| frontier.after(line)) != head.after {
            return Err(corrupt(
                stream,
                format!("the lines from {} on are not those that were written", head.before.lines),
            ));
        }
        Ok((head, entries, lines))
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
        let (mut all_lines, mut all_entries, mut ends) = (Vec::new(), Vec::new(), None::<(Frontier, Frontier)>);
        for segment in &run.segments {
            let (head, entries, lines) = self.opened(stream, segment).await?;
            if let Some((_, end)) = ends.filter(|(_, end)| *end != head.before) {
                return Err(corrupt(stream, format!("the lines from {} on do not follow those before", end.lines)));
            }
            ends = Some((ends.map_or(head.before, |(before, _)| before), head.after));
            all_entries.extend(entries);
            all_lines.extend(lines);
        }
        let (before, after) = ends.ok_or_else(|| corrupt(stream, "there is nothing to merge".to_owned()))?;
        let sealed = run.segments.iter().filter(|segment| Head::is_sealed(&segment.head)).count();
        let key = if sealed == 0 { None } else { self.key.as_ref() };
        if sealed != 0 && sealed != run.segments.len() {
            // What was kept apart unsealed has another name than what is kept sealed.
            return self.segment(stream, &before, &after, &all_lines).await.map(|(segment, _)| segment);
        }
        let head = Head { stream: stream.clone(), before, after }.encode(key)?;
        let body = segment::pack(&all_entries, &head, key)?;
        Ok(Segment { first: before.lines, end: after.lines, head, body })
    }

    /// Proves that a segment is whole and reaches from where to where another one does.
    async fn prove(&self, stream: &Stream, segment: &Segment, like: &[u8]) -> Result<()> {
        let (head, ..) = self.opened(stream, segment).await?;
        if head == Head::decode(like, stream, self.key.as_ref())? {
            return Ok(());
        }
        Err(corrupt(stream, format!("the lines from {} on were merged into others", head.before.lines)))
    }

    async fn fetch(&self, stream: &Stream, name: &[u8; 32], len: u64, head: &[u8]) -> Result<Bytes> {
        let spelled = encode::hex(name);
        let bytes = again(self.patience, "kept", || self.shelf.kept(stream, &spelled)).await?;
        let bytes = bytes.ok_or_else(|| corrupt(stream, format!("its large line `{spelled}` is missing")))?;
        let key = if Head::is_sealed(head) { self.key.as_ref() } else { None };
        segment::unpack_apart(&bytes, name, len, key)
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
