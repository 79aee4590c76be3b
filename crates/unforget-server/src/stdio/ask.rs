//! The requests of [`api`](crate::api) over a pipe: read from a line, and answered by the store
//! that the pipe leads to.

use std::path::PathBuf;
use std::sync::Arc;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use unforget_agent::model::BoxFuture;
use unforget_core::encode;
use unforget_core::stamp::SharedSource;

use super::{Group, plain};
use crate::actor::ActorId;
use crate::api::edits::Edits;
use crate::api::entries::{
    AppendEntries, DeleteEntries, EntriesKey, KeepsEntries, ListEntrySessions, ListSubkeys, LoadEntries, ReadEntries,
    SummariseEntries,
};
use crate::api::messages::ShowMessages;
use crate::api::search::FindWords;
use crate::api::sessions::ListSessions;
use crate::api::turns::AddMessages;
use crate::api::{InSession, IntoJson as _, SessionRef, Verb};
use crate::entries::{Entries, Settings};
use crate::error::{Problem, Result};
use crate::protocol::Durability;
use crate::realm::{Realm, Realms};
use crate::said::Message;

/// The tenant of those who name none.
const USUAL_TENANT: &str = "default";
/// The directory beneath a home that holds one directory for each other tenant.
const TENANTS: &str = "tenants";
/// The protocol that is spoken.
const PROTOCOL: u64 = 1;

/// The store that a pipe leads to.
pub struct Pipe {
    entries: Entries,
    pub(super) realm: Arc<Realm>,
    pub(super) there: Option<Settings>,
    /// The remote, as it may be shown.
    shown: Option<String>,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe").field("remote", &self.shown).finish_non_exhaustive()
    }
}

impl KeepsEntries for Pipe {
    fn entries(&self) -> &Entries {
        &self.entries
    }
}

/// A request that was read.
pub(super) struct Asked {
    /// Which requests it has to wait for.
    pub(super) group: Group,
    run: Box<dyn FnOnce(Arc<Pipe>) -> BoxFuture<'static, Result<Answer>> + Send>,
}

/// An answer.
pub(super) struct Answer {
    /// The text of a JSON value.
    pub(super) text: String,
    pub(super) durability: Option<Durability>,
}

impl Asked {
    fn new<V: Verb<Pipe>>(group: Group, verb: V) -> Self {
        let run = move |pipe: Arc<Pipe>| -> BoxFuture<'static, Result<Answer>> {
            Box::pin(async move {
                let answer = verb.call(&pipe, &pipe.realm).await?;
                Ok(Answer { durability: answer.durability(), text: answer.into_json()? })
            })
        };
        Self { group, run: Box::new(run) }
    }

    fn in_session<V>(verb: InSession<V>) -> Self
    where
        InSession<V>: Verb<Pipe>,
    {
        Self::new(Group::Own(verb.session.text()), verb)
    }

    /// A request about entries waits for those of the same session.
    fn of_key<V: Verb<Pipe>>(verb: V, key: impl Fn(&V) -> &EntriesKey) -> Self {
        let (project, session) = key(&verb).group();
        Self::new(Group::Session(project.to_owned(), session.to_owned()), verb)
    }

    /// Reads the request of an operation.
    pub(super) fn read(op: &str, text: &str) -> Result<Self> {
        Ok(match op {
            "hello" => Self::new(Group::Free, members::<Hello>(text)?),
            "append" => Self::of_key(append(text)?, |verb| &verb.key),
            "load" => Self::of_key(members::<LoadEntries>(text)?, |verb| &verb.key),
            "read" => Self::of_key(members::<ReadEntries>(text)?, |verb| &verb.key),
            "delete" => Self::of_key(members::<DeleteEntries>(text)?, |verb| &verb.key),
            "list_subkeys" => Self::of_key(members::<ListSubkeys>(text)?, |verb| &verb.key),
            "list_sessions" => Self::new(Group::Free, members::<ListEntrySessions>(text)?),
            "list_session_summaries" => Self::new(Group::Free, members::<SummariseEntries>(text)?),
            "sessions" => Self::new(Group::Free, members::<ListSessions>(text)?),
            "search" => Self::new(Group::Free, members::<FindWords>(text)?),
            "history" => Self::in_session(of_session::<ShowMessages>(text)?),
            "edit" => Self::in_session(of_session::<Edits>(text)?),
            "add" => Self::in_session(add(text)?),
            other => return Err(Problem::invalid(format!("there is no operation `{other}`"))),
        })
    }

    /// Answers it.
    pub(super) async fn answer(self, pipe: Arc<Pipe>) -> Result<Answer> {
        (self.run)(pipe).await
    }
}

