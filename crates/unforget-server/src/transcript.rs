//! What a transcript says to a server: its lines by their numbers ([`lines`]), and how far the
//! turns of its prompts came (`past`).
//!
//! It reads files and knows no live session, so that an agent, a live session and a handler can ask
//! it alike.

pub(crate) mod lines;
mod past;

pub use past::Said;
pub(crate) use past::{INTERRUPTED, answer_to, find_prompt, read};
