//! What changes a session between turns: edits, the short forms of some, and a fork.
//!
//! What an edit means is in [`unforget_core::edit`]; a request here says which, and the answer what
//! became of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unforget_core::Error;
use unforget_core::directory::OnMissing;
use unforget_core::edit::{self, Applied, Change, Edit, StepName, Target};
use unforget_core::fork::{self, Forked, Wish};
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::tree::Tree;

use super::sessions::MAX_LABEL;
use super::{Access, Changed, InSession, SessionRef, Verb, Written, check};
use crate::app::App;
use crate::error::{Code, Problem, Result};
use crate::fleet::Seen;
use crate::realm::{Name, Realm};

/// How many edits one request has at the most.
const MAX_EDITS: usize = 100;

/// Applies edits, all in one append.
pub(super) async fn apply<H: Access>(
    host: &Arc<H>,
    realm: &Arc<Realm>,
    session: &SessionRef,
    edits: Vec<Edit>,
) -> Result<Changed<Vec<Applied>>> {
    let work = move |session: &mut _, scope: &_| Ok(edit::apply(session, &edits, scope)?);
    host.change(realm, session, OnMissing::Fail, 0, work).await
}

async fn apply_one<H: Access>(host: &Arc<H>, realm: &Arc<Realm>, session: &SessionRef, edit: Edit) -> Result<Applied> {
    let applied = apply(host, realm, session, vec![edit]).await?.value;
    applied.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "the edit has no outcome"))
}

/// Applies any edits, in their order and in one append.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edits {
    pub(crate) edits: Vec<Edit>,
}

/// What became of edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedEdits {
    pub session_id: String,
    pub applied: Vec<Applied>,
}

impl<H: Access> Verb<H> for InSession<Edits> {
    type Answer = Written<AppliedEdits>;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Written<AppliedEdits>> {
        let edits = self.what.edits;
        if edits.is_empty() || edits.len() > MAX_EDITS {
            return Err(Problem::invalid(format!("`edits` has 1 to {MAX_EDITS} of them")));
        }
        let Changed { session, value, durability } = apply(host, realm, &self.session, edits).await?;
        Ok(Written { answer: AppliedEdits { session_id: session.to_string(), applied: value }, durability })
    }
}

/// Makes the conversation go on behind an earlier record; nothing is lost.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rewind {
    to: Target,
}

/// Where the conversation goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewound {
    pub n: Option<u64>,
    pub head: Option<u64>,
    pub branch: Option<String>,
}

impl<H: Access> Verb<H> for InSession<Rewind> {
    type Answer = Rewound;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Rewound> {
        let to = self.what.to;
        if to == Target::Start {
            return Err(Problem::invalid("`to` is a record's number or a name"));
        }
        let Applied { record, after, .. } = apply_one(host, realm, &self.session, Edit::Rewind { to }).await?;
        Ok(Rewound { n: record, head: after.head, branch: after.branch })
    }
}

/// Names a step, to come back to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCheckpoint {
    name: StepName,
    at: Option<Target>,
}

/// A step and its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checkpointed {
    pub name: StepName,
    pub to: u64,
}

impl<H: Access> Verb<H> for InSession<NewCheckpoint> {
    type Answer = Checkpointed;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Checkpointed> {
        let NewCheckpoint { name, at } = self.what;
        let applied = apply_one(host, realm, &self.session, Edit::Checkpoint { name, at }).await?;
        Checkpointed::of(&applied).ok_or_else(unlike)
    }
}

impl Checkpointed {
    /// What an edit named; none if it named nothing.
    pub fn of(applied: &Applied) -> Option<Self> {
        let Change::Named { name, to, .. } = &applied.change else { return None };
        Some(Self { name: name.clone(), to: *to })
    }
}

/// Begins a branch at a step. The conversation is on it from then on, and the branch that it was on
/// stays where it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBranch {
    name: StepName,
    at: Option<Target>,
}

/// A branch that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BegunBranch {
    pub name: StepName,
    pub head: u64,
    pub n: Option<u64>,
}

impl<H: Access> Verb<H> for InSession<NewBranch> {
    type Answer = BegunBranch;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<BegunBranch> {
        let NewBranch { name, at } = self.what;
        let applied = apply_one(host, realm, &self.session, Edit::Branch { name, at }).await?;
        let Checkpointed { name, to } = Checkpointed::of(&applied).ok_or_else(unlike)?;
        Ok(BegunBranch { name, head: to, n: applied.record })
    }
}

fn unlike() -> Problem {
    Problem::new(Code::Internal, "the edit did something else")
}

/// Makes every compaction keep the words of a record, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub n: u64,
    pub pinned: bool,
}

impl<H: Access> Verb<H> for InSession<Pin> {
    type Answer = Pin;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Pin> {
        let Pin { n, pinned } = self.what;
        let edit = if pinned { Edit::Pin { n: Some(n) } } else { Edit::Unpin { n } };
        apply_one(host, realm, &self.session, edit).await?;
        Ok(self.what)
    }
}

/// Begins a session where another one is, or was.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFork {
    at: Option<Target>,
    key: Option<String>,
    label: Option<String>,
}

/// A fork and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForkedSession {
    pub id: String,
    pub key: String,
    /// The session that it was forked from.
    pub from: String,
    pub at: Option<u64>,
    pub records: u64,
}

impl ForkedSession {
    /// A fork of the session `from`.
    pub fn of(forked: &Forked, from: &str) -> Self {
        let Forked { id, key, at, steps, .. } = forked;
        Self { id: id.to_string(), key: key.to_string(), from: from.to_owned(), at: *at, records: *steps }
    }
}

impl Verb<App> for InSession<NewFork> {
    type Answer = ForkedSession;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<ForkedSession> {
        let NewFork { at, key, label } = self.what;
        let label = label.as_deref().map(|label| check::words("label", label, MAX_LABEL).map(str::to_owned));
        let label = label.transpose()?.filter(|label| !label.is_empty());
        let key = key.as_deref().map(str::parse::<Key>).transpose().map_err(Error::from)?;
        if let Some(key) = &key
            && app.hub.agents().named(key.agent())?.kind() != "built-in"
        {
            let message = "that agent keeps its own sessions; a fork cannot become one of them";
            return Err(Problem::new(Code::Conflict, message));
        }
        let id = app.reach(realm, &self.session).await?;
        app.hub.ask_begin(realm).await?;
        let from = id.clone();
        let forked = app.hub.blocking(realm, move |realm| {
            let entry = realm.entry(&from)?;
            let at = match &at {
                Some(point) => Some(point.step(&Tree::read(&realm.store().read(&entry)?)?)?),
                None => None,
            };
            let wish = Wish { at, key: key.as_ref(), label: label.as_deref() };
            Ok(fork::fork(realm.store(), &entry, wish)?)
        });
        let forked = forked.await?;
        if let Some(fleet) = &app.hub.shared().fleet {
            let name = Name { dir: AgentDir::of(forked.key.agent()), id: forked.id.clone() };
            fleet.begun(realm, &name, &forked.key, Seen::Anywhere).await?;
        }
        Ok(ForkedSession::of(&forked, id.as_str()))
    }
}
