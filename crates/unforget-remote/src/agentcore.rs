//! A remote in AWS AgentCore Memory.
//!
//! A stream is a session of the Memory, a segment is an event in it (`shelf`, `put`, `listing`), and what makes a heap of events a history is that each
//! segment names the one that it follows (`chain`). The service has no conditional write; `put` says what takes its place. `client` speaks
//! the API, `pace` keeps below its rates, `names` spells streams within its patterns, `settings` says which memory, and `wire` is what travels.
//!
//! Only `client` knows HTTP, and only `chain` decides what is history. The failures that this guards against are those of the
//! service's own clients: a page that is taken for everything, a filtered read that is taken for the truth, an order that is taken for
//! granted, and a session that grows shorter when its oldest events expire.

#[cfg(feature = "agentcore")]
mod chain;
#[cfg(feature = "agentcore")]
mod client;
#[cfg(feature = "agentcore")]
mod listing;
#[cfg(feature = "agentcore")]
mod names;
#[cfg(feature = "agentcore")]
mod pace;
#[cfg(feature = "agentcore")]
mod parts;
#[cfg(feature = "agentcore")]
mod put;
#[cfg(feature = "agentcore")]
mod settings;
#[cfg(feature = "agentcore")]
mod shelf;
pub mod wire;

#[cfg(feature = "agentcore")]
pub use self::pace::{Clock, Rates, SystemClock};
#[cfg(feature = "agentcore")]
pub use self::settings::{Settings, Texts};
#[cfg(feature = "agentcore")]
pub use self::shelf::AgentCore;
