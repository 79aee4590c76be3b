//! The live sessions of this server: loaded when somebody asks, one of each, and let go when nobody does.
//!
//! A session is found within a [`Realm`] only. Where several servers share a remote, this is also where it is decided who serves it:
//! either this server holds the right to write it ([`fleet`](crate::fleet)), or it is known who does.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::stamp::SessionId;

use crate::activity::Busy;
use crate::actor::ActorId;
use crate::agent::Agents;
use crate::entries::Entries;
use crate::error::{Code, Problem, Result};
use crate::fleet::{Elsewhere, Seen, Taken};
use crate::ledger::Accepted;
use crate::live::{self, Live, Recovered, Viewer};
use crate::protocol::{After, Attached};
use crate::realm::{Name, Realm, Realms};
pub use crate::shared::{Admission, Shared};

/// How often a session is looked for again that was let go at that very moment.
const ATTEMPTS: usize = 5;

/// How long it is waited for a session to be let go.
const LETTING_GO: std::time::Duration = std::time::Duration::from_secs(5);

/// Where a session is served.
#[derive(Debug, Clone)]
pub enum Found {
    /// Here.
    Here(Arc<Live>),
    /// By another server of the cluster.
    There(Elsewhere),
}

impl Found {
    /// The session, if it is here; else who has it is told as a problem.
    pub fn here(self) -> Result<Arc<Live>> {
        match self {
            Found::Here(live) => Ok(live),
            Found::There(elsewhere) => Err(elsewhere.moved()),
        }
    }
}

type Slot = Arc<OnceCell<Arc<Live>>>;

/// The live sessions of this server.
#[derive(Debug)]
pub struct Hub {
    shared: Arc<Shared>,
    realms: Realms,
    agents: Agents,
    /// Where turns run: their writing waits for the disk.
    turns: Handle,
    live: Mutex<HashMap<(ActorId, SessionId), Slot>>,
    /// Places that are taken for sessions which are about to begin; looked at while `live` is held.
    reserved: Mutex<HashMap<ActorId, usize>>,
    /// Those of whom something was not sent yet: kept in use until it is.
    behind: Mutex<HashMap<ActorId, Arc<Realm>>>,
    /// One at a time creates a session of a key; keys share a few locks.
    creating: [tokio::sync::Mutex<()>; 64],
    /// Sessions that are about to be deleted: nobody takes them up.
    leaving: Mutex<HashSet<(ActorId, SessionId)>>,
    /// That something is not where it belongs, if it was so when it was last looked.
    unsaved: Mutex<Option<Busy>>,
}

impl Hub {
    /// A hub with no live session yet.
    pub fn new(shared: Arc<Shared>, realms: Realms, agents: Agents, turns: Handle) -> Self {
        let creating = std::array::from_fn(|_| tokio::sync::Mutex::new(()));
        let (live, reserved, behind, leaving) = Default::default();
        Self { shared, realms, agents, turns, live, reserved, behind, creating, leaving, unsaved: Mutex::default() }
    }

    /// What all live sessions share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The agents.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// What an actor has.
    pub fn realm(&self, actor: &ActorId) -> Arc<Realm> {
        self.realms.of(actor)
    }

