//! What the tests of unforget stand on.
//!
//! [`rules`] says what the Messages API accepts and rejects, in its own words; [`api`] is a server
//! that obeys them; `agentcore` is a stand-in of AWS AgentCore Memory, [`runtime`] of the door of
//! AgentCore Runtime; [`servers`] starts real databases and buckets; `serving` starts the server
//! itself and is its clients, many of them; [`attacks`] counts what was tried and refused;
//! [`claude`] runs the real Claude CLI against that server; [`crash`] is a disk that fails, tears
//! and loses power on demand; [`counting`] counts what is read, and [`long_past`] makes a session
//! of a gigabyte out of nothing; [`generate`] makes transcripts of any size and any kind of damage
//! from a seed, [`mutants`] damages recorded sessions of Claude Code, [`corpus`] a store as it is
//! after a year; [`fuzzing`] says what must hold for every input.
//!
//! Nothing here is shipped, and nothing that is shipped depends on it.

#[cfg(feature = "agentcore")]
pub mod agentcore;
pub mod api;
pub mod attacks;
pub mod claude;
pub mod corpus;
pub mod counting;
pub mod crash;
pub mod fuzzing;
pub mod generate;
pub mod long_past;
pub mod modules;
pub mod mutants;
pub mod rules;
pub mod runtime;
pub mod servers;
#[cfg(feature = "serving")]
pub mod serving;
