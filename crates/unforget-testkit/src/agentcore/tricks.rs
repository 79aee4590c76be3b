//! How a hostile or broken memory answers, as long as a test wants it.
//!
//! A planned [fault](super::Fault) happens once; a trick stays until the test ends it. Each is one thing that a client must survive without losing,
//! inventing or acknowledging words.

use unforget_remote::agentcore::wire::Event;

use super::checks::Refusal;

/// What the memory does wrong.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tricks {
    /// How many of the newest events of a session no list shows.
    pub stale: usize,
    /// After how many lists the newest events are shown again; never if there is none.
    pub stale_lists: Option<usize>,
    /// How every page behind the first one is refused.
    pub refused_pages: Option<RefusedPage>,
    /// An event of another session that every list begins with.
    pub foreign: Option<Event>,
    /// Whether a list shows every event twice.
    pub has_duplicates: bool,
    /// Whether the events of a page come oldest first.
    pub is_reordered: bool,
    /// Whether a list ends with a token that leads to the same page again.
    pub is_endless: bool,
    /// How many bytes of blanks follow every answer.
    pub padding: usize,
    /// Whether a new event is acknowledged and not kept.
    pub drops_new: bool,
    /// What every request is refused with.
    pub refusal: Option<(u16, String, String)>,
}

/// How a page is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedPage {
    /// The token is no token.
    Invalid,
    /// The token leads to an event that is not there.
    Missing,
}

impl RefusedPage {
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::Invalid => Refusal::invalid("The nextToken has expired", "FieldValidationFailed"),
            Self::Missing => Refusal::missing("The event of the nextToken was not found".to_owned()),
        }
    }
}

impl Tricks {
    /// What a list shows of the events of a session, which come newest first.
    pub(super) fn shown<T>(&mut self, newest: Vec<T>) -> Vec<T> {
        if let Some(left) = &mut self.stale_lists {
            if *left == 0 {
                self.stale = 0;
            }
            *left = left.saturating_sub(1);
        }
        newest.into_iter().skip(self.stale).collect()
    }

    /// What a page looks like.
    pub(super) fn page(&self, mut events: Vec<Event>) -> Vec<Event> {
        if self.has_duplicates {
            events = events.into_iter().flat_map(|event| [event.clone(), event]).collect();
        }
        if self.is_reordered {
            events.reverse();
        }
        self.foreign.iter().cloned().chain(events).collect()
    }
}
