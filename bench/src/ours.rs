//! The library itself as a contestant: the store, a session, the fold.
//!
//! Everything goes through the public interface of `unforget-core`, as the program would use it. `list`, `open` and `search` are the
//! in-process figures of W5 and W7; the whole commands are in [`crate::program`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use unforget_core::blob::Blobs;
use unforget_core::directory::Directory;
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::listing::ListQuery;
use unforget_core::log::Durability;
use unforget_core::medium::Os;
use unforget_core::reader::LogReader;
use unforget_core::recent::Recent;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::stamp::System;
use unforget_core::store::Store;
use unforget_testkit::corpus::Plan;

use crate::options::BUDGET;
use crate::serve::{Contest, Place, Request, measured, missing, timed};
use crate::{Result, context, data};

const LONG: &str = "long.jsonl";
const STORE: &str = "store";
/// Records that are appended at once while a session is filled.
const BATCH: usize = 300;

/// The library at work.
pub(crate) struct Ours {
    work: PathBuf,
    durability: Durability,
    turns: Vec<Vec<Draft>>,
    sessions: HashMap<String, Vec<Session>>,
}

impl Ours {
    pub(crate) fn new(place: &Place) -> Result<Self> {
        let durability = if place.is_synced { Durability::PowerLoss } else { Durability::ProcessDeath };
        let turns = data::read_turns(&place.turns)?;
        Ok(Self { work: place.work.clone(), durability, turns, sessions: HashMap::new() })
    }

    fn store(&self, folder: &str) -> Directory {
        Directory::new(Arc::new(Os::new(self.work.join(folder))), Arc::new(System), self.durability)
    }

    /// A fresh store with some sessions open, and others beside them.
    fn fill(&mut self, request: &Request) -> Result<Value> {
        let (folder, count) = (request.text("folder")?, request.number("sessions")?);
        let others = request.number("others").unwrap_or(0);
        data::write_store(&self.work.join(folder), &Plan { seed: 9, sessions: others, bytes: 0 })?;
        let store = self.store(folder);
        let mut sessions = Vec::with_capacity(count);
        for number in 0..count {
            let key: Key = context(format!("main:bench:{number}").parse(), "a key")?;
            sessions.push(context(store.create(&key, None), "create")?);
        }
        if let (Ok(history), Some(first)) = (request.path("history"), sessions.first_mut()) {
            let text = context(std::fs::read_to_string(history), history.display())?;
            let drafts = text.lines().skip(1).map(again).collect::<Result<Vec<_>>>()?;
            for batch in drafts.chunks(BATCH) {
                context(first.append(batch), "append")?;
            }
        }
        self.sessions.insert(folder.to_owned(), sessions);
        Ok(json!({}))
    }

    fn opened(&mut self, folder: &str) -> Result<&mut Vec<Session>> {
        self.sessions.get_mut(folder).ok_or_else(|| format!("no sessions in `{folder}`"))
    }

    fn append(&mut self, folder: &str, turn: usize) -> Result<Value> {
        let drafts = self.turns.get(turn % self.turns.len().max(1)).cloned().unwrap_or_default();
        let session = self.opened(folder)?.first_mut().ok_or("no session")?;
        timed(|| context(session.append(&drafts), "append").map(Iterator::count))
    }

    /// Many sessions at once: each thread has its own ones and goes round them.
    fn many(&mut self, folder: &str, turns: usize, threads: usize) -> Result<Value> {
        let all = self.turns.clone();
        let sessions = self.opened(folder)?;
        let (count, share) = (sessions.len(), sessions.len().div_ceil(threads));
        let work = |first: usize, own: &mut [Session]| -> Result<usize> {
            let mut done = 0;
            for round in 0..turns.div_ceil(count) {
                for (at, session) in own.iter_mut().enumerate() {
                    let turn = round * count + first + at;
                    if turn < turns {
                        context(session.append(&all[turn % all.len()]), "append")?;
                        done += 1;
                    }
                }
            }
            Ok(done)
        };
        timed(|| {
            std::thread::scope(|scope| {
                let parts = sessions.chunks_mut(share.max(1)).enumerate();
                let threads: Vec<_> = parts.map(|(part, own)| scope.spawn(move || work(part * share, own))).collect();
                threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread died".to_owned())?).sum()
            })
        })
    }

