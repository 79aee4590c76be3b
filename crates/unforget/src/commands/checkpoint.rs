//! `checkpoint` and `checkpoints`: names for steps of a conversation, to come back to.

use std::io::Write as _;

use unforget_core::json::quote;
use unforget_core::record::Draft;
use unforget_core::tree::{Kind, Label, Tree};

use crate::cli;
use crate::commands::{Context, point};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

pub(crate) fn set(context: &Context, args: &cli::Checkpoint) -> Result<Outcome> {
    let name = point::new_name(&args.checkpoint)?;
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    let tree = Tree::read(&session.reader()?)?;
    let to = match &args.at {
        Some(text) => point::step(&tree, text)?,
        None => tree.head().ok_or_else(|| Failure::usage("nothing was said yet"))?,
    };
    let label = Draft::label(Some(to), name);
    // Whoever names an earlier record means the files of then, not those of now.
    session.append(&[if args.at.is_none() { label.raw("now", "true") } else { label }])?;
    let mut out = anstream::stdout().lock();
    if context.json {
        writeln!(out, "{{\"name\":{},\"to\":{to}}}", quote(name))?;
    } else {
        writeln!(out, "{}", given(&tree, name, to))?;
    }
    Ok(Outcome::Done)
}

/// What was named; a name that meant something else before means that no longer.
pub(crate) fn given(before: &Tree, name: &str, to: u64) -> String {
    let instead = match before.label(name) {
        Some(Label { to: Some(old), kind, .. }) if old != to => {
            let what = if kind == Kind::Branch { "the branch at record" } else { "record" };
            format!(" (and no longer {what} {old})")
        }
        _ => String::new(),
    };
    format!("checkpoint {} is record {to}{instead}", screen::one_line(name))
}

pub(crate) fn list(context: &Context, args: &cli::Checkpoints) -> Result<Outcome> {
    let tree = Tree::read(&context.transcript(&args.name)?.reader()?)?;
    let mut out = anstream::stdout().lock();
    if context.json {
        for label in checkpoints(&tree) {
            let line = serde_json::to_string(&label).map_err(|error| Failure::new(error.to_string()))?;
            screen::write_stored(&mut out, line.as_bytes())?;
            writeln!(out)?;
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
