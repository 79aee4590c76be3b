//! The sessions of this program over a pipe: found, searched, read, and added to by agents of other programs.
//!
//! What is answered is what the HTTP interface answers. With a remote, a session is fetched before it is read or added to, and sent afterwards; what could not
//! be sent waits in the outbox, as it does for the chat.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use unforget_core::Error;
use unforget_core::directory::OnMissing;
use unforget_core::edit::{self, Edit, EditScope};
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::stamp::SessionId;
use unforget_core::store::Store;
use unforget_remote::lease;
use unforget_remote::sync::{self, Bookmarks, Link, Native, Outbox, Pointer};
use unforget_remote::{Error as RemoteError, Stream};

use super::ask::Answer;
use crate::entries::Settings;
use crate::error::{Code, Problem, Result};
use crate::protocol::{ClientId, Durability};
use crate::realm::Realm;
use crate::rest::{self, Question, Which};
use crate::said::{self, Message};

/// How long a remote is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often, and after which pause, a session that somebody writes is asked for: five seconds in all.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Which session: its id, or the current one of a key.
#[derive(Debug, Clone)]
pub(super) enum Of {
    Id(SessionId),
    Key(Key),
}

impl Of {
    fn read(session_id: Option<String>, key: Option<String>) -> Result<Self> {
        match (session_id, key) {
            (Some(id), None) => SessionId::parse(&id).map(Self::Id).ok_or_else(Problem::no_session),
            (None, Some(key)) => Ok(Self::Key(key.parse::<Key>().map_err(Error::from)?)),
            _ => Err(Problem::invalid("say which session: `session_id` or `key`, one of them")),
        }
    }

    /// What tells it from others.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Id(id) => id.to_string(),
            Self::Key(key) => key.to_string(),
        }
    }
}

/// A conversation that is asked for.
#[derive(Debug)]
pub(super) struct History {
    pub(super) of: Of,
    budget: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireHistory {
    session_id: Option<String>,
    key: Option<String>,
    budget: Option<u64>,
}

impl TryFrom<WireHistory> for History {
    type Error = Problem;

    fn try_from(wire: WireHistory) -> Result<Self> {
        Ok(Self { of: Of::read(wire.session_id, wire.key)?, budget: wire.budget })
    }
}

/// Something that is to be appended to a session.
#[derive(Debug)]
pub(super) struct Adding {
    pub(super) of: Of,
    what: Addition,
}

/// What is to be appended.
#[derive(Debug)]
enum Addition {
    Messages(Vec<Message>, Option<ClientId>),
    Edits(Vec<Edit>),
}

impl Adding {
    /// Reads a request; messages keep their bytes.
    pub(super) fn read(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wire {
            #[serde(rename = "op")]
            _op: IgnoredAny,
            #[serde(rename = "id", default)]
            _id: Option<IgnoredAny>,
            session_id: Option<String>,
            key: Option<String>,
            messages: Vec<Message>,
            client_id: Option<String>,
        }
        let wire: Wire = serde_json::from_str(text)
            .map_err(|error| Problem::invalid(format!("the request cannot be read: {error}")))?;
        let client_id = wire.client_id.as_deref().map(said::name).transpose()?;
        let what = Addition::Messages(wire.messages, client_id);
        Ok(Self { of: Of::read(wire.session_id, wire.key)?, what })
    }
}

/// Edits that are to be applied.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireEdits {
    session_id: Option<String>,
    key: Option<String>,
    edits: Vec<Edit>,
}

impl TryFrom<WireEdits> for Adding {
    type Error = Problem;

    fn try_from(wire: WireEdits) -> Result<Self> {
        Ok(Self { of: Of::read(wire.session_id, wire.key)?, what: Addition::Edits(wire.edits) })
    }
}

async fn blocking<T: Send + 'static>(
    realm: &Arc<Realm>,
    work: impl FnOnce(&Realm) -> Result<T> + Send + 'static,
) -> Result<T> {
    let realm = realm.clone();
    let done = tokio::task::spawn_blocking(move || work(&realm)).await;
    done.unwrap_or_else(|error| Err(Problem::fallen("the store", &error)))
}

/// A page of the list.
pub(super) async fn sessions(realm: &Arc<Realm>, which: Which) -> Result<Value> {
    blocking(realm, move |realm| rest::list_page(realm, which)).await
}

/// What was said where.
pub(super) async fn search(realm: &Arc<Realm>, question: Question) -> Result<Value> {
    blocking(realm, move |realm| rest::find(realm, question)).await
}

