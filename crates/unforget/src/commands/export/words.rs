//! Markdown of messages as HTML that is safe to show.
//!
//! Messages are written by models, tools and strangers. Tags in them come out as text, never as tags; links lead to the web or to
//! mail, or are no links; images are not fetched, because a page that is read must not call anybody. Everything else is
//! escaped by the writer of the HTML.

use std::borrow::Cow;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// The schemes that links may have.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// What a line end in a paragraph means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// A blank, as in Markdown.
    Flow,
    /// A line end: people write as they speak.
    Break,
}

/// Renders a message.
pub(super) fn render(text: &str, line_ends: LineEnds) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut links: Vec<bool> = Vec::new();
    let events = Parser::new_ext(text, options).map(|event| match event {
        Event::Html(tag) | Event::InlineHtml(tag) => Event::Text(tag),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::SoftBreak if line_ends == LineEnds::Break => Event::HardBreak,
        Event::Start(Tag::Link { dest_url, .. }) => {
            links.push(is_allowed(&dest_url));
            own(if is_allowed(&dest_url) { anchor(&dest_url) } else { String::new() })
        }
        Event::End(TagEnd::Link) => own(if links.pop() == Some(true) { "</a>".to_owned() } else { String::new() }),
        Event::Start(Tag::Image { .. }) => Event::Text(CowStr::Borrowed("[image: ")),
        Event::End(TagEnd::Image) => Event::Text(CowStr::Borrowed("]")),
        Event::Start(Tag::Heading { level, .. }) => own(format!("<h{}>", below(level))),
        Event::End(TagEnd::Heading(level)) => own(format!("</h{}>\n", below(level))),
        Event::Start(Tag::Table(columns)) => {
            // Alignment would be a style in the tag, which the page's own rules forbid.
            Event::Start(Tag::Table(vec![pulldown_cmark::Alignment::None; columns.len()]))
        }
        other => other,
    });
    let mut out = String::with_capacity(text.len() * 5 / 4);
    html::push_html(&mut out, events);
    out.replace("<table>", "<div class=\"wide\"><table>").replace("</table>", "</table></div>")
}

fn own<'a>(tag: String) -> Event<'a> {
    Event::InlineHtml(CowStr::from(tag))
}

/// Headings of messages stand below those of the page.
fn below(level: HeadingLevel) -> u8 {
    (level as u8 + 2).min(6)
}

fn is_allowed(address: &str) -> bool {
    SCHEMES.iter().any(|scheme| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

fn anchor(address: &str) -> String {
    format!("<a href=\"{}\" rel=\"noopener noreferrer\">", escape(address))
}

/// Text as it stands between tags or in an attribute.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Cow::Owned(escaped.replace('"', "&quot;").replace('\'', "&#39;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html_of(text: &str) -> String {
        render(text, LineEnds::Flow)
    }

    #[test]
    fn tags_are_text_and_links_lead_to_the_web_only() {
        assert_eq!(html_of("a <b onclick=x>b</b>"), "<p>a &lt;b onclick=x&gt;b&lt;/b&gt;</p>\n");
        assert!(html_of("<script>\nalert(1)\n</script>").starts_with("<p>&lt;script&gt;"));
        assert_eq!(html_of("[x](javascript:alert(1))"), "<p>x</p>\n");
        assert_eq!(html_of("[x](JaVaScRiPt:alert(1)) <data:text/html,x>"), "<p>x data:text/html,x</p>\n");
        assert_eq!(
            html_of("[x](https://a.org/?q=\"'>)"),
            "<p><a href=\"https://a.org/?q=&quot;&#39;&gt;\" rel=\"noopener noreferrer\">x</a></p>\n"
        );
        assert_eq!(html_of("![alt *x*](https://a.org/t.png)"), "<p>[image: alt <em>x</em>]</p>\n");
    }

    #[test]
    fn code_tables_and_headings_are_kept_in_bounds() {
        assert_eq!(
            html_of("```rust\nlet a = \"<\";\n```"),
            "<pre><code class=\"language-rust\">let a = \"&lt;\";\n</code></pre>\n"
        );
        let table = html_of("|a|b|\n|:-|-:|\n|1|2|");
        assert!(table.starts_with("<div class=\"wide\"><table>") && !table.contains("style"), "{table}");
        assert_eq!(html_of("# a"), "<h3>a</h3>\n");
        assert_eq!(render("a\nb", LineEnds::Break), "<p>a<br />\nb</p>\n");
        assert!(!html_of("<table>").contains("<table"), "a tag in the text stays text");
    }
}
