//! What all of an actor's sessions took, added up. Days are those of UTC. What a model without a
//! price took is counted, and the model is named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use unforget_agent::prices::{Cost, Prices};
use unforget_core::layout::AgentDir;
use unforget_core::mask::mask;
use unforget_core::retention::Pattern;
use unforget_core::store::{Facts, Reach};
use unforget_core::usage::{Line, Sum};

use super::{Verb, check};
use crate::app::App;
use crate::error::{Problem, Result};
use crate::realm::Realm;

const HOUR_MS: i64 = 3_600_000;
/// How much earlier than asked a file may have been touched: clocks differ.
const MARGIN_MS: i64 = 24 * HOUR_MS;
/// How many models without a price are named.
const MAX_UNPRICED: usize = 100;

/// Asks what was used, added up.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddUp {
    by: Option<By>,
    and: Option<And>,
    since: Option<String>,
    until: Option<String>,
    agent: Option<String>,
    key: Option<String>,
}

/// What is added up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    #[default]
    Day,
    Week,
    Month,
    Model,
    Agent,
    Session,
}

/// What else rows are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum And {
    Model,
    Agent,
}

impl And {
    fn by(self) -> By {
        match self {
            And::Model => By::Model,
            And::Agent => By::Agent,
        }
    }
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Day => "day",
            By::Week => "week",
            By::Month => "month",
            By::Model => "model",
            By::Agent => "agent",
            By::Session => "session",
        }
    }

    fn of(self, hour: i64, dir: &AgentDir, model: &str) -> String {
        match self {
            By::Day | By::Week | By::Month => self.period(hour),
            By::Model => model.to_owned(),
            By::Agent | By::Session => dir.agent().unwrap_or_else(|| dir.as_str().to_owned()),
        }
    }

    /// `2026-01-31`, `2026-W05` or `2026-01`; what has no time is `undated`.
    fn period(self, hour: i64) -> String {
        let time = Timestamp::from_millisecond(hour.saturating_mul(HOUR_MS)).ok().filter(|_| hour != 0);
        let Some(date) = time.map(|time| time.to_zoned(TimeZone::UTC).date()) else { return "undated".to_owned() };
        match self {
            By::Week => {
                let week = date.iso_week_date();
                format!("{:04}-W{:02}", week.year(), week.week())
            }
            By::Month => date.strftime("%Y-%m").to_string(),
            _ => date.to_string(),
        }
    }
}

/// A checked request.
struct Checked {
    by: By,
    and: Option<By>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    agent: Option<AgentDir>,
    key: Option<Pattern>,
}

/// One row, and of a session also which one.
#[derive(Default)]
struct Row {
    line: Line,
    cost: Cost,
    session: Option<Facts>,
}

/// Everything that is added up, and at which prices.
struct Sums<'p> {
    prices: &'p Prices,
    rows: BTreeMap<(String, Option<String>), Row>,
    total: Row,
    unpriced: BTreeSet<String>,
}

impl Sums<'_> {
    /// Adds to the row of that name and to the total.
    fn add(&mut self, name: String, checked: &Checked, sum: &Sum<'_>) -> &mut Row {
        let cost = self.prices.cost(sum.model, &sum.line);
        if cost.unpriced > 0 && self.unpriced.len() < MAX_UNPRICED {
            self.unpriced.insert(sum.model.to_owned());
        }
        let and = checked.and.map(|and| and.of(sum.hour, sum.dir, sum.model));
        let row = self.rows.entry((name, and)).or_default();
        for row in [&mut *row, &mut self.total] {
            row.line += sum.line;
            row.cost += cost;
        }
        row
    }
}

/// What was used, a row for each day, week, month, model, agent or session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsageTable {
    pub by: &'static str,
    pub rows: Vec<UsageRow>,
    pub total: UsageNumbers,
    pub unpriced: BTreeSet<String>,
    /// How many sessions could not be read.
    pub unreadable: usize,
}

/// What was used in a row. Of `day` to `session`, a row has what it is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UsageRow {
    /// The day: `2026-01-31`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The week: `2026-W05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub week: Option<String>,
    /// The month: `2026-01`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(flatten)]
    pub of_session: Option<UsageSession>,
    #[serde(flatten)]
    pub numbers: UsageNumbers,
}

/// The session of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UsageSession {
    pub key: Option<String>,
    pub title: Option<String>,
    pub trashed: bool,
}

/// Turns, calls, tokens and their price.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UsageNumbers {
    pub turns: u64,
    pub calls: u64,
    pub tools: u64,
    /// Tokens that were sent and not cached.
    pub input: u64,
    pub output: u64,
    /// Tokens that were written into the cache.
    pub cache_write: u64,
    /// Tokens that were read from the cache.
    pub cache_read: u64,
    /// What it cost, as far as the prices are known.
    pub cost_usd: Option<f64>,
}

impl UsageNumbers {
    /// The numbers of a sum.
    pub fn of(line: &Line, cost: &Cost) -> Self {
        let tokens = &line.tokens;
        Self {
            turns: line.turns,
            calls: line.calls,
            tools: line.tools,
            input: tokens.input,
            output: tokens.output,
            cache_write: tokens.cache_write,
            cache_read: tokens.cache_read,
            cost_usd: cost.dollars(),
        }
    }
}

