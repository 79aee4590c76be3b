//! Adding a segment where none is yet.
//!
//! The service has no conditional write. What takes its place is its client token: a repeated token with another request is refused. So the token of a segment
//! is made of its position alone, and of two writers at one position the service refuses the second. For how long, and among whom a token is remembered, is not
//! documented, so a token alone is no proof. A writer looks at the newest events (unfiltered, which the service is said to read consistently) until a list shows
//! its own segment, where it belongs and without a rival. If a rival has as many refused tokens, the later of the two goes; the earlier waits until
//! it is gone, and goes itself if it stays, because then its writer may have seen it alone. So at most one of them is ever acknowledged. A reader that sees two
//! waits a little longer than that.
//!
//! A list may be stale. A list that does not show the writer's own segment proves nothing: the writer looks again, a bounded number of times, and then reports the
//! segment as not acknowledged. It leaves the segment where it is, since others may see it and go on from it; a repeated call asks for the same one.
//!
//! A refused token says that a segment was written at this position. If no list shows it, it was deleted, or the lists are stale. The writer
//! cannot tell, so it writes with the next token and counts the refused ones in `attempt`: a list that shows this segment also shows what was written before it, and if that
//! is still there, it counts (`chain`). This rests on one property of the service, which is written down in docs/remote.md: a list that shows an event shows every
//! event that was written before it.

use std::sync::PoisonError;

use bytes::Bytes;
use serde_json::Number;
use unforget_core::encode;

use super::chain::{self, Chain, Known, Link, Name};
use super::client::Created;
use super::names::Place;
use super::parts::{self, Body, PART, Part};
use super::shelf::{AgentCore, LOOK_PAUSE, REMEMBERED, Unsettled};
use super::wire::{CreateEvent, Item, Metadata};
use crate::error::{Error, Result};
use crate::retry::{Patience, again};
use crate::shelf::{Placed, Put, Segment, Shelf as _};
use crate::stream::Stream;

/// How many tokens of deleted events are passed over.
const TOKENS: u32 = 64;
/// How often a writer looks that does not see its segment, or not alone.
const WRITER_LOOKS: u32 = 5;
/// How often a writer looks for the segment that its token was used for.
const TOKEN_LOOKS: u32 = 3;

/// What became of a segment that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is history.
    Alone,
    /// Another one is, or what it follows is gone.
    Lost,
    /// No list shows it.
    Unseen,
}

impl AgentCore {
    /// Adds a segment, and makes sure of it.
    pub(super) async fn place(&self, stream: &Stream, behind: Option<&Placed>, segment: &Segment) -> Result<Put> {
        let place = Place::of(stream);
        let name = behind.map(|placed| chain::name_of(&placed.head));
        let written = match self.unsettled(stream).filter(|written| written.head == segment.head) {
            Some(written) => Some(written),
            None => {
                let after = behind.map_or(0, |placed| placed.mark.saturating_add(1));
                self.write_segment(stream, segment, name, after).await?
            }
        };
        self.settle(stream, None);
        let Some(written) = written else { return Ok(Put::Taken) };
        match self.stands(&place, &written, name).await {
            Ok(Standing::Alone) => {
                let (first, end, mark) = (segment.first, segment.end, chain::milliseconds(&written.id));
                Ok(Put::Done(Placed { first, end, head: segment.head.clone(), mark }))
            }
            Ok(Standing::Lost) => {
                self.withdraw(&place, Some(&written.id), &written.body).await?;
                Ok(Put::Taken)
            }
            Ok(Standing::Unseen) => match self.client.get(&place, &written.id).await? {
                // It was deleted meanwhile, and the stream with it.
                None => Ok(Put::Taken),
                Some(_) => {
                    self.settle(stream, Some(written));
                    let reason = format!("its list of {stream} is stale: it does not show what was written just now");
                    Err(Error::Unavailable { place: self.name(), reason, wait: None })
                }
            },
            Err(error) => {
                self.settle(stream, Some(written));
                Err(error)
            }
        }
    }

