//! A session here and the same session there: what each has that the other has not, and how it gets there.
//!
//! A transcript only grows, so two copies of it are equal, or one is the beginning of the other, or both went on from the same
//! line in their own way. Frontiers tell which without looking at a line twice ([`plan`]); [`push`] and [`pull`] carry the difference, in
//! whole lines and bounded batches, and never change a byte that is there. What went both ways is [`Diverged`](Error::Diverged): nothing
//! is decided for the user, and [`resolve_by_fork`] and [`resolve_by_rebase`] keep both sides' words.
//!
//! The engine works on lines and cannot parse a record. What is special about a session of this program (its payloads, the index,
//! its place) is behind [`Local`]; a transcript of another program is a [`Plain`] file.
//!
//! What a remote has confirmed is remembered beside the sessions ([`Bookmarks`]), so that a turn costs what the turn is long. A bookmark
//! proves itself against the file, and lines of the remote are never believed less for it; but a remote that has lost what it confirmed is
//! [an error](head). That there is something to send is remembered, too ([`Outbox`]).
//!
//! Files are read and written where the call is made, a batch at a time: whoever must not wait for a disk calls from a task of its own.

use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::remote::Remote;
use crate::stream::Stream;

mod bookmark;
mod compare;
pub mod head;
mod local;
mod outbox;
mod part;
mod payload;
mod pointer;
mod pull;
mod push;
mod resolve;
mod sides;
mod tail;

pub(crate) use bookmark::digest;
pub use bookmark::{Bookmark, Bookmarks};
pub use local::{Aside, Local, Native, Plain};
pub use outbox::{Flushed, Found, Lag, Outbox, Waiting, flush, lag};
pub use pointer::{KEYS, Pointer, claim, find_by_key, is_session, point};
pub use pull::{Pulled, pull};
pub use push::{Pushed, push};
pub use resolve::{Forked, Rebased, resolve_by_fork, resolve_by_rebase};
pub use sides::forget;
pub use tail::{Tail, tail};

/// How often two sides are compared anew within one call, because one of them moved.
const PLANS: usize = 4;

/// One session, here and there.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The session here.
    pub local: &'a dyn Local,
    /// Where it is copied to and from.
    pub remote: &'a dyn Remote,
    /// What it is called there.
    pub stream: &'a Stream,
    /// What the remote is known to have.
    pub bookmarks: &'a Bookmarks,
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Lines that were carried.
    pub lines: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that are to be carried, as far as is known.
    pub of_bytes: u64,
}

/// Who wants to know how far a transfer is.
pub type Watch<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// What has to be done so that both sides have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    InSync,
    /// The remote lacks what is behind this.
    Push {
        /// What it has.
        from: Frontier,
    },
    /// This side lacks what is behind this.
    Pull {
        /// What it has.
        from: Frontier,
    },
    /// They went on in their own ways from a line before this one.
    Diverged {
        /// Number of lines within which they differ.
        within: u64,
    },
}

/// What is known of one side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Side {
    /// All of it.
    pub end: Frontier,
    /// As many lines of it as the other side has, if it has as many.
    pub crossing: Option<Frontier>,
}

/// Compares two sides. The longer one has to know its crossing; a side that does not is taken to differ.
pub fn plan(local: &Side, remote: &Side) -> Plan {
    let (here, there) = (local.end, remote.end);
    if here == there {
        return Plan::InSync;
    }
    if here.lines >= there.lines && (there == Frontier::default() || local.crossing == Some(there)) {
        return Plan::Push { from: there };
    }
    if there.lines >= here.lines && (here == Frontier::default() || remote.crossing == Some(here)) {
        return Plan::Pull { from: here };
    }
    Plan::Diverged { within: here.lines.min(there.lines) }
}

/// What was done to have the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Synced {
    /// What came.
    pub pulled: Option<Pulled>,
    /// What went.
    pub pushed: Option<Pushed>,
}

/// Pulls, then pushes; a session that only one side has is carried to the other.
pub async fn sync(link: &Link<'_>, watch: Watch<'_>) -> Result<Synced> {
    let pulled = match pull(link, &mut *watch).await {
        Ok(pulled) => Some(pulled),
        Err(Error::NotFound { .. }) if local::open(link.local)?.is_some() => None,
        Err(error) => return Err(error),
    };
    let is_ahead = pulled.as_ref().is_none_or(|pulled| pulled.ahead > 0);
    let pushed = if is_ahead { Some(push(link, watch).await?) } else { None };
    Ok(Synced { pulled, pushed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frontiers(lines: &[&str]) -> Vec<Frontier> {
        let mut all = vec![Frontier::default()];
        for line in lines {
            all.push(all[all.len() - 1].after(line.as_bytes()));
        }
        all
    }

    /// A side with these lines, compared with one of that many.
    fn side(lines: &[&str], other: usize) -> Side {
        let all = frontiers(lines);
        Side { end: all[lines.len()], crossing: all.get(other).copied() }
    }

    fn planned(local: &[&str], remote: &[&str]) -> Plan {
        plan(&side(local, remote.len()), &side(remote, local.len()))
    }

    #[test]
    fn equal_sides_need_nothing() {
        assert_eq!(planned(&[], &[]), Plan::InSync);
        assert_eq!(planned(&["a", "b"], &["a", "b"]), Plan::InSync);
    }

    #[test]
    fn a_beginning_is_carried_on_from_its_end() {
        assert_eq!(planned(&["a", "b"], &["a"]), Plan::Push { from: frontiers(&["a"])[1] });
        assert_eq!(planned(&["a"], &["a", "b"]), Plan::Pull { from: frontiers(&["a"])[1] });
        assert_eq!(planned(&["a"], &[]), Plan::Push { from: Frontier::default() });
        assert_eq!(planned(&[], &["a"]), Plan::Pull { from: Frontier::default() });
    }

    #[test]
    fn any_other_line_is_a_divergence_whichever_side_is_longer() {
        assert_eq!(planned(&["a", "b"], &["a", "c"]), Plan::Diverged { within: 2 });
        assert_eq!(planned(&["a", "b", "d"], &["a", "c"]), Plan::Diverged { within: 2 });
        assert_eq!(planned(&["b"], &["a", "b"]), Plan::Diverged { within: 1 });
    }

    #[test]
    fn a_side_that_does_not_know_its_crossing_is_not_trusted() {
        let longer = Side { crossing: None, ..side(&["a", "b"], 1) };
        assert_eq!(plan(&longer, &side(&["a"], 2)), Plan::Diverged { within: 1 });
    }
}
