//! A neighbour: another user of the same machine, who reaches 127.0.0.1 and the file system and wants to be the owner.
//!
//! Where the test runs as root, the attacks are those of a thread that has become another user; elsewhere those of somebody who has not got
//! the secret. The owner's browser, which a page elsewhere uses against the owner (DNS rebinding, a foreign origin), is the other attacker here.

use std::fs::{OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use unforget_testkit::attacks::{Tally, memory_of, skip};
use unforget_testkit::serving::owner_token;

use super::remote::watched;
use crate::scene::Scene;
use crate::serve::owner::{ask, follow};
use crate::serve::{PATIENCE, Person, SERVE, serve, session};
use crate::support::Said;

/// Somebody who is neither root nor the owner.
const NEIGHBOUR: u32 = 65534;
/// What only the owner may know.
const WORD: &str = "marzipan";
const USER: &str = "x-amzn-bedrock-agentcore-runtime-user-id";

/// Does something as another user, if this one may become one; it is told whether.
fn as_neighbour<T: Send>(attack: impl FnOnce(bool) -> T + Send) -> T {
    let become_other = || {
        let (user, group) = (Uid::from_raw(NEIGHBOUR), Gid::from_raw(NEIGHBOUR));
        geteuid().is_root()
            && set_thread_groups(&[]).is_ok()
            && set_thread_res_gid(group, group, group).is_ok()
            && set_thread_res_uid(user, user, user).is_ok()
    };
    // The ids are those of the thread, and end with it.
    std::thread::scope(|scope| scope.spawn(|| attack(become_other())).join().unwrap())
}

/// Opens a WebSocket and asks for a session; what is heard until the end.
fn watch(url: &str, head: &str, id: &str) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /ws HTTP/1.1\r\n{head}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let message = format!("{{\"type\":\"attach\",\"session_id\":\"{id}\"}}");
    let frame = [&[0x81, 0x80 | u8::try_from(message.len()).unwrap(), 0, 0, 0, 0], message.as_bytes()].concat();
    drop(stream.write_all(&frame));
    // Half of what ends a WebSocket is the client's.
    drop(stream.shutdown(std::net::Shutdown::Write));
    let mut heard = Vec::new();
    drop(stream.read_to_end(&mut heard));
    String::from_utf8_lossy(&heard).into_owned()
}

/// Whether the owner's socket lets nobody in: there is no connection, or one that hears nothing.
fn is_silent(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return true };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(stream.write_all(b"GET /v1/me HTTP/1.0\r\nHost: localhost\r\n\r\n"));
    let mut heard = Vec::new();
    drop(stream.read_to_end(&mut heard));
    heard.is_empty()
}

