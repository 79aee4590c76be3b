//! Remotes, put to the suite and to attacks.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests look at files as they are, fail loudly and print their seeds"
)]

#[cfg(feature = "agentcore")]
mod agentcore;
#[cfg(feature = "agentcore")]
mod agentcore_stand_in;
mod kills;
mod machine;
#[cfg(feature = "postgres")]
mod postgres;
mod remotes;
#[cfg(feature = "s3")]
mod s3;
mod simulation;
mod sync;
