//! A remote whose operator reads, forges, replays and cuts what it keeps, against the commands that ask it.
//!
//! A writer leaves a session at a directory, a database or a memory of AgentCore. Each attack changes what lies there, or how it answers, and every
//! command is run by a machine that never saw it; one is run by the writer, who knows what was there. An attack is refused if the command fails, or if it has
//! nothing to do with what was forged; in no case may forged words arrive on the machine, escapes reach the terminal, or memory grow.

mod database;
mod directory;
mod memory;
mod server;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use unforget_remote::{Address, Stream};
use unforget_testkit::attacks::{Tally, memory_of_all};

use crate::scene::Scene;
use crate::support::{Home, Said, files};

/// Words that no attack may bring to a machine.
pub(super) const FORGED: &str = "forged by the operator";
pub(super) const KEY: &str = "main:cli:ann";
/// What a hostile text would do to a terminal.
pub(super) const ESCAPE: &str = "\u{1b}]0;pwned\u{7}";
/// How many attacks go on at once: most of their time they wait.
const LANES: usize = 3;

/// The commands: those that write come last. One is run where the session was written and went on.
const COMMANDS: [&str; 8] =
    ["pull", "pull by key", "sync", "remote ls", "remote stat", "remote verify", "sync by the writer", "chat"];
/// Sets of commands that have to end with an error; the others take nothing forged, and how they end is their own business.
const ALL: &[&str] = &COMMANDS;
/// Who looks at the end of a session alone cannot know what is before it.
const READERS: &[&str] = &["pull", "pull by key", "sync", "remote verify", "chat"];
const VERIFY: &[&str] = &["remote verify"];
const BY_KEY: &[&str] = &["pull by key", "remote verify"];
/// A machine that knows nothing is shown what was true a moment ago, and takes that; who has seen more does not.
const WRITER: &[&str] = &["sync by the writer"];
const NOBODY: &[&str] = &[];

fn arguments<'a>(command: &str, id: &'a str) -> Vec<&'a str> {
    match command {
        "pull" => vec!["pull", id],
        "pull by key" => vec!["pull", KEY],
        "sync" | "sync by the writer" => vec!["sync"],
        "remote ls" => vec!["remote", "ls"],
        "remote stat" => vec!["remote", "stat", id],
        "remote verify" => vec!["remote", "verify"],
        _ => vec!["chat", "-p", "hello", "--session", id],
    }
}

/// What a writer left, and where.
struct Ground {
    writer: Home,
    id: String,
    key: Option<PathBuf>,
    /// Where the writer sent it.
    url: String,
}

/// A remote that somebody has changed, and how machines reach it.
pub(super) struct Site {
    pub(super) url: String,
    pub(super) variables: Vec<(&'static str, String)>,
    /// What the remote lives in.
    held: Box<dyn Any + Send>,
}

impl Site {
    pub(super) fn new(url: String, variables: Vec<(&'static str, String)>, held: impl Any + Send) -> Self {
        Self { url, variables, held: Box::new(held) }
    }

    /// The same, which lives in something else.
    fn hold(&mut self, held: impl Any + Send) {
        self.held = Box::new(held);
    }

    /// A machine that reaches it.
    pub(super) fn machine(&self) -> Scene {
        self.variables.iter().fold(Scene::offline(), |scene, (name, value)| scene.with(name, value))
    }
}

/// An attack on a remote.
struct Attack<'a> {
    name: &'static str,
    /// The commands that have to end with an error.
    refuse: &'static [&'static str],
    /// Makes the remote, attacked.
    site: Box<dyn Fn() -> Site + Sync + 'a>,
}

impl Ground {
    fn stream(&self) -> Stream {
        Stream::new("default", "main", &self.id).unwrap()
    }

    /// Runs a command against an attacked remote; tells what it left, what it said, and its memory at the highest.
    fn visit(&self, site: &Site, command: &str) -> (Scene, Said, u64) {
        let scene = site.machine();
        if command.ends_with("by the writer") {
            // What it remembers of the remote, it remembers of this one.
            let name = |url: &str| Address::parse(url).unwrap().name();
            let (old, new) = (name(&self.url), name(&site.url));
            copy(&self.writer.path("home"), &scene.home.path("home"));
            let remotes = scene.home.path("home/remotes");
            let known: Vec<_> = std::fs::read_dir(&remotes).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            let known = known.iter().filter_map(|name| name.to_str()).find(|name| name.starts_with(&old)).unwrap();
            let target = remotes.join(known.replace(&old, &new));
            if old != new {
                drop(std::fs::remove_dir_all(&target));
                std::fs::rename(remotes.join(known), target).unwrap();
            }
            // It has something to send: what both sides have needs no answer that could be false.
            say(&scene.home, &self.id, "more of the writer's");
        }
        let mut all = arguments(command, &self.id);
        all.extend(["--remote", &site.url]);
        let key = self.key.as_ref().map(|key| key.display().to_string());
        all.extend(key.iter().flat_map(|key| ["--key-file", key.as_str()]));
        let (said, peak) = watched(scene.command(&all));
        (scene, said, peak)
    }

