//! Tokens that the server itself gives out: long random words, each of which stands for an actor.
//!
//! A token is `uft_` and 256 random bits; it is told once, when it is made. What is kept is its digest, so that a copy of the file lets nobody
//! in. (A slow digest as for passwords would add nothing: nobody goes through 2^256 of them.) The digest is also the token's id, of which
//! the beginning is enough to name it.
//!
//! The file is JSON lines, 0600, and replaced as a whole: a crash leaves the old one or the new one, and two programs that change it at the
//! same time wait for nobody but are told (a lock beside it). A running server looks at it again when it changed: once a second at most for
//! a token that it knows, so that a token that was removed is worth nothing a second later; and at once for one that it does not know, so
//! that a new token is worth something at once. That look is one `stat`, less than the request around it costs. Whatever cannot be read lets nobody in: a line that is not understood
//! is not passed over when a server starts, and if the whole file cannot be read later, nobody is recognised until it can.
//!
//! Each token is compared with every line, digest with digest and without an early end: how long the answer takes tells nothing about how much of
//! a token was right, nor whose it is.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use unforget_core::medium::{self, Access, Medium, Stat};
use unforget_core::stamp::{self, SharedSource};
use unforget_core::{Error, Result, encode};

use crate::actor::ActorId;

/// What a token begins with, so that it is known for one wherever it turns up.
pub const PREFIX: &str = "uft_";
/// Random bytes of a token.
const BYTES: usize = 32;
/// The length of a token's text.
const LENGTH: usize = PREFIX.len() + 43;
/// Largest file that is read.
const MAX_FILE: u64 = 1 << 20;
/// The longest label.
const MAX_LABEL: usize = 200;
/// How often the file is looked at, at most.
const LOOK_MS: i64 = 1000;
/// How much of an id is shown.
const SHOWN_ID: usize = 12;
/// The least of an id that is taken for one.
const LEAST_ID: usize = 4;

/// The tokens of a server.
pub struct Tokens {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    source: SharedSource,
    known: Mutex<Known>,
}

/// What the file said when it was last read.
struct Known {
    entries: Vec<Entry>,
    /// The file that it was; none if there was none.
    stat: Option<Stat>,
    looked_ms: i64,
    /// Whether the file could be read.
    is_sound: bool,
}

struct Entry {
    digest: [u8; BYTES],
    actor: ActorId,
    label: Option<String>,
    created_ms: i64,
    expires_ms: Option<i64>,
}

/// A token in the list: everything but the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What it is called: the beginning of its digest.
    pub id: String,
    /// Whose it is.
    pub actor: String,
    /// What it is for.
    pub label: Option<String>,
    /// When it was made, in milliseconds since the epoch.
    pub created_ms: i64,
    /// From when on it is worth nothing.
    pub expires_ms: Option<i64>,
}

/// A token that was made.
#[derive(Debug)]
pub struct Made {
    /// The token itself, which nobody can tell again.
    pub secret: SecretString,
    /// As it is in the list.
    pub listed: Listed,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Wire {
    sha256: String,
    actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

/// The tokens cannot be looked at now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Tokens {
    /// Reads the tokens in a file; one that is not there has none.
    pub fn load(medium: Arc<dyn Medium>, path: impl Into<PathBuf>, source: SharedSource) -> Result<Self> {
        let path = path.into();
        let (entries, stat) = read(medium.as_ref(), &path)?;
        let known = Mutex::new(Known { entries, stat, looked_ms: source.now_ms(), is_sound: true });
        Ok(Self { medium, path, source, known })
    }

    /// Makes a token for an actor. It is in the file when this returns.
    pub fn add(&self, actor: &str, label: Option<&str>, expires_ms: Option<i64>) -> Result<Made> {
        let actor = ActorId::verified(actor).ok_or_else(|| {
            let most = ActorId::MAX;
            Error::Invalid(format!("an actor's name has 1 to {most} bytes and no control characters"))
        })?;
        let label = label.map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned);
        if label.as_ref().is_some_and(|label| label.chars().count() > MAX_LABEL || label.contains(char::is_control)) {
            return Err(Error::Invalid(format!("a label has at most {MAX_LABEL} characters, all of them printable")));
        }
        let secret = new_secret(PREFIX).map_err(|error| self.failed("make a token for", error))?;
        let created_ms = self.source.now_ms();
        let entry = Entry { digest: digest(&secret), actor, label, created_ms, expires_ms };
        let listed = entry.listed();
        self.change(|mut entries| {
            entries.push(entry);
            Ok(entries)
        })?;
        Ok(Made { secret, listed })
    }

