//! Sessions that go from one machine to another: the faults of a remote, each by its id, and what a copy promises.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::record::Draft;
use unforget_core::scan::scan;
use unforget_core::stamp::SessionId;
use unforget_remote::lease::{self, Acquired};
use unforget_remote::memory::Memory;
use unforget_remote::sync::{
    Link, Plain, Pointer, Pushed, claim, find_by_key, flush, lag, point, pull, push, resolve_by_fork, sync, tail,
};
use unforget_remote::uplink::{Lead, PushRules};
use unforget_remote::{Error, Remote, Stream};
use unforget_testkit::crash::{CrashMedium, Survival};

use crate::machine::{Machine, NOW, TENANT, Way, Weather, linked, stream, there, unwatched};

async fn pushed(machine: &Machine, remote: &dyn Remote, id: &SessionId) -> Result<Pushed, Error> {
    linked!(machine, remote, id, |link| push(&link, &mut unwatched()).await)
}

async fn pulled(
    machine: &Machine,
    remote: &dyn Remote,
    id: &SessionId,
) -> Result<unforget_remote::sync::Pulled, Error> {
    linked!(machine, remote, id, |link| pull(&link, &mut unwatched()).await)
}

#[tokio::test]
async fn r01_what_cannot_be_saved_there_waits_here_and_goes_out_after_a_restart() {
    let way = Way::to(Memory::default().remote());
    let machine = Machine::new(1);
    let id = machine.begin(&["one", "two"]);
    way.set(Weather::Down);
    let saved = machine.send(&way, &id, &PushRules::default()).await;
    assert!(matches!(saved, Err(Error::Unavailable { .. })), "{saved:?}");

    let machine = Machine::on(1, machine.medium.restart(Survival::OnlySynced), 0);
    let find = |waiting: &unforget_remote::sync::Waiting| -> Option<unforget_remote::sync::Found> {
        Some((Box::new(machine.native(&waiting.id)), stream(&waiting.id)))
    };
    let behind = lag(&machine.outbox, &machine.bookmarks, &find).unwrap();
    assert_eq!((behind.sessions, behind.lines, behind.oldest_ms), (1, 3, Some(NOW)));
    let still = flush(&machine.outbox, &way, &machine.bookmarks, &find, NOW).await.unwrap();
    assert_eq!((still.sent.len(), still.failed.len(), still.lag), (0, 1, behind));

    way.set(Weather::Fair);
    let flushed = flush(&machine.outbox, &way, &machine.bookmarks, &find, NOW).await.unwrap();
    assert_eq!((flushed.sent.len(), flushed.failed.len(), flushed.lag.sessions), (1, 0, 0));
    assert_eq!(there(&way, &id).await, machine.text(&id));
}

#[tokio::test]
async fn a_session_that_cannot_be_sent_does_not_hold_up_the_others() {
    let way = Way::to(Memory::default().remote());
    let (machine, other) = (Machine::new(1), Machine::new(2));
    let torn = machine.begin(&["mine"]);
    let fine: Vec<SessionId> = (0..20).map(|_| machine.begin(&["fine"])).collect();
    pushed(&machine, &way, &torn).await.unwrap();
    pulled(&other, &way, &torn).await.unwrap();
    other.say(&torn, "theirs").unwrap();
    pushed(&other, &way, &torn).await.unwrap();
    machine.say(&torn, "ours").unwrap();
    for id in fine.iter().chain([&torn]) {
        machine.outbox.add(&AgentDir::of("main"), id, NOW).unwrap();
    }
    let find = |waiting: &unforget_remote::sync::Waiting| -> Option<unforget_remote::sync::Found> {
        Some((Box::new(machine.native(&waiting.id)), stream(&waiting.id)))
    };
    let flushed = flush(&machine.outbox, &way, &machine.bookmarks, &find, NOW).await.unwrap();
    assert_eq!(flushed.sent.len(), 20);
    assert!(matches!(flushed.failed.as_slice(), [(waiting, Error::Diverged { at: 2, .. })] if waiting.id == torn));
    assert_eq!(flushed.lag.lines, 1);
}

