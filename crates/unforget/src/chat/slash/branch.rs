//! Commands that move through a conversation: `/tree`, `/branch`, `/switch-branch`, `/rewind`, `/undo`, `/redo`, `/fork`.
//!
//! Every one of them appends a record or two and changes nothing that was said. Each tells where the conversation is now
//! and how to come back, so that nobody has to be careful.

use std::collections::HashMap;

use unforget_agent::compact;
use unforget_core::fork::{Wish, fork};
use unforget_core::json;
use unforget_core::record::{Draft, Parent};
use unforget_core::scan::Scanner;
use unforget_core::tree::{AS_BRANCH, Branch, Detail, Kind, REDO, Spot, Trail, Tree};

use super::super::{Chat, banner};
use super::files::{Went, Words, restore_files};
use super::say;
use crate::commands::{self, point};
use crate::editor::Editor;
use crate::failure::{Failure, Result};
use crate::screen;

/// How much of what was said is repeated, in columns.
const WORDS: usize = 56;
/// How long a line about it is at most.
const LINE: usize = 76;

/// The branches of this conversation.
pub(super) fn tree_of(chat: &Chat<'_>) -> Result<Tree> {
    Ok(Tree::read(&chat.session.reader()?)?)
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
    let tree = tree_of(chat)?;
    if argument.is_empty() {
        return list(chat, &tree);
    }
    let name = point::new_name(argument)?;
    let Some(head) = tree.head() else { return Err(Failure::usage("nothing was said yet")) };
    if let Some(known) = tree.label(name) {
        let hint = match known.kind {
            Kind::Branch => format!("/switch-branch {name} goes on there"),
            Kind::Checkpoint => "choose another name".to_owned(),
        };
        let kind = if known.kind == Kind::Branch { "branch" } else { "checkpoint" };
        return Err(Failure::usage(format!("there is a {kind} `{name}` already")).hint(hint));
    }
    chat.session.append(&[Draft::label(Some(head), name).text("as", AS_BRANCH)])?;
    say(&format!("Branch {} begins behind record {head}.", screen::one_line(name)))?;
    match tree.current() {
        Some(old) => say(&format!("/switch-branch {} goes back to where you were.", screen::one_line(old))),
        None => say(&format!("/switch-branch {head} goes back to where you were.")),
    }
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
            let Some(said) = compact::said(&record).filter(|said| said.who == "User") else { return };
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
    let tree = tree_of(chat)?;
    let spot = match argument.parse::<u64>() {
        Ok(n) => {
            let n = point::numbered(&tree, n)?;
            Spot { head: Some(n), branch: tree.branch_at(n).map(str::to_owned), files: None }
        }
        Err(_) => {
            let label = point::named(&tree, argument, Kind::Branch)?;
            Spot { head: label.to, branch: Some(label.name), files: None }
        }
    };
    go(chat, &tree, &spot, Move { reason: "switch", files: None })
}

pub(super) fn rewind(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let words = Words::of(argument).checked()?;
    if words.rest.is_empty() {
        let failure = Failure::usage("where to? /rewind <record> [--files]: the conversation goes on behind it");
        return Err(failure.hint("/history and /tree show the numbers; /undo takes back the last turn"));
    }
    let tree = tree_of(chat)?;
    let n = point::step(&tree, &words.rest)?;
    let Some(files) = with_files(chat, editor, Some(n), &words)? else { return Ok(()) };
    let tree = tree_of(chat)?;
    let spot = Spot { head: Some(n), branch: tree.branch_at(n).map(str::to_owned), files: None };
    go(chat, &tree, &spot, Move { reason: "rewind", files })
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
    let found = chat.session.view(&chat.agent().limits(), |path, _| {
        let by_person = |raw| json::members(raw).is_some_and(|members| json::member(&members, "by").is_none());
        let said = path.records.iter().enumerate().rev().find_map(|(at, record)| {
            let said = compact::said(record).filter(|said| said.who == "User" && by_person(record.raw))?;
            let before = match record.parent {
                Parent::Record(n) => Some(n),
                Parent::Previous | Parent::Head(_) | Parent::Nothing => {
                    path.records[..at].last().map(|record| record.n)
                }
            };
            Some((said.text, before))
        });
        let compacted = path.records.iter().any(|record| record.kind() == "compaction");
        (said, compacted)
    })?;
    let (text, to) = match found {
        (Some(found), _) => found,
        (None, true) => {
            let failure = Failure::usage("the last turn is behind a summary");
            return Err(failure.hint("/undo-compact brings it back; /rewind <record> goes to any point"));
        }
        (None, false) => return say("There is nothing to take back."),
    };
    let Some(files) = with_files(chat, editor, to, &words)? else { return Ok(()) };
    let tree = tree_of(chat)?;
    let branch = to.and_then(|n| tree.branch_at(n)).map(str::to_owned);
    say(&format!("Taken back: {}", screen::fit(&screen::one_line(&text), WORDS)))?;
    go(chat, &tree, &Spot { head: to, branch, files: None }, Move { reason: "undo", files })
}

