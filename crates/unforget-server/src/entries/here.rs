//! The entries that are on this machine.
//!
//! A project is a folder, a session a file of JSON lines in it, and so is everything beneath a session; their names are digests of what they are called,
//! and the first line of each file says that in full. The lines behind it are the entries as they came. An entry with a `uuid` that the file has
//! already is not appended again, so that a batch can be sent twice; uuids mean something within one file only. Lines are on the disk before `append` returns.
//! What a list shows of a session (`fold`) is kept beside it when it was asked for, and counts only while it is of the very bytes that are there.
//!
//! Several processes may use one home: whoever writes a file has its lock for as long as one append takes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use unforget_core::Error;
use unforget_core::json;
use unforget_core::lines;
use unforget_core::log::{Durability, Log};
use unforget_core::medium::{Medium, publish_durable, read_small, replace_atomic};
use unforget_core::reader::LogReader;
use unforget_core::report::visible;
use unforget_core::stamp::SessionId;

use crate::error::{Code, Problem, Result};
use crate::realm::Realm;

use super::fold::{Fold, Spelling};
use super::known::Known;
use super::page;
use super::place::{self, Header, Key, Place};

/// How often, and after which pause, a file that another process writes is asked for: ten seconds in all.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);
/// How many files are remembered at the most.
const REMEMBERED: usize = 256;
/// The longest summary that is read.
const MAX_SUMMARY: u64 = 1 << 20;

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its id.
    pub session_id: String,
    /// When something was said in it last, in milliseconds since the epoch: as its entries say, or else as its file does.
    pub mtime_ms: i64,
    /// What a list of the SDK shows of it.
    pub data: Map<String, Value>,
}

/// The entries of this machine; what is remembered only saves reading files again.
#[derive(Debug, Default)]
pub(super) struct Here {
    /// What is known of files, by where they are. Whoever changes a file holds it.
    known: Mutex<HashMap<PathBuf, Arc<Mutex<Known>>>>,
}

