use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use unforget_core::medium::Os;
use unforget_core::stamp::{SessionId, Source};

use super::*;

/// A clock that stands still until it is set.
pub(crate) struct Clock(AtomicI64);

impl Clock {
    pub(crate) fn at(ms: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(ms)))
    }

    pub(crate) fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }
}

impl Source for Clock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn new_id(&self, _: i64) -> SessionId {
        SessionId::parse("0199").unwrap()
    }
}

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn named(name: &str) -> ActorId {
    ActorId::verified(name).unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn several(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, value.parse().unwrap());
    }
    map
}

/// An identity with static tokens, and a token of ada's.
fn with_tokens(trust_runtime_headers: bool) -> (tempfile::TempDir, Arc<Clock>, Identity, SecretString) {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::at(0));
    let tokens = Tokens::load(Arc::new(Os::new(folder.path())), "tokens.jsonl", clock.clone()).unwrap();
    let made = tokens.add("ada", None, None).unwrap();
    let ways = Ways { tokens: Some(tokens), trust_runtime_headers, ..Ways::default() };
    (folder, clock.clone(), Identity::new(ways, &Limits::default(), clock), made.secret)
}

fn unauthenticated<T>() -> Result<T> {
    Err(unrecognised())
}

#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
fn secret_of(owner: &Owner) -> SecretString {
    std::fs::read_to_string(owner.place()).unwrap().trim().into()
}

#[tokio::test]
async fn s4_this_machine_is_no_proof_of_being_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner::open(&Os::new(folder.path()), "http://127.0.0.1:8080").unwrap();
    let secret = secret_of(&owner);
    let none = Identity::new(Ways::default(), &Limits::default(), Clock::at(0));
    let own = Identity::new(Ways { owner: Some(owner), ..Ways::default() }, &Limits::default(), Clock::at(0));
    for identity in [&none, &own] {
        assert!(!identity.is_shared());
        for map in [headers(&[]), headers(&[(runtime::USER_ID, "eve")]), headers(&[("x-forwarded-for", "127.0.0.1")])] {
            assert_eq!(identity.of_headers(&map, PEER).await, Ok(None));
        }
        assert_eq!(identity.of_token(&"x".into(), PEER).await, unauthenticated());
        assert!(identity.of_link(&"x".into(), PEER).is_err());
    }
    assert_eq!(own.of_token(&secret, OTHER).await, Ok(ActorId::owner()));
    let bearer = format!("Bearer {}", secret.expose_secret());
    assert_eq!(own.of_headers(&headers(&[("authorization", &bearer)]), PEER).await, Ok(Some(ActorId::owner())));
    assert_eq!(own.of_headers(&headers(&[("authorization", "Bearer x")]), PEER).await, unauthenticated());
    assert!(none.new_link().is_none() && !none.takes_tokens() && own.takes_tokens());
    let link = own.new_link().unwrap().unwrap();
    let code: SecretString = link.url.expose_secret().split_once("#link=").unwrap().1.into();
    assert!(none.of_link(&code, PEER).is_err());
    assert_eq!(own.of_link(&code, PEER).unwrap().expose_secret(), secret.expose_secret());
    let again = own.of_link(&code, PEER).unwrap_err();
    assert_eq!((again.code, again.message.as_str()), (Code::Unauthenticated, SPENT));
}

#[tokio::test]
async fn z01_the_actor_is_the_one_of_the_token_and_of_nothing_else() {
    let (_folder, _clock, identity, secret) = with_tokens(false);
    assert!(identity.is_shared());
    let bearer = format!("Bearer {}", secret.expose_secret());
    let lies = [("x-actor", "eve"), (runtime::USER_ID, "eve"), ("cookie", "token=eve"), ("x-forwarded-user", "eve")];
    let mut all = headers(&lies);
    assert_eq!(identity.of_headers(&all, PEER).await, Ok(None));
    all.insert(AUTHORIZATION, bearer.parse().unwrap());
    assert_eq!(identity.of_headers(&all, PEER).await, Ok(Some(named("ada"))));
    let other_case = headers(&[("authorization", &bearer.replacen("Bearer ", "bEARER  ", 1))]);
    assert_eq!(identity.of_headers(&other_case, PEER).await, Ok(Some(named("ada"))));
    assert_eq!(identity.of_token(&secret, PEER).await, Ok(named("ada")));
}

