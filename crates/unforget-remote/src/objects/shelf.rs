//! The shelf itself: putting, finding and listing.
//!
//! It remembers in which life a stream was seen last, so that going on costs one request and reading costs one for each segment.
//! What it remembers may be old, and then the name is taken or what is found there is a mark: both mean asking again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use unforget_core::encode;

use super::name::{self, BYTES, Merged, Number, directory};
use super::object::{Object, damaged, segment_at};
use super::{Kind, NAMES, Objects, Part};
use crate::error::{Error, Result};
use crate::remote::Listing;
use crate::segment;
use crate::shelf::{Placed, Put, Run, Segment, Shelf, Step};
use crate::stream::{Prefix, Stream};

/// From how many streams on a page of a list ends.
const STREAMS: usize = 1_000;
/// How many streams' lives are remembered.
const REMEMBERED: usize = 10_000;
/// How many names are asked for where the first one is wanted: there may be others that are none of ours.
const FEW: usize = 4;
/// How many requests are made at once.
pub(super) const AT_ONCE: usize = 16;
/// How many deleted streams are remembered to be swept.
const OLD: usize = 1_000;
/// How often merged lines may be merged again.
pub(super) const LEVELS: u8 = 3;

/// A shelf on objects.
#[derive(Debug)]
pub struct ObjectShelf<O> {
    pub(super) objects: O,
    /// Seconds since 1970.
    pub(super) clock: fn() -> u64,
    known: Mutex<HashMap<Stream, Known>>,
    /// Directories of streams that were deleted long ago, and their last lives.
    pub(super) old: Mutex<BTreeMap<String, u64>>,
}

/// What was seen of a stream last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// It was deleted, and its next life would be this one.
    Next(u64),
    Lives(u64),
}

/// The last object of a stream.
pub(super) enum End {
    Nothing,
    /// It was deleted.
    Deleted {
        at: Number,
        object: Object,
    },
    Segment(Placed),
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl<O: Objects> ObjectShelf<O> {
    /// A shelf on these objects.
    pub fn new(objects: O) -> Self {
        Self { objects, clock: seconds, known: Mutex::default(), old: Mutex::default() }
    }

    /// The same, with another clock: seconds since 1970.
    #[must_use]
    pub fn timed(self, clock: fn() -> u64) -> Self {
        Self { clock, ..self }
    }

    /// The objects.
    pub fn objects(&self) -> &O {
        &self.objects
    }

    fn known(&self, stream: &Stream) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(stream).copied()
    }

    pub(super) fn know(&self, stream: &Stream, what: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(stream.clone(), what);
    }

    /// The life that a stream is in, or would begin with.
    async fn life(&self, stream: &Stream) -> Result<u64> {
        if self.known(stream).is_none() {
            self.end(stream).await?;
        }
        match self.known(stream) {
            Some(Known::Lives(life) | Known::Next(life)) => Ok(life),
            Some(Known::Nothing) | None => {
                let life = self.first_life(&directory(stream)).await?;
                self.know(stream, Known::Next(life));
                Ok(life)
            }
        }
    }

    /// The newest number of a directory, or the newest behind a name.
    pub(super) async fn newest(&self, dir: &str, behind: Option<&str>) -> Result<Option<Number>> {
        let mut behind = behind.map(str::to_owned);
        loop {
            let page = self.objects.names(dir, Kind::Object, behind.as_deref(), FEW).await?;
            if let Some(number) = page.names.iter().find_map(|name| Number::parse(name)) {
                return Ok(Some(number));
            }
            // Each page begins behind the one before, so this ends with the directory.
            behind = page.names.last().cloned().filter(|last| page.has_more && last.as_str() < Merged::all());
            if behind.is_none() {
                return Ok(None);
            }
        }
    }

    pub(super) async fn end(&self, stream: &Stream) -> Result<End> {
        let end = self.ask(stream).await?;
        let known = match &end {
            End::Nothing => Known::Nothing,
            End::Deleted { at, .. } => Known::Next(at.life.saturating_add(1)),
            End::Segment(placed) => Known::Lives(placed.mark),
        };
        self.know(stream, known);
        Ok(end)
    }

    async fn ask(&self, stream: &Stream) -> Result<End> {
        let dir = directory(stream);
        let Some(at) = self.newest(&dir, None).await? else { return Ok(End::Nothing) };
        // Gone between two requests: it is being swept away.
        let Some(object) = self.read(stream, &dir, at, Part::Start).await? else { return Ok(End::Nothing) };
        let Object::Segment { head, body } = object else {
            // The last segment is never merged: a mark that says so is what a merger left behind that slept.
            return Ok(End::Deleted { at, object });
        };
        let Segment { first, end, head, .. } = segment_at(stream, at.first, head, body)?;
        Ok(End::Segment(Placed { first, end, head, mark: at.life }))
    }

