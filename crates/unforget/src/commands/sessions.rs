//! `sessions` and `new`.

use std::io::Write as _;

use unforget_core::key::Key;
use unforget_core::store::Entry;
use unforget_core::summary::{Row, State};

use crate::cli::{New, Sessions};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// Fewest characters of an id that the table shows.
const SHORT_ID: usize = 8;

pub(crate) fn run(context: &Context, args: &Sessions) -> Result<Outcome> {
    let entries = if args.deleted { context.store.deleted()? } else { context.list()?.entries };
    let mut out = anstream::stdout().lock();
    if context.json {
        for entry in &entries {
            writeln!(out, "{}", row_json(&entry.row)?)?;
        }
        return Ok(Outcome::Done);
    }
    if entries.is_empty() {
        let home = context.home.display();
        if args.deleted {
            writeln!(out, "The trash is empty.")?;
        } else {
            writeln!(out, "No sessions yet in {}.\n", screen::safe(&home.to_string()))?;
            writeln!(
                out,
                "  unforget import PATH    take in sessions: a claw0 workspace, a .sessions folder or .jsonl files"
            )?;
            writeln!(out, "  unforget new            start an empty one")?;
            writeln!(out, "  unforget --help         everything else")?;
        }
        return Ok(Outcome::Done);
    }
    table(&mut out, &entries, context.store.source().now_ms())?;
    Ok(Outcome::Done)
}

fn table(out: &mut impl std::io::Write, entries: &[Entry], now_ms: i64) -> Result<()> {
    let id_width = short_id(entries);
    let key_width = entries.iter().map(|entry| key(&entry.row).chars().count()).max().unwrap_or(3).clamp(3, 28);
    let dim = anstyle::Style::new().dimmed();
    let columns = screen::columns();
    let title_width = columns.saturating_sub(id_width + key_width + 5 + 12 + 8).max(10);
    writeln!(
        out,
        "{dim}{}  {}  {}  {}  TITLE{dim:#}",
        screen::pad("ID", id_width),
        screen::pad("KEY", key_width),
        screen::pad("TURNS", 5),
        screen::pad("LAST USED", 10)
    )?;
    for entry in entries {
        let row = &entry.row;
        let id: String = row.id.chars().take(id_width).collect();
        let name = match (&row.label, &row.title) {
            (Some(label), Some(title)) => format!("[{label}] {title}"),
            (Some(label), None) => format!("[{label}]"),
            (None, Some(title)) => title.clone(),
            (None, None) => String::new(),
        };
        let line = format!(
            "{}  {}  {:>5}  {}  {}",
            screen::pad(&id, id_width),
            screen::pad(&screen::fit(&screen::one_line(&key(row)), key_width), key_width),
            row.turns,
            screen::pad(&screen::ago(row.updated_ms, now_ms), 10),
            screen::fit(&screen::one_line(&name), title_width)
        );
        let yellow = anstyle::AnsiColor::Yellow.on_default();
        match remark(row) {
            Some(remark) => writeln!(out, "{line}  {yellow}{}{yellow:#}", screen::one_line(&remark))?,
            None => writeln!(out, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

fn key(row: &Row) -> String {
    match (&row.key, &row.state) {
        (Some(key), State::Ok | State::Missing | State::Deleted) => key.clone(),
        _ => "-".to_owned(),
    }
}

/// What a person should know about a session that is not as it should be.
fn remark(row: &Row) -> Option<String> {
    match (&row.state, row.damage) {
        (State::Ok | State::Deleted, 0) => None,
        (State::Ok | State::Deleted, 1) => Some("1 damaged place".to_owned()),
        (State::Ok | State::Deleted, count) => Some(format!("{count} damaged places")),
        (State::Missing, _) => Some("transcript missing".to_owned()),
        (State::Mismatch, _) => Some("header of another session".to_owned()),
        (State::Unreadable(why), _) => Some(format!("unreadable: {why}")),
    }
}

/// How many characters tell all ids apart.
fn short_id(entries: &[Entry]) -> usize {
    let mut ids: Vec<&str> = entries.iter().map(|entry| entry.row.id.as_str()).collect();
    ids.sort_unstable();
    let shared = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let longest = ids.windows(2).map(shared).max().unwrap_or(0);
    (longest + 1).clamp(SHORT_ID, 36)
}

pub(crate) fn row_json(row: &Row) -> Result<String> {
    serde_json::to_string(row).map_err(|error| Failure::new(error.to_string()))
}

pub(crate) fn create(context: &Context, args: &New) -> Result<Outcome> {
    let key: Key = args.key.parse().map_err(unforget_core::Error::from)?;
    let session = context.store.create(&key, args.label.as_deref())?;
    let mut out = anstream::stdout().lock();
    if context.json {
        let quote = unforget_core::json::quote;
        writeln!(out, "{{\"id\":{},\"key\":{}}}", quote(session.id().as_str()), quote(&key.to_string()))?;
    } else {
        writeln!(out, "{}", session.id())?;
    }
    Ok(Outcome::Done)
}
