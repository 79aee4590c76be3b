//! `sessions` and `new`.

use std::collections::HashMap;
use std::io::Write as _;

use serde::Serialize;
use unforget_agent::prices::{Cost, Prices};
use unforget_core::directory::Entry;
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::listing::{Cursor, Filter, ListQuery, Sort, Wanted};
use unforget_core::store::Holders;
use unforget_core::store::Reach;
use unforget_core::summary::{Row, State};
use unforget_core::usage::Ledger;
use unforget_server::api::listed::ListedSession;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::{New, Sessions};
use crate::commands::Context;
use crate::commands::usage::Sums;
use crate::config::{self, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;
use crate::when::{self, Edge};

/// Below this many columns the table shows only what names a session.
const NARROW: usize = 72;
/// From this many columns on it also shows tokens and costs.
const WIDE: usize = 100;
/// Columns of what is between key and title, and how many more tokens and costs are.
const BETWEEN: usize = 19;
const WIDER: usize = 19;
/// With more sessions than this, what all of them took is asked for at once.
const MANY: usize = 500;

pub(crate) fn run(context: &Context, args: &Sessions) -> Result<Outcome> {
    let ask = ask(context, args)?;
    let (page, holders) = context.page(&ask)?;
    let mut out = anstream::stdout().lock();
    // A list is not refused because of a setting: without prices there are no costs.
    let prices = config::load(&Flags::default()).ok().map(|config| config.prices);
    if context.json {
        let costs = costs(context, &page.entries, prices.as_ref())?;
        for entry in &page.entries {
            let cost = costs.get(entry.row.id.as_str()).copied().unwrap_or_default();
            let cost_usd = cost.dollars().filter(|_| prices.is_some() && cost.unpriced == 0);
            screen::json_line(&mut out, &Printed::of(context, entry, &holders, cost_usd))?;
        }
        if let Some(next) = &page.next {
            screen::json_line(&mut out, &Next { next: next.to_text() })?;
        }
    } else if page.entries.is_empty() {
        nothing(context, args, &ask, &mut out)?;
    } else {
        let shown = Shown { entries: &page.entries, holders: &holders, current: None, prices: prices.as_ref() };
        table(context, &mut out, &shown)?;
    }
    drop(out);
    if let Some(next) = page.next.as_ref().filter(|_| !context.json) {
        let next = next.to_text();
        // On a line of its own it can be copied, however narrow the window is.
        context.tell(&match screen::columns() {
            Some(_) => format!(
                "hint: there are more; everything: `--all`; the next page, with the same options:\n--cursor {next}"
            ),
            None => format!("hint: there are more; the next page: `--cursor {next}`; everything: `--all`"),
        })?;
    }
    if args.deleted && !context.json {
        let rules = config::load(&Flags::default())?.retention;
        for line in super::gc::departures(&context.store, &page.entries, &rules)? {
            context.tell(&line)?;
        }
    }
    context.refresh()?;
    Ok(Outcome::Done)
}

/// The last line of a page that is not the last one.
#[derive(Serialize)]
struct Next {
    next: String,
}

/// What the arguments ask for.
fn ask(context: &Context, args: &Sessions) -> Result<ListQuery> {
    let now_ms = context.store.source().now_ms();
    let when = |text: &Option<String>, edge| text.as_deref().map(|text| when::parse(text, now_ms, edge)).transpose();
    let filter = Filter {
        agent: args.agent.clone(),
        channel: args.channel.clone(),
        peer: args.peer.clone(),
        since_ms: when(&args.since, Edge::Begin)?,
        until_ms: when(&args.until, Edge::End)?,
        label: args.label.clone(),
        state: args.state.map(Wanted::from),
        pinned: args.pinned.then_some(true),
    };
    let sort = Sort::from(args.sort);
    let after = match &args.cursor {
        None => None,
        Some(text) => match Cursor::parse(text).filter(|cursor| cursor.is_for(sort)) {
            Some(cursor) => Some(cursor),
            None => {
                return Err(Failure::usage(format!("`{}` is no cursor of this list", screen::one_line(text)))
                    .hint("it comes with the page before, and holds for the same `--sort`"));
            }
        },
    };
    let place = if args.deleted { Place::Trash } else { Place::Agents };
    let limit = if args.all { usize::MAX - 1 } else { args.limit };
    Ok(ListQuery { place, filter, sort, limit, after })
}

/// What to say when there is nothing to list.
fn nothing(context: &Context, args: &Sessions, ask: &ListQuery, out: &mut impl std::io::Write) -> Result<()> {
    if ask.filter != Filter::default() || ask.after.is_some() {
        writeln!(out, "No session is like that.")?;
    } else if args.deleted {
        writeln!(out, "The trash is empty.")?;
    } else {
        let (trash, _) = context.page(&ListQuery { place: Place::Trash, ..ListQuery::default() })?;
        let more = if trash.next.is_some() { "over " } else { "" };
        let deleted = match trash.entries.len() {
            0 => String::new(),
            count => format!(" ({more}{count} in the trash: `unforget sessions --deleted`)"),
        };
        writeln!(out, "No sessions yet in {}{deleted}.\n", screen::safe(&context.home.display().to_string()))?;
        writeln!(out, "  unforget                talk: a conversation begins, and goes on next time")?;
        writeln!(out, "  unforget import PATH    take in sessions of other programs, or .jsonl files")?;
        writeln!(out, "  unforget new            start an empty one")?;
        writeln!(out, "  unforget --help         everything else")?;
    }
    Ok(())
}

/// What a table shows.
pub(crate) struct Shown<'a> {
    pub(crate) entries: &'a [Entry],
    pub(crate) holders: &'a Holders,
    /// The session that the person is in.
    pub(crate) current: Option<&'a str>,
    /// What tokens cost, if that is known.
    pub(crate) prices: Option<&'a Prices>,
}

