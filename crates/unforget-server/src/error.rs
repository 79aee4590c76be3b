//! What is told to a client when something cannot be done: a code for programs, words for people, a status for HTTP.
//!
//! What went wrong inside (a path, a host, a query) is told to the log and not to the client. A session of somebody else and one that does not
//! exist are the same problem, word for word.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use serde_json::json;
use unforget_core::edit::EditError;

/// The result of everything that a client asks for.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// Why something cannot be done; the `error` of a message or a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind of problem.
    pub code: Code,
    /// What, where, and what to do.
    pub message: String,
    /// After how many seconds the client may try again, where that is known.
    #[serde(skip)]
    pub retry_after: Option<u32>,
    /// The same for the owner of the store, with addresses and paths that others must not see.
    #[serde(skip)]
    pub(crate) owners: Option<String>,
}

/// After how many seconds a client may try again where nothing else is known.
const RETRY_AFTER: u32 = 1;

/// What kind of problem it is; the name is part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// The request is not understood.
    Invalid,
    /// Nobody was recognised.
    Unauthenticated,
    /// The request comes from a page or for a host that is not allowed.
    Forbidden,
    /// There is nothing of that name, for this actor.
    NotFound,
    /// The method is not one of this place.
    MethodNotAllowed,
    /// Somebody else is writing, or a turn is running.
    Busy,
    /// Something of that name is there already, or it went on differently.
    Conflict,
    /// It is larger than allowed.
    TooLarge,
    /// It is of a type that is not understood here.
    UnsupportedMedia,
    /// There is more of it than allowed.
    TooMany,
    /// It took too long to arrive.
    Timeout,
    /// The session is served by another server now.
    Moved,
    /// The server is about to stop, or something that it needs is away.
    Unavailable,
    /// What the model said, or that it said nothing.
    Model,
    /// The disk is full or refuses.
    Storage,
    /// Something is wrong here.
    Internal,
}

impl Code {
    /// Every code, for the documents that list them.
    pub const ALL: [Code; 16] = [
        Code::Invalid,
        Code::Unauthenticated,
        Code::Forbidden,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::Busy,
        Code::Conflict,
        Code::TooLarge,
        Code::UnsupportedMedia,
        Code::TooMany,
        Code::Timeout,
        Code::Moved,
        Code::Unavailable,
        Code::Model,
        Code::Storage,
        Code::Internal,
    ];

    /// The name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Code::Invalid => "invalid",
            Code::Unauthenticated => "unauthenticated",
            Code::Forbidden => "forbidden",
            Code::NotFound => "not_found",
            Code::MethodNotAllowed => "method_not_allowed",
            Code::Busy => "busy",
            Code::Conflict => "conflict",
            Code::TooLarge => "too_large",
            Code::UnsupportedMedia => "unsupported_media",
            Code::TooMany => "too_many",
            Code::Timeout => "timeout",
            Code::Moved => "moved",
            Code::Unavailable => "unavailable",
            Code::Model => "model",
            Code::Storage => "storage",
            Code::Internal => "internal",
        }
    }

    /// The status in HTTP.
    pub fn status(self) -> StatusCode {
        match self {
            Code::Invalid => StatusCode::BAD_REQUEST,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::Busy | Code::Conflict => StatusCode::CONFLICT,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Code::Timeout => StatusCode::REQUEST_TIMEOUT,
            Code::Moved => StatusCode::MISDIRECTED_REQUEST,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::Model => StatusCode::BAD_GATEWAY,
            Code::Storage => StatusCode::INSUFFICIENT_STORAGE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Problem {
    /// A problem of a kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, owners: None }
    }

    /// The same, and when the client may try again; a part of a second is a whole one.
    pub fn after(mut self, wait: std::time::Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.retry_after = Some(u32::try_from(seconds.max(1)).unwrap_or(u32::MAX));
        self
    }

    /// There is no such session, or it is somebody else's: nobody can tell which.
    pub fn no_session() -> Self {
        Self::new(Code::NotFound, "there is no such session")
    }

    /// The request is not understood.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }

    /// Something went wrong that the client can do nothing about; the log knows more.
    pub fn internal(what: &str, error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "{what}");
        Self::new(Code::Internal, format!("{what} failed; the server's log tells why"))
    }

    /// Work beside did not end well. What a panic says may hold what a person said: it is not repeated anywhere.
    pub fn fallen(what: &str, error: &tokio::task::JoinError) -> Self {
        Self::internal(what, if error.is_panic() { &"it panicked" } else { &"it was given up" })
    }

    /// Says in a response when the client may try again, if that is of any use.
    pub(crate) fn tell_when(&self, response: &mut Response) {
        if matches!(self.code, Code::TooMany | Code::Unavailable) {
            let seconds = axum::http::HeaderValue::from(self.retry_after.unwrap_or(RETRY_AFTER));
            response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds);
        }
    }
}

