//! What a person says: lines typed with an editor, or lines from a pipe.
//!
//! [`Editor`] wraps rustyline. An input may have several lines: one that ends in a backslash goes on, so does an
//! open fence of backticks, Alt-Enter begins a new line, and what is pasted keeps its own. In a pipe or a terminal
//! that can do nothing, the same rules apply to plain lines, and nothing of an unfinished input is lost at the end.
//!
//! The history is a comfort. It is saved after every input (0600, beginning with a blank keeps a line out of it),
//! and when it cannot be, the conversation goes on: [`Editor::trouble`] tells what happened, once.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Cmd, CompletionType, Config, KeyCode, KeyEvent, Modifiers};
use unforget_core::medium::{Medium as _, Os};

use crate::failure::{Failure, Result};

mod assistant;
mod command;

pub(crate) use assistant::Completions;
use assistant::{Assistant, Typed, fence_after};
pub(crate) use command::{split, text, unknown_command};

/// Inputs that the history keeps.
const REMEMBERED: usize = 1000;
/// An input that is longer ends at the end of its line.
const LONGEST_INPUT: usize = 4 << 20;
/// What stands before the second line of an input.
const CONTINUED: &str = "… ";

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// A line editor with a history.
pub(crate) struct Editor {
    inner: rustyline::Editor<Assistant, FileHistory>,
    history_file: Option<PathBuf>,
    typed: Typed,
    trouble: Option<String>,
}

impl Editor {
    /// An editor that remembers in a file, if one is given.
    pub(crate) fn open(history_file: Option<PathBuf>) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(REMEMBERED)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failure)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .build();
        let mut inner = rustyline::Editor::with_config(config).map_err(failure)?;
        inner.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let mut editor = Self { inner, history_file, typed: typed(), trouble: None };
        editor.load_history();
        Ok(editor)
    }

    /// Reads one input.
    pub(crate) fn read(&mut self, prompt: &str, completions: &Completions) -> Result<Input> {
        self.inner.set_helper(Some(Assistant { completions: completions.clone(), typed: self.typed }));
        let mut input = Unfinished::default();
        loop {
            let shown = if input.text.is_empty() { prompt } else { CONTINUED };
            match self.inner.readline(shown) {
                Ok(line) => {
                    if let Some(text) = input.push(&line) {
                        self.remember(&text);
                        return Ok(Input::Line(text));
                    }
                }
                Err(ReadlineError::Interrupted) => return Ok(Input::Interrupted),
                Err(ReadlineError::Eof) if input.text.is_empty() => return Ok(Input::End),
                Err(ReadlineError::Eof) => return Ok(Input::Line(input.text.trim_end().to_owned())),
                Err(error) => return Err(failure(error)),
            }
        }
    }

    /// Reads the answer to a question: one line, which is not remembered.
    ///
    /// Nothing that was typed or pasted before the question is an answer to it: what the terminal holds is dropped, and what
    /// the other editor has read ahead stays with it.
    pub(crate) fn ask(&mut self, question: &str) -> Result<Input> {
        if io::stdin().is_terminal() {
            rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush).map_err(io::Error::from)?;
        }
        let mut editor = rustyline::DefaultEditor::new().map_err(failure)?;
        match editor.readline(question) {
            Ok(line) => Ok(Input::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Input::Interrupted),
            Err(ReadlineError::Eof) => Ok(Input::End),
            Err(error) => Err(failure(error)),
        }
    }

    /// What went wrong with the history since this was last asked.
    pub(crate) fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    fn load_history(&mut self) {
        let (Some(path), Typed::ByPerson) = (&self.history_file, self.typed) else { return };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let loaded = Os::new(folder.to_owned()).create_dir(Path::new("")).map_err(ReadlineError::from);
        match loaded.and_then(|()| self.inner.load_history(path)) {
            Ok(()) => {}
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.forget("read", &error),
        }
    }

    fn remember(&mut self, text: &str) {
        if self.typed == Typed::NotAtAll || text.trim().is_empty() {
            return;
        }
        let added = self.inner.add_history_entry(text);
        let saved = match (&self.history_file, added) {
            (Some(path), Ok(true)) => self.inner.append_history(path),
            (_, added) => added.map(|_| ()),
        };
        if let Err(error) = saved {
            self.forget("saved", &error);
        }
    }

    /// Gives the file up: it would fail again, and saying so every time helps nobody.
    fn forget(&mut self, what: &str, error: &ReadlineError) {
        if let Some(path) = self.history_file.take() {
            self.trouble = Some(format!("the history `{}` cannot be {what}: {error}", path.display()));
        }
    }
}

/// Lines of one input.
#[derive(Debug, Default)]
struct Unfinished {
    text: String,
    /// The fence that is open at its end. Kept, because looking through all of the text for every line takes ever longer.
    fence: Option<usize>,
}

impl Unfinished {
    /// Takes a line, and returns the input if that ends it.
    fn push(&mut self, line: &str) -> Option<String> {
        self.text.push_str(line);
        self.fence = fence_after(self.fence, line);
        let goes_on = self.fence.is_some() || self.text.ends_with('\\');
        if !goes_on || self.text.len() > LONGEST_INPUT {
            return Some(std::mem::take(self).text);
        }
        if self.fence.is_none() {
            // Only a backslash that Enter followed goes away: those within pasted lines mean something.
            self.text.pop();
        }
        self.text.push('\n');
        None
    }
}

/// Whether somebody sits at a terminal that can do more than print lines.
fn typed() -> Typed {
    const NOT_ENOUGH: [&str; 3] = ["dumb", "cons25", "emacs"];
    let terminal = std::env::var("TERM").unwrap_or_default().to_lowercase();
    if io::stdin().is_terminal() && !NOT_ENOUGH.contains(&terminal.as_str()) {
        Typed::ByPerson
    } else {
        Typed::NotAtAll
    }
}

fn failure(error: ReadlineError) -> Failure {
    match error {
        ReadlineError::Io(error) => error.into(),
        error => Failure::new(format!("the terminal cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(lines: &[&str]) -> Vec<String> {
        let mut unfinished = Unfinished::default();
        lines.iter().filter_map(|line| unfinished.push(line)).collect()
    }

    #[test]
    fn a_backslash_at_the_end_goes_on_and_goes_away() {
        assert_eq!(inputs(&["one\\", "two", "three"]), ["one\ntwo", "three"]);
        assert_eq!(inputs(&["curl \\\n -d x", "y"]), ["curl \\\n -d x", "y"]);
    }

    #[test]
    fn an_open_fence_goes_on_and_keeps_its_backslashes() {
        assert_eq!(inputs(&["```sh", "a \\", "b", "```", "next"]), ["```sh\na \\\nb\n```", "next"]);
    }

    #[test]
    fn an_endless_input_ends() {
        let long = "x".repeat(LONGEST_INPUT);
        assert_eq!(inputs(&["```", &long]).len(), 1);
    }
}
