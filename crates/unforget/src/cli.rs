//! The command line: what there is to say, and the help that teaches it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use unforget_core::listing::{Sort, Wanted};
use unforget_core::log::Durability;

use crate::config::flags::Flags;

mod claude;
mod edit;
mod keep;
mod remote;
mod serve;
mod store;
mod token;

pub(crate) use claude::{Claude, ClaudeCommand, ClaudeDoctor, Elsewhere, Program, Restore, Run, Save, Watch};
pub(crate) use edit::{Edit, EditCommand};
pub(crate) use keep::{By, Expire, Gc, Label, Pin, Usage};
pub(crate) use remote::{Copy, Migrate, Pull, Push, Remote, RemoteCommand, Streams, Sync, There};
pub(crate) use serve::Serve;
pub(crate) use store::{Acknowledged, Store};
pub(crate) use token::{Token, TokenAdd, TokenCommand, TokenRm};

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
    /// Tell on stderr what remotes are asked, and what is tried again: error, warn, info, debug [default:
    /// $UNFORGET_LOG]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<Level>,
    /// Answer this and end, as `chat -p` does
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk, and go on where you stopped (what the program does without a command)
    ///
    /// The conversation of the key goes on; the first time, a new one begins. Without ANTHROPIC_API_KEY a small model
    /// that is built in answers, so that everything can be tried. Tools that change something ask first.
    ///
    /// With `-p` one prompt is answered and the program ends: the answer is on stdout, everything else on stderr, and
    /// what comes in on stdin is added to the prompt. `--json` prints events, one object a line.
    Chat(Chat),
    /// List the sessions, most recently used first
    #[command(visible_alias = "ls")]
    Sessions(Sessions),
    /// Find what was said, in any session: words, phrases, code, results of tools
    ///
    /// All words must be there, in any order: `error timeout`. Also: "an exact phrase" (in quotation marks that reach
    /// the program: '"an exact phrase"'), the beginning of a word (`time*`), `this OR that`, `-without` and
    /// parentheses; AND binds before OR. Case, accents and width make no difference. Chinese, Japanese and Korean are
    /// found by any piece of the text, identifiers also by their parts (`session` finds `session_id`). A word is
    /// found whole: `HTTPServer` does not find `HTTPServerConfig`, `HTTPServer*` does. Punctuation separates words:
    /// `foo.bar()` is foo followed by bar.
    ///
    /// Sessions in the trash and abandoned branches are searched, too, and marked. What looks like a password or a
    /// key is masked in what is shown. Exit code 1 says that nothing was found.
    #[command(visible_alias = "grep")]
    Search(Search),
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
    /// Take in sessions of other programs, or exported ones
    ///
    /// Understood are: bundles and transcripts of this program, another store, the claw0 tutorials (both layouts), pi
    /// (~/.pi), OpenClaw (~/.openclaw) and Codex (~/.codex). A file is recognised by what is in it. Nothing at the
    /// source is changed, the original is kept byte for byte, and what has no place in a session is counted and told.
    /// Imported again, a file is known, and one that has grown is carried on.
    Import(Import),
    /// Write a session to a file: as it is, to be read, or to be taken elsewhere
    ///
    /// jsonl is the transcript byte for byte; markdown and html are for reading (html is one page that needs nothing
    /// else); a bundle has transcript and payloads in one file that `import` proves before it takes it.
    Export(Export),
    /// Draw the branches of a conversation
    ///
    /// Time goes down; a branch stands to the right of the line that it left. Each row has the record's number, the
    /// first words, how many turns follow without a fork, and when. Names in brackets are branches; the head is where
    /// the conversation goes on.
    Tree(Tree),
    /// Show where two lines of a conversation part, and what each says since
    ///
    /// A and B are record numbers, branches or checkpoints. Without them: where the conversation is, and the line
    /// beside it that was written last.
    Diff(Diff),
    /// Make a new session of a conversation, up to its head or an earlier record
    ///
    /// The new file stands alone: only what leads to that record is copied, with its times. The original is only
    /// read, and may be in use.
    Fork(Fork),
    /// Give a point of a conversation a name; `/restore` in the chat goes back to it
    Checkpoint(Checkpoint),
    /// List the named points of a conversation
    Checkpoints(Checkpoints),
    /// Change a conversation without a turn: undo, redo, rewind, branch, switch, names, pins, title, label
    ///
    /// Nothing is taken out of the transcript: an edit appends a record or two. The chat has the same as slash
    /// commands. With `--json` the answer tells where the conversation was and is, and which edits take this one
    /// back.
    Edit(Edit),
    /// Append records, one JSON object a line on stdin; prints `{"n":…}` as soon as each is durable
    ///
    /// The usual records: {"type":"user","content":"words"}, {"type":"assistant","content":[content blocks]},
    /// {"type":"tool_use","tool_use_id":"…","name":"…","input":{…}},
    /// {"type":"tool_result","tool_use_id":"…","output":"…"}, {"type":"turn","state":"done"},
    /// {"type":"title","title":"…"}. All of them: docs/format.md.
    Append(Append),
    /// List the files that a session's tools changed
    ///
    /// Read from the session alone; the files themselves are not looked at. Changes by commands that a tool ran
    /// (bash) are not recorded.
    Files(Files),
    /// Have the files of a workspace as they were at a record or checkpoint
    ///
    /// Shows what would be created, changed and deleted, asks, and does it. Only files that the tools wrote or edited
    /// are known; those that something else changed since stay as they are unless `--force` is given. What is in a
    /// file now is saved in the session first, so that the restore can be undone: the last line tells how.
    RestoreFiles(RestoreFiles),
    /// Copy sessions to a remote: only what it has not
    ///
    /// A remote is a place that another machine can reach: file:///directory, postgres://user@host/database,
    /// s3://bucket/prefix. It is given with `--remote URL`, UNFORGET_REMOTE or `unforget config set remote URL`.
    /// Nothing there is ever overwritten: if a session went on differently there and here, both stay as they are, and
    /// `pull --fork` or `pull --rebase` puts them together.
    Push(Push),
    /// Fetch sessions from a remote: only what is not here
    ///
    /// REF is an id, or the key of a session (`main:cli:user`): the one that was last begun for it. What is here is
    /// never shortened or overwritten. If it went on differently here and there, `--fork` makes a session of its own
    /// of what was said here, and `--rebase` says it again behind what is there; the old file goes to the trash.
    Pull(Pull),
    /// Have the same sessions here and on a remote, both ways
    Sync(Sync),
    /// Look at a remote: what is there, whether it is whole, and take it elsewhere or away
    Remote(Remote),
    /// Sessions of Claude Code: keep them, restore them on any machine, run it with one that survives the machine
    Claude(Claude),
    /// Serve sessions to other programs: WebSocket, HTTP, AgentCore Runtime
    ///
    /// Listens to this machine only, for whoever is on it, until something else is said. With tokens (`unforget token
    /// add NAME`) everybody has sessions of their own. The protocol is in docs/protocol.md, the HTTP interface at
    /// /v1/openapi.json. Example, in another terminal:
    ///
    ///   curl -s localhost:8080/invocations -H 'content-type: application/json' -d '{"prompt":"Hello"}'
    Serve(Box<Serve>),
    /// The session store of agents in other languages, which their packages start as a child
    ///
    /// Requests come a line each, as do the answers (docs/store.md). Example:
    ///
    ///   echo '{"op":"list_sessions","project_key":"notes"}' | unforget store --stdio
    Store(Box<Store>),
    /// Who may come into a server: make tokens, list them, take them back
    Token(Token),
    /// Bring the index up to date, words and all
    ///
    /// Lists and searches do this by themselves as they need it, and the chat does it in the background. The index is
    /// a cache: it may be deleted at any time, and every answer is the same without it.
    Index(IndexArgs),
    /// Check everything in the store; changes nothing without `--fix`
    Doctor(Doctor),
    /// What it took: tokens, cost, turns and tools, by day, week, month, model, agent or session
    #[command(after_long_help = keep::USAGE)]
    Usage(Usage),
    /// Clean up: move what has expired to the trash, and empty the trash of what it kept long enough
    #[command(after_long_help = keep::GC)]
    Gc(Gc),
    /// Say how long a session is kept after its last record, whatever the settings say
    #[command(after_long_help = keep::EXPIRE)]
    Expire(Expire),
    /// Give a session a label, to find it by; a session with a label never expires
    Label(Label),
    /// Pin a session: lists mark it, and the page keeps it at the top
    Pin(Pin),
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
    /// Become a command in a sandbox; the program starts itself with it
    #[command(hide = true)]
    Confined(Confined),
}

