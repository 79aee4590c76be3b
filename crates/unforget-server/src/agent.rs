//! What answers in a session: the built-in agent, or Claude Code as a child process.
//!
//! An [`Agent`] begins sessions and opens them; an open one is a [`Voice`], which takes one prompt at a time and tells a
//! [`Host`] what happens, whatever is behind it. The live session around it knows no difference.

use std::fmt::Debug;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use unforget_agent::host::Host;
use unforget_agent::model::BoxFuture;
use unforget_agent::turn::Ended;
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::reader::LogReader;
use unforget_core::session::Session;
use unforget_core::stamp::SessionId;

use crate::error::{Code, Problem, Result};
use crate::live;
use crate::realm::{Name, Realm};

mod agents;
pub mod claude;
mod native;

pub use agents::Agents;
pub use claude::ClaudeCode;
pub use native::{Native, Tools};

/// What is asked of an agent in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Words of a person.
    Words {
        /// What was said.
        text: String,
        /// What the client calls it, so that it is not taken twice.
        client_id: ClientId,
    },
    /// Go on from where it stopped.
    GoOn,
}

/// What a client calls a prompt: the same name within a session means the same prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(String);

impl ClientId {
    /// The longest one, in bytes.
    pub const MAX: usize = 128;

    /// Takes a name, if it is not empty, not too long and has no control characters.
    pub fn parse(text: &str) -> Option<Self> {
        let is_sound = !text.is_empty() && text.len() <= Self::MAX && !text.chars().any(char::is_control);
        is_sound.then(|| Self(text.to_owned()))
    }

    /// One that nobody else has, for a client that gave none.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// That a prompt is in a transcript, and how far its turn came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// Its line.
    pub n: u64,
    /// Whether its turn came to an end, or the conversation went on without one.
    pub is_ended: bool,
    /// Whether its turn may have been in the middle of something: anything came behind the words, or behind a stop that interrupted it.
    pub is_touched: bool,
}

/// How much an agent's model takes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The model.
    pub model: String,
    /// Its window, in tokens.
    pub window: u64,
    /// From how many tokens on room is made.
    pub limit: u64,
    /// What is read of a transcript for it.
    pub reach: Limits,
}

/// Begins and opens sessions.
pub trait Agent: Send + Sync + Debug {
    /// What kind of agent, for people and programs: `built-in`, `claude-code`.
    fn kind(&self) -> &'static str;

    /// The agent's name in the keys of its sessions, and of the directory that they are in.
    fn name(&self) -> &str;

    /// How much its model takes in; none if nobody here knows.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Begins a session of a key, which is the key's current one from then on.
    fn begin<'a>(&'a self, realm: &'a Arc<Realm>, key: &'a Key, label: Option<&'a str>) -> BoxFuture<'a, Result<Name>>;

    /// The session of a key that was used last, if it has one.
    fn current(&self, realm: &Realm, key: &Key) -> Result<Option<(SessionId, Option<i64>)>> {
        let entry = realm.catalog().last_used(key, &mut |_, _| {})?.value;
        Ok(entry.and_then(|entry| SessionId::parse(&entry.row.id).map(|id| (id, entry.row.created_ms))))
    }

    /// Whether a session was begun that has no transcript yet.
    fn has_begun(&self, _realm: &Realm, _id: &SessionId) -> bool {
        false
    }

    /// Keeps what was written where only this agent looks, before a session is taken up: a server that was killed may have left it.
    fn gather(&self, _realm: &Realm, _id: &SessionId) -> Result<()> {
        Ok(())
    }

    /// The last prompt of a transcript, if its turn never came to an end and only this agent can tell.
    fn left_open(&self, _reader: &LogReader) -> Result<Option<Said>> {
        Ok(None)
    }

    /// Looks for a prompt in the transcript of a session, as far back as it takes.
    fn find(&self, reader: &LogReader, _id: &SessionId, client_id: &ClientId) -> Result<Option<Said>> {
        live::find_prompt(reader, client_id)
    }

    /// Opens a session for turns; nobody else may write it meanwhile.
    fn open<'a>(&'a self, realm: &'a Arc<Realm>, name: &'a Name) -> BoxFuture<'a, Result<Box<dyn Voice>>>;
}

/// A session that is open for turns.
pub trait Voice: Send {
    /// Runs one turn. Dropping the future leaves the log as a crash would.
    fn turn<'a>(
        &'a mut self,
        input: &'a Input,
        host: &'a mut dyn Host,
        abort: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Ended>>;

    /// The open session, if it is one that is written here: for rewinding, names and compaction.
    fn session(&mut self) -> Option<&mut Session> {
        None
    }

    /// Makes the conversation smaller; tells how it went.
    fn compact<'a>(
        &'a mut self,
        _focus: Option<&'a str>,
        _host: &'a mut dyn Host,
        _abort: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<u64>>> {
        Box::pin(async { Err(Problem::new(Code::Conflict, "this agent makes its own room")) })
    }

    /// Lets go of the session.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}
