use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use super::*;

fn render(text: &str, width: usize, style: Style) -> String {
    let mut renderer = Renderer::new(width, style);
    let mut out = renderer.feed(text);
    out.push_str(&renderer.finish());
    out
}

fn plain(text: &str) -> String {
    render(text, 40, Style::Plain)
}

/// Without our own colours, and only those: any other escape sequence stays and is found.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((code, rest)) if code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => out.push_str(rest),
            _ => out.push_str(&format!("\u{1b}[{part}")),
        }
    }
    out
}

#[test]
fn a_paragraph_appears_word_by_word() {
    let mut renderer = Renderer::new(40, Style::Plain);
    let shown = ["Hello wor", "ld", " and", " more\n"].map(|piece| renderer.feed(piece));
    assert_eq!(shown, ["Hello", "", " world", " and more"]);
    assert_eq!(renderer.finish(), "\n");
}

#[test]
fn emphasis_is_applied_once_its_end_is_known() {
    let mut renderer = Renderer::new(40, Style::Coloured);
    assert_eq!(renderer.feed("so **very bold"), "so");
    assert_eq!(renderer.feed("** it"), " \u{1b}[1mvery bold\u{1b}[0m");
}

#[test]
fn a_mark_that_nothing_closes_is_text_and_is_not_waited_for_long() {
    assert_eq!(plain("a **b c"), "a **b c\n");
    let mut renderer = Renderer::new(40, Style::Plain);
    let shown = renderer.feed(&format!("**{}", "word ".repeat(element::HOLD / 5 + 1)));
    assert!(shown.starts_with("**word word"), "{shown:?}");
}

#[test]
fn inline_marks_become_styles() {
    let all = "*i* **b** ***x*** ~~s~~ `c` _u_ [t](http://u)";
    assert_eq!(
        render(all, 80, Style::Coloured),
        "\u{1b}[3mi\u{1b}[0m \u{1b}[1mb\u{1b}[0m \u{1b}[1m\u{1b}[3mx\u{1b}[0m \u{1b}[9ms\u{1b}[0m \u{1b}[36mc\u{1b}[0m \
         \u{1b}[3mu\u{1b}[0m \u{1b}[4mt\u{1b}[0m \u{1b}[2m(http://u)\u{1b}[0m\n"
    );
    // Without colours, what would mean something else keeps its marks.
    assert_eq!(render(all, 80, Style::Plain), "i b x ~~s~~ `c` u t (http://u)\n");
    assert_eq!(plain("**a *b***, *c **d***"), "a b, c d\n");
    assert_eq!(plain("<http://a.b> [http://a.b/](http://a.b) \\*no\\* &lt;"), "http://a.b http://a.b/ *no* <\n");
}

#[test]
fn what_only_looks_like_a_mark_stays() {
    let text = "x**2 + y**2, snake_case_name, 2 * 3 * 4, a[0] and f[i](a b), ~5, <div>, AT&T, stop! now!";
    assert_eq!(render(text, 100, Style::Plain), format!("{text}\n"));
}

#[test]
fn japanese_emphasis_needs_no_blanks() {
    let shown = render("これは**「強調」**です", 40, Style::Coloured);
    assert_eq!(shown, "これは\u{1b}[1m「強調」\u{1b}[0mです\n");
}

#[test]
fn japanese_is_wrapped_by_columns_and_no_line_begins_with_a_full_stop() {
    assert_eq!(render("一二三四五六七八。九十", 16, Style::Plain), "一二三四五六七\n八。九十\n");
}

#[test]
fn a_word_longer_than_a_line_is_parted() {
    let word = "0123456789abcdefghij";
    assert_eq!(
        render(&format!("so {word}{word} x"), 16, Style::Plain),
        "so\n0123456789abcdef\nghij0123456789ab\ncdefghij x\n"
    );
}

#[test]
fn lists_nest_and_hang() {
    let text = "- first item that goes on and on and on\n  1. inner\n     - third\n  2. next\n- last\n\n  more of it\n";
    assert_eq!(
        render(text, 24, Style::Plain),
        "• first item that goes\n  on and on and on\n  1. inner\n     • third\n  2. next\n• last\n\n  more of it\n"
    );
    // Models often move in by two blanks where three were needed.
    assert_eq!(plain("1. a\n  - b\n  - c\n2. d"), "1. a\n   • b\n   • c\n2. d\n");
    assert_eq!(plain("- a\n    - b\n        - c\n    - d\n- e"), "• a\n  • b\n    • c\n  • d\n• e\n");
    assert_eq!(plain("-\n- b\n"), "•\n• b\n");
}

