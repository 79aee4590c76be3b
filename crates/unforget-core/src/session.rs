//! A session opened for writing: drafts in, durable records out.
//!
//! It holds the log's lock for its life and knows the three things that the next line needs: its number, its parent and
//! the checksum before it. They change only after the log has acknowledged, so a failed append can simply be tried
//! again. Large payloads are in the blob store before the line that refers to them is written. What the model sees is
//! kept in a view that acknowledged lines alone feed: a request is built of nothing else.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::blob::Blobs;
use crate::error::{Change, Error, IoContext as _, Result};
use crate::exposure::Exposure;
use crate::history::{self, Limits, Path, UNKNOWN_OUTCOME};
use crate::json;
use crate::key::Key;
use crate::layout::AgentDir;
use crate::lines::MAX_LINE;
use crate::log::{Durability, Log, Sealed};
use crate::medium::{Medium, Stat};
use crate::observer::{Folds, NotObserved, Notice, SessionObserver, Touched};
use crate::reader::LogReader;
use crate::recent::{End, context_in_force};
use crate::record::{Body, Draft, Envelope};
use crate::report::Report;
use crate::stamp::{SessionId, SharedSource};
use crate::summary::{Fold, Row, claude_key};
use crate::tree::Tree;
use crate::view::{self, Restored, Slot, ViewCache};

/// A session opened for writing.
pub struct Session {
    medium: Arc<dyn Medium>,
    source: SharedSource,
    blobs: Blobs,
    log: Log,
    id: SessionId,
    key: Key,
    end: End,
    /// How far it is written, for those who follow it.
    position: Arc<Mutex<Position>>,
    sealed: Option<Sealed>,
    notice: Option<Notice>,
    /// The conversation as it was looked at last, fed since; none if it has to be read.
    view: Slot,
    /// The row and the branches, fed like the view; none before they are asked for.
    folds: Mutex<Option<Folds>>,
}

/// What all sessions of a store share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) source: SharedSource,
    /// What an acknowledged write survives.
    pub(crate) durability: Durability,
    pub(crate) observer: Option<Arc<dyn SessionObserver>>,
    pub(crate) views: Arc<ViewCache>,
}

/// A place in a transcript: behind whole lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// In bytes.
    pub offset: u64,
    /// The number that the next line has, as far as it is known.
    pub next: u64,
}

/// Knows how far an open session is written, without a look at its file.
#[derive(Debug, Clone, Default)]
pub struct Follower(Weak<Mutex<Position>>);

