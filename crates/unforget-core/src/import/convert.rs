//! The tutorials' records as native ones, in the order in which things happened.
//!
//! Their known defects are put right here: results that were written before their calls move behind them, calls that
//! were written twice are written once, content lists become one record a block.

use std::collections::{HashMap, HashSet};

use crate::json;
use crate::record::{Body, Draft, Record};
use crate::session::block_draft;

/// Members that the native format gives a meaning of its own.
const RESERVED: [&str; 7] = ["type", "ts", "v", "n", "parent", "crc", "blobs"];

/// Native records, and what was put right.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) drafts: Vec<Draft>,
    pub(super) put_right: Vec<String>,
}

pub(super) fn convert(records: &[Record<'_>]) -> Converted {
    let mut out = Converted::default();
    let order = causal_order(records, &mut out.put_right);
    // Calls that came inside a content list since the user last spoke.
    let mut listed: HashSet<String> = HashSet::new();
    for record in order {
        match &record.body {
            Body::Session(_) => {}
            Body::Invalid { kind, why } => {
                out.put_right.push(format!("record {}: {kind} left out: {why}", record.n));
            }
            Body::Assistant { content, .. } if content.starts_with('[') => {
                let msg = format!("import-{}", record.n);
                for block in json::elements(content).unwrap_or_default() {
                    let draft = block_draft(&msg, block).dated(record.time_ms());
                    if let Some(id) = call_id(&draft) {
                        listed.insert(id);
                    }
                    out.push(draft, record);
                }
            }
            Body::ToolUse(call) if listed.contains(call.id.as_ref()) => {
                out.put_right.push(format!("record {}: call {} was written twice", record.n, call.id));
            }
            body => {
                if matches!(body, Body::User { .. }) {
                    listed.clear();
                }
                out.push(copy(record), record);
            }
        }
    }
    out
}

impl Converted {
    fn push(&mut self, draft: Draft, record: &Record<'_>) {
        match draft.check() {
            Ok(()) => self.drafts.push(draft),
            Err(error) => self.put_right.push(format!("record {}: left out: {error}", record.n)),
        }
    }
}

/// The record with all its members; results are always in `output`.
fn copy(record: &Record<'_>) -> Draft {
    let kind = record.kind().to_owned();
    let members = json::members(record.raw).unwrap_or_default();
    let has_output = json::member(&members, "output").is_some();
    let mut draft = Draft::new(&kind).dated(record.time_ms());
    for (place, (name, value)) in members.iter().enumerate() {
        let again = members[place + 1..].iter().any(|(later, _)| later == name);
        if RESERVED.contains(&name.as_ref()) || again {
            continue;
        }
        // The tutorials' second version says `content`, some programs write both alike.
        match (kind.as_str(), name.as_ref()) {
            ("tool_result", "content") if has_output => {}
            ("tool_result", "content") => draft = draft.raw("output", value),
            _ => draft = draft.raw(name, value),
        }
    }
    match json::member(&members, "ts") {
        Some(ts) if record.time_ms().is_none() => draft.raw("original_ts", ts),
        _ => draft,
    }
}

fn call_id(draft: &Draft) -> Option<String> {
    let id = draft.members().iter().find(|(name, _)| name == "tool_use_id" && draft.kind() == "tool_use")?;
    json::string(&id.1).map(std::borrow::Cow::into_owned)
}

/// The records with each result behind its call, and behind the calls that go with it.
fn causal_order<'r, 'a>(records: &'r [Record<'a>], put_right: &mut Vec<String>) -> Vec<&'r Record<'a>> {
    let mut call_at: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, record) in records.iter().enumerate() {
        if let Body::ToolUse(call) = &record.body {
            call_at.entry(call.id.as_ref()).or_default().push(place);
        }
    }
    let mut in_content: HashSet<String> = HashSet::new();
    let mut behind: HashMap<usize, Vec<usize>> = HashMap::new();
    for (place, record) in records.iter().enumerate() {
        if let Body::Assistant { content, .. } = &record.body {
            for block in json::elements(content).unwrap_or_default() {
                in_content.extend(call_id(&block_draft("", block)));
            }
        }
        let Body::ToolResult(result) = &record.body else { continue };
        let calls = call_at.get(result.id.as_ref()).map_or(&[][..], Vec::as_slice);
        if in_content.contains(result.id.as_ref()) || calls.iter().any(|call| *call < place) {
            continue;
        }
        if let Some(call) = calls.first() {
            let last = (*call..records.len()).take_while(|at| matches!(records[*at].body, Body::ToolUse(_))).last();
            behind.entry(last.unwrap_or(*call)).or_default().push(place);
            put_right.push(format!("record {}: result of {} was written before its call", record.n, result.id));
        }
    }
    let moved: HashSet<usize> = behind.values().flatten().copied().collect();
    let mut order = Vec::with_capacity(records.len());
    for (place, record) in records.iter().enumerate() {
        if !moved.contains(&place) {
            order.push(record);
        }
        for result in behind.get(&place).into_iter().flatten() {
            order.push(&records[*result]);
        }
    }
    order
}
