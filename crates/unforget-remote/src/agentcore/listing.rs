//! Which streams there are.
//!
//! The service lists actors and their sessions, under names that cannot always be read back; the segments of each say whose it is. A session without segments is
//! none: it was deleted, and the service keeps its name for a while.

use futures_util::future::try_join_all;

use super::chain;
use super::names::{self, Place};
use super::shelf::{AgentCore, FEW, MAX_PAGES};
use crate::error::Result;
use crate::remote::Listing;
use crate::retry::{Patience, again};
use crate::stream::{Prefix, Stream};

/// How many streams are asked for their names at once, and how many a list has before it is cut.
const ASKED: usize = 8;
const STREAMS: usize = 100;
/// How many actors a tenant may have.
const MAX_ACTORS: usize = 1 << 16;

impl AgentCore {
    /// Some of the streams that match.
    pub(super) async fn streams(&self, prefix: &Prefix, cursor: Option<&str>) -> Result<Listing> {
        // A cursor is an actor and, behind a line feed, where to go on among its sessions.
        let (from, mut next) = match cursor.and_then(|cursor| cursor.split_once('\n')) {
            Some((actor, token)) => (actor, Some(token.to_owned()).filter(|token| !token.is_empty())),
            None => ("", None),
        };
        let mut listing = Listing::default();
        let actors = self.actors(prefix).await?;
        let session = prefix.parts().get(2).map(|session| (*session).to_owned());
        for actor in actors.iter().filter(|actor| actor.as_str() >= from) {
            // A place among the sessions of another actor, which is gone, says nothing.
            next = next.filter(|_| actor == from);
            for number in 0..=MAX_PAGES {
                if number == MAX_PAGES {
                    return Err(self.client.endless());
                }
                if listing.streams.len() >= STREAMS {
                    listing.next = Some(format!("{actor}\n{}", next.unwrap_or_default()));
                    return Ok(listing);
                }
                let page = again(Patience::default(), "sessions", || self.client.sessions(actor, next.clone())).await?;
                let ids = page.session_summaries.into_iter().map(|summary| summary.session_id);
                let ids = ids.filter(|id| session.as_ref().is_none_or(|session| names::may_belong(id, session)));
                let places: Vec<Place> = ids.map(|id| Place { actor: actor.clone(), session: id }).collect();
                for some in places.chunks(ASKED) {
                    let found = try_join_all(some.iter().map(|place| self.stream_at(place))).await?;
                    listing.streams.extend(found.into_iter().flatten().filter(|stream| prefix.matches(stream)));
                }
                next = self.client.next_page(next.as_deref(), page.next_token)?;
                if next.is_none() {
                    break;
                }
            }
            next = None;
        }
        Ok(listing)
    }

    /// The stream of a session, if it has segments: each of them names it. So a stream of which a part is damaged or missing is listed like others.
    async fn stream_at(&self, place: &Place) -> Result<Option<Stream>> {
        let (mut next, mut has_segments) = (None::<String>, false);
        for _ in 0..MAX_PAGES {
            let page = again(Patience::default(), "name", || self.client.list(place, FEW, next.clone())).await?;
            let ours = page.events.iter().filter(|event| event.session_id == place.session);
            let mut streams = ours.clone().filter_map(chain::stream_in);
            if let Some(stream) = streams.find(|stream| Place::of(stream) == *place) {
                return Ok(Some(stream));
            }
            has_segments |= ours.clone().any(chain::is_segment);
            next = self.client.next_page(next.as_deref(), page.next_token)?;
            if next.is_none() {
                break;
            }
        }
        if has_segments {
            // A damaged stream must not hide all others.
            tracing::warn!(
                actor = place.actor,
                session = place.session,
                "a stream cannot be listed: nothing in it says its name"
            );
        }
        Ok(None)
    }

    /// The actors of a prefix, in order.
    async fn actors(&self, prefix: &Prefix) -> Result<Vec<String>> {
        let parts = prefix.parts();
        let tenant = parts.first().copied().unwrap_or_default();
        if let Some(place) = parts.get(1) {
            return Ok(vec![names::actor(tenant, place)]);
        }
        let (mut actors, mut next) = (Vec::new(), None::<String>);
        let wanted = names::tenant(tenant);
        for number in 0..=MAX_PAGES {
            if number == MAX_PAGES {
                return Err(self.client.endless());
            }
            let page = again(Patience::default(), "actors", || self.client.actors(next.clone())).await?;
            let ids = page.actor_summaries.into_iter().map(|actor| actor.actor_id);
            actors.extend(ids.filter(|actor| actor.starts_with(&wanted) && actor.len() <= names::MAX_ACTOR));
            if actors.len() > MAX_ACTORS {
                return Err(self.client.endless());
            }
            next = self.client.next_page(next.as_deref(), page.next_token)?;
            if next.is_none() {
                break;
            }
        }
        actors.sort();
        actors.dedup();
        Ok(actors)
    }
}
