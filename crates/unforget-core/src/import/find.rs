//! Which files of a folder are sessions, and what the folder's index says about them.
//!
//! The tutorials' indexes are read for keys, ids and labels, never for paths: a transcript is what stands in the
//! folder, listed or not. A row whose file is not there is reported.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::bundle::EXTENSION;
use crate::error::{IoContext as _, Result};
use crate::import::{Format, is_transcript, nothing_at, programs};
use crate::json;
use crate::key::Key;
use crate::medium::{FileKind, Medium, read_small};

/// An index larger than this is not one.
const MAX_INDEX: u64 = 256 << 20;

/// A file that may be a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Where it is, relative to the medium.
    pub path: PathBuf,
    /// The key that the index has for it.
    pub key: Option<String>,
    /// The id that the index has for it.
    pub id: Option<String>,
    /// The key that its place suggests.
    pub guessed_key: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// When the index says that it was created.
    pub created_ms: Option<i64>,
    /// The program that its place says wrote it.
    pub format: Option<Format>,
    /// The key that someone wants it under.
    pub under: Option<Key>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// Files that may be sessions, oldest first.
    pub candidates: Vec<Candidate>,
    /// Things that are wrong with the folder's indexes.
    pub problems: Vec<String>,
}

/// Looks for sessions at the root of a medium, or takes one file of it.
pub fn find(medium: &dyn Medium, file: Option<&Path>) -> Result<Search> {
    let mut search = Search::default();
    if let Some(file) = file {
        search.candidates.push(programs::single(medium, file));
        return Ok(search);
    }
    search.programs(medium)?;
    if !search.candidates.is_empty() {
        search.candidates.sort_by(|a, b| a.path.cmp(&b.path));
        return Ok(search);
    }
    search.workspace(medium, Path::new(""))?;
    // A folder of loose transcripts, or one agent's folder.
    if search.candidates.is_empty() {
        let agent = medium.root().file_name().map(|name| name.to_string_lossy().into_owned());
        search.agent(medium, Path::new(""), agent.as_deref())?;
        search.loose(medium, Path::new(""))?;
    }
    // A folder of workspaces.
    if search.candidates.is_empty() {
        let mut folders = medium.list(Path::new("")).context("list", &medium.root())?;
        folders.sort();
        for (name, _) in folders.iter().filter(|(_, kind)| *kind == FileKind::Directory) {
            search.workspace(medium, Path::new(name))?;
        }
    }
    if search.candidates.is_empty() && search.problems.is_empty() {
        return Err(nothing_at(&medium.root()));
    }
    search.candidates.sort_by(|a, b| (a.created_ms, &a.path).cmp(&(b.created_ms, &b.path)));
    Ok(search)
}

impl Search {
    /// Both layouts, in a workspace, in the folder that holds one, or in its `.sessions`.
    fn workspace(&mut self, medium: &dyn Medium, folder: &Path) -> Result<()> {
        for base in ["", ".sessions", "workspace/.sessions"] {
            let base = folder.join(base);
            self.by_key(medium, &base)?;
            self.by_agent(medium, &base)?;
        }
        Ok(())
    }

    /// The first tutorial's layout: `sessions.json` by key, and `transcripts/`.
    fn by_key(&mut self, medium: &dyn Medium, base: &Path) -> Result<()> {
        let folder = base.join("transcripts");
        let files = transcripts(medium, &folder)?;
        let Some(files) = files else { return Ok(()) };
        let mut rows: HashMap<String, Candidate> = HashMap::new();
        for (key, row) in self.index(medium, &base.join("sessions.json")) {
            let text = |name: &str| {
                json::members(&row).and_then(|row| json::member(&row, name).and_then(json::string).map(Cow::into_owned))
            };
            let file = text("transcript_file").unwrap_or_default();
            if !files.contains(&file) {
                self.problems.push(format!("the index lists `{key}`, but its transcript `{file}` is not there"));
                continue;
            }
            rows.insert(
                file,
                Candidate {
                    key: Some(key),
                    id: text("session_id"),
                    created_ms: text("created_at").and_then(|time| json::timestamp_ms(&json::quote(&time))),
                    ..Candidate::default()
                },
            );
        }
        for file in files {
            let row = rows
                .remove(&file)
                .unwrap_or_else(|| Candidate { guessed_key: key_from_name(&file), ..Candidate::default() });
            self.candidates.push(Candidate { path: folder.join(&file), ..row });
        }
        Ok(())
    }

