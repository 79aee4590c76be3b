//! Files in the chat: which ones the tools changed, and having them back.
//!
//! `/restore NAME --files`, `/rewind N --files`, `/undo --files` and `/redo` move the conversation by themselves and
//! call [`restore_files`] for the rest. They call it first: a crash in between leaves the conversation where it is,
//! and the same command finishes both.

use std::io::IsTerminal as _;
use std::sync::Arc;

use unforget_agent::files::{self, Conflicts};
use unforget_core::files::Files;

use super::say;
use crate::agent::confine;
use crate::chat::Chat;
use crate::commands::files::preview::{self, Shown};
use crate::commands::files::{Consent, confirmed, has_work, record, root, told};
use crate::editor::Editor;
use crate::failure::{Failure, Result};

/// How files are restored, as the words behind a command say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether the lines themselves are shown before.
    pub(crate) diff: bool,
    pub(crate) consent: Consent,
    pub(crate) conflicts: Conflicts,
}

/// What a command with `--files` is told, apart from what else it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words<'a> {
    /// What is left without the flags.
    pub(crate) rest: String,
    /// The name of a flag that is not known here.
    unknown: Option<&'a str>,
    /// Whether `--files` was among the words.
    pub(crate) files: bool,
    pub(crate) options: Options,
}

impl<'a> Words<'a> {
    /// Takes the words behind a command apart.
    pub(crate) fn of(argument: &'a str) -> Self {
        let options = Options { diff: false, consent: Consent::Ask, conflicts: Conflicts::Leave };
        let mut words = Self { rest: String::new(), unknown: None, files: false, options };
        let mut rest = Vec::new();
        for word in argument.split_whitespace() {
            match word {
                "--files" => words.files = true,
                "--diff" => words.options.diff = true,
                "--yes" => words.options.consent = Consent::Given,
                "--force" => words.options.conflicts = Conflicts::Overwrite,
                other if other.starts_with("--") => words.unknown = Some(other),
                other => rest.push(other),
            }
        }
        words.rest = rest.join(" ");
        words
    }

    /// The same, if every flag is known.
    pub(crate) fn checked(self) -> Result<Self> {
        match self.unknown {
            Some(flag) => Err(Failure::usage(format!("there is no `{flag}` here"))
                .hint("there are --files, --diff (show the lines), --yes (do not ask) and --force (also conflicts)")),
            None => Ok(self),
        }
    }
}

/// `/files [N]`, `/files restore N|NAME`.
pub(super) fn run(chat: &mut Chat<'_>, editor: &mut Editor, argument: &str) -> Result<()> {
    let words = Words::of(argument).checked()?;
    let reader = chat.session.reader()?;
    if let Some(name) = words.rest.strip_prefix("restore") {
        if name.trim().is_empty() {
            return Err(Failure::usage("to which record? /files restore <record or checkpoint>")
                .hint("/history shows the numbers of records"));
        }
        let at = record(&reader, name.trim())?;
        return restore_files(chat, editor, at, words.options).map(|_| ());
    }
    let since = match words.rest.as_str() {
        "" => None,
        name => Some(record(&reader, name)?),
    };
    let rows = preview::rows(&Files::read(&reader)?, chat.session.blobs(), since, None);
    if rows.is_empty() {
        return say("No file was changed by the tools. (Changes by commands are not recorded.)");
    }
    preview::list(&mut anstream::stdout().lock(), &rows)
}

/// What became of a restore that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// The files are as they were, except for those that were told; the record that has them as they were before.
    On(Option<u64>),
    /// The person did not want it; nothing was changed.
    Nowhere,
}

/// Writes down what is in the files that the tools changed, where something else changed them since.
pub(crate) fn keep_files(chat: &mut Chat<'_>) -> Result<()> {
    let workspace = Arc::new(confine(&chat.context.home, &chat.config, &chat.workspace)?);
    let files = Files::read(&chat.session.reader()?)?;
    if files.last_root().is_none() {
        return say("No file was changed by the tools, so there is none to keep.");
    }
    let root = root(&files, &workspace, None)?;
    let plan = files::plan(&files, &root, &workspace, u64::MAX);
    files::keep(&mut chat.session, &workspace, &plan)?;
    let count = plan.steps.len();
    say(&format!(
        "{count} file{} that the tools changed {} kept with it.",
        if count == 1 { "" } else { "s" },
        if count == 1 { "is" } else { "are" }
    ))
}

/// Shows what it takes to have the files of the workspace as they were at record `at`, asks, and does it.
pub(crate) fn restore_files(chat: &mut Chat<'_>, editor: &mut Editor, at: u64, options: Options) -> Result<Went> {
    let workspace = Arc::new(confine(&chat.context.home, &chat.config, &chat.workspace)?);
    let files = Files::read(&chat.session.reader()?)?;
    if files.last_root().is_none() {
        say("No file was changed by the tools, so there is none to restore.")?;
        return Ok(Went::On(None));
    }
    let root = root(&files, &workspace, None)?;
    let plan = files::plan(&files, &root, &workspace, at);
    let shown =
        Shown { workspace: &workspace, blobs: chat.session.blobs(), conflicts: options.conflicts, diff: options.diff };
    shown.plan(&mut anstream::stdout().lock(), &plan)?;
    if !has_work(&plan) {
        return Ok(Went::On(None));
    }
    if options.consent == Consent::Ask {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage("nobody is there to be asked").hint("--yes restores without a question"));
        }
        let _waiting = chat.busy.wait();
        if !confirmed(editor)? {
            say("Nothing was changed.")?;
            return Ok(Went::Nowhere);
        }
    }
    let restored = files::apply(&mut chat.session, &workspace, &plan, options.conflicts)?;
    told(&restored, &mut anstream::stdout().lock(), |n| format!("/files restore {n} undoes it"))?;
    Ok(Went::On(restored.undo))
}
