//! The shelf on a place that counts, fails and forgets on request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use unforget_core::frontier::Frontier;

use super::merge::TARGET;
use super::object::Object;
use super::remove::WEEK;
use super::shelf::AT_ONCE;
use super::{Kind, Names, ObjectShelf, Objects, Part};
use crate::conformance::read_all;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::packed::Packed;
use crate::remote::{Compacted, Remote as _};
use crate::retry::Patience;
use crate::seal::Key;
use crate::shelf::{Put, Shelf as _};
use crate::stream::{Prefix, Stream};

/// A place that counts what is asked of it, and can refuse to change.
#[derive(Debug, Clone)]
struct Counted {
    memory: Memory,
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    /// How many changes still succeed.
    changes: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
}

impl Counted {
    fn new() -> Self {
        Self {
            memory: Memory::default(),
            counts: Arc::default(),
            changes: Arc::new(AtomicUsize::new(usize::MAX)),
            at_once: Arc::default(),
            most_at_once: Arc::default(),
        }
    }

    fn remote(&self) -> Packed<ObjectShelf<Self>> {
        self.remote_at(|| 0)
    }

    fn remote_at(&self, clock: fn() -> u64) -> Packed<ObjectShelf<Self>> {
        let once = Patience { attempts: 1, first: Duration::ZERO, longest: Duration::ZERO };
        Packed::new(ObjectShelf::new(self.clone()).timed(clock)).patient(once)
    }

    async fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
    }

    async fn change(&self, what: &'static str) -> Result<()> {
        self.count(what).await;
        let left = self.changes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let away = |_| Error::Unavailable { place: self.name(), reason: "unplugged".to_owned(), wait: None };
        left.map(|_| ()).map_err(away)
    }

    /// What was asked since the last time.
    fn taken(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.counts.lock().unwrap())
    }

    fn bytes(&self) -> usize {
        self.memory.objects().values().map(Bytes::len).sum()
    }
}

impl Objects for Counted {
    fn name(&self) -> String {
        "the counted".to_owned()
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        self.change("create").await?;
        self.memory.create(path, bytes).await
    }

    async fn replace(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.change("replace").await?;
        self.memory.replace(path, bytes).await
    }

    async fn read(&self, path: &str, part: Part) -> Result<Option<Bytes>> {
        self.count("read").await;
        self.memory.read(path, part).await
    }

    async fn names(&self, dir: &str, kind: Kind, behind: Option<&str>, most: usize) -> Result<Names> {
        self.count("names").await;
        self.memory.names(dir, kind, behind, most).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.change("remove").await?;
        self.memory.remove(path).await
    }
}

type Client = Packed<ObjectShelf<Counted>>;

fn stream() -> Stream {
    Stream::new("tenant", "place", "session").unwrap()
}