    fn unsettled(&self, stream: &Stream) -> Option<Unsettled> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).get(stream).cloned()
    }

    pub(super) fn settle(&self, stream: &Stream, written: Option<Unsettled>) {
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        match written {
            Some(written) => {
                if unsettled.len() >= REMEMBERED {
                    unsettled.clear();
                }
                unsettled.insert(stream.clone(), written);
            }
            None => {
                unsettled.remove(stream);
            }
        }
    }

    /// Writes a segment with the first token that the service takes; none if another one stands at its position.
    async fn write_segment(
        &self,
        stream: &Stream,
        segment: &Segment,
        name: Option<Name>,
        after: u64,
    ) -> Result<Option<Unsettled>> {
        let place = Place::of(stream);
        let (body, at) = self.write_parts(&place, &segment.body, self.now().max(after)).await?;
        let (position, first) = (chain::spelled(name.as_ref()), segment.first.to_string());
        for attempt in 0..TOKENS {
            let token = token_of(&["segment", &place.actor, &place.session, &position, &first, &attempt.to_string()]);
            let metadata = chain::metadata(segment, name.as_ref(), attempt);
            if let Created::Event(id) = self.write(&place, at, metadata, parts::payload(&body), token).await? {
                return Ok(Some(Unsettled { head: segment.head.clone(), id, body, attempt }));
            }
            if self.is_taken(&place, name).await? {
                self.withdraw(&place, None, &body).await?;
                return Ok(None);
            }
        }
        let reason = format!("{stream} was deleted too often in a short time");
        Err(Error::Unavailable { place: self.name(), reason, wait: None })
    }

    /// Whether a list shows a segment at a position whose token was refused, or not even the one before it.
    async fn is_taken(&self, place: &Place, behind: Option<Name>) -> Result<bool> {
        for look in 1..=TOKEN_LOOKS {
            let (links, _) = self.seen(place, |links, _| behind.is_some() && has(links, behind)).await?;
            if !has(&links, behind) || links.iter().any(|link| link.behind == behind) {
                return Ok(true);
            }
            if look < TOKEN_LOOKS {
                self.client.pace.clock.sleep(LOOK_PAUSE * look).await;
            }
        }
        Ok(false)
    }

    /// Writes an event.
    async fn write(
        &self,
        place: &Place,
        at: u64,
        metadata: Metadata,
        payload: Vec<Item>,
        token: String,
    ) -> Result<Created> {
        let seconds = Number::from_f64(at as f64 / 1000.0);
        let request = CreateEvent {
            actor_id: place.actor.clone(),
            session_id: Some(place.session.clone()),
            event_timestamp: seconds.ok_or_else(|| Error::Invalid("the clock shows no time".to_owned()))?,
            payload,
            branch: None,
            metadata,
            client_token: Some(token),
            extraction_mode: Some("SKIP".to_owned()),
        };
        self.client.create(&request).await
    }

    /// Writes the parts of a body that one event cannot hold; the time behind the last one comes with it.
    async fn write_parts(&self, place: &Place, body: &Bytes, from: u64) -> Result<(Body, u64)> {
        if body.len() <= PART {
            return Ok((Body::Inline(body.clone()), from));
        }
        let (mut written, mut at) = (Vec::new(), from);
        for piece in body.chunks(PART) {
            let digest = encode::sha256_hex(piece);
            let token = token_of(&["part", &place.actor, &place.session, &digest, &at.to_string()]);
            let write = || self.write(place, at, chain::part(), parts::part(piece), token.clone());
            let Created::Event(id) = again(Patience::default(), "part", write).await? else {
                let text = format!("{} confuses two events", self.client.place());
                return Err(Error::Invalid(text));
            };
            at = at.max(chain::milliseconds(&id)) + 1;
            written.push(Part { id, digest, length: piece.len() });
        }
        Ok((Body::Parts(written), at))
    }

    /// Looks whether a segment that was written stands where it belongs, alone.
    async fn stands(&self, place: &Place, written: &Unsettled, behind: Option<Name>) -> Result<Standing> {
        // Where a token was refused, a rival may be hidden still: one look is not enough.
        let needed = if written.attempt > 0 { TOKEN_LOOKS } else { 1 };
        let (mut view, mut alone) = (View::Unseen, 0);
        for look in 1..=WRITER_LOOKS {
            let is_enough = |links: &[Link], _: &Chain| {
                links.iter().any(|link| link.id == written.id) && behind.is_some() && has(links, behind)
            };
            let (links, known) = self.seen(place, is_enough).await?;
            view = judge(&links, &known, written, behind);
            alone += u32::from(view == View::Decided(Standing::Alone));
            match view {
                View::Decided(Standing::Alone) if alone < needed => {}
                View::Decided(standing) => return Ok(standing),
                View::Unseen | View::BesideRivals | View::BehindRivals => {}
            }
            if look < WRITER_LOOKS {
                self.client.pace.clock.sleep(LOOK_PAUSE * look).await;
            }
        }
        Ok(match view {
            View::Decided(standing) => standing,
            View::Unseen => Standing::Unseen,
            View::BesideRivals => Standing::Lost,
            // The one before it has outlived the time within which its writer gives up.
            View::BehindRivals => Standing::Alone,
        })
    }

    async fn withdraw(&self, place: &Place, id: Option<&str>, body: &Body) -> Result<()> {
        if let Some(id) = id {
            self.remove(place, id).await?;
        }
        if let Body::Parts(parts) = body {
            for part in parts {
                self.remove(place, &part.id).await?;
            }
        }
        Ok(())
    }
}

