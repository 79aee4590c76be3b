//! `edit_file`: one text for another, exactly.
//!
//! A text that occurs twice is not replaced at a guess. Everything around the replacement stays byte for byte, also what
//! is not UTF-8. In a file whose lines all end with CRLF, line feeds in the arguments mean CRLF: models write line feeds,
//! and one edit must not leave a file with two kinds of line ends.

use std::borrow::Cow;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::change::{self, File, Prepared, Preparing};
use super::place::PathError;
use super::workspace::Workspace;
use super::{Output, Tool};

/// The largest file that is edited, in bytes.
const MAX_FILE: u64 = 32 * 1024 * 1024;

/// Replaces a text in a file.
#[derive(Debug)]
pub(super) struct EditFile {
    pub(super) workspace: Arc<Workspace>,
}

impl Tool for EditFile {
    fn name(&self) -> &'static str {
        "edit_file"
    }

    fn description(&self) -> &'static str {
        "Replaces a text in a file of the workspace. The old text must be there exactly, whitespace included, and only \
         once unless replace_all is true; give enough lines around it to make it unique."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string","description":"The file, relative to the workspace."},"old_string":{"type":"string","description":"The text to replace, exactly as it is in the file."},"new_string":{"type":"string","description":"The text to put in its place."},"replace_all":{"type":"boolean","description":"Whether to replace every occurrence."}},"required":["path","old_string","new_string"],"additionalProperties":false}"#
    }

    fn asks_first(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(change::run(self.prepare(input, abort)))
    }

    fn prepare<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> Option<Preparing<'a>> {
        Some(Box::pin(async move {
            let (path, edit) = arguments(input)?;
            let workspace = Arc::clone(&self.workspace);
            change::prepare(abort, move || {
                let failed = |error| Output::failed(format!("cannot edit `{path}`: {error}"));
                edit_file(workspace, &path, &edit).map_err(failed)?
            })
            .await
        }))
    }
}

/// What to replace by what.
#[derive(Debug)]
struct Edit {
    old: String,
    new: String,
    which: Which,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Only,
    All,
}

fn arguments(input: &Value) -> Result<(String, Edit), Output> {
    let arguments = Arguments::new(input, &["path", "file_path", "old_string", "new_string", "replace_all"])?;
    let path = arguments.path("path", "file_path")?.to_owned();
    let (old, new) = (arguments.text("old_string")?.to_owned(), arguments.text("new_string")?.to_owned());
    let which = if arguments.flag("replace_all")? { Which::All } else { Which::Only };
    if old.is_empty() {
        return Err(Output::failed("the argument `old_string` must not be empty; write_file creates and fills files"));
    }
    if old == new {
        return Err(Output::failed("the arguments `old_string` and `new_string` are the same; there is nothing to do"));
    }
    Ok((path, Edit { old, new, which }))
}

fn edit_file(workspace: Arc<Workspace>, path: &str, edit: &Edit) -> Result<Result<Prepared, Output>, PathError> {
    let (file, content) = File::open(workspace, path, MAX_FILE)?;
    let Some(content) = content else {
        let text = format!("`{path}` is larger than {MAX_FILE} bytes; edit it with a command (sed)");
        return Ok(Err(Output::failed(text)));
    };
    let complaint = format!("cannot edit `{path}`");
    let (edited, lines) = match apply(&content, edit) {
        Ok(edited) => edited,
        Err(why) => return Ok(Err(Output::failed(format!("{complaint}: {why}")))),
    };
    let (count, len) = (lines.len(), edited.len());
    let said = match lines.first() {
        Some(line) if count == 1 => format!("edited `{path}` at line {line} ({len} bytes)"),
        _ => format!("edited `{path}` in {count} places ({len} bytes)"),
    };
    Ok(Ok(Prepared { change: file.becomes(edited), said, complaint }))
}

/// The edited content, and the lines where something was replaced.
fn apply(content: &[u8], edit: &Edit) -> Result<(Vec<u8>, Vec<usize>), String> {
    let (mut old, mut new) = (Cow::Borrowed(edit.old.as_str()), Cow::Borrowed(edit.new.as_str()));
    // Who writes a carriage return means each character as it is.
    let plain = !edit.old.contains('\r') && !edit.new.contains('\r');
    let ends = LineEnds::of(content);
    let mixed_block = ends == LineEnds::Mixed && edit.old.contains('\n') && find(content, &old).is_empty();
    if plain && (ends == LineEnds::CarriageReturn || mixed_block) {
        (old, new) = (Cow::Owned(old.replace('\n', "\r\n")), Cow::Owned(new.replace('\n', "\r\n")));
    }
    let places = find(content, &old);
    if places.is_empty() {
        return Err(absent(content, &edit.old));
    }
    if edit.which == Which::Only && (places.len() > 1 || overlaps(content, &old, &places)) {
        let count = places.len().max(2);
        return Err(format!(
            "the text of `old_string` occurs {count} times; give more of the lines around it, or set replace_all to true"
        ));
    }
    let (mut edited, mut lines, mut line, mut at) = (Vec::with_capacity(content.len()), Vec::new(), 1, 0);
    for place in places {
        let between = content.get(at..place).unwrap_or_default();
        line += feeds(between);
        lines.push(line);
        line += feeds(old.as_bytes());
        edited.extend_from_slice(between);
        edited.extend_from_slice(new.as_bytes());
        at = place + old.len();
    }
    edited.extend_from_slice(content.get(at..).unwrap_or_default());
    Ok((edited, lines))
}

