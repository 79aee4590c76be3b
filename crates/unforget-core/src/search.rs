//! Finding what was said, in any session, in any language.
//!
//! The meaning of a search lives here and nowhere else: how texts are cut ([`words`]), what a query asks for ([`query`]), what a
//! record says ([`said`]), which records count ([`Filter`]) and in which order they come ([`rank`]). All of it is pure. There are two
//! ways to the same hits: [`scan()`] reads the transcripts, and an index may keep the tokens. A search may use both, each for some of
//! the sessions:
//!
//! ```text
//! let mut found = index.find(&request);            // hits of the sessions that it knows
//! found.add(search::scan(&store, unknown, &request)); // hits of the others
//! let answer = found.answer(request.limit);        // ranked
//! ```
//!
//! Nothing here starts a thread: whoever wants several hands each a share of the [`places`] and adds up what they found.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};

use crate::directory::{Directory, Entry};
use crate::error::{IoContext as _, Result};
use crate::key::Key;
use crate::layout::{self, AgentDir};
use crate::medium::FileKind;
use crate::retention::Pattern;
use crate::stamp::SessionId;
use crate::summary::State;

mod age;
mod common;
mod letters;
pub mod lineage;
mod parse;
pub mod query;
pub mod said;
mod scan;
pub mod sieve;
pub mod snippet;
pub mod words;

pub use query::{Query, QueryError};
pub use said::{Ear, Role, Said};
pub use scan::scan;
pub use snippet::{Snippet, snippet};

/// How many hits a search has if the caller does not say.
const HITS: usize = 20;
/// How many hits are ranked: the newest ones.
pub const CANDIDATES: usize = 1000;
/// After how many days a hit counts half.
const HALF_LIFE_DAYS: f64 = 30.0;
const DAY_MS: f64 = 86_400_000.0;
/// A text with this many tokens counts about half of a very short one.
const USUAL_LEN: f64 = 100.0;
/// How many transcripts that could not be read are told of.
const MAX_UNREADABLE: usize = 100;

/// What is looked for, where, and how much of it is wanted.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// What is looked for.
    pub query: Query,
    /// Where.
    pub filter: Filter,
    /// How many hits.
    pub limit: usize,
}

impl SearchQuery {
    /// What a person typed, looked for in every session: words, `"a phrase"`, `begin*`, `this OR that`, `-without`.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        Ok(Self { query: Query::parse(text)?, filter: Filter::default(), limit: HITS })
    }
}

/// Which records count; what is not said is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The agent of the key.
    pub agent: Option<String>,
    /// The channel of the key.
    pub channel: Option<String>,
    /// The peer of the key.
    pub peer: Option<String>,
    /// What the whole key looks like.
    pub key: Option<Pattern>,
    /// Not before this time, in milliseconds since the epoch.
    pub since_ms: Option<i64>,
    /// Not after this time.
    pub until_ms: Option<i64>,
    /// Said in one of these roles; in any if there is none.
    pub roles: Vec<Role>,
    /// A call of this tool, or a result of one.
    pub tool: Option<String>,
    /// Sessions in the trash.
    pub trash: Trash,
}

/// Whether the trash is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trash {
    /// As everything else.
    #[default]
    Searched,
    /// Not at all.
    LeftOut,
}

impl Filter {
    /// Whether the sessions of an agent's directory can count.
    pub fn takes_dir(&self, dir: &AgentDir) -> bool {
        let key = self.key.as_ref().and_then(Pattern::exact);
        let agents = self.agent.as_deref().into_iter().chain(key.as_ref().map(Key::agent));
        agents.into_iter().all(|agent| AgentDir::of(agent) == *dir)
    }

    /// Whether a session with that key counts; one whose key is lost does only if its place is all that is asked for.
    pub fn takes_key(&self, key: Option<&str>) -> bool {
        if self.channel.is_none() && self.peer.is_none() && self.key.is_none() {
            return true;
        }
        let Some(text) = key else { return false };
        let Ok(key) = text.parse::<Key>() else { return false };
        let is = |wanted: &Option<String>, part: &str| wanted.as_ref().is_none_or(|wanted| wanted == part);
        is(&self.channel, key.channel())
            && is(&self.peer, key.peer())
            && self.key.as_ref().is_none_or(|wanted| wanted.matches(text))
    }

