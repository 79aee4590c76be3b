//! The list of sessions, one of them, a new one, into the trash and back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unforget_core::Error;
use unforget_core::edit::{Edit, EditError};
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::listing::{Cursor, Filter, ListQuery, PAGE, Sort, Wanted};
use unforget_core::retention::Keep;
use unforget_core::stamp::SessionId;

use super::check::{self, given, present};
use super::edits::apply;
use super::listed::{ListedSession, Present, find, is_held};
use super::{Access, InSession, Verb};
use crate::app::App;
use crate::error::{Code, Problem, Result};
use crate::realm::{Name, Realm};

/// The longest page.
const MOST: usize = 500;
/// How many pages a search for a name reads before it answers with a page that may be empty.
const PAGES_READ: usize = 20;
/// The longest label, in characters.
pub(super) const MAX_LABEL: usize = 200;
/// The longest name that a list looks for, in characters.
const MAX_NAME: usize = 200;
/// The channel of sessions that begin here without a key.
const CHANNEL: &str = "api";
/// The length of an id, and of the digest behind the id of a copy that was put aside.
const FULL_ID: usize = 36;
const DIGEST: usize = 16;

/// Asks for a page of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSessions {
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

/// The states that a list can be filtered by.
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

/// The query of the store, and what its pages are filtered by afterwards.
struct Checked {
    query: ListQuery,
    key: Option<String>,
    name: Option<String>,
}

/// A page of the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionPage {
    pub sessions: Vec<ListedSession>,
    /// The cursor of the next page; none if this is the last one.
    pub next: Option<String>,
}

impl ListSessions {
    fn check(self) -> Result<Checked> {
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
            since_ms: check::time("since", self.since.as_deref())?,
            until_ms: check::time("until", self.until.as_deref())?,
            label: self.label,
            state: self.state.and_then(Condition::wanted),
            pinned: self.pinned,
        };
        let name =
            self.q.as_deref().map(|name| check::words("q", name, MAX_NAME).map(str::to_lowercase)).transpose()?;
        let place = if is_deleted { Place::Trash } else { Place::Agents };
        let limit = check::bounded("limit", self.limit, PAGE, MOST)?;
        let query = ListQuery { place, filter, sort, limit, after };
        Ok(Checked { query, key: key.map(|key| key.to_string()), name })
    }
}

impl<H: Access> Verb<H> for ListSessions {
    type Answer = SessionPage;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<SessionPage> {
        let checked = self.check()?;
        host.refresh(realm).await;
        let present = host.present(realm);
        host.blocking(realm, move |realm| page(realm, checked, &present)).await
    }
}

/// A page, or the first one of several with a session of the name: names are in no index.
fn page(realm: &Realm, mut checked: Checked, present: &Present) -> Result<SessionPage> {
    let mut sessions = Vec::new();
    for _ in 0..PAGES_READ {
        let (answer, holders) = realm.catalog().page(&checked.query, &mut |_, _| {})?;
        let page = answer.value;
        for entry in &page.entries {
            let row = &entry.row;
            let has = |text: &Option<String>, name: &str| {
                text.as_ref().is_some_and(|text| text.to_lowercase().contains(name))
            };
            let is_named = checked.name.as_ref().is_none_or(|name| has(&row.title, name) || has(&row.label, name));
            let is_of_key = checked.key.as_ref().is_none_or(|key| row.key.as_ref() == Some(key));
            if is_named && is_of_key {
                sessions.push(present.show(realm, entry, is_held(realm, entry, &holders)));
            }
        }
        checked.query.after = page.next;
        if checked.query.after.is_none() || !sessions.is_empty() {
            break;
        }
    }
    Ok(SessionPage { sessions, next: checked.query.after.as_ref().map(Cursor::to_text) })
}

/// Begins a session, which is its key's current one from then on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSession {
    key: Option<String>,
    agent: Option<String>,
    channel: Option<String>,
    peer: Option<String>,
    label: Option<String>,
}

