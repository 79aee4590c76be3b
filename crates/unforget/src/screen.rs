//! What reaches a person's eyes: safe text, short times, tables that fit.
//!
//! Stored text is data. On its way to a terminal, everything that could move the cursor, change colours or turn
//! the writing direction is made visible instead of being obeyed.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write};

use unforget_core::json::needs_care;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What the rows of a question begin with. Nothing that is shown can draw it.
pub(crate) const BAR: char = '\u{2590}';

/// Text that a terminal shows and does not obey; line feeds and tabs stay.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    let mut before = None;
    let mut is_harmless = |c: char| matches!(c, '\n' | '\t') || is_plain(before.replace(c), c);
    if text.chars().all(&mut is_harmless) {
        return Cow::Borrowed(text);
    }
    before = None;
    let mut is_harmless = |c: char| matches!(c, '\n' | '\t') || is_plain(before.replace(c), c);
    Cow::Owned(text.chars().flat_map(|c| if is_harmless(c) { vec![c] } else { visible(c) }).collect())
}

/// Whether a character is shown as it is behind another one: it is seen, obeyed by nothing, and not the bar of a question.
///
/// Joiners and variants that emoji and some scripts are written with leave no mark of their own, and stay only where they
/// mean something: directly behind a character beyond ASCII.
pub(crate) fn is_plain(before: Option<char>, character: char) -> bool {
    let joins = matches!(character, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    let is_behind =
        |before: char| !before.is_ascii() && !needs_care(before) && (!is_unseen(before) || before == '\u{fe0f}');
    // Keycaps are digits with a variant.
    let is_keycap = |before: char| character == '\u{fe0f}' && (before.is_ascii_digit() || matches!(before, '#' | '*'));
    match joins {
        true => before.is_some_and(|before| is_behind(before) || is_keycap(before)),
        false => !needs_care(character) && !is_unseen(character) && character != BAR,
    }
}

/// Whether a character leaves no mark: text can be hidden in such, or between them.
fn is_unseen(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text on one line.
pub(crate) fn one_line(text: &str) -> String {
    safe(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// `␛` for an escape, `<U+202E>` for a character that turns the text around.
fn visible(character: char) -> Vec<char> {
    match u32::from(character) {
        _ if character == BAR => vec!['|'],
        code @ 0..=0x1f => char::from_u32(0x2400 + code).into_iter().collect(),
        0x7f => vec!['\u{2421}'],
        code => format!("<U+{code:04X}>").chars().collect(),
    }
}

/// Stored bytes on their way out: as they are into a pipe or a file, made safe on a terminal.
pub(crate) fn write_stored(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() {
        out.write_all(safe(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        out.write_all(bytes)
    }
}

/// A value as one line of JSON.
pub(crate) fn json_line(out: &mut impl Write, value: &impl serde::Serialize) -> std::io::Result<()> {
    write_stored(out, serde_json::to_string(value)?.as_bytes())?;
    writeln!(out)
}

/// Cuts text to a width in columns, with an ellipsis.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut width = 1;
    for character in text.chars() {
        width += character.width().unwrap_or(0);
        if width > columns {
            break;
        }
        out.push(character);
    }
    out.push('…');
    out
}

/// Cuts a path to a width in columns; its end says more than its beginning.
pub(crate) fn fit_path(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut width = 1;
    let fits = |character: &char| {
        width += character.width().unwrap_or(0);
        width <= columns
    };
    let end: Vec<char> = text.chars().rev().take_while(fits).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

/// Fewest characters of an id that are shown.
const SHORT_ID: usize = 8;
/// Length of a whole one.
const WHOLE_ID: usize = 36;

/// How many characters tell ids apart.
pub(crate) fn telling<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let shared = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let longest = ids.windows(2).map(shared).max().unwrap_or(0);
    (longest + 1).clamp(SHORT_ID, WHOLE_ID)
}

/// Fills text up to a width in columns.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let mut out = text.to_owned();
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(text.width())));
    out
}

/// The width of the terminal, if there is one.
pub(crate) fn columns() -> Option<usize> {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
}

/// The height of the terminal, if there is one.
pub(crate) fn lines() -> Option<usize> {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_row))
        .filter(|lines| *lines > 0)
}

