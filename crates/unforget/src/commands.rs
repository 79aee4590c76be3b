//! The commands, one module each, and what they share: the store, the output, the meaning of REF.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::CommandFactory as _;
use unforget_core::directory::{Directory, Entry, Listing};
use unforget_core::history::Limits;
use unforget_core::layout;
use unforget_core::layout::Place;
use unforget_core::listing::{ListQuery, Page};
use unforget_core::log::Durability;
use unforget_core::medium::{Medium, Os};
use unforget_core::reader::LogReader;
use unforget_core::report::Report;
use unforget_core::scan::{Scan, Scanner};
use unforget_core::session::Session;
use unforget_core::stamp::SessionId;
use unforget_core::store::{Holders, Notes, Store};
use unforget_core::view::{self, Restored};
use unforget_core::{Error, blob::Blobs};
use unforget_server::api::messages::ListedNote;

use crate::cli::{Chat, Cli, Command};
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;
use crate::{home, screen};

mod append;
pub(crate) mod checkpoint;
pub(crate) mod claude;
mod config;
mod confined;
pub(crate) mod conversation;
mod diff;
mod doctor;
mod edit;
mod export;
pub(crate) mod files;
mod fork;
pub(crate) mod gc;
mod import;
mod index;
pub(crate) mod keep;
pub(crate) mod remote;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod sessions;
mod show;
mod store;
mod tail;
pub(crate) mod token;
pub(crate) mod trash;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod wrap;

/// Why a snapshot may not be writable, without anybody having to worry.
const EXPECTED: [ErrorKind; 3] = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::StorageFull];

/// Length of a UUID's text.
const FULL_ID: usize = 36;

/// What every command works with.
pub(crate) struct Context {
    pub(crate) store: Directory,
    /// Which sessions there are.
    pub(crate) catalog: Store,
    pub(crate) home: PathBuf,
    pub(crate) json: bool,
    /// Caches of a newer version that a person has heard of.
    told_newer: Mutex<BTreeSet<PathBuf>>,
}

pub(crate) fn run(cli: Cli, chat: impl Fn(&Context, &Chat) -> Result<Outcome>) -> Result<Outcome> {
    let command = match cli.command {
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "unforget", &mut script);
            std::io::stdout().write_all(&script)?;
            return Ok(Outcome::Done);
        }
        Some(Command::Man { command }) => {
            let mut page = Cli::command();
            page.build();
            let page = match command {
                None => page,
                Some(name) => page
                    .find_subcommand(&name)
                    .cloned()
                    .ok_or_else(|| Failure::usage(format!("there is no command `{name}`")))?,
            };
            clap_mangen::Man::new(page).render(&mut std::io::stdout())?;
            return Ok(Outcome::Done);
        }
        Some(Command::Config(configuration)) => return config::run(&configuration, cli.json),
        Some(Command::Confined(confined)) => return confined::run(&confined),
        Some(Command::Token(token)) => return token::run(&token.command, cli.json),
        other => other,
    };
    let home = home::directory(cli.home)?;
    let durability = match &command {
        Some(Command::Append(append)) => append.survives.into(),
        _ => Durability::PowerLoss,
    };
    let catalog = Store::builder(&home).durability(durability).open()?;
    let context =
        Context { store: catalog.directory().clone(), catalog, home, json: cli.json, told_newer: Mutex::default() };
    match command {
        None => chat(&context, &Chat { prompt: cli.prompt, ..Chat::default() }),
        Some(Command::Chat(args)) => chat(&context, &args),
        Some(Command::Sessions(sessions)) => sessions::run(&context, &sessions),
        Some(Command::Search(search)) => search::run(&context, &search),
        Some(Command::Show(show)) => show::run(&context, &show),
        Some(Command::Tail(tail)) => tail::run(&context, &tail),
        Some(Command::New(new)) => sessions::create(&context, &new),
        Some(Command::Rm(refs)) => trash::delete(&context, &refs),
        Some(Command::Undelete(refs)) => trash::undelete(&context, &refs),
        Some(Command::Import(import)) => import::run(&context, &import),
        Some(Command::Export(export)) => export::run(&context, &export),
        Some(Command::Tree(tree)) => tree::run(&context, &tree),
        Some(Command::Diff(diff)) => diff::run(&context, &diff),
        Some(Command::Fork(fork)) => fork::run(&context, &fork),
        Some(Command::Checkpoint(checkpoint)) => checkpoint::set(&context, &checkpoint),
        Some(Command::Edit(edit)) => edit::run(&context, &edit),
        Some(Command::Checkpoints(checkpoints)) => checkpoint::list(&context, &checkpoints),
        Some(Command::Append(append)) => append::run(&context, &append),
        Some(Command::Files(args)) => files::list(&context, &args),
        Some(Command::RestoreFiles(args)) => files::restore(&context, &args),
        Some(Command::Push(args)) => remote::carry::push(&context, &args),
        Some(Command::Pull(args)) => remote::carry::pull(&context, &args),
        Some(Command::Sync(args)) => remote::carry::sync(&context, &args),
        Some(Command::Remote(args)) => remote::run(&context, &args),
        Some(Command::Claude(args)) => claude::run(&context, &args),
        Some(Command::Serve(args)) => serve::run(&context, &args),
        Some(Command::Store(args)) => store::run(&context, &args),
        Some(Command::Index(index)) => index::run(&context, &index),
        Some(Command::Doctor(doctor)) => doctor::run(&context, &doctor),
        Some(Command::Usage(usage)) => usage::run(&context, &usage),
        Some(Command::Gc(gc)) => gc::run(&context, &gc),
        Some(Command::Expire(expire)) => keep::expire(&context, &expire),
        Some(Command::Label(label)) => keep::label(&context, &label),
        Some(Command::Pin(pin)) => keep::pin(&context, &pin),
        Some(
            Command::Completions { .. }
            | Command::Man { .. }
            | Command::Config(_)
            | Command::Confined(_)
            | Command::Token(_),
        ) => Ok(Outcome::Done),
    }
}

