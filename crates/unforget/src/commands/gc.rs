//! `gc`: what has expired goes to the trash, and what the trash kept long enough goes for good.
//!
//! A dry run and a real one make the same plan; only the last step differs. What cannot be undone is asked for first.

use std::io::{IsTerminal as _, Write as _};

use unforget_core::directory::{Directory, Entry};
use unforget_core::json::quote;
use unforget_core::retention::{self, Action, Deed, Kept, Outcome as Done, Period, Plan, Purge, Rules};
use unforget_core::stamp::SessionId;
use unforget_core::summary::{self, Row, State};
use unicode_width::UnicodeWidthStr as _;

use crate::cli::Gc;
use crate::commands::Context;
use crate::config::{self, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;
use crate::screen;

/// The longest answer that is read.
const MAX_ANSWER: usize = 64;
/// How many sessions are listed before that.
const LISTED: usize = 20;
/// No title is cut to less.
const NARROWEST_TITLE: usize = 10;

pub(crate) fn run(context: &Context, args: &Gc) -> Result<Outcome> {
    let rules = config::load(&Flags::default())?.retention;
    let purge = match (args.purge_trash, &args.older_than) {
        (false, _) => Purge::ByRules,
        (true, None) => Purge::Asked(None),
        (true, Some(text)) => {
            Purge::Asked(Some(Period::parse(text).map_err(|error| Failure::usage(error.to_string()))?))
        }
    };
    let progress = Progress::new("looking at sessions");
    let plan = plan(&context.store, &rules, &purge, |_| progress.step())?;
    drop(progress);
    let is_idle = plan.expire.is_empty() && plan.purge.is_empty();
    if let Some(last_ms) = if is_idle { None } else { retention::doubt(&context.store)? } {
        let (now, last) = (screen::time(plan.now_ms), screen::time(last_ms));
        context.tell(&format!("note: the clock says {now}, and the last time that is known is {last}"))?;
    }
    if args.dry_run {
        let deeds = planned(&context.store, &plan);
        return report(context, &Done { deeds, ..Done::default() }, &plan, &rules, Tense::Would);
    }
    if args.purge_trash && !plan.purge.is_empty() && !args.yes {
        ask(&context.store, &plan)?;
    }
    let progress = Progress::new("cleaning up");
    let done = retention::apply(&context.store, &plan, &rules, |_| progress.step())?;
    drop(progress);
    if !rules.is_empty() {
        // A person asked: from here on the chat cleans up by this clock.
        retention::believe_clock(&context.store)?;
    }
    report(context, &done, &plan, &rules, Tense::Did)
}

/// Looks at everything and decides.
pub(crate) fn plan(
    store: &Directory,
    rules: &Rules,
    purge: &Purge,
    progress: impl FnMut(&std::path::Path),
) -> Result<Plan> {
    let mut survey = retention::survey(store, progress)?;
    Ok(retention::decide(store, &mut survey, rules, purge, store.source().now_ms()))
}

/// What a plan would do.
fn planned(store: &Directory, plan: &Plan) -> Vec<Deed> {
    let at_ms = plan.now_ms;
    let deed = |action, id: &str, bytes, why: &retention::Why| Deed {
        action,
        id: id.to_owned(),
        key: None,
        title: None,
        bytes,
        why: why.clone(),
        at_ms,
    };
    let purge = plan.purge.iter().map(|(trashed, why)| {
        let id = trashed.id.as_str();
        let row = Row { id: id.to_owned(), state: State::Deleted, ..Row::default() };
        let read = store.read(&Entry { dir: trashed.dir.clone(), row });
        let row = read.and_then(|reader| summary::summarise(&reader, id)).map(|(row, _)| row).unwrap_or_default();
        Deed { key: row.key, title: row.title, ..deed(Action::Purged, id, trashed.bytes, why) }
    });
    let expire = plan.expire.iter().map(|(entry, why)| Deed {
        key: entry.row.key.clone(),
        title: entry.row.title.clone(),
        ..deed(Action::Expired, &entry.row.id, entry.row.bytes, why)
    });
    purge.chain(expire).collect()
}

/// Asks whether sessions may be removed for good; anything but a yes ends the command.
fn ask(store: &Directory, plan: &Plan) -> Result<()> {
    let (count, bytes) = (plan.purge.len(), plan.purge.iter().map(|(trashed, _)| trashed.bytes).sum());
    let what = format!("{} ({}) in the trash", sessions(count), screen::bytes(bytes));
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{what} would be removed for good, and nobody can be asked"))
            .hint("`--yes` does not ask; `--dry-run` only tells"));
    }
    let mut err = anstream::stderr().lock();
    // What cannot be undone is seen before it is agreed to.
    let some = Plan { purge: plan.purge.iter().take(LISTED).cloned().collect(), ..Plan::default() };
    list(&mut err, &planned(store, &some), Tense::Would)?;
    if count > LISTED {
        writeln!(err, "… and {} more: `--dry-run` lists them all", count - LISTED)?;
    }
    write!(err, "{what} will be removed for good. This cannot be undone. Go on? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let answer: String = answer.trim().chars().take(MAX_ANSWER).collect();
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was removed")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tense {
    Would,
    Did,
}