#[test]
fn code_comes_line_by_line_as_it_is() {
    let mut renderer = Renderer::new(16, Style::Plain);
    assert_eq!(renderer.feed("```rust\n"), "── rust\n");
    assert_eq!(renderer.feed("let **a** = \"0123456789\";\n"), "  let **a** = \"0123456789\";\n");
    assert_eq!(renderer.feed("\tif\n\n``"), "      if\n\n");
    assert_eq!(renderer.feed("`\nend "), "end");
}

#[test]
fn a_very_long_line_of_code_is_not_kept_back() {
    let mut renderer = Renderer::new(16, Style::Plain);
    let line = "x".repeat(CODE_HOLD + 10);
    assert!(renderer.feed(&format!("```\n{line}")).len() > CODE_HOLD);
    assert_eq!(renderer.feed("yz\n"), "yz\n");
}

#[test]
fn quotes_have_a_bar() {
    let text = "> one two three four five\n>\n> - a\n>   ```\n>   code\nafter";
    assert_eq!(render(text, 16, Style::Plain), "│ one two three\n│ four five\n│\n│ • a\n│     code\nafter\n");
}

#[test]
fn headings_and_rules_stand_out() {
    assert_eq!(render("text\n## Two\nmore\n***\n", 16, Style::Plain), "text\n\n## Two\nmore\n────────────────\n");
    assert_eq!(render("# One\n", 16, Style::Coloured), "\u{1b}[1m\u{1b}[4mOne\u{1b}[0m\n");
    assert_eq!(plain("Title\n===\n#hash 2024. 7"), format!("Title\n{}\n#hash 2024. 7\n", "═".repeat(40)));
}

#[test]
fn a_table_waits_until_it_is_whole() {
    let mut renderer = Renderer::new(40, Style::Plain);
    assert_eq!(renderer.feed("| Name | 数 |\n|---|--:|\n| alpha | 1 |\n| 日本 | a\\|b |\n"), "");
    assert_eq!(renderer.feed("\n"), "Name  │  数\n──────┼────\nalpha │   1\n日本  │ a|b\n");
    assert_eq!(plain("|x| is absolute\nand more"), "|x| is absolute\nand more\n");
}

#[test]
fn cells_that_do_not_fit_are_wrapped_and_too_many_columns_become_lists() {
    let text = "| a | b |\n|---|---|\n| x | one two three four |\n| y | z | extra |\n";
    assert_eq!(
        render(text, 16, Style::Plain),
        "a │ b\n──┼─────────────\nx │ one two\n  │ three four\n──┼─────────────\ny │ z | extra\n"
    );
    let wide = "|alpha|beta1|gamma|\n|-|-|-|\n|1|2|3|\n|4|5|6|\n";
    assert_eq!(render(wide, 16, Style::Plain), "alpha: 1\nbeta1: 2\ngamma: 3\n\nalpha: 4\nbeta1: 5\ngamma: 6\n");
}

#[test]
fn a_table_without_an_end_is_drawn_in_parts() {
    let mut renderer = Renderer::new(40, Style::Plain);
    assert_eq!(renderer.feed("|a|b|\n|-|-|\n"), "");
    let shown = renderer.feed(&"|1|2|\n".repeat(table::HOLD / 4));
    assert!(shown.starts_with("a │ b\n──┼──\n1 │ 2\n1 │ 2\n"), "{:?}", &shown[..60]);
}

#[test]
fn escape_sequences_of_a_model_do_not_act() {
    let evil = "a\u{1b}[2Jb\u{9b}c &#27;[31m `\u{1b}]0;t\u{7}`\n```\u{1b}[1m\n\u{1b}[31mx\n```\n| \u{1b}[5m |\n|-|\n\n\u{202e}r\r\n";
    let shown = uncoloured(&render(evil, 80, Style::Coloured));
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    assert!(shown.contains("a␛[2Jb<U+009B>c &#27;[31m ␛]0;t␇"), "{shown:?}");
}

