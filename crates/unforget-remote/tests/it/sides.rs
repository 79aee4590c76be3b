//! Sessions of another program: several files, carried together, and lines of both sides where two machines went on.

use unforget_core::directory::FileNote;
use unforget_core::files::Seen;
use unforget_core::layout::AgentDir;
use unforget_core::stamp::SessionId;
use unforget_remote::memory::Memory;
use unforget_remote::sync::{Link, Native, forget, pull, push, resolve_by_rebase};
use unforget_remote::{Error, Remote, Stream};

use crate::machine::{Machine, NOW, TENANT, Way, unwatched};

const ID: &str = "6f1c2a9e-3d53-4f86-9a74-0e3b9f1f2c11";

fn claude() -> AgentDir {
    AgentDir::of("claude")
}

fn id() -> SessionId {
    SessionId::parse(ID).unwrap()
}

fn stream() -> Stream {
    Stream::new(TENANT, "claude", ID).unwrap()
}

fn line(uuid: &str, parent: &str, words: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"sessionId\":\"{ID}\",\"cwd\":\"/home/ada/app\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}}}}\n"
    )
}

fn begin(machine: &Machine, text: &str) {
    assert!(machine.store.begin_foreign(&claude(), &id(), |out| out.write_all(text.as_bytes())).unwrap());
}

fn add(machine: &Machine, text: &str) {
    let mut intake = machine.store.intake(&claude(), &id()).unwrap();
    intake.append(text.as_bytes()).unwrap();
    intake.close();
}

fn add_side(machine: &Machine, name: &str, text: &str) {
    machine.store.open_side(&claude(), &id(), name).unwrap().append(text.as_bytes()).unwrap();
}

fn keep(machine: &Machine, name: &str, bytes: &[u8]) {
    let note = FileNote {
        name: name.to_owned(),
        seen: Seen::Bytes(bytes.to_vec()),
        bytes: bytes.len() as u64,
        modified_ns: 1,
    };
    machine.store.keep_files(&claude(), &id(), &[note]).unwrap();
}

fn text(machine: &Machine) -> String {
    let entry = machine.store.entry(&id()).unwrap().unwrap();
    String::from_utf8(machine.store.read(&entry).unwrap().read_all().unwrap()).unwrap()
}

fn kept(machine: &Machine, name: &str) -> Option<Vec<u8>> {
    let files = machine.store.kept_files(&claude(), &id()).unwrap();
    files.get(name).and_then(|file| machine.store.kept_bytes(file).unwrap())
}

macro_rules! link {
    ($machine:expr, $remote:expr, $name:ident) => {
        let (local, stream) = (Native::new(&$machine.store, &claude(), &id()), stream());
        let $name = Link { local: &local, remote: $remote, stream: &stream, bookmarks: &$machine.bookmarks };
    };
}

async fn pushed(machine: &Machine, remote: &dyn Remote) -> Result<(), Error> {
    link!(machine, remote, link);
    push(&link, &mut unwatched()).await.map(drop)
}

async fn pulled(machine: &Machine, remote: &dyn Remote) -> Result<(), Error> {
    link!(machine, remote, link);
    pull(&link, &mut unwatched()).await.map(drop)
}

#[tokio::test]
async fn sub_agents_and_files_go_along_with_their_session_and_cost_nothing_when_they_are_known() {
    let way = Way::to(Memory::default().remote());
    let (a, b) = (Machine::new(1), Machine::new(2));
    begin(&a, &line("a", "null", "one"));
    add_side(&a, "subagents/agent-1", "{\"type\":\"user\",\"isSidechain\":true}\n");
    keep(&a, "session/tool-results/x.txt", b"a large output");
    pushed(&a, &way).await.unwrap();
    pulled(&b, &way).await.unwrap();
    assert_eq!(text(&b), text(&a));
    let sides = |machine: &Machine| machine.store.sides(&claude(), &id()).unwrap();
    assert_eq!((sides(&b), sides(&b).len()), (sides(&a), 2));
    assert_eq!(kept(&b, "session/tool-results/x.txt").as_deref(), Some(&b"a large output"[..]));
    drop(way.taken());
    add(&a, &line("b", "\"a\"", "two"));
    pushed(&a, &way).await.unwrap();
    let asked = way.taken();
    assert_eq!(asked.len(), 1, "{asked:?}");
    pulled(&b, &way).await.unwrap();
    assert_eq!(text(&b), text(&a));
}

#[tokio::test]
async fn where_two_machines_went_on_the_lines_of_both_stay_as_they_were_written() {
    let way = Way::to(Memory::default().remote());
    let (a, b) = (Machine::new(1), Machine::new(2));
    begin(&a, &line("a", "null", "both"));
    pushed(&a, &way).await.unwrap();
    pulled(&b, &way).await.unwrap();
    let (of_a, of_b) = (line("b", "\"a\"", "said on a"), line("c", "\"a\"", "said on b"));
    add(&a, &of_a);
    add(&b, &of_b);
    pushed(&a, &way).await.unwrap();
    assert!(matches!(pushed(&b, &way).await, Err(Error::Diverged { .. })));
    {
        link!(b, &way, link);
        let rebased = resolve_by_rebase(&link, &b.outbox, NOW, &mut unwatched()).await.unwrap().unwrap();
        assert_eq!((rebased.records, rebased.left_out), (1, 0));
    }
    pushed(&b, &way).await.unwrap();
    pulled(&a, &way).await.unwrap();
    let both = format!("{}{of_a}{of_b}", line("a", "null", "both"));
    assert_eq!((text(&a), text(&b)), (both.clone(), both));
}

#[tokio::test]
async fn two_homes_that_keep_files_of_one_session_never_disagree() {
    let way = Way::to(Memory::default().remote());
    let (a, b) = (Machine::new(1), Machine::new(2));
    begin(&a, &line("a", "null", "one"));
    keep(&a, "session/a.txt", b"of a");
    pushed(&a, &way).await.unwrap();
    pulled(&b, &way).await.unwrap();
    keep(&b, "session/b.txt", b"of b");
    keep(&a, "session/c.txt", b"of a, later");
    pushed(&a, &way).await.unwrap();
    pushed(&b, &way).await.unwrap();
    pulled(&a, &way).await.unwrap();
    pulled(&b, &way).await.unwrap();
    for machine in [&a, &b] {
        for (name, bytes) in [("a", &b"of a"[..]), ("b", b"of b"), ("c", b"of a, later")] {
            assert_eq!(kept(machine, &format!("session/{name}.txt")).as_deref(), Some(bytes), "{name}");
        }
    }
}

#[tokio::test]
async fn what_was_deleted_there_comes_back_whole_when_it_is_sent_again() {
    let way = Way::to(Memory::default().remote());
    let (a, b) = (Machine::new(1), Machine::new(2));
    begin(&a, &line("a", "null", "one"));
    add_side(&a, "subagents/agent-1", "{\"type\":\"user\",\"isSidechain\":true}\n");
    pushed(&a, &way).await.unwrap();
    way.delete(&stream().side_stream("subagents/agent-1").unwrap()).await.unwrap();
    way.delete(&stream()).await.unwrap();
    {
        link!(a, &way, link);
        forget(&link).unwrap();
    }
    pushed(&a, &way).await.unwrap();
    pulled(&b, &way).await.unwrap();
    assert_eq!(b.store.sides(&claude(), &id()).unwrap(), ["subagents/agent-1"]);
}
