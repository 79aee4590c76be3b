//! The chat in a terminal: a prompt, an answer, a prompt.
//!
//! Reading a line and running a turn never happen at the same time, so nothing is redrawn over anything. In a pipe it
//! reads plain lines and asks nobody.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, LazyLock};

use tokio_util::sync::CancellationToken;
use unforget_agent::turn::{Input, State};
use unforget_core::listing::ListQuery;
use unforget_core::reader::LogReader;
use unforget_core::tree::Tree;

use super::cleanup::Cleanup;
use super::slash::{self, After};
use super::terminal::Terminal;
use super::{Chat, Delivery, GRACE, Hurried, TurnEnd, banner, courier, drive};
use crate::commands::wrap::wrap;
use crate::config::{Ack, Titles};
use crate::editor::{self, Completions, Editor};
use crate::failure::{Outcome, Result};
use crate::{home, screen};

/// How many sessions the Tab key knows, the most recently used ones.
const COMPLETED: usize = 500;

pub(crate) fn run(chat: &mut Chat<'_>) -> Result<Outcome> {
    let open = banner::print(chat)?;
    let has_words = chat.row()?.turns > 0;
    if let Some((courier, parcel)) = &chat.courier {
        courier.take_up(parcel, has_words)?;
        courier.block_on(async {
            courier.wait_for_claim(GRACE).await;
            courier.wait(parcel, Some(GRACE)).await
        });
    }
    let mut editor = Editor::open(home::history_file())?;
    if open.pending > 0 {
        let plural = if open.pending == 1 { "A tool call waits" } else { "Tool calls wait" };
        writeln!(anstream::stdout(), "  {plural} for your answer since last time.")?;
        if turn(chat, &mut editor, Input::Nothing)? == After::Quit {
            return Ok(Outcome::Done);
        }
    }
    let cleanup = Cleanup::begin(&chat.context.store, &chat.config.retention);
    loop {
        if let Some(trouble) = editor.trouble() {
            chat.context.tell(&format!("note: {trouble}"))?;
        }
        if let Some(news) = cleanup.news() {
            chat.context.tell(&news)?;
        }
        while let Some(news) = chat.courier.as_mut().and_then(|(courier, _)| courier.news()) {
            chat.context.tell(&format!("note: {news}"))?;
        }
        let completions = completions(chat);
        let prompt = prompt(chat);
        let line = match editor.read(&prompt, &completions)? {
            editor::Input::Line(line) => line,
            // An empty line first, so that whatever stands on the line is left alone.
            editor::Input::Interrupted => {
                writeln!(anstream::stdout(), "  (Ctrl-D or /quit leaves; everything is saved)")?;
                continue;
            }
            editor::Input::End => break,
        };
        if let Err(failure) = chat.expect() {
            // Nothing is written that nobody would send.
            failure.tell()?;
            continue;
        }
        let after = match editor::split(&line) {
            Some((command, argument)) => slash::run(chat, &mut editor, &command, argument)?,
            None => match editor::text(&line).trim() {
                "" => After::GoOn,
                words => turn(chat, &mut editor, Input::Words(words))?,
            },
        };
        chat.turned();
        if after == After::Quit {
            break;
        }
    }
    if let Some(news) = cleanup.news() {
        chat.context.tell(&news)?;
    }
    let again = match (&chat.courier, &chat.config.remote) {
        (Some(_), None) => "the same command",
        _ => "`unforget`",
    };
    writeln!(anstream::stdout(), "Bye. {again} goes on where you stopped.")?;
    Ok(Outcome::Done)
}

