#![doc = include_str!("../README.md")]
//!
//! ## How it is made
//!
//! Claude Code owns its directory: its names, its lines, its clean-up. Here is what they mean, as far as it was seen in the real
//! program, and nothing that a later version could not add to: records, files and members that are not known are kept as they are.
//!
//! [`project`] says under which name a working directory is kept, [`place`] which sessions there are, [`footprint`] what belongs to one
//! besides its transcript, [`live`] who is writing it now. [`keep`] takes a session into a store, [`restore`] puts it where the program finds
//! it, [`mirror`] keeps what is written all the while; [`copy`] is what they share. [`rewrite`] puts absolute paths right in a line, [`tail`] finds
//! the lines that resuming needs, [`doctor`] finds what resuming would lose and makes a copy in which it is put right.

#![warn(missing_docs)]

pub mod copy;
pub mod doctor;
pub mod error;
pub mod footprint;
pub mod id;
pub mod keep;
pub mod live;
pub mod mirror;
pub mod place;
pub mod project;
pub mod restore;
pub mod rewrite;
mod row;
pub mod tail;

pub use error::{Error, Result};
