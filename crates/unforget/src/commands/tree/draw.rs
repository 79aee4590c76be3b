//! A tree as rows of a terminal: time goes down, a branch stands to the right of the line that it left.
//!
//! Steps without a fork among them are one row: its first words, how many turns, how long ago. Below it stand names,
//! summaries and the head, each with its record. No row is wider than the page, whatever is in it, and a tree that is deeper
//! than the page is wide is drawn with its deepest lines in one column.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use unforget_core::tree::{Kind, Line, Stretch, Tree};
use unicode_width::UnicodeWidthStr as _;

use crate::screen;

/// How wide rows are where nobody says how wide the page is.
const WIDTH: usize = 100;
/// No page is taken to be narrower or wider than this.
const NARROWEST: usize = 30;
const WIDEST: usize = 120;
/// So many lines stand beside each other at most.
const MAX_DEPTH: usize = 12;

/// What is drawn on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) columns: usize,
    pub(super) marks: &'static Marks,
    pub(super) now_ms: i64,
}

/// The characters of the picture.
#[derive(Debug)]
pub(super) struct Marks {
    dot: &'static str,
    turn: &'static str,
    bar: &'static str,
    tee: &'static str,
    checkpoint: &'static str,
    here: &'static str,
    between: &'static str,
}

pub(super) static LINES: Marks =
    Marks {
        dot: "●", turn: "○", bar: "│ ", tee: "├─", checkpoint: "◆ ", here: "← here", between: " · "
    };
pub(super) static ASCII: Marks =
    Marks { dot: "*", turn: "o", bar: "| ", tee: "|-", checkpoint: "@ ", here: "<- here", between: ", " };

impl Page {
    pub(super) fn of_this_terminal(now_ms: i64) -> Self {
        let columns = screen::columns().unwrap_or(WIDTH).clamp(NARROWEST, WIDEST);
        Self { columns, marks: if screen::draws_lines() { &LINES } else { &ASCII }, now_ms }
    }
}

/// The rows of the picture, with a headline.
pub(super) fn rows(tree: &Tree, lines: &[Line], page: &Page) -> Vec<String> {
    let turns = lines.iter().flat_map(|line| &line.stretches).map(|stretch| stretch.turns).sum::<u64>();
    let head = tree.head().map_or("before the first record".to_owned(), |n| format!("at record {n}"));
    let on = tree.current().map_or(String::new(), |name| format!(" on `{}`", screen::one_line(name)));
    let title = [count(tree.branches().len() as u64, "branch"), count(turns, "turn"), format!("{head}{on}")]
        .join(page.marks.between);
    let mut rows = vec![screen::fit(&title, page.columns)];
    // Behind a stretch come the lines that hang on it, then the next stretch of its own line.
    let roots = (0..lines.len()).rev().filter(|at| lines[*at].from.is_none());
    let mut open: Vec<(usize, usize, usize)> = roots.map(|at| (at, 0, 0)).collect();
    while let Some((at, index, depth)) = open.pop() {
        let Some((line, stretch)) = lines.get(at).and_then(|line| Some((line, line.stretches.get(index)?))) else {
            continue;
        };
        let goes_on = index + 1 < line.stretches.len();
        draw_stretch(stretch, Position { depth: depth.min(MAX_DEPTH), is_first: index == 0, goes_on }, page, &mut rows);
        if goes_on {
            open.push((at, index + 1, depth));
        }
        open.extend(stretch.children.iter().rev().map(|child| (*child, 0, depth + 1)));
    }
    rows
}

/// Where a stretch is.
#[derive(Debug, Clone, Copy)]
struct Position {
    depth: usize,
    /// The first of its line.
    is_first: bool,
    /// There is another one below it.
    goes_on: bool,
}

