//! Payloads that no transcript refers to any more.
//!
//! Every file of every session, deleted or not, is looked through for names of payloads: 64 hexadecimal digits in a row, wherever they
//! stand. That keeps more than a careful reading of the records would, and never less: a damaged line, a torn piece, a record of a newer version, or
//! the header of an import still hold on to what they name. If one file cannot be read, or something is in the way that is no file, nothing is removed.
//!
//! A payload is written before the line that refers to it, and one that is there already is written again; so a young one may be about to be
//! referred to, and is left alone. It is moved aside first and looked at once more, because a writer may come in between. What a crash leaves aside
//! is brought back before anything else: that writer's line may refer to it by now, and if not it is swept anew.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::directory::Directory;
use crate::error::{Error, IoContext as _, Result};
use crate::layout;
use crate::medium::{Access, FileKind, parent, read_full};

/// Younger payloads may be about to be referred to.
const YOUNG_MS: i64 = 60 * 60 * 1000;
/// Digits of a payload's name.
const DIGITS: usize = 64;
/// How much of a file is looked at at a time.
const BLOCK: usize = 256 * 1024;
/// What the name of a payload that is moved aside ends with.
pub(crate) const ASIDE: &str = ".tmp-gc";
/// How often the sessions are listed anew.
const ROUNDS: usize = 16;

type Hash = [u8; DIGITS / 2];

/// What happened to payloads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payloads {
    /// How many were removed.
    pub removed: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many nobody refers to, but were too young to be removed; they are looked at again.
    pub young: u64,
    /// Why none, or no more, were removed.
    pub stopped: Option<String>,
}

/// Removes the payloads that nobody refers to; a doubt is no error, but nothing is removed then.
pub(super) fn sweep(store: &Directory, now_ms: i64, progress: &mut impl FnMut(&Path)) -> Result<Payloads> {
    bring_back(store)?;
    // What is written from now on is not among these, whoever refers to it.
    let mut loose = all(store)?;
    if let Err(error) = look_through_sessions(store, &mut loose, progress) {
        return Ok(Payloads { stopped: Some(error.to_string()), ..Payloads::default() });
    }
    let mut payloads = Payloads::default();
    let mut names: Vec<String> =
        loose.iter().map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    names.sort();
    for name in names {
        match remove(store, &layout::blob(&name), now_ms)? {
            Some(bytes) => {
                payloads.removed += 1;
                payloads.bytes += bytes;
            }
            None => payloads.young += 1,
        }
    }
    Ok(payloads)
}

/// The payloads there are.
fn all(store: &Directory) -> Result<HashSet<Hash>> {
    let mut found = HashSet::new();
    let root = Path::new(layout::BLOBS);
    for (folder, kind) in list(store, root)? {
        if kind == FileKind::Directory {
            let files = list(store, &root.join(folder))?.into_iter().filter(|(_, kind)| *kind == FileKind::File);
            found.extend(files.filter_map(|(name, _)| hash(name.as_bytes())));
        }
    }
    Ok(found)
}

/// Removes one payload unless it is young; tells how long it was.
fn remove(store: &Directory, path: &Path, now_ms: i64) -> Result<Option<u64>> {
    let medium = store.medium();
    let is_young = |modified_ns: i64| now_ms.saturating_sub(modified_ns / 1_000_000) < YOUNG_MS;
    match medium.stat(path) {
        Ok(stat) if is_young(stat.modified_ns) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.context("look at", path)?,
    };
    let aside = path.with_extension(ASIDE.trim_start_matches('.'));
    medium.replace(path, &aside).context("move", path)?;
    let stat = medium.stat(&aside).context("look at", &aside)?;
    if is_young(stat.modified_ns) {
        // Somebody wrote it again just now.
        return move_back(store, &aside, path).map(|()| None);
    }
    medium.remove(&aside).context("remove", &aside)?;
    medium.sync_dir(parent(path)).context("sync", parent(path))?;
    Ok(Some(stat.len))
}