    /// Removes the token whose id begins so.
    pub fn remove(&self, id: &str) -> Result<Listed> {
        let mut removed = None;
        self.change(|mut entries| {
            let meant = |entry: &Entry| id.len() >= LEAST_ID && encode::hex(&entry.digest).starts_with(id);
            let found: Vec<usize> = (0..entries.len()).filter(|at| meant(&entries[*at])).collect();
            match found[..] {
                [] => Err(Error::NotFound { what: "token", name: id.to_owned() }),
                [at] => {
                    removed = Some(entries.remove(at).listed());
                    Ok(entries)
                }
                _ => {
                    let shown = |at: &usize| format!("{} {}", encode::hex(&entries[*at].digest), entries[*at].actor);
                    Err(Error::Ambiguous { name: id.to_owned(), candidates: found.iter().map(shown).collect() })
                }
            }
        })?;
        removed.ok_or_else(|| Error::NotFound { what: "token", name: id.to_owned() })
    }

    /// All tokens, as the file has them now.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let (entries, _) = read(self.medium.as_ref(), &self.path)?;
        Ok(entries.iter().map(Entry::listed).collect())
    }

    /// Where the file is.
    pub fn place(&self) -> PathBuf {
        self.medium.root().join(&self.path)
    }

    /// What the system tells about the file; none if it is not there.
    pub fn stat(&self) -> Result<Option<Stat>> {
        match self.medium.stat(&self.path) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("look at", error)),
        }
    }

    /// Whether a text looks like one of these tokens.
    pub(crate) fn is_one(token: &str) -> bool {
        token.len() == LENGTH && token.starts_with(PREFIX)
    }

    /// Whether a text is a whole token, character by character.
    pub(super) fn is_well_formed(token: &str) -> bool {
        let is_of_one = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        Self::is_one(token) && token.bytes().all(is_of_one)
    }

    /// Whose token this is; none if it is nobody's, or is worth nothing any more.
    pub(crate) fn actor(&self, token: &SecretString) -> Result<Option<ActorId>, Unreadable> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = self.source.now_ms();
        self.look_again(&mut known, now_ms);
        if !known.is_sound {
            return Err(Unreadable);
        }
        let digest = digest(token);
        let mut which = known.find(&digest);
        if which.is_none() && self.look_at(&mut known, now_ms) {
            which = known.find(&digest);
        }
        if !known.is_sound {
            return Err(Unreadable);
        }
        let found = which.and_then(|which| known.entries.get(which));
        Ok(found
            .filter(|entry| entry.expires_ms.is_none_or(|expires| now_ms < expires))
            .map(|entry| entry.actor.clone()))
    }

    /// Reads the file if it changed, and if it was not looked at just now.
    fn look_again(&self, known: &mut Known, now_ms: i64) {
        if (known.looked_ms..known.looked_ms.saturating_add(LOOK_MS)).contains(&now_ms) {
            return;
        }
        self.look_at(known, now_ms);
    }

    /// Reads the file if it changed; says whether it was read.
    fn look_at(&self, known: &mut Known, now_ms: i64) -> bool {
        known.looked_ms = now_ms;
        if known.is_sound && self.stat().is_ok_and(|stat| stat == known.stat) {
            return false;
        }
        match read(self.medium.as_ref(), &self.path) {
            Ok((entries, stat)) => *known = Known { entries, stat, looked_ms: now_ms, is_sound: true },
            Err(error) => {
                tracing::error!(%error, "the tokens cannot be read: nobody is let in with one until they can");
                known.is_sound = false;
            }
        }
        true
    }

    /// Changes the file, which nobody else changes meanwhile.
    fn change(&self, change: impl FnOnce(Vec<Entry>) -> Result<Vec<Entry>>) -> Result<()> {
        self.medium
            .create_dir(medium::parent(&self.path))
            .map_err(|error| self.failed("create a folder for", error))?;
        let lock = self.lock()?;
        let (entries, _) = read(self.medium.as_ref(), &self.path)?;
        let text: String = change(entries)?.iter().map(Entry::encode).collect();
        if text.len() as u64 > MAX_FILE {
            return Err(Error::Invalid(format!("there are too many tokens: the file would be over {MAX_FILE} bytes")));
        }
        medium::replace_durable(self.medium.as_ref(), &self.path, text.as_bytes())
            .map_err(|error| self.failed("replace", error))?;
        drop(lock);
        // What this very server gave out or took back holds at once.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.looked_ms = i64::MIN;
        Ok(())
    }

    /// The right to change the file, as long as it is held.
    fn lock(&self) -> Result<Box<dyn medium::Handle>> {
        let mut name = self.path.file_name().unwrap_or_default().to_os_string();
        name.push(".lock");
        let path = self.path.with_file_name(name);
        let open = |access| self.medium.open(&path, access);
        let opened = match open(Access::CreateNew) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => open(Access::Append),
            other => other,
        };
        let lock = opened.map_err(|error| self.failed("lock", error))?;
        if lock.try_lock().map_err(|error| self.failed("lock", error))? {
            return Ok(lock);
        }
        let stat = lock.stat().map_err(|error| self.failed("look at", error))?;
        let holder = self.medium.lock_holder(&stat).unwrap_or_else(|| "another program".to_owned());
        Err(Error::Busy { path: self.place(), holder })
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::Io { action, path: self.place(), source }
    }
}