/// Whether lines and boxes can be drawn: the terminal speaks UTF-8 and is not one that can only print.
pub(crate) fn draws_lines() -> bool {
    let is_set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = is_set("LC_ALL").or_else(|| is_set("LC_CTYPE")).or_else(|| is_set("LANG")).unwrap_or_default();
    let locale = locale.to_lowercase();
    (locale.contains("utf-8") || locale.contains("utf8")) && is_set("TERM").as_deref() != Some("dumb")
}

/// How long ago something was: `just now`, `5m ago`, `3h ago`, `2d ago`, or the date.
pub(crate) fn ago(then_ms: Option<i64>, now_ms: i64) -> String {
    let Some(then_ms) = then_ms else { return "-".to_owned() };
    let seconds = now_ms.saturating_sub(then_ms) / 1000;
    match seconds {
        ..=59 => "just now".to_owned(),
        60..=3599 => format!("{}m ago", seconds / 60),
        3600..=86_399 => format!("{}h ago", seconds / 3600),
        86_400..=604_799 => format!("{}d ago", seconds / 86_400),
        _ => day(then_ms),
    }
}

/// `2026-01-31`, in the person's time zone.
fn day(ms: i64) -> String {
    local(ms).map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

/// `2026-01-31 14:05:09`, in the person's time zone.
pub(crate) fn time(ms: i64) -> String {
    local(ms).map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn local(ms: i64) -> Option<jiff::Zoned> {
    jiff::Timestamp::from_millisecond(ms).ok().map(|time| time.to_zoned(jiff::tz::TimeZone::system()))
}

/// `1 payload`, `2 payloads`.
pub(crate) fn number_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `812`, `12.3k`, `4.5M`: how many, in few characters.
pub(crate) fn count(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        1..=999 => count.to_string(),
        1_000..=999_949 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// `812 B`, `1.4 MB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z12_terminal_escapes_and_direction_marks_become_visible() {
        assert_eq!(safe("a\u{1b}[2Jb\u{7}\u{202e}c\u{9b}\r\n\tok"), "a␛[2Jb␇<U+202E>c<U+009B>␍\n\tok");
        assert!(matches!(safe("plain 日本語 🎉"), Cow::Borrowed(_)));
    }

    #[test]
    fn s18_characters_that_leave_no_mark_become_visible() {
        assert_eq!(safe("a\u{200b}b\u{2060}c\u{ad}d\u{feff}"), "a<U+200B>b<U+2060>c<U+00AD>d<U+FEFF>");
        assert_eq!(safe("ok\u{e0069}\u{e0067}\u{e007f}"), "ok<U+E0069><U+E0067><U+E007F>");
        assert_eq!(safe("x\u{200d}y\u{fe0f}z\u{3164}"), "x<U+200D>y<U+FE0F>z<U+3164>");
        assert_eq!(safe("\u{1f469}\u{200d}\u{200d}\u{200d}"), "\u{1f469}\u{200d}<U+200D><U+200D>");
        // What emoji and some scripts are written with stays.
        for text in
            ["\u{1f469}\u{200d}\u{1f4bb}", "\u{2764}\u{fe0f}\u{200d}\u{1f525}", "1\u{fe0f}\u{20e3}", "می\u{200c}خواهم"]
        {
            assert!(matches!(safe(text), Cow::Borrowed(_)), "{text:?}");
        }
        assert_eq!(safe("▐ Allow?"), "| Allow?");
    }

    #[test]
    fn b11_one_is_told_as_one() {
        assert_eq!([number_of(1, "payload"), number_of(2, "payload")], ["1 payload", "2 payloads"]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(fit("会话持久化", 7), "会话持…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(pad("会", 4), "会  ");
    }

    #[test]
    fn a_path_keeps_its_end_and_ids_what_tells_them_apart() {
        assert_eq!(fit_path("notes/会话/hello.md", 11), "…/hello.md");
        assert_eq!(fit_path("a.md", 4), "a.md");
        assert_eq!(telling(["0123456789a", "0123456789b", "x"].into_iter()), 11);
        assert_eq!(telling(["a", "a"].into_iter()), 8);
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([bytes(999), bytes(1400), bytes(5_000_000_000)], ["999 B", "1.4 kB", "5.0 GB"]);
        assert_eq!(ago(Some(0), 59_000), "just now");
        assert_eq!(ago(Some(0), 7_200_000), "2h ago");
        assert_eq!(ago(None, 0), "-");
    }
}
