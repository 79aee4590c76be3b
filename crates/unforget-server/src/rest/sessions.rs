//! `/sessions`: which there are, one of them, a new one, into the trash and back.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use unforget_core::Error;
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::listing::{Cursor, Filter, ListQuery, PAGE, Sort, Wanted};

use super::ask::{self, Asked, Id, Maybe, Mine, Nothing};
use super::row::{self, Present};
use crate::app::App;
use crate::error::{Code, Problem, Result};
use crate::realm::{Name, Realm};

/// The longest page.
const MOST: usize = 500;
/// How many pages are looked through for a name before the answer is a page that may be empty.
const LOOKED_THROUGH: usize = 20;
/// The longest label.
pub(super) const MAX_LABEL: usize = 200;
/// The longest name that is looked for.
const MAX_NAME: usize = 200;
/// The channel of sessions that are begun here without a key.
const CHANNEL: &str = "api";
/// How long an id is, and what is added to it for a copy that was put aside.
const FULL_ID: usize = 36;
const DIGEST: usize = 16;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    limit: Option<u64>,
    cursor: Option<String>,
    sort: Option<Sort>,
    agent: Option<String>,
    channel: Option<String>,
    peer: Option<String>,
    key: Option<String>,
    label: Option<String>,
    state: Option<Condition>,
    pinned: Option<bool>,
    since: Option<String>,
    until: Option<String>,
    q: Option<String>,
    deleted: Option<bool>,
}

/// How a session should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Condition {
    Ok,
    Live,
    Damaged,
    Missing,
    Mismatch,
    Unreadable,
    Deleted,
}

impl Condition {
    fn wanted(self) -> Option<Wanted> {
        match self {
            Condition::Ok => Some(Wanted::Ok),
            Condition::Live => Some(Wanted::Live),
            Condition::Damaged => Some(Wanted::Damaged),
            Condition::Missing => Some(Wanted::Missing),
            Condition::Mismatch => Some(Wanted::Mismatch),
            Condition::Unreadable => Some(Wanted::Unreadable),
            Condition::Deleted => None,
        }
    }
}

/// What a list is asked for, and what a page of it is looked through for afterwards.
struct Wish {
    ask: ListQuery,
    key: Option<String>,
    name: Option<String>,
}

impl Which {
    fn wish(self) -> Result<Wish> {
        let key = self.key.as_deref().map(str::parse::<Key>).transpose().map_err(Error::from)?;
        let part = |asked: Option<String>, name: &str, part: fn(&Key) -> &str| match (asked, &key) {
            (Some(_), Some(_)) => Err(Problem::invalid(format!("`key` says it all; leave `{name}` out"))),
            (asked, key) => Ok(asked.or_else(|| key.as_ref().map(|key| part(key).to_owned()))),
        };
        let sort = self.sort.unwrap_or_default();
        let cursor = |text: &str| Cursor::parse(text).filter(|cursor| cursor.is_for(sort));
        let after = match self.cursor.as_deref().map(cursor) {
            Some(None) => return Err(Problem::invalid("`cursor` is none of this list; it holds for the same `sort`")),
            other => other.flatten(),
        };
        let is_deleted = self.deleted == Some(true) || self.state == Some(Condition::Deleted);
        let filter = Filter {
            agent: part(self.agent, "agent", Key::agent)?,
            channel: part(self.channel, "channel", Key::channel)?,
            peer: part(self.peer, "peer", Key::peer)?,
            since_ms: ask::time("since", self.since.as_deref())?,
            until_ms: ask::time("until", self.until.as_deref())?,
            label: self.label,
            state: self.state.and_then(Condition::wanted),
            pinned: self.pinned,
        };
        let name = self.q.as_deref().map(|name| ask::words("q", name, MAX_NAME).map(str::to_lowercase)).transpose()?;
        let place = if is_deleted { Place::Trash } else { Place::Agents };
        let limit = ask::bounded("limit", self.limit, PAGE, MOST)?;
        Ok(Wish { ask: ListQuery { place, filter, sort, limit, after }, key: key.map(|key| key.to_string()), name })
    }
}

/// A page of the list.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(which): Asked<Which>,
) -> Result<Response> {
    let wish = which.wish()?;
    app.hub.refresh(&realm).await;
    let present = Present::of(&app, &realm);
    let listed = app.hub.blocking(&realm, move |realm| page(realm, wish, &present)).await?;
    Ok(ask::answer(StatusCode::OK, &listed))
}

/// The same for whoever asks where nothing is live.
pub(crate) fn list_page(realm: &Realm, which: Which) -> Result<Value> {
    page(realm, which.wish()?, &Present::default())
}

