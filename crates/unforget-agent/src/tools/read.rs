//! `read_file`: a page of a text file.
//!
//! Lines are counted from one, and a page ends at a whole line wherever one fits, so that the next page begins where
//! this one says. The file is read in pieces and never kept as a whole: it may be larger than the memory. What is shown is
//! the file's own text without line numbers, because `edit_file` wants it exactly.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::place::PathError;
use super::workspace::Workspace;
use super::{Output, Tool, kind, look};

/// How much text one call gives at most, in bytes.
const MAX_PAGE: usize = 256 * 1024;
/// How much of a file is read on the way to a page and through it, in bytes.
const MAX_SCAN: u64 = 4 * 1024 * 1024 * 1024;
/// How much of a file's beginning tells whether it is text, in bytes.
const HEAD: usize = 8 * 1024;
/// How much is read at once, in bytes.
const PIECE: usize = 64 * 1024;

/// Reads a text file.
#[derive(Debug)]
pub(super) struct ReadFile {
    pub(super) workspace: Arc<Workspace>,
}

impl Tool for ReadFile {
    fn name(&self) -> &'static str {
        "read_file"
    }

    fn description(&self) -> &'static str {
        "Reads a text file of the workspace. Gives up to 256 KiB a call, ends with the range of lines in brackets, and \
         says which offset to read on with if there is more."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string","description":"The file, relative to the workspace."},"offset":{"type":"integer","minimum":1,"description":"The first line to read, counted from 1."},"limit":{"type":"integer","minimum":1,"description":"How many lines to read at most."}},"required":["path"],"additionalProperties":false}"#
    }

    fn asks_first(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            let (path, offset, limit) = match arguments(input) {
                Ok(arguments) => arguments,
                Err(output) => return output,
            };
            let (workspace, stop) = (Arc::clone(&self.workspace), abort.clone());
            look(abort, move || match read(&workspace, &path, offset, limit, &stop) {
                Ok(output) => output,
                Err(error) => Output::failed(format!("cannot read `{path}`: {error}")),
            })
            .await
        })
    }
}

fn arguments(input: &Value) -> Result<(String, u64, u64), Output> {
    let arguments = Arguments::new(input, &["path", "file_path", "offset", "limit"])?;
    let path = arguments.path("path", "file_path")?.to_owned();
    Ok((path, arguments.count("offset")?.unwrap_or(1), arguments.count("limit")?.unwrap_or(u64::MAX)))
}

fn read(
    workspace: &Workspace,
    path: &str,
    offset: u64,
    limit: u64,
    stop: &CancellationToken,
) -> Result<Output, PathError> {
    let (file, version) = workspace.place(path)?.open()?;
    if let Some(kind) = kind::binary(&head(&file)?) {
        let len = version.len;
        return Ok(Output::failed(format!(
            "`{path}` is {kind} ({len} bytes), not text that can be shown; a command of the bash tool can look into it"
        )));
    }
    let page = page(&mut BufReader::with_capacity(PIECE, file), offset, limit, stop)?;
    Ok(show(path, &page, offset, version.len))
}

fn head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match file.read_at(head.get_mut(filled..).unwrap_or_default(), filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Why a page ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The file does.
    File,
    /// As many lines as were asked for, or as fit, and there are more.
    More,
    /// Its only line does not fit.
    Line,
    /// What is asked for is too far from the beginning, or nobody waits for it any more.
    GivenUp,
}

#[derive(Debug)]
struct Page {
    text: Vec<u8>,
    lines: u64,
    skipped: u64,
    end: End,
}

/// Skips lines up to `offset`, and takes whole ones from there.
fn page(file: &mut impl BufRead, offset: u64, limit: u64, stop: &CancellationToken) -> io::Result<Page> {
    let mut page = Page { text: Vec::new(), lines: 0, skipped: 0, end: End::GivenUp };
    let (mut whole, mut inside, mut scanned) = (0, false, 0);
    while scanned < MAX_SCAN && !stop.is_cancelled() {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            // A last line without a line feed is a line.
            let unfinished = u64::from(inside);
            *(if page.skipped + 1 < offset { &mut page.skipped } else { &mut page.lines }) += unfinished;
            page.end = End::File;
            break;
        }
        if page.lines == limit {
            page.end = End::More;
            break;
        }
        let feed = piece.iter().position(|byte| *byte == b'\n');
        let part = piece.get(..feed.map_or(piece.len(), |at| at + 1)).unwrap_or(piece);
        let (len, skipping) = (part.len(), page.skipped + 1 < offset);
        if !skipping {
            page.text.extend_from_slice(part);
            if page.text.len() > MAX_PAGE {
                page.end = if whole == 0 { End::Line } else { End::More };
                page.text.truncate(if whole == 0 { MAX_PAGE } else { whole });
                break;
            }
        }
        file.consume(len);
        scanned += len as u64;
        inside = feed.is_none();
        match (feed, skipping) {
            (None, _) => {}
            (Some(_), true) => page.skipped += 1,
            (Some(_), false) => (page.lines, whole) = (page.lines + 1, page.text.len()),
        }
    }
    Ok(page)
}

