//! The session on this machine, as far as a copy of it is concerned.
//!
//! Three kinds: a session of a store, whose lines may refer to payloads and which an index knows; a side transcript of one; and a plain file
//! of lines, as other programs write them. None is interpreted beyond that. What comes from a remote is checked here before it becomes visible: a file
//! that says that it is another session is refused, whoever sent it.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_core::blob::BlobRef;
use unforget_core::directory::{Directory, side_path};
use unforget_core::encode;
use unforget_core::layout::AgentDir;
use unforget_core::medium::{Medium, Replacement, parent};
use unforget_core::reader::LogReader;
use unforget_core::replica::{self, Intake};
use unforget_core::stamp::SessionId;
use unforget_core::{Error, Result};

/// A session on this machine.
pub trait Local: Debug + Send + Sync {
    /// The agent or project, as it is spelled in file names.
    fn dir(&self) -> &AgentDir;
    /// The session.
    fn id(&self) -> &SessionId;
    /// Where its files are.
    fn medium(&self) -> &Arc<dyn Medium>;
    /// Its transcript, which may not exist.
    fn path(&self) -> PathBuf;
    /// A file beside the transcript that becomes it when it is whole.
    fn part(&self) -> PathBuf;
    /// The payloads that a line refers to.
    fn payloads(&self, line: &[u8]) -> Vec<BlobRef>;
    /// A payload, if it is here and whole.
    fn payload(&self, sha256: &str) -> Result<Option<Vec<u8>>>;
    /// Begins to keep a payload that comes piece by piece; none where payloads are not kept.
    fn begin_payload(&self, sha256: &str) -> Result<Option<Replacement>>;
    /// Opens the transcript to add lines that were said elsewhere.
    fn intake(&self) -> Result<Intake>;
    /// Refuses a fetched file that is not this session.
    fn check(&self, part: &Path) -> Result<()>;
    /// Makes the transcript of a whole and durable part; `false` if there is one already.
    fn admit(&self, part: &Path) -> Result<bool>;
    /// The session of this program that it is, if it is one.
    fn native(&self) -> Option<&Native> {
        None
    }
}

/// A session of this program.
#[derive(Debug, Clone)]
pub struct Native {
    store: Directory,
    dir: AgentDir,
    id: SessionId,
}

impl Native {
    /// A session of a store.
    pub fn new(store: &Directory, dir: &AgentDir, id: &SessionId) -> Self {
        Self { store: store.clone(), dir: dir.clone(), id: id.clone() }
    }

    /// The store.
    pub fn store(&self) -> &Directory {
        &self.store
    }
}

impl Local for Native {
    fn dir(&self) -> &AgentDir {
        &self.dir
    }

    fn id(&self) -> &SessionId {
        &self.id
    }

    fn medium(&self) -> &Arc<dyn Medium> {
        self.store.medium()
    }

    fn path(&self) -> PathBuf {
        self.dir.transcript(&self.id)
    }

    fn part(&self) -> PathBuf {
        self.dir.part(&self.id)
    }

    fn payloads(&self, line: &[u8]) -> Vec<BlobRef> {
        replica::payloads(line)
    }