#[tokio::test]
async fn r02_a_remote_that_cannot_be_asked_is_not_one_that_has_nothing() {
    let way = Way::to(Memory::default().remote());
    let (first, second) = (Machine::new(1), Machine::new(2));
    let id = first.begin(&["one"]);
    let nothing = pulled(&second, &way, &id).await;
    assert!(matches!(nothing, Err(Error::NotFound { .. })), "{nothing:?}");
    pushed(&first, &way, &id).await.unwrap();
    for weather in [Weather::Down, Weather::Mute] {
        way.set(weather);
        let unknown = pulled(&second, &way, &id).await;
        assert!(matches!(unknown, Err(Error::Unavailable { .. })), "{unknown:?}");
        assert_eq!(second.bytes(&id), None, "no empty session under an old name");
    }
    way.set(Weather::Fair);
    pulled(&second, &way, &id).await.unwrap();
    assert_eq!(second.text(&id), first.text(&id));
}

#[tokio::test]
async fn a_lease_whose_renewal_lost_its_answer_is_still_held_and_can_be_given_back() {
    let way = Way::to(Memory::default().remote());
    let machine = Machine::new(1);
    let id = machine.begin(&["one"]);
    let ttl = Duration::from_secs(60);
    let acquired = lease::acquire(&way, &stream(&id), "first", NOW, ttl).await.unwrap();
    let Acquired::Held(mut held) = acquired else { panic!("{acquired:?}") };
    way.set(Weather::Mute);
    assert!(held.renew(&way, NOW + 50_000).await.is_err());
    way.set(Weather::Fair);
    held.renew(&way, NOW + 51_000).await.unwrap();
    assert_eq!(held.until_ms(), NOW + 111_000);
    way.set(Weather::Mute);
    assert!(held.renew(&way, NOW + 100_000).await.is_err());
    way.set(Weather::Fair);
    held.clone().release(&way).await.unwrap();
    assert_eq!(lease::look(&way, &stream(&id)).await.unwrap().unwrap().until_ms, 0);
    // Whoever has it now keeps it.
    let other = lease::acquire(&way, &stream(&id), "second", NOW + 100_000, ttl).await.unwrap();
    assert!(matches!(other, Acquired::Held(_)), "{other:?}");
    assert!(matches!(held.renew(&way, NOW + 150_000).await, Err(Error::Conflict { .. })));
}

#[tokio::test]
async fn r04_a_save_whose_answer_was_lost_is_there_once() {
    let way = Way::to(Memory::default().remote());
    let machine = Machine::new(1);
    let id = machine.begin(&["one"]);
    for word in ["two", "three"] {
        way.set(Weather::Mute);
        assert!(pushed(&machine, &way, &id).await.is_err());
        way.set(Weather::Fair);
        pushed(&machine, &way, &id).await.unwrap();
        assert_eq!(there(&way, &id).await, machine.text(&id));
        machine.say(&id, word).unwrap();
    }
}

#[tokio::test]
async fn r09_a_machine_that_slept_is_refused_and_told_where() {
    let place = Memory::default();
    let (zombie, other) = (Machine::new(1), Machine::new(2));
    let (way, second) = (place.remote(), place.remote());
    let id = zombie.begin(&["one"]);
    pushed(&zombie, &way, &id).await.unwrap();
    pulled(&other, &second, &id).await.unwrap();
    other.say(&id, "meanwhile").unwrap();
    pushed(&other, &second, &id).await.unwrap();
    let before = there(&second, &id).await;

    zombie.say(&id, "late").unwrap();
    let refused = pushed(&zombie, &way, &id).await;
    assert!(
        matches!(refused, Err(Error::Diverged { at: 2, local, remote }) if (local.lines, remote.lines) == (3, 3)),
        "{refused:?}"
    );
    assert_eq!(there(&second, &id).await, before);
    assert!(zombie.text(&id).contains("late"), "its words are still its own");
}

