//! Commands that move through a conversation: `/tree`, `/branch`, `/switch-branch`, `/rewind`, `/undo`, `/redo`, `/fork`.
//!
//! Every one of them appends a record or two and changes nothing that was said. Each tells where the conversation is now
//! and how to come back, so that nobody has to be careful.

use unforget_agent::compact;
use unforget_core::fork::{Wish, fork};
use unforget_core::json;
use unforget_core::record::{Draft, Parent};
use unforget_core::tree::{AS_BRANCH, Detail, Kind, REDO, Spot, Tree};

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
        return list(&tree, chat.context.store.source().now_ms());
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

fn list(tree: &Tree, now_ms: i64) -> Result<()> {
    for branch in tree.branches() {
        let names = screen::fit(&screen::one_line(&branch.names.join(", ")), 20);
        let here = if branch.is_head { "  <- here" } else { "" };
        let words = branch.words.as_deref().unwrap_or("(nothing was said on it yet)");
        let words = screen::pad(&screen::fit(&screen::one_line(words), 30), 30);
        let ago = screen::ago(branch.last_ms, now_ms);
        say(format!("{:>5}  {}  {words}  {ago}{here}", branch.tip, screen::pad(&names, 20)).trim_end())?;
    }
    say("/branch NAME begins one here, /switch-branch NAME or NUMBER goes to one.")
}

pub(super) fn switch_branch(chat: &mut Chat<'_>, argument: &str) -> Result<()> {
    if argument.is_empty() {
        return Err(Failure::usage("which one? /switch-branch <name or record>").hint("/branch lists them"));
    }
    let tree = tree_of(chat)?;
    let spot = match argument.parse::<u64>() {
        Ok(n) => {
            let n = point::numbered(&tree, n)?;
            Spot { head: Some(n), branch: tree.branch_at(n).map(str::to_owned) }
        }
        Err(_) => {
            let label = point::named(&tree, argument, Kind::Branch)?;
            Spot { head: label.to, branch: Some(label.name) }
        }
    };
    go(chat, &tree, &spot, "switch")
}

pub(super) fn rewind(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let words = Words::of(argument).checked()?;
    if words.rest.is_empty() {
        let failure = Failure::usage("where to? /rewind <record> [--files]: the conversation goes on behind it");
        return Err(failure.hint("/history and /tree show the numbers; /undo takes back the last turn"));
    }
    let tree = tree_of(chat)?;
    let n = point::step(&tree, &words.rest)?;
    if words.files && restore_files(chat, editor, n, words.options)? == Went::Nowhere {
        return Ok(());
    }
    let tree = tree_of(chat)?;
    go(chat, &tree, &Spot { head: Some(n), branch: tree.branch_at(n).map(str::to_owned) }, "rewind")
}

/// Takes back the last turn: the conversation goes on before the last words of the person.
pub(super) fn undo(chat: &mut Chat<'_>) -> Result<()> {
    let found = chat.session.view(&chat.agent().limits(), |path, _| {
        let by_person = |raw| json::members(raw).is_some_and(|members| json::member(&members, "by").is_none());
        let said = path.records.iter().enumerate().rev().find_map(|(at, record)| {
            let said = compact::said(record).filter(|said| said.who == "User" && by_person(record.raw))?;
            let before = match record.parent {
                Parent::Record(n) => Some(n),
                Parent::Previous | Parent::Nothing => path.records[..at].last().map(|record| record.n),
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
    let tree = tree_of(chat)?;
    let branch = to.and_then(|n| tree.branch_at(n)).map(str::to_owned);
    say(&format!("Taken back: {}", screen::fit(&screen::one_line(&text), WORDS)))?;
    go(chat, &tree, &Spot { head: to, branch }, "undo")
}

/// Goes back to where the conversation was before its head was moved.
pub(super) fn redo(chat: &mut Chat<'_>) -> Result<()> {
    let tree = tree_of(chat)?;
    match tree.redo() {
        Some(spot) => go(chat, &tree, &spot.clone(), REDO),
        None => {
            let failure = Failure::usage("there is nothing to go forward to: something was said since");
            Err(failure.hint("nothing is lost: /tree shows the other lines, /switch-branch goes to one"))
        }
    }
}

/// Moves the head and tells how to come back.
pub(super) fn go(chat: &mut Chat<'_>, tree: &Tree, spot: &Spot, reason: &str) -> Result<()> {
    if tree.head() == spot.head && tree.current() == spot.branch.as_deref() {
        return say("That is where the conversation is.");
    }
    let head = Draft::head(spot.head, reason);
    let head = match &spot.branch {
        Some(branch) => head.text("branch", branch),
        None => head.raw("branch", "null"),
    };
    chat.session.append(&[head])?;
    // While there is one branch only, nobody needs its name.
    let branches = tree.labels().into_iter().filter(|label| label.kind == Kind::Branch).count();
    let on = spot.branch.as_deref().filter(|_| branches > 1);
    let on = on.map_or(String::new(), |name| format!(" on {}", screen::one_line(name)));
    let at = spot.head.map_or("at the very beginning".to_owned(), |n| format!("at record {n}"));
    say(&screen::fit(&format!("Now {at}{on}{}", last_words(chat)?), LINE))?;
    match (reason, tree.head()) {
        (REDO, _) => Ok(()),
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
