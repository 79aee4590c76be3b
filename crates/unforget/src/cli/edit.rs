//! The words of `unforget edit`.

use clap::{Args, Subcommand};
use unforget_core::edit::{SessionLabel, SessionTitle, StepName, Target};
use unforget_core::retention::Keep;

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    #[command(subcommand)]
    pub(crate) change: EditCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EditCommand {
    /// Take back the last turn
    Undo,
    /// Go forward to where the conversation was before the last move back
    Redo,
    /// Go back behind the user's last words, so that the next turn answers them again
    Retry,
    /// Go on behind a record, branch or checkpoint
    Rewind {
        /// A record's number or a name
        point: Target,
    },
    /// Go to a branch, or to a record on any branch
    Switch {
        /// A branch's name or a record's number
        point: Target,
    },
    /// Go back to a checkpoint
    Restore {
        /// Its name
        name: StepName,
    },
    /// Begin a branch, and go there
    Branch {
        /// Its name
        name: StepName,
        /// Where it begins [default: the head]
        #[arg(long, value_name = "POINT")]
        at: Option<Target>,
    },
    /// Give a point a name; a checkpoint of that name moves
    Checkpoint {
        /// Its name
        name: StepName,
        /// What it names [default: the head]
        #[arg(long, value_name = "POINT")]
        at: Option<Target>,
    },
    /// Give up the name of a branch or checkpoint; its records stay
    DropName {
        /// The name
        name: StepName,
    },
    /// Bring back what the newest compaction replaced
    UndoCompaction,
    /// Keep the words of a record through compactions
    Pin {
        /// The record [default: the user's last words]
        record: Option<u64>,
    },
    /// Pin them no longer
    Unpin {
        /// The record
        record: u64,
    },
    /// Give the session a title
    Title {
        /// The title
        title: SessionTitle,
    },
    /// Give the session a label, or take it off
    Label {
        /// The label; none takes it off
        label: Option<SessionLabel>,
    },
    /// Say how long the session is kept: `30d`, `never`; without a time the settings say so
    Expire {
        /// The time
        #[arg(value_parser = Keep::parse)]
        after: Option<Keep>,
    },
    /// Keep the session at the top of lists
    PinSession {
        /// No longer
        #[arg(long)]
        off: bool,
    },
}