/// Brings back what a sweep that was interrupted had moved aside, and says how many that were. Only who has the turn may do so.
pub(super) fn bring_back(store: &Directory) -> Result<u64> {
    let root = Path::new(layout::BLOBS);
    let mut count = 0;
    for (folder, _) in list(store, root)?.into_iter().filter(|(_, kind)| *kind == FileKind::Directory) {
        let folder = root.join(folder);
        for (name, _) in list(store, &folder)?.into_iter().filter(|(_, kind)| *kind == FileKind::File) {
            let Some(payload) = name.strip_suffix(ASIDE).filter(|payload| hash(payload.as_bytes()).is_some()) else {
                continue;
            };
            move_back(store, &folder.join(&name), &folder.join(payload))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Gives a payload its name back; if somebody wrote it again since, theirs is in place already.
fn move_back(store: &Directory, aside: &Path, path: &Path) -> Result<()> {
    match store.medium().rename(aside, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            store.medium().remove(aside).context("remove", aside)?;
        }
        other => other.context("move back", path)?,
    }
    store.medium().sync_dir(parent(path)).context("sync", parent(path))
}

/// Takes out of `loose` what some session names. A session may be moved while the others are read, to where it was not looked for any more;
/// so the names are listed until there is no new one.
fn look_through_sessions(store: &Directory, loose: &mut HashSet<Hash>, progress: &mut impl FnMut(&Path)) -> Result<()> {
    let mut seen: HashSet<PathBuf> = HashSet::new();
    for _ in 0..ROUNDS {
        let new: Vec<PathBuf> = files(store)?.into_iter().filter(|path| !seen.contains(path)).collect();
        if new.is_empty() || loose.is_empty() {
            return Ok(());
        }
        for path in new {
            progress(&path);
            look_through(store, &path, loose)?;
            seen.insert(path);
        }
    }
    Err(Error::Invalid("sessions were created or moved all the while".to_owned()))
}

/// The files of all sessions.
fn files(store: &Directory) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (root, inner) in [(layout::AGENTS, Some("sessions")), (layout::TRASH, None)] {
        for (agent, kind) in list(store, Path::new(root))? {
            let folder = Path::new(root).join(&agent);
            match kind {
                FileKind::Directory => {}
                FileKind::File => continue,
                FileKind::Other => return Err(in_the_way(store, &folder)),
            }
            let folder = inner.map_or(folder.clone(), |inner| folder.join(inner));
            for (name, kind) in list(store, &folder)? {
                let path = folder.join(name);
                if kind != FileKind::File {
                    return Err(in_the_way(store, &path));
                }
                found.push(path);
            }
            if inner.is_some() {
                sides(store, &Path::new(root).join(agent).join(layout::SIDES), &mut found)?;
            }
        }
    }
    Ok(found)
}

/// The side transcripts of an agent's sessions.
fn sides(store: &Directory, root: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for (session, kind) in list(store, root)? {
        let folder = root.join(session);
        if kind != FileKind::Directory {
            return Err(in_the_way(store, &folder));
        }
        for (name, kind) in list(store, &folder)? {
            let path = folder.join(name);
            if kind != FileKind::File {
                return Err(in_the_way(store, &path));
            }
            found.push(path);
        }
    }
    Ok(())
}

fn in_the_way(store: &Directory, path: &Path) -> Error {
    Error::Invalid(format!("`{}` is not a plain file or folder", store.medium().root().join(path).display()))
}

fn list(store: &Directory, folder: &Path) -> Result<Vec<(String, FileKind)>> {
    match store.medium().list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.context("list", folder),
    }
}

/// Takes every name that stands in a file out of `loose`. A run of more digits may hide a name anywhere in it, so all are tried.
fn look_through(store: &Directory, path: &Path, loose: &mut HashSet<Hash>) -> Result<()> {
    let file = match store.medium().open(path, Access::Read) {
        // It was moved, and is found where it is now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.context("open", path)?,
    };
    let mut block = vec![0; BLOCK];
    let (mut offset, mut run) = (0, Vec::with_capacity(DIGITS));
    loop {
        let filled = read_full(file.as_ref(), &mut block, offset).context("read", path)?;
        for byte in &block[..filled] {
            if !matches!(byte, b'0'..=b'9' | b'a'..=b'f') {
                run.clear();
                continue;
            }
            if run.len() == DIGITS {
                run.remove(0);
            }
            run.push(*byte);
            if let Some(hash) = hash(&run) {
                loose.remove(&hash);
            }
        }
        offset += filled as u64;
        if filled < block.len() {
            return Ok(());
        }
    }
}

/// The bytes behind a payload's name.
fn hash(name: &[u8]) -> Option<Hash> {
    let mut out = [0; DIGITS / 2];
    if name.len() != DIGITS {
        return None;
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    for (byte, digits) in out.iter_mut().zip(name.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(out)
}
