//! Asking again.
//!
//! Only what [passes](crate::Error::is_passing) is tried again, a bounded number of times, with a growing and jittered pause, and
//! each time is told to the log. What a remote asks for (`Retry-After`) is honoured.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

use crate::error::{Error, Result};

/// How often and how long to try.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How often a call is made at the most.
    pub attempts: usize,
    /// The first pause.
    pub first: Duration,
    /// The longest pause, also where a remote asks for more.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempts: 5, first: Duration::from_millis(100), longest: Duration::from_secs(10) }
    }
}

/// Makes a call until it succeeds, fails for good, or patience ends.
pub(crate) async fn again<T, F: Future<Output = Result<T>>>(
    patience: Patience,
    what: &'static str,
    mut call: impl FnMut() -> F,
) -> Result<T> {
    let mut pauses = ExponentialBuilder::new()
        .with_min_delay(patience.first)
        .with_max_delay(patience.longest)
        .with_max_times(patience.attempts.saturating_sub(1))
        .with_jitter()
        .build();
    let mut attempt = 1;
    loop {
        let error = match call().await {
            Err(error) if error.is_passing() => error,
            done => return done,
        };
        let Some(pause) = pauses.next() else { return Err(error) };
        let asked = if let Error::Unavailable { wait: Some(wait), .. } = &error { *wait } else { Duration::ZERO };
        let pause = pause.max(asked).min(patience.longest);
        tracing::warn!(operation = what, attempt, pause_ms = pause.as_millis() as u64, %error, "trying again");
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}