#[tokio::test]
async fn r10_a_second_machine_is_told_who_writes_and_reads_what_was_confirmed() {
    let remote = Memory::default().remote();
    let (first, second) = (Machine::new(1), Machine::new(2));
    let id = first.begin(&["one"]);
    let ttl = Duration::from_secs(60);
    let Acquired::Held(mut held) = lease::acquire(&remote, &stream(&id), "first", NOW, ttl).await.unwrap() else {
        panic!("nobody held it");
    };
    pushed(&first, &remote, &id).await.unwrap();
    let taken = lease::acquire(&remote, &stream(&id), "second", NOW + 59_999, ttl).await.unwrap();
    assert_eq!(taken, Acquired::Taken { holder: "first".to_owned(), until_ms: NOW + 60_000 });
    let lines = |frontier: unforget_core::frontier::Frontier| frontier.lines;
    let side = stream(&id).side_stream(lease::LEASES).unwrap();
    held.renew(&remote, NOW + 39_999).await.unwrap();
    assert_eq!(lines(remote.frontier(&side).await.unwrap()), 1, "more than a third is left");
    held.renew(&remote, NOW + 40_000).await.unwrap();
    assert_eq!((lines(remote.frontier(&side).await.unwrap()), held.until_ms()), (2, NOW + 100_000));

    // It ends by itself, and whoever held it learns of it.
    let Acquired::Held(next) = lease::acquire(&remote, &stream(&id), "second", NOW + 100_000, ttl).await.unwrap()
    else {
        panic!("it has ended");
    };
    assert_eq!((held.epoch(), next.epoch()), (1, 2));
    assert!(matches!(held.renew(&remote, NOW + 200_000).await, Err(Error::Conflict { .. })));
    pulled(&second, &remote, &id).await.unwrap();
    assert_eq!(second.text(&id), first.text(&id));
    next.release(&remote).await.unwrap();
    let free = lease::acquire(&remote, &stream(&id), "third", NOW + 100_001, ttl).await.unwrap();
    assert!(matches!(free, Acquired::Held(lease) if lease.epoch() == 3));
}

#[tokio::test]
async fn r11_a_pull_never_shortens_a_newer_file() {
    let remote = Memory::default().remote();
    let machine = Machine::new(1);
    let id = machine.begin(&["one", "two"]);
    pushed(&machine, &remote, &id).await.unwrap();
    machine.say(&id, "three").unwrap();
    machine.say(&id, "four").unwrap();
    let before = machine.bytes(&id);
    for _ in 0..2 {
        let done = pulled(&machine, &remote, &id).await.unwrap();
        assert_eq!((done.lines, done.ahead, done.at.lines), (0, 2, 3));
        assert_eq!(machine.bytes(&id), before);
        machine.bookmarks.forget(&AgentDir::of("main"), &id).unwrap();
    }
}

#[tokio::test]
async fn f1_of_two_that_saw_a_key_lead_to_the_same_the_first_one_leads_it() {
    let (remote, key) = (Memory::default().remote(), Key::default());
    let pointer = |id: &str, created_ms: i64| Pointer { session: SessionId::parse(id).unwrap(), created_ms };
    let (first, second, third) = (pointer("0199-a", 1_000), pointer("0199-b", 9_000), pointer("0199-c", 2_000));
    assert_eq!(claim(&remote, TENANT, &key, &first, None).await.unwrap(), first);
    assert_eq!(claim(&remote, TENANT, &key, &second, None).await.unwrap(), first, "a later clock does not win");
    assert_eq!(claim(&remote, TENANT, &key, &first, None).await.unwrap(), first, "again, it is its own");
    let moved = claim(&remote, TENANT, &key, &second, Some(&first.session)).await.unwrap();
    assert_eq!(moved.session, second.session);
    // A clock that is behind leads it on all the same, and by time it is not led back.
    let moved = claim(&remote, TENANT, &key, &third, Some(&second.session)).await.unwrap();
    assert_eq!((moved.session.clone(), moved.created_ms), (third.session.clone(), 9_001));
    assert_eq!(point(&remote, TENANT, &key, &second).await.unwrap(), moved);
    assert_eq!(find_by_key(&remote, TENANT, &key).await.unwrap(), Some(moved));
}

#[tokio::test]
async fn r13_the_first_conversation_of_a_new_session_is_saved_and_found_by_its_key() {
    let remote = Memory::default().remote();
    let (first, second) = (Machine::new(1), Machine::new(2));
    let key = Key::default();
    assert_eq!(find_by_key(&remote, TENANT, &key).await.unwrap(), None);
    let id = first.begin(&["the very first words"]);
    let lead = Lead::Created { key: key.clone(), created_ms: NOW };
    first.send(&remote, &id, &PushRules { lead, ..PushRules::default() }).await.unwrap();
    let pointer = Pointer { session: id.clone(), created_ms: NOW };
    assert_eq!(first.outbox.list().unwrap(), []);

    let found = find_by_key(&remote, TENANT, &key).await.unwrap().unwrap();
    pulled(&second, &remote, &found.session).await.unwrap();
    assert!(second.text(&id).contains("the very first words"));
    // An older session that is sent late does not lead the key back.
    let older = Pointer { session: SessionId::parse("older").unwrap(), created_ms: NOW - 1 };
    assert_eq!(point(&remote, TENANT, &key, &older).await.unwrap(), pointer);
    let newer = Pointer { session: SessionId::parse("newer").unwrap(), created_ms: NOW + 1 };
    assert_eq!(point(&remote, TENANT, &key, &newer).await.unwrap(), newer);
    assert_eq!(find_by_key(&remote, TENANT, &key).await.unwrap(), Some(newer));
}