/// A transcript that a command looks at: one of the store's, or a file somewhere.
pub(crate) struct Transcript {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    blobs: Blobs,
    pub(crate) name: String,
}

impl Transcript {
    pub(crate) fn reader(&self) -> Result<LogReader> {
        Ok(LogReader::open(self.medium.as_ref(), &self.path)?)
    }

    pub(crate) fn restore(&self, limits: &Limits) -> Result<Restored> {
        Ok(view::restore(self.medium.as_ref(), &self.path, &self.blobs, limits)?)
    }

    /// Whether another program wrote it.
    pub(crate) fn is_foreign(&self) -> Result<bool> {
        let reader = self.reader()?;
        let mut forward = reader.forward(0);
        let mut scanner = Scanner::default();
        let mut has_record = false;
        // The first lines may be damaged.
        while !has_record && let Some(line) = forward.next()? {
            scanner.feed(&line, |_| has_record = true);
        }
        Ok(scanner.is_foreign())
    }

    /// For each record the line with its payloads put back, or nothing where it has them; what is missing is noted.
    pub(crate) fn with_payloads(&self, scanned: &mut Scan<'_>) -> Result<Vec<Option<String>>> {
        let mut notes = Vec::new();
        let restore = |record| Ok(self.blobs.restore(record, &mut notes)?);
        let restored = scanned.records.iter().map(restore).collect::<Result<Vec<_>>>()?;
        for note in notes {
            scanned.report.add(note, 0);
        }
        Ok(restored)
    }

    /// Whether the name still leads to this file, and how long it is now.
    pub(crate) fn current_len(&self) -> std::io::Result<u64> {
        self.medium.stat(&self.path).map(|stat| stat.len)
    }

    /// The file's full path, for messages.
    pub(crate) fn shown_path(&self) -> PathBuf {
        self.medium.root().join(&self.path)
    }
}

impl Context {
    /// All sessions, each compared with its file.
    pub(crate) fn list(&self) -> Result<Listing> {
        Ok(Listing { entries: self.all(Place::Agents)?, ..Listing::default() })
    }

    /// All sessions of a place.
    pub(crate) fn all(&self, place: Place) -> Result<Vec<Entry>> {
        let answer = self.with_progress(|progress| self.catalog.all(place, progress))?;
        self.tell_notes(&answer.notes)?;
        self.refresh()?;
        Ok(answer.value)
    }

    /// A part of the list, and who is writing what.
    pub(crate) fn page(&self, ask: &ListQuery) -> Result<(Page, Holders)> {
        let (answer, holders) = self.with_progress(|progress| self.catalog.page(ask, progress))?;
        self.tell_notes(&answer.notes)?;
        Ok((answer.value, holders))
    }

    fn with_progress<T>(&self, work: impl FnOnce(&mut dyn FnMut(&Path, u64)) -> unforget_core::Result<T>) -> Result<T> {
        // Most answers take a moment only: the bar comes with the first file that is read.
        let mut progress = None;
        Ok(work(&mut |_, _| progress.get_or_insert_with(|| Progress::new("reading sessions")).step())?)
    }

