//! The command line of the store for other programs.

use clap::{Args, ValueEnum};

use super::There;

/// `unforget store`.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// Speak over the standard input and output, a JSON object a line
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
    #[command(flatten)]
    pub(crate) there: There,
    /// Do without the remote that is set
    #[arg(long, conflicts_with = "url")]
    pub(crate) no_remote: bool,
    /// When an append counts as saved: on this disk, or when the remote has it [default: the setting `ack`, or `local`]
    #[arg(long, value_name = "WHERE")]
    pub(crate) ack: Option<Acknowledged>,
}

/// When something counts as saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acknowledged {
    /// On this disk
    #[value(alias = "disk")]
    Local,
    /// At the remote
    Remote,
}
