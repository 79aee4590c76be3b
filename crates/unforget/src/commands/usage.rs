//! `usage`: what all this took, as a table.
//!
//! The lines of all sessions are added up as they are read, so that only the table is in memory, however many sessions there are. Days are those of the
//! person's time zone; what is known is known by the hour, and added up already by days of UTC where these do.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unforget_agent::prices::{Cost, Prices};
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::retention::Pattern;
use unforget_core::store::{Facts, Reach};
use unforget_core::usage::{Ledger, Line, Sum};

use crate::cli::{By, Usage};
use crate::commands::Context;
use crate::config::{self, flags::Flags};
use crate::failure::{Outcome, Result};
use crate::progress::Progress;
use crate::when::{self, Edge};

pub(crate) mod table;

const HOUR_MS: i64 = 3_600_000;
/// How much earlier than asked a file may have been touched: clocks differ.
const MARGIN_MS: i64 = 24 * HOUR_MS;
/// So many models without a price are named.
const TOLD: usize = 5;

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub(crate) line: Line,
    pub(crate) cost: Cost,
    /// For a session: its key, its title, and whether it is in the trash.
    pub(crate) session: Option<(String, String, bool)>,
}

impl Row {
    fn add(&mut self, line: &Line, cost: Cost) {
        self.line += *line;
        self.cost += cost;
    }
}

/// Everything that was added up.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) rows: BTreeMap<String, Row>,
    pub(crate) total: Row,
    /// Models without a price, with their tokens.
    pub(crate) unpriced: BTreeMap<String, u64>,
}

impl Sums {
    /// Adds everything, as one row that is the total.
    pub(crate) fn all(&mut self, ledger: &Ledger, prices: &Prices) {
        for (_, model, line) in ledger.lines() {
            self.total.add(line, prices.cost(model, line));
        }
    }

    /// Adds the lines of a session that are within the hours.
    pub(crate) fn take(&mut self, facts: &Facts, ledger: &Ledger, by: By, hours: &Hours, prices: &Prices) {
        for (hour, model, line) in ledger.lines().filter(|(hour, _, _)| hours.contains(*hour)) {
            let sum = Sum { hour, dir: &facts.dir, model, line: *line };
            let name = match by {
                By::Session => facts.id.to_string(),
                _ => name_of(&sum, by, &hours.zone),
            };
            let row = self.add(name, &sum, prices);
            if by == By::Session && row.session.is_none() {
                let title = facts.label.clone().or_else(|| facts.title.clone()).unwrap_or_default();
                row.session = Some((facts.key.clone().unwrap_or_default(), title, facts.trashed));
            }
        }
    }

    /// Adds to a row.
    pub(crate) fn add(&mut self, name: String, sum: &Sum<'_>, prices: &Prices) -> &mut Row {
        let cost = prices.cost(sum.model, &sum.line);
        if cost.unpriced > 0 {
            *self.unpriced.entry(sum.model.to_owned()).or_default() += cost.unpriced;
        }
        self.total.add(&sum.line, cost);
        let row = self.rows.entry(name).or_default();
        row.add(&sum.line, cost);
        row
    }
}

/// From when to when, and in which time zone.
#[derive(Debug, Clone)]
pub(crate) struct Hours {
    pub(crate) from: i64,
    pub(crate) until: i64,
    pub(crate) zone: TimeZone,
}

impl Hours {
    fn contains(&self, hour: i64) -> bool {
        (self.from..self.until).contains(&hour)
    }

    /// The hours of the day that it is.
    pub(crate) fn today(now_ms: i64) -> Result<Self> {
        let from = when::parse("today", now_ms, Edge::Begin)?.div_euclid(HOUR_MS);
        Ok(Self { from, until: i64::MAX, zone: TimeZone::system() })
    }
}

/// The row of a sum of several sessions.
pub(crate) fn name_of(sum: &Sum<'_>, by: By, zone: &TimeZone) -> String {
    match by {
        By::Day | By::Week | By::Month => period(sum.hour, by, zone),
        By::Model => sum.model.to_owned(),
        By::Agent | By::Session => sum.dir.agent().unwrap_or_else(|| sum.dir.as_str().to_owned()),
    }
}

/// Whether the hours of a day of UTC belong into one row. Where the table has days of another time zone they do not; with no time
/// in it they always do. What has no time is told apart from the rest of its day.
pub(crate) fn is_one(day: i64, by: By, zone: &TimeZone) -> bool {
    let (first, last) = (day.saturating_mul(24), day.saturating_mul(24).saturating_add(23));
    match by {
        By::Day | By::Week | By::Month => day != 0 && period(first, by, zone) == period(last, by, zone),
        By::Model | By::Agent | By::Session => true,
    }
}

/// `2026-01-31`, `2026-W05` or `2026-01`; what has no time is `undated`.
fn period(hour: i64, by: By, zone: &TimeZone) -> String {
    let Ok(time) = Timestamp::from_millisecond(hour.saturating_mul(HOUR_MS)) else { return "undated".to_owned() };
    let date = time.to_zoned(zone.clone()).date();
    match by {
        _ if hour == 0 => "undated".to_owned(),
        By::Week => {
            let week = date.iso_week_date();
            format!("{:04}-W{:02}", week.year(), week.week())
        }
        By::Month => date.strftime("%Y-%m").to_string(),
        _ => date.to_string(),
    }
}

