//! What a text begins with: a pure recogniser of emphasis, code, links, addresses, escapes and entities.
//!
//! It sees the text from a mark on, and either knows what the mark means, or that it is text, or that more has to
//! come. It never looks further than [`HOLD`] bytes, so that neither the wait nor the work has no end.
//!
//! The rules are those of CommonMark with two exceptions, both for what models write. A closing `**` needs no blank
//! or punctuation behind it, or else `**「強調」**です` would stay unformatted. And a `*` between two Latin letters or
//! digits opens nothing, or else `x**2 + y**2` would lose its powers.

/// How far the end of something is looked for.
pub(super) const HOLD: usize = 512;
/// The longest `&name;`.
const ENTITY: usize = 12;

/// Whether more text is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Coming,
    None,
}

/// What a text begins with, and how many bytes of it that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element<'a> {
    /// More has to come.
    Wait,
    Text(usize),
    Character(char, usize),
    /// `fence` is the run of backticks.
    Code {
        fence: &'a str,
        inner: &'a str,
        length: usize,
    },
    Emphasis {
        mark: &'a str,
        inner: &'a str,
        length: usize,
    },
    Link {
        text: &'a str,
        target: &'a str,
        length: usize,
    },
}

pub(super) fn is_mark(character: char) -> bool {
    matches!(character, '*' | '_' | '~' | '`' | '[' | '!' | '<' | '&' | '\\')
}

/// Recognises what a text begins with; `before` is the character before it.
pub(super) fn element(text: &str, before: char, more: More) -> Element<'_> {
    let mark = text.chars().next().unwrap_or(' ');
    // Whatever is not found within this is not there.
    let mut end = text.len().min(HOLD);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let (text, more) = (&text[..end], if end < text.len() { More::None } else { more });
    let found = match mark {
        '*' | '_' | '~' => emphasis(text, mark, before, more),
        '`' => code(text, more),
        '[' => link(text, 0, more),
        '!' if text.starts_with("![") => link(text, 1, more),
        '!' if text.len() == 1 => Found::Open(1),
        '!' => Found::No(1),
        '<' => address(text),
        '&' => entity(text),
        '\\' => match text[1..].chars().next() {
            Some(escaped) if escaped.is_ascii_punctuation() => Found::Yes(Element::Character(escaped, 2)),
            // A line feed needs no mark to be kept.
            Some('\n') => Found::Yes(Element::Character('\n', 2)),
            Some(_) => Found::No(1),
            None => Found::Open(1),
        },
        _ => Found::No(text.find(is_mark).unwrap_or(text.len())),
    };
    match (found, more) {
        (Found::Yes(element), _) => element,
        (Found::No(length), _) | (Found::Open(length), More::None) => Element::Text(length),
        (Found::Open(_), More::Coming) => Element::Wait,
    }
}

enum Found<'a> {
    Yes(Element<'a>),
    /// So many bytes are text.
    No(usize),
    /// Its end is not there yet; if it never comes, so many bytes are text.
    Open(usize),
}

fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}

fn code(text: &str, more: More) -> Found<'_> {
    let fence = run(text, '`');
    let mut at = fence;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let length = run(&text[start..], '`');
        if start + length == text.len() && more == More::Coming {
            break;
        }
        if length == fence {
            let mut inner = &text[fence..start];
            if inner.starts_with(' ') && inner.ends_with(' ') && !inner.trim().is_empty() {
                inner = &inner[1..inner.len() - 1];
            }
            return Found::Yes(Element::Code { fence: &text[..fence], inner, length: start + length });
        }
        at = start + length;
    }
    Found::Open(fence)
}

fn emphasis(text: &str, mark: char, before: char, more: More) -> Found<'_> {
    let length = run(text, mark);
    let Some(after) = text[length..].chars().next() else { return Found::Open(length) };
    let inside_word = match mark {
        '_' => before.is_alphanumeric(),
        _ => before.is_ascii_alphanumeric() && after.is_ascii_alphanumeric(),
    };
    if after.is_whitespace() || length > 3 || inside_word || (mark == '~' && length != 2) {
        return Found::No(length);
    }
    let mut at = length;
    // Runs of backticks that nothing closes, by their lengths.
    let mut unclosed = 0_u64;
    while at < text.len() {
        let rest = &text[at..];
        let Some(found) = rest.find([mark, '`', '\\']) else { break };
        at += found;
        let rest = &text[at..];
        if let Some(escaped) = rest.strip_prefix('\\') {
            at += 1 + escaped.chars().next().map_or(0, char::len_utf8);
            continue;
        }
        if rest.starts_with('`') {
            let fence = run(rest, '`');
            let bit = 1 << fence.min(63);
            at += match if unclosed & bit == 0 { code(rest, more) } else { Found::No(fence) } {
                Found::Yes(Element::Code { length, .. }) => length,
                _ if more == More::Coming => return Found::Open(length),
                _ => {
                    unclosed |= bit;
                    fence
                }
            };
            continue;
        }
        let closing = run(rest, mark);
        let next = rest[closing..].chars().next();
        if next.is_none() && more == More::Coming {
            break;
        }
        let closes = !text[..at].ends_with(char::is_whitespace)
            && (mark != '_' || !next.is_some_and(char::is_alphanumeric))
            && (closing == length || (length < 3 && closing >= 3));
        if closes {
            // Of three marks the inner ones belong to what was opened last.
            let inner = at + if closing == 3 { 3 - length } else { 0 };
            return Found::Yes(Element::Emphasis {
                mark: &text[..length],
                inner: &text[length..inner],
                length: inner + length,
            });
        }
        at += closing;
    }
    Found::Open(length)
}

