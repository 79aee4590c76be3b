//! `claude save`: once, for all sessions or some, or as a hook of Claude Code.

use std::io::Read as _;
use std::path::Path;

use unforget_claude::Error;
use unforget_claude::copy::Rewrite;
use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, Saved, kept_id};
use unforget_claude::place::{Found, PROJECTS, TRANSCRIPT, transcript};
use unforget_claude::project::ProjectKey;
use unforget_core::json;

use super::{carrier, config_dir, keeper, line, must_be_there, remote_of, wanted};
use crate::cli;
use crate::commands::Context;
use crate::commands::remote::wait;
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;

/// A hook's JSON is shorter than this.
const MAX_HOOK: u64 = 64 << 20;
/// How many changed lines of a session are told one by one.
const TOLD: usize = 10;

pub(super) fn run(context: &Context, args: &cli::Save) -> Result<Outcome> {
    let outcome = save(context, args);
    match outcome {
        // To Claude Code, 2 means that it must not stop, or must not take what was typed.
        Err(failure) if args.hook => Err(failure.plain()),
        outcome => outcome,
    }
}

fn save(context: &Context, args: &cli::Save) -> Result<Outcome> {
    let (keeper, sessions) = if args.hook { of_hook(context)? } else { by_name(context, args)? };
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
                tell_rewritten(context, found, &saved)?;
            }
            // What was deleted on purpose is not brought back by the way.
            Err(error @ Error::Deleted { .. }) if args.sessions.is_empty() => {
                context.tell(&format!("note: {error}"))?;
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
    // Everything is here before anything is asked of a remote, or of the settings.
    if let Some(place) = remote_of(context, &args.elsewhere)? {
        let ids = sessions.iter().map(|found| kept_id(&found.id)).collect::<Result<Vec<_>, _>>()?;
        for (id, error) in wait(carrier::send_all(&context.store, &place, &ids))? {
            // They are here and marked: this is no reason to fail a hook.
            context.tell(&format!("note: {id} is kept here, not yet at {}: {error}", place.address))?;
        }
    }
    if !args.hook && !context.json {
        let sessions = match sessions.len() {
            1 => "1 session".to_owned(),
            many => format!("{many} sessions"),
        };
        context.tell(&match new {
            0 => format!("{sessions} of Claude Code, nothing new"),
            new => format!("{new} of {sessions} of Claude Code had something new: {lines} lines"),
        })?;
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(Outcome::Done),
    }
}

fn by_name(context: &Context, args: &cli::Save) -> Result<(Keeper, Vec<Found>)> {
    must_be_there(&config_dir(&args.program)?)?;
    let keeper = keeper(context, &args.program)?;
    let sessions = wanted(&keeper, &args.sessions)?;
    Ok((keeper, sessions))
}

/// The session that a hook is about: its transcript says which directory it is in, too.
fn of_hook(context: &Context) -> Result<(Keeper, Vec<Found>)> {
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_HOOK).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let members = json::members(text.trim()).unwrap_or_default();
    let path = json::member(&members, "transcript_path").and_then(json::string);
    let path = path.ok_or_else(|| {
        Failure::new("stdin has no hook's JSON with a `transcript_path`")
            .hint("`--hook` is for Claude Code's hooks, such as Stop and SessionEnd")
    })?;
    let path = Path::new(path.as_ref());
    let strange = || {
        Failure::new(format!("`{}` is no transcript of Claude Code", path.display()))
            .hint("it should be DIRECTORY/projects/PROJECT/SESSION.jsonl")
    };
    let id = path.file_name().and_then(|name| name.to_str()?.strip_suffix(TRANSCRIPT)).and_then(SessionId::parse);
    let folder = path.parent().and_then(|project| ProjectKey::found(project.file_name()?.to_str()?));
    let (id, folder) = id.zip(folder).ok_or_else(strange)?;
    // <directory>/projects/<project>/<id>.jsonl
    let root = path.ancestors().nth(3).filter(|root| root.join(PROJECTS) == *path.ancestors().nth(2).unwrap_or(root));
    let program = cli::Program { config_dir: Some(root.ok_or_else(strange)?.to_path_buf()) };
    let keeper = keeper(context, &program)?;
    let place = transcript(&folder, &id);
    match keeper.config().medium().stat(&place) {
        Ok(stat) => Ok((keeper, vec![Found { id, project: folder, path: place, stat }])),
        // A session that ended before anything was said has no transcript.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((keeper, Vec::new())),
        Err(error) => Err(Failure::from(error).of(&path.display().to_string())),
    }
}

/// Tells which lines the program changed in place after they were saved; with `--json` they are among what was saved.
pub(super) fn tell_rewritten(context: &Context, found: &Found, saved: &Saved) -> Result<()> {
    for rewritten in saved.rewritten.iter().take(TOLD) {
        context.tell(&format!("note: {}: {rewritten}", found.id))?;
    }
    match saved.rewritten.len().saturating_sub(TOLD) {
        0 => Ok(()),
        more => context.tell(&format!("note: {}: {more} more changed lines; `--json` lists them", found.id)),
    }
}

pub(super) fn tell(context: &Context, found: &Found, saved: &Saved) -> Result<()> {
    let Saved { lines, side_lines, files, is_new, is_merged, rewritten, .. } = saved;
    let rewritten = rewritten.iter().map(|rewritten| {
        let side = rewritten.side.as_deref().map_or(String::new(), |side| format!("\"side\":{},", json::quote(side)));
        let Rewrite { line, uuid, is_blank } = &rewritten.rewrite;
        let both = !is_blank;
        format!("{{{side}\"line\":{line},\"uuid\":{},\"both_kept\":{both}}}", json::quote(uuid))
    });
    let rewritten = rewritten.collect::<Vec<_>>().join(",");
    line(
        context,
        || {
            format!(
                "{{\"session\":\"{}\",\"project\":\"{}\",\"lines\":{lines},\"side_lines\":{side_lines},\"files\":{files},\"new\":{is_new},\"merged\":{is_merged},\"rewritten\":[{rewritten}]}}",
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
