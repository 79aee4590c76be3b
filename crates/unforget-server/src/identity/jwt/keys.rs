//! The keys of an issuer: from a file, from an address, or from where the issuer itself says they are.
//!
//! They are fetched when they are first needed, every hour, and when a token names one that is not known, because that is how an issuer
//! changes its keys. A stranger can make up names of keys, so nothing is fetched twice within half a minute whatever the reason. If
//! fetching fails, the keys that are there stay: an issuer that is away for an hour shuts nobody out.
//!
//! An answer is bounded in size and time, redirects are not followed, and the way there is https, unless it does not leave this machine:
//! whoever can change the keys on their way can be everybody.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use unforget_core::medium::{self, Medium};
use unforget_core::stamp::SharedSource;
use unforget_core::{Error, Result};

/// Bytes of an answer, or of a file.
const MAX_ANSWER: usize = 1 << 20;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long after a try the next one is made, at the soonest.
const PAUSE_MS: i64 = 30_000;
/// How long keys are used before they are fetched again.
const FRESH_MS: i64 = 60 * 60 * 1000;
/// How many keys are taken.
const MAX_KEYS: usize = 100;
/// Where an issuer says where its keys are.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Where an issuer's keys come from.
#[derive(Debug)]
pub enum KeysFrom {
    /// A file with a JSON Web Key Set.
    File {
        /// The folder that it is in.
        medium: Arc<dyn Medium>,
        /// Its name there.
        path: PathBuf,
    },
    /// An address that answers with a JSON Web Key Set.
    Url(String),
    /// The issuer's own description (OpenID Connect Discovery).
    Discovery,
}

/// The keys of an issuer.
pub(super) struct Keys {
    from: From,
    source: SharedSource,
    /// Held by the one that fetches.
    fetching: Arc<tokio::sync::Mutex<()>>,
    known: Mutex<Known>,
}

/// Where keys come from, checked.
enum From {
    File { medium: Arc<dyn Medium>, path: PathBuf },
    Url { client: reqwest::Client, url: Url },
    Discovery { client: reqwest::Client, issuer: String, url: Url },
}

#[derive(Default, Clone)]
struct Known {
    keys: Arc<Vec<Key>>,
    fetched_ms: Option<i64>,
    tried_ms: Option<i64>,
}

/// A key, and what it is good for.
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

/// What looking for a key found.
pub(super) enum Found {
    One(DecodingKey),
    None,
    /// Nothing was ever fetched.
    NoKeys,
}

/// What of an issuer's description matters here.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

impl Keys {
    pub(super) fn new(from: KeysFrom, issuer: &str, source: SharedSource) -> Result<Self> {
        let from = match from {
            KeysFrom::File { medium, path } => From::File { medium, path },
            KeysFrom::Url(text) => {
                let url = address(&text)?;
                From::Url { client: client(&url)?, url }
            }
            KeysFrom::Discovery => {
                let url = address(&format!("{}{DISCOVERY}", issuer.trim_end_matches('/')))?;
                From::Discovery { client: client(&url)?, issuer: issuer.to_owned(), url }
            }
        };
        Ok(Self { from, source, fetching: Arc::default(), known: Mutex::default() })
    }

    pub(super) fn place(&self) -> String {
        match &self.from {
            From::File { medium, path } => medium.root().join(path).display().to_string(),
            From::Url { url, .. } | From::Discovery { url, .. } => url.to_string(),
        }
    }

    /// The key that a token names, if it is good for that algorithm. Without a name it must be the only one that is.
    pub(super) async fn find(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm) -> Found {
        let known = self.known();
        if let Some(key) = choose(&known.keys, id, algorithm) {
            self.refresh(&known);
            return Found::One(key.decoding.clone());
        }
        let keys = self.clone();
        // Whoever asks may go before the keys are here; that must not keep others from having them.
        let fetched = tokio::spawn(async move {
            let _fetching = keys.fetching.lock().await;
            // Somebody else may have fetched them meanwhile.
            if keys.known().may_be_tried(keys.source.now_ms()) {
                keys.try_to_fetch().await;
            }
        });
        if let Err(error) = fetched.await {
            tracing::error!(%error, "the keys of the issuer");
        }
        let known = self.known();
        match choose(&known.keys, id, algorithm) {
            Some(key) => Found::One(key.decoding.clone()),
            None if known.fetched_ms.is_some() => Found::None,
            None => Found::NoKeys,
        }
    }

    /// Has keys that are old fetched again; whoever has one of them does not wait for that.
    fn refresh(self: &Arc<Self>, known: &Known) {
        let now_ms = self.source.now_ms();
        if known.is_fresh(now_ms) || !known.may_be_tried(now_ms) {
            return;
        }
        let Ok(fetching) = self.fetching.clone().try_lock_owned() else { return };
        let keys = self.clone();
        tokio::spawn(async move {
            keys.try_to_fetch().await;
            drop(fetching);
        });
    }

    async fn try_to_fetch(&self) {
        if let Err(error) = self.fetch_now().await {
            tracing::warn!(%error, "the keys of the issuer cannot be fetched; those that are known stay");
        }
    }

    /// Fetches the keys, whenever that was done last.
    pub(super) async fn fetch(&self) -> Result<usize> {
        let _fetching = self.fetching.lock().await;
        self.fetch_now().await
    }

    async fn fetch_now(&self) -> Result<usize> {
        let now_ms = self.source.now_ms();
        self.change(|known| known.tried_ms = Some(now_ms));
        let keys = Arc::new(parse(&self.read().await?, &self.place())?);
        let count = keys.len();
        self.change(|known| {
            known.keys = keys;
            known.fetched_ms = Some(now_ms);
        });
        Ok(count)
    }

