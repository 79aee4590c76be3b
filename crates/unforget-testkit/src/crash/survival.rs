//! What a crash leaves on the disk.
//!
//! This module owns the list of crash states worth testing and builds the disk that the next start finds. It
//! knows no faults: how the machine stopped does not matter, only what had been synced. The failure it guards
//! against is a store that recovers from the one crash state its author thought of.

use std::collections::BTreeMap;

use super::disk::{Directory, Disk, Inode, Node, ROOT_INODE};

/// What is left of the unsynced changes when the machine comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Leaves what was synced and nothing else, unsynced cuts undone.
    OnlySynced,
    /// Leaves everything, as when only the process was killed; what was unsynced still is.
    Everything,
    /// Leaves all names and cuts, and the first half of each file's unsynced bytes.
    Half,
    /// Leaves all names, cuts and lengths, with zeros for the unsynced bytes, as delayed allocation may.
    NulFill,
    /// Leaves all names, but in the files what was synced; a new file may be empty.
    NamesWithoutData,
}

impl Survival {
    /// Every survival, for loops.
    pub const ALL: [Self; 5] = [Self::OnlySynced, Self::Everything, Self::Half, Self::NulFill, Self::NamesWithoutData];

    fn bytes(self) -> Bytes {
        match self {
            Self::OnlySynced | Self::NamesWithoutData => Bytes::Synced,
            Self::Everything => Bytes::Cached,
            Self::Half => Bytes::FirstHalf,
            Self::NulFill => Bytes::Zeros,
        }
    }
}

/// What is left of one file's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bytes {
    /// All, and the unsynced ones are unsynced still.
    Cached,
    Synced,
    FirstHalf,
    Zeros,
}

impl Directory {
    fn after_crash(&self, survival: Survival) -> Self {
        let names = match survival {
            Survival::Everything => return self.clone(),
            Survival::OnlySynced => &self.durable,
            Survival::Half | Survival::NulFill | Survival::NamesWithoutData => &self.live,
        };
        Self { live: names.clone(), durable: names.clone(), modified_ns: self.modified_ns }
    }
}

impl Disk {
    /// The disk that the next start finds, without the inodes that no name leads to any more.
    pub(super) fn survive(&self, survival: Survival) -> Self {
        let mut inodes = BTreeMap::new();
        let mut reachable = vec![ROOT_INODE];
        while let Some(number) = reachable.pop() {
            let Some(inode) = self.inodes.get(&number) else {
                continue;
            };
            if inodes.contains_key(&number) {
                continue;
            }
            let node = match &inode.node {
                Node::File(data) => Node::File(data.after_crash(survival.bytes())),
                Node::Directory(directory) => {
                    let directory = directory.after_crash(survival);
                    // A killed process leaves removals unsynced too: a later power cut may bring those files back.
                    reachable.extend(directory.live.values().chain(directory.durable.values()));
                    Node::Directory(directory)
                }
            };
            inodes.insert(number, Inode { mode: inode.mode, links: 0, handles: 0, node });
        }
        let mut disk = Self { inodes, last_inode: self.last_inode, clock_ns: self.clock_ns, capacity: self.capacity };
        disk.count_links();
        disk
    }
}
