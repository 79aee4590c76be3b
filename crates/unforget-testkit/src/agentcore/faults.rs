//! What a test may let go wrong.

use std::collections::VecDeque;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `POST /memories/{memory}/events`.
    CreateEvent,
    /// `GET …/events/{event}`.
    GetEvent,
    /// `POST …/sessions/{session}`.
    ListEvents,
    /// `DELETE …/events/{event}`.
    DeleteEvent,
    /// `POST …/sessions`.
    ListSessions,
    /// `POST …/actors`.
    ListActors,
    /// Anything of the control plane.
    Control,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An error, and no effect.
    Error {
        /// The status.
        status: u16,
        /// The error's name.
        name: String,
    },
    /// An answer of any kind, and no effect: a proxy's, say.
    Answer {
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
    /// The connection breaks, and there was no effect.
    CutBefore,
    /// The connection breaks, and there was the effect.
    CutAfter,
}

impl Fault {
    /// Too many requests.
    pub fn throttled() -> Self {
        Self::Error { status: 429, name: "ThrottledException".to_owned() }
    }

    /// Somebody else is at it.
    pub fn conflict() -> Self {
        Self::Error { status: 409, name: "RetryableConflictException".to_owned() }
    }

    /// The service is broken.
    pub fn broken() -> Self {
        Self::Error { status: 500, name: "ServiceException".to_owned() }
    }
}

/// Faults that are yet to happen.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: VecDeque<(Operation, Fault, usize)>,
}

impl Faults {
    pub(super) fn plan(&mut self, operation: Operation, fault: Fault, times: usize) {
        self.planned.push_back((operation, fault, times));
    }

    pub(super) fn take(&mut self, operation: Operation) -> Option<Fault> {
        let at = self.planned.iter().position(|(planned, _, times)| *planned == operation && *times > 0)?;
        let (_, fault, times) = self.planned.get_mut(at)?;
        *times -= 1;
        let fault = fault.clone();
        self.planned.retain(|(_, _, times)| *times > 0);
        Some(fault)
    }

    pub(super) fn left(&self) -> usize {
        self.planned.iter().map(|(_, _, times)| times).sum()
    }
}
