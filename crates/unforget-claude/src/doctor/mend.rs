//! The lines of a copy, changed until the API takes what resuming sends of them.
//!
//! What is sent is found by the same fold that `show --messages` shows ([`foreign_parts`]). Where it had to put something right, the line is
//! changed to what was sent of it: ids, names and characters are mended in place, a line of which nothing was sent is taken out, a result
//! is put behind its call. That is done until nothing is left to put right. What cannot be mended is a reason to refuse the copy: a copy
//! that the API refuses is worse than the original, which stays as it is.

use std::collections::{BTreeMap, HashMap, HashSet};

use unforget_core::history::{Part, Repair, RepairKind, foreign_parts};
use unforget_core::json;
use unforget_core::scan::scan;

use super::repair::edited;
use crate::row::{Members, members, text};

/// How often the lines are looked at again; a mended line may show what stood behind it.
const ROUNDS: usize = 8;
/// Members that name another line of the tree.
const LEADS: [&str; 3] = ["parentUuid", "logicalParentUuid", "leafUuid"];

/// Mends the lines, or tells what is left to put right.
pub(super) fn mend(lines: Vec<String>) -> Result<Vec<String>, String> {
    let mut lines = in_order(lines);
    let mut left = None;
    for _ in 0..ROUNDS {
        let looked = Looked::at(&lines);
        let Some(first) = looked.wrong.values().flatten().next() else { return Ok(lines) };
        left = Some(first.to_string());
        lines = mended(lines, &looked);
    }
    Err(left.unwrap_or_else(|| "the lines contradict each other".to_owned()))
}

/// Whether a repair is no reason to change a line: it is about the size of a request.
pub(super) fn is_about_size(kind: &RepairKind) -> bool {
    matches!(kind, RepairKind::Shortened { .. } | RepairKind::EarlierLeftOut)
}

/// What is sent of lines, and what has to be put right in them.
struct Looked {
    /// The blocks that are sent, by line.
    sent: HashMap<usize, Vec<String>>,
    /// What was put right, by line.
    wrong: BTreeMap<usize, Vec<RepairKind>>,
}

impl Looked {
    fn at(lines: &[String]) -> Self {
        let joined: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let scanned = scan(joined.as_bytes());
        let starts = super::starts(joined.as_bytes());
        let line_of = |offset: u64| starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let of_record: HashMap<u64, usize> =
            scanned.records.iter().map(|record| (record.n, line_of(record.offset))).collect();
        let (parts, repairs) = foreign_parts(&scanned.records);
        let mut looked = Self { sent: HashMap::new(), wrong: BTreeMap::new() };
        for Part { n, json, .. } in parts {
            if let Some(line) = of_record.get(&n) {
                looked.sent.entry(*line).or_default().push(json);
            }
        }
        for Repair { n, kind } in repairs.into_iter().filter(|repair| !is_about_size(&repair.kind)) {
            let line = of_record.get(&n).copied().unwrap_or(0);
            looked.wrong.entry(line).or_default().push(kind);
        }
        looked
    }
}

