//! What belongs to a session besides its transcript, under names that mean the same on every machine.
//!
//! ```text
//! projects/<key>/<id>/**        session/…        what agents said, large outputs of tools, the title
//! file-history/<id>/**          file-history/…   files as they were, for going back
//! tasks/<id>/**                 tasks/…          lists of things to do
//! todos/<id>…                   todos/…          the same in older versions; the id is left out of the name
//! projects/<key>/memory/**      memory/…         what is remembered of a project; it belongs to no single session
//! ```
//!
//! Of those, the `.jsonl` files below the session's directory are [`Part::Transcript`]: lines are added to them, and they are copied line
//! by line. Outputs of tools are none, whatever their names end in: they are somebody else's bytes. All other parts are files, copied whole.
//!
//! The way back, from a name to a path, is for names that come from a remote, which anybody may have written: a name leads to a file of
//! this session and no other, or it is refused. Nothing is skipped in silence: a link, a name that could not come back, and what is
//! beyond the bounds are told.

use std::path::{Path, PathBuf};

use unforget_core::medium::{FileKind, Medium, Stat};

use crate::error::{Error, IoContext as _, Result, if_there};
use crate::id::SessionId;
use crate::place::{ConfigDir, PROJECTS, TRANSCRIPT};
use crate::project::ProjectKey;

/// How many directories deep a part may lie.
pub const MAX_DEPTH: usize = 16;
/// How many parts of a session are listed.
pub const MAX_PARTS: usize = 50_000;
/// The longest name of a part, in bytes.
pub const MAX_NAME: usize = 1024;

const SESSION: &str = "session";
const FILE_HISTORY: &str = "file-history";
const TASKS: &str = "tasks";
const TODOS: &str = "todos";
const MEMORY: &str = "memory";
/// Where outputs of tools are, below the session's directory.
const TOOL_RESULTS: &str = "tool-results";

/// Something that belongs to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A transcript of its own, that lines are added to.
    Transcript {
        /// Its name: where it lies below the session's directory, without `.jsonl`, such as `subagents/agent-1`.
        side: String,
        /// Where it is.
        path: PathBuf,
        /// What the system tells of it.
        stat: Stat,
    },
    /// A file that is replaced as a whole.
    File {
        /// Its name on every machine, such as `session/tool-results/1.txt`.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// What the system tells of it.
        stat: Stat,
    },
}

/// Why something that is there is not among the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omission {
    /// It is a link or the like, which is not followed.
    NotFollowed,
    /// No name that is safe on another machine leads to it.
    NotPortable,
    /// It lies more than [`MAX_DEPTH`] directories deep.
    TooDeep,
    /// It comes after [`MAX_PARTS`] others, and more may come after it.
    TooMany,
}

/// The parts of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// What there is, in the order of the paths.
    pub parts: Vec<Part>,
    /// What was left out, and why.
    pub omitted: Vec<(PathBuf, Omission)>,
}

/// Lists everything that belongs to a session besides its transcript.
pub fn footprint(config: &ConfigDir, project: &ProjectKey, id: &SessionId) -> Result<Footprint> {
    let mut walk = Walk { medium: config.medium(), found: Footprint::default() };
    walk.directory(&session_dir(project, id), SESSION)?;
    walk.directory(&Path::new(FILE_HISTORY).join(id.as_str()), FILE_HISTORY)?;
    walk.directory(&Path::new(TASKS).join(id.as_str()), TASKS)?;
    walk.todos(id)?;
    Ok(walk.found)
}

/// Lists what is remembered of a project.
pub fn memory(config: &ConfigDir, project: &ProjectKey) -> Result<Footprint> {
    let mut walk = Walk { medium: config.medium(), found: Footprint::default() };
    walk.directory(&Path::new(PROJECTS).join(project.as_str()).join(MEMORY), MEMORY)?;
    Ok(walk.found)
}

/// Where a transcript of a session's own is, by its name.
pub fn side_path(side: &str, project: &ProjectKey, id: &SessionId) -> Result<PathBuf> {
    checked(side)?;
    if side.split('/').next() == Some(TOOL_RESULTS) {
        return Err(refused(side, "outputs of tools are no transcripts"));
    }
    Ok(session_dir(project, id).join(format!("{side}{TRANSCRIPT}")))
}

