//! `files` and `restore-files`: what the tools changed in the workspace, and how it comes back.
//!
//! The list is read from the log alone. A restore shows what it would do, asks, and does it; each file that goes is in the log
//! first, so the restore has an undo of its own, which it tells. `preview` is how both are shown, here and in the chat.

use std::io::{IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;

use unforget_agent::files::{self, Conflicts, Restored};
use unforget_agent::tools::Workspace;
use unforget_core::files::{Files, Plan};
use unforget_core::json;
use unforget_core::reader::LogReader;
use unforget_core::record::Body;
use unforget_core::scan::Scanner;
use unicode_width::UnicodeWidthStr as _;

use crate::agent;
use crate::cli;
use crate::commands::Context;
use crate::config;
use crate::config::flags::Flags;
use crate::editor::{Editor, Input};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

pub(crate) mod preview;

use preview::Shown;

/// What is asked before files are restored.
const QUESTION: &str = "  Restore these files? [y]es or [n]o: ";
/// How often it is asked.
const ATTEMPTS: usize = 10;

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Someone has to say yes.
    Ask,
    /// Someone has said so already.
    Given,
}

pub(crate) fn list(context: &Context, args: &cli::Files) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    let reader = transcript.reader()?;
    let files = Files::read(&reader)?;
    let number = |name: &Option<String>| name.as_deref().map(|name| record(&reader, name)).transpose();
    let (since, until) = (number(&args.since)?, number(&args.at)?);
    let rows = preview::rows(&files, &context.store.blobs(), since, until);
    let mut out = anstream::stdout().lock();
    if context.json {
        for row in &rows {
            writeln!(out, "{}", row.to_json())?;
        }
    } else if rows.is_empty() {
        writeln!(out, "(no file was changed by the tools of {})", screen::one_line(&transcript.name))?;
    } else {
        preview::list(&mut out, &rows)?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn restore(context: &Context, args: &cli::RestoreFiles) -> Result<Outcome> {
    let entry = context.resolve(&args.name)?;
    let config = config::load(&Flags::default())?;
    let folder = args.workspace.as_deref().unwrap_or(&config.workspace);
    let workspace = Arc::new(agent::confine(&context.home, &config, folder)?);
    let reader = context.store.read(&entry)?;
    let (files, at) = (Files::read(&reader)?, record(&reader, &args.at)?);
    let root = root(&files, &workspace, args.workspace.as_deref())?;
    let conflicts = if args.force { Conflicts::Overwrite } else { Conflicts::Leave };
    let plan = files::plan(&files, &root, &workspace, at);
    let shown = Shown { workspace: &workspace, blobs: &context.store.blobs(), conflicts, diff: args.diff };
    if !context.json {
        shown.plan(&mut anstream::stdout().lock(), &plan)?;
    }
    if args.dry_run || plan.work().next().is_none() {
        if context.json {
            shown.plan_json(&mut std::io::stdout().lock(), &plan, None)?;
        }
        return Ok(Outcome::Done);
    }
    if !args.yes && !confirmed(&mut asker()?)? {
        context.tell("nothing was changed")?;
        return Ok(Outcome::Done);
    }
    let mut session = context.store.open(&entry)?;
    let restored = files::apply(&mut session, &workspace, &plan, conflicts)?;
    let how = |n| format!("`unforget restore-files {} --at {n}` undoes it", entry.row.id);
    if context.json {
        shown.plan_json(&mut std::io::stdout().lock(), &plan, Some(&restored))?;
    } else {
        told(&restored, &mut anstream::stdout().lock(), how)?;
    }
    if restored.left.is_empty() {
        return Ok(Outcome::Done);
    }
    let failure = match restored.left.as_slice() {
        [(path, _)] => Failure::new(format!("`{path}` is not as it was")),
        left => Failure::new(format!("{} files are not as they were", left.len())),
    };
    Err(if plan.conflicts() > 0 && conflicts == Conflicts::Leave {
        failure
            .hint("`--force` also restores files that something else changed; what is in them now is kept in the log")
    } else {
        failure
    })
}

/// Someone to ask; there is nobody in a pipe.
fn asker() -> Result<Editor> {
    if std::io::stdin().is_terminal() {
        return Editor::open(None);
    }
    Err(Failure::usage("nobody is there to be asked")
        .hint("`--yes` restores without a question, `--dry-run` only shows"))
}

/// Asks whether the files that were shown are to be restored.
pub(crate) fn confirmed(editor: &mut Editor) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        match editor.ask(QUESTION)? {
            Input::Line(line) => match line.trim().to_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => {}
            },
            Input::Interrupted | Input::End => return Ok(false),
        }
    }
    Ok(false)
}

