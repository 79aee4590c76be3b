//! What fills the context window now, if the conversation went on.
//!
//! It is read from the transcript as a turn would read it, by the same gauge. How large the window
//! is, is known of the agents that run here; of a conversation that another program has with a
//! model, only its records are known, and everything is an estimate.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
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

use super::messages::ListedRepair;
use super::{Access as _, InSession, Verb};
use crate::agent::Room;
use crate::app::App;
use crate::error::Result;
use crate::realm::Realm;

/// Asks what fills the window.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowWindow {}

/// What fills the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowContent {
    pub model: Option<String>,
    pub window: Option<u64>,
    /// From how many tokens on the agent makes room.
    pub limit: Option<u64>,
    pub tokens: u64,
    pub measured: u64,
    pub estimated: u64,
    pub provenance: String,
    pub messages: u64,
    pub parts: BTreeMap<&'static str, u64>,
    pub largest: Vec<LargeRecord>,
    pub repairs: Vec<ListedRepair>,
    pub pins: Vec<PinnedWords>,
    /// The first record that is sent word for word, if something before it is not.
    pub cut: Option<u64>,
}

/// A large record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LargeRecord {
    pub n: u64,
    pub kind: String,
    pub tokens: u64,
    pub name: Option<String>,
}

/// The pinned words of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PinnedWords {
    pub n: u64,
    pub text: String,
}

impl Verb<App> for InSession<ShowWindow> {
    type Answer = WindowContent;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<WindowContent> {
        let id = app.reach(realm, &self.session).await?;
        let agents = app.hub.agents().clone();
        let content = app.hub.blocking(realm, move |realm| {
            let entry = realm.entry(&id)?;
            if entry.dir.has_sides() {
                return foreign(realm, &entry);
            }
            let room = agents.of(&entry.dir).room();
            let limits = room.as_ref().map_or_else(Limits::default, |room| room.reach);
            let (store, path) = (realm.store(), realm.store().path(&entry)?);
            Ok(view::read(store.medium().as_ref(), &path, &store.blobs(), &limits, |path, _| {
                let repairs = history::rebuild(path, &limits).repairs;
                content(path, room.as_ref(), &repairs, &|n| n)
            })?)
        });
        content.await
    }
}

/// The same for lines of another program, which have their numbers by counting.
fn foreign(realm: &Realm, entry: &Entry) -> Result<WindowContent> {
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
    Ok(content(&history::path(&records), None, &[], &line))
}

/// What a conversation has in its window; `number` makes the number of a record what clients know
/// it by.
fn content(path: &Path<'_, '_>, room: Option<&Room>, repairs: &[Repair], number: &dyn Fn(u64) -> u64) -> WindowContent {
    let model = room.map(|room| room.model.clone()).or_else(|| last_model(path));
    let gauge = Gauge::of(path, model.as_deref().unwrap_or_default());
    let fill = Fill::of(path, &gauge);
    let large = |Large { n, kind, tokens, name }| LargeRecord { n: number(n), kind, tokens, name };
    let pinned = |(n, text): (u64, String)| PinnedWords { n, text: mask(&text).into_owned() };
    WindowContent {
        model,
        window: room.map(|room| room.window),
        limit: room.map(|room| room.limit),
        tokens: gauge.tokens,
        measured: gauge.measured,
        estimated: gauge.estimated,
        provenance: gauge.provenance(),
        messages: gauge.messages,
        parts: Part::ALL.into_iter().map(|part| (part.name(), fill.parts.of(part))).collect(),
        largest: fill.largest.into_iter().map(large).collect(),
        repairs: repairs.iter().map(ListedRepair::of).collect(),
        pins: speech::pins(path).into_iter().map(pinned).collect(),
        cut: cut(path).map(number),
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