/// The page's text and, in brackets, what has to be known about it.
fn show(path: &str, page: &Page, offset: u64, len: u64) -> Output {
    let (first, last) = (offset, offset.saturating_add(page.lines).saturating_sub(1));
    let range = if page.lines == 1 { format!("line {first}") } else { format!("lines {first}-{last}") };
    let mut notes = match page.end {
        End::File if page.lines == 0 && offset == 1 => return Output::ok("[the file is empty]"),
        End::File if page.lines == 0 => {
            let lines = page.skipped;
            return Output::failed(format!("`{path}` has {lines} lines; `offset` must not be larger than that"));
        }
        End::File => vec![format!("{range} of {last}")],
        End::More => vec![format!("{range}; the file of {len} bytes goes on: read on with offset {}", last + 1)],
        End::Line => vec![format!(
            "line {first} is longer than the {MAX_PAGE} bytes shown; a command of the bash tool can show the rest, and \
             offset {} reads on behind it",
            first.saturating_add(1)
        )],
        End::GivenUp => {
            let why = "is too far into the file for this tool; a command of the bash tool (sed -n) can show it";
            return Output::failed(format!("line {first} of `{path}` {why}"));
        }
    };
    let mut text = String::from_utf8_lossy(cut_between_characters(page)).into_owned();
    if text.contains("\r\n") {
        notes.push("lines end with CRLF".to_owned());
    }
    if page.end == End::File && !text.ends_with('\n') {
        notes.push("no line feed at the end".to_owned());
    }
    if text.contains('\u{fffd}') && std::str::from_utf8(cut_between_characters(page)).is_err() {
        notes.push("bytes that are not UTF-8 are shown as \u{fffd}".to_owned());
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Output::ok(format!("{text}[{}]", notes.join("; ")))
}

/// The text without the part of a character at the end that a cut through a line may leave.
fn cut_between_characters(page: &Page) -> &[u8] {
    match (&page.end, std::str::from_utf8(&page.text)) {
        (End::Line, Err(error)) if error.error_len().is_none() => {
            page.text.get(..error.valid_up_to()).unwrap_or_default()
        }
        _ => &page.text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &[u8], offset: u64, limit: u64, piece: usize) -> Page {
        let mut reader = BufReader::with_capacity(piece, text);
        page(&mut reader, offset, limit, &CancellationToken::new()).unwrap()
    }

    #[test]
    fn pages_are_the_same_however_the_file_comes() {
        for piece in 1..9 {
            let page = take(b"one\ntwo\nthree\nfour", 2, 2, piece);
            assert_eq!((page.text.as_slice(), page.lines, page.end), (&b"two\nthree\n"[..], 2, End::More));
            let page = take(b"one\ntwo\nthree\nfour", 4, 9, piece);
            assert_eq!((page.text.as_slice(), page.lines, page.end), (&b"four"[..], 1, End::File));
            let page = take(b"one\ntwo\n", 1, 2, piece);
            assert_eq!((page.text.as_slice(), page.lines, page.end), (&b"one\ntwo\n"[..], 2, End::File));
            let page = take(b"one\ntwo", 5, 1, piece);
            assert_eq!((page.text.len(), page.lines, page.skipped), (0, 0, 2));
        }
    }

    #[test]
    fn a_page_ends_at_the_last_line_that_fits() {
        let line = format!("{}\n", "x".repeat(MAX_PAGE / 2 - 10));
        let text = line.repeat(3);
        let page = take(text.as_bytes(), 1, u64::MAX, PIECE);
        assert_eq!((page.text.len(), page.lines, page.end), (line.len() * 2, 2, End::More));
    }

    #[test]
    fn a_line_that_does_not_fit_is_cut_between_characters() {
        let text = format!("x{}", "ä".repeat(MAX_PAGE));
        let page = take(text.as_bytes(), 1, u64::MAX, PIECE);
        let output = show("file", &page, 1, text.len() as u64);
        assert!(output.text.starts_with("xää") && !output.text.contains('\u{fffd}'), "{}", output.text.len());
        assert!(output.text.ends_with("offset 2 reads on behind it]"), "{}", &output.text[MAX_PAGE..]);
    }
}
