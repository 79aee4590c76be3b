//! Who is asking: from what was sent along to an [`ActorId`], or to nobody.
//!
//! This is the only place that makes an [`ActorId`] for a request, and it makes one only of something that was verified: the owner's own
//! secret ([`owner`]), a token that the server gave out ([`tokens`]), one that an issuer signed ([`jwt`]), or the word of AgentCore Runtime
//! where somebody said that it is to be trusted ([`runtime`]). An address is no proof, not even 127.0.0.1, which every user of a machine
//! reaches. With no way at all nobody comes in. The one other proof is the owner's socket, where the kernel names the user
//! (`serve::owner_socket`).
//!
//! A token comes in the header `Authorization: Bearer …`, or in the first message of a WebSocket, whose client in a browser can set no
//! header. It never comes in an address, which ends up in logs and histories. Nor does it come in a cookie, which a browser sends along for every page:
//! cookies are not looked at here. That of the page that this server serves is made the header where it counts, before anybody comes here, and is gone
//! where it does not (`cookie`).
//!
//! Whatever is wrong with a token, the answer is the same, word for word, and the token is in no message and no log. Wrong ones are
//! counted by address (`lockout`).

use std::fmt;
use std::net::IpAddr;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use unforget_core::stamp::SharedSource;

use crate::actor::ActorId;
use crate::error::{Code, Problem, Result};
use crate::limits::Limits;

pub(crate) mod cookie;
pub mod jwt;
mod lockout;
pub mod owner;
pub mod runtime;
pub mod tokens;

pub use jwt::{Jwt, KeysFrom, Terms};
pub(crate) use lockout::network;
use lockout::{Lockout, Verdict};
pub use owner::Owner;
pub use tokens::Tokens;

/// The longest token.
const MAX_TOKEN: usize = 8 * 1024;
/// What everybody hears who was not recognised.
const UNRECOGNISED: &str =
    "a valid token is needed: `Authorization: Bearer TOKEN`, or the first message of a WebSocket";
/// What everybody hears whose link is worth nothing.
const SPENT: &str = "this link was used before, or is too old: `unforget serve --link` prints a new one";
/// What everybody hears who sent too many tokens that were wrong.
const TOO_MANY: &str = "too many wrong tokens came from this address; a right one is still taken";

/// The ways to be recognised.
#[derive(Debug, Default)]
pub struct Ways {
    /// The secret of the one who runs the server.
    pub owner: Option<Owner>,
    /// Tokens that this server gave out.
    pub tokens: Option<Tokens>,
    /// Tokens that an issuer signed.
    pub jwt: Option<Jwt>,
    /// Whether AgentCore Runtime is believed when it names a user.
    pub trust_runtime_headers: bool,
}

/// Recognises who is asking.
pub struct Identity {
    ways: Ways,
    lockout: Lockout,
    source: SharedSource,
}

/// Why a token is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Wrong,
    /// It cannot be told now.
    Unknown,
}

impl Identity {
    /// Recognises people in these ways; with none of them, nobody.
    pub fn new(ways: Ways, limits: &Limits, source: SharedSource) -> Self {
        Self { ways, lockout: Lockout::new(limits.wrong_tokens), source }
    }

    /// Whether the server is for others than its owner.
    pub fn is_shared(&self) -> bool {
        self.ways.tokens.is_some() || self.ways.jwt.is_some() || self.ways.trust_runtime_headers
    }

    /// In which ways somebody can.
    pub fn ways(&self) -> &Ways {
        &self.ways
    }

    /// Who sent a request; none if they did not say and may still do so in the first message of a WebSocket.
    pub async fn of_headers(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Option<ActorId>> {
        if self.takes_tokens() && headers.contains_key(AUTHORIZATION) {
            return match bearer(headers) {
                Some(token) => self.of_token(&token, peer).await.map(Some),
                None => Err(self.refuse(peer)),
            };
        }
        match (self.ways.trust_runtime_headers, runtime::user(headers)) {
            (true, Some(user)) => Ok(Some(user)),
            // A name that is none is not the same as no name.
            (true, None) if !self.takes_tokens() || headers.contains_key(runtime::USER_ID) => Err(unrecognised()),
            _ => Ok(None),
        }
    }

    /// Whose token this is, as in the first message of a WebSocket.
    pub async fn of_token(&self, token: &SecretString, peer: IpAddr) -> Result<ActorId> {
        match self.verify(token).await {
            Ok(actor) => Ok(actor),
            Err(Refused::Wrong) => Err(self.refuse(peer)),
            Err(Refused::Unknown) => {
                Err(Problem::new(Code::Unavailable, "tokens cannot be verified at the moment; try again in a while"))
            }
        }
    }

    /// The owner's token, for the first one who shows the code of a link in time.
    pub(crate) fn of_link(&self, code: &SecretString, peer: IpAddr) -> Result<&SecretString> {
        let token = self.ways.owner.as_ref().and_then(|owner| owner.redeem(code, self.source.now_ms()));
        token.ok_or_else(|| match self.refuse(peer) {
            problem if problem.code == Code::TooMany => problem,
            problem => Problem::new(problem.code, SPENT),
        })
    }

    /// A new link for the owner's browser; none where there is no owner's door.
    pub fn new_link(&self) -> Option<std::io::Result<owner::NewLink>> {
        Some(self.ways.owner.as_ref()?.new_link(self.source.now_ms()))
    }

    /// Whether somebody can come in with a token.
    pub fn takes_tokens(&self) -> bool {
        self.ways.owner.is_some() || self.ways.tokens.is_some() || self.ways.jwt.is_some()
    }

    async fn verify(&self, token: &SecretString) -> Result<ActorId, Refused> {
        let text = token.expose_secret();
        if text.is_empty() || text.len() > MAX_TOKEN || !text.bytes().all(is_of_a_token) {
            return Err(Refused::Wrong);
        }
        if self.ways.owner.as_ref().is_some_and(|owner| owner.is_token(token)) {
            return Ok(ActorId::owner());
        }
        if let Some(tokens) = &self.ways.tokens
            && Tokens::is_one(text)
        {
            return tokens.actor(token).map_err(|_| Refused::Unknown)?.ok_or(Refused::Wrong);
        }
        let Some(jwt) = &self.ways.jwt else { return Err(Refused::Wrong) };
        jwt.actor(text).await.map_err(|refused| match refused {
            jwt::Refused::Wrong => Refused::Wrong,
            jwt::Refused::NoKeys => Refused::Unknown,
        })
    }

    /// Counts a wrong token and says what its sender hears.
    fn refuse(&self, peer: IpAddr) -> Problem {
        match self.lockout.wrong(peer, self.source.now_ms()) {
            Verdict::Few => unrecognised(),
            Verdict::Reached => {
                tracing::warn!(%peer, "too many wrong tokens came from this address within a minute");
                Problem::new(Code::TooMany, TOO_MANY)
            }
            Verdict::Beyond => Problem::new(Code::TooMany, TOO_MANY),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("ways", &self.ways).finish_non_exhaustive()
    }
}

fn unrecognised() -> Problem {
    Problem::new(Code::Unauthenticated, UNRECOGNISED)
}

/// The token in the one `Authorization` header; none if it is of another kind, or there are several.
fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = HeaderValue::to_str(value).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| SecretString::from(token.trim_start_matches(' ')))
}

/// Whether a character may be in a token (RFC 6750).
fn is_of_a_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

#[cfg(test)]
pub(crate) mod tests;