impl Here {
    /// Whether anything was written under a key.
    pub(super) fn has(&self, realm: &Realm, key: &Key) -> Result<bool> {
        let path = Place::of(key).file();
        match realm.store().medium().stat(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::Io { action: "look at", path, source }.into()),
        }
    }

    /// Whether a project has a session.
    pub(super) fn has_project(&self, realm: &Realm, project_key: &str) -> Result<bool> {
        Ok(!place::sessions(realm.store().medium().as_ref(), project_key)?.is_empty())
    }

    /// Appends entries that were [checked](check); they are on the disk when this returns, or nothing is.
    pub(super) fn append(&self, realm: &Realm, key: &Key, entries: &[&str]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let path = Place::of(key).file();
        let known = self.known(realm, &path);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let (medium, source) = (realm.store().medium(), realm.store().source());
        // From here on a failure leaves it open what is in the file.
        let mut now = std::mem::take(&mut *known);
        for _ in 0..ATTEMPTS {
            match try_append(medium, &path, key, entries, &mut now, &source.new_id(source.now_ms())) {
                Ok(true) => {
                    now.wrote();
                    *known = now;
                    return Ok(());
                }
                Ok(false) => {}
                Err(Error::Busy { .. } | Error::Changed { .. }) => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
            now = Known::default();
        }
        Err(Problem::new(Code::Busy, "another program is writing this session"))
    }

    /// The entries, as the text of a JSON list; none if nothing was ever written.
    pub(super) fn load(&self, realm: &Realm, key: &Key) -> Result<Option<String>> {
        let medium = realm.store().medium();
        let reader = match LogReader::open(medium.as_ref(), &Place::of(key).file()) {
            Err(error) if error.is_io(std::io::ErrorKind::NotFound) => return Ok(None),
            other => other?,
        };
        Ok(Some(page::entries(&reader, 0, usize::MAX)?.0))
    }

    /// The sessions of a project, each with what a list shows of it.
    pub(super) fn list(&self, realm: &Realm, project_key: &str, spelling: Spelling) -> Result<Vec<Listed>> {
        let medium = realm.store().medium();
        let mut listed = Vec::new();
        for (place, stat) in place::sessions(medium.as_ref(), project_key)? {
            // Gone meanwhile, or none of ours.
            let Some(header) = Header::read(medium.as_ref(), &place.file())? else { continue };
            let Some(kept) = self.kept(realm, &place, &header.born)? else { continue };
            listed.push(Listed {
                session_id: header.session_id,
                mtime_ms: written_ms(kept.last_ms, stat.modified_ns.div_euclid(1_000_000)),
                data: kept.spelled(spelling),
            });
        }
        Ok(listed)
    }

    /// What is known of all entries of a session: what was kept of them if that is still so, or what they say; none if it is gone.
    fn kept(&self, realm: &Realm, place: &Place, born: &str) -> Result<Option<Fold>> {
        let medium = realm.store().medium();
        if let Some(kept) = kept_summary(medium.as_ref(), place, born) {
            return Ok(Some(kept));
        }
        let path = place.file();
        let known = self.known(realm, &path);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match LogReader::open(medium.as_ref(), &path) {
            Err(error) if error.is_io(std::io::ErrorKind::NotFound) => return Ok(None),
            reader => known.catch_up(&reader?)?,
        }
        keep_summary(medium.as_ref(), place, born, &known);
        Ok(Some(known.fold().clone()))
    }

    /// Deletes a session with everything beneath it, or one thing beneath it. What was never written is deleted already.
    pub(super) fn delete(&self, realm: &Realm, place: &Place) -> Result<()> {
        let medium = realm.store().medium();
        for path in place.beneath(medium.as_ref())? {
            let known = self.known(realm, &path);
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Known::default();
            remove(medium, &path)?;
        }
        Ok(())
    }

    /// What there is beneath a session.
    pub(super) fn list_subkeys(&self, realm: &Realm, key: &Key) -> Result<Vec<String>> {
        let medium = realm.store().medium();
        let mut subkeys = Vec::new();
        for path in Place::of(key).sides(medium.as_ref())? {
            subkeys.extend(Header::read(medium.as_ref(), &path)?.and_then(|header| header.subpath));
        }
        subkeys.sort();
        Ok(subkeys)
    }

    fn known(&self, realm: &Realm, path: &Path) -> Arc<Mutex<Known>> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            // Whatever nobody holds can be read again.
            all.retain(|_, known| Arc::strong_count(known) > 1);
        }
        all.entry(realm.root().join(path)).or_default().clone()
    }
}

/// When a session was written last. A fetched file is younger than what is in it, so its entries tell; but an entry of a clock that is ahead would make its
/// session the latest one until then, so that it was not written later than its file.
fn written_ms(said_ms: Option<i64>, file_ms: i64) -> i64 {
    said_ms.map_or(file_ms, |said_ms| said_ms.min(file_ms))
}

/// What tells a batch from another one.
pub(super) fn digest<E: AsRef<str>>(entries: &[E]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for entry in entries {
        digest.update(entry.as_ref().len().to_be_bytes());
        digest.update(entry.as_ref());
    }
    digest.finalize().into()
}

/// Refuses what cannot be entries.
pub(super) fn check(entries: &[&str]) -> Result<()> {
    if let Some(at) = entries.iter().position(|entry| !lines::is_object(entry.as_bytes())) {
        return Err(Problem::invalid(format!("entry {at} is no JSON object")));
    }
    for (at, entry) in entries.iter().enumerate() {
        if let Some(twice) = json::duplicate(entry) {
            let name = visible(&twice.name);
            return Err(Problem::invalid(format!("entry {at} has the member `{name}` twice in one object")));
        }
    }
    if entries.iter().any(|entry| entry.len() >= lines::MAX_LINE) {
        return Err(Problem::new(Code::TooLarge, "an entry is longer than a line may be"));
    }
    Ok(())
}

