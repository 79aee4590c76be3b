use reqwest::header::{HeaderName, HeaderValue};
use unforget_testkit::rules;

use super::*;

const NOW: i64 = 1_800_000_000_000;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

fn body(kind: &str, message: &str) -> String {
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":{}}},"request_id":"r"}}"#, json::quote(message))
}

fn read(status: u16, kind: &str, message: &str) -> Refusal {
    of_response(status, &HeaderMap::new(), &body(kind, message), NOW)
}

#[test]
fn the_true_signals_of_overflow_are_known() {
    let tokens = "prompt is too long: 216327 tokens > 200000 maximum";
    let both = "input length and `max_tokens` exceed context limit: 198981 + 21333 > 200000, decrease input length or \
                `max_tokens` and try again";
    let overflow = |limit, message: &str| Refusal::last(ModelError::Overflow { limit, message: message.to_owned() });
    assert_eq!(read(400, "invalid_request_error", tokens), overflow(Limit::Tokens, tokens));
    assert_eq!(read(400, "invalid_request_error", both), overflow(Limit::Tokens, both));
    assert_eq!(read(413, "request_too_large", "Request too big"), overflow(Limit::Bytes, "Request too big"));
    let html = of_response(413, &HeaderMap::new(), "<html>\r\n<b>413 Too Large</b>\r\n</html>", NOW);
    assert_eq!(html, overflow(Limit::Bytes, "HTTP 413: <html> <b>413 Too Large</b> </html>"));
    assert_eq!(of_event(&body("invalid_request_error", tokens)), Some(overflow(Limit::Tokens, tokens)));
}

