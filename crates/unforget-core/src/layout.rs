//! Where things are. The only module that knows.
//!
//! ```text
//! agents/<agent>/sessions.json            readable snapshot of that agent's sessions
//! agents/<agent>/create.lock              one process at a time creates a session for a key
//! agents/<agent>/sessions/<id>.jsonl      a transcript
//! agents/<agent>/sessions/<id>.torn-<n>   bytes that a crash left half-written
//! agents/<agent>/sessions/<id>.part       a session that is being fetched; nobody reads it before it is whole
//! agents/<agent>/sides/<id>/<name>.jsonl  what a session of another program has besides its transcript
//! blobs/<xx>/<sha256>                     payloads too large for a line
//! trash/<agent>/<id>.jsonl                a deleted transcript, with its torn pieces
//! trash/<agent>/<id>.deleted              when it was deleted
//! trash/<agent>/<id>-<digest>.jsonl       what a session said here before it followed a remote
//! remotes/<remote>/<agent>/<id>.json      how much of a session a remote has confirmed
//! outbox/<remote>/<agent>/<id>            that a session has lines which the remote may not have
//! home.name                               what tells this home from others that keep files of one session
//! index.sqlite                            the index, with `-wal` and `-shm` while it is open
//! index.sqlite.bad-<ms>                   one that was of no use
//! index.distrust                          a writer could not say what it changes
//! catalog.lock                            who uses the index does so together, who makes or moves it alone
//! trash/receipts.jsonl                    what `gc` moved to the trash and removed from it
//! trash/gc.lock, gc.stamp, payloads.due   one `gc` at a time; when it ran last; payloads to look through
//! ```

use std::path::{Path, PathBuf};

use crate::encode;
use crate::stamp::SessionId;

/// The agent that sessions of Claude Code are under.
pub const CLAUDE_AGENT: &str = "claude";

/// The directory that holds one directory per agent.
pub const AGENTS: &str = "agents";
/// The directory of deleted sessions.
pub const TRASH: &str = "trash";
/// The directory of payloads.
pub const BLOBS: &str = "blobs";

/// The index.
pub const INDEX: &str = "index.sqlite";
/// The file whose lock keeps those who use the index and those who replace it apart.
pub const CATALOG_LOCK: &str = "catalog.lock";
/// Says that a session may have changed without the index knowing which.
pub const DISTRUST: &str = "index.distrust";

/// What tells this home from others.
pub const HOME_NAME: &str = "home.name";

/// The directory of what is known of remotes.
pub const REMOTES: &str = "remotes";
/// The directory of what remotes may not have yet.
pub const OUTBOX: &str = "outbox";

const TRANSCRIPT: &str = "jsonl";
/// The directory of side transcripts within an agent's.
pub const SIDES: &str = "sides";
const PART: &str = "part";
const RECEIPT: &str = "deleted";

/// An agent's directory name, which may differ from the agent's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentDir(String);

impl AgentDir {
    /// The directory of an agent.
    pub fn of(agent: &str) -> Self {
        Self(encode::file_name(agent))
    }

    /// A directory found on disk.
    pub fn found(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The agent's name, unless it is hashed.
    pub fn agent(&self) -> Option<String> {
        encode::decode_file_name(&self.0)
    }

    /// The directory's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where the agent's transcripts are.
    pub fn sessions(&self) -> PathBuf {
        Path::new(AGENTS).join(&self.0).join("sessions")
    }

    /// A session's transcript.
    pub fn transcript(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(format!("{id}.{TRANSCRIPT}"))
    }

    /// A session's transcript while it is being fetched.
    pub fn part(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(format!("{id}.{PART}"))
    }

    /// Whether sessions in it have side transcripts: those of another program, whose sessions are several files.
    pub fn has_sides(&self) -> bool {
        *self == Self::of(CLAUDE_AGENT)
    }

    /// Where the side transcripts of a session are.
    pub fn sides(&self, id: &SessionId) -> PathBuf {
        Path::new(AGENTS).join(&self.0).join(SIDES).join(id.as_str())
    }

    /// A side transcript of a session.
    pub fn side(&self, id: &SessionId, name: &str) -> PathBuf {
        self.sides(id).join(format!("{}.{TRANSCRIPT}", encode::file_name(name)))
    }

    /// How much of a session a remote has confirmed.
    pub fn bookmark(&self, remote: &str, id: &SessionId) -> PathBuf {
        Path::new(REMOTES).join(encode::file_name(remote)).join(&self.0).join(format!("{id}.json"))
    }

    /// A mark that a session has lines which a remote may not have.
    pub fn waiting(&self, remote: &str, id: &SessionId) -> PathBuf {
        outbox(remote).join(&self.0).join(id.as_str())
    }

    /// The agent's snapshot.
    pub fn snapshot(&self) -> PathBuf {
        Path::new(AGENTS).join(&self.0).join("sessions.json")
    }

    /// The file whose lock lets one process at a time create a session for a key.
    pub fn turnstile(&self) -> PathBuf {
        Path::new(AGENTS).join(&self.0).join("create.lock")
    }

    /// Where the agent's deleted sessions are.
    pub fn trash(&self) -> PathBuf {
        Path::new(TRASH).join(&self.0)
    }

    /// A deleted session's transcript.
    pub fn trashed(&self, id: &SessionId) -> PathBuf {
        self.trash().join(format!("{id}.{TRANSCRIPT}"))
    }

    /// When a session was deleted.
    pub fn receipt(&self, id: &SessionId) -> PathBuf {
        self.trash().join(format!("{id}.{RECEIPT}"))
    }
}

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Among its agent's sessions.
    Agents,
    /// In the trash.
    Trash,
}

