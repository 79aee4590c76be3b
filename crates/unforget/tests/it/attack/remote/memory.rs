//! The memory of AgentCore: what its events say, and how it answers.

use bytes::Bytes;
use unforget_core::encode;
use unforget_core::frontier::Frontier;
use unforget_remote::agentcore::wire::{Event, Item, MetadataValue};
use unforget_remote::agentcore::{AgentCore, Settings, Texts};
use unforget_remote::{Remote, lease};
use unforget_testkit::agentcore::{FakeMemory, Operation, Options, RefusedPage, Tricks};

use super::*;

/// A memory with a session, and what an operator has to attack it with.
struct Memory {
    ground: Ground,
    /// The events as they were before the last words.
    older: Vec<Event>,
    events: Vec<Event>,
    /// Those of the same session with forged words, in plain.
    forged: Vec<Event>,
}

/// Changes the events that are there.
type Change = fn(&Memory, Vec<Event>) -> Vec<Event>;
/// Changes how the memory answers.
type Play = fn(&Memory, &mut Tricks);
type Row = (&'static str, Change, Play, &'static [&'static str]);

/// What a machine has to know to reach a memory.
fn variables(server: &FakeMemory) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "s3cret".to_owned()),
        ("AWS_REGION", "eu-central-1".to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", server.url()),
    ]
}

/// How a memory is reached; it ends with what is held.
fn at(server: &FakeMemory, held: impl Any + Send) -> Site {
    Site::new(format!("agentcore://{}", server.memory("notes", 30)), variables(server), held)
}

fn start() -> FakeMemory {
    FakeMemory::start(Options::default()).unwrap()
}

/// A server with these events.
fn with(events: Vec<Event>) -> FakeMemory {
    let server = start();
    server.memory("notes", 30);
    server.fill(events);
    server
}

/// What a session is called there.
fn named(id: &str) -> String {
    encode::identifier(id, 100)
}

/// What the session of a side stream begins with.
fn sides(session: &str) -> String {
    format!("s-{}-", &encode::sha256_hex(session.as_bytes())[..32])
}

/// Has an operator write to a memory as this program would, without the key.
fn plainly(server: &FakeMemory) -> impl Remote + use<> {
    let environment = variables(server).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let memory = server.memory("notes", 30);
    let found = Settings::find(Some(&memory), environment, None, Texts::default()).unwrap();
    AgentCore::new(&Settings { rates: None, ..found }).unwrap().remote()
}

impl Memory {
    fn new(is_sealed: bool) -> Self {
        let writer = Home::new();
        let key = is_sealed.then(|| writer.write("remote.key", "ab".repeat(32)));
        let id = writer.conversation(KEY, &["one"]);
        let (mut older, mut events) = (Vec::new(), Vec::new());
        let mut url = String::new();
        for word in ["two", "three", ""] {
            let server = with(events.clone());
            let site = at(&server, ());
            send(&writer, &site, key.as_deref(), &id);
            (older, events, url) = (events, server.events(), site.url);
            if !word.is_empty() {
                say(&writer, &id, word);
            }
        }
        let server = start();
        send(&forger(&writer, &id), &at(&server, ()), None, &id);
        let forged = server.events();
        Self { ground: Ground { writer, id, key, url }, older, events, forged }
    }

    /// The memory after an attack.
    fn site(&self, change: Change, play: Play) -> Site {
        let server = with(change(self, self.events.clone()));
        server.trick(|tricks| play(self, tricks));
        let mut site = at(&server, ());
        site.hold(server);
        site
    }

    fn is_main(&self, event: &Event) -> bool {
        event.session_id == named(&self.ground.id)
    }

    /// The events of the session's own stream, the oldest first.
    fn main(&self, events: &[Event]) -> Vec<Event> {
        let mut main: Vec<Event> = events.iter().filter(|event| self.is_main(event)).cloned().collect();
        main.sort_by(|one, other| one.event_id.cmp(&other.event_id));
        main
    }

    /// Puts other events in the place of the session's own.
    fn instead(&self, events: Vec<Event>, main: Vec<Event>) -> Vec<Event> {
        events.into_iter().filter(|event| !self.is_main(event)).chain(main).collect()
    }

    fn attacks(&self, rows: &[Row]) -> Vec<Attack<'_>> {
        let attack = |(name, change, play, refuse): &Row| {
            let (name, change, play, refuse) = (*name, *change, *play, *refuse);
            Attack { name, refuse, site: Box::new(move || self.site(change, play)) }
        };
        rows.iter().map(attack).collect()
    }

    fn put_to(&self, suite: &str, rows: &[Row]) {
        self.ground.put_to(suite, || self.site(as_it_is, fairly), &self.attacks(rows));
    }

    fn put_to_server(&self, suite: &str, rows: &[Row]) {
        self.ground.put_to_server(suite, &self.attacks(rows));
    }
}

