//! A session that follows a remote: fetched whole, branched off, or replaced by what others agreed on.
//!
//! A file that was fetched becomes the transcript by a rename within its directory, so there is never half of one, and never none where
//! there was one. What stood there before is in the trash by then, under a name of its own: the id is in use, so it could not come
//! back under it. Everything here can be done again after a crash at any point, and comes to the same end; therefore
//! nothing in it depends on the clock.
//!
//! It guards against the loss of words that only one machine has.

use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::directory::Directory;
use crate::encode;
use crate::error::{Error, IoContext as _, Result};
use crate::json;
use crate::key::Key;
use crate::layout::AgentDir;
use crate::lines::split;
use crate::medium::{parent, publish_written, replace_durable};
use crate::reader::LogReader;
use crate::rechain::Rechain;
use crate::record::{Body, Draft, Envelope, Record};
use crate::replica::Intake;
use crate::scan::Scanner;
use crate::session;
use crate::stamp::{self, SessionId};

/// How many digits of a digest tell two versions of a session apart in the trash.
const VERSION_DIGITS: usize = 16;

impl Directory {
    /// Opens a session to take in lines of someone else.
    pub fn intake(&self, dir: &AgentDir, id: &SessionId) -> Result<Intake> {
        Intake::noticed(self.shared.medium.clone(), &dir.transcript(id), self.notice(dir, id))
    }

    /// Refuses a file that says that it is another session, or one of another agent.
    pub fn check_fetched(&self, dir: &AgentDir, id: &SessionId, file: &Path) -> Result<()> {
        let header = session::header(&LogReader::open(self.shared.medium.as_ref(), file)?)?.unwrap_or_default();
        let stated: Option<Key> = header.key.as_deref().and_then(|key| key.parse().ok());
        let found = header
            .id
            .filter(|found| found != id.as_str())
            .or_else(|| stated.filter(|key| AgentDir::of(key.agent()) != *dir).map(|key| key.to_string()));
        match found {
            Some(found) => Err(Error::Mismatch { path: file.to_path_buf(), found }),
            None => Ok(()),
        }
    }

    /// Makes a session of a whole file beside its place; `false` if there is one already.
    pub fn admit(&self, dir: &AgentDir, id: &SessionId, file: &Path) -> Result<bool> {
        let path = dir.transcript(id);
        match self.shared.medium.rename(file, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            renamed => renamed.context("move to its place", file)?,
        }
        self.shared.medium.sync_dir(parent(&path)).context("sync", parent(&path))?;
        Ok(true)
    }