#[tokio::test]
async fn r21_altered_bytes_are_refused_and_nothing_of_them_is_kept() {
    let way = Way::to(Memory::default().remote());
    let (first, second) = (Machine::new(1), Machine::new(2));
    let id = first.begin(&["all is good"]);
    pushed(&first, &way, &id).await.unwrap();
    way.set(Weather::Altered);
    let refused = pulled(&second, &way, &id).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(second.bytes(&id), None);

    way.set(Weather::Fair);
    pulled(&second, &way, &id).await.unwrap();
    first.say(&id, "still good").unwrap();
    pushed(&first, &way, &id).await.unwrap();
    let before = second.bytes(&id);
    way.set(Weather::Altered);
    let refused = pulled(&second, &way, &id).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(second.bytes(&id), before);
    let all = second.medium.paths();
    let evil = all.iter().find(|path| String::from_utf8_lossy(&second.medium.read(path).unwrap()).contains("evil"));
    assert_eq!(evil, None);
}

#[tokio::test]
async fn a_file_that_is_another_session_is_refused() {
    let remote = Memory::default().remote();
    let (first, second) = (Machine::new(1), Machine::new(2));
    let (real, posing) = (first.begin(&["one"]), SessionId::parse("posing").unwrap());
    let native = first.native(&real);
    let link = Link { local: &native, remote: &remote, stream: &stream(&posing), bookmarks: &first.bookmarks };
    push(&link, &mut unwatched()).await.unwrap();
    let refused = pulled(&second, &remote, &posing).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(second.bytes(&posing), None);
}

#[tokio::test]
async fn a_turn_costs_one_call_however_long_the_session_is() {
    let way = Way::to(Memory::default().remote());
    let machine = Machine::new(1);
    let mut costs = Vec::new();
    for words in [10, 2_000] {
        let id = machine.begin(&[]);
        let mut session = machine.store.load(&Key::default(), unforget_core::directory::OnMissing::Fail).unwrap();
        assert_eq!(session.id(), &id);
        session.append(&vec![Draft::user("a word"); words]).unwrap();
        drop(session);
        pushed(&machine, &way, &id).await.unwrap();
        machine.say(&id, "a turn").unwrap();
        way.taken();
        let before = machine.medium.operations();
        let done = pushed(&machine, &way, &id).await.unwrap();
        costs.push((way.taken(), done.lines, machine.medium.operations() - before));
    }
    assert_eq!(costs[0].0, ["append  1"]);
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test]
async fn payloads_go_ahead_of_the_lines_that_need_them_both_ways() {
    let way = Way::to(Memory::default().remote());
    let (first, second) = (Machine::new(1), Machine::new(2));
    let large = format!("{}end", "large ".repeat(500_000));
    let id = first.begin(&["small", &large]);
    let done = pushed(&first, &way, &id).await.unwrap();
    assert_eq!(done.missing, [] as [String; 0]);
    let calls: Vec<String> = way.taken().into_iter().filter(|call| call.starts_with("append")).collect();
    assert!(calls[0].starts_with("append blob/") && calls.last().unwrap().starts_with("append  "), "{calls:?}");
    let done = pulled(&second, &way, &id).await.unwrap();
    assert_eq!((done.missing.len(), second.bytes(&id)), (0, first.bytes(&id)));
    let blobs = |machine: &Machine| -> Vec<String> {
        machine.medium.paths().into_iter().filter(|path| path.starts_with("blobs/")).collect()
    };
    assert_eq!((blobs(&second), blobs(&second).len()), (blobs(&first), 1));
    let blob = blobs(&first).remove(0);
    assert_eq!(second.medium.read(&blob), first.medium.read(&blob));
}

