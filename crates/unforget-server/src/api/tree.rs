//! The branches of a session, its turns and its names.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unforget_core::mask::mask;
use unforget_core::reader::LogReader;
use unforget_core::scan::Scanner;
use unforget_core::tree::{Branch, Kind, Label, Tree, Turn, Turns};

use super::{Access, InSession, Verb};
use crate::error::Result;
use crate::realm::Realm;

/// How many turns a tree is drawn from.
const MAX_TURNS: usize = 2000;

/// Asks for the branches.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowTree {}

/// The branches of a session, with the newest of its turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionTree {
    /// In which turn the head, the names and the compactions are.
    pub places: Vec<TurnPlace>,
    /// The record that the conversation goes on from.
    pub head: Option<u64>,
    pub current: Option<String>,
    pub branches: Vec<Branch>,
    pub labels: Vec<Label>,
    pub compactions: Vec<u64>,
    pub turns: Vec<Turn>,
    pub more: bool,
}

/// The turn that a record belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnPlace {
    pub n: u64,
    pub turn: u64,
}

impl<H: Access> Verb<H> for InSession<ShowTree> {
    type Answer = SessionTree;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<SessionTree> {
        let id = host.reach(realm, &self.session).await?;
        let tree = host.blocking(realm, move |realm| tree(&realm.store().read(&realm.entry(&id)?)?));
        tree.await
    }
}

fn tree(reader: &LogReader) -> Result<SessionTree> {
    let (mut turns, mut scanner, mut forward) = (Turns::newest(MAX_TURNS), Scanner::default(), reader.forward(0));
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| turns.feed(&record));
    }
    let tree = turns.tree();
    let branches = tree.branches().into_iter().map(|branch| {
        let words = branch.words.as_deref().map(|words| mask(words).into_owned());
        Branch { words, ..branch }
    });
    let named = tree.labels().into_iter().filter_map(|label| label.to);
    let mut numbers: Vec<u64> =
        tree.head().into_iter().chain(named).chain(turns.compactions().iter().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let places = numbers.into_iter().filter_map(|n| Some(TurnPlace { n, turn: turns.of(n)? }));
    Ok(SessionTree {
        places: places.collect(),
        head: tree.head(),
        current: tree.current().map(str::to_owned),
        branches: branches.collect(),
        labels: tree.labels(),
        compactions: turns.compactions().iter().copied().collect(),
        turns: turns.turns().iter().cloned().collect(),
        more: turns.is_cut(),
    })
}

/// Asks for the checkpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCheckpoints {}

/// The checkpoints of a session, the latest last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointList {
    pub checkpoints: Vec<Label>,
}

impl CheckpointList {
    /// The checkpoints of a tree.
    pub fn of(tree: &Tree) -> Self {
        let mut checkpoints: Vec<Label> =
            tree.labels().into_iter().filter(|label| label.kind == Kind::Checkpoint).collect();
        checkpoints.sort_by_key(|label| label.n);
        Self { checkpoints }
    }
}

impl<H: Access> Verb<H> for InSession<ListCheckpoints> {
    type Answer = CheckpointList;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<CheckpointList> {
        let id = host.reach(realm, &self.session).await?;
        let list = host.blocking(realm, move |realm| {
            Ok(CheckpointList::of(&Tree::read(&realm.store().read(&realm.entry(&id)?)?)?))
        });
        list.await
    }
}
