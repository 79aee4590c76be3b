//! The table of `usage`: numbers that fit the terminal, and a bar beside them.

use std::io::Write;

use serde::Serialize;
use unforget_core::usage::Line;
use unforget_server::api::usage::{UsageNumbers, UsageRow, UsageSession};
use unicode_width::UnicodeWidthStr as _;

use super::{Row, Sums};
use crate::cli::By;
use crate::failure::Result;
use crate::screen;

/// Fewest and most columns of the bar.
const LEAST_BAR: usize = 8;
const MOST_BAR: usize = 30;
/// Widest name of a row on a terminal, and what it is not cut below.
const MOST_NAME: usize = 40;
const LEAST_NAME: usize = 14;
/// Eighths of a column.
const BLOCKS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `12.3k`, `4.6M`.
fn short(number: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    let mut value = number as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit.is_empty() { number.to_string() } else { format!("{value:.1}{unit}") }
}

/// Prints the rows with a total.
pub(crate) fn print(out: &mut impl Write, sums: &Sums, by: By) -> Result<()> {
    if sums.rows.is_empty() {
        writeln!(out, "Nothing was used in that time.")?;
        return Ok(());
    }
    for line in lines(sums, by, screen::columns()) {
        writeln!(out, "{line}")?;
    }
    if let Some(rate) = hit_rate(&sums.total.line) {
        writeln!(out, "Cache: {rate} of what was sent was read from it.")?;
    }
    Ok(())
}

/// The lines of the table for a terminal of that many columns; none for a pipe, which gets everything and no bar.
fn lines(sums: &Sums, by: By, columns: Option<usize>) -> Vec<String> {
    let rows = ordered(sums, by);
    let name_of = |name: &str, row: &Row| {
        let name = match &row.session {
            Some((_, title, trashed)) => {
                let trash = if *trashed { " (trash)" } else { "" };
                format!("{} {}{trash}", name.chars().take(13).collect::<String>(), title)
            }
            None => name.to_owned(),
        };
        let name = screen::one_line(&name);
        if columns.is_some() { screen::fit(&name, MOST_NAME) } else { name }
    };
    let head = match by {
        By::Day => "DAY",
        By::Week => "WEEK",
        By::Month => "MONTH",
        By::Model => "MODEL",
        By::Agent => "AGENT",
        By::Session => "SESSION",
    };
    let named: Vec<(String, &Row)> = rows.iter().map(|(name, row)| (name_of(name, row), *row)).collect();
    let table = |shape: &Shape| {
        let mut cells = vec![shape.heads(head)];
        cells.extend(named.iter().map(|(name, row)| shape.cells(name.clone(), row)));
        cells.push(shape.cells("total".to_owned(), &sums.total));
        let width = |column: usize| cells.iter().map(|cells| cells[column].width()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..cells[0].len()).map(width).collect();
        let numbers = widths[1..].iter().sum::<usize>() + 2 * (widths.len() - 1);
        if let Some(columns) = columns {
            // Names give way, numbers never do.
            widths[0] = widths[0].min(columns.saturating_sub(numbers).max(LEAST_NAME));
            cells.iter_mut().for_each(|cells| cells[0] = screen::fit(&cells[0], widths[0]));
        }
        let used = widths[0] + numbers;
        (cells, widths, used)
    };
    let fits = |shape: &&Shape| columns.is_none_or(|columns| table(shape).2 <= columns);
    let shape = SHAPES.iter().find(fits).unwrap_or(&NARROWEST);
    let (cells, widths, used) = table(shape);
    let room = columns.map_or(0, |columns| columns.saturating_sub(used + 2)).min(MOST_BAR);
    let weight = |row: &Row| {
        if sums.total.cost.picodollars > 0 { row.cost.picodollars } else { u128::from(row.line.tokens.total()) }
    };
    let most = rows.iter().map(|(_, row)| weight(row)).max().unwrap_or(0);
    let (dim, bold, cyan) =
        (anstyle::Style::new().dimmed(), anstyle::Style::new().bold(), anstyle::AnsiColor::Cyan.on_default());
    let last = cells.len() - 1;
    cells
        .iter()
        .enumerate()
        .map(|(index, cells)| {
            let mut line = screen::pad(&cells[0], widths[0]);
            for (cell, width) in cells.iter().zip(&widths).skip(1) {
                line.push_str(&format!("  {}{cell}", " ".repeat(width.saturating_sub(cell.width()))));
            }
            match index {
                0 => format!("{dim}{line}{dim:#}"),
                _ if index == last => format!("{bold}{line}{bold:#}"),
                _ if room < LEAST_BAR => line,
                _ => {
                    let bar = bar(weight(rows[index - 1].1), most, room);
                    format!("{line}  {cyan}{bar}{cyan:#}").trim_end().to_owned()
                }
            }
        })
        .collect()
}

