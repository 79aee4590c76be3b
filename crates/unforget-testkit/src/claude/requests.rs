//! What the CLI has sent: which of its requests belong to a conversation, and what they say.
//!
//! Every request names its session in a header. Not all of them are the conversation: the CLI also asks for titles and
//! the like, without tools, and agents below the main one send under the same session. A request counts as accepted or
//! not by the server's own answer; the CLI tries again without what was refused, so only accepted ones are looked at.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::{FakeApi, Recorded};

const SESSION: &str = "x-claude-code-session-id";
/// Only an agent below the main one has it.
const AGENT: &str = "x-claude-code-agent-id";

/// The session that a request belongs to.
pub fn session(request: &Recorded) -> Option<&str> {
    request.header(SESSION)
}

/// The accepted requests of a session that carry its main conversation, in order.
pub fn main(api: &FakeApi, session_id: &str) -> Vec<Recorded> {
    let mut requests = api.messages();
    requests.retain(|request| {
        session(request) == Some(session_id)
            && request.status == Some(200)
            && request.header(AGENT).is_none()
            && has_tools(request)
    });
    requests
}

/// The `messages` of the last main request of a session, as they were sent, byte for byte.
pub fn last_messages(api: &FakeApi, session_id: &str) -> Option<Box<RawValue>> {
    messages(main(api, session_id).last()?)
}

/// The `messages` of a request, as they were sent.
pub fn messages(request: &Recorded) -> Option<Box<RawValue>> {
    let members: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&request.body).ok()?;
    members.get("messages").cloned()
}

fn has_tools(request: &Recorded) -> bool {
    request.json().get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty())
}
