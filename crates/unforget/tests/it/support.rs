//! A home of its own for each test, and the binary in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a command said and how it ended, with the ids and paths of this run replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A home of its own.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
}

/// An index that is thrown away by mistake changes no answer, so no other test would notice.
impl Drop for Home {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(!self.has_set_an_index_aside(), "a good index was thrown away");
        }
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unforget"));
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("TZ", "UTC")
            .env("UNFORGET_HOME", self.path("home"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.feed(args, "")
    }

    pub(crate) fn feed(&self, args: &[&str], input: &str) -> Said {
        let file = self.write("stdin", input);
        let output = self.command().args(args).stdin(std::fs::File::open(file).unwrap()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must succeed, and returns its stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "unforget {args:?}: {said:?}");
        said.out
    }

    /// A new session with a conversation in it; returns its id.
    pub(crate) fn conversation(&self, key: &str, texts: &[&str]) -> String {
        let id = self.ok(&["new", "--key", key]).trim().to_owned();
        let lines: String =
            texts.iter().map(|text| format!("{{\"type\":\"user\",\"content\":\"{text}\"}}\n")).collect();
        assert_eq!(self.feed(&["append", &id], &lines).code, 0);
        id
    }

    /// Whether an index was found to be of no use and set aside.
    pub(crate) fn has_set_an_index_aside(&self) -> bool {
        let names = std::fs::read_dir(self.path("home")).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with("index.sqlite.bad"))
    }

    /// The transcript of a session of agent `main`.
    pub(crate) fn transcript(&self, id: &str) -> PathBuf {
        self.path(&format!("home/agents/main/sessions/{id}.jsonl"))
    }
}

/// All files below a folder, relative and sorted.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}
