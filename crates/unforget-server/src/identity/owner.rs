//! The owner's secret: how the one person of a server for oneself proves to be that person.
//!
//! Every user of a machine reaches 127.0.0.1, so an address proves nothing. What proves something is what the kernel lets only one user
//! read. There are three doors, and all of them need that:
//!
//! * **The token file** ([`TOKEN_FILE`] in the home, 0600): a program reads it and sends `Authorization: Bearer TOKEN`. The token is made
//!   once and kept, so that programs and browsers go on after a restart. A server believes the file only if it is a regular file of this
//!   user that no other user can open and that has no second name. One that others could read is replaced; one that belongs to another
//!   user is refused, because that user may know it. Deleting the file and starting again ends every login.
//! * **A link** ([`Owner::new_link`]) for a browser: a code in the fragment of the page's address, which no browser sends along and no log
//!   sees. The page exchanges it for a cookie that scripts cannot read. A code works once, for [`LINK_MS`], and only its digest is kept.
//! * **The socket** (`serve::owner_socket`), where the kernel says which user is asking, and whether from a sandbox.
//!
//! This module knows nothing of requests and of other people's tokens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use unforget_core::medium::{self, Access, FileKind, Medium, Stat};
use unforget_core::{Error, Result};

use super::tokens::{PREFIX, Tokens, digest, new_secret};

/// Where the owner's token is in a home.
pub const TOKEN_FILE: &str = "server/owner.token";
/// How long a link works, in milliseconds.
pub const LINK_MS: i64 = 15 * 60 * 1000;
/// How many links can be open at a time; a further one closes the oldest.
const MAX_LINKS: usize = 16;
/// How much of the token's file is read: more than a token has.
const MAX_FILE: u64 = 256;
/// How often a file that cannot be believed is replaced before the start is given up.
const ATTEMPTS: usize = 3;
/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The secret of a server for oneself, and the links that stand for it.
pub struct Owner {
    token: SecretString,
    /// The file that it is in.
    place: PathBuf,
    /// Where the page is: `http://host:port`.
    url: String,
    links: Mutex<Vec<Link>>,
}

struct Link {
    digest: [u8; 32],
    expires_ms: i64,
}

/// A link that was made.
#[derive(Debug)]
pub struct NewLink {
    /// Its address, which lets in the first one who opens it.
    pub url: SecretString,
    /// From when on it is worth nothing, in milliseconds since the epoch.
    pub expires_ms: i64,
}

/// Whether the token in a file can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Only this user could read and write it.
    Sound,
    /// It is not there.
    Missing,
    /// Others could read or write it: it is replaced when a server starts.
    Exposed,
    /// It belongs to the user with this id.
    Foreign(u32),
    /// It is no regular file.
    Odd,
}

impl Owner {
    /// Reads the token in the home, or makes one. The page of the server is at `url`.
    pub fn open(home: &dyn Medium, url: &str) -> Result<Self> {
        let (path, place) = (Path::new(TOKEN_FILE), home.root().join(TOKEN_FILE));
        let failed = |action| {
            let path = place.clone();
            move |source| Error::Io { action, path, source }
        };
        home.create_dir(medium::parent(path)).map_err(failed("create a folder for"))?;
        for _ in 0..ATTEMPTS {
            match trust(home).map_err(failed("look at"))? {
                Trust::Sound => {
                    if let Some(token) = read(home, path).map_err(failed("read"))? {
                        return Ok(Self::with(token, place, url));
                    }
                    home.remove(path).map_err(failed("remove"))?;
                }
                Trust::Missing => {}
                Trust::Exposed => {
                    tracing::warn!(place = %place.display(), "others could open the owner's token: it is replaced");
                    home.remove(path).map_err(failed("remove"))?;
                }
                Trust::Foreign(_) | Trust::Odd => return Err(Error::Invalid(refusal(&place))),
            }
            let token = new_secret(PREFIX).map_err(failed("make"))?;
            let text = format!("{}\n", token.expose_secret());
            // Another server that starts now may have been faster: then its token is the one.
            medium::publish_durable(home, path, text.as_bytes()).map_err(failed("create"))?;
        }
        Err(Error::Invalid(format!("{} changes while it is read", place.display())))
    }

