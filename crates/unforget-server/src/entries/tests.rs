use std::sync::Arc;

use bytes::Bytes;
use unforget_core::frontier::Frontier;

use unforget_core::log::{Durability as Survives, Log};
use unforget_core::medium::{Access, Medium as _, Os, write_full};
use unforget_core::stamp::System;
use unforget_remote::{BoxFuture, Remote, Stream};

use super::here::Here;
use super::place::Place;
use super::*;
use crate::actor::ActorId;
use crate::realm::Realms;

fn realm(home: &tempfile::TempDir) -> Arc<Realm> {
    Realms::new(home.path().to_path_buf(), Arc::new(System)).of(&ActorId::owner())
}

fn key() -> Key {
    Key::new("p".to_owned(), "s".to_owned(), None).unwrap()
}

#[test]
fn what_a_crash_left_half_written_is_not_loaded_and_can_be_sent_again() {
    let home = tempfile::tempdir().unwrap();
    let (realm, store) = (realm(&home), Here::default());
    store.append(&realm, &key(), &[r#"{"uuid":"a"}"#]).unwrap();
    let path = Place::of(&key()).file();
    let mut file = Os::new(home.path().to_path_buf()).open(&path, Access::Append).unwrap();
    write_full(file.as_mut(), br#"{"uuid":"b","te"#).unwrap();
    drop(file);
    assert_eq!(store.load(&realm, &key()).unwrap().as_deref(), Some(r#"[{"uuid":"a"}]"#));
    store.append(&realm, &key(), &[r#"{"uuid":"a"}"#, r#"{"uuid":"b"}"#]).unwrap();
    assert_eq!(store.load(&realm, &key()).unwrap().as_deref(), Some(r#"[{"uuid":"a"},{"uuid":"b"}]"#));
    // Its remains go with it.
    store.delete(&realm, &Place::of(&key())).unwrap();
    let left = realm.store().medium().list(unforget_core::medium::parent(&path)).unwrap();
    assert_eq!(left, []);
}

#[test]
fn what_another_process_appended_is_known() {
    let home = tempfile::tempdir().unwrap();
    let realm = realm(&home);
    let (one, two) = (Here::default(), Here::default());
    one.append(&realm, &key(), &[r#"{"uuid":"a"}"#]).unwrap();
    two.append(&realm, &key(), &[r#"{"uuid":"b"}"#]).unwrap();
    one.append(&realm, &key(), &[r#"{"uuid":"b"}"#, r#"{"uuid":"c"}"#]).unwrap();
    two.delete(&realm, &Place::of(&key())).unwrap();
    one.append(&realm, &key(), &[r#"{"uuid":"a"}"#]).unwrap();
    assert_eq!(two.load(&realm, &key()).unwrap().as_deref(), Some(r#"[{"uuid":"a"}]"#));
}

#[test]
fn a_writer_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let (realm, store) = (realm(&home), Here::default());
    store.append(&realm, &key(), &[r#"{"uuid":"a"}"#]).unwrap();
    let medium = realm.store().medium().clone();
    let (log, _) = Log::open(medium, &Place::of(&key()).file(), Survives::PowerLoss).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.append(&realm, &key(), &[r#"{"uuid":"b"}"#]));
        drop(log);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(store.load(&realm, &key()).unwrap().as_deref(), Some(r#"[{"uuid":"a"},{"uuid":"b"}]"#));
}

/// A machine: a home of its own, and a remote that it shares with others.
struct Machine {
    _home: tempfile::TempDir,
    realm: Arc<Realm>,
    entries: Entries,
}

fn machine(remote: &Arc<dyn Remote>) -> Machine {
    let home = tempfile::tempdir().unwrap();
    let realm = realm(&home);
    let entries = Entries::with_remote(Settings {
        remote: remote.clone(),
        tenant: "default".to_owned(),
        known_as: "memory".to_owned(),
        source: Arc::new(System),
        is_awaited: false,
    });
    Machine { _home: home, realm, entries }
}

impl Machine {
    async fn append(&self, key: &Key, entries: &[&str]) -> Durability {
        let entries = entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<String>>();
        self.entries.append(&self.realm, key, entries).await.unwrap()
    }

    async fn load(&self, key: &Key) -> Option<String> {
        self.entries.load(&self.realm, key).await.unwrap()
    }

    async fn listed(&self) -> Vec<String> {
        let listed = self.entries.list(&self.realm, "p", Spelling::Python).await.unwrap();
        listed.into_iter().map(|one| one.session_id).collect()
    }
}

fn memory() -> (Arc<Away>, Arc<dyn Remote>) {
    let away = Arc::new(Away {
        inner: Arc::new(unforget_remote::memory::Memory::default().remote()),
        is_away: false.into(),
        is_silent: false.into(),
        deletions: tokio::sync::Semaphore::new(100),
    });
    (away.clone(), away)
}

/// A remote that can be away.
#[derive(Debug)]
struct Away {
    inner: Arc<dyn Remote>,
    is_away: std::sync::atomic::AtomicBool,
    /// Whether it takes what is sent and answers nothing.
    is_silent: std::sync::atomic::AtomicBool,
    /// How many deletions may go on.
    deletions: tokio::sync::Semaphore,
}

impl Away {
    fn set(&self, is_away: bool) {
        self.is_away.store(is_away, std::sync::atomic::Ordering::SeqCst);
    }

    async fn asked(&self) -> unforget_remote::Result<()> {
        if self.is_silent.load(std::sync::atomic::Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        match self.is_away.load(std::sync::atomic::Ordering::SeqCst) {
            true => Err(unforget_remote::Error::Unavailable { place: "it".into(), reason: "away".into(), wait: None }),
            false => Ok(()),
        }
    }
}

impl Remote for Away {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, unforget_remote::Result<Frontier>> {
        Box::pin(async move { self.asked().await.and(self.inner.frontier(stream).await) })
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, unforget_remote::Result<Frontier>> {
        Box::pin(async move {
            self.asked().await?;
            self.inner.append(stream, after, lines).await
        })
    }

    fn read<'a>(
        &'a self,
        stream: &'a Stream,
        from: u64,
    ) -> BoxFuture<'a, unforget_remote::Result<unforget_remote::Page>> {
        Box::pin(async move { self.asked().await.and(self.inner.read(stream, from).await) })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a unforget_remote::Prefix,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, unforget_remote::Result<unforget_remote::Listing>> {
        Box::pin(async move { self.asked().await.and(self.inner.list(prefix, cursor).await) })
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, unforget_remote::Result<()>> {
        Box::pin(async move {
            self.asked().await?;
            self.deletions.acquire().await.unwrap().forget();
            self.inner.delete(stream).await
        })
    }
}

fn side() -> Key {
    Key::new("p".to_owned(), "s".to_owned(), Some("subagents/agent-1".to_owned())).unwrap()
}

#[tokio::test]
async fn another_machine_goes_on() {
    let (_, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    assert_eq!(one.append(&key(), &[r#"{"b":1,"a":2}"#]).await, Durability::Remote);
    one.append(&side(), &[r#"{"uuid":"x"}"#]).await;
    assert_eq!(two.load(&key()).await.as_deref(), Some(r#"[{"b":1,"a":2}]"#));
    two.append(&key(), &[r#"{"uuid":"c"}"#]).await;
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"b":1,"a":2},{"uuid":"c"}]"#));
    assert_eq!(two.entries.list_subkeys(&two.realm, &key()).await.unwrap(), ["subagents/agent-1"]);
    assert_eq!(two.load(&side()).await.as_deref(), Some(r#"[{"uuid":"x"}]"#));
    assert_eq!(two.listed().await, ["s"]);
}

#[tokio::test]
async fn what_both_appended_is_put_together_each_once() {
    let (away, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    one.append(&key(), &[r#"{"uuid":"a"}"#]).await;
    two.load(&key()).await;
    away.set(true);
    assert_eq!(one.append(&key(), &[r#"{"uuid":"b"}"#, r#"{"n":1}"#]).await, Durability::Disk);
    away.set(false);
    two.append(&key(), &[r#"{"uuid":"c"}"#, r#"{"uuid":"b"}"#]).await;
    let whole = r#"[{"uuid":"a"},{"uuid":"c"},{"uuid":"b"},{"n":1}]"#;
    assert_eq!(one.append(&key(), &[]).await, Durability::Disk);
    assert!(one.entries.end().await);
    assert!(!one.entries.is_behind());
    assert_eq!(two.load(&key()).await.as_deref(), Some(whole));
    assert_eq!(one.load(&key()).await.as_deref(), Some(whole));
}

#[tokio::test]
async fn a_remote_that_is_away_is_not_an_empty_one() {
    let (away, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    one.append(&key(), &[r#"{"uuid":"a"}"#]).await;
    away.set(true);
    // What is here is told, what is not here is not said to be nowhere.
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"uuid":"a"}]"#));
    assert_eq!(one.listed().await, ["s"]);
    assert_eq!(two.entries.load(&two.realm, &key()).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(two.entries.list(&two.realm, "p", Spelling::Python).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(one.entries.delete(&one.realm, &key()).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"uuid":"a"}]"#));
    // Begun without an answer, put together when there is one.
    assert_eq!(two.append(&key(), &[r#"{"uuid":"z"}"#]).await, Durability::Disk);
    away.set(false);
    assert!(two.entries.end().await);
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"uuid":"a"},{"uuid":"z"}]"#));
}

#[tokio::test(start_paused = true)]
async fn a_remote_that_swallows_everything_is_waited_for_by_one_and_not_by_all() {
    let (away, remote) = memory();
    let one = machine(&remote);
    one.append(&key(), &[r#"{"uuid":"a"}"#]).await;
    away.is_silent.store(true, std::sync::atomic::Ordering::SeqCst);
    let begun = tokio::time::Instant::now();
    for uuid in ["b", "c", "d", "e", "f", "g"] {
        assert_eq!(one.append(&key(), &[&format!("{{\"uuid\":\"{uuid}\"}}")]).await, Durability::Disk);
    }
    // The clock is moved by waiting only, so this does not depend on the machine.
    assert!(begun.elapsed() < std::time::Duration::from_secs(11), "{:?}", begun.elapsed());
    away.is_silent.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(one.entries.end().await);
    let there = machine(&remote).load(&key()).await.unwrap();
    assert_eq!(there.matches("uuid").count(), 7, "{there}");
    // It answers again, so nobody is spared the look.
    assert_eq!(one.append(&key(), &[r#"{"uuid":"h"}"#]).await, Durability::Remote);
}

#[tokio::test]
async fn an_entry_of_a_clock_that_is_ahead_is_not_from_the_future() {
    let one = machine(&memory().1);
    let entry = |id: &str, year: u32| format!("{{\"uuid\":\"{id}\",\"timestamp\":\"{year}-01-01T00:00:00.000Z\"}}");
    one.append(&key(), &[&entry("a", 2020)]).await;
    let ahead = Key::new("p".to_owned(), "ahead".to_owned(), None).unwrap();
    one.append(&ahead, &[&entry("b", 2999)]).await;
    let mut listed = one.entries.list(&one.realm, "p", Spelling::Python).await.unwrap();
    listed.sort_by_key(|listed| listed.mtime_ms);
    let ms = |time: &str| unforget_core::stamp::parse_rfc3339(time).unwrap();
    assert_eq!(listed[0].mtime_ms, ms("2020-01-01T00:00:00.000Z"));
    assert!(listed[1].mtime_ms < ms("2999-01-01T00:00:00.000Z"), "{}", listed[1].mtime_ms);
}

#[tokio::test]
async fn what_was_deleted_elsewhere_is_gone_but_for_what_came_since() {
    let (_, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    one.append(&key(), &[r#"{"uuid":"a"}"#]).await;
    one.append(&side(), &[r#"{"uuid":"x"}"#]).await;
    two.load(&key()).await;
    two.entries.list_subkeys(&two.realm, &key()).await.unwrap();
    one.entries.delete(&one.realm, &key()).await.unwrap();
    assert_eq!(two.listed().await, Vec::<String>::new());
    assert_eq!(two.load(&key()).await, None);
    assert_eq!(two.load(&side()).await, None);
    one.append(&key(), &[r#"{"uuid":"b"}"#]).await;
    two.load(&key()).await;
    one.entries.delete(&one.realm, &key()).await.unwrap();
    two.append(&key(), &[r#"{"uuid":"c"}"#]).await;
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"uuid":"c"}]"#));
    // Also where it was begun anew before anybody noticed.
    one.entries.delete(&one.realm, &key()).await.unwrap();
    one.append(&key(), &[r#"{"uuid":"d"}"#]).await;
    assert_eq!(two.load(&key()).await.as_deref(), Some(r#"[{"uuid":"d"}]"#));
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"uuid":"d"}]"#));
}

#[tokio::test]
async fn what_an_earlier_process_left_is_sent() {
    let (away, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    away.set(true);
    one.append(&key(), &[r#"{"uuid":"a"}"#]).await;
    away.set(false);
    // Another process with the same home.
    let later = Entries { here: Arc::default(), there: one.entries.there.as_ref().map(|it| Arc::new(it.anew())) };
    later.look(&one.realm).unwrap();
    assert!(later.is_behind());
    assert!(later.end().await);
    assert_eq!(two.load(&key()).await.as_deref(), Some(r#"[{"uuid":"a"}]"#));
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_for_lack_of_the_remote_is_not_appended_twice() {
    let (away, remote) = memory();
    let mut one = machine(&remote);
    one.entries = Entries::with_remote(Settings {
        remote: remote.clone(),
        tenant: "default".to_owned(),
        known_as: "memory".to_owned(),
        source: Arc::new(System),
        is_awaited: true,
    });
    away.set(true);
    let of = key();
    let append = |text: &str| one.entries.append(&one.realm, &of, vec![text.to_owned()]);
    assert_eq!(append(r#"{"n":1}"#).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(append(r#"{"n":1}"#).await.unwrap_err().code, Code::Unavailable);
    away.set(false);
    assert_eq!(append(r#"{"n":1}"#).await.unwrap(), Durability::Remote);
    // A new batch that looks the same is a new one.
    assert_eq!(append(r#"{"n":1}"#).await.unwrap(), Durability::Remote);
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"n":1},{"n":1}]"#));
    // Several may be refused before any is repeated.
    away.set(true);
    for n in ["2", "3"] {
        assert_eq!(append(&format!("{{\"n\":{n}}}")).await.unwrap_err().code, Code::Unavailable);
    }
    away.set(false);
    for n in ["2", "3"] {
        assert_eq!(append(&format!("{{\"n\":{n}}}")).await.unwrap(), Durability::Remote);
    }
    assert_eq!(one.load(&key()).await.as_deref(), Some(r#"[{"n":1},{"n":1},{"n":2},{"n":3}]"#));
    // Whoever says the same long afterwards repeats nothing.
    away.set(true);
    assert_eq!(append(r#"{"n":4}"#).await.unwrap_err().code, Code::Unavailable);
    away.set(false);
    tokio::time::advance(std::time::Duration::from_secs(3600)).await;
    assert_eq!(append(r#"{"n":4}"#).await.unwrap(), Durability::Remote);
    assert!(one.load(&key()).await.unwrap().ends_with(r#"{"n":4},{"n":4}]"#));
}

#[tokio::test]
async fn pages_go_on_where_they_ended_and_begin_anew_with_another_file() {
    let home = tempfile::tempdir().unwrap();
    let (realm, entries) = (realm(&home), Entries::default());
    let of = key();
    let append = |text: &str| entries.append(&realm, &of, vec![text.to_owned()]);
    assert_eq!(entries.read(&realm, &key(), None).await.unwrap(), None);
    append(r#"{"n":1}"#).await.unwrap();
    let first = entries.read(&realm, &key(), None).await.unwrap().unwrap();
    assert_eq!((first.entries.as_str(), first.more, first.again), (r#"[{"n":1}]"#, false, false));
    append(r#"{"n":2}"#).await.unwrap();
    let second = entries.read(&realm, &key(), Some(first.cursor.clone())).await.unwrap().unwrap();
    assert_eq!((second.entries.as_str(), second.again), (r#"[{"n":2}]"#, false));
    let none = entries.read(&realm, &key(), Some(second.cursor)).await.unwrap().unwrap();
    assert_eq!(none.entries, "[]");
    entries.delete(&realm, &key()).await.unwrap();
    append(r#"{"n":3}"#).await.unwrap();
    let anew = entries.read(&realm, &key(), Some(first.cursor)).await.unwrap().unwrap();
    assert_eq!((anew.entries.as_str(), anew.again), (r#"[{"n":3}]"#, true));
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(3 << 20));
    for _ in 0..3 {
        append(&large).await.unwrap();
    }
    let part = entries.read(&realm, &key(), Some(anew.cursor)).await.unwrap().unwrap();
    assert!(part.more);
    let rest = entries.read(&realm, &key(), Some(part.cursor)).await.unwrap().unwrap();
    assert!(!rest.more);
    assert_eq!(part.entries.len() + rest.entries.len(), 3 * large.len() + 2 * 2 + 1);
}

#[tokio::test]
async fn what_is_being_deleted_is_not_sent_again_meanwhile() {
    let (away, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    one.append(&key(), &[r#"{"uuid":"a"}"#]).await;
    away.deletions.forget_permits(100);
    // The key is still marked, so what is not sent is looked for, in the middle of the deletion.
    let of = key();
    let (deleted, is_sent, ()) =
        tokio::join!(one.entries.delete(&one.realm, &of), one.entries.end(), async { away.deletions.add_permits(1) });
    deleted.unwrap();
    assert!(is_sent);
    assert_eq!(two.load(&key()).await, None);
    assert_eq!(one.load(&key()).await, None);
}

#[tokio::test]
async fn a_mark_that_was_taken_away_too_early_is_there_when_the_entries_are() {
    let (away, remote) = memory();
    let (one, two) = (machine(&remote), machine(&remote));
    away.set(true);
    let there = one.entries.there.clone().unwrap();
    there.mark(&one.realm, &key()).unwrap();
    // It stands for nothing yet.
    one.entries.end().await;
    assert_eq!(one.append(&key(), &[r#"{"uuid":"a"}"#]).await, Durability::Disk);
    away.set(false);
    let later = Entries { here: Arc::default(), there: Some(Arc::new(there.anew())) };
    later.look(&one.realm).unwrap();
    assert!(later.is_behind() && later.end().await);
    assert_eq!(two.load(&key()).await.as_deref(), Some(r#"[{"uuid":"a"}]"#));
}
