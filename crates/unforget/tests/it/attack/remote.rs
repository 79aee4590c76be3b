//! A remote whose operator reads, forges, replays and cuts what it keeps, against the commands that ask it.
//!
//! A writer leaves a session at a directory or a database. Each attack changes what lies there, and every command is run by a machine that never saw it. An
//! attack is refused if the command fails, or if it has nothing to do with what was forged; in no case may forged words arrive on the machine,
//! escapes reach the terminal, or memory grow.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::medium::Os;
use unforget_remote::file::Directory;
use unforget_remote::{Remote, Stream, lease};
use unforget_testkit::attacks::{Tally, memory_of};
use unforget_testkit::servers::postgres::shared;

use crate::scene::Scene;
use crate::support::{Home, Said, files};

/// Words that no attack may bring to a machine.
const FORGED: &str = "forged by the operator";
const KEY: &str = "main:cli:ann";
/// What a hostile text would do to a terminal.
const ESCAPE: &str = "\u{1b}]0;pwned\u{7}";

/// What a command does in an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// End with an error.
    Refuse,
    /// Take nothing forged; how it ends is its own business.
    TakeNothing,
}
use Must::{Refuse, TakeNothing};

/// The commands, in the order of the columns of the tables.
const COMMANDS: [&str; 6] = ["pull", "pull by key", "sync", "remote ls", "remote verify", "chat"];

fn arguments<'a>(command: &str, id: &'a str) -> Vec<&'a str> {
    match command {
        "pull" => vec!["pull", id],
        "pull by key" => vec!["pull", KEY],
        "sync" => vec!["sync"],
        "remote ls" => vec!["remote", "ls"],
        "remote verify" => vec!["remote", "verify"],
        _ => vec!["chat", "-p", "hello", "--session", id],
    }
}

/// What a writer left, and what an operator has to attack it with.
struct Ground {
    writer: Home,
    id: String,
    /// The remote as it was before the last words.
    older: tempfile::TempDir,
    place: tempfile::TempDir,
    /// The same session with forged words, in plain.
    forged: tempfile::TempDir,
    key: Option<PathBuf>,
}

impl Ground {
    fn new(is_sealed: bool) -> Self {
        let writer = Home::new();
        let [older, place, forged] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let key = is_sealed.then(|| writer.write("remote.key", "ab".repeat(32)));
        let id = writer.conversation(KEY, &["one"]);
        for word in ["two", "three"] {
            send(&writer, place.path(), key.as_deref(), &id);
            copy(place.path(), older.path());
            say(&writer, &id, word);
        }
        send(&writer, place.path(), key.as_deref(), &id);
        let forger = Home::new();
        copy(&writer.path("home/agents"), &forger.path("home/agents"));
        say(&forger, &id, FORGED);
        send(&forger, forged.path(), None, &id);
        Self { writer, id, older, place, forged, key }
    }

    /// A copy of the remote that an attack may change.
    fn remote(&self) -> tempfile::TempDir {
        let remote = tempfile::tempdir().unwrap();
        copy(self.place.path(), remote.path());
        remote
    }

    fn session(&self) -> String {
        format!("default/main/{}", self.id)
    }

    fn stream(&self) -> Stream {
        Stream::new("default", "main", &self.id).unwrap()
    }

    /// The segments of the session, the newest first.
    fn segments(&self, remote: &Path) -> Vec<PathBuf> {
        let folder = remote.join(self.session()).join("@");
        files(&folder).into_iter().map(|name| folder.join(name)).collect()
    }
}

fn send(home: &Home, place: &Path, key: Option<&Path>, id: &str) {
    let url = format!("file://{}", place.display());
    let mut command = home.command();
    command.env("HOME", home.path("person")).args(["push", id, "--remote", &url]);
    key.map(|key| command.arg("--key-file").arg(key));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn say(home: &Home, id: &str, text: &str) {
    let line = format!("{{\"type\":\"user\",\"content\":\"{text}\"}}\n");
    assert_eq!(home.feed(&["append", id], &line).code, 0);
}

/// Puts everything below one folder below another.
fn copy(from: &Path, to: &Path) {
    for name in files(from) {
        let target = to.join(&name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&name), target).unwrap();
    }
}

/// Puts a folder of one remote in the place of another's.
fn swap(from: &Path, to: &Path, folder: &str) {
    if to.join(folder).exists() {
        std::fs::remove_dir_all(to.join(folder)).unwrap();
    }
    std::fs::create_dir_all(to.join(folder)).unwrap();
    copy(&from.join(folder), &to.join(folder));
}