/// Where the text occurs. It is valid UTF-8 and therefore lies between bytes that are not.
fn find(content: &[u8], text: &str) -> Vec<usize> {
    let (mut places, mut start) = (Vec::new(), 0);
    for chunk in content.utf8_chunks() {
        places.extend(chunk.valid().match_indices(text).map(|(at, _)| start + at));
        start += chunk.valid().len() + chunk.invalid().len();
    }
    places
}

/// Whether the only match could also begin further on, as `aa` in `aaa`.
fn overlaps(content: &[u8], text: &str, places: &[usize]) -> bool {
    let (Some(place), Some(first)) = (places.first(), text.chars().next()) else { return false };
    let from = place + first.len_utf8();
    let end = content.len().min(place + text.len() * 2);
    content.get(from..end).is_some_and(|rest| !find(rest, text).is_empty())
}

fn absent(content: &[u8], old: &str) -> String {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let near = squeezed(old);
    if !near.is_empty() && squeezed(&String::from_utf8_lossy(content)).contains(&near) {
        return "the text of `old_string` occurs only with other whitespace; indentation, tabs, spaces and line ends must \
                be exactly as in the file"
            .to_owned();
    }
    "the text of `old_string` does not occur; read the file again and copy the text exactly, whitespace included"
        .to_owned()
}

fn feeds(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Feed,
    CarriageReturn,
    Mixed,
}

impl LineEnds {
    fn of(content: &[u8]) -> Self {
        let all = feeds(content);
        match content.windows(2).filter(|pair| pair == b"\r\n").count() {
            0 => LineEnds::Feed,
            pairs if pairs == all => LineEnds::CarriageReturn,
            _ => LineEnds::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(content: &[u8], old: &str, new: &str, which: Which) -> Result<Vec<u8>, String> {
        apply(content, &Edit { old: old.to_owned(), new: new.to_owned(), which }).map(|(edited, _)| edited)
    }

    #[test]
    fn bytes_around_the_replacement_stay() {
        let content = b"Gr\xfc\xdfe\xff old \xfe end";
        assert_eq!(edited(content, "old", "new", Which::Only).unwrap(), b"Gr\xfc\xdfe\xff new \xfe end");
    }

    #[test]
    fn carriage_returns_are_kept() {
        assert_eq!(edited(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", Which::Only).unwrap(), b"x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(edited(b"a\r\nb\r\n", "b", "c\nd", Which::Only).unwrap(), b"a\r\nc\r\nd\r\n");
        // In a file with both, the text as it is comes first.
        assert_eq!(edited(b"a\nb\r\nc\r\n", "a\nb", "x\ny", Which::Only).unwrap(), b"x\ny\r\nc\r\n");
        assert_eq!(edited(b"a\nb\r\nc\r\n", "b\nc", "x\ny", Which::Only).unwrap(), b"a\nx\r\ny\r\n");
        // Who asks for line feeds gets them.
        assert_eq!(edited(b"a\r\nb\r\n", "\r\n", "\n", Which::All).unwrap(), b"a\nb\n");
    }

    #[test]
    fn a_text_that_occurs_twice_is_not_replaced_at_a_guess() {
        assert!(edited(b"x x", "x", "y", Which::Only).unwrap_err().contains("occurs 2 times"));
        assert!(edited(b"aaa", "aa", "b", Which::Only).unwrap_err().contains("occurs 2 times"));
        assert_eq!(edited(b"x x x", "x", "y", Which::All).unwrap(), b"y y y");
        assert_eq!(edited(b"aaa", "aa", "b", Which::All).unwrap(), b"ba");
    }

    #[test]
    fn a_text_with_other_whitespace_is_hinted_at() {
        let complaint = edited(b"if x {\n\ty();\n}\n", "if x {\n    y();\n}", "z", Which::Only).unwrap_err();
        assert!(complaint.contains("other whitespace"), "{complaint}");
        let complaint = edited(b"something else", "if x", "z", Which::Only).unwrap_err();
        assert!(complaint.contains("does not occur"), "{complaint}");
    }

    #[test]
    fn lines_are_counted_to_each_replacement() {
        let edit = Edit { old: "x\n".to_owned(), new: String::new(), which: Which::All };
        assert_eq!(apply(b"1\nx\n3\nx\nx\n", &edit).unwrap(), (b"1\n3\n".to_vec(), vec![2, 4, 5]));
    }
}