impl Known {
    /// Which entry has this digest, in a time that says nothing about how much of it was right.
    fn find(&self, digest: &[u8; BYTES]) -> Option<usize> {
        let mut which = u64::MAX;
        for (at, entry) in (0..).zip(&self.entries) {
            which.conditional_assign(&at, entry.digest.ct_eq(digest));
        }
        usize::try_from(which).ok().filter(|which| *which < self.entries.len())
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl Entry {
    fn listed(&self) -> Listed {
        let mut id = encode::hex(&self.digest);
        id.truncate(SHOWN_ID);
        Listed {
            id,
            actor: self.actor.name().to_owned(),
            label: self.label.clone(),
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
        }
    }

    fn encode(&self) -> String {
        let wire = Wire {
            sha256: encode::hex(&self.digest),
            actor: self.actor.name().to_owned(),
            label: self.label.clone(),
            created: stamp::rfc3339(self.created_ms),
            expires: self.expires_ms.map(stamp::rfc3339),
        };
        // Texts only: there is nothing in it that JSON cannot say.
        serde_json::to_string(&wire).unwrap_or_default() + "\n"
    }

    fn decode(line: &str) -> Option<Self> {
        let wire: Wire = serde_json::from_str(line).ok()?;
        let expires_ms = match &wire.expires {
            Some(expires) => Some(stamp::parse_rfc3339(expires)?),
            None => None,
        };
        Some(Self {
            digest: unhex(&wire.sha256)?,
            actor: ActorId::verified(&wire.actor)?,
            label: wire.label,
            created_ms: stamp::parse_rfc3339(&wire.created)?,
            expires_ms,
        })
    }
}

/// What a file says, and which one it was.
fn read(medium: &dyn Medium, path: &Path) -> Result<(Vec<Entry>, Option<Stat>)> {
    let shown = medium.root().join(path);
    let failed = |source| Error::Io { action: "read", path: shown.clone(), source };
    let file = match medium.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) => return Err(failed(error)),
    };
    // Asked for first: if the file changes while it is read, it is read again the next time.
    let stat = file.stat().map_err(failed)?;
    if stat.len > MAX_FILE {
        return Err(Error::Invalid(format!("{} is over {MAX_FILE} bytes: it is no file with tokens", shown.display())));
    }
    let mut bytes = vec![0; usize::try_from(stat.len).unwrap_or_default()];
    let filled = medium::read_full(file.as_ref(), &mut bytes, 0).map_err(failed)?;
    bytes.truncate(filled);
    let text = String::from_utf8_lossy(&bytes);
    let mut entries = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = || {
            let place = format!("{}, line {number}", shown.display());
            Error::Invalid(format!("{place}: this is no token as `unforget token add` writes it"))
        };
        entries.push(Entry::decode(line).ok_or_else(wrong)?);
    }
    Ok((entries, Some(stat)))
}

