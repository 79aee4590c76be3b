//! How a hostile or broken memory answers, as long as a test wants it.
//!
//! A planned [fault](super::Fault) happens once; a trick stays until the test ends it. Each is one thing that a client must survive without losing,
//! inventing or acknowledging words.

use unforget_remote::agentcore::wire::Event;

use super::checks::Refusal;
use super::faults::Operation;

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
    /// An event that every list shows, again and again under ever new names, and how often; then the list does not end.
    pub flood: Option<(Event, usize)>,
    /// What every request of a kind is answered with.
    pub answers: Vec<(Operation, String)>,
    /// How many events the flood had so far.
    flooded: u64,
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

    /// A page of the flood, and the token of the next one.
    pub(super) fn flood(&mut self) -> Option<(Vec<Event>, String)> {
        let (event, count) = self.flood.as_ref()?;
        let until = self.flooded + *count as u64;
        let named = |number: u64| Event { event_id: format!("{:019}#{:08x}", 1, u64::MAX - number), ..event.clone() };
        let page = (self.flooded..until).map(named).collect();
        self.flooded = until;
        Some((page, until.to_string()))
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
