//! What SDKs of agents ask of a session store, one request an operation. What the operations mean
//! is in [`crate::entries`].
//!
//! Entries go through as text, byte for byte. The transports take them out of a request while they
//! read it, so `AppendEntries` holds the text of each and nothing here parses one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{IntoJson, JsonText, Verb, Written};
use crate::app::App;
use crate::entries::{Entries, Key, Spelling};
use crate::error::{Problem, Result};
use crate::realm::Realm;

/// A process that keeps entries.
pub(crate) trait KeepsEntries: Send + Sync + 'static {
    /// Its entries.
    fn entries(&self) -> &Entries;
}

impl KeepsEntries for App {
    fn entries(&self) -> &Entries {
        &self.entries
    }
}

/// A key as it comes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntriesKey {
    project_key: String,
    session_id: String,
    #[serde(default)]
    subpath: Option<String>,
}

impl EntriesKey {
    pub(crate) fn check(self) -> Result<Key> {
        Key::new(self.project_key, self.session_id, self.subpath)
    }

    /// What the requests of one session have in common, to keep them in order.
    pub(crate) fn group(&self) -> (&str, &str) {
        (&self.project_key, &self.session_id)
    }
}

/// Appends entries, each the text of a JSON object.
#[derive(Debug)]
pub(crate) struct AppendEntries {
    pub(crate) key: EntriesKey,
    pub(crate) entries: Vec<Box<str>>,
}

impl<H: KeepsEntries> Verb<H> for AppendEntries {
    type Answer = Written<()>;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Written<()>> {
        let durability = host.entries().append(realm, &self.key.check()?, self.entries).await?;
        Ok(Written { answer: (), durability: Some(durability) })
    }
}

/// Asks for all entries of a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadEntries {
    pub(crate) key: EntriesKey,
}

impl<H: KeepsEntries> Verb<H> for LoadEntries {
    type Answer = JsonText;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<JsonText> {
        let loaded = host.entries().load(realm, &self.key.check()?).await?;
        Ok(JsonText(loaded.unwrap_or_else(|| "null".to_owned())))
    }
}

/// Asks for a page of the entries of a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadEntries {
    pub(crate) key: EntriesKey,
    #[serde(default)]
    cursor: Option<String>,
}

impl<H: KeepsEntries> Verb<H> for ReadEntries {
    type Answer = JsonText;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<JsonText> {
        let page = host.entries().read(realm, &self.key.check()?, self.cursor).await?;
        Ok(JsonText(page.map_or_else(|| "null".to_owned(), |page| page.to_json())))
    }
}

/// Asks for the sessions of a project.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListEntrySessions {
    project_key: String,
}

/// A session of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntrySession {
    pub session_id: String,
    /// When it was written last, in milliseconds since the epoch.
    pub mtime: i64,
}

impl<H: KeepsEntries> Verb<H> for ListEntrySessions {
    type Answer = Vec<EntrySession>;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Vec<EntrySession>> {
        let listed = host.entries().list(realm, &self.project_key, Spelling::Python).await?;
        let named = listed.into_iter().map(|it| EntrySession { session_id: it.session_id, mtime: it.mtime_ms });
        Ok(named.collect())
    }
}

/// Asks for the sessions of a project with their summaries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SummariseEntries {
    project_key: String,
    #[serde(default)]
    spelling: Spelling,
}

/// A session of a project and its summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntrySummary {
    #[serde(flatten)]
    pub session: EntrySession,
    /// What a list of the SDK shows of it, in the SDK's spelling.
    pub data: serde_json::Map<String, serde_json::Value>,
}

impl<H: KeepsEntries> Verb<H> for SummariseEntries {
    type Answer = Vec<EntrySummary>;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Vec<EntrySummary>> {
        let listed = host.entries().list(realm, &self.project_key, self.spelling).await?;
        let summed = listed.into_iter().map(|it| {
            let session = EntrySession { session_id: it.session_id, mtime: it.mtime_ms };
            EntrySummary { session, data: it.data }
        });
        Ok(summed.collect())
    }
}

/// Deletes what a key names, with everything beneath it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteEntries {
    pub(crate) key: EntriesKey,
}

impl<H: KeepsEntries> Verb<H> for DeleteEntries {
    type Answer = ();

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<()> {
        host.entries().delete(realm, &self.key.check()?).await
    }
}

/// Asks what a session has beneath it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSubkeys {
    pub(crate) key: EntriesKey,
}

impl<H: KeepsEntries> Verb<H> for ListSubkeys {
    type Answer = Vec<String>;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<Vec<String>> {
        if self.key.subpath.is_some() {
            return Err(Problem::invalid("`subpath` has no meaning here"));
        }
        host.entries().list_subkeys(realm, &self.key.check()?).await
    }
}

/// An answer of HTTP, which has the result in `ok`.
pub(crate) fn in_ok(answer: impl IntoJson) -> Result<String> {
    let durability = answer.durability().map_or_else(String::new, |it| format!(",\"durability\":\"{}\"", it.name()));
    Ok(format!("{{\"ok\":{}{durability}}}", answer.into_json()?))
}