/// Says what was done, what was not, and how to take it back.
pub(crate) fn told(restored: &Restored, out: &mut impl Write, undo: impl Fn(u64) -> String) -> Result<()> {
    let count = restored.done.len();
    writeln!(out, "  Restored {count} {}.", if count == 1 { "file" } else { "files" })?;
    for (path, why) in &restored.left {
        writeln!(out, "  Left as it is: {}: {}", screen::one_line(path), screen::one_line(why))?;
    }
    if let Some(n) = restored.undo {
        let (what, how) = ("  What was there is saved:", screen::one_line(&undo(n)));
        // A command that is broken by the edge of the window cannot be copied.
        let fits = screen::columns().is_none_or(|columns| what.width() + 1 + how.width() < columns);
        writeln!(out, "{what}{}{how}.", if fits { " " } else { "\n" })?;
    }
    Ok(())
}

/// The workspace that the records mean by the folder that is worked in.
pub(crate) fn root(files: &Files, workspace: &Workspace, given: Option<&Path>) -> Result<String> {
    let here = workspace.path().to_string_lossy();
    if files.of(&here).next().is_some() {
        return Ok(here.into_owned());
    }
    match (files.last_root(), given) {
        (None, _) => Err(Failure::usage("the tools of this session changed no file")
            .hint("changes by commands (bash) are not recorded; `unforget show` tells which commands ran")),
        // Another machine, or a copy: whoever names the folder means it.
        (Some(root), Some(_)) => Ok(root.to_owned()),
        (Some(root), None) => Err(Failure::usage(format!("the files were changed in `{root}`, and this is `{here}`"))
            .hint("`unforget restore-files REF --at N --workspace DIR` restores them in that folder")),
    }
}

/// The number of a record: itself, or what a name stands for.
pub(crate) fn record(reader: &LogReader, name: &str) -> Result<u64> {
    let number = name.parse::<u64>().ok();
    let (mut scanner, mut named, mut exists) = (Scanner::default(), None, false);
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| {
            exists |= Some(record.n) == number;
            // A checkpoint has the files as they were when it was made, wherever the conversation was.
            if let Body::Label { to: Some(to), name: found } = &record.body
                && found == name
            {
                let says = |member, value| {
                    json::members(record.raw).is_some_and(|it| json::member(&it, member) == Some(value))
                };
                named = (!says("as", "\"dropped\"")).then_some(if says("now", "true") { record.n } else { *to });
            }
        });
    }
    match (named, number.filter(|_| exists)) {
        (Some(n), _) | (None, Some(n)) => Ok(n),
        (None, None) => Err(Failure::usage(format!("there is no record or checkpoint `{name}` in this session"))
            .hint("`unforget show REF` tells the numbers of its records")),
    }
}

/// A path and what else is told of it, as the members of a JSON object.
fn named(path: &str, rest: &str) -> String {
    format!("{{\"path\":{}{rest}}}", json::quote(path))
}

/// Whether anything is to be done at all.
pub(crate) fn has_work(plan: &Plan) -> bool {
    plan.work().next().is_some()
}
