//! What is told of requests and turns to whoever traces them: how long, how they ended, in which session. Never a word that was said.
//!
//! A turn is told as a part of the request that asked for it, although it outlives it. With the feature `otel` a request is a part of what its caller
//! traces (`traceparent`).

use axum::http::HeaderMap;
use tracing::Span;
use tracing::field::Empty;

use crate::realm::Name;

/// What is traced, for those who choose by its name.
pub const TARGET: &str = "unforget_server::trace";

/// A request.
pub(crate) fn request(method: &str, route: &str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(target: TARGET, "request", method, route, status = Empty);
    carry_on(&span, headers);
    span
}

/// A turn, within what asked for it.
pub(crate) fn turn(asked: &Span, agent: &str, name: &Name) -> Span {
    let session = name.id.as_str();
    tracing::info_span!(target: TARGET, parent: asked, "turn", agent, session, outcome = Empty)
}

#[cfg(feature = "otel")]
fn carry_on(span: &Span, headers: &HeaderMap) {
    use opentelemetry::propagation::Extractor;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(axum::http::HeaderName::as_str).collect()
        }
    }

    let caller = opentelemetry::global::get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
    if let Err(error) = span.set_parent(caller) {
        tracing::debug!(%error, "a caller's trace is not carried on");
    }
}

#[cfg(not(feature = "otel"))]
fn carry_on(_: &Span, _: &HeaderMap) {}