    /// The token that is in a home, if it can be believed.
    pub fn saved(home: &dyn Medium) -> Result<Option<SecretString>> {
        let failed = |source| Error::Io { action: "read", path: home.root().join(TOKEN_FILE), source };
        match trust(home).map_err(failed)? {
            Trust::Sound => read(home, Path::new(TOKEN_FILE)).map_err(failed),
            Trust::Missing | Trust::Exposed | Trust::Foreign(_) | Trust::Odd => Ok(None),
        }
    }

    /// A secret that is in no file: for looking at a server that does not start.
    pub fn unsaved(home: &dyn Medium, url: &str) -> Result<Self> {
        let place = home.root().join(TOKEN_FILE);
        let failed = |source| Error::Io { action: "make", path: place.clone(), source };
        Ok(Self::with(new_secret(PREFIX).map_err(failed)?, place, url))
    }

    fn with(token: SecretString, place: PathBuf, url: &str) -> Self {
        Self { token, place, url: url.to_owned(), links: Mutex::default() }
    }

    /// Where the token is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Whether this is the token, in a time that says nothing about how much of it was right.
    pub(crate) fn is_token(&self, token: &SecretString) -> bool {
        digest(&self.token).ct_eq(&digest(token)).into()
    }

    /// Makes a link that lets one browser in, once.
    pub fn new_link(&self, now_ms: i64) -> std::io::Result<NewLink> {
        let code = new_secret("")?;
        let expires_ms = now_ms.saturating_add(LINK_MS);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.is_open(now_ms));
        if links.len() >= MAX_LINKS {
            links.remove(0);
        }
        links.push(Link { digest: digest(&code), expires_ms });
        let url = SecretString::from(format!("{}/#link={}", self.url, code.expose_secret()));
        Ok(NewLink { url, expires_ms })
    }

    /// The token, for the first one who shows the code of a link in time.
    pub(crate) fn redeem(&self, code: &SecretString, now_ms: i64) -> Option<&SecretString> {
        let digest = digest(code);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.is_open(now_ms));
        let found = links.iter().position(|link| link.digest.ct_eq(&digest).into())?;
        links.remove(found);
        Some(&self.token)
    }
}

impl Link {
    fn is_open(&self, now_ms: i64) -> bool {
        // A clock that was set back must not make a quarter of an hour last for hours.
        (self.expires_ms.saturating_sub(LINK_MS)..self.expires_ms).contains(&now_ms)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Whether the token in a home can be believed.
pub fn trust(home: &dyn Medium) -> std::io::Result<Trust> {
    match home.stat(Path::new(TOKEN_FILE)) {
        Ok(stat) => Ok(trust_in(&stat)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Trust::Missing),
        Err(error) => Err(error),
    }
}

fn trust_in(stat: &Stat) -> Trust {
    if stat.kind != FileKind::File {
        return Trust::Odd;
    }
    if stat.uid != rustix::process::geteuid().as_raw() {
        return Trust::Foreign(stat.uid);
    }
    if stat.mode & OTHERS != 0 || stat.links > 1 { Trust::Exposed } else { Trust::Sound }
}

/// What is said about a file that another user may have made.
fn refusal(place: &Path) -> String {
    let place = place.display();
    format!("{place} is no file of this user, so another user may know the owner's token; remove it: `rm {place}`")
}

/// The token in a file; none if it is no token, or the file is not the one that was looked at.
fn read(home: &dyn Medium, path: &Path) -> std::io::Result<Option<SecretString>> {
    let file = home.open(path, Access::Read)?;
    if trust_in(&file.stat()?) != Trust::Sound {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(MAX_FILE).unwrap_or_default()];
    let filled = medium::read_full(file.as_ref(), &mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..filled]).unwrap_or_default().trim();
    Ok(Tokens::is_well_formed(text).then(|| SecretString::from(text)))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use unforget_core::medium::Os;

    use super::*;

    fn home() -> (tempfile::TempDir, Os) {
        let folder = tempfile::tempdir().unwrap();
        let medium = Os::new(folder.path());
        (folder, medium)
    }

    fn text(owner: &Owner) -> &str {
        owner.token.expose_secret()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn code(link: &NewLink) -> SecretString {
        link.url.expose_secret().split_once("#link=").unwrap().1.into()
    }

    const URL: &str = "http://127.0.0.1:8080";

    #[test]
    fn s4_the_token_is_made_once_in_a_file_of_this_user_alone() {
        let (folder, medium) = home();
        let owner = Owner::open(&medium, URL).unwrap();
        let file = folder.path().join(TOKEN_FILE);
        assert_eq!(owner.place(), file);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", text(&owner)));
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        assert_eq!(text(&Owner::open(&medium, URL).unwrap()), text(&owner), "it outlives the server");
        assert!(owner.is_token(&text(&owner).into()) && !owner.is_token(&"uft_x".into()));
        assert!(!format!("{owner:?}").contains(text(&owner)));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else is left behind");
    }

    #[test]
    fn s4_a_token_that_others_could_open_is_replaced() {
        let (folder, medium) = home();
        let file = folder.path().join(TOKEN_FILE);
        let mut before = text(&Owner::open(&medium, URL).unwrap()).to_owned();
        for bits in [0o640, 0o604, 0o660, 0o602, 0o610] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(bits)).unwrap();
            assert_eq!(trust(&medium).unwrap(), Trust::Exposed);
            let after = text(&Owner::open(&medium, URL).unwrap()).to_owned();
            assert!(after != before && mode(&file) == 0o600, "{bits:o}");
            before = after;
        }
        std::fs::hard_link(&file, folder.path().join("second-name")).unwrap();
        assert_ne!(text(&Owner::open(&medium, URL).unwrap()), before);
        for wrong in ["", "uft_short", &"x".repeat(4000), "uft_\u{0}", &format!("uft_{}", "!".repeat(43))] {
            std::fs::write(&file, wrong).unwrap();
            assert!(Tokens::is_well_formed(text(&Owner::open(&medium, URL).unwrap())), "{wrong}");
        }
    }

