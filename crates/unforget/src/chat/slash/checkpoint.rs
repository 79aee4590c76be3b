//! `/checkpoint`, `/checkpoints` and `/restore`: names for where a conversation is, and the way back to them.
//!
//! A checkpoint is a `label` record: it costs a line and holds for ever. Restoring moves the head there, and what is
//! sent next is, byte for byte, what would have been sent then. With `--files` the files that the tools changed come
//! along.

use unforget_core::edit::{Edit, StepName, named};
use unforget_core::tree::Kind;

use super::super::Chat;
use super::branch::{edit, go, tree_of};
use super::files::{Went, Words, keep_files, restore_files};
use super::say;
use crate::commands::{checkpoint, files};
use crate::editor::Editor;
use crate::failure::{Failure, Result};

/// Names the step that the conversation is at.
pub(super) fn set(chat: &mut Chat<'_>, argument: &str) -> Result<()> {
    let words = Words::of(argument).checked()?;
    if words.rest.is_empty() {
        return Err(Failure::usage("what is it called? /checkpoint <name> [--files]")
            .hint("/checkpoints lists those there are"));
    }
    let name: StepName = words.rest.parse()?;
    if words.files {
        keep_files(chat)?;
    }
    let applied = edit(chat, Edit::Checkpoint { name: name.clone(), at: None }, None)?;
    say(&format!("Set: {}.", checkpoint::given(&applied)))?;
    let files = if words.files { " --files" } else { "" };
    say(&format!("/restore {name}{files} comes back to it."))
}

/// Lists the checkpoints.
pub(super) fn list(chat: &Chat<'_>) -> Result<()> {
    let now_ms = chat.context.store.source().now_ms();
    checkpoint::lines(&tree_of(chat)?, now_ms).iter().try_for_each(|line| say(line))
}

/// Goes back to a checkpoint.
pub(super) fn restore(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let words = Words::of(argument).checked()?;
    if words.rest.is_empty() {
        return Err(Failure::usage("which one? /restore <name> [--files]").hint("/checkpoints lists them"));
    }
    let name: StepName = words.rest.parse()?;
    named(&tree_of(chat)?, &name, Some(Kind::Checkpoint))?;
    // Files first: a crash in between leaves the conversation where it is, and the same command finishes both.
    let mut came_along = None;
    if words.files {
        let at = files::record(&chat.session.reader()?, name.as_str())?;
        match restore_files(chat, editor, at, words.options)? {
            Went::On(undo) => came_along = undo,
            Went::Nowhere => return Ok(()),
        }
    }
    go(chat, Edit::Restore { name }, came_along)
}
