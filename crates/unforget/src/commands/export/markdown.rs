//! A session as Markdown that reads well on a code forge.
//!
//! What people and models say is Markdown already and stays so, with three exceptions that keep the page whole: tags become text, headings
//! move below the page's own, and a code fence that was never closed is closed. Tool calls are folded away. Nothing in a
//! message can end the block that it stands in.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::commands::export::document::{Answer, Document, Item, Part, What};
use crate::screen;

/// How much of a call's arguments its folded line shows.
const SUMMARY_COLUMNS: usize = 72;
/// The page's own headings are of the first two levels.
const OWN_LEVELS: usize = 2;
const MAX_LEVEL: usize = 6;
/// How often tags are looked for again.
const ROUNDS: usize = 4;

/// Writes a document.
pub(crate) fn render(document: &Document) -> String {
    let mut out = format!("# {}\n\n", inline(&document.title));
    for (name, value) in &document.facts {
        out.push_str(&format!("- {name}: {}\n", code(value)));
    }
    let mut was_abandoned = false;
    for item in &document.items {
        if item.is_abandoned != was_abandoned {
            out.push_str(if item.is_abandoned {
                "\n---\n\n**Abandoned branch, from here:**\n"
            } else {
                "\n**End of the abandoned branch.**\n\n---\n"
            });
            was_abandoned = item.is_abandoned;
        }
        out.push('\n');
        out.push_str(&shown(item));
    }
    if was_abandoned {
        out.push_str("\n**End of the abandoned branch.**\n");
    }
    out
}

fn shown(item: &Item) -> String {
    let place = if item.time.is_empty() { format!("#{}", item.n) } else { format!("{} · #{}", item.time, item.n) };
    let heading = |who: &str| format!("## <a id=\"r{}\"></a>{who}\n\n<sub>{place}</sub>\n\n", item.n);
    match &item.what {
        What::User(parts) => heading("You") + &parts_of(parts, hard_breaks),
        What::Added(parts) => heading("Added for the model") + &parts_of(parts, hard_breaks),
        What::Assistant(parts) if item.continues => {
            format!("<a id=\"r{}\"></a>\n\n{}", item.n, parts_of(parts, whole))
        }
        What::Assistant(parts) => heading("Assistant") + &parts_of(parts, whole),
        What::Call { name, input, result } => {
            let first = screen::fit(&screen::one_line(input), SUMMARY_COLUMNS);
            let verdict = match result {
                Some(answer) if answer.is_error => " — failed",
                Some(_) => "",
                None => " — no result",
            };
            let body = fenced(input) + &result.as_ref().map(answered).unwrap_or_default();
            let name = tagless(name);
            folded(&format!("<a id=\"r{}\"></a><code>{name}</code> {}{verdict}", item.n, tagless(&first)), &body)
        }
        What::Result(answer) => {
            let verdict = if answer.is_error { "A failure" } else { "A result" };
            folded(&format!("{verdict} without its call (#{})", item.n), &answered(answer))
        }
        What::Summary(text) => {
            format!(
                "---\n\n**Compacted here** <sub>{place}</sub>: for the model, this stands for everything above.\n\n{}\n---\n",
                quoted(&whole(text))
            )
        }
        What::Note { what, text } if text.is_empty() => format!("*{}* <sub>{place}</sub>\n", inline(what)),
        What::Note { what, text } => format!("*{}* <sub>{place}</sub>\n\n{}", inline(what), fenced(text)),
    }
}

fn parts_of(parts: &[Part], words: fn(&str) -> String) -> String {
    let one = |part: &Part| match part {
        Part::Words(text) => words(text),
        Part::Thinking(text) => folded("Thinking", &fenced(text)),
        Part::Image { media_type, .. } => format!("*[{media_type}; the HTML form shows it]*\n"),
        Part::Other(text) => fenced(text),
    };
    parts.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn answered(answer: &Answer) -> String {
    let one = |part: &Part| match part {
        Part::Words(text) | Part::Thinking(text) | Part::Other(text) => fenced(text),
        Part::Image { media_type, .. } => format!("*[{media_type}; the HTML form shows it]*\n"),
    };
    let label = if answer.is_error { "Failed" } else { "Result" };
    format!("\n{label} <sub>#{}</sub>\n\n{}", answer.n, answer.parts.iter().map(one).collect::<String>())
}

fn folded(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{summary}</summary>\n\n{body}\n</details>\n")
}

/// A code block whose fence is longer than any run of backticks in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

/// Code on one line.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// Text on one line that is nothing but text.
fn inline(text: &str) -> String {
    let escaped = text.chars().flat_map(|character| match character {
        '<' => "&lt;".chars().collect(),
        '&' => "&amp;".chars().collect(),
        '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' => vec!['\\', character],
        _ => vec![character],
    });
    escaped.collect()
}

fn tagless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}").trim_end().to_owned() + "\n").collect()
}

/// A message of the model.
fn whole(text: &str) -> String {
    contained(text, "")
}

/// A message of a person, whose line ends count.
fn hard_breaks(text: &str) -> String {
    contained(text, "  ")
}

