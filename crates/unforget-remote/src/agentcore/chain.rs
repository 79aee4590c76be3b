//! What is history among the events of a session.
//!
//! ```text
//! metadata   unforget     "1 segment <first> <end> <behind> <attempt>", or "1 part"
//!            head0 …      the segment's head in base64, 256 characters each
//! behind     32 digits of the SHA-256 of the head that it follows, or "-"
//! attempt    how many client tokens the service refused for this position before; 0 where the word is missing
//! ```
//! A segment follows the one that it names, whatever its time: times are those of the writers' clocks, and only bring the newest events to the front
//! of a list. Where two segments follow the same one, the one with the fewer refused tokens counts: the service had taken it when it refused the other.
//! Between equals the one that others follow counts; if none is followed, or both are, the one with the smaller id.
//!
//! A segment whose predecessor is missing proves a hole: nothing is ever written behind a segment that was not there. So such segments are never passed
//! over. The stream then ends where the farthest segment does, as it did before the loss, and the lines of the hole are an error with its place.
//!
//! Nothing here asks the service. What is no segment of this program is passed over; what says that it is one and cannot be read is damage, never
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
use crate::stream::Stream;

const KEY: &str = "unforget";
const SEGMENT: &str = "1 segment ";
const PART: &str = "1 part";
/// The longest value of metadata.
const VALUE: usize = 256;
/// How many values a head may take; its longest one fits.
const HEADS: usize = 13;

/// What a head is called by the segment that follows it.
pub(super) type Name = [u8; 16];

/// The end of a segment: its name and the line behind its last; none is the beginning of a stream.
type Position = Option<(Name, u64)>;
/// The segments at each position.
type Followers<'a> = HashMap<Position, Vec<&'a Link>>;

/// A segment as a list of events shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) id: String,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) name: Name,
    pub(super) behind: Option<Name>,
    /// How many tokens were refused before this segment was written.
    pub(super) attempt: u32,
    pub(super) head: Bytes,
}

impl Link {
    /// Where the next segment goes.
    fn position(&self) -> Position {
        Some((self.name, self.end))
    }

