//! Markdown on a terminal while it is being written.
//!
//! [`Renderer`] takes text in pieces of any size and returns what can be shown. It works character by character, so
//! what comes out never depends on how the text was cut. Paragraphs appear word by word; only what cannot be known
//! yet is kept back, and never more than a few hundred bytes of it (a table: until it ends).
//!
//! The work is divided. [`mod@line`] says what a line begins with, [`element`] what a mark inside a paragraph means,
//! [`inline`] writes paragraphs, [`table`] draws tables, [`page`] puts words onto lines, and [`ink`] colours them.
//! This module decides which block is open. It keeps the line feeds of a paragraph: models do not wrap their lines,
//! so where one ends its author wanted it to.
//!
//! A model's text is data: whatever could act on the terminal is made visible by [`page`]. HTML is shown as it is.

mod element;
mod ink;
mod inline;
mod line;
mod page;
mod table;

use ink::{Ink, inked};
use inline::Inline;
use line::{Beginning, Block, Container, Line};
use page::{Margin, Page};
use table::Table;

/// Columns that code is moved in by.
const CODE_INDENT: usize = 2;
/// How much of a line of code is kept back.
const CODE_HOLD: usize = 4096;

/// Whether there may be colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Coloured,
    /// No escape sequence at all.
    Plain,
}

/// Turns Markdown into lines for a terminal, as it comes.
#[derive(Debug)]
pub(crate) struct Renderer {
    page: Page,
    inline: Inline,
    open: Vec<Container>,
    leaf: Leaf,
    state: State,
    /// What of the current line is not written yet.
    line: String,
    /// Empty lines came since the last block.
    gap: bool,
    /// The last character was a carriage return, which counts only if no line feed follows.
    returned: bool,
}

/// The block that is open.
#[derive(Debug)]
enum Leaf {
    None,
    Text,
    Heading,
    Fence {
        mark: char,
        length: usize,
        indent: usize,
    },
    Indented,
    /// A line that is the first one of a table if the next line says so.
    Row(String),
    Table(Table),
}

/// What becomes of the next character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It helps to decide what the line is.
    Beginning,
    /// It is text of a paragraph.
    Text,
    /// It is kept until the line is whole; the block begins at this byte.
    Fence(usize),
    Row(usize),
    Code,
    /// It is code, on a line of which a part is written.
    LongCode,
}

impl Renderer {
    pub(crate) fn new(width: usize, style: Style) -> Self {
        Self {
            page: Page::new(width, style),
            inline: Inline::new(),
            open: Vec::new(),
            leaf: Leaf::None,
            state: State::Beginning,
            line: String::new(),
            gap: false,
            returned: false,
        }
    }

