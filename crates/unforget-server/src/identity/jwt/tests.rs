//! Keys that are used nowhere else, tokens that they signed, and everything that can be wrong with one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm};
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;
use unforget_core::medium::Os;

use super::super::tests::Clock;
use super::super::{Identity, Ways};
use super::*;
use crate::error::Code;
use crate::limits::Limits;

/// RSA, 2048 bits.
const RSA: &str = "MIIEpAIBAAKCAQEAxsZJKZSuuu/GfuCxHTBxyJCE5huKdOpcLq6ZZjrhnvbThLen9LVSEH/SpzSoeGmFasPMc/LsKi+GTNUbuWQB00jyLUCKk4\
    +ag4pR3xIOzkC9Nh5AyUn++nua1ynvjCXXJp+LSFjAap6PKyYH8fA/DSnfd9C66udewFQ/9c68T99Q2brbRpahboiC/1vwAvDpZICg4duM7ywV\
    mdW87ReXg1FWVjw0+Kz7pssS6fJqOhXA4gUH+pFjq3fzhvteiT0H+nrHHpLgoSzAehgbn7RMk4i2djEwb9fL1JGk76OV6hsDk9s8I+LTI6w1cJ\
    T4JoA6OlmejO5TOXgvQ4YoUtVtBQIDAQABAoIBABuFhMe/EFpNrJwQnDVAaeCtMdlyYr9BW7YS8qZW7LpHzo2HqDeXi19Bc3c3MURKx/A6X+qF\
    7fEBV4T31LjcgewxI2bkkstPjMM9uYw7QdWI3SnLEolMN4OS7aNw6PvsmVd9q5k+wJWCkqwUvfDfpLs72vcJ7XdsxY+3mot8LlKYiEQVSots0b\
    ko1LTgLEbVt3q9H3TItrgZ12eCSdbnBxyVxd7RPI7p27v0MwSobayN7gPkG1Dz3utdjJd534T/cnkjVhIPUurN3IKLPL3TuVlJ6hT1TMyiKiEk\
    cLTMygdiDIrA9j2sYtbZHo5vdqlPorgfPgb2YYh7F2yhTWRylFkCgYEA8uAnjlrPy3Sd73GBRPjbmbt9p1bReCjt/EjulQpLMrIDcQXNT+3uNW\
    gRY8570fI/nw82ydRORZVbwrNmM4WnW2El2FjzXXzikVsV9Xx3eevybCFLDELNZ+80AqQYTJRsWHhlkCTdV8pScT2d1arvteZfeREoCWx8ZGoF\
    HnEaVpsCgYEA0YQOAcyXdoF9ZduyH1v0vr+CGD2tDOiIex5pSkWEgg6AGeK2O8NMqjUFqTcDpdnujE1p4pkqk4c6muBgxw+TbqC6k4zDik3aXo\
    Gz6GD0DtTcVNvFpbrAu/A9XPhjUHB7YVZTKwwYJN8FxDYuWAISvq2jMP0IWRFL6yHu5bhttN8CgYB/0j6fKeXwYrh3+tmYrgwM1WLk/ckSHyBY\
    xR1jLN60mIE9K1uJdGQIkXONfm8l6ANZt80S3XwwHNIFHxtrhCy25+LeALpb+kzXSQO+hbnvXaDhDYiMtF+cEoTh2vC65OY8jWiOOwiOmnlXBa\
    GagPLVXZ/jfIcApqq0wiNdiRLefwKBgQCchu34BiO6U2+d446lwwuMXoMRHTLmC+u7H7NF273tdGvb6vZ+m5/xIX/DNeixxalkhIlw00Ftyn/M\
    KYnj7g0Vf1sk1OtZrmRQatI/7/8l/X1GoJJ/CJDpV8hgZum7tO1YgSfNZ1G6aixitJ/W/GWIsyzScpgEAtoXJtjWIv1DPQKBgQDxBngbndrQE3\
    PmizsoUZ/RbO6ucqiumgu/TLdAmZMG1LksC7MJMPkRKN86OPtmBebZxowiDWyJ1GkG82skXOysQ4eG9ZuMer0kYkjdE15WyrvnhKiWBTKv9/Ah\
    dAIR/q5pJcChtxl/jTWrRnVxio75L+ZzKtIkbUOsTCslsHZDIA==";