/// `[text](target "title")`, behind `skip` bytes.
fn link(text: &str, skip: usize, more: More) -> Found<'_> {
    let from = skip + 1;
    let (mut at, mut depth) = (from, 1_usize);
    while depth > 0 {
        let Some(found) = text[at..].find(['[', ']', '`', '\\']) else { return Found::Open(from) };
        at += found;
        let rest = &text[at..];
        at += match rest.as_bytes().first() {
            Some(b'[') => {
                depth += 1;
                1
            }
            Some(b']') => {
                depth -= 1;
                1
            }
            Some(b'`') => match code(rest, more) {
                Found::Yes(Element::Code { length, .. }) => length,
                _ if more == More::Coming => return Found::Open(from),
                _ => run(rest, '`'),
            },
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
    }
    let inner = &text[from..at - 1];
    match text[at..].chars().next() {
        None => Found::Open(from),
        Some('(') => match target(&text[at + 1..]) {
            Ok((target, length)) => Found::Yes(Element::Link { text: inner, target, length: at + 1 + length }),
            Err(More::Coming) => Found::Open(from),
            Err(More::None) => Found::No(from),
        },
        Some(_) => Found::No(from),
    }
}

/// A link's target behind its opening parenthesis, and the length up to and with the closing one; or else whether
/// more could make it one.
fn target(text: &str) -> Result<(&str, usize), More> {
    let (target, mut at) = if let Some(inner) = text.strip_prefix('<') {
        let end = inner.find(['>', '\n']).ok_or(More::Coming)?;
        (&inner[..end], end + 2)
    } else {
        let mut depth = 0_usize;
        let ends = |c: char| {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return true,
                ')' => depth -= 1,
                _ => {}
            }
            c.is_whitespace()
        };
        let end = text.find(ends).ok_or(More::Coming)?;
        (&text[..end], end)
    };
    let skip = |at: usize| text.len() - text[at..].trim_start().len();
    at = skip(at);
    if let Some(quote) = text[at..].chars().next().filter(|c| matches!(c, '"' | '\'')) {
        at = skip(at + 2 + text[at + 1..].find(quote).ok_or(More::Coming)?);
    }
    match text[at..].chars().next() {
        Some(')') => Ok((target, at + 1)),
        Some(_) => Err(More::None),
        None => Err(More::Coming),
    }
}

/// `<https://…>` or `<somebody@somewhere>`; anything else in angle brackets is text.
fn address(text: &str) -> Found<'_> {
    let Some(next) = text[1..].chars().next() else { return Found::Open(1) };
    if !next.is_ascii_alphanumeric() {
        return Found::No(1);
    }
    match text[1..].find(|c: char| c.is_whitespace() || matches!(c, '<' | '>')) {
        None => Found::Open(1),
        Some(end) if text[1 + end..].starts_with('>') => {
            let target = &text[1..=end];
            let scheme = target.split_once(':').is_some_and(|(scheme, rest)| {
                scheme.len() > 1 && !rest.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric())
            });
            if scheme || target.contains('@') {
                Found::Yes(Element::Link { text: target, target, length: end + 2 })
            } else {
                Found::No(1)
            }
        }
        Some(_) => Found::No(1),
    }
}

fn entity(text: &str) -> Found<'_> {
    let name = &text[1..];
    match name.find(|c: char| !c.is_ascii_alphanumeric() && c != '#') {
        None if name.len() < ENTITY => Found::Open(1),
        Some(end) if name[end..].starts_with(';') => {
            let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
            let character = match name[..end].strip_prefix('#') {
                Some(digits) if digits.starts_with(['x', 'X']) => number(&digits[1..], 16),
                Some(digits) => number(digits, 10),
                None => named(&name[..end]),
            };
            match character.filter(|c| !c.is_control()) {
                Some(character) => Found::Yes(Element::Character(character, end + 2)),
                None => Found::No(1),
            }
        }
        _ => Found::No(1),
    }
}

/// The names that models use.
fn named(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "copy" => '©',
        "hellip" => '…',
        "mdash" => '—',
        "ndash" => '–',
        "rarr" => '→',
        "larr" => '←',
        _ => return None,
    })
}
