//! What is history among the events of a session.
//!
//! ```text
//! metadata   unforget     "1 segment <first> <end> <behind>", or "1 part"
//!            head0 …      the segment's head in base64, 256 characters each
//! behind     32 digits of the SHA-256 of the head that it follows, or "-"
//! ```
//! A segment follows the one that it names, whatever its time: times are those of the writers' clocks, and only bring the newest events to the front
//! of a list. Where two segments follow the same one, the one that others follow counts; if none is followed, or both are, the one with the
//! smaller id. What follows nothing that is there is either a history whose beginning is gone, or the work of a machine that slept while the stream was
//! deleted: the first counts only if there is no beginning at all.
//!
//! Nothing here asks anybody. What is no segment of this program is passed over; what says that it is one and cannot be read is damage, never
//! passed over, because a history must not become shorter by it.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::wire::{Event, Metadata, MetadataValue};
use crate::error::{Error, Result};
use crate::segment;
use crate::shelf::Segment;

const KEY: &str = "unforget";
const SEGMENT: &str = "1 segment ";
const PART: &str = "1 part";
/// The longest value of metadata.
const VALUE: usize = 256;
/// How many values a head may take; its longest one fits.
const HEADS: usize = 13;

/// What a head is called by the segment that follows it.
pub(super) type Name = [u8; 16];

/// A segment as a list of events shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) id: String,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) name: Name,
    pub(super) behind: Option<Name>,
    pub(super) head: Bytes,
}

impl Link {
    /// The time of an event is in its id, and nowhere else exact.
    pub(super) fn at(&self) -> u64 {
        milliseconds(&self.id)
    }
}

pub(super) fn milliseconds(id: &str) -> u64 {
    id.split('#').next().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

pub(super) fn name_of(head: &[u8]) -> Name {
    let digest: [u8; 32] = Sha256::digest(head).into();
    let mut name = Name::default();
    name.copy_from_slice(&digest[..16]);
    name
}

pub(super) fn spelled(name: Option<&Name>) -> String {
    name.map_or_else(|| "-".to_owned(), |name| unforget_core::encode::hex(name))
}

fn read_name(text: &str) -> Option<Option<Name>> {
    if text == "-" {
        return Some(None);
    }
    let mut name = Name::default();
    if text.len() != 2 * name.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in name.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(Some(name))
}

/// The metadata of a segment.
pub(super) fn metadata(segment: &Segment, behind: Option<&Name>) -> Metadata {
    let text = |string_value: String| MetadataValue { string_value };
    let mut metadata = Metadata::new();
    let said = format!("{SEGMENT}{} {} {}", segment.first, segment.end, spelled(behind));
    metadata.insert(KEY.to_owned(), text(said));
    let head = STANDARD.encode(&segment.head);
    for number in 0..head.len().div_ceil(VALUE) {
        let piece: String = head.chars().skip(number * VALUE).take(VALUE).collect();
        metadata.insert(format!("head{number}"), text(piece));
    }
    metadata
}

/// The metadata of a part of a segment.
pub(super) fn part() -> Metadata {
    Metadata::from([(KEY.to_owned(), MetadataValue { string_value: PART.to_owned() })])
}

/// The segment that an event is; none if it is something else.
pub(super) fn read(event: &Event) -> Result<Option<Link>> {
    let Some(said) = event.metadata.get(KEY).map(|value| value.string_value.as_str()) else { return Ok(None) };
    if said == PART {
        return Ok(None);
    }
    let damaged =
        |reason: &str| Error::Corrupt { what: format!("the event `{}`", event.event_id), reason: reason.to_owned() };
    let said = said.strip_prefix(SEGMENT).ok_or_else(|| damaged("it is of a kind that is not known here"))?;
    let mut words = said.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (first, end) = (number(), number());
    let behind = words.next().and_then(read_name);
    let (Some(first), Some(end), Some(behind)) = (first, end, behind) else {
        return Err(damaged("it does not say which lines it has"));
    };
    let pieces = (0..HEADS).map_while(|number| event.metadata.get(&format!("head{number}")));
    let spelled: String = pieces.map(|piece| piece.string_value.as_str()).collect();
    let head = STANDARD.decode(spelled).map_err(|_| damaged("its head cannot be read"))?;
    if segment::lines_of(&head) != Some((first, end)) || first >= end || (first == 0) != behind.is_none() {
        return Err(damaged("it does not have the lines that it says"));
    }
    Ok(Some(Link { id: event.event_id.clone(), first, end, name: name_of(&head), behind, head: head.into() }))
}

/// How much of a session has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The newest events.
    Newest,
    /// All of them.
    All,
}

/// The history, as far as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    /// From the oldest to the newest; never empty.
    pub(super) links: Vec<Link>,
    /// Whether another segment stands beside the last one, and it is not decided for good.
    pub(super) is_contested: bool,
}

/// What is known of a session's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// There is none.
    Nothing,
    /// More events have to be seen.
    Undecided,
    /// This is its newest part.
    Chain(Chain),
}

