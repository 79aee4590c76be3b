#![doc = include_str!("../README.md")]
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
