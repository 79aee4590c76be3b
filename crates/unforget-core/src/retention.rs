//! What goes, when, and why: rules, and a plan made of them that touches nothing.
//!
//! Nothing expires by itself. A session goes to the trash if a rule for its key, or its own `expire` record, says so and its last
//! record is old enough; and only the trash is ever emptied, by a setting or by a person. Whatever is in doubt stays: a session that has a label, is pinned, is in
//! use, is damaged or cannot be read, tells no time or one that is yet to come, or says something about its expiry that is not understood.
//!
//! [`plan`] is pure: the same rows, rules and time give the same plan. `survey` looks at what is there, `apply` carries a plan out and looks
//! again before each step, `budget` makes room, `payloads` removes what nobody refers to any more, `journal` keeps the receipts.
//!
//! The failure it guards against is the one that cannot be undone: removing something that somebody still wanted.

use crate::directory::Entry;
use crate::layout::AgentDir;
use crate::stamp::SessionId;
use crate::summary::{Row, State};

mod apply;
mod budget;
mod journal;
mod pattern;
mod payloads;
mod period;
mod survey;

pub use apply::{Action, Deed, Outcome, apply};
pub use journal::{Due, believe_clock, doubt, due, purge_time};
pub use pattern::Pattern;
pub(crate) use payloads::ASIDE;
pub use payloads::Payloads;
pub use period::{Keep, Period};
pub use survey::{Survey, decide, survey};

/// Nothing that was used or deleted within a day makes room for a disk budget.
const RECENT_MS: i64 = 24 * 60 * 60 * 1000;
/// How much of an expiry that is not understood is repeated.
const ODD_CHARS: usize = 40;

/// What a person wants to be kept, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// How long sessions are kept, by their key.
    pub keys: Vec<(Pattern, Keep)>,
    /// How long the trash keeps; for ever if nothing is said.
    pub trash: Option<Period>,
    /// How many bytes transcripts may have, those in the trash included.
    pub disk_budget: Option<u64>,
}

impl Rules {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.trash.is_none() && self.disk_budget.is_none()
    }

    /// The rule for a key: the most specific one, and of two equal ones the one that keeps longer.
    fn of_key(&self, key: &str) -> Option<&(Pattern, Keep)> {
        let length = |keep: &Keep| keep.after(0).unwrap_or(i64::MAX);
        self.keys
            .iter()
            .filter(|(pattern, _)| pattern.matches(key))
            .max_by(|(a, x), (b, y)| a.specificity().cmp(&b.specificity()).then_with(|| length(x).cmp(&length(y))))
    }
}

/// What else is to be purged from the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// What the rules say.
    ByRules,
    /// A person asked: everything, or what was deleted longer ago than this.
    Asked(Option<Period>),
}

/// A session and whether someone is writing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The session.
    pub entry: Entry,
    /// Whether it is in use.
    pub live: bool,
}

/// A session in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trashed {
    /// Its agent's directory.
    pub dir: AgentDir,
    /// Its id.
    pub id: SessionId,
    /// Length of its transcript.
    pub bytes: u64,
    /// When it was deleted, if that is known.
    pub deleted_ms: Option<i64>,
}

/// Why something goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The rule for its key.
    Key(Pattern, Period),
    /// What was said of the session itself.
    Own(Period),
    /// The disk budget.
    Budget,
    /// It was in the trash that long.
    Trash(Period),
    /// A person asked for it.
    Asked,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Key(pattern, period) => write!(f, "not used for {period} (rule {pattern})"),
            Why::Own(period) => write!(f, "not used for {period} (its own expiry)"),
            Why::Budget => f.write_str("the disk budget is used up, and this is the oldest"),
            Why::Trash(period) => write!(f, "in the trash for {period}"),
            Why::Asked => f.write_str("asked for"),
        }
    }
}

/// Why something stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// No rule is about it.
    NoRule,
    /// Its time has not come; this is when it does.
    NotYet(i64),
    /// It is to be kept for ever.
    Pinned,
    /// It has a label.
    Labelled,
    /// Someone keeps it at the top of the list.
    AtTheTop,
    /// Someone is writing it.
    Live,
    /// It cannot be used: missing, unreadable, or out of place.
    Unusable(&'static str),
    /// Something in it is damaged.
    Damaged,
    /// It does not say when it was used or deleted.
    Undated,
    /// It says that this was in the future.
    FromTheFuture,
    /// What is said about its expiry is not understood.
    OddExpiry(String),
    /// It changed after the plan was made.
    Changed,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kept::NoRule => f.write_str("no rule is about it"),
            Kept::NotYet(_) => f.write_str("its time has not come"),
            Kept::Pinned => f.write_str("it never expires"),
            Kept::Labelled => f.write_str("it has a label"),
            Kept::AtTheTop => f.write_str("it is pinned"),
            Kept::Live => f.write_str("it is in use"),
            Kept::Unusable(state) => write!(f, "its transcript is {state}"),
            Kept::Damaged => f.write_str("its transcript is damaged"),
            Kept::Undated => f.write_str("it is not known since when"),
            Kept::FromTheFuture => f.write_str("its clock was ahead of this one"),
            Kept::OddExpiry(text) => write!(f, "its expiry `{text}` is not understood"),
            Kept::Changed => f.write_str("it changed just now"),
        }
    }
}

/// What a look at one session says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Kept),
    /// It may go.
    Expire(Why),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Sessions that go to the trash.
    pub expire: Vec<(Entry, Why)>,
    /// Sessions that leave the trash for good.
    pub purge: Vec<(Trashed, Why)>,
    /// Everything else, by its id.
    pub kept: Vec<(String, Kept)>,
    /// Bytes of all transcripts before, those in the trash included.
    pub bytes: u64,
    /// By how much the disk budget is exceeded even after this.
    pub over_budget: u64,
    /// When the plan was made.
    pub now_ms: i64,
}

