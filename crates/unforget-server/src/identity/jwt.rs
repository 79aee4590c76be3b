//! Tokens that somebody else signed: JSON Web Tokens of one issuer, as OpenID Connect providers give them out.
//!
//! What a token says about how it is to be verified is not believed. The algorithms are a list of asymmetric ones, so that neither `none` nor
//! a public key that is used as a shared secret (`HS256`) comes to be tried. The key is one of the issuer's, chosen by the token's `kid` and
//! by nothing else: keys and addresses inside a token (`jwk`, `jku`, `x5u`) are not looked at. A key says itself by its type, its curve, its
//! `alg` and `use` what it is good for. What a token calls critical (`crit`) is not understood here, so that such a token is refused.
//!
//! The claims: `iss` and `aud` must be those that are set, `exp` must be there and not have passed, `nbf` must have passed if it is there, with
//! a minute for clocks that differ. The actor is `sub`, or another claim that was set; `email` only if the issuer says that it
//! verified the address (`email_verified`), because at many providers anybody may write any address there. A token that is bound to a key of its
//! holder (`cnf`, as DPoP and mutual TLS have it) is refused: taken as a plain bearer, it would let in whoever stole it.
//!
//! An actor is a name: the same name in a token of the server's own (`unforget token add`) is the same actor.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};
use unforget_core::stamp::SharedSource;
use unforget_core::{Error, Result};

use crate::actor::ActorId;

mod keys;

pub use keys::KeysFrom;
use keys::{Found, Keys};

/// What a signature may be made with.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// What a token may be called: a plain one, or an access token (RFC 9068). A token of another kind was not meant for letting somebody in.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];
/// How much clocks may differ.
const LEEWAY_S: f64 = 60.0;

/// Whose tokens are taken, and for whom they must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Who signs them, as in `iss`.
    pub issuer: String,
    /// Whom they must be for, one of these, as in `aud`.
    pub audiences: Vec<String>,
    /// The claim that names the actor.
    pub claim: String,
}

/// The claim that names the actor, unless another one is set.
pub const SUBJECT: &str = "sub";

/// Tokens of one issuer.
pub struct Jwt {
    terms: Terms,
    keys: Arc<Keys>,
    source: SharedSource,
}

/// Why nobody was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is not a token of the issuer for this server and this time.
    Wrong,
    /// Nobody can tell, because there are no keys yet.
    NoKeys,
}

impl Jwt {
    /// Tokens on these terms, with keys from there. Nothing is fetched yet.
    pub fn new(terms: Terms, from: KeysFrom, source: SharedSource) -> Result<Self> {
        let wrong = |what: &str| Err(Error::Invalid(format!("{what} for tokens of an issuer")));
        if terms.issuer.is_empty() {
            return wrong("there must be an issuer");
        }
        if terms.audiences.is_empty() || terms.audiences.iter().any(String::is_empty) {
            return wrong("there must be an audience: a token for another service must not let anybody in here");
        }
        if terms.claim.is_empty() {
            return wrong("there must be a claim that names the actor");
        }
        let keys = Arc::new(Keys::new(from, &terms.issuer, source.clone())?);
        Ok(Self { terms, keys, source })
    }

    /// Fetches the keys now; tells how many there are. A server that starts finds out so whether it ever will have any.
    pub async fn fetch(&self) -> Result<usize> {
        self.keys.fetch().await
    }

    /// On which terms.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Where the keys come from, for people.
    pub fn keys_from(&self) -> String {
        self.keys.place()
    }

    /// Whose token this is.
    pub(crate) async fn actor(&self, token: &str) -> Result<ActorId, Refused> {
        // `none` is no algorithm that could be read.
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refused::Wrong)?;
        let is_of_a_kind =
            header.typ.as_deref().is_none_or(|typ| TYPES.iter().any(|known| known.eq_ignore_ascii_case(typ)));
        if !ALGORITHMS.contains(&header.alg) || !is_of_a_kind || header.crit.is_some() {
            return Err(Refused::Wrong);
        }
        let key = match self.keys.find(header.kid.as_deref(), header.alg).await {
            Found::One(key) => key,
            Found::None => return Err(Refused::Wrong),
            Found::NoKeys => return Err(Refused::NoKeys),
        };
        let mut signature_only = Validation::new(header.alg);
        // The claims are looked at below, by the clock that everything else goes by.
        signature_only.required_spec_claims.clear();
        signature_only.validate_exp = false;
        signature_only.validate_aud = false;
        let signed = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &signature_only);
        let claims = signed.map_err(|_| Refused::Wrong)?.claims;
        self.accept(&claims).ok_or(Refused::Wrong)
    }

    /// Whom signed claims name; none if they are for somebody else or another time.
    fn accept(&self, claims: &Map<String, Value>) -> Option<ActorId> {
        if claims.get("iss")?.as_str()? != self.terms.issuer {
            return None;
        }
        let is_meant =
            |value: &Value| value.as_str().is_some_and(|text| self.terms.audiences.iter().any(|ours| ours == text));
        let is_for_us = match claims.get("aud")? {
            Value::Array(several) => several.iter().any(is_meant),
            one => is_meant(one),
        };
        #[expect(clippy::cast_precision_loss, reason = "seconds of any date that there is fit")]
        let now_s = self.source.now_ms() as f64 / 1000.0;
        let is_still_good = now_s < claims.get("exp")?.as_f64()? + LEEWAY_S;
        let is_good_already = match claims.get("nbf") {
            Some(from) => now_s >= from.as_f64()? - LEEWAY_S,
            None => true,
        };
        let is_proved = self.terms.claim != "email" || claims.get("email_verified") == Some(&Value::Bool(true));
        // One that is bound to a key (RFC 7800) is worth nothing without a proof of that key, which nobody asks for here.
        if claims.contains_key("cnf") {
            return None;
        }
        let name = claims.get(&self.terms.claim)?.as_str()?;
        if is_for_us && is_still_good && is_good_already && is_proved { ActorId::verified(name) } else { None }
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("terms", &self.terms).field("keys", &self.keys_from()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
