//! What can be asked over a pipe, and who answers it.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use serde_json::value::RawValue;
use unforget_core::encode;
use unforget_core::stamp::SharedSource;

use super::Group;
use super::plain::{self, Adding, History, WireEdits, WireHistory};
use crate::actor::ActorId;
use crate::entries::{Entries, Key, Listed, Settings, Spelling};
use crate::error::{Problem, Result};
use crate::protocol::Durability;
use crate::realm::{Realm, Realms};
use crate::rest::{Question, Which};

/// The tenant of those who name none.
const USUAL_TENANT: &str = "default";
/// The directory beneath a home that holds one directory for each other tenant.
const TENANTS: &str = "tenants";
/// The protocol that is spoken.
const PROTOCOL: u64 = 1;

/// The store that a pipe leads to.
pub struct Pipe {
    entries: Entries,
    realm: Arc<Realm>,
    there: Option<Settings>,
    /// The remote, as it may be shown.
    shown: Option<String>,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe").field("remote", &self.shown).finish_non_exhaustive()
    }
}

/// A key as it comes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKey {
    project_key: String,
    session_id: String,
    #[serde(default)]
    subpath: Option<String>,
}

/// What is asked.
pub(super) enum Asked {
    Hello,
    Append(Key, Vec<Entry>),
    Load(Key),
    Read(Key, Option<String>),
    List(String),
    Summaries(String, Spelling),
    Delete(Key),
    Subkeys(Key),
    Sessions(Box<Which>),
    Search(Box<Question>),
    History(History),
    Add(Adding),
}

/// An entry as it came.
pub(super) struct Entry(Box<RawValue>);

impl AsRef<str> for Entry {
    fn as_ref(&self) -> &str {
        self.0.get()
    }
}

/// An answer.
pub(super) struct Answer {
    /// The text of a JSON value.
    pub(super) text: String,
    pub(super) durability: Option<Durability>,
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self { text, durability: None }
    }
}

impl From<serde_json::Value> for Answer {
    fn from(value: serde_json::Value) -> Self {
        value.to_string().into()
    }
}

impl WireKey {
    fn checked(self) -> Result<Key> {
        Key::new(self.project_key, self.session_id, self.subpath)
    }
}

/// A request without its operation and its id, which were read before.
fn members<T: DeserializeOwned>(text: &str) -> Result<T> {
    let wrong = |error: serde_json::Error| Problem::invalid(format!("the request cannot be read: {error}"));
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).map_err(wrong)?;
    members.remove("op");
    members.remove("id");
    serde_json::from_value(members.into()).map_err(wrong)
}

