//! `confined`: what the program starts itself with, to become a command in its sandbox.
//!
//! It is hidden because nobody else needs it: the process confines itself, and then it is the shell.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use unforget_agent::tools::sandbox::{self, Policy};

use crate::cli::Confined;
use crate::failure::{Failure, Outcome, Result};

pub(crate) fn run(args: &Confined) -> Result<Outcome> {
    let policy = Policy { writable: args.writable.clone(), hidden: args.hidden.clone() };
    sandbox::enter(&policy).map_err(|error| {
        Failure::new(error.to_string()).hint("`unforget config set sandbox off` runs commands without a sandbox")
    })?;
    let become_shell = |shell: &str| Command::new(shell).args(["-c", "--", &args.command]).exec();
    let error = match become_shell("bash") {
        error if error.kind() == ErrorKind::NotFound => become_shell("sh"),
        error => error,
    };
    Err(Failure::new(format!("the shell cannot be started: {error}")))
}
