//! A shelf on events: which segment holds a line, and how all of them are deleted. `put` adds segments, `listing` finds streams.
//!
//! Where a segment is does not change, so it is remembered: a stream that is read from its beginning is listed once, not once for each segment. What is
//! remembered is proved by the event itself, and forgotten when that is gone.
//!
//! Deleting goes from the oldest event to the newest: a deletion that was cut short leaves a history that says that its beginning is missing, never a shorter one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::chain::{self, Chain, Known, Link, Name, Seen};
use super::client::Client;
use super::names::Place;
use super::pace::{Clock, SystemClock};
use super::parts::{self, Body};
use super::settings::Settings;
use super::wire::Events;
use crate::error::{Error, Result};
use crate::packed::Packed;
use crate::remote::Listing;
use crate::retry::{Patience, again};
use crate::segment;
use crate::shelf::{Placed, Put, Segment, Shelf};
use crate::stream::{Prefix, Stream};

/// How many of the newest events are looked at first, and how many a page has if they do not suffice.
pub(super) const FEW: u32 = 10;
const PAGE: u32 = 100;
/// How many pages a list may have.
pub(super) const MAX_PAGES: usize = 2_000;
/// How many segments of a session are looked at: a service that invents more of them than any session has fills no memory.
const MAX_SEGMENTS: usize = 1 << 16;
/// How often a reader looks again that sees two segments at one position: for longer than their writers do.
const READER_LOOKS: u32 = 8;
/// How often a reader looks that sees a segment whose predecessor is missing.
const HOLE_LOOKS: u32 = 3;
/// How long to wait before looking again.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How often a stream that is being written to is tried to be deleted.
const DELETIONS: usize = 16;
/// How many streams' histories are remembered.
pub(super) const REMEMBERED: usize = 64;

/// A shelf in AgentCore Memory.
#[derive(Debug)]
pub struct AgentCore {
    pub(super) client: Client,
    /// Where segments are that cannot change any more; each is proved when it is read.
    histories: Mutex<HashMap<Stream, Vec<Slot>>>,
    /// Segments that were written and that no list has shown yet.
    pub(super) unsettled: Mutex<HashMap<Stream, Unsettled>>,
}

/// A segment that was written and that no list has shown yet.
#[derive(Debug, Clone)]
pub(super) struct Unsettled {
    pub(super) head: Bytes,
    pub(super) id: String,
    pub(super) body: Body,
    /// How many tokens were refused before it was written.
    pub(super) attempt: u32,
}

/// Where a segment is.
#[derive(Debug, Clone)]
struct Slot {
    id: String,
    first: u64,
    end: u64,
    name: Name,
}

impl From<Link> for Slot {
    fn from(link: Link) -> Self {
        Self { id: link.id, first: link.first, end: link.end, name: link.name }
    }
}

impl AgentCore {
    /// A shelf in a memory.
    pub fn new(settings: &Settings) -> Result<Self> {
        Self::with_clock(settings, Arc::new(SystemClock))
    }

