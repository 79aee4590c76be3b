//! Lines that fit into a column: broken between words where that is possible, counted in columns of a terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// No column is taken to be narrower than this.
const NARROWEST: usize = 8;

/// The rows of a line of text.
pub(crate) fn wrap(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(NARROWEST);
    if line.width() <= columns {
        return vec![line.to_owned()];
    }
    let mut rows = Vec::new();
    let (mut row, mut width) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        if width > 0 && width + word.trim_end().width() > columns {
            rows.push(std::mem::take(&mut row).trim_end().to_owned());
            width = 0;
        }
        for character in word.chars() {
            let wide = character.width().unwrap_or(0);
            if width + wide > columns {
                rows.push(std::mem::take(&mut row).trim_end().to_owned());
                width = 0;
            }
            row.push(character);
            width += wide;
        }
    }
    let row = row.trim_end();
    rows.extend((!row.is_empty()).then(|| row.to_owned()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_within_long_ones() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghijk lm", 8), ["abcdefgh", "ijk lm"]);
        assert_eq!(wrap("会话持久化很好", 9), ["会话持久", "化很好"]);
        assert_eq!(wrap("", 9), [""]);
    }
}