/// P-256.
const ES256: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg7M9GYQtlMVJ7l1seVN8o6c0p9kZYOlcggEmO2Z0w3P+hRANCAAT05ma6dk46Ok\
    /XZOs2SzuuGP/svTHDcC2vhqSehu+kvA6ov/onWYKE9V3Lh0Qg/KC46Vbq7+hqDDYreDtqF5Nd";
/// Another one, which comes later.
const ES256_LATER: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgH9KgdL9AMUJvpvVjSjIwmGKf+6kGd4fKHC56IoyUDpahRANCAARtglRqLLdKGJ\
    GXl1gshMcVgLdYKIlDmpnTWQCXOKPivPiV/Tru20MD1rJP1eqtKVonu8No6aIwYgEvqLlSNvtX";
/// P-384.
const ES384: &str = "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDn8jbAyIkKZoQOF4P8asAAffn7w0F7HkVEuzM+zExq6BD23CId1QC2igGc2Un4oa\
    ChZANiAATZaICg3QdBjhhKvYbUUc7Ppyg/K3Cb6t+rQiNVR2Dej/iqAuCg+ItcLLJkYA91BbSddtja0i73ASHoln1fgKeyYm8f5G1DiLm25KKf\
    APnm3Ydg04iAe2blILXkYo93NFA=";
/// Ed25519.
const ED25519: &str = "MC4CAQAwBQYDK2VwBCIEIF3qyMxN0ThBjQQpMCQoXoXhjji0VYfFuzqfYef/9VRw";

const ISSUER: &str = "https://id.example/realm";
const NOW_S: i64 = 1_800_000_000;

fn der(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

fn rsa() -> EncodingKey {
    EncodingKey::from_rsa_der(&der(RSA))
}

fn ec(text: &str) -> EncodingKey {
    EncodingKey::from_ec_der(&der(text))
}

fn ed() -> EncodingKey {
    EncodingKey::from_ed_der(&der(ED25519))
}

/// A key as it stands in a set.
fn public(key: &EncodingKey, algorithm: Algorithm, id: &str) -> Value {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    serde_json::to_value(jwk).unwrap()
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "unforget", "sub": "ada", "exp": NOW_S + 300 })
}

/// The usual claims with some of them changed; null takes one away.
fn but(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

fn header(algorithm: Algorithm, id: Option<&str>) -> Header {
    Header { kid: id.map(str::to_owned), ..Header::new(algorithm) }
}

fn signed(key: &EncodingKey, algorithm: Algorithm, id: Option<&str>, claims: &Value) -> String {
    encode(&header(algorithm, id), claims, key).unwrap()
}

fn terms() -> Terms {
    Terms { issuer: ISSUER.to_owned(), audiences: vec!["unforget".to_owned()], claim: SUBJECT.to_owned() }
}

fn ada() -> Result<ActorId, Refused> {
    Ok(ActorId::verified("ada").unwrap())
}

const WRONG: Result<ActorId, Refused> = Err(Refused::Wrong);

/// An issuer whose keys are in a file.
struct Filed {
    folder: tempfile::TempDir,
    clock: Arc<Clock>,
    jwt: Jwt,
}

impl Filed {
    fn new(keys: &[Value]) -> Self {
        Self::on(terms(), keys)
    }

    fn on(terms: Terms, keys: &[Value]) -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(NOW_S * 1000));
        let from = KeysFrom::File { medium: Arc::new(Os::new(folder.path())), path: "keys.json".into() };
        let jwt = Jwt::new(terms, from, clock.clone()).unwrap();
        let filed = Self { folder, clock, jwt };
        filed.write(&set(keys));
        filed
    }

    #[expect(clippy::disallowed_methods, reason = "the test is not the store")]
    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("keys.json"), text).unwrap();
    }

    fn with_es256() -> Self {
        Self::new(&[public(&ec(ES256), Algorithm::ES256, "one")])
    }

    /// What becomes of a token with these claims, signed as it should be.
    async fn of(&self, claims: &Value) -> Result<ActorId, Refused> {
        self.jwt.actor(&signed(&ec(ES256), Algorithm::ES256, Some("one"), claims)).await
    }
}