    /// Whether something that was said counts, whatever the words are.
    pub fn takes(&self, role: Role, tool: Option<&str>, at_ms: i64) -> bool {
        (self.roles.is_empty() || self.roles.contains(&role))
            && self.tool.as_deref().is_none_or(|wanted| tool == Some(wanted))
            && self.since_ms.is_none_or(|since| at_ms >= since)
            && self.until_ms.is_none_or(|until| at_ms <= until)
    }
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Its id.
    pub id: SessionId,
    /// The agent's directory.
    pub dir: AgentDir,
    /// Whether it is in the trash.
    pub is_trashed: bool,
}

impl Place {
    /// The place of a session in a list; none if it is nowhere.
    pub fn of(entry: &Entry) -> Option<Self> {
        let id = SessionId::parse(&entry.row.id).filter(|_| entry.row.state != State::Missing)?;
        Some(Self { id, dir: entry.dir.clone(), is_trashed: entry.row.state == State::Deleted })
    }

    /// Its transcript.
    pub fn transcript(&self) -> PathBuf {
        if self.is_trashed { self.dir.trashed(&self.id) } else { self.dir.transcript(&self.id) }
    }
}

/// The sessions that a filter leaves, by their names alone: no transcript is looked at.
pub fn places(store: &Directory, filter: &Filter) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (root, is_trashed) in [(layout::AGENTS, false), (layout::TRASH, true)] {
        if is_trashed && filter.trash == Trash::LeftOut {
            continue;
        }
        let folders = match store.medium().list(Path::new(root)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", Path::new(root))?,
        };
        let folders = folders.into_iter().filter(|(_, kind)| *kind == FileKind::Directory);
        for dir in folders.map(|(name, _)| AgentDir::found(&name)).filter(|dir| filter.takes_dir(dir)) {
            let folder = if is_trashed { dir.trash() } else { dir.sessions() };
            // A folder that is none, or is gone by now, has no sessions.
            for (name, kind) in store.medium().list(&folder).unwrap_or_default() {
                if let Some(id) = layout::transcript_id(&name).filter(|_| kind == FileKind::File) {
                    places.push(Place { id, dir: dir.clone(), is_trashed });
                }
            }
        }
    }
    // Newest ids first: what is found early is likely to stay.
    places.sort_unstable_by(|a, b| b.cmp(a));
    // A move that a crash cut short leaves both names of one session; it is not deleted then.
    places.dedup_by(|a, b| a.id == b.id && a.dir == b.dir && a.is_trashed != b.is_trashed && both_names(store, a, b));
    Ok(places)
}

fn both_names(store: &Directory, a: &Place, b: &Place) -> bool {
    let identity = |place: &Place| store.medium().stat(&place.transcript()).map(|stat| stat.identity).ok();
    identity(a).is_some() && identity(a) == identity(b)
}

/// A record that says what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub place: Place,
    /// Its key, if it is known.
    pub key: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// The record's number.
    pub n: u64,
    /// Where its line begins in the file.
    pub offset: u64,
    /// When it was said, in milliseconds since the epoch; 0 if nobody knows.
    pub at_ms: i64,
    /// Who said it.
    pub role: Role,
    /// The tool, of calls and results.
    pub tool: Option<String>,
    /// How many tokens it has.
    pub len: usize,
    /// Whether the conversation no longer stands on it.
    pub is_abandoned: bool,
}

impl Hit {
    /// Whether the session's key and title are still to be filled in.
    pub(crate) fn is_bare(&self) -> bool {
        self.key.is_none() && self.title.is_none()
    }