/// A page, or several of which none but the last has what is looked for: names are in no index.
fn page(realm: &Realm, mut wish: Wish, present: &Present) -> Result<Value> {
    let mut sessions: Vec<Value> = Vec::new();
    for _ in 0..LOOKED_THROUGH {
        let (answer, holders) = realm.catalog().page(&wish.ask, &mut |_, _| {})?;
        let page = answer.value;
        for entry in &page.entries {
            let row = &entry.row;
            let has = |text: &Option<String>, name: &str| {
                text.as_ref().is_some_and(|text| text.to_lowercase().contains(name))
            };
            let is_named = wish.name.as_ref().is_none_or(|name| has(&row.title, name) || has(&row.label, name));
            let is_of_key = wish.key.as_ref().is_none_or(|key| row.key.as_ref() == Some(key));
            if is_named && is_of_key {
                sessions.push(present.show(realm, entry, row::is_held(realm, entry, &holders)));
            }
        }
        wish.ask.after = page.next;
        if wish.ask.after.is_none() || !sessions.is_empty() {
            break;
        }
    }
    Ok(json!({ "sessions": sessions, "next": wish.ask.after.as_ref().map(Cursor::to_text) }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    key: Option<String>,
    agent: Option<String>,
    channel: Option<String>,
    peer: Option<String>,
    label: Option<String>,
}

impl New {
    fn key(&self, usual: &str) -> Result<Key> {
        let parts = [&self.agent, &self.channel, &self.peer];
        match &self.key {
            Some(_) if parts.iter().any(|part| part.is_some()) => {
                Err(Problem::invalid("`key` says it all; leave `agent`, `channel` and `peer` out"))
            }
            Some(key) => Ok(key.parse::<Key>().map_err(Error::from)?),
            None => {
                let fresh = uuid::Uuid::now_v7().to_string();
                let (agent, channel) =
                    (self.agent.as_deref().unwrap_or(usual), self.channel.as_deref().unwrap_or(CHANNEL));
                let peer = self.peer.as_deref().unwrap_or(&fresh);
                Ok(Key::new(agent, channel, None, peer).map_err(Error::from)?)
            }
        }
    }
}

/// A new session, which is its key's current one from then on.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Maybe(new): Maybe<New>,
) -> Result<Response> {
    let key = new.key(app.hub.agents().usual())?;
    let label = new.label.as_deref().map(|label| ask::words("label", label, MAX_LABEL)).transpose()?;
    let label = label.filter(|label| !label.is_empty());
    let id = app.hub.begin(&realm, &key, label).await?;
    let present = Present::of(&app, &realm);
    // One of another program has no transcript before its first word.
    let fallback = present.begun(&id, &key.to_string(), label);
    let shown = app.hub.blocking(&realm, move |realm| match row::find(realm, Place::Agents, &id) {
        Ok((entry, is_held)) => Ok(present.show(realm, &entry, is_held)),
        Err(problem) if problem.code == Code::NotFound => Ok(fallback),
        Err(problem) => Err(problem),
    });
    Ok(ask::answer(StatusCode::CREATED, &shown.await?))
}

/// One session.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    let present = Present::of(&app, &realm);
    let shown = app.hub.blocking(&realm, move |realm| {
        let (entry, is_held) = row::find(realm, Place::Agents, &id)?;
        Ok(present.show(realm, &entry, is_held))
    });
    Ok(ask::answer(StatusCode::OK, &shown.await?))
}

/// Into the trash; a running turn is in the way.
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    app.hub.delete(&realm, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Out of the trash.
pub(super) async fn undelete(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    let present = Present::of(&app, &realm);
    let shown = app.hub.blocking(&realm, move |realm| {
        let found = row::find(realm, Place::Trash, &id);
        if found.as_ref().is_err_and(|problem| problem.code == Code::NotFound)
            && row::find(realm, Place::Agents, &id).is_ok()
        {
            return Err(Problem::new(Code::Conflict, "this session is not deleted"));
        }
        let (entry, _) = found?;
        if let Some((session, digest)) = entry.row.id.rsplit_once('-')
            && (session.len(), digest.len()) == (FULL_ID, DIGEST)
        {
            return Err(Problem::new(Code::Conflict, format!("this is an older copy of {session}, which went on")));
        }
        match realm.store().undelete(&entry) {
            Err(Error::Exists { .. }) => {
                return Err(Problem::new(Code::Conflict, "there is a session of that id which is not deleted"));
            }
            other => other?,
        }
        let (entry, is_held) = row::find(realm, Place::Agents, &id)?;
        Ok((present.show(realm, &entry, is_held), Name { dir: entry.dir, id }))
    });
    let (shown, name) = shown.await?;
    if let Some(fleet) = &app.hub.shared().fleet {
        fleet.bring_back(&realm, &name).await?;
    }
    Ok(ask::answer(StatusCode::OK, &shown))
}
