//! What is looked for, and whether a text has it.
//!
//! A query is a tree of terms. A term is a row of tokens that stand one behind the other, of which the last may be the
//! beginning of one. [`Query::matches`] says in memory whether a text has it, [`Query::fts5`] is an expression for SQLite, whose
//! table knows which tokens a text has and not in which order: where all terms are single tokens both agree on every text,
//! and else the expression finds too much, never too little. It has no complement, only "this and not that"; every tree is
//! therefore brought into the form of a set or of the complement of one, and a query that is a complement as a whole is
//! refused: it would find everything that was ever said.
//!
//! How a query is written is for `parse` to know, how a text is cut for [`super::words`].

use memchr::memmem::Finder;

use super::words::{self, Kind, Words};
use super::{common, parse};

/// The longest query, in bytes.
pub const MAX_QUERY: usize = 4096;
/// How many words and phrases a query has at most.
pub const MAX_TERMS: usize = 64;
/// How deep parentheses may be nested.
pub const MAX_DEPTH: usize = 16;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Query {
    root: Node,
}

/// Why a text is no query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct QueryError {
    /// What is wrong.
    pub what: String,
    /// Where in the query, in bytes.
    pub at: usize,
    /// What to do about it.
    pub hint: &'static str,
}

/// A query, or a part of one.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Term(Term),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

/// Tokens that stand one behind the other.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) tokens: Vec<String>,
    /// Whether the last token may go on.
    pub(super) is_prefix: bool,
    /// The tokens as they stand in [`Words`].
    finder: Box<Finder<'static>>,
}

impl Term {
    /// The tokens of a word or phrase; none if it has none.
    pub(super) fn of(text: &str, may_go_on: bool) -> Option<Self> {
        let mut tokens: Vec<String> = Vec::new();
        let mut last = (Kind::Whole, Kind::Whole);
        words::pieces(text, |piece| {
            if piece.kind != Kind::Part {
                tokens.push(piece.token.to_owned());
                last = (last.1, piece.kind);
            }
        });
        // Whether a run goes on behind what was asked for is open: its last pair is enough, and a single character begins a pair.
        let mut is_prefix = may_go_on;
        match last {
            (Kind::Pair, Kind::Last) => {
                tokens.pop();
                is_prefix = false;
            }
            (_, Kind::Last) => is_prefix = true,
            _ => {}
        }
        if tokens.is_empty() {
            return None;
        }
        let end = if is_prefix { "" } else { " " };
        let finder = Box::new(Finder::new(&format!(" {}{end}", tokens.join(" "))).into_owned());
        Some(Self { tokens, is_prefix, finder })
    }

    fn is_in(&self, words: &Words) -> bool {
        self.finder.find(words.padded().as_bytes()).is_some()
    }

    fn fts5(&self, side: Side) -> Option<String> {
        // Tokens hold no quotation marks, so that nothing in them can end the string.
        let mut tokens: Vec<String> = self.tokens.iter().map(|token| format!("\"{token}\"")).collect();
        let mut whole = self.tokens.as_slice();
        if self.is_prefix
            && let (Some(last), Some((_, others))) = (tokens.last_mut(), whole.split_last())
        {
            last.push_str(" *");
            whole = others;
        }
        match (side, tokens.len()) {
            (_, 1) => {}
            (Side::TooMuch, _) => {
                let pairs = whole.windows(2).filter_map(|pair| common::pair(&pair[0], &pair[1]));
                tokens.extend(pairs.map(|pair| format!("\"{pair}\"")));
            }
            (Side::TooLittle, _) => return None,
        }
        Some(join(&tokens, "AND"))
    }
}

/// An expression for SQLite: of the texts that are meant, or of all others. Nothing stands for no text at all.
enum Set {
    These(Option<String>),
    AllBut(Option<String>),
}

/// On which side of the truth an expression may err.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It finds all that match, and perhaps others.
    TooMuch,
    /// It finds only what matches, and perhaps not all.
    TooLittle,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Side::TooMuch => Side::TooLittle,
            Side::TooLittle => Side::TooMuch,
        }
    }
}

