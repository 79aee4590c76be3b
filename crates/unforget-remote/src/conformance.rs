//! What every remote promises, as a suite that any of them can be put to.
//!
//! A backend's own test calls [`all`] with an empty place. Each check makes streams of its own, so they may run on a place that
//! others use as well, as long as the tenant is not used by anybody else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken promise fails the test that calls this"
)]

use std::collections::BTreeSet;

use bytes::Bytes;
use unforget_core::frontier::Frontier;

use crate::error::Error;
use crate::remote::{Page, Remote};
use crate::stream::{Prefix, Stream};

/// How large the suite's largest line is.
const HUGE: usize = 12 << 20;
/// How many writers race for a position.
const RACERS: usize = 8;

/// Runs every check. `second` is another client of the same place, as another machine would be.
pub async fn all(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    nothing_is_there_before_something_was_written(first, tenant).await;
    lines_come_back_in_order_and_in_every_byte(first, second, tenant).await;
    a_batch_of_nothing_only_compares(first, tenant).await;
    an_append_elsewhere_is_a_conflict_and_changes_nothing(first, second, tenant).await;
    a_repeated_append_changes_nothing(first, second, tenant).await;
    of_many_writers_at_one_position_one_wins(first, second, tenant).await;
    many_batches_are_read_to_the_end(first, second, tenant).await;
    many_lines_are_one_batch(first, second, tenant).await;
    a_huge_line_is_kept(first, second, tenant).await;
    a_line_that_is_repeated_is_kept_for_each_who_wrote_it(first, second, tenant).await;
    a_line_feed_inside_a_line_is_refused(first, tenant).await;
    odd_names_stay_apart(first, second, tenant).await;
    lists_show_each_stream_once(first, second, tenant).await;
    what_is_deleted_is_gone(first, second, tenant).await;
    a_writer_that_slept_through_a_deletion_is_refused(first, second, tenant).await;
    two_tenants_share_nothing(first, second, tenant).await;
}

fn stream(tenant: &str, session: &str) -> Stream {
    Stream::new(tenant, "main", session).unwrap()
}

fn batch<L: AsRef<[u8]>>(lines: &[L]) -> Vec<Bytes> {
    lines.iter().map(|line| Bytes::copy_from_slice(line.as_ref())).collect()
}

fn end_of(lines: &[Bytes]) -> Frontier {
    lines.iter().fold(Frontier::default(), |frontier, line| frontier.after(line))
}

/// Reads a stream from a line to its end and proves every page.
pub async fn read_all(remote: &dyn Remote, stream: &Stream, from: u64) -> Vec<Bytes> {
    let (mut lines, mut at) = (Vec::new(), None::<Frontier>);
    loop {
        let next = at.map_or(from, |at| at.lines);
        let Page { before, lines: page, after } = remote.read(stream, next).await.unwrap();
        assert_eq!(before.lines, next, "a page begins where it was asked for");
        if let Some(at) = at {
            assert_eq!(before, at, "a page goes on where the one before it ended");
        }
        assert_eq!(page.iter().fold(before, |frontier, line| frontier.after(line)), after, "a page proves its lines");
        at = Some(after);
        if page.is_empty() {
            return lines;
        }
        lines.extend(page);
    }
}

/// Asking for what was never written is answered, and with "not there".
pub async fn nothing_is_there_before_something_was_written(remote: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "never");
    let answer = remote.frontier(&stream).await;
    assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
    let answer = remote.read(&stream, 0).await;
    assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
    remote.delete(&stream).await.unwrap();
}

/// Whatever a line holds, it comes back as it was: it is bytes, not JSON.
pub async fn lines_come_back_in_order_and_in_every_byte(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "bytes");
    let odd: Vec<Vec<u8>> = vec![
        br#"{"b":1,"a":2,"a":3,"n":1.0e+0}"#.to_vec(),
        br#"{"nul":"\u0000","lone":"\ud800"}"#.to_vec(),
        b"".to_vec(),
        b" ".to_vec(),
        b"\r".to_vec(),
        b"\0".to_vec(),
        (0..=255).filter(|byte| *byte != b'\n').collect(),
        "会话 セッション 대화 \u{2028} \u{feff}".as_bytes().to_vec(),
        b"not json at all \xff\xfe".to_vec(),
        b"".to_vec(),
    ];
    let lines = batch(&odd);
    let middle = end_of(&lines[..4]);
    assert_eq!(first.append(&stream, &Frontier::default(), &lines[..4]).await.unwrap(), middle);
    assert_eq!(first.append(&stream, &middle, &lines[4..]).await.unwrap(), end_of(&lines));
    assert_eq!(second.frontier(&stream).await.unwrap(), end_of(&lines));
    for from in 0..=lines.len() {
        assert_eq!(read_all(second, &stream, from as u64).await, lines[from..], "from line {from}");
    }
    let beyond = second.read(&stream, lines.len() as u64 + 1).await;
    assert!(matches!(beyond, Err(Error::Conflict { found }) if found == end_of(&lines)), "{beyond:?}");
}

