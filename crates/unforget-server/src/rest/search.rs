//! `/search`: what was said, in any session of the actor. What looks like a secret is masked in what is shown.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use unforget_core::mask::mask;
use unforget_core::retention::Pattern;
use unforget_core::search::snippet::COLUMNS;
use unforget_core::search::{self, Filter, Hit, Place, Query, QueryError, Role, SearchQuery, Snippet, Trash};
use unforget_core::stamp;
use unforget_core::store::Way;

use super::ask::{self, Asked, Mine};
use crate::app::App;
use crate::error::{Problem, Result};
use crate::realm::Realm;

/// How many hits there are if nobody says, and at the most.
const USUAL: usize = 20;
const MOST: usize = 200;
/// The longest question, in characters.
const MAX_QUESTION: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    q: String,
    limit: Option<u64>,
    agent: Option<String>,
    channel: Option<String>,
    peer: Option<String>,
    key: Option<String>,
    role: Option<String>,
    tool: Option<String>,
    since: Option<String>,
    until: Option<String>,
    trash: Option<bool>,
}

impl Question {
    fn request(self) -> Result<SearchQuery> {
        if self.q.chars().count() > MAX_QUESTION {
            return Err(Problem::invalid(format!("`q` has at most {MAX_QUESTION} characters")));
        }
        let query = Query::parse(&self.q).map_err(|QueryError { what, hint, .. }| {
            let hint = hint.to_string();
            Problem::invalid(if hint.is_empty() { format!("`q`: {what}") } else { format!("`q`: {what}; {hint}") })
        })?;
        let role = |name: &str| {
            Role::parse(name).ok_or_else(|| Problem::invalid(format!("`role`: there is none like `{name}`")))
        };
        let filter = Filter {
            agent: self.agent,
            channel: self.channel,
            peer: self.peer,
            key: self.key.as_deref().map(Pattern::parse).transpose()?,
            since_ms: ask::time("since", self.since.as_deref())?,
            until_ms: ask::time("until", self.until.as_deref())?,
            roles: self.role.iter().flat_map(|roles| roles.split(',')).map(role).collect::<Result<_>>()?,
            tool: self.tool,
            trash: if self.trash == Some(false) { Trash::LeftOut } else { Trash::Searched },
        };
        Ok(SearchQuery { query, filter, limit: ask::bounded("limit", self.limit, USUAL, MOST)? })
    }
}

/// What was said where.
pub(super) async fn search(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(question): Asked<Question>,
) -> Result<Response> {
    let request = question.request()?;
    app.hub.refresh(&realm).await;
    let found = app.hub.blocking(&realm, move |realm| look(realm, &request)).await?;
    Ok(ask::answer(StatusCode::OK, &found))
}

/// The same for whoever asks otherwise.
pub(crate) fn find(realm: &Realm, question: Question) -> Result<Value> {
    look(realm, &question.request()?)
}

fn look(realm: &Realm, request: &SearchQuery) -> Result<Value> {
    let store = realm.store();
    let scan = |places: &[Place]| search::scan(store, places.iter(), request);
    let answer = realm.catalog().search_with(request, Way::Index, &scan, &mut |_, _| {})?.value;
    let hits = answer.hits.iter().map(|hit| {
        let snippet = search::snippet(store, hit, &request.query, COLUMNS)?.unwrap_or_default();
        Ok(shown(hit, &snippet))
    });
    let hits = hits.collect::<Result<Vec<Value>>>()?;
    Ok(json!({ "hits": hits, "more": answer.more, "unreadable": answer.unreadable.len() }))
}

fn shown(hit: &Hit, snippet: &Snippet) -> Value {
    let marks: Vec<[usize; 2]> = snippet.marks.iter().map(|mark| [mark.start, mark.end]).collect();
    json!({
        "session": hit.place.id.as_str(),
        "key": hit.key,
        "title": hit.title.as_deref().map(mask),
        "n": hit.n,
        "offset": hit.offset,
        "at": Some(hit.at_ms).filter(|ms| *ms > 0).map(stamp::rfc3339),
        "role": hit.role.name(),
        "tool": hit.tool,
        "trashed": hit.place.is_trashed,
        "abandoned": hit.is_abandoned,
        "tokens": hit.len,
        "snippet": snippet.text,
        "marks": marks,
    })
}