    /// The object of a number.
    pub(super) async fn read(&self, stream: &Stream, dir: &str, at: Number, part: Part) -> Result<Option<Object>> {
        let Some(bytes) = self.objects.read(&format!("{dir}/{}", at.spelled()), part).await? else { return Ok(None) };
        Object::decode(&bytes).map(Some).ok_or_else(|| damaged(stream, at.first))
    }

    /// The object of merged segments.
    pub(super) async fn read_merged(&self, stream: &Stream, at: Merged, part: Part) -> Result<Option<Object>> {
        let path = format!("{}/{}", directory(stream), at.spelled());
        let Some(bytes) = self.objects.read(&path, part).await? else { return Ok(None) };
        Object::decode(&bytes).map(Some).ok_or_else(|| damaged(stream, at.first))
    }

    /// All names of a kind in a directory, in ascending order.
    pub(super) async fn all_names(&self, dir: &str, kind: Kind, behind: Option<&str>) -> Result<Vec<String>> {
        let mut all: Vec<String> = Vec::new();
        let mut behind = behind.map(str::to_owned);
        loop {
            let page = self.objects.names(dir, kind, behind.as_deref(), NAMES).await?;
            behind = page.names.last().cloned();
            all.extend(page.names);
            if !page.has_more || behind.is_none() {
                // A place may order `a-b/` before `a/`.
                all.sort();
                all.dedup();
                return Ok(all);
            }
        }
    }

    /// The segment at a number that holds a line, wherever it was moved to; none if there is none any more.
    async fn held(&self, stream: &Stream, dir: &str, at: Number, line: u64) -> Result<Option<Segment>> {
        let mut object = self.read(stream, dir, at, Part::Whole).await?;
        let (mut first, mut above) = (at.first, 0);
        // Every mark leads to a higher level, and there are few.
        loop {
            match object {
                Some(Object::Segment { head, body }) => {
                    let found = segment_at(stream, first, head, body)?;
                    return Ok((line < found.end).then_some(found));
                }
                Some(Object::Moved { level, first: from, end }) => {
                    if level <= above || level > LEVELS || !(from..end).contains(&line) {
                        return Err(damaged(stream, first));
                    }
                    (first, above) = (from, level);
                    object = self.read_merged(stream, Merged { level, life: at.life, first, end }, Part::Whole).await?;
                }
                Some(Object::Stayed) => return Err(damaged(stream, first)),
                Some(Object::Deleted | Object::Ended { .. }) | None => return Ok(None),
            }
        }
    }

    /// The stream of a directory, if it has segments.
    async fn stream_at(&self, dir: &str) -> Result<Option<Stream>> {
        let Some(newest) = self.newest(dir, None).await? else { return Ok(None) };
        let path = format!("{dir}/{}", newest.spelled());
        let Some(start) = self.objects.read(&path, Part::Start).await? else { return Ok(None) };
        let told = match Object::decode(&start) {
            Some(Object::Segment { head, .. }) => segment::stream_of(&head),
            Some(object) => {
                self.notice(dir, newest, &object);
                return Ok(None);
            }
            None => None,
        };
        // If what its segments say is of no use, its name has to do, so that it can be seen and asked for.
        Ok(told.filter(|stream| directory(stream) == dir).or_else(|| name::stream_of(dir)))
    }

    /// Remembers a stream that was deleted long ago.
    fn notice(&self, dir: &str, newest: Number, object: &Object) {
        if self.is_old(object) {
            let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
            if old.len() < OLD {
                old.insert(dir.to_owned(), newest.life);
            }
        }
    }

    /// All streams of some sessions, with a bounded number of requests at once.
    async fn streams_of(&self, sessions: Vec<String>) -> Result<Vec<Stream>> {
        let sides = stream::iter(sessions).map(|session| async move {
            let sides = self.all_names(&session, Kind::Directory, None).await?;
            Ok::<_, Error>(sides.into_iter().map(|side| format!("{session}/{side}")).collect::<Vec<_>>())
        });
        let dirs: Vec<Vec<String>> = sides.buffered(AT_ONCE).try_collect().await?;
        let dirs = dirs.into_iter().flatten();
        let streams = stream::iter(dirs).map(|dir| async move { self.stream_at(&dir).await });
        let streams: Vec<Option<Stream>> = streams.buffered(AT_ONCE).try_collect().await?;
        Ok(streams.into_iter().flatten().collect())
    }
}

impl<O: Objects> Shelf for ObjectShelf<O> {
    fn name(&self) -> String {
        self.objects.name()
    }

    async fn last(&self, stream: &Stream) -> Result<Option<Placed>> {
        match self.end(stream).await? {
            End::Segment(placed) => Ok(Some(placed)),
            End::Nothing | End::Deleted { .. } => Ok(None),
        }
    }