impl Verb<App> for AddUp {
    type Answer = UsageTable;

    async fn call(self, app: &Arc<App>, realm: &Arc<Realm>) -> Result<UsageTable> {
        app.hub.refresh(realm).await;
        let (by, and) = (self.by.unwrap_or_default(), self.and.map(And::by));
        if and == Some(by) {
            return Err(Problem::invalid("`and` is the same as `by`"));
        }
        let checked = Checked {
            by,
            and,
            since_ms: check::time("since", self.since.as_deref())?,
            until_ms: check::time("until", self.until.as_deref())?,
            agent: self.agent.as_deref().map(AgentDir::of),
            key: self.key.as_deref().map(Pattern::parse).transpose()?,
        };
        let prices = app.prices.clone();
        app.hub.blocking(realm, move |realm| table(realm, &checked, &prices)).await
    }
}

fn table(realm: &Realm, checked: &Checked, prices: &Prices) -> Result<UsageTable> {
    let from = checked.since_ms.map_or(i64::MIN, |ms| ms.div_euclid(HOUR_MS));
    let until = checked.until_ms.map_or(i64::MAX, |ms| ms.saturating_add(HOUR_MS - 1).div_euclid(HOUR_MS));
    let mut sums = Sums { prices, rows: BTreeMap::new(), total: Row::default(), unpriced: BTreeSet::new() };
    let is_of = |dir: &AgentDir| checked.agent.as_ref().is_none_or(|agent| agent == dir);
    let answer = if checked.by == By::Session || checked.key.is_some() {
        let reach = checked.since_ms.map_or(Reach::All, |ms| Reach::TouchedSince(ms.saturating_sub(MARGIN_MS)));
        realm.catalog().spent(reach, &mut |_, _| {}, &mut |facts, ledger| {
            let is_of_key = |pattern: &Pattern| facts.key.as_deref().is_some_and(|key| pattern.matches(key));
            if !is_of(&facts.dir) || !checked.key.as_ref().is_none_or(is_of_key) {
                return;
            }
            for (hour, model, line) in ledger.lines().filter(|(hour, ..)| (from..until).contains(hour)) {
                let name = match checked.by {
                    By::Session => facts.id.to_string(),
                    by => by.of(hour, &facts.dir, model),
                };
                let row = sums.add(name, checked, &Sum { hour, dir: &facts.dir, model, line: *line });
                if checked.by == By::Session && row.session.is_none() {
                    row.session = Some(facts.clone());
                }
            }
        })?
    } else {
        // Days of UTC are what is added up already; only what has no time is told apart from the
        // rest of its day.
        let is_one = |day: i64| day != 0 || matches!(checked.by, By::Model | By::Agent);
        realm.catalog().sums(from..until, &is_one, &mut |_, _| {}, &mut |sum: Sum<'_>| {
            if is_of(sum.dir) {
                sums.add(checked.by.of(sum.hour, sum.dir, sum.model), checked, &sum);
            }
        })?
    };
    let mut rows: Vec<((String, Option<String>), Row)> = sums.rows.into_iter().collect();
    if matches!(checked.by, By::Model | By::Agent | By::Session) {
        rows.sort_by(|a, b| b.1.line.tokens.total().cmp(&a.1.line.tokens.total()).then_with(|| a.0.cmp(&b.0)));
    }
    Ok(UsageTable {
        by: checked.by.name(),
        rows: rows.into_iter().map(|(names, row)| shown(checked, names, row)).collect(),
        total: UsageNumbers::of(&sums.total.line, &sums.total.cost),
        unpriced: sums.unpriced,
        unreadable: answer.value.len(),
    })
}

fn shown(checked: &Checked, (name, and): (String, Option<String>), row: Row) -> UsageRow {
    let of_session = row.session.as_ref().map(|facts| UsageSession {
        key: facts.key.clone(),
        title: facts.label.as_ref().or(facts.title.as_ref()).map(|name| mask(name).into_owned()),
        trashed: facts.trashed,
    });
    let numbers = UsageNumbers::of(&row.line, &row.cost);
    let mut shown = UsageRow { of_session, numbers, ..UsageRow::default() };
    shown.name(checked.by, name);
    if let (Some(by), Some(and)) = (checked.and, and) {
        shown.name(by, and);
    }
    shown
}

impl UsageRow {
    fn name(&mut self, by: By, name: String) {
        let member = match by {
            By::Day => &mut self.day,
            By::Week => &mut self.week,
            By::Month => &mut self.month,
            By::Model => &mut self.model,
            By::Agent => &mut self.agent,
            By::Session => &mut self.session,
        };
        *member = Some(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_monday_and_what_has_no_time_says_so() {
        let hour = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond() / HOUR_MS;
        assert_eq!(By::Week.period(hour("2026-01-04T23:00:00Z")), "2026-W01");
        assert_eq!(By::Week.period(hour("2026-01-05T00:00:00Z")), "2026-W02");
        assert_eq!(By::Month.period(hour("2026-01-05T00:00:00Z")), "2026-01");
        assert_eq!(By::Day.period(hour("2026-01-05T00:00:00Z")), "2026-01-05");
        assert_eq!([By::Day.period(0), By::Day.period(i64::MAX)], ["undated", "undated"]);
    }
}
