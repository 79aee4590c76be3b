//! How Claude Code puts the pieces of its messages together.
//!
//! One text is a string and several pieces are a list; the first of the files that it read by itself is a message of its own, the others and
//! what it puts before everything else stand before the words, and what it says as the system is a message behind them. Behind results
//! nothing of that may stand before them. A text that another text follows ends with a line feed.
//!
//! The pieces obey the API's rules when they come here. Taken apart like this they have to obey them again: a message that is left blank
//! is left out, and what the system says stands behind the user's words or becomes some.

use std::collections::HashMap;

use super::block::{Block, Kind};
use super::messages::{Outgoing, Piece, is_blank};
use super::repair::{RepairKind, Repairs};
use super::{MAX_DEPTH, Role};
use crate::json;

/// What the program wraps around its own words.
const OPEN: &str = "<system-reminder>\n";
const CLOSE: &str = "\n</system-reminder>";

/// What a record is that nobody typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// What the program says for itself.
    System,
    /// What it puts before everything else.
    Front,
    /// A file that it read by itself.
    File,
}

/// The messages as JSON texts.
pub(super) fn lay_out(list: Vec<Outgoing<'_>>, sorts: &HashMap<u64, Sort>, repairs: &mut Repairs) -> Vec<String> {
    let mut out = Vec::with_capacity(list.len());
    for message in list {
        match message.role {
            Role::Assistant => {
                let blocks: Vec<String> = message.pieces.into_iter().map(|piece| piece.render().into_owned()).collect();
                out.push(format!("{{\"role\":\"assistant\",\"content\":[{}]}}", blocks.join(",")));
            }
            Role::User => user(message.pieces, sorts, repairs, &mut out),
        }
    }
    out
}

fn user(pieces: Vec<Piece<'_>>, sorts: &HashMap<u64, Sort>, repairs: &mut Repairs, out: &mut Vec<String>) {
    let before = out.len();
    let (mut results, mut files, mut front, mut words) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut system, mut system_n) = (Vec::new(), 0);
    for piece in pieces {
        let sort = sorts.get(&piece.n()).copied();
        match (&piece, sort) {
            (Piece::Result { .. }, _) => results.push(piece),
            (Piece::Block(_), Some(Sort::System)) => match text(&piece) {
                Some(said) => {
                    system_n = piece.n();
                    system.push(unwrapped(&said).to_owned());
                }
                None => words.push(piece),
            },
            (Piece::Block(_), Some(Sort::File)) => files.push(piece),
            (Piece::Block(_), Some(Sort::Front)) => front.push(piece),
            (Piece::Block(_), None) => words.push(piece),
        }
    }
    // In the order in which they came, whatever the order of their calls is.
    results.sort_by_key(Piece::n);
    let mut files = files.into_iter();
    if results.is_empty()
        && let Some(first) = files.next()
    {
        out.push(message(vec![first], None));
    }
    let file_count = files.len();
    // Between the files and what stands in front there is no line feed.
    let last_file = (!front.is_empty()).then_some(results.len() + file_count);
    let all: Vec<Piece<'_>> = results.into_iter().chain(files).chain(front).chain(words).collect();
    if all.iter().all(is_blank) {
        all.iter().for_each(|piece| repairs.add(piece.n(), RepairKind::Empty));
    } else {
        out.push(message(all, last_file));
    }
    system.retain(|said| !said.trim().is_empty());
    if system.is_empty() {
        return;
    }
    let said = system.join("\n\n");
    if out.len() == before {
        repairs.add(system_n, RepairKind::SystemAsUser);
        out.push(plain("user", &format!("{OPEN}{said}{CLOSE}")));
    } else {
        out.push(plain("system", &said));
    }
}

/// A message of the user; behind the piece before `gapless` no line feed is added.
fn message(pieces: Vec<Piece<'_>>, gapless: Option<usize>) -> String {
    if let [piece] = pieces.as_slice()
        && let Some(text) = text(piece)
    {
        return plain("user", &text);
    }
    let texts: Vec<Option<String>> = pieces.iter().map(text).collect();
    let is_text: Vec<bool> = texts.iter().map(Option::is_some).collect();
    let parts = pieces.into_iter().zip(texts).enumerate().map(|(at, (piece, text))| match text {
        Some(text) => {
            let is_before_text = is_text.get(at + 1) == Some(&true) && gapless != Some(at + 1);
            let end = if is_before_text { "\n" } else { "" };
            format!("{{\"type\":\"text\",\"text\":{}}}", json::quote(&format!("{text}{end}")))
        }
        None => piece.render().into_owned(),
    });
    format!("{{\"role\":\"user\",\"content\":[{}]}}", parts.collect::<Vec<_>>().join(","))
}

/// The words of a block that is nothing but a text.
fn text(piece: &Piece<'_>) -> Option<String> {
    let Piece::Block(Block { json: raw, kind: Kind::Text { .. }, .. }) = piece else { return None };
    let members = json::members(raw).filter(|members| members.len() == 2 && !json::deeper_than(raw, MAX_DEPTH))?;
    Some(json::string(json::member(&members, "text")?)?.into_owned())
}

fn plain(role: &str, text: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":{}}}", json::quote(text))
}

fn unwrapped(text: &str) -> &str {
    text.strip_prefix(OPEN).and_then(|text| text.strip_suffix(CLOSE)).unwrap_or(text)
}