/// Finds the history among segments.
pub(super) fn resolve(links: &[Link], seen: Seen) -> Known {
    if links.is_empty() {
        return if seen == Seen::All { Known::Nothing } else { Known::Undecided };
    }
    let mut followers: HashMap<Option<Name>, Vec<&Link>> = HashMap::new();
    for link in links {
        followers.entry(link.behind).or_default().push(link);
    }
    let names: HashSet<Name> = links.iter().map(|link| link.name).collect();
    let mut starts: Vec<Option<Name>> =
        followers.keys().filter(|behind| behind.is_none_or(|name| !names.contains(&name))).copied().collect();
    if starts.len() > 1 && seen == Seen::Newest {
        return Known::Undecided;
    }
    // A beginning counts before everything else; of several ends without one, the farthest.
    let reach = |start: &Option<Name>| walk(&followers, *start).links.last().map_or(0, |last| last.end);
    starts.sort_by_key(|start| (start.is_some(), std::cmp::Reverse(reach(start)), *start));
    match starts.first() {
        Some(start) => Known::Chain(walk(&followers, *start)),
        // Every segment follows another: only a forgery can look like that.
        None if seen == Seen::All => Known::Nothing,
        None => Known::Undecided,
    }
}

fn walk(followers: &HashMap<Option<Name>, Vec<&Link>>, start: Option<Name>) -> Chain {
    let mut chain = Chain { links: Vec::new(), is_contested: false };
    let mut behind = start;
    // Each step goes to a higher line, so this ends.
    while let Some(candidates) = followers.get(&behind) {
        let from = chain.links.last().map(|last: &Link| last.end);
        let fitting: Vec<&&Link> =
            candidates.iter().filter(|link| from.is_none_or(|from| from == link.first)).collect();
        let is_followed = |link: &Link| {
            followers.get(&Some(link.name)).is_some_and(|next| next.iter().any(|next| next.first == link.end))
        };
        let Some(next) = fitting.iter().min_by_key(|link| (!is_followed(link), link.id.as_str())) else { break };
        chain.is_contested = fitting.len() > 1 && !is_followed(next);
        behind = Some(next.name);
        chain.links.push((**next).clone());
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: &str, first: u64, name: u8, behind: Option<u8>) -> Link {
        let behind = behind.map(|behind| [behind; 16]);
        Link { id: id.to_owned(), first, end: first + 1, name: [name; 16], behind, head: Bytes::new() }
    }

    fn ids(links: &[Link], seen: Seen) -> Option<Vec<String>> {
        match resolve(links, seen) {
            Known::Chain(chain) => Some(chain.links.into_iter().map(|link| link.id).collect()),
            Known::Nothing | Known::Undecided => None,
        }
    }

    #[test]
    fn r06_the_order_is_that_of_the_links_whatever_the_times() {
        let links = [link("1", 2, 3, Some(2)), link("2", 0, 1, None), link("3", 1, 2, Some(1))];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let links: Vec<Link> = order.iter().map(|at| links[*at].clone()).collect();
            assert_eq!(ids(&links, Seen::All).unwrap(), ["2", "3", "1"]);
        }
    }

    #[test]
    fn of_two_rivals_the_followed_one_counts_else_the_smaller() {
        let rivals = [link("1", 0, 1, None), link("3", 1, 2, Some(1)), link("2", 1, 3, Some(1))];
        let Known::Chain(chain) = resolve(&rivals, Seen::All) else { panic!("there is a chain") };
        assert_eq!(chain.links[1].id, "2");
        assert!(chain.is_contested);
        let mut followed = rivals.to_vec();
        followed.push(link("4", 2, 4, Some(2)));
        let Known::Chain(chain) = resolve(&followed, Seen::All) else { panic!("there is a chain") };
        assert_eq!(chain.links.iter().map(|link| link.id.as_str()).collect::<Vec<_>>(), ["1", "3", "4"]);
        assert!(!chain.is_contested);
    }

    #[test]
    fn the_newest_events_suffice_if_they_hang_together() {
        let newest = [link("9", 8, 9, Some(8)), link("8", 7, 8, Some(7))];
        assert_eq!(ids(&newest, Seen::Newest).unwrap(), ["8", "9"]);
        let stray = [newest[0].clone(), newest[1].clone(), link("7", 3, 77, Some(42))];
        assert_eq!(resolve(&stray, Seen::Newest), Known::Undecided);
        assert_eq!(resolve(&[], Seen::Newest), Known::Undecided);
        assert_eq!(resolve(&[], Seen::All), Known::Nothing);
    }

    #[test]
    fn what_follows_nothing_counts_only_without_a_beginning() {
        let stray = link("9", 5, 9, Some(42));
        assert_eq!(ids(&[stray.clone(), link("1", 0, 1, None)], Seen::All).unwrap(), ["1"]);
        assert_eq!(ids(std::slice::from_ref(&stray), Seen::All).unwrap(), ["9"]);
    }

    #[test]
    fn a_circle_is_no_history() {
        let circle = [link("1", 1, 1, Some(2)), link("2", 2, 2, Some(1))];
        assert_eq!(resolve(&circle, Seen::All), Known::Nothing);
    }
}
