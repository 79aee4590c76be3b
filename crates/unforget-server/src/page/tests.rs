use std::io::Read as _;

use axum::http::{Method, Request};
use flate2::read::GzDecoder;
use tower::ServiceExt as _;

use super::*;

/// What a page may weigh on its way.
const MOST: usize = 300 * 1000;

async fn ask(method: Method, pairs: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
    let mut request = Request::builder().method(method).uri("/");
    for (name, value) in pairs {
        request = request.header(*name, *value);
    }
    let response = routes::<()>().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec())
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

/// What is between two texts, each of which is there once.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    assert_eq!((text.matches(begin).count(), text.matches(end).count()), (1, 1), "{begin} and {end}");
    text.split_once(begin).unwrap().1.split_once(end).unwrap().0
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[tokio::test]
async fn the_page_is_small_and_its_policy_names_what_is_in_it() {
    let (status, headers, bytes) = ask(Method::GET, &[("host", "localhost:8080"), ("accept-encoding", "gzip")]).await;
    assert_eq!((status, &headers[CONTENT_ENCODING]), (StatusCode::OK, &HeaderValue::from_static("gzip")));
    assert!(bytes.len() < MOST, "the page has {} bytes; it loads in one round trip of {MOST} at most", bytes.len());
    let text = unpacked(&bytes);
    let style = hash(between(&text, "<style>", "</style>"));
    let script = hash(between(&text, "<script type=\"module\">", "</script>"));
    assert_eq!(
        headers[CONTENT_SECURITY_POLICY].to_str().unwrap(),
        format!(
            "default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'; \
             connect-src 'self' ws://localhost:8080 wss://localhost:8080"
        )
    );
    assert_eq!(headers[CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(headers[CACHE_CONTROL], "no-cache");
    assert_eq!(headers[CROSS_ORIGIN_OPENER_POLICY], "same-origin");
    let permissions = headers[PERMISSIONS_POLICY].to_str().unwrap();
    assert!(permissions.contains("camera=()") && permissions.contains("clipboard-write=(self)"));
}

#[tokio::test]
async fn a_host_that_could_say_more_than_a_host_is_not_in_the_policy() {
    for host in ["a; script-src *", "[::1]:8080", "a b", "'self'", "*"] {
        let (_, headers, _) = ask(Method::GET, &[("host", host)]).await;
        assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().ends_with("; connect-src 'self'"), "{host}");
    }
}

#[tokio::test]
async fn it_is_packed_for_those_who_can_unpack_it() {
    for no in ["", "br", "deflate, br", "gzip;q=0", "gzip; q=0.000", "gzip;q=x", "notgzip"] {
        let (_, headers, bytes) = ask(Method::GET, &[("accept-encoding", no)]).await;
        assert!(!headers.contains_key(CONTENT_ENCODING), "{no}");
        assert!(bytes.starts_with(b"<!doctype html>"), "{no}");
        assert_eq!(headers[VARY], "accept-encoding");
    }
    let (_, _, plain) = ask(Method::GET, &[]).await;
    for yes in ["gzip", "deflate, GZIP;q=0.5, br", "br;q=1.0,gzip;q=0.8"] {
        let (_, headers, bytes) = ask(Method::GET, &[("accept-encoding", yes)]).await;
        assert_eq!(headers[CONTENT_ENCODING], "gzip", "{yes}");
        assert_eq!(unpacked(&bytes).as_bytes(), plain, "{yes}");
    }
}

#[tokio::test]
async fn who_has_it_is_not_sent_it_again() {
    let (_, plain, _) = ask(Method::GET, &[]).await;
    let (_, packed, _) = ask(Method::GET, &[("accept-encoding", "gzip")]).await;
    let [plain, packed] = [plain, packed].map(|headers| headers[ETAG].to_str().unwrap().to_owned());
    assert_ne!(plain, packed, "two forms are not the same bytes");
    assert!(plain.starts_with('"') && plain.ends_with('"'), "a strong tag: {plain}");
    for known in [plain.clone(), format!("W/{plain}"), format!("\"other\", {plain}"), "*".to_owned()] {
        let (status, headers, bytes) = ask(Method::GET, &[("if-none-match", &known)]).await;
        assert_eq!((status, bytes.len()), (StatusCode::NOT_MODIFIED, 0), "{known}");
        assert_eq!(headers[ETAG].to_str().unwrap(), plain);
        assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("script-src 'sha256-"));
    }
    for other in ["\"other\"", &packed, plain.trim_matches('"')] {
        let (status, _, bytes) = ask(Method::GET, &[("if-none-match", other)]).await;
        assert!(status == StatusCode::OK && !bytes.is_empty(), "{other}");
    }
    let (status, headers, bytes) = ask(Method::HEAD, &[]).await;
    assert_eq!((status, headers[ETAG].to_str().unwrap(), bytes.len()), (StatusCode::OK, plain.as_str(), 0));
}

