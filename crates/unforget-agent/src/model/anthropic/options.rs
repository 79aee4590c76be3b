//! Whom to ask, and what proves who asks.
//!
//! What a person sets is checked here, before anything is sent: an address that is none, a key that no header can carry.
//! The errors name what is wrong and never quote it, since the wrong thing may be a key in the wrong place.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use unforget_core::stamp::{self, SharedSource};

use super::super::ModelError;
use super::super::retry::Retry;

/// Where the API is.
pub const BASE_URL: &str = "https://api.anthropic.com";

const VERSION: &str = "2023-06-01";

/// What proves to the API who asks.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A key, sent as `x-api-key`.
    Key(SecretString),
    /// A token, sent as `authorization: Bearer`.
    Bearer(SecretString),
}

impl Credential {
    /// The key or token itself, without the line end that a file gives it.
    pub(super) fn secret(&self) -> &str {
        let (Credential::Key(secret) | Credential::Bearer(secret)) = self;
        secret.expose_secret().trim()
    }

    /// The headers of every request.
    pub(super) fn headers(&self) -> Result<HeaderMap, ModelError> {
        let secret = self.secret();
        let (name, value) = match self {
            Credential::Key(_) => (HeaderName::from_static("x-api-key"), HeaderValue::from_str(secret)),
            Credential::Bearer(_) => (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {secret}"))),
        };
        let denied = |message: &str| ModelError::Denied { message: message.to_owned() };
        if secret.is_empty() {
            return Err(denied("it is empty"));
        }
        let mut value = value.map_err(|_| denied("it has characters that a key does not have"))?;
        value.set_sensitive(true);
        Ok(HeaderMap::from_iter([
            (name, value),
            (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION)),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("text/event-stream, application/json")),
        ]))
    }
}

/// Whom to ask and how long to wait.
#[derive(Clone)]
pub struct Options {
    /// Where the API is, with or without `/v1`.
    pub base_url: String,
    /// What proves who asks.
    pub credential: Credential,
    /// The model's name.
    pub model: String,
    /// How many tokens a request and its answer may have together.
    pub window: u64,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long nothing may come while an answer is awaited.
    pub idle_timeout: Duration,
    /// How a request is sent again.
    pub retry: Retry,
    /// What time it is, for servers that name a moment to wait for.
    pub clock: SharedSource,
}

impl Options {
    /// The API itself, with limits for a person who waits.
    pub fn new(credential: Credential, model: impl Into<String>, window: u64) -> Self {
        Self {
            base_url: BASE_URL.to_owned(),
            credential,
            model: model.into(),
            window,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            retry: Retry::default(),
            clock: Arc::new(stamp::System),
        }
    }

    /// The address before `/v1`.
    pub(super) fn base(&self) -> Result<Url, ModelError> {
        let wrong = |why: &str| ModelError::Unreachable { message: format!("the base URL {why}") };
        let mut url = Url::parse(self.base_url.trim()).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("does not begin with `https://` and a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("has a user name or a password in it"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has a `?` or a `#` in it"));
        }
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(url)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address is left out: what a person puts into it may be a password.
        f.debug_struct("Options").field("model", &self.model).field("window", &self.window).finish_non_exhaustive()
    }
}

/// Whether an address is on this machine.
pub(super) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(base_url: &str, credential: Credential) -> Options {
        Options { base_url: base_url.to_owned(), ..Options::new(credential, "m", 1) }
    }

    fn key(text: &str) -> Credential {
        Credential::Key(SecretString::from(text))
    }

    #[test]
    fn an_address_is_taken_in_every_form() {
        for (given, want) in [
            (BASE_URL, "https://api.anthropic.com/"),
            ("https://api.anthropic.com/", "https://api.anthropic.com/"),
            ("https://api.anthropic.com/v1", "https://api.anthropic.com/"),
            (" https://api.anthropic.com/v1//\n", "https://api.anthropic.com/"),
            ("http://127.0.0.1:8080/some/proxy/v1/", "http://127.0.0.1:8080/some/proxy"),
            ("https://v1", "https://v1/"),
        ] {
            assert_eq!(options(given, key("k")).base().map(|url| url.to_string()), Ok(want.to_owned()), "{given}");
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_being_quoted() {
        for given in [
            "",
            "secret-1",
            "file:///secret-1",
            "https://secret-1:x@h",
            "https://u:secret-1@h",
            "https://h?a=secret-1",
            "https://h#secret-1",
        ] {
            let error = options(given, key("k")).base().unwrap_err();
            assert!(
                matches!(error, ModelError::Unreachable { .. }) && !error.to_string().contains("secret-1"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_proxy_is_passed_over_for_this_machine_only() {
        let here = |given: &str| is_here(&Url::parse(given).unwrap());
        let local = ["http://localhost:1", "http://127.0.0.1", "http://127.8.8.8", "http://[::1]:99"];
        assert!(local.iter().all(|given| here(given)));
        assert!(
            !["https://api.anthropic.com", "http://10.0.0.1", "http://localhost.example"]
                .iter()
                .any(|given| here(given))
        );
    }

    #[test]
    fn keys_and_tokens_have_headers_of_their_own() {
        let headers = key(" sk-secret-1\n").headers().unwrap();
        assert_eq!(headers["x-api-key"], "sk-secret-1");
        assert_eq!(
            (headers.get(AUTHORIZATION), &headers["anthropic-version"]),
            (None, &HeaderValue::from_static(VERSION))
        );
        let headers = Credential::Bearer(SecretString::from("secret-1")).headers().unwrap();
        assert_eq!(
            (headers.get("x-api-key"), &headers[AUTHORIZATION]),
            (None, &HeaderValue::from_static("Bearer secret-1"))
        );
        assert!(!format!("{headers:?}").contains("secret-1"));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused_without_being_quoted() {
        for given in ["", " \n", "secret-1\nx: y", "secret-1\u{7f}"] {
            let error = key(given).headers().unwrap_err();
            assert!(matches!(error, ModelError::Denied { .. }) && !error.to_string().contains("secret-1"), "{error}");
        }
    }
}
