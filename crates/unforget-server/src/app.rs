//! What every handler can reach, and which session a client means.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use unforget_agent::prices::Prices;
use unforget_core::key::Key;

use crate::actor::ActorId;
use crate::caller::RuntimeSessionId;
use crate::door::Door;
use crate::entries::Entries;
use crate::error::{Code, Problem, Result};
use crate::fleet::Seen;
use crate::hub::{Admission, Hub, Watching};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::peers::Peers;
use crate::protocol::After;
use crate::protocol::client::Target;
use crate::realm::Realm;

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

impl App {
    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.hub.shared().limits
    }

    /// The other servers of the cluster, if this one has its key.
    pub(crate) fn peers(&self) -> Option<&Arc<Peers>> {
        self.hub.shared().fleet.as_ref()?.peers()
    }

    /// Watches the session that is asked for; a new one if none is. Nothing is begun before every
    /// bound was asked.
    pub(crate) async fn attach(
        &self,
        realm: &Arc<Realm>,
        target: &Target,
        runtime: Option<&RuntimeSessionId>,
        after: After,
        purpose: Purpose<'_>,
    ) -> Result<Watching> {
        let usual = self.hub.agents().usual();
        let key = match (target, runtime) {
            (Target::Id(id), _) => return self.hub.attach(realm, id, after).await,
            (Target::Key(key), _) => Some(key.clone()),
            (Target::Current, Some(session)) => Some(runtime_key(usual, session)?),
            (Target::New(Some(agent)), Some(session)) => Some(runtime_key(agent, session)?),
            (Target::New(_) | Target::Current, _) => None,
        };
        let (shared, actor) = (self.hub.shared(), realm.actor());
        let ask = move || match purpose {
            Purpose::Watch(unused) => unused.count(&shared.limits),
            Purpose::Prompt(admission) => {
                *admission = Some(shared.admission(actor)?);
                Ok(())
            }
        };
        let (id, mut reserved) = match (key, target) {
            (Some(key), _) => self.hub.of_key(realm, &key, ask).await?,
            (None, Target::New(Some(agent))) => {
                self.hub.begin_live(realm, &fresh_key(agent)?, Seen::At(None), ask).await?
            }
            (None, _) => self.hub.begin_live(realm, &fresh_key(usual)?, Seen::At(None), ask).await?,
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

/// The key of what a runtime session says.
fn runtime_key(agent: &str, session: &RuntimeSessionId) -> Result<Key> {
    Ok(Key::new(agent, "runtime", None, session.as_str()).map_err(unforget_core::Error::from)?)
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
