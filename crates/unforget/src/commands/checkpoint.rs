//! `checkpoint` and `checkpoints`: names for steps of a conversation, to come back to.

use std::io::Write as _;

use serde::Serialize;
use unforget_core::edit::{self, Applied, Change, Edit, EditScope, StepName};
use unforget_core::tree::{Kind, Label, Tree};

use crate::cli;
use crate::commands::Context;
use crate::failure::{Outcome, Result};
use crate::screen;

/// The answer of `--json`.
#[derive(Serialize)]
struct Checkpointed<'a> {
    name: &'a StepName,
    to: u64,
}

pub(crate) fn set(context: &Context, args: &cli::Checkpoint) -> Result<Outcome> {
    let at = args.at.as_deref().map(str::parse).transpose()?;
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    let wanted = Edit::Checkpoint { name: args.checkpoint.parse()?, at };
    let applied = edit::apply_one(&mut session, wanted, &EditScope::default())?;
    let mut out = anstream::stdout().lock();
    match &applied.change {
        Change::Named { name, to, .. } if context.json => screen::json_line(&mut out, &Checkpointed { name, to: *to })?,
        _ => writeln!(out, "{}", given(&applied))?,
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
        for label in checkpoints(&tree) {
            screen::json_line(&mut out, &label)?;
        }
        return Ok(Outcome::Done);
    }
    for line in lines(&tree, context.store.source().now_ms()) {
        writeln!(out, "{line}")?;
    }
    Ok(Outcome::Done)
}

fn checkpoints(tree: &Tree) -> Vec<Label> {
    let mut labels: Vec<Label> = tree.labels().into_iter().filter(|label| label.kind == Kind::Checkpoint).collect();
    labels.sort_by_key(|label| label.n);
    labels
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
    let lines: Vec<String> = checkpoints(tree).into_iter().map(line).collect();
    if lines.is_empty() { vec!["No checkpoints yet.".to_owned()] } else { lines }
}
