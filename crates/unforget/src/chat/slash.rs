//! The commands of the chat: everything that begins with a slash. None of them is ever sent to the model.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio_util::sync::CancellationToken;
use unforget_agent::turn::Input;
use unforget_core::edit::{Change, Edit};
use unforget_core::layout::Place;
use unforget_core::listing::ListQuery;
use unforget_core::record::Body;
use unforget_core::speech;

use super::terminal::Terminal;
use super::{Chat, Delivery, banner, bar, beside, repl};
use crate::commands::sessions::Shown;
use crate::commands::wrap::wrap;
use crate::commands::{conversation, gc, search, sessions, trash};
use crate::editor::{self, Editor};
use crate::failure::{Failure, Result};
use crate::{agent, screen};

mod branch;
mod checkpoint;
pub(crate) mod files;
mod keep;

/// What there is, in the order of the help.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("help", "this list"),
    ("new", "[label]  start a new conversation"),
    ("sessions", "list the conversations (also /list)"),
    ("switch", "<session>  go on in another: key, id, label or prefix"),
    ("search", "<words>  find what was said, in any conversation"),
    ("history", "[count]  show this conversation"),
    ("context", "how full the context window is"),
    ("compact", "[instructions]  summarise the older part"),
    ("undo-compact", "bring back what the last compaction replaced"),
    ("pin", "[record]  keep words through compactions (list, off N)"),
    ("files", "[record]  files that the tools changed (restore N)"),
    ("retry", "answer the last message again"),
    ("undo", "[--files]  take back the last turn"),
    ("redo", "[--files]  go forward again, if nothing was said since"),
    ("rewind", "<record> [--files]  go on behind an earlier record"),
    ("branch", "[name]  go on from here on a branch, or list them"),
    ("switch-branch", "<branch>  go on at the end of another: name or record"),
    ("tree", "[all]  draw the branches"),
    ("fork", "[record]  make a session of its own of it, and go on there"),
    ("checkpoint", "<name> [--files]  name this point"),
    ("checkpoints", "list the named points"),
    ("restore", "<name> [--files]  go back to a named point"),
    ("copy", "copy the last answer to the clipboard"),
    ("title", "[text]  show or set the title"),
    ("label", "[name|off]  show, set or drop the label; labelled ones stay"),
    ("expire", "[30d|never|default]  how long this conversation is kept"),
    ("usage", "tokens and cost of this conversation, and of today"),
    ("model", "[name]  show or change the model"),
    ("delete", "<session>  move a conversation to the trash"),
    ("undelete", "[session]  bring it back"),
    ("remote", "where this is copied to, and whether all of it is there"),
    ("tools", "what the model can do, and what it may do unasked"),
    ("list", "the same as /sessions"),
    ("quit", "leave (also quit, exit, Ctrl-D)"),
    ("exit", "the same as /quit"),
];

/// What comes after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    GoOn,
    Quit,
}

/// How `/pin` is used.
const PIN_USAGE: &str = "/pin [record]: a number as /history shows it; without one, your last words; also /pin list";
/// How many records `/history` shows if not told otherwise.
const HISTORY: usize = 20;

/// Runs a command. What a person got wrong is told, and the chat goes on.
pub(crate) fn run(chat: &mut Chat<'_>, editor: &mut Editor, command: &str, argument: &str) -> Result<After> {
    let argument = argument.trim();
    match dispatch(chat, editor, command, argument) {
        Err(failure) if failure.is_fatal() => Err(failure),
        Err(failure) => {
            failure.tell()?;
            Ok(After::GoOn)
        }
        done => done,
    }
}

