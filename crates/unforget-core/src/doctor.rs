//! A look at everything in a store, read-only unless told otherwise.
//!
//! What can be put right without losing a byte is: torn tails are sealed, lost headers written again, snapshots
//! rebuilt, permissions tightened, leftovers of crashed writers removed, payloads that a clean-up left aside brought back, an index that is wrong put aside. Damage inside a transcript is reported with its place and
//! stays as it is: the file is never rewritten, and what is left of it is read all the same.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blob::{BlobRef, references};
use crate::directory::{Directory, Entry};
use crate::error::{Error, IoContext as _, Result};
use crate::exposure::Exposure;
use crate::index::{Index, Trouble};
use crate::layout;
use crate::medium::{FileKind, TEMPORARY};
use crate::reader::LogReader;
use crate::record::Body;
use crate::report::{NoteKind, Report};
use crate::retention;
use crate::scan::Scanner;
use crate::summary::State;

/// How many places of damage in one transcript are told one by one.
const TOLD_NOTES: usize = 20;
/// Unfinished files older than this belong to nobody any more.
const LEFTOVER_MS: i64 = 60 * 60 * 1000;

/// What to do about a cache of a newer version.
const NEWER: &str = "the transcripts answer; `--fix` leaves it, too, for the newer unforget";

/// Whether to change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Look only.
    Look,
    /// Put right what can be.
    Fix,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or session that it is about.
    pub subject: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub advice: &'static str,
    /// Whether it was put right just now.
    pub fixed: bool,
    /// Whether it harms nothing: everything was read, though the file is not as a writer leaves it.
    pub is_oddity: bool,
}

/// What the doctor looked at and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Everything that is not as it should be.
    pub findings: Vec<Finding>,
    /// How many sessions were looked at.
    pub sessions: u64,
    /// How many bytes were read.
    pub bytes: u64,
}

impl Diagnosis {
    /// Findings that are still there, oddities apart.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.fixed && !finding.is_oddity)
    }

    /// Findings that harm nothing.
    pub fn oddities(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_oddity)
    }

    fn add(&mut self, subject: impl ToString, problem: impl ToString, advice: &'static str, fixed: bool) {
        let (subject, problem) = (subject.to_string(), problem.to_string());
        self.findings.push(Finding { subject, problem, advice, fixed, is_oddity: false });
    }

    fn note(&mut self, subject: impl ToString, problem: String) {
        self.add_oddity(subject, problem, "everything was read; `unforget show` marks the place");
    }

    fn add_oddity(&mut self, subject: impl ToString, problem: String, advice: &'static str) {
        self.findings.push(Finding { subject: subject.to_string(), problem, advice, fixed: false, is_oddity: true });
    }
}

/// Looks at everything in a store, also its index if it has one; `progress` hears of each file.
pub fn examine(
    store: &Directory,
    index: Option<&Arc<Index>>,
    mode: Mode,
    mut progress: impl FnMut(&Path),
) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::default();
    permissions(store, mode, Path::new(""), 0o700, &mut diagnosis)?;
    let listing = store.list_with(|path, _| progress(path))?;
    for (path, why) in &listing.unusable {
        let fixed = mode == Mode::Fix;
        diagnosis.add(
            path.display(),
            format!("the snapshot is of no use: {why}"),
            "`--fix` rebuilds it from the transcripts",
            fixed,
        );
    }
    for (path, why) in &listing.newer {
        diagnosis.add_oddity(path.display(), format!("the snapshot was left alone: {why}"), NEWER);
    }
    for (path, before, now) in &listing.shortened {
        let problem = format!("it had {before} records and now has {now}: its end is gone");
        diagnosis.add(path.display(), problem, "restore it from a backup if that was not you", false);
    }
    for (path, why) in &listing.unreadable {
        diagnosis.add(path.display(), why, "put a plain folder in its place; nothing in it was followed", false);
    }
    if mode == Mode::Fix
        && let Err(error) = store.refresh(&listing)
    {
        diagnosis.add("sessions.json", error, "the list works without it; check who may write there", false);
    }
    let brought_back = match mode {
        Mode::Look => 0,
        // Whoever cleans up just now does it.
        Mode::Fix => retention::bring_back_payloads(store).unwrap_or(0),
    };
    if brought_back > 0 {
        let problem = match brought_back {
            1 => "1 payload that an interrupted clean-up had moved aside is back".to_owned(),
            many => format!("{many} payloads that an interrupted clean-up had moved aside are back"),
        };
        diagnosis.add(layout::BLOBS, problem, "", true);
    }
    for entry in listing.entries.iter().chain(&store.deleted()?) {
        diagnosis.sessions += 1;
        session(store, mode, entry, &mut diagnosis, &mut progress)?;
    }
    blobs(store, &mut diagnosis, &mut progress)?;
    leftovers(store, mode, Path::new(""), &mut diagnosis)?;
    examine_index(store, index, mode, &mut diagnosis);
    Ok(diagnosis)
}