    async fn read(&self) -> Result<Vec<u8>> {
        match &self.from {
            From::File { medium, path } => medium::read_small(medium.as_ref(), path, MAX_ANSWER as u64)
                .map_err(|source| Error::Io { action: "read", path: medium.root().join(path), source }),
            From::Url { client, url } => get(client, url).await,
            From::Discovery { client, issuer, url } => {
                let wrong = |what: String| Error::Invalid(format!("{url}: {what}"));
                let described: Description = serde_json::from_slice(&get(client, url).await?)
                    .map_err(|_| wrong("this describes no issuer of OpenID Connect".to_owned()))?;
                if described.issuer != *issuer {
                    return Err(wrong("this describes another issuer".to_owned()));
                }
                let keys = address(&described.jwks_uri)?;
                // Only an issuer on this machine may send this server to an address on it.
                if keys.scheme() != "https" && url.scheme() == "https" {
                    return Err(wrong("the keys are not at an https address".to_owned()));
                }
                get(client, &keys).await
            }
        }
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

impl Known {
    fn is_fresh(&self, now_ms: i64) -> bool {
        is_within(self.fetched_ms, FRESH_MS, now_ms)
    }

    fn may_be_tried(&self, now_ms: i64) -> bool {
        !is_within(self.tried_ms, PAUSE_MS, now_ms)
    }
}

/// Whether something happened less than so long ago; what is still to come by a clock that was set back did not.
fn is_within(then_ms: Option<i64>, span_ms: i64, now_ms: i64) -> bool {
    then_ms.is_some_and(|then_ms| (then_ms..then_ms.saturating_add(span_ms)).contains(&now_ms))
}

/// The one key of that name for that algorithm; without a name, the one key for that algorithm.
fn choose<'k>(keys: &'k [Key], id: Option<&str>, algorithm: Algorithm) -> Option<&'k Key> {
    let fits = |key: &&Key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id);
    let mut fitting = keys.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(key), None) => Some(key),
        _ => None,
    }
}

/// The keys of a set that are good for anything here. A strange one does not make the others worthless.
fn parse(bytes: &[u8], place: &str) -> Result<Vec<Key>> {
    let set: Set = serde_json::from_slice(bytes)
        .map_err(|_| Error::Invalid(format!("{place}: this is no set of keys (`{{\"keys\":[…]}}`)")))?;
    let keys = set.keys.into_iter().take(MAX_KEYS).filter_map(|value| Key::of(&serde_json::from_value(value).ok()?));
    Ok(keys.collect())
}

impl Key {
    fn of(jwk: &Jwk) -> Option<Self> {
        let good_for: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &[
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            // A shared secret has no place in a set that is public.
            _ => return None,
        };
        let common = &jwk.common;
        let is_for_signatures =
            common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
                && common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        let says_so =
            |algorithm: &Algorithm| common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(*algorithm));
        let algorithms: Vec<Algorithm> = good_for.iter().copied().filter(says_so).collect();
        if !is_for_signatures || algorithms.is_empty() {
            return None;
        }
        Some(Self { id: common.key_id.clone(), algorithms, decoding: DecodingKey::from_jwk(jwk).ok()? })
    }
}

/// An address that keys may come from.
fn address(text: &str) -> Result<Url> {
    let wrong = |why: &str| Error::Invalid(format!("`{text}` is no address for keys: {why}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::Invalid("the address of keys must have no user and no password in it".to_owned()));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here(&url) => Ok(url),
        _ => Err(wrong("it must begin with https://, unless it is on this machine")),
    }
}

/// Whether an address does not leave this machine.
fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || number.is_ok_and(|number| number.is_loopback())
}

fn client(url: &Url) -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
    // What is on this machine is not asked for through somebody else.
    let builder = if is_here(url) { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| Error::Invalid(format!("cannot make a client for HTTP: {error}")))
}

async fn get(client: &reqwest::Client, url: &Url) -> Result<Vec<u8>> {
    let failed = |what: String| Error::Invalid(format!("cannot fetch {url}: {what}"));
    let lost = |error: reqwest::Error| {
        let what = if error.is_timeout() { "it took too long".to_owned() } else { error.without_url().to_string() };
        failed(what)
    };
    let mut response = client.get(url.clone()).send().await.map_err(lost)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(failed(format!("the answer was {}", response.status())));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(failed(format!("the answer is over {MAX_ANSWER} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_this_machine() {
        for good in ["https://id.example/keys", "http://127.0.0.1:9/keys", "http://[::1]/k", "http://localhost:8/k"] {
            address(good).unwrap();
        }
        for bad in [
            "http://id.example/keys",
            "http://localhost.example/keys",
            "http://127.0.0.1.example/keys",
            "ftp://localhost/keys",
            "file:///etc/keys",
            "keys",
            "https://user:secret@id.example/keys",
        ] {
            let error = address(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_set_that_is_none_is_told_and_a_strange_key_is_passed_over() {
        for text in ["", "[]", "{}", "{\"keys\":{}}"] {
            assert!(parse(text.as_bytes(), "there").is_err(), "{text}");
        }
        let text = r#"{"keys":[{"kty":"future"},3,{"kty":"oct","k":"c2VjcmV0","alg":"HS256"},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","use":"enc"},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","alg":"ES256"},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","key_ops":["sign"]},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"good"}]}"#;
        let keys = parse(text.as_bytes(), "there").unwrap();
        let ids: Vec<_> = keys.iter().map(|key| key.id.as_deref()).collect();
        assert_eq!(ids, [Some("good")]);
        assert_eq!(keys[0].algorithms, [Algorithm::EdDSA]);
    }
}