/// Which numbers a table has, and how they are written.
struct Shape {
    number: fn(u64) -> String,
    /// Headings of the numbers before the cost; an empty one leaves the column out.
    heads: [&'static str; 7],
}

/// From wide to narrow.
const SHAPES: [Shape; 4] = [
    Shape { number: grouped, heads: ["TURNS", "CALLS", "TOOLS", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ"] },
    Shape { number: short, heads: ["TURNS", "CALLS", "TOOLS", "INPUT", "OUTPUT", "WRITTEN", "READ"] },
    Shape { number: short, heads: ["TURNS", "", "", "INPUT", "OUTPUT", "WRITTEN", "READ"] },
    NARROWEST,
];
const NARROWEST: Shape = Shape { number: short, heads: ["", "", "", "INPUT", "OUTPUT", "", ""] };

impl Shape {
    fn heads(&self, name: &str) -> Vec<String> {
        let numbers = self.heads.iter().filter(|head| !head.is_empty());
        std::iter::once(name).chain(numbers.copied()).chain(["COST"]).map(str::to_owned).collect()
    }

    fn cells(&self, name: String, row: &Row) -> Vec<String> {
        let Line { tokens, calls, turns, tools, .. } = row.line;
        let numbers = [turns, calls, tools, tokens.input, tokens.output, tokens.cache_write, tokens.cache_read];
        let shown = numbers.into_iter().zip(self.heads).filter(|(_, head)| !head.is_empty());
        let numbers = shown.map(|(number, _)| (self.number)(number));
        std::iter::once(name).chain(numbers).chain([row.cost.shown()]).collect()
    }
}

/// A bar of blocks; something is never nothing.
fn bar(value: u128, most: u128, columns: usize) -> String {
    if value == 0 || most == 0 {
        return String::new();
    }
    let eighths = (value.saturating_mul(columns as u128 * 8) / most).max(1);
    let eighths = usize::try_from(eighths).unwrap_or(columns * 8).min(columns * 8);
    format!("{}{}", "█".repeat(eighths / 8), BLOCKS[eighths % 8])
}

/// Times in order; everything else by cost, then by tokens.
fn ordered(sums: &Sums, by: By) -> Vec<(&String, &Row)> {
    let mut rows: Vec<(&String, &Row)> = sums.rows.iter().collect();
    if matches!(by, By::Model | By::Agent | By::Session) {
        let weight = |row: &Row| (row.cost.picodollars, row.line.tokens.total());
        rows.sort_by(|a, b| weight(b.1).cmp(&weight(a.1)).then_with(|| a.0.cmp(b.0)));
    }
    rows
}

/// `83%`; nothing if nothing was sent.
pub(crate) fn hit_rate(line: &Line) -> Option<String> {
    let (read, all) = (u128::from(line.tokens.cache_read), u128::from(line.tokens.prompt()));
    (all > 0).then(|| format!("{}%", read * 100 / all))
}

/// A row as `--json` prints it: as the server's table has it, and the tokens without a price.
#[derive(Serialize)]
struct Printed {
    #[serde(flatten)]
    row: UsageRow,
    unpriced_tokens: u64,
    /// True for the last line, which is the sum of all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<bool>,
}

impl Printed {
    fn of(row: &Row) -> Self {
        let of_session = row.session.as_ref().map(|(key, title, trashed)| UsageSession {
            key: Some(key.clone()),
            title: Some(title.clone()),
            trashed: *trashed,
        });
        let numbers = UsageNumbers::of(&row.line, &row.cost);
        let shown = UsageRow { of_session, numbers, ..UsageRow::default() };
        Self { row: shown, unpriced_tokens: row.cost.unpriced, total: None }
    }
}

/// Prints the rows and a total, one object a line.
pub(crate) fn json(out: &mut impl Write, sums: &Sums, by: By) -> Result<()> {
    for (value, row) in ordered(sums, by) {
        let mut printed = Printed::of(row);
        let name = match by {
            By::Day => &mut printed.row.day,
            By::Week => &mut printed.row.week,
            By::Month => &mut printed.row.month,
            By::Model => &mut printed.row.model,
            By::Agent => &mut printed.row.agent,
            By::Session => &mut printed.row.session,
        };
        *name = Some(value.clone());
        screen::json_line(out, &printed)?;
    }
    screen::json_line(out, &Printed { total: Some(true), ..Printed::of(&sums.total) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use unforget_core::usage::Tokens;

    use super::*;
    use unforget_agent::prices::Cost;

    fn row(input: u64, dollars: u128) -> Row {
        let tokens = Tokens { input, cache_read: input, ..Tokens::default() };
        let cost = Cost { picodollars: dollars * 1_000_000_000_000, unpriced: 0 };
        Row { line: Line { tokens, calls: 2, ..Line::default() }, cost, session: None }
    }

    fn sums() -> Sums {
        let rows = [("2026-01-01".to_owned(), row(1_234_567, 1)), ("2026-01-02".to_owned(), row(1000, 4))];
        Sums { rows: rows.into(), total: row(1_235_567, 5), ..Sums::default() }
    }

    fn plain(columns: Option<usize>, by: By) -> Vec<String> {
        lines(&sums(), by, columns).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn a_pipe_gets_all_digits_and_no_bar() {
        assert_eq!(
            plain(None, By::Day),
            [
                "DAY         TURNS  CALLS  TOOLS      INPUT  OUTPUT  CACHE WRITE  CACHE READ   COST",
                "2026-01-01      0      2      0  1,234,567       0            0   1,234,567  $1.00",
                "2026-01-02      0      2      0      1,000       0            0       1,000  $4.00",
                "total           0      2      0  1,235,567       0            0   1,235,567  $5.00",
            ]
        );
    }

    #[test]
    fn a_terminal_gets_a_bar_as_far_as_there_is_room() {
        let wide = plain(Some(100), By::Day);
        assert!(wide[1].ends_with("  ████") && wide[2].ends_with(&"█".repeat(16)), "{wide:?}");
        assert!(wide.iter().all(|line| line.width() <= 100));
        let narrow = plain(Some(78), By::Day);
        assert!(narrow[1].contains("1.2M") && narrow.iter().all(|line| line.width() <= 78), "{narrow:?}");
        for columns in [40, 60, 70] {
            let lines = plain(Some(columns), By::Day);
            assert!(lines.iter().all(|line| line.width() <= columns && !line.contains('…')), "{lines:?}");
            assert!(lines[1].contains("1.2M") && lines[1].contains("$1.00"), "{lines:?}");
        }
    }

    #[test]
    fn what_is_no_time_is_ordered_by_cost() {
        let lines = plain(None, By::Model);
        assert!(lines[1].starts_with("2026-01-02") && lines[2].starts_with("2026-01-01"), "{lines:?}");
    }

    #[test]
    fn numbers_are_short_and_a_little_is_not_nothing() {
        assert_eq!([short(999), short(1000), short(999_999), short(u64::MAX)], ["999", "1.0k", "1.0M", "18.4E"]);
        assert_eq!([grouped(0), grouped(999), grouped(1_000_000)], ["0", "999", "1,000,000"]);
        assert_eq!([bar(1, 1_000_000, 10), bar(0, 5, 10), bar(5, 5, 3)], ["▏", "", "███"]);
        assert_eq!(hit_rate(&row(50, 0).line).as_deref(), Some("50%"));
    }
}
