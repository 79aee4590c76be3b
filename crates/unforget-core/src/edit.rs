//! Changes of a session that are no turns: names, moves of the head, pins, labels, titles, expiry.
//!
//! An [`Edit`] says what is wanted. [`Plan::of`] folds the transcript and decides what each edit appends; it writes
//! nothing, so a front end can show the outcome first. [`Plan::commit`] appends everything at once. [`apply`] does
//! both. The chat, the commands, REST, the page and stdio only decode edits and show [`Applied`]; no other code
//! appends such records.
//!
//! No edit takes anything out of the transcript. Undo takes back the last turn on the path. Every move of the head to
//! an earlier step of its own path can be redone until words are added; a move sideways or forward begins anew. So a
//! redo always leads forward ([`crate::tree`] folds that log out of the `head` records).

use serde::{Deserialize, Serialize};

use crate::history::Limits;
use crate::retention::Keep;
use crate::session::Session;
use crate::tree::{HeadState, Kind};

mod error;
mod names;
mod plan;
mod target;

pub use error::EditError;
pub use names::{SessionLabel, SessionTitle, StepName};
pub use plan::Plan;
pub use target::{Target, named};

/// A change of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Names a step; a checkpoint of that name moves.
    Checkpoint {
        /// The name.
        name: StepName,
        /// The step; the head if none is given, and then the name also means the files of this moment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Target>,
    },
    /// Begins a branch and goes there.
    Branch {
        /// Its name.
        name: StepName,
        /// Where it begins; at the head if no step is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Target>,
    },
    /// Gives up the name of a branch or a checkpoint. Its steps stay.
    DropName {
        /// The name.
        name: StepName,
    },
    /// Goes to the tip of a branch, or to a step of any branch.
    Switch {
        /// Where to.
        to: Target,
    },
    /// Goes on behind a step.
    Rewind {
        /// Where to.
        to: Target,
    },
    /// Goes back to a checkpoint.
    Restore {
        /// Its name.
        name: StepName,
    },
    /// Takes back the last turn.
    Undo {},
    /// Goes forward to where the conversation was before the last move back.
    Redo {},
    /// Goes back behind the user's last words, so that the model answers them again.
    Retry {},
    /// Takes the newest compaction or trim out of effect.
    UndoCompaction {},
    /// Keeps the words of a record through compactions.
    Pin {
        /// The record; the user's last words if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<u64>,
    },
    /// Pins them no longer.
    Unpin {
        /// The record.
        n: u64,
    },
    /// Keeps the session at the top of lists, or no longer.
    PinSession {
        /// Whether it is, from now on.
        on: bool,
    },
    /// Gives the session a label, or takes it off.
    Label {
        /// The label.
        label: Option<SessionLabel>,
    },
    /// Gives the session a title.
    Title {
        /// The title.
        title: SessionTitle,
    },
    /// Says how long the session is kept; without a time the settings say so.
    Expire {
        /// How long.
        after: Option<Keep>,
    },
}

/// What edits need to know besides the session.
#[derive(Debug, Clone, Default)]
pub struct EditScope {
    /// What of the conversation the model sees.
    pub limits: Limits,
    /// The record that has the files from before, if files move along with the head.
    pub files: Option<u64>,
}

/// What became of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The last record that it appended; none if everything was so already.
    pub record: Option<u64>,
    /// Where the conversation was.
    pub before: HeadState,
    /// Where it is.
    pub after: HeadState,
    /// What was changed.
    #[serde(flatten)]
    pub change: Change,
    /// The edits that take it back, in their order; none if nothing does.
    pub inverse: Vec<Edit>,
}

/// What an edit changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A step has a name.
    Named {
        /// The name.
        name: StepName,
        /// What it is a name of.
        kind: Kind,
        /// The step.
        to: u64,
        /// The step that had the name before.
        instead: Option<u64>,
    },
    /// A name is free again.
    Dropped {
        /// The name.
        name: StepName,
    },
    /// The head may have moved: see `before` and `after`.
    Moved {
        /// The beginning of the words that were taken back.
        #[serde(skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// A compaction or trim is out of effect.
    Expanded {
        /// That record.
        of: u64,
    },
    /// The words of a record are pinned, or no longer.
    Pinned {
        /// The record.
        n: u64,
        /// Whether they are.
        pinned: bool,
        /// The beginning of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// Something is said about the session as a whole.
    Session {},
}

/// Plans edits and appends what they need, all of it at once.
pub fn apply(session: &mut Session, edits: &[Edit], scope: &EditScope) -> Result<Vec<Applied>, EditError> {
    Plan::of(session, edits, scope)?.commit(session)
}

/// Applies one edit.
pub fn apply_one(session: &mut Session, edit: Edit, scope: &EditScope) -> Result<Applied, EditError> {
    let applied = apply(session, &[edit], scope)?;
    applied.into_iter().next().ok_or(EditError::Empty)
}

/// Writes down a title that a model thought of. A title by a person stays in force.
pub fn suggest_title(session: &mut Session, title: &SessionTitle) -> crate::error::Result<()> {
    session.append(&[crate::record::Draft::title(title.as_str()).text("by", "model")]).map(drop)
}
