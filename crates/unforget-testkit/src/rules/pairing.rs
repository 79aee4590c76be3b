//! Which calls need which results, and where a conversation may end.
//!
//! The server combines consecutive messages of one role into a turn before it pairs, so a result may stand in a second
//! user message after the call. Messages with the role `system` do not take part. A tool call needs its result at the
//! head of the next turn; the call of a server tool carries its result in its own turn, or is still open.

use std::collections::{HashMap, HashSet};

use super::Rejection;
use super::blocks::{Block, Message, Role};
use super::model::Model;
use super::schema::invalid;

pub(super) struct Turn<'m, 'a> {
    pub(super) role: Role,
    /// The index of the first message combined into this turn.
    first: usize,
    pub(super) blocks: Vec<Placed<'m, 'a>>,
}

/// A block and where it stands in the request.
pub(super) struct Placed<'m, 'a> {
    message: usize,
    index: usize,
    pub(super) block: &'m Block<'a>,
}

impl Placed<'_, '_> {
    pub(super) fn path(&self) -> String {
        format!("messages.{}.content.{}", self.message, self.index)
    }
}

impl<'a> Turn<'_, 'a> {
    fn tool_uses(&self) -> impl Iterator<Item = &'a str> {
        self.blocks.iter().filter_map(|placed| match placed.block {
            Block::ToolUse { id } => Some(*id),
            _ => None,
        })
    }

    pub(super) fn holds_only_results(&self) -> bool {
        self.blocks.iter().all(|placed| matches!(placed.block, Block::ToolResult { .. }))
    }
}

pub(super) fn turns<'m, 'a>(messages: &'m [Message<'a>]) -> Vec<Turn<'m, 'a>> {
    let mut turns: Vec<Turn<'m, 'a>> = Vec::new();
    for (message, Message { role, blocks, .. }) in messages.iter().enumerate() {
        if *role == Role::System {
            continue;
        }
        let placed = blocks.iter().enumerate().map(|(index, block)| Placed { message, index, block });
        match turns.last_mut() {
            Some(turn) if turn.role == *role => turn.blocks.extend(placed),
            _ => turns.push(Turn { role: *role, first: message, blocks: placed.collect() }),
        }
    }
    turns
}

pub(super) fn check_tools(turns: &[Turn<'_, '_>]) -> Result<(), Rejection> {
    for (index, turn) in turns.iter().enumerate() {
        check_unique(turn)?;
        if turn.role == Role::User {
            check_results(turn, index.checked_sub(1).and_then(|before| turns.get(before)))?;
        }
        check_answered(turn, turns.get(index + 1))?;
    }
    Ok(())
}

fn check_unique(turn: &Turn<'_, '_>) -> Result<(), Rejection> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for id in turn.tool_uses() {
        *uses.entry(id).or_default() += 1;
    }
    // The first of the doubles is the one that the server names.
    let double = turn
        .blocks
        .iter()
        .find(|placed| matches!(placed.block, Block::ToolUse { id } if uses.get(id).is_some_and(|&count| count > 1)));
    double.map_or(Ok(()), |placed| Err(invalid(&placed.path(), "`tool_use` ids must be unique")))
}

fn check_results(turn: &Turn<'_, '_>, previous: Option<&Turn<'_, '_>>) -> Result<(), Rejection> {
    let asked: HashSet<&str> = previous.into_iter().flat_map(Turn::tool_uses).collect();
    let mut seen = HashSet::new();
    for placed in &turn.blocks {
        let Block::ToolResult { id } = placed.block else {
            continue;
        };
        if !asked.contains(id) {
            let reason = format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a \
                 corresponding `tool_use` block in the previous message."
            );
            return Err(invalid(&placed.path(), &reason));
        }
        if !seen.insert(*id) {
            let reason =
                format!("each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}");
            return Err(invalid(&placed.path(), &reason));
        }
    }
    Ok(())
}

fn check_answered(turn: &Turn<'_, '_>, next: Option<&Turn<'_, '_>>) -> Result<(), Rejection> {
    let leading: HashSet<&str> = next
        .into_iter()
        .flat_map(|next| &next.blocks)
        .map_while(|placed| match placed.block {
            Block::ToolResult { id } => Some(*id),
            _ => None,
        })
        .collect();
    let missing: Vec<&str> = turn.tool_uses().filter(|id| !leading.contains(id)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have \
         a corresponding `tool_result` block in the next message.",
        missing.join(", ")
    );
    Err(invalid(&format!("messages.{}", turn.first), &reason))
}

/// An open server tool may be followed by the results of other tools, and by nothing else.
pub(super) fn check_server_tools(turns: &[Turn<'_, '_>]) -> Result<(), Rejection> {
    for pair in turns.windows(2) {
        let [turn, next] = pair else { continue };
        if turn.role != Role::Assistant || next.holds_only_results() {
            continue;
        }
        if let Some((id, name)) = open_server_tools(turn.blocks.iter().map(|placed| placed.block)).first() {
            return Err(Rejection::invalid(format!(
                "`{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block"
            )));
        }
    }
    Ok(())
}

/// An assistant message at the end is a prefill, unless the server is to go on with a tool of its own.
pub(super) fn check_end(last: &Message<'_>, tools: &[&str], model: &Model<'_>) -> Result<(), Rejection> {
    if last.role != Role::Assistant {
        return Ok(());
    }
    let open = open_server_tools(last.blocks.iter());
    if open.is_empty() && model.refuses_prefill() {
        return Err(Rejection::invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    match open.iter().find(|(_, name)| !is_declared(name, tools)) {
        Some((id, name)) => Err(Rejection::invalid(format!(
            "`{name}` tool use with id `{id}` was found but no `{name}` tool was provided"
        ))),
        None => Ok(()),
    }
}

/// One declared tool may act under several names: `code_execution` also as `bash_code_execution`.
fn is_declared(name: &str, tools: &[&str]) -> bool {
    let mut declared = tools.iter().filter(|tool| !tool.is_empty());
    declared.any(|tool| name.strip_suffix(tool).is_some_and(|rest| rest.is_empty() || rest.ends_with('_')))
}

fn open_server_tools<'m, 'a: 'm>(blocks: impl Iterator<Item = &'m Block<'a>> + Clone) -> Vec<(&'a str, &'a str)> {
    let done: HashSet<&str> = blocks
        .clone()
        .filter_map(|block| match block {
            Block::ServerToolResult { id, .. } => *id,
            _ => None,
        })
        .collect();
    let open = blocks.filter_map(|block| match block {
        Block::ServerToolUse { id, name } if !done.contains(id) => Some((*id, name.unwrap_or("None"))),
        _ => None,
    });
    open.collect()
}
