//! A remote whose operator writes what they like: what counts, and what it may cost.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use unforget_core::frontier::Frontier;

use crate::memory::Memory;
use crate::migrate::{self, Views};
use crate::segment::{self, Entry, Head, MAX_BODY, MAX_LINES, MAX_SENT_LINE};
use crate::sync::{find_by_key, point};
use crate::{Error, Key, Remote, Sealing, Stream, lease};

fn key() -> Key {
    Key::new(&[7; 32])
}

fn stream(session: &str) -> Stream {
    Stream::new("ann", "main", session).unwrap()
}

fn lines(texts: &[&str]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
}

fn after(lines: &[Bytes]) -> Frontier {
    lines.iter().fold(Frontier::default(), |frontier, line| frontier.after(line))
}

fn is_refused<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::NotSealed { place, .. }) if place == "the memory")
}

/// The name of the first segment of a stream.
fn first_of(place: &Memory, session: &str) -> String {
    let begin = format!("ann/main/{session}/@/");
    place.objects().keys().rfind(|path| path.starts_with(&begin)).unwrap().clone()
}

#[tokio::test]
async fn s1_what_lies_in_plain_does_not_count_with_a_key() {
    let place = Memory::default();
    let (plain, sealed) = (place.remote(), place.remote().sealed(Some(key())));
    let said = lines(&["one", &"large ".repeat(20_000)]);
    let end = plain.append(&stream("a"), &Frontier::default(), &said).await.unwrap();
    assert!(is_refused(sealed.frontier(&stream("a")).await));
    assert!(is_refused(sealed.read(&stream("a"), 0).await));
    assert!(is_refused(sealed.append(&stream("a"), &end, &lines(&["two"])).await));
    let names_it = sealed.read(&stream("a"), 0).await.unwrap_err().to_string();
    assert!(names_it.contains("ann/main/a") && names_it.contains("the memory"), "{names_it}");
}