    /// Where it stands: behind a segment that ends at its first line, or at the beginning.
    fn follows(&self) -> Position {
        self.behind.map(|behind| (behind, self.first))
    }

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
pub(super) fn metadata(segment: &Segment, behind: Option<&Name>, attempt: u32) -> Metadata {
    let text = |string_value: String| MetadataValue { string_value };
    let mut metadata = Metadata::new();
    let said = format!("{SEGMENT}{} {} {} {attempt}", segment.first, segment.end, spelled(behind));
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

/// Whether an event says that it is a segment.
pub(super) fn is_segment(event: &Event) -> bool {
    event.metadata.get(KEY).is_some_and(|value| value.string_value.starts_with(SEGMENT))
}

/// Whose segment an event is, as far as it says so legibly.
pub(super) fn stream_in(event: &Event) -> Option<Stream> {
    if is_segment(event) { segment::stream_of(&head_of(event)?) } else { None }
}

fn head_of(event: &Event) -> Option<Vec<u8>> {
    let pieces = (0..HEADS).map_while(|number| event.metadata.get(&format!("head{number}")));
    let spelled: String = pieces.map(|piece| piece.string_value.as_str()).collect();
    STANDARD.decode(spelled).ok()
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
    let attempt = words.next().map_or(Some(0), |word| word.parse::<u32>().ok());
    let (Some(first), Some(end), Some(behind), Some(attempt)) = (first, end, behind, attempt) else {
        return Err(damaged("it does not say which lines it has"));
    };
    let head = head_of(event).ok_or_else(|| damaged("its head cannot be read"))?;
    if segment::lines_of(&head) != Some((first, end)) || first >= end || (first == 0) != behind.is_none() {
        return Err(damaged("it does not have the lines that it says"));
    }
    let (id, name) = (event.event_id.clone(), name_of(&head));
    Ok(Some(Link { id, first, end, name, behind, attempt, head: head.into() }))
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
    /// Segments that follow each other up to the end of the stream, from the oldest to the newest; never empty.
    pub(super) links: Vec<Link>,
    /// Whether another segment stands beside the last one, and it is not decided for good.
    pub(super) is_contested: bool,
    /// What is missing before the end, if all events were seen.
    pub(super) hole: Option<Hole>,
}

/// Lines that are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hole {
    /// The first line that cannot be had.
    pub(super) from: u64,
    /// Where the segments begin whose predecessor is missing.
    pub(super) to: u64,
    /// The segments before the hole.
    pub(super) before: Vec<Link>,
    /// Whether the segments before the hole go on beside those behind it, so that no line from there on is certain.
    pub(super) is_disputed: bool,
}

impl Hole {
    /// What is wrong, with its place.
    pub(super) fn reason(&self) -> String {
        let Self { from, to, .. } = self;
        let why = "they were deleted, or have expired (the memory's retention)";
        match (from, to.saturating_sub(1)) {
            (0, _) => format!("its lines before {to} are gone: {why}"),
            (from, last) if from < &last => format!("its lines from {from} to {last} are missing: {why}"),
            (from, last) if *from == last => format!("its line {from} is missing: it was deleted, or has expired"),
            (from, _) => format!("the segment before line {from} is missing: it was deleted, or has expired"),
        }
    }
}

impl Chain {
    /// The segment that holds a line; none if it is beyond the end, and the hole if it is in there.
    pub(super) fn holding(&self, line: u64) -> Result<Option<&Link>, &Hole> {
        let of = |links: &'_ [Link]| links.iter().position(|link| (link.first..link.end).contains(&line));
        if let Some(hole) = &self.hole {
            if line < hole.from {
                // What is before the hole has every line.
                return of(&hole.before).and_then(|at| hole.before.get(at)).map(Some).ok_or(hole);
            }
            if hole.is_disputed || self.links.first().is_none_or(|first| line < first.first) {
                return Err(hole);
            }
        }
        Ok(of(&self.links).and_then(|at| self.links.get(at)))
    }
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
    let mut followers = Followers::new();
    for link in links {
        followers.entry(link.follows()).or_default().push(link);
    }
    let ends: HashSet<Position> = links.iter().map(Link::position).collect();
    // A segment that begins at another line than the one that it names ends at is a start, too. So every step goes to a higher line, there is no circle, and
    // every segment is reached from a start.
    let starts: Vec<Position> =
        followers.keys().filter(|follows| follows.is_none() || !ends.contains(follows)).copied().collect();
    match (starts.as_slice(), seen) {
        ([only], Seen::Newest) => Known::Chain(walk(&followers, *only)),
        (_, Seen::Newest) => Known::Undecided,
        (starts, Seen::All) => joined(starts.iter().map(|start| walk(&followers, *start)).collect()),
    }
}

/// One history of pieces between which segments are missing.
fn joined(mut pieces: Vec<Chain>) -> Known {
    let first = |piece: &Chain| piece.links.first().map_or(0, |link| link.first);
    let end = |piece: &Chain| piece.links.last().map_or(0, |link| link.end);
    pieces.sort_by_key(|piece| (first(piece), piece.links.first().map(|link| link.id.clone())));
    let farthest = pieces.iter().map(end).max().unwrap_or_default();
    let hole = match pieces.as_slice() {
        [oldest, ..] if first(oldest) > 0 => {
            Some(Hole { from: 0, to: first(oldest), before: Vec::new(), is_disputed: false })
        }
        [oldest, next, ..] => {
            // A segment that reaches into the piece behind it is no proof of any line.
            let reach = end(oldest).min(first(next));
            let before: Vec<Link> = oldest.links.iter().filter(|link| link.end <= reach).cloned().collect();
            let from = before.last().map_or(0, |last| last.end);
            Some(Hole { from, to: first(next), before, is_disputed: end(oldest) == farthest })
        }
        _ => None,
    };
    let chain = pieces.into_iter().find(|piece| end(piece) == farthest);
    chain.map_or(Known::Nothing, |chain| Known::Chain(Chain { hole, ..chain }))
}

fn walk(followers: &Followers<'_>, start: Position) -> Chain {
    let mut chain = Chain { links: Vec::new(), is_contested: false, hole: None };
    let mut at = start;
    while let Some(candidates) = followers.get(&at) {
        let is_followed = |link: &Link| followers.contains_key(&link.position());
        let rank = |link: &&&Link| (link.attempt, !is_followed(link), link.id.clone());
        let Some(next) = candidates.iter().min_by_key(rank) else { break };
        let is_rival = |link: &&Link| link.name != next.name && link.attempt == next.attempt;
        chain.is_contested = candidates.iter().any(is_rival) && !is_followed(next);
        at = next.position();
        chain.links.push((*next).clone());
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: &str, first: u64, name: u8, behind: Option<u8>) -> Link {
        let behind = behind.map(|behind| [behind; 16]);
        Link { id: id.to_owned(), first, end: first + 1, name: [name; 16], behind, attempt: 0, head: Bytes::new() }
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

    fn chain(links: &[Link]) -> Chain {
        match resolve(links, Seen::All) {
            Known::Chain(chain) => chain,
            other => panic!("{other:?}"),
        }
    }

    /// Which of the first lines are there, by the ids of their segments; `!` is the hole.
    fn lines(chain: &Chain, count: u64) -> Vec<String> {
        let shown = |line| match chain.holding(line) {
            Ok(Some(link)) => link.id.clone(),
            Ok(None) => "-".to_owned(),
            Err(_) => "!".to_owned(),
        };
        (0..count).map(shown).collect()
    }

    #[test]
    fn h1_a_missing_segment_is_a_hole_with_its_place() {
        let all: Vec<Link> = (0..5).map(|n| link(&n.to_string(), n.into(), n, n.checked_sub(1))).collect();
        for missing in 0..4 {
            let mut left = all.clone();
            left.remove(missing);
            let chain = chain(&left);
            assert_eq!(chain.links.last().unwrap().id, "4", "the stream ends where it did");
            let mut shown: Vec<String> = (0..5).map(|n| n.to_string()).chain(["-".to_owned()]).collect();
            shown[missing] = "!".to_owned();
            assert_eq!(lines(&chain, 6), shown);
            let (hole, to) = (chain.hole.unwrap(), missing as u64 + 1);
            assert_eq!((hole.from, hole.to), (missing as u64, to));
            assert!(hole.reason().contains(&format!("{}", if missing == 0 { 1 } else { missing })), "{hole:?}");
        }
        assert_eq!(chain(&all).hole, None);
    }

    #[test]
    fn h1_what_follows_nothing_is_never_passed_over() {
        let stray = link("9", 5, 9, Some(42));
        let begun = chain(&[stray.clone(), link("1", 0, 1, None)]);
        assert_eq!(lines(&begun, 7), ["1", "!", "!", "!", "!", "9", "-"]);
        let alone = chain(std::slice::from_ref(&stray));
        assert_eq!(lines(&alone, 7), ["!", "!", "!", "!", "!", "9", "-"]);
        // Beside a longer history: from there on no line is certain.
        let mut long: Vec<Link> = (0..8).map(|n| link(&n.to_string(), n.into(), n, n.checked_sub(1))).collect();
        long.push(stray);
        assert_eq!(lines(&chain(&long), 8), ["0", "1", "2", "3", "4", "!", "!", "!"]);
        let wide = [Link { end: 9, ..link("1", 0, 1, None) }, link("2", 5, 2, Some(42))];
        assert_eq!(lines(&chain(&wide), 9), ["!"; 9]);
    }

    #[test]
    fn h1_a_segment_at_another_line_than_its_predecessor_ends_is_a_hole() {
        let odd = [link("1", 0, 1, None), link("2", 3, 2, Some(1))];
        assert_eq!(lines(&chain(&odd), 5), ["1", "!", "!", "2", "-"]);
        let circle = [link("1", 1, 1, Some(2)), link("2", 2, 2, Some(1))];
        assert!(chain(&circle).hole.is_some());
    }

    #[test]
    fn h1_what_was_written_after_a_refused_token_never_replaces_what_was_there() {
        let first = link("5", 1, 2, Some(1));
        let late = Link { attempt: 1, ..link("2", 1, 3, Some(1)) };
        let mut rivals = vec![link("1", 0, 1, None), late, first];
        assert_eq!(chain(&rivals).links[1].id, "5", "whatever its time");
        assert!(!chain(&rivals).is_contested, "and that is decided");
        rivals.push(link("6", 2, 4, Some(3)));
        assert_eq!(chain(&rivals).links[1].id, "5", "whatever follows the other");
    }

    #[test]
    fn a_segment_that_is_there_twice_is_one() {
        let twice = [link("1", 0, 1, None), link("2", 0, 1, None)];
        assert!(!chain(&twice).is_contested);
        assert_eq!(lines(&chain(&twice), 2), ["1", "-"]);
    }
}
