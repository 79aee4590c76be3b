//! `get_current_time`: what the clock says.
//!
//! The clock is injected, so that a turn can be replayed in a test; the time zone is the machine's, if it has one.

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use unforget_core::stamp::SharedSource;

use super::arguments::Arguments;
use super::{Output, Tool};

/// Tells the time.
pub(super) struct CurrentTime {
    clock: SharedSource,
    zone: Option<TimeZone>,
}

impl CurrentTime {
    /// Tells the time of that clock, also in the machine's time zone.
    pub(super) fn new(clock: SharedSource) -> Self {
        Self { clock, zone: TimeZone::try_system().ok() }
    }

    fn tell(&self) -> Result<String, jiff::Error> {
        let now = Timestamp::from_millisecond(self.clock.now_ms())?;
        let utc = now.strftime("%Y-%m-%d %H:%M:%S UTC");
        let Some(zone) = self.zone.as_ref().filter(|zone| **zone != TimeZone::UTC && !zone.is_unknown()) else {
            return Ok(utc.to_string());
        };
        let local = now.to_zoned(zone.clone());
        let name = zone.iana_name().map(|name| format!(", {name}")).unwrap_or_default();
        Ok(format!("{utc}\n{}{name} (local time)", local.strftime("%Y-%m-%d %H:%M:%S %Z")))
    }
}

impl Tool for CurrentTime {
    fn name(&self) -> &'static str {
        "get_current_time"
    }

    fn description(&self) -> &'static str {
        "Tells the current date and time in UTC, and in the local time zone if it is another."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    }

    fn asks_first(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, input: &'a Value, _abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            if let Err(output) = Arguments::new(input, &[]) {
                return output;
            }
            match self.tell() {
                Ok(text) => Output::ok(text),
                Err(error) => Output::failed(format!("the clock shows no valid time: {error}")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unforget_core::stamp::{SessionId, Source};

    use super::*;

    struct At(i64);

    impl Source for At {
        fn now_ms(&self) -> i64 {
            self.0
        }

        fn new_id(&self, _created_ms: i64) -> SessionId {
            SessionId::parse("unused").unwrap()
        }
    }

    fn tell(ms: i64, zone: Option<TimeZone>) -> String {
        CurrentTime { clock: Arc::new(At(ms)), zone }.tell().unwrap()
    }

    #[test]
    fn the_injected_clock_is_told_in_utc() {
        assert_eq!(tell(1_769_868_309_123, None), "2026-01-31 14:05:09 UTC");
        assert_eq!(tell(1_769_868_309_123, Some(TimeZone::UTC)), "2026-01-31 14:05:09 UTC");
    }

    #[test]
    fn another_zone_is_told_too() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let told = "2026-01-31 14:05:09 UTC\n2026-01-31 15:05:09 CET (local time)";
        assert_eq!(tell(1_769_868_309_123, Some(zone)), told);
    }

    #[test]
    fn a_clock_out_of_range_is_said() {
        assert!(CurrentTime { clock: Arc::new(At(i64::MAX)), zone: None }.tell().is_err());
    }
}