/// Where a file of a session is, by its name.
pub fn file_path(name: &str, project: &ProjectKey, id: &SessionId) -> Result<PathBuf> {
    checked(name)?;
    let (root, rest) = name.split_once('/').ok_or_else(|| refused(name, "it names a root and no file"))?;
    match root {
        SESSION if is_transcript(rest) => Err(refused(name, "it would take the place of a transcript")),
        SESSION => Ok(session_dir(project, id).join(rest)),
        FILE_HISTORY | TASKS => Ok(Path::new(root).join(id.as_str()).join(rest)),
        TODOS if rest.contains('/') => Err(refused(name, "there are no directories in it")),
        TODOS => Ok(Path::new(TODOS).join(format!("{id}{rest}"))),
        MEMORY => Ok(Path::new(PROJECTS).join(project.as_str()).join(MEMORY).join(rest)),
        _ => Err(refused(name, "it begins with no root that is known")),
    }
}

fn session_dir(project: &ProjectKey, id: &SessionId) -> PathBuf {
    Path::new(PROJECTS).join(project.as_str()).join(id.as_str())
}

/// Whether a file below the session's directory is one that lines are added to.
fn is_transcript(below: &str) -> bool {
    let stem = below.strip_suffix(TRANSCRIPT).unwrap_or_default();
    !stem.is_empty() && !stem.ends_with('/') && below.split('/').next() != Some(TOOL_RESULTS)
}

fn refused(name: &str, reason: &'static str) -> Error {
    Error::Unsafe { name: name.to_owned(), reason }
}

/// Lets a name through that cannot lead anywhere but down.
fn checked(name: &str) -> Result<()> {
    let is_bad = |component: &str| matches!(component, "" | "." | "..");
    if name.len() > MAX_NAME {
        return Err(refused(name, "it is too long"));
    }
    if name.contains(|character: char| character.is_control() || character == '\\') {
        return Err(refused(name, "it has a control character or a backslash"));
    }
    if name.split('/').any(is_bad) {
        return Err(refused(name, "it has an empty part, or one that leads elsewhere"));
    }
    if name.split('/').count() > MAX_DEPTH {
        return Err(refused(name, "it is too deep"));
    }
    Ok(())
}

struct Walk<'m> {
    medium: &'m dyn Medium,
    found: Footprint,
}

