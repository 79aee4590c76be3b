//! The built-in agent: a model, tools and settings, on a session of our own.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use unforget_agent::guard;
use unforget_agent::host::Host;
use unforget_agent::model::{BoxFuture, Model};
use unforget_agent::settings::Settings;
use unforget_agent::tools::Toolbox;
use unforget_agent::turn::{self, Ended, run_turn};
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::session::Session;
use unforget_core::stamp::SessionId;

use super::{Agent, Input, Room, Voice};
use crate::error::{Problem, Result};
use crate::realm::{Name, Realm};

/// Makes the tools of a session, whose folder is its own.
pub type Tools = Arc<dyn Fn(&Realm, &SessionId) -> io::Result<Toolbox> + Send + Sync>;

/// The built-in agent.
#[derive(Clone)]
pub struct Native {
    /// Its name.
    pub name: String,
    /// What answers.
    pub model: Arc<dyn Model>,
    /// How it works.
    pub settings: Arc<Settings>,
    /// What it can do.
    pub tools: Tools,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native").field("name", &self.name).field("model", &self.model.name()).finish_non_exhaustive()
    }
}

impl Agent for Native {
    fn kind(&self) -> &'static str {
        "built-in"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn room(&self) -> Option<Room> {
        let agent = guard::Agent { model: self.model.as_ref(), settings: &self.settings };
        let (model, window) = (self.model.name().to_owned(), self.model.window());
        Some(Room { model, window, limit: agent.limit(), reach: agent.limits() })
    }

    fn begin<'a>(&'a self, realm: &'a Arc<Realm>, key: &'a Key, label: Option<&'a str>) -> BoxFuture<'a, Result<Name>> {
        Box::pin(async move {
            let session = realm.store().create(key, label)?;
            let name = Name { dir: AgentDir::of(key.agent()), id: session.id().clone() };
            close(session);
            Ok(name)
        })
    }

    fn open<'a>(&'a self, realm: &'a Arc<Realm>, name: &'a Name) -> BoxFuture<'a, Result<Box<dyn Voice>>> {
        Box::pin(async move {
            let session = realm.store().open(&realm.entry(&name.id)?)?;
            if let Some(exposure) = session.exposure() {
                tracing::warn!(session = %name.id, "the transcript: {exposure}");
            }
            let tools = (self.tools)(realm, &name.id).map_err(|error| Problem::internal("the tools", &error))?;
            Ok(Box::new(Speaking { agent: self.clone(), session, tools }) as Box<dyn Voice>)
        })
    }
}

/// A session that is open.
struct Speaking {
    agent: Native,
    session: Session,
    tools: Toolbox,
}

impl Speaking {
    /// After a failed sync the log refuses everything; a fresh descriptor starts from what is there.
    fn heal(&mut self, error: &unforget_agent::Error) {
        if let unforget_agent::Error::Store(_) = error
            && let Err(error) = self.session.reopen()
        {
            tracing::warn!(%error, "the transcript cannot be opened anew");
        }
    }
}

impl Voice for Speaking {
    fn turn<'a>(
        &'a mut self,
        input: &'a Input,
        host: &'a mut dyn Host,
        abort: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Ended>> {
        Box::pin(async move {
            let agent = guard::Agent { model: self.agent.model.as_ref(), settings: &self.agent.settings };
            let said = match input {
                Input::Words { text, client_id } => turn::Input::Prompt { words: text, client_id: client_id.as_str() },
                Input::GoOn => turn::Input::Nothing,
            };
            let ended = run_turn(&mut self.session, said, &agent, &self.tools, host, abort).await;
            ended.map_err(|error| {
                self.heal(&error);
                error.into()
            })
        })
    }

    fn session(&mut self) -> Option<&mut Session> {
        Some(&mut self.session)
    }

    fn compact<'a>(
        &'a mut self,
        focus: Option<&'a str>,
        host: &'a mut dyn Host,
        abort: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<u64>>> {
        Box::pin(async move {
            let agent = guard::Agent { model: self.agent.model.as_ref(), settings: &self.agent.settings };
            let view = agent.look(&self.session)?;
            let compacted = agent.compact(&mut self.session, focus, &view, host, abort).await?;
            Ok(compacted.map(|compacted| compacted.n))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { close(self.session) })
    }
}

/// Ends the writing of a session. What the index does not learn now it finds out by itself.
fn close(session: Session) {
    match session.close() {
        Ok(()) => {}
        Err(error) => tracing::debug!(%error, "the index was not told"),
    }
}