impl From<unforget_core::Error> for Problem {
    fn from(error: unforget_core::Error) -> Self {
        use unforget_core::Error;
        match error {
            Error::NotFound { .. } | Error::Missing { .. } => Self::no_session(),
            Error::Busy { holder, .. } => {
                Self::new(Code::Busy, format!("another program is writing this session ({holder}); reading works"))
            }
            Error::NotOurs { owner, .. } => {
                Self::new(Code::Conflict, format!("this is a session of {owner}: nothing is written into it here"))
            }
            Error::Mismatch { .. } | Error::Changed { .. } => {
                tracing::error!(%error, "a transcript is not what it was");
                Self::new(Code::Conflict, "the transcript was changed by somebody else; attach again")
            }
            Error::Invalid(message) => Self::invalid(message),
            Error::Key(error) => Self::invalid(error.to_string()),
            Error::Ambiguous { name, .. } => Self::invalid(format!("`{name}` could mean several sessions")),
            Error::Io { source, path, .. }
                if matches!(
                    source.kind(),
                    std::io::ErrorKind::StorageFull
                        | std::io::ErrorKind::QuotaExceeded
                        | std::io::ErrorKind::FileTooLarge
                        | std::io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                tracing::error!(%source, path = %path.display(), "the store cannot be written");
                Self::new(Code::Storage, "the disk is full or cannot be written: nothing of this was saved")
            }
            other => Self::internal("the store", &other),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Store(error) => error.into(),
            error if error.is_invalid() => Self::invalid(error.to_string()),
            error => Self::new(Code::Conflict, error.to_string()),
        }
    }
}

impl From<unforget_agent::Error> for Problem {
    fn from(error: unforget_agent::Error) -> Self {
        match error {
            unforget_agent::Error::Store(error) => error.into(),
            unforget_agent::Error::Model(error) => Self::new(Code::Model, error.to_string()),
            other => Self::internal("the turn", &other),
        }
    }
}

impl From<unforget_remote::Error> for Problem {
    fn from(error: unforget_remote::Error) -> Self {
        use unforget_remote::Error;
        match error {
            Error::Local(error) => error.into(),
            Error::NotFound { .. } => Self::no_session(),
            Error::Invalid(message) => Self::invalid(message),
            Error::Unavailable { .. } => {
                tracing::warn!(%error, "the remote");
                let problem = Self::new(Code::Unavailable, "the remote store cannot be reached; try again");
                Self { owners: Some(error.to_string()), ..problem }
            }
            Error::Conflict { .. } | Error::Diverged { .. } => {
                tracing::warn!(%error, "the remote");
                Self::new(Code::Moved, "another server wrote this session meanwhile; attach again")
            }
            other => Self::internal("the remote store", &other),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({ "error": self });
        let mut response = (self.code.status(), axum::Json(body)).into_response();
        self.tell_when(&mut response);
        if self.code == Code::Unauthenticated {
            let value = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(axum::http::header::WWW_AUTHENTICATE, value);
        }
        response
    }
}
