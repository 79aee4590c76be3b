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
use crate::protocol::ClientId;
use crate::realm::{Name, Realm};
use crate::transcript;

mod agents;
pub mod claude;
mod native;

pub use agents::Agents;
pub use claude::ClaudeCode;
pub use native::{Native, Tools};

pub use crate::transcript::Said;

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
        transcript::find_prompt(reader, client_id)
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