/// An empty batch says whether a position is right.
pub async fn a_batch_of_nothing_only_compares(remote: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "nothing");
    assert_eq!(remote.append(&stream, &Frontier::default(), &[]).await.unwrap(), Frontier::default());
    assert!(matches!(remote.frontier(&stream).await, Err(Error::NotFound { .. })), "nothing was made of nothing");
    let lines = batch(&["one"]);
    let end = remote.append(&stream, &Frontier::default(), &lines).await.unwrap();
    assert_eq!(remote.append(&stream, &end, &[]).await.unwrap(), end);
    let behind = remote.append(&stream, &Frontier::default(), &[]).await;
    assert!(matches!(behind, Err(Error::Conflict { found }) if found == end), "{behind:?}");
}

/// Nobody adds to a stream who does not know all of it.
pub async fn an_append_elsewhere_is_a_conflict_and_changes_nothing(
    first: &dyn Remote,
    second: &dyn Remote,
    tenant: &str,
) {
    let stream = stream(tenant, "conflict");
    let lines = batch(&["one", "two", "three"]);
    let end = first.append(&stream, &Frontier::default(), &lines).await.unwrap();
    let other = end_of(&batch(&["one", "two", "drei"]));
    let ahead = end.after(b"four");
    for (what, wrong) in [
        ("behind", end_of(&lines[..2])),
        ("nowhere", Frontier::default()),
        ("of the same length, with other words", other),
        ("ahead", ahead),
        ("with another digest alone", Frontier { digest: [7; 32], ..end }),
        ("with another number of bytes alone", Frontier { bytes: end.bytes + 1, ..end }),
    ] {
        for remote in [first, second] {
            let answer = remote.append(&stream, &wrong, &batch(&["mine"])).await;
            assert!(matches!(answer, Err(Error::Conflict { found }) if found == end), "{what}: {answer:?}");
        }
    }
    assert_eq!(read_all(second, &stream, 0).await, lines);
    let never = self::stream(tenant, "conflict-never");
    let answer = first.append(&never, &end, &batch(&["mine"])).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == Frontier::default()), "{answer:?}");
}

/// An answer that got lost is asked for again.
pub async fn a_repeated_append_changes_nothing(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "again");
    let start = Frontier::default();
    let lines = batch(&["one", "two"]);
    let end = first.append(&stream, &start, &lines).await.unwrap();
    for remote in [first, second, first] {
        assert_eq!(remote.append(&stream, &start, &lines).await.unwrap(), end);
    }
    assert_eq!(read_all(second, &stream, 0).await, lines);
    let more = second.append(&stream, &end, &batch(&["three"])).await.unwrap();
    let late = first.append(&stream, &start, &lines).await;
    assert!(matches!(late, Err(Error::Conflict { found }) if found == more), "{late:?}");
    assert_eq!(read_all(first, &stream, 0).await.len(), 3);
}

/// Compare-and-append under races: one wins, and the others know where the stream is.
pub async fn of_many_writers_at_one_position_one_wins(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "race");
    let mut end = Frontier::default();
    let mut written = Vec::new();
    for round in 0..4 {
        let batches: Vec<Vec<Bytes>> =
            (0..RACERS).map(|racer| batch(&[format!("{round} {racer}"), "x".repeat(racer)])).collect();
        let race = batches.iter().enumerate().map(|(racer, lines)| {
            let remote = if racer % 2 == 0 { first } else { second };
            remote.append(&stream, &end, lines)
        });
        let outcomes = futures_util::future::join_all(race).await;
        let winners: Vec<usize> = (0..RACERS).filter(|racer| outcomes[*racer].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        written.extend(batches[winners[0]].iter().cloned());
        let next = *outcomes[winners[0]].as_ref().unwrap();
        for outcome in outcomes {
            assert!(matches!(outcome, Ok(_) | Err(Error::Conflict { .. })), "{outcome:?}");
        }
        assert_eq!(next, end_of(&written));
        end = next;
    }
    assert_eq!(read_all(second, &stream, 0).await, written);
}

/// Pages of a hundred, and one less, and one more.
pub async fn many_batches_are_read_to_the_end(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "pages");
    let (mut end, mut written) = (Frontier::default(), Vec::new());
    for number in 0..101_u64 {
        let lines = batch(&[format!("{{\"n\":{number}}}")]);
        end = first.append(&stream, &end, &lines).await.unwrap();
        written.extend(lines);
        if [99, 100, 101].contains(&(number + 1)) {
            assert_eq!(second.frontier(&stream).await.unwrap(), end);
            assert_eq!(read_all(second, &stream, 0).await, written, "{} batches", number + 1);
            assert_eq!(read_all(second, &stream, 57).await, written[57..]);
        }
    }
}

