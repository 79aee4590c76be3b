//! Which roles may follow each other, and which messages may be empty.
//!
//! The rules for empty content differ by role and by form: an assistant message may say nothing at all, yet an empty
//! text block in a list is refused everywhere, and blank text is refused only where nothing stands next to it. Thinking
//! never stands last: a model that thought and then said nothing has said nothing.

use super::Rejection;
use super::blocks::{Block, Message, Role, is_blank};
use super::model::Model;
use super::schema::invalid;

pub(super) fn check_roles(messages: &[Message<'_>], model: &Model<'_>) -> Result<(), Rejection> {
    for (index, message) in messages.iter().enumerate() {
        if message.role != Role::System {
            continue;
        }
        if !model.takes_system_messages() {
            return Err(Rejection::invalid("role 'system' is not supported on this model"));
        }
        let follows_user = index.checked_sub(1).is_some_and(|before| messages[before].role == Role::User);
        let precedes_assistant = messages.get(index + 1).is_none_or(|after| after.role == Role::Assistant);
        if !(follows_user && precedes_assistant) {
            let reason = "`system` message must follow a `user` turn and precede an `assistant` turn or end the array";
            return Err(invalid(&format!("messages.{index}"), reason));
        }
    }
    Ok(())
}

pub(super) fn check_empty(messages: &[Message<'_>]) -> Result<(), Rejection> {
    for (index, message) in messages.iter().enumerate() {
        match message.role {
            Role::User if message.is_empty() => {
                return Err(invalid(&format!("messages.{index}"), "user messages must have non-empty content"));
            }
            Role::Assistant if message.is_empty() => continue,
            Role::Assistant if matches!(message.blocks.last(), Some(Block::Thinking { .. })) => {
                let reason = "The final block in an assistant message cannot be `thinking`.";
                return Err(invalid(&format!("messages.{index}"), reason));
            }
            Role::User | Role::Assistant | Role::System => {}
        }
        if message.is_list && message.blocks.iter().any(|block| matches!(block, Block::Text(""))) {
            return Err(invalid("messages", "text content blocks must be non-empty"));
        }
        let says_nothing = message.blocks.iter().all(|block| matches!(block, Block::Text(text) if is_blank(text)));
        if says_nothing && !message.blocks.is_empty() {
            return Err(invalid("messages", "text content blocks must contain non-whitespace text"));
        }
    }
    Ok(())
}