#[tokio::test]
async fn a_lost_or_foreign_bookmark_costs_a_read_and_nothing_else() {
    let way = Way::to(Memory::default().remote());
    let machine = Machine::new(1);
    let id = machine.begin(&["one", "two"]);
    pushed(&machine, &way, &id).await.unwrap();
    let bookmark = AgentDir::of("main").bookmark("there", &id);
    let good = machine.medium.read(&bookmark).unwrap();
    let shorter = String::from_utf8(good.clone()).unwrap().replace("\"lines\":3", "\"lines\":2");
    for bytes in [b"".as_slice(), b"\0\0\0\0", shorter.as_bytes()] {
        machine.medium.write_file(&bookmark, bytes).unwrap();
        machine.say(&id, "more").unwrap();
        pushed(&machine, &way, &id).await.unwrap();
        assert_eq!(there(&way, &id).await, machine.text(&id));
    }
    // The same name, another file: what was confirmed is compared anew.
    let edited = machine.text(&id).replace("\"one\"", "\"eno\"");
    machine.medium.write_file("elsewhere", edited.as_bytes()).unwrap();
    unforget_core::medium::Medium::replace(&machine.medium, Path::new("elsewhere"), &machine.path(&id)).unwrap();
    let refused = pushed(&machine, &way, &id).await;
    assert!(matches!(refused, Err(Error::Diverged { at: 1, .. })), "{refused:?}");
}

#[tokio::test]
async fn what_was_deleted_there_is_not_brought_back_before_someone_says_so() {
    let remote = Memory::default().remote();
    let machine = Machine::new(1);
    let id = machine.begin(&["one"]);
    pushed(&machine, &remote, &id).await.unwrap();
    remote.delete(&stream(&id)).await.unwrap();
    machine.say(&id, "two").unwrap();
    let refused = pushed(&machine, &remote, &id).await;
    assert!(matches!(refused, Err(Error::Deleted { .. })), "{refused:?}");
    assert!(matches!(remote.frontier(&stream(&id)).await, Err(Error::NotFound { .. })));
    machine.bookmarks.forget(&AgentDir::of("main"), &id).unwrap();
    pushed(&machine, &remote, &id).await.unwrap();
    assert_eq!(there(&remote, &id).await, machine.text(&id));
}

#[tokio::test]
async fn lines_of_another_program_are_carried_byte_for_byte() {
    let remote = Memory::default().remote();
    let bytes = b"{\"a\": 1}\r\n\n not json \xff\n{\"b\":2}\nhalf a li";
    let (here, elsewhere) = (CrashMedium::new(), CrashMedium::new());
    here.write_file("projects/p/s.jsonl", bytes).unwrap();
    let (dir, id) = (AgentDir::of("p"), SessionId::parse("s").unwrap());
    let stream = Stream::new(TENANT, "p", "s").unwrap();
    for (medium, is_sender) in [(&here, true), (&elsewhere, false)] {
        let local = Plain::new(Arc::new(medium.clone()), Path::new("projects/p/s.jsonl"), &dir, &id);
        let bookmarks = unforget_remote::sync::Bookmarks::new(Arc::new(medium.clone()), "there");
        let link = Link { local: &local, remote: &remote, stream: &stream, bookmarks: &bookmarks };
        let synced = sync(&link, &mut unwatched()).await.unwrap();
        assert_eq!((synced.pushed.is_some(), synced.pulled.is_some()), (is_sender, !is_sender));
        let outbox = unforget_remote::sync::Outbox::new(Arc::new(medium.clone()), "there");
        let refused = resolve_by_fork(&link, &outbox, NOW, &mut unwatched()).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    let whole = &bytes[..bytes.len() - b"half a li".len()];
    assert_eq!(elsewhere.read("projects/p/s.jsonl").unwrap(), whole);
}

#[tokio::test]
async fn the_tail_comes_first_and_is_proved() {
    let remote = Memory::default().remote();
    let machine = Machine::new(1);
    let id = machine.begin(&["one", "two", "three", "four"]);
    pushed(&machine, &remote, &id).await.unwrap();
    let text = machine.text(&id);
    let lines: Vec<&str> = text.lines().collect();
    let two = (lines[3].len() + lines[4].len() + 2) as u64;
    for (budget, expected) in [(0, 4..5), (two - 1, 4..5), (two, 3..5), (1 << 20, 0..5)] {
        let tail = tail(&remote, &stream(&id), budget).await.unwrap();
        let got: Vec<&str> = tail.lines.iter().map(|line| std::str::from_utf8(line).unwrap()).collect();
        assert_eq!((got, tail.before.lines), (lines[expected.clone()].to_vec(), expected.start as u64), "{budget}");
        assert_eq!(tail.lines.iter().fold(tail.before, |frontier, line| frontier.after(line)), tail.end);
    }
    assert_eq!(scan(text.as_bytes()).report.damage_count(), 0);
}