#[test]
fn g01_an_error_that_only_speaks_of_tokens_or_context_is_no_overflow() {
    let long = "prompt is too long: 216327 tokens > 200000 maximum";
    for (status, kind, message) in [
        (429, "rate_limit_error", "This request would exceed your rate limit of 30,000 request tokens per minute"),
        (429, "rate_limit_error", "Extra usage is required for long context requests."),
        (401, "authentication_error", "OAuth token has expired. Please obtain a new token"),
        (
            400,
            "invalid_request_error",
            "max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens for claude-opus-4-5",
        ),
        (400, "invalid_request_error", "context_management: Extra inputs are not permitted"),
        (400, "invalid_request_error", "thinking.budget_tokens: `max_tokens` must be greater than the budget"),
        (529, "overloaded_error", "Overloaded: too many tokens in flight, context limit of the cluster exceeded"),
        // The right words in the wrong place: another status, another type, or quoted within something else.
        (429, "rate_limit_error", long),
        (400, "api_error", long),
        (400, "invalid_request_error", "tools.0: prompt is too long: 2 tokens > 1 maximum"),
        (400, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum length of a tool's description"),
        (400, "invalid_request_error", "prompt is too long:  tokens >  maximum"),
        (400, "invalid_request_error", "prompt is too long"),
        (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 3"),
    ] {
        let refusal = read(status, kind, message);
        assert!(!refusal.error.is_overflow(), "{status} {message}: {refusal:?}");
    }
}

#[test]
fn what_the_rules_reject_as_too_long_is_read_as_overflow() {
    for (model, max_tokens) in [("claude-opus-5", 1024), ("claude-3-7-sonnet", 150)] {
        for count in [99_u64, 100, 101] {
            let counter = move |_: &serde_json::Value| count;
            let server = rules::Server { model, window: 200, count: Some(&counter), ..Default::default() };
            let small = rules::Server { window: 98, ..server };
            let body =
                format!(r#"{{"model":"m","max_tokens":{max_tokens},"messages":[{{"role":"user","content":"x"}}]}}"#);
            for server in [server, small] {
                if let Err(rejection) = rules::check(body.as_bytes(), &server) {
                    let refusal = read(rejection.status, rejection.kind, &rejection.message);
                    let want = rules::is_overflow(rejection.status, rejection.kind, &rejection.message);
                    assert_eq!(refusal.error.is_overflow(), want, "{rejection}");
                    assert!(want);
                }
            }
        }
    }
}

#[test]
fn every_status_says_who_can_do_what() {
    let text = || "m".to_owned();
    let rejected = |status| ModelError::Rejected { status, message: text() };
    let busy = || ModelError::Unavailable { message: text() };
    let denied = || ModelError::Denied { message: text() };
    let spent = || ModelError::RateLimited { message: text(), retry_after: None };
    for (status, error, again) in [
        (302, rejected(302), Again::Never),
        (400, rejected(400), Again::Never),
        (401, denied(), Again::Never),
        (402, spent(), Again::Never),
        (403, denied(), Again::Never),
        (404, rejected(404), Again::Never),
        (408, busy(), Again::Later),
        (409, rejected(409), Again::Later),
        (422, rejected(422), Again::Never),
        (429, spent(), Again::Never),
        (500, busy(), Again::Later),
        (501, busy(), Again::Never),
        (502, busy(), Again::Later),
        (503, busy(), Again::Later),
        (504, busy(), Again::Later),
        (522, busy(), Again::Later),
        (529, busy(), Again::Later),
    ] {
        assert_eq!(read(status, "some_error", "m"), Refusal { error, again }, "{status}");
    }
}

#[test]
fn events_are_told_apart_by_their_type() {
    let text = || "m".to_owned();
    let busy = Refusal::passing(ModelError::Unavailable { message: text() });
    for (kind, want) in [
        ("overloaded_error", busy.clone()),
        ("api_error", busy.clone()),
        ("timeout_error", busy),
        ("rate_limit_error", Refusal::passing(ModelError::RateLimited { message: text(), retry_after: None })),
        ("invalid_request_error", Refusal::last(ModelError::Rejected { status: 400, message: text() })),
        ("not_found_error", Refusal::last(ModelError::Rejected { status: 404, message: text() })),
        ("authentication_error", Refusal::last(ModelError::Denied { message: text() })),
        ("permission_error", Refusal::last(ModelError::Denied { message: text() })),
        ("billing_error", Refusal::last(ModelError::RateLimited { message: text(), retry_after: None })),
        ("new_error", Refusal::last(ModelError::Unavailable { message: "new_error: m".to_owned() })),
    ] {
        assert_eq!(of_event(&body(kind, "m")), Some(want), "{kind}");
    }
    assert_eq!(of_event(r#"{"type":"message"}"#), None);
}

#[test]
fn the_wait_is_the_one_that_the_server_names() {
    const RESET: &str = "anthropic-ratelimit-input-tokens-reset";
    const REMAINING: &str = "anthropic-ratelimit-input-tokens-remaining";
    const OTHER_RESET: &str = "anthropic-ratelimit-requests-reset";
    let at = |seconds: i64| stamp::rfc3339(NOW + seconds * 1000);
    let (soon, late, past) = (at(20), at(50), at(-5));
    let after = |seconds| Again::After(Duration::from_secs(seconds));
    for (status, pairs, again) in [
        (429, vec![("retry-after", "7")], after(7)),
        (429, vec![("retry-after", "7"), (RESET, late.as_str())], after(7)),
        (429, vec![("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT")], after(30)),
        (
            429,
            vec![("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT"), ("date", "Fri, 15 Jan 2027 08:00:10 GMT")],
            after(20),
        ),
        (429, vec![(RESET, soon.as_str()), ("date", "Fri, 15 Jan 2027 08:00:10 GMT")], after(10)),
        (429, vec![("retry-after", "0.5")], Again::After(Duration::from_millis(500))),
        (429, vec![("retry-after", "soon")], Again::Never),
        (429, vec![("retry-after", "-1")], Again::Never),
        (429, vec![(RESET, soon.as_str())], after(20)),
        (429, vec![(RESET, past.as_str())], after(0)),
        (429, vec![(RESET, soon.as_str()), (OTHER_RESET, late.as_str())], after(50)),
        (429, vec![(RESET, soon.as_str()), (REMAINING, "0"), (OTHER_RESET, late.as_str())], after(20)),
        (503, vec![("retry-after", "7")], after(7)),
        (529, vec![(RESET, soon.as_str())], Again::Later),
        (400, vec![("retry-after", "7")], Again::Never),
        (529, vec![("x-should-retry", "false")], Again::Never),
        (429, vec![("x-should-retry", "false"), ("retry-after", "7")], Again::Never),
        (400, vec![("x-should-retry", "true")], Again::Later),
        (429, vec![("x-should-retry", "true")], Again::Later),
        (429, vec![("x-should-retry", "true"), ("retry-after", "7")], after(7)),
        (413, vec![("x-should-retry", "true")], Again::Never),
    ] {
        let refusal = of_response(status, &headers(&pairs), &body("e", "m"), NOW);
        assert_eq!(refusal.again, again, "{status} {pairs:?}");
    }
}

#[test]
fn other_bodies_are_quoted_short_and_on_one_line() {
    let read = |body: &str| of_response(502, &HeaderMap::new(), body, NOW).error.to_string();
    let page = format!("<html>\r\n\t<h1>502\u{1b}[31m Bad Gateway</h1>{}", "x ".repeat(5000));
    let short = read(&page);
    assert!(
        short.starts_with("the API is not available: HTTP 502: <html> <h1>502[31m Bad Gateway</h1>x x "),
        "{short}"
    );
    assert!(short.ends_with('…') && short.chars().count() < MAX_QUOTE + 60, "{short}");
    assert_eq!(read(" \n"), "the API is not available: HTTP 502 without a body");
    assert_eq!(read(r#"{"error":"no"}"#), r#"the API is not available: HTTP 502: {"error":"no"}"#);
    assert!(read(&"日".repeat(500)).contains(&"日".repeat(190)));
}
