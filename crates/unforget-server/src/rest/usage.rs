//! `/usage`: what all of an actor's sessions took, added up. Days are those of UTC. What a model without a price took is counted, and the model is named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};
use unforget_agent::prices::{Cost, Prices};
use unforget_core::layout::AgentDir;
use unforget_core::mask::mask;
use unforget_core::retention::Pattern;
use unforget_core::store::{Facts, Reach};
use unforget_core::usage::{Line, Sum};

use super::ask::{self, Asked, Mine};
use crate::app::App;
use crate::error::{Problem, Result};
use crate::realm::Realm;

const HOUR_MS: i64 = 3_600_000;
/// How much earlier than asked a file may have been touched: clocks differ.
const MARGIN_MS: i64 = 24 * HOUR_MS;
/// How many models without a price are named.
const MAX_UNPRICED: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
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

/// What is asked for.
struct Wish {
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
    fn add(&mut self, name: String, wish: &Wish, sum: &Sum<'_>) -> &mut Row {
        let cost = self.prices.cost(sum.model, &sum.line);
        if cost.unpriced > 0 && self.unpriced.len() < MAX_UNPRICED {
            self.unpriced.insert(sum.model.to_owned());
        }
        let and = wish.and.map(|and| and.of(sum.hour, sum.dir, sum.model));
        let row = self.rows.entry((name, and)).or_default();
        for row in [&mut *row, &mut self.total] {
            row.line += sum.line;
            row.cost += cost;
        }
        row
    }
}

/// What was used.
pub(super) async fn usage(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(asked): Asked<Question>,
) -> Result<Response> {
    app.hub.refresh(&realm).await;
    let (by, and) = (asked.by.unwrap_or_default(), asked.and.map(And::by));
    if and == Some(by) {
        return Err(Problem::invalid("`and` is the same as `by`"));
    }
    let wish = Wish {
        by,
        and,
        since_ms: ask::time("since", asked.since.as_deref())?,
        until_ms: ask::time("until", asked.until.as_deref())?,
        agent: asked.agent.as_deref().map(AgentDir::of),
        key: asked.key.as_deref().map(Pattern::parse).transpose()?,
    };
    let prices = app.prices.clone();
    let table = app.hub.blocking(&realm, move |realm| table(realm, &wish, &prices)).await?;
    Ok(ask::answer(StatusCode::OK, &table))
}

fn table(realm: &Realm, wish: &Wish, prices: &Prices) -> Result<Value> {
    let from = wish.since_ms.map_or(i64::MIN, |ms| ms.div_euclid(HOUR_MS));
    let until = wish.until_ms.map_or(i64::MAX, |ms| ms.saturating_add(HOUR_MS - 1).div_euclid(HOUR_MS));
    let mut sums = Sums { prices, rows: BTreeMap::new(), total: Row::default(), unpriced: BTreeSet::new() };
    let is_of = |dir: &AgentDir| wish.agent.as_ref().is_none_or(|agent| agent == dir);
    let answer = if wish.by == By::Session || wish.key.is_some() {
        let reach = wish.since_ms.map_or(Reach::All, |ms| Reach::TouchedSince(ms.saturating_sub(MARGIN_MS)));
        realm.catalog().spent(reach, &mut |_, _| {}, &mut |facts, ledger| {
            let is_of_key = |pattern: &Pattern| facts.key.as_deref().is_some_and(|key| pattern.matches(key));
            if !is_of(&facts.dir) || !wish.key.as_ref().is_none_or(is_of_key) {
                return;
            }
            for (hour, model, line) in ledger.lines().filter(|(hour, ..)| (from..until).contains(hour)) {
                let name = match wish.by {
                    By::Session => facts.id.to_string(),
                    by => by.of(hour, &facts.dir, model),
                };
                let row = sums.add(name, wish, &Sum { hour, dir: &facts.dir, model, line: *line });
                if wish.by == By::Session && row.session.is_none() {
                    row.session = Some(facts.clone());
                }
            }
        })?
    } else {
        // Days of UTC are what is added up already; only what has no time is told apart from the rest of its day.
        let is_one = |day: i64| day != 0 || matches!(wish.by, By::Model | By::Agent);
        realm.catalog().sums(from..until, &is_one, &mut |_, _| {}, &mut |sum: Sum<'_>| {
            if is_of(sum.dir) {
                sums.add(wish.by.of(sum.hour, sum.dir, sum.model), wish, &sum);
            }
        })?
    };
    let mut rows: Vec<((String, Option<String>), Row)> = sums.rows.into_iter().collect();
    if matches!(wish.by, By::Model | By::Agent | By::Session) {
        rows.sort_by(|a, b| b.1.line.tokens.total().cmp(&a.1.line.tokens.total()).then_with(|| a.0.cmp(&b.0)));
    }
    let rows: Vec<Value> = rows.iter().map(|(names, row)| shown(wish, names, row)).collect();
    Ok(json!({
        "by": wish.by.name(),
        "rows": rows,
        "total": numbers(&sums.total),
        "unpriced": sums.unpriced,
        "unreadable": answer.value.len(),
    }))
}

fn shown(wish: &Wish, (name, and): &(String, Option<String>), row: &Row) -> Value {
    let mut shown = numbers(row);
    if let Some(members) = shown.as_object_mut() {
        members.insert(wish.by.name().to_owned(), name.as_str().into());
        if let (Some(by), Some(and)) = (wish.and, and) {
            members.insert(by.name().to_owned(), and.as_str().into());
        }
        if let Some(facts) = &row.session {
            members.insert("key".to_owned(), json!(facts.key));
            members.insert(
                "title".to_owned(),
                json!(facts.label.as_ref().or(facts.title.as_ref()).map(|name| mask(name))),
            );
            members.insert("trashed".to_owned(), json!(facts.trashed));
        }
    }
    shown
}

fn numbers(row: &Row) -> Value {
    let (line, tokens) = (&row.line, &row.line.tokens);
    json!({
        "turns": line.turns,
        "calls": line.calls,
        "tools": line.tools,
        "input": tokens.input,
        "output": tokens.output,
        "cache_write": tokens.cache_write,
        "cache_read": tokens.cache_read,
        // The part that is known; the models of the rest are named.
        "cost_usd": row.cost.dollars(),
    })
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
