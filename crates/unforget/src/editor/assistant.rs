//! Help while typing: what Tab completes, the ghost of what could follow, and whether Enter ends the input.
//!
//! It knows the commands and the names of sessions that it is given, and neither runs nor reads anything.
//! Names are stored text: one that a terminal could obey is not offered.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use unforget_core::tree::Kind;

use crate::screen;

/// Commands whose argument is a session.
const TAKE_SESSION: [&str; 3] = ["switch", "delete", "undelete"];

/// Commands whose argument is a branch, a checkpoint, or either.
const TAKE_POINT: [(&str, &[Kind]); 4] = [
    ("switch-branch", &[Kind::Branch]),
    ("restore", &[Kind::Checkpoint]),
    ("rewind", &[Kind::Branch, Kind::Checkpoint]),
    ("fork", &[Kind::Branch, Kind::Checkpoint]),
];

/// Names of branches and checkpoints, looked up when they are first needed.
pub(crate) type Points = Arc<LazyLock<Vec<(Kind, String)>, Box<dyn FnOnce() -> Vec<(Kind, String)> + Send>>>;

/// Names that are looked up when they are first needed: there may be very many.
pub(crate) type Names = Arc<LazyLock<Vec<String>, Box<dyn FnOnce() -> Vec<String> + Send>>>;

/// What can be completed.
#[derive(Debug, Clone)]
pub(crate) struct Completions {
    /// Names without their slash, and help; the help of a command with an argument begins with it: `<session> …`.
    pub(crate) commands: Vec<(&'static str, &'static str)>,
    /// Keys, ids and labels.
    pub(crate) sessions: Names,
    /// Branches and checkpoints of the conversation.
    pub(crate) points: Points,
}

impl Completions {
    /// Where the word before the cursor begins, and what it could become.
    fn candidates(&self, before: &str) -> (usize, Vec<Pair>) {
        let Some(rest) = before.strip_prefix('/') else { return (0, Vec::new()) };
        match rest.split_once(' ') {
            None => {
                let width = self.commands.iter().map(|(name, _)| name.len() + 1).max().unwrap_or(0);
                let pair = |(name, help): &(&'static str, &'static str)| Pair {
                    display: format!("{}  {help}", screen::pad(&format!("/{name}"), width)),
                    replacement: if argument(help).is_some() { format!("/{name} ") } else { format!("/{name}") },
                };
                (0, self.starting_with(rest).map(pair).collect())
            }
            Some((command, typed)) => {
                let pair = |name: &String| Pair { display: name.clone(), replacement: name.clone() };
                (before.len() - typed.len(), self.names_starting_with(command, typed).into_iter().map(pair).collect())
            }
        }
    }

    /// What could follow a line.
    fn ghost(&self, line: &str) -> Option<Ghost> {
        let rest = line.strip_prefix('/')?;
        match rest.split_once(' ') {
            None if rest.is_empty() => None,
            None => {
                let (name, help) = self.starting_with(rest).next()?;
                let missing = &name[rest.len()..];
                let argument = argument(help).map_or_else(String::new, |argument| format!(" {argument}"));
                Some(Ghost { shown: format!("{missing}{argument}"), typed: missing.to_owned() })
            }
            Some((command, "")) => {
                let (_, help) = self.commands.iter().find(|(name, _)| name.eq_ignore_ascii_case(command))?;
                Some(Ghost { shown: argument(help)?.to_owned(), typed: String::new() })
            }
            Some((command, typed)) => {
                let missing = self.names_starting_with(command, typed).first()?.get(typed.len()..)?.to_owned();
                Some(Ghost { shown: missing.clone(), typed: missing })
            }
        }
    }

    fn starting_with(&self, word: &str) -> impl Iterator<Item = &(&'static str, &'static str)> {
        let word = word.to_ascii_lowercase();
        self.commands.iter().filter(move |(name, _)| name.starts_with(&word))
    }

    /// The names that a command's argument can be, as far as it is typed.
    fn names_starting_with(&self, command: &str, typed: &str) -> Vec<&String> {
        let command = command.to_lowercase();
        let fits = |name: &&String| name.starts_with(typed) && screen::one_line(name) == **name;
        if TAKE_SESSION.contains(&command.as_str()) {
            return self.sessions.iter().filter(fits).collect();
        }
        match TAKE_POINT.iter().find(|(name, _)| *name == command) {
            Some((_, kinds)) => {
                let points = self.points.iter().filter(|(kind, _)| kinds.contains(kind));
                points.map(|(_, name)| name).filter(fits).collect()
            }
            None => Vec::new(),
        }
    }
}

/// The argument that a command's help begins with.
fn argument(help: &str) -> Option<&str> {
    help.split(' ').next().filter(|word| word.starts_with(['<', '[']))
}

