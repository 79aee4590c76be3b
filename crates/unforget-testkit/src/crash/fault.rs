//! Which operation fails, and how.
//!
//! This module owns the count of operations and the plan of faults. It decides before an operation touches the
//! disk, so it knows the kind of an operation and the length of a write, but neither names nor bytes. The
//! failure it guards against is a test that believes it met every fault: an operation that is not counted
//! here can never be made to fail.

use std::error::Error;
use std::io;

/// `errno` of a full disk, as Linux and macOS number it; `io::ErrorKind::StorageFull` to a caller.
pub(super) const NO_SPACE: i32 = 28;

const POWER_CUT: &str = "simulated power cut";

/// One planned fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The operation that it hits, counted from 1 in the medium's scope.
    pub at: u64,
    /// What happens to it.
    pub kind: FaultKind,
    /// Whether every later operation of the same sort as the one hit fails too, until the plan is cleared.
    pub sticky: bool,
}

/// What a fault does to the operation it hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Fails without effect.
    Error(io::ErrorKind),
    /// Fails without effect, with an operating system's error number (such as 5, `EIO`).
    Errno(i32),
    /// Lets part of a write land and then fails it as a full disk would; fails other operations without effect.
    TornWrite {
        /// The part that lands.
        keep: Keep,
    },
    /// Lets half of a write land, says so, and fails the next write as a full disk would; fails other
    /// operations, and writes too short to halve, without effect.
    ShortWrite,
    /// Fails this and every later operation until the medium is restarted.
    PowerCut,
}

/// The part of a torn write that lands, always less than all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The first byte.
    One,
    /// The first half.
    Half,
    /// All but the last byte.
    AllButOne,
}

/// Which operations are counted and can be hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every operation but `root` and `lock_holder`.
    All,
    /// Those that change something or sync.
    Writes,
}

/// Tells whether an error, or one that it was caused by, comes from [`FaultKind::PowerCut`].
///
/// It goes by the message, which outlives a caller that wraps the error in words of its own.
pub fn is_power_cut(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| error.to_string().contains(POWER_CUT))
}

/// The sorts of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Open,
    Create,
    Stat,
    List,
    CreateDir,
    Replace,
    Rename,
    Remove,
    SyncDir,
    SetMode,
    Write,
    ReadAt,
    SyncData,
    SetLen,
    TryLock,
}

impl Operation {
    fn is_in(self, scope: Scope) -> bool {
        match self {
            Self::Open | Self::Stat | Self::List | Self::ReadAt | Self::TryLock => scope == Scope::All,
            Self::Create
            | Self::CreateDir
            | Self::Replace
            | Self::Rename
            | Self::Remove
            | Self::SyncDir
            | Self::SetMode
            | Self::Write
            | Self::SyncData
            | Self::SetLen => true,
        }
    }
}

/// How much of a write lands, and what the caller hears then.
#[derive(Debug)]
pub(super) struct Landing {
    pub(super) len: usize,
    pub(super) then: io::Result<()>,
}

impl Landing {
    fn failed(error: io::Error) -> Self {
        Self { len: 0, then: Err(error) }
    }
}

#[derive(Debug)]
pub(super) struct Plan {
    scope: Scope,
    count: u64,
    planned: Vec<Fault>,
    sticking: Vec<(Operation, FaultKind)>,
    /// A short write was told; the next one has to tell why.
    next_write_is_full: bool,
    power_is_cut: bool,
}

impl Plan {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            count: 0,
            planned: Vec::new(),
            sticking: Vec::new(),
            next_write_is_full: false,
            power_is_cut: false,
        }
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        self.planned.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
        self.sticking.clear();
        self.next_write_is_full = false;
    }

    pub(super) fn operations(&self) -> u64 {
        self.count
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    pub(super) fn cut_power(&mut self) {
        self.power_is_cut = true;
    }

    /// Counts an operation that happens as a whole or not at all.
    pub(super) fn admit(&mut self, operation: Operation) -> io::Result<()> {
        match self.next(operation)? {
            None => Ok(()),
            Some(kind) => Err(self.error(kind)),
        }
    }

    /// Counts a write of `len` bytes.
    pub(super) fn admit_write(&mut self, len: usize) -> Landing {
        let kind = match self.next(Operation::Write) {
            Ok(kind) => kind,
            Err(error) => return Landing::failed(error),
        };
        match kind {
            None if std::mem::take(&mut self.next_write_is_full) => Landing::failed(no_space()),
            None => Landing { len, then: Ok(()) },
            Some(FaultKind::TornWrite { keep }) => {
                let kept = match keep {
                    Keep::One => 1,
                    Keep::Half => len / 2,
                    Keep::AllButOne => len,
                };
                Landing { len: kept.min(len.saturating_sub(1)), then: Err(no_space()) }
            }
            // Half of one byte would be `Ok(0)`, which no disk says to a write that was not empty.
            Some(FaultKind::ShortWrite) if len >= 2 => {
                self.next_write_is_full = true;
                Landing { len: len / 2, then: Ok(()) }
            }
            Some(kind) => Landing::failed(self.error(kind)),
        }
    }

    /// Counts an operation and finds the fault that hits it.
    fn next(&mut self, operation: Operation) -> io::Result<Option<FaultKind>> {
        if self.power_is_cut {
            return Err(power_cut());
        }
        if !operation.is_in(self.scope) {
            return Ok(None);
        }
        self.count += 1;
        if let Some(fault) = self.planned.iter().find(|fault| fault.at == self.count).copied() {
            if fault.sticky {
                // A disk that was full enough to cut one write short does not take half of the next one.
                let lasting = match (operation, fault.kind) {
                    (Operation::Write, FaultKind::ShortWrite) => FaultKind::Errno(NO_SPACE),
                    (_, kind) => kind,
                };
                self.sticking.push((operation, lasting));
            }
            return Ok(Some(fault.kind));
        }
        Ok(self.sticking.iter().find(|(sort, _)| *sort == operation).map(|(_, kind)| *kind))
    }

    fn error(&mut self, kind: FaultKind) -> io::Error {
        match kind {
            FaultKind::Error(kind) => kind.into(),
            FaultKind::Errno(number) => io::Error::from_raw_os_error(number),
            FaultKind::TornWrite { .. } | FaultKind::ShortWrite => no_space(),
            FaultKind::PowerCut => {
                self.cut_power();
                power_cut()
            }
        }
    }
}

pub(super) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(NO_SPACE)
}

fn power_cut() -> io::Error {
    io::Error::other(POWER_CUT)
}