impl Follower {
    /// Where the next line begins; none once the session is closed.
    pub fn position(&self) -> Option<Position> {
        self.0.upgrade().map(|position| *position.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A draft whose large payloads are in the blob store, and where it refers to them.
type Encodable = (Draft, Vec<String>);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("key", &self.key)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a transcript; `key` is for one whose header was lost.
    pub(crate) fn open(shared: &Shared, dir: &AgentDir, id: SessionId, key: Key) -> Result<Self> {
        let (medium, path) = (&shared.medium, &dir.transcript(&id));
        let found = header(&LogReader::open(medium.as_ref(), path)?)?;
        if found.as_ref().is_some_and(|header| header.is_foreign) {
            return Err(Error::NotOurs { path: path.clone(), owner: CLAUDE_CODE });
        }
        if let Some(found) = found.as_ref().and_then(|header| header.id.clone()).filter(|found| *found != id.as_str()) {
            return Err(Error::Mismatch { path: path.clone(), found });
        }
        let (log, sealed) = Log::open(medium.clone(), path, shared.durability)?;
        let end = End::of(&LogReader::open(medium.as_ref(), path)?)?;
        let known = found.as_ref().and_then(|header| header.key.as_deref()).and_then(|key| key.parse().ok());
        let has_header = found.is_some();
        let key = known.unwrap_or(key);
        let notice = shared.observer.clone().map(|observer| Notice::new(observer, dir.clone(), id.clone()));
        let mut session = Self {
            blobs: Blobs::new(medium.clone()),
            medium: medium.clone(),
            source: shared.source.clone(),
            log,
            id,
            key,
            end,
            position: Arc::default(),
            sealed,
            notice,
            view: Slot::new(shared.views.clone()),
            folds: Mutex::default(),
        };
        session.publish();
        if session.sealed.is_some() {
            session.tell();
        }
        if !has_header {
            let id = session.id.clone();
            let header = header_draft(&id, &session.key, None).raw("repair", "true");
            session.append(&[header])?;
        }
        Ok(session)
    }

    /// Where the next line begins.
    pub fn position(&self) -> Position {
        Position { offset: self.log.len(), next: self.end.next }
    }

    /// Something that knows the position for as long as the session is open.
    pub fn follow(&self) -> Follower {
        Follower(Arc::downgrade(&self.position))
    }

    fn publish(&self) {
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = self.position();
    }

    /// Tells the index, once, that the session changes.
    fn tell(&mut self) {
        self.notice.iter_mut().for_each(Notice::give);
    }

    /// What the index is to be told about after a turn: nothing if nothing was written.
    pub fn touched(&self) -> Option<&Touched> {
        self.notice.as_ref().and_then(Notice::touched)
    }

    /// Ends the writing: the index is brought up to date while the session's lock is still held, so that no other
    /// writer's mark is taken. The error is only about the index; it will look for itself later.
    pub fn close(self) -> std::result::Result<(), NotObserved> {
        self.notice.as_ref().map_or(Ok(()), Notice::close)
    }

    /// Why others can change the transcript, unless that is what they were let in for.
    pub fn exposure(&self) -> Option<Exposure> {
        // A file that cannot be looked at will say so when it is written.
        let found = Exposure::of(self.medium.as_ref(), self.log.path()).ok().flatten();
        found.filter(Exposure::is_alarming)
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The transcript, relative to the store.
    pub fn path(&self) -> &std::path::Path {
        self.log.path()
    }

    /// The record that the conversation goes on from.
    pub fn head(&self) -> Option<u64> {
        self.end.head
    }

    /// Where the transcript ends.
    pub(crate) fn end(&self) -> End {
        self.end
    }

    /// The row and the branches. The index has them up to a place; the rest is read once, and then fed by what is appended.
    pub(crate) fn fold<T>(&self, look: impl FnOnce(&Fold) -> T) -> Result<T> {
        self.with_folds(|folds, _| look(&folds.fold))
    }

    fn with_folds<T>(&self, look: impl FnOnce(&Folds, &Stat) -> T) -> Result<T> {
        let path = self.log.path();
        let stat = self.medium.stat(path).context("look at", path)?;
        let known = self.lock_folds().take().filter(|folds| folds.scanned == stat.len);
        let folds = match known {
            Some(folds) => folds,
            None => {
                let reader = self.reader()?;
                let indexed = self.notice.as_ref().and_then(|notice| notice.folds(&reader));
                let mut folds = indexed.unwrap_or_default();
                folds.read_on(&reader)?;
                folds
            }
        };
        let seen = look(&folds, &stat);
        *self.lock_folds() = Some(folds);
        Ok(seen)
    }

    fn lock_folds(&self) -> MutexGuard<'_, Option<Folds>> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a list says about the session.
    pub fn row(&self) -> Result<Row> {
        self.with_folds(|folds, stat| {
            let damage = folds.damage + folds.scanner.report.damage_count();
            folds.fold.clone().finish(self.id.as_str(), stat.len, stat.modified_ns, damage)
        })
    }

    /// The branches.
    pub fn tree(&self) -> Result<Tree> {
        self.fold(|fold| fold.tree().clone())
    }

    /// What had to be done to the tail when the session was opened.
    pub fn sealed(&self) -> Option<&Sealed> {
        self.sealed.as_ref()
    }

    /// The blob store.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Appends records; when this returns, all of them are durable. They get the numbers returned.
    ///
    /// Behind a compaction the context in force is stated again, which takes one more number.
    ///
    /// On an error none of them was written, and the same call may be made again. After
    /// [`Error::Poisoned`] that takes [`Session::reopen`] first.
    pub fn append(&mut self, drafts: &[Draft]) -> Result<Range<u64>> {
        let mut slim = Vec::with_capacity(drafts.len());
        for draft in drafts {
            draft.check()?;
            draft.check_names()?;
            slim.push(self.blobs.extract(draft)?);
        }
        match self.write(&slim) {
            // Someone added lines without the lock: theirs are kept, ours come behind them.
            Err(Error::Changed { change: Change::Grown, .. }) => {
                self.reopen()?;
                self.write(&slim)
            }
            other => other,
        }
    }

    /// The drafts, with the context in force stated again behind every compaction.
    ///
    /// A reader stops at the compaction, and the system prompt may be a gigabyte before it.
    fn with_context<'d>(&self, drafts: &'d [Encodable]) -> Result<Cow<'d, [Encodable]>> {
        if !drafts.iter().any(|(draft, _)| draft.kind() == "compaction") {
            return Ok(Cow::Borrowed(drafts));
        }
        let mut out = Vec::with_capacity(drafts.len() + 1);
        let mut head = self.end.head;
        // Looked up when it is needed: it may cost a read.
        let mut known: Option<Option<Encodable>> = None;
        for (at, encodable) in drafts.iter().enumerate() {
            out.push(encodable.clone());
            let follows = drafts.get(at + 1).map(|(draft, _)| draft.kind());
            match encodable.0.kind() {
                "context" => known = Some(Some(encodable.clone())),
                "head" => (head, known) = (encodable.0.moves_head_to(0).flatten(), None),
                "compaction" if follows != Some("context") => {
                    let context = match (known.take(), head) {
                        (Some(context), _) => context,
                        (None, None) => None,
                        (None, Some(head)) => self.context_in_force(head)?,
                    };
                    out.extend(context.clone());
                    known = Some(context);
                }
                _ => {}
            }
        }
        Ok(Cow::Owned(out))
    }

    fn context_in_force(&self, head: u64) -> Result<Option<Encodable>> {
        if let Some(view) = self.view.take() {
            let known = view.context_in_force(head);
            self.view.put(view);
            if let Some(context) = known {
                return Ok(context);
            }
        }
        context_in_force(&self.reader()?, head)
    }

    fn write(&mut self, drafts: &[Encodable]) -> Result<Range<u64>> {
        let drafts = self.with_context(drafts)?;
        let drafts = drafts.as_ref();
        let now_ms = self.source.now_ms();
        let mut end = self.end;
        let mut batch = String::new();
        for (draft, blobs) in drafts {
            if let ("head", Some(Some(to))) = (draft.kind(), draft.moves_head_to(0))
                && to >= end.next
            {
                return Err(Error::Invalid(format!("there is no record {to} to go on from")));
            }
            batch.push_str(&encode_next(&mut end, draft, blobs, now_ms)?);
        }
        self.tell();
        let first = self.end.next;
        let (view, folds) = (self.view.take(), self.lock_folds().take());
        self.log.append(batch.as_bytes())?;
        self.end = end;
        self.publish();
        *self.lock_folds() = folds.map(|mut folds| {
            folds.feed(&batch);
            folds
        });
        if let Some(mut view) = view
            && view.feed(&batch, &self.blobs)
        {
            self.view.put(view);
        }
        Ok(first..end.next)
    }

    /// Saves a finished turn at once: the user's words, then the model's content blocks.
    pub fn save_turn(&mut self, user: &str, blocks: &str) -> Result<Range<u64>> {
        let blocks =
            json::elements(blocks).ok_or_else(|| Error::Invalid("content blocks must be a JSON array".to_owned()))?;
        let msg = format!("turn-{}", self.end.next);
        let mut drafts = vec![Draft::user(user)];
        drafts.extend(blocks.iter().map(|block| block_draft(&msg, block)));
        drafts.push(Draft::turn("done"));
        self.append(&drafts)
    }

    /// Writes down, as results, that the outcome of every unanswered call is unknown.
    ///
    /// After this the history does not depend on whether the real result turns up later.
    pub fn settle(&mut self, limits: &Limits) -> Result<Range<u64>> {
        let unanswered = self.history(limits)?.history.unanswered;
        let drafts: Vec<Draft> = unanswered
            .iter()
            .map(|(id, _)| {
                Draft::tool_result(id, &json::quote(UNKNOWN_OUTCOME)).raw("is_error", "true").raw("repair", "true")
            })
            .collect();
        self.append(&drafts)
    }

    /// The conversation as it would be sent now.
    pub fn history(&self, limits: &Limits) -> Result<Restored> {
        self.view(limits, |path, report| Restored { history: history::rebuild(path, limits).into_owned(), report })
    }

    /// Shows the records that the conversation goes on from. They are read once, and then fed by what is appended.
    pub fn view<T>(&self, limits: &Limits, look: impl FnOnce(&Path<'_, '_>, Report) -> T) -> Result<T> {
        let path = self.log.path();
        if let Some(view) = self.view.take() {
            // Lines that another program added without the lock are in no view.
            let stat = self.medium.stat(path).context("look at", path)?;
            if view.is_of(stat.len, stat.identity, limits) {
                let seen = view.look(look);
                self.view.put(view);
                return Ok(seen);
            }
        }
        let reader = LogReader::open(self.medium.as_ref(), path)?;
        let (seen, view) = view::load(&reader, &self.blobs, limits, true, look)?;
        if let Some(view) = view {
            self.view.put(view);
        }
        Ok(seen)
    }

    /// Opens the transcript for reading.
    pub fn reader(&self) -> Result<LogReader> {
        LogReader::open(self.medium.as_ref(), self.log.path())
    }

    /// Opens the transcript anew, as after a failed sync.
    pub fn reopen(&mut self) -> Result<()> {
        drop((self.view.take(), self.lock_folds().take()));
        let sealed = self.log.reopen()?;
        self.sealed = sealed.or(self.sealed.take());
        match LogReader::open(self.medium.as_ref(), self.log.path()).and_then(|reader| End::of(&reader)) {
            Ok(end) => {
                self.end = end;
                self.publish();
                Ok(())
            }
            // Without the end, the next line would get a number and a checksum that are out of date.
            Err(error) => {
                self.log.poison();
                Err(error)
            }
        }
    }
}

/// The line of a draft behind `end`, which moves on.
pub(crate) fn encode_next(end: &mut End, draft: &Draft, blobs: &[String], now_ms: i64) -> Result<String> {
    // Only a damaged or forged number is so large. It must not be used twice.
    let next = end.next.checked_add(1).ok_or_else(|| Error::Invalid("record numbers are used up".to_owned()))?;
    let envelope = Envelope { n: end.next, parent: end.head.or(Some(0)), now_ms, previous_crc: end.crc };
    let (line, crc) = draft.encode_with_checksum(envelope, blobs);
    if line.len() > MAX_LINE {
        return Err(Error::Invalid(format!("a {} record of {} bytes is too long", draft.kind(), line.len())));
    }
    if let Some(head) = draft.moves_head_to(end.next) {
        end.head = head;
    }
    end.crc = crc;
    end.next = next;
    Ok(line)
}

/// A whole transcript: header and records, payloads already in the blob store.
pub(crate) fn encode_all(blobs: &Blobs, header: &Draft, drafts: &[Draft], now_ms: i64) -> Result<String> {
    let mut end = End::default();
    let mut text = encode_next(&mut end, header, &[], now_ms)?;
    for draft in drafts {
        draft.check()?;
        let (slim, pointers) = blobs.extract(draft)?;
        text.push_str(&encode_next(&mut end, &slim, &pointers, now_ms)?);
    }
    Ok(text)
}

/// The header record of a session.
pub(crate) fn header_draft(id: &SessionId, key: &Key, label: Option<&str>) -> Draft {
    let draft = Draft::new("session").text("id", id.as_str()).text("key", &key.to_string());
    match label {
        Some(label) => draft.text("label", label),
        None => draft,
    }
}

/// The draft of one content block of the model: calls are records of their own.
pub fn block_draft(msg: &str, block: &str) -> Draft {
    let members = json::members(block).unwrap_or_default();
    let text = |name| json::member(&members, name).and_then(json::string);
    match (text("type").as_deref(), text("id"), text("name"), json::member(&members, "input")) {
        (Some("tool_use"), Some(id), Some(name), Some(input)) if input.starts_with('{') => {
            let draft = Draft::tool_use(Some(msg), &id, &name, input);
            match json::member(&members, "caller") {
                Some(caller) => draft.raw("caller", caller),
                None => draft,
            }
        }
        _ => Draft::assistant(Some(msg), &format!("[{block}]")),
    }
}

/// What a transcript says it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OwnedHeader {
    pub(crate) id: Option<String>,
    pub(crate) key: Option<String>,
    /// SHA-256 of the file that it was imported from.
    pub(crate) origin: Option<String>,
    /// Whether another program writes it.
    pub(crate) is_foreign: bool,
}

