//! Rows about what may be too many, too large or too long.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{ACCEPTED, ask, assistant, body, call, hello, judge, result, text, thinking, user, with};
use crate::rules::{Server, check, is_overflow};

/// A PNG that consists of nothing but its dimensions.
fn image(width: u32, height: u32) -> Value {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 6, 0, 0, 0, 0, 0, 0, 0]);
    encoded("image/png", &STANDARD.encode(bytes))
}

fn encoded(media_type: &str, data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

fn shown(images: Vec<Value>) -> Value {
    body([user(images)])
}

#[test]
fn images_are_measured_one_by_one() {
    let inside = with(result("t"), "content", [text("x"), image(9, 8001)]);
    let heavy = "A".repeat(10 * 1024 * 1024 + 1);
    judge! { &Server::default();
        shown(vec![image(8000, 8000)]) => ACCEPTED,
        shown(vec![image(1, 8001)]) =>
            "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed \
             size: 8000 pixels",
        body([user("hi"), assistant([call("t")]), user([inside])]) =>
            "messages.2.content.0.tool_result.content.1.image.source.base64.data: At least one of the image dimensions",
        shown(vec![encoded("image/webp", "AAAA")]) => ACCEPTED,
        shown(vec![encoded("image/gif", "not base64")]) => ACCEPTED,
        shown(vec![encoded("image/tiff", "AAAA")]) =>
            "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', \
             'image/gif' or 'image/webp'",
        shown(vec![encoded("image/png", &heavy)]) =>
            "messages.0.content.0.image.source.base64: image exceeds 10 MB maximum",
        shown(vec![encoded("image/png", &heavy[1..])]) => ACCEPTED,
        shown(vec![json!({"type": "image", "source": {"type": "url", "url": "u"}})]) => ACCEPTED,
        shown(vec![json!({"type": "image", "source": {"type": "fax"}})]) =>
            "messages.0.content.0.image.source: Input tag 'fax' found using 'type'",
        shown(vec![json!({"type": "image"})]) => "messages.0.content.0.image.source: Field required",
    }
}

#[test]
fn images_are_measured_together() {
    let inside =
        |images: Vec<Value>| body([user("hi"), assistant([call("t")]), user([with(result("t"), "content", images)])]);
    judge! { &Server::default();
        shown(vec![image(2001, 1); 20]) => ACCEPTED,
        shown(vec![image(2000, 1); 21]) => ACCEPTED,
        shown(vec![image(2001, 1); 21]) =>
            "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed \
             size for many-image requests: 2000 pixels",
        inside(vec![image(2001, 1); 21]) =>
            "messages.2.content.0.tool_result.content.0.image.source.base64.data: At least",
        shown(vec![image(1, 1); 100]) => ACCEPTED,
        shown(vec![image(1, 1); 101]) => "Too many images: 101",
        inside(vec![image(1, 1); 101]) => "Too many images: 101",
    }
    judge! { &Server { window: 1_000_000, ..Server::default() };
        shown(vec![image(1, 1); 600]) => ACCEPTED,
        shown(vec![image(1, 1); 601]) => "Too many images: 601",
    }
}

#[test]
fn cache_breakpoints_are_counted_everywhere() {
    let cached = |block: Value| with(block, "cache_control", json!({"type": "ephemeral"}));
    let marked = |count: usize| body([user(vec![cached(text("x")); count])]);
    let thought = |block: Value| body([user("hi"), assistant([block, text("x")]), user("go")]);
    judge! { &Server::default();
        marked(4) => ACCEPTED,
        marked(5) => "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        cached(marked(4)) => "Found 5.",
        with(marked(4), "system", [cached(text("s"))]) => "Found 5.",
        with(marked(4), "cache_control", json!(null)) => ACCEPTED,
        body([user([cached(text(""))])]) =>
            "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
        thought(cached(thinking("s"))) =>
            "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
        thought(with(thinking("s"), "cache_control", json!({}))) =>
            "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    }
}

#[test]
fn bodies_and_conversations_have_a_largest_size() {
    let rejection = check(&vec![b'x'; 32 * 1024 * 1024 + 1], &Server::default()).unwrap_err();
    assert_eq!((rejection.status, rejection.kind), (413, "request_too_large"));
    judge! { &Server::default();
        body(vec![user("x"); 100_000]) => ACCEPTED,
        body(vec![user("x"); 100_001]) => "messages: at most 100000 messages are allowed",
    }
}

#[test]
fn long_requests_overflow() {
    let request = with(hello(), "max_tokens", 1000);
    let said = |model: &str, tokens: u64| {
        let count = move |_: &Value| tokens;
        ask(&request, &Server { model, count: Some(&count), ..Server::default() })
    };
    assert_eq!(said("claude-opus-5", 200_000), ACCEPTED);
    assert_eq!(said("claude-opus-5", 200_251), "prompt is too long: 200251 tokens > 200000 maximum");
    assert_eq!(said("claude-sonnet-4-5-20250929", 199_500), ACCEPTED);
    assert_eq!(said("claude-sonnet-4-20250514", 199_000), ACCEPTED);
    assert_eq!(
        said("claude-sonnet-4-20250514", 199_500),
        "input length and `max_tokens` exceed context limit: 199500 + 1000 > 200000, decrease input length or \
         `max_tokens` and try again"
    );
}

#[test]
fn only_overflow_counts_as_overflow() {
    let invalid = "invalid_request_error";
    for (status, kind, message, wanted) in [
        (429, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit", false),
        (400, invalid, "prompt is too long: 210883 tokens > 199999 maximum", true),
        (400, invalid, "x: prompt is too long: prompt is too long: 2 tokens > 1 maximum, sorry", true),
        (400, invalid, "prompt is too long: many tokens > 199999 maximum", false),
        (400, invalid, "prompt is too long", false),
        (400, invalid, "input length and `max_tokens` exceed context limit: 198981 + 21333 > 200000, decrease", true),
        (400, invalid, "input length and max_tokens exceed context limit: 1 + 2 > 2", true),
        (400, invalid, "input length and max_tokens exceed context limit: 1 + 2 > ", false),
        (400, "api_error", "prompt is too long: 210883 tokens > 199999 maximum", false),
        (500, invalid, "prompt is too long: 210883 tokens > 199999 maximum", false),
        (413, "request_too_large", "", true),
        (413, invalid, "", false),
    ] {
        assert_eq!(is_overflow(status, kind, message), wanted, "{status} {kind} {message}");
    }
}

#[test]
fn a_rejection_shows_its_status_and_kind() {
    let rejection = check(b"{}", &Server::default()).unwrap_err();
    assert_eq!(rejection.to_string(), "400 invalid_request_error: max_tokens: Field required");
}
