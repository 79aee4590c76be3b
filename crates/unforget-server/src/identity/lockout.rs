//! What becomes of an address that sends wrong tokens.
//!
//! A token has 256 random bits or a signature: nobody guesses one, however many they try. So the bound is not there to keep a guess from being
//! right but to keep guessing from being worthwhile or loud: who is over it hears `too_many` instead of `unauthenticated`, and the log has one
//! line for it and not one for each try.
//!
//! A right token is let in from an address that is over the bound, too. Behind one address there may be a house, a company or
//! everybody (a reverse proxy), and if wrong tokens shut out right ones, anybody among them could shut out all the others; that would be
//! the only attack that a bound makes possible. What it costs to look at a token from such an address is a digest or a
//! signature, less than the request around it; keys of an issuer are fetched at a pace of their own.
//!
//! A host has a whole /64 of IPv6, so that is what counts as one address there. The list of addresses is bounded: when it is full of fresh
//! ones, all further addresses are counted as one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// How long wrong tokens are remembered.
const WINDOW_MS: i64 = 60_000;
/// How many addresses are told apart.
const ADDRESSES: usize = 4096;

/// Counts wrong tokens by address.
#[derive(Debug)]
pub(crate) struct Lockout {
    most: u32,
    counts: Mutex<HashMap<Option<IpAddr>, Count>>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    since_ms: i64,
    wrong: u32,
}

impl Count {
    fn is_over(&self, now_ms: i64) -> bool {
        // A clock that was set back must not make a minute last for hours.
        now_ms < self.since_ms || now_ms - self.since_ms >= WINDOW_MS
    }
}

/// What a wrong token means for its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is one of a few.
    Few,
    /// It is the first one that is too many.
    Reached,
    /// There were too many before.
    Beyond,
}

impl Lockout {
    /// So many wrong tokens are borne in a minute.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, counts: Mutex::default() }
    }

    /// Counts a wrong token.
    pub(crate) fn wrong(&self, peer: IpAddr, now_ms: i64) -> Verdict {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(network(peer));
        if counts.len() >= ADDRESSES && !counts.contains_key(&key) {
            counts.retain(|_, count| !count.is_over(now_ms));
            if counts.len() >= ADDRESSES {
                key = None;
            }
        }
        let count = counts.entry(key).or_insert(Count { since_ms: now_ms, wrong: 0 });
        if count.is_over(now_ms) {
            *count = Count { since_ms: now_ms, wrong: 0 };
        }
        count.wrong = count.wrong.saturating_add(1);
        match count.wrong.checked_sub(self.most) {
            None | Some(0) => Verdict::Few,
            Some(1) => Verdict::Reached,
            Some(_) => Verdict::Beyond,
        }
    }
}

/// What one host has of addresses.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_over_the_bound_for_the_rest_of_its_minute() {
        let lockout = Lockout::new(2);
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let verdicts: Vec<_> = (0..4).map(|at| lockout.wrong(one, at)).collect();
        assert_eq!(verdicts, [Verdict::Few, Verdict::Few, Verdict::Reached, Verdict::Beyond]);
        assert_eq!(lockout.wrong(other, 4), Verdict::Few);
        assert_eq!(lockout.wrong(one, WINDOW_MS - 1), Verdict::Beyond);
        assert_eq!(lockout.wrong(one, WINDOW_MS), Verdict::Few);
    }

    #[test]
    fn a_clock_that_is_set_back_begins_a_new_minute() {
        let lockout = Lockout::new(0);
        let one = address("192.0.2.1");
        assert_eq!(lockout.wrong(one, 1_000_000), Verdict::Reached);
        assert_eq!(lockout.wrong(one, 0), Verdict::Reached);
    }

    #[test]
    fn a_host_cannot_be_many_by_using_all_its_addresses() {
        let lockout = Lockout::new(1);
        assert_eq!(lockout.wrong(address("2001:db8::1"), 0), Verdict::Few);
        assert_eq!(lockout.wrong(address("2001:db8::2"), 0), Verdict::Reached);
        assert_eq!(lockout.wrong(address("2001:db8:0:1::1"), 0), Verdict::Few);
        assert_eq!(lockout.wrong(address("192.0.2.1"), 0), Verdict::Few);
        assert_eq!(lockout.wrong(address("::ffff:192.0.2.1"), 0), Verdict::Reached);
    }

    #[test]
    fn the_list_of_addresses_has_a_bound() {
        let lockout = Lockout::new(1);
        let host = |number: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
        for number in 0..2 * u32::try_from(ADDRESSES).unwrap() {
            lockout.wrong(host(number), 0);
        }
        assert_eq!(lockout.counts.lock().unwrap().len(), ADDRESSES + 1);
        assert_eq!(lockout.wrong(host(u32::MAX), 1), Verdict::Beyond);
        // A minute later there is room again.
        assert_eq!(lockout.wrong(host(u32::MAX), WINDOW_MS), Verdict::Few);
        assert_eq!(lockout.counts.lock().unwrap().len(), 1);
    }
}
