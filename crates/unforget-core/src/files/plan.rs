//! From what is on a disk to what was there at some record: per file, what has to be done and whether it may be.
//!
//! A file whose content is not what the last change left was changed by something else: a person, or a command that a
//! tool ran. Nothing is done to it unless someone insists. What cannot be given back, or could not be taken back
//! afterwards, is not touched at all.

use super::{Changes, Content};

/// What was found on a disk where a file should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This.
    Content(Content),
    /// Something that must not be touched, and why.
    Blocked(String),
}

/// What has to be done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It comes back.
    Create,
    /// It gets another content.
    Change,
    /// It goes.
    Delete,
    /// Nothing: it is as it was.
    Nothing,
}

/// Whether it may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Clear,
    /// The file was changed by something else since.
    Conflict,
    /// It cannot be done, and why.
    Blocked(String),
}

/// What has to be done to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The file, relative to the workspace.
    pub path: String,
    /// What is on the disk.
    pub disk: Content,
    /// What should be there.
    pub target: Content,
    /// The permission bits that it should have if it comes back.
    pub mode: Option<u32>,
    /// What has to be done.
    pub action: Action,
    /// Whether it may be done.
    pub standing: Standing,
    /// Whether no record tells yet that this is on the disk.
    pub is_news: bool,
}

/// What has to be done to the files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The workspace that the records name.
    pub root: String,
    /// The record whose state is wanted.
    pub at: u64,
    /// One step for each file that was ever changed, by path.
    pub steps: Vec<Step>,
    /// Folders that were made since for files in them, the inner ones first; each goes if it is empty in the end.
    pub folders: Vec<String>,
}

impl Plan {
    /// The steps that do something, or should and cannot.
    pub fn work(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.action != Action::Nothing || step.standing != Standing::Clear)
    }

    /// How many files something else has changed.
    pub fn conflicts(&self) -> usize {
        self.steps.iter().filter(|step| step.standing == Standing::Conflict).count()
    }
}

/// What has to be done to one file.
pub(super) fn step(path: &str, changes: &Changes, at: u64, found: Found) -> Step {
    let target = changes.at(at);
    let mode = changes.mode_at(at);
    let path = path.to_owned();
    let disk = match found {
        Found::Content(disk) => disk,
        Found::Blocked(why) => {
            let standing = Standing::Blocked(why);
            let (disk, action, is_news) = (Content::Unknown, Action::Nothing, false);
            return Step { path, disk, target, mode, action, standing, is_news };
        }
    };
    let action = match (&disk, &target) {
        (disk, target) if disk == target => Action::Nothing,
        (_, Content::Absent) => Action::Delete,
        (Content::Absent, _) => Action::Create,
        _ => Action::Change,
    };
    let standing = match (action, &disk, &target) {
        (Action::Nothing, _, _) => Standing::Clear,
        (_, _, Content::NotKept { bytes }) => {
            Standing::Blocked(format!("its content of {bytes} bytes was not kept and cannot be brought back"))
        }
        (_, _, Content::Unknown) => Standing::Blocked("no record tells what was in it".to_owned()),
        (_, Content::NotKept { bytes }, _) => {
            Standing::Blocked(format!("what is there now ({bytes} bytes) could not be saved first"))
        }
        (_, Content::Unknown, _) => Standing::Blocked("it was not looked at".to_owned()),
        _ if changes.explains(&disk) => Standing::Clear,
        _ => Standing::Conflict,
    };
    let is_news = changes.last().is_some_and(|last| last.after != disk);
    Step { path, disk, target, mode, action, standing, is_news }
}

/// The folders above a file, from the inside out.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |folder| parent(folder))
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder).filter(|folder| !folder.is_empty())
}
