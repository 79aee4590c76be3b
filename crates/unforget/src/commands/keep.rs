//! `expire`, `label` and `pin`: how long a session is kept, the name that keeps it for ever, and whether it stays at the top of lists.

use std::io::Write as _;

use unforget_core::json::quote;
use unforget_core::record::Draft;
use unforget_core::retention::Keep;

use crate::cli::{Expire, Label, Pin};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// The longest label.
const MAX_LABEL: usize = 200;

/// What a person says about an expiry: a time, `never`, or nothing for the settings'.
pub(crate) fn after(text: &str) -> Result<Option<String>> {
    match text.trim() {
        "default" => Ok(None),
        text => match Keep::parse(text) {
            Ok(keep) => Ok(Some(keep.to_string())),
            Err(error) => {
                Err(Failure::usage(error.to_string()).hint("also: `never`, and `default` for what the settings say"))
            }
        },
    }
}

/// What an expiry means, in words.
pub(crate) fn meaning(after: Option<&str>) -> String {
    match after {
        Some("never") => "never expires".to_owned(),
        Some(after) => format!("goes to the trash {after} after its last record, by the next gc"),
        None => "expires as the settings say".to_owned(),
    }
}

/// A label as it is written down: empty if it is to be taken off.
pub(crate) fn checked_label(text: &str) -> Result<&str> {
    let label = text.trim();
    // A shell takes the quotation marks off an empty word, a line of the chat does not.
    if matches!(label, "off" | "--off" | "\"\"" | "''") {
        return Ok("");
    }
    if label.chars().count() > MAX_LABEL {
        return Err(Failure::usage(format!("a label has at most {MAX_LABEL} characters")));
    }
    Ok(label)
}

pub(crate) fn expire(context: &Context, args: &Expire) -> Result<Outcome> {
    let after = after(&args.after)?;
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    session.append(&[Draft::expire(after.as_deref())])?;
    let id = session.id().as_str();
    let mut out = anstream::stdout().lock();
    if context.json {
        let after = after.as_deref().map_or("null".to_owned(), quote);
        writeln!(out, "{{\"id\":{},\"expires\":{after}}}", quote(id))?;
    } else {
        writeln!(out, "{id} {}", meaning(after.as_deref()))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn label(context: &Context, args: &Label) -> Result<Outcome> {
    let label = checked_label(args.label.as_deref().unwrap_or_default())?;
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    session.append(&[Draft::label(None, label)])?;
    let id = session.id().as_str();
    let mut out = anstream::stdout().lock();
    match (context.json, label) {
        (true, "") => writeln!(out, "{{\"id\":{},\"label\":null}}", quote(id))?,
        (true, label) => writeln!(out, "{{\"id\":{},\"label\":{}}}", quote(id), quote(label))?,
        (false, "") => writeln!(out, "{id} has no label")?,
        (false, label) => writeln!(out, "{id} is labelled {}", screen::one_line(label))?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn pin(context: &Context, args: &Pin) -> Result<Outcome> {
    let mut session = context.store.open(&context.resolve(&args.name)?)?;
    session.append(&[Draft::pinned(!args.off)])?;
    let id = session.id().as_str();
    let mut out = anstream::stdout().lock();
    match (context.json, args.off) {
        (true, off) => writeln!(out, "{{\"id\":{},\"pinned\":{}}}", quote(id), !off)?,
        (false, true) => writeln!(out, "{id} is not pinned")?,
        (false, false) => writeln!(out, "{id} is pinned")?,
    }
    Ok(Outcome::Done)
}