    /// A name of its own for the long session: the store follows no symbolic link.
    fn take_session(&self, file: &Path) -> Result<Value> {
        context(std::fs::hard_link(file, self.work.join(LONG)), file.display())?;
        Ok(json!({}))
    }

    /// The store is used where it is.
    fn take_store(&self, folder: &Path) -> Result<Value> {
        let home = folder.join("home");
        context(std::fs::write(self.work.join(STORE), home.to_string_lossy().as_bytes()), STORE)?;
        Ok(json!({}))
    }

    fn taken(&self) -> Result<Store> {
        let home = context(std::fs::read_to_string(self.work.join(STORE)), STORE)?;
        context(Store::builder(home).durability(self.durability).open(), STORE)
    }

    fn restore(&self, limits: &Limits) -> Result<usize> {
        let medium = Arc::new(Os::new(&self.work));
        let blobs = Blobs::new(medium.clone());
        let restored = unforget_core::view::restore(medium.as_ref(), Path::new(LONG), &blobs, limits);
        Ok(context(restored, "restore")?.history.to_json().len())
    }

    /// How many records the budget of W4 holds; peers that count rows are given this number.
    fn tail(&self) -> Result<Value> {
        let reader = context(LogReader::open(&Os::new(&self.work), Path::new(LONG)), "open")?;
        let recent = context(Recent::read(&reader, &Limits::tokens(BUDGET)), "read")?;
        Ok(json!({ "count": recent.scan().0.len() }))
    }

    fn list(&self, limit: usize) -> Result<Value> {
        let catalog = self.taken()?;
        let ask = ListQuery { limit, ..ListQuery::default() };
        let list = || Ok(context(catalog.page(&ask, &mut |_, _| {}), "list")?.0.value.entries.len());
        // Opening the database and catching up with what happened since is what a command pays; a program pays it once.
        list()?;
        timed(list)
    }

    fn open(&self, key: &str) -> Result<Value> {
        let (catalog, key): (Store, Key) = (self.taken()?, context(key.parse(), "a key")?);
        let find = || context(catalog.last_used(&key, &mut |_, _| {}), "find")?.value.ok_or("no session".to_owned());
        find()?;
        timed(|| {
            let session = context(catalog.directory().open(&find()?), "open")?;
            Ok(context(session.history(&Limits::tokens(BUDGET)), "read")?.history.messages.len())
        })
    }
}

/// A record of a transcript, to be said again without its envelope.
fn again(line: &str) -> Result<Draft> {
    let mut members: serde_json::Map<String, Value> = context(serde_json::from_str(line), "a record")?;
    for name in ["v", "n", "parent", "crc"] {
        members.remove(name);
    }
    context(Draft::from_json(&Value::Object(members).to_string()), "a record")
}

impl Contest for Ours {
    fn answer(&mut self, request: &Request) -> Result<Value> {
        match request.op() {
            "hello" => Ok(match self.durability {
                Durability::PowerLoss => json!({ "version": "this commit", "sync": "each turn (fdatasync)" }),
                Durability::ProcessDeath => json!({ "version": "this commit", "sync": "never" }),
            }),
            "fill" => self.fill(request),
            "append" => self.append(request.text("folder")?, request.number("turn")?),
            "many" => self.many(request.text("folder")?, request.number("turns")?, request.number("threads")?),
            "take_session" => self.take_session(request.path("file")?),
            "take_store" => self.take_store(request.path("store")?),
            "tail" => self.tail(),
            "whole" => measured(|| self.restore(&Limits { bytes: usize::MAX, messages: usize::MAX, tokens: None })),
            "resume" => measured(|| self.restore(&Limits::tokens(BUDGET))),
            "list" => self.list(request.number("limit")?),
            "open" => self.open(request.text("key")?),
            // W7 asks `search` with a `word`; the whole command is measured.
            "search" => Ok(missing("the command is measured")),
            _ => Ok(missing("it has no such thing")),
        }
    }
}
