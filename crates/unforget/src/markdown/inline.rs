//! What stands inside a paragraph: emphasis, code, links, escapes.
//!
//! [`Inline`] passes ordinary characters on at once and keeps back only what begins with a mark, until it is known
//! what the mark means, and never more than [`HOLD`] bytes: a mark that is not closed by then is text. What
//! begins where is asked of [`element`]; this module only writes it, in the right ink.

use super::Style;
use super::element::{Element, HOLD, More, element, is_mark};
use super::ink::Ink;
use super::page::Page;

/// Emphasis within emphasis; what would go deeper is text.
const DEPTH: usize = 6;
/// The text of one block on its way to the page.
#[derive(Debug)]
pub(super) struct Inline {
    held: String,
    before: char,
    ink: Ink,
}

impl Inline {
    pub(super) fn new() -> Self {
        Self { held: String::new(), before: ' ', ink: Ink::default() }
    }

    /// Begins a block.
    pub(super) fn begin(&mut self, ink: Ink) {
        *self = Self { ink, ..Self::new() };
    }

    pub(super) fn push(&mut self, character: char, page: &mut Page) {
        if self.held.is_empty() && !is_mark(character) {
            page.put(character, self.ink);
            self.before = character;
            return;
        }
        let within_word = character.is_alphanumeric() && self.held.ends_with(char::is_alphanumeric);
        self.held.push(character);
        // Inside a word nothing is decided, except that enough was kept back.
        if !within_word || self.held.len() > HOLD {
            self.advance(More::Coming, page);
        }
    }

    /// A line ends: the last word of it is known, if nothing is kept back.
    pub(super) fn end_line(&mut self, page: &mut Page) {
        if self.held.is_empty() {
            page.end_word();
        }
    }

    /// Ends the block.
    pub(super) fn end(&mut self, page: &mut Page) {
        self.advance(More::None, page);
        page.end_word();
    }

    fn advance(&mut self, more: More, page: &mut Page) {
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            let found = element(rest, self.before, more);
            let Some(length) = write(found, rest, self.ink, 0, page) else { break };
            self.before = rest[..length].chars().next_back().unwrap_or(' ');
            at += length;
        }
        self.held.drain(..at);
    }
}

/// Writes a whole text.
pub(super) fn write_all(text: &str, ink: Ink, page: &mut Page) {
    write_inner(text, ink, 0, page);
}

fn write_inner(text: &str, ink: Ink, depth: usize, page: &mut Page) {
    if depth > DEPTH {
        page.put_all(text, ink);
        return;
    }
    let (mut at, mut before) = (0, ' ');
    while at < text.len() {
        let rest = &text[at..];
        // With nothing more to come there is always an element.
        let Some(length) = write(element(rest, before, More::None), rest, ink, depth, page) else { return };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        at += length;
    }
}

/// Writes what `rest` begins with, and tells how long that was.
fn write(found: Element<'_>, rest: &str, ink: Ink, depth: usize, page: &mut Page) -> Option<usize> {
    let plain = page.style == Style::Plain;
    match found {
        Element::Wait => return None,
        Element::Text(length) => page.put_all(&rest[..length], ink),
        Element::Character(character, _) => page.put(character, ink),
        Element::Code { fence, inner, .. } => {
            let ink = Ink { code: true, ..ink };
            // Without colours the backticks say what is code.
            let fence = if plain { fence } else { "" };
            page.put_all(fence, ink);
            inner.chars().for_each(|c| page.put(if c == '\n' { ' ' } else { c }, ink));
            page.put_all(fence, ink);
        }
        Element::Emphasis { mark, inner, .. } => {
            let struck = mark.starts_with('~');
            let (italic, bold) = (!struck && mark.len() != 2, !struck && mark.len() != 1);
            let inked =
                Ink { italic: ink.italic || italic, bold: ink.bold || bold, struck: ink.struck || struck, ..ink };
            // What is struck out means its opposite: that must not get lost.
            let shown = if plain && struck { mark } else { "" };
            page.put_all(shown, ink);
            write_inner(inner, inked, depth + 1, page);
            page.put_all(shown, ink);
        }
        Element::Link { text, target, .. } => {
            write_inner(text, Ink { underlined: true, ..ink }, depth + 1, page);
            let bare = |text: &str| text.trim_start_matches("mailto:").trim_end_matches('/').to_owned();
            if text.is_empty() {
                page.put_all(target, ink);
            } else if !target.is_empty() && bare(text) != bare(target) {
                page.put(' ', ink);
                page.put_all(&format!("({target})"), Ink { dim: true, ..ink });
            }
        }
    }
    Some(match found {
        Element::Wait => return None,
        Element::Text(length)
        | Element::Character(_, length)
        | Element::Code { length, .. }
        | Element::Emphasis { length, .. }
        | Element::Link { length, .. } => length,
    })
}
