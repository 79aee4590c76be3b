//! `rm` and `undelete`.

use std::collections::HashSet;
use std::io::Write as _;

use unforget_core::Error;
use unforget_core::index::Place;
use unforget_core::json::quote;
use unforget_core::retention::{self, Verdict};
use unforget_core::store::Entry;
use unforget_core::summary::{Row, State};

use crate::cli::Refs;
use crate::commands::Context;
use crate::failure::{Outcome, Result};
use crate::screen;

pub(crate) fn delete(context: &Context, args: &Refs) -> Result<Outcome> {
    // All names are resolved first: a typo in the last one must not leave half of them deleted.
    let entries =
        args.names.iter().map(|name| Ok(context.find(Place::Agents, name)?)).collect::<Result<Vec<Entry>>>()?;
    let mut done = HashSet::new();
    let entries: Vec<&Entry> = entries.iter().filter(|entry| done.insert(entry.row.id.as_str())).collect();
    // Everything is done before anything is said: a reader that has seen enough must not stop the work half-way.
    entries.iter().try_for_each(|entry| context.store.delete(entry))?;
    for entry in entries {
        // Where there was no file, there is nothing to bring back.
        let kept = entry.row.state != State::Missing;
        said(context, if kept { "deleted" } else { "forgotten" }, entry)?;
        if kept && !context.json {
            context.tell(&format!("hint: `unforget undelete {}` brings it back", entry.row.id))?;
        }
    }
    Ok(Outcome::Done)
}

pub(crate) fn undelete(context: &Context, args: &Refs) -> Result<Outcome> {
    let find = |name: &String| match context.find(Place::Trash, name) {
        Err(Error::NotFound { name, .. }) => Err(Error::NotFound { what: "deleted session", name }.into()),
        other => Ok(other?),
    };
    let entries = args.names.iter().map(find).collect::<Result<Vec<Entry>>>()?;
    entries.iter().try_for_each(|entry| context.store.undelete(entry))?;
    let rules = crate::config::load(&crate::config::flags::Flags::default())?.retention;
    let now_ms = context.store.source().now_ms();
    for entry in &entries {
        said(context, "undeleted", entry)?;
        let row = Row { state: State::Ok, ..entry.row.clone() };
        if matches!(retention::verdict(&row, &rules, now_ms), Verdict::Expire(_)) {
            let id = &entry.row.id;
            context.tell(&format!(
                "note: by [retention] it goes again with the next clean-up; `unforget expire {id} never` keeps it"
            ))?;
        }
    }
    Ok(Outcome::Done)
}

fn said(context: &Context, what: &str, entry: &Entry) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let key = entry.row.key.as_deref().unwrap_or("-");
    if context.json {
        writeln!(out, "{{\"{what}\":{},\"key\":{}}}", quote(&entry.row.id), quote(key))?;
    } else {
        writeln!(out, "{what} {}  {}", entry.row.id, screen::one_line(key))?;
    }
    Ok(())
}
