//! `sessions` and `new`.

use std::io::Write as _;

use unforget_core::key::Key;
use unforget_core::store::Entry;
use unforget_core::summary::{Row, State};
use unicode_width::UnicodeWidthStr as _;

use crate::cli::{New, Sessions};
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// Fewest characters of an id that the table shows.
const SHORT_ID: usize = 8;
/// Below this many columns the table shows only what names a session.
const NARROW: usize = 72;

pub(crate) fn run(context: &Context, args: &Sessions) -> Result<Outcome> {
    let entries = if args.deleted { context.store.deleted()? } else { context.list()?.entries };
    let mut out = anstream::stdout().lock();
    if context.json {
        for entry in &entries {
            screen::write_stored(&mut out, row_json(&entry.row)?.as_bytes())?;
            writeln!(out)?;
        }
        return Ok(Outcome::Done);
    }
    if entries.is_empty() {
        let home = context.home.display();
        if args.deleted {
            writeln!(out, "The trash is empty.")?;
        } else {
            let deleted = match context.store.deleted()?.len() {
                0 => String::new(),
                count => format!(" ({count} in the trash: `unforget sessions --deleted`)"),
            };
            writeln!(out, "No sessions yet in {}{deleted}.\n", screen::safe(&home.to_string()))?;
            writeln!(out, "  unforget                talk: a conversation begins, and goes on next time")?;
            writeln!(
                out,
                "  unforget import PATH    take in sessions: a claw0 workspace, a .sessions folder or .jsonl files"
            )?;
            writeln!(out, "  unforget new            start an empty one")?;
            writeln!(out, "  unforget --help         everything else")?;
        }
        return Ok(Outcome::Done);
    }
    table(&mut out, &entries, context.store.source().now_ms(), None)?;
    Ok(Outcome::Done)
}

/// Prints a table of sessions; the current one, if there is any, is marked.
pub(crate) fn table(
    out: &mut impl std::io::Write,
    entries: &[Entry],
    now_ms: i64,
    current: Option<&str>,
) -> Result<()> {
    // A pipe gets everything; a terminal gets what fits, and a narrow one fewer columns.
    let columns = screen::columns().unwrap_or(usize::MAX);
    let is_narrow = columns < NARROW;
    let id_width = short_id(entries);
    let key_width = entries.iter().map(|entry| key(&entry.row).width()).max().unwrap_or(3).max(3);
    let key_width = if columns == usize::MAX { key_width } else { key_width.min(28).min(columns / 3) };
    let fixed = id_width + key_width + 4 + if is_narrow { 0 } else { 19 };
    let room = columns.saturating_sub(fixed).max(10);
    let (dim, yellow) = (anstyle::Style::new().dimmed(), anstyle::AnsiColor::Yellow.on_default());
    let middle = |turns: &str, used: &str| match is_narrow {
        true => String::new(),
        false => format!("{turns:>5}  {}  ", screen::pad(used, 10)),
    };
    let (id, key_title) = (screen::pad("ID", id_width), screen::pad("KEY", key_width));
    writeln!(out, "{dim}{id}  {key_title}  {}TITLE{dim:#}", middle("TURNS", "LAST USED"))?;
    for entry in entries {
        let row = &entry.row;
        let id: String = row.id.chars().take(id_width).collect();
        let name = match (&row.label, &row.title) {
            (Some(label), Some(title)) => format!("[{label}] {title}"),
            (Some(label), None) => format!("[{label}]"),
            (None, Some(title)) => title.clone(),
            (None, None) => String::new(),
        };
        let here = (current == Some(row.id.as_str())).then(|| "<- here".to_owned());
        let remark =
            remark(row).or(here).map(|remark| screen::fit(&screen::one_line(&remark), room)).unwrap_or_default();
        let title_room = room.saturating_sub(remark.width() + 2 * usize::from(!remark.is_empty())).max(1);
        let title = screen::fit(&screen::one_line(&name), title_room);
        let key = screen::fit(&screen::one_line(&key(row)), key_width);
        let middle = middle(&row.turns.to_string(), &screen::ago(row.updated_ms, now_ms));
        let line = format!("{}  {}  {middle}{title}", screen::pad(&id, id_width), screen::pad(&key, key_width));
        match remark.as_str() {
            "" => writeln!(out, "{}", line.trim_end())?,
            remark => writeln!(out, "{line}  {yellow}{remark}{yellow:#}")?,
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
