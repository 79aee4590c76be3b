//! What was said, in any session of the actor. Text that looks like a secret is masked in the
//! answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unforget_core::mask::mask;
use unforget_core::retention::Pattern;
use unforget_core::search::snippet::COLUMNS;
use unforget_core::search::{self, Filter, Hit, Place, Query, QueryError, Role, SearchQuery, Snippet, Trash};
use unforget_core::stamp;
use unforget_core::store::Way;

use super::{Access, Verb, check};
use crate::error::{Problem, Result};
use crate::realm::Realm;

/// How many hits an answer has if the request does not say, and at the most.
const USUAL: usize = 20;
const MOST: usize = 200;
/// The longest question, in characters.
const MAX_QUESTION: usize = 1000;

/// Asks for the places where something was said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindWords {
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

impl FindWords {
    fn check(self) -> Result<SearchQuery> {
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
            since_ms: check::time("since", self.since.as_deref())?,
            until_ms: check::time("until", self.until.as_deref())?,
            roles: self.role.iter().flat_map(|roles| roles.split(',')).map(role).collect::<Result<_>>()?,
            tool: self.tool,
            trash: if self.trash == Some(false) { Trash::LeftOut } else { Trash::Searched },
        };
        Ok(SearchQuery { query, filter, limit: check::bounded("limit", self.limit, USUAL, MOST)? })
    }
}

/// The places where something was said, best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundWords {
    pub hits: Vec<FoundPlace>,
    pub more: bool,
    /// How many sessions could not be read.
    pub unreadable: usize,
}

/// A record that has the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundPlace {
    pub session: String,
    pub key: Option<String>,
    pub title: Option<String>,
    pub n: u64,
    /// Where its line begins in the file.
    pub offset: u64,
    pub at: Option<String>,
    pub role: &'static str,
    pub tool: Option<String>,
    /// Whether the session is in the trash.
    pub trashed: bool,
    /// Whether the conversation left the record behind.
    pub abandoned: bool,
    pub tokens: usize,
    /// The words and what is around them.
    pub snippet: String,
    /// Where in the snippet the words are, in bytes.
    pub marks: Vec<[usize; 2]>,
}

impl FoundPlace {
    /// A hit of the store's search.
    pub fn of(hit: &Hit, snippet: &Snippet) -> Self {
        Self {
            session: hit.place.id.to_string(),
            key: hit.key.clone(),
            title: hit.title.as_deref().map(|title| mask(title).into_owned()),
            n: hit.n,
            offset: hit.offset,
            at: Some(hit.at_ms).filter(|ms| *ms > 0).map(stamp::rfc3339),
            role: hit.role.name(),
            tool: hit.tool.clone(),
            trashed: hit.place.is_trashed,
            abandoned: hit.is_abandoned,
            tokens: hit.len,
            snippet: snippet.text.clone(),
            marks: snippet.marks.iter().map(|mark| [mark.start, mark.end]).collect(),
        }
    }
}

impl<H: Access> Verb<H> for FindWords {
    type Answer = FoundWords;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<FoundWords> {
        let query = self.check()?;
        host.refresh(realm).await;
        host.blocking(realm, move |realm| find(realm, &query)).await
    }
}

fn find(realm: &Realm, query: &SearchQuery) -> Result<FoundWords> {
    let store = realm.store();
    let scan = |places: &[Place]| search::scan(store, places.iter(), query);
    let answer = realm.catalog().search_with(query, Way::Index, &scan, &mut |_, _| {})?.value;
    let hits = answer.hits.iter().map(|hit| {
        let snippet = search::snippet(store, hit, &query.query, COLUMNS)?.unwrap_or_default();
        Ok(FoundPlace::of(hit, &snippet))
    });
    Ok(FoundWords { hits: hits.collect::<Result<_>>()?, more: answer.more, unreadable: answer.unreadable.len() })
}
