//! The user that AgentCore Runtime names in a header.
//!
//! Inside AgentCore Runtime nobody reaches the container but the runtime, which has authenticated the caller. Whom the call is for is in
//! `X-Amzn-Bedrock-AgentCore-Runtime-User-Id`. The runtime does not verify that name: whoever may call `InvokeAgentRuntimeForUser` may write
//! any name into it, so this permission is the right to be everybody, and belongs to a backend that knows its users. Anywhere else, the header
//! is a thing that anybody can send. That is why it is believed only where somebody said so (`--trust-runtime-headers`).
//!
//! A call without the header is nobody's. A default user would be one that all who forgot the header share.

use axum::http::HeaderMap;

use crate::actor::ActorId;

/// The header that names the user.
pub const USER_ID: &str = "x-amzn-bedrock-agentcore-runtime-user-id";

/// The user that the runtime names; none if it names nobody, or several.
pub(crate) fn user(headers: &HeaderMap) -> Option<ActorId> {
    let mut values = headers.get_all(USER_ID).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    ActorId::verified(std::str::from_utf8(value.as_bytes()).ok()?)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn exactly_one_name_is_somebody() {
        let mut headers = HeaderMap::new();
        assert_eq!(user(&headers), None);
        headers.append(USER_ID, HeaderValue::from_static("ada"));
        assert_eq!(user(&headers), ActorId::verified("ada"));
        headers.append(USER_ID, HeaderValue::from_static("eve"));
        assert_eq!(user(&headers), None);
    }

    #[test]
    fn what_is_no_name_is_nobody() {
        for value in [HeaderValue::from_static(""), HeaderValue::from_bytes(b"\xff").unwrap()] {
            assert_eq!(user(&HeaderMap::from_iter([(USER_ID.parse().unwrap(), value)])), None);
        }
    }
}