impl NewSession {
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

impl Verb<App> for NewSession {
    type Answer = ListedSession;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<ListedSession> {
        let key = self.key(app.hub.agents().usual())?;
        let label = self.label.as_deref().map(|label| check::words("label", label, MAX_LABEL)).transpose()?;
        let label = label.filter(|label| !label.is_empty());
        let id = app.hub.begin(realm, &key, label).await?;
        let present = app.present(realm);
        // A session of another program has no transcript before its first word.
        let fallback = present.begun(&id, &key, label);
        let shown = app.hub.blocking(realm, move |realm| match find(realm, Place::Agents, &id) {
            Ok((entry, is_held)) => Ok(present.show(realm, &entry, is_held)),
            Err(problem) if problem.code == Code::NotFound => Ok(fallback),
            Err(problem) => Err(problem),
        });
        shown.await
    }
}

/// Asks for one session of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowSession {}

impl<H: Access> Verb<H> for InSession<ShowSession> {
    type Answer = ListedSession;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<ListedSession> {
        let id = host.reach(realm, &self.session).await?;
        show(host, realm, id).await
    }
}

async fn show<H: Access>(host: &Arc<H>, realm: &Arc<Realm>, id: SessionId) -> Result<ListedSession> {
    let present = host.present(realm);
    let shown = host.blocking(realm, move |realm| {
        let (entry, is_held) = find(realm, Place::Agents, &id)?;
        Ok(present.show(realm, &entry, is_held))
    });
    shown.await
}

/// Gives a session another title, label or time to live, or pins it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    #[serde(default, deserialize_with = "present")]
    title: Option<String>,
    #[serde(default, deserialize_with = "given")]
    label: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    expires: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    pinned: Option<bool>,
}

impl Description {
    fn edits(self) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        edits.extend(self.title.map(|title| Ok::<_, EditError>(Edit::Title { title: title.parse()? })).transpose()?);
        if let Some(label) = self.label {
            // An empty one takes it off.
            let label = label.filter(|label| !label.trim().is_empty()).map(|label| label.parse()).transpose()?;
            edits.push(Edit::Label { label });
        }
        if let Some(expires) = self.expires {
            edits.push(Edit::Expire { after: expires.as_deref().map(Keep::parse).transpose()? });
        }
        edits.extend(self.pinned.map(|on| Edit::PinSession { on }));
        if edits.is_empty() {
            return Err(Problem::invalid("nothing is to be changed: give `title`, `label`, `expires` or `pinned`"));
        }
        Ok(edits)
    }
}

impl<H: Access> Verb<H> for InSession<Description> {
    type Answer = ListedSession;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<ListedSession> {
        let changed = apply(host, realm, &self.session, self.what.edits()?).await?;
        show(host, realm, changed.session).await
    }
}

/// Moves a session into the trash; a running turn is in the way.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteSession {}

impl Verb<App> for InSession<DeleteSession> {
    type Answer = ();

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<()> {
        let id = app.reach(realm, &self.session).await?;
        app.hub.delete(realm, &id).await
    }
}

/// Takes a session out of the trash.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndeleteSession {}

impl Verb<App> for InSession<UndeleteSession> {
    type Answer = ListedSession;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<ListedSession> {
        let id = app.reach(realm, &self.session).await?;
        let present = app.present(realm);
        let (shown, name) = app.hub.blocking(realm, move |realm| undelete(realm, &id, &present)).await?;
        if let Some(fleet) = &app.hub.shared().fleet {
            fleet.bring_back(realm, &name).await?;
        }
        Ok(shown)
    }
}

fn undelete(realm: &Realm, id: &SessionId, present: &Present) -> Result<(ListedSession, Name)> {
    let conflict = |message: String| Problem::new(Code::Conflict, message);
    let found = find(realm, Place::Trash, id);
    if found.as_ref().is_err_and(|problem| problem.code == Code::NotFound) && find(realm, Place::Agents, id).is_ok() {
        return Err(conflict("this session is not deleted".to_owned()));
    }
    let (entry, _) = found?;
    if let Some((session, digest)) = entry.row.id.rsplit_once('-')
        && (session.len(), digest.len()) == (FULL_ID, DIGEST)
    {
        return Err(conflict(format!("this is an older copy of {session}, which went on")));
    }
    match realm.store().undelete(&entry) {
        Err(Error::Exists { .. }) => {
            return Err(conflict("there is a session of that id which is not deleted".to_owned()));
        }
        other => other?,
    }
    let (entry, is_held) = find(realm, Place::Agents, id)?;
    Ok((present.show(realm, &entry, is_held), Name { dir: entry.dir, id: id.clone() }))
}
