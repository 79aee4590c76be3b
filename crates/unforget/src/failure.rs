//! How the program ends: what went wrong, what to do about it, and with which exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use unforget_core::Error;
use unforget_core::edit::EditError;
use unforget_core::tree::Kind;

use crate::screen;

/// Exit code for a command line that was not understood.
pub(crate) const USAGE: u8 = 2;
const FAILED: u8 = 1;
const BUSY: u8 = 3;
const DAMAGED: u8 = 4;
/// As a shell says it of a program that Ctrl-C ended.
const ABORTED: u8 = 130;

/// How a command went that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Looked for, and not found.
    Nothing,
    /// Done, but damage was met on the way.
    MetDamage,
    /// The person had enough of it.
    Aborted,
    /// As the program ended that was run.
    Code(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Nothing => FAILED.into(),
            Outcome::MetDamage => DAMAGED.into(),
            Outcome::Aborted => ABORTED.into(),
            Outcome::Code(code) => code.into(),
        }
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    hints: Vec<String>,
    /// The reader of our output went away, as `head` does: nothing to tell.
    quiet: bool,
    /// The session itself cannot be gone on with.
    fatal: bool,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into(), hints: Vec::new(), quiet: false, fatal: false }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Someone else has what is asked for.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self { code: BUSY, ..Self::new(message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same, without an exit code that means something to whoever ran this.
    pub(crate) fn plain(self) -> Self {
        Self { code: FAILED, ..self }
    }

    /// The same, with what it is about before it.
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What went wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(crate) fn hints(&self) -> impl Iterator<Item = &str> {
        self.hints.iter().map(String::as_str)
    }

    /// Whether a conversation cannot go on after this: its log failed, or nobody reads any more.
    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal || self.quiet
    }

    /// Tells what went wrong and what to do about it.
    pub(crate) fn tell(&self) -> io::Result<()> {
        let mut err = anstream::stderr().lock();
        let red = anstyle::AnsiColor::Red.on_default().bold();
        writeln!(err, "{red}error:{red:#} {}", screen::safe(&self.message))?;
        self.hints.iter().try_for_each(|hint| writeln!(err, "hint: {}", screen::safe(hint)))
    }

    pub(crate) fn report(self) -> ExitCode {
        if self.quiet {
            return ExitCode::SUCCESS;
        }
        match self.tell() {
            Ok(()) => self.code.into(),
            Err(_) => FAILED.into(),
        }
    }
}

/// How many sessions are suggested for a name that means several.
const SUGGESTED: usize = 12;

impl Failure {
    /// Whether nobody has to hear of it: whoever read the output has gone.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Self { quiet, ..Self::new(error.to_string()) }
    }
}