impl Query {
    /// Reads a query: words, `"phrases"`, `prefix*`, `-word`, `AND`, `OR`, `NOT` and parentheses.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let root = parse::parse(text)?;
        match set(&root, Side::TooMuch) {
            Set::These(_) => Ok(Self { root }),
            Set::AllBut(_) => Err(QueryError {
                what: "the search only says what must not be there".to_owned(),
                at: 0,
                hint: "add a word that must be there; to look for something that begins with `-`, put it in quotation marks",
            }),
        }
    }

    /// Whether a text has what is looked for.
    pub fn matches(&self, words: &Words) -> bool {
        matches(&self.root, words)
    }

    /// What finds every text that matches, as an expression for `MATCH` on an FTS5 table of tokens as an index keeps them, with
    /// `detail = none` and `tokenize = "ascii tokenchars '_'"`; nothing else if [`Query::is_exact`].
    pub fn fts5(&self) -> Option<String> {
        match set(&self.root, Side::TooMuch) {
            Set::These(expression) => expression,
            Set::AllBut(_) => None,
        }
    }

    /// Whether tokens are enough to tell which texts match, and their order is of no matter.
    pub fn is_exact(&self) -> bool {
        is_exact(&self.root)
    }

    pub(super) fn root(&self) -> &Node {
        &self.root
    }

    /// The terms that a text is found for, in the order in which they were written.
    pub(super) fn wanted(&self) -> Vec<&Term> {
        let mut found = Vec::new();
        wanted(&self.root, Wanted::Yes, &mut found);
        found
    }
}

fn matches(node: &Node, words: &Words) -> bool {
    match node {
        Node::Term(term) => term.is_in(words),
        Node::And(nodes) => nodes.iter().all(|node| matches(node, words)),
        Node::Or(nodes) => nodes.iter().any(|node| matches(node, words)),
        Node::Not(node) => !matches(node, words),
    }
}

fn is_exact(node: &Node) -> bool {
    match node {
        Node::Term(term) => term.tokens.len() == 1,
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().all(is_exact),
        Node::Not(node) => is_exact(node),
    }
}

fn set(node: &Node, side: Side) -> Set {
    match node {
        Node::Term(term) => Set::These(term.fts5(side)),
        Node::Not(node) => match set(node, side.other()) {
            Set::These(expression) => Set::AllBut(expression),
            Set::AllBut(expression) => Set::These(expression),
        },
        Node::And(nodes) => {
            let (these, others) = sorted(nodes, side);
            let (these, others) = (these.map(|these| all(these, "AND")), others.and_then(|others| any(others, "OR")));
            match (these, others) {
                (None, others) => Set::AllBut(others),
                (Some(these), None) => Set::These(these),
                (Some(these), Some(others)) => Set::These(these.map(|these| format!("({these} NOT {others})"))),
            }
        }
        // Whatever is in one of two sets is in neither of their complements.
        Node::Or(nodes) => {
            let (these, others) = sorted(nodes, side);
            let (these, others) = (these.and_then(|these| any(these, "OR")), others.map(|others| all(others, "AND")));
            match (these, others) {
                (these, None) => Set::These(these),
                (None, Some(others)) => Set::AllBut(others),
                (Some(these), Some(others)) => Set::AllBut(others.map(|others| format!("({others} NOT {these})"))),
            }
        }
    }
}

type Expressions = Vec<Option<String>>;

/// The sets and the complements among some nodes; none where there is no node.
fn sorted(nodes: &[Node], side: Side) -> (Option<Expressions>, Option<Expressions>) {
    let (mut these, mut others) = (None, None);
    for node in nodes {
        match set(node, side) {
            Set::These(expression) => these.get_or_insert_with(Vec::new).push(expression),
            Set::AllBut(expression) => others.get_or_insert_with(Vec::new).push(expression),
        }
    }
    (these, others)
}

/// What is in each of some sets.
fn all(expressions: Expressions, operator: &str) -> Option<String> {
    Some(join(&expressions.into_iter().collect::<Option<Vec<String>>>()?, operator))
}

/// What is in one of some sets.
fn any(expressions: Expressions, operator: &str) -> Option<String> {
    let expressions: Vec<String> = expressions.into_iter().flatten().collect();
    (!expressions.is_empty()).then(|| join(&expressions, operator))
}

fn join(expressions: &[String], operator: &str) -> String {
    match expressions {
        [one] => one.clone(),
        several => format!("({})", several.join(&format!(" {operator} "))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

fn wanted<'n>(node: &'n Node, is_wanted: Wanted, found: &mut Vec<&'n Term>) {
    match (node, is_wanted) {
        (Node::Term(term), Wanted::Yes) => found.push(term),
        (Node::Term(_), Wanted::No) => {}
        (Node::And(nodes) | Node::Or(nodes), _) => nodes.iter().for_each(|node| wanted(node, is_wanted, found)),
        (Node::Not(node), Wanted::Yes) => wanted(node, Wanted::No, found),
        (Node::Not(node), Wanted::No) => wanted(node, Wanted::Yes, found),
    }
}

#[cfg(test)]
mod tests;
