//! A session as an answer shows it: what the list knows of it, and what only the server knows.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use unforget_agent::prices::{Cost, Prices};
use unforget_core::directory::Entry;
use unforget_core::layout::Place;
use unforget_core::mask::mask;
use unforget_core::stamp::{self, SessionId};
use unforget_core::store::Holders;
use unforget_core::summary::{Row, State};

use crate::app::App;
use crate::error::{Problem, Result};
use crate::live::Live;
use crate::realm::Realm;

/// What the server knows of an actor's live sessions.
#[derive(Default)]
pub(super) struct Present {
    live: HashMap<SessionId, Arc<Live>>,
    /// What tokens cost; none where nobody said.
    prices: Option<Arc<Prices>>,
}

impl Present {
    pub(super) fn of(app: &App, realm: &Realm) -> Self {
        let live = app.hub.live_ones(realm.actor()).into_iter();
        Self { live: live.map(|live| (live.name().id.clone(), live)).collect(), prices: Some(app.prices.clone()) }
    }

    /// What a session cost, in dollars; none if any of it is not known.
    fn cost(&self, realm: &Realm, entry: &Entry) -> Option<f64> {
        let prices = self.prices.as_ref()?;
        if !matches!(entry.row.state, State::Ok | State::Deleted) {
            return None;
        }
        let mut cost = Cost::default();
        if entry.row.tokens > 0 {
            for (_, model, line) in realm.catalog().spent_by(entry).lines() {
                cost += prices.cost(model, line);
            }
        }
        cost.dollars().filter(|_| cost.unpriced == 0)
    }

    /// The session as JSON, without the secrets that its names may have. It is live if it is in use here, or if another program is writing it.
    pub(super) fn show(&self, realm: &Realm, entry: &Entry, is_held: bool) -> Value {
        self.shown(&entry.row, is_held, self.cost(realm, entry))
    }

    /// A session of which nothing was written yet.
    pub(super) fn begun(&self, id: &SessionId, key: &str, label: Option<&str>) -> Value {
        let (key, label) = (Some(key.to_owned()), label.map(str::to_owned));
        let row = Row { id: id.to_string(), key, label, state: State::Ok, ..Row::default() };
        self.shown(&row, false, self.prices.is_some().then_some(0.0))
    }

    fn shown(&self, row: &Row, is_held: bool, cost_usd: Option<f64>) -> Value {
        let live = SessionId::parse(&row.id).and_then(|id| self.live.get(&id)).filter(|live| !live.is_over());
        json!({
            "id": row.id,
            "key": row.key,
            "label": row.label.as_deref().map(mask),
            "title": row.title.as_deref().map(mask),
            "created": row.created_ms.map(stamp::rfc3339),
            "updated": row.updated_ms.map(stamp::rfc3339),
            "turns": row.turns,
            "records": row.records,
            "tokens": row.tokens,
            "cost_usd": cost_usd,
            "model": row.model,
            "head": row.head,
            "expires": row.expires,
            "pinned": row.pinned,
            "bytes": row.bytes,
            "damage": row.damage,
            "state": row.state.name(),
            "live": live.is_some() || is_held,
            "busy": live.is_some_and(|live| live.is_busy()),
            "viewers": live.map_or(0, |live| live.viewers()),
        })
    }
}

/// Whether another program, or this one, has a session open for writing.
pub(super) fn is_held(realm: &Realm, entry: &Entry, holders: &Holders) -> bool {
    if holders.is_empty() {
        return false;
    }
    let path = realm.store().path(entry).ok();
    let stat = path.and_then(|path| realm.store().medium().stat(&path).ok());
    stat.is_some_and(|stat| holders.contains_key(&stat.identity))
}

/// The session of an id with everything that a list knows of it, and whether somebody writes it.
pub(super) fn find(realm: &Realm, place: Place, id: &SessionId) -> Result<(Entry, bool)> {
    let found = match realm.catalog().resolve(place, id.as_str(), &mut |_, _| {}) {
        // A name that could mean several is not the id of one.
        Err(unforget_core::Error::NotFound { .. } | unforget_core::Error::Ambiguous { .. }) => None,
        other => Some(other?.value),
    };
    // What begins like it, or is labelled so, is something else.
    let entry = found.filter(|entry| entry.row.id == id.as_str()).ok_or_else(Problem::no_session)?;
    let holders = realm.store().medium().lock_holders().unwrap_or_default();
    let is_held = is_held(realm, &entry, &holders);
    Ok((entry, is_held))
}
