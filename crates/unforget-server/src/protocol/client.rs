//! What a client may say.
//!
//! Every message is a JSON object with a `type`. One without a type and with a `prompt` is the
//! short form: one prompt, one answer, and the connection is closed. Fields that are not known are
//! refused in the long form, where a typing error would pass for "not given", and ignored in the
//! short form, which belongs to clients that were written for other servers.

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use unforget_core::key::Key;
use unforget_core::stamp::SessionId;

use super::{After, ClientId, PROTOCOL};
use crate::error::{Problem, Result};
use crate::limits::Limits;

/// A message of a client.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    Hello,
    Auth(SecretString),
    Attach(Target, After),
    Prompt(PromptRequest),
    Abort(Option<ClientId>),
    Answer { call: String, allow: bool, reason: Option<String> },
    Resume,
    Detach,
    Ping,
}

/// A prompt, and where it belongs.
#[derive(Debug)]
pub(crate) struct PromptRequest {
    pub(crate) target: Target,
    pub(crate) text: String,
    pub(crate) client_id: Option<ClientId>,
    /// Whether the connection is for this prompt alone.
    pub(crate) is_short: bool,
}

/// Which session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// This one.
    Id(SessionId),
    /// The current one of a key.
    Key(Key),
    /// A new one, with this agent.
    New(Option<String>),
    /// The one that this connection is attached to, or a new one.
    Current,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Wire {
    Hello {
        protocol: Option<u32>,
    },
    Auth {
        token: String,
    },
    Attach {
        session_id: Option<String>,
        key: Option<String>,
        agent: Option<String>,
        after: Option<u64>,
        from: Option<Start>,
    },
    Prompt {
        prompt: String,
        client_id: Option<String>,
        session_id: Option<String>,
        key: Option<String>,
        agent: Option<String>,
    },
    Abort {
        client_id: Option<String>,
    },
    Answer {
        call_id: String,
        allow: bool,
        reason: Option<String>,
    },
    Resume {},
    Detach {},
    Ping {},
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Start {
    Beginning,
    End,
}

/// Reads a message.
pub(crate) fn read(text: &str, limits: &Limits) -> Result<ClientMessage> {
    limits.check_json(text)?;
    let wrong = |error: serde_json::Error| Problem::invalid(format!("the message is not understood: {error}"));
    let value: Value = serde_json::from_str(text).map_err(wrong)?;
    let Value::Object(members) = &value else {
        return Err(Problem::invalid("the message is not a JSON object"));
    };
    if !members.contains_key("type") {
        return short(&value).map(ClientMessage::Prompt);
    }
    Ok(match serde_json::from_value::<Wire>(value).map_err(wrong)? {
        Wire::Hello { protocol } => match protocol {
            None | Some(PROTOCOL) => ClientMessage::Hello,
            Some(other) => {
                return Err(Problem::invalid(format!(
                    "this server speaks version {PROTOCOL} of the protocol, not {other}"
                )));
            }
        },
        Wire::Auth { token } => ClientMessage::Auth(token.into()),
        Wire::Attach { session_id, key, agent, after, from } => {
            let target = target(session_id.as_deref(), key.as_deref(), agent.as_deref())?;
            match (from, after) {
                (Some(_), Some(_)) => return Err(Problem::invalid("`after` and `from` exclude each other")),
                (Some(Start::End), None) => ClientMessage::Attach(target, After::End),
                (Some(Start::Beginning) | None, after) => ClientMessage::Attach(target, After::Line(after)),
            }
        }
        Wire::Prompt { prompt, client_id, session_id, key, agent } => ClientMessage::Prompt(PromptRequest {
            target: target(session_id.as_deref(), key.as_deref(), agent.as_deref())?,
            text: prompt,
            client_id: named(client_id.as_deref())?,
            is_short: false,
        }),
        Wire::Abort { client_id } => ClientMessage::Abort(named(client_id.as_deref())?),
        Wire::Answer { call_id, allow, reason } => ClientMessage::Answer { call: call_id, allow, reason },
        Wire::Resume {} => ClientMessage::Resume,
        Wire::Detach {} => ClientMessage::Detach,
        Wire::Ping {} => ClientMessage::Ping,
    })
}

/// The short form, also the body of `POST /invocations`.
pub(crate) fn short(value: &Value) -> Result<PromptRequest> {
    let text = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(Problem::invalid(format!("`{name}` must be a string"))),
    };
    let prompt = text("prompt")?.ok_or_else(|| Problem::invalid("the message has neither a `type` nor a `prompt`"))?;
    Ok(PromptRequest {
        // An empty id is what a client sends that has none yet.
        target: target(text("session_id")?.filter(|id| !id.is_empty()), text("key")?, text("agent")?)?,
        text: prompt.to_owned(),
        client_id: named(text("client_id")?)?,
        is_short: true,
    })
}

fn target(id: Option<&str>, key: Option<&str>, agent: Option<&str>) -> Result<Target> {
    match (id, key, agent) {
        (Some(_), Some(_), _) => Err(Problem::invalid("`session_id` and `key` exclude each other")),
        // An id that cannot be one is an id that nobody has.
        (Some(id), None, _) => SessionId::parse(id).map(Target::Id).ok_or_else(Problem::no_session),
        (None, Some(key), _) => Ok(Target::Key(key.parse().map_err(unforget_core::Error::from)?)),
        (None, None, Some(agent)) => Ok(Target::New(Some(agent.to_owned()))),
        (None, None, None) => Ok(Target::Current),
    }
}

fn named(client_id: Option<&str>) -> Result<Option<ClientId>> {
    let parse = |text: &str| {
        let most = ClientId::MAX;
        let wrong = || Problem::invalid(format!("a `client_id` has 1 to {most} bytes and no control characters"));
        ClientId::parse(text).ok_or_else(wrong)
    };
    client_id.map(parse).transpose()
}
