//! `list_directory`: the names in a folder.
//!
//! Every name is one line, whatever characters it has: a name with a line feed in it must not look like two files. The
//! store of the conversations is not shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::place::{PathError, identity, kind};
use super::workspace::Workspace;
use super::{Output, Tool, look};

/// How many names are shown.
const MAX_SHOWN: usize = 2000;
/// How many names are read; a folder with more is sorted only as far as it was read.
const MAX_READ: usize = 200_000;

/// Lists a folder.
#[derive(Debug)]
pub(super) struct ListDirectory {
    pub(super) workspace: Arc<Workspace>,
}

impl Tool for ListDirectory {
    fn name(&self) -> &'static str {
        "list_directory"
    }

    fn description(&self) -> &'static str {
        "Lists a folder of the workspace: folders, files with their sizes and links, sorted by name."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string","description":"The folder, relative to the workspace; the workspace itself if absent."}},"additionalProperties":false}"#
    }

    fn asks_first(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            let path = match Arguments::new(input, &["path", "directory"])
                .and_then(|arguments| arguments.optional_path("path", "directory"))
            {
                Ok(path) => path.unwrap_or(".").to_owned(),
                Err(output) => return output,
            };
            let workspace = Arc::clone(&self.workspace);
            look(abort, move || match list(&workspace, &path) {
                Ok(text) => Output::ok(text),
                Err(error) => Output::failed(format!("cannot list `{path}`: {error}")),
            })
            .await
        })
    }
}

fn list(workspace: &Workspace, path: &str) -> Result<String, PathError> {
    let folder = workspace.folder(&workspace.relative(path)?)?;
    let opened = rustix::fs::openat(&folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut names, mut unread) = (Vec::new(), false);
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if names.len() == MAX_READ {
            unread = true;
            break;
        }
        names.push(name.to_owned());
    }
    names.sort_unstable();
    let (store, secrets) = (workspace.store()?, workspace.secrets());
    let here = identity(&rustix::fs::fstat(&opened)?);
    let (mut text, mut shown, mut left) = (String::new(), 0, 0);
    for name in names {
        if shown == MAX_SHOWN {
            left += 1;
            continue;
        }
        let stat = match rustix::fs::statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Removed meanwhile.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let is_secret =
            secrets.contains(identity(&stat)) || secrets.has_place(here, OsStr::from_bytes(name.to_bytes()));
        if store.contains(&identity(&stat)) || is_secret {
            continue;
        }
        let printed = printable(&name.to_string_lossy());
        let line = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => format!("[dir]  {printed}/"),
            FileType::RegularFile => format!("[file] {printed}  ({} bytes)", stat.st_size),
            FileType::Symlink => match rustix::fs::readlinkat(&opened, &name, Vec::new()) {
                Ok(target) => format!("[link] {printed} -> {}", printable(&target.to_string_lossy())),
                Err(_) => format!("[link] {printed}"),
            },
            other => format!("[other] {printed}  ({})", kind(other)),
        };
        text.push_str(&line);
        text.push('\n');
        shown += 1;
    }
    if shown == 0 {
        return Ok("(empty directory)".to_owned());
    }
    if left > 0 {
        let more = if unread { "at least " } else { "" };
        text.push_str(&format!("[{more}{left} more names are not shown; a command of the bash tool can list them]\n"));
    }
    text.truncate(text.trim_end_matches('\n').len());
    Ok(text)
}

/// The name on one line.
fn printable(name: &str) -> String {
    let mut printed = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            printed.extend(character.escape_default());
        } else {
            printed.push(character);
        }
    }
    printed
}
