//! What every handler can reach, and what is known of whoever asks.
//!
//! Three kinds of ids meet here and have three types: a session's ([`SessionId`](unforget_core::stamp::SessionId)), the one that AgentCore Runtime gives a connection
//! ([`RuntimeSessionId`]), and a Claude session's, which stays within its agent.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName};
use secrecy::SecretString;
use unforget_agent::prices::Prices;
use unforget_core::key::Key;

use crate::actor::ActorId;
use crate::door::Door;
use crate::entries::Entries;
use crate::error::{Code, Problem, Result};
use crate::hub::{Admission, Hub, Watching};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::live::After;
use crate::peers::{Passage, Peers};
use crate::realm::Realm;
use crate::socket::{Wanted, runtime_key};

/// The header that AgentCore Runtime names a session with.
pub const RUNTIME_SESSION: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
/// The header that AgentCore Runtime names a request with.
pub const RUNTIME_REQUEST: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-request-id");

/// The channel of sessions that begin without a key.
const CHANNEL: &str = "api";

/// What every handler can reach.
#[derive(Debug)]
pub struct App {
    /// The live sessions, and through it the realms.
    pub hub: Arc<Hub>,
    /// What SDKs of agents keep.
    pub entries: Arc<Entries>,
    /// Who is asking.
    pub identity: Identity,
    /// From where.
    pub door: Door,
    /// Actors who may see the numbers of the whole server.
    pub operators: Vec<String>,
    /// How many WebSockets each actor has.
    pub sockets: Arc<Counts>,
    /// What tokens cost.
    pub prices: Arc<Prices>,
    /// Whether the page is shown.
    pub page: bool,
}

/// Whoever asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who it is; none if that is still to be said.
    pub actor: Option<ActorId>,
    /// From which address.
    pub peer: IpAddr,
    /// Whether it came through the owner's socket, from a process of the owner.
    pub by_socket: bool,
    /// What the runtime calls the connection.
    pub runtime_session: Option<RuntimeSessionId>,
    /// The token of a WebSocket's first message.
    pub token: Option<SecretString>,
    /// The proof of the server that forwarded it, if one did.
    pub(crate) passage: Option<Arc<Passage>>,
    /// What it showed.
    pub headers: Arc<HeaderMap>,
}

/// What AgentCore Runtime calls a session: which connections belong together. It says nothing about whose a conversation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSessionId(String);

impl RuntimeSessionId {
    /// Takes an id of 1 to 256 printable characters; the runtime's own have 33 at least.
    pub fn parse(text: &str) -> Option<Self> {
        let is_sound = (1..=256).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_sound.then(|| Self(text.to_owned()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl App {
    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.hub.shared().limits
    }

    /// The other servers of the cluster, if this one has its key.
    pub(crate) fn peers(&self) -> Option<&Arc<Peers>> {
        self.hub.shared().fleet.as_ref()?.peers()
    }

    /// Watches the session that is asked for; a new one if none is. Nothing is begun before every bound was asked.
    pub(crate) async fn attach(
        &self,
        realm: &Arc<Realm>,
        wanted: &Wanted,
        runtime: Option<&RuntimeSessionId>,
        after: After,
        purpose: Purpose<'_>,
    ) -> Result<Watching> {
        let usual = self.hub.agents().usual();
        let key = match (wanted, runtime) {
            (Wanted::Id(id), _) => return self.hub.attach(realm, id, after).await,
            (Wanted::Key(key), _) => Some(key.clone()),
            (Wanted::Current, Some(session)) => Some(runtime_key(usual, session)?),
            (Wanted::New(Some(agent)), Some(session)) => Some(runtime_key(agent, session)?),
            (Wanted::New(_) | Wanted::Current, _) => None,
        };
        let (shared, actor) = (self.hub.shared(), realm.actor());
        let ask = move || match purpose {
            Purpose::Watch(unused) => unused.count(&shared.limits),
            Purpose::Prompt(admission) => {
                *admission = Some(shared.admission(actor)?);
                Ok(())
            }
        };
        let (id, mut reserved) = match (key, wanted) {
            (Some(key), _) => self.hub.of_key(realm, &key, ask).await?,
            (None, Wanted::New(Some(agent))) => self.hub.begin_live(realm, &fresh_key(agent)?, ask).await?,
            (None, _) => self.hub.begin_live(realm, &fresh_key(usual)?, ask).await?,
        };
        self.hub.attach_reserved(realm, &id, after, &mut reserved).await
    }

    /// Sees whether a prompt could be taken at all: no session is begun for one that could not.
    pub(crate) fn check(&self, prompt: &str) -> Result<()> {
        self.limits().check_prompt(prompt)?;
        match self.hub.shared().is_stopping() {
            true => Err(Problem::new(Code::Unavailable, "the server is about to stop; send it again")),
            false => Ok(()),
        }
    }
}

/// A key that nobody has.
fn fresh_key(agent: &str) -> Result<Key> {
    let peer = uuid::Uuid::now_v7().to_string();
    Ok(Key::new(agent, CHANNEL, None, &peer).map_err(unforget_core::Error::from)?)
}

/// What a session is wanted for, and so what is asked before one is begun.
pub(crate) enum Purpose<'a> {
    /// To be watched, by a connection that began so many without a word.
    Watch(&'a mut Unused),
    /// For a prompt, whose place among those of its actor is taken first.
    Prompt(&'a mut Option<Admission>),
}

/// How many sessions a connection began without a prompt.
#[derive(Debug, Default)]
pub(crate) struct Unused(usize);

impl Unused {
    fn count(&mut self, limits: &Limits) -> Result<()> {
        let most = limits.unused_sessions;
        if self.0 >= most {
            let message =
                format!("this connection began {most} sessions without a prompt (`unused_sessions`); send one");
            return Err(Problem::new(Code::TooMany, message));
        }
        self.0 += 1;
        Ok(())
    }
}

/// How many of something each actor has.
#[derive(Debug, Default)]
pub struct Counts(Mutex<HashMap<ActorId, usize>>);

/// One of them, until it is dropped.
pub struct Counted(Arc<Counts>, ActorId);

impl Counts {
    /// Counts one more, unless there are too many.
    pub fn count(self: &Arc<Self>, actor: &ActorId, most: usize) -> Result<Counted> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(actor.clone()).or_default();
        if *count >= most {
            return Err(Problem::new(Code::TooMany, format!("you have {count} connections already")));
        }
        *count += 1;
        Ok(Counted(self.clone(), actor.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}