/// What Enter, Tab and the eye of the person are told.
#[derive(Debug)]
pub(super) struct Assistant {
    pub(super) completions: Completions,
    /// Somebody types; what comes from a pipe is not waited for.
    pub(super) typed: Typed,
}

/// Where lines come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Typed {
    ByPerson,
    NotAtAll,
}

/// Text behind the cursor that is not there yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    shown: String,
    /// What the right arrow makes real.
    typed: String,
}

impl Hint for Ghost {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        (!self.typed.is_empty()).then_some(&self.typed)
    }
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(self.completions.candidates(&line[..pos]))
    }
}

impl Hinter for Assistant {
    type Hint = Ghost;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<Ghost> {
        if pos == line.len() { self.completions.ghost(line) } else { None }
    }
}

impl Highlighter for Assistant {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        let style = anstyle::AnsiColor::Cyan.on_default().bold();
        Cow::Owned(format!("{style}{prompt}{style:#}"))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        let style = anstyle::Style::new().dimmed();
        Cow::Owned(format!("{style}{hint}{style:#}"))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let waits = self.typed == Typed::ByPerson && fence_is_open(context.input());
        Ok(if waits { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

/// Whether a fence of backticks was opened and not closed.
pub(super) fn fence_is_open(text: &str) -> bool {
    fence_after(None, text).is_some()
}

/// The length of the fence that is open behind a text, given the one that was open before it.
pub(super) fn fence_after(mut open: Option<usize>, text: &str) -> Option<usize> {
    for line in text.lines() {
        let line = line.trim();
        let run = line.len() - line.trim_start_matches('`').len();
        open = match open {
            None if run >= 3 && !line[run..].contains('`') => Some(run),
            Some(length) if run >= length && run == line.len() => None,
            other => other,
        };
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions() -> Completions {
        Completions {
            commands: vec![("switch", "<session> go on there"), ("sessions", "list them"), ("quit", "leave")],
            sessions: Arc::new(LazyLock::new(Box::new(|| {
                vec!["work: 日本".to_owned(), "work two".to_owned(), "evil\u{1b}[2J".to_owned()]
            }))),
            points: Arc::new(LazyLock::new(Box::new(|| {
                vec![(Kind::Branch, "side way".to_owned()), (Kind::Checkpoint, "side note".to_owned())]
            }))),
        }
    }

    fn candidates(before: &str) -> (usize, Vec<String>) {
        let (start, pairs) = completions().candidates(before);
        (start, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn tab_completes_commands_with_their_help() {
        assert_eq!(candidates("/s"), (0, vec!["/switch ".to_owned(), "/sessions".to_owned()]));
        assert_eq!(candidates("/Qu").1, ["/quit"]);
        let (_, pairs) = completions().candidates("/q");
        assert_eq!(pairs[0].display, "/quit      leave");
        assert!(candidates("what about /s").1.is_empty());
    }

    #[test]
    fn tab_completes_sessions_where_one_is_wanted() {
        assert_eq!(candidates("/switch wo"), (8, vec!["work: 日本".to_owned(), "work two".to_owned()]));
        assert_eq!(candidates("/delete work t").1, ["work two"]);
        assert!(candidates("/quit wo").1.is_empty());
    }

    #[test]
    fn tab_completes_branches_and_checkpoints_where_one_is_wanted() {
        assert_eq!(candidates("/switch-branch si"), (15, vec!["side way".to_owned()]));
        assert_eq!(candidates("/restore side").1, ["side note"]);
        assert_eq!(candidates("/rewind s").1, ["side way", "side note"]);
        assert!(candidates("/checkpoint s").1.is_empty());
    }

    #[test]
    fn names_that_could_act_on_the_terminal_are_not_offered() {
        assert!(candidates("/switch ev").1.is_empty());
        assert_eq!(completions().ghost("/switch ev"), None);
    }

    #[test]
    fn the_ghost_shows_what_could_follow() {
        let ghost = |line: &str| completions().ghost(line).map(|ghost| (ghost.shown, ghost.typed));
        let both = |shown: &str, typed: &str| Some((shown.to_owned(), typed.to_owned()));
        assert_eq!(ghost("/sw"), both("itch <session>", "itch"));
        assert_eq!(ghost("/switch"), both(" <session>", ""));
        assert_eq!(ghost("/switch "), both("<session>", ""));
        assert_eq!(ghost("/switch work:"), both(" 日本", " 日本"));
        assert_eq!((ghost("/"), ghost("hello"), ghost("/quit ")), (None, None, None));
    }

    #[test]
    fn an_open_fence_is_seen() {
        assert!(fence_is_open("look:\n```rust\nfn main() {}"));
        assert!(fence_is_open("````\n```"));
        assert!(!fence_is_open("```\ncode\n```"));
        assert!(!fence_is_open("```inline```"));
    }
}
