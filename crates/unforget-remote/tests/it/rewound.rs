//! Remotes that have less than they had: who notices, who cannot, and what it costs.

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::stamp::SessionId;
use unforget_remote::memory::Memory;
use unforget_remote::sync::head::{self, HEADS};
use unforget_remote::sync::{Pulled, Pushed, forget, pull, push, sync};
use unforget_remote::{Error, Key, Remote, Witness};

use crate::machine::{Machine, Way, linked, stream, there, unwatched};

async fn pushed(machine: &Machine, remote: &dyn Remote, id: &SessionId) -> Result<Pushed, Error> {
    linked!(machine, remote, id, |link| push(&link, &mut unwatched()).await)
}

async fn pulled(machine: &Machine, remote: &dyn Remote, id: &SessionId) -> Result<Pulled, Error> {
    linked!(machine, remote, id, |link| pull(&link, &mut unwatched()).await)
}

/// Removes the newest segment of a stream.
fn cut(place: &Memory, id: &SessionId, side: &str) {
    let side = if side.is_empty() { "@".to_owned() } else { unforget_core::encode::file_name(side) };
    let dir = format!("tenant/main/{id}/{side}/");
    let newest = place.objects().keys().find(|path| path.starts_with(&dir)).unwrap().clone();
    place.objects().remove(&newest);
}

/// A sealed place, a machine that wrote to it turn by turn, and its session.
async fn written(place: &Memory) -> (Machine, SessionId) {
    let machine = Machine::new(1);
    let id = machine.begin(&["one"]);
    for word in ["two", "three"] {
        pushed(&machine, &sealed(place), &id).await.unwrap();
        machine.say(&id, word).unwrap();
    }
    pushed(&machine, &sealed(place), &id).await.unwrap();
    (machine, id)
}

fn sealed(place: &Memory) -> impl Remote + use<> {
    place.remote().sealed(Some(Key::new(&[7; 32])))
}

fn witness<T: std::fmt::Debug>(result: Result<T, Error>) -> Witness {
    match result {
        Err(Error::Rewound { witness, .. }) => witness,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn s15_a_cut_tail_is_noticed_by_the_machine_that_saw_it() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    let whole = machine.text(&id);
    cut(&place, &id, "");
    assert_eq!(witness(pulled(&machine, &sealed(&place), &id).await), Witness::Local);
    // Nor is it mended in silence by the next turn.
    machine.say(&id, "four").unwrap();
    assert_eq!(witness(pushed(&machine, &sealed(&place), &id).await), Witness::Local);
    let synced = linked!(machine, &sealed(&place), &id, |link| sync(&link, &mut unwatched()).await);
    assert_eq!(witness(synced), Witness::Local);
    assert!(machine.text(&id).starts_with(&whole), "what is here stays as it is");
    // The person says so: the remote gets back what it lost.
    linked!(machine, &sealed(&place), &id, |link| forget(&link).unwrap());
    pushed(&machine, &sealed(&place), &id).await.unwrap();
    assert_eq!(there(&sealed(&place), &id).await, machine.text(&id));
}

#[tokio::test]
async fn s15_a_cut_tail_is_noticed_by_a_machine_that_has_the_session_no_more() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    cut(&place, &id, "");
    let entry = machine.store.list().unwrap().entries.remove(0);
    machine.store.delete(&entry).unwrap();
    assert_eq!(witness(pulled(&machine, &sealed(&place), &id).await), Witness::Local);
    assert!(machine.bytes(&id).is_none());
}