fn report(context: &Context, done: &Done, plan: &Plan, rules: &Rules, tense: Tense) -> Result<Outcome> {
    let mut out = anstream::stdout().lock();
    if context.json {
        done.deeds.iter().try_for_each(|deed| writeln!(out, "{}", deed.to_json()))?;
    } else {
        list(&mut out, &done.deeds, tense)?;
    }
    for (id, why) in &done.kept {
        tell_kept(context, &mut out, id, why)?;
    }
    for (id, why) in &done.failed {
        context.tell(&format!("error: {id}: {why}"))?;
    }
    let count = |action| done.deeds.iter().filter(move |deed| deed.action == action);
    let bytes = |action| count(action).map(|deed| deed.bytes).sum::<u64>();
    let (expired, purged) = (count(Action::Expired).count(), count(Action::Purged).count());
    let payloads = done.payloads.clone().unwrap_or_default();
    if context.json {
        let stopped = payloads.stopped.as_deref().map_or("null".to_owned(), quote);
        writeln!(
            out,
            "{{\"expired\":{expired},\"purged\":{purged},\"payloads\":{},\"payload_bytes\":{},\"payloads_stopped\":{stopped},\"failed\":{},\"over_budget\":{},\"dry_run\":{}}}",
            payloads.removed,
            payloads.bytes,
            done.failed.len(),
            plan.over_budget,
            tense == Tense::Would
        )?;
    } else {
        match (expired + purged, plan.kept.is_empty()) {
            (0, true) => writeln!(out, "There are no sessions.")?,
            (0, false) => writeln!(out, "Nothing to do: {}.", reasons(plan))?,
            (_, _) => {
                let (goes, leaves) = match tense {
                    Tense::Did => ("moved to the trash", "removed for good"),
                    Tense::Would => ("would go to the trash", "would be removed for good"),
                };
                let part = |count: usize, what: &str, action| {
                    (count > 0).then(|| format!("{} {what} ({})", sessions(count), screen::bytes(bytes(action))))
                };
                let parts = [part(expired, goes, Action::Expired), part(purged, leaves, Action::Purged)];
                writeln!(out, "{}.", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))?;
            }
        }
        if payloads.removed > 0 {
            writeln!(
                out,
                "Removed {} that nothing refers to any more ({}).",
                screen::number_of(payloads.removed, "payload"),
                screen::bytes(payloads.bytes)
            )?;
        }
    }
    drop(out);
    talk(context, expired, plan, rules, &payloads, tense)?;
    if done.failed.is_empty() { Ok(Outcome::Done) } else { Err(Failure::new("not everything could be cleaned up")) }
}

