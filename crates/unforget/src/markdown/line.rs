//! What a line begins with: which containers go on, which begin, and what kind of block follows.
//!
//! [`read`] is a pure function of the beginning of a line, so far as it has come, and of the containers that are
//! open. It says nothing while more characters could change its answer, and it always answers once a line is
//! [`HOLD`] bytes long: whoever watches a model write does not wait for a line feed.
//!
//! It follows CommonMark where models do, and is lenient where they are not exact: two blanks are enough to stay in
//! a list item, and a line that merely follows a quote is not part of it.

/// How much of a line is waited for.
pub(super) const HOLD: usize = 256;
/// Containers inside each other; what would go deeper is text.
const DEPTH: usize = 12;
/// Digits of a list number.
const DIGITS: usize = 9;

/// Something that holds blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Container {
    Quote,
    /// `indent` blanks stand before the marker, and the text begins in column `content`; both counted from the
    /// text of the container around it.
    Item {
        indent: usize,
        content: usize,
        marker: String,
    },
}

/// What follows the containers' marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Blank,
    Text,
    Heading(usize),
    Rule,
    /// The line of `=` that makes the text above it a heading; too late for one that is written already.
    Underline,
    /// Perhaps the beginning of fenced code: the rest of the line decides.
    Fence,
    /// A line of a table, if the next one says so.
    Row,
    Indented,
}

/// What is known of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beginning {
    /// How many of the open containers go on.
    pub(super) kept: usize,
    pub(super) opened: Vec<Container>,
    pub(super) block: Block,
    /// Where the block begins, in bytes.
    pub(super) at: usize,
}

/// Whether more of the line is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Growing,
    Whole,
}

/// Tells what a line begins with, or nothing as long as that is open.
pub(super) fn read(line: &str, state: Line, open: &[Container], in_paragraph: bool) -> Option<Beginning> {
    let (kept, mut at) = keep(line, state, open)?;
    let mut opened = Vec::new();
    let in_item = |opened: &[Container]| {
        open.iter().take(kept).chain(opened).any(|container| matches!(container, Container::Item { .. }))
    };
    loop {
        let goes_on = in_paragraph && kept == open.len() && opened.is_empty();
        let indent = blanks(&line[at..]);
        let rest = &line[at + indent..];
        let answer = |block, opened| Some(Beginning { kept, opened, block, at: at + indent });
        if rest.is_empty() {
            return match state {
                Line::Growing if line.len() < HOLD => None,
                Line::Growing => answer(Block::Text, opened),
                // An item may begin with nothing; what it holds comes on the next lines.
                Line::Whole if !opened.is_empty() => answer(Block::Text, opened),
                Line::Whole => answer(Block::Blank, opened),
            };
        }
        if indent >= 4 && !goes_on && !in_item(&opened) {
            return Some(Beginning { kept, opened, block: Block::Indented, at: at + 4 });
        }
        match first(rest, state, goes_on) {
            First::Open if line.len() < HOLD => return None,
            First::Open => return answer(Block::Text, opened),
            First::Block(block) => return answer(block, opened),
            First::Quote | First::Item { .. } if kept + opened.len() >= DEPTH => return answer(Block::Text, opened),
            First::Quote => {
                at += indent + 1;
                // One blank after the mark belongs to it.
                at += usize::from(line[at..].starts_with(' '));
                opened.push(Container::Quote);
            }
            First::Item { marker, content } => {
                at += indent + content;
                opened.push(Container::Item { indent, content: indent + content, marker });
            }
        }
    }
}

/// How many containers go on, and where in the line the rest begins.
fn keep(line: &str, state: Line, open: &[Container]) -> Option<(usize, usize)> {
    let (mut kept, mut at) = (0, 0);
    for container in open {
        let indent = blanks(&line[at..]);
        let rest = &line[at + indent..];
        if rest.is_empty() && state == Line::Growing && line.len() < HOLD {
            return None;
        }
        match container {
            Container::Quote if rest.starts_with('>') => {
                at += indent + 1;
                if at == line.len() && state == Line::Growing {
                    return None;
                }
                at += usize::from(line[at..].starts_with(' '));
            }
            Container::Item { .. } if rest.is_empty() => {}
            Container::Item { indent: before, content, .. } if indent >= (*content).min(before + 2) => {
                at += indent.min(*content);
            }
            Container::Quote | Container::Item { .. } => break,
        }
        kept += 1;
    }
    Some((kept, at))
}

enum First {
    /// More has to come.
    Open,
    Block(Block),
    Quote,
    Item {
        marker: String,
        content: usize,
    },
}

/// What text that begins with something else than a blank begins with.
fn first(rest: &str, state: Line, goes_on: bool) -> First {
    let growing = state == Line::Growing;
    let mark = rest.chars().next().unwrap_or(' ');
    let run = rest.len() - rest.trim_start_matches(mark).len();
    let after = &rest[run..];
    let text = First::Block(Block::Text);
    match mark {
        '>' if rest.len() == 1 && growing => First::Open,
        '>' => First::Quote,
        '#' if run > 6 => text,
        '#' if after.is_empty() && growing => First::Open,
        '#' if after.is_empty() || after.starts_with(' ') => First::Block(Block::Heading(run)),
        '`' | '~' if run >= 3 => First::Block(Block::Fence),
        '`' | '~' if after.is_empty() && growing => First::Open,
        '|' => First::Block(Block::Row),
        '=' if goes_on && after.trim_end().is_empty() => {
            if growing {
                First::Open
            } else {
                First::Block(Block::Underline)
            }
        }
        '-' | '*' | '_' | '+' => {
            let only_marks = mark != '+' && rest.chars().all(|c| c == mark || c == ' ');
            match item(rest, 1, state, "• ") {
                First::Open => First::Open,
                _ if only_marks && growing => First::Open,
                _ if only_marks && rest.matches(mark).count() >= 3 => First::Block(Block::Rule),
                First::Item { .. } if mark == '_' || (goes_on && rest.trim_end().len() == 1) => text,
                found => found,
            }
        }
        '0'..='9' => {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            match rest[digits..].chars().next() {
                _ if digits > DIGITS => text,
                None if growing => First::Open,
                Some('.' | ')') if goes_on && &rest[..digits] != "1" => text,
                Some('.' | ')') => item(rest, digits + 1, state, &format!("{} ", &rest[..=digits])),
                _ => text,
            }
        }
        _ => text,
    }
}

/// A list item whose marker is `length` bytes long, if blanks follow it.
fn item(rest: &str, length: usize, state: Line, marker: &str) -> First {
    let after = &rest[length..];
    let gap = blanks(after);
    let empty = gap == after.len();
    match (empty, state) {
        (true, Line::Growing) => First::Open,
        (true, Line::Whole) => First::Item { marker: marker.to_owned(), content: rest.len().min(length + 1) },
        (false, _) if gap == 0 => First::Block(Block::Text),
        // Many blanks are part of what follows, not of the marker.
        (false, _) => First::Item { marker: marker.to_owned(), content: length + if gap > 4 { 1 } else { gap } },
    }
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches(' ').len()
}