fn plainly(place: &Path) -> impl Remote + use<> {
    Directory::new(Arc::new(Os::new(place))).remote()
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs a command to its end; tells what it said, and its memory at the highest.
fn watched(mut command: Command) -> (Said, u64) {
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
            if let Ok((_, highest)) = memory_of(child.id()) {
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

/// A machine that never saw the remote, at work.
fn visit(url: &str, key: Option<&Path>, command: &str, id: &str) -> (Scene, Said, u64) {
    let scene = Scene::offline();
    let mut all = arguments(command, id);
    all.extend(["--remote", url]);
    let key = key.map(|key| key.display().to_string());
    all.extend(key.iter().flat_map(|key| ["--key-file", key.as_str()]));
    let (said, peak) = watched(scene.command(&all));
    (scene, said, peak)
}

/// Whether a command withstood an attack.
fn withstood(must: Must, scene: &Scene, said: &Said) -> bool {
    let home = scene.home.path("home");
    let is_forged = |name: &String| {
        let bytes = std::fs::read(home.join(name)).unwrap_or_default();
        bytes.windows(FORGED.len()).any(|window| window == FORGED.as_bytes())
    };
    let is_clean = !said.out.contains('\u{1b}') && !said.err.contains('\u{1b}') && !said.out.contains(FORGED);
    let is_refused = must == TakeNothing || said.code != 0;
    is_refused && is_clean && !files(&home).iter().any(is_forged)
}

type Attack = (&'static str, fn(&Ground, &Path), [Must; 6]);

/// Puts every attack to every command.
fn put_to(suite: &str, ground: &Ground, attacks: &[Attack]) {
    let mut tally = Tally::new(suite);
    let idle = COMMANDS.map(|command| {
        let remote = ground.remote();
        let url = format!("file://{}", remote.path().display());
        let (_, said, peak) = visit(&url, ground.key.as_deref(), command, &ground.id);
        assert_eq!(said.code, 0, "{command} where nothing is wrong: {said:?}");
        peak
    });
    for (name, attack, must) in attacks {
        let remote = ground.remote();
        attack(ground, remote.path());
        let url = format!("file://{}", remote.path().display());
        for ((command, must), idle) in COMMANDS.iter().zip(must).zip(idle) {
            let (scene, said, peak) = visit(&url, ground.key.as_deref(), command, &ground.id);
            let is_refused = withstood(*must, &scene, &said);
            if !is_refused {
                println!("{name} against {command}: {said:?}");
            }
            tally.attack(&format!("{name} against {command}"), is_refused);
            tally.memory(peak.saturating_sub(idle));
        }
    }
    tally.finish().unwrap();
}

fn plain_session(ground: &Ground, remote: &Path) {
    swap(ground.forged.path(), remote, &ground.session());
}

fn plain_everything(ground: &Ground, remote: &Path) {
    std::fs::remove_dir_all(remote.join("default")).unwrap();
    copy(ground.forged.path(), remote);
}

fn plain_pointer(ground: &Ground, remote: &Path) {
    swap(ground.forged.path(), remote, "default/main/%40key");
}

fn plain_tail(ground: &Ground, remote: &Path) {
    // The operator knows the words, and so the digest: the forged lines go on from the genuine ones.
    let (from, to) = (ground.segments(ground.forged.path()), ground.segments(remote));
    let newest = from.first().unwrap();
    std::fs::copy(newest, to[0].parent().unwrap().join(newest.file_name().unwrap())).unwrap();
}

fn plain_lease(ground: &Ground, remote: &Path) {
    let (remote, stream) = (plainly(remote), ground.stream());
    wait(lease::acquire(&remote, &stream, FORGED, 1, Duration::from_secs(1 << 40))).unwrap();
}

fn plain_mark(_: &Ground, remote: &Path) {
    let mark = Stream::new("default", "@unforget", "@sealed").unwrap();
    wait(plainly(remote).delete(&mark)).unwrap();
    let line = Bytes::from(format!("{{\"sealed\":\"{FORGED}\"}}"));
    wait(plainly(remote).append(&mark, &Frontier::default(), &[line])).unwrap();
}

fn cut_tail(ground: &Ground, remote: &Path) {
    std::fs::remove_file(&ground.segments(remote)[0]).unwrap();
}

fn gap(ground: &Ground, remote: &Path) {
    std::fs::remove_file(&ground.segments(remote)[1]).unwrap();
}

fn replay(ground: &Ground, remote: &Path) {
    swap(ground.older.path(), remote, &format!("{}/@", ground.session()));
}

fn another_position(ground: &Ground, remote: &Path) {
    let segments = ground.segments(remote);
    std::fs::copy(&segments[1], &segments[0]).unwrap();
}

fn another_session(ground: &Ground, remote: &Path) {
    let other = Home::new();
    let id = other.conversation(KEY, &[FORGED]);
    send(&other, remote, ground.key.as_deref(), &id);
    std::fs::remove_dir_all(remote.join(ground.session())).unwrap();
    std::fs::create_dir_all(remote.join(ground.session())).unwrap();
    copy(&remote.join(format!("default/main/{id}")), &remote.join(ground.session()));
    // What is left is the session under another's name.
    std::fs::remove_dir_all(remote.join(format!("default/main/{id}"))).unwrap();
    swap(ground.place.path(), remote, "default/main/%40key");
}

fn changed_byte(ground: &Ground, remote: &Path) {
    let path = &ground.segments(remote)[0];
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn s1_a_hostile_directory_with_a_key() {
    let ground = Ground::new(true);
    let all = [Refuse; 6];
    let but_ls = [Refuse, Refuse, Refuse, TakeNothing, Refuse, Refuse];
    let verify = [TakeNothing, TakeNothing, TakeNothing, TakeNothing, Refuse, TakeNothing];
    let by_key = [TakeNothing, Refuse, TakeNothing, TakeNothing, Refuse, TakeNothing];
    put_to(
        "remote-directory-sealed",
        &ground,
        &[
            ("plain for sealed", plain_session, all),
            ("plain for everything", plain_everything, all),
            ("plain tail", plain_tail, but_ls),
            ("forged pointer", plain_pointer, by_key),
            ("forged lease", plain_lease, verify),
            ("forged mark", plain_mark, verify),
            ("cut tail", cut_tail, but_ls),
            ("gap", gap, but_ls),
            ("replay", replay, but_ls),
            ("another position", another_position, all),
            ("another session", another_session, all),
            ("changed byte", changed_byte, but_ls),
        ],
    );
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

/// Puts one segment in the place of all of a session's.
fn alone(ground: &Ground, remote: &Path, bytes: &[u8]) {
    for path in ground.segments(remote) {
        std::fs::remove_file(path).unwrap();
    }
    let first = remote.join(ground.session()).join("@").join(format!("{0:016x}{0:016x}", u64::MAX));
    std::fs::write(first, bytes).unwrap();
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

fn bomb_that_claims(ground: &Ground, remote: &Path) {
    alone(ground, remote, &segment(&ground.id, (1, 4 << 30), &frames(4096)));
}

fn bomb_that_hides(ground: &Ground, remote: &Path) {
    alone(ground, remote, &segment(&ground.id, (1, 20 << 20), &frames(4096)));
}

fn bomb_of_tiny_lines(ground: &Ground, remote: &Path) {
    // Every two zeros are an empty line.
    alone(ground, remote, &segment(&ground.id, (12 << 20, 12 << 20), &frames(24)));
}

fn object_of_gigabytes(ground: &Ground, remote: &Path) {
    let path = &ground.segments(remote)[0];
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(8 << 30).unwrap();
}

fn bad_names(ground: &Ground, remote: &Path) {
    let tenant = remote.join("default/main");
    for name in ["%2E%2E%2F%2E%2E%2Fevil", "%1B%5D0%3Bpwned%07", "..", "%00", "con", "-rf", &"a".repeat(200)] {
        let folder = if name == ".." { tenant.join("%2E%2E") } else { tenant.join(name) };
        std::fs::create_dir_all(folder.join("@")).unwrap();
        let object = segment(&format!("{ESCAPE}/../../{FORGED}"), (1, 10), b"no body");
        std::fs::write(folder.join("@").join(format!("{0:016x}{0:016x}", u64::MAX)), object).unwrap();
    }
    std::fs::write(tenant.join(format!("{ESCAPE}{}", ground.id)), FORGED).unwrap();
    std::fs::create_dir_all(tenant.join(ESCAPE).join("@")).unwrap();
}

#[test]
fn s7_a_hostile_directory_without_a_key() {
    let ground = Ground::new(false);
    let all = [Refuse; 6];
    let but_ls = [Refuse, Refuse, Refuse, TakeNothing, Refuse, Refuse];
    put_to(
        "remote-directory-plain",
        &ground,
        &[
            ("bomb that claims", bomb_that_claims, all),
            ("bomb that hides", bomb_that_hides, but_ls),
            ("bomb of tiny lines", bomb_of_tiny_lines, all),
            ("object of gigabytes", object_of_gigabytes, but_ls),
            ("cut tail", cut_tail, but_ls),
            ("gap", gap, but_ls),
            ("replay", replay, but_ls),
            ("changed byte", changed_byte, but_ls),
            ("bad names", bad_names, [TakeNothing; 6]),
        ],
    );
}

/// Runs statements as the database's owner.
fn sql(text: &str) {
    let server = shared();
    let output = Command::new("psql")
        .args(["-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
        .arg(&server.dir)
        .args(["-p", &server.port.to_string(), "-c", text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{text}: {output:?}");
}

type Statement = (&'static str, &'static str, [Must; 6]);

/// Attacks on a database by its owner; `{s}` is its schema, `{f}` one with the same session, forged and in plain.
const STATEMENTS: [Statement; 7] = [
    (
        "plain for sealed",
        "DELETE FROM {s}.segments WHERE life IN (SELECT life FROM {s}.streams WHERE session NOT LIKE '@%' AND side = '');
         INSERT INTO {s}.segments SELECT s.life, g.first_line, g.end_line, g.head, g.body FROM {f}.segments g JOIN {f}.streams f USING (life)
         JOIN {s}.streams s USING (tenant, place, session, side) WHERE session NOT LIKE '@%' AND side = ''",
        [Refuse; 6],
    ),
    (
        "forged pointer",
        "DELETE FROM {s}.segments WHERE life IN (SELECT life FROM {s}.streams WHERE session = '@key');
         INSERT INTO {s}.segments SELECT s.life, g.first_line, g.end_line, g.head, g.body FROM {f}.segments g JOIN {f}.streams f USING (life)
         JOIN {s}.streams s USING (tenant, place, session, side) WHERE session = '@key'",
        [TakeNothing, Refuse, TakeNothing, TakeNothing, Refuse, TakeNothing],
    ),
    (
        "cut tail",
        "DELETE FROM {s}.segments g USING {s}.streams s WHERE g.life = s.life AND s.side = '' AND s.session NOT LIKE '@%'
         AND g.first_line = (SELECT max(first_line) FROM {s}.segments m WHERE m.life = g.life)",
        [Refuse, Refuse, Refuse, TakeNothing, Refuse, Refuse],
    ),
    (
        "gap",
        "DELETE FROM {s}.segments g USING {s}.streams s WHERE g.life = s.life AND s.side = '' AND s.session NOT LIKE '@%'
         AND g.first_line > 0 AND g.first_line < (SELECT max(first_line) FROM {s}.segments m WHERE m.life = g.life)",
        [Refuse, Refuse, Refuse, TakeNothing, Refuse, Refuse],
    ),
    (
        "changed byte",
        "UPDATE {s}.segments SET body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1)",
        [Refuse, Refuse, Refuse, TakeNothing, Refuse, Refuse],
    ),
    (
        "body of gigabytes",
        "UPDATE {s}.segments g SET body = decode(repeat('00', 40 << 20), 'hex') FROM {s}.streams s
         WHERE g.life = s.life AND s.side = '' AND s.session NOT LIKE '@%'",
        [Refuse, Refuse, Refuse, TakeNothing, Refuse, Refuse],
    ),
    (
        "escapes in errors",
        "CREATE FUNCTION {s}.hostile() RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', E'\\x1b]0;pwned\\x07' USING ERRCODE = '22000'; END $$;
         ALTER TABLE {s}.segments RENAME TO kept_segments;
         CREATE VIEW {s}.segments AS SELECT life, first_line, end_line, {s}.hostile() AS head, body FROM {s}.kept_segments",
        [Refuse; 6],
    ),
];

#[test]
fn s1_a_hostile_database_with_a_key() {
    let mut tally = Tally::new("remote-postgres-sealed");
    let ground = Ground::new(true);
    let url = |schema: &str| shared().url(schema);
    let push = |home: &Home, schema: &str, key: Option<&Path>| {
        let mut command = home.command();
        command.env("HOME", home.path("person")).args(["push", &ground.id, "--again", "--remote", &url(schema)]);
        key.map(|key| command.arg("--key-file").arg(key));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let forger = Home::new();
    copy(&ground.writer.path("home/agents"), &forger.path("home/agents"));
    say(&forger, &ground.id, FORGED);
    push(&forger, "attack_forged", None);
    for (number, (name, statements, must)) in STATEMENTS.iter().enumerate() {
        let schema = format!("attack_{number}");
        // Turn by turn, so that there is something to cut.
        let writer = Home::new();
        copy(&ground.writer.path("home/agents"), &writer.path("home/agents"));
        for word in ["four", "five"] {
            push(&writer, &schema, ground.key.as_deref());
            say(&writer, &ground.id, word);
        }
        push(&writer, &schema, ground.key.as_deref());
        let (_, said, idle) = visit(&url(&schema), ground.key.as_deref(), "remote ls", &ground.id);
        assert_eq!(said.code, 0, "{said:?}");
        sql(&statements.replace("{s}", &schema).replace("{f}", "attack_forged"));
        for (command, must) in COMMANDS.iter().zip(must) {
            let (scene, said, peak) = visit(&url(&schema), ground.key.as_deref(), command, &ground.id);
            let is_refused = withstood(*must, &scene, &said);
            if !is_refused {
                println!("{name} against {command}: {said:?}");
            }
            tally.attack(&format!("{name} against {command}"), is_refused);
            tally.memory(peak.saturating_sub(idle));
        }
    }
    tally.finish().unwrap();
}
