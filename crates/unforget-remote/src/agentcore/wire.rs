//! What travels between a client and AgentCore Memory, as JSON.
//!
//! Both sides of the tests use these types: the client of this crate and the stand-in of the test kit. They say how things
//! are spelled, and nothing about limits or meaning. Members that nobody here needs are left out; what is unknown is skipped, because a service adds
//! members whenever it likes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// The name that requests are signed for.
pub const SERVICE: &str = "bedrock-agentcore";
/// The reason of a refusal: this client token was used for another request.
pub const TOKEN_MISMATCH: &str = "IdempotentParameterMismatchException";
/// The header that names an error.
pub const ERROR_TYPE: &str = "x-amzn-ErrorType";

/// Metadata of an event.
pub type Metadata = BTreeMap<String, MetadataValue>;

/// A value of metadata; so far there are only strings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataValue {
    /// The string.
    pub string_value: String,
}

/// A piece of an event's payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Item {
    /// What somebody said.
    Conversational(Value),
    /// Any JSON; production clients use strings only.
    Blob(Value),
    /// A JSON document with a name for it.
    Json(Value),
}

/// A branch of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// Its name; `main` unless said otherwise.
    pub name: String,
    /// The event that it leaves from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_event_id: Option<String>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The memory.
    pub memory_id: String,
    /// The actor.
    pub actor_id: String,
    /// The session.
    pub session_id: String,
    /// Milliseconds, `#` and hexadecimal digits: the only exact time that an event has.
    pub event_id: String,
    /// Seconds since 1970.
    pub event_timestamp: Number,
    /// The pieces; none if they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Vec<Item>>,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// Names and values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: Metadata,
}

/// The body of CreateEvent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateEvent {
    /// The actor.
    pub actor_id: String,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Seconds since 1970.
    pub event_timestamp: Number,
    /// The pieces.
    pub payload: Vec<Item>,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// Names and values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: Metadata,
    /// Makes a repetition have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
    /// `SKIP` keeps the event out of long-term memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction_mode: Option<String>,
}

/// The answer to CreateEvent and GetEvent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneEvent {
    /// The event.
    pub event: Event,
}

/// The body of ListEvents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListEvents {
    /// Whether payloads are wanted; they are unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_payloads: Option<bool>,
    /// Which events; applied after the page was taken, and late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

/// The answer to ListEvents, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Events {
    /// The events.
    pub events: Vec<Event>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

/// The answer to DeleteEvent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// The event that is gone.
    pub event_id: String,
}

/// The body of ListSessions and ListActors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListNames {
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
    /// Which sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The session.
    pub session_id: String,
    /// The actor.
    pub actor_id: String,
    /// Seconds since 1970.
    pub created_at: Number,
}

/// The answer to ListSessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// The sessions.
    pub session_summaries: Vec<Session>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

/// An actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The actor.
    pub actor_id: String,
}

/// The answer to ListActors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actors {
    /// The actors.
    pub actor_summaries: Vec<Actor>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

/// The body of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What is wrong.
    #[serde(default, alias = "Message")]
    pub message: String,
    /// The error's name, where no header says it.
    #[serde(default, rename = "__type", alias = "code", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What kind of invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which members are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_list: Vec<Field>,
}

/// A member that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The member.
    pub name: String,
    /// What is wrong with it.
    pub message: String,
}