impl Asked {
    /// Reads the members of an operation.
    pub(super) fn read(op: &str, text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Hello {
            #[serde(default)]
            protocol: Option<u64>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keyed {
            key: WireKey,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Reading {
            key: WireKey,
            #[serde(default)]
            cursor: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Project {
            project_key: String,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Summaries {
            project_key: String,
            #[serde(default)]
            spelling: Spelling,
        }
        /// Its entries are kept as they are written, so it is not read into a tree first.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Append {
            #[serde(rename = "op")]
            _op: IgnoredAny,
            #[serde(rename = "id", default)]
            _id: Option<IgnoredAny>,
            key: WireKey,
            entries: Vec<Box<RawValue>>,
        }
        match op {
            "hello" => match members::<Hello>(text)?.protocol {
                None | Some(PROTOCOL) => Ok(Self::Hello),
                Some(other) => {
                    Err(Problem::invalid(format!("protocol {other} is not spoken here, only protocol {PROTOCOL}")))
                }
            },
            "append" => {
                let Append { key, entries, .. } = serde_json::from_str(text)
                    .map_err(|error| Problem::invalid(format!("the request cannot be read: {error}")))?;
                Ok(Self::Append(key.checked()?, entries.into_iter().map(Entry).collect()))
            }
            "load" => Ok(Self::Load(members::<Keyed>(text)?.key.checked()?)),
            "read" => {
                let Reading { key, cursor } = members(text)?;
                Ok(Self::Read(key.checked()?, cursor))
            }
            "list_sessions" => Ok(Self::List(members::<Project>(text)?.project_key)),
            "list_session_summaries" => {
                let Summaries { project_key, spelling } = members(text)?;
                Ok(Self::Summaries(project_key, spelling))
            }
            "delete" => Ok(Self::Delete(members::<Keyed>(text)?.key.checked()?)),
            "list_subkeys" => match members::<Keyed>(text)?.key {
                WireKey { subpath: Some(_), .. } => Err(Problem::invalid("`subpath` has no meaning here")),
                key => Ok(Self::Subkeys(key.checked()?)),
            },
            "sessions" => Ok(Self::Sessions(Box::new(members(text)?))),
            "search" => Ok(Self::Search(Box::new(members(text)?))),
            "history" => Ok(Self::History(members::<WireHistory>(text)?.try_into()?)),
            "add" => Ok(Self::Add(Adding::read(text)?)),
            "edit" => Ok(Self::Add(members::<WireEdits>(text)?.try_into()?)),
            other => Err(Problem::invalid(format!("there is no operation `{other}`"))),
        }
    }

    /// Which requests it has to wait for.
    pub(super) fn group(&self) -> Group {
        match self {
            Self::Append(key, _) | Self::Load(key) | Self::Read(key, _) | Self::Delete(key) | Self::Subkeys(key) => {
                let (project, session) = key.group();
                Group::Session(project.to_owned(), session.to_owned())
            }
            Self::History(History { of, .. }) | Self::Add(Adding { of, .. }) => Group::Own(of.text()),
            Self::Hello | Self::List(_) | Self::Summaries(..) | Self::Sessions(_) | Self::Search(_) => Group::Free,
        }
    }
}

impl Pipe {
    /// What a tenant has in a home, and at a remote if there is one, which may be shown like this. Tenants share nothing, with a remote or without one:
    /// all but the usual one have a home of their own beneath the home.
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

    pub(super) async fn answer(&self, asked: Asked) -> Result<Answer> {
        let (entries, realm) = (&self.entries, &self.realm);
        Ok(match asked {
            Asked::Hello => {
                let server = concat!("unforget/", env!("CARGO_PKG_VERSION"));
                json!({ "protocol": PROTOCOL, "server": server, "remote": self.shown }).into()
            }
            Asked::Append(key, batch) => {
                let durability = entries.append(realm, &key, batch).await?;
                Answer { text: "null".to_owned(), durability: Some(durability) }
            }
            Asked::Load(key) => entries.load(realm, &key).await?.unwrap_or_else(|| "null".to_owned()).into(),
            Asked::Read(key, cursor) => {
                let page = entries.read(realm, &key, cursor).await?;
                page.map_or_else(|| "null".to_owned(), |page| page.to_json()).into()
            }
            Asked::List(project) => {
                let listed = entries.list(realm, &project, Spelling::Python).await?;
                listed.iter().map(Listed::named).collect::<serde_json::Value>().into()
            }
            Asked::Summaries(project, spelling) => {
                let listed = entries.list(realm, &project, spelling).await?;
                listed.iter().map(Listed::summed).collect::<serde_json::Value>().into()
            }
            Asked::Delete(key) => {
                entries.delete(realm, &key).await?;
                "null".to_owned().into()
            }
            Asked::Subkeys(key) => json!(entries.list_subkeys(realm, &key).await?).into(),
            Asked::Sessions(which) => plain::sessions(realm, *which).await?.into(),
            Asked::Search(question) => plain::search(realm, *question).await?.into(),
            Asked::History(history) => plain::history(realm, self.there.as_ref(), history).await?.into(),
            Asked::Add(adding) => plain::add(realm, self.there.as_ref(), adding).await?,
        })
    }
}
