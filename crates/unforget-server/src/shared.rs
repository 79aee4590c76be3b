//! What all live sessions share: bounds and numbers, the ledger, and the accounts of who has how many prompts in hand.
//!
//! Knows no session: whoever counts a prompt says whose it is, and whoever could not run one leaves it here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::activity::{Activity, Busy};
use crate::actor::ActorId;
use crate::budget::Budget;
use crate::error::{Code, Problem, Result};
use crate::fleet::Fleet;
use crate::ledger::{Accepted, Ledger};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::quotas::Quotas;

/// What all live sessions share.
#[derive(Debug)]
pub struct Shared {
    /// The bounds.
    pub limits: Limits,
    /// The prompts that were accepted.
    pub ledger: Ledger,
    /// Tools that run unasked.
    pub allowed: Vec<String>,
    /// The numbers.
    pub metrics: Metrics,
    /// Whether something is in hand.
    pub activity: Arc<Activity>,
    /// The other servers, if there are any.
    pub fleet: Option<Arc<Fleet>>,
    /// The bytes that clients have sent and that are still held.
    pub(crate) budget: Budget,
    /// How fast and how much each actor may.
    pub(crate) quotas: Quotas,
    stopping: AtomicBool,
    in_hand: Mutex<HashMap<ActorId, usize>>,
    /// Prompts that were accepted here and could not be run here.
    stranded: Mutex<Vec<Accepted>>,
}

impl Shared {
    /// What is shared, to begin with.
    pub fn new(
        limits: Limits,
        ledger: Ledger,
        allowed: Vec<String>,
        activity: Arc<Activity>,
        fleet: Option<Arc<Fleet>>,
    ) -> Self {
        Self {
            limits,
            ledger,
            allowed,
            metrics: Metrics::default(),
            activity,
            fleet,
            budget: Budget::new(limits.in_flight),
            quotas: Quotas::new(limits),
            stopping: AtomicBool::new(false),
            in_hand: Mutex::default(),
            stranded: Mutex::default(),
        }
    }

    /// Whether nothing is begun any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether a turn counts as saved only when other servers can read it.
    pub fn needs_remote(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.is_awaited())
    }

    /// Takes a place for a prompt of an actor, which is given back if no prompt is taken.
    pub(crate) fn admission(self: &Arc<Self>, actor: &ActorId) -> Result<Admission> {
        self.admit(actor)?;
        Ok(Admission { shared: self.clone(), actor: actor.clone(), is_used: false })
    }

    /// Counts a prompt of an actor, unless there are too many.
    pub(crate) fn admit(&self, actor: &ActorId) -> Result<()> {
        self.quotas.of(actor).prompt()?;
        self.readmit(actor)
    }

    /// Counts a prompt that was accepted before.
    pub(crate) fn readmit(&self, actor: &ActorId) -> Result<()> {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        let count = in_hand.entry(actor.clone()).or_default();
        if *count >= self.limits.prompts_per_actor {
            let message = format!("{count} of your prompts are not answered yet (`prompts_per_actor`); wait");
            return Err(Problem::new(Code::TooMany, message));
        }
        *count += 1;
        Ok(())
    }

    /// A prompt of an actor is out of hand.
    pub(crate) fn discharge(&self, actor: &ActorId) {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_hand.get_mut(actor) {
            *count -= 1;
            if *count == 0 {
                in_hand.remove(actor);
            }
        }
    }

    /// Whether prompts wait for somebody to run them.
    pub(crate) fn has_stranded(&self) -> bool {
        !self.stranded.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes the prompts that wait for somebody to run them in hand.
    pub(crate) fn take_stranded(&self) -> (Vec<Accepted>, Option<Busy>) {
        let mut stranded = self.stranded.lock().unwrap_or_else(PoisonError::into_inner);
        // There is no moment at which they are nowhere.
        let busy = (!stranded.is_empty()).then(|| self.activity.begin());
        (std::mem::take(&mut *stranded), busy)
    }

    /// Nothing is begun any more from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Keeps prompts that could not be run here for later.
    pub(crate) fn strand(&self, prompts: Vec<Accepted>) {
        self.stranded.lock().unwrap_or_else(PoisonError::into_inner).extend(prompts);
    }
}

/// A place for a prompt that may come.
#[derive(Debug)]
pub struct Admission {
    shared: Arc<Shared>,
    actor: ActorId,
    is_used: bool,
}

impl Admission {
    /// The prompt has come, and is discharged when it is out of hand.
    pub(crate) fn spend(mut self) {
        self.is_used = true;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.is_used {
            self.shared.discharge(&self.actor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_a_lock_that_a_panic_left_behind_is_used_on() {
        let home = tempfile::tempdir().unwrap();
        let activity = Arc::new(Activity::new(Arc::new(unforget_core::stamp::System)));
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let limits = Limits { prompts_per_actor: 1, ..Limits::default() };
        let shared = Arc::new(Shared::new(limits, ledger, Vec::new(), activity.clone(), None));
        let ada = ActorId::verified("ada").unwrap();
        shared.admit(&ada).unwrap();
        let left = shared.clone();
        let fell = std::thread::spawn(move || {
            let _in_hand = left.in_hand.lock().unwrap();
            let _stranded = left.stranded.lock().unwrap();
            let _registry = left.metrics.text();
            panic!("as it was told");
        });
        assert!(fell.join().is_err());
        assert!(shared.in_hand.is_poisoned() && shared.stranded.is_poisoned());
        assert_eq!(shared.admit(&ada).unwrap_err().code, Code::TooMany, "what was counted is still counted");
        shared.discharge(&ada);
        shared.admit(&ada).unwrap();
        shared.strand(Vec::new());
    }
}
