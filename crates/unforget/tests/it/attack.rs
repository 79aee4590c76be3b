//! The attack suite: the real binary against a remote, a client and a neighbour that mean harm.
//!
//! Each module is one attacker. What it tried, what was refused and what it cost is told by `unforget_testkit::attacks`.

mod client;
mod model;
#[cfg(target_os = "linux")]
mod owner;
mod remote;
