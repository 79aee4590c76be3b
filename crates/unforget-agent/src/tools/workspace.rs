//! The folder that file tools work in, and nothing around it.
//!
//! Owns how a path from a model becomes a place on the disk: a descriptor of a folder and a name in it. The kernel
//! resolves every path beneath the root (`openat2`), so there is no moment between a check and a use in which a folder
//! could be swapped for a link. A comparison of path texts, in contrast, lets `../workspace-evil` through, and every
//! link.
//!
//! The store of the conversations is out of reach even where it lies inside the workspace: a tool that edits a
//! transcript would rewrite what the program takes for the truth. It is known by device and inode among the folders above
//! the one that was opened, never by name, so that links, renames and mounts make no difference. In doubt the answer is no.
//!
//! What `secrets` lists is out of reach as well: keys and credentials, which reading would send to a model, and settings,
//! which writing would let a model allow itself everything.
//!
//! It knows nothing of what is read or written there; that is `place` and the tools.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::place::{Identity, PathError, Place, identity, sync_folder};
use super::secrets::{Known, Secrets};

/// How many folders may lie one in another; the kernel's longest path has no more.
const MAX_DEPTH: usize = 2048;
/// How many links may lead from one to the next, as in the kernel.
const MAX_LINKS: usize = 40;
/// How often a path is resolved again when something was renamed meanwhile.
const MAX_ATTEMPTS: usize = 64;
/// The mode of new folders, before the process's mask.
const FOLDER_MODE: u32 = 0o777;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The folder that tools work in.
#[derive(Debug)]
pub struct Workspace {
    root: OwnedFd,
    identity: Identity,
    path: PathBuf,
    given: PathBuf,
    store: PathBuf,
    store_identity: Identity,
    secrets: Secrets,
}

