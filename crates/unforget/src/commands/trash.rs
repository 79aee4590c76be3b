//! `rm` and `undelete`.

use std::collections::HashSet;
use std::io::Write as _;

use unforget_claude::id::SessionId as ClaudeId;
use unforget_core::Error;
use unforget_core::directory::Entry;
use unforget_core::edit::{self, Edit, EditScope};
use unforget_core::json::quote;
use unforget_core::layout::Place;
use unforget_core::retention::{self, Keep, Kept, Rules, Verdict};
use unforget_core::summary::{Row, State};

use crate::cli::Refs;
use crate::commands::{Context, claude};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// How long an id is, and what is added to it for a copy that was put aside.
const FULL_ID: usize = 36;
const DIGEST: usize = 16;

pub(crate) fn delete(context: &Context, args: &Refs) -> Result<Outcome> {
    // All names are resolved first: a typo in the last one must not leave half of them deleted.
    let entries = args.names.iter().map(|name| context.resolve(name)).collect::<Result<Vec<Entry>>>()?;
    let mut done = HashSet::new();
    let entries: Vec<&Entry> = entries.iter().filter(|entry| done.insert(entry.row.id.as_str())).collect();
    // What someone runs Claude Code with is theirs until it ends.
    let mut held = Vec::new();
    for entry in entries.iter().filter(|entry| entry.dir.has_sides()) {
        if let Some(id) = ClaudeId::parse(&entry.row.id) {
            held.push(claude::run::lock(context, &id)?);
        }
    }
    // Everything is done before anything is said: a reader that has seen enough must not stop the work half-way.
    entries.iter().try_for_each(|entry| context.store.delete(entry))?;
    drop(held);
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
    for entry in &entries {
        // What a fork or a rebase put aside has the name of a session that went on.
        if let Some((session, digest)) = entry.row.id.rsplit_once('-')
            && (session.len(), digest.len()) == (FULL_ID, DIGEST)
        {
            let path = context.home.join(context.store.path(entry)?);
            let failure = Failure::usage(format!("`{}` is an older copy of {session}, which went on", entry.row.id));
            return Err(failure
                .hint(format!("`unforget import {} --key KEY` makes a session of its own of it", path.display())));
        }
    }
    entries.iter().try_for_each(|entry| context.store.undelete(entry))?;
    let rules = crate::config::load(&crate::config::flags::Flags::default())?.retention;
    for entry in &entries {
        said(context, "undeleted", entry)?;
        if let Some(note) = begin_anew(context, entry, &rules) {
            let id = &entry.row.id;
            context.tell(&format!("note: {note}"))?;
            context.tell(&format!("hint: `unforget expire {id} never` keeps it for good"))?;
        }
    }
    Ok(Outcome::Done)
}

/// Has the time that a session is kept begin anew, now that it came back, and tells so; nothing if it does not expire.
///
/// Without this, the next clean-up would take away what a person has just brought back.
pub(crate) fn begin_anew(context: &Context, entry: &Entry, rules: &Rules) -> Option<String> {
    let now_ms = context.store.source().now_ms();
    let row = Row { state: State::Ok, ..entry.row.clone() };
    let was = match retention::verdict(&row, rules, now_ms) {
        Verdict::Expire(_) => "its time was over and begins anew",
        Verdict::Keep(Kept::NotYet(_)) => "its time begins anew",
        Verdict::Keep(_) => return None,
    };
    let write = || -> Result<()> {
        let mut session = context.store.open(&Entry { row: row.clone(), dir: entry.dir.clone() })?;
        // What is said stays as it is; that it is said now is what counts.
        let after = row.expires.as_deref().map(Keep::parse).transpose()?;
        edit::apply_one(&mut session, Edit::Expire { after }, &EditScope::default())?;
        context.close(session);
        Ok(())
    };
    if let Err(failure) = write() {
        return Some(format!("by [retention] it may go again with the next clean-up: {}", failure.message()));
    }
    let now = Row { written_ms: Some(now_ms), ..row.clone() };
    Some(match retention::verdict(&now, rules, now_ms) {
        Verdict::Keep(Kept::NotYet(end)) => format!("{was}: it stays until {}", screen::time(end)),
        Verdict::Keep(_) | Verdict::Expire(_) => was.to_owned(),
    })
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
