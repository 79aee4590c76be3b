//! Session keys: one parser for every spelling, one canonical text for every key.
//!
//! A key names the bucket that a conversation belongs to: `agent:channel:peer`, or the long form
//! `agent:<agent>:<channel>:<peerKind>:<peer>` that tells direct messages, groups and threads apart. A
//! single word is a peer of the default agent and channel. Parts are data: any text but NUL, with `%` and
//! `:` (and control characters) written as `%25` and `%3A`. Keys are case-sensitive and never become paths.

use std::fmt;
use std::str::FromStr;

/// The longest key, in bytes of its canonical text.
pub const MAX_KEY: usize = 2048;

const DEFAULT_AGENT: &str = "main";
const DEFAULT_CHANNEL: &str = "cli";
const DEFAULT_PEER: &str = "user";

/// Who a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerKind {
    /// One person.
    Direct,
    /// Several people.
    Group,
    /// A thread in a group.
    Thread,
}

impl PeerKind {
    const ALL: [(PeerKind, &'static str); 3] =
        [(PeerKind::Direct, "direct"), (PeerKind::Group, "group"), (PeerKind::Thread, "thread")];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }
}

/// The bucket that a conversation belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    agent: String,
    channel: String,
    peer: String,
    kind: Option<PeerKind>,
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is not a session key: {why}")]
pub struct KeyError {
    key: String,
    why: &'static str,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            agent: DEFAULT_AGENT.to_owned(),
            channel: DEFAULT_CHANNEL.to_owned(),
            peer: DEFAULT_PEER.to_owned(),
            kind: None,
        }
    }
}

impl Key {
    /// A key from its parts, which may hold any text but NUL.
    pub fn new(agent: &str, channel: &str, kind: Option<PeerKind>, peer: &str) -> Result<Self, KeyError> {
        let key = Self { agent: agent.to_owned(), channel: channel.to_owned(), peer: peer.to_owned(), kind };
        let fail = |why| Err(KeyError { key: key.to_string(), why });
        if [agent, channel, peer].iter().any(|part| part.is_empty()) {
            return fail("no part of it may be empty");
        }
        if [agent, channel, peer].iter().any(|part| part.contains('\0')) {
            return fail("it has a NUL character");
        }
        if key.to_string().len() > MAX_KEY {
            return fail("it is longer than 2048 bytes");
        }
        Ok(key)
    }

    /// The agent that the conversation is with.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Where it is held.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// With whom.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// What kind of peer, in the long form.
    pub fn kind(&self) -> Option<PeerKind> {
        self.kind
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let fail = |why| KeyError { key: text.to_owned(), why };
        let parts: Vec<String> = text.split(':').map(unescape).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [""] => Err(fail("it is empty")),
            [peer] => Self::new(DEFAULT_AGENT, DEFAULT_CHANNEL, None, peer),
            [agent, channel, peer] => Self::new(agent, channel, None, peer),
            ["agent", agent, channel, kind, peer] => {
                let kind =
                    PeerKind::parse(kind).ok_or_else(|| fail("its fourth part must be direct, group or thread"))?;
                Self::new(agent, channel, Some(kind), peer)
            }
            _ => Err(fail(
                "it must be `agent:channel:peer`, `agent:<agent>:<channel>:<direct|group|thread>:<peer>` or one word (write `:` inside a part as `%3A`)",
            )),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, channel, peer) = (escape(&self.agent), escape(&self.channel), escape(&self.peer));
        match self.kind {
            None => write!(f, "{agent}:{channel}:{peer}"),
            Some(kind) => write!(f, "agent:{agent}:{channel}:{}:{peer}", kind.name()),
        }
    }
}

fn escape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for character in part.chars() {
        if matches!(character, '%' | ':') || character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// Undoes [`escape`]; a `%` that escapes nothing stands for itself.
fn unescape(part: &str) -> String {
    if !part.contains('%') {
        return part.to_owned();
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match tail {
            [high, low, ..] if *first == b'%' => std::str::from_utf8(&[*high, *low])
                .ok()
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| part.to_owned())
}