/// A command and its sandbox.
#[derive(Debug, Args)]
pub(crate) struct Confined {
    /// What it may change
    #[arg(long)]
    pub(crate) writable: Vec<PathBuf>,
    /// What it may not read
    #[arg(long)]
    pub(crate) hidden: Vec<PathBuf>,
    /// The command
    #[arg(last = true)]
    pub(crate) command: String,
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
    pub(crate) there: There,
    /// Do without a remote, whatever is set
    #[arg(long, conflicts_with_all = ["url", "tenant", "key_file", "encrypt"])]
    pub(crate) no_remote: bool,
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
    /// Not used after then
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// With this label
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// In this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<SessionState>,
    /// Only those that are pinned
    #[arg(long)]
    pub(crate) pinned: bool,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Updated)]
    pub(crate) sort: Order,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = unforget_core::listing::PAGE, value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Everything, however much that is
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Go on where a page ended, as that page says
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// A count of things to show.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be 1 or more".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
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
pub(crate) struct Search {
    /// What to look for
    #[arg(value_name = "WORDS", required = true)]
    pub(crate) words: Vec<String>,
    /// Only sessions of this agent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only sessions of this channel
    #[arg(long)]
    pub(crate) channel: Option<String>,
    /// Only sessions with this peer
    #[arg(long)]
    pub(crate) peer: Option<String>,
    /// Only sessions whose key is this, or matches: `main:cli:*`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) key: Option<String>,
    /// Not before: `2026-01-31`, `2026-01-31T14:05`, `7d`, `3h`, `yesterday`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Not after; a day counts up to its end
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only what was said in this role; may be given several times
    #[arg(long, value_name = "ROLE", value_parser = ["user", "assistant", "tool_use", "tool_result", "summary", "title", "label"])]
    pub(crate) role: Vec<String>,
    /// Only calls of this tool and what they gave back
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// How many hits, best first
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT", value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Read the transcripts themselves, whatever an index says
    #[arg(long)]
    pub(crate) scan: bool,
    /// Leave out sessions in the trash
    #[arg(long)]
    pub(crate) no_trash: bool,
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
    /// Only the records around this one, which is marked
    #[arg(long, value_name = "RECORD", conflicts_with = "form")]
    pub(crate) at: Option<u64>,
    /// With `--at`: how many records before and behind it
    #[arg(long, value_name = "COUNT", requires = "at", default_value_t = 5)]
    pub(crate) around: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// Go on showing records as they are written
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many records to begin with; those that show nothing do not count
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
    /// A program's folder, a workspace, a `.sessions` folder, another store, or single files
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Take a single file in under this key; what this program exported becomes a session of its own by that
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// How
    #[arg(short, long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub(crate) format: ExportFormat,
    /// Write to a file instead of stdout (with jsonl, payloads go to FILE.blobs/); an existing file is not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Mask what looks like a secret (keys, tokens, passwords); the session itself stays as it is
    #[arg(long)]
    pub(crate) mask: bool,
    /// With markdown and html: abandoned branches too, marked as such
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The transcript, byte for byte
    Jsonl,
    /// Markdown that reads well on a code forge
    #[value(alias = "md")]
    Markdown,
    /// One page that a browser shows without a network, also on a phone
    Html,
    /// One file with everything in it, for another machine
    Bundle,
}

