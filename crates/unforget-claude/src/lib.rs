//! Claude Code's sessions: kept, restored on any machine, mirrored while they run.

#![warn(missing_docs)]

pub mod copy;
