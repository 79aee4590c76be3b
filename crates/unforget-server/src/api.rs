//! What programs ask of sessions: each request and each answer once, as a type.
//!
//! A request is a type with its members and their bounds; `Verb::call` answers it. The transports
//! (`rest`, `stdio`, `socket`, `runtime`) decode a request, call it and encode the answer; the
//! commands of the program print the same answers. A verb is in one file together with its request
//! and its answer:
//!
//! | module | verbs |
//! |---|---|
//! | [`sessions`] | list, show, create, describe, delete, undelete |
//! | [`edits`] | every [`Edit`](unforget_core::edit::Edit), and the short forms of some; fork |
//! | [`turns`] | add messages, compact, abort, resume |
//! | [`records`] | records, page by page |
//! | [`messages`] | the conversation as a model would get it |
//! | [`way`], [`tree`] | the way to a step; branches, names, checkpoints |
//! | [`window`] | what fills the context window |
//! | [`search`], [`usage`] | what was said, and what it took |
//! | [`export`] | a session as a file |
//! | [`entries`] | what SDKs of agents keep |
//! | [`about`] | the server and its agents |
//!
//! A verb knows no HTTP, no pipe and no terminal. It reaches sessions through `Access`, which the
//! server implements over its live sessions and the pipe over the files. Whose sessions they are is
//! decided before: every call gets a [`Realm`], and no request has a member
//! for an actor.

#![allow(missing_docs, reason = "a member that its name explains needs no sentence; docs/openapi.json has all of them")]

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Problem, Result};
use crate::protocol::Durability;
use crate::realm::Realm;

pub mod about;
mod access;
pub mod check;
pub mod edits;
pub mod entries;
pub mod export;
pub mod listed;
pub mod messages;
pub mod records;
pub mod search;
pub mod sessions;
pub mod tree;
pub mod turns;
pub mod usage;
pub mod way;
pub mod window;

pub(crate) use access::{Access, Changed, SessionRef};

/// A request that `H` answers.
pub(crate) trait Verb<H>: Sized + Send + 'static {
    /// What is answered.
    type Answer: IntoJson + Send;

    /// Answers it, for the sessions of one actor.
    fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// A request about one session.
#[derive(Debug)]
pub(crate) struct InSession<V> {
    /// Which session.
    pub(crate) session: SessionRef,
    /// What is asked of it.
    pub(crate) what: V,
}

/// What becomes the text of a JSON value.
pub(crate) trait IntoJson {
    /// The text.
    fn into_json(self) -> Result<String>;

    /// What was written survives this, if anything was written and the verb knows.
    fn durability(&self) -> Option<Durability> {
        None
    }
}

impl<T: Serialize> IntoJson for T {
    fn into_json(self) -> Result<String> {
        serde_json::to_string(&self).map_err(|error| Problem::internal("the answer", &error))
    }
}

/// An answer that is the text of a JSON value already: entries of SDKs go through byte for byte,
/// however many there are.
#[derive(Debug)]
pub(crate) struct JsonText(pub(crate) String);

impl IntoJson for JsonText {
    fn into_json(self) -> Result<String> {
        Ok(self.0)
    }
}

/// Something that was written, and what it survives, which the transport says in its own place.
#[derive(Debug)]
pub(crate) struct Written<T> {
    /// The answer.
    pub(crate) answer: T,
    /// What it survives; none where the answer says so itself or nothing else was promised.
    pub(crate) durability: Option<Durability>,
}

impl<T: Serialize> IntoJson for Written<T> {
    fn into_json(self) -> Result<String> {
        self.answer.into_json()
    }

    fn durability(&self) -> Option<Durability> {
        self.durability
    }
}

/// JSON text inside of an answer, with its bytes as they were written.
pub(crate) fn raw(text: String) -> Result<Box<RawValue>> {
    RawValue::from_string(text).map_err(|error| Problem::internal("JSON of a transcript", &error))
}