fn as_it_is(_: &Memory, events: Vec<Event>) -> Vec<Event> {
    events
}

fn fairly(_: &Memory, _: &mut Tricks) {}

fn plain_session(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    memory.instead(events, memory.main(&memory.forged))
}

fn plain_everything(memory: &Memory, _: Vec<Event>) -> Vec<Event> {
    memory.forged.clone()
}

fn said(event: &Event) -> &str {
    &event.metadata["unforget"].string_value
}

fn decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn encoded(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// What an event's segment says of itself.
fn head(event: &Event) -> Vec<u8> {
    let pieces = (0..).map_while(|number| event.metadata.get(&format!("head{number}")));
    decoded(&pieces.map(|piece| piece.string_value.as_str()).collect::<String>())
}

fn text(text: impl Into<String>) -> MetadataValue {
    MetadataValue { string_value: text.into() }
}

/// An event like another one, with another segment.
fn event_of(like: &Event, head: &[u8], lines: (u64, u64), behind: &str, payload: [String; 2]) -> Event {
    let mut event = like.clone();
    event.metadata.clear();
    event.metadata.insert("unforget".to_owned(), text(format!("1 segment {} {} {behind} 0", lines.0, lines.1)));
    for (number, piece) in encoded(head).as_bytes().chunks(256).enumerate() {
        event.metadata.insert(format!("head{number}"), text(String::from_utf8_lossy(piece)));
    }
    event.payload = Some(payload.map(|text| Item::Blob(text.into())).to_vec());
    event
}

fn plain_tail(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    let (last, mut forged) = (main.last().unwrap().clone(), memory.main(&memory.forged).pop().unwrap());
    // The operator says which segment the forged one follows, and when it was written.
    let digest = encode::sha256_hex(&head(&last));
    let words: Vec<String> = said(&forged).split(' ').map(str::to_owned).collect();
    let end = said(&last).split(' ').nth(3).unwrap().to_owned();
    let lines = format!("1 segment {end} {} {} 0", words[3], &digest[..32]);
    forged.metadata.insert("unforget".to_owned(), text(lines));
    forged.event_id = last.event_id.replace('#', "9#");
    main.push(forged);
    memory.instead(events, main)
}

fn plain_pointer(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let is_pointer = |event: &Event| event.session_id.starts_with(&sides("@key"));
    let forged = memory.forged.iter().filter(|event| is_pointer(event)).cloned();
    let kept: Vec<Event> = events.into_iter().filter(|event| !is_pointer(event)).collect();
    assert!(forged.clone().count() > 0);
    kept.into_iter().chain(forged).collect()
}

fn plain_lease(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let server = with(events);
    wait(lease::acquire(&plainly(&server), &memory.ground.stream(), FORGED, 1, Duration::from_secs(1 << 40))).unwrap();
    server.events()
}

fn plain_mark(_: &Memory, events: Vec<Event>) -> Vec<Event> {
    let server = with(events);
    let mark = Stream::new("default", "@unforget", "@sealed").unwrap();
    wait(plainly(&server).delete(&mark)).unwrap();
    let line = Bytes::from(format!("{{\"sealed\":\"{FORGED}\"}}"));
    wait(plainly(&server).append(&mark, &Frontier::default(), &[line])).unwrap();
    server.events()
}

fn cut_tail(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    main.pop();
    memory.instead(events, main)
}

fn gap(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    main.remove(1);
    memory.instead(events, main)
}

fn beginning(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    main.remove(0);
    memory.instead(events, main)
}

fn replay(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    memory.instead(events, memory.main(&memory.older))
}

fn another_position(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    let (id, last) = (main[2].event_id.clone(), main.len() - 1);
    main[last] = Event { event_id: id, ..main[1].clone() };
    memory.instead(events, main)
}

fn changed_byte(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    let last = main.last_mut().unwrap();
    let Some([_, Item::Blob(body)]) = last.payload.as_deref_mut() else { panic!("it has a body") };
    let mut bytes = decoded(body.as_str().unwrap());
    *bytes.last_mut().unwrap() ^= 1;
    *body = encoded(&bytes).into();
    memory.instead(events, main)
}

fn changed_head(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let mut main = memory.main(&events);
    let last = main.last_mut().unwrap();
    let mut bytes = head(last);
    *bytes.last_mut().unwrap() ^= 1;
    for (number, piece) in encoded(&bytes).as_bytes().chunks(256).enumerate() {
        last.metadata.insert(format!("head{number}"), text(String::from_utf8_lossy(piece)));
    }
    memory.instead(events, main)
}

fn stale_list(_: &Memory, tricks: &mut Tricks) {
    tricks.stale = 1;
}

fn refused_pages(_: &Memory, tricks: &mut Tricks) {
    tricks.refused_pages = Some(RefusedPage::Missing);
}

/// Every event is shown as one of the session.
fn relabelled(memory: &Memory, tricks: &mut Tricks) {
    let mut foreign = memory.main(&memory.forged).pop().unwrap();
    foreign.event_id = "9999999999999999999#00000000".to_owned();
    tricks.foreign = Some(foreign);
}

fn endless(_: &Memory, tricks: &mut Tricks) {
    tricks.is_endless = true;
}

fn refused(tricks: &mut Tricks, status: u16) {
    tricks.refusal = Some((status, "ValidationException".to_owned(), format!("{ESCAPE}{FORGED}\n{ESCAPE}")));
}

fn refused_as_wrong(_: &Memory, tricks: &mut Tricks) {
    refused(tricks, 400);
}

fn refused_as_denied(_: &Memory, tricks: &mut Tricks) {
    refused(tricks, 403);
}

fn refused_as_missing(_: &Memory, tricks: &mut Tricks) {
    refused(tricks, 404);
}

/// Names that say nothing, leave a folder, or steer a screen.
fn bad_names(memory: &Memory, tricks: &mut Tricks) {
    let actor = &memory.main(&memory.events)[0].actor_id;
    let names =
        ["../../evil", ESCAPE, "", "k-", "s-", "h-0", "@key", "\0", &"a".repeat(10_000), &named(&memory.ground.id)];
    let sessions: Vec<String> = names
        .iter()
        .map(|name| {
            let name = serde_json::Value::from(*name);
            format!(r#"{{"sessionId":{name},"actorId":{},"createdAt":1}}"#, serde_json::Value::from(actor.as_str()))
        })
        .collect();
    let actors: Vec<String> = names
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{actor}{name}"), actor.clone()])
        .map(|name| format!(r#"{{"actorId":{}}}"#, serde_json::Value::from(name)))
        .collect();
    tricks.answers = vec![
        (Operation::ListSessions, format!(r#"{{"sessionSummaries":[{}]}}"#, sessions.join(","))),
        (Operation::ListActors, format!(r#"{{"actorSummaries":[{}]}}"#, actors.join(","))),
    ];
}

/// Few bytes for each of many values.
fn many_values(memory: &Memory, tricks: &mut Tricks) {
    let event = serde_json::to_string(&Event { payload: None, ..memory.main(&memory.events).pop().unwrap() }).unwrap();
    let values = "0,".repeat(5 << 20);
    let open = event.strip_suffix('}').unwrap();
    tricks.answers = vec![(Operation::GetEvent, format!(r#"{{"event":{open},"payload":[{{"blob":[{values}0]}}]}}}}"#))];
}

fn many_events(_: &Memory, tricks: &mut Tricks) {
    let names = r#"{"sessionId":"s","actorId":"a","createdAt":1},"#.repeat(200_000);
    tricks.answers = vec![(
        Operation::ListSessions,
        format!(r#"{{"sessionSummaries":[{names}{{"sessionId":"s","actorId":"a","createdAt":1}}]}}"#),
    )];
}

fn long_answers(_: &Memory, tricks: &mut Tricks) {
    tricks.padding = 20 << 20;
}

/// Against a reader with the key.
const SEALED: [Row; 15] = [
    ("plain for sealed", plain_session, fairly, ALL),
    ("plain for everything", plain_everything, fairly, ALL),
    ("plain tail", plain_tail, fairly, ALL),
    ("forged pointer", plain_pointer, fairly, BY_KEY),
    ("forged lease", plain_lease, fairly, VERIFY),
    ("forged mark", plain_mark, fairly, VERIFY),
    ("cut tail", cut_tail, fairly, READERS),
    ("gap", gap, fairly, READERS),
    ("no beginning", beginning, fairly, READERS),
    ("replay", replay, fairly, READERS),
    ("another position", another_position, fairly, READERS),
    ("changed byte", changed_byte, fairly, READERS),
    ("changed head", changed_head, fairly, ALL),
    ("relabelled event", as_it_is, relabelled, NOBODY),
    // The last one: those who write wait for the list, and people at a server would wait each.
    ("stale list", as_it_is, stale_list, WRITER),
];

#[test]
fn s1_a_hostile_memory_with_a_key() {
    Memory::new(true).put_to("remote-agentcore-sealed", &SEALED);
}

#[test]
fn s1_a_hostile_memory_with_a_key_against_a_server() {
    Memory::new(true).put_to_server("server-agentcore-sealed", SEALED.split_last().unwrap().1);
}

/// Puts one segment in the place of all of the session's.
fn alone(memory: &Memory, events: Vec<Event>, claimed: (u64, u64), payload: [String; 2]) -> Vec<Event> {
    let bytes = segment(&memory.ground.id, claimed, b"");
    let like = memory.main(&events).remove(0);
    let forged = event_of(&like, &bytes[2..], (0, claimed.0), "-", payload);
    memory.instead(events, vec![forged])
}

fn inline(body: &[u8]) -> [String; 2] {
    ["inline".to_owned(), encoded(body)]
}

fn bomb_that_claims(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    alone(memory, events, (1, 4 << 30), inline(&frames(4096)))
}

fn bomb_that_hides(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    alone(memory, events, (1, 20 << 20), inline(&frames(4096)))
}

fn bomb_of_tiny_lines(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    alone(memory, events, (12 << 20, 12 << 20), inline(&frames(24)))
}

/// Events with the parts of a body, and what names them in this order.
fn parts(memory: &Memory, mut events: Vec<Event>, claimed: (u64, u64), pieces: &[&[u8]], times: usize) -> Vec<Event> {
    let like = memory.main(&events).remove(0);
    let (mut lines, mut written) = (Vec::new(), Vec::new());
    for (number, piece) in pieces.iter().enumerate() {
        let id = like.event_id.replace('#', &format!("#{number}"));
        lines.push(format!("{id} {} {}", encode::sha256_hex(piece), piece.len()));
        let mut event = Event { event_id: id, payload: Some(vec![Item::Blob(encoded(piece).into())]), ..like.clone() };
        event.metadata = [("unforget".to_owned(), text("1 part"))].into();
        written.push(event);
    }
    let lines = vec![lines.join("\n"); times].join("\n");
    events = alone(memory, events, claimed, ["parts".to_owned(), lines]);
    events.extend(written);
    events
}

/// One part of seven megabytes, a thousand times.
fn bomb_of_parts(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    parts(memory, events, (1, 29 << 20), &[&vec![7; 7_000_000]], 1000)
}

/// As much as a segment may have, of what does not compress, and none of it what was written.
fn largest(memory: &Memory, events: Vec<Event>) -> Vec<Event> {
    let noise = noise(29 << 20);
    let pieces: Vec<&[u8]> = noise.chunks(7_000_000).collect();
    // No witness tells before it was read.
    let events = events.into_iter().filter(|event| !event.session_id.starts_with(&sides(&memory.ground.id))).collect();
    parts(memory, events, (1, 29 << 20), &pieces, 1)
}

/// Against a reader without a key.
const PLAIN: [Row; 19] = [
    ("bomb that claims", bomb_that_claims, fairly, ALL),
    ("bomb that hides", bomb_that_hides, fairly, READERS),
    ("bomb of tiny lines", bomb_of_tiny_lines, fairly, ALL),
    ("bomb of parts", bomb_of_parts, fairly, READERS),
    ("many values", as_it_is, many_values, READERS),
    ("many names", as_it_is, many_events, NOBODY),
    ("long answers", as_it_is, long_answers, ALL),
    ("endless list", as_it_is, endless, READERS),
    ("refused pages", as_it_is, refused_pages, NOBODY),
    ("cut tail", cut_tail, fairly, READERS),
    ("gap", gap, fairly, READERS),
    ("no beginning", beginning, fairly, READERS),
    ("replay", replay, fairly, READERS),
    ("changed byte", changed_byte, fairly, READERS),
    ("bad names", as_it_is, bad_names, NOBODY),
    ("escapes in a refusal", as_it_is, refused_as_wrong, ALL),
    ("escapes in a denial", as_it_is, refused_as_denied, ALL),
    ("escapes in an absence", as_it_is, refused_as_missing, ALL),
    ("largest segment", largest, fairly, READERS),
];

#[test]
fn s7_h1_a_hostile_memory_without_a_key() {
    Memory::new(false).put_to("remote-agentcore-plain", &PLAIN);
}

#[test]
fn s7_h1_a_hostile_memory_without_a_key_against_a_server() {
    Memory::new(false).put_to_server("server-agentcore-plain", &PLAIN);
}
