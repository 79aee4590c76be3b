//! The command line: what there is to say, and the help that teaches it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use unforget_core::listing::{Sort, Wanted};
use unforget_core::log::Durability;

use crate::config::flags::Flags;

/// Conversations with LLM agents that survive a restart, a crash, a full disk, a second window and a new machine.
///
/// A session is one file of JSON lines that you can `cat`, `grep` and `tail -f`. REF names a session: its id or the
/// beginning of it, its key (`main:cli:user`), its label or title or the beginning of one, or the path of a
/// transcript.
///
/// Exit codes: 0 done, 1 failed, 2 not understood, 3 someone else is writing the session, 4 damage was met (and told),
/// 130 aborted.
#[derive(Debug, Parser)]
#[command(name = "unforget", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Directory of the store [default: $UNFORGET_HOME, or else $XDG_DATA_HOME/unforget]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Answer this and end, as `chat -p` does
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk, and go on where you stopped (what the program does without a command)
    ///
    /// The conversation of the key goes on; the first time, a new one begins. Without ANTHROPIC_API_KEY a small model that is built in
    /// answers, so that everything can be tried. Tools that change something ask first.
    ///
    /// With `-p` one prompt is answered and the program ends: the answer is on stdout, everything else on stderr, and
    /// what comes in on stdin is added to the prompt. `--json` prints events, one object a line.
    Chat(Chat),
    /// List the sessions, most recently used first
    #[command(visible_alias = "ls")]
    Sessions(Sessions),
    /// Show a conversation
    Show(Show),
    /// Show the last records of a session, and those to come with `-f`
    Tail(Tail),
    /// Create a session; it becomes the current one of its key
    ///
    /// An older session of the same key stays in the list and is found by its id, label or title.
    New(New),
    /// Move a session to the trash (`undelete` brings it back)
    #[command(visible_alias = "delete")]
    Rm(Refs),
    /// Bring a session back from the trash
    Undelete(Refs),
    /// Take in sessions of the claw0 tutorials (both layouts), or exported ones
    Import(Import),
    /// Write a session's transcript, byte for byte
    Export(Export),
    /// Append records, one JSON object a line on stdin; prints `{"n":…}` as soon as each is durable
    ///
    /// The usual records: {"type":"user","content":"words"}, {"type":"assistant","content":[content blocks]},
    /// {"type":"tool_use","tool_use_id":"…","name":"…","input":{…}}, {"type":"tool_result","tool_use_id":"…","output":"…"},
    /// {"type":"turn","state":"done"}, {"type":"title","title":"…"}. All of them: docs/format.md.
    Append(Append),
    /// Check everything in the store; changes nothing without `--fix`
    Doctor(Doctor),
    /// Show the settings and where they come from, or change them in the file
    Config(Configuration),
    /// Print a completion script: `unforget completions bash > ~/.local/share/bash-completion/completions/unforget`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page: `unforget man | man -l -`, `unforget man show | man -l -`
    Man {
        /// The command; the page of the whole program if none is given
        command: Option<String>,
    },
}

#[derive(Debug, Args, Default)]
pub(crate) struct Chat {
    /// Answer this and end; `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Go on in this session
    #[arg(short, long, value_name = "REF", conflicts_with = "new")]
    pub(crate) session: Option<String>,
    /// Begin a new session for the key
    #[arg(long)]
    pub(crate) new: bool,
    /// A name to find the new session by
    #[arg(long, requires = "new")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// List what is in the trash instead
    #[arg(long)]
    pub(crate) deleted: bool,
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// On this channel
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// With this peer
    #[arg(long, value_name = "NAME")]
    pub(crate) peer: Option<String>,
    /// Used since then: `2026-01-31`, `7d`, `3h`, `yesterday`
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Last used before then
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// With this label
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// In this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<SessionState>,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Updated)]
    pub(crate) sort: Order,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = unforget_core::listing::PAGE)]
    pub(crate) limit: usize,
    /// Everything, however much that is
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Go on where a page ended, as that page says
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SessionState {
    /// It can be used
    Ok,
    /// Someone is writing it now
    Live,
    /// Something in its transcript is damaged
    Damaged,
    /// Its transcript is gone
    Missing,
    /// Its header is that of another session
    Mismatch,
    /// It cannot be read
    Unreadable,
}

impl From<SessionState> for Wanted {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Ok => Wanted::Ok,
            SessionState::Live => Wanted::Live,
            SessionState::Damaged => Wanted::Damaged,
            SessionState::Missing => Wanted::Missing,
            SessionState::Mismatch => Wanted::Mismatch,
            SessionState::Unreadable => Wanted::Unreadable,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Order {
    /// Most recently used first
    Updated,
    /// Newest first
    Created,
    /// By title
    Title,
    /// Most turns first
    Turns,
    /// Most tokens first
    Tokens,
    /// Largest first
    Size,
}

impl From<Order> for Sort {
    fn from(order: Order) -> Self {
        match order {
            Order::Updated => Sort::Updated,
            Order::Created => Sort::Created,
            Order::Title => Sort::Title,
            Order::Turns => Sort::Turns,
            Order::Tokens => Sort::Tokens,
            Order::Size => Sort::Bytes,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// The transcript's bytes as they are
    #[arg(long, group = "form")]
    pub(crate) raw: bool,
    /// The conversation as Markdown
    #[arg(long, group = "form")]
    pub(crate) markdown: bool,
    /// Exactly the messages that would be sent to the API, as one JSON array; repairs and damage as JSON on stderr
    #[arg(long, group = "form")]
    pub(crate) messages: bool,
    /// With `--messages`: only what fits into that many tokens, read from the end
    #[arg(long, value_name = "TOKENS", requires = "messages")]
    pub(crate) budget: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// Go on showing records as they are written
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many records to begin with
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
    pub(crate) lines: usize,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// `agent:channel:peer`, `agent:<agent>:<channel>:<direct|group|thread>:<peer>`, or one word for a peer
    #[arg(long, default_value = "main:cli:user")]
    pub(crate) key: String,
    /// A name to find it by
    #[arg(long)]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Refs {
    /// The sessions
    #[arg(value_name = "REF", required = true)]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// A workspace, a `.sessions` folder, an agent's folder, or single `.jsonl` files
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// Write to a file (and payloads to FILE.blobs/) instead of stdout; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Append {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// Create a session if the key has none
    #[arg(long)]
    pub(crate) create: bool,
    /// What an acknowledged record survives
    #[arg(long, value_enum, default_value_t = Survives::PowerLoss)]
    pub(crate) survives: Survives,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Put right what can be put right without losing a byte
    #[arg(long)]
    pub(crate) fix: bool,
}

/// Flags win over the environment, the environment over the file, the file over what is built in. The file is
/// $XDG_CONFIG_HOME/unforget/config.toml, or the one that $UNFORGET_CONFIG names.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Configuration {
    #[command(subcommand)]
    pub(crate) change: Option<Change>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// Write a setting into the file
    Set {
        /// The setting
        name: String,
        /// Its value; several names are separated by commas
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a setting from the file
    Unset {
        /// The setting
        name: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Survives {
    /// It is on the disk
    PowerLoss,
    /// The kernel has it: faster, and lost if the machine dies within seconds
    ProcessDeath,
}

impl From<Survives> for Durability {
    fn from(survives: Survives) -> Self {
        match survives {
            Survives::PowerLoss => Durability::PowerLoss,
            Survives::ProcessDeath => Durability::ProcessDeath,
        }
    }
}
