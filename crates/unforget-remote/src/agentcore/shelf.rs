//! A shelf on events: which segment holds a line, and how all of them are deleted. `put` adds segments, `listing` finds streams.
//!
//! Where a segment is does not change, so it is remembered: a stream that is read from its beginning is listed once, not once for each segment. What is
//! remembered is proved by the event itself, and forgotten when that is gone.
//!
//! Deleting goes from the oldest event to the newest: a deletion that was cut short leaves a history that says that its beginning is missing, never a shorter one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::chain::{self, Chain, Known, Link, Name, Seen};
use super::client::Client;
use super::names::Place;
use super::pace::{Clock, SystemClock};
use super::parts::{self, Body};
use super::settings::Settings;
use super::wire::Event;
use crate::error::{Error, Result};
use crate::packed::Packed;
use crate::remote::Listing;
use crate::retry::{Patience, again};
use crate::shelf::{Placed, Put, Segment, Shelf};
use crate::stream::{Prefix, Stream};

/// How many of the newest events are looked at first, and how many a page has if they do not suffice.
const FEW: u32 = 10;
const PAGE: u32 = 100;
/// How many pages a session may have.
pub(super) const MAX_PAGES: usize = 100_000;
/// How often a reader looks again that sees two segments at one position: for longer than their writers do.
const READER_LOOKS: u32 = 8;
/// How long to wait before looking again.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How often a stream that is being written to is tried to be deleted.
const DELETIONS: usize = 16;
/// How many streams' histories are remembered.
const REMEMBERED: usize = 64;

/// A shelf in AgentCore Memory.
#[derive(Debug)]
pub struct AgentCore {
    pub(super) client: Client,
    /// Where segments are that cannot change any more; each is proved when it is read.
    histories: Mutex<HashMap<Stream, Vec<Slot>>>,
}

/// Where a segment is.
#[derive(Debug, Clone)]
struct Slot {
    id: String,
    first: u64,
    end: u64,
    name: Name,
}

impl AgentCore {
    /// A shelf in a memory.
    pub fn new(settings: &Settings) -> Result<Self> {
        Self::with_clock(settings, Arc::new(SystemClock))
    }

    /// The same, with another clock.
    pub fn with_clock(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self { client: Client::new(settings, clock)?, histories: Mutex::default() })
    }

    /// A remote on this place.
    pub fn remote(self) -> Packed<Self> {
        Packed::new(self)
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.client.pace.clock.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// The segments among the newest events, as many as it takes to know what they are, and what they are.
    pub(super) async fn seen(
        &self,
        place: &Place,
        is_enough: impl Fn(&[Link], &Chain) -> bool + Send + Sync,
    ) -> Result<(Vec<Link>, Known)> {
        let first = self.client.list(place, FEW, None).await?;
        let mut seen = if first.next_token.is_some() { Seen::Newest } else { Seen::All };
        let mut links = read(&first.events)?;
        let mut known = chain::resolve(&links, seen);
        if seen == Seen::All || matches!(&known, Known::Chain(chain) if is_enough(&links, chain)) {
            return Ok((links, known));
        }
        links.clear();
        let mut next = None;
        for _ in 0..MAX_PAGES {
            let page = self.client.list(place, PAGE, next.clone()).await?;
            links.extend(read(&page.events)?);
            seen = if page.next_token.is_some() { Seen::Newest } else { Seen::All };
            known = chain::resolve(&links, seen);
            if seen == Seen::All || matches!(&known, Known::Chain(chain) if is_enough(&links, chain)) {
                return Ok((links, known));
            }
            if page.next_token == next {
                break;
            }
            next = page.next_token;
        }
        Err(self.endless(place))
    }

    fn endless(&self, place: &Place) -> Error {
        let reason = format!("the list of the session `{}` does not end", place.session);
        Error::Unavailable { place: self.client.place().to_owned(), reason, wait: None }
    }

    /// The history of a stream, from its newest segment back as far as is wanted.
    async fn history(
        &self,
        stream: &Stream,
        is_enough: impl Fn(&[Link], &Chain) -> bool + Send + Sync,
    ) -> Result<Option<Chain>> {
        let place = Place::of(stream);
        for look in 1..=READER_LOOKS {
            let (_, known) = self.seen(&place, &is_enough).await?;
            match known {
                Known::Chain(chain) if chain.is_contested && look < READER_LOOKS => {
                    tracing::debug!(%stream, look, "two segments stand at one position");
                    self.client.pace.clock.sleep(LOOK_PAUSE * look).await;
                }
                Known::Chain(chain) => return Ok(Some(chain)),
                Known::Nothing | Known::Undecided => return Ok(None),
            }
        }
        Ok(None)
    }

    pub(super) async fn remove(&self, place: &Place, id: &str) -> Result<()> {
        again(Patience::default(), "delete", || self.client.delete(place, id)).await
    }

    /// The segment in an event; none if the event is gone.
    async fn fetch(&self, stream: &Stream, slot: &Slot) -> Result<Option<Segment>> {
        let place = Place::of(stream);
        let damaged = |reason: &str| Error::Corrupt {
            what: stream.to_string(),
            reason: format!("the segment at line {}: {reason}", slot.first),
        };
        let Some(event) = self.client.get(&place, &slot.id).await? else { return Ok(None) };
        let link = chain::read(&event)?.filter(|link| link.name == slot.name);
        let link = link.ok_or_else(|| damaged("it is not the one that was written"))?;
        let body = match parts::body(&event).map_err(damaged)? {
            Body::Inline(bytes) => bytes,
            Body::Parts(parts) => {
                let mut body = BytesMut::new();
                for part in &parts {
                    let found = again(Patience::default(), "part", || self.client.get(&place, &part.id)).await?;
                    let found = found.ok_or_else(|| damaged("a part of it is gone; it was deleted, or has expired"))?;
                    body.extend_from_slice(&parts::read(&found, part).map_err(damaged)?);
                }
                body.freeze()
            }
        };
        Ok(Some(Segment { first: link.first, end: link.end, head: link.head, body }))
    }

    fn remembered(&self, stream: &Stream) -> Option<Vec<Slot>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner).get(stream).cloned()
    }

    fn remember(&self, stream: &Stream, slots: Option<Vec<Slot>>) {
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        match slots {
            Some(slots) => {
                if histories.len() >= REMEMBERED {
                    histories.clear();
                }
                histories.insert(stream.clone(), slots);
            }
            None => {
                histories.remove(stream);
            }
        }
    }
}