fn draw_stretch(stretch: &Stretch, position: Position, page: &Page, rows: &mut Vec<String>) {
    let marks = page.marks;
    let left = |is_first: bool| match position.depth {
        0 => String::new(),
        depth if is_first => marks.bar.repeat(depth - 1) + marks.tee,
        depth => marks.bar.repeat(depth),
    };
    let mut notes = notes(stretch, marks).into_iter().peekable();
    let below = if position.goes_on { marks.bar } else { "  " };
    let mut note_rows = |until: u64, rows: &mut Vec<String>| {
        while let Some((n, (text, style))) = notes.next_if(|(n, _)| *n < until) {
            let lead = format!("{}{below} ", left(false));
            let room = page.columns.saturating_sub(lead.width());
            let text = screen::fit(&format!("{n} {text}"), room);
            rows.push(format!("{lead}{style}{text}{style:#}"));
        }
    };
    let ago = |ms| screen::ago(ms, page.now_ms);
    let first_mark = format!("{}{}", left(position.is_first), marks.dot);
    let Some(first) = stretch.said.first() else {
        let words = stretch
            .answer
            .as_ref()
            .map_or("(nothing was said here)".to_owned(), |answer| format!("assistant: {answer}"));
        rows.push(row(&first_mark, stretch.first, &words, &ago(stretch.last_ms), page));
        note_rows(u64::MAX, rows);
        return;
    };
    let right = match stretch.said.len() {
        1 => format!("{}{}{}", count(stretch.turns, "turn"), marks.between, ago(stretch.last_ms)),
        _ => ago(first.ms),
    };
    note_rows(first.n, rows);
    rows.push(row(&first_mark, first.n, &first.words, &right, page));
    for said in &stretch.said[1..] {
        note_rows(said.n, rows);
        rows.push(row(&format!("{}{}", left(false), marks.turn), said.n, &said.words, &ago(said.ms), page));
    }
    note_rows(u64::MAX, rows);
}

/// Names, summaries and the head by their record.
fn notes(stretch: &Stretch, marks: &Marks) -> BTreeMap<u64, (String, Style)> {
    let mut notes: BTreeMap<u64, (Vec<String>, Style)> = BTreeMap::new();
    let blue = AnsiColor::Blue.on_default();
    for n in &stretch.compactions {
        notes.entry(*n).or_insert((Vec::new(), blue)).0.push("summary of what is above".to_owned());
    }
    let yellow = AnsiColor::Yellow.on_default();
    for named in &stretch.names {
        let name = screen::one_line(&named.name);
        let entry = notes.entry(named.n).or_insert((Vec::new(), yellow));
        entry.0.push(match named.kind {
            Kind::Branch => format!("[{name}]"),
            Kind::Checkpoint => format!("{}{name}", marks.checkpoint),
        });
    }
    if let Some(head) = stretch.head {
        let entry = notes.entry(head).or_insert((Vec::new(), yellow));
        entry.0.push(marks.here.to_owned());
        entry.1 = AnsiColor::Green.on_default().bold();
    }
    notes.into_iter().map(|(n, (texts, style))| (n, (texts.join(" "), style))).collect()
}

/// One row: the picture, the record, the words, and something at the right edge.
fn row(mark: &str, n: u64, words: &str, right: &str, page: &Page) -> String {
    let (cyan, dim) = (AnsiColor::Cyan.on_default(), Style::new().dimmed());
    let number = n.to_string();
    let used = mark.width() + number.width() + right.width() + 4;
    let room = page.columns.saturating_sub(used).max(1);
    let words = screen::pad(&screen::fit(&screen::one_line(words), room), room);
    let line = format!("{cyan}{mark}{cyan:#} {dim}{number}{dim:#} {words}  {dim}{right}{dim:#}");
    // A page that is too narrow for both has the words.
    if used >= page.columns {
        format!("{mark} {}", screen::fit(&format!("{number} {words}"), page.columns.saturating_sub(mark.width() + 1)))
    } else {
        line
    }
}