#[tokio::test]
async fn s1_plain_segments_behind_sealed_ones_do_not_count() {
    let place = Memory::default();
    let (plain, sealed) = (place.remote(), place.remote().sealed(Some(key())));
    let end = sealed.append(&stream("a"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    // The operator knows the digest if they know the words.
    let forged = lines(&["two"]);
    let head = Head { stream: stream("a"), before: end, after: end.after(b"two") }.encode(None).unwrap();
    let body = segment::pack(&[Entry::Line(forged[0].clone())], &head, None).unwrap();
    let object = [&(head.len() as u16).to_le_bytes(), &head[..], &body].concat();
    let path = first_of(&place, "a").replace(&"f".repeat(16), &format!("{:016x}", u64::MAX));
    let path = format!("{}{:016x}", &path[..path.len() - 16], u64::MAX - 1);
    place.objects().insert(path, object.into());
    assert!(plain.frontier(&stream("a")).await.is_ok(), "it is there for those without a key");
    assert!(is_refused(sealed.frontier(&stream("a")).await));
    assert!(is_refused(sealed.read(&stream("a"), 1).await));
}

#[tokio::test]
async fn s1_pointers_and_leases_in_plain_do_not_count() {
    let place = Memory::default();
    let (plain, sealed) = (place.remote(), place.remote().sealed(Some(key())));
    let name: unforget_core::key::Key = "main:cli:ann".parse().unwrap();
    let to = crate::sync::Pointer {
        session: unforget_core::stamp::SessionId::parse("0199-a").unwrap(),
        created_ms: 1_767_225_600_000,
    };
    point(&plain, "ann", &name, &to).await.unwrap();
    assert!(is_refused(find_by_key(&sealed, "ann", &name).await));
    assert!(is_refused(point(&sealed, "ann", &name, &to).await));
    let minute = Duration::from_secs(60);
    lease::acquire(&plain, &stream("a"), "http://evil/", 1, minute).await.unwrap();
    assert!(is_refused(lease::look(&sealed, &stream("a")).await));
    assert!(is_refused(lease::acquire(&sealed, &stream("a"), "me", 1, minute).await));
}

#[tokio::test]
async fn s1_a_sealed_segment_counts_only_where_it_was_sealed() {
    let place = Memory::default();
    let sealed = || place.remote().sealed(Some(key()));
    let end = sealed().append(&stream("a"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    sealed().append(&stream("a"), &end, &lines(&["two"])).await.unwrap();
    let objects: Vec<(String, Bytes)> =
        place.objects().iter().map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
    // Another session, another tenant.
    for (from, to) in [("ann/main/a/", "ann/main/b/"), ("ann/", "bob/")] {
        for (path, bytes) in &objects {
            place.objects().insert(path.replacen(from, to, 1), bytes.clone());
        }
    }
    let bob = Stream::new("bob", "main", "a").unwrap();
    for moved in [&stream("b"), &bob] {
        let refused = sealed().read(moved, 0).await;
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    }
    // Another position: the second segment in place of the first.
    let (second, first) = (&objects[0], &objects[1]);
    place.objects().insert(first.0.clone(), second.1.clone());
    let refused = sealed().read(&stream("a"), 0).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    // A position that the head was made to say is not the one that was sealed.
    let mut bytes = first.1.to_vec();
    let at = 2 + 4 + 1 + ["ann", "main", "a", ""].iter().map(|part| 2 + part.len()).sum::<usize>();
    bytes[at + 24] ^= 1;
    place.objects().insert(first.0.clone(), bytes.into());
    let refused = sealed().read(&stream("a"), 0).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[tokio::test]
async fn s1_a_large_line_in_plain_does_not_count() {
    let place = Memory::default();
    let sealed = || place.remote().sealed(Some(key()));
    let large = lines(&[&"large ".repeat(20_000)]);
    sealed().append(&stream("a"), &Frontier::default(), &large).await.unwrap();
    let path = place.objects().keys().find(|path| path.ends_with("/bytes")).unwrap().clone();
    let plain = zstd::bulk::compress(&large[0], 3).unwrap();
    place.objects().insert(path, plain.into());
    let refused = sealed().read(&stream("a"), 0).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

fn views(place: &Memory) -> (impl Remote + use<>, impl Remote + use<>) {
    (place.remote().sealing(Sealing::Migrating(key())), place.remote().sealed(Some(key())))
}

async fn all(remote: &dyn Remote, stream: &Stream) -> Vec<Bytes> {
    let mut all = Vec::new();
    crate::each_page(remote, stream, 0, async |page| {
        all.extend(page.lines);
        Ok(())
    })
    .await
    .unwrap();
    all
}

/// A stream that was begun in plain and gone on with sealed, as machines did that were given a key later.
async fn begun_in_plain(place: &Memory) -> Vec<Bytes> {
    let said = lines(&["one", &"large ".repeat(20_000), "three", "four"]);
    let at = place.remote().append(&stream("a"), &Frontier::default(), &said[..2]).await.unwrap();
    let at = place.remote().append(&stream("a"), &at, &said[2..3]).await.unwrap();
    let (either, _) = views(place);
    either.append(&stream("a"), &at, &said[3..]).await.unwrap();
    said
}

#[tokio::test]
async fn s1_a_migration_seals_every_line_and_leaves_nothing_in_plain() {
    let place = Memory::default();
    let said = begun_in_plain(&place).await;
    let (either, sealed) = views(&place);
    let views = Views { either: &either, sealed: &sealed };
    assert!(!migrate::is_sealed(&views, &stream("a")).await.unwrap());
    assert_eq!(migrate::seal(&views, &stream("a")).await.unwrap(), after(&said));
    assert!(migrate::is_sealed(&views, &stream("a")).await.unwrap());
    assert_eq!(all(&sealed, &stream("a")).await, said);
    let lies_open = |bytes: &[u8]| zstd::bulk::decompress(bytes, 1 << 20).is_ok();
    assert!(!place.objects().values().any(|bytes| lies_open(bytes)), "a large line lies there in plain");
    let left: Vec<String> = place.objects().keys().filter(|path| path.contains("migrating")).cloned().collect();
    let marks = left.iter().all(|path| place.objects()[path].starts_with(&[0, 0]));
    assert!(marks, "only marks are left of the stage: {left:?}");
}

/// A remote that stops answering after so many changes.
#[derive(Debug)]
struct Failing<R>(R, std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl<R: Remote> Failing<R> {
    fn spend(&self) -> Result<(), Error> {
        let order = std::sync::atomic::Ordering::Relaxed;
        match self.1.fetch_update(order, order, |left| left.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Denied { place: "the memory".to_owned(), reason: "cut off".to_owned() }),
        }
    }
}

impl<R: Remote> Remote for Failing<R> {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> crate::BoxFuture<'a, crate::Result<Frontier>> {
        self.0.frontier(stream)
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> crate::BoxFuture<'a, crate::Result<Frontier>> {
        Box::pin(async move {
            self.spend()?;
            self.0.append(stream, after, lines).await
        })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> crate::BoxFuture<'a, crate::Result<crate::Page>> {
        self.0.read(stream, from)
    }

    fn list<'a>(
        &'a self,
        prefix: &'a crate::Prefix,
        cursor: Option<&'a str>,
    ) -> crate::BoxFuture<'a, crate::Result<crate::Listing>> {
        self.0.list(prefix, cursor)
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> crate::BoxFuture<'a, crate::Result<()>> {
        Box::pin(async move {
            self.spend()?;
            self.0.delete(stream).await
        })
    }
}

#[tokio::test]
async fn s1_a_migration_that_is_cut_off_anywhere_goes_on_when_repeated() {
    for changes in 0.. {
        let place = Memory::default();
        let said = begun_in_plain(&place).await;
        let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(changes));
        let (either, sealed) = views(&place);
        let (either, sealed) = (Failing(either, left.clone()), Failing(sealed, left.clone()));
        let cut_off = Views { either: &either, sealed: &sealed };
        let is_done = migrate::seal(&cut_off, &stream("a")).await.is_ok();
        let (either, sealed) = views(&place);
        let again = Views { either: &either, sealed: &sealed };
        let prefix = crate::Prefix::tenant("ann").unwrap();
        for stage in sealed.list(&prefix, None).await.unwrap().streams.iter().filter(|stream| migrate::is_stage(stream))
        {
            migrate::finish(&again, stage).await.unwrap();
        }
        if !migrate::is_sealed(&again, &stream("a")).await.unwrap() {
            migrate::seal(&again, &stream("a")).await.unwrap();
        }
        assert_eq!(all(&sealed, &stream("a")).await, said, "cut off behind {changes} changes");
        let streams = sealed.list(&prefix, None).await.unwrap().streams;
        assert_eq!(streams, [stream("a")], "no stage is left, cut off behind {changes} changes");
        if is_done {
            assert!(changes > 4, "each step was cut off");
            return;
        }
    }
}

/// Puts a segment in plain that claims what it likes.
fn forge(place: &Memory, session: &str, claimed: (u64, u64), body: &[u8]) {
    let mut head = Vec::from(&b"ufr1\0"[..]);
    for part in ["ann", "main", session, ""] {
        head.extend((part.len() as u16).to_le_bytes());
        head.extend(part.as_bytes());
    }
    for number in [0, 0, claimed.0, claimed.1] {
        head.extend(number.to_le_bytes());
    }
    head.extend([0; 64]);
    let object = [&(head.len() as u16).to_le_bytes(), &head[..], body].concat();
    let name = format!("{0:016x}{0:016x}", u64::MAX);
    place.objects().insert(format!("ann/main/{session}/@/{name}"), object.into());
}

/// A few bytes that stand for gigabytes: one line of zeros.
fn bomb(claimed: u64, frames: usize) -> Vec<u8> {
    let mut entry = vec![0];
    let mut rest = claimed;
    while rest >= 0x80 {
        entry.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    entry.push(rest as u8);
    let frame = zstd::bulk::compress(&vec![0; 4 << 20], 3).unwrap();
    [zstd::bulk::compress(&entry, 3).unwrap(), frame.repeat(frames)].concat()
}

#[tokio::test]
async fn s7_a_head_that_claims_too_much_is_refused_before_its_body_is_looked_at() {
    for claimed in [(1, MAX_LINES + 1), (1, u64::MAX), (u64::MAX, u64::MAX), (2, 1)] {
        let place = Memory::default();
        forge(&place, "a", claimed, &bomb(claimed.1, 1));
        for refused in [
            place.remote().frontier(&stream("a")).await.map(drop),
            place.remote().read(&stream("a"), 0).await.map(drop),
        ] {
            let reason = refused.unwrap_err().to_string();
            assert!(reason.contains("claims"), "{claimed:?}: {reason}");
        }
    }
}

#[tokio::test]
async fn s7_a_body_that_stands_for_gigabytes_is_given_up_early() {
    // What the head claims is allowed; what the body unpacks to is a gigabyte.
    let place = Memory::default();
    for (session, claimed) in [("a", 100), ("b", MAX_SENT_LINE), ("c", MAX_LINES)] {
        forge(&place, session, (1, claimed), &bomb(1 << 30, 256));
        let begin = std::time::Instant::now();
        let refused = place.remote().read(&stream(session), 0).await;
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

#[tokio::test]
async fn s7_a_window_that_would_have_to_be_remembered_is_refused() {
    let place = Memory::default();
    // A frame without its content's size, whose window is 1 GiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0];
    // One block that repeats a byte, the last one.
    frame.extend([(1 | (1 << 1) | (100_u32 << 3)) as u8, ((100_u32 << 3) >> 8) as u8, 0, 0]);
    forge(&place, "a", (1, 1000), &frame);
    let refused = place.remote().read(&stream("a"), 0).await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("memory") || refused.contains("window"), "{refused}");
}

#[tokio::test]
async fn s7_a_stored_body_that_is_too_large_is_not_read() {
    let place = Memory::default();
    forge(&place, "a", (1, MAX_LINES), &vec![1; MAX_BODY as usize + 4096]);
    let refused = place.remote().read(&stream("a"), 0).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    // More bytes than the lines that are claimed can take.
    forge(&place, "b", (1, 10), &vec![1; 1 << 20]);
    let refused = place.remote().read(&stream("b"), 0).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[tokio::test]
async fn s7_large_lines_that_are_kept_apart_are_bounded_too() {
    let place = Memory::default();
    let large = Bytes::from("large ".repeat(20_000));
    place.remote().append(&stream("a"), &Frontier::default(), std::slice::from_ref(&large)).await.unwrap();
    let name: [u8; 32] = Sha256::digest(&large).into();
    let path = format!("ann/@kept/{}/bytes", unforget_core::encode::hex(&name));
    assert!(place.objects().contains_key(&path));
    let frame = zstd::bulk::compress(&vec![0; 4 << 20], 3).unwrap();
    place.objects().insert(path, frame.repeat(256).into());
    let refused = place.remote().read(&stream("a"), 0).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[tokio::test]
async fn s7_a_page_has_no_more_than_memory_has_room_for_and_all_of_it_is_proved() {
    let place = Memory::default();
    let said: Vec<Bytes> = (0..300).map(|number| Bytes::from(format!("{number} ").repeat(16_000))).collect();
    place.remote().append(&stream("a"), &Frontier::default(), &said).await.unwrap();
    let first = place.remote().read(&stream("a"), 0).await.unwrap();
    assert!(first.lines.len() < said.len(), "{} lines at once", first.lines.len());
    assert!(first.lines.iter().map(Bytes::len).sum::<usize>() <= 8 << 20);
    assert_eq!(all(&place.remote(), &stream("a")).await, said);
    let too_long = Bytes::from(vec![b'x'; MAX_SENT_LINE as usize + 1]);
    let refused = place.remote().append(&stream("b"), &Frontier::default(), &[too_long]).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn h1_a_gap_is_an_error_with_its_place() {
    let place = Memory::default();
    let mut at = Frontier::default();
    for text in ["one", "two", "three"] {
        at = place.remote().append(&stream("a"), &at, &lines(&[text])).await.unwrap();
    }
    let second = place.objects().keys().filter(|path| path.contains("/a/@/")).nth(1).unwrap().clone();
    place.objects().remove(&second);
    assert_eq!(place.remote().read(&stream("a"), 0).await.unwrap().lines, lines(&["one"]));
    let refused = place.remote().read(&stream("a"), 1).await.unwrap_err().to_string();
    assert!(refused.contains("ann/main/a") && refused.contains("line 1 is missing"), "{refused}");
}
