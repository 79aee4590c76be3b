use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use unforget_core::medium::Os;
use unforget_core::stamp::{SessionId, Source, System};

use super::*;
use crate::ActorId;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";
const ASKING: &str = "http://127.0.0.1:1";
const ANSWERING: &str = "http://127.0.0.1:2";
const TARGET: &str = "/v1/sessions/s/rewind?x=1";

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
struct Clock(AtomicI64);

impl Source for Clock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn new_id(&self, created_ms: i64) -> SessionId {
        System.new_id(created_ms)
    }
}

struct Pair {
    clock: Arc<Clock>,
    asking: Peers,
    answering: Peers,
}

fn peers(secret: &str, address: &str, clock: &Arc<Clock>) -> Peers {
    Peers::new(ClusterKey::from_text(secret).unwrap(), address, clock.clone()).unwrap()
}

fn pair() -> Pair {
    let clock = Arc::new(Clock::default());
    clock.0.store(1_767_225_600_000, Ordering::SeqCst);
    Pair { asking: peers(SECRET, ASKING, &clock), answering: peers(SECRET, ANSWERING, &clock), clock }
}

impl Pair {
    /// The passage for a request with this body, as the asking server makes it.
    fn passage(&self, body: &'static [u8]) -> String {
        let nonce = nonce().unwrap();
        let proof = self.asking.proved(ANSWERING, &nonce, &self.answering.answer(&nonce).unwrap()).unwrap();
        let actor = ActorId::verified("ada").unwrap();
        let body = bytes::Bytes::from_static(body);
        let errand =
            Errand { actor: &actor, session: "s", runtime_session: None, method: Method::POST, target: TARGET, body };
        let url = Url::parse(&format!("{ANSWERING}{TARGET}")).unwrap();
        self.asking.sealed(proof, &url, &errand).unwrap()
    }
}

#[test]
fn s2_a_passage_admits_one_request_once_and_names_its_actor() {
    let pair = pair();
    let token = pair.passage(b"{}");
    let passage = pair.answering.admit(&token, "POST", TARGET).unwrap();
    assert_eq!((passage.actor.as_str(), passage.session.as_str()), ("actor/ada", "s"));
    assert_eq!((passage.from.as_str(), passage.to.as_str()), (ASKING, ANSWERING));
    assert!(passage.is_for(b"{}") && !passage.is_for(b"{} "));
    assert_eq!(pair.answering.admit(&token, "POST", TARGET), None, "it was used");
}

#[test]
fn s2_a_passage_admits_no_other_request_at_no_other_server_and_not_late() {
    let pair = pair();
    let (other, again) = (peers(SECRET, ASKING, &pair.clock), peers(SECRET, ANSWERING, &pair.clock));
    let token = pair.passage(b"");
    assert_eq!(pair.answering.admit(&token, "DELETE", TARGET), None, "another method");
    assert_eq!(pair.answering.admit(&token, "POST", "/v1/sessions/t/rewind?x=1"), None, "another target");
    assert_eq!(other.admit(&token, "POST", TARGET), None, "another server");
    assert_eq!(again.admit(&token, "POST", TARGET), None, "another run of the server");
    pair.clock.0.fetch_add(LIFE_MS + 1, Ordering::SeqCst);
    assert_eq!(pair.answering.admit(&token, "POST", TARGET), None, "late");
    pair.clock.0.fetch_sub(1, Ordering::SeqCst);
    assert!(pair.answering.admit(&token, "POST", TARGET).is_some(), "none of these attempts used it up");
}

