//! `claude`: sessions of Claude Code, kept here and restored anywhere.
//!
//! The library knows the program's directory and its files; what the environment says, who is running, and where a remote is, is known here. Every
//! way goes through the store: what Claude Code has is kept there, and from there it goes to a remote or back into a directory of the program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, agent, kept_id};
use unforget_claude::live::Writer;
use unforget_claude::place::{ConfigDir, Found};
use unforget_claude::project::ProjectKey;
use unforget_core::key::Key;
use unforget_core::layout::CLAUDE_AGENT;
use unforget_core::medium::Os;
use unforget_core::stamp;
use unforget_remote::{Stream, sync};

use crate::cli::{self, ClaudeCommand};
use crate::commands::Context;
use crate::commands::remote::{Place, wait};
use crate::config::{self, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::machine;

mod carrier;
pub(crate) mod examine;
mod fetch;
mod restore;
pub(crate) mod run;
mod save;
mod watch;

pub(crate) fn run(context: &Context, args: &cli::Claude) -> Result<Outcome> {
    match &args.command {
        ClaudeCommand::Save(args) => save::run(context, args),
        ClaudeCommand::Restore(args) => restore::run(context, args),
        ClaudeCommand::Watch(args) => watch::run(context, args),
        ClaudeCommand::Run(args) => run::run(context, args),
        ClaudeCommand::Doctor(args) => examine::run(context, args),
    }
}

/// Claude Code's directory.
fn config_dir(program: &cli::Program) -> Result<PathBuf> {
    let given = program.config_dir.clone();
    let said = given.or_else(|| std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from));
    let dir = match said {
        Some(dir) => dir,
        None => std::env::home_dir()
            .map(|home| home.join(".claude"))
            .ok_or_else(|| Failure::usage("there is no home directory").hint("`--config-dir DIR` says where it is"))?,
    };
    // One directory has one name, whoever spells it.
    Ok(dir.canonicalize().or_else(|_| std::path::absolute(&dir))?)
}

/// Keeps what is in that directory.
fn keeper(context: &Context, program: &cli::Program) -> Result<Keeper> {
    let dir = config_dir(program)?;
    Ok(Keeper::new(&context.store, ConfigDir::new(Arc::new(Os::new(&dir)))))
}

/// The project of a folder, as Claude Code names it: links are followed.
fn project(folder: Option<&Path>) -> Result<(PathBuf, ProjectKey)> {
    let folder = folder.unwrap_or(Path::new("."));
    let real = folder.canonicalize().map_err(|error| {
        Failure::new(format!("cannot find the folder `{}`: {error}", folder.display()))
            .hint("Claude Code is started in a folder; `mkdir -p` makes it")
    })?;
    if !real.is_dir() {
        return Err(Failure::new(format!("`{}` is not a folder", folder.display())));
    }
    let text = real.to_str().ok_or_else(|| {
        Failure::new(format!(
            "the path of `{}` is not UTF-8, and has no name that Claude Code would give it",
            real.display()
        ))
    })?;
    let key = ProjectKey::of(text);
    Ok((real, key))
}

/// The sessions that names mean, of those in Claude Code's directory; all if there are none.
fn wanted(keeper: &Keeper, names: &[String]) -> Result<Vec<Found>> {
    let all = keeper.config().sessions()?;
    if names.is_empty() {
        return Ok(all.sessions);
    }
    let mut found = Vec::new();
    for name in names {
        let matching: Vec<&Found> =
            all.sessions.iter().filter(|session| session.id.as_str().starts_with(name.as_str())).collect();
        let is_one = matching.windows(2).all(|two| two[0].id == two[1].id);
        match (matching.is_empty(), is_one) {
            (false, true) => found.extend(matching.into_iter().cloned()),
            (false, false) => return Err(Failure::usage(format!("several sessions begin with `{name}`"))),
            (true, _) => {
                let root = keeper.config().medium().root();
                return Err(Failure::new(format!("no session of Claude Code in {} begins with `{name}`", root.display()))
                    .hint("`--config-dir DIR` looks elsewhere; what is kept already is listed by `unforget sessions --agent claude`"));
            }
        }
    }
    Ok(found)
}

/// The remote that is named or set, unless it is to be done without.
fn remote_of(context: &Context, elsewhere: &cli::Elsewhere) -> Result<Option<Place>> {
    match elsewhere.no_remote {
        true => Ok(None),
        false => Place::find(context, &elsewhere.there, &config::load(&Flags::default())?),
    }
}

