//! What a session says: its records as they are, its messages as a model would get them, its branches and the names in it.
//!
//! Records come verbatim, page by page. A page ends with the number of its last record, and the next one begins behind it; so that nothing is
//! left out and nothing comes for ever, a page never ends with a line that has no number of its own, nor before one whose number was used before.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use unforget_core::blob::Blobs;
use unforget_core::history::{Limits, Repair, foreign_messages};
use unforget_core::json as raw;
use unforget_core::mask::mask;
use unforget_core::masked::mask_json;
use unforget_core::reader::LogReader;
use unforget_core::record::Record;
use unforget_core::report::{Note, Report};
use unforget_core::scan::{Scanner, scan};
use unforget_core::stamp::SessionId;
use unforget_core::tree::{Branch, Kind, Label, Tree, Turns};

use super::ask::{self, Asked, Id, Mine, Nothing};
use crate::app::App;
use crate::error::{Problem, Result};
use crate::realm::Realm;
use crate::transcript::lines::{self, Line, Numbering};

/// How many records a page has if nobody says, and at the most.
const USUAL: usize = 100;
const MOST: usize = 1000;
/// A page with more bytes than this is not added to.
const PAGE_BYTES: usize = 8 << 20;
/// How many bytes of a transcript are looked through for one page.
const LOOKED_THROUGH: u64 = 64 << 20;
/// How many turns a tree is drawn from.
const MAX_TURNS: usize = 2000;
/// How many kinds can be asked for.
const MAX_KINDS: usize = 32;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    after: Option<u64>,
    limit: Option<u64>,
    payloads: Option<bool>,
    masked: Option<bool>,
    kinds: Option<String>,
}

/// What a page of records is made of.
struct Wish {
    after: Option<u64>,
    limit: usize,
    with_payloads: bool,
    is_masked: bool,
    kinds: Vec<String>,
}

impl Which {
    fn wish(self) -> Result<Wish> {
        let kinds: Vec<String> = self.kinds.iter().flat_map(|kinds| kinds.split(',')).map(str::to_owned).collect();
        if kinds.len() > MAX_KINDS || kinds.iter().any(String::is_empty) {
            return Err(Problem::invalid(format!(
                "`kinds` is a list of at most {MAX_KINDS} names, with commas between them"
            )));
        }
        let limit = ask::bounded("limit", self.limit, USUAL, MOST)?;
        let (with_payloads, is_masked) = (self.payloads == Some(true), self.masked == Some(true));
        Ok(Wish { after: self.after, limit, with_payloads, is_masked, kinds })
    }
}

/// A page of a session's records.
pub(super) async fn records(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(which): Asked<Which>,
) -> Result<Response> {
    let wish = which.wish()?;
    let page = app.hub.blocking(&realm, move |realm| {
        let entry = realm.entry(&id)?;
        let numbering = if entry.dir.has_sides() { Numbering::Counted } else { Numbering::Own };
        page(&realm.store().read(&entry)?, numbering, &realm.store().blobs(), &wish)
    });
    Ok(ask::json_text(StatusCode::OK, page.await?))
}

fn page(reader: &LogReader, numbering: Numbering, blobs: &Blobs, wish: &Wish) -> Result<String> {
    let mut at = lines::behind(reader, wish.after, numbering)?;
    let from = at.offset;
    let mut out = String::from("{\"records\":[");
    let (mut count, mut last, mut next) = (0, None, None);
    'page: loop {
        let (found, behind) = lines::read(reader, at, reader.len(), usize::MAX, numbering)?;
        if behind == at {
            break;
        }
        for line in &found {
            let is_full = count >= wish.limit || out.len() >= PAGE_BYTES || line.offset - from >= LOOKED_THROUGH;
            let is_numbered = line.text.is_some() && last.is_none_or(|last| line.n > last);
            if is_full && is_numbered && last.is_some() {
                next = last;
                break 'page;
            }
            last = last.max(Some(line.n));
            if is_of(line, &wish.kinds) {
                out.push_str(if count == 0 { "" } else { "," });
                out.push_str(&shown(line, blobs, wish)?);
                count += 1;
            }
        }
        at = behind;
    }
    out.push_str(&format!("],\"next\":{}}}", next.map_or("null".to_owned(), |n| n.to_string())));
    Ok(out)
}

/// Whether a line is of one of the kinds that are asked for; damage is told in any case.
fn is_of(line: &Line, kinds: &[String]) -> bool {
    let Some(text) = line.text.as_deref().filter(|_| !kinds.is_empty()) else { return true };
    let members = raw::members(text.trim_ascii()).unwrap_or_default();
    let kind = raw::member(&members, "type").and_then(raw::string);
    kind.is_some_and(|kind| kinds.iter().any(|wanted| *wanted == kind))
}

