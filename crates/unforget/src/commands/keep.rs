//! `expire`, `label` and `pin`: how long a session is kept, the name that keeps it for ever, and whether it stays at
//! the top of lists.

use std::io::Write as _;

use serde::Serialize;
use unforget_core::edit::{self, Edit, EditScope, SessionLabel};
use unforget_core::retention::Keep;

use crate::cli::{Expire, Label, Pin};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// What a person says about an expiry: a time, `never`, or nothing for the settings'.
pub(crate) fn after(text: &str) -> Result<Option<Keep>> {
    match text.trim() {
        "default" => Ok(None),
        text => Keep::parse(text).map(Some).map_err(|error| {
            Failure::usage(error.to_string()).hint("also: `never`, and `default` for what the settings say")
        }),
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

/// The label that a person gives, or none if it is to be taken off.
pub(crate) fn label_of(text: &str) -> Result<Option<SessionLabel>> {
    // A shell takes the quotation marks off an empty word, a line of the chat does not.
    match text.trim() {
        "" | "off" | "--off" | "\"\"" | "''" => Ok(None),
        label => Ok(Some(label.parse()?)),
    }
}

/// The answer of `--json`: the session, and the one thing that was said about it.
#[derive(Default, Serialize)]
struct Kept<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Option<Keep>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Option<SessionLabel>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned: Option<bool>,
}

/// Applies an edit to a session and returns its id.
fn edited(context: &Context, name: &str, wanted: Edit) -> Result<String> {
    let mut session = context.store.open(&context.resolve(name)?)?;
    edit::apply_one(&mut session, wanted, &EditScope::default())?;
    Ok(session.id().to_string())
}

pub(crate) fn expire(context: &Context, args: &Expire) -> Result<Outcome> {
    let after = after(&args.after)?;
    let id = edited(context, &args.name, Edit::Expire { after: after.clone() })?;
    let mut out = anstream::stdout().lock();
    if context.json {
        screen::json_line(&mut out, &Kept { id: &id, expires: Some(after), ..Kept::default() })?;
    } else {
        writeln!(out, "{id} {}", meaning(after.map(|after| after.to_string()).as_deref()))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn label(context: &Context, args: &Label) -> Result<Outcome> {
    let label = label_of(args.label.as_deref().unwrap_or_default())?;
    let id = edited(context, &args.name, Edit::Label { label: label.clone() })?;
    let mut out = anstream::stdout().lock();
    match (context.json, label) {
        (true, label) => screen::json_line(&mut out, &Kept { id: &id, label: Some(label), ..Kept::default() })?,
        (false, None) => writeln!(out, "{id} has no label")?,
        (false, Some(label)) => writeln!(out, "{id} is labelled {}", screen::one_line(label.as_str()))?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn pin(context: &Context, args: &Pin) -> Result<Outcome> {
    let id = edited(context, &args.name, Edit::PinSession { on: !args.off })?;
    let mut out = anstream::stdout().lock();
    match (context.json, args.off) {
        (true, off) => screen::json_line(&mut out, &Kept { id: &id, pinned: Some(!off), ..Kept::default() })?,
        (false, true) => writeln!(out, "{id} is not pinned")?,
        (false, false) => writeln!(out, "{id} is pinned")?,
    }
    Ok(Outcome::Done)
}
