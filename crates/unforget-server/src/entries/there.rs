//! The entries that are elsewhere: fetched before they are asked for, sent when they were appended.
//!
//! A file of entries is a stream at the remote, line for line, its first line included. Appending is by comparison there, so of two machines that append to
//! one key at the same time one is refused, and puts what it had behind what the other one wrote ([`merge`]): entries stand for themselves, so nobody has to
//! decide anything. A key that somebody deleted there is deleted here, too, but for what was appended here since.
//!
//! What may not be there yet is marked in an outbox before it is appended, and the mark goes when all was quiet for a moment: a row of appends costs one mark.
//! [`There::tend`] sends what is left, also what an earlier process left.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as Turn;
use tokio::time::Instant;
use unforget_core::stamp::SharedSource;
use unforget_remote::sync::{self, Bookmarks, Link, Local as _, Outbox, Plain, Waiting};
use unforget_remote::{Error, Gathering, Remote, Stream};

use super::here::Here;
use super::merge;
use super::place::{self, Header, Key, Place};
use crate::error::{Code, Problem, Result};
use crate::realm::Realm;

/// How long a remote may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after a silence nobody else waits for the remote, if what is here will do.
const GIVEN_UP: Duration = Duration::from_secs(5);
/// How long a key has to be quiet before its mark goes.
const QUIET: Duration = Duration::from_secs(2);
/// How many keys are fetched at a time.
const AT_A_TIME: usize = 8;
/// How often two sides are put together anew because others keep writing.
const ATTEMPTS: usize = 16;
/// How many batches of a key are remembered that callers were told to repeat.
const REFUSED: usize = 64;
/// How long: who repeats a call does so soon, and who says the same much later means it.
const REPEATED: Duration = Duration::from_secs(600);
/// How many keys are remembered at the most.
const REMEMBERED: usize = 1024;

/// What leads to a remote.
#[derive(Clone)]
pub struct Settings {
    /// The remote.
    pub remote: Arc<dyn Remote>,
    /// Whose the owner's entries are there.
    pub tenant: String,
    /// What the remote is called in a home.
    pub known_as: String,
    /// The clock.
    pub source: SharedSource,
    /// Whether an append counts only when the remote has it.
    pub is_awaited: bool,
}

/// The remote, and what is known of it.
pub(super) struct There {
    settings: Settings,
    /// Whose turn it is to carry a key's entries, and when they were appended last.
    carrying: Mutex<HashMap<PathBuf, Arc<Carrying>>>,
    /// Realms of which something may not be there yet.
    behind: Mutex<HashMap<PathBuf, Arc<Realm>>>,
    /// When somebody waited for the remote last and heard nothing.
    silent: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Carrying {
    turn: Turn<()>,
    appended: Mutex<Option<Instant>>,
    /// The latest batches that are here and whose callers were told that they are not there, and when.
    refused: Mutex<Vec<([u8; 32], Instant)>>,
}

impl std::fmt::Debug for There {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("There").field("known_as", &self.settings.known_as).finish_non_exhaustive()
    }
}

/// Which way entries are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    Both,
}

/// Who wants entries carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Somebody who waits for an answer.
    Caller,
    /// Nobody: it is tried again and again.
    Later,
}

fn away() -> Problem {
    Problem::new(Code::Unavailable, "the remote store does not answer; try again")
}

/// Fetches, then sends. What the remote had and has no more was deleted there.
async fn both_ways(parcel: &Parcel) -> unforget_remote::Result<()> {
    let is_ahead = match sync::pull(&parcel.link(), &mut |_| parcel.heard()).await {
        Ok(pulled) => pulled.ahead > 0,
        Err(Error::NotFound { what }) => {
            let known = parcel.bookmarks.get(parcel.local.dir(), parcel.local.id());
            if known.is_some_and(|known| known.end.lines > 0) && parcel.is_here() {
                return Err(Error::Deleted { what });
            }
            true
        }
        Err(error) => return Err(error),
    };
    if is_ahead {
        sync::push(&parcel.link(), &mut |_| parcel.heard()).await?;
    }
    Ok(())
}

