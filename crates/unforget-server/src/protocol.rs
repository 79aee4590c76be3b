//! The wire types of a conversation: every message that a client may send and every one that it may
//! receive, each defined once.
//!
//! The WebSocket, the streams of AgentCore Runtime and live sessions build these values and encode
//! them; no other module writes such JSON. docs/protocol.md explains the messages,
//! docs/protocol.schema.json defines them for programs, and a test holds each of them against that
//! schema in both directions: a member that is on one side only fails.
//!
//! `client` is what a client says, `server` what it hears, `runtime` the answers that
//! AgentCore Runtime's contract asks for. They know problems and limits, and nothing of sessions,
//! connections or HTTP routes.

use serde::Serialize;

pub(crate) mod client;
pub(crate) mod runtime;
pub(crate) mod server;

pub(crate) use server::ServerMessage;
pub use server::{Attached, Called, Interrupted, Kind, Outcome, PromptState, RunningTurn, TurnState};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// What a client calls a prompt: the same name within a session means the same prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ClientId(String);

impl ClientId {
    /// The longest one, in bytes.
    pub const MAX: usize = 128;

    /// Takes a name, if it is not empty, not too long and has no control characters.
    pub fn parse(text: &str) -> Option<Self> {
        let is_sound = !text.is_empty() && text.len() <= Self::MAX && !text.chars().any(char::is_control);
        is_sound.then(|| Self(text.to_owned()))
    }

    /// A new one, for a client that gave none.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What words survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// This machine's loss of power.
    Disk,
    /// This machine's loss.
    Remote,
}

impl Durability {
    /// The name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Disk => "disk",
            Durability::Remote => "remote",
        }
    }
}

/// Where a viewer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Behind this record; none for the beginning.
    Line(Option<u64>),
    /// With what comes next.
    End,
}

#[cfg(test)]
mod tests;