#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// A row for every turn
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// A record number, a branch or a checkpoint [default: the head]
    #[arg(value_name = "A")]
    pub(crate) a: Option<String>,
    /// Another one [default: the end of the line that was written last beside A]
    #[arg(value_name = "B")]
    pub(crate) b: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// The record, branch or checkpoint that it ends with [default: the head]
    #[arg(long, value_name = "POINT")]
    pub(crate) at: Option<String>,
    /// The key of the new session [default: the same]
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// A name to find it by
    #[arg(long)]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// The checkpoint's name; one that exists moves
    #[arg(value_name = "NAME")]
    pub(crate) checkpoint: String,
    /// The record, branch or checkpoint that it names [default: the head]
    #[arg(long, value_name = "POINT")]
    pub(crate) at: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Checkpoints {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
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
pub(crate) struct Files {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// Only changes up to this record or checkpoint
    #[arg(long, value_name = "RECORD")]
    pub(crate) at: Option<String>,
    /// Only changes behind this record or checkpoint
    #[arg(long, value_name = "RECORD")]
    pub(crate) since: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreFiles {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// The record (its number), or the checkpoint (its name)
    #[arg(long, value_name = "RECORD")]
    pub(crate) at: String,
    /// The folder to restore in [default: the workspace of the settings]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show the lines that would change
    #[arg(long)]
    pub(crate) diff: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also restore files that something else changed
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Put the present one aside and begin anew
    #[arg(long)]
    pub(crate) rebuild: bool,
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
