//! The agents of a server, by their names.

use std::sync::Arc;

use unforget_agent::model::BoxFuture;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::stamp::SessionId;

use super::{Agent, Voice};
use crate::error::{Code, Problem, Result};
use crate::realm::{Name, Realm};

/// The agents; the first is the one that answers when none is named.
#[derive(Debug, Clone)]
pub struct Agents {
    all: Arc<[Arc<dyn Agent>]>,
    mute: Arc<dyn Agent>,
}

impl Agents {
    /// These agents; none if there is not at least one.
    pub fn new(all: Vec<Arc<dyn Agent>>) -> Option<Self> {
        (!all.is_empty()).then(|| Self { all: all.into(), mute: Arc::new(Mute) })
    }

    /// The name of the agent that answers when none is named.
    pub fn usual(&self) -> &str {
        self.all.first().map_or("main", |agent| agent.name())
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|agent| agent.name().to_owned()).collect()
    }

    /// All agents.
    pub fn all(&self) -> &[Arc<dyn Agent>] {
        &self.all
    }

    /// The agent of a name.
    pub fn named(&self, name: &str) -> Result<Arc<dyn Agent>> {
        let found = self.all.iter().find(|agent| agent.name() == name);
        found.cloned().ok_or_else(|| {
            let names = self.names().join("`, `");
            Problem::invalid(format!("there is no agent of that name; there are: `{names}`"))
        })
    }

    /// The agent that goes on with a session in a directory. A session of an agent that is gone goes on with the usual one; one of another
    /// program needs that program.
    pub(crate) fn of(&self, dir: &AgentDir) -> Arc<dyn Agent> {
        let of_name = self.all.iter().find(|agent| AgentDir::of(agent.name()) == *dir);
        let native = || self.all.iter().find(|agent| !dir.has_sides() && agent.kind() == "built-in");
        of_name.or_else(native).unwrap_or(&self.mute).clone()
    }

    /// Where a session would be that was begun and has no transcript yet.
    pub(crate) fn begun(&self, realm: &Realm, id: &SessionId) -> Option<AgentDir> {
        let agent = self.all.iter().find(|agent| agent.has_begun(realm, id))?;
        Some(AgentDir::of(agent.name()))
    }
}

/// Answers for sessions that can be read and have nobody to go on with them.
#[derive(Debug)]
struct Mute;

impl Agent for Mute {
    fn kind(&self) -> &'static str {
        "none"
    }

    fn name(&self) -> &str {
        "none"
    }

    fn begin<'a>(&'a self, _: &'a Arc<Realm>, _: &'a Key, _: Option<&'a str>) -> BoxFuture<'a, Result<Name>> {
        Box::pin(async { Err(silent()) })
    }

    fn open<'a>(&'a self, _: &'a Arc<Realm>, _: &'a Name) -> BoxFuture<'a, Result<Box<dyn Voice>>> {
        Box::pin(async { Err(silent()) })
    }
}

fn silent() -> Problem {
    Problem::new(Code::Conflict, "no agent of this server goes on with this session; it can be read")
}