/// Says early that there is nothing where someone wants something to be looked for.
fn must_be_there(dir: &Path) -> Result<()> {
    match dir.is_dir() {
        true => Ok(()),
        false => Err(Failure::usage(format!("there is no directory `{}`", dir.display()))
            .hint("`--config-dir DIR` or CLAUDE_CONFIG_DIR say where Claude Code keeps its sessions")),
    }
}

/// A session of Claude Code by any name: its id, or what names a session that is kept; at a remote, the beginning of its id, or its key.
fn named(context: &Context, place: Option<&Place>, name: &str) -> Result<SessionId> {
    let not_ours = || {
        Failure::usage(format!("`{name}` is a session of this program, not of Claude Code"))
            .hint("`unforget chat -s REF` goes on with it")
    };
    if let Some(id) = SessionId::parse(name) {
        let entry = context.store.entry(&kept_id(&id)?)?;
        return if entry.is_some_and(|entry| entry.dir != agent()) { Err(not_ours()) } else { Ok(id) };
    }
    let unknown = match context.resolve(name) {
        Ok(entry) if entry.dir == agent() => return SessionId::parse(&entry.row.id).ok_or_else(not_ours),
        Ok(_) => return Err(not_ours()),
        Err(failure) => failure,
    };
    match place {
        Some(place) => wait(there(place, name))?.ok_or(unknown),
        None => Err(unknown),
    }
}

/// The session at a remote that a name means.
async fn there(place: &Place, name: &str) -> Result<Option<SessionId>> {
    if let Ok(key) = name.parse::<Key>()
        && let Some(to) = sync::find_by_key(&place.remote, &place.tenant, &key).await?
    {
        return Ok(SessionId::parse(to.session.as_str()));
    }
    let all = place.sessions().await?;
    let is_it = |stream: &&Stream| stream.place() == CLAUDE_AGENT && stream.session().starts_with(name);
    match all.iter().filter(is_it).collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [one] => Ok(SessionId::parse(one.session())),
        _ => Err(Failure::usage(format!("several sessions at {} begin with `{name}`", place.address))),
    }
}

/// Whether a process that said that it has a session is still the one that said it.
fn is_alive(writer: &Writer) -> bool {
    if let Some(domain) = &writer.process_domain {
        // In another container its number means somebody else here; whether it runs cannot be seen.
        if machine::namespace().is_some_and(|here| !domain.ends_with(&here)) {
            return true;
        }
    }
    match (machine::process_start(writer.pid), &writer.process_start) {
        (None, _) => false,
        (Some(now), Some(then)) => now == *then,
        (Some(_), None) => true,
    }
}

/// Why something could not be done with Claude Code's directory, and what to do about it.
impl From<unforget_claude::Error> for Failure {
    fn from(error: unforget_claude::Error) -> Self {
        use unforget_claude::Error as Said;
        let message = error.to_string();
        match error {
            Said::Store(error) => error.into(),
            Said::Live { .. } => Failure::busy(message)
                .hint("end it there first, or go on in a copy: `unforget claude run --resume SESSION --fork -- claude`")
                .hint("if that was another machine or container, and it is gone: remove its file in `sessions` of Claude Code's directory"),
            Said::Newer { .. } => {
                Failure::busy(message).hint("`unforget claude save` keeps them; then it can be restored")
            }
            Said::Elsewhere { .. } => Failure::new(message)
                .hint("`unforget claude save SESSION` keeps them; then it can be restored here")
                .hint("`claude --resume` finds it from any folder where it is"),
            Said::Deleted { .. } => Failure::new(message).hint("`unforget undelete SESSION` brings it back"),
            Said::Partial { .. } => Failure::new(message).hint("`unforget pull SESSION --remote URL` fetches the rest"),
            _ => Failure::new(message),
        }
    }
}

/// A new name for a session.
fn new_id() -> Result<SessionId> {
    // Any UUID will do; one that is made of the time sorts by it.
    let text = stamp::Source::new_id(&stamp::System, i64::MAX).to_string();
    SessionId::parse(&text).ok_or_else(|| Failure::new(format!("`{text}` is no name for a session of Claude Code")))
}

/// Prints a line for a machine, or for a person.
fn line(context: &Context, machine: impl FnOnce() -> String, person: impl FnOnce() -> String) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let text = if context.json { machine() } else { crate::screen::safe(&person()).into_owned() };
    writeln!(out, "{text}")?;
    Ok(())
}
