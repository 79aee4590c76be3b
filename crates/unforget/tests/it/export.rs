//! Exports: what is read on a forge, in a browser, and on another machine.

use std::process::Command;

use crate::support::Home;

const SECRET: &str = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");

/// Everything that has ever made a page run something, call someone, or fall apart.
const HOSTILE: [&str; 22] = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "[x](javascript:alert(1))",
    "[x](JAVASCRIPT&#58;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x \"onmouseover=alert(1)\")",
    "[x](https://a.org/\" onmouseover=\"alert(1))",
    "![x](https://tracker.example/pixel.png)",
    "![x](x \"y\\\" onerror=\\\"alert(1)\")",
    "<style>body{display:none}</style>",
    "</style><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "<!-- hidden",
    "</details></article></main></body></html>",
    "<iframe src=https://evil.example></iframe>",
    "<meta http-equiv=refresh content=0;url=https://evil.example>",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "abc\u{202e}txt.exe\u{2066}",
    "```html\n</code></pre><script>alert(1)</script>\n```",
    "`````\nnever closed <b onclick=x>",
];

fn records(texts: &[&str]) -> String {
    let quote = |text: &str| serde_json::to_string(text).unwrap();
    let mut lines = String::new();
    for (at, text) in texts.iter().enumerate() {
        let text = quote(text);
        lines.push_str(&format!("{{\"type\":\"user\",\"content\":{text}}}\n"));
        lines.push_str(&format!("{{\"type\":\"assistant\",\"msg\":\"m{at}\",\"content\":[{{\"type\":\"thinking\",\"thinking\":{text}}},{{\"type\":\"text\",\"text\":{text}}}]}}\n"));
        lines.push_str(&format!("{{\"type\":\"tool_use\",\"msg\":\"m{at}\",\"tool_use_id\":\"t{at}\",\"name\":{text},\"input\":{{\"a\":{text}}}}}\n"));
        lines.push_str(&format!(
            "{{\"type\":\"tool_result\",\"tool_use_id\":\"t{at}\",\"output\":{text},\"is_error\":true}}\n"
        ));
        lines.push_str(&format!(
            "{{\"type\":\"compaction\",\"summary\":{text}}}\n{{\"type\":\"error\",\"message\":{text}}}\n"
        ));
        lines.push_str(&format!("{{\"type\":\"title\",\"title\":{text}}}\n{{\"type\":\"label\",\"name\":{text}}}\n"));
        lines.push_str(&format!(
            "{{\"type\":\"file\",\"path\":{text},\"before\":null,\"after\":null}}\n{{\"type\":{text}}}\n"
        ));
    }
    lines
}

/// A session with these lines, under the usual key.
fn session(home: &Home, lines: &str) {
    let said = home.feed(&["append", "--create", "main:cli:user"], lines);
    assert_eq!(said.code, 0, "{said:?}");
}

/// The tags of a page with their attributes; text between them does not count.
fn tags(html: &str) -> Vec<&str> {
    let body = html.split_once("</style>").unwrap().1;
    body.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
}

/// What is exported of a hostile session; a note tells of its odd record, and shows the letters that steer a screen.
fn exported(home: &Home, more: &[&str]) -> String {
    let said = home.run(&[&["export", "main:cli:user"], more].concat());
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.starts_with("note: ") && said.err.lines().count() == 1, "{said:?}");
    assert!(said.err.contains("`abc\\u{202e}txt.exe\\u{2066}`"), "{said:?}");
    said.out
}