#[tokio::test]
async fn z01_a_token_of_the_issuer_is_its_subject_with_every_algorithm_that_is_allowed() {
    let rsa_algorithms = &ALGORITHMS[..6];
    let mut cases: Vec<_> = rsa_algorithms.iter().map(|algorithm| (rsa(), *algorithm)).collect();
    cases.extend([(ec(ES256), Algorithm::ES256), (ec(ES384), Algorithm::ES384), (ed(), Algorithm::EdDSA)]);
    for (key, algorithm) in cases {
        let issuer = Filed::new(&[public(&key, algorithm, "one")]);
        assert_eq!(issuer.jwt.actor(&signed(&key, algorithm, Some("one"), &claims())).await, ada(), "{algorithm:?}");
    }
}

#[tokio::test]
async fn z01_a_public_key_is_no_shared_secret() {
    let key = public(&rsa(), Algorithm::RS256, "one");
    let mut keys = vec![key.clone()];
    // Also where the set is so careless as to hold a secret.
    keys.push(json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode("secret"), "kid": "two", "alg": "HS256" }));
    let issuer = Filed::new(&keys);
    let modulus = URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap();
    for secret in [key["n"].as_str().unwrap().as_bytes(), &modulus, key.to_string().as_bytes(), b"secret", b""] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            for id in [None, Some("one"), Some("two")] {
                let token = signed(&EncodingKey::from_secret(secret), algorithm, id, &claims());
                assert_eq!(issuer.jwt.actor(&token).await, WRONG);
            }
        }
    }
}

#[tokio::test]
async fn z01_a_token_without_a_signature_is_nobodys() {
    let issuer = Filed::with_es256();
    let good = signed(&ec(ES256), Algorithm::ES256, Some("one"), &claims());
    let payload = good.split('.').nth(1).unwrap();
    for name in ["none", "None", "NONE", "", "nOnE", "HS256", "ES256", "ES512", "EdDSA"] {
        let head = URL_SAFE_NO_PAD.encode(json!({ "alg": name, "typ": "JWT", "kid": "one" }).to_string());
        for token in [format!("{head}.{payload}."), format!("{head}.{payload}"), format!("{head}.{payload}.AA")] {
            assert_eq!(issuer.jwt.actor(&token).await, WRONG, "{name}");
        }
    }
    for token in ["", ".", "..", "...", "a.b.c", &good[1..], &good[..good.len() - 2], &format!("{good}.x")] {
        assert_eq!(issuer.jwt.actor(token).await, WRONG, "{token}");
    }
    let other = URL_SAFE_NO_PAD.encode(but(json!({ "sub": "eve" })).to_string());
    assert_eq!(issuer.jwt.actor(&good.replace(payload, &other)).await, WRONG);
    assert_eq!(issuer.jwt.actor(&good).await, ada());
}

#[tokio::test]
async fn z01_a_key_or_an_address_inside_a_token_is_not_believed() {
    let issuer = Filed::with_es256();
    let theirs = ec(ES256_LATER);
    let jwk: Jwk = serde_json::from_value(public(&theirs, Algorithm::ES256, "one")).unwrap();
    let mut head = header(Algorithm::ES256, Some("one"));
    head.jwk = Some(jwk);
    head.jku = Some("https://eve.example/keys".to_owned());
    head.x5u = Some("https://eve.example/cert".to_owned());
    assert_eq!(issuer.jwt.actor(&encode(&head, &claims(), &theirs).unwrap()).await, WRONG);
}