/// Goes back to where the conversation was before its head was moved; files that were taken back with it come along.
pub(super) fn redo(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let mut words = only_flags("redo", argument)?;
    let tree = tree_of(chat)?;
    let Some(spot) = tree.redo().cloned() else {
        let failure = Failure::usage("there is nothing to go forward to: no /undo, or words since it");
        return Err(failure.hint("nothing is lost: /tree shows the other lines, /switch-branch goes to one"));
    };
    words.files |= spot.files.is_some();
    if with_files(chat, editor, spot.files.or(spot.head), &words)?.is_none() {
        return match spot.head {
            Some(n) => say(&format!("/switch-branch {n} goes forward without the files.")),
            None => Ok(()),
        };
    }
    let tree = tree_of(chat)?;
    go(chat, &tree, &spot, Move { reason: REDO, files: None })
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

/// How the head is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    /// Why.
    pub(super) reason: &'static str,
    /// The record that has the files from before, if they came along.
    pub(super) files: Option<u64>,
}

/// Moves the head and tells how to come back.
pub(super) fn go(chat: &mut Chat<'_>, tree: &Tree, spot: &Spot, Move { reason, files }: Move) -> Result<()> {
    if tree.head() == spot.head && tree.current() == spot.branch.as_deref() {
        return say("That is where the conversation is.");
    }
    let head = Draft::head(spot.head, reason);
    let head = match &spot.branch {
        Some(branch) => head.text("branch", branch),
        None => head.raw("branch", "null"),
    };
    let head = match files {
        Some(n) => head.raw("files", &n.to_string()),
        None => head,
    };
    chat.session.append(&[head])?;
    // While there is one branch only, nobody needs its name.
    let branches = tree.labels().into_iter().filter(|label| label.kind == Kind::Branch).count();
    let on = spot.branch.as_deref().filter(|_| branches > 1);
    let on = on.map_or(String::new(), |name| format!(" on {}", screen::one_line(name)));
    let at = spot.head.map_or("at the very beginning".to_owned(), |n| format!("at record {n}"));
    say(&screen::fit(&format!("Now {at}{on}{}", last_words(chat)?), LINE))?;
    match (reason, tree.head()) {
        (REDO, Some(old)) => say(&format!("/switch-branch {old} goes back again.")),
        (REDO, None) => Ok(()),
        (_, Some(_)) if files.is_some() => say("Nothing is lost: /redo comes back, with the files."),
        (_, Some(old)) => say(&format!("Nothing is lost: /redo or /switch-branch {old} comes back.")),
        (_, None) => say("Nothing is lost: /redo comes back."),
    }
}

/// What was said last on the path to the head.
fn last_words(chat: &Chat<'_>) -> Result<String> {
    let said = chat.session.view(&chat.agent().limits(), |path, _| {
        let mut said = path.records.iter().rev().filter_map(|record| compact::said(record));
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
    let tree = tree_of(chat)?;
    let at = match argument {
        "" => None,
        text => Some(point::step(&tree, text)?),
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
