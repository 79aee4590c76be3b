//! Traces of the server, for those who collect them: OpenTelemetry's protocol over HTTP, as its usual variables say.
//!
//! Only what [`trace`](unforget_server::trace) tells is sent: requests and turns, how long they took and how they ended. Spans are sent by a thread of
//! the library's own, and what cannot be sent is dropped: a collector that is away never stops a turn.

use std::sync::OnceLock;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;
use unforget_server::trace::TARGET;

use crate::failure::{Failure, Result};

/// Where traces go, by the library's own names; without one of these nothing is sent.
const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Sends what was not sent yet.
pub(crate) fn end() {
    if let Some(Err(error)) = PROVIDER.get().map(SdkTracerProvider::shutdown) {
        tracing::warn!(%error, "some traces were not sent");
    }
}

/// What sends traces, if somebody collects them.
pub(crate) fn layer<S>(is_server: bool) -> Result<Option<impl Layer<S>>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let is_collected = VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !is_server || !is_collected {
        return Ok(None);
    }
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("traces cannot be sent: {error}"));
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build().map_err(|error| failed(&error))?;
    let resource = Resource::builder().with_service_name("unforget").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let tracer = provider.tracer("unforget");
    opentelemetry::global::set_tracer_provider(provider.clone());
    // There is one log of a process, and so one provider.
    drop(PROVIDER.set(provider));
    let traced = Targets::new().with_target(TARGET, LevelFilter::INFO);
    Ok(Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(traced)))
}