/// A new secret of 256 random bits behind a prefix.
pub(super) fn new_secret(prefix: &str) -> std::io::Result<SecretString> {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(SecretString::from(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random))))
}

/// What is kept of a secret, and compared.
pub(super) fn digest(token: &SecretString) -> [u8; BYTES] {
    Sha256::digest(secrecy::ExposeSecret::expose_secret(token).as_bytes()).into()
}

fn unhex(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != 2 * BYTES || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;
    use unforget_core::medium::Os;

    use super::super::tests::Clock;
    use super::*;

    const FILE: &str = "tokens.jsonl";

    fn open(folder: &Path, clock: &Arc<Clock>) -> Tokens {
        Tokens::load(Arc::new(Os::new(folder)), FILE, clock.clone()).unwrap()
    }

    fn ada() -> Option<ActorId> {
        ActorId::verified("ada")
    }

    #[test]
    fn a_token_is_its_actor_until_it_expires() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(1_000_000));
        let tokens = open(folder.path(), &clock);
        let made = tokens.add("ada", Some(" laptop "), Some(2_000_000)).unwrap();
        assert!(Tokens::is_one(made.secret.expose_secret()));
        assert_eq!(tokens.actor(&made.secret), Ok(ada()));
        clock.set(1_999_999);
        assert_eq!(tokens.actor(&made.secret), Ok(ada()));
        clock.set(2_000_000);
        assert_eq!(tokens.actor(&made.secret), Ok(None));
        let listed = Listed {
            id: made.listed.id.clone(),
            actor: "ada".to_owned(),
            label: Some("laptop".to_owned()),
            created_ms: 1_000_000,
            expires_ms: Some(2_000_000),
        };
        assert_eq!(made.listed, listed);
        assert_eq!(tokens.list().unwrap(), [listed]);
    }

    #[test]
    fn z01_among_many_each_token_is_its_own_actor() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let tokens = open(folder.path(), &clock);
        let made: Vec<_> = ["ada", "bob", "eve"].iter().map(|name| tokens.add(name, None, None).unwrap()).collect();
        let found: Vec<_> = made.iter().map(|made| tokens.actor(&made.secret).unwrap().unwrap()).collect();
        assert_eq!(found.iter().map(ActorId::name).collect::<Vec<_>>(), ["ada", "bob", "eve"]);
        let mut almost = made[0].secret.expose_secret().to_owned();
        let last = if almost.pop() == Some('A') { 'B' } else { 'A' };
        almost.push(last);
        assert_eq!(tokens.actor(&almost.into()), Ok(None));
    }

    #[test]
    fn z06_the_file_is_private_and_does_not_hold_the_token() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let tokens = open(folder.path(), &clock);
        let made = tokens.add("ada", None, None).unwrap();
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!text.contains(&made.secret.expose_secret()[PREFIX.len()..]));
        assert!(text.contains(&made.listed.id));
        assert_eq!(std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        let shown = format!("{tokens:?} {made:?}");
        assert!(!shown.contains(made.secret.expose_secret()), "{shown}");
    }

    #[test]
    fn a_token_that_another_program_removed_is_worth_nothing_a_second_later() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let made = open(folder.path(), &clock).add("ada", None, None).unwrap();
        let server = open(folder.path(), &clock);
        assert_eq!(server.actor(&made.secret), Ok(ada()));
        open(folder.path(), &clock).remove(&made.listed.id).unwrap();
        clock.set(LOOK_MS - 1);
        assert_eq!(server.actor(&made.secret), Ok(ada()));
        clock.set(LOOK_MS);
        assert_eq!(server.actor(&made.secret), Ok(None));
    }

    #[test]
    fn b11_a_token_that_another_program_made_is_taken_at_once() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let first = open(folder.path(), &clock).add("ada", None, None).unwrap();
        let server = open(folder.path(), &clock);
        // The clock stands still: not even a millisecond passes between making a token and showing it.
        for name in ["bob", "eve", "mallory"] {
            assert_eq!(server.actor(&first.secret), Ok(ada()));
            assert_eq!(server.actor(&format!("{PREFIX}{}", "x".repeat(43)).into()), Ok(None));
            let made = open(folder.path(), &clock).add(name, None, None).unwrap();
            assert_eq!(server.actor(&made.secret), Ok(ActorId::verified(name)));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_lets_nobody_in() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let made = open(folder.path(), &clock).add("ada", None, None).unwrap();
        let server = open(folder.path(), &clock);
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"sha256\":\"00\"}}\n")).unwrap();
        clock.set(LOOK_MS);
        assert_eq!(server.actor(&made.secret), Err(Unreadable));
        let error = Tokens::load(Arc::new(Os::new(folder.path())), FILE, clock.clone()).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        std::fs::write(&path, text).unwrap();
        clock.set(2 * LOOK_MS);
        assert_eq!(server.actor(&made.secret), Ok(ada()));
        std::fs::remove_file(&path).unwrap();
        clock.set(3 * LOOK_MS);
        assert_eq!(server.actor(&made.secret), Ok(None));
    }

    #[test]
    fn an_id_names_one_token_by_its_beginning() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let tokens = open(folder.path(), &clock);
        let (one, two) = (tokens.add("ada", None, None).unwrap(), tokens.add("ada", None, None).unwrap());
        for id in ["", "a", "zzzz", &two.listed.id[..3]] {
            assert!(matches!(tokens.remove(id), Err(Error::NotFound { what: "token", .. })), "{id}");
        }
        assert_eq!(tokens.remove(&one.listed.id).unwrap(), one.listed);
        assert_eq!(tokens.list().unwrap(), [two.listed]);
    }

    #[test]
    fn two_programs_do_not_change_the_file_at_once() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let (one, two) = (open(folder.path(), &clock), open(folder.path(), &clock));
        let lock = one.lock().unwrap();
        assert!(matches!(two.add("ada", None, None), Err(Error::Busy { .. })));
        drop(lock);
        two.add("ada", None, None).unwrap();
        one.add("bob", None, None).unwrap();
        assert_eq!(two.list().unwrap().len(), 2);
    }

    #[test]
    fn names_and_labels_that_cannot_be_kept_are_refused() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
        let tokens = open(folder.path(), &clock);
        for (actor, label) in [("", None), ("a\nb", None), ("ada", Some("\u{1b}[2J")), ("ada", Some(&*"x".repeat(201)))]
        {
            assert!(matches!(tokens.add(actor, label, None), Err(Error::Invalid(_))));
        }
        assert_eq!(tokens.list().unwrap(), []);
    }
}