impl Workspace {
    /// Opens the folder `root`, with everything in the folder `store` out of reach. Both must exist.
    pub fn open(root: &Path, store: &Path) -> io::Result<Self> {
        let (given, path, store) = (std::path::absolute(root)?, root.canonicalize()?, store.canonicalize()?);
        let opened = rustix::fs::open(&path, FOLDER, Mode::empty())?;
        let store_identity = identity(&rustix::fs::stat(&store)?);
        if climb(&opened, |here| here == store_identity)?.is_some() {
            let message = format!("the workspace `{}` lies in the store `{}`", path.display(), store.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let identity = identity(&rustix::fs::fstat(&opened)?);
        Ok(Self { identity, root: opened, path, given, store, store_identity, secrets: Secrets::default() })
    }

    /// The same with these out of reach. A workspace that lies in one of them is refused.
    pub fn hiding(mut self, secrets: Secrets) -> io::Result<Self> {
        let known = secrets.now();
        if climb(&self.root, |here| known.contains(here))?.is_some() {
            let message = format!("`{}` lies in a folder of credentials, which tools never see", self.path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.secrets = secrets;
        Ok(self)
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder of the workspace, for use as a starting point.
    pub(super) fn folder(&self, path: &Path) -> Result<OwnedFd, PathError> {
        let opened = beneath(&self.root, if path.as_os_str().is_empty() { Path::new(".") } else { path })?;
        self.admit(&opened)?;
        Ok(opened)
    }

    /// Where a file is or would be. Links are followed as long as they stay inside.
    pub(super) fn place(&self, path: &str) -> Result<Place, PathError> {
        Ok(self.find(path)?.0)
    }

    /// The same, and the path behind all links at its end.
    fn find(&self, path: &str) -> Result<(Place, PathBuf), PathError> {
        if path.ends_with('/') {
            return Err(PathError::Folder);
        }
        let mut path = self.relative(path)?;
        for _ in 0..MAX_LINKS {
            let (folder, name) = split(&path)?;
            let directory = self.folder(folder)?;
            match rustix::fs::readlinkat(&directory, name, Vec::new()) {
                Ok(target) => path = folder.join(OsString::from_vec(target.into_bytes())),
                // No link, or nothing there yet.
                Err(Errno::INVAL | Errno::NOENT) => {
                    self.admit_file(&directory, name)?;
                    return Ok((Place { directory, name: name.to_owned() }, path));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(PathError::Links)
    }

    /// Where a file is or would be, after making the folders that are missing on the way.
    pub(super) fn place_with_folders(&self, path: &str) -> Result<Place, PathError> {
        match self.place(path) {
            Err(PathError::Missing) => {
                self.create_folders(split(&self.relative(path)?)?.0)?;
                self.place(path)
            }
            other => other,
        }
    }

    /// What a file is called that several paths may lead to: its path from the root without links, as far as there are
    /// folders on it, and how many folders are missing behind that.
    ///
    /// It is a name for people and records. Whoever wants the file goes through `place`.
    pub(super) fn name(&self, path: &str) -> Result<(String, usize), PathError> {
        let path = match self.find(path) {
            Ok((_, path)) => path,
            Err(PathError::Missing) => self.relative(path)?,
            Err(error) => return Err(error),
        };
        let (folder, name) = split(&path)?;
        let (mut existing, mut missing) = (self.path.join(folder), vec![name.to_owned()]);
        while missing.len() < MAX_DEPTH {
            if let Ok(real) = existing.canonicalize() {
                let mut real = real.strip_prefix(&self.path).map_err(|_| PathError::Outside)?.to_path_buf();
                let folders = missing.len() - 1;
                real.extend(missing.iter().rev());
                // A name that is no text can only come from a link; records hold text.
                return Ok((real.to_str().ok_or(PathError::Links)?.to_owned(), folders));
            }
            missing.push(existing.file_name().ok_or(PathError::Missing)?.to_owned());
            existing.pop();
        }
        Err(PathError::Missing)
    }

    /// Removes a folder if it is empty; one that is not, or not there, stays as it is.
    pub(crate) fn remove_if_empty(&self, path: &str) -> Result<(), PathError> {
        let path = self.relative(path)?;
        let (folder, name) = split(&path)?;
        let directory = self.folder(folder)?;
        match rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR) {
            Ok(()) => sync_folder(&directory),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The path as seen from the root. An absolute one has to begin with the root; the rest is the kernel's to judge.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf, PathError> {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        // Whole components are compared: `/workspace-evil` does not begin with `/workspace`.
        let rest = path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given));
        rest.map(Path::to_path_buf).map_err(|_| PathError::Outside)
    }

    /// What the store's own folder is: as it was when the workspace was opened, and as it is now.
    ///
    /// Asked each time, because a store that was put back from a copy has another inode.
    pub(super) fn store(&self) -> Result<[Identity; 2], PathError> {
        let now = rustix::fs::stat(&self.store).map_err(|_| PathError::StoreUnknown)?;
        Ok([self.store_identity, identity(&now)])
    }

    /// What is out of reach, as it is on the disk now.
    pub(super) fn secrets(&self) -> Known {
        self.secrets.now()
    }

    /// Refuses a folder that is the store or a secret, or lies in one.
    fn admit(&self, directory: &OwnedFd) -> Result<(), PathError> {
        let (store, secrets) = (self.store()?, self.secrets());
        match climb(directory, |here| store.contains(&here) || secrets.contains(here) || here == self.identity)? {
            Some(here) if store.contains(&here) => Err(PathError::Store),
            Some(here) if secrets.contains(here) => Err(PathError::Private),
            Some(_) => Ok(()),
            // Moved away while it was opened.
            None => Err(PathError::Outside),
        }
    }

    /// Refuses a file that is out of reach: by what it is, and by its place if it is not there yet.
    fn admit_file(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), PathError> {
        let (here, secrets) = (identity(&rustix::fs::fstat(directory)?), self.secrets());
        let file = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let is_secret = file.is_some_and(|stat| secrets.contains(identity(&stat))) || secrets.has_place(here, name);
        if is_secret { Err(PathError::Private) } else { Ok(()) }
    }

    fn create_folders(&self, path: &Path) -> Result<(), PathError> {
        let (mut existing, mut missing) = (path, Vec::new());
        let mut directory = loop {
            match self.folder(existing) {
                Ok(directory) => break directory,
                Err(PathError::Missing) if missing.len() < MAX_DEPTH => {
                    // `..` behind a folder that is not there leads nowhere.
                    missing.push(existing.file_name().ok_or(PathError::Missing)?);
                    existing = existing.parent().unwrap_or(Path::new(""));
                }
                Err(error) => return Err(error),
            }
        };
        for name in missing.into_iter().rev() {
            self.admit_file(&directory, name)?;
            match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) => sync_folder(&directory)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            directory = rustix::fs::openat(&directory, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(())
    }
}

/// The folder and the name in it.
fn split(path: &Path) -> Result<(&Path, &OsStr), PathError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(PathError::Folder);
    }
    let name = path.file_name().ok_or(PathError::Folder)?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

/// The first that is looked for among a folder and those above it; none if the top is reached without.
fn climb(from: &OwnedFd, wanted: impl Fn(Identity) -> bool) -> rustix::io::Result<Option<Identity>> {
    let mut here = identity(&rustix::fs::fstat(from)?);
    let mut holder: Option<OwnedFd> = None;
    for _ in 0..MAX_DEPTH {
        if wanted(here) {
            return Ok(Some(here));
        }
        let above = rustix::fs::openat(holder.as_ref().unwrap_or(from), "..", FOLDER, Mode::empty())?;
        let next = identity(&rustix::fs::fstat(&above)?);
        if next == here {
            return Ok(None);
        }
        (here, holder) = (next, Some(above));
    }
    Err(Errno::NAMETOOLONG)
}

/// Opens a folder; the kernel refuses whatever leaves the root on the way.
fn beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, PathError> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_ATTEMPTS {
            match rustix::fs::openat2(root, path, FOLDER, Mode::empty(), resolve) {
                // Something was renamed while the kernel walked over a `..`; it cannot tell, and asks to try again.
                Err(Errno::AGAIN) => {}
                // Kernels before 5.6 and some sandboxes lack the call.
                Err(Errno::NOSYS | Errno::PERM) => return step_by_step(root, path),
                other => return other.map_err(PathError::from),
            }
        }
        Err(PathError::Changed)
    }
    #[cfg(not(target_os = "linux"))]
    step_by_step(root, path)
}

/// Opens a folder where the kernel cannot confine a path: one name at a time, without links and without `..`.
fn step_by_step(root: &OwnedFd, path: &Path) -> Result<OwnedFd, PathError> {
    use std::path::Component;
    let mut here = rustix::fs::openat(root, ".", FOLDER, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => {
                here = rustix::fs::openat(&here, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
            }
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(PathError::Outside),
        }
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_kernel_refuses_what_leaves_the_root() {
        let scene = crate::tools::tests::Scene::new();
        scene.write("a/b/file", "");
        symlink("a", scene.path("inside")).unwrap();
        symlink("../outside", scene.path("out")).unwrap();
        symlink(scene.path("a"), scene.path("absolute")).unwrap();
        let root = rustix::fs::open(scene.root(), FOLDER, Mode::empty()).unwrap();
        assert!(beneath(&root, Path::new("inside/b/../../a")).is_ok());
        for path in ["..", "a/../../outside", "/", "out", "inside/../out", "absolute"] {
            assert!(matches!(beneath(&root, Path::new(path)), Err(PathError::Outside)), "{path}");
        }
    }

    #[test]
    fn without_openat2_links_and_parents_are_refused() {
        let scene = crate::tools::tests::Scene::new();
        scene.write("a/b/file", "");
        symlink("a", scene.path("link")).unwrap();
        let root = rustix::fs::open(scene.root(), FOLDER, Mode::empty()).unwrap();
        assert!(step_by_step(&root, Path::new("./a/b")).is_ok());
        assert!(step_by_step(&root, Path::new(".")).is_ok());
        assert!(matches!(step_by_step(&root, Path::new("a/../..")), Err(PathError::Outside)));
        assert!(matches!(step_by_step(&root, Path::new("/tmp")), Err(PathError::Outside)));
        assert!(step_by_step(&root, Path::new("link/b")).is_err());
    }

    #[test]
    fn a_workspace_in_the_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("agents");
        std::fs::DirBuilder::new().create(&inside).unwrap();
        for root in [folder.path(), &inside] {
            let error = Workspace::open(root, folder.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn nothing_is_reached_once_the_store_is_gone() {
        let scene = crate::tools::tests::Scene::new();
        scene.write("file", "text");
        let workspace = scene.workspace();
        assert!(workspace.place("file").is_ok());
        rustix::fs::rename(scene.store(), scene.path("moved")).unwrap();
        assert!(matches!(workspace.place("file"), Err(PathError::StoreUnknown)));
    }
}