fn shown(line: &Line, blobs: &Blobs, wish: &Wish) -> Result<String> {
    let n = line.n;
    let Some(text) = &line.text else {
        return Ok(format!("{{\"n\":{n},\"damage\":{{\"offset\":{},\"bytes\":{}}}}}", line.offset, line.len));
    };
    let restored = match Record::parse(text, line.offset, n) {
        // What is missing is said in its place.
        Ok(record) if wish.with_payloads => blobs.restore(&record, &mut Vec::new())?,
        _ => None,
    };
    let text = restored.as_ref().unwrap_or(text);
    let text = if wish.is_masked { mask_json(text, 0) } else { text.into() };
    Ok(format!("{{\"n\":{n},\"record\":{text}}}"))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Room {
    budget: Option<u64>,
}

/// The conversation as it would be sent now.
pub(super) async fn messages(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(room): Asked<Room>,
) -> Result<Response> {
    if room.budget == Some(0) {
        return Err(Problem::invalid("`budget` is a number of tokens, at least 1"));
    }
    let limits = room.budget.map_or_else(Limits::default, Limits::tokens);
    let (text, report) = app.hub.blocking(&realm, move |realm| sent(realm, &id, &limits)).await?;
    app.hub.shared().metrics.read(&report);
    Ok(ask::json_text(StatusCode::OK, text))
}

/// The conversation of a session, as the text of a JSON object, and what was met in its transcript.
pub(crate) fn sent(realm: &Realm, id: &SessionId, limits: &Limits) -> Result<(String, Report)> {
    let entry = realm.entry(id)?;
    if entry.dir.has_sides() {
        // That program has its own rules for what it sends, and no budget.
        let bytes = realm.store().read(&entry)?.read_all()?;
        let scanned = scan(&bytes);
        let history = foreign_messages(&scanned.records);
        let (messages, repairs) = (history.messages.join(","), repairs(&history.repairs));
        let (damage, oddities) = (notes(scanned.report.damage()), notes(scanned.report.oddities()));
        let text = format!(
            "{{\"messages\":[{messages}],\"system\":null,\"tools\":null,\"model\":null,\"repairs\":{repairs},\"damage\":{damage},\"oddities\":{oddities}}}"
        );
        return Ok((text, scanned.report));
    }
    let restored = realm.store().history(&entry, limits)?;
    let history = &restored.history;
    let text = format!(
        "{{\"messages\":{},\"system\":{},\"tools\":{},\"model\":{},\"repairs\":{},\"damage\":{},\"oddities\":{}}}",
        history.to_json(),
        history.system.as_deref().unwrap_or("null"),
        history.tools.as_deref().unwrap_or("null"),
        history.model.as_deref().map_or("null".to_owned(), raw::quote),
        repairs(&history.repairs),
        notes(restored.report.damage()),
        notes(restored.report.oddities()),
    );
    Ok((text, restored.report))
}

/// What had to be put right.
pub(super) fn repairs(all: &[Repair]) -> serde_json::Value {
    let told = all
        .iter()
        .map(|repair| json!({ "n": repair.n, "kind": repair.kind.name(), "message": repair.kind.to_string() }));
    told.collect::<Vec<_>>().into()
}

fn notes<'n>(notes: impl Iterator<Item = &'n Note>) -> serde_json::Value {
    let notes = notes.map(|note| {
        let (kind, message) = (note.kind.name(), note.kind.to_string());
        json!({ "offset": note.offset, "bytes": note.len, "line": note.line, "kind": kind, "message": message })
    });
    notes.collect::<Vec<_>>().into()
}

/// Reads the tree of a session.
async fn tree_of(app: &App, realm: &Arc<Realm>, id: SessionId) -> Result<Tree> {
    app.hub.blocking(realm, move |realm| Ok(Tree::read(&realm.store().read(&realm.entry(&id)?)?)?)).await
}

/// The branches of a session.
pub(super) async fn tree(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    let shown = app.hub.blocking(&realm, move |realm| {
        let reader = realm.store().read(&realm.entry(&id)?)?;
        let (mut turns, mut scanner, mut forward) = (Turns::newest(MAX_TURNS), Scanner::default(), reader.forward(0));
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| turns.feed(&record));
        }
        let tree = turns.tree();
        let branches = tree.branches().into_iter().map(|branch| {
            let words = branch.words.as_deref().map(|words| mask(words).into_owned());
            Branch { words, ..branch }
        });
        let named = tree.labels().into_iter().filter_map(|label| label.to);
        let mut numbers: Vec<u64> =
            tree.head().into_iter().chain(named).chain(turns.compactions().iter().copied()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let places = numbers.into_iter().filter_map(|n| Some(json!({ "n": n, "turn": turns.of(n)? })));
        Ok(json!({
            "places": places.collect::<Vec<_>>(),
            "head": tree.head(),
            "current": tree.current(),
            "branches": branches.collect::<Vec<_>>(),
            "labels": tree.labels(),
            "compactions": turns.compactions(),
            "turns": turns.turns(),
            "more": turns.is_cut(),
        }))
    });
    Ok(ask::answer(StatusCode::OK, &shown.await?))
}

/// The checkpoints of a session, the latest last.
pub(super) async fn checkpoints(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    let tree = tree_of(&app, &realm, id).await?;
    let mut labels: Vec<Label> = tree.labels().into_iter().filter(|label| label.kind == Kind::Checkpoint).collect();
    labels.sort_by_key(|label| label.n);
    Ok(ask::answer(StatusCode::OK, &json!({ "checkpoints": labels })))
}
