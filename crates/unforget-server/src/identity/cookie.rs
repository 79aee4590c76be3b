//! The cookie that keeps the token of somebody who uses the page.
//!
//! A page that keeps a token where its scripts reach it loses it to the first script that gets in. So the browser keeps it, in a cookie that no script can
//! read (`HttpOnly`). But a browser sends a cookie along whoever caused the request, and therefore the cookie alone authorises nothing. It counts
//!
//! * at `/v1/…`, together with the header `x-unforget-page: 1`. A form or a picture cannot send a header, and a page from elsewhere would have to be
//!   allowed to, which the answer to its browser ([`door`](crate::door)) does not do, whoever it is;
//! * at `/ws`, where a browser asks nobody and sets no header, if the `Origin` is the very host and port that is connected to. That an origin is
//!   allowed is not enough.
//!
//! What a page from elsewhere says that it sent does not count in either place, and neither does a cookie beside an `Authorization` header. In all
//! other places cookies are not looked at.
//!
//! [`translate`] is the one place that knows of it: what counts becomes the `Authorization` header that a program would have sent, and no request
//! that went through has a `Cookie` header. So all that comes behind (who is asking, other servers, logs) knows one way only.

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use super::is_of_a_token;
use crate::door::Passed;

/// The header by which the page says that it is the page.
pub(crate) const FROM_PAGE: HeaderName = HeaderName::from_static("x-unforget-page");
/// What the cookie is called.
const NAME: &str = "unforget_token";
/// What it is called where there is TLS: a browser takes a cookie of such a name from this very host only, over TLS, and for all of its paths.
const HOST_NAME: &str = "__Host-unforget_token";
/// How long a cookie stays if its owner says so, in seconds; otherwise as long as the browser is open.
const STAY: u32 = 30 * 24 * 60 * 60;
/// The longest token that fits, with the name and all that is said about it, into the 4,096 bytes that a browser keeps.
pub(crate) const LONGEST: usize = 3800;

/// Takes the cookies out of a request, and what counts of them in as a token.
pub(crate) fn translate(route: &str, passed: &Passed, headers: &mut HeaderMap) {
    let cookies: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    if headers.contains_key(AUTHORIZATION) || !counts(route, passed, headers) {
        return;
    }
    let pairs = cookies.iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let named = |name: &str| -> Vec<&[u8]> {
        let pairs = pairs.clone().map(<[u8]>::trim_ascii);
        pairs.filter_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).collect()
    };
    // One that was set over TLS cannot be from another host; the other one may be left over from before.
    let secure = named(HOST_NAME);
    let found = if secure.is_empty() { named(NAME) } else { secure };
    let token = match found.as_slice() {
        [] => return,
        [token] if token.iter().all(|byte| is_of_a_token(*byte)) => *token,
        // Which of them was meant cannot be told, or it is none: no token is a wrong one.
        _ => b"",
    };
    if let Ok(mut value) = HeaderValue::from_bytes(&[b"Bearer ", token].concat()) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
}

/// Whether a cookie counts in this request.
fn counts(route: &str, passed: &Passed, headers: &HeaderMap) -> bool {
    if route == "/ws" {
        return passed.is_own();
    }
    let mut marks = headers.get_all(FROM_PAGE).iter();
    let is_marked = marks.next().is_some_and(|mark| mark == "1") && marks.next().is_none();
    route.starts_with("/v1/") && is_marked && !passed.is_foreign()
}

/// What has a browser keep a token, and forget the one that it had under the other name; none if it cannot be kept.
pub(crate) fn keep(token: &SecretString, is_secure: bool, stays: bool) -> Option<[HeaderValue; 2]> {
    let token = token.expose_secret();
    if token.len() > LONGEST || !token.bytes().all(is_of_a_token) {
        return None;
    }
    let age = if stays { format!("; Max-Age={STAY}") } else { String::new() };
    let (name, other) = if is_secure { (HOST_NAME, NAME) } else { (NAME, HOST_NAME) };
    Some([cookie(name, token, &age)?, forget_one(other)?])
}

/// What has a browser forget the token.
pub(crate) fn forget() -> Option<[HeaderValue; 2]> {
    Some([forget_one(NAME)?, forget_one(HOST_NAME)?])
}

fn forget_one(name: &str) -> Option<HeaderValue> {
    cookie(name, "", "; Max-Age=0")
}

