//! What the server was asked, and what it said.

use axum::body::Bytes;
use axum::http::HeaderMap;
use serde_json::Value;

use crate::rules::Rejection;

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Counts the requests of a server, from one.
    pub number: u64,
    /// The HTTP method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The headers, in the order in which they came, names in lower case; a value that is no text is left out.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The HTTP status of the answer; none while there is no answer.
    pub status: Option<u16>,
    /// What the rules found wrong with the request; none if it was accepted, or if the error was planned.
    pub refusal: Option<Rejection>,
}

impl Recorded {
    pub(super) fn new(number: u64, method: &str, path: String, headers: &HeaderMap, body: Bytes) -> Self {
        let headers = headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
            .collect();
        Self { number, method: method.to_owned(), path, headers, body, status: None, refusal: None }
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The path without its query.
    pub fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Whether it asks for a message.
    pub fn is_message(&self) -> bool {
        self.method == "POST" && self.route() == super::MESSAGES
    }

    /// Whether it asks for a message in pieces.
    pub fn is_streaming(&self) -> bool {
        self.is_message() && self.json().get("stream") == Some(&Value::Bool(true))
    }
}