#[test]
fn another_policy_or_another_text_is_another_page() {
    let tag = |template, style, script| Document::new(template, style, script).plain.tag;
    let template = "<!--style--><!--script-->";
    let usual = tag(template, "a", "b");
    assert_eq!(usual, tag(template, "a", "b"));
    for other in [tag(template, "a", "c"), tag(template, "c", "b"), tag("<p><!--style--><!--script-->", "a", "b")] {
        assert_ne!(usual, other);
    }
}

/// Why a text cannot stand in the document as it is.
fn fault(name: &str, text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let ends = ["</script", "</style", "<!--"].into_iter().find(|end| lower.contains(end));
    match ends {
        Some(end) => {
            Some(format!("{name} contains `{end}`, which a browser takes for its end: the build has to escape it"))
        }
        // A browser reads another line end, and then the hash is another one.
        None if text.contains(['\r', '\0']) => Some(format!("{name} contains a character that a browser changes")),
        None => None,
    }
}

#[test]
fn style_and_script_can_stand_in_a_document() {
    assert_eq!(fault("page.js", SCRIPT), None);
    assert_eq!(fault("page.css", STYLE), None);
    for bad in ["a='</SCRIPT>'", "a='<!-- '", "a\r\nb", "</style x"] {
        assert!(fault("it", bad).is_some(), "{bad}");
    }
    for here in [STYLE_HERE, SCRIPT_HERE] {
        assert_eq!(TEMPLATE.matches(here).count(), 1, "web/dist/page.html holds {here} once");
    }
}

/// What a document without its script would load.
fn loads(template: &str, style: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (text, begins, ends) in [
        (template, ["src", "href"].as_slice(), ['=', '=']),
        (template, &["srcset", "action", "poster", "http-equiv", "<base", "<iframe", "<object", "<embed"], [' ', '=']),
        (style, &["url"], ['(', '(']),
        (style, &["@import", "@namespace", "image-set"], [' ', '(']),
    ] {
        let lower = text.to_ascii_lowercase();
        for begin in begins {
            for (at, _) in lower.match_indices(begin) {
                let rest = lower[at + begin.len()..].trim_start();
                let is_it = rest.starts_with(ends) || begin.starts_with(['@', '<']);
                let value = rest.trim_start_matches(ends).trim_start().trim_start_matches(['"', '\'']);
                let may_hold_data = ["src", "href", "url"].contains(begin);
                if is_it && !(may_hold_data && value.starts_with("data:")) {
                    found.push(lower[at..].chars().take(60).collect());
                }
            }
        }
    }
    found
}

#[test]
fn the_page_loads_nothing() {
    assert_eq!(loads(TEMPLATE, STYLE), Vec::<String>::new());
    assert!(!SCRIPT.contains("sourceMappingURL") && !STYLE.contains("sourceMappingURL"));
    for (template, style) in [
        ("<script src=\"x.js\">", ""),
        ("<link HREF = '//cdn.example/x.css'>", ""),
        ("<img srcset='x 2x'>", ""),
        ("<base href='data:x'>", ""),
        ("", "a{background:url( 'x.png')}"),
        ("", "@import 'x.css'"),
    ] {
        assert_eq!(loads(template, style).len(), 1, "{template}{style}");
    }
    assert_eq!(loads("<link rel=icon href='data:,x'>", "a{background:url(\"data:,x\")}"), Vec::<String>::new());
}