/// The conversation as it would be sent.
pub(super) async fn history(realm: &Arc<Realm>, there: Option<&Settings>, history: History) -> Result<String> {
    let History { of, budget } = history;
    if budget == Some(0) {
        return Err(Problem::invalid("`budget` is a number of tokens, at least 1"));
    }
    if let Some(there) = there {
        unless_away(fetch(realm, there, &of).await)?;
    }
    let limits = budget.map_or_else(Limits::default, Limits::tokens);
    blocking(realm, move |realm| {
        let id = match of {
            Of::Id(id) => id,
            Of::Key(key) => current(realm.catalog(), &key)?.ok_or_else(Problem::no_session)?,
        };
        let (text, _) = rest::messages_of(realm, &id, &limits)?;
        let rest = text.strip_prefix('{').unwrap_or_default();
        Ok(format!("{{\"session_id\":{},{rest}", unforget_core::json::quote(id.as_str())))
    })
    .await
}

/// Adds messages or applies edits, and sends them.
pub(super) async fn add(realm: &Arc<Realm>, there: Option<&Settings>, adding: Adding) -> Result<Answer> {
    if let Some(there) = there {
        if there.is_awaited && matches!(adding.what, Addition::Messages(_, None)) {
            let why =
                "with `--ack remote` a call may have to be repeated: say `client_id`, so that nothing is added twice";
            return Err(Problem::invalid(why));
        }
        match fetch(realm, there, &adding.of).await {
            // A key that may have a session elsewhere gets no second one.
            Err(problem) if problem.code == Code::Unavailable && !is_here(realm, &adding.of).await? => {
                return Err(problem);
            }
            fetched => unless_away(fetched)?,
        }
        unless_away(unless_held(realm, there, &adding.of).await)?;
    }
    let there_ = there.cloned();
    let (dir, id, mut done) = blocking(realm, move |realm| {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match add_once(realm, there_.as_ref(), &adding) {
                Err(problem) if problem.code == Code::Busy && attempt < ATTEMPTS => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
    })
    .await?;
    let durability = match there {
        None => Durability::Disk,
        Some(there) => match send(realm, there, &dir, &id).await {
            Ok(()) => Durability::Remote,
            Err(problem) if there.is_awaited => return Err(problem),
            Err(problem) => {
                tracing::warn!(%problem, "saved here, not yet there");
                Durability::Disk
            }
        },
    };
    done["session_id"] = id.as_str().into();
    Ok(Answer { text: done.to_string(), durability: Some(durability) })
}

fn add_once(realm: &Realm, there: Option<&Settings>, adding: &Adding) -> Result<(AgentDir, SessionId, Value)> {
    let store = realm.store();
    let mut session = match (&adding.of, &adding.what) {
        (Of::Id(id), _) => store.open(&realm.entry(id)?)?,
        (Of::Key(key), Addition::Messages(..)) => realm.catalog().load(key, OnMissing::Create)?,
        (Of::Key(key), Addition::Edits(_)) => {
            let id = current(realm.catalog(), key)?.ok_or_else(Problem::no_session)?;
            store.open(&realm.entry(&id)?)?
        }
    };
    let (dir, id) = (AgentDir::of(session.key().agent()), session.id().clone());
    if let Some(there) = there {
        Outbox::new(store.medium().clone(), &there.known_as).add(&dir, &id, there.source.now_ms())?;
    }
    let done = match &adding.what {
        Addition::Messages(messages, client_id) => {
            json!({ "n": said::add(&mut session, messages, client_id.as_ref())? })
        }
        Addition::Edits(edits) => json!({ "applied": edit::apply(&mut session, edits, &EditScope::default())? }),
    };
    match session.close() {
        // The index is a cache: what it was not told it finds out.
        Ok(()) | Err(_) => {}
    }
    Ok((dir, id, done))
}

/// Whether the session is here.
async fn is_here(realm: &Arc<Realm>, of: &Of) -> Result<bool> {
    let of = of.clone();
    blocking(realm, move |realm| match &of {
        Of::Id(id) => Ok(realm.store().entry(id)?.is_some()),
        Of::Key(key) => Ok(current(realm.catalog(), key)?.is_some()),
    })
    .await
}

/// Sees that no server or program elsewhere is writing the session: what it writes would not fit behind what is added here.
async fn unless_held(realm: &Arc<Realm>, there: &Settings, of: &Of) -> Result<()> {
    let of = of.clone();
    let entry = blocking(realm, move |realm| match &of {
        Of::Id(id) => Ok(realm.store().entry(id)?),
        Of::Key(key) => Ok(realm.catalog().current(key)?),
    });
    let Some(entry) = entry.await? else { return Ok(()) };
    let Some(id) = SessionId::parse(&entry.row.id) else { return Ok(()) };
    within(async {
        let claim = lease::look(there.remote.as_ref(), &stream(there, &entry.dir, &id)?).await?;
        match claim.filter(|claim| claim.until_ms > there.source.now_ms()) {
            None => Ok(()),
            Some(claim) => {
                let holder = claim.holder.split('#').next().unwrap_or_default();
                Err(Problem::new(Code::Busy, format!("`{holder}` is writing this session; try again")))
            }
        }
    })
    .await
}

/// What a session is called there.
fn stream(there: &Settings, dir: &AgentDir, id: &SessionId) -> Result<Stream> {
    let agent = dir.agent().unwrap_or_else(|| dir.as_str().to_owned());
    Ok(Stream::new(&there.tenant, &agent, id.as_str())?)
}

/// Sends what could not be sent before; tells whether all of it is there.
pub(super) async fn tend(realm: &Arc<Realm>, there: &Settings) -> bool {
    let waiting = match Outbox::new(realm.store().medium().clone(), &there.known_as).list() {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::debug!(%error, "what waits cannot be looked at");
            return false;
        }
    };
    let mut is_all = true;
    for one in waiting {
        if let Err(problem) = send(realm, there, &one.dir, &one.id).await {
            tracing::debug!(%problem, session = %one.id, "not there yet");
            is_all = false;
        }
    }
    is_all
}