    /// Newest first; the order is total, so that any way to the same hits gives the same list.
    fn newest_first(&self, other: &Self) -> Ordering {
        fn order(hit: &Hit) -> impl Ord + '_ {
            (hit.at_ms, &hit.place.id, hit.n, hit.role, &hit.place.dir, hit.place.is_trashed, &hit.tool)
        }
        order(other).cmp(&order(self))
    }

    /// How much a hit counts beside others of which the newest is from `newest_ms`.
    fn score(&self, newest_ms: i64) -> f64 {
        let weight = match self.role {
            Role::Title => 4.0,
            Role::Label => 3.5,
            Role::User => 3.0,
            Role::Assistant => 2.0,
            Role::Summary => 1.5,
            Role::ToolUse => 1.2,
            Role::ToolResult => 1.0,
        };
        let shortness = 1.0 / (1.0 + (self.len as f64 / USUAL_LEN).ln_1p());
        let age_days = newest_ms.saturating_sub(self.at_ms).max(0) as f64 / DAY_MS;
        weight * shortness * (-age_days / HALF_LIFE_DAYS).exp2()
    }
}

/// The best of the newest [`CANDIDATES`] hits, best first.
pub fn rank(mut hits: Vec<Hit>, limit: usize) -> Vec<Hit> {
    hits.sort_by(Hit::newest_first);
    hits.truncate(CANDIDATES);
    let newest_ms = hits.first().map_or(0, |hit| hit.at_ms);
    let mut scored: Vec<(f64, Hit)> = hits.into_iter().map(|hit| (hit.score(newest_ms), hit)).collect();
    // The sort is stable: of equal ones the newer comes first.
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    scored.truncate(limit);
    scored.into_iter().map(|(_, hit)| hit).collect()
}

/// Hits on their way to an answer: the newest ones, as many as are ranked.
#[derive(Debug, Clone, Default)]
pub struct Found {
    hits: Vec<Hit>,
    count: u64,
    is_more: bool,
    /// No hit from before this time will be ranked: so many newer ones are there already.
    floor_ms: Option<i64>,
    unreadable: Vec<(PathBuf, String)>,
}

impl Found {
    /// Takes a hit.
    pub fn push(&mut self, hit: Hit) {
        self.count += 1;
        self.hits.push(hit);
        if self.hits.len() >= 2 * CANDIDATES {
            self.prune();
        }
    }

    /// Takes what was found elsewhere.
    pub fn add(&mut self, other: Found) {
        self.count += other.count;
        self.is_more |= other.is_more;
        self.hits.extend(other.hits);
        self.prune();
        self.unreadable.extend(other.unreadable);
        self.unreadable.truncate(MAX_UNREADABLE);
    }

    /// Takes note that there are older ones which were not counted.
    pub fn note_more(&mut self) {
        self.is_more = true;
    }

    /// Whether hits from before this time cannot change the answer any more.
    pub(crate) fn is_full_since(&mut self, since_ms: i64) -> bool {
        if self.count <= CANDIDATES as u64 {
            return false;
        }
        self.prune();
        self.hits.get(CANDIDATES - 1).is_some_and(|hit| hit.at_ms >= since_ms)
    }

    /// Takes note of a transcript that could not be read.
    pub fn miss(&mut self, path: &Path, why: String) {
        if self.unreadable.len() < MAX_UNREADABLE {
            self.unreadable.push((path.to_path_buf(), why));
        }
    }

    fn prune(&mut self) {
        self.hits.sort_by(Hit::newest_first);
        self.hits.truncate(CANDIDATES);
        // With more than are ranked it is known as well that there is more.
        if self.count > CANDIDATES as u64
            && let Some(oldest) = self.hits.get(CANDIDATES - 1)
        {
            self.floor_ms = Some(oldest.at_ms);
        }
    }

    /// The best of them.
    pub fn answer(self, limit: usize) -> Answer {
        let hits = rank(self.hits, limit);
        Answer { more: self.is_more || self.count > hits.len() as u64, hits, unreadable: self.unreadable }
    }
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// Whether there are more than these.
    pub more: bool,
    /// Transcripts that could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

#[cfg(test)]
mod tests;
