//! `diff`: where two lines of a conversation part, and what each says since.
//!
//! What both say word for word behind the fork (the same request, asked again) is counted and not shown. Payloads that are
//! elsewhere are shown by their beginning: this is a look, not an export.

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use unforget_core::edit::Target;
use unforget_core::json::quote;
use unforget_core::reader::LogReader;
use unforget_core::record::Record;
use unforget_core::scan::Scanner;
use unforget_core::tree::{Place, Trail, Tree};
use unicode_width::UnicodeWidthStr as _;

use crate::cli::Diff;
use crate::commands::{Context, conversation, wrap};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// From this many columns on, both lines stand beside each other.
const WIDE: usize = 110;
/// What stands between them.
const BETWEEN: &str = " | ";
const BETWEEN_LINES: &str = " │ ";

/// One of the two lines.
struct Side {
    /// How it was asked for, or the branch that it is.
    name: String,
    tip: u64,
    trail: Trail,
    pieces: Vec<Piece>,
}

/// What one record shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    n: u64,
    who: &'static str,
    what: String,
    text: String,
    raw: String,
    style: Style,
}

impl Piece {
    /// Whether both say the same, whatever their numbers and ids are.
    fn says_the_same(&self, other: &Self) -> bool {
        (self.who, &self.text) == (other.who, &other.text)
    }
}

pub(crate) fn run(context: &Context, args: &Diff) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    let reader = transcript.reader()?;
    let tree = Tree::read(&reader)?;
    let (a, b) = sides(&tree, args.a.as_deref(), args.b.as_deref())?;
    let parting = a.trail.parting(&b.trail);
    let mut sides = [a, b];
    fill(&reader, &mut sides)?;
    let [a, b] = &mut sides;
    let same = a.pieces.iter().zip(&b.pieces).take_while(|(a, b)| a.says_the_same(b)).count();
    a.pieces.drain(..same);
    b.pieces.drain(..same);
    if context.json { json(&sides, parting, same) } else { show(&sides, parting, same) }
}

/// The two lines that are meant; without names the head and the tip that was written last beside it.
fn sides(tree: &Tree, a: Option<&str>, b: Option<&str>) -> Result<(Side, Side)> {
    let first = match a {
        Some(text) => text.parse::<Target>()?.step(tree)?,
        None => tree.head().ok_or_else(|| Failure::usage("nothing was said yet"))?,
    };
    let trail_a = tree.path_to(first).unwrap_or_default();
    let second = match b {
        Some(text) => text.parse::<Target>()?.step(tree)?,
        None => {
            let branches = tree.branches();
            let others = branches.iter().filter(|branch| branch.first.is_some() && !trail_a.has(branch.tip));
            let latest = others.max_by_key(|branch| (branch.last_ms, branch.tip));
            let only =
                || Failure::usage("there is no other line to compare with").hint("`unforget tree REF` shows them");
            latest.ok_or_else(only)?.tip
        }
    };
    let trail_b = tree.path_to(second).unwrap_or_default();
    let side = |tip, trail, asked: Option<&str>| Side { name: name(tree, tip, asked), tip, trail, pieces: Vec::new() };
    Ok((side(first, trail_a, a), side(second, trail_b, b)))
}

fn name(tree: &Tree, tip: u64, asked: Option<&str>) -> String {
    let named = tree.labels().into_iter().find(|label| label.to == Some(tip)).map(|label| label.name);
    let named = asked.filter(|text| text.parse::<u64>().is_err()).map(str::to_owned).or(named);
    let here = if tree.head() == Some(tip) { ", where the conversation is" } else { "" };
    match named {
        Some(name) => format!("{name} (record {tip}{here})"),
        None => format!("record {tip}{here}"),
    }
}

/// Reads what each line says behind the parting.
fn fill(reader: &LogReader, sides: &mut [Side; 2]) -> Result<()> {
    let mut now = Tree::default();
    let mut scanner = Scanner::default();
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| {
            now.feed(&record);
            let Some(place) = now.last().filter(|_| record.is_step()) else { return };
            let on = sides.each_ref().map(|side| side.trail.holds(place));
            for (side, is_on) in sides.iter_mut().zip(on) {
                if is_on && on != [true, true] {
                    side.pieces.extend(pieces(&record));
                }
            }
        });
    }
    Ok(())
}

