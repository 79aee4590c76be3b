//! The owner's socket: a door in the file system, where the kernel says which user knocks.
//!
//! The same interface as at the port, without a token: a connection counts as the owner if the process at its other end has the user id of
//! this one. The socket's own permissions (0600, in a folder that is 0700) keep others from connecting at all; that the peer is asked as
//! well holds where permissions do not (root, a folder that somebody opened, a file system that ignores them). No browser can reach it, and
//! no other user can take its place while the server is down, as one can take a port.
//!
//! A model's commands run as the owner, too. Those in the sandbox cannot read the token, and Landlock keeps nobody from a socket, so a command
//! could answer its own question here. The kernel marks what runs in a sandbox for good (`no_new_privs`): a process with that mark is heard, but
//! has to show the token like everybody at the port. So do services that systemd or a container marks in the same way.
//!
//! One server at a time serves a home, so whoever binds may remove what an earlier server left behind.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};

/// Where the socket is in a home.
pub const SOCKET_FILE: &str = "server/owner.sock";
/// The longest path that an address of a socket has room for, in bytes.
pub const MAX_PATH: usize = 107;

/// A socket that only the owner of the home can use.
#[derive(Debug)]
pub struct OwnerSocket {
    listener: UnixListener,
    place: PathBuf,
}

impl OwnerSocket {
    /// Listens in a home that nobody else serves.
    pub(super) fn bind(home: &Path) -> io::Result<Self> {
        let place = std::path::absolute(home)?.join(SOCKET_FILE);
        match rustix::fs::unlink(&place) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let listener = UnixListener::bind(&place)?;
        rustix::fs::chmod(&place, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { listener, place })
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The next connection of this user; those of others are closed unheard.
    async fn accept(&self) -> io::Result<Knock> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == rustix::process::geteuid().as_raw() => {
                    return Ok(Knock { stream, is_owner: peer.pid().is_some_and(|process| !is_confined(process)) });
                }
                Ok(peer) => tracing::warn!(uid = peer.uid(), "another user tried the owner's socket"),
                Err(error) => tracing::warn!(%error, "the user at the owner's socket is unknown"),
            }
        }
    }
}

impl Drop for OwnerSocket {
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::unlink(&self.place) {
            tracing::debug!(%error, "the owner's socket is left behind");
        }
    }
}

/// A connection of this user.
pub(super) struct Knock {
    pub(super) stream: UnixStream,
    /// Whether it counts as the owner without a token.
    pub(super) is_owner: bool,
}

/// Whether a process may be in a sandbox: it has the mark, or cannot be looked at.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the process table is no file of the store")]
fn is_confined(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("NoNewPrivs:")).is_none_or(|value| value.trim() != "0")
}

/// Elsewhere commands have no sandbox.
#[cfg(not(target_os = "linux"))]
fn is_confined(_: i32) -> bool {
    false
}

/// The next connection of this user; never, where there is no socket.
pub(super) async fn accept(socket: Option<&OwnerSocket>) -> io::Result<Knock> {
    match socket {
        Some(socket) => socket.accept().await,
        None => std::future::pending().await,
    }
}