fn count(number: u64, what: &str) -> String {
    let ending = if what.ends_with('h') { "es" } else { "s" };
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}{ending}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unforget_core::scan::scan;
    use unforget_core::tree::{Detail, Outline};

    fn drawn(text: &str, detail: Detail, page: &Page) -> Vec<String> {
        let records = scan(text.as_bytes()).records;
        let mut tree = Tree::default();
        records.iter().for_each(|record| tree.feed(record));
        let mut outline = Outline::new(&tree, detail);
        records.iter().for_each(|record| outline.feed(record));
        let rows = rows(&tree, &outline.finish(), page);
        rows.iter().map(|row| anstream::adapter::strip_str(row).to_string()).collect()
    }

    fn said(n: u64, parent: u64, words: &str) -> String {
        format!(
            "{{\"v\":1,\"n\":{n},\"parent\":{parent},\"type\":\"user\",\"ts\":\"2026-01-01T00:00:00.000Z\",\"content\":\"{words}\"}}\n"
        )
    }

    const PAGE: Page = Page { columns: 60, marks: &LINES, now_ms: 1_767_225_600_000 };

    fn branched() -> String {
        let header = "{\"v\":1,\"n\":0,\"type\":\"session\",\"id\":\"x\"}\n".to_owned();
        [
            header,
            said(1, 0, "plan a trip"),
            said(2, 1, "to Japan"),
            "{\"v\":1,\"n\":3,\"type\":\"label\",\"to\":2,\"name\":\"before\"}\n".to_owned(),
            said(4, 2, "by plane"),
            "{\"v\":1,\"n\":5,\"type\":\"label\",\"to\":4,\"name\":\"air\",\"as\":\"branch\"}\n".to_owned(),
            "{\"v\":1,\"n\":6,\"type\":\"head\",\"to\":2,\"branch\":\"main\"}\n".to_owned(),
            said(7, 2, "夜行列車で行きたい、できれば寝台で、海の見える席がいいです"),
            "{\"v\":1,\"n\":8,\"parent\":7,\"type\":\"compaction\",\"summary\":\"s\"}\n".to_owned(),
        ]
        .concat()
    }

    #[test]
    fn branches_stand_beside_the_line_that_they_left() {
        assert_eq!(
            drawn(&branched(), Detail::Folded, &PAGE),
            [
                "2 branches · 4 turns · at record 8 on `main`",
                "● 1 plan a trip                           2 turns · just now",
                "│  2 ◆ before",
                "├─● 7 夜行列車で行きたい、できれば寝台で…  1 turn · just now",
                "│    8 summary of what is above [main] ← here",
                "● 4 by plane                               1 turn · just now",
                "   4 [air]",
            ]
        );
    }

    #[test]
    fn every_turn_has_a_row_if_that_is_wanted() {
        let rows = drawn(&branched(), Detail::EveryTurn, &Page { marks: &ASCII, ..PAGE });
        assert_eq!(rows[1].trim_end(), "* 1 plan a trip                                     just now");
        assert_eq!(rows[2].trim_end(), "o 2 to Japan                                        just now");
        assert!(
            rows.iter()
                .all(|row| row.replace(|c: char| c > '\u{2fff}', "").trim_end_matches('…').is_ascii()
                    || row.contains('…'))
        );
    }

    #[test]
    fn no_row_is_wider_than_the_page() {
        let mut text = branched();
        // A branch of a branch of a branch.
        for n in 9..60 {
            text += &format!(
                "{{\"v\":1,\"n\":{},\"type\":\"head\",\"to\":{}}}\n",
                2 * n,
                if n % 2 == 0 { 7 } else { 2 * n - 3 }
            );
            text += &said(2 * n + 1, if n == 9 { 7 } else { 2 * n - 1 }, "more of it");
            text += &said(2 * n + 201, 2 * n - 1, "\u{1b}[2J and something else entirely, which is long");
        }
        for columns in [30, 60, 120] {
            for row in drawn(&text, Detail::EveryTurn, &Page { columns, ..PAGE }) {
                assert!(row.width() <= columns && !row.contains('\u{1b}'), "{columns}: {row}");
            }
        }
    }

    #[test]
    fn a_row_without_the_users_words_has_those_of_the_answer() {
        let text = [
            "{\"v\":1,\"n\":0,\"type\":\"session\",\"id\":\"x\"}\n".to_owned(),
            said(1, 0, "hello"),
            "{\"v\":1,\"n\":2,\"parent\":1,\"type\":\"assistant\",\"content\":\"one\"}\n".to_owned(),
            "{\"v\":1,\"n\":3,\"type\":\"head\",\"to\":1}\n".to_owned(),
            "{\"v\":1,\"n\":4,\"parent\":1,\"type\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"two\"}]}\n".to_owned(),
        ];
        let rows = drawn(&text.concat(), Detail::Folded, &PAGE);
        assert!(rows[2].starts_with("├─● 4 assistant: two") && rows[4].starts_with("● 2 assistant: one"), "{rows:#?}");
    }
}
