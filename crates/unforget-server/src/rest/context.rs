//! `/context`: what fills the context window now, if the conversation went on.
//!
//! It is read from the transcript as a turn would read it, by the same gauge. How large the window is, is known of the agents that run here; of a
//! conversation that another program has with a model, only its records are known, and everything is an estimate.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use unforget_agent::fill::{Fill, Large, Part};
use unforget_agent::gauge::Gauge;
use unforget_core::directory::Entry;
use unforget_core::history::{self, Limits, Path, Repair};
use unforget_core::lines;
use unforget_core::mask::mask;
use unforget_core::record::{Body, Record};
use unforget_core::scan::Scanner;
use unforget_core::speech;
use unforget_core::view;

use super::ask::{self, Asked, Id, Mine, Nothing};
use super::read;
use crate::agent::Room;
use crate::app::App;
use crate::error::Result;
use crate::realm::Realm;

/// What fills the window.
pub(super) async fn context(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    let agents = app.hub.agents().clone();
    let shown = app.hub.blocking(&realm, move |realm| {
        let entry = realm.entry(&id)?;
        if entry.dir.has_sides() {
            return foreign(realm, &entry);
        }
        let room = agents.of(&entry.dir).room();
        let limits = room.as_ref().map_or_else(Limits::default, |room| room.reach);
        let (store, path) = (realm.store(), realm.store().path(&entry)?);
        Ok(view::read(store.medium().as_ref(), &path, &store.blobs(), &limits, |path, _| {
            let repairs = history::rebuild(path, &limits).repairs;
            Window::of(path, room.as_ref(), &|n| n).json(&repairs)
        })?)
    });
    Ok(ask::answer(StatusCode::OK, &shown.await?))
}

/// The same for lines of another program, which have their numbers by counting.
fn foreign(realm: &Realm, entry: &Entry) -> Result<Value> {
    let bytes = realm.store().read(entry)?.read_all()?;
    let (mut scanner, mut records, mut places) = (Scanner::default(), Vec::new(), Vec::new());
    for (place, line) in (0..).zip(lines::split(&bytes, 0)) {
        scanner.feed(&line, |record| {
            places.push((record.n, place));
            records.push(record);
        });
    }
    // The scanner counts records, so both numbers rise.
    let line = |n: u64| places.binary_search_by_key(&n, |(n, _)| *n).map_or(n, |at| places[at].1);
    Ok(Window::of(&history::path(&records), None, &line).json(&[]))
}

/// What a conversation has in its window.
struct Window<'w> {
    room: Option<&'w Room>,
    model: Option<String>,
    gauge: Gauge,
    fill: Fill,
    pins: Vec<(u64, String)>,
    cut: Option<u64>,
}

impl<'w> Window<'w> {
    fn of(path: &Path<'_, '_>, room: Option<&'w Room>, line: &dyn Fn(u64) -> u64) -> Self {
        let model = room.map(|room| room.model.clone()).or_else(|| last_model(path));
        let gauge = Gauge::of(path, model.as_deref().unwrap_or_default());
        let mut fill = Fill::of(path, &gauge);
        fill.largest.iter_mut().for_each(|large| large.n = line(large.n));
        Self { room, model, gauge, fill, pins: speech::pins(path), cut: cut(path).map(line) }
    }

    fn json(&self, repairs: &[Repair]) -> Value {
        let parts = Part::ALL.into_iter().map(|part| (part.name().to_owned(), self.fill.parts.of(part).into()));
        let largest = self
            .fill
            .largest
            .iter()
            .map(|Large { n, kind, tokens, name }| json!({ "n": n, "kind": kind, "tokens": tokens, "name": name }));
        let pins = self.pins.iter().map(|(n, text)| json!({ "n": n, "text": mask(text) }));
        json!({
            "model": self.model,
            "window": self.room.map(|room| room.window),
            "limit": self.room.map(|room| room.limit),
            "tokens": self.gauge.tokens,
            "measured": self.gauge.measured,
            "estimated": self.gauge.estimated,
            "provenance": self.gauge.provenance(),
            "messages": self.gauge.messages,
            "parts": parts.collect::<serde_json::Map<String, Value>>(),
            "largest": largest.collect::<Vec<_>>(),
            "repairs": read::repairs(repairs),
            "pins": pins.collect::<Vec<_>>(),
            "cut": self.cut,
        })
    }
}

/// The model that is stated, or that answered last.
fn last_model(path: &Path<'_, '_>) -> Option<String> {
    path.records.iter().rev().find_map(|record| {
        let model = match (&record.body, &record.foreign) {
            (_, Some(foreign)) => foreign.model.as_ref(),
            (Body::Context { model, .. } | Body::Assistant { model, .. } | Body::Turn { model, .. }, None) => {
                model.as_ref()
            }
            _ => None,
        };
        model.map(|model| model.clone().into_owned())
    })
}

/// The first record that is sent word for word, if what was before it is not.
fn cut(path: &Path<'_, '_>) -> Option<u64> {
    let is_cut = path.begins_late || path.records.iter().any(|record| matches!(record.body, Body::Compaction { .. }));
    let is_said = |record: &&Record<'_>| {
        record.is_sent() && !matches!(record.body, Body::Compaction { .. } | Body::Context { .. })
    };
    path.records.iter().copied().find(is_said).filter(|_| is_cut).map(|record| record.n)
}
