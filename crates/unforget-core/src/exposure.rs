//! Who besides its user can change a transcript.
//!
//! A store makes its files for its user alone. A file that others may write, or that another user owns, still opens: what it says may be right, and refusing it
//! would take a conversation away. But a line that anyone could have added is no proof of what was said, so a person hears of it.
//!
//! Two findings are no alarm. The owner of the home directory is trusted, whoever runs the program: root looks after the stores of others. And people who share
//! a directory by its group have let each other in with `chmod g+w`: the doctor lists that, and a writer says nothing about it each time.

use std::fmt;
use std::path::Path;

use crate::error::{IoContext as _, Result};
use crate::medium::{Medium, Stat};

/// Bits of the mode that let a file's group, and all users, write it.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// Why a file is not its user's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exposure {
    /// The mode, if others may write.
    pub mode: Option<u32>,
    /// The user id of the owner, if that is neither this user nor the owner of the store.
    pub owner: Option<u32>,
}

impl Exposure {
    /// Looks at a file of a store; nothing if nobody else can change it.
    pub(crate) fn of(medium: &dyn Medium, path: &Path) -> Result<Option<Self>> {
        let stat = medium.stat(path).context("look at", path)?;
        let home = medium.stat(Path::new("")).context("look at", Path::new(""))?;
        let user = rustix::process::geteuid().as_raw();
        Ok(Self::between(&stat, &home, user))
    }

    fn between(stat: &Stat, home: &Stat, user: u32) -> Option<Self> {
        let mode = (stat.mode & (GROUP_WRITES | ALL_WRITE) != 0).then_some(stat.mode);
        let owner = (stat.uid != user && stat.uid != home.uid).then_some(stat.uid);
        (mode.is_some() || owner.is_some()).then_some(Self { mode, owner })
    }

    /// Whether no group explains it that was let in on purpose.
    pub(crate) fn is_alarming(&self) -> bool {
        match self.mode {
            Some(mode) => mode & ALL_WRITE != 0,
            None => true,
        }
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mode) = self.mode {
            write!(f, "other users can change it (mode {mode:03o})")?;
        }
        if let Some(owner) = self.owner {
            let and = if self.mode.is_some() { ", and " } else { "" };
            write!(f, "{and}it belongs to another user (uid {owner})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::FileKind;

    fn stat(mode: u32, uid: u32) -> Stat {
        Stat { identity: (0, 0), links: 1, len: 0, modified_ns: 0, mode, uid, kind: FileKind::File }
    }

    #[test]
    fn h7_what_others_can_change_is_known_from_what_a_group_shares() {
        // The mode and owner of a file, what is said, and whether a writer says it.
        let cases = [
            (0o600, 1000, "", false),
            (0o644, 1000, "", false),
            (0o660, 1000, "other users can change it (mode 660)", false),
            (0o660, 1001, "other users can change it (mode 660), and it belongs to another user (uid 1001)", false),
            (0o666, 1000, "other users can change it (mode 666)", true),
            (0o666, 1001, "other users can change it (mode 666), and it belongs to another user (uid 1001)", true),
            (0o600, 1001, "it belongs to another user (uid 1001)", true),
            (0o600, 0, "", false),
        ];
        for (mode, uid, said, is_alarming) in cases {
            let found = Exposure::between(&stat(mode, uid), &stat(0o700, 1000), 0);
            assert_eq!(found.map_or(String::new(), |exposure| exposure.to_string()), said, "{mode:o} {uid}");
            assert_eq!(found.is_some_and(|exposure| exposure.is_alarming()), is_alarming, "{mode:o} {uid}");
        }
    }
}