fn dispatch(chat: &mut Chat<'_>, editor: &mut Editor, command: &str, argument: &str) -> Result<After> {
    let takes_nothing = |(name, help): &&(&str, &str)| *name == command && !help.starts_with(['<', '[']);
    if !argument.is_empty() && COMMANDS.iter().any(|entry| takes_nothing(&entry)) {
        let said = screen::one_line(argument);
        return Err(Failure::usage(format!("/{command} takes nothing behind it, and there is `{said}`")));
    }
    match command {
        "help" => help()?,
        "quit" | "exit" => return Ok(After::Quit),
        "new" => new(chat, argument)?,
        "sessions" | "list" => list(chat)?,
        "switch" => switch(chat, argument)?,
        "search" => search::in_chat(chat.context, argument)?,
        "history" => history(chat, argument)?,
        "context" => context(chat)?,
        "compact" => compact(chat, editor, argument)?,
        "undo-compact" => undo_compact(chat)?,
        "pin" => pin(chat, argument)?,
        "files" => files::run(chat, editor, argument)?,
        "retry" => return retry(chat, editor),
        "undo" => branch::undo(chat, editor, argument)?,
        "redo" => branch::redo(chat, editor, argument)?,
        "rewind" => branch::rewind(chat, editor, argument)?,
        "branch" => branch::branch(chat, argument)?,
        "switch-branch" => branch::switch_branch(chat, argument)?,
        "tree" => branch::tree(chat, argument)?,
        "fork" => branch::fork_session(chat, argument)?,
        "checkpoint" => checkpoint::set(chat, argument)?,
        "checkpoints" => checkpoint::list(chat)?,
        "restore" => checkpoint::restore(chat, editor, argument)?,
        "copy" => copy(chat)?,
        "title" => title(chat, argument)?,
        "label" => keep::label(chat, argument)?,
        "expire" => keep::expire(chat, argument)?,
        "usage" => keep::usage(chat)?,
        "model" => change_model(chat, argument)?,
        "delete" => delete(chat, argument)?,
        "undelete" => undelete(chat, argument)?,
        "remote" => remote(chat)?,
        "tools" => tools(chat)?,
        other => {
            let failure = Failure::usage(format!("unknown command: /{}", screen::one_line(other)));
            let failure = match editor::unknown_command(other, COMMANDS) {
                Some(like) => failure.hint(format!("did you mean /{like}?")),
                None => failure,
            };
            return Err(failure.hint("/help lists all; // sends text that begins with a slash"));
        }
    }
    Ok(After::GoOn)
}

fn say(text: &str) -> Result<()> {
    writeln!(anstream::stdout(), "  {text}")?;
    Ok(())
}

fn help() -> Result<()> {
    say("Commands:")?;
    for (name, help) in COMMANDS.iter().filter(|(name, _)| !matches!(*name, "list" | "exit")) {
        say(&format!("  /{} {help}", screen::pad(name, 14)))?;
    }
    say("A line that ends in \\ goes on, and so does an open ``` block; Alt-Enter, too.")?;
    say("Ctrl-C aborts an answer. // sends text that begins with a slash.")
}

fn new(chat: &mut Chat<'_>, label: &str) -> Result<()> {
    let key = chat.session.key().clone();
    let session = chat.context.store.create(&key, Some(label).filter(|label| !label.is_empty()))?;
    chat.take_up(session)?;
    let label = if label.is_empty() { String::new() } else { format!(" ({})", screen::one_line(label)) };
    say(&format!("New session: {}{label}", banner::short_id(chat.session.id().as_str())))
}

fn list(chat: &Chat<'_>) -> Result<()> {
    let (page, holders) = chat.context.page(&ListQuery::default())?;
    let current = chat.session.id().to_string();
    let shown =
        Shown { entries: &page.entries, holders: &holders, current: Some(&current), prices: Some(&chat.config.prices) };
    sessions::table(chat.context, &mut anstream::stdout().lock(), &shown)?;
    if page.next.is_some() {
        say("(the most recent ones; `unforget sessions` has the rest, and /switch finds them all)")?;
    }
    Ok(())
}

fn switch(chat: &mut Chat<'_>, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(
            Failure::usage("which one? /switch <key, id, label or the beginning of one>").hint("/sessions lists them")
        );
    }
    let entry = chat.context.resolve(name)?;
    if entry.row.id == chat.session.id().as_str() {
        return say("That is this session.");
    }
    let session = chat.context.store.open(&entry)?;
    chat.take_up(session)?;
    say("Switched to:")?;
    banner::session(chat, &mut anstream::stdout().lock())?;
    Ok(())
}

