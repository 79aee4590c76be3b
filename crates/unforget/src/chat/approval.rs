//! What a person is shown before a tool runs, always whole on one screen.
//!
//! Whoever writes a command wants it to be allowed: it may be padded with blanks until its end is out of sight, be too long
//! for a screen, or follow words that look like another question. So the rows are made here and bounded: runs of
//! blanks are counted, long lines are broken, and what does not fit is folded with its count and can be looked at page
//! by page. Each row begins with a bar that `screen` lets nothing else draw.

use unforget_agent::tools::Call;
use unforget_core::json;
use unicode_width::UnicodeWidthChar as _;

use crate::screen;

/// What each row begins with.
pub(crate) const BAR: char = screen::BAR;
/// A longer run of blanks is told by its length.
const MOST_BLANKS: usize = 12;
/// A longer run of empty lines is told by its length.
const MOST_EMPTY: usize = 2;
/// Rows that belong to the header, the fold, the question and an answer of two rows.
const AROUND: usize = 7;
/// The fewest rows that are shown of a call.
const FEWEST: usize = 3;
/// The narrowest screen that rows are made for.
const NARROWEST: usize = 20;
/// A longer name of a tool is cut.
const NAME_COLUMNS: usize = 40;

/// A call, as rows for a screen of a certain size.
#[derive(Debug)]
pub(crate) struct Sheet {
    header: String,
    rows: Vec<String>,
    room: usize,
}

impl Sheet {
    /// The rows of a call for a screen with this many columns and lines.
    pub(crate) fn new(call: &Call, columns: usize, lines: usize) -> Self {
        let width = columns.max(NARROWEST) - 3;
        let outside = if unforget_agent::tools::is_outside(call) { " OUTSIDE THE SANDBOX" } else { "" };
        let name = screen::fit(&screen::one_line(&call.name), NAME_COLUMNS);
        let rows = arguments(call).iter().flat_map(|line| broken(line, width)).collect();
        Self { header: format!("{name} wants to run{outside}:"), rows, room: lines.saturating_sub(AROUND).max(FEWEST) }
    }

    /// The first line.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// Whether some rows are not shown at first.
    pub(crate) fn is_folded(&self) -> bool {
        self.rows.len() > self.room
    }

    /// What is shown with the question: all rows, or the first and the last with a count between them.
    pub(crate) fn shown(&self) -> Vec<String> {
        if !self.is_folded() {
            return self.rows.clone();
        }
        // The end of a command counts as much as its beginning.
        let last = self.room / 3;
        let first = self.room - last;
        let hidden = self.rows.len() - first - last;
        let mut shown = self.rows[..first].to_vec();
        shown.push(format!("⟨{hidden} of {} rows are not shown; `v` shows them⟩", self.rows.len()));
        shown.extend_from_slice(&self.rows[self.rows.len() - last..]);
        shown
    }

    /// All rows, in pages that fit.
    pub(crate) fn pages(&self) -> Vec<&[String]> {
        self.rows.chunks(self.room).collect()
    }
}

/// The arguments, each with its name, without anything that is not seen.
fn arguments(call: &Call) -> Vec<String> {
    let members = json::members(&call.input).unwrap_or_default();
    let mut lines = Vec::new();
    if members.is_empty() && call.input.trim() != "{}" {
        lines.push(counted(&screen::safe(&call.input)));
    }
    for (name, value) in &members {
        let text = json::string(value).map_or_else(|| (*value).to_owned(), std::borrow::Cow::into_owned);
        let text = screen::safe(&text).into_owned();
        let mut empty = 0;
        let told = |empty: &mut usize, lines: &mut Vec<String>| match std::mem::take(empty) {
            few @ 0..=MOST_EMPTY => lines.extend(std::iter::repeat_n(String::new(), few)),
            many => lines.push(format!("  ⟨{many} empty lines⟩")),
        };
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 && line.trim().is_empty() {
                empty += 1;
                continue;
            }
            told(&mut empty, &mut lines);
            let line = counted(line);
            let name = screen::fit(&screen::one_line(name), NAME_COLUMNS);
            lines.push(if number == 0 { format!("{name}: {line}") } else { format!("  {line}") });
        }
        told(&mut empty, &mut lines);
    }
    lines
}

/// The line with long runs of blanks counted.
fn counted(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut run = String::new();
    let end = |out: &mut String, run: &mut String| {
        match run.chars().count() {
            few @ 0..=MOST_BLANKS => out.extend(std::iter::repeat_n(' ', few)),
            many => out.push_str(&format!("⟨{many} blanks⟩")),
        }
        run.clear();
    };
    for character in line.chars() {
        if character.is_whitespace() || character == '\u{2800}' {
            run.push_str(if character == '\t' { "    " } else { " " });
            continue;
        }
        end(&mut out, &mut run);
        out.push(character);
    }
    end(&mut out, &mut run);
    out
}

/// The line in pieces of at most this width.
fn broken(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for character in line.chars() {
        let columns = character.width().unwrap_or(0);
        if used + columns > width {
            rows.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(row) = rows.last_mut() {
            row.push(character);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sheet(command: &str) -> Sheet {
        let input = json!({"command": command}).to_string();
        Sheet::new(&Call { id: "call".to_owned(), name: "bash".to_owned(), input }, 80, 24)
    }

    #[test]
    fn s10_blanks_and_empty_lines_are_counted_and_hide_nothing() {
        let padded = format!("ls{}; rm -rf ~", " ".repeat(3000));
        assert_eq!(sheet(&padded).shown(), ["command: ls⟨3000 blanks⟩; rm -rf ~"]);
        let padded = format!("ls{}rm -rf ~", "\n".repeat(500));
        assert_eq!(sheet(&padded).shown(), ["command: ls", "  ⟨499 empty lines⟩", "  rm -rf ~"]);
        let padded = format!("ls {}; rm -rf ~", "\u{a0}\u{3000}\u{2800}\t".repeat(100));
        assert_eq!(sheet(&padded).shown(), ["command: ls⟨701 blanks⟩; rm -rf ~"]);
        assert_eq!(sheet("if x; then\n    y\n\nfi").shown(), ["command: if x; then", "      y", "", "  fi"]);
    }

    #[test]
    fn s10_what_does_not_fit_is_folded_with_its_count_and_both_ends() {
        let lines: Vec<String> = (0..200).map(|number| format!("echo {number}")).collect();
        let long = sheet(&lines.join("\n"));
        let shown = long.shown();
        assert!(long.is_folded() && shown.len() <= 24 - 6, "{}", shown.len());
        assert_eq!((shown[0].as_str(), shown.last().unwrap().as_str()), ("command: echo 0", "  echo 199"));
        assert!(shown.iter().any(|row| row.contains("183 of 200 rows are not shown")), "{shown:?}");
        assert_eq!(long.pages().concat().len(), 200);
        let wide = sheet(&"x".repeat(1_000_000));
        assert!(wide.shown().iter().all(|row| row.chars().count() <= 77) && wide.shown().len() <= 18);
    }

    #[test]
    fn s10_a_command_cannot_draw_the_bar_of_the_question() {
        let imitation = sheet("true\n▐ Allow? [y]es\u{200b}\u{e0041}\u{202e}").shown().join("\n");
        assert!(!imitation.contains(BAR) && imitation.contains("| Allow?"), "{imitation}");
        assert!(imitation.ends_with("[y]es<U+200B><U+E0041><U+202E>"), "{imitation}");
    }
}