    fn payload(&self, sha256: &str) -> Result<Option<Vec<u8>>> {
        match self.store.blobs().get(sha256) {
            Ok(payload) => Ok(Some(payload)),
            Err(Error::NotFound { .. } | Error::Invalid(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn begin_payload(&self, sha256: &str) -> Result<Option<Replacement>> {
        self.store.blobs().begin(sha256).map(Some)
    }

    fn intake(&self) -> Result<Intake> {
        self.store.intake(&self.dir, &self.id)
    }

    fn check(&self, part: &Path) -> Result<()> {
        self.store.check_fetched(&self.dir, &self.id, part)
    }

    fn admit(&self, part: &Path) -> Result<bool> {
        self.store.admit(&self.dir, &self.id, part)
    }

    fn native(&self) -> Option<&Native> {
        Some(self)
    }
}

/// A side transcript of a session: a sub-agent's, or the list of a session's files.
#[derive(Debug, Clone)]
pub struct Aside {
    session: Native,
    dir: AgentDir,
    id: SessionId,
    path: PathBuf,
}

impl Aside {
    /// A side transcript by its name.
    pub fn new(session: &Native, name: &str) -> Result<Self> {
        let path = side_path(&session.dir, &session.id, name)?;
        // What is remembered of it has a place of its own, beside what is remembered of the session.
        let dir = AgentDir::of(&format!("{}/{}", session.dir.as_str(), session.id));
        let digest = encode::sha256_hex(name.as_bytes());
        let id = SessionId::parse(name)
            .or_else(|| SessionId::parse(&digest))
            .ok_or_else(|| Error::Invalid(format!("`{name}` cannot be the name of a side transcript")))?;
        Ok(Self { session: session.clone(), dir, id, path })
    }
}

impl Local for Aside {
    fn dir(&self) -> &AgentDir {
        &self.dir
    }

    fn id(&self) -> &SessionId {
        &self.id
    }

    fn medium(&self) -> &Arc<dyn Medium> {
        self.session.medium()
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn part(&self) -> PathBuf {
        self.path.with_extension("part")
    }

    fn payloads(&self, line: &[u8]) -> Vec<BlobRef> {
        self.session.payloads(line)
    }

    fn payload(&self, sha256: &str) -> Result<Option<Vec<u8>>> {
        self.session.payload(sha256)
    }

    fn begin_payload(&self, sha256: &str) -> Result<Option<Replacement>> {
        self.session.begin_payload(sha256)
    }

    fn intake(&self) -> Result<Intake> {
        Intake::open(self.medium().clone(), &self.path)
    }

    fn check(&self, part: &Path) -> Result<()> {
        LogReader::open(self.medium().as_ref(), part).map(drop)
    }

    fn admit(&self, part: &Path) -> Result<bool> {
        admit(self.medium().as_ref(), part, &self.path)
    }
}

/// Makes a whole part what it is a part of; `false` if that is there already.
fn admit(medium: &dyn Medium, part: &Path, path: &Path) -> Result<bool> {
    let failed = |source| Error::Io { action: "move to its place", path: part.to_path_buf(), source };
    match medium.rename(part, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        renamed => renamed.map_err(failed)?,
    }
    medium.sync_dir(parent(path)).map_err(failed)?;
    Ok(true)
}

/// A file of lines that another program writes.
#[derive(Debug, Clone)]
pub struct Plain {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    dir: AgentDir,
    id: SessionId,
}

impl Plain {
    /// A file in a medium, which is called this session of that project.
    pub fn new(medium: Arc<dyn Medium>, path: &Path, dir: &AgentDir, id: &SessionId) -> Self {
        Self { medium, path: path.to_path_buf(), dir: dir.clone(), id: id.clone() }
    }
}

impl Local for Plain {
    fn dir(&self) -> &AgentDir {
        &self.dir
    }

    fn id(&self) -> &SessionId {
        &self.id
    }

    fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn part(&self) -> PathBuf {
        self.path.with_extension("part")
    }

    fn payloads(&self, _: &[u8]) -> Vec<BlobRef> {
        Vec::new()
    }

    fn payload(&self, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn begin_payload(&self, _: &str) -> Result<Option<Replacement>> {
        Ok(None)
    }

    fn intake(&self) -> Result<Intake> {
        Intake::open(self.medium.clone(), &self.path)
    }

    fn check(&self, part: &Path) -> Result<()> {
        LogReader::open(self.medium.as_ref(), part).map(drop)
    }

    fn admit(&self, part: &Path) -> Result<bool> {
        admit(self.medium.as_ref(), part, &self.path)
    }
}

/// The transcript, if there is one.
pub(super) fn open(local: &dyn Local) -> Result<Option<LogReader>> {
    match LogReader::open(local.medium().as_ref(), &local.path()) {
        Ok(reader) => Ok(Some(reader)),
        Err(error) if error.is_io(io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error for a session that is not here.
pub(super) fn missing(local: &dyn Local) -> Error {
    Error::NotFound { what: "session", name: local.id().to_string() }
}
