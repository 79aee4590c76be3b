//! Files of a workspace as they were at some record: what would change, and changing it.
//!
//! `unforget_core::files` knows from the log what was in each file that a tool changed; this module looks at the disk beside it. A
//! restore is a change like any other: for each file a `file` record with the content that goes and the content that comes is
//! in the log before the file is touched. So a restore can be undone by a restore to the record before it, a crash in the
//! middle leaves every file old or new, and the same restore again finishes the rest.
//!
//! Paths come from the log, which may be anybody's. They go through the workspace like a model's, and one that does not lead
//! straight to its file (over a link, over `..`) is not touched. Whether a person wants all this is not asked here.

use std::collections::BTreeMap;
use std::sync::Arc;

use unforget_core::blob::Blobs;
use unforget_core::files::{self, Action, Content, Files, Found, Plan, Seen, Standing, Step};
use unforget_core::record::Draft;
use unforget_core::session::Session;

use crate::error::Result;
use crate::tools::Workspace;
use crate::tools::change::File;
use crate::tools::place::PathError;

/// What is said of a file that something else changed.
const CHANGED_ELSEWHERE: &str = "it was changed by something else";
/// What is said of a file whose path leads somewhere else than to it.
const LEADS_ELSEWHERE: &str = "a link on its path leads elsewhere";

/// What to do with files that something else changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// They stay as they are.
    Leave,
    /// They are restored like the others; what is in them now is kept in the log.
    Overwrite,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// The record before the first one of the restore: restoring to it undoes this.
    pub undo: Option<u64>,
    /// The files that are now as they were, and what was done to them.
    pub done: Vec<(String, Action)>,
    /// The files that are not, and why.
    pub left: Vec<(String, String)>,
}

/// Compares the files of a workspace with what they were at record `at`; `root` is the workspace that the records name.
pub fn plan(files: &Files, root: &str, workspace: &Arc<Workspace>, at: u64) -> Plan {
    let look = |path: &str| match seen(workspace, path) {
        Ok(file) => Found::Content(file.seen.content()),
        Err(why) => Found::Blocked(why),
    };
    let disk: BTreeMap<String, Found> = files.of(root).map(|(path, _)| (path.to_owned(), look(path))).collect();
    files.plan(root, at, &disk)
}

/// What is in a file now and what a step would put there; none where there is no file, or nothing that can be shown.
pub fn contents(blobs: &Blobs, workspace: &Arc<Workspace>, step: &Step) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let now = match seen(workspace, &step.path).map(|file| file.seen) {
        Ok(Seen::Bytes(bytes)) => Some(bytes),
        Ok(Seen::Nothing | Seen::Only { .. }) | Err(_) => None,
    };
    (now, kept(blobs, &step.target).ok().flatten())
}

/// The bytes behind a content; none for no file.
pub fn kept(blobs: &Blobs, content: &Content) -> Result<Option<Vec<u8>>, String> {
    match content {
        Content::Absent => Ok(None),
        Content::Kept { sha256 } => {
            let payload = blobs.get(sha256).map_err(|error| error.to_string())?;
            files::bytes(&payload).map(Some).ok_or_else(|| "what is kept is no content of a file".to_owned())
        }
        Content::NotKept { .. } | Content::Unknown => Err("its content was not kept".to_owned()),
    }
}

/// Does what a plan says, file by file, after writing down what no record tells of these files yet; a file that changed since it was planned stays as it is.
pub fn apply(session: &mut Session, workspace: &Arc<Workspace>, plan: &Plan, conflicts: Conflicts) -> Result<Restored> {
    let mut restored = Restored::default();
    let refused = |step: &Step| match &step.standing {
        Standing::Blocked(why) => Some(why.clone()),
        Standing::Conflict if conflicts == Conflicts::Leave => Some(CHANGED_ELSEWHERE.to_owned()),
        Standing::Conflict | Standing::Clear => None,
    };
    for step in plan.steps.iter().filter(|step| step.is_news && refused(step).is_none()) {
        note(session, workspace, plan, step)?;
    }
    for step in plan.work() {
        let refused = match refused(step) {
            None => restore(session, workspace, plan, step, &mut restored.undo)?,
            why => why,
        };
        match refused {
            Some(why) => restored.left.push((step.path.clone(), why)),
            None => restored.done.push((step.path.clone(), step.action)),
        }
    }
    for folder in &plan.folders {
        if let Err(error) = workspace.remove_if_empty(folder)
            && !matches!(error, PathError::Missing)
        {
            restored.left.push((folder.clone(), words(&error)));
        }
    }
    Ok(restored)
}

/// Writes down what is in the files now, where no record says so, and returns how many those are: a checkpoint behind it has them all.
pub fn keep(session: &mut Session, workspace: &Arc<Workspace>, plan: &Plan) -> Result<usize> {
    let is_news = |step: &&Step| step.is_news && !matches!(step.standing, Standing::Blocked(_));
    let news: Vec<&Step> = plan.steps.iter().filter(is_news).collect();
    for step in &news {
        note(session, workspace, plan, step)?;
    }
    Ok(news.len())
}

/// Writes down what is in a file, because no record says so: a restore to the point before this one has to find it.
fn note(session: &mut Session, workspace: &Arc<Workspace>, plan: &Plan, step: &Step) -> Result<()> {
    if let Ok(file) = seen(workspace, &step.path)
        && file.seen.content() == step.disk
    {
        append(session, workspace, plan, file.as_it_is())?;
    }
    Ok(())
}

/// Appends the record of a file that is part of a restore, and returns its number.
fn append(session: &mut Session, workspace: &Arc<Workspace>, plan: &Plan, draft: Draft) -> Result<u64> {
    let mut draft = draft.text("by", "restore");
    if plan.root != workspace.path().to_string_lossy() {
        draft = draft.text("from", &plan.root);
    }
    Ok(session.append(&[draft])?.start)
}

/// Restores one file; tells why not if it cannot.
fn restore(
    session: &mut Session,
    workspace: &Arc<Workspace>,
    plan: &Plan,
    step: &Step,
    undo: &mut Option<u64>,
) -> Result<Option<String>> {
    let content = match kept(session.blobs(), &step.target) {
        Ok(content) => content,
        Err(why) => return Ok(Some(why)),
    };
    let file = match seen(workspace, &step.path) {
        Ok(file) => file,
        Err(why) => return Ok(Some(why)),
    };
    if file.seen.content() != step.disk {
        return Ok(Some("it changed while this was asked".to_owned()));
    }
    let change = match content {
        Some(content) => file.comes_back(content, step.mode),
        None => file.goes(),
    };
    let n = append(session, workspace, plan, change.draft())?;
    undo.get_or_insert(n.saturating_sub(1));
    match change.make() {
        Ok(()) => Ok(None),
        Err((error, correction)) => {
            append(session, workspace, plan, correction)?;
            Ok(Some(words(&error)))
        }
    }
}

/// Looks at a file whose path is from a record.
fn seen(workspace: &Arc<Workspace>, path: &str) -> Result<File, String> {
    let file = File::look(Arc::clone(workspace), path).map_err(|error| words(&error))?;
    if file.path == path { Ok(file) } else { Err(LEADS_ELSEWHERE.to_owned()) }
}

/// What went wrong, without the advice that is meant for a model.
fn words(error: &PathError) -> String {
    let text = error.to_string();
    text.split(';').next().unwrap_or_default().to_owned()
}