/// How many names a hint lists.
const LISTED: usize = 12;

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        let failure = Self::usage(error.to_string());
        let hint = match error {
            EditError::Store(error) => return error.into(),
            EditError::NameTaken { name, kind: Kind::Branch } => format!("/switch-branch {name} goes on there"),
            EditError::NameTaken { .. } => "choose another name".to_owned(),
            EditError::WrongKind { name, kind: Kind::Branch } => format!("/switch-branch {name} goes there"),
            EditError::WrongKind { name, kind: Kind::Checkpoint } => format!("/restore {name} goes there"),
            EditError::NoSuchStep(_) => {
                "`/tree` and `/history` (`unforget tree`, `unforget show`) print the numbers".to_owned()
            }
            EditError::NoSuchName { known, .. } if !known.is_empty() => {
                let more = if known.len() > LISTED { ", …" } else { "" };
                format!("there are: {}{more}", known[..known.len().min(LISTED)].join(", "))
            }
            EditError::NothingToUndo { compacted: true } => {
                "/undo-compact brings it back; /rewind <record> goes to any point".to_owned()
            }
            EditError::NothingToRedo => {
                "nothing is lost: /tree shows the other lines, /switch-branch goes to one".to_owned()
            }
            EditError::NotInView(_) => "/history shows the numbers".to_owned(),
            EditError::PinsTooLarge { .. } => "/pin list shows them, /pin off <record> lets one go".to_owned(),
            _ => return failure,
        };
        failure.hint(hint)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let fatal = matches!(error, Error::Io { .. } | Error::Poisoned { .. } | Error::Changed { .. });
        let failure = Self { fatal, ..Self::new(error.to_string()) };
        let with = |code: u8| Self { code, ..Self::new(error.to_string()) };
        match &error {
            Error::Busy { .. } => with(BUSY).hint("wait for it or close it there; reading works all the while"),
            Error::LockIneffective { .. } => {
                with(BUSY).hint("keep the store on a local disk: `--home DIR` or UNFORGET_HOME moves it")
            }
            Error::Changed { .. } => {
                failure.hint("nothing was lost here: open the session again and repeat what failed")
            }
            Error::Poisoned { .. } => failure.hint("the disk reported an error; check it, then open the session again"),
            Error::Foreign { .. } => with(DAMAGED).hint("the file was not touched; unpack or decrypt it first"),
            Error::Mismatch { .. } => {
                with(DAMAGED).hint("`unforget doctor` tells which sessions are out of place; the file was not touched")
            }
            Error::Missing { .. } => {
                with(DAMAGED).hint("restore the file from a backup, or forget the session with `unforget rm`")
            }
            Error::NotFound { what: "session", .. } => failure.hint("`unforget sessions` lists what there is"),
            Error::NotFound { what: "transcript", .. } => {
                failure.hint("bundles, .jsonl files, another store, a claw0 workspace, and the folders of pi, OpenClaw and Codex can be imported")
            }
            Error::NotFound { what: "deleted session", .. } => {
                failure.hint("`unforget sessions --deleted` lists what can be undeleted")
            }
            Error::Ambiguous { candidates, .. } => {
                let list: Vec<&str> = candidates.iter().take(SUGGESTED).map(String::as_str).collect();
                let more = if candidates.len() > SUGGESTED { "\n  and others" } else { "" };
                with(USAGE).hint(format!("it could be\n  {}{more}", list.join("\n  ")))
            }
            Error::NotOurs { .. } => failure.hint("`unforget claude run --resume SESSION -- claude` goes on with it; list, show, search and export read it"),
            Error::Key(_) => with(USAGE),
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                failure.hint("free some space and try again: nothing of this was written, everything before it is safe")
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                failure.hint("`ulimit -f unlimited` lifts the limit: nothing of this was written, everything before it is safe")
            }
            Error::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
            {
                failure
                    .hint("nothing was changed; check who may write there, or say where the store is with `--home DIR`")
            }
            _ => failure,
        }
    }
}

impl From<unforget_remote::Error> for Failure {
    fn from(error: unforget_remote::Error) -> Self {
        use unforget_remote::Error as There;
        let with = |code: u8| Self { code, ..Self::new(error.to_string()) };
        match error {
            There::Local(error) => error.into(),
            There::Diverged { .. } => with(BUSY).hint(
                "nothing was changed; `unforget pull REF --fork` makes a session of its own of what was said here, `--rebase` says it again behind what is there",
            ),
            There::Conflict { .. } => with(BUSY).hint("someone else is writing it there: try again"),
            There::Deleted { .. } => {
                with(FAILED).hint("the session here is as it was; `unforget push REF --again` sends all of it anew")
            }
            There::Unavailable { .. } => with(FAILED).hint("nothing was lost; try again when it can be reached"),
            There::Corrupt { .. } => with(DAMAGED).hint("nothing of it was taken; `unforget remote verify` checks all that is there"),
            There::WrongKey { .. } => with(FAILED).hint("`--encrypt` takes the key beside the configuration (`remote.key`), `--key-file FILE` or the setting `remote_key` another one; nothing was sent"),
            There::NotSealed { .. } => with(DAMAGED)
                .hint("whoever can write there may have forged it; if it was sent before there was a key, `unforget remote migrate` shows it and seals it"),
            There::Rewound { witness, .. } => with(DAMAGED).hint(match witness {
                unforget_remote::Witness::Local => "what is here is whole; `unforget push REF --again` sends the remote what it lost, `unforget pull REF --accept-loss` takes what is left",
                unforget_remote::Witness::Remote => "a machine that has the session sends it again (`unforget push REF --again`); `unforget pull REF --accept-loss` takes what is left",
            }),
            There::Invalid(_) => with(USAGE),
            _ => with(FAILED),
        }
    }
}
