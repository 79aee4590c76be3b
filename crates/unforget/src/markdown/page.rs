//! Words onto lines: wrapping by columns, the margin of quotes and lists, and colours.
//!
//! A page is given characters with the ink they are to be written in, and the containers that are open around
//! them. It knows no Markdown. It guards three things: no line that is wrapped here is wider than the page, nothing
//! that a model wrote acts on the terminal, and no colour is left switched on between two calls of the renderer,
//! whatever happens to the program in between.
//!
//! Chinese and Japanese characters take two columns and may be parted, except that closing punctuation does not
//! begin a line and opening brackets do not end one. Other words are parted only if they are longer than a line.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Style;
use super::ink::Ink;
use crate::screen;

/// Narrower terminals are treated as this wide: the widest list marker and a wide character fit.
const LEAST_COLUMNS: usize = 16;
/// Tabs in code go to multiples of this.
const TAB: usize = 4;

/// What stands in the margin of the lines inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Margin {
    /// A bar before every line.
    Bar,
    /// A marker before the first line, blanks of the same width before the others.
    Marker { text: String, written: bool },
}

impl Margin {
    fn width(&self) -> usize {
        match self {
            Margin::Bar => 2,
            Margin::Marker { text, .. } => text.width(),
        }
    }
}

/// Lines of limited width, as far as they are written.
#[derive(Debug)]
pub(super) struct Page {
    out: String,
    pub(super) width: usize,
    pub(super) style: Style,
    pub(super) margins: Vec<Margin>,
    /// Something is written on the current line, if only its margin.
    line_open: bool,
    /// At least one line was begun.
    begun: bool,
    column: usize,
    /// Where the text of the current line begins.
    left: usize,
    /// Blanks of the margin that are written once text follows, so that no line ends in blanks.
    owed: usize,
    /// Blanks before the current word.
    blanks: usize,
    blank_ink: Ink,
    word: String,
    /// From which byte of the word on which ink is used.
    inks: Vec<(usize, Ink)>,
    /// The current word goes on where the last one stopped.
    glued: bool,
    ink: Ink,
}

impl Page {
    pub(super) fn new(width: usize, style: Style) -> Self {
        Self::exactly(width.max(LEAST_COLUMNS), style)
    }

    /// A page that may be narrow: a cell of a table. Two columns hold any character.
    pub(super) fn exactly(width: usize, style: Style) -> Self {
        Self {
            out: String::new(),
            width,
            style,
            margins: Vec::new(),
            line_open: false,
            begun: false,
            column: 0,
            left: 0,
            owed: 0,
            blanks: 0,
            blank_ink: Ink::default(),
            word: String::new(),
            inks: Vec::new(),
            glued: false,
            ink: Ink::default(),
        }
    }

    /// What was written since the last call.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Columns for text beside the margin.
    pub(super) fn room(&self) -> usize {
        self.width.saturating_sub(self.shown_margins().map(Margin::width).sum()).max(1)
    }

    /// The inner margins that fit into half of the page, and the innermost one anyway.
    fn shown_margins(&self) -> impl Iterator<Item = &Margin> {
        let mut total = 0;
        let hidden = self.margins.iter().rposition(|margin| {
            let first = total == 0;
            total += margin.width();
            !first && total > self.width / 2
        });
        self.margins.iter().skip(hidden.map_or(0, |hidden| hidden + 1))
    }

    /// Writes one character of a paragraph; a line feed ends the line.
    pub(super) fn put(&mut self, character: char, ink: Ink) {
        match character {
            '\n' => {
                self.end_word();
                self.end_line();
            }
            ' ' | '\t' => {
                self.end_word();
                self.glued = false;
                // In code every blank counts.
                self.blanks = if ink.code { self.blanks + 1 } else { self.blanks.max(1) };
                self.blank_ink = ink;
            }
            _ if !screen::is_plain(self.word.chars().next_back(), character) => {
                for shown in screen::safe(character.encode_utf8(&mut [0; 4])).chars() {
                    self.grow(shown, ink);
                }
            }
            _ => self.grow(character, ink),
        }
    }

    pub(super) fn put_all(&mut self, text: &str, ink: Ink) {
        for character in text.chars() {
            self.put(character, ink);
        }
    }

    fn grow(&mut self, character: char, ink: Ink) {
        if let Some(last) = self.word.chars().next_back()
            && may_part(last, character)
        {
            self.end_word();
        }
        if self.inks.last().is_none_or(|(_, last)| *last != ink) {
            self.inks.push((self.word.len(), ink));
        }
        self.word.push(character);
        if self.word.len() > self.width * 4 {
            self.end_part();
        }
    }

    /// Writes all of a very long word but its last character, which may go on.
    fn end_part(&mut self) {
        let last = self.word.grapheme_indices(true).next_back().map_or(0, |(index, _)| index);
        let ink = self.inks.last().map_or(Ink::default(), |(_, ink)| *ink);
        let tail = if last > 0 { self.word.split_off(last) } else { String::new() };
        self.inks.retain(|(from, _)| *from < self.word.len());
        self.end_word();
        self.glued = true;
        if !tail.is_empty() {
            self.word = tail;
            self.inks.push((0, ink));
        }
    }

