//! Numbers for those who run the server. They name no actor, no session and no word that was said.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use unforget_core::report::{Report, Weight};

use crate::error::Problem;

/// Upper ends of the times that turns are sorted by, in seconds.
const SECONDS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// How something went.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Went {
    outcome: String,
}

/// Which request, and how it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: String,
    route: String,
    status: u16,
}

/// What a reader of a transcript met.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Met {
    weight: &'static str,
    kind: &'static str,
}

/// The numbers.
pub struct Metrics {
    notes: Family<Met, Counter>,
    registry: Mutex<Registry>,
    turns: Family<Went, Counter>,
    turn_seconds: Histogram,
    requests: Family<Asked, Counter>,
    refused: Family<Went, Counter>,
    /// WebSockets that are open.
    pub sockets: Gauge,
    /// Sessions that are live.
    pub sessions: Gauge,
    /// Connections that are open.
    pub connections: Gauge,
    /// Bytes that clients have sent and that are still held.
    pub in_flight: Gauge,
    /// Viewers that were let go because they read too slowly.
    pub slow_readers: Counter,
    /// Sessions whose task did not end well.
    pub panics: Counter,
    /// Prompts that a restart found accepted and not ended.
    pub recovered: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("unforget")),
            turns: Family::default(),
            turn_seconds: Histogram::new(SECONDS),
            requests: Family::default(),
            refused: Family::default(),
            notes: Family::default(),
            sockets: Gauge::default(),
            sessions: Gauge::default(),
            connections: Gauge::default(),
            in_flight: Gauge::default(),
            slow_readers: Counter::default(),
            panics: Counter::default(),
            recovered: Counter::default(),
        };
        {
            let mut registry = metrics.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.register("turns", "Turns that ended", metrics.turns.clone());
            registry.register("turn_seconds", "How long turns took", metrics.turn_seconds.clone());
            registry.register("http_requests", "Requests that were answered", metrics.requests.clone());
            registry.register("refused", "What was refused, and why", metrics.refused.clone());
            registry.register(
                "transcript_notes",
                "Damage and oddities that readers met in transcripts, each time that they were read",
                metrics.notes.clone(),
            );
            registry.register("sockets", "WebSockets that are open", metrics.sockets.clone());
            registry.register("live_sessions", "Sessions that are live", metrics.sessions.clone());
            registry.register("connections", "Connections that are open", metrics.connections.clone());
            let what = "Bytes that clients have sent and that are still held";
            registry.register("in_flight_bytes", what, metrics.in_flight.clone());
            registry.register(
                "slow_readers",
                "Viewers let go because they read too slowly",
                metrics.slow_readers.clone(),
            );
            registry.register("session_failures", "Session tasks that did not end well", metrics.panics.clone());
            registry.register(
                "recovered_prompts",
                "Attempts to run prompts that were accepted before and had not begun, after a restart or elsewhere",
                metrics.recovered.clone(),
            );
        }
        metrics
    }
}

impl Metrics {
    /// A turn ended.
    pub fn turn(&self, took: Duration, problem: Option<&Problem>) {
        let outcome = problem.map_or("ended", |problem| problem.code.name()).to_owned();
        self.turns.get_or_create(&Went { outcome }).inc();
        self.turn_seconds.observe(took.as_secs_f64());
    }

    /// A request was answered.
    pub fn request(&self, method: &str, route: &str, status: u16) {
        // Any word may be sent as a method, and each would be kept.
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let method = known.into_iter().find(|known| *known == method).unwrap_or("other");
        let asked = Asked { method: method.to_owned(), route: route.to_owned(), status };
        self.requests.get_or_create(&asked).inc();
    }

    /// Something was refused.
    pub fn refuse(&self, problem: &Problem) {
        self.refused.get_or_create(&Went { outcome: problem.code.name().to_owned() }).inc();
    }

    /// A transcript was read.
    pub fn read(&self, report: &Report) {
        for note in report.notes.iter().filter(|note| note.kind.weight() != Weight::Remark) {
            self.notes.get_or_create(&Met { weight: note.kind.weight().name(), kind: note.kind.name() }).inc();
        }
        for (weight, count) in [(Weight::Damage, report.unlisted), (Weight::Oddity, report.unlisted_oddities)] {
            if count > 0 {
                self.notes.get_or_create(&Met { weight: weight.name(), kind: "unlisted" }).inc_by(count);
            }
        }
    }

    /// All of it, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if encode(&mut text, &registry).is_err() {
            tracing::error!("the numbers cannot be written");
        }
        text
    }
}
