//! Which session a run is about, that nobody else has it, and that it is where the program finds it.
//!
//! The failure to guard against is a machine that could not ask and takes that for "there is nothing". And two who write one session: the lease on the
//! remote, the lock in the store and what Claude Code says itself about who is running are all asked.

use std::path::{Path, PathBuf};

use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, agent, kept_id};
use unforget_claude::live;
use unforget_claude::project::ProjectKey;
use unforget_core::key::Key;
use unforget_core::medium::{Access, Handle, parent};
use unforget_core::summary::claude_key;
use unforget_remote::lease::{Acquired, Lease};
use unforget_remote::sync;

use crate::cli;
use crate::commands::Context;
use crate::commands::claude::restore::{self, How};
use crate::commands::claude::save::tell_rewritten;
use crate::commands::claude::{carrier, is_alive, named, new_id};
use crate::commands::remote::{Place, wait};
use crate::failure::{Failure, Result};

/// Which session, and how it is begun.
pub(super) enum Begin {
    New(SessionId),
    Resume(SessionId),
    /// A copy of the first, under the second id.
    Fork(SessionId, SessionId),
}

impl Begin {
    /// The session that is written.
    pub(super) fn id(&self) -> &SessionId {
        match self {
            Begin::New(id) | Begin::Resume(id) | Begin::Fork(_, id) => id,
        }
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        match self {
            Begin::New(id) => vec!["--session-id".to_owned(), id.to_string()],
            Begin::Resume(id) => vec!["--resume".to_owned(), id.to_string()],
            Begin::Fork(from, id) => {
                let [resume, fork, new] = ["--resume", "--fork-session", "--session-id"].map(str::to_owned);
                vec![resume, from.to_string(), fork, new, id.to_string()]
            }
        }
    }
}

/// The session that was asked for.
pub(super) fn choose(
    context: &Context,
    args: &cli::Run,
    keeper: &Keeper,
    place: Option<&Place>,
    folder: &Path,
    project: &ProjectKey,
) -> Result<Begin> {
    let from = match (&args.resume, args.resume_last) {
        (Some(name), _) => Some(named(context, place, name)?),
        (None, true) => last(context, keeper, place, folder, project)?,
        (None, false) => None,
    };
    match from {
        Some(id) if args.fork => Ok(Begin::Fork(id, new_id()?)),
        Some(id) => Ok(Begin::Resume(id)),
        None if args.fork => {
            Err(Failure::usage("there is nothing to fork").hint("`--fork` goes with `--resume` or `--continue`"))
        }
        None => {
            if args.resume_last {
                context.tell("no session of this folder yet; a new one begins")?;
            }
            Ok(Begin::New(new_id()?))
        }
    }
}

/// The session of a folder that was used last: in Claude Code's directory, in the store, or elsewhere.
fn last(
    context: &Context,
    keeper: &Keeper,
    place: Option<&Place>,
    folder: &Path,
    project: &ProjectKey,
) -> Result<Option<SessionId>> {
    let mut known: Vec<(i64, SessionId)> = Vec::new();
    if let Some(found) = keeper.config().newest(project)? {
        known.push((found.stat.modified_ns / 1_000_000, found.id));
    }
    let Some(key) = claude_key(&folder.display().to_string()).and_then(|key| key.parse::<Key>().ok()) else {
        return Ok(known.pop().map(|(_, id)| id));
    };
    if let Some(entry) = context.catalog.last_used(&key, &mut |_, _| {})?.value {
        let used_ms = entry.row.updated_ms.unwrap_or(0);
        known.extend(SessionId::parse(&entry.row.id).map(|id| (used_ms, id)));
    }
    if let Some(place) = place {
        match wait(async { Ok(sync::find_by_key(&place.remote, &place.tenant, &key).await) })? {
            Ok(pointer) => {
                let there = pointer.and_then(|to| Some((to.created_ms, SessionId::parse(to.session.as_str())?)));
                known.extend(there);
            }
            Err(error) if error.is_passing() && !known.is_empty() => {
                context.tell(&format!("note: {error}; going on with what is here"))?;
            }
            // What could not be asked is not taken for "there is nothing".
            Err(error) => return Err(Failure::from(error).hint("`--new` begins a new session all the same")),
        }
    }
    Ok(known.into_iter().max_by_key(|(ms, _)| *ms).map(|(_, id)| id))
}

