//! The conversation of a session as a model would get it now, and the repairs that this takes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use unforget_core::history::{Limits, Repair, foreign_messages};
use unforget_core::report::{Note, Report};
use unforget_core::scan::scan;
use unforget_core::stamp::SessionId;

use super::{Access, InSession, Verb, raw};
use crate::error::{Problem, Result};
use crate::realm::Realm;

/// Asks for the messages.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowMessages {
    pub(crate) budget: Option<u64>,
}

/// The messages and what belongs to them in a request.
#[derive(Debug, Serialize)]
pub struct SentMessages {
    pub session_id: String,
    pub messages: Box<RawValue>,
    pub system: Option<Box<RawValue>>,
    pub tools: Option<Box<RawValue>>,
    pub model: Option<String>,
    pub repairs: Vec<ListedRepair>,
    pub damage: Vec<ListedNote>,
    /// What no writer leaves in a transcript.
    pub oddities: Vec<ListedNote>,
}

/// A repair of the messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedRepair {
    /// The line, counted from one, where lines and not records are numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub n: u64,
    pub kind: &'static str,
    pub message: String,
}

/// Something that a reader met in a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedNote {
    /// Where it begins in the file.
    pub offset: u64,
    pub bytes: u64,
    pub line: Option<u64>,
    pub kind: &'static str,
    pub message: String,
}

impl ListedRepair {
    /// A repair in a record.
    pub fn of(repair: &Repair) -> Self {
        Self { line: None, n: repair.n, kind: repair.kind.name(), message: repair.kind.to_string() }
    }
}

impl ListedNote {
    /// A note of a report.
    pub fn of(note: &Note) -> Self {
        let (kind, message) = (note.kind.name(), note.kind.to_string());
        Self { offset: note.offset, bytes: note.len, line: note.line, kind, message }
    }
}

impl<H: Access> Verb<H> for InSession<ShowMessages> {
    type Answer = SentMessages;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<SentMessages> {
        if self.what.budget == Some(0) {
            return Err(Problem::invalid("`budget` is a number of tokens, at least 1"));
        }
        let limits = self.what.budget.map_or_else(Limits::default, Limits::tokens);
        let id = host.reach(realm, &self.session).await?;
        let (messages, report) = host.blocking(realm, move |realm| sent(realm, &id, &limits)).await?;
        host.count(&report);
        Ok(messages)
    }
}

/// The messages of a session, and what the reader met in its transcript.
fn sent(realm: &Realm, id: &SessionId, limits: &Limits) -> Result<(SentMessages, Report)> {
    let entry = realm.entry(id)?;
    let notes = |report: &Report| {
        let damage: Vec<ListedNote> = report.damage().map(ListedNote::of).collect();
        (damage, report.oddities().map(ListedNote::of).collect())
    };
    if entry.dir.has_sides() {
        // That program has its own rules for what it sends, and no budget.
        let bytes = realm.store().read(&entry)?.read_all()?;
        let scanned = scan(&bytes);
        let history = foreign_messages(&scanned.records);
        let (damage, oddities) = notes(&scanned.report);
        let messages = SentMessages {
            session_id: id.to_string(),
            messages: raw(format!("[{}]", history.messages.join(",")))?,
            system: None,
            tools: None,
            model: None,
            repairs: history.repairs.iter().map(ListedRepair::of).collect(),
            damage,
            oddities,
        };
        return Ok((messages, scanned.report));
    }
    let restored = realm.store().history(&entry, limits)?;
    let history = &restored.history;
    let (damage, oddities) = notes(&restored.report);
    let member = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(|it| raw(it.to_owned())).transpose();
    let messages = SentMessages {
        session_id: id.to_string(),
        messages: raw(history.to_json())?,
        system: member(&history.system)?,
        tools: member(&history.tools)?,
        model: history.model.as_deref().map(str::to_owned),
        repairs: history.repairs.iter().map(ListedRepair::of).collect(),
        damage,
        oddities,
    };
    Ok((messages, restored.report))
}