pub(crate) fn run(context: &Context, args: &Usage) -> Result<Outcome> {
    let config = config::load(&Flags::default())?;
    let (now_ms, zone) = (context.store.source().now_ms(), TimeZone::system());
    let since = args.since.as_deref().map(|text| when::parse(text, now_ms, Edge::Begin)).transpose()?;
    let until = args.until.as_deref().map(|text| when::parse(text, now_ms, Edge::End)).transpose()?;
    let hours = Hours {
        from: since.map_or(i64::MIN, |ms| ms.div_euclid(HOUR_MS)),
        until: until.map_or(i64::MAX, |ms| ms.saturating_add(HOUR_MS - 1).div_euclid(HOUR_MS)),
        zone,
    };
    let pattern = args.key.as_deref().map(key_pattern).transpose()?;
    let agent = args.agent.as_deref().map(AgentDir::of);
    let reach = since.map_or(Reach::All, |ms| Reach::TouchedSince(ms.saturating_sub(MARGIN_MS)));
    let mut sums = Sums::default();
    let progress = Progress::new("reading transcripts");
    let mut step = |_: &std::path::Path, _: u64| progress.step();
    let answer = if args.by == By::Session || pattern.is_some() {
        context.catalog.spent(reach, &mut step, &mut |facts, ledger| {
            let is_asked =
                pattern.as_ref().is_none_or(|pattern| facts.key.as_deref().is_some_and(|key| pattern.matches(key)))
                    && agent.as_ref().is_none_or(|agent| *agent == facts.dir);
            if is_asked {
                sums.take(&facts, &ledger, args.by, &hours, &config.prices);
            }
        })?
    } else {
        // Nobody asks for single sessions: what is added up already is enough.
        let is_one = |day| is_one(day, args.by, &hours.zone);
        context.catalog.sums(hours.from..hours.until, &is_one, &mut step, &mut |sum| {
            if agent.as_ref().is_none_or(|agent| agent == sum.dir) {
                sums.add(name_of(&sum, args.by, &hours.zone), &sum, &config.prices);
            }
        })?
    };
    drop(progress);
    context.tell_notes(&answer.notes)?;
    let mut out = anstream::stdout().lock();
    if context.json {
        table::json(&mut out, &sums, args.by)?;
    } else {
        table::print(&mut out, &sums, args.by)?;
    }
    drop(out);
    for (path, why) in &answer.value {
        context.tell(&format!("note: {} is not counted: {why}", path.display()))?;
    }
    for line in unpriced(&sums, &config.file) {
        context.tell(&line)?;
    }
    Ok(if answer.value.is_empty() { Outcome::Done } else { Outcome::MetDamage })
}

/// A key, or a pattern on keys; one word is a peer, as everywhere.
pub(crate) fn key_pattern(text: &str) -> Result<Pattern> {
    if text.contains('*') {
        let text = if text.contains(':') || text == "*" { text.to_owned() } else { format!("main:cli:{text}") };
        return Ok(Pattern::parse(&text)?);
    }
    let key: Key = text.parse().map_err(unforget_core::Error::from)?;
    Ok(Pattern::parse(&key.to_string())?)
}

/// What has no price, and what to do about it.
pub(crate) fn unpriced(sums: &Sums, file: &std::path::Path) -> Vec<String> {
    let mut lines: Vec<String> = sums
        .unpriced
        .iter()
        .take(TOLD)
        .map(|(model, tokens)| {
            let tokens = table::grouped(*tokens);
            format!("note: no price is known for `{model}`: its {tokens} tokens are counted, their cost is unknown")
        })
        .collect();
    if sums.unpriced.len() > TOLD {
        lines.push(format!("note: and for {} more models", sums.unpriced.len() - TOLD));
    }
    if let Some(model) = sums.unpriced.keys().next() {
        let file = file.display();
        lines.push(format!(
            "hint: in {file}: [prices.\"{model}\"], then input = 3.0 and output = 15.0 (dollars for a million tokens)"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond() / HOUR_MS
    }

    #[test]
    fn days_are_those_of_the_time_zone_and_weeks_begin_on_monday() {
        let zone = TimeZone::fixed(jiff::tz::offset(-5));
        let late = hour("2026-01-01T03:00:00Z");
        assert_eq!(period(late, By::Day, &zone), "2025-12-31");
        assert_eq!(period(late, By::Day, &TimeZone::UTC), "2026-01-01");
        assert_eq!(period(late, By::Month, &zone), "2025-12");
        let week = |text| period(hour(text), By::Week, &TimeZone::UTC);
        assert_eq!([week("2026-01-04T23:00:00Z"), week("2026-01-05T00:00:00Z")], ["2026-W01", "2026-W02"]);
        assert_eq!(week("2027-01-01T00:00:00Z"), "2026-W53");
        assert_eq!(period(0, By::Day, &zone), "undated");
        assert_eq!(period(i64::MAX, By::Day, &zone), "undated");
    }
}
