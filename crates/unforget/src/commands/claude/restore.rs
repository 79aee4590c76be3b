//! `claude restore`: sessions into the place where Claude Code finds them.

use std::path::Path;

use unforget_claude::Error;
use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, agent, kept_id};
use unforget_claude::restore::{Extent, Restored, Wish};
use unforget_claude::rewrite::Rewrite;
use unforget_core::json::quote;

use super::save::tell_rewritten;
use super::{fetch, is_alive, keeper, line, named, project, remote_of};
use crate::cli;
use crate::commands::Context;
use crate::commands::remote::{Place, wait};
use crate::failure::{Outcome, Result};
use crate::screen;

pub(super) fn run(context: &Context, args: &cli::Restore) -> Result<Outcome> {
    let keeper = keeper(context, &args.program)?;
    let keeper = if args.memory { keeper.with_memory() } else { keeper };
    let (folder, project) = project(args.cwd.as_deref())?;
    let place = remote_of(context, &args.elsewhere)?;
    let mut sessions = Vec::new();
    for name in &args.sessions {
        let id = named(context, place.as_ref(), name)?;
        // One alone needs no list, however long it is.
        let used_ms = if args.sessions.len() > 1 { used_ms(context, &id) } else { 0 };
        sessions.push((used_ms, id));
    }
    // The one that was used last is written last: `claude --continue` goes by the time of the file.
    sessions.sort_by_key(|(used_ms, _)| *used_ms);
    let how = How { rewrite_paths: args.rewrite_paths, tail: args.tail };
    let mut outcome = Outcome::Done;
    for (_, id) in &sessions {
        let restored = one(context, &keeper, place.as_ref(), id, &folder, &project, how)?;
        tell(context, id, &folder, args, &restored)?;
        if !restored.refused.is_empty() {
            outcome = Outcome::MetDamage;
        }
    }
    Ok(outcome)
}

/// How sessions are restored.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) rewrite_paths: bool,
    pub(super) tail: bool,
}

/// Restores one session, which is fetched first if there is a remote.
pub(super) fn one(
    context: &Context,
    keeper: &Keeper,
    place: Option<&Place>,
    id: &SessionId,
    folder: &Path,
    project: &unforget_claude::project::ProjectKey,
    how: How,
) -> Result<Restored> {
    let kept = kept_id(id)?;
    let is_here = context.store.medium().stat(&agent().transcript(&kept)).is_ok();
    if !is_here && context.store.medium().stat(&agent().trashed(&kept)).is_ok() {
        return Err(Error::Deleted { id: id.to_string() }.into());
    }
    if let Some(place) = place {
        if how.tail
            && !is_here
            && let Some(lines) = wait(fetch::end(place, id))?
        {
            let wish = Wish { project, rewrite: None, extent: Extent::Tail };
            return Ok(keeper.restore_end(id, &wish, lines, &is_alive)?);
        }
        wait(fetch::have(context, place, id))?;
        // Of a session whose end alone was here, what was said since can be kept now that the rest is.
        for found in keeper.config().find(id)?.sessions {
            match keeper.save(&found) {
                Ok(saved) => tell_rewritten(context, &found, &saved)?,
                Err(Error::Partial { .. } | Error::Deleted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let rewrite = if how.rewrite_paths { paths(keeper, id, folder)? } else { None };
    let extent = if how.tail { Extent::Tail } else { Extent::Whole };
    Ok(keeper.restore(id, &Wish { project, rewrite: rewrite.as_ref(), extent }, &is_alive)?)
}

/// What has to be put right in a session that worked elsewhere.
fn paths(keeper: &Keeper, id: &SessionId, folder: &Path) -> Result<Option<Rewrite>> {
    let there = keeper.worked_in(id)?;
    let mut pairs = Vec::new();
    if let Some(old) = &there.folder {
        pairs.push((old.clone(), folder.display().to_string()));
    }
    if let Some(old) = &there.config_dir {
        pairs.push((old.clone(), keeper.config().medium().root().display().to_string()));
    }
    pairs.retain(|(old, new)| old != new);
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
    Ok(if pairs.is_empty() { None } else { Some(Rewrite::new(pairs)?) })
}

fn used_ms(context: &Context, id: &SessionId) -> i64 {
    let entry = context.find(unforget_core::layout::Place::Agents, id.as_str());
    entry.ok().and_then(|entry| entry.row.updated_ms).unwrap_or(0)
}

fn tell(context: &Context, id: &SessionId, folder: &Path, args: &cli::Restore, restored: &Restored) -> Result<()> {
    let Restored { lines, bytes, sides, files, is_tail, .. } = restored;
    let path = restored.path.display().to_string();
    line(
        context,
        || {
            format!(
                "{{\"session\":\"{id}\",\"file\":{},\"lines\":{lines},\"bytes\":{bytes},\"sides\":{sides},\"files\":{files},\"tail\":{is_tail},\"refused\":[{}]}}",
                quote(&path),
                restored.refused.iter().map(|refused| quote(refused)).collect::<Vec<_>>().join(",")
            )
        },
        || {
            if restored.was_in_place {
                return format!("{id}  was in its place, {}", screen::bytes(*bytes));
            }
            let part = if *is_tail { "the end: " } else { "" };
            let more = match (sides, files) {
                (0, 0) => String::new(),
                (sides, files) => format!(", {sides} transcripts of sub-agents, {files} files"),
            };
            format!("{id}  {part}{lines} lines, {}{more}", screen::bytes(*bytes))
        },
    )?;
    for refused in &restored.refused {
        context.tell(&format!("warning: not restored: {refused}"))?;
    }
    for left in &restored.left_alone {
        context.tell(&format!("note: left as it is: {left}"))?;
    }
    if !context.json {
        let config = args.program.config_dir.as_ref();
        let config = config.map_or(String::new(), |dir| format!("CLAUDE_CONFIG_DIR={} ", dir.display()));
        context.tell(&format!("go on with it in {}: {config}claude --resume {id}", folder.display()))?;
    }
    Ok(())
}