    /// The same, with another clock.
    pub fn with_clock(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self { client: Client::new(settings, clock)?, histories: Mutex::default(), unsettled: Mutex::default() })
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
        let mut gathered = Gathered::default();
        if let Some(known) = gathered.add(place, first, &is_enough)? {
            return Ok((gathered.links, known));
        }
        gathered = Gathered::default();
        let mut next = None;
        for _ in 0..MAX_PAGES {
            let page = self.client.list(place, PAGE, next.clone()).await?;
            let behind = page.next_token.clone();
            if let Some(known) = gathered.add(place, page, &is_enough)? {
                return Ok((gathered.links, known));
            }
            if gathered.links.len() > MAX_SEGMENTS {
                return Err(self.client.endless());
            }
            next = self.client.next_page(next.as_deref(), behind)?;
        }
        Err(self.client.endless())
    }

    /// The history of a stream, from its newest segment back as far as is wanted. What looks odd is looked at again: a writer may be about to clear it up.
    async fn history(
        &self,
        stream: &Stream,
        is_enough: impl Fn(&[Link], &Chain) -> bool + Send + Sync,
    ) -> Result<Option<Chain>> {
        let place = Place::of(stream);
        for look in 1..=READER_LOOKS {
            let (_, known) = self.seen(&place, &is_enough).await?;
            let Known::Chain(chain) = known else { return Ok(None) };
            // A beginning that has expired does not come back.
            let has_hole = chain.hole.as_ref().is_some_and(|hole| !hole.before.is_empty() || hole.is_disputed);
            let is_odd = chain.is_contested || (has_hole && look < HOLE_LOOKS);
            if !is_odd || look == READER_LOOKS {
                return Ok(Some(chain));
            }
            tracing::debug!(%stream, look, has_hole, "looking again at two segments at one position, or a missing one");
            self.client.pace.clock.sleep(LOOK_PAUSE * look).await;
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
        let body = parts::body(&event).map_err(damaged)?;
        // The parts that it names may be any number of times the same one.
        let length = body.length();
        if !segment::is_plausible(&link.head, length) {
            return Err(damaged("it has more bytes than its lines can take"));
        }
        let body = match body {
            Body::Inline(bytes) => bytes,
            Body::Parts(parts) => {
                let mut body = segment::room_for(usize::try_from(length).unwrap_or_default());
                for part in &parts {
                    let found = again(Patience::default(), "part", || self.client.get(&place, &part.id)).await?;
                    let found = found.ok_or_else(|| damaged("a part of it is gone; it was deleted, or has expired"))?;
                    body.extend_from_slice(&parts::read(&found, part).map_err(damaged)?);
                }
                body.into()
            }
        };
        Ok(Some(Segment { first: link.first, end: link.end, head: link.head, body }))
    }

    /// The segment in an event that was listed just now.
    async fn present(&self, stream: &Stream, slot: &Slot) -> Result<Segment> {
        let gone = || Error::Corrupt {
            what: stream.to_string(),
            reason: format!("the segment at line {} is gone: it was deleted, or has expired", slot.first),
        };
        self.fetch(stream, slot).await?.ok_or_else(gone)
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

/// The segments of the pages that were read so far.
#[derive(Debug, Default)]
struct Gathered {
    links: Vec<Link>,
    /// Their ids: a list may show an event twice.
    ids: HashSet<String>,
    /// The last event that was read.
    oldest: Option<String>,
    /// Whether an event was newer than the one before it. Then the pages are no measure of what is newest.
    is_unsorted: bool,
}

impl Gathered {
    /// Takes in a page; tells what is known if no further page is needed.
    fn add(
        &mut self,
        place: &Place,
        page: Events,
        is_enough: impl Fn(&[Link], &Chain) -> bool,
    ) -> Result<Option<Known>> {
        for event in &page.events {
            if event.actor_id != place.actor || event.session_id != place.session {
                tracing::warn!(event = event.event_id, session = place.session, "ignored another session's event");
                continue;
            }
            self.is_unsorted |= self.oldest.as_ref().is_some_and(|oldest| event.event_id > *oldest);
            self.oldest = Some(event.event_id.clone());
            let Some(link) = chain::read(event)? else { continue };
            let stream = segment::stream_of(&link.head);
            if stream.is_none_or(|stream| Place::of(&stream) != *place) {
                tracing::warn!(event = link.id, session = place.session, "ignored another stream's segment");
                continue;
            }
            if self.ids.insert(link.id.clone()) {
                self.links.push(link);
            }
        }
        if page.next_token.is_none() {
            return Ok(Some(chain::resolve(&self.links, Seen::All)));
        }
        let known = chain::resolve(&self.links, Seen::Newest);
        // Behind the beginning of a stream there should be no more pages. If there are, they may be the newest ones.
        let is_newest = |chain: &Chain| chain.links.first().is_some_and(|first| first.behind.is_some());
        let suffices = |chain: &Chain| !self.is_unsorted && is_newest(chain) && is_enough(&self.links, chain);
        Ok(matches!(&known, Known::Chain(chain) if suffices(chain)).then_some(known))
    }
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
        let found = chain.holding(line).map_err(|hole| {
            self.remember(stream, None);
            Error::Corrupt { what: stream.to_string(), reason: hole.reason() }
        })?;
        if chain.hole.as_ref().is_some_and(|hole| hole.from > 0) {
            let slot = found.cloned().map(Slot::from);
            return match slot {
                Some(slot) => self.present(stream, &slot).await.map(Some),
                None => Ok(None),
            };
        }
        let start = chain.links.first().map(|start| (start.first, start.behind));
        let mut slots: Vec<Slot> = Vec::new();
        if let Some((first, Some(behind))) = start
            && let Some(at) = settled.iter().position(|slot| slot.name == behind && slot.end == first)
        {
            slots.extend_from_slice(&settled[..=at]);
        }
        slots.extend(chain.links.into_iter().map(Slot::from));
        self.remember(stream, Some(slots.clone()));
        match slots.iter().find(|slot| (slot.first..slot.end).contains(&line)) {
            Some(slot) => self.present(stream, slot).await.map(Some),
            None => Ok(None),
        }
    }

    async fn list(&self, prefix: &Prefix, cursor: Option<&str>) -> Result<Listing> {
        self.streams(prefix, cursor).await
    }

    async fn delete(&self, stream: &Stream) -> Result<()> {
        let place = Place::of(stream);
        self.remember(stream, None);
        self.settle(stream, None);
        for _ in 0..DELETIONS {
            let (mut ids, mut next) = (Vec::new(), None::<String>);
            for _ in 0..MAX_PAGES {
                let page = again(Patience::default(), "list", || self.client.list(&place, PAGE, next.clone())).await?;
                ids.extend(page.events.into_iter().map(|event| event.event_id));
                next = self.client.next_page(next.as_deref(), page.next_token)?;
                if next.is_none() {
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