fn history(chat: &Chat<'_>, argument: &str) -> Result<()> {
    let count = match argument {
        "" => HISTORY,
        "all" => return whole_history(chat),
        text => text.parse().map_err(|_| Failure::usage("/history takes a number of records, or `all`"))?,
    };
    let (shown, compacted): (Vec<String>, bool) = chat.session.view(&chat.agent().limits(), |path, _| {
        let texts = path.records.iter().map(|record| conversation::terminal(record));
        let compacted = path.records.iter().any(|record| matches!(record.body, Body::Compaction { .. }));
        (texts.filter(|text| !text.is_empty()).collect(), compacted)
    })?;
    let mut out = anstream::stdout().lock();
    if shown.is_empty() {
        writeln!(out, "  (nothing was said yet)")?;
    }
    let skipped = shown.len().saturating_sub(count);
    if skipped > 0 {
        writeln!(out, "  ({skipped} earlier records: /history {})", shown.len())?;
    }
    if compacted {
        writeln!(out, "  (what the summary replaced: /history all)")?;
    }
    for text in &shown[skipped..] {
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Everything that is in the transcript, also what the model no longer sees.
fn whole_history(chat: &Chat<'_>) -> Result<()> {
    let bytes = chat.session.reader()?.read_all()?;
    let mut out = anstream::stdout().lock();
    for record in &unforget_core::scan::scan(&bytes).records {
        out.write_all(conversation::terminal(record).as_bytes())?;
    }
    Ok(())
}

fn context(chat: &Chat<'_>) -> Result<()> {
    let agent = chat.agent();
    let view = agent.look(&chat.session)?;
    let mut gauge = view.gauge;
    if view.stated == unforget_agent::guard::Stated::default() {
        // Nothing was sent yet; the first request will have these.
        let texts = [chat.settings.system.as_str(), chat.tools.definitions()];
        gauge.context = texts.iter().map(|text| unforget_core::tokens::estimate(text.as_bytes())).sum();
        gauge.estimated += gauge.context;
        gauge.tokens += gauge.context;
    }
    for line in bar::lines(&gauge, chat.model.window(), agent.limit()) {
        writeln!(anstream::stdout(), "{line}")?;
    }
    Ok(())
}

fn compact(chat: &mut Chat<'_>, editor: &mut Editor, instructions: &str) -> Result<()> {
    let abort = CancellationToken::new();
    let agent = unforget_agent::guard::Agent { model: chat.model.as_ref(), settings: &chat.settings };
    let view = agent.look(&chat.session)?;
    let instructions = Some(instructions).filter(|text| !text.is_empty());
    let mut terminal = Terminal::new(Some(editor), &mut chat.allowed, abort.clone(), &chat.busy);
    unforget_agent::host::Host::tell(&mut terminal, unforget_agent::host::Notice::Asking);
    let work = agent.compact(&mut chat.session, instructions, &view, &mut terminal, &abort);
    let done = beside(&chat.runtime, &abort, work)?;
    terminal.end_speech();
    match done? {
        Some(_) => Ok(()),
        None if abort.is_cancelled() => say("Aborted; nothing was changed."),
        None => say("There is too little to compact (more than four messages are needed)."),
    }
}

fn undo_compact(chat: &mut Chat<'_>) -> Result<()> {
    let applied = branch::edit(chat, Edit::UndoCompaction {}, None)?;
    if let Change::Expanded { of } = applied.change {
        say(&format!("Undone: record {of}. The model sees again what it replaced."))?;
    }
    let agent = chat.agent();
    if agent.look(&chat.session)?.gauge.tokens > agent.limit() {
        say("That is too much for the next call: the guard will make room again then.")?;
    }
    context(chat)
}

fn pin(chat: &mut Chat<'_>, argument: &str) -> Result<()> {
    if argument == "list" {
        let pins = chat.session.view(&chat.agent().limits(), |path, _| speech::pins(path))?;
        for (n, text) in &pins {
            say(&format!("{n:>4} {}", screen::fit(&screen::one_line(text), 70)))?;
        }
        return if pins.is_empty() { say("Nothing is pinned.") } else { Ok(()) };
    }
    let number = |text: &str, usage: &str| text.trim().parse().map_err(|_| Failure::usage(usage));
    let wanted = match argument.strip_prefix("off") {
        Some(n) => Edit::Unpin { n: number(n, "/pin off <record>")? },
        None if argument.is_empty() => Edit::Pin { n: None },
        None => Edit::Pin { n: Some(number(argument, PIN_USAGE)?) },
    };
    let applied = branch::edit(chat, wanted, None)?;
    match applied.change {
        Change::Pinned { n, pinned: false, .. } if applied.record.is_none() => {
            Err(Failure::usage(format!("record {n} is not pinned")).hint("/pin list shows what is"))
        }
        Change::Pinned { n, words: Some(words), .. } => {
            say(&format!("Pinned record {n}: {}", screen::fit(&screen::one_line(&words), 56)))
        }
        Change::Pinned { n, .. } => say(&format!("Record {n} is pinned no longer.")),
        _ => Ok(()),
    }
}

fn retry(chat: &mut Chat<'_>, editor: &mut Editor) -> Result<After> {
    branch::edit(chat, Edit::Retry {}, None)?;
    repl::turn(chat, editor, Input::Nothing)
}

/// The terminal puts it into the clipboard, also over SSH (OSC 52).
fn copy(chat: &Chat<'_>) -> Result<()> {
    let limits = chat.agent().limits();
    let answer = chat.session.view(&limits, |path, _| {
        let said = path.records.iter().rev().filter_map(|record| speech::utterance(record));
        said.filter(|said| said.who == "Assistant").map(|said| said.text).next()
    })?;
    let Some(answer) = answer else { return say("There is no answer yet.") };
    let encoded = BASE64.encode(answer.as_bytes());
    let mut out = std::io::stdout().lock();
    if std::io::IsTerminal::is_terminal(&out) {
        write!(out, "\u{1b}]52;c;{encoded}\u{7}")?;
        out.flush()?;
        drop(out);
        return say(&format!("Copied {} (if your terminal allows it).", screen::bytes(answer.len() as u64)));
    }
    writeln!(out, "{answer}")?;
    Ok(())
}

fn title(chat: &mut Chat<'_>, text: &str) -> Result<()> {
    if text.is_empty() {
        let title = chat.row()?.title;
        return say(&format!("Title: {}", title.map_or("(none)".to_owned(), |title| screen::one_line(&title))));
    }
    branch::edit(chat, Edit::Title { title: text.parse()? }, None)?;
    say(&format!("Title: {}", screen::one_line(text)))
}

fn change_model(chat: &mut Chat<'_>, name: &str) -> Result<()> {
    if !name.is_empty() {
        if name != "offline" && chat.config.api_key.is_none() {
            return Err(
                Failure::usage("there is no key for another model").hint("set ANTHROPIC_API_KEY and start again")
            );
        }
        let before = chat.config.model.clone();
        chat.config.change_model(name);
        match agent::model(&chat.config) {
            Ok(model) => chat.model = model,
            Err(failure) => {
                chat.config.change_model(&before);
                return Err(failure);
            }
        }
    }
    let window = bar::grouped(chat.model.window());
    say(&format!("Model: {} (window {window} tokens)", screen::one_line(chat.model.name())))
}

fn delete(chat: &Chat<'_>, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Failure::usage("which one? /delete <ref>").hint("/sessions lists them"));
    }
    let entry = chat.context.resolve(name)?;
    if entry.row.id == chat.session.id().as_str() {
        return Err(Failure::usage("the current session cannot be deleted").hint("/switch to another one first"));
    }
    chat.context.store.delete(&entry)?;
    say(&format!("Deleted: {} (/undelete brings it back)", banner::short_id(&entry.row.id)))
}

fn undelete(chat: &Chat<'_>, name: &str) -> Result<()> {
    if name.is_empty() {
        let (page, holders) = chat.context.page(&ListQuery { place: Place::Trash, ..ListQuery::default() })?;
        if page.entries.is_empty() {
            return say("The trash is empty.");
        }
        let shown =
            Shown { entries: &page.entries, holders: &holders, current: None, prices: Some(&chat.config.prices) };
        sessions::table(chat.context, &mut anstream::stdout().lock(), &shown)?;
        let leaving = gc::departures(&chat.context.store, &page.entries, &chat.config.retention)?;
        return leaving.iter().try_for_each(|line| say(line));
    }
    let entry = chat.context.find(Place::Trash, name)?;
    chat.context.store.undelete(&entry)?;
    say(&format!("Back again: {}", banner::short_id(&entry.row.id)))?;
    match trash::begin_anew(chat.context, &entry, &chat.config.retention) {
        Some(note) => say(&screen::one_line(&format!("({note})"))),
        None => Ok(()),
    }
}

/// Says how it stands with the remote.
fn remote(chat: &Chat<'_>) -> Result<()> {
    let delivery = chat.deliver(super::GRACE)?;
    let Some((courier, _)) = &chat.courier else {
        return Err(Failure::usage("this conversation is copied nowhere")
            .hint("`unforget chat --remote URL`, or once and for all `unforget config set remote URL`"));
    };
    let address = &courier.place().address;
    let mut out = anstream::stdout().lock();
    writeln!(out, "  Copied to {}", screen::safe(&address.to_string()))?;
    let others = courier.waiting();
    match delivery {
        Delivery::There if others > 0 => {
            writeln!(out, "  This conversation is there; {others} others wait to be sent.")?;
        }
        Delivery::There => writeln!(out, "  Everything is there.")?,
        Delivery::Waiting(why) => {
            let told = format!("It is {}", screen::safe(&super::courier::not_yet(why.as_deref(), address)));
            for row in wrap(&told, super::terminal::width().saturating_sub(2)) {
                writeln!(out, "  {row}")?;
            }
        }
    }
    Ok(())
}

fn tools(chat: &Chat<'_>) -> Result<()> {
    for name in chat.tools.names() {
        let asks = chat.tools.find(name).is_some_and(unforget_agent::tools::Tool::asks_first);
        let allowed = chat.allowed.by_setting.contains(name) || chat.allowed.always.contains(name);
        let how = match (asks, allowed) {
            (false, _) => "",
            (true, true) => "allowed",
            (true, false) => "asks first",
        };
        say(format!("{} {how}", screen::pad(name, 18)).trim_end())?;
    }
    Ok(())
}