/// A line that is like those of a session, and compresses like one.
fn line(number: usize) -> Bytes {
    let digest = unforget_core::encode::sha256_hex(&number.to_le_bytes());
    let words = "the agent reads the file and writes what it found there ".repeat(6);
    Bytes::from(format!(r#"{{"v":1,"n":{number},"type":"assistant","content":"{digest} {words}{digest}"}}"#))
}

/// Appends lines, each as a turn of its own.
async fn turns(
    remote: &Client,
    stream: &Stream,
    numbers: std::ops::Range<usize>,
    mut at: Frontier,
) -> (Frontier, Vec<Bytes>) {
    let mut lines = Vec::new();
    for number in numbers {
        let turn = [line(number)];
        at = remote.append(stream, &at, &turn).await.unwrap();
        lines.extend(turn);
    }
    (at, lines)
}

async fn compact_all(remote: &Client, stream: &Stream) -> usize {
    let mut merged = 0;
    for _ in 0..1_000 {
        let Compacted { merged: more, is_done } = remote.compact(stream).await.unwrap();
        merged += more;
        if is_done {
            return merged;
        }
    }
    panic!("it never ends");
}

/// Lines are found from any position, by somebody who remembers nothing.
async fn check_from_everywhere(place: &Counted, stream: &Stream, lines: &[Bytes]) {
    for from in (0..=lines.len()).step_by(1 + lines.len() / 100) {
        assert_eq!(read_all(&place.remote(), stream, from as u64).await, lines[from..], "from line {from}");
    }
}

#[tokio::test]
async fn a_warm_turn_is_one_request_of_its_own_size() {
    let place = Counted::new();
    let remote = place.remote();
    let (mut at, _) = turns(&remote, &stream(), 0..1, Frontier::default()).await;
    let mut sizes = Vec::new();
    for round in 0..300 {
        place.taken();
        let before = place.bytes();
        at = remote.append(&stream(), &at, &[line(7)]).await.unwrap();
        assert_eq!(place.taken(), BTreeMap::from([("create", 1)]), "turn {round}");
        sizes.push(place.bytes() - before);
    }
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(most - least < 16, "a turn takes {least} to {most} bytes, whatever stands before it");
}

#[tokio::test]
async fn a_new_stream_takes_three_requests() {
    let place = Counted::new();
    turns(&place.remote(), &stream(), 0..1, Frontier::default()).await;
    assert_eq!(place.taken(), BTreeMap::from([("create", 1), ("names", 2)]));
}

#[tokio::test]
async fn reading_takes_one_request_for_each_segment() {
    let place = Counted::new();
    let (_, lines) = turns(&place.remote(), &stream(), 0..100, Frontier::default()).await;
    place.taken();
    assert_eq!(read_all(&place.remote(), &stream(), 0).await, lines);
    let counts = place.taken();
    assert!(counts["read"] <= 100 + 4 && counts["names"] <= 4, "{counts:?}");
}

#[tokio::test]
async fn a_long_session_is_restored_with_few_requests() {
    const TURNS: usize = 2_000;
    let place = Counted::new();
    let remote = place.remote();
    let (at, mut lines) = turns(&remote, &stream(), 0..TURNS, Frontier::default()).await;
    place.taken();
    assert_eq!(read_all(&place.remote(), &stream(), 0).await, lines);
    let (before, bytes_before) = (place.taken(), place.bytes());
    compact_all(&remote, &stream()).await;
    let work = place.taken();
    assert_eq!(read_all(&place.remote(), &stream(), 0).await, lines);
    let (after, bytes_after) = (place.taken(), place.bytes());
    eprintln!(
        "restore of {TURNS} turns: {before:?} before, {after:?} after; bytes {bytes_before} before, {bytes_after} after; merging took {work:?}"
    );
    assert!(before["read"] >= TURNS && after["read"] * 20 < before["read"], "{before:?} {after:?}");
    assert!(bytes_after < bytes_before, "{bytes_before} {bytes_after}");
    // Going on is what it was: one request, also for those who know nothing of it.
    lines.extend(turns(&remote, &stream(), TURNS..TURNS + 3, at).await.1);
    assert_eq!(place.taken(), BTreeMap::from([("create", 3)]));
    assert_eq!(read_all(&place.remote(), &stream(), 1_234).await, lines[1_234..]);
}

#[tokio::test]
async fn merging_what_was_merged_changes_nothing() {
    let place = Counted::new();
    let remote = place.remote();
    turns(&remote, &stream(), 0..300, Frontier::default()).await;
    assert!(compact_all(&remote, &stream()).await > 16);
    let objects = place.memory.objects().clone();
    assert_eq!(compact_all(&place.remote(), &stream()).await, 0);
    assert_eq!(*place.memory.objects(), objects);
}

#[tokio::test]
async fn lines_are_found_from_everywhere_after_merging() {
    let place = Counted::new();
    let remote = place.remote();
    let (_, lines) = turns(&remote, &stream(), 0..290, Frontier::default()).await;
    compact_all(&remote, &stream()).await;
    check_from_everywhere(&place, &stream(), &lines).await;
}

#[tokio::test]
async fn wherever_merging_is_cut_off_nothing_is_lost_and_it_goes_on() {
    let whole = Counted::new();
    let (_, lines) = turns(&whole.remote(), &stream(), 0..273, Frontier::default()).await;
    let raw = whole.memory.objects().clone();
    compact_all(&whole.remote(), &stream()).await;
    let merged = whole.memory.objects().clone();
    let changes =
        whole.taken().iter().filter(|(what, _)| **what != "read" && **what != "names").map(|(_, n)| n).sum::<usize>();
    for cut in (0..changes - 273).filter(|cut| *cut < 40 || cut % 7 == 0 || *cut > 270) {
        let place = Counted::new();
        *place.memory.objects() = raw.clone();
        place.changes.store(cut, Ordering::SeqCst);
        for _ in 0..40 {
            if !matches!(place.remote().compact(&stream()).await, Ok(Compacted { is_done: false, .. })) {
                break;
            }
        }
        assert_eq!(read_all(&place.remote(), &stream(), 0).await, lines, "cut off after {cut} changes");
        assert_eq!(read_all(&place.remote(), &stream(), 21).await, lines[21..], "cut off after {cut} changes");
        place.changes.store(usize::MAX, Ordering::SeqCst);
        compact_all(&place.remote(), &stream()).await;
        assert!(*place.memory.objects() == merged, "it ends where it would have ended, cut off after {cut} changes");
    }
}

#[tokio::test]
async fn two_who_merge_at_once_do_no_harm() {
    let place = Counted::new();
    let (one, two) = (place.remote(), place.remote());
    let (_, lines) = turns(&one, &stream(), 0..280, Frontier::default()).await;
    let stream = stream();
    let (left, right) = futures_util::future::join(compact_all(&one, &stream), compact_all(&two, &stream)).await;
    assert!(left + right >= 18);
    assert_eq!(read_all(&place.remote(), &stream, 0).await, lines);
    let alone = Counted::new();
    turns(&alone.remote(), &stream, 0..280, Frontier::default()).await;
    compact_all(&alone.remote(), &stream).await;
    assert!(*alone.memory.objects() == *place.memory.objects(), "two make what one makes");
}

#[tokio::test]
async fn r09_a_machine_that_slept_through_merging_is_refused() {
    let place = Counted::new();
    let (sleeper, awake) = (place.remote(), place.remote());
    let (early, _) = turns(&sleeper, &stream(), 0..5, Frontier::default()).await;
    let (late, lines) = turns(&awake, &stream(), 5..200, early).await;
    compact_all(&awake, &stream()).await;
    let answer = sleeper.append(&stream(), &early, &[line(999)]).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == late), "{answer:?}");
    assert_eq!(read_all(&sleeper, &stream(), 5).await, lines);
}

