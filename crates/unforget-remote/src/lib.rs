#![doc = include_str!("../README.md")]
//!
//! ## How it is made
//!
//! A [`Remote`] knows streams of lines and their frontiers, and no meaning: it cannot parse a record. Its one promise is
//! compare-and-append: lines are added behind the very bytes that the writer knows, or not at all. From it follows
//! everything else: a retry changes nothing, a machine that slept cannot overwrite what was written meanwhile, and a
//! stream that was read is proved by its digest.
//!
//! Most places keep lines in segments: immutable, compressed, sealed on request. [`Packed`] is the one
//! implementation of [`Remote`] above them, and a backend is a `Shelf` that has to know only how to put a
//! numbered segment where none is yet.

#![warn(missing_docs)]

mod address;
#[cfg(feature = "agentcore-wire")]
pub mod agentcore;
mod error;
pub mod file;
pub mod guarded;
pub mod lease;
pub mod memory;
pub mod migrate;
mod objects;
mod observed;
mod packed;
#[cfg(feature = "postgres")]
pub mod postgres;
mod remote;
mod retry;
#[cfg(feature = "s3")]
pub mod s3;
mod seal;
mod segment;
mod shelf;
mod stream;
pub mod sync;
pub mod uplink;

#[cfg(feature = "testing")]
pub mod conformance;

pub use address::Address;
pub use error::{Error, Result, Witness};
pub use observed::{Counts, Metrics, Observed};
pub use packed::Packed;
pub use remote::{BoxFuture, Compacted, Gathering, Listing, Page, Remote, each_page, every_stream};
pub use retry::Patience;
pub use seal::{Key, Sealing};
pub use stream::{Prefix, Stream};