#[tokio::test]
async fn what_a_token_calls_critical_and_tokens_of_other_kinds_are_refused() {
    let issuer = Filed::with_es256();
    let with = |change: fn(&mut Header)| {
        let mut head = header(Algorithm::ES256, Some("one"));
        change(&mut head);
        encode(&head, &claims(), &ec(ES256)).unwrap()
    };
    assert_eq!(issuer.jwt.actor(&with(|head| head.crit = Some(vec!["b64".to_owned()]))).await, WRONG);
    assert_eq!(issuer.jwt.actor(&with(|head| head.typ = Some("logout+jwt".to_owned()))).await, WRONG);
    assert_eq!(issuer.jwt.actor(&with(|head| head.typ = Some("AT+JWT".to_owned()))).await, ada());
    assert_eq!(issuer.jwt.actor(&with(|head| head.typ = None)).await, ada());
}

#[tokio::test]
async fn z01_a_token_must_be_of_the_issuer_and_for_this_server() {
    let issuer = Filed::with_es256();
    for changes in [
        json!({ "iss": null }),
        json!({ "iss": "https://id.example/other" }),
        json!({ "iss": "https://id.example/realm/" }),
        json!({ "iss": [ISSUER] }),
        json!({ "aud": null }),
        json!({ "aud": "another" }),
        json!({ "aud": [] }),
        json!({ "aud": ["another", "Unforget"] }),
        json!({ "aud": { "unforget": true } }),
        json!({ "sub": null }),
        json!({ "sub": "" }),
        json!({ "sub": 7 }),
        json!({ "sub": "a\nb" }),
        json!({ "sub": "x".repeat(ActorId::MAX + 1) }),
    ] {
        assert_eq!(issuer.of(&but(changes.clone())).await, WRONG, "{changes}");
    }
    assert_eq!(issuer.of(&but(json!({ "aud": ["another", "unforget"] }))).await, ada());
}

#[tokio::test]
async fn s18_a_token_that_is_bound_to_a_key_is_no_plain_bearer() {
    let issuer = Filed::with_es256();
    for confirmation in
        [json!({ "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" }), json!({ "x5t#S256": "a" }), json!(null)]
    {
        let mut claims = claims();
        claims["cnf"] = confirmation.clone();
        assert_eq!(issuer.of(&claims).await, WRONG, "{confirmation}");
    }
}

#[tokio::test]
async fn a_token_has_its_time() {
    let issuer = Filed::with_es256();
    for (changes, is_good) in [
        (json!({ "exp": null }), false),
        (json!({ "exp": "2100-01-01" }), false),
        (json!({ "exp": NOW_S - 61 }), false),
        (json!({ "exp": NOW_S - 60 }), false),
        (json!({ "exp": NOW_S - 59 }), true),
        (json!({ "exp": -1 }), false),
        (json!({ "exp": 1e300 }), true),
        (json!({ "nbf": NOW_S + 61 }), false),
        (json!({ "nbf": NOW_S + 60 }), true),
        (json!({ "nbf": "soon" }), false),
    ] {
        let expected = if is_good { ada() } else { WRONG };
        assert_eq!(issuer.of(&but(changes.clone())).await, expected, "{changes}");
    }
    issuer.clock.set((NOW_S + 300 + 60) * 1000);
    assert_eq!(issuer.of(&claims()).await, WRONG);
}