/// Prints a table of sessions; live ones and the current one are marked.
pub(crate) fn table(context: &Context, out: &mut impl std::io::Write, shown: &Shown<'_>) -> Result<()> {
    let (entries, now_ms) = (shown.entries, context.store.source().now_ms());
    // A pipe gets everything; a terminal gets what fits, and a narrow one fewer columns.
    let columns = screen::columns().unwrap_or(usize::MAX);
    let is_narrow = columns < NARROW;
    let id_width = screen::telling(entries.iter().map(|entry| entry.row.id.as_str()));
    let key_width = entries.iter().map(|entry| key(&entry.row).width()).max().unwrap_or(3).max(3);
    let key_width = if columns == usize::MAX { key_width } else { key_width.min(28).min(columns / 3) };
    let is_wide = columns >= WIDE;
    let between = BETWEEN + if is_wide { WIDER } else { 0 };
    let fixed = id_width + key_width + 4 + if is_narrow { 0 } else { between };
    let costs = if is_wide { costs(context, entries, shown.prices)? } else { HashMap::new() };
    let room = columns.saturating_sub(fixed).max(10);
    let (dim, yellow) = (anstyle::Style::new().dimmed(), anstyle::AnsiColor::Yellow.on_default());
    let middle = |turns: &str, tokens: &str, cost: &str, used: &str| match is_narrow {
        true => String::new(),
        false if is_wide => format!("{turns:>5}  {tokens:>6}  {cost:>9}  {}  ", screen::pad(used, 10)),
        false => format!("{turns:>5}  {}  ", screen::pad(used, 10)),
    };
    let (id, key_title) = (screen::pad("ID", id_width), screen::pad("KEY", key_width));
    writeln!(out, "{dim}{id}  {key_title}  {}TITLE{dim:#}", middle("TURNS", "TOKENS", "COST", "LAST USED"))?;
    for entry in entries {
        let row = &entry.row;
        let id: String = row.id.chars().take(id_width).collect();
        let name = match (&row.label, &row.title) {
            (Some(label), Some(title)) => format!("[{label}] {title}"),
            (Some(label), None) => format!("[{label}]"),
            (None, Some(title)) => title.clone(),
            (None, None) => String::new(),
        };
        let name = if row.pinned { format!("* {name}") } else { name };
        let here = (shown.current == Some(row.id.as_str())).then(|| "<- here".to_owned());
        let live = holder(context, entry, shown.holders).map(|holder| format!("live: {holder}"));
        let remark = remark(row)
            .or(here)
            .or(live)
            .map(|remark| screen::fit(&screen::one_line(&remark), room))
            .unwrap_or_default();
        let title_room = room.saturating_sub(remark.width() + 2 * usize::from(!remark.is_empty())).max(1);
        let title = screen::fit(&screen::one_line(&name), title_room);
        let key = screen::fit(&screen::one_line(&key(row)), key_width);
        let tokens = screen::count(row.tokens);
        let cost = costs.get(row.id.as_str()).filter(|cost| cost.is_known()).map_or("-".to_owned(), Cost::shown);
        let middle = middle(&row.turns.to_string(), &tokens, &cost, &screen::ago(row.updated_ms, now_ms));
        let line = format!("{}  {}  {middle}{title}", screen::pad(&id, id_width), screen::pad(&key, key_width));
        match remark.as_str() {
            "" => writeln!(out, "{}", line.trim_end())?,
            remark => writeln!(out, "{line}  {yellow}{remark}{yellow:#}")?,
        }
    }
    Ok(())
}