#[tokio::test]
async fn sealed_lines_are_merged_sealed() {
    let place = Counted::new();
    let client = |key: Option<[u8; 32]>| place.remote().sealed(key.map(|key| Key::new(&key)));
    let (at, mut lines) = turns(&client(Some([1; 32])), &stream(), 0..11, Frontier::default()).await;
    let large = Bytes::from("large ".repeat(20_000));
    let at = client(Some([1; 32])).append(&stream(), &at, std::slice::from_ref(&large)).await.unwrap();
    lines.push(large);
    lines.extend(turns(&client(Some([1; 32])), &stream(), 12..70, at).await.1);
    let refused = client(None).compact(&stream()).await;
    assert!(matches!(refused, Err(Error::WrongKey { has_key: false, .. })), "{refused:?}");
    assert!(compact_all(&client(Some([1; 32])), &stream()).await >= 4);
    assert_eq!(read_all(&client(Some([1; 32])), &stream(), 0).await, lines);
    let refused = client(Some([2; 32])).read(&stream(), 0).await;
    assert!(matches!(refused, Err(Error::WrongKey { has_key: true, .. })), "{refused:?}");
}

#[tokio::test]
async fn damage_is_not_merged_into_what_is_whole() {
    let place = Counted::new();
    turns(&place.remote(), &stream(), 0..40, Frontier::default()).await;
    let path = place.memory.objects().keys().rev().nth(3).unwrap().clone();
    let mut bytes = place.memory.objects()[&path].to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    place.memory.objects().insert(path, bytes.into());
    let before = place.memory.objects().clone();
    let refused = place.remote().compact(&stream()).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert!(*place.memory.objects() == before);
}