    /// Runs something that reads or writes files, where that may take its time.
    pub async fn blocking<T: Send + 'static>(
        &self,
        realm: &Arc<Realm>,
        work: impl FnOnce(&Realm) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let realm = realm.clone();
        let done = self.turns.spawn_blocking(move || work(&realm)).await;
        done.unwrap_or_else(|error| Err(Problem::fallen("reading the store", &error)))
    }

    /// What everybody has.
    pub fn realms(&self) -> &Realms {
        &self.realms
    }

    /// A session of a realm, live.
    pub async fn find(self: &Arc<Self>, realm: &Arc<Realm>, id: &SessionId) -> Result<Found> {
        self.find_reserved(realm, id, &mut None).await
    }

    async fn find_reserved(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        id: &SessionId,
        reserved: &mut Option<Reservation>,
    ) -> Result<Found> {
        for _ in 0..ATTEMPTS {
            let slot = self.slot(realm, id, reserved.take())?;
            // Whoever asked may go meanwhile; what was begun is ended all the same, and a place that came to nothing is given back.
            let (hub, realm_, id_, slot_) = (self.clone(), realm.clone(), id.clone(), slot.clone());
            let loading = self.turns.spawn(async move {
                let loaded = slot_.get_or_try_init(|| hub.load(&realm_, &id_)).await.cloned();
                match &loaded {
                    Err(_) => hub.forget(&realm_, &id_, &slot_),
                    Ok(live) => hub.keep(&realm_, &id_, &slot_, live),
                }
                loaded
            });
            let live = match loading.await {
                Ok(Ok(live)) => live,
                Ok(Err(Loading::Problem(problem))) => return Err(problem),
                Ok(Err(Loading::Elsewhere(elsewhere))) => return Ok(Found::There(elsewhere)),
                Err(error) => {
                    self.forget(realm, id, &slot);
                    return Err(Problem::internal("loading a session", &error));
                }
            };
            if !live.is_over() {
                return Ok(Found::Here(live));
            }
            // Its transcript may still be open; whoever takes it up again would find it busy.
            if tokio::time::timeout(LETTING_GO, live.ended()).await.is_err() {
                tracing::warn!(session = %id, "the session is not let go");
            }
            self.forget(realm, id, &slot);
        }
        Err(Problem::new(Code::Unavailable, "the session is being let go; try again"))
    }

    fn slot(&self, realm: &Arc<Realm>, id: &SessionId, reserved: Option<Reservation>) -> Result<Slot> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (realm.actor().clone(), id.clone());
        if self.leaving.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return Err(Problem::no_session());
        }
        if let Some(slot) = live.get(&key) {
            return Ok(slot.clone());
        }
        if self.shared.is_stopping() {
            return Err(Problem::new(Code::Unavailable, "the server is about to stop"));
        }
        // What was reserved becomes this one: nobody came in between, because all are counted while the live ones are held.
        drop(reserved);
        self.check_room(&live, realm.actor())?;
        Ok(live.entry(key).or_default().clone())
    }

    /// Whether one more session may be live.
    fn check_room(&self, live: &HashMap<(ActorId, SessionId), Slot>, actor: &ActorId) -> Result<()> {
        let limits = &self.shared.limits;
        let reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if live.len() + reserved.values().sum::<usize>() >= limits.sessions {
            let message = "the server has as many live sessions as it may (`sessions`); try again later";
            return Err(Problem::new(Code::TooMany, message));
        }
        let own = live.keys().filter(|(owner, _)| owner == actor).count() + reserved.get(actor).copied().unwrap_or(0);
        if own >= limits.sessions_per_actor {
            let message = format!("you have {own} live sessions already (`sessions_per_actor`); close some");
            return Err(Problem::new(Code::TooMany, message));
        }
        Ok(())
    }

    /// Takes a place among the live sessions for one that is about to begin.
    fn reserve(self: &Arc<Self>, actor: &ActorId) -> Result<Reservation> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_room(&live, actor)?;
        *self.reserved.lock().unwrap_or_else(PoisonError::into_inner).entry(actor.clone()).or_default() += 1;
        Ok(Reservation { hub: self.clone(), actor: actor.clone() })
    }

    /// Asks whether an actor may begin a session, by what it has on the disk and how fast it begins them.
    pub(crate) async fn ask_begin(&self, realm: &Arc<Realm>) -> Result<()> {
        let account = self.shared.quotas.of(realm.actor());
        account.begin()?;
        self.blocking(realm, move |realm| account.store(realm, true)).await
    }

    /// Asks whether there is room for so many bytes more of an actor, and counts them.
    pub(crate) async fn ask_store(&self, realm: &Arc<Realm>, bytes: usize) -> Result<()> {
        if realm.actor().directory().is_none() {
            return Ok(());
        }
        let account = self.shared.quotas.of(realm.actor());
        let asked = account.clone();
        self.blocking(realm, move |realm| asked.store(realm, false)).await?;
        account.stored(bytes);
        Ok(())
    }

    /// Sees that a live session is the one that is found: somebody else who waited may have given its place back.
    fn keep(&self, realm: &Arc<Realm>, id: &SessionId, slot: &Slot, live: &Arc<Live>) {
        let mut all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry((realm.actor().clone(), id.clone())).or_insert_with(|| slot.clone());
        if !Arc::ptr_eq(known, slot) {
            drop(all);
            live.end(Problem::new(Code::Unavailable, "the session was let go; attach again"));
        }
    }

    fn forget(&self, realm: &Arc<Realm>, id: &SessionId, slot: &Slot) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (realm.actor().clone(), id.clone());
        if live.get(&key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            live.remove(&key);
        }
        self.shared.metrics.sessions.set(i64::try_from(live.len()).unwrap_or(i64::MAX));
    }

    /// Takes up a session and starts its task.
    async fn load(self: &Arc<Self>, realm: &Arc<Realm>, id: &SessionId) -> Result<Arc<Live>, Loading> {
        let wanted = id.clone();
        let agents = self.agents.clone();
        let known = self.blocking(realm, move |realm| {
            let entry = realm.store().entry(&wanted)?;
            // One of another program has no transcript before its first word.
            Ok(entry.map(|entry| entry.dir).or_else(|| agents.begun(realm, &wanted)))
        });
        let dir = match (known.await?, &self.shared.fleet) {
            (Some(dir), _) => dir,
            (None, None) => return Err(Problem::no_session().into()),
            (None, Some(fleet)) => fleet.locate(realm, &self.agents.names(), id).await?,
        };
        let name = Name { dir, id: id.clone() };
        let agent = self.agents.of(&name.dir);
        let live = Arc::new(Live::new(name.clone(), realm.clone(), agent, self.shared.clone()));
        if let Some(fleet) = &self.shared.fleet {
            match fleet.take(realm, &name).await? {
                Taken::Held(hold) => live.hold(hold, &self.turns),
                Taken::Elsewhere(elsewhere) => return Err(Loading::Elsewhere(elsewhere)),
            }
        }
        let loading = live.clone();
        if let Err(problem) = self.blocking(realm, move |_| loading.load()).await {
            if let Some(hold) = live.held() {
                hold.release().await;
            }
            return Err(problem.into());
        }
        if let Some(hold) = live.held().filter(|hold| hold.was_left()) {
            live.take_up();
            hold.taken_over();
        }
        self.start(&live);
        Ok(live)
    }

    /// Starts the task of a session, and sees to it when it ends.
    fn start(self: &Arc<Self>, live: &Arc<Live>) {
        let task = self.turns.spawn(live::run(live.clone()));
        let (hub, live) = (self.clone(), live.clone());
        self.turns.spawn(async move {
            if let Err(error) = task.await {
                // What a panic says may hold what a person said: it is not repeated.
                let panicked = error.is_panic();
                tracing::error!(panicked, session = %live.name().id, "the task of a session did not end well");
                hub.shared.metrics.panics.inc();
                live.fell().await;
            }
            hub.shared.strand(live.left());
            hub.note_behind(live.realm());
            let (actor, id) = (live.realm().actor().clone(), live.name().id.clone());
            let mut all = hub.live.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (actor, id);
            if all.get(&key).and_then(|slot| slot.get()).is_some_and(|known| Arc::ptr_eq(known, &live)) {
                all.remove(&key);
            }
            hub.shared.metrics.sessions.set(i64::try_from(all.len()).unwrap_or(i64::MAX));
        });
        let count = self.live.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.shared.metrics.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Begins to watch a session.
    pub async fn attach(self: &Arc<Self>, realm: &Arc<Realm>, id: &SessionId, after: After) -> Result<Watching> {
        self.attach_reserved(realm, id, after, &mut None).await
    }

    /// The same, for a session that a place was taken for.
    pub(crate) async fn attach_reserved(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        id: &SessionId,
        after: After,
        reserved: &mut Option<Reservation>,
    ) -> Result<Watching> {
        for _ in 0..ATTEMPTS {
            let live = match self.find_reserved(realm, id, reserved).await? {
                Found::Here(live) => live,
                Found::There(elsewhere) => return Ok(Watching::There(elsewhere)),
            };
            let joining = live.clone();
            match self.blocking(realm, move |_| joining.attach(after)).await {
                Err(_) if live.is_over() => {}
                Err(problem) => return Err(problem),
                Ok((attached, viewer)) => return Ok(Watching::Here(attached, Box::new(viewer))),
            }
        }
        Err(Problem::new(Code::Unavailable, "the session is being let go; try again"))
    }

    /// The current session of a key; a new one if there is none, with a place among the live ones. `ask` is asked before one is begun.
    pub(crate) async fn of_key(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        key: &Key,
        ask: impl FnOnce() -> Result<()>,
    ) -> Result<(SessionId, Option<Reservation>)> {
        if let (Some(id), _) = self.look_up(realm, key).await? {
            return Ok((id, None));
        }
        let mut hasher = std::hash::DefaultHasher::new();
        (realm.actor(), key).hash(&mut hasher);
        let lock = usize::try_from(hasher.finish() % self.creating.len() as u64).unwrap_or_default();
        let _creating = self.creating[lock].lock().await;
        match self.look_up(realm, key).await? {
            (Some(id), _) => Ok((id, None)),
            (None, seen) => self.begin_live(realm, key, seen, ask).await,
        }
    }

    /// Begins a session of a key, with a place among the live ones, which is taken first. `ask` is asked before it is begun.
    pub(crate) async fn begin_live(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        key: &Key,
        seen: Seen,
        ask: impl FnOnce() -> Result<()>,
    ) -> Result<(SessionId, Option<Reservation>)> {
        let reserved = self.reserve(realm.actor())?;
        ask()?;
        Ok((self.begin_seen(realm, key, None, seen).await?, Some(reserved)))
    }

    /// The current session of a key, if it has one; and where the key leads at the remote.
    async fn look_up(&self, realm: &Arc<Realm>, key: &Key) -> Result<(Option<SessionId>, Seen)> {
        let (wanted, agent) = (key.clone(), self.agents.of(&AgentDir::of(key.agent())));
        let known = self.blocking(realm, move |realm| agent.current(realm, &wanted)).await?;
        match &self.shared.fleet {
            None => Ok((known.map(|(id, _)| id), Seen::Anywhere)),
            Some(fleet) => fleet.current(realm, key, known).await,
        }
    }

    /// Begins a session of a key, wherever the key leads.
    pub async fn begin(self: &Arc<Self>, realm: &Arc<Realm>, key: &Key, label: Option<&str>) -> Result<SessionId> {
        self.begin_seen(realm, key, label, Seen::Anywhere).await
    }

    /// Begins a session of a key that led there when it was looked up.
    async fn begin_seen(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        key: &Key,
        label: Option<&str>,
        seen: Seen,
    ) -> Result<SessionId> {
        let agent = self.agents.named(key.agent())?;
        self.ask_begin(realm).await?;
        let (realm, key, label) = (realm.clone(), key.clone(), label.map(str::to_owned));
        let fleet = self.shared.fleet.clone();
        let begun = self.turns.spawn(async move {
            let name = agent.begin(&realm, &key, label.as_deref()).await?;
            match fleet {
                Some(fleet) => {
                    let led = fleet.begun(&realm, &name, &key, seen).await;
                    // Another server's session is the key's, or the caller tries again: nothing was said in this one.
                    match &led {
                        Ok(led) if *led == name.id => {}
                        Ok(_) => fleet.discard(&realm, &name).await?,
                        Err(_) => realm.discard(&name.id)?,
                    }
                    led
                }
                None => Ok(name.id),
            }
        });
        begun.await.unwrap_or_else(|error| Err(Problem::fallen("beginning a session", &error)))
    }

    /// Has a session here as other servers wrote it, to be read.
    pub async fn fetch(&self, realm: &Arc<Realm>, id: &SessionId) -> Result<()> {
        let Some(fleet) = &self.shared.fleet else { return Ok(()) };
        let is_live = |live: &Arc<Live>| live.name().id == *id && !live.is_over();
        if self.live_ones(realm.actor()).iter().any(is_live) {
            return Ok(());
        }
        match fleet.fetch(realm, &self.agents.names(), id).await {
            // It may be in the trash, which only this server knows.
            Err(problem) if problem.code == Code::NotFound => Ok(()),
            other => other,
        }
    }

    /// Has what other servers began and wrote in the lists of this one.
    pub async fn refresh(&self, realm: &Arc<Realm>) {
        if let Some(fleet) = &self.shared.fleet {
            fleet.refresh(realm).await;
        }
    }

    /// Looks whether something is not where it belongs: lines of those who are served now that were not sent, prompts that wait for somebody to run
    /// them, or what SDKs keep. As long as there is, the server has something in hand.
    pub(crate) async fn look_for_unsaved(&self, entries: &Entries) {
        let is_waiting = entries.is_behind() || self.shared.has_stranded();
        let is_behind = match &self.shared.fleet {
            Some(fleet) if !is_waiting => {
                let (fleet, realms) = (fleet.clone(), self.realms.in_use());
                let look = move || realms.iter().any(|realm| fleet.is_behind(realm.store()));
                // What cannot be looked at may be unsaved.
                self.turns.spawn_blocking(look).await.unwrap_or(true)
            }
            _ => false,
        };
        let mut unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        *unsaved = match (is_waiting || is_behind, unsaved.take()) {
            (true, None) => Some(self.shared.activity.begin()),
            (true, busy) => busy,
            (false, _) => None,
        };
    }

    /// The live sessions of an actor.
    pub fn live_ones(&self, actor: &ActorId) -> Vec<Arc<Live>> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let own = live.iter().filter(|((owner, _), _)| owner == actor);
        own.filter_map(|(_, slot)| slot.get().cloned()).collect()
    }

    fn all(&self) -> Vec<Arc<Live>> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.values().filter_map(|slot| slot.get().cloned()).collect()
    }

    /// Deletes a session: nobody takes it up meanwhile, and whoever watches is told. A turn that runs is in the way.
    pub async fn delete(self: &Arc<Self>, realm: &Arc<Realm>, id: &SessionId) -> Result<()> {
        let live = self.find(realm, id).await?.here()?;
        let key = (realm.actor().clone(), id.clone());
        let is_first = self.leaving.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        if !is_first {
            return Err(Problem::no_session());
        }
        let (hub, realm) = (self.clone(), realm.clone());
        // Whoever asked may go meanwhile; half a deletion would come back.
        let deleting = self.turns.spawn(async move {
            let deleted = hub.remove(&realm, &live).await;
            hub.leaving.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            deleted
        });
        deleting.await.unwrap_or_else(|error| Err(Problem::internal("deleting a session", &error)))
    }

    async fn remove(&self, realm: &Arc<Realm>, live: &Arc<Live>) -> Result<()> {
        if !live.end_if_idle(Problem::new(Code::NotFound, "the session was deleted")) {
            return Err(Problem::new(Code::Busy, "a turn is running in this session; abort it first"));
        }
        live.ended().await;
        let name = live.name().clone();
        let wanted = name.id.clone();
        self.blocking(realm, move |realm| Ok(realm.store().delete(&realm.entry(&wanted)?)?)).await?;
        match &self.shared.fleet {
            Some(fleet) => fleet.delete(realm, &name).await,
            None => Ok(()),
        }
    }

    /// Runs what was accepted before a restart, or tells of it. What another server has is tried again later, and so is what was accepted behind it.
    pub async fn recover(self: &Arc<Self>, accepted: Vec<Accepted>) {
        let mut waiting: HashSet<(ActorId, SessionId)> = HashSet::new();
        for accepted in accepted {
            let session = (accepted.actor.clone(), accepted.session.id.clone());
            if waiting.contains(&session) {
                self.shared.strand(vec![accepted]);
                continue;
            }
            self.shared.metrics.recovered.inc();
            let realm = self.realm(&accepted.actor);
            let recovered = match self.find(&realm, &accepted.session.id).await {
                Ok(Found::Here(live)) => {
                    let wanted = accepted.clone();
                    self.blocking(&realm, move |_| live.recover(&wanted)).await
                }
                Ok(Found::There(_)) => Ok(Recovered::Later),
                Err(problem) => Err(problem),
            };
            match recovered {
                Ok(Recovered::Runs) => tracing::info!(session = %accepted.session.id, "an accepted prompt is run"),
                Ok(Recovered::Told) => {
                    // It is in the transcript; whoever attaches is told if its turn never ended.
                    tracing::warn!(session = %accepted.session.id, "the turn of an accepted prompt had begun");
                    self.shared.ledger.end(&accepted.id);
                }
                Ok(Recovered::Later) => {
                    waiting.insert(session);
                    self.shared.strand(vec![accepted]);
                }
                Err(problem) if problem.code == Code::NotFound => {
                    tracing::warn!(session = %accepted.session.id, "the session of an accepted prompt is gone");
                    self.shared.ledger.end(&accepted.id);
                }
                Err(problem) => {
                    tracing::warn!(session = %accepted.session.id, %problem, "an accepted prompt waits");
                    waiting.insert(session);
                    self.shared.strand(vec![accepted]);
                }
            }
        }
    }

    /// Sends what is not there yet: what an earlier run left, of everybody, or what this run did, of those whose realms are in use.
    pub(crate) async fn send_left(&self, is_first: bool) {
        let Some(fleet) = &self.shared.fleet else { return };
        let realms = if is_first { self.realms.all() } else { self.realms.in_use() };
        for realm in realms {
            let is_live = |id: &SessionId| {
                let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
                live.contains_key(&(realm.actor().clone(), id.clone()))
            };
            if let Err(problem) = fleet.send_left(&realm, is_live).await {
                tracing::debug!(%problem, "what was left behind is not there yet");
            }
            self.note_behind(&realm);
        }
    }

    /// Keeps what an actor has in use as long as something of it was not sent.
    fn note_behind(&self, realm: &Arc<Realm>) {
        let is_behind = self.shared.fleet.as_ref().is_some_and(|fleet| fleet.is_behind(realm.store()));
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        match is_behind {
            true => drop(behind.insert(realm.actor().clone(), realm.clone())),
            false => drop(behind.remove(realm.actor())),
        }
    }

    /// Begins nothing any more. Turns that run have half of the time to end, and are interrupted then; everything is let go.
    pub async fn stop(&self, patience: std::time::Duration) {
        self.shared.stop();
        let all = self.all();
        let half = patience / 2;
        let quiet = async {
            for live in &all {
                live.quiet().await;
            }
        };
        if tokio::time::timeout(half, quiet).await.is_err() {
            tracing::warn!("turns that are still running go on after the next start");
            for live in &all {
                live.interrupt();
            }
            let quiet = async {
                for live in &all {
                    live.quiet().await;
                }
            };
            if tokio::time::timeout(half / 2, quiet).await.is_err() {
                tracing::warn!("some turns did not end; what they saved is saved");
            }
        }
        for live in &all {
            live.end(Problem::new(Code::Unavailable, "the server stops; attach again"));
        }
        let over = async {
            for live in &all {
                live.ended().await;
            }
        };
        if tokio::time::timeout(half / 2, over).await.is_err() {
            tracing::warn!("some sessions were not let go in time");
        }
    }
}

/// A place among the live sessions; given back when this is dropped.
pub(crate) struct Reservation {
    hub: Arc<Hub>,
    actor: ActorId,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.hub.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = reserved.get_mut(&self.actor) {
            *count -= 1;
            if *count == 0 {
                reserved.remove(&self.actor);
            }
        }
    }
}

/// Why a session is not live here.
#[derive(Debug)]
enum Loading {
    Problem(Problem),
    Elsewhere(Elsewhere),
}

impl From<Problem> for Loading {
    fn from(problem: Problem) -> Self {
        Loading::Problem(problem)
    }
}

/// A session that is watched.
pub enum Watching {
    /// Here: what is told first, and the rest.
    Here(Attached, Box<Viewer>),
    /// By another server of the cluster.
    There(Elsewhere),
}