/// One key, here and there.
pub(super) struct Parcel {
    pub(super) place: Place,
    pub(super) local: Plain,
    pub(super) remote: Arc<dyn Remote>,
    pub(super) stream: Stream,
    pub(super) bookmarks: Bookmarks,
    outbox: Outbox,
    /// When the remote was heard of last.
    heard: Mutex<Instant>,
}

impl Parcel {
    fn is_here(&self) -> bool {
        self.local.medium().stat(&self.local.path()).is_ok()
    }

    /// The remote answered.
    pub(super) fn heard(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Ends when nothing was heard of the remote for too long: a long session may take as long as it takes.
    async fn silence(&self) {
        loop {
            let until = *self.heard.lock().unwrap_or_else(PoisonError::into_inner) + PATIENCE;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    pub(super) fn link(&self) -> Link<'_> {
        let (local, remote) = (&self.local, self.remote.as_ref());
        Link { local, remote, stream: &self.stream, bookmarks: &self.bookmarks }
    }
}

impl There {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, carrying: Mutex::default(), behind: Mutex::default(), silent: Mutex::default() }
    }

    /// What another process would know.
    #[cfg(test)]
    pub(super) fn anew(&self) -> Self {
        Self::new(self.settings.clone())
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.settings.is_awaited
    }

    fn tenant(&self, realm: &Realm) -> String {
        realm.actor().tenant(&self.settings.tenant)
    }

    /// What is remembered of entries has a place of its own beside what is remembered of sessions.
    fn known_as(&self) -> String {
        format!("{}-entries", self.settings.known_as)
    }

    fn parcel(&self, realm: &Realm, place: Place, stream: Stream) -> Result<Parcel> {
        let medium = realm.store().medium();
        let local = Plain::new(medium.clone(), &place.file(), &place.dir(), &place.id()?);
        let remote = self.settings.remote.clone();
        let bookmarks = Bookmarks::new(medium.clone(), &self.known_as());
        let outbox = Outbox::new(medium.clone(), &self.known_as());
        Ok(Parcel { place, local, remote, stream, bookmarks, outbox, heard: Mutex::new(Instant::now()) })
    }

    fn of_key(&self, realm: &Realm, key: &Key) -> Result<Parcel> {
        self.parcel(realm, Place::of(key), key.stream(&self.tenant(realm))?)
    }

