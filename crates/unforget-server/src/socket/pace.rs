//! How fast frames follow each other. AgentCore Runtime lets 250 frames a second through for each connection, and ends one that has more.
//!
//! Some may come at once, the others at an even pace; so in no second there are more than both together.

use std::time::Duration;

use tokio::time::Instant;

/// How many frames may come at once.
const AT_ONCE: u32 = 40;
/// How long each of the others waits for the one before.
const APART: Duration = Duration::from_millis(5);

/// The pace of a connection.
#[derive(Debug)]
pub(super) struct Pace {
    /// When all that was sent would have been sent evenly.
    even: Instant,
}

impl Pace {
    /// That of a connection through AgentCore Runtime.
    pub(super) fn of_runtime() -> Self {
        Self { even: Instant::now() }
    }

    /// Waits until one more frame may go.
    pub(super) async fn step(&mut self) {
        let due = self.due(Instant::now());
        tokio::time::sleep_until(due).await;
    }

    /// When one more frame may go.
    fn due(&mut self, now: Instant) -> Instant {
        self.even = self.even.max(now) + APART;
        now.max(self.even - APART * AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_frames_than_the_runtime_lets_through() {
        let mut pace = Pace::of_runtime();
        let begun = pace.even;
        let (mut now, mut sent) = (begun, Vec::new());
        for at in 0..2000 {
            // A rest in between gathers no more than what may come at once.
            if at == 1000 {
                now += Duration::from_secs(10);
            }
            now = pace.due(now);
            sent.push(now - begun);
        }
        for (at, first) in sent.iter().enumerate() {
            let within = sent[at..].iter().take_while(|time| **time < *first + Duration::from_secs(1)).count();
            assert!(within <= 250, "{within} frames in a second, from {first:?}");
        }
        assert!(sent[20].is_zero(), "few frames do not wait");
        assert!(sent[999] < Duration::from_secs(6), "it is no slower than it has to be");
    }
}
