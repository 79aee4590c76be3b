//! A directory of Claude Code as it is on disk: which sessions there are, and where.
//!
//! A session is a file `projects/<key>/<uuid>.jsonl`. The same id may be under several keys, because a session that was resumed from
//! another directory, or restored there, has a file in each; all of them are told. What `--continue` would take is the file with the
//! newest modification time, which is why times are told with them.
//!
//! Only names are looked at: nothing here opens a file. A link in the place of a project or a session is not followed; it is told,
//! because whoever put it there will miss what is behind it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_core::medium::{FileKind, Medium, Stat};

use crate::error::{Error, IoContext as _, Result, if_there};
use crate::id::SessionId;
use crate::project::ProjectKey;

/// The directory that holds one directory per project.
pub const PROJECTS: &str = "projects";
/// How transcripts' names end.
pub const TRANSCRIPT: &str = ".jsonl";

/// How many projects are looked at.
const MAX_PROJECTS: usize = 100_000;
/// How many sessions are listed.
const MAX_SESSIONS: usize = 1_000_000;

/// A directory of Claude Code.
#[derive(Debug, Clone)]
pub struct ConfigDir {
    medium: Arc<dyn Medium>,
}

/// A session's transcript, found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The session.
    pub id: SessionId,
    /// Which project it is in.
    pub project: ProjectKey,
    /// The transcript, beneath the directory.
    pub path: PathBuf,
    /// What the system tells of the file.
    pub stat: Stat,
}

/// The sessions of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    /// The newest first.
    pub sessions: Vec<Found>,
    /// Links and the like that are in the place of a project or a session, and were not followed; and projects that may not be looked into.
    pub not_followed: Vec<PathBuf>,
}

impl ConfigDir {
    /// The directory that is the root of a medium.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self { medium }
    }

    /// What the directory is reached through.
    pub fn medium(&self) -> &dyn Medium {
        self.medium.as_ref()
    }

    /// Every session of every project, the newest first.
    pub fn sessions(&self) -> Result<Sessions> {
        let mut listed = Sessions::default();
        for project in self.projects(&mut listed.not_followed)? {
            self.add(&project, &mut listed)?;
        }
        listed.sort();
        Ok(listed)
    }

    /// The sessions of one project, the newest first.
    pub fn sessions_of(&self, project: &ProjectKey) -> Result<Sessions> {
        let mut listed = Sessions::default();
        self.add(project, &mut listed)?;
        listed.sort();
        Ok(listed)
    }

    /// Every place where a session is, the newest first.
    pub fn find(&self, id: &SessionId) -> Result<Sessions> {
        let mut listed = Sessions::default();
        for project in self.projects(&mut listed.not_followed)? {
            let path = transcript(&project, id);
            let stat = match self.medium.stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    listed.not_followed.push(Path::new(PROJECTS).join(project.as_str()));
                    continue;
                }
                other => if_there(other).context("look at", &path)?,
            };
            let Some(stat) = stat else { continue };
            listed.take(id.clone(), &project, path, stat);
        }
        listed.sort();
        Ok(listed)
    }

    /// The session of a project that was written last, which `--continue` takes.
    pub fn newest(&self, project: &ProjectKey) -> Result<Option<Found>> {
        Ok(self.sessions_of(project)?.sessions.into_iter().next())
    }

    fn projects(&self, not_followed: &mut Vec<PathBuf>) -> Result<Vec<ProjectKey>> {
        let within = Path::new(PROJECTS);
        let entries = if_there(self.medium.list(within)).context("list", within)?.unwrap_or_default();
        let mut projects = Vec::new();
        for (name, kind) in entries {
            match kind {
                FileKind::Directory => projects.extend(ProjectKey::found(&name)),
                FileKind::Other => not_followed.push(within.join(name)),
                FileKind::File => {}
            }
        }
        if projects.len() > MAX_PROJECTS {
            return Err(Error::TooMany { what: "projects", path: within.to_path_buf(), limit: MAX_PROJECTS });
        }
        projects.sort();
        Ok(projects)
    }

    fn add(&self, project: &ProjectKey, listed: &mut Sessions) -> Result<()> {
        let within = Path::new(PROJECTS).join(project.as_str());
        // A project that Claude Code cleaned up since its name was read has no sessions.
        let entries = match self.medium.list_stats(&within) {
            // Someone else's project hides none of the others.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                listed.not_followed.push(within);
                return Ok(());
            }
            other => if_there(other).context("list", &within)?.unwrap_or_default(),
        };
        for (name, stat) in entries {
            let Some(id) = name.strip_suffix(TRANSCRIPT).and_then(SessionId::parse) else { continue };
            listed.take(id, project, within.join(name), stat);
        }
        if listed.sessions.len() > MAX_SESSIONS {
            return Err(Error::TooMany { what: "sessions", path: PROJECTS.into(), limit: MAX_SESSIONS });
        }
        Ok(())
    }
}