#[tokio::test]
async fn another_claim_may_name_the_actor_and_an_address_only_if_it_was_verified() {
    let on = |claim: &str| {
        Filed::on(Terms { claim: claim.to_owned(), ..terms() }, &[public(&ec(ES256), Algorithm::ES256, "one")])
    };
    let named = |name: &str| Ok(ActorId::verified(name).unwrap());
    assert_eq!(on("oid").of(&but(json!({ "oid": "7" }))).await, named("7"));
    assert_eq!(on("oid").of(&claims()).await, WRONG);
    let mail = json!({ "email": "ada@example.org", "email_verified": true });
    assert_eq!(on("email").of(&but(mail)).await, named("ada@example.org"));
    for is_verified in [Value::Null, json!(false), json!("true")] {
        let mail = json!({ "email": "ada@example.org", "email_verified": is_verified });
        assert_eq!(on("email").of(&but(mail)).await, WRONG);
    }
}

#[tokio::test]
async fn the_kid_chooses_the_key_and_without_one_there_must_be_no_choice() {
    let (one, two) = (ec(ES256), ec(ES256_LATER));
    let both = Filed::new(&[public(&one, Algorithm::ES256, "one"), public(&two, Algorithm::ES256, "two")]);
    let of = async |key, id| both.jwt.actor(&signed(key, Algorithm::ES256, id, &claims())).await;
    assert_eq!(of(&one, Some("one")).await, ada());
    assert_eq!(of(&two, Some("two")).await, ada());
    assert_eq!(of(&two, Some("one")).await, WRONG);
    assert_eq!(of(&one, Some("three")).await, WRONG);
    assert_eq!(of(&one, None).await, WRONG);
    let mixed = Filed::new(&[public(&one, Algorithm::ES256, "one"), public(&ed(), Algorithm::EdDSA, "two")]);
    assert_eq!(mixed.jwt.actor(&signed(&one, Algorithm::ES256, None, &claims())).await, ada());
    let twice = Filed::new(&[public(&one, Algorithm::ES256, "one"), public(&two, Algorithm::ES256, "one")]);
    assert_eq!(twice.jwt.actor(&signed(&one, Algorithm::ES256, Some("one"), &claims())).await, WRONG);
}

#[tokio::test]
async fn a_key_is_good_for_what_its_type_and_its_alg_say() {
    // The same numbers under another algorithm, another purpose.
    let mut key = public(&rsa(), Algorithm::RS256, "one");
    let token = signed(&rsa(), Algorithm::RS256, Some("one"), &claims());
    assert_eq!(Filed::new(&[key.clone()]).jwt.actor(&token).await, ada());
    let other = signed(&rsa(), Algorithm::PS256, Some("one"), &claims());
    assert_eq!(Filed::new(&[key.clone()]).jwt.actor(&other).await, WRONG);
    key.as_object_mut().unwrap().remove("alg");
    assert_eq!(Filed::new(&[key.clone()]).jwt.actor(&other).await, ada());
    key["use"] = json!("enc");
    assert_eq!(Filed::new(&[key.clone()]).jwt.actor(&token).await, WRONG);
    key["use"] = json!("sig");
    key["alg"] = json!(KeyAlgorithm::RSA_OAEP);
    assert_eq!(Filed::new(&[key]).jwt.actor(&token).await, WRONG);
    // A key of another type than the algorithm's, under the right name.
    let elliptic = Filed::with_es256();
    assert_eq!(elliptic.jwt.actor(&token).await, WRONG);
    let mut other = public(&ec(ES256), Algorithm::ES256, "one");
    other["alg"] = json!("RS256");
    assert_eq!(Filed::new(&[other]).of(&claims()).await, WRONG);
}

#[test]
fn terms_that_would_let_anybody_in_are_refused() {
    let new =
        |terms: Terms| Jwt::new(terms, KeysFrom::Discovery, Clock::at(0)).map(drop).map_err(|error| error.to_string());
    assert_eq!(new(terms()), Ok(()));
    new(Terms { audiences: Vec::new(), ..terms() }).unwrap_err();
    new(Terms { audiences: vec![String::new()], ..terms() }).unwrap_err();
    new(Terms { claim: String::new(), ..terms() }).unwrap_err();
    new(Terms { issuer: String::new(), ..terms() }).unwrap_err();
    new(Terms { issuer: "http://id.example".to_owned(), ..terms() }).unwrap_err();
}

