//! What is granted so that everything but the hidden is: whole folders, or the siblings of what leads to something hidden.
//!
//! A grant of a folder is one of everything below it, so a folder above something hidden is not granted; what is in it is, one
//! by one. Links are not followed: what they lead to is granted by its own path, or hidden by it. A folder that something
//! hidden lies in can be looked through, but new files in it are neither read nor written by a command that runs.

use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

/// How many rules there may be; a home has hundreds.
const MAX_RULES: usize = 20_000;

/// Why a sandbox cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel does not want to.
    #[error("the kernel refuses the sandbox: {0}")]
    Kernel(String),
    /// A folder cannot be looked through.
    #[error("`{path}` cannot be looked through for the sandbox: {source}")]
    Folder {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is too much beside something hidden.
    #[error(
        "`{path}` has too many files for the sandbox, which grants each of them alone because a hidden one is below it"
    )]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
}

/// What may be done with something and all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant {
    /// Folders are listed.
    Names,
    /// It is read and run.
    Read,
    /// It is read, run and changed.
    Write,
}

/// A rule for the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rule {
    pub(super) path: PathBuf,
    pub(super) grant: Grant,
    pub(super) is_folder: bool,
}

/// The rules of a policy.
pub(super) fn of(policy: &super::Policy) -> Result<Vec<Rule>, SandboxError> {
    // What is not there cannot be read, and what the path leads to is what counts.
    let hidden: Vec<PathBuf> = policy.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let root = Path::new("/");
    let mut rules = vec![Rule { path: root.to_path_buf(), grant: Grant::Names, is_folder: true }];
    spread(root, &hidden, Grant::Read, &mut rules)?;
    for path in &policy.writable {
        let Ok(path) = path.canonicalize() else { continue };
        // A workspace may lie in the hidden store; what counts is what is hidden inside it.
        let inside: Vec<PathBuf> = hidden.iter().filter(|hidden| hidden.starts_with(&path)).cloned().collect();
        spread(&path, &inside, Grant::Write, &mut rules)?;
    }
    Ok(rules)
}

/// Grants everything below a path but what is hidden.
fn spread(top: &Path, hidden: &[PathBuf], grant: Grant, rules: &mut Vec<Rule>) -> Result<(), SandboxError> {
    let Ok(kind) = top.symlink_metadata().map(|data| data.file_type()) else { return Ok(()) };
    let mut left: Vec<(PathBuf, FileType)> = vec![(top.to_path_buf(), kind)];
    while let Some((path, kind)) = left.pop() {
        if kind.is_symlink() || hidden.contains(&path) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            rules.push(Rule { path, grant, is_folder: kind.is_dir() });
            continue;
        }
        let wrong = |source| SandboxError::Folder { path: path.clone(), source };
        for entry in path.read_dir().map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            // Gone meanwhile.
            let Ok(kind) = entry.file_type() else { continue };
            left.push((entry.path(), kind));
            if rules.len() + left.len() > MAX_RULES {
                return Err(SandboxError::TooMany { path });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests set scenes with plain files")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::Policy;
    use super::*;

    fn scene() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home/.ssh", "home/.config/gh", "home/.config/editor", "home/project", "home/.store/work/one"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("home/.netrc"), "SECRET").unwrap();
        std::fs::write(root.join("home/notes"), "text").unwrap();
        symlink(".ssh", root.join("home/link")).unwrap();
        (folder, root)
    }

    #[test]
    fn everything_beside_the_hidden_is_granted_and_nothing_that_leads_to_it() {
        let (_folder, root) = scene();
        let home = root.join("home");
        let hidden = [".ssh", ".config/gh", ".netrc", ".missing", "link"].map(|name| home.join(name));
        let policy = Policy { writable: vec![home.join("project")], hidden: hidden.to_vec() };
        let rules = of(&policy).unwrap();
        let granted = |path: &Path, grant| {
            let covers =
                |rule: &Rule| rule.grant >= grant && rule.grant != Grant::Names && path.starts_with(&rule.path);
            rules.iter().any(covers)
        };
        for name in [".ssh", ".ssh/id", ".config/gh/hosts.yml", ".netrc", "link"] {
            assert!(!granted(&home.join(name), Grant::Read), "{name}");
        }
        for name in ["notes", ".config/editor/x", "project/x"] {
            assert!(granted(&home.join(name), Grant::Read), "{name}");
        }
        assert!(granted(Path::new("/usr/bin/env"), Grant::Read));
        assert!(granted(&home.join("project/x"), Grant::Write) && !granted(&home.join("notes"), Grant::Write));
        assert_eq!(rules.iter().filter(|rule| rule.grant == Grant::Names).count(), 1);
    }

    #[test]
    fn a_workspace_in_a_hidden_folder_is_granted_and_a_secret_in_the_workspace_is_not() {
        let (_folder, root) = scene();
        let store = root.join("home/.store");
        let policy = Policy { writable: vec![store.join("work/one")], hidden: vec![store.clone()] };
        let rules = of(&policy).unwrap();
        let below: Vec<&Rule> = rules.iter().filter(|rule| rule.path.starts_with(&store)).collect();
        assert_eq!(below, [&Rule { path: store.join("work/one"), grant: Grant::Write, is_folder: true }]);

        let home = root.join("home");
        let rules = of(&Policy { writable: vec![home.clone()], hidden: vec![home.join(".ssh")] }).unwrap();
        let writes = |path: &Path| rules.iter().any(|rule| rule.grant == Grant::Write && path.starts_with(&rule.path));
        assert!(writes(&home.join("project/x")) && writes(&home.join("notes")));
        assert!(!writes(&home.join(".ssh/authorized_keys")) && !writes(&home.join(".bashrc")));
    }

    #[test]
    fn too_many_neighbours_are_an_error_and_not_a_hole() {
        let (_folder, root) = scene();
        let mut rules = vec![Rule { path: root.clone(), grant: Grant::Read, is_folder: true }; MAX_RULES];
        let error = spread(&root.join("home"), &[root.join("home/.ssh")], Grant::Read, &mut rules).unwrap_err();
        assert!(matches!(error, SandboxError::TooMany { .. }), "{error}");
    }
}
