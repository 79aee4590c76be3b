//! The other servers of the cluster: which addresses belong to them, and how two of them prove themselves to each other.
//!
//! Two servers know each other by one secret, the [`ClusterKey`]. A lease names the address of its holder, and anybody who can
//! write to the remote can write a lease. So a holder signs its address, and this server contacts signed addresses only. A signed
//! address may belong to another program by now. So the server there has to prove that it has the key (`Peers::answer`) before it
//! gets a request. The proof names the address, so another server cannot relay it.
//!
//! A client's token never leaves the server that received it. A forwarded request carries a `Passage` instead: it names the actor,
//! the session, both servers, and the method, target and body of one request. It contains a challenge that the answering server made, so
//! it works there, once, for thirty seconds. The clocks of the two servers are not compared.
//!
//! This module knows nothing of sessions and sockets. `forward` and `socket::tunnel` send requests, `serve` receives them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderName;
use axum::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Method, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::Role;
use unforget_core::encode;
use unforget_core::stamp::SharedSource;

mod key;
#[cfg(test)]
mod tests;

pub(crate) use key::digest;
pub use key::{ClusterKey, KeyError};

/// The header with a [`Passage`].
pub(crate) const PASSAGE: HeaderName = HeaderName::from_static("x-unforget-passage");
/// Where a server proves that it belongs to the cluster.
pub(crate) const ROUTE: &str = "/peer";
/// How long a challenge may be used, in milliseconds by the clock of the server that made it.
const LIFE_MS: i64 = 30_000;
/// The longest nonce that is answered.
const MAX_NONCE: usize = 64;
/// The longest answer to a nonce.
const MAX_PROOF: usize = 4 * 1024;
/// How long another server may take to prove itself, or to switch to a WebSocket.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a signature is for: one that was made for one purpose is worth nothing for another.
mod purpose {
    pub(super) const HOLDER: &str = "holder";
    pub(super) const CHALLENGE: &str = "challenge";
    pub(super) const PROOF: &str = "proof";
    pub(super) const PASSAGE: &str = "passage";
}

/// This server among its peers.
pub struct Peers {
    key: ClusterKey,
    /// Where the others reach this server.
    address: String,
    /// This run of this server: a challenge of an earlier one is not accepted.
    run: String,
    source: SharedSource,
    client: reqwest::Client,
    /// The challenges that were used, until they are too old to be used again. Only servers with the key can add one.
    spent: Mutex<HashMap<String, i64>>,
}

/// One request that one server makes at another, in the name of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Passage {
    /// The server that received the request from its client.
    pub(crate) from: String,
    /// The server that is to answer it.
    pub(crate) to: String,
    /// The actor, as [`ActorId::to_text`](crate::ActorId) writes it.
    pub(crate) actor: String,
    /// The session that the lease is for.
    pub(crate) session: String,
    /// What AgentCore Runtime calls the connection.
    pub(crate) runtime_session: Option<String>,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// The SHA-256 of the body.
    pub(crate) body: String,
    /// What the answering server gave out, to be used once.
    pub(crate) challenge: String,
}

/// That a server has the key.
#[derive(Debug, Serialize, Deserialize)]
struct Proof {
    address: String,
    nonce: String,
    challenge: String,
}

/// What is sent to another server.
pub(crate) struct Errand<'a> {
    pub(crate) actor: &'a crate::ActorId,
    pub(crate) session: &'a str,
    pub(crate) runtime_session: Option<&'a str>,
    pub(crate) method: Method,
    pub(crate) target: &'a str,
    pub(crate) body: bytes::Bytes,
}

/// Why another server was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] reqwest::Error),
    #[error("it did not prove that it belongs to this cluster: {0}")]
    Unproved(&'static str),
    #[error("it did not accept this server's proof (HTTP {0})")]
    Refused(StatusCode),
    #[error("a request for it cannot be made")]
    Unnameable,
}

