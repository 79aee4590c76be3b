//! `checkpoint` and `checkpoints`: names for steps of a conversation, to come back to.

use std::io::Write as _;

use unforget_core::edit::{self, Applied, Change, Edit, EditScope};
use unforget_core::tree::{Label, Tree};
use unforget_server::api::edits::Checkpointed;
use unforget_server::api::tree::CheckpointList;

use crate::cli;
use crate::commands::Context;
use crate::failure::{Outcome, Result};
use crate::screen;

pub(crate) fn set(context: &Context, args: &cli::Checkpoint) -> Result<Outcome> {
    let at = args.at.as_deref().map(str::parse).transpose()?;
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    let wanted = Edit::Checkpoint { name: args.checkpoint.parse()?, at };
    let applied = edit::apply_one(&mut session, wanted, &EditScope::default())?;
    let mut out = anstream::stdout().lock();
    match Checkpointed::of(&applied).filter(|_| context.json) {
        Some(named) => screen::json_line(&mut out, &named)?,
        None => writeln!(out, "{}", given(&applied))?,
    }
    Ok(Outcome::Done)
}

/// What was named; a name that meant something else before means that no longer.
pub(crate) fn given(applied: &Applied) -> String {
    let Change::Named { name, kind, to, instead } = &applied.change else { return String::new() };
    let instead = instead.filter(|old| old != to).map(|old| format!(" (and no longer record {old})"));
    format!("{kind} {} is record {to}{}", screen::one_line(name.as_str()), instead.unwrap_or_default())
}

pub(crate) fn list(context: &Context, args: &cli::Checkpoints) -> Result<Outcome> {
    let tree = Tree::read(&context.transcript(&args.name)?.reader()?)?;
    let mut out = anstream::stdout().lock();
    if context.json {
        let all = CheckpointList::of(&tree).checkpoints;
        all.iter().try_for_each(|label| screen::json_line(&mut out, label))?;
        return Ok(Outcome::Done);
    }
    for line in lines(&tree, context.store.source().now_ms()) {
        writeln!(out, "{line}")?;
    }
    Ok(Outcome::Done)
}

/// The checkpoints as a person reads them, the latest last.
pub(crate) fn lines(tree: &Tree, now_ms: i64) -> Vec<String> {
    let path = tree.path();
    let line = |label: Label| {
        let to = label.to.unwrap_or(0);
        let away = match (tree.head() == Some(to), path.has(to)) {
            (true, _) => "  (here)",
            (false, true) => "",
            (false, false) => "  (on another branch)",
        };
        let name = screen::pad(&screen::one_line(&label.name), 24);
        format!("{to:>5}  {name}  {}{away}", screen::ago(label.ms, now_ms))
    };
    let lines: Vec<String> = CheckpointList::of(tree).checkpoints.into_iter().map(line).collect();
    if lines.is_empty() { vec!["No checkpoints yet.".to_owned()] } else { lines }
}
