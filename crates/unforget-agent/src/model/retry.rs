//! How often and after which waits a request is sent again.
//!
//! It owns the numbers and the bound, and neither sends nor sleeps: whoever asks announces the wait before it begins. A
//! server that names a time is believed, up to a bound; a wait longer than a person would sit through is told to the
//! person instead.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

use super::ModelError;
use super::refusal::{Again, Refusal};

/// Longest wait that a server is granted.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Longest wait between two tries when no server names one, before jitter.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// A server that cannot even be connected to is tried so often again: it is more likely not there than busy.
const UNREACHABLE: u32 = 2;

/// How a request is sent again that nobody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often, after the first time.
    pub times: u32,
    /// The first wait; each further one is twice as long.
    pub first_wait: Duration,
    /// What is added to each wait.
    pub jitter: Jitter,
}

/// What is added to a wait, so that many clients do not come back at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// A random part of it, up to as much again.
    Random,
    /// Nothing.
    None,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: 4, first_wait: Duration::from_secs(1), jitter: Jitter::Random }
    }
}

/// The waits of one request.
#[derive(Debug)]
pub(super) struct Waits {
    delays: ExponentialBackoff,
    attempt: u32,
    of: u32,
}

/// A wait, and which retry it is before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) attempt: u32,
    pub(super) of: u32,
    pub(super) time: Duration,
}

impl Waits {
    pub(super) fn new(retry: &Retry, at_most: u32) -> Self {
        let of = retry.times.min(at_most);
        let mut delays = ExponentialBuilder::new()
            .with_min_delay(retry.first_wait)
            .with_max_delay(MAX_DELAY)
            .with_max_times(usize::try_from(of).unwrap_or(usize::MAX));
        if retry.jitter == Jitter::Random {
            delays = delays.with_jitter();
        }
        Self { delays: delays.build(), attempt: 0, of }
    }

    /// How long to wait before the request is sent again; the error, if it is not.
    pub(super) fn next(&mut self, refusal: Refusal) -> Result<Wait, ModelError> {
        let named = match refusal.again {
            Again::Never => return Err(refusal.error),
            Again::Later => Duration::ZERO,
            Again::After(wait) if wait > MAX_WAIT => return Err(too_long(refusal.error, wait)),
            Again::After(wait) => wait,
        };
        if matches!(refusal.error, ModelError::Unreachable { .. }) && self.attempt >= UNREACHABLE {
            return Err(refusal.error);
        }
        let Some(delay) = self.delays.next() else { return Err(refusal.error) };
        self.attempt += 1;
        // As many as there will be: a server that cannot be reached is not tried as often as one that is busy.
        let is_unreachable = matches!(refusal.error, ModelError::Unreachable { .. });
        let of = if is_unreachable { self.of.min(UNREACHABLE) } else { self.of };
        Ok(Wait { attempt: self.attempt, of, time: named.max(delay) })
    }
}

/// The error, with a word about the wait that was not waited.
fn too_long(mut error: ModelError, wait: Duration) -> ModelError {
    error.message_mut().push_str(&format!(" (the server asks to wait {} s)", wait.as_secs()));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(again: Again) -> Refusal {
        Refusal { error: ModelError::Unavailable { message: "busy".to_owned() }, again }
    }

    fn waits(retry: &Retry, refusals: &[Again]) -> Vec<Option<Duration>> {
        let mut waits = Waits::new(retry, u32::MAX);
        refusals.iter().map(|again| waits.next(busy(*again)).ok().map(|wait| wait.time)).collect()
    }

    const STEADY: Retry = Retry { times: 4, first_wait: Duration::from_secs(1), jitter: Jitter::None };

    #[test]
    fn waits_double_and_end() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(waits(&STEADY, &[Again::Later; 5]), [seconds(1), seconds(2), seconds(4), seconds(8), None]);
        let often = Retry { times: 9, ..STEADY };
        assert_eq!(waits(&often, &[Again::Later; 9])[5..], [Some(MAX_DELAY); 4]);
        assert_eq!(waits(&Retry { times: 0, ..STEADY }, &[Again::Later]), [None]);
    }

    #[test]
    fn b11_no_more_retries_are_announced_than_are_made() {
        let mut waits = Waits::new(&STEADY, u32::MAX);
        let away = || Refusal { error: ModelError::Unreachable { message: String::new() }, again: Again::Later };
        let told: Vec<_> = (0..3).map(|_| waits.next(away()).ok().map(|wait| (wait.attempt, wait.of))).collect();
        assert_eq!(told, [Some((1, 2)), Some((2, 2)), None]);
    }

    #[test]
    fn jitter_adds_at_most_as_much_again() {
        let retry = Retry { jitter: Jitter::Random, ..STEADY };
        for _ in 0..50 {
            let first = waits(&retry, &[Again::Later])[0].unwrap();
            assert!((STEADY.first_wait..=2 * STEADY.first_wait).contains(&first), "{first:?}");
        }
    }

    #[test]
    fn a_named_time_is_waited_unless_it_is_shorter_than_the_own_one() {
        let after = |seconds| Again::After(Duration::from_secs(seconds));
        let got = waits(&STEADY, &[after(7), after(0), after(60), after(61)]);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(got, [seconds(7), seconds(2), seconds(60), None]);
    }

    #[test]
    fn tries_are_counted() {
        let mut waits = Waits::new(&STEADY, 2);
        let mut next = || waits.next(busy(Again::Later)).map(|wait| (wait.attempt, wait.of)).ok();
        assert_eq!([next(), next(), next()], [Some((1, 2)), Some((2, 2)), None]);
    }

    #[test]
    fn a_wait_that_is_too_long_is_told() {
        let wait = Duration::from_secs(3600);
        let error = ModelError::RateLimited { message: "slow down".to_owned(), retry_after: Some(wait) };
        let refusal = Refusal { error, again: Again::After(wait) };
        let told = Waits::new(&STEADY, 4).next(refusal).unwrap_err();
        let message = "slow down (the server asks to wait 3600 s)".to_owned();
        assert_eq!(told, ModelError::RateLimited { message, retry_after: Some(wait) });
    }

    #[test]
    fn what_would_be_refused_again_is_not_sent_again() {
        let told = Waits::new(&STEADY, 4).next(busy(Again::Never)).unwrap_err();
        assert_eq!(told, ModelError::Unavailable { message: "busy".to_owned() });
    }
}
