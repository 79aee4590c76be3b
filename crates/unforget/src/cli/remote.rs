//! The command line of what copies sessions to and from other machines.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Which remote, and whose sessions.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct There {
    /// The remote [default: $UNFORGET_REMOTE, or the setting `remote`]
    #[arg(long = "remote", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Whose sessions they are there [default: $UNFORGET_TENANT, the setting `tenant`, or `default`]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Seal what leaves this machine, and open what comes, with the key in this file; `--encrypt` makes one
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Seal what leaves this machine; the key is made at the first time (`remote.key` beside the configuration)
    #[arg(long)]
    pub(crate) encrypt: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// The sessions; none for all that the remote lacks something of
    #[arg(value_name = "REF")]
    pub(crate) names: Vec<String>,
    /// All sessions, also those that the remote is known to have
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Send all of a session again that was deleted there
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) there: There,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// The sessions: ids, or keys
    #[arg(required_unless_present = "all", value_name = "REF")]
    pub(crate) names: Vec<String>,
    /// All sessions that are there
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// If it went on differently: make a session of its own of what was said here
    #[arg(long)]
    pub(crate) fork: bool,
    /// If it went on differently: say again what was said here, behind what is there
    #[arg(long, conflicts_with = "fork")]
    pub(crate) rebase: bool,
    /// Take what is left of a session whose lines were lost there
    #[arg(long, conflicts_with = "all")]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) there: There,
}

#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// Go on until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// How many seconds lie between two looks, with `--watch`
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) every: u64,
    #[command(flatten)]
    pub(crate) there: There,
}

#[derive(Debug, Args)]
pub(crate) struct Remote {
    #[command(subcommand)]
    pub(crate) command: RemoteCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// List the sessions that are there
    Ls(There),
    /// Tell how much of a session is there, and how it stands to what is here
    Stat(Streams),
    /// Delete sessions there; what is here stays
    Rm(Streams),
    /// Read everything that is there, and prove it
    Verify(There),
    /// Copy all that is there to another remote
    Copy(Copy),
    /// Seal what was sent before there was a key; shows it, and asks first
    ///
    /// With a key, only sealed lines are read: anybody who can write there could forge others. So look at what is listed before you agree. A
    /// migration that was interrupted goes on when it is repeated.
    Migrate(Migrate),
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Only show what lies there in plain
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) there: There,
}

#[derive(Debug, Args)]
pub(crate) struct Streams {
    /// The sessions: ids, keys, or what names a session here
    #[arg(required = true, value_name = "REF")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) there: There,
}

#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// The other remote
    #[arg(value_name = "URL")]
    pub(crate) to: String,
    /// Seal it there with the key in this file [default: the key that it is sealed with here]
    #[arg(long, value_name = "FILE")]
    pub(crate) to_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) there: There,
}
