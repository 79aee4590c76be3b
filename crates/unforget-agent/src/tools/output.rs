//! Making a text fit without hiding that it was made to fit.
//!
//! The beginning and the end of a text say most; what is left out between them is counted and named, so that a model
//! knows that something is missing and where the rest is. Head-only cutting would lose the last lines, where errors are.

/// The tool that reads the rest of a long output. It looks into the log, so the turn runs it.
pub const READ_OUTPUT: &str = "read_output";
/// Its definition for the model.
pub(super) const READ_OUTPUT_DEFINITION: &str = r#"{"name":"read_output","description":"Read more of a tool output that was too long to be shown whole: a piece of it from a byte offset on.","input_schema":{"type":"object","properties":{"tool_use_id":{"type":"string","description":"Id of the call whose output it is"},"offset":{"type":"integer","minimum":0,"description":"First byte, default 0"}},"required":["tool_use_id"],"additionalProperties":false}}"#;

/// Leaves out the middle of a text that is longer than `keep` bytes and says where the `rest` is; none if it fits.
pub fn shorten(text: &str, keep: usize, rest: &str) -> Option<String> {
    if text.len() <= keep {
        return None;
    }
    let head = head(text, keep - keep / 2);
    let tail = tail(text, keep / 2);
    let missing = text.len() - head.len() - tail.len();
    let feed = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let separator = if rest.is_empty() { "" } else { "; " };
    Some(format!("{head}{feed}[… {missing} bytes left out{separator}{rest}]\n{tail}"))
}

/// The first lines that fit; part of a line if whole lines would waste more than half of the room.
fn head(text: &str, room: usize) -> &str {
    let cut = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
    match cut.rfind('\n') {
        Some(at) if at + 1 >= room / 2 => cut.get(..=at).unwrap_or(cut),
        _ => cut,
    }
}

/// The last lines that fit, likewise.
fn tail(text: &str, room: usize) -> &str {
    let start = text.ceil_char_boundary(text.len() - room);
    let cut = text.get(start..).unwrap_or_default();
    let whole = text.get(..start).is_some_and(|before| before.ends_with('\n'));
    match cut.find('\n') {
        Some(at) if !whole && cut.len() - at > room / 2 => cut.get(at + 1..).unwrap_or(cut),
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_lines_are_kept_around_what_is_left_out() {
        let text = "one\ntwo\nthree\nfour\nfive\nsix\n";
        let short = "one\ntwo\n[… 11 bytes left out; see elsewhere]\nfive\nsix\n";
        assert_eq!(shorten(text, 20, "see elsewhere").unwrap(), short);
        assert_eq!(shorten(text, text.len(), ""), None);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(shorten("äöüäöü", 6, "").unwrap(), "ä\n[… 8 bytes left out]\nü");
        assert_eq!(shorten("abc", 0, "").unwrap(), "[… 3 bytes left out]\n");
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_missing_make_the_whole(text in "[a-cä\n]{0,200}", keep in 0_usize..220) {
            match shorten(&text, keep, "") {
                None => prop_assert!(text.len() <= keep),
                Some(_) => {
                    let (head, tail) = (head(&text, keep - keep / 2), tail(&text, keep / 2));
                    prop_assert!(head.len() + tail.len() <= keep);
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                }
            }
        }
    }
}