/// Runs a turn and shows it. A turn that failed is told, and the conversation goes on.
pub(crate) fn turn(chat: &mut Chat<'_>, editor: &mut Editor, input: Input<'_>) -> Result<After> {
    chat.expect()?;
    let abort = CancellationToken::new();
    let asks = std::io::stdin().is_terminal();
    let agent = unforget_agent::guard::Agent { model: chat.model.as_ref(), settings: &chat.settings };
    let mut terminal = Terminal::new(asks.then_some(editor), &mut chat.allowed, abort.clone(), &chat.busy);
    let running = chat.busy.begin();
    let mut host = Hurried { host: &mut terminal, courier: chat.courier.as_ref() };
    let ended = drive(&chat.runtime, &mut chat.session, input, &agent, &chat.tools, &mut host, &abort);
    drop(running);
    terminal.end_speech();
    if let Some(error) = terminal.broken.take() {
        return Err(error.into());
    }
    let told = tell_delivery(chat);
    let ended = match ended {
        Ok(TurnEnd::Ended(ended)) => ended,
        Ok(TurnEnd::Quit(_)) => return Ok(After::Quit),
        Err(failure) if failure.is_fatal() => return Err(failure),
        Err(failure) => {
            failure.tell()?;
            return Ok(After::GoOn);
        }
    };
    let mut out = anstream::stdout().lock();
    let yellow = anstyle::AnsiColor::Yellow.on_default();
    match (ended.state, ended.stop_reason.as_deref()) {
        (State::Aborted, _) => writeln!(out, "  {yellow}[aborted; what came is saved]{yellow:#}")?,
        (State::OutOfSteps, _) => {
            writeln!(out, "  {yellow}[stopped after {} tool calls; say `go on`]{yellow:#}", chat.settings.max_steps)?;
        }
        (State::Done, None | Some("end_turn" | "stop_sequence")) => {}
        (State::Done, Some("max_tokens")) => {
            writeln!(out, "  {yellow}[the answer was cut off at max_tokens; say `go on`]{yellow:#}")?;
        }
        (State::Done, Some(reason)) => {
            writeln!(out, "  {yellow}[stop_reason={}]{yellow:#}", screen::one_line(reason))?;
        }
    }
    drop(out);
    told?;
    if ended.state == State::Done && chat.config.titles == Titles::Model {
        improve_title(chat)?;
    }
    Ok(After::GoOn)
}

/// Says whether the words are where they should be; nothing if they are.
fn tell_delivery(chat: &Chat<'_>) -> Result<()> {
    let Delivery::Waiting(why) = chat.deliver(GRACE)? else { return Ok(()) };
    let Some((courier, _)) = &chat.courier else { return Ok(()) };
    let address = &courier.place().address;
    if chat.config.ack == Ack::Remote {
        courier::not_acknowledged(why.as_deref(), address).tell()?;
    } else {
        let yellow = anstyle::AnsiColor::Yellow.on_default();
        let told = format!("[{}]", screen::safe(&courier::not_yet(why.as_deref(), address)));
        let mut out = anstream::stdout().lock();
        for row in wrap(&told, super::terminal::width().saturating_sub(2)) {
            writeln!(out, "  {yellow}{row}{yellow:#}")?;
        }
    }
    Ok(())
}

/// Asks the model for a title after the first turn.
fn improve_title(chat: &mut Chat<'_>) -> Result<()> {
    if chat.row()?.turns != 1 {
        return Ok(());
    }
    chat.expect()?;
    let abort = CancellationToken::new();
    let agent = unforget_agent::guard::Agent { model: chat.model.as_ref(), settings: &chat.settings };
    let work = unforget_agent::title::improve(&mut chat.session, &agent, &abort);
    super::beside(&chat.runtime, &abort, work)??;
    Ok(())
}

fn prompt(chat: &Chat<'_>) -> String {
    let key = screen::fit(&screen::one_line(&chat.session.key().to_string()), 40);
    let label = chat.label.as_ref().map(|label| format!(" {}", screen::fit(&screen::one_line(label), 20)));
    let is_there = chat.courier.as_ref().is_none_or(|(_, parcel)| parcel.is_there());
    let not_yet = if is_there { "" } else { ", not yet there" };
    format!("[{key}{}{not_yet}] > ", label.unwrap_or_default())
}

fn completions(chat: &Chat<'_>) -> Completions {
    let catalog = chat.context.catalog.clone();
    let names = move || {
        // Without a list there is nothing to complete, which is no reason to stop.
        let ask = ListQuery { limit: COMPLETED, ..ListQuery::default() };
        let entries = catalog.page(&ask, &mut |_, _| {}).map(|(page, _)| page.value.entries).unwrap_or_default();
        let mut names = Vec::new();
        for row in entries.into_iter().map(|entry| entry.row) {
            names.extend(row.key.into_iter().chain(row.label).chain([row.id]));
        }
        names.sort();
        names.dedup();
        names
    };
    let (medium, path) = (chat.context.store.medium().clone(), chat.session.path().to_owned());
    let points = move || {
        let tree = LogReader::open(medium.as_ref(), &path).and_then(|reader| Tree::read(&reader));
        tree.map(|tree| tree.labels()).unwrap_or_default().into_iter().map(|label| (label.kind, label.name)).collect()
    };
    Completions {
        commands: slash::COMMANDS.to_vec(),
        sessions: Arc::new(LazyLock::new(Box::new(names))),
        points: Arc::new(LazyLock::new(Box::new(points))),
    }
}