#[tokio::test]
async fn s15_a_cut_tail_is_noticed_by_a_fresh_machine() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    let end = pushed(&machine, &sealed(&place), &id).await.unwrap().at;
    head::leave(&sealed(&place), &stream(&id), &end).await.unwrap();
    let fresh = Machine::new(2);
    pulled(&fresh, &sealed(&place), &id).await.unwrap();
    assert_eq!(fresh.text(&id), machine.text(&id));
    cut(&place, &id, "");
    let fresh = Machine::new(3);
    assert_eq!(witness(pulled(&fresh, &sealed(&place), &id).await), Witness::Remote);
    assert!(fresh.bytes(&id).is_none(), "nothing of it was taken");
    // A person who wants what is left dismisses the witness.
    head::remove(&sealed(&place), &stream(&id)).await.unwrap();
    assert!(pulled(&fresh, &sealed(&place), &id).await.unwrap().lines > 0);
}

#[tokio::test]
async fn s15_an_old_state_of_stream_and_head_is_noticed_by_those_who_saw_more_and_by_nobody_else() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    let old = place.objects().clone();
    machine.say(&id, "four").unwrap();
    let end = pushed(&machine, &sealed(&place), &id).await.unwrap().at;
    head::leave(&sealed(&place), &stream(&id), &end).await.unwrap();
    *place.objects() = old;
    assert_eq!(witness(pulled(&machine, &sealed(&place), &id).await), Witness::Local);
    // docs/remote.md says so: what is genuine and old looks genuine to a fresh machine.
    pulled(&Machine::new(2), &sealed(&place), &id).await.unwrap();
}

#[tokio::test]
async fn s15_other_lines_under_the_same_name_are_noticed() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    let remote = sealed(&place);
    remote.delete(&stream(&id)).await.unwrap();
    let first = machine.text(&id).lines().next().unwrap().to_owned();
    let said: Vec<Bytes> = (0..9).map(|number| Bytes::from(format!("{{\"type\":\"x\",\"n\":{number}}}"))).collect();
    let lines = [vec![Bytes::from(first)], said].concat();
    remote.append(&stream(&id), &Frontier::default(), &lines).await.unwrap();
    assert_eq!(witness(pulled(&machine, &sealed(&place), &id).await), Witness::Local);
}

#[tokio::test]
async fn s15_of_two_who_leave_a_head_the_longer_stays() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    let end = pushed(&machine, &sealed(&place), &id).await.unwrap().at;
    let shorter = Frontier { lines: end.lines - 1, ..end };
    let (one, two) = (sealed(&place), sealed(&place));
    let name = stream(&id);
    let (first, second) = tokio::join!(head::leave(&one, &name, &end), head::leave(&two, &name, &shorter));
    first.unwrap();
    second.unwrap();
    head::leave(&two, &name, &shorter).await.unwrap();
    assert_eq!(head::look(&one, &name).await.unwrap(), Some(end));
}

#[tokio::test]
async fn s15_a_forged_head_does_not_count() {
    let place = Memory::default();
    let (machine, id) = written(&place).await;
    let end = pushed(&machine, &sealed(&place), &id).await.unwrap().at;
    head::leave(&place.remote(), &stream(&id), &end).await.unwrap();
    let refused = pulled(&Machine::new(2), &sealed(&place), &id).await;
    assert!(matches!(refused, Err(Error::NotSealed { .. })), "{refused:?}");
}

#[tokio::test]
async fn s15_a_turn_costs_one_append_and_a_head_comes_seldom() {
    let way = Way::to(Memory::default().remote());
    let machine = Machine::new(1);
    let id = machine.begin(&["one"]);
    pushed(&machine, &way, &id).await.unwrap();
    way.taken();
    let turns = 130;
    for turn in 0..turns {
        machine.say(&id, &format!("turn {turn}")).unwrap();
        pushed(&machine, &way, &id).await.unwrap();
    }
    let calls = way.taken();
    let appends = calls.iter().filter(|call| call.starts_with("append  ")).count();
    let heads = calls.iter().filter(|call| call.starts_with(&format!("append {HEADS}"))).count();
    assert_eq!((appends, heads), (turns, 2), "{calls:?}");
    assert!(calls.len() <= turns + 2 * 5, "{calls:?}");
}
