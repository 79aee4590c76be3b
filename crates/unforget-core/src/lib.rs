#![doc = include_str!("../README.md")]
//!
//! ## How it is made
//!
//! There are two layers. The line layer ([`medium`], [`log`], [`reader`], [`lines`], [`frontier`]) knows bytes, order,
//! durability and digests, and no meaning. The record layer ([`record`], [`scan`], [`history`]) gives lines meaning, in
//! pure functions. [`directory`] puts both together with [`key`]s and [`blob`]s; [`store`] asks the [`index`] first.

#![warn(missing_docs)]

pub mod blob;
pub mod bundle;
pub mod directory;
pub mod doctor;
pub mod edit;
pub mod encode;
pub mod error;
mod exposure;
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
pub mod observer;
pub mod reader;
pub mod rebase;
pub mod recent;
mod rechain;
pub mod record;
pub mod replica;
pub mod report;
pub mod retention;
pub mod scan;
pub mod search;
pub mod session;
pub mod snapshot;
pub mod speech;
pub mod stamp;
pub mod store;
pub mod summary;
pub mod title;
pub mod tokens;
pub mod tree;
mod turn;
pub mod usage;
pub mod view;

#[doc(inline)]
pub use crate::{
    directory::{Entry as SessionInfo, OnMissing},
    error::{Change, Error, Result},
    history::{History, Limits, Message, Role},
    key::Key,
    listing::ListQuery,
    log::Durability,
    record::Draft,
    search::SearchQuery,
    session::Session,
    stamp::SessionId,
    store::Store,
    turn::Turn,
};
