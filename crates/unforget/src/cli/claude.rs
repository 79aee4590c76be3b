//! The command line of what keeps Claude Code's sessions.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::There;

#[derive(Debug, Args)]
pub(crate) struct Claude {
    #[command(subcommand)]
    pub(crate) command: ClaudeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClaudeCommand {
    /// Keep what is new of Claude Code's sessions: transcripts, sub-agents, large outputs, file versions
    ///
    /// They are in the list beside all others from then on (`unforget sessions --agent claude`), can be searched and shown, survive Claude
    /// Code's clean-up, and are restored with `claude restore`. Only what is new is read. Nothing in Claude Code's directory is changed. If a remote
    /// is set, what is new is sent there, too.
    ///
    /// As a hook of Claude Code, in its settings.json (SessionEnd sees all; Stop, in addition, after each answer):
    /// {"hooks":{"SessionEnd":[{"hooks":[{"type":"command","command":"unforget claude save --hook"}]}]}}
    Save(Save),
    /// Put sessions where `claude --resume` finds them: on this machine, in this folder
    ///
    /// A session that is not here is fetched from the remote first. A transcript that has lines which are not kept, or that someone is writing,
    /// is left alone.
    Restore(Restore),
    /// Keep everything that Claude Code writes, a moment after it was written, until Ctrl-C
    Watch(Watch),
    /// Run Claude Code with a session that survives this machine
    ///
    /// The session is fetched and put in its place, kept while the program runs, and sent at its end and on SIGTERM (within 15
    /// seconds). What is printed and the exit code are the program's own. Example:
    ///
    ///   unforget claude run --continue --remote postgres://… -- claude -p "go on"
    Run(Run),
    /// Find what resuming would lose or stumble over; `--fix` writes a repaired copy as a new session
    Doctor(ClaudeDoctor),
}

/// The remote, or none.
#[derive(Debug, Clone, Args)]
pub(crate) struct Elsewhere {
    #[command(flatten)]
    pub(crate) there: There,
    /// Do without a remote, whatever is set
    #[arg(long, conflicts_with_all = ["url", "tenant", "key_file", "encrypt"])]
    pub(crate) no_remote: bool,
}

/// Where Claude Code keeps its sessions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Program {
    /// Claude Code's directory [default: $CLAUDE_CONFIG_DIR, or else ~/.claude]
    #[arg(long, value_name = "DIR")]
    pub(crate) config_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Save {
    /// The sessions: their ids, or the beginning of one; none for all
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    /// Save the session that a hook's JSON on stdin names, and print nothing
    #[arg(long, conflicts_with_all = ["sessions", "config_dir"])]
    pub(crate) hook: bool,
    /// Keep the project's memory, too
    #[arg(long)]
    pub(crate) memory: bool,
    #[command(flatten)]
    pub(crate) program: Program,
    #[command(flatten)]
    pub(crate) elsewhere: Elsewhere,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The sessions: their ids, or what else names a session
    #[arg(value_name = "SESSION", required = true)]
    pub(crate) sessions: Vec<String>,
    /// The folder that Claude Code will be started in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Put the absolute paths in it right, of the folder it worked in and of Claude Code's directory
    #[arg(long)]
    pub(crate) rewrite_paths: bool,
    /// Just what resuming needs: everything since the last compaction; the rest comes with the next whole restore
    #[arg(long, conflicts_with = "rewrite_paths")]
    pub(crate) tail: bool,
    /// Restore what was kept of the project's memory, too: every session in this folder will read it
    #[arg(long)]
    pub(crate) memory: bool,
    #[command(flatten)]
    pub(crate) program: Program,
    #[command(flatten)]
    pub(crate) elsewhere: Elsewhere,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) program: Program,
    #[command(flatten)]
    pub(crate) elsewhere: Elsewhere,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Go on with this session, wherever it was: its id, or what else names it
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["resume_last", "new"])]
    pub(crate) resume: Option<String>,
    /// Go on with the last session of this folder
    #[arg(long = "continue")]
    pub(crate) resume_last: bool,
    /// Begin a new session (what is done without the others)
    #[arg(long, conflicts_with = "resume_last")]
    pub(crate) new: bool,
    /// Go on in a copy of the session, under a new id: what someone else is doing with it stays theirs
    #[arg(long)]
    pub(crate) fork: bool,
    /// Put the absolute paths in it right
    #[arg(long)]
    pub(crate) rewrite_paths: bool,
    /// Begin with just what resuming needs, while the rest is fetched
    #[arg(long, conflicts_with = "rewrite_paths")]
    pub(crate) tail: bool,
    /// Keep and restore the project's memory, too
    #[arg(long)]
    pub(crate) memory: bool,
    #[command(flatten)]
    pub(crate) program: Program,
    #[command(flatten)]
    pub(crate) elsewhere: Elsewhere,
    /// The program and what it is to be told
    #[arg(last = true, required = true, value_name = "claude ARGS")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ClaudeDoctor {
    /// The sessions; none for all that are kept
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    /// Write a repaired copy of each as a new session; the original stays as it is
    #[arg(long)]
    pub(crate) fix: bool,
    #[command(flatten)]
    pub(crate) program: Program,
}