#[test]
fn nothing_in_a_hostile_transcript_becomes_a_tag_or_leaves_the_page() {
    let home = Home::new();
    session(&home, &records(&HOSTILE));
    for more in [&[][..], &["--all"], &["--mask"]] {
        let page = exported(&home, &[&["-f", "html"], more].concat());
        let allowed = [
            "!doctype", "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "dl", "dt", "dd", "nav",
            "details", "summary", "ol", "li", "a", "main", "article", "header", "div", "p", "pre", "code", "span",
            "aside", "strong", "br", "footer", "section", "em",
        ];
        for tag in tags(&page) {
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            assert!(allowed.contains(&name), "<{tag}>");
            for attribute in tag.split(' ').skip(1).filter_map(|part| part.split_once('=')) {
                let is_known = matches!(attribute.0, "class" | "id" | "href" | "rel" | "dir");
                assert!(is_known && attribute.1.starts_with('"'), "<{tag}>");
                if attribute.0 == "href" {
                    let to = attribute.1.trim_matches('"');
                    assert!(to.starts_with("#r") || to.starts_with("https://a.org/"), "<{tag}>");
                }
            }
        }
        assert_eq!(page.matches("<script").count() + page.matches("onerror=\"").count(), 0);
        assert!(!page.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{2066}']), "escapes and direction marks are visible");
        assert_eq!(page.matches("</main>").count(), 1, "the page is whole");
        for open in ["details", "article", "aside", "pre", "div", "p"] {
            let (opened, closed) = (
                page.matches(&format!("<{open}>")).count() + page.matches(&format!("<{open} ")).count(),
                page.matches(&format!("</{open}>")).count(),
            );
            assert_eq!(opened, closed, "<{open}>");
        }
    }
}

#[test]
fn nothing_in_a_hostile_transcript_breaks_out_of_the_markdown() {
    let home = Home::new();
    session(&home, &records(&HOSTILE));
    let page = exported(&home, &["-f", "markdown"]);
    assert!(!page.contains(['\u{1b}', '\u{202e}']));
    assert_eq!(page.matches("\n</details>\n").count(), page.matches("<details>\n").count());
    // Outside code, only the page's own tags are tags.
    let parser = pulldown_cmark::Parser::new(&page);
    for event in parser {
        if let pulldown_cmark::Event::Html(tag) | pulldown_cmark::Event::InlineHtml(tag) = event {
            for tag in tag.split('<').skip(1) {
                let own = [
                    "a id=\"r",
                    "/a>",
                    "sub>",
                    "/sub>",
                    "details>",
                    "/details>",
                    "summary>",
                    "/summary>",
                    "code>",
                    "/code>",
                ];
                assert!(own.iter().any(|start| tag.starts_with(start)), "<{tag}");
            }
        }
    }
}

#[test]
fn the_page_needs_nothing_and_allows_itself_nothing_more() {
    let home = Home::new();
    let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let block = |media: &str| {
        format!(
            "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{media}\",\"data\":\"{image}\"}}}}"
        )
    };
    session(&home, &format!("{{\"type\":\"user\",\"content\":[{},{}]}}\n", block("image/png"), block("image/svg+xml")));
    let page = home.ok(&["export", "main:cli:user", "-f", "html"]);
    assert_eq!(page.matches("<img ").count(), 1, "only harmless kinds of images");
    assert!(page.contains(&format!("src=\"data:image/png;base64,{image}\"")));
    assert!(page.contains("default-src 'none'; img-src data:; style-src 'sha256-"));
    assert!(page.contains("width=device-width") && page.contains("id=\"r1\""));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
}

/// Two turns, a rewind before the second, and another second one.
fn branched(home: &Home) {
    let lines = concat!(
        r#"{"type":"user","content":"first"}"#,
        "\n",
        r#"{"type":"assistant","content":[{"type":"text","text":"one"}]}"#,
        "\n",
        r#"{"type":"user","content":"wrong turn"}"#,
        "\n",
        r#"{"type":"head","to":2,"reason":"rewind"}"#,
        "\n",
        r#"{"type":"user","content":"right turn"}"#,
        "\n",
        r#"{"type":"compaction","summary":"two turns","first_kept":5}"#,
        "\n",
        r#"{"type":"user","content":"after"}"#,
        "\n",
    );
    session(home, lines);
}

#[test]
fn only_the_current_path_is_shown_unless_all_is_asked_for_and_compactions_stand_where_they_happened() {
    let home = Home::new();
    branched(&home);
    for format in ["markdown", "html"] {
        let page = home.ok(&["export", "main:cli:user", "-f", format]);
        assert!(!page.contains("wrong turn") && !page.contains("Abandoned branch"), "{page}");
        let places: Vec<usize> = ["first", "right turn", "Compacted here", "two turns", "after"]
            .iter()
            .map(|text| page.rfind(text).unwrap())
            .collect();
        assert!(places.is_sorted(), "{places:?} {page}");
        let all = home.ok(&["export", "main:cli:user", "-f", format, "--all"]);
        let (mark, wrong) = (all.find("Abandoned branch").unwrap(), all.rfind("wrong turn").unwrap());
        assert!(mark < wrong && wrong < all.rfind("right turn").unwrap(), "{all}");
    }
}

#[test]
fn z09_a_masked_export_has_no_secret_in_any_form_and_the_session_keeps_it() {
    let home = Home::new();
    let long = format!("{} {SECRET}", "word ".repeat(60_000));
    let quoted = serde_json::to_string(&long).unwrap();
    session(
        &home,
        &format!(
            "{{\"type\":\"user\",\"content\":\"my key is {SECRET}\"}}\n{{\"type\":\"tool_use\",\"tool_use_id\":\"t1\",\"name\":\"x\",\"input\":{{\"k\":\"{SECRET}\"}}}}\n{{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"output\":{quoted}}}\n{{\"type\":\"title\",\"title\":\"{SECRET}\"}}\n"
        ),
    );
    for format in ["jsonl", "markdown", "html", "bundle"] {
        let file = home.path(&format!("out.{format}"));
        let said = home.run(&["export", "main:cli:user", "-f", format, "--mask", "-o", file.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{said:?}");
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET) && text.contains("my key is "), "{format}");
    }
    for blob in crate::support::files(&home.path("out.jsonl.blobs")) {
        assert!(!std::fs::read_to_string(home.path("out.jsonl.blobs").join(blob)).unwrap().contains(SECRET));
    }
    let kept = home.run(&["export", "main:cli:user"]);
    assert!(kept.out.contains(SECRET), "the log has every word");
    // What was masked says so, and is whole: its checksums and payloads hold.
    for name in ["out.jsonl", "out.bundle"] {
        let other = Home::new();
        let said = other.run(&["import", home.path(name).to_str().unwrap()]);
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(other.run(&["doctor"]).code, 0);
        let shown = other.run(&["export", "main:cli:user"]).out;
        assert!(shown.lines().next().unwrap().contains("\"masked\":true"), "{shown}");
    }
}

#[test]
fn s14_a_masked_export_has_no_token_or_key_of_this_program_in_any_form() {
    let home = Home::new();
    let (token, key) = ("uft_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V", "0123456789abcdef".repeat(4));
    let lines = format!(
        "{{\"type\":\"user\",\"content\":\"my token is {token}\"}}\n{{\"type\":\"tool_use\",\"tool_use_id\":\"t1\",\"name\":\"bash\",\"input\":{{\"command\":\"cat remote.key\",\"env\":\"UNFORGET_REMOTE_KEY={key}\"}}}}\n{{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"output\":\"$ cat ~/.config/unforget/remote.key\\n{key}\\n\"}}\n"
    );
    session(&home, &lines);
    for format in ["jsonl", "markdown", "html", "bundle"] {
        let file = home.path(&format!("out.{format}"));
        let said = home.run(&["export", "main:cli:user", "-f", format, "--mask", "-o", file.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{said:?}");
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("my token is ") && !text.contains(token) && !text.contains(&key), "{format}: {text}");
    }
}

#[test]
fn a_bundle_is_a_tar_that_other_programs_read_and_is_written_once() {
    let home = Home::new();
    home.conversation("main:cli:user", &["hello"]);
    let file = home.path("x.unforget");
    let path = file.to_str().unwrap();
    assert_eq!(home.run(&["export", "main:cli:user", "-f", "bundle", "-o", path]).code, 0);
    let listed = Command::new("tar").args(["tf", path]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "manifest.json\ntranscript.jsonl\n", "{listed:?}");
    let taken = Command::new("tar").args(["xOf", path, "transcript.jsonl"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&taken.stdout), home.ok(&["export", "main:cli:user"]));
    let again = home.run(&["export", "main:cli:user", "-f", "bundle", "-o", path]);
    assert!(again.code == 1 && again.err.contains("already exists"), "{again:?}");
    assert_eq!(crate::support::files(home.folder.path()).iter().filter(|name| name.contains(".tmp-")).count(), 0);
}

#[test]
fn a_bundle_is_imported_under_another_key_and_a_changed_one_is_refused_by_name() {
    let home = Home::new();
    home.conversation("main:cli:user", &["hello"]);
    let file = home.path("x.unforget");
    home.run(&["export", "main:cli:user", "-f", "bundle", "-o", file.to_str().unwrap()]);
    let said = home.run(&["import", "x.unforget", "--key", "main:cli:copy"]);
    assert!(said.code == 0 && said.out.contains("main:cli:copy  2 records"), "{said:?}");
    assert_eq!(home.run(&["doctor"]).code, 0);
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(5).rposition(|window| window == b"hello").unwrap();
    bytes[at] = b'j';
    home.write("y.unforget", bytes);
    let said = home.run(&["import", "y.unforget"]);
    assert!(said.code == 4 && said.out.contains("`transcript.jsonl`: its content does not match its hash"), "{said:?}");
    let said = home.run(&["import", ".", "--key", "main:cli:copy"]);
    assert!(said.code == 2 && said.err.contains("`--key` is for one file"), "{said:?}");
}
