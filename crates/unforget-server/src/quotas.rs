//! How fast and how much each actor may: prompts and new sessions in a minute, frames and pings in a second, bytes and sessions on the disk.
//!
//! A bound of what there is at a moment (`limits`) does not keep one actor from beginning, ending and beginning again, nor from filling the disk. Rates are kept in
//! [`Bucket`]s, which are one moment each and need no tidying; who is over one is told when to come back. The disk is looked at in the actor's own directory when it is
//! about to be written, and not again for a while: the longer it took, the longer. What was appended meanwhile is added.
//!
//! The owner's disk is the owner's own: only the directories of other actors have a bound there.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unforget_core::medium::{FileKind, Medium};

use crate::actor::ActorId;
use crate::error::{Code, Problem, Result};
use crate::limits::Limits;
use crate::realm::Realm;

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// How many actors are remembered before those with nothing to remember are forgotten.
const REMEMBERED: usize = 1024;
/// How long what was seen of a directory counts at least, and how many times as long as it took to look.
const SEEN: Duration = Duration::from_secs(10);
const TIMES_LOOKED: u32 = 100;
/// How many files are looked at at the most; an actor with more has too many.
const MAX_FILES: usize = 4_000_000;
const TRANSCRIPT: &str = ".jsonl";

/// How often something may be done: so many times in a window, all at once or evenly.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// When all that was done would have been done evenly.
    even: Option<Instant>,
}

impl Bucket {
    /// Does it once more, or tells how long to wait.
    fn take(&mut self, now: Instant, most: u32, window: Duration) -> Result<(), Duration> {
        let Some(apart) = window.checked_div(most) else { return Err(window) };
        let even = self.even.map_or(now, |even| even.max(now)) + apart;
        match (even - now).checked_sub(window).filter(|over| !over.is_zero()) {
            Some(over) => Err(over),
            None => {
                self.even = Some(even);
                Ok(())
            }
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.even.is_none_or(|even| even <= now)
    }
}

/// What an actor has done of late.
#[derive(Debug, Default)]
struct Done {
    prompts: Bucket,
    sessions: Bucket,
    frames: Bucket,
    pings: Bucket,
    stored: Stored,
}

/// What an actor has on the disk.
#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    /// Until when it counts; none if nobody looked yet.
    until: Option<Instant>,
    bytes: u64,
    sessions: u64,
}

/// The account of one actor.
#[derive(Debug)]
pub(crate) struct Account {
    limits: Limits,
    done: Mutex<Done>,
}

impl Account {
    fn lock(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A prompt is taken.
    pub(crate) fn prompt(&self) -> Result<()> {
        let most = self.limits.prompts_per_minute;
        let taken = self.lock().prompts.take(Instant::now(), most, MINUTE);
        taken.map_err(|wait| too_fast("prompts in a minute", "prompts_per_minute", most, wait))
    }

    /// A session is begun.
    pub(crate) fn begin(&self) -> Result<()> {
        let most = self.limits.new_sessions_per_minute;
        let taken = self.lock().sessions.take(Instant::now(), most, MINUTE);
        taken.map_err(|wait| too_fast("new sessions in a minute", "new_sessions_per_minute", most, wait))
    }

    /// Frames came over a WebSocket, some of them pings or pongs.
    pub(crate) fn frames(&self, frames: usize, pings: usize) -> Result<()> {
        let (now, mut done) = (Instant::now(), self.lock());
        for (count, most, name) in [
            (frames, self.limits.frames_per_second, "frames_per_second"),
            (pings, self.limits.pings_per_second, "pings_per_second"),
        ] {
            let is_pings = name == "pings_per_second";
            let bucket = if is_pings { &mut done.pings } else { &mut done.frames };
            for _ in 0..count {
                let what = if is_pings { "pings in a second" } else { "frames in a second" };
                bucket.take(now, most, SECOND).map_err(|wait| too_fast(what, name, most, wait))?;
            }
        }
        Ok(())
    }

    /// Whether there is room for more on the disk, and for one more session if one is to begin. Reads the directory if nobody did of late.
    pub(crate) fn store(&self, realm: &Realm, is_begun: bool) -> Result<()> {
        if realm.actor().directory().is_none() {
            return Ok(());
        }
        let known = self.lock().stored;
        let stored = match known.until.is_some_and(|until| Instant::now() < until) {
            true => known,
            false => {
                let begun = Instant::now();
                let (bytes, sessions) = look(realm.store().medium().as_ref())?;
                let until = Some(Instant::now() + SEEN.max(begun.elapsed() * TIMES_LOOKED));
                let seen = Stored { until, bytes, sessions };
                self.lock().stored = seen;
                seen
            }
        };
        let Limits { disk, stored_sessions, .. } = self.limits;
        if stored.bytes >= disk {
            let message = format!(
                "you have {} bytes on this server, and room for {disk} (`disk`); delete something",
                stored.bytes
            );
            return Err(Problem::new(Code::Storage, message));
        }
        if is_begun && stored.sessions >= stored_sessions {
            let message = format!(
                "you have {} sessions on this server, and may have {stored_sessions} (`stored_sessions`); delete some",
                stored.sessions
            );
            return Err(Problem::new(Code::TooMany, message));
        }
        self.lock().stored.sessions += u64::from(is_begun);
        Ok(())
    }

    /// So many bytes were appended.
    pub(crate) fn stored(&self, bytes: usize) {
        let mut done = self.lock();
        done.stored.bytes = done.stored.bytes.saturating_add(bytes as u64);
    }

    fn is_idle(&self, now: Instant) -> bool {
        let done = self.lock();
        let buckets = [done.prompts, done.sessions, done.frames, done.pings];
        buckets.iter().all(|bucket| bucket.is_idle(now)) && done.stored.until.is_none_or(|until| until <= now)
    }
}

fn too_fast(what: &str, name: &str, most: u32, wait: Duration) -> Problem {
    Problem::new(Code::TooMany, format!("you may have {most} {what} (`{name}`); wait, then send it again")).after(wait)
}

/// How many bytes and transcripts there are in a directory and all beneath it.
fn look(medium: &dyn Medium) -> Result<(u64, u64)> {
    let (mut bytes, mut transcripts, mut files) = (0, 0, 0);
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let listed = match medium.list_stats(&folder) {
            // Gone meanwhile, or closed by a tool of the actor's own.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => continue,
            listed => {
                listed.map_err(|source| unforget_core::Error::Io { action: "look at", path: folder.clone(), source })?
            }
        };
        files += listed.len();
        if files > MAX_FILES {
            return Ok((u64::MAX, u64::MAX));
        }
        for (name, stat) in listed {
            match stat.kind {
                FileKind::Directory => folders.push(folder.join(&name)),
                FileKind::File | FileKind::Other => bytes += stat.len,
            }
            transcripts += u64::from(name.ends_with(TRANSCRIPT));
        }
    }
    Ok((bytes, transcripts))
}

