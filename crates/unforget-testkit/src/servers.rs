//! Real servers of a test's own, which end when the test does, however it does.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what sets the scene of a test may fail as loudly as the test, and writes the files of servers"
)]

pub mod moto;
pub mod postgres;