#[test]
fn s2_what_was_signed_with_another_key_or_for_another_purpose_is_no_passage() {
    let pair = pair();
    let stranger = peers(OTHER_SECRET, ASKING, &pair.clock);
    let nonce = nonce().unwrap();
    let answer = pair.answering.answer(&nonce).unwrap();
    let proof: Proof = pair.asking.key.open(purpose::PROOF, &answer).unwrap();
    assert!(pair.asking.key.open::<serde_json::Value>(purpose::PASSAGE, &answer).is_none(), "a proof is no passage");
    let actor = ActorId::owner();
    let body = bytes::Bytes::new();
    let errand =
        Errand { actor: &actor, session: "s", runtime_session: None, method: Method::POST, target: TARGET, body };
    let url = Url::parse(&format!("{ANSWERING}{TARGET}")).unwrap();
    let forged = stranger.sealed(proof, &url, &errand).unwrap();
    for token in [forged.as_str(), &answer, "", ".", "e30.", "e30", &"x".repeat(100_000)] {
        assert_eq!(pair.answering.admit(token, "POST", TARGET), None);
    }
}

#[test]
fn s2_a_server_is_asked_only_after_it_proved_itself_at_that_very_address() {
    let pair = pair();
    let nonce = nonce().unwrap();
    let answer = pair.answering.answer(&nonce).unwrap();
    let why = |outcome: Result<Proof, PeerError>| outcome.unwrap_err().to_string();
    assert!(pair.asking.proved(ANSWERING, &nonce, &answer).is_ok());
    let relayed = why(pair.asking.proved("http://127.0.0.1:3", &nonce, &answer));
    assert!(relayed.contains("another server"), "{relayed}");
    let old = why(pair.asking.proved(ANSWERING, "00000000000000000000000000000000", &answer));
    assert!(old.contains("an old one"), "{old}");
    let stranger = peers(OTHER_SECRET, ANSWERING, &pair.clock).answer(&nonce).unwrap();
    let forged = why(pair.asking.proved(ANSWERING, &nonce, &stranger));
    assert!(forged.contains("not signed with the key"), "{forged}");
    for odd in ["", "short", &"a".repeat(65), "0123456789abcde!"] {
        assert_eq!(pair.answering.answer(odd), None, "{odd}");
    }
}

#[test]
fn s2_a_holder_is_signed_for_one_stream() {
    let pair = pair();
    let signature = pair.asking.sign_holder("t/main/s", "http://a#home#run");
    assert!(pair.answering.is_signed("t/main/s", "http://a#home#run", &signature));
    assert!(!pair.answering.is_signed("t/main/other", "http://a#home#run", &signature));
    assert!(!pair.answering.is_signed("t/main/s", "http://evil#home#run", &signature));
    assert!(!pair.answering.is_signed("t/main/s", "http://a#home#run", ""));
    assert!(!peers(OTHER_SECRET, ASKING, &pair.clock).is_signed("t/main/s", "http://a#home#run", &signature));
}

#[test]
fn s17_only_tls_and_this_machine_are_between_servers() {
    for private in ["https://one.example", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost:1"] {
        assert!(is_private(private), "{private}");
    }
    for open in ["http://10.0.0.1:8080", "http://one.example", "http://127.0.0.1.example", "ftp://localhost", "one", ""]
    {
        assert!(!is_private(open), "{open}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
fn s2_a_key_that_others_could_know_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let medium = Os::new(folder.path());
    let read = || ClusterKey::read(&medium, Path::new("key")).map(drop).map_err(|error| error.to_string());
    let write = |text: &str, mode: u32| {
        std::fs::write(folder.path().join("key"), text).unwrap();
        std::fs::set_permissions(folder.path().join("key"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert!(read().unwrap_err().starts_with("there is no cluster key in"));
    write(&format!("{SECRET}\n"), 0o640);
    assert!(read().unwrap_err().starts_with("other users can open the cluster key"));
    for weak in ["", "short\n", "0123456789abcdef 0123456789abcdef\n"] {
        write(weak, 0o600);
        assert!(read().unwrap_err().contains("is no cluster key"), "{weak}");
    }
    write(&format!("{SECRET}\n"), 0o600);
    assert_eq!(read(), Ok(()));
}