    pub(crate) fn tell_notes(&self, notes: &Notes) -> Result<()> {
        for (path, why) in &notes.unusable {
            self.tell(&format!("note: {}: {why}; the list was rebuilt from the transcripts", path.display()))?;
        }
        for (path, why) in &notes.newer {
            // Each answer meets it again, and one word about it is enough.
            if self.told_newer.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone()) {
                self.tell(&format!("note: {}: {why}; it was left alone, and the transcripts answer", path.display()))?;
            }
        }
        for (path, before, now) in &notes.shortened {
            let path = path.display();
            self.tell(&format!("damage: {path} had {before} records and now has {now}: its end is gone"))?;
        }
        for (path, why) in &notes.unreadable {
            self.tell(&format!("note: the sessions in {} are not listed: {why}", path.display()))?;
        }
        Ok(())
    }

    /// Brings the readable snapshots up to date; done when the answer is out.
    pub(crate) fn refresh(&self) -> Result<()> {
        match self.catalog.refresh() {
            Ok(notes) => self.tell_notes(&notes),
            // The snapshot is a convenience: a list from a read-only or full disk is as good without it.
            Err(error) if EXPECTED.iter().any(|kind| error.is_io(*kind)) => Ok(()),
            Err(error) => self.tell(&format!("note: {error}")),
        }
    }

    /// The session that a name means.
    pub(crate) fn resolve(&self, name: &str) -> Result<Entry> {
        // A full id needs no list, however many sessions there are and however long they are.
        if name.len() >= FULL_ID
            && let Some(id) = SessionId::parse(name)
            && let Some(entry) = self.store.entry(&id)?
        {
            return Ok(entry);
        }
        if let Some(entry) = self.at_path(Path::new(name))? {
            return Ok(entry);
        }
        match self.find(Place::Agents, name) {
            Err(Error::NotFound { what, name }) => {
                let failure = Failure::from(Error::NotFound { what, name: name.clone() });
                Err(match self.find(Place::Trash, &name) {
                    Ok(_) => failure.hint(format!("it is in the trash: `unforget undelete {name}` brings it back")),
                    Err(_) => failure,
                })
            }
            other => Ok(other?),
        }
    }

    /// The session of a place that a name means.
    pub(crate) fn find(&self, place: Place, name: &str) -> unforget_core::Result<Entry> {
        let mut progress = None;
        let mut step = |_: &Path, _: u64| progress.get_or_insert_with(|| Progress::new("reading sessions")).step();
        self.catalog.resolve(place, name, &mut step).map(|answer| answer.value)
    }

    /// The session whose transcript in this store a path leads to.
    fn at_path(&self, path: &Path) -> Result<Option<Entry>> {
        let (Ok(path), Ok(home)) = (path.canonicalize(), self.home.canonicalize()) else { return Ok(None) };
        let id = path.file_name().and_then(|name| layout::transcript_id(&name.to_string_lossy()));
        match id.filter(|_| path.starts_with(home.join(layout::AGENTS))) {
            Some(id) => Ok(self.store.entry(&id)?),
            None => Ok(None),
        }
    }

    /// The transcript that a name means, which may be a path.
    pub(crate) fn transcript(&self, name: &str) -> Result<Transcript> {
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file() {
            let (folder, file) = home::split_path(path);
            let medium: Arc<dyn Medium> = Arc::new(Os::new(folder));
            return Ok(Transcript { medium, path: file, blobs: self.store.blobs(), name: name.to_owned() });
        }
        let entry = self.resolve(name)?;
        let path = self.store.path(&entry)?;
        let medium = self.store.medium().clone();
        let name = entry.row.key.unwrap_or(entry.row.id);
        Ok(Transcript { medium, path, blobs: self.store.blobs(), name })
    }

    /// Ends the writing of a session. What the index does not learn now it finds out by itself.
    pub(crate) fn close(&self, session: Session) {
        match session.close() {
            Ok(()) | Err(_) => {}
        }
    }

    /// Says something to the person, on stderr.
    pub(crate) fn tell(&self, text: &str) -> Result<()> {
        writeln!(anstream::stderr(), "{}", screen::safe(text))?;
        Ok(())
    }

    /// Tells of damage and oddities, with their places, and turns damage into the exit code.
    pub(crate) fn tell_damage(&self, path: &Path, report: &Report) -> Result<Outcome> {
        const TOLD: usize = 10;
        for note in report.damage().take(TOLD).chain(report.oddities().take(TOLD)) {
            let path = path.display();
            if self.json {
                self.tell(
                    &serde_json::to_string(&FileNote::of(&path.to_string(), note)).map_err(std::io::Error::from)?,
                )?;
            } else {
                let what = if note.kind.is_damage() { "damage" } else { "note" };
                self.tell(&format!("{what}: {path}, {}: {}", note.place(), note.kind))?;
            }
        }
        let odd = report.oddity_count().saturating_sub(TOLD as u64);
        if odd > 0 && !self.json {
            self.tell(&format!("note: {odd} more oddities; `unforget show --json` lists them"))?;
        }
        let count = report.damage_count();
        if count == 0 {
            return Ok(Outcome::Done);
        }
        if !self.json {
            let more = count.saturating_sub(TOLD as u64);
            let rest = if more > 0 { format!("{more} more; ") } else { String::new() };
            self.tell(&format!("hint: {rest}everything else is shown; `unforget doctor` checks the whole store"))?;
        }
        Ok(Outcome::MetDamage)
    }
}

/// A note as JSON, with the file that it is about.
#[derive(serde::Serialize)]
pub(crate) struct FileNote<'a> {
    file: &'a str,
    weight: &'static str,
    #[serde(flatten)]
    note: ListedNote,
}

impl<'a> FileNote<'a> {
    pub(crate) fn of(file: &'a str, note: &unforget_core::report::Note) -> Self {
        Self { file, weight: note.kind.weight().name(), note: ListedNote::of(note) }
    }
}
