//! What is looked for, and whether a text has it.
//!
//! A query is a tree of terms. A term is a row of tokens that stand one behind the other, of which the last may be the
//! beginning of one. Two evaluations exist and must agree on every text: [`Query::matches`] in memory and [`Query::fts5`] as an
//! expression for SQLite. The second has no complement, only "this and not that"; every tree is therefore brought into the
//! form of a set or of the complement of one, and a query that is a complement as a whole is refused: it would find
//! everything that was ever said.
//!
//! How a query is written is for `parse` to know, how a text is cut for [`super::words`].

use memchr::memmem::Finder;

use super::parse;
use super::words::{self, Kind, Words};

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

    fn fts5(&self) -> String {
        // Tokens hold no quotation marks, so that nothing in them can end the string.
        let star = if self.is_prefix { " *" } else { "" };
        format!("\"{}\"{star}", self.tokens.join(" "))
    }
}

/// An expression for SQLite: of the texts that are meant, or of all others.
enum Set {
    These(String),
    AllBut(String),
}

impl Query {
    /// Reads a query: words, `"phrases"`, `prefix*`, `-word`, `AND`, `OR`, `NOT` and parentheses.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let root = parse::parse(text)?;
        match set(&root) {
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

    /// The same as an expression for `MATCH` on an FTS5 table of tokens joined by blanks, with `tokenize = "ascii tokenchars '_'"`.
    pub fn fts5(&self) -> Option<String> {
        match set(&self.root) {
            Set::These(expression) => Some(expression),
            Set::AllBut(_) => None,
        }
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

fn set(node: &Node) -> Set {
    match node {
        Node::Term(term) => Set::These(term.fts5()),
        Node::Not(node) => match set(node) {
            Set::These(expression) => Set::AllBut(expression),
            Set::AllBut(expression) => Set::These(expression),
        },
        Node::And(nodes) => {
            let (these, others) = sorted(nodes);
            match (these.is_empty(), others.is_empty()) {
                (true, _) => Set::AllBut(join(&others, "OR")),
                (false, true) => Set::These(join(&these, "AND")),
                (false, false) => Set::These(format!("({} NOT {})", join(&these, "AND"), join(&others, "OR"))),
            }
        }
        Node::Or(nodes) => {
            let (these, others) = sorted(nodes);
            match (these.is_empty(), others.is_empty()) {
                (_, true) => Set::These(join(&these, "OR")),
                (true, false) => Set::AllBut(join(&others, "AND")),
                (false, false) => Set::AllBut(format!("({} NOT {})", join(&others, "AND"), join(&these, "OR"))),
            }
        }
    }
}

fn sorted(nodes: &[Node]) -> (Vec<String>, Vec<String>) {
    let (mut these, mut others) = (Vec::new(), Vec::new());
    for node in nodes {
        match set(node) {
            Set::These(expression) => these.push(expression),
            Set::AllBut(expression) => others.push(expression),
        }
    }
    (these, others)
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
