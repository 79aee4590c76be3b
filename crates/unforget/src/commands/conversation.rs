//! Records as a person reads them, in the terminal and as Markdown.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use unforget_core::blob::BlobRef;
use unforget_core::json;
use unforget_core::record::{Body, Record};

use crate::screen;

/// How much of a tool's arguments and output the readable form shows.
const ARGUMENTS: usize = 200;
const OUTPUT_LINES: usize = 12;

/// One thing to show: who, what, and the text below it.
pub(crate) struct Shown<'a> {
    pub(crate) who: &'static str,
    pub(crate) what: String,
    pub(crate) text: Cow<'a, str>,
    pub(crate) style: Style,
    /// Tool calls and the like: shortened in the terminal.
    pub(crate) machine: bool,
}

/// What a record shows; nothing for records that only keep the books.
pub(crate) fn shown<'a>(record: &Record<'a>) -> Vec<Shown<'a>> {
    let one = |who, what: String, text: Cow<'a, str>, color: AnsiColor, machine| {
        vec![Shown { who, what, text, style: color.on_default(), machine }]
    };
    match &record.body {
        Body::User { content } => words("you", content, AnsiColor::Green),
        Body::Assistant { content, .. } => words("assistant", content, AnsiColor::Cyan),
        Body::ToolUse(call) => {
            one("tool", format!("{} {}", call.name, call.id), Cow::Borrowed(call.input), AnsiColor::Magenta, true)
        }
        Body::ToolResult(result) => {
            let who = if result.is_error { "failed" } else { "result" };
            let text = preview(result.content).map(Cow::Owned).or_else(|| json::string(result.content));
            let text = text.unwrap_or(Cow::Borrowed(result.content));
            one(who, result.id.clone().into_owned(), text, AnsiColor::Magenta, true)
        }
        Body::Compaction { summary, .. } => {
            one("summary", "of everything before".to_owned(), summary.clone(), AnsiColor::Blue, false)
        }
        Body::Trim { records, .. } => {
            let count = json::elements(records).map_or(0, |records| records.len());
            one("trim", format!("{count} records shortened for the model"), Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::Undo { of } => one("undo", format!("of record {of}"), Cow::Borrowed(""), AnsiColor::Blue, false),
        Body::Pin { to, text } => {
            let what = if text.is_some() { "record" } else { "no longer record" };
            one("pin", format!("{what} {to}"), Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::Error { message } => one("error", String::new(), message.clone(), AnsiColor::Red, false),
        Body::Turn { state, .. } if state != "done" && state != "running" => {
            one("turn", state.clone().into_owned(), Cow::Borrowed(""), AnsiColor::Yellow, false)
        }
        Body::Approval { tool_use_id, state } => {
            one("approval", format!("{state} {tool_use_id}"), Cow::Borrowed(""), AnsiColor::Yellow, false)
        }
        Body::Head { to } => {
            let to = to.map_or("the beginning".to_owned(), |n| format!("record {n}"));
            one("rewind", format!("to {to}"), Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::Label { to, name } => {
            let to = to.map_or(String::new(), |n| format!(" at record {n}"));
            one("label", format!("{name}{to}"), Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::Pinned { on } => {
            let what = if *on { "this session" } else { "this session no longer" };
            one("pin", what.to_owned(), Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::Expire { after } => {
            let what = after.as_deref().unwrap_or("as the settings say").to_owned();
            one("expires", what, Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::File(change) => {
            let what = match (change.before, change.after) {
                (before, after) if before == after => "left as it was:",
                (None, _) => "created",
                (_, None) => "removed",
                _ => "changed",
            };
            one("file", format!("{what} {}", change.path), Cow::Borrowed(""), AnsiColor::Blue, false)
        }
        Body::Title { title } => one("title", title.clone().into_owned(), Cow::Borrowed(""), AnsiColor::Blue, false),
        Body::Unknown { kind } => {
            one("unknown", kind.clone().into_owned(), Cow::Borrowed(record.raw), AnsiColor::Yellow, true)
        }
        Body::Invalid { kind, why } => {
            one("unusable", format!("{kind}: {why}"), Cow::Borrowed(record.raw), AnsiColor::Yellow, true)
        }
        Body::Session(header) => match header.origin.and_then(json::members) {
            Some(origin) if json::member(&origin, "format").and_then(json::string).as_deref() == Some("fork") => {
                let id = json::member(&origin, "id").and_then(json::string).unwrap_or_default();
                let at = json::member(&origin, "at").and_then(json::number);
                let at = at.map_or("its beginning".to_owned(), |n| format!("record {n}"));
                one("forked", format!("from {id} at {at}"), Cow::Borrowed(""), AnsiColor::Blue, false)
            }
            Some(origin) => {
                let file = json::member(&origin, "file").and_then(json::string).unwrap_or_default();
                let damaged = json::member(&origin, "damaged").and_then(json::number).unwrap_or(0);
                let rest = if damaged > 0 {
                    format!(" ({damaged} damaged places are in the kept original only)")
                } else {
                    String::new()
                };
                one("imported", format!("from {file}{rest}"), Cow::Borrowed(""), AnsiColor::Blue, false)
            }
            None => Vec::new(),
        },
        Body::Context { .. } | Body::Turn { .. } | Body::Aside { .. } => Vec::new(),
    }
}

/// What is shown in place of a payload that is elsewhere: its beginning and its size.
fn preview(raw: &str) -> Option<String> {
    let reference = BlobRef::parse(raw)?;
    let preview = json::member(&json::members(raw)?, "preview").and_then(json::string)?;
    Some(format!("{preview}… ({} in all)", screen::bytes(reference.bytes)))
}

fn words<'a>(who: &'static str, content: &'a str, color: AnsiColor) -> Vec<Shown<'a>> {
    let style = color.on_default();
    if let Some(text) = preview(content) {
        return vec![Shown { who, what: String::new(), text: Cow::Owned(text), style, machine: false }];
    }
    if let Some(text) = json::string(content) {
        return vec![Shown { who, what: String::new(), text, style, machine: false }];
    }
    json::elements(content)
        .unwrap_or_else(|| vec![content])
        .into_iter()
        .map(|block| shown_block(who, block, style))
        .collect()
}

fn shown_block<'a>(who: &'static str, block: &'a str, style: Style) -> Shown<'a> {
    let members = json::members(block).unwrap_or_default();
    let text = |name| json::member(&members, name).and_then(json::string);
    let kind = text("type").unwrap_or_default();
    let magenta = AnsiColor::Magenta.on_default();
    match kind.as_ref() {
        "text" => Shown { who, what: String::new(), text: text("text").unwrap_or_default(), style, machine: false },
        "thinking" => {
            let what = "thinking".to_owned();
            Shown { who, what, text: text("thinking").unwrap_or_default(), style: style.dimmed(), machine: true }
        }
        "tool_use" => {
            let what = format!("{} {}", text("name").unwrap_or_default(), text("id").unwrap_or_default());
            let input = json::member(&members, "input").unwrap_or("");
            Shown { who: "tool", what, text: Cow::Borrowed(input), style: magenta, machine: true }
        }
        "tool_result" => {
            let content = json::member(&members, "content").unwrap_or("");
            let shown = json::string(content).unwrap_or(Cow::Borrowed(content));
            let what = text("tool_use_id").unwrap_or_default().into_owned();
            Shown { who: "result", what, text: shown, style: magenta, machine: true }
        }
        "" if preview(block).is_some() => {
            let text = Cow::Owned(preview(block).unwrap_or_default());
            Shown { who, what: String::new(), text, style, machine: true }
        }
        other => {
            let what = format!("[{other}, {}]", screen::bytes(block.len() as u64));
            Shown { who, what, text: Cow::Borrowed(""), style, machine: true }
        }
    }
}

/// The text that is shown, that of machines shortened.
pub(crate) fn text(shown: &Shown<'_>) -> String {
    let text = screen::safe(&shown.text);
    if shown.machine { shorten(&text) } else { text.into_owned() }
}

/// The readable form of a record for a terminal.
pub(crate) fn terminal(record: &Record<'_>) -> String {
    let dim = Style::new().dimmed();
    let mut out = String::new();
    for shown in shown(record) {
        let style = shown.style;
        let time = record.time_ms().map(screen::time).unwrap_or_default();
        let what = if shown.what.is_empty() { String::new() } else { format!(" {}", screen::one_line(&shown.what)) };
        out.push_str(&format!("{dim}{:>4}{dim:#} {style}{}{style:#}{what}  {dim}{time}{dim:#}\n", record.n, shown.who));
        let text = text(&shown);
        for line in text.lines() {
            out.push_str(&format!("     {line}\n"));
        }
    }
    out
}

fn shorten(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() == 1 {
        return screen::fit(text, ARGUMENTS);
    }
    let mut out: Vec<String> = lines.iter().take(OUTPUT_LINES).map(|line| screen::fit(line, ARGUMENTS)).collect();
    if lines.len() > OUTPUT_LINES {
        out.push(format!("… {} more lines", lines.len() - OUTPUT_LINES));
    }
    out.join("\n")
}

/// The record as Markdown.
pub(crate) fn markdown(record: &Record<'_>) -> String {
    let mut out = String::new();
    for shown in shown(record) {
        let what = if shown.what.is_empty() {
            String::new()
        } else {
            format!(" `{}`", screen::one_line(&shown.what).replace('`', "'"))
        };
        out.push_str(&format!("**{}**{what}\n\n", shown.who));
        let text = screen::safe(&shown.text);
        if shown.machine && !text.is_empty() {
            // The fence must be longer than any run of backticks inside.
            let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest.max(2) + 1);
            out.push_str(&format!("{fence}\n{}\n{fence}\n\n", text.trim_end()));
        } else if !text.is_empty() {
            out.push_str(&format!("{}\n\n", text.trim_end()));
        }
    }
    out
}