    /// Writes the current word: its end is known.
    pub(super) fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let (word, inks) = (std::mem::take(&mut self.word), std::mem::take(&mut self.inks));
        self.open_line();
        let blanks = if self.column == self.left { 0 } else { self.blanks };
        let width = word.width();
        let fits = self.column + blanks + width <= self.width;
        // What is longer than a line begins a line; its second part goes on where the first one ended.
        let stays = self.glued || self.column == self.left;
        let whole = fits || (!stays && self.left + width <= self.width);
        if fits {
            self.write(&" ".repeat(blanks), self.blank_ink);
            self.column += blanks;
        } else if !stays {
            self.end_line();
            self.open_line();
        }
        (self.blanks, self.glued) = (0, false);
        for (index, (from, ink)) in inks.iter().enumerate() {
            let part = &word[*from..inks.get(index + 1).map_or(word.len(), |(next, _)| *next)];
            if whole {
                self.write(part, *ink);
            } else {
                part.graphemes(true).for_each(|cluster| self.fill(cluster, *ink));
            }
        }
        if whole {
            self.column += width;
        }
    }

    /// Writes a character on this line if it fits, or else on the next.
    fn fill(&mut self, cluster: &str, ink: Ink) {
        let width = cluster.width();
        if self.left + width > self.width && cluster.chars().nth(1).is_some() {
            // A cluster can be as wide as somebody wants it to be.
            cluster.chars().for_each(|character| self.fill(character.encode_utf8(&mut [0; 4]), ink));
            return;
        }
        if self.column + width > self.width && self.column > self.left {
            self.end_line();
            self.open_line();
        }
        self.write(cluster, ink);
        self.column += width;
    }

    /// Begins a line with its margin, if none is begun.
    pub(super) fn open_line(&mut self) {
        if self.line_open {
            return;
        }
        let shown = self.shown_margins().count();
        let first = self.margins.len() - shown;
        let mut margins = std::mem::take(&mut self.margins);
        (self.column, self.owed) = (0, 0);
        for (index, margin) in margins.iter_mut().enumerate() {
            let width = margin.width();
            let text = match margin {
                Margin::Bar => "│",
                Margin::Marker { text, written: false } => text.trim_end(),
                Margin::Marker { .. } => "",
            };
            if index >= first {
                self.write(text, Ink::DIM);
                self.owed += width - text.width();
                self.column += width;
            }
            if let Margin::Marker { written, .. } = margin {
                *written = true;
            }
        }
        self.margins = margins;
        self.use_ink(Ink::default());
        (self.line_open, self.begun, self.left, self.blanks) = (true, true, self.column, 0);
    }

    /// Ends the current line, if one is begun.
    pub(super) fn end_line(&mut self) {
        if self.line_open {
            self.rest();
            self.out.push('\n');
            self.line_open = false;
        }
        (self.blanks, self.glued) = (0, false);
    }

    /// An empty line between two blocks; none at the top.
    pub(super) fn gap(&mut self) {
        self.end_line();
        if self.begun {
            let pending = self.margins.iter().any(|margin| matches!(margin, Margin::Marker { written: false, .. }));
            if !pending {
                self.open_line();
                self.end_line();
            }
        }
    }

    /// Leaves containers; one that had nothing in it shows its marker nevertheless.
    pub(super) fn leave(&mut self, depth: usize) {
        self.end_line();
        if self.margins.iter().skip(depth).any(|margin| matches!(margin, Margin::Marker { written: false, .. })) {
            self.open_line();
            self.end_line();
        }
        self.margins.truncate(depth);
    }

    /// Moves the text of the current line in.
    pub(super) fn indent(&mut self, columns: usize) {
        self.owed += columns;
        self.column += columns;
        self.left = self.column;
    }

    /// Writes text that is not wrapped, and stays on its line.
    pub(super) fn raw(&mut self, text: &str, ink: Ink) {
        self.open_line();
        for (index, part) in text.split('\t').enumerate() {
            if index > 0 {
                let stop = TAB - (self.column - self.left) % TAB;
                self.write(&" ".repeat(stop), ink);
                self.column += stop;
            }
            let shown = screen::safe(part);
            self.write(&shown, ink);
            self.column += shown.width();
        }
    }

    /// Writes a line that is made already, colours and all.
    pub(super) fn ready(&mut self, line: &str) {
        self.open_line();
        self.write(line, Ink::default());
        self.end_line();
    }

    /// Switches colours off.
    pub(super) fn rest(&mut self) {
        self.use_ink(Ink::default());
    }

    fn write(&mut self, text: &str, ink: Ink) {
        if !text.is_empty() {
            self.out.extend(std::iter::repeat_n(' ', std::mem::take(&mut self.owed)));
            self.use_ink(ink);
            self.out.push_str(text);
        }
    }

    fn use_ink(&mut self, ink: Ink) {
        if self.style == Style::Plain || ink == self.ink {
            return;
        }
        if self.ink != Ink::default() {
            self.out.push_str(&anstyle::Reset.render().to_string());
        }
        if ink != Ink::default() {
            self.out.push_str(&ink.sequence().to_string());
        }
        self.ink = ink;
    }
}

/// Whether a line may end between two characters that no blank parts.
fn may_part(before: char, after: char) -> bool {
    (ideographic(before) || ideographic(after))
        && after.width() != Some(0)
        && before != '\u{200d}'
        && !NEVER_FIRST.contains(after)
        && !NEVER_LAST.contains(before)
}

/// What must not begin a line of Chinese or Japanese.
const NEVER_FIRST: &str =
    "、。，．・：；？！）］｝〕〉》」』】〙〗ー々ゝゞヽヾ…‥ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ,.:;?!)]}%'\"";
/// What must not end one.
const NEVER_LAST: &str = "（［｛〔〈《「『【〘〖([{'\"";

fn ideographic(character: char) -> bool {
    matches!(character,
        '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{33ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff60}' | '\u{20000}'..='\u{3fffd}')
}