/// That this program has a session: its lock, and its lease if there is a remote that answered.
pub(super) type Reserved = (Option<Box<dyn Handle>>, Option<Lease>);

/// Sees that nobody else has the session, and has it.
pub(super) fn reserve(context: &Context, place: Option<&Place>, id: &SessionId) -> Result<Reserved> {
    let kept = kept_id(id)?;
    let lock = lock(context, id)?;
    let Some(place) = place else { return Ok((Some(lock), None)) };
    match wait(async { Ok(carrier::claim(&context.store, place, &kept).await) })? {
        Ok(Acquired::Held(lease)) => Ok((Some(lock), Some(lease))),
        Ok(Acquired::Taken { holder, until_ms }) => {
            Err(taken(id, &format!("{holder} (until {}, unless it goes on)", crate::screen::time(until_ms))))
        }
        Err(error) if error.is_passing() => {
            context.tell(&format!("note: {error}; whether another machine has this session is not known"))?;
            Ok((Some(lock), None))
        }
        Err(error) => Err(error.into()),
    }
}

/// Lets others have a session that was not begun after all.
pub(super) fn give_back(place: Option<&Place>, lease: Option<Lease>) -> Result<()> {
    let Some((place, lease)) = place.zip(lease) else { return Ok(()) };
    wait(async {
        match tokio::time::timeout(super::GIVING_BACK, lease.release(&place.remote)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the lease was not given back"),
            Err(_) => tracing::debug!("the lease was not given back in time"),
        }
        Ok(())
    })
}

fn taken(id: &SessionId, by: &str) -> Failure {
    Failure::busy(format!("session {id} is in use by {by}"))
        .hint("wait for it, or go on in a copy of it: `unforget claude run --resume SESSION --fork -- claude …`")
}

/// The lock of a session on this machine; it ends with this program.
pub(crate) fn lock(context: &Context, id: &SessionId) -> Result<Box<dyn Handle>> {
    let medium = context.store.medium();
    let path = PathBuf::from("copies").join(format!("{id}.run"));
    medium.create_dir(parent(&path))?;
    let file = match medium.open(&path, Access::CreateNew) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => medium.open(&path, Access::Append),
        other => other,
    }?;
    if file.try_lock()? {
        return Ok(file);
    }
    let holder = file.stat().ok().and_then(|stat| medium.lock_holder(&stat));
    Err(taken(id, &holder.unwrap_or_else(|| "another process".to_owned())))
}

/// Has a session in the place where the program finds it; says whether only its end is there.
pub(super) fn prepare(
    context: &Context,
    args: &cli::Run,
    keeper: &Keeper,
    place: Option<&Place>,
    id: &SessionId,
    folder: &Path,
    project: &ProjectKey,
) -> Result<bool> {
    let there = keeper.config().find(id)?.sessions.into_iter().next();
    if let Some(found) = &there {
        match keeper.save(found) {
            Ok(saved) => tell_rewritten(context, found, &saved)?,
            Err(unforget_claude::Error::Partial { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let is_kept = context.store.medium().stat(&agent().transcript(&kept_id(id)?)).is_ok();
    if !is_kept && place.is_none() {
        return Err(Failure::new(format!("session {id} is not here"))
            .hint("`--remote URL` fetches it; `unforget sessions --agent claude` lists what is here"));
    }
    // What someone is writing is in its place, and is copied as it is.
    if args.fork && there.is_some() && !live::live(keeper.config(), id, &is_alive)?.writers.is_empty() {
        return Ok(false);
    }
    // The program finds a session in whichever project it is.
    let project = there.as_ref().map_or(project, |found| &found.project);
    let how = How { rewrite_paths: args.rewrite_paths, tail: args.tail };
    let restored = restore::one(context, keeper, place, id, folder, project, how)?;
    for left in &restored.left_alone {
        context.tell(&format!("note: left as it is: {left}"))?;
    }
    Ok(restored.is_tail && !is_kept)
}
