//! A session as one HTML page that needs nothing else: no script, no network, no second file.
//!
//! The page forbids itself what it does not need: its policy allows the one style sheet, by its hash, and images that are in
//! the page. Whatever a message manages to smuggle in could neither run nor call anybody. Every record has an anchor
//! (`#r42`); what the user said is the table of contents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unforget_core::encode;

use crate::commands::export::document::{Answer, Document, Item, Part, What};
use crate::commands::export::words::{self, LineEnds, escape};
use crate::screen;

const STYLE: &str = include_str!("page.css");
/// How much of a message stands in the table of contents.
const CONTENTS_COLUMNS: usize = 90;
/// How much of a call's arguments its folded line shows.
const SUMMARY_COLUMNS: usize = 90;
/// A conversation with fewer questions needs no table of contents.
const CONTENTS_FROM: usize = 3;

/// Writes a document.
pub(crate) fn render(document: &Document) -> String {
    let title = escape(&document.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"unforget {}\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1 dir=\"auto\">{title}</h1>\n",
        hash_of(STYLE),
        env!("CARGO_PKG_VERSION"),
    );
    out.push_str("<dl>\n");
    for (name, value) in &document.facts {
        out.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)));
    }
    out.push_str("</dl>\n");
    out.push_str(&contents(document));
    out.push_str("<main>\n");
    let mut was_abandoned = false;
    for item in &document.items {
        if item.is_abandoned != was_abandoned {
            out.push_str(if item.is_abandoned {
                "<section class=\"abandoned\">\n<p>Abandoned branch</p>\n"
            } else {
                "</section>\n"
            });
            was_abandoned = item.is_abandoned;
        }
        out.push_str(&shown(item));
    }
    if was_abandoned {
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n<footer>Written by unforget.</footer>\n</body>\n</html>\n");
    out
}

/// The style's hash, as the policy names it.
fn hash_of(style: &str) -> String {
    let hex = encode::sha256_hex(style.as_bytes());
    let digit = |at: usize| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
    STANDARD.encode(bytes)
}

/// What the user said, as a list of links.
fn contents(document: &Document) -> String {
    let words = |item: &Item| match &item.what {
        What::User(parts) => {
            let text = parts.iter().find_map(|part| match part {
                Part::Words(text) => Some(screen::one_line(text)).filter(|text| !text.is_empty()),
                _ => None,
            });
            Some((item.n, text.unwrap_or_else(|| "[an image]".to_owned())))
        }
        _ => None,
    };
    let said: Vec<(u64, String)> = document.items.iter().filter_map(words).collect();
    if said.len() < CONTENTS_FROM {
        return String::new();
    }
    let mut out =
        format!("<nav><details><summary>Contents <span class=\"hint\">({})</span></summary>\n<ol>\n", said.len());
    for (n, text) in said {
        out.push_str(&format!(
            "<li dir=\"auto\"><a href=\"#r{n}\">{}</a></li>\n",
            escape(&screen::fit(&text, CONTENTS_COLUMNS))
        ));
    }
    out + "</ol>\n</details></nav>\n"
}

fn shown(item: &Item) -> String {
    let n = item.n;
    let time = escape(&item.time);
    let place = format!("<span class=\"place\">{time} <a href=\"#r{n}\">#{n}</a></span>");
    match &item.what {
        What::User(parts) => said("you", "You", n, &place, &parts_of(parts, LineEnds::Break)),
        What::Added(parts) => said("added", "Added for the model", n, &place, &parts_of(parts, LineEnds::Break)),
        What::Assistant(parts) if item.continues => {
            format!("<div class=\"more\" id=\"r{n}\" dir=\"auto\">{}</div>\n", parts_of(parts, LineEnds::Flow))
        }
        What::Assistant(parts) => said("assistant", "Assistant", n, &place, &parts_of(parts, LineEnds::Flow)),
        What::Call { name, input, result } => {
            let first = screen::fit(&screen::one_line(input), SUMMARY_COLUMNS);
            let verdict = match result {
                Some(answer) if answer.is_error => " <span class=\"failed\">failed</span>",
                Some(_) => "",
                None => " <span class=\"failed\">no result</span>",
            };
            let (name, first) = (escape(name), escape(&first));
            let summary = format!("<code>{name}</code> <span class=\"hint\">{first}</span>{verdict}");
            let body = code(input) + &result.as_ref().map(answered).unwrap_or_default();
            format!("<details class=\"call\" id=\"r{n}\"><summary>{summary}</summary>\n{place}\n{body}</details>\n")
        }
        What::Result(answer) => {
            let verdict = if answer.is_error { "A failure without its call" } else { "A result without its call" };
            format!("<details class=\"call\"><summary>{verdict}</summary>\n{}</details>\n", answered(answer))
        }
        What::Summary(text) => format!(
            "<aside class=\"summary\" id=\"r{n}\" dir=\"auto\"><strong>Compacted here.</strong> For the model, this stands for everything above. {place}\n{}</aside>\n",
            words::render(text, LineEnds::Flow)
        ),
        What::Note { what, text } => {
            let text = if text.is_empty() { String::new() } else { code(text) };
            format!("<aside id=\"r{n}\">{} {place}{text}</aside>\n", escape(what))
        }
    }
}

fn said(class: &str, who: &str, n: u64, place: &str, body: &str) -> String {
    format!(
        "<article class=\"{class}\" id=\"r{n}\"><header class=\"who\"><h2>{who}</h2>{place}</header>\n<div dir=\"auto\">{body}</div></article>\n"
    )
}

fn parts_of(parts: &[Part], line_ends: LineEnds) -> String {
    let one = |part: &Part| match part {
        Part::Words(text) => words::render(text, line_ends),
        Part::Thinking(text) => format!("<details><summary>Thinking</summary>\n{}</details>\n", code(text)),
        Part::Image { media_type, data } => picture(media_type, data),
        Part::Other(text) => code(text),
    };
    parts.iter().map(one).collect()
}

fn answered(answer: &Answer) -> String {
    let one = |part: &Part| match part {
        Part::Words(text) | Part::Thinking(text) | Part::Other(text) => code(text),
        Part::Image { media_type, data } => picture(media_type, data),
    };
    let verdict = if answer.is_error { "<span class=\"failed\">failed</span>" } else { "result" };
    let n = answer.n;
    let place = format!("<p class=\"place\" id=\"r{n}\">{verdict} <a href=\"#r{n}\">#{n}</a></p>\n");
    place + &answer.parts.iter().map(one).collect::<String>()
}

fn code(text: &str) -> String {
    format!("<pre dir=\"auto\">{}</pre>\n", escape(text.trim_end()))
}

fn picture(media_type: &str, data: &str) -> String {
    format!("<p><img alt=\"an image of the conversation\" src=\"data:{media_type};base64,{}\"></p>\n", escape(data))
}
