//! Who sent a request, as far as that was verified or said.
//!
//! Three kinds of ids have three types: a session's
//! ([`SessionId`](unforget_core::stamp::SessionId)), the one that AgentCore Runtime gives a
//! connection ([`RuntimeSessionId`]), and a Claude session's, which stays within its agent.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use secrecy::SecretString;

use crate::actor::ActorId;
use crate::peers::Passage;

/// The header that AgentCore Runtime names a session with.
pub(crate) const RUNTIME_SESSION: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
/// The header that AgentCore Runtime names a request with.
pub(crate) const RUNTIME_REQUEST: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-request-id");

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Who it is; none if that is still to be said.
    pub(crate) actor: Option<ActorId>,
    /// From which address.
    pub(crate) peer: IpAddr,
    /// Whether it came through the owner's socket, from a process of the owner.
    pub(crate) by_socket: bool,
    /// What the runtime calls the connection.
    pub(crate) runtime_session: Option<RuntimeSessionId>,
    /// The token of a WebSocket's first message.
    pub(crate) token: Option<SecretString>,
    /// The proof of the server that forwarded it, if one did.
    pub(crate) passage: Option<Arc<Passage>>,
    /// What it showed.
    pub(crate) headers: Arc<HeaderMap>,
}

/// What AgentCore Runtime calls a session: which connections belong together. It says nothing about
/// whose a conversation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuntimeSessionId(String);

impl RuntimeSessionId {
    /// Takes an id of 1 to 256 printable characters; the runtime's own have 33 at least.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_sound = (1..=256).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_sound.then(|| Self(text.to_owned()))
    }

    /// Its text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
