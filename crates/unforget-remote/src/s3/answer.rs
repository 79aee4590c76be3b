//! What an answer of the store means.
//!
//! The same number means different things: 404 is an object that is not there or a bucket that is not, 409 and 412 both come
//! from creating what is there, and only the second says so. Taking one for the other loses a session, so every case is told apart here and
//! nowhere else. Of what the store says, only its code and its message are passed on: the rest may name keys.

use std::error::Error as _;
use std::time::Duration;

use crate::error::{Error, printable};

/// How long a store wants to be left alone that says it is asked too often.
const SLOW_DOWN: Duration = Duration::from_secs(1);
/// How deep an error is looked into.
const DEPTH: usize = 16;
/// How much of a message is passed on.
const MESSAGE: usize = 400;
/// What comes before the number of an answer in object_store's messages, which are the only place that has it.
const STATUS: &str = "status code: ";

/// Whether an object is there already, so that none was created. A 409 says only that somebody is creating one.
pub(super) fn is_taken(error: &object_store::Error) -> bool {
    // A 412 (or 304) is wrapped once more than a 409.
    matches!(error, object_store::Error::AlreadyExists { source, .. } if source.is::<object_store::Error>())
        || matches!(error, object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. })
}

/// Whether the store was asked and has no such object.
pub(super) fn is_missing(error: &object_store::Error) -> bool {
    let said = Said::of(error);
    matches!(error, object_store::Error::NotFound { .. }) && said.code.is_none_or(|code| code == "NoSuchKey")
}

/// What the store said.
struct Said {
    text: String,
    status: Option<u16>,
    code: Option<String>,
    message: Option<String>,
    is_heard: bool,
}

impl Said {
    fn of(error: &object_store::Error) -> Self {
        let text = error.to_string();
        let status = text.find(STATUS).and_then(|at| text.get(at + STATUS.len()..)?.get(..3)?.parse().ok());
        let between = |open: &str, close: &str| {
            let from = text.find(open)? + open.len();
            let len = text.get(from..)?.find(close)?;
            text.get(from..from + len).map(|found| found.chars().take(MESSAGE).collect::<String>())
        };
        let mut source = error.source();
        let mut is_heard = true;
        for _ in 0..DEPTH {
            let Some(inner) = source else { break };
            if inner.is::<object_store::client::HttpError>() {
                is_heard = false;
            }
            source = inner.source();
        }
        let (code, message) = (between("<Code>", "</Code>"), between("<Message>", "</Message>"));
        Self { text, status, code, message, is_heard }
    }

    fn reason(&self) -> String {
        match (&self.code, &self.message, self.status) {
            (Some(code), Some(message), _) => format!("{code}: {message}"),
            (Some(code), None, _) => code.clone(),
            (None, _, Some(status)) => format!("the answer was {status}"),
            (None, _, None) => self.text.chars().take(MESSAGE).collect(),
        }
    }
}

/// An answer that is no success, by what can be done about it.
pub(super) fn explained(error: &object_store::Error, place: &str) -> Error {
    let said = Said::of(error);
    let reason = printable(&said.reason());
    let place = place.to_owned();
    let hinted = |hint: &str| format!("{reason}; {hint}");
    let unavailable = |wait| Error::Unavailable { place: place.clone(), reason: reason.clone(), wait };
    let denied = |reason| Error::Denied { place: place.clone(), reason };
    match (said.status, said.code.as_deref()) {
        (_, Some("NoSuchBucket")) => {
            denied(hinted("the bucket has to be created first, and its name and region be right"))
        }
        (_, Some("RequestTimeTooSkewed")) => denied(hinted("the clock of this machine is wrong")),
        (_, Some("SlowDown" | "ThrottlingException" | "RequestLimitExceeded")) | (Some(429), _) => {
            unavailable(Some(SLOW_DOWN))
        }
        (_, Some("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException"))
        | (Some(300..400), _) => denied(hinted("the bucket is in another region")),
        (Some(501), _) | (_, Some("NotImplemented")) => {
            denied(hinted("the store lacks what is needed to create an object once"))
        }
        // Somebody is creating an object of that name: asked again, the store knows who came first.
        (Some(408 | 409 | 500..), _) => unavailable(None),
        (_, Some("RequestTimeout" | "OperationAborted" | "InternalError")) => unavailable(None),
        (Some(416), _) => Error::Corrupt { what: place, reason: "an object is empty that never was".to_owned() },
        (Some(404), _) => denied(hinted("the bucket may not be there")),
        (Some(_), _) => denied(reason),
        (None, _) if !said.is_heard => unavailable(None),
        (None, _) => match error {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                denied(reason)
            }
            object_store::Error::InvalidPath { .. } => {
                Error::Corrupt { what: place, reason: format!("it has an object that cannot be named: {reason}") }
            }
            _ if reason.contains("redirect") => denied(hinted("the bucket is in another region")),
            _ => unavailable(None),
        },
    }
}
