//! `fork`: a new session that begins where another one was.

use std::io::Write as _;

use unforget_core::directory::Entry;
use unforget_core::edit::Target;
use unforget_core::fork::{Forked, Wish, fork};
use unforget_core::key::Key;
use unforget_core::tree::Tree;
use unforget_server::api::edits::ForkedSession;

use crate::cli;
use crate::commands::Context;
use crate::failure::{Outcome, Result};
use crate::screen;

pub(crate) fn run(context: &Context, args: &cli::Fork) -> Result<Outcome> {
    let entry = context.resolve(&args.name)?;
    let at = match &args.at {
        Some(text) => Some(text.parse::<Target>()?.step(&Tree::read(&context.store.read(&entry)?)?)?),
        None => None,
    };
    let key: Option<Key> = match &args.key {
        Some(key) => Some(key.parse().map_err(unforget_core::Error::from)?),
        None => None,
    };
    let forked = fork(&context.store, &entry, Wish { at, key: key.as_ref(), label: args.label.as_deref() })?;
    let mut out = anstream::stdout().lock();
    if context.json {
        screen::json_line(&mut out, &ForkedSession::of(&forked, &entry.row.id))?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "{}", forked.id)?;
    context.tell(&told(&forked, &entry))?;
    Ok(Outcome::Done)
}

/// What was made of what.
pub(crate) fn told(forked: &Forked, entry: &Entry) -> String {
    let at = forked.at.map_or("its beginning".to_owned(), |n| format!("record {n}"));
    let left_out = match forked.left_out {
        0 => String::new(),
        count => format!("; {count} of a newer version were left out"),
    };
    let steps = if forked.steps == 1 { "1 record".to_owned() } else { format!("{} records", forked.steps) };
    format!("forked {} at {at}: {steps} copied{left_out}", entry.row.id)
}
