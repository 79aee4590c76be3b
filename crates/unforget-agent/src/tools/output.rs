//! placeholder
/// placeholder
pub fn shorten(text: &str, keep: usize, rest: &str) -> Option<String> {
    if text.len() <= keep {
        return None;
    }
    Some(format!("{}[… {rest}]", &text[..text.floor_char_boundary(keep)]))
}
