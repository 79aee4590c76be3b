//! `edit`: every change of a session that is no turn, by name. The chat's commands and the server's route say the same.

use std::io::Write as _;

use serde::Serialize;
use unforget_core::edit::{self, Applied, Change, Edit, EditScope};
use unforget_core::tree::HeadState;

use crate::cli::{self, EditCommand};
use crate::commands::{Context, checkpoint};
use crate::failure::{Outcome, Result};
use crate::screen;

/// The answer of `--json`.
#[derive(Serialize)]
struct Edited<'a> {
    id: &'a str,
    #[serde(flatten)]
    applied: &'a Applied,
}

impl From<&EditCommand> for Edit {
    fn from(command: &EditCommand) -> Self {
        match command.clone() {
            EditCommand::Undo => Self::Undo {},
            EditCommand::Redo => Self::Redo {},
            EditCommand::Retry => Self::Retry {},
            EditCommand::Rewind { point } => Self::Rewind { to: point },
            EditCommand::Switch { point } => Self::Switch { to: point },
            EditCommand::Restore { name } => Self::Restore { name },
            EditCommand::Branch { name, at } => Self::Branch { name, at },
            EditCommand::Checkpoint { name, at } => Self::Checkpoint { name, at },
            EditCommand::DropName { name } => Self::DropName { name },
            EditCommand::UndoCompaction => Self::UndoCompaction {},
            EditCommand::Pin { record } => Self::Pin { n: record },
            EditCommand::Unpin { record } => Self::Unpin { n: record },
            EditCommand::Title { title } => Self::Title { title },
            EditCommand::Label { label } => Self::Label { label },
            EditCommand::Expire { after } => Self::Expire { after },
            EditCommand::PinSession { off } => Self::PinSession { on: !off },
        }
    }
}

pub(crate) fn run(context: &Context, args: &cli::Edit) -> Result<Outcome> {
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    let applied = edit::apply_one(&mut session, Edit::from(&args.change), &EditScope::default())?;
    let mut out = anstream::stdout().lock();
    if context.json {
        let edited = Edited { id: session.id().as_str(), applied: &applied };
        screen::json_line(&mut out, &edited)?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "{}", told(&applied))?;
    Ok(Outcome::Done)
}

/// What an edit did, in one line.
fn told(applied: &Applied) -> String {
    match &applied.change {
        _ if applied.record.is_none() => "nothing to change: it is so already".to_owned(),
        Change::Named { .. } => checkpoint::given(applied),
        Change::Dropped { name } => format!("`{name}` is no name any more"),
        Change::Moved { words } => {
            let from = place(&applied.before);
            let words = words.as_ref().map(|words| format!("; taken back: {}", screen::one_line(words)));
            format!("the conversation goes on {}, before {from}{}", place(&applied.after), words.unwrap_or_default())
        }
        Change::Expanded { of } => format!("record {of} is out of effect"),
        Change::Pinned { n, pinned: true, .. } => format!("record {n} is pinned"),
        Change::Pinned { n, .. } => format!("record {n} is pinned no longer"),
        Change::Session {} => "done".to_owned(),
    }
}

fn place(state: &HeadState) -> String {
    let at = state.head.map_or("at the very beginning".to_owned(), |n| format!("behind record {n}"));
    match &state.branch {
        Some(branch) => format!("{at} on {}", screen::one_line(branch)),
        None => at,
    }
}
