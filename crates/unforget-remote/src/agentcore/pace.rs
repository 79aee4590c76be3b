//! Staying below the rates of the service.
//!
//! A service that is asked too often answers with errors, and each costs a pause that is longer than the one it would have taken to ask in time. So requests wait for
//! their turn here: no more than the documented number in any second, for each session of an actor. A wait has a limit; whoever would
//! have to wait longer is told so.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::remote::BoxFuture;

/// The longest wait for a turn.
const LONGEST: Duration = Duration::from_secs(30);
/// How many sessions' last requests are remembered.
const REMEMBERED: usize = 10_000;
const SECOND: Duration = Duration::from_secs(1);

/// What time it is, and how to wait.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time since 1970.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()>;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

/// How many requests a second the service takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// CreateEvent, for a session.
    pub create: usize,
    /// ListEvents, for a session.
    pub list: usize,
    /// DeleteEvent, for a session.
    pub delete: usize,
    /// GetEvent, ListSessions and ListActors, each for all.
    pub others: usize,
}

impl Default for Rates {
    fn default() -> Self {
        Self { create: 10, list: 20, delete: 5, others: 20 }
    }
}

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Create,
    List,
    Delete,
    Get,
    Sessions,
    Actors,
}

/// Who asked when.
#[derive(Debug)]
pub(super) struct Pace {
    rates: Option<Rates>,
    pub(super) clock: Arc<dyn Clock>,
    turns: Mutex<HashMap<(Kind, String), VecDeque<Duration>>>,
}

impl Pace {
    pub(super) fn new(rates: Option<Rates>, clock: Arc<dyn Clock>) -> Self {
        Self { rates, clock, turns: Mutex::default() }
    }

    /// Waits for a turn; an error says how long it would take, if that is too long.
    pub(super) async fn turn(&self, kind: Kind, of: &str) -> Result<(), Duration> {
        let Some(rates) = self.rates else { return Ok(()) };
        let limit = match kind {
            Kind::Create => rates.create,
            Kind::List => rates.list,
            Kind::Delete => rates.delete,
            Kind::Get | Kind::Sessions | Kind::Actors => rates.others,
        };
        let pause = self.reserve((kind, of.to_owned()), limit.max(1))?;
        if !pause.is_zero() {
            self.clock.sleep(pause).await;
        }
        Ok(())
    }

    fn reserve(&self, key: (Kind, String), limit: usize) -> Result<Duration, Duration> {
        let now = self.clock.now();
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= REMEMBERED && !turns.contains_key(&key) {
            turns.retain(|_, turns| turns.back().is_some_and(|at| *at + SECOND > now));
        }
        let turns = turns.entry(key).or_default();
        let free = turns.front().filter(|_| turns.len() >= limit).map_or(now, |first| *first + SECOND).max(now);
        let pause = free - now;
        if pause > LONGEST {
            return Err(pause);
        }
        turns.push_back(free);
        if turns.len() > limit {
            turns.pop_front();
        }
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Duration {
            Duration::from_secs(1_000)
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[test]
    fn no_second_has_more_than_it_may() {
        let pace = Pace::new(Some(Rates::default()), Arc::new(Still));
        let key = || (Kind::Delete, "a".to_owned());
        let pauses: Vec<u64> = (0..12).map(|_| pace.reserve(key(), 5).unwrap().as_secs()).collect();
        assert_eq!(pauses, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]);
        assert_eq!(pace.reserve((Kind::Delete, "b".to_owned()), 5), Ok(Duration::ZERO));
    }

    #[test]
    fn who_would_wait_too_long_is_told_so() {
        let pace = Pace::new(Some(Rates::default()), Arc::new(Still));
        let key = || (Kind::Delete, "a".to_owned());
        let waits: Vec<_> = (0..400).map(|_| pace.reserve(key(), 5)).collect();
        assert!(waits.iter().flatten().all(|pause| *pause <= LONGEST));
        assert!(waits.iter().any(Result::is_err));
    }
}