    /// Takes more text and returns what can be shown now.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        for character in text.chars() {
            if std::mem::take(&mut self.returned) && character != '\n' {
                self.push('\r');
            }
            if character == '\r' {
                self.returned = true;
            } else {
                self.push(character);
            }
            self.page.rest();
        }
        self.page.take()
    }

    /// Ends the text and returns the rest; a new text may begin.
    pub(crate) fn finish(&mut self) -> String {
        if !self.line.is_empty() || matches!(self.state, State::Text | State::LongCode) {
            self.end_line();
        }
        self.close_leaf();
        self.leave(0);
        let rest = self.page.take();
        *self = Self::new(self.page.width, self.page.style);
        rest
    }

    fn push(&mut self, character: char) {
        match (self.state, character) {
            (_, '\n') => self.end_line(),
            (State::Text, _) => self.inline.push(character, &mut self.page),
            (State::Beginning, _) => {
                // A tab counts as the blanks up to the next stop.
                let blanks = if character == '\t' { 4 - self.line.len() % 4 } else { 0 };
                self.line.extend(std::iter::repeat_n(' ', blanks));
                if blanks == 0 {
                    self.line.push(character);
                }
                self.decide(Line::Growing);
            }
            (State::LongCode, _) => self.page.raw(character.encode_utf8(&mut [0; 4]), Ink::default()),
            (State::Code, _) => {
                self.line.push(character);
                if self.line.len() > CODE_HOLD {
                    self.state = State::LongCode;
                    self.write_code();
                    self.line.clear();
                }
            }
            (State::Fence(at), _) => {
                // Backticks behind the first ones, or no end: ordinary text.
                let so_far = &self.line[at..];
                let inside = character == '`' && so_far.starts_with('`') && !so_far.ends_with('`');
                self.line.push(character);
                if inside || self.line.len() > element::HOLD {
                    self.text_after_all(at);
                }
            }
            (State::Row(at), _) => {
                self.line.push(character);
                if self.line.len() > table::HOLD {
                    self.text_after_all(at);
                }
            }
        }
    }

    /// Shows a line as text that was thought to be something else.
    fn text_after_all(&mut self, at: usize) {
        self.close_leaf();
        self.begin_text(Ink::default());
        self.write_text(at);
    }

    fn end_line(&mut self) {
        if self.state == State::Code && unquoted(&self.line, &self.open).is_none() {
            // The quote ends, and the code with it.
            self.close_leaf();
            self.state = State::Beginning;
        }
        if self.state == State::Beginning {
            self.decide(Line::Whole);
        }
        match self.state {
            State::Beginning => {}
            State::Text => self.inline.end_line(&mut self.page),
            State::Code => self.write_code(),
            State::LongCode => self.page.end_line(),
            State::Fence(at) => self.open_fence(at),
            State::Row(at) => self.take_row(at),
        }
        if matches!(self.leaf, Leaf::Heading) {
            self.close_leaf();
        }
        self.line.clear();
        self.state = if matches!(self.leaf, Leaf::Fence { .. }) { State::Code } else { State::Beginning };
    }

    /// Looks at the line so far, and acts as soon as it is known what it is.
    fn decide(&mut self, state: Line) {
        let in_paragraph = matches!(self.leaf, Leaf::Text);
        if let Some(beginning) = line::read(&self.line, state, &self.open, in_paragraph) {
            self.begin(beginning);
        }
    }

    fn begin(&mut self, beginning: Beginning) {
        let Beginning { kept, opened, block, at } = beginning;
        let same_place = kept == self.open.len() && opened.is_empty();
        match (&self.leaf, block) {
            (Leaf::Text, Block::Text) if same_place => {
                self.inline.push('\n', &mut self.page);
                self.write_text(at);
                return;
            }
            (Leaf::Row(_) | Leaf::Table(_), Block::Row) if same_place => {
                self.state = State::Row(at);
                return;
            }
            (Leaf::Indented, Block::Indented) if same_place => {}
            _ => self.close_leaf(),
        }
        self.leave(kept);
        if block == Block::Blank {
            self.gap = true;
            return;
        }
        if std::mem::take(&mut self.gap) || matches!(block, Block::Heading(_)) {
            self.page.gap();
        }
        for container in opened {
            self.page.margins.push(match &container {
                Container::Quote => Margin::Bar,
                Container::Item { marker, .. } => Margin::Marker { text: marker.clone(), written: false },
            });
            self.open.push(container);
        }
        match block {
            Block::Blank => {}
            Block::Text => {
                self.begin_text(Ink::default());
                self.write_text(at);
            }
            Block::Heading(level) => self.begin_heading(level, at),
            Block::Rule => self.rule("─"),
            Block::Underline => self.rule("═"),
            Block::Fence => self.state = State::Fence(at),
            Block::Row => self.state = State::Row(at),
            Block::Indented => {
                self.leaf = Leaf::Indented;
                self.state = State::Code;
                self.line.drain(..at);
            }
        }
    }

    fn begin_text(&mut self, ink: Ink) {
        self.leaf = Leaf::Text;
        self.inline.begin(ink);
    }

    fn write_text(&mut self, at: usize) {
        self.state = State::Text;
        let line = std::mem::take(&mut self.line);
        line[at..].chars().for_each(|character| self.inline.push(character, &mut self.page));
    }

    fn begin_heading(&mut self, level: usize, at: usize) {
        let ink = Ink { bold: true, underlined: level == 1, ..Ink::default() };
        self.begin_text(ink);
        self.leaf = Leaf::Heading;
        if self.page.style == Style::Plain {
            // Without colours only the marks tell a heading from text.
            self.page.put_all(&"#".repeat(level), ink);
            self.page.put(' ', ink);
        }
        self.write_text((at + level + 1).min(self.line.len()));
    }

    fn rule(&mut self, stroke: &str) {
        let rule = inked(&stroke.repeat(self.page.room()), Ink::DIM, self.page.style);
        self.page.end_line();
        self.page.ready(&rule);
    }

    /// The line that opens fenced code is whole.
    fn open_fence(&mut self, at: usize) {
        self.close_leaf();
        let (before, opening) = self.line.split_at(at);
        let mark = opening.chars().next().unwrap_or('`');
        let info = opening.trim_start_matches(mark);
        let quotes = before.rfind("> ").map_or_else(|| before.rfind('>').map_or(0, |last| last + 1), |last| last + 2);
        self.leaf = Leaf::Fence { mark, length: opening.len() - info.len(), indent: at - quotes };
        if !info.trim().is_empty() {
            self.page.raw(&format!("── {}", info.trim()), Ink::DIM);
            self.page.end_line();
        }
    }

    /// Writes what there is of a line of code, or sees that it is the end of the code.
    fn write_code(&mut self) {
        let mut code = unquoted(&self.line, &self.open).unwrap_or(&self.line);
        if let Leaf::Fence { mark, length, indent } = self.leaf {
            let closing = code.trim();
            if closing.len() >= length && closing.chars().all(|character| character == mark) {
                self.close_leaf();
                return;
            }
            let blanks = code.len() - code.trim_start_matches(' ').len();
            code = &code[blanks.min(indent)..];
        }
        self.page.open_line();
        self.page.indent(CODE_INDENT);
        self.page.raw(code, Ink::default());
        if self.state == State::Code {
            self.page.end_line();
        }
    }

    /// A line that begins with a bar is whole.
    fn take_row(&mut self, at: usize) {
        let row = self.line[at..].to_owned();
        match std::mem::replace(&mut self.leaf, Leaf::None) {
            Leaf::Table(mut table) => {
                table.push(&row, &mut self.page);
                self.leaf = Leaf::Table(table);
            }
            Leaf::Row(first) => match Table::new(&first, &row) {
                Some(table) => self.leaf = Leaf::Table(table),
                None => {
                    self.leaf = Leaf::Row(first);
                    self.close_leaf();
                    self.leaf = Leaf::Row(row);
                }
            },
            Leaf::None | Leaf::Text | Leaf::Heading | Leaf::Fence { .. } | Leaf::Indented => self.leaf = Leaf::Row(row),
        }
    }

    fn close_leaf(&mut self) {
        match std::mem::replace(&mut self.leaf, Leaf::None) {
            Leaf::None | Leaf::Fence { .. } | Leaf::Indented => {}
            Leaf::Text | Leaf::Heading => self.inline.end(&mut self.page),
            Leaf::Row(text) => {
                self.inline.begin(Ink::default());
                text.chars().for_each(|character| self.inline.push(character, &mut self.page));
                self.inline.end(&mut self.page);
            }
            Leaf::Table(mut table) => table.draw(&mut self.page),
        }
        self.page.end_line();
    }

    fn leave(&mut self, depth: usize) {
        self.page.leave(depth);
        self.open.truncate(depth);
    }
}

/// A line of code without the marks of the quotes around it, if they are all there.
fn unquoted<'a>(line: &'a str, open: &[Container]) -> Option<&'a str> {
    let quotes = open.iter().filter(|container| matches!(container, Container::Quote)).count();
    let mut code = line;
    for _ in 0..quotes {
        let inner = code.trim_start_matches(' ').strip_prefix('>')?;
        code = inner.strip_prefix(' ').unwrap_or(inner);
    }
    Some(code)
}

#[cfg(test)]
mod tests;