    #[test]
    fn s4_a_token_that_is_no_file_of_this_user_is_refused() {
        let (folder, medium) = home();
        let file = folder.path().join(TOKEN_FILE);
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(folder.path().join("planted"), format!("uft_{}\n", "a".repeat(43))).unwrap();
        std::os::unix::fs::symlink("../planted", &file).unwrap();
        let refused = Owner::open(&medium, URL).unwrap_err().to_string();
        assert!(refused.contains("is no file of this user"), "{refused}");
        std::fs::remove_file(&file).unwrap();
        if rustix::process::geteuid().is_root() {
            std::fs::write(&file, format!("uft_{}\n", "a".repeat(43))).unwrap();
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            assert_eq!(trust(&medium).unwrap(), Trust::Foreign(12_345));
            assert!(Owner::open(&medium, URL).is_err());
        }
    }

    #[test]
    fn s4_a_link_works_once_and_for_a_while() {
        let (_folder, medium) = home();
        let owner = Owner::open(&medium, URL).unwrap();
        let link = owner.new_link(0).unwrap();
        assert!(link.url.expose_secret().starts_with("http://127.0.0.1:8080/#link="));
        assert!(!link.url.expose_secret().contains(text(&owner)));
        assert_eq!(owner.redeem(&"x".into(), 1).map(|_| ()), None);
        assert_eq!(owner.redeem(&code(&link), 1).unwrap().expose_secret(), text(&owner));
        assert!(owner.redeem(&code(&link), 2).is_none(), "a used link is worth nothing");
        let old = owner.new_link(0).unwrap();
        assert_eq!(old.expires_ms, LINK_MS);
        assert!(owner.redeem(&code(&old), LINK_MS).is_none(), "an old link is worth nothing");
        let early = owner.new_link(LINK_MS).unwrap();
        assert!(owner.redeem(&code(&early), 0).is_none(), "nor is one of a clock that was set back");
    }

    #[test]
    fn s4_only_so_many_links_are_open() {
        let (_folder, medium) = home();
        let owner = Owner::open(&medium, URL).unwrap();
        let links: Vec<_> = (0..=MAX_LINKS).map(|_| owner.new_link(0).unwrap()).collect();
        assert!(owner.redeem(&code(&links[0]), 0).is_none());
        assert!(links[1..].iter().all(|link| owner.redeem(&code(link), 0).is_some()));
    }
}