#[test]
fn a_finished_renderer_begins_again() {
    let mut renderer = Renderer::new(40, Style::Plain);
    renderer.feed("> - ```\ncode");
    renderer.finish();
    assert_eq!((renderer.feed("text "), renderer.finish()), ("text".to_owned(), "\n".to_owned()));
}

const MARKUP: &[&str] = &[
    "\n",
    "\n",
    "\n\n",
    " ",
    "  ",
    "# ",
    "- ",
    "* ",
    "1. ",
    "> ",
    "\n> ",
    "\n- ",
    "\n  - ",
    "\n    ",
    "*",
    "**",
    "***",
    "_",
    "__",
    "~~",
    "`",
    "``",
    "```",
    "\n```\n",
    "~~~",
    "[",
    "](",
    ")",
    "![",
    "<",
    ">",
    "&",
    "&amp;",
    ";",
    "\\",
    "|",
    "\n|",
    "|-|-|\n",
    "---",
    "===",
    "\t",
    "\r\n",
    "\n| a | b |\n|---|:-:|\n| ",
    "日本語。",
    "「漢字」",
    "é",
    "👩‍👩‍👧",
    "\u{1b}[1m",
    "\u{7}",
];

fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => proptest::sample::select(MARKUP).prop_map(str::to_owned),
        4 => "[a-z]{4} ",
        1 => "[a-z0-9]{1,40}",
        1 => Just("http://a.b/c_d".to_owned()),
        1 => proptest::collection::vec(any::<char>(), 1..4).prop_map(String::from_iter),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_pieces_that_text_comes_in_make_no_difference(
        text in markdown(), cuts in proptest::collection::vec(1_usize..9, 1..8), width in 10_usize..60,
    ) {
        for style in [Style::Coloured, Style::Plain] {
            let mut renderer = Renderer::new(width, style);
            let (mut shown, mut characters) = (String::new(), text.chars().peekable());
            for cut in cuts.iter().cycle() {
                if characters.peek().is_none() { break }
                shown.push_str(&renderer.feed(&characters.by_ref().take(*cut).collect::<String>()));
            }
            shown.push_str(&renderer.finish());
            prop_assert_eq!(shown, render(&text, width, style));
        }
    }

    #[test]
    fn nothing_acts_on_the_terminal(text in markdown(), width in 0_usize..60) {
        let bad = |c: char| c.is_control() && c != '\n';
        prop_assert!(!uncoloured(&render(&text, width, Style::Coloured)).contains(bad));
        prop_assert!(!render(&text, width, Style::Plain).contains(bad));
    }

    #[test]
    fn no_line_but_code_is_wider_than_the_page(text in markdown(), width in 16_usize..60) {
        // Nothing of this is code: no fences, no four blanks before a line.
        let mut text = text.replace(['`', '~'], "'").replace('\t', " ");
        while text.contains("   ") {
            text = text.replace("   ", "  ");
        }
        for style in [Style::Coloured, Style::Plain] {
            for line in uncoloured(&render(&text, width, style)).lines() {
                prop_assert!(line.width() <= width, "{} columns: {:?}", line.width(), line);
            }
        }
    }

    #[test]
    fn every_word_is_shown(
        pieces in proptest::collection::vec((proptest::sample::select(MARKUP), "[a-z]{4} "), 0..40), width in 16_usize..80,
    ) {
        let text: String = pieces.iter().flat_map(|(markup, word)| [*markup, word.as_str()]).collect();
        // In the narrow columns of a table even a short word may be parted.
        let text = if width < 50 { text.replace('|', "/") } else { text };
        for style in [Style::Coloured, Style::Plain] {
            let shown = uncoloured(&render(&text, width, style));
            for (_, word) in &pieces {
                prop_assert!(shown.contains(word.trim_end()), "{word} of {text:?} is not in {shown:?}");
            }
        }
    }

    #[test]
    fn no_colour_is_left_switched_on(text in markdown()) {
        let mut renderer = Renderer::new(40, Style::Coloured);
        for character in text.chars() {
            let shown = renderer.feed(character.encode_utf8(&mut [0; 4]));
            let last = shown.rfind("\u{1b}[").map(|at| &shown[at..]);
            prop_assert!(last.is_none_or(|last| last.starts_with("\u{1b}[0m")), "{shown:?}");
        }
    }
}
