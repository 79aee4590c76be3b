//! Runs turns of a conversation: model, tools, context guard and compaction.
//!
//! Nothing is kept outside the log. A turn takes a session, asks the log what the model should see, and writes down
//! what happened before anything depends on it: the user's words before the call, a response before its tools run, a
//! result before it is sent. Kill the process anywhere, and the next one goes on from the same records.
//!
//! This crate knows no terminal, no environment and no server. What is around a turn (a person who answers, a screen that
//! shows) is a [`host::Host`].
#![warn(missing_docs)]

pub mod compact;
pub mod error;
pub mod files;
pub mod fill;
pub mod gauge;
pub mod guard;
pub mod host;
pub mod model;
pub mod prices;
pub mod settings;
pub mod title;
pub mod tools;
pub mod turn;

pub use error::{Error, Result};