/// The index is a cache: one that is wrong is put aside, and the next question builds another.
fn examine_index(store: &Directory, index: Option<&Arc<Index>>, mode: Mode, diagnosis: &mut Diagnosis) {
    let Some(index) = index else { return };
    let problems = match index.examine(store) {
        Ok(problems) => problems,
        Err(Trouble::Absent | Trouble::Busy) => return,
        Err(trouble @ Trouble::Newer { .. }) => {
            return diagnosis.add_oddity(layout::INDEX, format!("the index was left alone: {trouble}"), NEWER);
        }
        Err(trouble) => vec![trouble.to_string()],
    };
    let Some(first) = problems.first() else { return };
    let more = if problems.len() > 1 { format!(" (and {} more)", problems.len() - 1) } else { String::new() };
    let fixed = mode == Mode::Fix && index.set_aside().is_ok();
    let advice = "`unforget index --rebuild` builds it anew from the transcripts, which it does not touch";
    diagnosis.add(layout::INDEX, format!("the index is wrong: {first}{more}"), advice, fixed);
}

fn permissions(store: &Directory, mode: Mode, path: &Path, wanted: u32, diagnosis: &mut Diagnosis) -> Result<()> {
    let stat = match store.medium().stat(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.context("look at", path)?,
    };
    if stat.mode & 0o077 == 0 || stat.kind == FileKind::Other {
        return Ok(());
    }
    let fixed = mode == Mode::Fix && store.medium().set_mode(path, wanted).is_ok();
    let shown = if path.as_os_str().is_empty() { store.medium().root() } else { path.to_path_buf() };
    let what = if stat.mode & 0o022 == 0 { "reach" } else { "change" };
    let problem = format!("other users can {what} it (mode {:03o})", stat.mode);
    diagnosis.add(shown.display(), problem, "`--fix` makes it private", fixed);
    Ok(())
}