/// One round.
fn mended(mut lines: Vec<String>, looked: &Looked) -> Vec<String> {
    let Looked { sent, wrong } = looked;
    let mut dropped: HashSet<usize> = HashSet::new();
    let mut moved: Vec<(usize, String)> = Vec::new();
    let mut is_renamed = false;
    for (at, kinds) in wrong {
        let line = &lines[*at];
        let nothing = Vec::new();
        let parts = sent.get(at).unwrap_or(&nothing);
        is_renamed |= kinds.iter().any(|kind| matches!(kind, RepairKind::CallRenamed { .. }));
        if kinds.iter().any(|kind| matches!(kind, RepairKind::RecordLeftOut(_) | RepairKind::InputAmbiguous(_))) {
            // That program reads the last of two members of one name.
            let once = with_names_once(line);
            if once == *line && parts.is_empty() {
                dropped.insert(*at);
            }
            lines[*at] = once;
        } else if kinds.contains(&RepairKind::CharactersReplaced) {
            lines[*at] = json::sendable(line).into_owned();
        } else if kinds.contains(&RepairKind::SystemAsUser) {
            let members = members(line.as_bytes()).unwrap_or_default();
            lines[*at] = edited(line, &members, vec![("renderedRole", "\"user\"".to_owned())]);
        } else if let (Some(RepairKind::ResultMoved(id)), true) = (kinds.first(), parts.len() == 1) {
            moved.push((*at, id.clone()));
        } else {
            match with_content(line, parts) {
                Some(other) if !parts.is_empty() && other != *line => lines[*at] = other,
                _ => drop(dropped.insert(*at)),
            }
        }
    }
    if is_renamed {
        // The results of a call that was renamed are not repaired themselves.
        for (at, parts) in sent {
            if !dropped.contains(at)
                && ids(&content(&lines[*at])) != parts.iter().flat_map(|part| ids(&[part])).collect::<Vec<_>>()
                && let Some(other) = with_content(&lines[*at], parts)
            {
                lines[*at] = other;
            }
        }
    }
    let moved: Vec<(String, String)> =
        moved.into_iter().filter_map(|(at, id)| Some((uuid_of(&lines[at])?, id))).collect();
    let mut lines = without(lines, &dropped);
    for (uuid, id) in moved {
        let at = lines.iter().position(|line| uuid_of(line).as_ref() == Some(&uuid));
        if let Some(stray) = at.and_then(|at| move_behind(&mut lines, at, &id)) {
            lines = without(lines, &HashSet::from([stray]));
        }
    }
    lines
}

fn uuid_of(line: &str) -> Option<String> {
    text(&members(line.as_bytes())?, "uuid")
}

/// The lines in an order in which each stands behind the one that it continues, and otherwise as they were.
fn in_order(lines: Vec<String>) -> Vec<String> {
    let uuids: Vec<Option<String>> = lines.iter().map(|line| uuid_of(line)).collect();
    let places: HashMap<&String, usize> =
        uuids.iter().enumerate().filter_map(|(at, uuid)| Some((uuid.as_ref()?, at))).collect();
    let parent = |line: &String| places.get(&text(&members(line.as_bytes())?, "parentUuid")?).copied();
    let parents: Vec<Option<usize>> = lines.iter().map(parent).collect();
    let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
    let (mut order, mut is_placed) = (Vec::with_capacity(lines.len()), vec![false; lines.len()]);
    for (at, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent.filter(|parent| !is_placed[*parent]) {
            waiting.entry(parent).or_default().push(at);
            continue;
        }
        let mut next = vec![at];
        while let Some(at) = next.pop() {
            order.push(at);
            is_placed[at] = true;
            next.extend(waiting.remove(&at).unwrap_or_default().into_iter().rev());
        }
    }
    // Lines that name each other wait for ever.
    order.extend((0..lines.len()).filter(|at| !is_placed[*at]));
    let mut lines: Vec<Option<String>> = lines.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| lines[at].take()).collect()
}

/// Puts the line of a result behind the line of its call; returns it as one to take out if there is no such call.
fn move_behind(lines: &mut Vec<String>, at: usize, id: &str) -> Option<usize> {
    let has_call = |line: &String| {
        content(line).iter().any(|block| {
            let block = json::members(block).unwrap_or_default();
            text(&block, "type").as_deref() == Some("tool_use") && text(&block, "id").as_deref() == Some(id)
        })
    };
    let Some(call) = lines.iter().position(has_call) else { return Some(at) };
    let (Some(own), Some(of_call)) = (uuid_of(&lines[at]), uuid_of(&lines[call])) else { return Some(at) };
    let before =
        members(lines[at].as_bytes()).and_then(|members| json::member(&members, "parentUuid").map(str::to_owned));
    let before = before.unwrap_or_else(|| "null".to_owned());
    // What went on behind the result goes on behind what stood before it.
    let (own_json, call_json) = (json::quote(&own), json::quote(&of_call));
    if before != call_json {
        for line in lines.iter_mut() {
            lead_on(line, &|parent| (parent == own_json).then(|| before.clone()));
        }
    }
    let line = lines.remove(at);
    let members = members(line.as_bytes()).unwrap_or_default();
    let line = edited(&line, &members, vec![("parentUuid", call_json)]);
    let call = if at < call { call - 1 } else { call };
    lines.insert(call + 1, line);
    None
}