    /// Puts every attack to every command.
    fn put_to(&self, suite: &str, honest: impl Fn() -> Site, attacks: &[Attack<'_>]) {
        let tally = Mutex::new(Tally::new(suite, attacks.len() * COMMANDS.len()));
        let idle = COMMANDS.map(|command| {
            let site = honest();
            let (_, said, peak) = self.visit(&site, command);
            assert_eq!(said.code, 0, "{command} where nothing is wrong: {said:?}");
            peak
        });
        let next = AtomicUsize::new(0);
        let lane = || {
            while let Some(attack) = attacks.get(next.fetch_add(1, Ordering::SeqCst)) {
                let site = (attack.site)();
                for (command, idle) in COMMANDS.iter().zip(idle) {
                    let (scene, said, peak) = self.visit(&site, command);
                    let is_refused = withstood(attack.refuse.contains(command), &scene, &said);
                    let (name, above) = (attack.name, peak.saturating_sub(idle));
                    if !is_refused || above >= unforget_testkit::attacks::MEMORY_LIMIT {
                        println!("{name} against {command}: {} MiB, {said:?}", above >> 20);
                    }
                    let mut tally = tally.lock().unwrap();
                    tally.attack(&format!("{name} against {command}"), is_refused);
                    tally.memory(above);
                }
            }
        };
        std::thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
        tally.into_inner().unwrap().finish().unwrap();
    }
}

/// Sends a session from a home.
fn send(home: &Home, site: &Site, key: Option<&Path>, id: &str) {
    let mut command = home.command();
    command.envs(site.variables.iter().map(|(name, value)| (*name, value)));
    command.env("HOME", home.path("person")).args(["push", id, "--remote", &site.url]);
    key.map(|key| command.arg("--key-file").arg(key));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The same session at another home, with words that its writer never said.
fn forger(writer: &Home, id: &str) -> Home {
    let forger = Home::new();
    copy(&writer.path("home/agents"), &forger.path("home/agents"));
    say(&forger, id, FORGED);
    forger
}

fn say(home: &Home, id: &str, text: &str) {
    let line = format!("{{\"type\":\"user\",\"content\":\"{text}\"}}\n");
    assert_eq!(home.feed(&["append", id], &line).code, 0);
}

/// Puts everything below one folder below another.
pub(super) fn copy(from: &Path, to: &Path) {
    for name in files(from) {
        let target = to.join(&name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&name), target).unwrap();
    }
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs a command to its end; tells what it said, and its memory at the highest, with all that it began.
pub(super) fn watched(mut command: Command) -> (Said, u64) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |from: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    std::thread::scope(|scope| {
        let (out, err) = (scope.spawn(move || read(&mut out)), scope.spawn(move || read(&mut err)));
        let mut peak = 0;
        let status = loop {
            // The highest never falls, so the last look counts.
            if let Ok((_, highest)) = memory_of_all(child.id()) {
                peak = peak.max(highest);
            }
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let (out, err) = (out.join().unwrap(), err.join().unwrap());
        (Said { code: status.code().unwrap_or(-1), out, err }, peak)
    })
}

/// Whether a text can do nothing to a terminal.
pub(super) fn is_tame(text: &str) -> bool {
    !text.chars().any(|it| it.is_control() && !matches!(it, '\n' | '\t'))
}

/// Whether a file below a folder has forged words.
pub(super) fn has_forged(folder: &Path) -> bool {
    let is_forged = |name: &String| {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        bytes.windows(FORGED.len()).any(|window| window == FORGED.as_bytes())
    };
    files(folder).iter().any(is_forged)
}

/// Whether a command withstood an attack.
fn withstood(must_refuse: bool, scene: &Scene, said: &Said) -> bool {
    let is_clean = is_tame(&said.out) && is_tame(&said.err) && !said.out.contains(FORGED);
    (!must_refuse || said.code != 0) && is_clean && !has_forged(&scene.home.path(""))
}

/// A segment in plain that claims what it likes.
fn segment(id: &str, claimed: (u64, u64), body: &[u8]) -> Vec<u8> {
    let mut head = Vec::from(&b"ufr1\0"[..]);
    for part in ["default", "main", id, ""] {
        head.extend((part.len() as u16).to_le_bytes());
        head.extend(part.as_bytes());
    }
    for number in [0, 0, claimed.0, claimed.1] {
        head.extend(number.to_le_bytes());
    }
    head.extend([0; 64]);
    [&(head.len() as u16).to_le_bytes(), &head[..], body].concat()
}

/// A frame of zstd that stands for 128 KiB of zeros in a few bytes, again and again: four gigabytes in half a megabyte.
fn frames(count: usize) -> Vec<u8> {
    let block = |is_last: u32| ((128 << 10) << 3 | 1 << 1 | is_last).to_le_bytes()[..3].to_vec();
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for number in 0..8 {
        frame.extend(block(u32::from(number == 7)));
        frame.push(0);
    }
    frame.repeat(count)
}

/// Bytes that no packer makes shorter, as a frame of zstd: blocks that are stored as they are, and a window as large as one may ask for.
fn noise(length: usize) -> Vec<u8> {
    // One entry, a line; behind it there is a line feed.
    let (mut plain, line) = (vec![0], length - 1);
    let mut number = line;
    while number >= 0x80 {
        plain.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    plain.push(number as u8);
    let mut state = 1_u64;
    plain.extend((0..line).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    }));
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3];
    let blocks = plain.chunks(128 << 10);
    let last = blocks.len() - 1;
    for (at, block) in blocks.enumerate() {
        let head = (block.len() as u32) << 3 | u32::from(at == last);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}