fn read(events: &[Event]) -> Result<Vec<Link>> {
    events.iter().filter_map(|event| chain::read(event).transpose()).collect()
}

impl Shelf for AgentCore {
    fn name(&self) -> String {
        self.client.place().to_owned()
    }

    fn large_line(&self) -> Option<usize> {
        None
    }

    async fn last(&self, stream: &Stream) -> Result<Option<Placed>> {
        let chain = self.history(stream, |_, _| true).await?;
        let last = chain.and_then(|chain| chain.links.into_iter().next_back());
        Ok(last.map(|last| Placed { first: last.first, end: last.end, mark: last.at(), head: last.head }))
    }

    async fn put(&self, stream: &Stream, behind: Option<&Placed>, segment: &Segment) -> Result<Put> {
        self.place(stream, behind, segment).await
    }

    async fn holding(&self, stream: &Stream, line: u64) -> Result<Option<Segment>> {
        let old = self.remembered(stream);
        // The last segment may have been remembered before it was the last one for good.
        let settled = old.as_ref().map(|slots| &slots[..slots.len().saturating_sub(1)]).unwrap_or_default();
        if let Some(slot) = settled.iter().find(|slot| (slot.first..slot.end).contains(&line)) {
            if let Some(segment) = self.fetch(stream, slot).await? {
                return Ok(Some(segment));
            }
            self.remember(stream, None);
        }
        let joins = |_: &[Link], chain: &Chain| {
            let start = chain.links.first();
            start.is_some_and(|start| {
                start.first <= line
                    || settled.iter().any(|slot| Some(slot.name) == start.behind && slot.end == start.first)
            })
        };
        let Some(chain) = self.history(stream, joins).await? else { return Ok(None) };
        let start = chain.links.first().map(|start| (start.first, start.behind));
        let mut slots: Vec<Slot> = Vec::new();
        if let Some((first, Some(behind))) = start
            && let Some(at) = settled.iter().position(|slot| slot.name == behind && slot.end == first)
        {
            slots.extend_from_slice(&settled[..=at]);
        }
        let links = chain.links.into_iter();
        slots.extend(links.map(|link| Slot { id: link.id, first: link.first, end: link.end, name: link.name }));
        self.remember(stream, Some(slots.clone()));
        if slots.last().is_none_or(|last| line >= last.end) {
            return Ok(None);
        }
        let gone = |first: u64| Error::Corrupt {
            what: stream.to_string(),
            reason: format!(
                "its lines before {first} are gone: they were deleted, or have expired (the memory's retention)"
            ),
        };
        let Some(slot) = slots.iter().find(|slot| (slot.first..slot.end).contains(&line)) else {
            return Err(gone(slots.first().map_or(0, |slot| slot.first)));
        };
        let segment = self.fetch(stream, slot).await?;
        segment.map(Some).ok_or_else(|| gone(slot.end))
    }

    async fn list(&self, prefix: &Prefix, cursor: Option<&str>) -> Result<Listing> {
        self.streams(prefix, cursor).await
    }

    async fn delete(&self, stream: &Stream) -> Result<()> {
        let place = Place::of(stream);
        self.remember(stream, None);
        for _ in 0..DELETIONS {
            let (mut ids, mut next) = (Vec::new(), None::<String>);
            for _ in 0..MAX_PAGES {
                let page = again(Patience::default(), "list", || self.client.list(&place, PAGE, next.clone())).await?;
                ids.extend(page.events.into_iter().map(|event| event.event_id));
                let is_stuck = page.next_token == next;
                next = page.next_token;
                if next.is_none() || is_stuck {
                    break;
                }
            }
            if ids.is_empty() {
                return Ok(());
            }
            for id in ids.iter().rev() {
                self.remove(&place, id).await?;
            }
        }
        Err(Error::Unavailable { place: self.name(), reason: format!("{stream} is being written to"), wait: None })
    }

    async fn keep(&self, _: &Stream, name: &str, _: Bytes) -> Result<()> {
        Err(Error::Invalid(format!("{} keeps no lines apart, and `{name}` is one", self.client.place())))
    }

    async fn kept(&self, _: &Stream, _: &str) -> Result<Option<Bytes>> {
        Ok(None)
    }
}