    /// The second tutorial's layout: `agents/<agent>/sessions.json` by id, and `agents/<agent>/sessions/`.
    fn by_agent(&mut self, medium: &dyn Medium, base: &Path) -> Result<()> {
        let folder = base.join("agents");
        let agents = match medium.list(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.context("list", &folder)?,
        };
        for (agent, kind) in agents {
            if kind == FileKind::Directory {
                self.agent(medium, &folder.join(&agent), Some(&agent))?;
            }
        }
        Ok(())
    }

    fn agent(&mut self, medium: &dyn Medium, folder: &Path, agent: Option<&str>) -> Result<()> {
        let Some(files) = transcripts(medium, &folder.join("sessions"))? else { return Ok(()) };
        if files.is_empty() && medium.stat(&folder.join("sessions.json")).is_err() {
            return Ok(());
        }
        let mut rows: HashMap<String, Candidate> = HashMap::new();
        for (id, row) in self.index(medium, &folder.join("sessions.json")) {
            let file = format!("{id}.jsonl");
            if !files.contains(&file) {
                self.problems.push(format!("the index lists `{id}`, but its transcript `{file}` is not there"));
                continue;
            }
            let row = json::members(&row).unwrap_or_default();
            rows.insert(
                file,
                Candidate {
                    id: Some(id),
                    label: json::member(&row, "label")
                        .and_then(json::string)
                        .map(Cow::into_owned)
                        .filter(|label| !label.is_empty()),
                    created_ms: json::member(&row, "created_at").and_then(json::timestamp_ms),
                    ..Candidate::default()
                },
            );
        }
        for file in files {
            let row = rows.remove(&file).unwrap_or_default();
            let guessed_key = agent.and_then(|agent| Key::new(agent, "cli", None, "user").ok());
            let guessed_key = guessed_key.map(|key| key.to_string());
            self.candidates.push(Candidate { path: folder.join("sessions").join(&file), guessed_key, ..row });
        }
        Ok(())
    }

    fn loose(&mut self, medium: &dyn Medium, folder: &Path) -> Result<()> {
        let bundles = named(medium, folder, |name| is_bundle(Path::new(name)))?;
        for file in bundles.unwrap_or_default() {
            self.candidates.push(Candidate { path: folder.join(&file), ..Candidate::default() });
        }
        for file in transcripts(medium, folder)?.unwrap_or_default() {
            let guessed_key = key_from_name(&file);
            self.candidates.push(Candidate { path: folder.join(&file), guessed_key, ..Candidate::default() });
        }
        Ok(())
    }

    /// The members of an index; one that is not there is empty, one that is damaged is reported.
    fn index(&mut self, medium: &dyn Medium, path: &Path) -> Vec<(String, String)> {
        let bytes = match read_small(medium, path, MAX_INDEX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.problems
                    .push(format!("there is no index `{}`; the transcripts are taken as they are", path.display()));
                return Vec::new();
            }
            Err(error) => {
                self.problems.push(format!("the index `{}` cannot be read: {error}", path.display()));
                return Vec::new();
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        match json::members(text.trim()) {
            // The snapshot of this program's own store says nothing that its transcripts do not say.
            Some(members) if members.iter().any(|(name, _)| name == "version") => Vec::new(),
            Some(members) => members.into_iter().map(|(name, row)| (name.into_owned(), row.to_owned())).collect(),
            None => {
                let path = path.display();
                self.problems.push(format!("the index `{path}` is damaged; the transcripts are taken as they are"));
                Vec::new()
            }
        }
    }
}

/// The transcripts in a folder, sorted; `None` if there is no such folder.
fn transcripts(medium: &dyn Medium, folder: &Path) -> Result<Option<Vec<String>>> {
    named(medium, folder, |name| is_transcript(Path::new(name)))
}

/// Whether a file looks like a bundle.
fn is_bundle(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// The files in a folder whose name fits, sorted; `None` if there is no such folder.
fn named(medium: &dyn Medium, folder: &Path, fits: impl Fn(&str) -> bool) -> Result<Option<Vec<String>>> {
    let entries = match medium.list(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.context("list", folder)?,
    };
    let mut names: Vec<String> = entries
        .into_iter()
        .filter(|(name, kind)| *kind == FileKind::File && fits(name))
        .map(|(name, _)| name)
        .collect();
    names.sort();
    Ok(Some(names))
}

/// `main_cli_user_0123456789ab.jsonl` was made from the key `main:cli:user`.
fn key_from_name(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".jsonl")?;
    let (key, id) = stem.rsplit_once('_')?;
    let is_id = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = key.splitn(3, '_');
    let (agent, channel, peer) = (parts.next()?, parts.next()?, parts.next()?);
    is_id.then(|| format!("{agent}:{channel}:{peer}"))
}
