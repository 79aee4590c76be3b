//! What the tests of unforget stand on.
//!
//! [`crash`] is a disk that fails on demand.
pub mod crash;
