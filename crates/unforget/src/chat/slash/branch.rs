//! Commands that move through a conversation: `/tree`, `/branch`, `/switch-branch`, `/rewind`, `/undo`, `/redo`,
//! `/fork`.
//!
//! Each is an edit (`unforget_core::edit`): a record or two that change nothing that was said. Each tells where the
//! conversation is now and how to come back.

use std::collections::HashMap;

use unforget_core::edit::{self, Applied, Change, Edit, EditScope, Plan, Target};
use unforget_core::fork::{Wish, fork};
use unforget_core::scan::Scanner;
use unforget_core::speech;
use unforget_core::tree::{Branch, Detail, Kind, Trail, Tree};

use super::super::{Chat, banner};
use super::files::{Went, Words, restore_files};
use super::say;
use crate::commands;
use crate::editor::Editor;
use crate::failure::{Failure, Result};
use crate::screen;

/// How much of what was said is repeated, in columns.
const WORDS: usize = 56;
/// How long a line about it is at most.
const LINE: usize = 76;

/// The branches of this conversation.
pub(super) fn tree_of(chat: &Chat<'_>) -> Result<Tree> {
    Ok(chat.session.tree()?)
}

pub(super) fn tree(chat: &Chat<'_>, argument: &str) -> Result<()> {
    let detail = match argument {
        "" => Detail::Folded,
        "all" => Detail::EveryTurn,
        _ => return Err(Failure::usage("/tree, or /tree all for every turn")),
    };
    let now_ms = chat.context.store.source().now_ms();
    commands::tree::print(&mut anstream::stdout().lock(), &chat.session.reader()?, detail, now_ms)
}

/// Names the head, and goes on from it on a branch of that name.
pub(super) fn branch(chat: &mut Chat<'_>, argument: &str) -> Result<()> {
    if argument.is_empty() {
        let tree = tree_of(chat)?;
        return list(chat, &tree);
    }
    let applied = edit(chat, Edit::Branch { name: argument.parse()?, at: None }, None)?;
    let Change::Named { name, to, .. } = &applied.change else { return Ok(()) };
    say(&format!("Branch {} begins behind record {to}.", screen::one_line(name.as_str())))?;
    match (&applied.before.branch, applied.before.head) {
        (Some(old), _) => say(&format!("/switch-branch {} goes back to where you were.", screen::one_line(old))),
        (None, Some(head)) => say(&format!("/switch-branch {head} goes back to where you were.")),
        (None, None) => Ok(()),
    }
}

/// Applies an edit to this conversation; `files` is the record that has the files from before, if they came along.
pub(super) fn edit(chat: &mut Chat<'_>, edit: Edit, files: Option<u64>) -> Result<Applied> {
    let scope = EditScope { limits: chat.agent().limits(), files };
    Ok(edit::apply_one(&mut chat.session, edit, &scope)?)
}

/// What an edit will do, before it does.
fn plan(chat: &Chat<'_>, edit: &Edit) -> Result<Option<Applied>> {
    let scope = EditScope { limits: chat.agent().limits(), files: None };
    Ok(Plan::of(&chat.session, std::slice::from_ref(edit), &scope)?.applied().first().cloned())
}

fn list(chat: &Chat<'_>, tree: &Tree) -> Result<()> {
    let (branches, now_ms) = (tree.branches(), chat.context.store.source().now_ms());
    let before = words_before(chat, tree, &branches)?;
    for branch in branches {
        let names = screen::fit(&screen::one_line(&branch.names.join(", ")), 20);
        let here = if branch.is_head { "  <- here" } else { "" };
        // A line that ends where another goes on has no words of its own, but words behind it.
        let words = match (branch.words, before.get(&branch.tip)) {
            (Some(words), _) => words,
            (None, Some(words)) => format!("behind: {words}"),
            (None, None) => "(before any words)".to_owned(),
        };
        let words = screen::pad(&screen::fit(&screen::one_line(&words), 30), 30);
        let ago = screen::ago(branch.last_ms, now_ms);
        say(format!("{:>5}  {}  {words}  {ago}{here}", branch.tip, screen::pad(&names, 20)).trim_end())?;
    }
    say("/branch NAME begins one here, /switch-branch NAME or NUMBER goes to one.")
}

