//! The server: whether it is well, and which agents answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Verb;
use crate::app::App;
use crate::error::Result;
use crate::realm::Realm;

/// The version of the HTTP interface.
pub(crate) const PROTOCOL: u32 = 1;

/// Whether the server is well. It says nothing about any actor, so every client may ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// `ok`, or `stopping`.
    pub status: &'static str,
    pub version: &'static str,
    pub protocol: u32,
}

impl Health {
    /// The health of a server.
    pub(crate) fn of(app: &App) -> Self {
        let status = if app.hub.shared().is_stopping() { "stopping" } else { "ok" };
        Self { status, version: env!("CARGO_PKG_VERSION"), protocol: PROTOCOL }
    }
}

/// Asks for the agents.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAgents {}

/// The agents, and the one that answers if a client names none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentList {
    pub agents: Vec<ListedAgent>,
    pub default: String,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedAgent {
    pub name: String,
    /// `built-in`, or `claude-code`.
    pub kind: &'static str,
}

impl AgentList {
    pub(crate) fn of(app: &App) -> Self {
        let agents = app.hub.agents();
        let all = agents.all().iter().map(|agent| ListedAgent { name: agent.name().to_owned(), kind: agent.kind() });
        Self { agents: all.collect(), default: agents.usual().to_owned() }
    }
}

impl Verb<App> for ListAgents {
    type Answer = AgentList;

    async fn call(self, app: &Arc<App>, _realm: &Arc<Realm>) -> Result<AgentList> {
        Ok(AgentList::of(app))
    }
}

/// Asks which actor the client is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhoAmI {}

/// An actor, and what the server has for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Me {
    pub actor: String,
    /// Whether clients have to show a token.
    pub needs_token: bool,
    #[serde(flatten)]
    pub agents: AgentList,
    pub version: &'static str,
    pub protocol: u32,
}

impl Verb<App> for WhoAmI {
    type Answer = Me;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<Me> {
        Ok(Me {
            actor: realm.actor().name().to_owned(),
            needs_token: app.identity.takes_tokens(),
            agents: AgentList::of(app),
            version: env!("CARGO_PKG_VERSION"),
            protocol: PROTOCOL,
        })
    }
}
