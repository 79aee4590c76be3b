//! A session as every list shows it: what the store knows of it, and what only the server knows.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use unforget_agent::prices::{Cost, Prices};
use unforget_core::Error;
use unforget_core::directory::Entry;
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::mask::mask;
use unforget_core::stamp::{self, SessionId};
use unforget_core::store::Holders;
use unforget_core::summary::{Row, State};

use crate::error::{Problem, Result};
use crate::live::Live;
use crate::realm::Realm;

/// A session as every list shows it. Secrets in its names are masked.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ListedSession {
    pub id: String,
    /// Its key; none if the header is lost.
    pub key: Option<String>,
    pub label: Option<String>,
    pub title: Option<String>,
    pub created: Option<String>,
    pub updated: Option<String>,
    /// How often the user spoke on the way to the head.
    pub turns: u64,
    pub records: u64,
    /// Tokens that its calls took, in and out.
    pub tokens: u64,
    /// What it cost; none if a part of it has no price.
    pub cost_usd: Option<f64>,
    pub model: Option<String>,
    /// The record that the conversation goes on from.
    pub head: Option<u64>,
    /// How long it is kept, if that was said of it.
    pub expires: Option<String>,
    /// Whether it stays at the top of lists.
    pub pinned: bool,
    pub bytes: u64,
    /// How many places of it are damaged.
    pub damage: u64,
    pub state: &'static str,
    /// Whether a program has it open for writing.
    pub live: bool,
    /// Whether a turn runs in this server.
    pub busy: bool,
    /// How many connections of this server watch it.
    pub viewers: usize,
}

impl ListedSession {
    /// A row of the store's list.
    pub fn of(row: &Row, cost_usd: Option<f64>, is_live: bool) -> Self {
        let masked = |text: &Option<String>| text.as_deref().map(|text| mask(text).into_owned());
        Self {
            id: row.id.clone(),
            key: row.key.clone(),
            label: masked(&row.label),
            title: masked(&row.title),
            created: row.created_ms.map(stamp::rfc3339),
            updated: row.updated_ms.map(stamp::rfc3339),
            turns: row.turns,
            records: row.records,
            tokens: row.tokens,
            cost_usd,
            model: row.model.clone(),
            head: row.head,
            expires: row.expires.clone(),
            pinned: row.pinned,
            bytes: row.bytes,
            damage: row.damage,
            state: row.state.name(),
            live: is_live,
            busy: false,
            viewers: 0,
        }
    }
}

/// What this process knows of an actor's live sessions.
#[derive(Debug, Default)]
pub(crate) struct Present {
    live: HashMap<SessionId, Arc<Live>>,
    /// What tokens cost; none where no prices are set.
    prices: Option<Arc<Prices>>,
}

impl Present {
    pub(super) fn new(live: Vec<Arc<Live>>, prices: Arc<Prices>) -> Self {
        let live = live.into_iter().map(|live| (live.name().id.clone(), live));
        Self { live: live.collect(), prices: Some(prices) }
    }

    /// What a session cost, in dollars; none if a part of it has no price.
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

    /// A session of the list.
    pub(super) fn show(&self, realm: &Realm, entry: &Entry, is_held: bool) -> ListedSession {
        self.with_live(ListedSession::of(&entry.row, self.cost(realm, entry), is_held))
    }

    /// A session without a transcript so far.
    pub(super) fn begun(&self, id: &SessionId, key: &Key, label: Option<&str>) -> ListedSession {
        let (key, label) = (Some(key.to_string()), label.map(str::to_owned));
        let row = Row { id: id.to_string(), key, label, state: State::Ok, ..Row::default() };
        self.with_live(ListedSession::of(&row, self.prices.is_some().then_some(0.0), false))
    }

    fn with_live(&self, shown: ListedSession) -> ListedSession {
        let live = SessionId::parse(&shown.id).and_then(|id| self.live.get(&id)).filter(|live| !live.is_over());
        let Some(live) = live else { return shown };
        ListedSession { live: true, busy: live.is_busy(), viewers: live.viewers(), ..shown }
    }
}

/// Whether a program has the session open for writing.
pub(super) fn is_held(realm: &Realm, entry: &Entry, holders: &Holders) -> bool {
    if holders.is_empty() {
        return false;
    }
    let path = realm.store().path(entry).ok();
    let stat = path.and_then(|path| realm.store().medium().stat(&path).ok());
    stat.is_some_and(|stat| holders.contains_key(&stat.identity))
}

/// The session of an id with all that a list knows of it, and whether a program writes it.
pub(super) fn find(realm: &Realm, place: Place, id: &SessionId) -> Result<(Entry, bool)> {
    let found = match realm.catalog().resolve(place, id.as_str(), &mut |_, _| {}) {
        // A name that could mean several is not the id of one.
        Err(Error::NotFound { .. } | Error::Ambiguous { .. }) => None,
        other => Some(other?.value),
    };
    // A session whose id only begins so, or whose label is this text, is another one.
    let entry = found.filter(|entry| entry.row.id == id.as_str()).ok_or_else(Problem::no_session)?;
    let holders = realm.store().medium().lock_holders().unwrap_or_default();
    let is_held = is_held(realm, &entry, &holders);
    Ok((entry, is_held))
}