/// What a command hears at the owner's socket, if it runs as the sandbox runs it: as the owner, and never with more privileges.
fn heard_by_a_command(socket: &Path) -> String {
    let code = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                s.sendall(b'GET /v1/sessions HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n')\n\
                print(b''.join(iter(lambda: s.recv(4096), b'')).decode())";
    let mut command = std::process::Command::new("setpriv");
    let output = command.args(["--no-new-privs", "python3", "-c", code]).arg(socket).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Without a secret, and with secrets that are none.
fn over_the_network(url: &str, id: &str, near_miss: &str) -> Vec<(String, bool)> {
    let host = url.strip_prefix("http://").unwrap();
    let showing = [
        String::new(),
        format!("Authorization: Bearer {near_miss}\r\n"),
        format!("{USER}: owner\r\n"),
        "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-User: owner\r\n".to_owned(),
        format!("Cookie: unforget_token={near_miss}\r\nX-Unforget-Page: 1\r\n"),
        format!("Origin: {url}\r\nX-Unforget-Page: 1\r\n"),
    ];
    let asking = [
        ("GET /v1/sessions".to_owned(), ""),
        (format!("GET /v1/search?q={WORD}"), ""),
        (format!("GET /v1/sessions/{id}/records"), ""),
        (format!("DELETE /v1/sessions/{id}"), ""),
        ("POST /invocations".to_owned(), r#"{"prompt":"mine now"}"#),
        ("POST /v1/links".to_owned(), ""),
        ("GET /metrics".to_owned(), ""),
    ];
    let mut tried = Vec::new();
    for shown in &showing {
        let head = format!("Host: {host}\r\nContent-Type: application/json\r\n{shown}");
        for (line, body) in &asking {
            let (status, answer) = ask(url, line, &head, body);
            tried.push((
                format!("{line} with {shown:?}: {status}"),
                matches!(status, 401 | 429) && !answer.contains(WORD),
            ));
        }
        let heard = watch(url, &head, id);
        tried.push((format!("a WebSocket with {shown:?}"), !heard.contains(WORD) && !heard.contains("\"attached\"")));
    }
    for guess in ["", "link", near_miss, &"A".repeat(43)] {
        tried.push((format!("the link {guess:?}"), matches!(follow(url, guess).0, 401 | 429)));
    }
    tried
}

/// What the file system would give away.
fn over_files(scene: &Scene, process: u32, id: &str) -> Vec<(String, bool)> {
    let folder = scene.home.path("home/server");
    let (file, socket) = (folder.join("owner.token"), folder.join("owner.sock"));
    let elsewhere = std::env::temp_dir().join(format!("neighbour-{process}"));
    let tried = [
        ("read the token", std::fs::read(&file).is_err()),
        ("write the token", OpenOptions::new().write(true).open(&file).is_err()),
        ("remove the token", std::fs::remove_file(&file).is_err()),
        ("give the token a second name", std::fs::hard_link(&file, &elsewhere).is_err()),
        ("put another token in its place", std::fs::write(folder.join("owner.new"), "uft_").is_err()),
        ("take the socket's place", std::fs::remove_file(&socket).is_err()),
        ("talk to the socket", is_silent(&socket)),
        ("read the transcript", std::fs::read(scene.home.transcript(id)).is_err()),
        ("read the server's environment", std::fs::read(format!("/proc/{process}/environ")).is_err()),
        ("read the server's memory", std::fs::File::open(format!("/proc/{process}/mem")).is_err()),
    ];
    tried.map(|(name, is_refused)| (name.to_owned(), is_refused)).to_vec()
}

/// The owner's browser, with the owner's cookie, led here by somebody else's page.
fn over_the_browser(url: &str, id: &str, token: &str) -> Vec<(String, bool)> {
    let host = url.strip_prefix("http://").unwrap();
    let port = host.rsplit(':').next().unwrap();
    let cookie = format!("Cookie: unforget_token={token}\r\nX-Unforget-Page: 1\r\n");
    let heads = [
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("Host: localhost.:{port}\r\nHost: evil.example\r\n"),
        format!("Host: {host}\r\nOrigin: https://evil.example\r\n"),
        format!("Host: {host}\r\nOrigin: http://127.0.0.1:1\r\n"),
        format!("Host: {host}\r\nOrigin: null\r\n"),
    ];
    let mut tried = Vec::new();
    for head in &heads {
        for shown in [cookie.clone(), format!("Authorization: Bearer {token}\r\n")] {
            let head = format!("{head}{shown}Content-Type: application/json\r\n");
            let (status, answer) = ask(url, &format!("GET /v1/search?q={WORD}"), &head, "");
            tried.push((
                format!("a page elsewhere, {head:?}: {status}"),
                matches!(status, 400 | 403) && !answer.contains(WORD),
            ));
            let heard = watch(url, &head, id);
            tried.push((
                format!("its WebSocket, {head:?}"),
                !heard.starts_with("HTTP/1.1 101") && !heard.contains(WORD),
            ));
        }
    }
    tried
}

#[test]
fn s4_a_neighbour_of_the_owner_gets_nothing() {
    let scene = Scene::offline();
    let server = serve(&scene, &[]);
    let (url, process) = (server.url.clone(), server.id());
    let token = owner_token(&url).unwrap();
    let mut owner = Person::at(&url);
    owner.prompt(None, "first", WORD);
    let id = session(&owner.until_type("done"));
    let before = std::fs::read(scene.home.transcript(&id)).unwrap();
    let link = scene.run(&["serve", "--link"]).out;
    let code = link.trim_end().split_once("#link=").unwrap().1;
    let near_miss = format!("{}{}", &token[..token.len() - 1], if token.ends_with('A') { 'B' } else { 'A' });
    let (idle, _) = memory_of(process).unwrap();
    // Files are no door where this user may not become another one.
    let over_files_twice = if as_neighbour(|is_other| is_other) { 2 * 10 } else { 0 };
    let mut tally = Tally::new("owner-neighbour", 6 * 8 + 4 + over_files_twice + 1 + 7 * 4 + 1 + 1);
    let mut note = |tried: Vec<(String, bool)>| {
        for (name, is_refused) in tried {
            tally.attack(&name, is_refused);
        }
    };
    note(as_neighbour(|_| over_the_network(&url, &id, &near_miss)));
    let files = || as_neighbour(|is_other| if is_other { over_files(&scene, process, &id) } else { Vec::new() });
    note(files());
    let heard = heard_by_a_command(&scene.home.path("home/server/owner.sock"));
    note(vec![("a command of the model at the socket".to_owned(), heard.starts_with("HTTP/1.0 401"))]);
    // The same where the owner has opened the folders, and the socket itself.
    for name in ["", "home", "home/server"] {
        std::fs::set_permissions(scene.home.path(name), Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(scene.home.path("home/server/owner.sock"), Permissions::from_mode(0o666)).unwrap();
    note(files());
    note(over_the_browser(&url, &id, &token));
    // The arguments of a process are for everybody to see.
    let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap();
    let arguments = String::from_utf8_lossy(&arguments);
    note(vec![("read the arguments".to_owned(), !arguments.contains(&token) && !arguments.contains(code))]);
    // A link that the owner has used.
    assert_eq!(follow(&url, code).0, 200);
    note(vec![("use a link again".to_owned(), as_neighbour(|_| matches!(follow(&url, code).0, 401 | 429)))]);
    assert_eq!(std::fs::read(scene.home.transcript(&id)).unwrap(), before);
    // So many wrong tokens from this address have not locked the owner out.
    let mut owner = Person::at(&url);
    owner.prompt(Some(&id), "second", "hello");
    assert_eq!(owner.answer("second")["type"], "done");
    tally.memory(memory_of(process).unwrap().1.saturating_sub(idle));
    tally.finish().unwrap();
}

#[test]
fn s4_a_token_that_a_neighbour_planted_is_refused() {
    let planted = format!("uft_{}\n", "a".repeat(43));
    let plant = |is_link: bool| {
        let scene = Scene::offline();
        let folder = scene.home.path("home/server");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("owner.token");
        let real = if is_link { scene.home.path("planted") } else { file.clone() };
        std::fs::write(&real, &planted).unwrap();
        std::fs::set_permissions(&real, Permissions::from_mode(0o600)).unwrap();
        match is_link {
            true => std::os::unix::fs::symlink(&real, &file).unwrap(),
            false => std::os::unix::fs::chown(&file, Some(NEIGHBOUR), None).unwrap(),
        }
        let (said, peak) = watched(scene.command(&SERVE));
        (said.code != 0 && said.out.is_empty() && said.err.contains("no file of this user"), peak)
    };
    let plants = if geteuid().is_root() { &[true, false][..] } else { &[true] };
    let mut tally = Tally::new("owner-planted", plants.len());
    for is_link in plants {
        let (is_refused, peak) = plant(*is_link);
        tally.attack(if *is_link { "a token behind a link" } else { "a token of another user" }, is_refused);
        // All that it took, because there is no such server that is idle.
        tally.memory(peak);
    }
    tally.finish().unwrap();
}

/// A place that every user of the machine may write to, and that is the neighbour's.
fn shared_place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(place.path(), Some(NEIGHBOUR), None).unwrap();
    place
}

/// What a neighbour puts where the owner will write, or read.
type Plant = (&'static str, fn(&Path, &Path) -> std::io::Result<()>);

/// The first object of a session, which a reader asks for first.
fn first_object(folder: &Path) -> std::path::PathBuf {
    folder.join("@").join(format!("{0:016x}{0:016x}", u64::MAX))
}

const PLANTS: [Plant; 6] = [
    ("a link in the place of a segment", |folder, secret| std::os::unix::fs::symlink(secret, first_object(folder))),
    ("a second name of the owner's file", |folder, secret| std::fs::hard_link(secret, first_object(folder))),
    ("a device without an end", |folder, _| std::os::unix::fs::symlink("/dev/zero", first_object(folder))),
    ("a pipe that nobody writes to", |folder, _| {
        std::process::Command::new("mkfifo").arg(first_object(folder)).status().map(drop)
    }),
    ("a socket", |folder, _| std::os::unix::net::UnixListener::bind(first_object(folder)).map(drop)),
    ("a folder in the place of a segment", |folder, _| std::fs::create_dir(first_object(folder))),
];

#[test]
fn s4_a_neighbour_in_a_shared_place_gets_nothing() {
    if !as_neighbour(|is_other| is_other) {
        return skip("owner-shared", "this user may not become another one");
    }
    let mut tally = Tally::new("owner-shared", 3 * PLANTS.len() + 5);
    let owner = Scene::offline();
    let secret = owner.home.write("secret", WORD);
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let id = owner.home.conversation("main:cli:ann", &["hello"]);
    // All that it took, because no such command is idle.
    let run = |tally: &mut Tally, scene: &Scene, name: &str, arguments: &[&str], is_safe: &dyn Fn(&Said) -> bool| {
        let (said, peak) = watched(scene.command(arguments));
        tally.attack(&format!("{name}: {said:?}"), is_safe(&said));
        tally.memory(peak);
    };
    for (name, plant) in PLANTS {
        let place = shared_place();
        let folder = place.path().join(format!("default/main/{id}"));
        let (url, secret) = (format!("file://{}", place.path().display()), secret.clone());
        as_neighbour(|_| {
            std::fs::create_dir_all(folder.join("@")).unwrap();
            // What the kernel refuses is refused.
            drop(plant(&folder, &secret));
        });
        for command in ["pull", "push", "sync"] {
            let fresh = Scene::offline();
            let scene = if command == "push" { &owner } else { &fresh };
            let arguments: &[&str] =
                if command == "sync" { &["sync", "--remote", &url] } else { &[command, &id, "--remote", &url] };
            let is_safe = |said: &Said| {
                let is_kept = std::fs::read_to_string(&secret).unwrap() == WORD;
                is_kept && !format!("{said:?}").contains(WORD) && !holds(&fresh.home.path("home"), WORD)
            };
            run(&mut tally, scene, &format!("{name} against {command}"), arguments, &is_safe);
        }
    }
    // A link in the place of a folder leads nothing to where the owner's files are.
    let (place, goal) = (shared_place(), owner.home.path("person"));
    std::fs::create_dir_all(&goal).unwrap();
    as_neighbour(|_| std::os::unix::fs::symlink(&goal, place.path().join("default")).unwrap());
    let url = format!("file://{}", place.path().display());
    let is_safe = |said: &Said| said.code != 0 && crate::support::files(&goal).is_empty();
    run(&mut tally, &owner, "a link in the place of a folder", &["push", &id, "--remote", &url], &is_safe);
    // What the owner has sent is the owner's.
    let place = shared_place();
    let url = format!("file://{}", place.path().display());
    let is_safe = |said: &Said| {
        let read = || as_neighbour(|_| crate::support::files(place.path()).len());
        said.code == 0 && std::panic::catch_unwind(read).unwrap_or_default() == 0
    };
    run(&mut tally, &owner, "look into what was sent", &["push", &id, "--remote", &url], &is_safe);
    // A key that somebody else chose.
    let key = owner.home.write("a.key", "ab".repeat(32));
    let key_file = key.display().to_string();
    let seal = ["push", &id, "--again", "--remote", &url, "--key-file", &key_file];
    for (name, mode, user) in [("writable", 0o666, 0), ("of the group", 0o620, 0), ("another user's", 0o600, NEIGHBOUR)]
    {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&key, Some(user), None).unwrap();
        let is_safe = |said: &Said| said.code != 0 && said.err.contains("the key in");
        run(&mut tally, &owner, &format!("a key that is {name}"), &seal, &is_safe);
    }
    tally.finish().unwrap();
}

/// Whether a file below a folder has a text.
fn holds(folder: &Path, text: &str) -> bool {
    let bytes = |name: &String| std::fs::read(folder.join(name)).unwrap_or_default();
    crate::support::files(folder).iter().any(|name| bytes(name).windows(text.len()).any(|it| it == text.as_bytes()))
}
