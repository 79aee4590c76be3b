#![doc = include_str!("../README.md")]
//!
//! ## How it is made
//!
//! A connection is nothing: it drops, comes back, sends twice, is one of several. So nothing that matters belongs to one. A turn
//! belongs to a [`live`] session, which goes on whether anybody watches or not; what was said is in the transcript, and a
//! viewer is a place in it (`live::Viewer`): it reads what it has not seen and then hears what happens, so that whoever comes back
//! misses nothing and hears nothing twice. A prompt that was accepted is written down ([`ledger`]) before anybody is told so.
//!
//! Whose a session is follows from a verified token alone ([`identity`]), and every actor has a [`realm`] of their own: a store in a
//! directory of its own, a tenant of its own at the remote. There is no query that could be asked for somebody else's session,
//! so there is none that could forget to check.

#![warn(missing_docs)]

pub mod activity;
pub mod actor;
pub mod agent;
pub mod api;
pub mod app;
mod budget;
mod caller;
mod connection;
pub mod door;
pub mod entries;
pub mod error;
pub mod fleet;
mod forward;
pub mod hub;
pub mod identity;
mod intake;
pub mod ledger;
pub mod limits;
pub mod live;
pub mod metrics;
mod page;
pub mod peers;
pub mod posture;
pub mod protocol;
mod quotas;
pub mod realm;
mod rest;
mod runtime;
mod said;
pub mod serve;
mod shared;
mod socket;
pub mod stdio;
pub mod trace;
mod transcript;

pub use actor::ActorId;
pub use error::{Problem, Result};
pub use limits::Limits;
