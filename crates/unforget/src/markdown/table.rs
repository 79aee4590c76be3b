//! Tables: rows of cells, drawn once all of them are there.
//!
//! Nothing of a cell is lost. Columns that do not fit are made narrower and their cells wrapped; where there are
//! more columns than the page can hold, each row becomes a list of `heading: cell`. A table that is longer than
//! [`HOLD`] bytes is drawn as far as it has come and goes on with the same columns.

use unicode_width::UnicodeWidthStr;

use super::Style;
use super::ink::{Ink, inked};
use super::inline;
use super::page::Page;

/// How much of a table is kept back.
pub(super) const HOLD: usize = 32 * 1024;
/// No column is made narrower than this.
const LEAST_COLUMN: usize = 6;
/// What stands between two columns takes so much room.
const BETWEEN: usize = 3;

/// A page on which nothing is wrapped.
const ENDLESS: usize = 1 << 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Middle,
    Right,
}

/// A table as far as it has come.
#[derive(Debug)]
pub(super) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
    bytes: usize,
    /// The columns' widths, once something is drawn.
    widths: Vec<usize>,
    /// The first row, for rows that become lists.
    headings: Vec<String>,
}

impl Table {
    /// A table with these two first lines, if the second one says that it is one.
    pub(super) fn new(first: &str, second: &str) -> Option<Self> {
        let side = |cell: &String| {
            let dashes = cell.trim_start_matches(':').trim_end_matches(':');
            let dashed = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
            dashed.then_some(match (cell.starts_with(':'), cell.ends_with(':')) {
                (true, true) => Side::Middle,
                (false, true) => Side::Right,
                (_, false) => Side::Left,
            })
        };
        let sides = cells(second).iter().map(side).collect::<Option<Vec<_>>>()?;
        let headings = cells(first);
        (headings.len() == sides.len()).then(|| Self {
            sides,
            rows: vec![headings.clone()],
            bytes: first.len(),
            widths: Vec::new(),
            headings,
        })
    }

    /// Takes one more line; draws what there is if it is much.
    pub(super) fn push(&mut self, line: &str, page: &mut Page) {
        let mut row = cells(line);
        if row.len() > self.sides.len() {
            // Cells too many are part of the last one: nothing is left out.
            let rest = row.split_off(self.sides.len()).join(" | ");
            if let Some(last) = row.last_mut() {
                last.push_str(" | ");
                last.push_str(&rest);
            }
        }
        row.resize(self.sides.len(), String::new());
        self.rows.push(row);
        self.bytes += line.len();
        if self.bytes > HOLD {
            self.draw(page);
        }
    }

    /// Draws the rows that were not drawn yet.
    pub(super) fn draw(&mut self, page: &mut Page) {
        let first = self.widths.is_empty();
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if first {
            self.widths = self.measure(&rows, page.room(), page.style);
        }
        if self.widths.iter().sum::<usize>() + BETWEEN * (self.widths.len() - 1) > page.room() {
            self.draw_lists(&rows[usize::from(first)..], page);
            return;
        }
        let rows: Vec<Vec<Vec<String>>> =
            rows.iter().enumerate().map(|(index, row)| self.wrap(row, first && index == 0, page.style)).collect();
        let tall = rows.iter().any(|row| row.iter().any(|cell| cell.len() > 1));
        for (index, row) in rows.iter().enumerate() {
            // Rows of several lines need something between them.
            if !(first && index == 0) && ((first && index == 1) || tall) {
                page.ready(&self.rule(page.style));
            }
            let height = row.iter().map(Vec::len).max().unwrap_or(0).max(1);
            for line in 0..height {
                page.ready(&self.line(row, line, page.style));
            }
        }
        if first && rows.len() == 1 {
            page.ready(&self.rule(page.style));
        }
    }

    /// As wide as the widest cell, and narrower from the widest column on until all fit.
    fn measure(&self, rows: &[Vec<String>], room: usize, style: Style) -> Vec<usize> {
        let mut widths = vec![1; self.sides.len()];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                let natural = lines(cell, ENDLESS, Ink::default(), style);
                *width = (*width).max(natural.first().map_or(0, |line| shown_width(line)));
            }
        }
        let room = room.saturating_sub(BETWEEN * (widths.len() - 1));
        let mut total: usize = widths.iter().sum();
        while total > room {
            let widest = widths.iter().copied().max().unwrap_or(0);
            let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(0).max(LEAST_COLUMN);
            if widest <= LEAST_COLUMN {
                break;
            }
            let count = widths.iter().filter(|width| **width == widest).count();
            let by = (total - room).div_ceil(count).min(widest - next);
            for width in widths.iter_mut().filter(|width| **width == widest) {
                let cut = by.min(total.saturating_sub(room));
                *width -= cut;
                total -= cut;
            }
        }
        widths
    }

    fn wrap(&self, row: &[String], heading: bool, style: Style) -> Vec<Vec<String>> {
        let ink = Ink { bold: heading, ..Ink::default() };
        row.iter().zip(&self.widths).map(|(cell, width)| lines(cell, *width, ink, style)).collect()
    }

    fn line(&self, row: &[Vec<String>], index: usize, style: Style) -> String {
        let mut out = String::new();
        for (column, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
            if column > 0 {
                out.push_str(&inked(" │ ", Ink::DIM, style));
            }
            let text = cell.get(index).map_or("", String::as_str);
            let free = width.saturating_sub(shown_width(text));
            let before = match self.sides[column] {
                Side::Left => 0,
                Side::Middle => free / 2,
                Side::Right => free,
            };
            out.push_str(&" ".repeat(before));
            out.push_str(text);
            if column + 1 < row.len() {
                out.push_str(&" ".repeat(free - before));
            }
        }
        out
    }

    fn rule(&self, style: Style) -> String {
        let parts: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
        inked(&parts.join("─┼─"), Ink::DIM, style)
    }

    fn draw_lists(&self, rows: &[Vec<String>], page: &mut Page) {
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                page.gap();
            }
            for (heading, cell) in self.headings.iter().zip(row) {
                inline::write_all(heading, Ink { bold: true, ..Ink::default() }, page);
                page.put_all(": ", Ink { bold: true, ..Ink::default() });
                inline::write_all(cell, Ink::default(), page);
                page.put('\n', Ink::default());
            }
        }
        if rows.is_empty() {
            inline::write_all(&self.headings.join(" | "), Ink { bold: true, ..Ink::default() }, page);
            page.put('\n', Ink::default());
        }
    }
}

/// A cell's text on lines of a width.
fn lines(cell: &str, width: usize, ink: Ink, style: Style) -> Vec<String> {
    let mut page = Page::exactly(width, style);
    inline::write_all(cell, ink, &mut page);
    page.put('\n', ink);
    page.take().lines().map(str::to_owned).collect()
}

/// The columns of text with our own colours in it.
fn shown_width(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, UnicodeWidthStr::width);
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| shown.width())).sum::<usize>()
}

/// The cells of a line; `\|` is no border.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match character {
            '\\' if characters.peek() == Some(&'|') => cell.extend(characters.next()),
            '|' => cells.push(String::new()),
            _ => cell.push(character),
        }
    }
    // The border at the end closes the last cell.
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