#[tokio::test]
async fn large_segments_are_passed_over() {
    let place = Counted::new();
    let remote = place.remote();
    let (mut at, mut lines) = (Frontier::default(), Vec::new());
    for number in 0..40_usize {
        // Lines that are not kept apart, many of them: each turn is larger than all may be together.
        let turn: Vec<Bytes> = if number % 10 == 3 {
            let large = Bytes::from(number.to_string().repeat(30_000));
            (0..=TARGET as usize / large.len()).map(|_| large.clone()).collect()
        } else {
            vec![line(number)]
        };
        at = remote.append(&stream(), &at, &turn).await.unwrap();
        lines.extend(turn);
    }
    place.taken();
    assert!(compact_all(&remote, &stream()).await >= 2);
    assert!(place.bytes() < 4 << 20);
    assert!(read_all(&place.remote(), &stream(), 0).await == lines);
    place.taken();
    assert_eq!(compact_all(&remote, &stream()).await, 0);
    let idle = place.taken().values().sum::<usize>();
    assert!(idle < 12, "{idle} requests to see that nothing is to be done");
}

#[tokio::test]
async fn deleting_leaves_nothing_but_marks() {
    let place = Counted::new();
    let remote = place.remote();
    turns(&remote, &stream(), 0..300, Frontier::default()).await;
    compact_all(&remote, &stream()).await;
    remote.delete(&stream()).await.unwrap();
    for (path, bytes) in place.memory.objects().iter() {
        let object = Object::decode(bytes).unwrap();
        assert!(matches!(object, Object::Deleted | Object::Ended { .. }), "{path} is {object:?}");
    }
    place.taken();
    remote.delete(&stream()).await.unwrap();
    let again = place.taken().values().sum::<usize>();
    assert!(again < 12, "deleting again takes {again} requests");
}

#[tokio::test]
async fn what_is_merged_while_it_is_deleted_is_deleted() {
    let source = Counted::new();
    turns(&source.remote(), &stream(), 0..60, Frontier::default()).await;
    let objects = source.memory.objects().clone();
    let stream = stream();
    for cut in 0..6 {
        let place = Counted::new();
        *place.memory.objects() = objects.clone();
        // A merger that is as far as this falls asleep, and goes on behind the deletion.
        let merger = place.remote();
        let Ok(Some(crate::shelf::Step::Merge(run))) = merger.shelf().step(&stream).await else { panic!("no step") };
        let merged = run.segments[0].clone();
        if cut % 2 == 0 {
            merger.shelf().store(&stream, &run, &merged).await.unwrap();
        }
        place.remote().delete(&stream).await.unwrap();
        if cut % 3 == 0 {
            turns(&place.remote(), &stream, 100..103, Frontier::default()).await;
        }
        merger.shelf().store(&stream, &run, &merged).await.unwrap();
        merger.shelf().point(&stream, &run).await.unwrap();
        let kept = place.memory.objects().values().filter(|bytes| bytes.len() > 64).count();
        assert_eq!(kept, if cut % 3 == 0 { 3 } else { 0 });
        let answer = place.remote().frontier(&stream).await;
        assert_eq!(answer.is_ok(), cut % 3 == 0, "{answer:?}");
    }
}

#[tokio::test]
async fn a_machine_that_slept_through_two_deletions_is_refused() {
    let place = Counted::new();
    let (sleeper, awake) = (place.remote(), place.remote());
    let (early, _) = turns(&sleeper, &stream(), 0..3, Frontier::default()).await;
    for _ in 0..2 {
        awake.delete(&stream()).await.unwrap();
        turns(&awake, &stream(), 10..11, Frontier::default()).await;
    }
    let refused = sleeper.append(&stream(), &early, &[line(3)]).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert_eq!(read_all(&sleeper, &stream(), 0).await, [line(10)]);
}

