//! A store and a directory of Claude Code, in a folder of their own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, Saved, agent, kept_id};
use unforget_claude::place::{ConfigDir, Found};
use unforget_claude::project::ProjectKey;
use unforget_claude::restore::{Extent, Restored, Wish};
use unforget_claude::{Result, live::Writer};
use unforget_core::directory::Directory;
use unforget_core::log::Durability;
use unforget_core::medium::Os;
use unforget_core::stamp::System;

pub(crate) const ID: &str = "6f1c2a9e-3d53-4f86-9a74-0e3b9f1f2c11";

/// A machine: its store, Claude Code's directory, and the folder that it works in.
pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) keeper: Keeper,
    pub(crate) project: ProjectKey,
}

pub(crate) fn id() -> SessionId {
    SessionId::parse(ID).unwrap()
}

pub(crate) fn nobody(_: &Writer) -> bool {
    false
}

/// A line of the tree.
pub(crate) fn line(uuid: &str, parent: Option<&str>, words: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        "{{\"parentUuid\":{parent},\"type\":\"user\",\"uuid\":\"{uuid}\",\"sessionId\":\"{ID}\",\"cwd\":\"/home/ada/app\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}}}}\n"
    )
}

impl Scene {
    pub(crate) fn new(works_in: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (home, config) = (folder.path().join("home"), folder.path().join("config"));
        fs::create_dir(&config).unwrap();
        let store = Directory::new(Arc::new(Os::new(&home)), Arc::new(System), Durability::ProcessDeath);
        let keeper = Keeper::new(&store, ConfigDir::new(Arc::new(Os::new(&config))));
        Self { folder, keeper, project: ProjectKey::of(works_in) }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    pub(crate) fn transcript(&self) -> PathBuf {
        self.config().join(format!("projects/{}/{ID}.jsonl", self.project))
    }

    /// Writes a file of Claude Code.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.config().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Adds to the transcript, as Claude Code does.
    pub(crate) fn say(&self, text: &str) {
        fs::create_dir_all(self.transcript().parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.transcript()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn found(&self) -> Found {
        self.keeper.config().find(&id()).unwrap().sessions.remove(0)
    }

    pub(crate) fn save(&self) -> Result<Saved> {
        self.keeper.save(&self.found())
    }

    pub(crate) fn restore(&self, extent: Extent) -> Result<Restored> {
        let wish = Wish { project: &self.project, rewrite: None, extent };
        self.keeper.restore(&id(), &wish, &nobody)
    }

    /// What the store has.
    pub(crate) fn kept(&self) -> String {
        let path = self.folder.path().join("home").join(agent().transcript(&kept_id(&id()).unwrap()));
        fs::read_to_string(path).unwrap()
    }

    /// What Claude Code has.
    pub(crate) fn there(&self) -> String {
        fs::read_to_string(self.transcript()).unwrap()
    }

    /// Gives another machine everything that this one keeps, as a remote would.
    pub(crate) fn carry_to(&self, other: &Scene) {
        copy_all(&self.folder.path().join("home"), &other.folder.path().join("home"));
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_name() == "copies" || entry.file_name() == "home.name" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
