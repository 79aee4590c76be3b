//! Deleting is moving: into the trash with a receipt, and back.

use std::io;
use std::path::Path;

use crate::directory::list::sort;
use crate::directory::{Directory, Entry, entry_id};
use crate::error::{Error, IoContext as _, Result};
use crate::layout::{self, AgentDir};
use crate::medium::{Access, Handle, parent, replace_durable};
use crate::reader::LogReader;
use crate::stamp::{self, SessionId};
use crate::summary::{Row, State};

impl Directory {
    /// Moves a session to the trash.
    pub fn delete(&self, entry: &Entry) -> Result<()> {
        let id = entry_id(entry)?;
        let from = match self.path(entry) {
            Err(Error::Missing { .. }) => return self.forget(entry),
            other => other?,
        };
        if entry.row.state == State::Deleted {
            return Err(Error::NotFound { what: "session that is not deleted", name: id.to_string() });
        }
        let _held = self.hold(&from)?;
        self.trash(entry, &id, &from)
    }

    /// Keeps writers out of a transcript that is moved. One that someone is writing stays where it is; one that cannot be
    /// opened can still go.
    fn hold(&self, path: &Path) -> Result<Option<Box<dyn Handle>>> {
        let Ok(file) = self.shared.medium.open(path, Access::Read) else { return Ok(None) };
        if file.try_lock().context("lock", path)? {
            return Ok(Some(file));
        }
        let holder = file.stat().ok().and_then(|stat| self.shared.medium.lock_holder(&stat));
        let holder = holder.unwrap_or_else(|| "another process".to_owned());
        Err(Error::Busy { path: path.to_path_buf(), holder })
    }

    fn trash(&self, entry: &Entry, id: &SessionId, from: &Path) -> Result<()> {
        let trash = entry.dir.trash();
        self.shared.medium.create_dir(&trash).context("create", &trash)?;
        let receipt = format!("{{\"deleted\":\"{}\"}}\n", stamp::rfc3339(self.shared.source.now_ms()));
        replace_durable(self.shared.medium.as_ref(), &entry.dir.receipt(id), receipt.as_bytes())
            .context("write", &trash)?;
        let to = entry.dir.trashed(id);
        self.move_all(id, from, &to)
    }

    /// Moves a transcript and its torn pieces to another directory, transcript last.
    fn move_all(&self, id: &SessionId, from: &Path, to: &Path) -> Result<()> {
        let (source, target) = (parent(from), parent(to));
        for (name, _) in self.shared.medium.list(source).context("list", source)? {
            if layout::is_torn_piece(&name, id) {
                self.move_piece(&source.join(&name), target, id)?;
            }
        }
        match self.shared.medium.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A crash in the middle of a move may leave both names of one file.
                let (here, there) = (self.shared.medium.stat(from), self.shared.medium.stat(to));
                let (here, there) = (here.context("look at", from)?, there.context("look at", to)?);
                if here.identity == there.identity {
                    self.shared.medium.remove(from).context("move", from)?;
                } else {
                    self.take_over(from, to)?;
                }
            }
            other => other.context("move", from)?,
        }
        self.shared.medium.sync_dir(target).context("sync", target)?;
        self.shared.medium.sync_dir(source).context("sync", source)
    }

    /// Puts a transcript in the place of another of the same session, deleted and imported again, if it has every word of that one.
    ///
    /// Whoever writes the other one has its lock, and would go on in a file without a name.
    fn take_over(&self, from: &Path, to: &Path) -> Result<()> {
        let exists = || Error::Exists { path: self.shared.medium.root().join(to) };
        let held = self.hold(to)?.ok_or_else(exists)?;
        let is_named = self.shared.medium.stat(to).context("look at", to)?.identity;
        if is_named != held.stat().context("look at", to)?.identity || !self.goes_on(to, from)? {
            return Err(exists());
        }
        self.shared.medium.replace(from, to).context("move", from)
    }

    /// Whether the second transcript begins with all of the first.
    fn goes_on(&self, first: &Path, second: &Path) -> Result<bool> {
        let read = |path| LogReader::open(self.shared.medium.as_ref(), path)?.read_all();
        Ok(read(second)?.starts_with(&read(first)?))
    }

    /// Moves a torn piece to the first free name in another directory.
    fn move_piece(&self, from: &Path, target: &Path, id: &SessionId) -> Result<()> {
        for n in 1..=u32::MAX {
            match self.shared.medium.rename(from, &target.join(layout::torn_piece(id, n))) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other.context("move", from),
            }
        }
        Err(Error::Exists { path: self.shared.medium.root().join(target) })
    }

    /// Has the index forget a session that left the trash for good, as nobody would miss it. If it cannot now, the
    /// session is listed as missing until someone deletes that row.
    pub(crate) fn forget_purged(&self, dir: &AgentDir, id: &SessionId) {
        if let Some(observer) = self.observer() {
            observer.purged(dir, id);
        }
    }

    /// Drops the row of a session whose transcript is gone.
    fn forget(&self, entry: &Entry) -> Result<()> {
        let mut listing = self.list()?;
        listing.entries.retain(|other| other.dir != entry.dir || other.row.id != entry.row.id);
        listing.stale.insert(entry.dir.clone());
        self.refresh(&listing)?;
        self.observer().map_or(Ok(()), |observer| observer.dropped(&entry.dir, &entry.row.id))
    }

    /// The sessions in the trash.
    pub fn deleted(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for dir in self.agents(Path::new(layout::TRASH))? {
            for (id, path, _) in self.transcripts(&dir.trash())? {
                // A move that a crash cut short leaves both names of one file: the session is not deleted then.
                let identity = |path: &Path| self.shared.medium.stat(path).map(|stat| stat.identity).ok();
                if identity(&path).is_some() && identity(&path) == identity(&dir.transcript(&id)) {
                    continue;
                }
                let row = Row { state: State::Deleted, ..self.row(&path, &id) };
                entries.push(Entry { dir: dir.clone(), row });
            }
        }
        sort(&mut entries);
        Ok(entries)
    }

    /// Moves a session back from the trash; refused while someone writes one of the same id that came back meanwhile.
    pub fn undelete(&self, entry: &Entry) -> Result<()> {
        let id = entry_id(entry)?;
        let sessions = entry.dir.sessions();
        let _held = self.hold(&entry.dir.trashed(&id))?;
        self.shared.medium.create_dir(&sessions).context("create", &sessions)?;
        self.move_all(&id, &entry.dir.trashed(&id), &entry.dir.transcript(&id))?;
        let receipt = entry.dir.receipt(&id);
        match self.shared.medium.remove(&receipt) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("remove", &receipt),
            _ => Ok(()),
        }
    }
}