#[tokio::test]
async fn a_late_deletion_takes_nothing_from_the_next_life() {
    let place = Counted::new();
    let large = Bytes::from("large ".repeat(20_000));
    let remote = place.remote();
    remote.append(&stream(), &Frontier::default(), std::slice::from_ref(&large)).await.unwrap();
    // The deletion stops behind its first change, somebody begins anew, and then it goes on.
    place.changes.store(1, Ordering::SeqCst);
    assert!(place.remote().delete(&stream()).await.is_err());
    place.changes.store(usize::MAX, Ordering::SeqCst);
    let next = place.remote();
    next.append(&stream(), &Frontier::default(), std::slice::from_ref(&large)).await.unwrap();
    let late = ObjectShelf::new(place.clone());
    let old = super::name::claimed(&stream(), 0, &unforget_core::encode::sha256_hex(&large));
    assert!(place.memory.objects().contains_key(&old), "the claim of the life before");
    late.forget_life(&stream(), 0).await.unwrap();
    assert!(!place.memory.objects().contains_key(&old));
    assert_eq!(read_all(&place.remote(), &stream(), 0).await, [large]);
}

#[tokio::test]
async fn marks_are_swept_away_after_a_week() {
    let place = Counted::new();
    let early = place.remote();
    turns(&early, &stream(), 0..50, Frontier::default()).await;
    compact_all(&early, &stream()).await;
    early.delete(&stream()).await.unwrap();
    let prefix = Prefix::tenant("tenant").unwrap();
    let other = Stream::new("tenant", "place", "other").unwrap();
    for (clock, is_swept) in [((|| WEEK) as fn() -> u64, false), (|| WEEK + 1, true)] {
        let late = place.remote_at(clock);
        assert!(late.list(&prefix, None).await.unwrap().streams.is_empty());
        late.delete(&other).await.unwrap();
        let left = place.memory.objects().keys().filter(|path| !path.contains("@gone")).count();
        assert_eq!(left == 0, is_swept, "{left} objects");
    }
    // Its names are not used again.
    turns(&place.remote(), &stream(), 0..2, Frontier::default()).await;
    let is_next = |path: &&String| path.contains("/@/fffffffffffffffe");
    let lives = place.memory.objects().keys().filter(is_next).count();
    assert_eq!(lives, 2);
}

#[tokio::test]
async fn a_list_asks_for_several_streams_at_once_but_not_for_all() {
    let place = Counted::new();
    let remote = place.remote();
    for number in 0..100 {
        let mut stream = Stream::new("tenant", "place", &format!("session-{}", number.min(50))).unwrap();
        if number > 50 {
            stream = stream.side_stream(&format!("side-{number}")).unwrap();
        }
        turns(&remote, &stream, 0..1, Frontier::default()).await;
    }
    place.most_at_once.store(0, Ordering::SeqCst);
    let listing = remote.list(&Prefix::tenant("tenant").unwrap(), None).await.unwrap();
    assert_eq!(listing.streams.len(), 100);
    let most = place.most_at_once.load(Ordering::SeqCst);
    assert!(most > AT_ONCE / 2 && most <= AT_ONCE, "{most} at once");
}

