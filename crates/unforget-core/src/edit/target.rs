//! Points of a conversation by the words that people use for them: a record's number, a branch, a checkpoint.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{EditError, StepName};
use crate::tree::{HeadState, Kind, Label, Tree};

/// A point of a conversation. In JSON a number is a step, a string is a name, and `null` is the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Target {
    /// The step with that number.
    Step(u64),
    /// A branch or a checkpoint.
    Name(StepName),
    /// The very beginning.
    Start,
}

impl FromStr for Target {
    type Err = EditError;

    /// Digits are a number, for no name is made of them alone.
    fn from_str(text: &str) -> Result<Self, EditError> {
        match text.trim().parse() {
            Ok(n) => Ok(Self::Step(n)),
            Err(_) => text.parse().map(Self::Name),
        }
    }
}

impl Target {
    /// The step that it means.
    pub fn step(&self, tree: &Tree) -> Result<u64, EditError> {
        Ok(self.state(tree)?.head.unwrap_or(0))
    }

    /// Where the conversation is once its head is there. The name of a branch leads onto that branch.
    pub(super) fn state(&self, tree: &Tree) -> Result<HeadState, EditError> {
        match self {
            Self::Start => Ok(HeadState::default()),
            Self::Step(n) if tree.has_step(*n) => Ok(at_step(tree, Some(*n))),
            Self::Step(n) => Err(EditError::NoSuchStep(*n)),
            Self::Name(name) => {
                let label = named(tree, name, None)?;
                Ok(if label.kind == Kind::Branch { on_branch(label) } else { at_step(tree, label.to) })
            }
        }
    }
}

/// Where the conversation is at a step: on the branch that goes on there.
pub(super) fn at_step(tree: &Tree, n: Option<u64>) -> HeadState {
    HeadState { head: n, branch: n.and_then(|n| tree.branch_at(n)).map(str::to_owned), files: None }
}

/// Where it is at the tip of a branch.
pub(super) fn on_branch(label: Label) -> HeadState {
    HeadState { head: label.to, branch: Some(label.name), files: None }
}

/// What a name means, if it is one of that kind.
pub fn named(tree: &Tree, name: &StepName, kind: Option<Kind>) -> Result<Label, EditError> {
    match tree.label(name.as_str()) {
        Some(label) if kind.is_none_or(|kind| kind == label.kind) => Ok(label),
        Some(label) => Err(EditError::WrongKind { name: label.name, kind: label.kind }),
        None => {
            let labels = tree.labels().into_iter();
            let known = labels.filter(|label| kind.is_none_or(|kind| kind == label.kind)).map(|label| label.name);
            Err(EditError::NoSuchName { name: name.to_string(), kind, known: known.collect() })
        }
    }
}
