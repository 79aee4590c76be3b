//! Who is asking.
//!
//! An [`ActorId`] is made by [`identity`](crate::identity) from something that was verified, and by nobody else: its constructor is
//! private to this crate's door. There is no default one and no way from a message's text to one.

use std::fmt;

use unforget_core::encode;

/// Somebody who was recognised.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorId(Who);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Who {
    /// The one who runs the server: proved by the owner's secret or by the owner's socket.
    Owner,
    /// Somebody with a name.
    Named(String),
}

impl ActorId {
    /// The longest name, in bytes: what AgentCore Memory takes.
    pub const MAX: usize = 255;

    /// The one person of a server for oneself.
    pub(crate) fn owner() -> Self {
        Self(Who::Owner)
    }

    /// Whether this is the one who runs the server.
    pub fn is_owner(&self) -> bool {
        matches!(self.0, Who::Owner)
    }

    /// Somebody whose name was verified; none if it is empty, too long or has control characters.
    pub(crate) fn verified(name: &str) -> Option<Self> {
        let is_sound = !name.is_empty() && name.len() <= Self::MAX && !name.chars().any(char::is_control);
        is_sound.then(|| Self(Who::Named(name.to_owned())))
    }

    /// The name, for people.
    pub fn name(&self) -> &str {
        match &self.0 {
            Who::Owner => "owner",
            Who::Named(name) => name,
        }
    }

    /// The directory beneath the server's home that holds everything of this actor; none for the owner, whose the home is.
    pub fn directory(&self) -> Option<String> {
        match &self.0 {
            Who::Owner => None,
            Who::Named(name) => Some(encode::file_name(name)),
        }
    }

    /// Whose streams these are at a remote, given whose the owner's are.
    pub fn tenant(&self, owner: &str) -> String {
        match &self.0 {
            Who::Owner => owner.to_owned(),
            // A name that begins so cannot be set for the owner.
            Who::Named(name) => format!("actor/{name}"),
        }
    }

    /// How the actor is written down, so that it is the same one when read again.
    pub(crate) fn to_text(&self) -> String {
        match &self.0 {
            Who::Owner => "owner".to_owned(),
            Who::Named(name) => format!("actor/{name}"),
        }
    }

    /// Reads what [`to_text`](Self::to_text) wrote, from this server's own files only.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix("actor/") {
            Some(name) => Self::verified(name),
            None => (text == "owner").then(Self::owner),
        }
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_and_somebody_called_owner_are_two_people() {
        let named = ActorId::verified("owner").unwrap();
        assert_ne!(named, ActorId::owner());
        assert_ne!(named.directory(), ActorId::owner().directory());
        assert_ne!(named.tenant("default"), ActorId::owner().tenant("default"));
        for actor in [named, ActorId::owner(), ActorId::verified("actor/owner").unwrap()] {
            assert_eq!(ActorId::from_text(&actor.to_text()), Some(actor));
        }
    }

    #[test]
    fn names_that_differ_have_directories_that_differ() {
        let names = ["ada", "Ada", "a/da", "../ada", "ada.", "a%2fda", "."];
        let mut directories: Vec<_> = names.iter().map(|name| ActorId::verified(name).unwrap().directory()).collect();
        directories.sort();
        directories.dedup();
        assert_eq!(directories.len(), names.len());
        assert!(directories.iter().flatten().all(|name| !name.contains(['/', '.'])));
    }

    #[test]
    fn what_cannot_be_a_name_is_nobody() {
        for name in ["", "a\nb", "\0", &"x".repeat(ActorId::MAX + 1)] {
            assert_eq!(ActorId::verified(name), None);
        }
    }
}