/// A batch may have any number of lines.
pub async fn many_lines_are_one_batch(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    for count in [99, 100, 101, 3_000] {
        let stream = stream(tenant, &format!("lines-{count}"));
        let lines: Vec<Bytes> = (0..count).map(|number| Bytes::from(format!("{{\"n\":{number}}}"))).collect();
        let end = first.append(&stream, &Frontier::default(), &lines).await.unwrap();
        assert_eq!(end, end_of(&lines));
        assert_eq!(read_all(second, &stream, 0).await, lines, "{count} lines");
    }
}

/// Bytes that do not repeat and do not compress.
fn noise(len: usize, seed: u64) -> Bytes {
    let mut state = seed | 1;
    let bytes = (0..len).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let byte = (state >> 32) as u8;
        if byte == b'\n' { b' ' } else { byte }
    });
    bytes.collect()
}

/// A line may be larger than anything that a place takes at once.
pub async fn a_huge_line_is_kept(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "huge");
    let mut lines = batch(&["before"]);
    for (seed, len) in [63 << 10, 64 << 10, (64 << 10) + 1, 1 << 20, HUGE].into_iter().enumerate() {
        lines.push(noise(len, seed as u64 + 99));
    }
    lines.push(Bytes::from_static(b"behind"));
    let end = first.append(&stream, &Frontier::default(), &lines).await.unwrap();
    let more = batch(&["more"]);
    first.append(&stream, &end, &more).await.unwrap();
    let back = read_all(second, &stream, 0).await;
    assert!(back == [lines.as_slice(), &more].concat(), "every byte of {} lines came back", back.len());
    first.delete(&stream).await.unwrap();
}

/// What is stored once is still everybody's who wrote it.
pub async fn a_line_that_is_repeated_is_kept_for_each_who_wrote_it(
    first: &dyn Remote,
    second: &dyn Remote,
    tenant: &str,
) {
    let (one, two) = (stream(tenant, "repeated-1"), stream(tenant, "repeated-2"));
    let lines = vec![noise(200 << 10, 5), Bytes::from_static(b"small"), noise(200 << 10, 5)];
    first.append(&one, &Frontier::default(), &lines).await.unwrap();
    second.append(&two, &Frontier::default(), &lines).await.unwrap();
    first.delete(&one).await.unwrap();
    assert_eq!(read_all(first, &two, 0).await, lines);
    first.append(&one, &Frontier::default(), &lines[..1]).await.unwrap();
    second.delete(&two).await.unwrap();
    assert_eq!(read_all(second, &one, 0).await, lines[..1]);
}

/// A line is a line.
pub async fn a_line_feed_inside_a_line_is_refused(remote: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "feed");
    let answer = remote.append(&stream, &Frontier::default(), &batch(&["one", "two\nthree"])).await;
    assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    assert!(matches!(remote.frontier(&stream).await, Err(Error::NotFound { .. })));
}

/// Names are data: none is a path, and no two are the same.
pub async fn odd_names_stay_apart(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let long = "x".repeat(300);
    let longer = format!("{}y", "x".repeat(299));
    let names = [
        "plain",
        "Plain",
        "a/b",
        "a%2fb",
        "a",
        "b",
        "..",
        ".",
        "../..",
        "a b",
        "a+b",
        "a:b",
        "con",
        "~",
        "@",
        "%",
        "会话",
        "セッション",
        "ﬁ",
        "fi",
        "é",
        "e\u{301}",
        "'; drop table streams; --",
        "a\\b",
        "$(x)",
        "#1",
        "?",
        "-",
        "_",
        &long,
        &longer,
    ];
    let mut streams = Vec::new();
    for name in names {
        streams.push(Stream::new(tenant, name, "session").unwrap());
        streams.push(Stream::new(tenant, "odd", name).unwrap());
        streams.push(Stream::new(tenant, "odd", "sides").unwrap().side_stream(name).unwrap());
    }
    for (number, stream) in streams.iter().enumerate() {
        let end = first.append(stream, &Frontier::default(), &batch(&[format!("{number}")])).await;
        assert!(end.is_ok(), "{stream}: {end:?}");
    }
    for (number, stream) in streams.iter().enumerate() {
        assert_eq!(read_all(second, stream, 0).await, batch(&[format!("{number}")]), "{stream}");
    }
    let listed = list_all(second, &Prefix::tenant(tenant).unwrap()).await;
    for stream in &streams {
        assert!(listed.contains(stream), "{stream} is listed");
    }
    for stream in &streams {
        second.delete(stream).await.unwrap();
    }
    for bad in ["", "a\nb", "\u{0}", &"x".repeat(513)] {
        assert!(Stream::new(tenant, "odd", bad).is_err(), "{bad:?}");
    }
}

