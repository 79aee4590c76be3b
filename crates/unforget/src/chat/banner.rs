//! What is shown first: which model, which conversation, and what was restored of it.

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use unforget_core::history::{Repair, RepairKind};

use super::Chat;
use crate::failure::Result;
use crate::screen;

/// How wide the banner is.
const RULE: usize = 60;
/// So many repairs are told one by one.
const TOLD: usize = 3;

/// What is open in a conversation that was taken up again.
pub(crate) struct Open {
    /// Tool calls that wait for an answer of the person.
    pub(crate) pending: usize,
    /// Whether the user's last words have no answer yet.
    pub(crate) unanswered_words: bool,
}

/// Prints the banner of a conversation that was just opened.
pub(crate) fn print(chat: &Chat<'_>) -> Result<Open> {
    let mut out = anstream::stdout().lock();
    let bold = Style::new().bold();
    writeln!(out, "{}", "=".repeat(RULE))?;
    writeln!(out, "  {bold}unforget{bold:#}  a chat that remembers")?;
    writeln!(out, "  Model: {}", model(chat))?;
    let open = session(chat, &mut out)?;
    if let Some((courier, _)) = &chat.courier {
        let address = screen::one_line(&courier.place().address.to_string());
        writeln!(out, "  Remote: {}", screen::fit(&address, RULE - 10))?;
    }
    let workspace = screen::one_line(&chat.workspace.display().to_string());
    writeln!(out, "  Workspace: {}", screen::fit(&workspace, RULE - 13))?;
    writeln!(out, "  Type /help for commands, /quit to leave.")?;
    writeln!(out, "{}", "=".repeat(RULE))?;
    Ok(open)
}

fn model(chat: &Chat<'_>) -> String {
    match chat.model.name() {
        "offline" if chat.config.api_key.is_none() => {
            "offline (built in; set ANTHROPIC_API_KEY for a real one)".to_owned()
        }
        name => screen::one_line(name),
    }
}

/// The lines about the session; also shown when another one is taken up.
pub(crate) fn session(chat: &Chat<'_>, out: &mut impl std::io::Write) -> Result<Open> {
    let session = &chat.session;
    let key = screen::one_line(&session.key().to_string());
    writeln!(out, "  Session: {key} ({})", short_id(session.id().as_str()))?;
    let row = chat.row()?;
    let turns = row.turns;
    if turns > 0 {
        let title = row.title.unwrap_or_default();
        let ago = screen::ago(row.updated_ms, chat.context.store.source().now_ms());
        let plural = if turns == 1 { "" } else { "s" };
        let green = AnsiColor::Green.on_default();
        writeln!(out, "  {green}Restored: {turns} previous turn{plural}{green:#} (last {ago})")?;
        if !title.is_empty() {
            writeln!(out, "  Title: {}", screen::fit(&screen::one_line(&title), RULE - 9))?;
        }
    }
    let view = session.history(&chat.agent().limits())?;
    let yellow = AnsiColor::Yellow.on_default();
    if let Some(sealed) = session.sealed() {
        writeln!(out, "  {yellow}Repaired: {}{yellow:#}", screen::one_line(&sealed.to_string()))?;
    }
    if let Some(exposure) = session.exposure() {
        writeln!(out, "  {yellow}Warning: the transcript: {exposure} (`unforget doctor`){yellow:#}")?;
    }
    for repair in told(&view.history.repairs) {
        writeln!(out, "  {yellow}Repaired: {repair}{yellow:#}")?;
    }
    let damage = view.report.damage_count();
    if damage > 0 {
        writeln!(out, "  {yellow}Damaged places in the transcript: {damage} (`unforget doctor`){yellow:#}")?;
    }
    let oddities = view.report.oddity_count();
    if oddities > 0 {
        writeln!(out, "  {yellow}Oddities in the transcript: {oddities} (`unforget doctor`){yellow:#}")?;
    }
    let pending = view.history.pending.len();
    let last_is_user = view.history.messages.last().is_some_and(|message| message.role.name() == "user");
    let open = Open { pending, unanswered_words: turns > 0 && last_is_user && pending == 0 };
    if open.unanswered_words {
        writeln!(out, "  {yellow}Your last message has no answer yet: /retry asks again.{yellow:#}")?;
    }
    Ok(open)
}

/// The repairs in words, the many shortened to a count.
fn told(repairs: &[Repair]) -> Vec<String> {
    // An interruption that was written down, or an empty message, is no news.
    let news: Vec<&Repair> = repairs.iter().filter(|repair| !matches!(repair.kind, RepairKind::Empty)).collect();
    let mut lines: Vec<String> = news
        .iter()
        .take(TOLD)
        .map(|repair| match repair.kind {
            RepairKind::ResultAdded(_) => "a tool was interrupted; it may have run, and is not run again".to_owned(),
            _ => screen::fit(&screen::one_line(&format!("record {}: {}", repair.n, repair.kind)), RULE + 8),
        })
        .collect();
    if news.len() > TOLD {
        lines.push(format!("{} more; `unforget show` tells all", news.len() - TOLD));
    }
    lines
}

pub(crate) fn short_id(id: &str) -> String {
    id.chars().take(13).collect()
}