impl Walk<'_> {
    /// Lists a directory and all below it, whose names begin with `root`.
    fn directory(&mut self, top: &Path, root: &str) -> Result<()> {
        let is_link = if_there(self.medium.stat(top)).context("look at", top)?;
        match is_link.map(|stat| stat.kind) {
            None | Some(FileKind::File) => return Ok(()),
            Some(FileKind::Other) => {
                self.found.omitted.push((top.to_path_buf(), Omission::NotFollowed));
                return Ok(());
            }
            Some(FileKind::Directory) => {}
        }
        let mut folders = vec![(top.to_path_buf(), root.to_owned())];
        while let Some((folder, prefix)) = folders.pop() {
            // What Claude Code removes meanwhile is gone.
            let entries = if_there(self.medium.list_stats(&folder)).context("list", &folder)?;
            let mut entries = entries.unwrap_or_default();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let mut deeper = Vec::new();
            for (name, stat) in entries {
                let (path, name) = (folder.join(&name), format!("{prefix}/{name}"));
                if stat.kind != FileKind::Directory {
                    if !self.take(path, name, stat) {
                        return Ok(());
                    }
                } else if name.split('/').count() >= MAX_DEPTH {
                    self.found.omitted.push((path, Omission::TooDeep));
                } else {
                    deeper.push((path, name));
                }
            }
            folders.extend(deeper.into_iter().rev());
        }
        Ok(())
    }

    /// Older versions have one file per agent, in one directory for all sessions.
    fn todos(&mut self, id: &SessionId) -> Result<()> {
        let within = Path::new(TODOS);
        let entries = if_there(self.medium.list(within)).context("list", within)?.unwrap_or_default();
        let mut names: Vec<String> = entries.into_iter().map(|(name, _)| name).collect();
        names.retain(|name| name.starts_with(id.as_str()) && name != id.as_str());
        names.sort();
        for name in names {
            let path = within.join(&name);
            let Some(stat) = if_there(self.medium.stat(&path)).context("look at", &path)? else { continue };
            let rest = &name[id.as_str().len()..];
            if stat.kind != FileKind::Directory && !self.take(path, format!("{TODOS}/{rest}"), stat) {
                break;
            }
        }
        Ok(())
    }

    /// Takes what is no directory; `false` if there is no room for more.
    fn take(&mut self, path: PathBuf, name: String, stat: Stat) -> bool {
        if stat.kind != FileKind::File {
            self.found.omitted.push((path, Omission::NotFollowed));
        } else if self.found.parts.len() == MAX_PARTS {
            self.found.omitted.push((path, Omission::TooMany));
            return false;
        } else if checked(&name).is_err() {
            self.found.omitted.push((path, Omission::NotPortable));
        } else {
            let below = name.strip_prefix(SESSION).and_then(|rest| rest.strip_prefix('/'));
            let side = below.filter(|below| is_transcript(below)).and_then(|below| below.strip_suffix(TRANSCRIPT));
            self.found.parts.push(match side.map(str::to_owned) {
                Some(side) => Part::Transcript { side, path, stat },
                None => Part::File { name, path, stat },
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use unforget_core::medium::{Os, create_durable, parent};

    use super::*;

    const ID: &str = "11111111-1111-4111-8111-111111111111";

    fn id() -> SessionId {
        SessionId::parse(ID).unwrap()
    }

    fn app() -> ProjectKey {
        ProjectKey::of("/home/ada/app")
    }

    fn place(files: &[String]) -> (tempfile::TempDir, ConfigDir) {
        let root = tempfile::tempdir().unwrap();
        let medium = Os::new(root.path());
        for path in files.iter().map(Path::new) {
            medium.create_dir(parent(path)).unwrap();
            create_durable(&medium, path, b"x").unwrap();
        }
        (root, ConfigDir::new(Arc::new(medium)))
    }

    fn told(footprint: &Footprint) -> Vec<(String, String)> {
        let told = |part: &Part| match part {
            Part::Transcript { side, path, .. } => (format!("side {side}"), path.display().to_string()),
            Part::File { name, path, .. } => (name.clone(), path.display().to_string()),
        };
        footprint.parts.iter().map(told).collect()
    }

    #[test]
    fn everything_of_a_session_is_found_and_its_name_leads_back() {
        let session = format!("projects/-home-ada-app/{ID}");
        let expected = [
            ("session/custom-title.json", format!("{session}/custom-title.json")),
            ("side subagents/agent-1", format!("{session}/subagents/agent-1.jsonl")),
            ("session/subagents/agent-1.meta.json", format!("{session}/subagents/agent-1.meta.json")),
            ("side subagents/workflows/run/agent-2", format!("{session}/subagents/workflows/run/agent-2.jsonl")),
            ("session/tool-results/a.txt", format!("{session}/tool-results/a.txt")),
            ("session/tool-results/b.jsonl", format!("{session}/tool-results/b.jsonl")),
            ("file-history/abc@v1", format!("file-history/{ID}/abc@v1")),
            ("tasks/1.json", format!("tasks/{ID}/1.json")),
            ("todos/-agent-1.json", format!("todos/{ID}-agent-1.json")),
        ];
        let mut files: Vec<String> = expected.iter().map(|(_, path)| path.clone()).collect();
        files.push(format!("projects/-home-ada-app/{ID}.jsonl"));
        files.push("projects/-home-ada-app/memory/MEMORY.md".to_owned());
        files.push("file-history/22222222-2222-4222-8222-222222222222/abc@v1".to_owned());
        files.push("todos/22222222-2222-4222-8222-222222222222-agent-1.json".to_owned());
        let (_root, config) = place(&files);
        let found = footprint(&config, &app(), &id()).unwrap();
        assert_eq!(told(&found), expected.map(|(name, path)| (name.to_owned(), path)));
        assert_eq!(found.omitted, []);
        for part in &found.parts {
            let (back, path) = match part {
                Part::Transcript { side, path, .. } => (side_path(side, &app(), &id()), path),
                Part::File { name, path, .. } => (file_path(name, &app(), &id()), path),
            };
            assert_eq!(back.unwrap(), *path);
        }
        let memory = memory(&config, &app()).unwrap();
        assert_eq!(
            told(&memory),
            [("memory/MEMORY.md".to_owned(), "projects/-home-ada-app/memory/MEMORY.md".to_owned())]
        );
    }

    #[test]
    fn links_and_names_that_cannot_come_back_are_told() {
        let session = format!("projects/-home-ada-app/{ID}");
        let deep = format!("{session}/{}/x.txt", ["d"; MAX_DEPTH].join("/"));
        let (root, config) = place(&[format!("{session}/a\\b.txt"), format!("{session}/a\nb.txt"), deep]);
        std::os::unix::fs::symlink("/etc/passwd", root.path().join(&session).join("link.txt")).unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join(&session).join("folder")).unwrap();
        let found = footprint(&config, &app(), &id()).unwrap();
        assert_eq!(found.parts, []);
        let too_deep = format!("{session}/{}", ["d"; MAX_DEPTH - 1].join("/"));
        let expected = [
            (format!("{session}/a\nb.txt"), Omission::NotPortable),
            (format!("{session}/a\\b.txt"), Omission::NotPortable),
            (format!("{session}/folder"), Omission::NotFollowed),
            (format!("{session}/link.txt"), Omission::NotFollowed),
            (too_deep, Omission::TooDeep),
        ];
        assert_eq!(found.omitted, expected.map(|(path, why)| (PathBuf::from(path), why)));
    }

    #[test]
    fn a_directory_of_the_session_that_is_a_link_is_told() {
        let (root, config) = place(&["projects/-home-ada-app/x".to_owned()]);
        std::os::unix::fs::symlink("/etc", root.path().join("projects/-home-ada-app").join(ID)).unwrap();
        let found = footprint(&config, &app(), &id()).unwrap();
        assert_eq!(found.omitted, [(session_dir(&app(), &id()), Omission::NotFollowed)]);
    }

    #[test]
    fn unsafe_names_are_refused() {
        for name in [
            "",
            "session",
            "session/",
            "/etc/passwd",
            "session/../../x",
            "session/./x",
            "session//x",
            "session/a\\b",
            "session/a\nb",
            "session/a\u{85}b",
            "settings.json",
            "projects/x",
            "sessions/1.json",
            "todos/a/b",
            "session/subagents/agent-1.jsonl",
            "SESSION/x",
        ] {
            assert!(matches!(file_path(name, &app(), &id()), Err(Error::Unsafe { .. })), "{name:?}");
        }
        for side in ["", "..", "../x", "/x", "a//b", "a\\b", "a\0b", "tool-results/x"] {
            assert!(matches!(side_path(side, &app(), &id()), Err(Error::Unsafe { .. })), "{side:?}");
        }
        let long = format!("session/{}", "x".repeat(MAX_NAME));
        assert!(file_path(&long, &app(), &id()).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_name_the_path_is_one_of_this_session(name in "(session|memory|tasks|todos|file-history|x)?[a-z./\\\\\\n-]{0,24}") {
            let homes = ["projects/-home-ada-app/11111111-1111-4111-8111-111111111111/", "projects/-home-ada-app/memory/",
                "tasks/11111111-1111-4111-8111-111111111111/", "todos/11111111-1111-4111-8111-111111111111",
                "file-history/11111111-1111-4111-8111-111111111111/"];
            for path in [file_path(&name, &app(), &id()), side_path(&name, &app(), &id())].into_iter().flatten() {
                let text = path.to_str().unwrap();
                prop_assert!(homes.iter().any(|home| text.starts_with(home)), "{text}");
                prop_assert!(text.split('/').all(|component| !matches!(component, "" | "." | "..")), "{text}");
            }
        }
    }
}