impl Sessions {
    fn take(&mut self, id: SessionId, project: &ProjectKey, path: PathBuf, stat: Stat) {
        match stat.kind {
            FileKind::File => self.sessions.push(Found { id, project: project.clone(), path, stat }),
            FileKind::Directory => {}
            FileKind::Other => self.not_followed.push(path),
        }
    }

    fn sort(&mut self) {
        self.sessions.sort_by(|a, b| b.stat.modified_ns.cmp(&a.stat.modified_ns).then_with(|| a.path.cmp(&b.path)));
        self.not_followed.sort();
    }
}

/// Where a session's transcript is.
pub fn transcript(project: &ProjectKey, id: &SessionId) -> PathBuf {
    Path::new(PROJECTS).join(project.as_str()).join(format!("{id}{TRANSCRIPT}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use unforget_core::medium::Os;

    use super::*;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";
    const TWO: &str = "22222222-2222-4222-8222-222222222222";

    struct Place {
        root: tempfile::TempDir,
        config: ConfigDir,
    }

    fn place() -> Place {
        let root = tempfile::tempdir().unwrap();
        let config = ConfigDir::new(Arc::new(Os::new(root.path())));
        Place { root, config }
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays Claude Code, which has no medium")]
    fn put(place: &Place, path: &str, age: u64) {
        let path = place.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - age);
        file.set_modified(time).unwrap();
    }

    fn names(sessions: &[Found]) -> Vec<String> {
        sessions.iter().map(|found| format!("{}/{}", found.project, &found.id.as_str()[..1])).collect()
    }

    #[test]
    fn sessions_are_told_newest_first_and_other_files_are_not_sessions() {
        let place = place();
        put(&place, &format!("projects/-app/{ONE}.jsonl"), 30);
        put(&place, &format!("projects/-app/{TWO}.jsonl"), 10);
        put(&place, &format!("projects/-other/{ONE}.jsonl"), 20);
        put(&place, &format!("projects/-app/{ONE}/subagents/agent-1.jsonl"), 0);
        put(&place, "projects/-app/agent-abc.jsonl", 0);
        put(&place, &format!("projects/-app/{ONE}.json"), 0);
        put(&place, "projects/stray.jsonl", 0);
        let listed = place.config.sessions().unwrap();
        assert_eq!(names(&listed.sessions), ["-app/2", "-other/1", "-app/1"]);
        assert_eq!(listed.not_followed, Vec::<PathBuf>::new());
        let id = SessionId::parse(ONE).unwrap();
        assert_eq!(names(&place.config.find(&id).unwrap().sessions), ["-other/1", "-app/1"]);
    }

    #[test]
    fn the_newest_is_the_one_whose_file_was_written_last() {
        let place = place();
        put(&place, &format!("projects/-app/{ONE}.jsonl"), 5);
        put(&place, &format!("projects/-app/{TWO}.jsonl"), 6);
        let app = ProjectKey::of("/app");
        assert_eq!(place.config.newest(&app).unwrap().unwrap().id.as_str(), ONE);
        assert_eq!(place.config.newest(&ProjectKey::of("/nowhere")).unwrap(), None);
    }

    #[test]
    fn links_are_told_and_not_followed() {
        let (elsewhere, place) = (place(), place());
        put(&elsewhere, &format!("projects/-app/{ONE}.jsonl"), 0);
        put(&place, &format!("projects/-own/{TWO}.jsonl"), 0);
        let target = elsewhere.root.path().join("projects/-app");
        symlink(&target, place.root.path().join("projects/-link")).unwrap();
        let file = target.join(format!("{ONE}.jsonl"));
        symlink(file, place.root.path().join(format!("projects/-own/{ONE}.jsonl"))).unwrap();
        let listed = place.config.sessions().unwrap();
        assert_eq!(names(&listed.sessions), ["-own/2"]);
        let links = [PathBuf::from("projects/-link"), PathBuf::from(format!("projects/-own/{ONE}.jsonl"))];
        assert_eq!(listed.not_followed, links);
        assert_eq!(place.config.find(&SessionId::parse(ONE).unwrap()).unwrap().sessions, []);
    }

    #[test]
    fn a_directory_that_does_not_exist_has_no_sessions() {
        let place = place();
        assert_eq!(place.config.sessions().unwrap(), Sessions::default());
    }
}