/// Which sessions go, or went, and why.
fn list(out: &mut impl std::io::Write, deeds: &[Deed], tense: Tense) -> Result<()> {
    let (green, red) = (anstyle::AnsiColor::Green.on_default(), anstyle::AnsiColor::Red.on_default());
    let window = screen::columns();
    let id_columns = match window {
        Some(_) => screen::telling(deeds.iter().map(|deed| deed.id.as_str())),
        None => usize::MAX,
    };
    for deed in deeds {
        let (style, verb) = match (deed.action, tense) {
            (Action::Expired, Tense::Did) => (green, "to the trash"),
            (Action::Expired, Tense::Would) => (green, "would go to the trash"),
            (Action::Purged, Tense::Did) => (red, "removed"),
            (Action::Purged, Tense::Would) => (red, "would be removed"),
        };
        let key = deed.key.as_deref().map(screen::one_line).unwrap_or_default();
        let title = deed.title.as_deref().map(screen::one_line).unwrap_or_default();
        let id: String = deed.id.chars().take(id_columns).collect();
        let line = match window {
            Some(window) => {
                let line = format!("{id}  {}  {}  ", screen::fit(&key, window / 3), screen::bytes(deed.bytes));
                let room = window.saturating_sub(verb.len() + 2 + line.width());
                format!("{line}{}", screen::fit(&title, room.max(NARROWEST_TITLE)))
            }
            None => format!("{id}  {key}  {}  {title}", screen::bytes(deed.bytes)),
        };
        writeln!(out, "{style}{verb}{style:#}  {}", line.trim_end())?;
        writeln!(out, "    {}", screen::one_line(&deed.why.to_string()))?;
    }
    Ok(())
}

/// What is worth knowing besides: how to undo it, and what did not work out.
fn talk(
    context: &Context,
    expired: usize,
    plan: &Plan,
    rules: &Rules,
    payloads: &retention::Payloads,
    tense: Tense,
) -> Result<()> {
    if let Some(why) = &payloads.stopped {
        context.tell(&format!("note: no payloads were removed, because of a doubt: {why}"))?;
    }
    if plan.over_budget > 0 {
        let bytes = screen::bytes(plan.over_budget);
        context.tell(&format!(
            "note: the disk budget is exceeded by {bytes}; what is in the trash leaves it a day later at the earliest"
        ))?;
    }
    if context.json {
        return Ok(());
    }
    if expired > 0 && tense == Tense::Did {
        let time = rules.trash.as_ref().map_or("for ever".to_owned(), |period| format!("for {period}"));
        context.tell(&format!("hint: `unforget undelete ID` brings a session back; the trash keeps it {time}"))?;
    }
    if rules.is_empty() && expired == 0 && plan.purge.is_empty() {
        context.tell("hint: nothing expires unless [retention] in the settings says so: `unforget gc --help`")?;
    }
    Ok(())
}

fn tell_kept(context: &Context, out: &mut impl std::io::Write, id: &str, why: &Kept) -> Result<()> {
    if context.json {
        writeln!(out, "{{\"action\":\"kept\",\"id\":{},\"why\":{}}}", quote(id), quote(&why.to_string()))?;
    } else {
        writeln!(out, "kept  {id}\n    {}", screen::one_line(&why.to_string()))?;
    }
    Ok(())
}

/// How many stay, and why.
fn reasons(plan: &Plan) -> String {
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for (_, kept) in &plan.kept {
        let why = match kept {
            Kept::OddExpiry(_) => "its expiry is not understood".to_owned(),
            other => other.to_string(),
        };
        *counts.entry(why).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(why, count)| format!("{count} kept ({why})")).collect();
    parts.join(", ")
}

fn sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// Tells which sessions of the trash leave it by themselves, and when.
pub(crate) fn departures(store: &Directory, entries: &[Entry], rules: &Rules) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let id_columns = match screen::columns() {
        Some(_) => screen::telling(entries.iter().map(|entry| entry.row.id.as_str())),
        None => usize::MAX,
    };
    for entry in entries {
        let Some(id) = SessionId::parse(&entry.row.id) else { continue };
        if let Some(ms) = retention::purge_time(store, &entry.dir, &id, rules)? {
            let when =
                if ms <= store.source().now_ms() { "with the next `unforget gc`".to_owned() } else { screen::time(ms) };
            let id: String = id.as_str().chars().take(id_columns).collect();
            lines.push(format!("{id} leaves the trash for good: {when}"));
        }
    }
    Ok(lines)
}