/// Markdown that cannot break out of its place; lines outside code end in `line_end`.
fn contained(text: &str, line_end: &str) -> String {
    let mut out = arranged(text, line_end);
    // What a tag hid may have tags in it, now that it is none.
    for _ in 0..ROUNDS {
        let tags = tags(&out);
        if tags.is_empty() {
            break;
        }
        out = without(&out, &tags);
    }
    if tags(&out).is_empty() && ends(&out) { out } else { fenced(text) }
}

/// Headings below the page's own, and the last code block closed.
fn arranged(text: &str, line_end: &str) -> String {
    let mut out = String::new();
    let mut fence: Option<(char, usize)> = None;
    for line in text.trim_end().lines() {
        let run = fence_run(line);
        match (fence, run) {
            (None, Some((mark, length, _))) => {
                fence = Some((mark, length));
                out.push_str(line);
            }
            (Some((mark, length)), Some((found, run, rest))) if mark == found && run >= length && rest.is_empty() => {
                fence = None;
                out.push_str(line);
            }
            (Some(_), _) => out.push_str(line),
            (None, None) => {
                let level = line.chars().take_while(|character| *character == '#').count();
                let is_heading = (1..=MAX_LEVEL).contains(&level) && line[level..].starts_with([' ', '\t']);
                let moved = if is_heading { (level + OWN_LEVELS).min(MAX_LEVEL) } else { level };
                out.push_str(&"#".repeat(moved));
                out.push_str(&line[level..]);
                if !line.trim().is_empty() {
                    out.push_str(line_end);
                }
            }
        }
        out.push('\n');
    }
    if let Some((mark, length)) = fence {
        out.extend(std::iter::repeat_n(mark, length));
        out.push('\n');
    }
    out
}

/// The mark, length and rest of a line that opens or closes a code block.
fn fence_run(line: &str) -> Option<(char, usize, &str)> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|mark| line.len() - text.len() <= 3 && matches!(mark, '`' | '~'))?;
    let length = text.chars().take_while(|character| *character == mark).count();
    let rest = text[length..].trim();
    // What has a backtick behind it is code within a line.
    (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some((mark, length, rest))
}

/// Where a reader of Markdown sees tags.
fn tags(text: &str) -> Vec<Range<usize>> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    events.filter(|(event, _)| matches!(event, Event::Html(_) | Event::InlineHtml(_))).map(|(_, range)| range).collect()
}

/// The text with those tags as words.
fn without(text: &str, tags: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len() + 4 * tags.len());
    let mut copied = 0;
    for tag in tags.iter().filter(|tag| tag.start <= tag.end) {
        let start = tag.start.max(copied);
        let end = tag.end.max(start);
        out.push_str(&text[copied..start]);
        out.push_str(&text[start..end].replace('<', "&lt;"));
        copied = end;
    }
    out.push_str(&text[copied..]);
    out
}

/// Whether what follows the text is a paragraph of its own.
fn ends(text: &str) -> bool {
    const NEXT: &str = "next";
    let followed = format!("{text}\n\n{NEXT}");
    let mut depth = 0_usize;
    let mut last = None;
    for event in Parser::new_ext(&followed, Options::ENABLE_TABLES) {
        match event {
            Event::Start(tag) => {
                depth += 1;
                last = (depth == 1 && tag == Tag::Paragraph).then(String::new);
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(text) => last = last.map(|before| before + &text),
            _ => last = None,
        }
    }
    last.as_deref() == Some(NEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_break_out_of_its_place() {
        assert_eq!(
            whole("# Big\nx </details><script>y</script> `<b>` <"),
            "### Big\nx &lt;/details>&lt;script>y&lt;/script> `<b>` <\n"
        );
        assert_eq!(whole("`\n` <b> `"), "`\n` &lt;b> `\n", "code that spans lines does not hide a tag");
        assert_eq!(whole("\\`<b>\\`"), "\\`&lt;b>\\`\n");
        assert_eq!(whole("<!-- hidden\n\nmore"), "&lt;!-- hidden\n\nmore\n");
        assert_eq!(whole("<div>\n```\n</div>"), "&lt;div>\n```\n&lt;/div>\n```\n");
        let open = "- a\n  ```\n  b";
        assert_eq!(whole(open), fenced(open), "what cannot be kept whole is shown as text");
        assert_eq!(whole("```rust\n<T>\n# no heading"), "```rust\n<T>\n# no heading\n```\n", "an open fence is closed");
        assert_eq!(whole("~~~~\n```\n~~~\n~~~~\n<b>"), "~~~~\n```\n~~~\n~~~~\n&lt;b>\n");
        assert_eq!(hard_breaks("one\ntwo\n\nthree"), "one  \ntwo  \n\nthree  \n");
    }

    #[test]
    fn a_fence_is_longer_than_what_is_in_it() {
        assert_eq!(fenced("a\n````\nb"), "`````text\na\n````\nb\n`````\n");
        assert_eq!(fenced(""), "```text\n\n```\n");
    }
}
