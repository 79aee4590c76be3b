//! `usage`: what all this took, as a table.
//!
//! The lines of all sessions are added up as they are read, so that only the table is in memory, however many sessions there are. Days are those of the
//! person's time zone; what is known is known by the hour.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use unforget_core::layout::AgentDir;
use unforget_core::retention::{Pattern, Period};
use unforget_core::usage::{Facts, Ledger, Line, Reach};

use crate::cli::{By, Usage};
use crate::commands::Context;
use crate::config::{self, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::prices::{Cost, Prices};
use crate::progress::Progress;

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
            let cost = prices.cost(model, line);
            if cost.unpriced > 0 {
                *self.unpriced.entry(model.to_owned()).or_default() += cost.unpriced;
            }
            self.total.add(line, cost);
            let name = match by {
                By::Day | By::Week | By::Month => period(hour, by, &hours.zone),
                By::Model => model.to_owned(),
                By::Agent => facts.dir.agent().unwrap_or_else(|| facts.dir.as_str().to_owned()),
                By::Session => facts.id.to_string(),
            };
            let row = self.rows.entry(name).or_default();
            row.add(line, cost);
            if by == By::Session && row.session.is_none() {
                let title = facts.label.clone().or_else(|| facts.title.clone()).unwrap_or_default();
                row.session = Some((facts.key.clone().unwrap_or_default(), title, facts.trashed));
            }
        }
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

    /// When they begin, in milliseconds since the epoch.
    pub(crate) fn since_ms(&self) -> i64 {
        self.from.saturating_mul(HOUR_MS)
    }

    /// The hours of the day that it is.
    pub(crate) fn today(now_ms: i64) -> Result<Self> {
        let zone = TimeZone::system();
        let from = moment("today", now_ms, &zone, Edge::Begin)?.div_euclid(HOUR_MS);
        Ok(Self { from, until: i64::MAX, zone })
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

/// Which end of a day a date means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Begin,
    End,
}

/// The moment that a text means: a time ago, a day, or a time.
fn moment(text: &str, now_ms: i64, zone: &TimeZone, edge: Edge) -> Result<i64> {
    let text = text.trim();
    let wrong = || {
        Failure::usage(format!("`{text}` is no time"))
            .hint("it looks like `30d`, `today`, `2026-01-31` or `2026-01-31T12:00:00Z`")
    };
    if let Some(ms) = Period::parse(text).ok().and_then(|period| period.before(now_ms)) {
        return Ok(ms);
    }
    let now = Timestamp::from_millisecond(now_ms).map_err(|_| wrong())?.to_zoned(zone.clone());
    let date: Option<Date> = match text {
        "today" => Some(now.date()),
        // A date alone; with a time behind it, it is a time.
        _ if text.len() == 10 => text.parse().ok(),
        _ => None,
    };
    if let Some(date) = date {
        let date = if edge == Edge::End { date.checked_add(1.day()).map_err(|_| wrong())? } else { date };
        let begin = date.to_zoned(zone.clone()).map_err(|_| wrong())?;
        return Ok(begin.timestamp().as_millisecond());
    }
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|_| wrong())
}

pub(crate) fn run(context: &Context, args: &Usage) -> Result<Outcome> {
    let config = config::load(&Flags::default())?;
    let (now_ms, zone) = (context.store.source().now_ms(), TimeZone::system());
    let since = args.since.as_deref().map(|text| moment(text, now_ms, &zone, Edge::Begin)).transpose()?;
    let until = args.until.as_deref().map(|text| moment(text, now_ms, &zone, Edge::End)).transpose()?;
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
    let unread = context.catalog.spent(reach, &mut |_, _| progress.step(), &mut |facts, ledger| {
        let is_asked =
            pattern.as_ref().is_none_or(|pattern| facts.key.as_deref().is_some_and(|key| pattern.matches(key)))
                && agent.as_ref().is_none_or(|agent| *agent == facts.dir);
        if is_asked {
            sums.take(&facts, &ledger, args.by, &hours, &config.prices);
        }
    })?;
    drop(progress);
    let mut out = anstream::stdout().lock();
    if context.json {
        table::json(&mut out, &sums, args.by)?;
    } else {
        table::print(&mut out, &sums, args.by)?;
    }
    drop(out);
    for (path, why) in &unread {
        context.tell(&format!("note: {} is not counted: {why}", path.display()))?;
    }
    for line in unpriced(&sums, &config.file) {
        context.tell(&line)?;
    }
    Ok(if unread.is_empty() { Outcome::Done } else { Outcome::MetDamage })
}

/// A key, or a pattern on keys; one word is a peer, as everywhere.
fn key_pattern(text: &str) -> Result<Pattern> {
    let text = if text.contains(':') || text == "*" { text.to_owned() } else { format!("main:cli:{text}") };
    Pattern::parse(&text).map_err(|error| Failure::usage(error.to_string()))
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

    #[test]
    fn times_are_understood_as_people_say_them() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = "2026-01-31T23:30:00Z".parse::<Timestamp>().unwrap().as_millisecond();
        let at =
            |text, edge| moment(text, now, &zone, edge).map(|ms| Timestamp::from_millisecond(ms).unwrap().to_string());
        assert_eq!(at("30d", Edge::Begin).unwrap(), "2026-01-01T23:30:00Z");
        assert_eq!(at("today", Edge::Begin).unwrap(), "2026-01-31T22:00:00Z");
        assert_eq!(at("2026-01-31", Edge::End).unwrap(), "2026-01-31T22:00:00Z");
        assert_eq!(at("2026-01-31T12:00:00Z", Edge::End).unwrap(), "2026-01-31T12:00:00Z");
        assert!(at("yesterdayish", Edge::Begin).is_err() && at("2026-13-01", Edge::Begin).is_err());
    }
}
