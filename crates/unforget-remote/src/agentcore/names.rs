//! Streams as actors and sessions.
//!
//! ```text
//! actor    unforget/<tenant>/<place>                                  at most 255 characters
//! session  <session>                                                 the main stream, at most 100 characters
//!          s-<32 digits of the session's SHA-256>-<60 of the side's>  a side stream
//! ```
//! Names are spelled by [`encode::identifier`], whose answer begins with `k-` or `h-`. A tenant is a prefix of actors, so that a policy on
//! `bedrock-agentcore:actorId` can keep tenants apart. A hashed name cannot be read back: the segments say whose they are.

use unforget_core::encode;

use crate::stream::Stream;

/// What the actors of this program begin with.
const OURS: &str = "unforget";
/// The longest name of an actor.
pub(super) const MAX_ACTOR: usize = 255;
/// Two of these, two slashes and the beginning stay below the 255 characters that an actor may have.
const MAX_PART: usize = 120;
const MAX_SESSION: usize = 100;

/// A session of an actor, as the service knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) actor: String,
    pub(super) session: String,
}

impl Place {
    pub(super) fn of(stream: &Stream) -> Self {
        let actor = actor(stream.tenant(), stream.place());
        let session = match stream.side() {
            "" => encode::identifier(stream.session(), MAX_SESSION),
            side => format!("{}{}", sides(stream.session()), &encode::sha256_hex(side.as_bytes())[..60]),
        };
        Self { actor, session }
    }
}

/// What all actors of a tenant begin with.
pub(super) fn tenant(tenant: &str) -> String {
    format!("{OURS}/{}/", encode::identifier(tenant, MAX_PART))
}

pub(super) fn actor(of: &str, place: &str) -> String {
    format!("{}{}", tenant(of), encode::identifier(place, MAX_PART))
}

/// What the side streams of a session begin with.
fn sides(session: &str) -> String {
    format!("s-{}-", &encode::sha256_hex(session.as_bytes())[..32])
}

/// Whether a session of the service may belong to a session of ours.
pub(super) fn may_belong(id: &str, session: &str) -> bool {
    id == encode::identifier(session, MAX_SESSION) || id.starts_with(&sides(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_whatever_they_are() {
        let long = "会".repeat(170);
        for name in ["a", "A/b:c", "..", long.as_str(), "k-a", "#"] {
            let main = Stream::new(name, name, name).unwrap();
            for stream in [main.clone(), main.side_stream(name).unwrap()] {
                let place = Place::of(&stream);
                assert!(place.actor.len() <= 255 && place.session.len() <= MAX_SESSION, "{place:?}");
                assert!(place.actor.starts_with(&tenant(name)));
                assert!(may_belong(&place.session, name) && !may_belong(&place.session, "other"));
                let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
                assert!(place.session.bytes().all(is_word) && place.session.as_bytes()[0].is_ascii_alphanumeric());
                assert!(place.actor.bytes().all(|byte| is_word(byte) || byte == b'/'));
            }
        }
    }
}