/// What the person said last before the tips of branches on which nothing was said since they begin.
fn words_before(chat: &Chat<'_>, tree: &Tree, branches: &[Branch]) -> Result<HashMap<u64, String>> {
    let silent = branches.iter().filter(|branch| branch.words.is_none());
    let ways: Vec<(u64, Trail)> = silent.filter_map(|branch| Some((branch.tip, tree.path_to(branch.tip)?))).collect();
    let mut before = HashMap::new();
    if ways.is_empty() {
        return Ok(before);
    }
    let reader = chat.session.reader()?;
    let (mut scanner, mut forward) = (Scanner::default(), reader.forward(0));
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| {
            let Some(said) = speech::utterance(&record).filter(|said| said.who == "User") else { return };
            for (tip, _) in ways.iter().filter(|(_, way)| way.has(record.n)) {
                before.insert(*tip, screen::fit(&screen::one_line(&said.text), WORDS));
            }
        });
    }
    Ok(before)
}

pub(super) fn switch_branch(chat: &mut Chat<'_>, argument: &str) -> Result<()> {
    if argument.is_empty() {
        return Err(Failure::usage("which one? /switch-branch <name or record>").hint("/branch lists them"));
    }
    go(chat, Edit::Switch { to: argument.parse()? }, None)
}

pub(super) fn rewind(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let words = Words::of(argument).checked()?;
    if words.rest.is_empty() {
        let failure = Failure::usage("where to? /rewind <record> [--files]: the conversation goes on behind it");
        return Err(failure.hint("/history and /tree show the numbers; /undo takes back the last turn"));
    }
    go_with(chat, editor, Edit::Rewind { to: words.rest.parse()? }, &words)
}

/// Moves the head, and before it the files if they are to come along. A crash in between leaves the conversation
/// where it is, and the same command finishes both.
fn go_with(chat: &mut Chat<'_>, editor: &mut Editor, edit: Edit, words: &Words<'_>) -> Result<()> {
    let Some(planned) = plan(chat, &edit)? else { return Ok(()) };
    match with_files(chat, editor, planned.after.head, words)? {
        Some(files) => go(chat, edit, files),
        None => Ok(()),
    }
}

/// Restores files if they are to come along; the record that undoes that, or none at all if the person said no.
#[expect(clippy::option_option, reason = "a no and a restore that changed nothing are not the same")]
fn with_files(
    chat: &mut Chat<'_>,
    editor: &mut Editor,
    at: Option<u64>,
    words: &Words<'_>,
) -> Result<Option<Option<u64>>> {
    if !words.files {
        return Ok(Some(None));
    }
    Ok(match restore_files(chat, editor, at.unwrap_or(0), words.options)? {
        Went::On(undo) => Some(undo),
        Went::Nowhere => None,
    })
}

/// Takes back the last turn: the conversation goes on before the last words of the person.
pub(super) fn undo(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let words = only_flags("undo", argument)?;
    go_with(chat, editor, Edit::Undo {}, &words)
}

/// Goes forward to where the conversation was before the last move back; files that were taken back with it come along.
pub(super) fn redo(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let mut words = only_flags("redo", argument)?;
    let Some(planned) = plan(chat, &Edit::Redo {})? else { return Ok(()) };
    let files = tree_of(chat)?.redo().and_then(|moved| moved.from.files);
    words.files |= files.is_some();
    if with_files(chat, editor, files.or(planned.after.head), &words)?.is_none() {
        return match planned.after.head {
            Some(n) => say(&format!("/switch-branch {n} goes forward without the files.")),
            None => Ok(()),
        };
    }
    go(chat, Edit::Redo {}, None)
}

