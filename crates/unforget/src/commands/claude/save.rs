//! `claude save`: once, for all sessions or some, or as a hook of Claude Code.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use unforget_claude::keep::{Keeper, Saved, kept_id};
use unforget_claude::place::{ConfigDir, Found};
use unforget_core::json;
use unforget_core::medium::Os;

use super::{carrier, keeper, line, wanted};
use crate::cli;
use crate::commands::Context;
use crate::commands::remote::{Place, wait};
use crate::config::{self, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;

/// A hook's JSON is shorter than this.
const MAX_HOOK: u64 = 1 << 20;

pub(super) fn run(context: &Context, args: &cli::Save) -> Result<Outcome> {
    let outcome = save(context, args);
    // To Claude Code a hook that ends with the code of a wrong command line means: do not stop, and do what it says.
    if args.hook { outcome.map_err(Failure::plain) } else { outcome }
}

fn save(context: &Context, args: &cli::Save) -> Result<Outcome> {
    let (keeper, sessions) = if args.hook { of_hook(context, args)? } else { by_name(context, args)? };
    let keeper = if args.memory { keeper.with_memory() } else { keeper };
    let (mut new, mut lines, mut failed) = (0_u64, 0, None::<Failure>);
    let progress = Progress::new("saving");
    for found in &sessions {
        progress.step();
        match keeper.save(found) {
            Ok(saved) => {
                if !saved.is_empty() {
                    new += 1;
                    lines += saved.lines + saved.side_lines;
                }
                if !args.hook && (!saved.is_empty() || context.json) {
                    tell(context, found, &saved)?;
                }
                for left in &saved.left_out {
                    context.tell(&format!("note: {}: not kept: {left}", found.id))?;
                }
            }
            Err(error) => {
                // The last one is told at the end.
                if let Some(failure) = failed.replace(Failure::from(error).of(found.id.as_str())) {
                    failure.tell()?;
                }
            }
        }
    }
    drop(progress);
    // Whatever is wrong with a remote, everything is kept here by now.
    if let Some(place) = Place::find(context, &args.there, &config::load(&Flags::default())?)? {
        let ids = sessions.iter().map(|found| kept_id(&found.id)).collect::<Result<Vec<_>, _>>()?;
        for (id, error) in wait(carrier::send_all(&context.store, &place, &ids))? {
            // They are here and marked: this is no reason to fail a hook.
            context.tell(&format!("note: {id} is kept here, not yet at {}: {error}", place.address))?;
        }
    }
    if !args.hook && !context.json {
        let sessions = sessions.len();
        context.tell(&match new {
            0 => format!("{sessions} sessions of Claude Code, nothing new"),
            new => format!("{new} of {sessions} sessions of Claude Code had something new: {lines} lines"),
        })?;
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(Outcome::Done),
    }
}

fn by_name(context: &Context, args: &cli::Save) -> Result<(Keeper, Vec<Found>)> {
    let keeper = keeper(context, &args.program)?;
    let sessions = wanted(&keeper, &args.sessions)?;
    Ok((keeper, sessions))
}

/// The session that a hook is about: its transcript says which directory it is in, too.
fn of_hook(context: &Context, args: &cli::Save) -> Result<(Keeper, Vec<Found>)> {
    let mut text = String::new();
    std::io::stdin().take(MAX_HOOK).read_to_string(&mut text)?;
    let members = json::members(text.trim()).unwrap_or_default();
    let path = json::member(&members, "transcript_path").and_then(json::string);
    let path = path.ok_or_else(|| {
        Failure::new("stdin has no hook's JSON with a `transcript_path`")
            .hint("`--hook` is for Claude Code's hooks, such as Stop and SessionEnd")
    })?;
    let path = Path::new(path.as_ref());
    // <directory>/projects/<project>/<id>.jsonl
    let keeper = match (&args.program.config_dir, path.ancestors().nth(3)) {
        (None, Some(root)) => Keeper::new(&context.store, ConfigDir::new(Arc::new(Os::new(root)))),
        _ => keeper(context, &args.program)?,
    };
    let root = keeper.config().medium().root();
    // A session that ended before anything was said has no transcript.
    let found = keeper.config().sessions()?.sessions.into_iter().filter(|found| root.join(&found.path) == path);
    let found = found.collect();
    Ok((keeper, found))
}

pub(super) fn tell(context: &Context, found: &Found, saved: &Saved) -> Result<()> {
    let Saved { lines, side_lines, files, is_new, is_merged, .. } = saved;
    line(
        context,
        || {
            format!(
                "{{\"session\":\"{}\",\"project\":\"{}\",\"lines\":{lines},\"side_lines\":{side_lines},\"files\":{files},\"new\":{is_new},\"merged\":{is_merged}}}",
                found.id, found.project
            )
        },
        || {
            let mut parts = vec![format!("{lines} lines")];
            parts.extend((*side_lines > 0).then(|| format!("{side_lines} of sub-agents")));
            parts.extend((*files > 0).then(|| format!("{files} files")));
            let merged = if *is_merged { "; it had gone on differently, both are kept" } else { "" };
            format!("{}  {}{}{merged}", found.id, if *is_new { "new: " } else { "" }, parts.join(", "))
        },
    )
}