fn session(
    store: &Directory,
    mode: Mode,
    entry: &Entry,
    diagnosis: &mut Diagnosis,
    progress: &mut impl FnMut(&Path),
) -> Result<()> {
    let id = &entry.row.id;
    let path = match store.path(entry) {
        Ok(path) => path,
        Err(error @ Error::Missing { .. }) => {
            diagnosis.add(id, error, "restore the file from a backup, or `unforget rm` the session", false);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    progress(&path);
    if let Some(exposure) = Exposure::of(store.medium().as_ref(), &path)?
        && let Some(owner) = exposure.owner
    {
        let problem = format!("it belongs to another user (uid {owner}), who can change every line");
        diagnosis.add(path.display(), problem, "look at what it says; if it is yours, `chown` it", false);
    }
    permissions(store, mode, &path, 0o600, diagnosis)?;
    let mut health = match check(store, &path) {
        Ok(health) => health,
        Err(error) => {
            diagnosis.add(id, error, "move the file away; nothing in it was changed", false);
            return Ok(());
        }
    };
    // A file without a single record is somebody's, but no session: it is told of and left alone.
    let mendable = (health.torn || !health.has_header) && (health.records > 0 || health.report.damage_count() == 0);
    if mendable && mode == Mode::Fix && entry.row.state == State::Ok {
        match store.open(entry) {
            Ok(session) => {
                drop(session);
                let before = (health.torn, health.has_header);
                health = match check(store, &path) {
                    Ok(health) => health,
                    Err(error) => {
                        diagnosis.add(id, error, "try again", false);
                        return Ok(());
                    }
                };
                if before.0 && !health.torn {
                    diagnosis.add(id, "its last line was cut off; the bytes are in a .torn file now", "", true);
                }
                if !before.1 && health.has_header {
                    diagnosis.add(id, "its header was missing; it was written again", "", true);
                }
            }
            Err(error) => diagnosis.add(id, error, "close the other program and try again", false),
        }
    }
    diagnosis.bytes += health.bytes;
    if !health.has_header && health.records == 0 && health.report.damage_count() > 0 {
        diagnosis.add(id, "there is no record in it", "if it is no transcript, move it away", false);
    } else if !health.has_header {
        diagnosis.add(id, "its header is missing", "`--fix` writes it again", false);
    }
    if entry.row.state == State::Mismatch {
        diagnosis.add(
            id,
            "its header is that of another session, so no key leads to it",
            "move it back to where it belongs",
            false,
        );
    }
    for note in health.report.damage().take(TOLD_NOTES) {
        let advice = match note.kind {
            NoteKind::Torn => "`--fix` moves it aside",
            _ => "everything else in the session is usable; `unforget show` marks the place",
        };
        diagnosis.add(id, format!("{}: {}", note.place(), note.kind), advice, false);
    }
    let told = health.report.damage().count().min(TOLD_NOTES) as u64;
    if health.report.damage_count() > told {
        let more = health.report.damage_count() - told;
        diagnosis.add(id, format!("and {more} more damaged places"), "", false);
    }
    for note in health.report.oddities().take(TOLD_NOTES) {
        diagnosis.note(id, format!("{}: {}", note.place(), note.kind));
    }
    if health.report.oddity_count() > TOLD_NOTES as u64 {
        let more = health.report.oddity_count() - TOLD_NOTES as u64;
        diagnosis.note(id, format!("and {more} more oddities"));
    }
    for (n, problem) in health.blobs {
        diagnosis.add(id, format!("record {n}: {problem}"), "restore the blob from a backup", false);
    }
    Ok(())
}

struct Health {
    report: Report,
    records: u64,
    has_header: bool,
    torn: bool,
    bytes: u64,
    blobs: Vec<(u64, String)>,
}

fn check(store: &Directory, path: &Path) -> Result<Health> {
    let reader = LogReader::open(store.medium().as_ref(), path)?;
    let mut scanner = Scanner::default();
    let (mut has_header, mut torn, mut records) = (false, false, 0);
    let mut found = Vec::new();
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        torn |= !line.terminated;
        scanner.feed(&line, |record| {
            records += 1;
            has_header |= record.foreign.is_some() || matches!(record.body, Body::Session(_));
            found.extend(references(&record).into_iter().map(|reference| (record.n, reference)));
        });
    }
    let missing = |(n, reference): (u64, Option<BlobRef>)| match reference {
        None => Some((n, "a blob reference without hash and size".to_owned())),
        Some(reference) => match store.medium().stat(&layout::blob(&reference.sha256)) {
            Ok(_) => None,
            Err(error) => Some((n, format!("its payload {} cannot be found: {error}", reference.sha256))),
        },
    };
    let blobs = found.into_iter().filter_map(missing).collect();
    Ok(Health { report: scanner.report, records, has_header, torn, bytes: reader.len(), blobs })
}

fn blobs(store: &Directory, diagnosis: &mut Diagnosis, progress: &mut impl FnMut(&Path)) -> Result<()> {
    for path in files(store, Path::new(layout::BLOBS))? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.contains(TEMPORARY) {
            continue;
        }
        progress(&path);
        match store.blobs().get(&name) {
            Ok(bytes) => diagnosis.bytes += bytes.len() as u64,
            Err(error) => diagnosis.add(path.display(), error, "restore it from a backup", false),
        }
    }
    Ok(())
}

fn leftovers(store: &Directory, mode: Mode, within: &Path, diagnosis: &mut Diagnosis) -> Result<()> {
    for path in files(store, within)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(retention::ASIDE) {
            let problem = "a payload that a clean-up was about to remove when it was interrupted";
            diagnosis.add(path.display(), problem, "`--fix` or the next `unforget gc` brings it back", false);
            continue;
        }
        let Ok(stat) = store.medium().stat(&path) else { continue };
        let age_ms = store.source().now_ms() - stat.modified_ns / 1_000_000;
        if name.contains(TEMPORARY) && age_ms > LEFTOVER_MS {
            let fixed = mode == Mode::Fix && store.medium().remove(&path).is_ok();
            diagnosis.add(path.display(), "left behind by a writer that was interrupted", "`--fix` removes it", fixed);
        }
    }
    Ok(())
}

fn files(store: &Directory, within: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![within.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match store.medium().list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.context("list", &folder)?,
        };
        for (name, kind) in entries {
            match kind {
                FileKind::Directory => folders.push(folder.join(name)),
                FileKind::File => found.push(folder.join(name)),
                FileKind::Other => {}
            }
        }
    }
    found.sort();
    Ok(found)
}