/// The flags behind a command that takes nothing else.
fn only_flags<'a>(command: &str, argument: &'a str) -> Result<Words<'a>> {
    let words = Words::of(argument).checked()?;
    match words.rest.as_str() {
        "" => Ok(words),
        rest => Err(Failure::usage(format!(
            "/{command} takes nothing but --files behind it, and there is `{}`",
            screen::one_line(rest)
        ))),
    }
}

/// Moves the head and tells how to come back.
pub(super) fn go(chat: &mut Chat<'_>, movement: Edit, files: Option<u64>) -> Result<()> {
    let is_redo = matches!(movement, Edit::Redo {});
    let Applied { record, before, after, change, .. } = edit(chat, movement, files)?;
    if record.is_none() {
        return say("That is where the conversation is.");
    }
    if let Change::Moved { words: Some(words) } = change {
        say(&format!("Taken back: {}", screen::fit(&screen::one_line(&words), WORDS)))?;
    }
    let tree = tree_of(chat)?;
    // While there is one branch only, its name says nothing.
    let branches = tree.labels().into_iter().filter(|label| label.kind == Kind::Branch).count();
    let on = after.branch.as_deref().filter(|_| branches > 1);
    let on = on.map_or(String::new(), |name| format!(" on {}", screen::one_line(name)));
    let at = after.head.map_or("at the very beginning".to_owned(), |n| format!("at record {n}"));
    say(&screen::fit(&format!("Now {at}{on}{}", last_words(chat)?), LINE))?;
    let is_redoable = !is_redo && tree.redo().is_some_and(|moved| Some(moved.n) == record);
    match before.head {
        Some(old) if is_redo => say(&format!("/switch-branch {old} goes back again.")),
        _ if is_redoable && files.is_some() => say("Nothing is lost: /redo comes back, with the files."),
        Some(old) if is_redoable => say(&format!("Nothing is lost: /redo or /switch-branch {old} comes back.")),
        Some(old) => say(&format!("Nothing is lost: /switch-branch {old} comes back.")),
        None => Ok(()),
    }
}

/// What was said last on the path to the head.
fn last_words(chat: &Chat<'_>) -> Result<String> {
    let said = chat.session.view(&chat.agent().limits(), |path, _| {
        let mut said = path.records.iter().rev().filter_map(|record| speech::utterance(record));
        said.next()
    })?;
    Ok(match said {
        Some(said) => {
            let who = match said.who {
                "User" => "you",
                "Assistant" => "assistant",
                _ => "tool",
            };
            format!(", behind {who}: {}", screen::fit(&screen::one_line(&said.text), WORDS))
        }
        None => ", before any words.".to_owned(),
    })
}

/// Makes a session of its own of the way to a step, and goes on in it.
pub(super) fn fork_session(chat: &mut Chat<'_>, argument: &str) -> Result<()> {
    let at = match argument {
        "" => None,
        text => Some(text.parse::<Target>()?.step(&tree_of(chat)?)?),
    };
    let Some(entry) = chat.context.store.entry(chat.session.id())? else {
        return Err(Failure::new("this session is not in the store any more"));
    };
    let forked = fork(&chat.context.store, &entry, Wish { at, key: Some(chat.session.key()), label: None })?;
    let Some(new) = chat.context.store.entry(&forked.id)? else {
        return Err(Failure::new("the fork is not there"));
    };
    let before = chat.session.id().to_string();
    let session = chat.context.store.open(&new)?;
    chat.take_up(session)?;
    let at = forked.at.map_or("the beginning".to_owned(), |n| format!("record {n}"));
    say(&format!("Forked at {at}: this is session {} now.", banner::short_id(chat.session.id().as_str())))?;
    say(&format!("/switch {before} goes back to the original."))
}
