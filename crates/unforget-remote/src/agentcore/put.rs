//! Adding a segment where none is yet.
//!
//! The service has no conditional write. What takes its place is its client token: a repeated token with another request is refused. So the token of a segment
//! is made of its position alone, and of two writers at one position the second is told so. For how long, and among whom a token is remembered, is not
//! documented, so nobody relies on it: whoever has written looks at the newest events (unfiltered, which the service reads consistently) and
//! is done only when its segment stands alone where it belongs. If another stands beside it, the later of the two goes; the earlier waits until it is gone, and goes
//! itself if it stays, because then its writer may have seen it alone. So at most one of them is ever told "done". A reader that sees two
//! waits a little longer than that.
//!
//! A token that was used for an event that is gone (a deleted stream begins again) is no obstacle: if nothing stands at the position, the
//! next token is tried.

use bytes::Bytes;
use serde_json::Number;
use unforget_core::encode;

use super::chain::{self, Chain, Known, Link, Name};
use super::client::Created;
use super::names::Place;
use super::parts::{self, Body, PART, Part};
use super::shelf::{AgentCore, LOOK_PAUSE};
use super::wire::{CreateEvent, Item, Metadata};
use crate::error::{Error, Result};
use crate::retry::{Patience, again};
use crate::shelf::{Placed, Put, Segment, Shelf as _};
use crate::stream::Stream;

/// How many tokens of deleted events are passed over.
const TOKENS: u32 = 64;
/// How often a writer that is not alone looks again.
const WRITER_LOOKS: u32 = 5;

/// What became of a segment that was written.
enum Standing {
    /// It is history.
    Alone,
    /// Another one is, or what it follows is gone.
    Lost,
    /// It is not there.
    Gone,
}

impl AgentCore {
    /// Adds a segment, and makes sure of it.
    pub(super) async fn place(&self, stream: &Stream, behind: Option<&Placed>, segment: &Segment) -> Result<Put> {
        let place = Place::of(stream);
        let name = behind.map(|placed| chain::name_of(&placed.head));
        let after = behind.map_or(0, |placed| placed.mark.saturating_add(1));
        let (body, at) = self.write_parts(&place, &segment.body, self.now().max(after)).await?;
        for number in 0..TOKENS {
            let (first, number) = (segment.first.to_string(), number.to_string());
            let position = chain::spelled(name.as_ref());
            let token = token_of(&["segment", &place.actor, &place.session, &position, &first, &number]);
            let metadata = chain::metadata(segment, name.as_ref());
            let created = self.write(&place, at, metadata, parts::payload(&body), token).await?;
            let standing = match &created {
                Created::Event(id) => self.stands(&place, id, name).await?,
                Created::Other => {
                    let (_, known) = self.seen(&place, |_, _| true).await?;
                    let last = if let Known::Chain(chain) = &known { chain.links.last() } else { None };
                    if last.map(|last| last.name) == name { Standing::Gone } else { Standing::Lost }
                }
            };
            match (standing, created) {
                (Standing::Alone, Created::Event(id)) => {
                    let mark = chain::milliseconds(&id);
                    let head = segment.head.clone();
                    return Ok(Put::Done(Placed { first: segment.first, end: segment.end, head, mark }));
                }
                (Standing::Gone, _) => {}
                (_, created) => {
                    let own = if let Created::Event(id) = &created { Some(id.as_str()) } else { None };
                    self.withdraw(&place, own, &body).await?;
                    return Ok(Put::Taken);
                }
            }
        }
        let reason = format!("{stream} was deleted too often in a short time");
        Err(Error::Unavailable { place: self.name(), reason, wait: None })
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
    async fn stands(&self, place: &Place, id: &str, behind: Option<Name>) -> Result<Standing> {
        for _ in 0..WRITER_LOOKS {
            let is_enough = |links: &[Link], chain: &Chain| {
                let is_seen = links.last().is_some_and(|oldest| oldest.id.as_str() <= id);
                is_seen && behind.is_none_or(|name| chain.links.iter().any(|link| link.name == name))
            };
            let (links, known) = self.seen(place, is_enough).await?;
            if let Some(standing) = judge(&links, &known, id, behind) {
                return Ok(standing);
            }
            self.client.pace.clock.sleep(LOOK_PAUSE).await;
        }
        Ok(Standing::Lost)
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

/// What became of a segment, by what is there; nothing if that is not decided yet.
fn judge(links: &[Link], known: &Known, id: &str, behind: Option<Name>) -> Option<Standing> {
    let Some(mine) = links.iter().find(|link| link.id == id) else { return Some(Standing::Gone) };
    if behind.is_some_and(|name| !links.iter().any(|link| link.name == name)) {
        return Some(Standing::Lost);
    }
    let is_followed = |link: &Link| links.iter().any(|next| next.behind == Some(link.name));
    let rivals: Vec<&Link> = links.iter().filter(|link| link.behind == behind && link.id != id).collect();
    if rivals.is_empty() || is_followed(mine) {
        let is_history = matches!(known, Known::Chain(chain) if chain.links.iter().any(|link| link.id == id));
        return Some(if is_history { Standing::Alone } else { Standing::Lost });
    }
    rivals.iter().any(|rival| rival.id.as_str() < id || is_followed(rival)).then_some(Standing::Lost)
}

fn token_of(parts: &[&str]) -> String {
    encode::sha256_hex(parts.join("\n").as_bytes())
}