/// The current session of a key.
fn current(store: &Store, key: &Key) -> Result<Option<SessionId>> {
    Ok(store.current(key)?.and_then(|entry| SessionId::parse(&entry.row.id)))
}

/// That the remote does not answer is no reason not to go on with what is here.
fn unless_away(fetched: Result<()>) -> Result<()> {
    match fetched {
        Err(problem) if problem.code == Code::Unavailable => {
            tracing::warn!(%problem, "what is here is all that is known now");
            Ok(())
        }
        other => other,
    }
}

async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let away = || Problem::new(Code::Unavailable, "the remote store does not answer; try again");
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(away()))
}

/// Has here what is there of a session.
async fn fetch(realm: &Arc<Realm>, there: &Settings, of: &Of) -> Result<()> {
    within(async {
        let (dir, id) = match of {
            Of::Id(id) => match realm.store().entry(id)? {
                Some(entry) => (entry.dir, id.clone()),
                // Where it is cannot be told from its id alone; a key leads there.
                None => return Ok(()),
            },
            Of::Key(key) => match sync::find_by_key(there.remote.as_ref(), &there.tenant, key).await? {
                Some(pointer) => (AgentDir::of(key.agent()), pointer.session),
                None => return Ok(()),
            },
        };
        with_link(realm, there, &dir, &id, async |link| match sync::pull(link, &mut |_| {}).await {
            Ok(_) | Err(RemoteError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        })
        .await
    })
    .await
}

/// Has there what is here of a session, and its key lead there.
async fn send(realm: &Arc<Realm>, there: &Settings, dir: &AgentDir, id: &SessionId) -> Result<()> {
    within(with_link(realm, there, dir, id, async |link| {
        let outbox = Outbox::new(realm.store().medium().clone(), &there.known_as);
        sync::save(link, &outbox, there.source.now_ms(), &mut |_| {}).await?;
        let row = realm.entry(id)?.row;
        let key = row.key.as_deref().and_then(|key| key.parse::<Key>().ok());
        if let (Some(key), Some(created_ms)) = (key, row.created_ms) {
            let to = Pointer { session: id.clone(), created_ms };
            sync::point(there.remote.as_ref(), &there.tenant, &key, &to).await?;
        }
        Ok(())
    }))
    .await
}

async fn with_link<T>(
    realm: &Arc<Realm>,
    there: &Settings,
    dir: &AgentDir,
    id: &SessionId,
    work: impl AsyncFnOnce(&Link<'_>) -> Result<T>,
) -> Result<T> {
    let stream = stream(there, dir, id)?;
    let local = Native::new(realm.store(), dir, id);
    let bookmarks = Bookmarks::new(realm.store().medium().clone(), &there.known_as);
    work(&Link { local: &local, remote: there.remote.as_ref(), stream: &stream, bookmarks: &bookmarks }).await
}
