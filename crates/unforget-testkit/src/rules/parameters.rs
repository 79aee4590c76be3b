//! The parameters that some models refuse: forced tools, ways of thinking, sampling.
//!
//! Which value a model takes is documented; the wording is that of reported errors where one is known.

use serde_json::{Map, Value};

use super::Rejection;
use super::blocks::{Block, Role};
use super::model::Model;
use super::pairing::Turn;
use super::schema::invalid;

pub(super) fn check(body: &Map<String, Value>, turns: &[Turn<'_, '_>], model: &Model<'_>) -> Result<(), Rejection> {
    let thinking = tag(body, "thinking");
    match thinking {
        Some("enabled") if model.refuses_manual_thinking() => {
            return Err(Rejection::invalid(
                "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \
                 \"output_config.effort\" to control thinking behavior.",
            ));
        }
        Some("adaptive") if model.refuses_adaptive_thinking() => {
            return Err(Rejection::invalid("adaptive thinking is not supported on this model"));
        }
        _ => {}
    }
    let is_manual = thinking == Some("enabled");
    if let Some(choice @ ("any" | "tool")) = tag(body, "tool_choice") {
        if is_manual {
            return Err(Rejection::invalid("Thinking may not be enabled when tool_choice forces tool use."));
        }
        if model.refuses_forced_tools() {
            return Err(invalid("tool_choice", &format!("type '{choice}' is not supported on this model")));
        }
    }
    if is_manual {
        check_thinking_comes_first(turns)?;
    }
    if model.refuses_sampling() {
        check_sampling(body)?;
    }
    Ok(())
}

fn tag<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get(name)?.get("type")?.as_str()
}

/// What the model says between two tool results belongs to the turn that the first call began.
fn check_thinking_comes_first(turns: &[Turn<'_, '_>]) -> Result<(), Rejection> {
    let Some(mut start) = turns.iter().rposition(|turn| turn.role == Role::Assistant) else {
        return Ok(());
    };
    while start >= 2 && turns[start - 1].holds_only_results() {
        start -= 2;
    }
    match turns[start].blocks.first() {
        None => Ok(()),
        Some(placed) if matches!(placed.block, Block::Thinking { .. } | Block::RedactedThinking) => Ok(()),
        Some(placed) => Err(Rejection::invalid(format!(
            "{}.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final \
             `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
             `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this \
             requirement, disable `thinking`.",
            placed.path(),
            placed.block.kind()
        ))),
    }
}

fn check_sampling(body: &Map<String, Value>) -> Result<(), Rejection> {
    for (name, default) in [("temperature", Some(1.0)), ("top_p", Some(1.0)), ("top_k", None)] {
        let given = body.get(name).filter(|value| !value.is_null());
        if given.is_some_and(|value| default.is_none() || value.as_f64() != default) {
            return Err(Rejection::invalid(format!("`{name}` is deprecated for this model.")));
        }
    }
    Ok(())
}