impl Place {
    pub(crate) const ALL: [Place; 2] = [Place::Agents, Place::Trash];

    pub(crate) fn number(self) -> i64 {
        match self {
            Place::Agents => 0,
            Place::Trash => 1,
        }
    }

    pub(crate) fn of(number: i64) -> Self {
        if number == 0 { Place::Agents } else { Place::Trash }
    }

    /// The directory of an agent's transcripts.
    pub(crate) fn folder(self, dir: &AgentDir) -> PathBuf {
        match self {
            Place::Agents => dir.sessions(),
            Place::Trash => dir.trash(),
        }
    }

    /// A session's transcript.
    pub(crate) fn transcript(self, dir: &AgentDir, id: &SessionId) -> PathBuf {
        match self {
            Place::Agents => dir.transcript(id),
            Place::Trash => dir.trashed(id),
        }
    }

    /// The directory of all agents.
    pub(crate) fn top(self) -> &'static Path {
        Path::new(match self {
            Place::Agents => AGENTS,
            Place::Trash => TRASH,
        })
    }
}

/// Where the marks of what a remote may not have are.
pub fn outbox(remote: &str) -> PathBuf {
    Path::new(OUTBOX).join(encode::file_name(remote))
}

/// What `gc` did, one line a session.
pub fn receipts() -> PathBuf {
    Path::new(TRASH).join("receipts.jsonl")
}

/// The file whose lock lets one process at a time clean up.
pub fn gc_lock() -> PathBuf {
    Path::new(TRASH).join("gc.lock")
}

/// When the store was cleaned up last without being asked.
pub fn gc_stamp() -> PathBuf {
    Path::new(TRASH).join("gc.stamp")
}

/// A file that is there while sessions were purged and their payloads were not looked through yet.
pub fn payloads_due() -> PathBuf {
    Path::new(TRASH).join("payloads.due")
}

/// A payload's file.
pub fn blob(sha256: &str) -> PathBuf {
    Path::new(BLOBS).join(sha256.get(..2).unwrap_or("00")).join(sha256)
}

/// The name of an index that was of no use.
pub fn index_remnant(now_ms: i64) -> String {
    format!("{INDEX}.bad-{now_ms}")
}

/// Whether a file is what is left of an index that was of no use.
pub fn is_index_remnant(name: &str) -> bool {
    name.strip_prefix(INDEX).is_some_and(|rest| rest.starts_with(".bad-"))
}

/// The session whose transcript has this file name.
pub fn transcript_id(name: &str) -> Option<SessionId> {
    SessionId::parse(name.strip_suffix(&format!(".{TRANSCRIPT}"))?)
}

/// The side transcript that has this file name.
pub fn side_name(name: &str) -> Option<String> {
    encode::decode_file_name(name.strip_suffix(&format!(".{TRANSCRIPT}"))?)
}

/// The name of a session's n-th file of torn bytes.
pub fn torn_piece(id: &SessionId, n: u32) -> String {
    format!("{id}.torn-{n}")
}

/// Whether a file holds torn bytes of that session.
pub fn is_torn_piece(name: &str, id: &SessionId) -> bool {
    name.strip_prefix(id.as_str()).is_some_and(|rest| rest.starts_with(".torn-"))
}