#[tokio::test]
async fn z01_a_token_in_a_cookie_is_not_looked_at() {
    let (_folder, _clock, identity, secret) = with_tokens(false);
    let text = secret.expose_secret();
    let map = headers(&[("cookie", &format!("token={text}; authorization=Bearer {text}; access_token={text}"))]);
    assert_eq!(identity.of_headers(&map, PEER).await, Ok(None));
}

#[tokio::test]
async fn z06_whatever_is_wrong_with_a_credential_the_answer_is_the_same() {
    let (_folder, _clock, identity, secret) = with_tokens(false);
    let text = secret.expose_secret();
    let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
    let wrong =
        ["Bearer", "Bearer ", "Bearer x", &format!("Basic {text}"), text, &long, &format!("Bearer {text} {text}")];
    for value in wrong {
        assert_eq!(identity.of_headers(&headers(&[("authorization", value)]), OTHER).await, unauthenticated());
    }
    let bearer = format!("Bearer {text}");
    let twice = several(&[("authorization", &bearer), ("authorization", &bearer)]);
    assert_eq!(identity.of_headers(&twice, OTHER).await, unauthenticated());
    assert!(!UNRECOGNISED.contains(text));
    for token in ["", "a b", "\u{e9}", &text[1..], &text.to_uppercase(), &"x".repeat(MAX_TOKEN + 1)] {
        assert_eq!(identity.of_token(&token.into(), OTHER).await, unauthenticated(), "{token}");
    }
    let shown = format!("{identity:?}");
    assert!(!shown.contains(text), "{shown}");
}

#[tokio::test]
async fn an_address_with_too_many_wrong_tokens_is_told_so_and_its_right_ones_are_taken() {
    let (_folder, clock, identity, secret) = with_tokens(false);
    let most = Limits::default().wrong_tokens;
    for _ in 0..most {
        assert_eq!(identity.of_token(&"wrong".into(), OTHER).await, unauthenticated());
    }
    let too_many = Err(Problem::new(Code::TooMany, TOO_MANY));
    assert_eq!(identity.of_token(&"wrong".into(), OTHER).await, too_many);
    assert_eq!(identity.of_token(&secret, OTHER).await, Ok(named("ada")));
    assert_eq!(identity.of_token(&"wrong".into(), PEER).await, unauthenticated());
    clock.set(60_000);
    assert_eq!(identity.of_token(&"wrong".into(), OTHER).await, unauthenticated());
}

#[tokio::test]
async fn z01_without_the_runtimes_header_there_is_no_default_user() {
    let ways = Ways { trust_runtime_headers: true, ..Ways::default() };
    let identity = Identity::new(ways, &Limits::default(), Clock::at(0));
    assert!(identity.is_shared());
    let of = async |map: HeaderMap| identity.of_headers(&map, PEER).await;
    assert_eq!(of(headers(&[])).await, unauthenticated());
    assert_eq!(of(headers(&[("authorization", "Bearer x")])).await, unauthenticated());
    assert_eq!(of(headers(&[(runtime::USER_ID, "")])).await, unauthenticated());
    assert_eq!(of(several(&[(runtime::USER_ID, "ada"), (runtime::USER_ID, "eve")])).await, unauthenticated());
    assert_eq!(of(headers(&[(runtime::USER_ID, "ada")])).await, Ok(Some(named("ada"))));
    assert_eq!(of(headers(&[(runtime::USER_ID, "ada"), ("authorization", "Bearer x")])).await, Ok(Some(named("ada"))));
    assert_eq!(identity.of_token(&"ada".into(), PEER).await, unauthenticated());
}

#[tokio::test]
async fn z01_a_token_wins_over_the_runtimes_header_and_must_be_right() {
    let (_folder, _clock, identity, secret) = with_tokens(true);
    let bearer = format!("Bearer {}", secret.expose_secret());
    let of = async |map: HeaderMap| identity.of_headers(&map, PEER).await;
    assert_eq!(of(headers(&[(runtime::USER_ID, "eve"), ("authorization", &bearer)])).await, Ok(Some(named("ada"))));
    assert_eq!(of(headers(&[(runtime::USER_ID, "eve"), ("authorization", "Bearer x")])).await, unauthenticated());
    assert_eq!(of(headers(&[(runtime::USER_ID, "eve")])).await, Ok(Some(named("eve"))));
    assert_eq!(of(headers(&[(runtime::USER_ID, "")])).await, unauthenticated());
    assert_eq!(of(headers(&[])).await, Ok(None));
}