#[tokio::test]
async fn a_list_of_many_streams_comes_in_pages_that_miss_nothing() {
    let place = Memory::default();
    let remote = place.remote();
    let mut wanted = Vec::new();
    for number in 0..1_100 {
        // Names of which one begins another: `a`, `a-0`, `a0`.
        let name = format!("s{}{}", number / 3, ["", "-0", "0a"][number % 3]);
        wanted.push(Stream::new("tenant", ["p", "p-2"][number % 2], &name).unwrap());
    }
    for stream in &wanted {
        remote.append(stream, &Frontier::default(), &[line(0)]).await.unwrap();
    }
    let (mut found, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = remote.list(&Prefix::tenant("tenant").unwrap(), cursor.as_deref()).await.unwrap();
        (found, pages) = ([found, page.streams].concat(), pages + 1);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    found.sort();
    wanted.sort();
    assert!(found == wanted && pages == 2, "{} of {} in {pages} pages", found.len(), wanted.len());
}

#[tokio::test]
async fn a_mark_that_leads_nowhere_or_in_circles_is_damage() {
    let place = Counted::new();
    turns(&place.remote(), &stream(), 0..3, Frontier::default()).await;
    let path = place.memory.objects().keys().next_back().unwrap().clone();
    for (level, first, end) in [(0, 0, 1), (9, 0, 1), (1, 1, 2), (1, 0, 1)] {
        place.memory.objects().insert(path.clone(), Object::Moved { level, first, end }.encode());
        let answer = place.remote().read(&stream(), 0).await;
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
    }
}

#[derive(Debug, Clone)]
enum Do {
    Append { client: usize, lines: usize, bytes: usize },
    Compact { client: usize },
    Cut { client: usize, changes: usize },
    Delete { client: usize },
    Read { client: usize, from: usize },
}

fn doing() -> impl Strategy<Value = Do> {
    let client = 0..2_usize;
    prop_oneof![
        20 => (client.clone(), 1..4_usize, 0..200_usize).prop_map(|(client, lines, bytes)| Do::Append { client, lines, bytes }),
        1 => (client.clone(), Just(1_usize), Just(70_000_usize)).prop_map(|(client, lines, bytes)| Do::Append { client, lines, bytes }),
        3 => client.clone().prop_map(|client| Do::Compact { client }),
        2 => (client.clone(), 0..24_usize).prop_map(|(client, changes)| Do::Cut { client, changes }),
        1 => client.clone().prop_map(|client| Do::Delete { client }),
        3 => (client, 0..400_usize).prop_map(|(client, from)| Do::Read { client, from }),
    ]
}

async fn follows_the_model(doings: Vec<Do>) {
    let place = Counted::new();
    let clients = [place.remote(), place.remote()];
    let stream = stream();
    let mut model: Vec<Bytes> = Vec::new();
    // What each client believes, which may be old.
    let mut believed = [Frontier::default(); 2];
    let end = |model: &[Bytes]| model.iter().fold(Frontier::default(), |at, line| at.after(line));
    for (number, doing) in doings.into_iter().enumerate() {
        match doing {
            Do::Append { client, lines, bytes } => {
                let turn: Vec<Bytes> =
                    (0..lines).map(|line| format!("{number} {line} {}", "x".repeat(bytes)).into()).collect();
                match clients[client].append(&stream, &believed[client], &turn).await {
                    Ok(next) => {
                        assert_eq!(believed[client], end(&model), "only who knows all may add");
                        model.extend(turn);
                        assert_eq!(next, end(&model));
                        believed[client] = next;
                    }
                    Err(Error::Conflict { found }) => {
                        assert_ne!(believed[client], end(&model));
                        assert_eq!(found, end(&model));
                        believed[client] = found;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Do::Compact { client } => {
                compact_all(&clients[client], &stream).await;
            }
            Do::Cut { client, changes } => {
                place.changes.store(changes, Ordering::SeqCst);
                let done = clients[client].compact(&stream).await;
                assert!(matches!(done, Ok(_) | Err(Error::Unavailable { .. })), "{done:?}");
                place.changes.store(usize::MAX, Ordering::SeqCst);
            }
            Do::Delete { client } => {
                clients[client].delete(&stream).await.unwrap();
                model.clear();
            }
            Do::Read { client, from } if !model.is_empty() => {
                let from = from % (model.len() + 1);
                assert_eq!(read_all(&clients[client], &stream, from as u64).await, model[from..]);
            }
            Do::Read { client, .. } => {
                let answer = clients[client].read(&stream, 0).await;
                assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
            }
        }
    }
    if !model.is_empty() {
        check_from_everywhere(&place, &stream, &model).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_order_of_appends_merges_and_deletions_is_read_as_it_was_written(doings in prop::collection::vec(doing(), 1..120)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(follows_the_model(doings));
    }
}

#[tokio::test]
async fn a_number_stays_taken_whatever_became_of_its_segment() {
    let place = Counted::new();
    let remote = place.remote();
    turns(&remote, &stream(), 0..40, Frontier::default()).await;
    let shelf = remote.shelf();
    let first = shelf.holding(&stream(), 0).await.unwrap().unwrap();
    let mut last = shelf.last(&stream()).await.unwrap().unwrap();
    compact_all(&remote, &stream()).await;
    for number in [0, 7, 16, 39] {
        last.end = number;
        let segment = crate::shelf::Segment { first: number, end: number + 1, ..first.clone() };
        assert_eq!(shelf.put(&stream(), Some(&last), &segment).await.unwrap(), Put::Taken, "line {number}");
    }
}