/// The lines without some of them; what went on behind those goes on behind what stood before them.
fn without(lines: Vec<String>, dropped: &HashSet<usize>) -> Vec<String> {
    if dropped.is_empty() {
        return lines;
    }
    let mut before: HashMap<String, String> = HashMap::new();
    for at in dropped {
        let members = members(lines[*at].as_bytes()).unwrap_or_default();
        if let Some(uuid) = json::member(&members, "uuid") {
            before.insert(uuid.to_owned(), json::member(&members, "parentUuid").unwrap_or("null").to_owned());
        }
    }
    let way_back = |name: &str| {
        let mut at = before.get(name)?;
        // Lines that name each other would have no end.
        for _ in 0..before.len() {
            at = before.get(at).unwrap_or(at);
        }
        Some(at.clone())
    };
    let kept = lines.into_iter().enumerate().filter(|(at, _)| !dropped.contains(at));
    kept.map(|(_, mut line)| {
        lead_on(&mut line, &way_back);
        line
    })
    .collect()
}

/// Changes the lines that a line names, given and returned as JSON texts.
fn lead_on(line: &mut String, other: &dyn Fn(&str) -> Option<String>) {
    let members = members(line.as_bytes()).unwrap_or_default();
    let edits: Vec<(&str, String)> =
        LEADS.iter().filter_map(|name| Some((*name, other(json::member(&members, name)?)?))).collect();
    if !edits.is_empty() {
        *line = edited(line, &members, edits);
    }
}

/// The blocks of a line's message.
fn content(line: &str) -> Vec<&str> {
    let members = json::members(line).unwrap_or_default();
    let message = json::member(&members, "message").and_then(json::members).unwrap_or_default();
    json::member(&message, "content").and_then(json::elements).unwrap_or_default()
}

/// The ids of calls and results in blocks.
fn ids(blocks: &[impl AsRef<str>]) -> Vec<String> {
    let id = |block: &str| {
        let members = json::members(block)?;
        text(&members, "id").or_else(|| text(&members, "tool_use_id"))
    };
    blocks.iter().filter_map(|block| id(block.as_ref())).collect()
}

/// The line with these blocks as the content of its message; none if it has no message.
fn with_content(line: &str, parts: &[String]) -> Option<String> {
    let members = json::members(line)?;
    let message = json::member(&members, "message").and_then(json::members)?;
    let content = json::member(&message, "content")?;
    // Members are pieces of the line.
    let start = content.as_ptr() as usize - line.as_ptr() as usize;
    let mut out = line.to_owned();
    out.replace_range(start..start + content.len(), &format!("[{}]", parts.join(",")));
    Some(out)
}

/// JSON text in which no object has a name twice: the last one stays, in the place of the first.
fn with_names_once(raw: &str) -> String {
    if json::duplicate(raw).is_none() {
        return raw.to_owned();
    }
    if let Some(elements) = json::elements(raw) {
        let elements: Vec<String> = elements.into_iter().map(with_names_once).collect();
        return format!("[{}]", elements.join(","));
    }
    let members: Members<'_> = json::members(raw).unwrap_or_default();
    let mut seen = HashSet::new();
    let once = members.iter().filter(|(name, _)| seen.insert(name.clone())).filter_map(|(name, _)| {
        Some(format!("{}:{}", json::quote(name), with_names_once(json::member(&members, name)?)))
    });
    format!("{{{}}}", once.collect::<Vec<_>>().join(","))
}