fn cookie(name: &str, token: &str, age: &str) -> Option<HeaderValue> {
    let secure = if name == HOST_NAME { "; Secure" } else { "" };
    let text = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/{secure}{age}");
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use axum::http::{Method, Uri};

    use super::*;
    use crate::door::Door;

    const HOST: (&str, &str) = ("host", "127.0.0.1:7878");
    const OWN: (&str, &str) = ("origin", "http://127.0.0.1:7878");
    const ALLOWED: (&str, &str) = ("origin", "https://app.example");
    const PAGE: (&str, &str) = ("x-unforget-page", "1");
    const COOKIE: (&str, &str) = ("cookie", "unforget_token=uft_abc");

    /// What a request says of who is asking, behind the door.
    fn said(route: &str, pairs: &[(&'static str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in [&[HOST], pairs].concat() {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let door = Door::new("127.0.0.1:7878".parse().unwrap()).allow_origin(ALLOWED.1).unwrap();
        let passed = door.check(&Method::POST, &Uri::from_static("/"), &headers).unwrap();
        translate(route, &passed, &mut headers);
        assert!(!headers.contains_key("cookie"), "no cookie goes further");
        let value = headers.get(AUTHORIZATION)?;
        Some(value.to_str().unwrap().to_owned())
    }

    fn bearer(token: &str) -> Option<String> {
        Some(format!("Bearer {token}"))
    }

    #[test]
    fn z04_a_cookie_counts_for_the_page_only() {
        assert_eq!(said("/v1/sessions", &[COOKIE, PAGE]), bearer("uft_abc"));
        assert_eq!(said("/v1/sessions", &[COOKIE, PAGE, OWN]), bearer("uft_abc"));
        let refused: [&[(&'static str, &str)]; 6] = [
            &[COOKIE],
            &[COOKIE, OWN],
            &[COOKIE, ("x-unforget-page", "0")],
            &[COOKIE, PAGE, PAGE],
            &[COOKIE, ALLOWED],
            &[COOKIE, PAGE, ALLOWED],
        ];
        for pairs in refused {
            assert_eq!(said("/v1/sessions", pairs), None, "{pairs:?}");
        }
        for route in ["/invocations", "/metrics", "/ping", "/", "none", "/v1", "/v10/x"] {
            assert_eq!(said(route, &[COOKIE, PAGE, OWN]), None, "{route}");
        }
    }

    #[test]
    fn z04_a_cookie_counts_for_a_socket_of_our_own_page_only() {
        assert_eq!(said("/ws", &[COOKIE, OWN]), bearer("uft_abc"));
        for pairs in [[COOKIE, ALLOWED].as_slice(), &[COOKIE], &[COOKIE, PAGE], &[COOKIE, PAGE, ALLOWED]] {
            assert_eq!(said("/ws", pairs), None, "{pairs:?}");
        }
        // Another name of this machine is another page.
        assert_eq!(said("/ws", &[COOKIE, ("origin", "http://localhost:7878")]), None);
    }

    #[test]
    fn z01_a_header_that_says_who_is_asking_is_the_one_that_counts() {
        for other in ["Bearer other", "Basic x", ""] {
            assert_eq!(said("/v1/sessions", &[COOKIE, PAGE, ("authorization", other)]), Some(other.to_owned()));
        }
    }

    #[test]
    fn z01_cookies_that_cannot_be_told_apart_or_are_none_are_a_wrong_token() {
        for wrong in [
            "unforget_token=a; unforget_token=b",
            "unforget_token=a; unforget_token=a",
            "unforget_token=",
            "unforget_token=a b",
            "unforget_token=\"a\"",
            "unforget_token=a,b",
            "unforget_token=\u{e9}",
            "__Host-unforget_token=a; __Host-unforget_token=b",
            "unforget_token=good; __Host-unforget_token=b d",
        ] {
            assert_eq!(said("/v1/me", &[PAGE, ("cookie", wrong)]), bearer(""), "{wrong}");
        }
        let apart = [PAGE, ("cookie", "unforget_token=a"), ("cookie", "unforget_token=b")];
        assert_eq!(said("/v1/me", &apart), bearer(""));
    }

    #[test]
    fn other_cookies_are_nothing_to_us() {
        for (cookies, found) in [
            ("theme=dark; unforget_token=a=; x=y", bearer("a=")),
            ("theme=dark;unforget_token=a;x", bearer("a")),
            ("unforget_token=old; __Host-unforget_token=new", bearer("new")),
            ("theme=dark", None),
            ("xunforget_token=a; unforget_tokens=b; Unforget_Token=c; unforget_token", None),
            ("token=a; authorization=Bearer a; access_token=a", None),
        ] {
            assert_eq!(said("/v1/me", &[PAGE, ("cookie", cookies)]), found, "{cookies}");
        }
    }

    #[test]
    fn a_cookie_is_out_of_reach_of_scripts_and_of_other_sites() {
        let text = |kept: Option<[HeaderValue; 2]>| kept.unwrap().map(|value| value.to_str().unwrap().to_owned());
        let rest = "HttpOnly; SameSite=Strict; Path=/";
        let gone = [
            format!("unforget_token=; {rest}; Max-Age=0"),
            format!("__Host-unforget_token=; {rest}; Secure; Max-Age=0"),
        ];
        let token = SecretString::from("uft_abc");
        assert_eq!(text(keep(&token, false, false)), [format!("unforget_token=uft_abc; {rest}"), gone[1].clone()]);
        assert_eq!(
            text(keep(&token, true, true)),
            [format!("__Host-unforget_token=uft_abc; {rest}; Secure; Max-Age=2592000"), gone[0].clone()]
        );
        assert_eq!(text(forget()), gone);
        assert!(!format!("{:?}", keep(&token, true, true)).contains("uft_abc"));
        assert!(keep(&SecretString::from("x".repeat(LONGEST)), true, true).unwrap()[0].len() < 4096);
        assert_eq!(keep(&SecretString::from("x".repeat(LONGEST + 1)), true, true), None);
        assert_eq!(keep(&SecretString::from("a; Domain=evil.example"), true, true), None);
    }
}
