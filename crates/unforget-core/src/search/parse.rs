//! How a query is written.
//!
//! People type what they remember: `foo.bar()`, a path, an error message with a bracket in it. Only a few marks mean something,
//! and only where a word begins or ends: quotation marks, `-`, `*`, parentheses, and the words `AND`, `OR`, `NOT` in capitals.
//! Everything else separates words, and what makes no sense as an operator is passed over. One thing is an error: a quotation
//! mark without its other half, because it is not clear what was meant to be exact.
//!
//! What the words mean is for [`super::query`] to know.

use super::query::{MAX_DEPTH, MAX_QUERY, MAX_TERMS, Node, QueryError, Term};

/// A piece of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lexeme<'q> {
    /// A word or phrase, and whether a `*` follows.
    Text(&'q str, bool),
    And,
    Or,
    Not,
    Open,
    Close,
}

/// Reads a query as a tree; one that asks for nothing is an error.
pub(super) fn parse(text: &str) -> Result<Node, QueryError> {
    if text.len() > MAX_QUERY {
        let what = format!("the search has {} bytes; {MAX_QUERY} are the most", text.len());
        return Err(QueryError { what, at: MAX_QUERY, hint: "a few words of it will do" });
    }
    let mut lexemes = lexemes(text)?;
    if !lexemes.iter().any(|(_, lexeme)| matches!(lexeme, Lexeme::Text(..))) {
        // Nothing to combine: then these are the words.
        lexemes = text.split_whitespace().map(|word| (0, Lexeme::Text(word, false))).collect();
    }
    let mut parser = Parser { lexemes: &lexemes, terms: 0 };
    let mut parts = Vec::new();
    while !parser.lexemes.is_empty() {
        parts.extend(parser.either(0)?);
        // A parenthesis that closes nothing.
        parser.skip(&Lexeme::Close);
    }
    all(parts).ok_or_else(|| QueryError {
        what: "there is nothing to search for: no letter, digit or sign".to_owned(),
        at: 0,
        hint: "give a word, a \"phrase\" or the beginning of a word and a star (`uncl*`)",
    })
}

fn lexemes(text: &str) -> Result<Vec<(usize, Lexeme<'_>)>, QueryError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if first == '(' {
            found.push((at, Lexeme::Open));
            at += 1;
        } else if first == ')' {
            found.push((at, Lexeme::Close));
            at += 1;
        } else if first == '"' {
            let Some(len) = rest[1..].find('"') else {
                let what = "a quotation mark has no other half".to_owned();
                return Err(QueryError {
                    what,
                    at,
                    hint: "close the phrase with `\"`, or leave the mark out: it is not searched",
                });
            };
            let goes_on = rest[len + 2..].starts_with('*');
            found.push((at, Lexeme::Text(&rest[1..=len], goes_on)));
            at += len + 2 + usize::from(goes_on);
        } else if first == '-' && rest[1..].chars().next().is_some_and(|next| !next.is_whitespace() && next != '-') {
            found.push((at, Lexeme::Not));
            at += 1;
        } else {
            let word = &rest[..word_len(rest)];
            found.push((
                at,
                match word {
                    "AND" => Lexeme::And,
                    "OR" => Lexeme::Or,
                    "NOT" => Lexeme::Not,
                    _ => Lexeme::Text(word, word.len() > 1 && word.ends_with('*')),
                },
            ));
            at += word.len();
        }
    }
    Ok(found)
}

/// Length of the word at the beginning: up to a blank, or to a parenthesis at its end that it does not open itself.
fn word_len(rest: &str) -> usize {
    let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = &rest[..len];
    let bare = word.trim_end_matches(')');
    let opened = word.matches('(').count();
    let inner = bare.matches(')').count();
    (bare.len() + opened.saturating_sub(inner)).clamp(1, len)
}

struct Parser<'l, 'q> {
    lexemes: &'l [(usize, Lexeme<'q>)],
    terms: usize,
}

impl Parser<'_, '_> {
    /// One or more conjunctions with `OR` between them.
    fn either(&mut self, depth: usize) -> Result<Option<Node>, QueryError> {
        let mut nodes = Vec::new();
        loop {
            nodes.extend(self.both(depth)?);
            if !self.skip(&Lexeme::Or) {
                break;
            }
        }
        Ok(if nodes.len() > 1 { Some(Node::Or(nodes)) } else { nodes.pop() })
    }

    /// One or more terms that must all be there.
    fn both(&mut self, depth: usize) -> Result<Option<Node>, QueryError> {
        let mut nodes = Vec::new();
        while let Some((_, lexeme)) = self.lexemes.first() {
            match lexeme {
                Lexeme::Or | Lexeme::Close => break,
                Lexeme::And => self.next(),
                _ => nodes.extend(self.one(depth)?),
            }
        }
        Ok(all(nodes))
    }

    /// A word, a phrase, something in parentheses, or the absence of it.
    fn one(&mut self, depth: usize) -> Result<Option<Node>, QueryError> {
        let mut is_not = false;
        while self.skip(&Lexeme::Not) {
            is_not = !is_not;
        }
        let node = match self.lexemes.first() {
            Some((at, Lexeme::Text(text, goes_on))) => {
                let term = Term::of(text, *goes_on);
                self.terms += usize::from(term.is_some());
                if self.terms > MAX_TERMS {
                    let what = format!("the search has more than {MAX_TERMS} words");
                    return Err(QueryError { what, at: *at, hint: "a few of them will do" });
                }
                self.next();
                term.map(Node::Term)
            }
            Some((at, Lexeme::Open)) => {
                if depth >= MAX_DEPTH {
                    let what = format!("parentheses are nested deeper than {MAX_DEPTH}");
                    return Err(QueryError { what, at: *at, hint: "leave some of them out" });
                }
                self.next();
                let inner = self.either(depth + 1)?;
                self.skip(&Lexeme::Close);
                inner
            }
            // `NOT` with nothing behind it.
            _ => None,
        };
        Ok(node.map(|node| if is_not { Node::Not(Box::new(node)) } else { node }))
    }

    fn next(&mut self) {
        self.lexemes = self.lexemes.get(1..).unwrap_or_default();
    }

    /// Passes over a lexeme if it is the next one.
    fn skip(&mut self, wanted: &Lexeme<'_>) -> bool {
        let is_next = self.lexemes.first().is_some_and(|(_, lexeme)| lexeme == wanted);
        if is_next {
            self.next();
        }
        is_next
    }
}

fn all(mut nodes: Vec<Node>) -> Option<Node> {
    if nodes.len() > 1 { Some(Node::And(nodes)) } else { nodes.pop() }
}