/// Whether a segment of a name is among some; the beginning of a stream always is.
fn has(links: &[Link], name: Option<Name>) -> bool {
    name.is_none_or(|name| links.iter().any(|link| link.name == name))
}

/// What a list shows of a segment that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Decided(Standing),
    /// The list does not show it.
    Unseen,
    /// A rival is there that has to go.
    BesideRivals,
    /// The segment before it has a rival, and one of them will go.
    BehindRivals,
}

/// What became of a segment, by what a list shows.
fn judge(links: &[Link], known: &Known, written: &Unsettled, behind: Option<Name>) -> View {
    let Some(mine) = links.iter().find(|link| link.id == written.id) else { return View::Unseen };
    if !has(links, behind) {
        return View::Decided(Standing::Lost);
    }
    let is_followed = |link: &Link| links.iter().any(|next| next.behind == Some(link.name));
    let beside = |of: &Link| {
        let (behind, name, attempt) = (of.behind, of.name, of.attempt);
        links.iter().filter(move |link| link.behind == behind && link.name != name && link.attempt == attempt)
    };
    let rank = |link: &Link| (link.attempt, !is_followed(link), link.id.clone());
    let mut rivals = links.iter().filter(|link| link.behind == behind && link.name != mine.name);
    if rivals.any(|rival| rank(rival) < rank(mine)) {
        return View::Decided(Standing::Lost);
    }
    // A rival with more refused tokens does not count, and its writer will see why.
    if !is_followed(mine) && beside(mine).next().is_some() {
        return View::BesideRivals;
    }
    let is_history = matches!(known, Known::Chain(chain) if chain.links.iter().any(|link| link.id == mine.id || link.name == mine.name));
    if !is_history {
        return View::Decided(Standing::Lost);
    }
    let before = links.iter().find(|link| Some(link.name) == behind);
    if before.is_some_and(|before| beside(before).next().is_some()) {
        return View::BehindRivals;
    }
    View::Decided(Standing::Alone)
}

fn token_of(parts: &[&str]) -> String {
    encode::sha256_hex(parts.join("\n").as_bytes())
}