fn wrong(error: &serde_json::Error) -> Problem {
    Problem::invalid(format!("the request cannot be read: {error}"))
}

/// The members of a request without its operation and its id.
fn plain_members(text: &str) -> Result<Map<String, Value>> {
    let mut members: Map<String, Value> = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    members.remove("op");
    members.remove("id");
    Ok(members)
}

fn members<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_value(plain_members(text)?.into()).map_err(|error| wrong(&error))
}

/// A request about one session, which `session_id` or `key` names.
fn of_session<V: DeserializeOwned>(text: &str) -> Result<InSession<V>> {
    let mut members = plain_members(text)?;
    let mut name = |member: &str| match members.remove(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(_) => Err(Problem::invalid(format!("`{member}` is a text"))),
    };
    let (session_id, key) = (name("session_id")?, name("key")?);
    let what = serde_json::from_value(members.into()).map_err(|error| wrong(&error))?;
    Ok(InSession { session: SessionRef::read(session_id.as_deref(), key.as_deref())?, what })
}

/// Entries keep their bytes, so their request is not read into a tree first.
fn append(text: &str) -> Result<AppendEntries> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wire {
        #[serde(rename = "op")]
        _op: IgnoredAny,
        #[serde(rename = "id", default)]
        _id: Option<IgnoredAny>,
        key: EntriesKey,
        entries: Vec<Box<RawValue>>,
    }
    let Wire { key, entries, .. } = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    Ok(AppendEntries { key, entries: entries.into_iter().map(Box::<str>::from).collect() })
}

/// Messages keep their bytes, too.
fn add(text: &str) -> Result<InSession<AddMessages>> {
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
    let Wire { session_id, key, messages, client_id, .. } =
        serde_json::from_str(text).map_err(|error| wrong(&error))?;
    let session = SessionRef::read(session_id.as_deref(), key.as_deref())?;
    Ok(InSession { session, what: AddMessages { messages, client_id } })
}

/// Asks which protocol is spoken here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    #[serde(default)]
    protocol: Option<u64>,
}

/// What speaks here.
#[derive(Serialize)]
struct Speaker {
    protocol: u64,
    server: &'static str,
    remote: Option<String>,
}

impl Verb<Pipe> for Hello {
    type Answer = Speaker;

    async fn call(self, pipe: &Arc<Pipe>, _realm: &Arc<Realm>) -> Result<Speaker> {
        match self.protocol {
            None | Some(PROTOCOL) => {
                let server = concat!("unforget/", env!("CARGO_PKG_VERSION"));
                Ok(Speaker { protocol: PROTOCOL, server, remote: pipe.shown.clone() })
            }
            Some(other) => {
                Err(Problem::invalid(format!("protocol {other} is not spoken here, only protocol {PROTOCOL}")))
            }
        }
    }
}

impl Pipe {
    /// What a tenant has in a home, and at a remote if there is one, which may be shown like this.
    /// Tenants share nothing, with a remote or without one: all but the usual one have a home of
    /// their own beneath the home.
    pub fn new(home: PathBuf, tenant: &str, source: SharedSource, there: Option<(Settings, String)>) -> Self {
        let home = match tenant {
            USUAL_TENANT => home,
            tenant => home.join(TENANTS).join(encode::file_name(tenant)),
        };
        let realm = Realms::new(home, source).of(&ActorId::owner());
        let (there, shown) = there.unzip();
        let entries = there.clone().map_or_else(Entries::default, Entries::with_remote);
        if let Err(problem) = entries.look(&realm) {
            tracing::warn!(%problem, "what an earlier process left cannot be looked at");
        }
        Self { entries, realm, there, shown }
    }

    pub(super) async fn tend(&self) {
        self.entries.tend().await;
        if let Some(there) = &self.there {
            plain::tend(&self.realm, there).await;
        }
    }

    pub(super) async fn end(&self) -> bool {
        let is_all = self.entries.end().await;
        match &self.there {
            Some(there) => plain::tend(&self.realm, there).await && is_all,
            None => is_all,
        }
    }
}
