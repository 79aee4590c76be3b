//! The local truth of unforget: durable logs, records, keys, folds and the store.
//!
//! Two layers. The line layer ([`medium`], [`log`], [`reader`], [`lines`], [`frontier`]) knows bytes, order,
//! durability and digests, and no meaning. The record layer ([`record`], [`scan`], [`history`]) gives lines
//! meaning, in pure functions. [`store`] puts both together with [`key`]s, [`blob`]s and a directory layout.
//!
//! Reading is total: it yields a value and a [`report`]. Writing is strict: it yields a `Result`, and `Ok`
//! means that the bytes are safe. Nothing here reads the environment, asks a clock that was not handed in,
//! starts a thread that outlives the call or opens a socket.

#![warn(missing_docs)]

pub mod blob;
pub mod bundle;
pub mod directory;
pub mod doctor;
pub mod encode;
pub mod error;
pub mod exposure;
pub mod files;
pub mod fork;
pub mod frontier;
pub mod history;
pub mod import;
pub mod index;
pub mod json;
pub mod key;
pub mod layout;
pub mod lines;
pub mod listing;
pub mod log;
pub mod mask;
pub mod masked;
pub mod medium;
pub mod reader;
pub mod rebase;
pub mod recent;
pub mod rechain;
pub mod record;
pub mod replica;
pub mod report;
pub mod restore;
pub mod retention;
pub mod scan;
pub mod search;
pub mod session;
pub mod snapshot;
pub mod stamp;
pub mod store;
pub mod summary;
pub mod title;
pub mod tokens;
pub mod tree;
pub mod usage;

pub use error::{Change, Error, Result};