    async fn put(&self, stream: &Stream, behind: Option<&Placed>, segment: &Segment) -> Result<Put> {
        let dir = directory(stream);
        let life = match behind {
            Some(placed) => placed.mark,
            None => self.life(stream).await?,
        };
        let path = format!("{dir}/{}", Number { life, first: segment.first }.spelled());
        let object = Object::Segment { head: segment.head.clone(), body: segment.body.clone() };
        if !self.objects.create(&path, object.encode()).await? {
            return Ok(Put::Taken);
        }
        self.know(stream, Known::Lives(life));
        let placed = Placed { first: segment.first, end: segment.end, head: segment.head.clone(), mark: life };
        Ok(Put::Done(placed))
    }

    async fn holding(&self, stream: &Stream, line: u64) -> Result<Option<Segment>> {
        let dir = directory(stream);
        let remembered = match self.known(stream) {
            Some(Known::Lives(life)) => Some(life),
            Some(Known::Nothing | Known::Next(_)) | None => None,
        };
        if let Some(life) = remembered
            && let Some(found) = self.held(stream, &dir, Number { life, first: line }, line).await?
        {
            return Ok(Some(found));
        }
        let End::Segment(last) = self.end(stream).await? else { return Ok(None) };
        if line >= last.end {
            return Ok(None);
        }
        let exact = Number { life: last.mark, first: line };
        if remembered != Some(last.mark)
            && let Some(found) = self.held(stream, &dir, exact, line).await?
        {
            return Ok(Some(found));
        }
        match self.newest(&dir, Some(&exact.spelled())).await? {
            Some(before) if before.life == last.mark => self.held(stream, &dir, before, line).await,
            Some(_) | None => Ok(None),
        }
    }

    async fn list(&self, prefix: &Prefix, cursor: Option<&str>) -> Result<Listing> {
        let fixed: Vec<String> = prefix.parts().into_iter().map(encode::file_name).collect();
        let behind: Vec<&str> = cursor.map(|cursor| cursor.split('/').collect()).unwrap_or_default();
        let mut listing = Listing::default();
        // A walk in order: from each directory, the names behind the cursor's, which is the last session that was listed.
        let mut stack = vec![fixed];
        while let Some(dirs) = stack.pop() {
            let depth = dirs.len();
            if depth < 3 {
                let is_on_the_way = behind.get(..depth).is_some_and(|way| way == dirs);
                let mut names = self.all_names(&dirs.join("/"), Kind::Directory, None).await?;
                names.retain(|name| {
                    let own = behind.get(depth).filter(|_| is_on_the_way);
                    let is_behind =
                        own.is_none_or(|own| if depth == 2 { name.as_str() > *own } else { name.as_str() >= *own });
                    is_behind && !name.starts_with('@')
                });
                stack.extend(names.into_iter().rev().map(|name| [dirs.as_slice(), &[name]].concat()));
                continue;
            }
            let mut sessions = vec![dirs.join("/")];
            while sessions.len() < AT_ONCE
                && let Some(dirs) = stack.pop_if(|dirs| dirs.len() == 3)
            {
                sessions.push(dirs.join("/"));
            }
            let last = sessions.last().cloned();
            let found = self.streams_of(sessions).await?;
            listing.streams.extend(found.into_iter().filter(|stream| prefix.matches(stream)));
            if listing.streams.len() >= STREAMS && !stack.is_empty() {
                listing.next = last;
                return Ok(listing);
            }
        }
        Ok(listing)
    }

    async fn delete(&self, stream: &Stream) -> Result<()> {
        self.remove(stream).await?;
        self.sweep().await
    }

    async fn keep(&self, stream: &Stream, name: &str, bytes: Bytes) -> Result<()> {
        let dir = name::kept(stream, name);
        // A life's claims are its own: deleting the one before, however late, takes nothing from this one.
        let life = self.life(stream).await?;
        let (claim, back) = (name::claim(stream, life), name::claimed(stream, life, name));
        // First the claims, then the bytes: whoever removes the last claim looks again behind it.
        self.objects.create(&back, Bytes::from_static(b".")).await?;
        self.objects.create(&format!("{dir}/{claim}"), Bytes::from_static(b".")).await?;
        self.objects.create(&format!("{dir}/{BYTES}"), bytes).await?;
        Ok(())
    }

    async fn kept(&self, stream: &Stream, name: &str) -> Result<Option<Bytes>> {
        self.objects.read(&format!("{}/{BYTES}", name::kept(stream, name)), Part::Whole).await
    }

    async fn step(&self, stream: &Stream) -> Result<Option<Step>> {
        self.next_step(stream).await
    }

    async fn store(&self, stream: &Stream, run: &Run, merged: &Segment) -> Result<Option<Segment>> {
        self.store_merged(stream, run, merged).await
    }

    async fn point(&self, stream: &Stream, run: &Run) -> Result<()> {
        self.point_to(stream, run).await?;
        self.sweep().await
    }
}