    fn carrying(&self, realm: &Realm, place: &Place) -> Arc<Carrying> {
        let mut all = self.carrying.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            // What a caller was told to repeat is not forgotten.
            let is_needed = |it: &Carrying| {
                let refused = it.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.iter().any(|(_, since)| since.elapsed() < REPEATED)
            };
            all.retain(|_, carrying| Arc::strong_count(carrying) > 1 || is_needed(carrying));
        }
        all.entry(realm.root().join(place.file())).or_default().clone()
    }

    /// Has here what is there, and there what is here. That there is nothing on either side is no error; that there was no answer is one.
    pub(super) async fn bring(&self, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        self.carry(realm, self.of_key(realm, key)?, Way::Both, For::Caller).await
    }

    /// Has there what is here.
    pub(super) async fn send(&self, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        self.carry(realm, self.of_key(realm, key)?, Way::Out, For::Caller).await
    }

    /// Whether the remote was silent just now, so that who asks need not wait as long as the one before. Of those who ask later one finds out anew.
    fn is_given_up(&self) -> bool {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_given_up = silent.is_some_and(|since| since.elapsed() < GIVEN_UP);
        if silent.is_some() && !is_given_up {
            *silent = Some(Instant::now());
        }
        is_given_up && !self.is_awaited()
    }

    fn note_silence(&self, since: Option<Instant>) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    async fn carry(&self, realm: &Arc<Realm>, parcel: Parcel, way: Way, who: For) -> Result<()> {
        let carrying = self.carrying(realm, &parcel.place);
        // Whoever has the turn gives it up when the remote is silent.
        let _turn = carrying.turn.lock().await;
        if who == For::Caller && self.is_given_up() {
            return Err(away());
        }
        parcel.heard();
        let work = async {
            for _ in 0..ATTEMPTS {
                let carried = match way {
                    Way::Both => both_ways(&parcel).await,
                    Way::Out => sync::push(&parcel.link(), &mut |_| parcel.heard()).await.map(drop),
                };
                match carried {
                    Err(Error::Local(unforget_core::Error::NotFound { .. })) => return Ok(()),
                    // Another process fetches the same, or appends.
                    Err(Error::Local(unforget_core::Error::Busy { .. })) => tokio::time::sleep(merge::PAUSE).await,
                    Err(Error::Diverged { .. } | Error::Deleted { .. }) => merge::merge(realm, &parcel).await?,
                    // Any server may delete entries and begin anew; a merge keeps what a remote merely lost.
                    Err(error @ Error::Rewound { .. }) => {
                        tracing::warn!(%error, "entries were deleted at the remote, or lost");
                        merge::merge(realm, &parcel).await?;
                    }
                    other => return Ok(other?),
                }
            }
            Err(Problem::new(Code::Busy, "others keep writing this session"))
        };
        tokio::select! {
            biased;
            carried = work => {
                self.note_silence(None);
                carried
            }
            () = parcel.silence() => {
                self.note_silence(Some(Instant::now()));
                Err(away())
            }
        }
    }

    /// Says, durably, that something may not be there yet.
    pub(super) fn mark(&self, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        let parcel = self.of_key(realm, key)?;
        parcel.outbox.add(parcel.local.dir(), parcel.local.id(), self.settings.source.now_ms())?;
        let carrying = self.carrying(realm, &parcel.place);
        *carrying.appended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind.entry(realm.root().clone()).or_insert_with(|| realm.clone());
        Ok(())
    }

    /// Remembers a batch that is here and whose caller was told to try again.
    pub(super) fn refuse(&self, realm: &Realm, key: &Key, batch: [u8; 32]) {
        let carrying = self.carrying(realm, &Place::of(key));
        let mut refused = carrying.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSED {
            refused.remove(0);
        }
        refused.push((batch, Instant::now()));
    }

    /// Whether a batch is one of those, which it is once.
    pub(super) fn was_refused(&self, realm: &Realm, key: &Key, batch: [u8; 32]) -> bool {
        let carrying = self.carrying(realm, &Place::of(key));
        let mut refused = carrying.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|(_, since)| since.elapsed() < REPEATED);
        let found = refused.iter().position(|(it, _)| *it == batch);
        found.map(|at| refused.remove(at)).is_some()
    }

    /// Has here what is there of a project: every session, and nothing that was deleted there.
    pub(super) async fn bring_project(&self, realm: &Arc<Realm>, project_key: &str) -> Result<()> {
        let tenant = self.tenant(realm);
        let prefix = place::streams(&tenant, project_key)?;
        let streams = self.streams(&prefix).await?;
        let mut places: BTreeSet<PathBuf> = BTreeSet::new();
        let mut parcels = Vec::new();
        for stream in streams.into_iter().filter(|stream| stream.side().is_empty()) {
            let Some(place) = Place::of_stream(project_key, &stream) else { continue };
            places.insert(place.file());
            parcels.push(self.parcel(realm, place, stream)?);
        }
        // What is here and not there waits to be sent, or was deleted there.
        for (place, _) in place::sessions(realm.store().medium().as_ref(), project_key)? {
            if let Some(header) = Header::read(realm.store().medium().as_ref(), &place.file())?
                && !places.contains(&place.file())
            {
                parcels.push(self.of_key(realm, &header.key()?)?);
            }
        }
        self.carry_all(realm, parcels).await
    }

    /// Has here what is there beneath a session.
    pub(super) async fn bring_sides(&self, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        let main = key.session().stream(&self.tenant(realm))?;
        let prefix = place::streams(&self.tenant(realm), key.group().0)?.session(main.session())?;
        let streams = self.streams(&prefix).await?;
        let mut parcels = Vec::new();
        for stream in streams.into_iter().filter(|stream| !stream.side().is_empty()) {
            if let Some(place) = Place::of_stream(key.group().0, &stream) {
                parcels.push(self.parcel(realm, place, stream)?);
            }
        }
        let known: BTreeSet<PathBuf> = parcels.iter().map(|parcel| parcel.place.file()).collect();
        let medium = realm.store().medium();
        for path in Place::of(&key.session()).sides(medium.as_ref())? {
            if let Some(header) = Header::read(medium.as_ref(), &path)?.filter(|_| !known.contains(&path)) {
                parcels.push(self.of_key(realm, &header.key()?)?);
            }
        }
        self.carry_all(realm, parcels).await
    }

    async fn carry_all(&self, realm: &Arc<Realm>, parcels: Vec<Parcel>) -> Result<()> {
        use futures_util::StreamExt as _;
        let carried =
            futures_util::stream::iter(parcels).map(|parcel| self.carry(realm, parcel, Way::Both, For::Caller));
        let mut carried = carried.buffer_unordered(AT_A_TIME);
        while let Some(carried) = carried.next().await {
            match carried {
                Err(problem) if problem.code == Code::Unavailable => return Err(problem),
                // One that is damaged is in nobody else's way.
                Err(problem) => tracing::warn!(%problem, "a session cannot be fetched"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    async fn streams(&self, prefix: &unforget_remote::Prefix) -> Result<Vec<Stream>> {
        let mut gathering = Gathering::default();
        let mut cursor: Option<String> = None;
        loop {
            let asked = self.settings.remote.list(prefix, cursor.as_deref());
            let page = match tokio::time::timeout(PATIENCE, asked).await {
                Ok(page) => page?,
                Err(_) => return Err(away()),
            };
            match gathering.add(page)? {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        let mut streams = gathering.streams();
        streams.retain(place::has_entries);
        Ok(streams)
    }

    /// Deletes there and here, and forgets what was known of it. Nobody carries any of it meanwhile: what is gone on one side only would be taken for new.
    pub(super) async fn delete(&self, here: &Arc<Here>, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        let own = key.stream(&self.tenant(realm))?;
        let mut streams = Vec::new();
        if key.subpath().is_none() {
            let prefix = place::streams(&self.tenant(realm), key.group().0)?.session(own.session())?;
            streams = self.streams(&prefix).await?;
            // What was not sent yet is beneath it as well.
            let medium = realm.store().medium();
            for path in Place::of(key).sides(medium.as_ref())? {
                if let Some(header) = Header::read(medium.as_ref(), &path)? {
                    streams.push(header.key()?.stream(&self.tenant(realm))?);
                }
            }
            streams.sort();
            streams.dedup();
            streams.retain(|stream| *stream != own);
        }
        // The session itself last: while it is there, deleting can be repeated.
        streams.push(own);
        for stream in streams {
            let Some(place) = Place::of_stream(key.group().0, &stream) else { continue };
            let parcel = self.parcel(realm, place, stream)?;
            let carrying = self.carrying(realm, &parcel.place);
            let _turn = carrying.turn.lock().await;
            match tokio::time::timeout(PATIENCE, self.settings.remote.delete(&parcel.stream)).await {
                Ok(deleted) => deleted?,
                Err(_) => return Err(away()),
            }
            let (here, deleted, place) = (here.clone(), realm.clone(), parcel.place.clone());
            // Another process may have to be waited for.
            let gone = tokio::task::spawn_blocking(move || here.delete(&deleted, &place)).await;
            gone.unwrap_or_else(|error| Err(Problem::fallen("the store of entries", &error)))?;
            parcel.bookmarks.forget(parcel.local.dir(), parcel.local.id())?;
            parcel.outbox.remove(parcel.local.dir(), parcel.local.id())?;
            // What was refused is gone with the rest.
            carrying.refused.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        Ok(())
    }

    /// Whether something may not be there yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Sends what may not be there yet, of the realms that are known to have something; tells whether all of it is there.
    pub(super) async fn tend(&self, is_ending: bool) -> bool {
        let realms: Vec<Arc<Realm>> =
            self.behind.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let mut is_all = true;
        for realm in realms {
            match self.tend_realm(&realm, is_ending).await {
                Ok(true) => {
                    let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
                    behind.remove(realm.root());
                    // Somebody may have marked something between the look and the removal.
                    if Outbox::new(realm.store().medium().clone(), &self.known_as())
                        .list()
                        .is_ok_and(|it| !it.is_empty())
                    {
                        behind.insert(realm.root().clone(), realm.clone());
                    }
                }
                Ok(false) => is_all = false,
                Err(problem) => {
                    tracing::debug!(%problem, "what was appended is not there yet");
                    is_all = false;
                }
            }
        }
        is_all
    }

    /// Looks whether an earlier process left something.
    pub(super) fn look(&self, realm: &Arc<Realm>) -> Result<()> {
        let waiting = Outbox::new(realm.store().medium().clone(), &self.known_as()).list()?;
        if !waiting.is_empty() {
            let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
            behind.insert(realm.root().clone(), realm.clone());
        }
        Ok(())
    }

    async fn tend_realm(&self, realm: &Arc<Realm>, is_ending: bool) -> Result<bool> {
        let outbox = Outbox::new(realm.store().medium().clone(), &self.known_as());
        let mut is_all = true;
        for waiting in outbox.list()? {
            // One that cannot be sent is in nobody else's way.
            match self.tend_one(realm, &outbox, &waiting, is_ending).await {
                Ok(is_sent) => is_all &= is_sent,
                Err(problem) => {
                    tracing::debug!(%problem, "a session is not there yet");
                    is_all = false;
                }
            }
        }
        Ok(is_all)
    }

    /// Sends what a mark stands for, and takes the mark away if nothing is appended at the time; tells whether it did.
    async fn tend_one(&self, realm: &Arc<Realm>, outbox: &Outbox, waiting: &Waiting, is_ending: bool) -> Result<bool> {
        let medium = realm.store().medium();
        let place = Place::remembered(medium.as_ref(), &waiting.dir, &waiting.id)?;
        let appended = place.as_ref().map(|place| self.carrying(realm, place));
        let is_quiet = || {
            let at = appended.as_ref().and_then(|it| *it.appended.lock().unwrap_or_else(PoisonError::into_inner));
            is_ending || at.is_none_or(|at| at.elapsed() >= QUIET)
        };
        let header = place.as_ref().map(|place| Header::read(medium.as_ref(), &place.file())).transpose()?.flatten();
        let Some(header) = header else {
            // Its first entries may be about to be written; whoever does that marks it again.
            outbox.remove(&waiting.dir, &waiting.id)?;
            return Ok(true);
        };
        if !is_quiet() {
            return Ok(false);
        }
        let key = header.key()?;
        self.carry(realm, self.of_key(realm, &key)?, Way::Out, For::Later).await?;
        let parcel = self.of_key(realm, &key)?;
        let pushing = async { sync::push(&parcel.link(), &mut |_| parcel.heard()).await };
        let pushed = tokio::select! {
            biased;
            pushed = pushing => pushed,
            () = parcel.silence() => return Err(away()),
        };
        let pushed = match pushed {
            // Somebody deleted it meanwhile.
            Err(Error::Local(unforget_core::Error::NotFound { .. })) => return Ok(true),
            pushed => pushed?,
        };
        let now_ms = self.settings.source.now_ms();
        outbox.settle(&parcel.link(), &pushed, now_ms)?;
        // Whoever marked between the look and the removal has not appended yet, perhaps.
        if !is_quiet() {
            outbox.add(&waiting.dir, &waiting.id, now_ms)?;
            return Ok(false);
        }
        Ok(true)
    }
}