fn pieces(record: &Record<'_>) -> Vec<Piece> {
    let shown = conversation::shown(record).into_iter();
    let piece = |shown: conversation::Shown<'_>| Piece {
        n: record.n,
        who: shown.who,
        what: shown.what.clone(),
        text: conversation::text(&shown),
        raw: record.raw.to_owned(),
        style: shown.style,
    };
    shown.map(piece).collect()
}

fn show(sides: &[Side; 2], parting: Option<Place>, same: usize) -> Result<Outcome> {
    let mut out = anstream::stdout().lock();
    let [a, b] = sides;
    let where_ = parting
        .map_or("They have nothing in common.".to_owned(), |place| format!("They part behind record {}.", place.n));
    let same = match same {
        0 => String::new(),
        1 => " One record behind it says the same in both.".to_owned(),
        count => format!(" {count} records behind it say the same in both."),
    };
    writeln!(out, "{where_}{same}")?;
    if a.pieces.is_empty() && b.pieces.is_empty() {
        writeln!(out, "They do not differ.")?;
        return Ok(Outcome::Done);
    }
    match screen::columns().filter(|columns| *columns >= WIDE) {
        Some(columns) => {
            let between = if screen::draws_lines() { BETWEEN_LINES } else { BETWEEN };
            let width = columns.saturating_sub(between.width()) / 2;
            let (left, right) = (lines(a, width), lines(b, width));
            let blank = (String::new(), Style::new());
            for at in 0..left.len().max(right.len()) {
                let (text, style) = left.get(at).unwrap_or(&blank);
                let (text_b, style_b) = right.get(at).unwrap_or(&blank);
                let text = screen::pad(text, width);
                writeln!(out, "{style}{text}{style:#}{between}{style_b}{text_b}{style_b:#}")?;
            }
        }
        None => {
            let width = screen::columns().unwrap_or(usize::MAX);
            for side in sides {
                writeln!(out)?;
                for (text, style) in lines(side, width) {
                    writeln!(out, "{style}{text}{style:#}")?;
                }
            }
        }
    }
    Ok(Outcome::Done)
}

/// A line of conversation as lines of text.
fn lines(side: &Side, width: usize) -> Vec<(String, Style)> {
    let mut out = vec![(screen::fit(&screen::one_line(&side.name), width), AnsiColor::Yellow.on_default().bold())];
    if side.pieces.is_empty() {
        out.push(("     (nothing more)".to_owned(), Style::new().dimmed()));
    }
    for piece in &side.pieces {
        let what = if piece.what.is_empty() { String::new() } else { format!(" {}", screen::one_line(&piece.what)) };
        out.push((screen::fit(&format!("{:>4} {}{what}", piece.n, piece.who), width), piece.style));
        for line in screen::safe(&piece.text).lines() {
            let rows = wrap::wrap(line, width.saturating_sub(5));
            out.extend(rows.into_iter().map(|row| (format!("     {row}").trim_end().to_owned(), Style::new())));
        }
    }
    out
}

/// Where they part, then one object a record.
fn json(sides: &[Side; 2], parting: Option<Place>, same: usize) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let parting = parting.map_or("null".to_owned(), |place| place.n.to_string());
    let [a, b] = sides;
    writeln!(out, "{{\"parting\":{parting},\"same\":{same},\"a\":{},\"b\":{}}}", a.tip, b.tip)?;
    for (name, side) in ["a", "b"].into_iter().zip(sides) {
        let mut last = None;
        for piece in side.pieces.iter().filter(|piece| last.replace(piece.n) != Some(piece.n)) {
            let line = format!("{{\"side\":{},\"n\":{},\"record\":{}}}\n", quote(name), piece.n, piece.raw);
            screen::write_stored(&mut out, line.as_bytes())?;
        }
    }
    Ok(Outcome::Done)
}