/// Appends once; `false` if it has to be looked at again.
fn try_append(
    medium: &Arc<dyn Medium>,
    path: &Path,
    key: &Key,
    entries: &[&str],
    known: &mut Known,
    born: &SessionId,
) -> Result<bool, Error> {
    let (mut log, _) = match Log::open_known(medium.clone(), path, Durability::PowerLoss, known.written()) {
        Err(error) if error.is_io(std::io::ErrorKind::NotFound) => {
            let is_begun = begin(medium.as_ref(), path, &Header::of(key, born), entries)?;
            known.catch_up(&LogReader::open(medium.as_ref(), path)?)?;
            return Ok(is_begun);
        }
        other => other?,
    };
    known.catch_up(&LogReader::open(medium.as_ref(), path)?)?;
    let fresh = known.fresh(entries);
    log.append(encoded("", &fresh).as_bytes())?;
    known.catch_up(&LogReader::open(medium.as_ref(), path)?)?;
    Ok(true)
}

/// Begins a file with its first entries, all of them or none; `false` if there is one already.
fn begin(medium: &dyn Medium, path: &Path, header: &Header, entries: &[&str]) -> Result<bool, Error> {
    let folder = unforget_core::medium::parent(path);
    let failed = |source| Error::Io { action: "begin", path: path.to_path_buf(), source };
    medium.create_dir(folder).map_err(failed)?;
    let text = encoded(&header.to_line(), &Known::default().fresh(entries));
    publish_durable(medium, path, text.as_bytes()).map_err(failed)
}

/// Entries as lines behind others.
pub(super) fn encoded(before: &str, entries: &[&str]) -> String {
    let mut text = String::with_capacity(before.len() + entries.iter().map(|entry| entry.len() + 1).sum::<usize>());
    text.push_str(before);
    for entry in entries {
        match entry.contains(['\n', '\r']) {
            // Within a JSON text these stand between its parts only, where any blank does.
            true => text.extend(entry.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c })),
            false => text.push_str(entry),
        }
        text.push('\n');
    }
    text
}

/// Removes a file for good; whoever writes it has it until then.
fn remove(medium: &Arc<dyn Medium>, path: &Path) -> Result<()> {
    let failed = |source| Error::Io { action: "remove", path: path.to_path_buf(), source };
    for _ in 0..ATTEMPTS {
        let held = match place::is_transcript(path).then(|| Log::open(medium.clone(), path, Durability::PowerLoss)) {
            Some(Err(Error::Busy { .. } | Error::Changed { .. })) => {
                std::thread::sleep(PAUSE);
                continue;
            }
            other => other,
        };
        match medium.remove(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(failed)?,
        }
        drop(held);
        medium.sync_dir(unforget_core::medium::parent(path)).map_err(failed)?;
        return Ok(());
    }
    Err(Problem::new(Code::Busy, "another program is writing this session"))
}

/// Keeps what a list shows of a session. It can be made again, so it is no failure if that cannot be done now.
fn keep_summary(medium: &dyn Medium, place: &Place, born: &str, known: &Known) {
    let (bytes, born, fold) = (known.bytes(), json::quote(born), known.fold().to_json());
    let text = format!("{{\"bytes\":{bytes},\"born\":{born},\"fold\":{fold}}}\n");
    if let Err(error) = replace_atomic(medium, &place.summary(), text.as_bytes()) {
        tracing::debug!(%error, "a summary is not kept");
    }
}

/// What is kept of a session, if it is of all that the file has.
fn kept_summary(medium: &dyn Medium, place: &Place, born: &str) -> Option<Fold> {
    let text = String::from_utf8(read_small(medium, &place.summary(), MAX_SUMMARY).ok()?).ok()?;
    let members = json::members(text.trim_end())?;
    let bytes = json::member(&members, "bytes").and_then(json::number)?;
    let len = medium.stat(&place.file()).ok()?.len;
    let is_of_it = json::member(&members, "born").and_then(json::string).as_deref() == Some(born);
    (is_of_it && bytes == len).then(|| Fold::of_json(json::member(&members, "fold")?)).flatten()
}
