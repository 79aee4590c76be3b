//! Requests about the turns of a session: messages of another program's agent, a smaller
//! conversation, an end, a new start.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unforget_core::directory::OnMissing;

use super::access::hold;
use super::{Access, Changed, InSession, Verb, Written};
use crate::app::App;
use crate::error::{Problem, Result};
use crate::protocol::ClientId;
use crate::realm::Realm;
use crate::said::{self, Message};

/// The longest focus of a compaction, in characters.
const MAX_FOCUS: usize = 4000;

/// Adds messages that another program's agent said or heard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddMessages {
    pub(crate) messages: Vec<Message>,
    #[serde(default)]
    pub(crate) client_id: Option<String>,
}

/// Where added messages are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddedMessages {
    pub session_id: String,
    pub n: u64,
}

impl<H: Access> Verb<H> for InSession<AddMessages> {
    type Answer = Written<AddedMessages>;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Written<AddedMessages>> {
        let AddMessages { messages, client_id } = self.what;
        let name = client_id.as_deref().map(said::name).transpose()?;
        if name.is_none() && host.needs_names() {
            let why =
                "with `--ack remote` a call may have to be repeated: say `client_id`, so that nothing is added twice";
            return Err(Problem::invalid(why));
        }
        let bytes = messages.iter().map(Message::size).sum();
        let work = move |session: &mut _, _: &_| said::add(session, &messages, name.as_ref());
        let Changed { session, value, durability } =
            host.change(realm, &self.session, OnMissing::Create, bytes, work).await?;
        Ok(Written { answer: AddedMessages { session_id: session.to_string(), n: value }, durability })
    }
}

/// Makes the conversation smaller.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compact {
    focus: Option<String>,
}

/// What a compaction wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompactedSession {
    /// The record; none if there was too little to replace.
    pub n: Option<u64>,
}

impl Verb<App> for InSession<Compact> {
    type Answer = CompactedSession;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<CompactedSession> {
        let focus = self.what.focus;
        if focus.as_ref().is_some_and(|focus| focus.chars().count() > MAX_FOCUS) {
            return Err(Problem::invalid(format!("`focus` has at most {MAX_FOCUS} characters")));
        }
        let id = app.reach(realm, &self.session).await?;
        let held = hold(app, realm, &id).await?;
        Ok(CompactedSession { n: held.live().compact(focus).await? })
    }
}

/// Ends the turn that is running.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Abort {
    client_id: Option<String>,
}

/// Whether a turn was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Aborted {
    pub aborted: bool,
}

impl Verb<App> for InSession<Abort> {
    type Answer = Aborted;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<Aborted> {
        let parse = |text: String| ClientId::parse(&text).ok_or_else(|| Problem::invalid("`client_id` cannot be one"));
        let client_id = self.what.client_id.map(parse).transpose()?;
        let id = app.reach(realm, &self.session).await?;
        let held = hold(app, realm, &id).await?;
        Ok(Aborted { aborted: held.live().abort(client_id.as_ref()) })
    }
}

/// Goes on with a turn that was interrupted.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {}

/// That a turn goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resumed {
    pub resumed: bool,
}

impl Verb<App> for InSession<Resume> {
    type Answer = Resumed;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<Resumed> {
        let id = app.reach(realm, &self.session).await?;
        hold(app, realm, &id).await?.live().go_on()?;
        Ok(Resumed { resumed: true })
    }
}