/// What an issuer answers, and how often it was asked.
#[derive(Default)]
struct Issuer {
    keys: Mutex<Option<String>>,
    described: Mutex<Option<String>>,
    asked: AtomicUsize,
}

impl Issuer {
    /// Starts one; tells its address.
    async fn start(self: &Arc<Self>) -> String {
        let keys = |State(issuer): State<Arc<Issuer>>| async move {
            issuer.asked.fetch_add(1, Ordering::SeqCst);
            let keys = issuer.keys.lock().unwrap().clone();
            keys.ok_or(StatusCode::INTERNAL_SERVER_ERROR)
        };
        let described = |State(issuer): State<Arc<Issuer>>| async move {
            issuer.described.lock().unwrap().clone().ok_or(StatusCode::NOT_FOUND)
        };
        let elsewhere = || async { (StatusCode::FOUND, [("location", "/keys")]).into_response() };
        let routes = Router::new()
            .route("/keys", get(keys))
            .route("/elsewhere", get(elsewhere))
            .route("/large", get(|| async { set(&[one()]) + &" ".repeat(2 << 20) }))
            .route("/.well-known/openid-configuration", get(described))
            .with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        address
    }

    fn has(&self, keys: &[Value]) {
        *self.keys.lock().unwrap() = Some(set(keys));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn one() -> Value {
    public(&ec(ES256), Algorithm::ES256, "one")
}

fn later() -> Value {
    public(&ec(ES256_LATER), Algorithm::ES256, "later")
}

#[tokio::test]
async fn z01_no_key_is_even_looked_for_with_an_algorithm_that_is_not_allowed() {
    let issuer = Arc::new(Issuer::default());
    issuer.has(&[one()]);
    let url = issuer.start().await + "/keys";
    let jwt = Jwt::new(terms(), KeysFrom::Url(url), Clock::at(NOW_S * 1000)).unwrap();
    let token = signed(&EncodingKey::from_secret(b"x"), Algorithm::HS256, Some("one"), &claims());
    assert_eq!((jwt.actor(&token).await, issuer.asked()), (WRONG, 0));
}

#[tokio::test]
async fn an_issuer_that_changes_its_keys_is_followed_at_a_pace() {
    let (issuer, clock) = (Arc::new(Issuer::default()), Clock::at(NOW_S * 1000));
    issuer.has(&[one()]);
    let url = issuer.start().await + "/keys";
    let jwt = Jwt::new(terms(), KeysFrom::Url(url), clock.clone()).unwrap();
    let claims = but(json!({ "exp": NOW_S + 100_000 }));
    let old = signed(&ec(ES256), Algorithm::ES256, Some("one"), &claims);
    let new = signed(&ec(ES256_LATER), Algorithm::ES256, Some("later"), &claims);
    assert_eq!(jwt.actor(&old).await, ada());
    assert_eq!(jwt.actor(&old).await, ada());
    assert_eq!(issuer.asked(), 1);
    issuer.has(&[later()]);
    // Too soon after the last time: whoever makes up names of keys does not get the issuer asked.
    for _ in 0..3 {
        assert_eq!(jwt.actor(&new).await, WRONG);
    }
    assert_eq!(issuer.asked(), 1);
    clock.set(NOW_S * 1000 + 30_000);
    assert_eq!(jwt.actor(&new).await, ada());
    assert_eq!(issuer.asked(), 2);
    // What the issuer no longer has is worth nothing.
    assert_eq!(jwt.actor(&old).await, WRONG);
}

#[tokio::test]
async fn keys_stay_while_the_issuer_is_away_and_are_fetched_again_after_an_hour() {
    let (issuer, clock) = (Arc::new(Issuer::default()), Clock::at(NOW_S * 1000));
    let url = issuer.start().await + "/keys";
    let jwt = Jwt::new(terms(), KeysFrom::Url(url), clock.clone()).unwrap();
    let token = signed(&ec(ES256), Algorithm::ES256, Some("one"), &but(json!({ "exp": NOW_S + 100_000 })));
    assert_eq!(jwt.actor(&token).await, Err(Refused::NoKeys));
    issuer.has(&[one()]);
    clock.set(NOW_S * 1000 + 30_000);
    assert_eq!(jwt.actor(&token).await, ada());
    *issuer.keys.lock().unwrap() = None;
    clock.set(NOW_S * 1000 + 30_000 + 3_600_000);
    let asked = issuer.asked();
    assert_eq!(jwt.actor(&token).await, ada());
    // This waits for the fetching in the background, which has begun.
    assert!(jwt.fetch().await.is_err());
    assert!(issuer.asked() > asked + 1);
    assert_eq!(jwt.actor(&token).await, ada());
}

#[tokio::test]
async fn answers_that_lead_elsewhere_or_are_too_large_are_not_taken() {
    let issuer = Arc::new(Issuer::default());
    issuer.has(&[one()]);
    let address = issuer.start().await;
    for path in ["/elsewhere", "/large", "/nothing"] {
        let jwt = Jwt::new(terms(), KeysFrom::Url(format!("{address}{path}")), Clock::at(NOW_S * 1000)).unwrap();
        assert!(jwt.fetch().await.is_err(), "{path}");
    }
    assert_eq!(issuer.asked(), 0);
}

#[tokio::test]
async fn an_issuer_tells_where_its_keys_are_if_it_is_the_one_that_was_meant() {
    let issuer = Arc::new(Issuer::default());
    issuer.has(&[one()]);
    let address = issuer.start().await;
    let new = || {
        let terms = Terms { issuer: address.clone(), ..terms() };
        Jwt::new(terms, KeysFrom::Discovery, Clock::at(NOW_S * 1000)).unwrap()
    };
    let describe = |issuer_name: &str, keys: &str| {
        *issuer.described.lock().unwrap() = Some(json!({ "issuer": issuer_name, "jwks_uri": keys }).to_string());
    };
    let keys = format!("{address}/keys");
    describe("https://eve.example", &keys);
    assert!(new().fetch().await.is_err());
    describe(&address, "http://eve.example/keys");
    assert!(new().fetch().await.is_err());
    describe(&address, &keys);
    let jwt = new();
    assert_eq!(jwt.fetch().await.unwrap(), 1);
    let token = signed(&ec(ES256), Algorithm::ES256, Some("one"), &but(json!({ "iss": address })));
    assert_eq!(jwt.actor(&token).await, ada());
}

#[tokio::test]
async fn a_token_of_the_issuer_is_taken_at_the_door_unless_it_is_too_long() {
    let Filed { folder: _folder, clock, jwt } = Filed::with_es256();
    let ways = Ways { jwt: Some(jwt), ..Ways::default() };
    let identity = Identity::new(ways, &Limits::default(), clock);
    let of = async |padding: usize| {
        let claims = but(json!({ "padding": "x".repeat(padding) }));
        let token = signed(&ec(ES256), Algorithm::ES256, Some("one"), &claims);
        identity.of_token(&token.into(), std::net::Ipv4Addr::LOCALHOST.into()).await.map_err(|problem| problem.code)
    };
    assert_eq!(of(4000).await, Ok(ActorId::verified("ada").unwrap()));
    assert_eq!(of(8000).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn without_keys_a_token_is_neither_right_nor_wrong() {
    let jwt = Filed::with_es256();
    jwt.write("no keys");
    let token = signed(&ec(ES256), Algorithm::ES256, Some("one"), &claims());
    let Filed { folder: _folder, clock, jwt } = jwt;
    let identity = Identity::new(Ways { jwt: Some(jwt), ..Ways::default() }, &Limits::default(), clock);
    let peer = std::net::Ipv4Addr::LOCALHOST.into();
    let problem = identity.of_token(&token.into(), peer).await.unwrap_err();
    assert_eq!(problem.code, Code::Unavailable);
}