    /// Makes a session of its own of everything that a session says here; `common` lines of it are also elsewhere.
    ///
    /// The same transcript always becomes the same session. It does not become the current one of its key.
    pub fn branch_off(&self, dir: &AgentDir, id: &SessionId, common: u64) -> Result<SessionId> {
        let bytes = LogReader::open(self.shared.medium.as_ref(), &dir.transcript(id))?.read_all()?;
        let mut scanner = Scanner::default();
        let (mut records, mut copied): (Vec<Record<'_>>, u64) = (Vec::new(), 0);
        for (at, line) in split(&bytes, 0).filter(|line| line.terminated).enumerate() {
            scanner.feed(&line, |record| records.push(record));
            if at as u64 + 1 == common {
                copied = records.iter().map(|record| record.n.saturating_add(1)).max().unwrap_or(0);
            }
        }
        if scanner.is_foreign() {
            return Err(Error::NotOurs { path: dir.transcript(id), owner: session::CLAUDE_CODE });
        }
        let header = records.iter().find_map(|record| match &record.body {
            Body::Session(header) => Some((record, header)),
            _ => None,
        });
        let stated = header.and_then(|(_, header)| header.key.as_deref()).and_then(|key| key.parse::<Key>().ok());
        let (Some((first, _)), Some(key)) = (header, stated) else {
            return Err(Error::Invalid(format!("session `{id}` has lost its key; what it says cannot stand alone")));
        };
        let created_ms = first.time_ms().unwrap_or(0);
        let branch = branch_id(id, &bytes, created_ms);
        let mut text = Rechain::default();
        let mut is_first = true;
        for record in &records {
            let Body::Session(header) = &record.body else {
                text.push(record.raw);
                continue;
            };
            let before = header.origin.map_or(String::new(), |origin| format!(",\"origin\":{origin}"));
            let quoted = json::quote(id.as_str());
            let origin = match std::mem::replace(&mut is_first, false) {
                true => Some(format!("{{\"format\":\"diverged\",\"id\":{quoted},\"copied\":{copied}{before}}}")),
                false => header.origin.map(str::to_owned),
            };
            let again = Draft::again(record);
            let kept = again.members().iter().filter(|(name, _)| !["id", "key", "origin"].contains(&name.as_str()));
            let draft = session::header_draft(&branch, &key, None);
            let draft = origin.iter().fold(draft, |draft, origin| draft.raw("origin", origin));
            let draft = kept.fold(draft, |draft, (name, value)| draft.raw(name, value));
            let now_ms = record.time_ms().unwrap_or(created_ms);
            let envelope = Envelope { n: record.n, parent: None, now_ms, previous_crc: text.previous() };
            text.push(draft.encode(envelope, &[]).trim_end());
        }
        match self.adopt(&key, &branch, text.finish().as_bytes()) {
            // It was made before a crash.
            Ok(()) | Err(Error::Exists { .. }) => Ok(branch),
            Err(error) => Err(error),
        }
    }

    /// Puts a whole, durable file beside a transcript in its place; what was there is in the trash then, under the id returned.
    pub fn supersede(&self, mut intake: Intake, dir: &AgentDir, id: &SessionId, file: &Path) -> Result<SessionId> {
        let path = dir.transcript(id);
        let reader = intake.reader()?;
        let old = version_id(id, &reader)?;
        let (trash, trashed) = (dir.trash(), dir.trashed(&old));
        self.shared.medium.create_dir(&trash).context("create", &trash)?;
        let receipt = format!("{{\"deleted\":\"{}\"}}\n", stamp::rfc3339(self.shared.source.now_ms()));
        replace_durable(self.shared.medium.as_ref(), &dir.receipt(&old), receipt.as_bytes())
            .context("write", &trash)?;
        // Named by its content: one that is there is the same.
        publish_written(self.shared.medium.as_ref(), &trashed, |out| reader.write_to(out))
            .context("write", &trashed)?;
        intake.tell();
        self.shared.medium.replace(file, &path).context("move to its place", file)?;
        self.shared.medium.sync_dir(parent(&path)).context("sync", parent(&path))?;
        intake.close();
        Ok(old)
    }
}

/// The id of what a session says here: created just before the session itself, which stays the current one of its key.
fn branch_id(id: &SessionId, bytes: &[u8], created_ms: i64) -> SessionId {
    let mut hasher = Sha256::new();
    hasher.update(id.as_str());
    hasher.update(b"\n");
    hasher.update(bytes);
    let digest: [u8; 32] = hasher.finalize().into();
    let mut random = [0; 10];
    random.copy_from_slice(&digest[..10]);
    let ms = u64::try_from(created_ms.saturating_sub(1)).unwrap_or(0);
    let text = uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().to_string();
    SessionId::parse(&text).unwrap_or_else(|| id.clone())
}

/// The id of one version of a session in the trash.
fn version_id(id: &SessionId, reader: &LogReader) -> Result<SessionId> {
    let mut digest = HashWriter(Sha256::new());
    reader.write_to(&mut digest).context("read", Path::new(id.as_str()))?;
    let digest = encode::hex(&<[u8; 32]>::from(digest.0.finalize()));
    let kept = id.as_str().get(..SessionId::MAX - VERSION_DIGITS - 1).unwrap_or(id.as_str());
    let name = format!("{kept}-{}", digest.get(..VERSION_DIGITS).unwrap_or_default());
    SessionId::parse(&name).ok_or_else(|| Error::Invalid(format!("`{name}` is no name for a session")))
}

/// A digest as a place to write to.
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
