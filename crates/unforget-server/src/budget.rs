//! The budget of bytes in flight: what clients have sent and this server still holds, bounded in all and fair between clients.
//!
//! A bound for each body and message is not enough: many small ones fill the memory as well as a large one. So every byte that
//! comes in is charged to its sender, an actor or, before it is known who it is, an address, and given back when its request or message was dealt with. The
//! bytes of requests that nobody finishes count as long as they are held.
//!
//! A sender may hold as much as it leaves free for all others, and no more ("dynamic thresholds", as switches share their buffers). One sender gets half of
//! the budget at the most, and each further one half of what is left at the most. So no sender can take what a newcomer needs, and no setting has to know how
//! many clients there are. A request is small: of 256 MiB, fifteen senders who hold all that they may still leave 8 KiB.
//!
//! Who gets no room is refused at once and does not wait: two half-sent bodies that wait for each other's room would both wait for ever.
//! [`Shares`] is the arithmetic, without locks or clocks; it knows nothing of HTTP or WebSockets.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::actor::ActorId;
use crate::error::{Code, Problem, Result};
use crate::identity::network;

/// Who has sent bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Sender {
    /// Somebody at this address who has not said who it is; all addresses of an IPv6 network are one.
    Address(IpAddr),
    /// An actor.
    Actor(ActorId),
}

impl Sender {
    /// The actor; without one, the address.
    pub(crate) fn new(actor: Option<&ActorId>, peer: IpAddr) -> Self {
        actor.map_or_else(|| Self::Address(network(peer)), |actor| Self::Actor(actor.clone()))
    }
}

/// How many bytes each sender holds.
#[derive(Debug)]
struct Shares<K> {
    total: usize,
    used: usize,
    held: HashMap<K, usize>,
}

impl<K: Hash + Eq + Clone> Shares<K> {
    fn new(total: usize) -> Self {
        Self { total, used: 0, held: HashMap::new() }
    }

    /// Charges bytes to a sender, unless it would then hold more than is left for all others.
    fn take(&mut self, sender: &K, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let held = self.held.get(sender).copied().unwrap_or(0).saturating_add(bytes);
        let used = self.used.saturating_add(bytes);
        if self.total.checked_sub(used).is_none_or(|free| held > free) {
            return false;
        }
        self.used = used;
        self.held.insert(sender.clone(), held);
        true
    }

    /// Gives back bytes that were taken.
    fn give(&mut self, sender: &K, bytes: usize) {
        let Some(held) = self.held.get_mut(sender) else { return };
        let bytes = bytes.min(*held);
        *held -= bytes;
        self.used -= bytes;
        if *held == 0 {
            self.held.remove(sender);
        }
    }
}

/// The budget of a server.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Mutex<Shares<Sender>>>);

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(total: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(total))))
    }

    /// A claim of a sender, of nothing yet.
    pub(crate) fn claim(&self, sender: Sender) -> Claim {
        Claim { budget: self.clone(), sender, bytes: AtomicUsize::new(0) }
    }

    /// How many bytes are in flight.
    pub(crate) fn used(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).used
    }
}

/// Bytes that a sender is charged for; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    budget: Budget,
    sender: Sender,
    bytes: AtomicUsize,
}

impl Claim {
    /// Charges more bytes.
    pub(crate) fn add(&self, bytes: usize) -> Result<()> {
        let mut shares = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !shares.take(&self.sender, bytes) {
            let (used, total) = (shares.used, shares.total);
            let held = shares.held.get(&self.sender).copied().unwrap_or(0);
            return Err(Problem::new(
                Code::TooMany,
                format!(
                    "{used} of {total} bytes are in flight (`in_flight`), {held} of them yours; finish what you are sending, then send this again"
                ),
            ));
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives everything back.
    pub(crate) fn clear(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            self.budget.0.lock().unwrap_or_else(PoisonError::into_inner).give(&self.sender, bytes);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same each time.
    fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        }
    }

    #[test]
    fn s3_whatever_is_taken_and_given_the_sums_hold_and_a_newcomer_finds_room() {
        for seed in 0..200 {
            let (mut next, total) = (numbers(seed), 1000);
            let mut shares = Shares::new(total);
            for _ in 0..300 {
                let (who, bytes) = (next(5), next(400));
                match next(3) {
                    0 => shares.give(&who, bytes),
                    _ => drop(shares.take(&who, bytes)),
                }
                let (used, held) = (shares.used, &shares.held);
                assert_eq!(used, held.values().sum::<usize>());
                assert!(held.values().all(|bytes| *bytes > 0), "who holds nothing is not remembered");
                // Each holds at most what was free when it took something last, so each leaves half of what there was.
                assert!((total - used) << held.len() >= total, "{used} of {total} are held by {}", held.len());
            }
            let room = (total - shares.used) / 2;
            assert!(shares.take(&99, room));
        }
    }

    #[test]
    fn one_sender_alone_gets_half_and_a_claim_gives_back_what_it_took() {
        let budget = Budget::new(100);
        let ada = || budget.claim(Sender::Actor(ActorId::verified("ada").unwrap()));
        let (first, second) = (ada(), ada());
        first.add(30).unwrap();
        second.add(20).unwrap();
        let problem = second.add(1).unwrap_err();
        assert_eq!(problem.code, Code::TooMany);
        assert!(problem.message.contains("50 of 100") && problem.message.contains("in_flight"), "{problem}");
        let other = budget.claim(Sender::new(None, IpAddr::from([192, 0, 2, 1])));
        other.add(25).unwrap();
        assert!(other.add(1).is_err());
        drop(first);
        assert_eq!(budget.used(), 45);
        second.clear();
        second.clear();
        other.add(25).unwrap();
        drop((second, other));
        assert_eq!(budget.used(), 0);
    }
}