/// The accounts of all actors.
#[derive(Debug)]
pub(crate) struct Quotas {
    limits: Limits,
    accounts: Mutex<HashMap<ActorId, Arc<Account>>>,
}

impl Quotas {
    /// Accounts with nothing in them.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, accounts: Mutex::default() }
    }

    /// An actor's account.
    pub(crate) fn of(&self, actor: &ActorId) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(actor) {
            return account.clone();
        }
        if accounts.len() >= REMEMBERED {
            let now = Instant::now();
            accounts.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_idle(now));
        }
        let account = Arc::new(Account { limits: self.limits, done: Mutex::default() });
        accounts.insert(actor.clone(), account.clone());
        account
    }
}

#[cfg(test)]
mod tests {
    use unforget_core::stamp::System;

    use super::*;
    use crate::realm::Realms;

    #[test]
    fn s9_a_rate_lets_so_many_through_and_then_says_when() {
        let (mut bucket, begun) = (Bucket::default(), Instant::now());
        let taken = (0..100).take_while(|_| bucket.take(begun, 10, MINUTE).is_ok()).count();
        assert_eq!(taken, 10);
        assert_eq!(bucket.take(begun, 10, MINUTE), Err(Duration::from_secs(6)));
        assert_eq!(bucket.take(begun + Duration::from_secs(6), 10, MINUTE), Ok(()));
        assert!(bucket.take(begun + Duration::from_secs(6), 10, MINUTE).is_err());
        // Who rests gets no more than the whole window.
        let later = begun + Duration::from_secs(1000);
        assert!(bucket.is_idle(later));
        assert_eq!((0..100).take_while(|_| bucket.take(later, 10, MINUTE).is_ok()).count(), 10);
        assert!(Bucket::default().take(begun, 0, MINUTE).is_err());
    }

    #[test]
    fn s9_what_is_over_a_quota_is_named_with_what_to_do() {
        let limits =
            Limits { prompts_per_minute: 1, new_sessions_per_minute: 1, pings_per_second: 2, ..Limits::default() };
        let account = Quotas::new(limits).of(&ActorId::owner());
        account.prompt().unwrap();
        account.begin().unwrap();
        account.frames(100, 2).unwrap();
        for (refused, name) in [
            (account.prompt(), "prompts_per_minute"),
            (account.begin(), "new_sessions_per_minute"),
            (account.frames(1, 1), "pings_per_second"),
        ] {
            let problem = refused.unwrap_err();
            assert!(problem.code == Code::TooMany && problem.message.contains(name), "{problem}");
            assert!(problem.retry_after.is_some_and(|seconds| (1..=60).contains(&seconds)));
        }
    }

    #[test]
    fn s9_the_disk_of_an_actor_has_a_bound_and_the_owners_has_none() {
        let home = tempfile::tempdir().unwrap();
        let realms = Realms::new(home.path().to_path_buf(), Arc::new(System));
        let (ada, owner) = (realms.of(&ActorId::verified("ada").unwrap()), realms.of(&ActorId::owner()));
        let key = unforget_core::key::Key::new("main", "web", None, "a").unwrap();
        let limits = Limits { disk: 1, stored_sessions: 1, ..Limits::default() };
        let quotas = Quotas::new(limits);
        quotas.of(ada.actor()).store(&ada, true).unwrap();
        assert_eq!(quotas.of(ada.actor()).store(&ada, true).unwrap_err().code, Code::TooMany, "it was counted");
        for realm in [&ada, &owner] {
            drop(realm.store().create(&key, None).unwrap());
        }
        let problem = Quotas::new(limits).of(ada.actor()).store(&ada, false).unwrap_err();
        assert!(problem.code == Code::Storage && problem.message.contains("`disk`"), "{problem}");
        let limits = Limits { disk: 1 << 20, ..limits };
        let account = Quotas::new(limits).of(ada.actor());
        account.store(&ada, false).unwrap();
        assert_eq!(account.store(&ada, true).unwrap_err().code, Code::TooMany);
        account.stored(1 << 20);
        assert_eq!(account.store(&ada, false).unwrap_err().code, Code::Storage);
        Quotas::new(limits).of(owner.actor()).store(&owner, true).unwrap();
    }
}