/// The other program whose sessions are kept.
pub const CLAUDE_CODE: &str = "Claude Code";
/// How many lines of another program's session are looked at to learn where it worked.
const FOREIGN_LINES: u64 = 1000;

/// The header of a transcript, if its first record is one; a repaired one is looked for to the end.
pub(crate) fn header(reader: &LogReader) -> Result<Option<OwnedHeader>> {
    let mut scanner = crate::scan::Scanner::default();
    let mut forward = reader.forward(0);
    let mut found = None;
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| {
            if let Body::Session(header) = &record.body
                && found.is_none()
            {
                found = Some(OwnedHeader {
                    id: header.id.clone().map(std::borrow::Cow::into_owned),
                    key: header.key.clone().map(std::borrow::Cow::into_owned),
                    origin: header.origin_sha256(),
                    is_foreign: false,
                });
            }
            if let Some(key) = record.foreign.as_deref().and_then(|foreign| foreign.cwd.as_deref()).and_then(claude_key)
                && found.is_none()
            {
                found = Some(OwnedHeader { key: Some(key), is_foreign: true, ..OwnedHeader::default() });
            }
        });
        if found.is_some() || (scanner.is_foreign() && scanner.next_number() > FOREIGN_LINES) {
            break;
        }
    }
    // Some lines of another program do not say where it worked.
    let nameless = scanner.is_foreign().then(|| OwnedHeader { is_foreign: true, ..OwnedHeader::default() });
    Ok(found.or(nameless))
}