impl PeerError {
    /// A server that is down is no news. One that has another key, or none, is for its operator to see.
    pub(crate) fn log(&self, address: &str) {
        match self {
            PeerError::Unreachable(_) => tracing::info!(error = %self, address, "another server does not answer"),
            _ => tracing::warn!(error = %self, address, "another server was not asked"),
        }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Peers {
    /// A server that others reach at `address`, which is `http://host:port` or `https://host`.
    pub fn new(key: ClusterKey, address: &str, source: SharedSource) -> reqwest::Result<Self> {
        // A WebSocket begins as a request of HTTP/1.1. A proxy or a redirect would lead elsewhere than the signed address.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .http1_only()
            .connect_timeout(Duration::from_secs(5))
            .build()?;
        let (address, run) = (address.to_owned(), uuid::Uuid::now_v7().to_string());
        Ok(Self { key, address, run, source, client, spent: Mutex::default() })
    }

    /// Signs what this server calls itself in the lease of a stream.
    pub(crate) fn sign_holder(&self, stream: &str, holder: &str) -> String {
        self.key.sign(purpose::HOLDER, &format!("{stream}\n{holder}"))
    }

    /// Whether a server of the cluster called itself so in the lease of this stream.
    pub(crate) fn is_signed(&self, stream: &str, holder: &str, signature: &str) -> bool {
        self.key.verify(purpose::HOLDER, &format!("{stream}\n{holder}"), signature)
    }

    /// Proves to the sender of a nonce that this server has the key, and gives out a challenge; none if the nonce is not one.
    pub(crate) fn answer(&self, nonce: &str) -> Option<String> {
        let is_nonce =
            (16..=MAX_NONCE).contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_nonce {
            return None;
        }
        let proof = Proof { address: self.address.clone(), nonce: nonce.to_owned(), challenge: self.challenge()? };
        self.key.seal(purpose::PROOF, &proof)
    }

    /// A challenge proves by itself that this run of this server made it, and when. So an answer to a nonce takes no memory.
    fn challenge(&self) -> Option<String> {
        let open = format!("{}.{}", self.source.now_ms(), nonce()?);
        let signature = self.key.sign(purpose::CHALLENGE, &format!("{}\n{open}", self.run));
        (!signature.is_empty()).then(|| format!("{open}.{signature}"))
    }

    /// When this run made a challenge; none if it did not.
    fn made_at(&self, challenge: &str) -> Option<i64> {
        let (open, signature) = challenge.rsplit_once('.')?;
        let is_own = self.key.verify(purpose::CHALLENGE, &format!("{}\n{open}", self.run), signature);
        is_own.then(|| open.split('.').next()?.parse().ok()).flatten()
    }

    /// Verifies the passage of a request that came in; none if another server of this cluster did not make it for exactly this request.
    /// The body is compared when it is here ([`Passage::is_for`]).
    pub(crate) fn admit(&self, token: &str, method: &str, target: &str) -> Option<Passage> {
        let passage: Passage = self.key.open(purpose::PASSAGE, token)?;
        let is_this = passage.to == self.address && passage.method == method && passage.target == target;
        let made_ms = self.made_at(&passage.challenge).filter(|_| is_this)?;
        let now_ms = self.source.now_ms();
        if !(0..=LIFE_MS).contains(&now_ms.saturating_sub(made_ms)) {
            return None;
        }
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.retain(|_, made_ms| now_ms.saturating_sub(*made_ms) <= LIFE_MS);
        spent.insert(passage.challenge.clone(), made_ms).is_none().then_some(passage)
    }

    /// Sends a request to another server, which proves itself first.
    pub(crate) async fn ask(
        &self,
        address: &str,
        errand: Errand<'_>,
        headers: axum::http::HeaderMap,
    ) -> Result<Response, PeerError> {
        // What is signed is what is sent: a URL may spell a target differently.
        let url = Url::parse(&format!("{address}{}", errand.target)).map_err(|_| PeerError::Unnameable)?;
        let passage = self.passage(address, &url, &errand).await?;
        let request = self.client.request(errand.method, url);
        let response = request.headers(headers).header(PASSAGE, passage).body(errand.body).send().await?;
        match response.status() {
            status @ StatusCode::UNAUTHORIZED => Err(PeerError::Refused(status)),
            _ => Ok(response),
        }
    }

    /// Opens a WebSocket at another server, which proves itself first.
    pub(crate) async fn connect(
        &self,
        address: &str,
        errand: Errand<'_>,
        headers: axum::http::HeaderMap,
    ) -> Result<WebSocketStream<reqwest::Upgraded>, PeerError> {
        let key = generate_key();
        let mut wanted = headers;
        for (name, value) in [(CONNECTION, "upgrade"), (UPGRADE, "websocket"), (SEC_WEBSOCKET_VERSION, "13")] {
            wanted.insert(name, axum::http::HeaderValue::from_static(value));
        }
        wanted.insert(SEC_WEBSOCKET_KEY, key.parse().map_err(|_| PeerError::Unnameable)?);
        let asking = async {
            let response = self.ask(address, errand, wanted).await?;
            let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
            let is_accepted =
                accept.is_some_and(|accept| accept.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
            if response.status() != StatusCode::SWITCHING_PROTOCOLS || !is_accepted {
                return Err(PeerError::Refused(response.status()));
            }
            Ok(response.upgrade().await?)
        };
        let upgraded =
            tokio::time::timeout(PATIENCE, asking).await.map_err(|_| PeerError::Unproved("it is silent"))??;
        Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await)
    }

    /// Lets the server at an address prove that it belongs to the cluster, and makes the passage for one request at it.
    async fn passage(&self, address: &str, url: &Url, errand: &Errand<'_>) -> Result<String, PeerError> {
        let nonce = nonce().ok_or(PeerError::Unnameable)?;
        let asking = self.client.get(format!("{address}{ROUTE}?nonce={nonce}")).timeout(PATIENCE);
        let mut response = asking.send().await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_PROOF {
                return Err(PeerError::Unproved("its answer is too long"));
            }
        }
        let proof = self.proved(address, &nonce, std::str::from_utf8(&bytes).unwrap_or_default())?;
        self.sealed(proof, url, errand).ok_or(PeerError::Unnameable)
    }

    /// Verifies the answer of the server at an address to a nonce.
    fn proved(&self, address: &str, nonce: &str, answer: &str) -> Result<Proof, PeerError> {
        let proof: Proof = self
            .key
            .open(purpose::PROOF, answer)
            .ok_or(PeerError::Unproved("its answer is not signed with the key"))?;
        if proof.nonce != nonce {
            return Err(PeerError::Unproved("its answer is an old one"));
        }
        if proof.address != address {
            return Err(PeerError::Unproved("its answer is that of another server"));
        }
        Ok(proof)
    }

    /// The passage for one request at a server that has proved itself.
    fn sealed(&self, proof: Proof, url: &Url, errand: &Errand<'_>) -> Option<String> {
        let passage = Passage {
            from: self.address.clone(),
            to: proof.address,
            actor: errand.actor.to_text(),
            session: errand.session.to_owned(),
            runtime_session: errand.runtime_session.map(str::to_owned),
            method: errand.method.to_string(),
            target: url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path())),
            body: digest(&errand.body),
            challenge: proof.challenge,
        };
        self.key.seal(purpose::PASSAGE, &passage)
    }
}

impl Passage {
    /// Whether it was made for a request with this body.
    pub(crate) fn is_for(&self, body: &[u8]) -> bool {
        self.body == digest(body)
    }
}

/// Whether nothing but this machine, or TLS, is between servers that reach this one at an address.
pub(crate) fn is_private(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let is_loopback = url.host_str().is_some_and(|host| {
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        ip.map_or(host == "localhost", |ip| ip.is_loopback())
    });
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback)
}

/// Sixteen random bytes, as text; none if the system has none.
fn nonce() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(encode::hex(&random))
}