/// Who is writing a session now.
fn holder<'h>(context: &Context, entry: &Entry, holders: &'h Holders) -> Option<&'h str> {
    if holders.is_empty() {
        return None;
    }
    let stat = context.store.medium().stat(&context.store.path(entry).ok()?).ok()?;
    holders.get(&stat.identity).map(String::as_str)
}

/// What the sessions that took something cost; none of them without prices.
fn costs<'e>(context: &Context, entries: &'e [Entry], prices: Option<&Prices>) -> Result<HashMap<&'e str, Cost>> {
    let Some(prices) = prices else { return Ok(HashMap::new()) };
    let cost = |ledger: &Ledger| {
        let mut sums = Sums::default();
        sums.all(ledger, prices);
        sums.total.cost
    };
    let priced = || entries.iter().filter(|entry| entry.row.tokens > 0);
    if priced().count() <= MANY {
        return Ok(priced().map(|entry| (entry.row.id.as_str(), cost(&context.catalog.spent_by(entry)))).collect());
    }
    let mut all = HashMap::new();
    let answer = context.catalog.spent(Reach::All, &mut |_, _| {}, &mut |facts, ledger| {
        all.insert(facts.id.to_string(), cost(&ledger));
    })?;
    context.tell_notes(&answer.notes)?;
    Ok(priced().filter_map(|entry| Some((entry.row.id.as_str(), *all.get(&entry.row.id)?))).collect())
}

/// A session as `--json` prints it: as the server's list shows it, and what only this machine knows.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    session: ListedSession,
    created_ms: Option<i64>,
    updated_ms: Option<i64>,
    /// The program that has it open for writing.
    holder: Option<&'a str>,
}

impl<'a> Printed<'a> {
    fn of(context: &Context, entry: &Entry, holders: &'a Holders, cost_usd: Option<f64>) -> Self {
        let holder = holder(context, entry, holders);
        let session = ListedSession::of(&entry.row, cost_usd, holder.is_some());
        Self { session, created_ms: entry.row.created_ms, updated_ms: entry.row.updated_ms, holder }
    }
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

/// The answer of `new --json`.
#[derive(Serialize)]
struct Begun<'a> {
    id: &'a str,
    key: String,
}

pub(crate) fn create(context: &Context, args: &New) -> Result<Outcome> {
    let key: Key = args.key.parse().map_err(unforget_core::Error::from)?;
    let session = context.store.create(&key, args.label.as_deref())?;
    let mut out = anstream::stdout().lock();
    if context.json {
        screen::json_line(&mut out, &Begun { id: session.id().as_str(), key: key.to_string() })?;
    } else {
        writeln!(out, "{}", session.id())?;
    }
    Ok(Outcome::Done)
}