async fn list_all(remote: &dyn Remote, prefix: &Prefix) -> BTreeSet<Stream> {
    let (mut all, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = remote.list(prefix, cursor.as_deref()).await.unwrap();
        for stream in page.streams {
            assert!(prefix.matches(&stream), "{stream} is what was asked for");
            assert!(all.insert(stream), "each stream is listed once");
        }
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

/// Lists are complete, by tenant, place and session, with side streams.
pub async fn lists_show_each_stream_once(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let mut streams = BTreeSet::new();
    for place in ["shop", "shop-2"] {
        for number in 0..25 {
            let main = Stream::new(tenant, place, &format!("list-{number}")).unwrap();
            if number % 5 == 0 {
                streams.insert(main.side_stream("agent/1").unwrap());
            }
            streams.insert(main);
        }
    }
    for stream in &streams {
        first.append(stream, &Frontier::default(), &batch(&["hello"])).await.unwrap();
    }
    let place = |name: &str| Prefix::tenant(tenant).unwrap().place(name).unwrap();
    let of_place = list_all(second, &place("shop")).await;
    assert_eq!(of_place, streams.iter().filter(|stream| stream.place() == "shop").cloned().collect());
    let of_session = list_all(second, &place("shop").session("list-5").unwrap()).await;
    assert_eq!(of_session.len(), 2);
    let of_tenant = list_all(second, &Prefix::tenant(tenant).unwrap()).await;
    assert!(of_tenant.is_superset(&streams));
    assert!(list_all(second, &place("nobody")).await.is_empty());
    for stream in &streams {
        first.delete(stream).await.unwrap();
    }
    assert!(list_all(second, &place("shop")).await.is_empty());
}

/// A deleted stream is as if it had never been, and can begin again.
pub async fn what_is_deleted_is_gone(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let main = stream(tenant, "deleted");
    let side = main.side_stream("side").unwrap();
    for life in 0..3 {
        let lines = batch(&[format!("life {life}"), "large".repeat(50_000)]);
        for stream in [&main, &side] {
            let end = first.append(stream, &Frontier::default(), &lines).await.unwrap();
            first.append(stream, &end, &batch(&["more"])).await.unwrap();
            assert_eq!(read_all(second, stream, 0).await.len(), 3);
        }
        second.delete(&main).await.unwrap();
        second.delete(&main).await.unwrap();
        for remote in [first, second] {
            let answer = remote.frontier(&main).await;
            assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
            let answer = remote.read(&main, 0).await;
            assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
        }
        assert_eq!(read_all(first, &side, 0).await.len(), 3, "a side stream is a stream of its own");
        second.delete(&side).await.unwrap();
    }
}

/// Fencing holds for deleted streams too, whatever the sleeper remembers.
pub async fn a_writer_that_slept_through_a_deletion_is_refused(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let stream = stream(tenant, "slept");
    let early = first.append(&stream, &Frontier::default(), &batch(&["one"])).await.unwrap();
    let late = second.append(&stream, &early, &batch(&["two"])).await.unwrap();
    let late = second.append(&stream, &late, &batch(&["three"])).await.unwrap();
    second.delete(&stream).await.unwrap();
    let answer = first.append(&stream, &early, &batch(&["mine"])).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == Frontier::default()), "{answer:?}");
    let again = second.append(&stream, &Frontier::default(), &batch(&["new"])).await.unwrap();
    for after in [early, late] {
        let answer = first.append(&stream, &after, &batch(&["mine"])).await;
        assert!(matches!(answer, Err(Error::Conflict { found }) if found == again), "{answer:?}");
    }
    assert_eq!(read_all(first, &stream, 0).await, batch(&["new"]));
}

/// A tenant sees nothing of another, by no name.
pub async fn two_tenants_share_nothing(first: &dyn Remote, second: &dyn Remote, tenant: &str) {
    let other = format!("{tenant}-2");
    let (mine, theirs) = (stream(tenant, "shared"), stream(&other, "shared"));
    let secret = noise(100 << 10, 77);
    let lines = vec![secret, Bytes::from_static(b"mine")];
    first.append(&mine, &Frontier::default(), &lines).await.unwrap();
    assert!(matches!(second.frontier(&theirs).await, Err(Error::NotFound { .. })));
    assert!(list_all(second, &Prefix::tenant(&other).unwrap()).await.is_empty());
    second.append(&theirs, &Frontier::default(), &lines).await.unwrap();
    first.delete(&mine).await.unwrap();
    assert_eq!(read_all(second, &theirs, 0).await, lines, "deleting mine leaves theirs alone");
    second.delete(&theirs).await.unwrap();
}
