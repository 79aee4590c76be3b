//! `/label`, `/expire` and `/usage`: what keeps this conversation, for how long, and what it took.

use std::io::Write as _;

use unforget_core::edit::Edit;
use unforget_core::scan::Scanner;
use unforget_core::usage::Ledger;

use super::branch::edit;
use super::say;
use crate::chat::Chat;
use crate::commands::keep::{after, label_of, meaning};
use crate::commands::usage::{Hours, Row, Sums, table, unpriced};
use crate::failure::Result;
use crate::screen;

/// Columns of what a count is about.
const NAMES: usize = 14;

pub(super) fn label(chat: &mut Chat<'_>, text: &str) -> Result<()> {
    match text {
        "" => {
            let label = chat.row()?.label;
            return say(&format!("Label: {}", label.map_or("(none)".to_owned(), |label| screen::one_line(&label))));
        }
        text => edit(chat, Edit::Label { label: label_of(text)? }, None)?,
    };
    chat.label = chat.row()?.label;
    match &chat.label {
        Some(label) => say(&format!("Label: {} (it never expires; /label off takes it away)", screen::one_line(label))),
        None => say("Label: (none)"),
    }
}

pub(super) fn expire(chat: &mut Chat<'_>, text: &str) -> Result<()> {
    if !text.is_empty() {
        edit(chat, Edit::Expire { after: after(text)? }, None)?;
    }
    let row = chat.row()?;
    say(&format!("This session {}.", screen::one_line(&meaning(row.expires.as_deref()))))?;
    if row.label.is_some() {
        say("It has a label, and stays as long as it has.")?;
    }
    Ok(())
}

/// This session, and everything of today.
pub(super) fn usage(chat: &Chat<'_>) -> Result<()> {
    let (mut scanner, mut ledger) = (Scanner::default(), Ledger::default());
    let reader = chat.session.reader()?;
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| ledger.feed(&record));
    }
    let mut session = Sums::default();
    session.all(&ledger, &chat.config.prices);
    let hours = Hours::today(chat.context.store.source().now_ms())?;
    let mut today = Sums::default();
    let answer = chat.context.catalog.sums(hours.from..hours.until, &|_| true, &mut |_, _| {}, &mut |sum| {
        today.add(String::new(), &sum, &chat.config.prices);
    })?;
    chat.context.tell_notes(&answer.notes)?;
    for (name, row) in [("This session", &session.total), ("Today, in all", &today.total)] {
        told(name, row).iter().try_for_each(|line| say(line))?;
    }
    for line in unpriced(&today, &chat.config.file) {
        writeln!(anstream::stdout(), "  {}", screen::safe(&line))?;
    }
    Ok(())
}

/// Two lines, which fit a small window.
fn told(name: &str, row: &Row) -> [String; 2] {
    let line = &row.line;
    let count =
        |count: u64, what: &str| format!("{} {what}{}", table::grouped(count), if count == 1 { "" } else { "s" });
    let cached = table::hit_rate(line).map_or(String::new(), |rate| format!(" ({rate} from the cache)"));
    let calls = [count(line.turns, "turn"), count(line.calls, "call"), count(line.tools, "tool call")].join(", ");
    let (sent, answered) = (table::grouped(line.tokens.prompt()), table::grouped(line.tokens.output));
    [
        format!("{}  {calls}; {}", screen::pad(&format!("{name}:"), NAMES), row.cost.shown()),
        format!("{}  {sent} tokens in{cached}, {answered} out", " ".repeat(NAMES)),
    ]
}