/// What the rules say about one session, whoever may be using it.
pub fn verdict(row: &Row, rules: &Rules, now_ms: i64) -> Verdict {
    let used_ms = match protected(row, now_ms) {
        Ok(used_ms) => used_ms,
        Err(kept) => return Verdict::Keep(kept),
    };
    let (keep, pattern) = match &row.expires {
        Some(own) => match Keep::parse(own) {
            Ok(keep) => (keep, None),
            Err(_) => return Verdict::Keep(Kept::OddExpiry(own.chars().take(ODD_CHARS).collect())),
        },
        None => match row.key.as_deref().and_then(|key| rules.of_key(key)) {
            Some((pattern, keep)) => (keep.clone(), Some(pattern)),
            None => return Verdict::Keep(Kept::NoRule),
        },
    };
    let Keep::For(period) = keep else { return Verdict::Keep(Kept::Pinned) };
    match (period.after(used_ms), pattern) {
        (Some(end), _) if end > now_ms => Verdict::Keep(Kept::NotYet(end)),
        (Some(_), Some(pattern)) => Verdict::Expire(Why::Key(pattern.clone(), period)),
        (Some(_), None) => Verdict::Expire(Why::Own(period)),
        (None, _) => Verdict::Keep(Kept::Pinned),
    }
}

/// When the last record of a session was written, unless there is a reason to leave it alone whatever the rules say.
fn protected(row: &Row, now_ms: i64) -> Result<i64, Kept> {
    match &row.state {
        State::Ok => {}
        other => return Err(Kept::Unusable(other.name())),
    }
    // A damaged place may have held the label, or the wish that it is kept.
    if row.damage > 0 {
        return Err(Kept::Damaged);
    }
    if row.label.is_some() {
        return Err(Kept::Labelled);
    }
    if row.pinned {
        return Err(Kept::AtTheTop);
    }
    // A clock that was set back for a while makes a session no older than its beginning.
    let used_ms = row.written_ms.max(row.updated_ms).max(row.created_ms).ok_or(Kept::Undated)?;
    if used_ms > now_ms { Err(Kept::FromTheFuture) } else { Ok(used_ms) }
}

/// Decides about everything at once.
pub fn plan(sessions: &[Candidate], trash: &[Trashed], rules: &Rules, purge: &Purge, now_ms: i64) -> Plan {
    let total = |bytes: u64, more: u64| bytes.saturating_add(more);
    let bytes = sessions.iter().map(|it| it.entry.row.bytes).chain(trash.iter().map(|it| it.bytes)).fold(0, total);
    let mut plan = Plan { now_ms, bytes, ..Plan::default() };
    let mut spare: Vec<(i64, &Candidate)> = Vec::new();
    for candidate in sessions {
        let row = &candidate.entry.row;
        match verdict(row, rules, now_ms) {
            Verdict::Expire(_) if candidate.live => plan.kept.push((row.id.clone(), Kept::Live)),
            Verdict::Expire(why) => plan.expire.push((candidate.entry.clone(), why)),
            Verdict::Keep(kept) => {
                let recently = now_ms.saturating_sub(RECENT_MS);
                if matches!(kept, Kept::NoRule | Kept::NotYet(_))
                    && !candidate.live
                    && let Ok(used_ms) = protected(row, now_ms)
                    && used_ms < recently
                {
                    spare.push((used_ms, candidate));
                }
                plan.kept.push((row.id.clone(), kept));
            }
        }
    }
    let mut rest: Vec<(i64, &Trashed)> = Vec::new();
    for trashed in trash {
        match purged(trashed, rules, purge, now_ms) {
            Ok(why) => plan.purge.push((trashed.clone(), why)),
            Err(kept) => {
                if let Some(deleted_ms) = trashed.deleted_ms.filter(|ms| *ms < now_ms.saturating_sub(RECENT_MS)) {
                    rest.push((deleted_ms, trashed));
                }
                plan.kept.push((trashed.id.to_string(), kept));
            }
        }
    }
    if let Some(budget) = rules.disk_budget {
        budget::within(budget, &mut plan, spare, rest, trash);
    }
    plan
}

/// Whether a session leaves the trash.
fn purged(trashed: &Trashed, rules: &Rules, purge: &Purge, now_ms: i64) -> Result<Why, Kept> {
    if *purge == Purge::Asked(None) {
        return Ok(Why::Asked);
    }
    let deleted_ms = trashed.deleted_ms.ok_or(Kept::Undated)?;
    if deleted_ms > now_ms {
        return Err(Kept::FromTheFuture);
    }
    let asked = match purge {
        Purge::Asked(period) => period.as_ref().map(|period| (period, Why::Asked)),
        Purge::ByRules => None,
    };
    let by_rule = rules.trash.as_ref().map(|period| (period, Why::Trash(period.clone())));
    let mut next: Option<i64> = None;
    for (period, why) in asked.into_iter().chain(by_rule) {
        match period.after(deleted_ms) {
            Some(end) if end <= now_ms => return Ok(why),
            Some(end) => next = Some(next.map_or(end, |next| next.min(end))),
            None => {}
        }
    }
    Err(next.map_or(Kept::NoRule, Kept::NotYet))
}

/// Brings back payloads that an interrupted clean-up had moved aside; only while nobody cleans up.
pub(crate) fn bring_back_payloads(store: &crate::directory::Directory) -> crate::error::Result<u64> {
    let _turn = journal::take_turn(store)?;
    payloads::bring_back(store)
}

#[cfg(test)]
mod tests;
