//! Sessions that go to another machine and come back, by the commands alone.

use crate::support::{Home, Said};

/// Two machines and a place that both reach.
struct Machines {
    one: Home,
    two: Home,
    place: tempfile::TempDir,
}

impl Machines {
    fn new() -> Self {
        Self { one: Home::new(), two: Home::new(), place: tempfile::tempdir().unwrap() }
    }

    fn run(&self, home: &Home, args: &[&str]) -> Said {
        let url = format!("file://{}", self.place.path().display());
        let output = home.command().env("UNFORGET_REMOTE", url).env("HOME", home.path("person")).args(args).output();
        crate::scene::said(output.unwrap())
    }

    #[track_caller]
    fn ok(&self, home: &Home, args: &[&str]) -> Said {
        let said = self.run(home, args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said
    }
}

fn say(home: &Home, id: &str, text: &str) {
    let line = format!("{{\"type\":\"user\",\"content\":\"{text}\"}}\n");
    assert_eq!(home.feed(&["append", id], &line).code, 0);
}

#[test]
fn a_session_goes_on_on_another_machine_byte_for_byte() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["hello", "remember the pelican"]);
    machines.ok(one, &["push", &id]);
    machines.ok(two, &["pull", "main:cli:ann"]);
    let (here, there) = (std::fs::read(one.transcript(&id)).unwrap(), std::fs::read(two.transcript(&id)).unwrap());
    assert_eq!(here, there);
    say(two, &id, "and the heron");
    machines.ok(two, &["push", "main:cli:ann"]);
    machines.ok(one, &["pull", &id]);
    assert_eq!(std::fs::read(one.transcript(&id)).unwrap(), std::fs::read(two.transcript(&id)).unwrap());
    assert!(one.ok(&["show", &id]).contains("and the heron"));
}

#[test]
fn what_went_on_in_two_places_is_refused_and_both_are_kept() {
    for way in ["--fork", "--rebase"] {
        let machines = Machines::new();
        let Machines { one, two, .. } = &machines;
        let id = one.conversation("main:cli:ann", &["hello"]);
        machines.ok(one, &["push", &id]);
        machines.ok(two, &["pull", &id]);
        say(one, &id, "the pelican said here");
        say(two, &id, "the heron said there");
        machines.ok(two, &["push", &id]);
        let before = std::fs::read(one.transcript(&id)).unwrap();
        for command in ["push", "pull"] {
            let said = machines.run(one, &[command, &id]);
            assert_eq!(said.code, 3, "{said:?}");
            assert!(said.err.contains("went on differently"), "{said:?}");
        }
        assert_eq!(std::fs::read(one.transcript(&id)).unwrap(), before, "nothing was changed");
        machines.ok(one, &["pull", &id, way]);
        let trashed = one.ok(&["sessions", "--deleted", "--json"]);
        let trashed: serde_json::Value = serde_json::from_str(trashed.lines().next().unwrap()).unwrap();
        let said = one.run(&["undelete", trashed["id"].as_str().unwrap()]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("is an older copy of") && said.err.contains("unforget import"), "{said:?}");
        assert!(one.ok(&["show", &id]).contains("heron said there"), "{way}");
        let found = one.ok(&["search", "pelican"]);
        assert!(found.contains("said here"), "{way}: {found}");
        machines.ok(one, &["sync"]);
        machines.ok(two, &["sync"]);
        assert!(two.ok(&["search", "pelican"]).contains("said here"), "{way}");
    }
}

#[test]
fn a_remote_that_cannot_be_asked_is_not_an_empty_one() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["hello"]);
    machines.ok(one, &["push", &id]);
    let nobody = machines.run(two, &["pull", "main:cli:bob"]);
    assert_eq!(nobody.code, 1);
    assert!(nobody.err.contains("no session matches"), "{nobody:?}");
    let away = machines.run(two, &["pull", "main:cli:ann", "--remote", "postgres://me:s3cret@127.0.0.1:1/x"]);
    assert_eq!(away.code, 1);
    assert!(away.err.contains("cannot be reached") && !away.err.contains("s3cret"), "{away:?}");
}

#[test]
fn z16_what_is_sealed_is_read_with_its_key_only() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["remember the pelican"]);
    let key = one.path("remote.key");
    let key = key.to_str().unwrap();
    machines.ok(one, &["push", &id, "--encrypt", "--key-file", key]);
    let without = machines.run(two, &["pull", &id]);
    assert_eq!(without.code, 1);
    assert!(without.err.contains("sealed with a key, and none was given"), "{without:?}");
    let other = two.write("other.key", "7".repeat(64));
    let wrong = machines.run(two, &["pull", &id, "--key-file", other.to_str().unwrap()]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.err.contains("another key"), "{wrong:?}");
    assert_ne!(machines.run(two, &["show", &id]).code, 0, "nothing of it came");
    machines.ok(two, &["pull", &id, "--key-file", key]);
    assert!(two.ok(&["show", &id]).contains("pelican"));
}

#[test]
fn what_is_deleted_there_stays_here_and_is_sent_again_only_if_asked() {
    let machines = Machines::new();
    let one = &machines.one;
    let id = one.conversation("main:cli:ann", &["hello"]);
    machines.ok(one, &["push", &id]);
    machines.ok(one, &["remote", "rm", &id]);
    assert!(one.ok(&["show", &id]).contains("hello"));
    let said = machines.run(one, &["push", &id]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("was deleted there"), "{said:?}");
    machines.ok(one, &["push", &id, "--again"]);
    assert!(machines.ok(one, &["remote", "ls"]).out.contains(&id));
    let verified = machines.ok(one, &["--json", "remote", "verify"]).out;
    assert!(verified.contains("\"damaged\":0"), "{verified}");
}

#[test]
fn two_tenants_of_one_place_each_have_all_of_it() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["hello"]);
    machines.ok(one, &["push", &id, "--tenant", "ann"]);
    machines.ok(one, &["push", &id, "--tenant", "bob"]);
    assert_eq!(machines.run(two, &["pull", &id]).code, 1, "a third one has nothing");
    machines.ok(two, &["pull", &id, "--tenant", "bob"]);
    assert_eq!(std::fs::read(one.transcript(&id)).unwrap(), std::fs::read(two.transcript(&id)).unwrap());
}

#[test]
fn nothing_is_sent_open_to_where_others_seal() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["remember the pelican"]);
    let key = one.path("remote.key");
    let key = key.to_str().unwrap();
    machines.ok(one, &["push", &id, "--encrypt", "--key-file", key]);
    let other = two.conversation("main:cli:bob", &["a heron in the open"]);
    let said = machines.run(two, &["push", &other]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("sealed with a key, and none was given"), "{said:?}");
    let listed = machines.ok(one, &["remote", "ls", "--key-file", key]).out;
    assert!(listed.contains(&id) && !listed.contains(&other), "nothing of it is there: {listed}");
    // Who asks for sealing without the key is told to fetch it, and makes no other one.
    let missing = two.path("other.key");
    let said = machines.run(two, &["push", &other, "--encrypt", "--key-file", missing.to_str().unwrap()]);
    assert!(said.err.contains("sealed with a key that is not here"), "{said:?}");
    assert!(!missing.exists());
    machines.ok(two, &["push", &other, "--key-file", key]);
}

#[test]
fn a_copy_of_what_is_sealed_is_sealed() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["remember the pelican"]);
    let key = one.path("remote.key");
    let key = key.to_str().unwrap();
    machines.ok(one, &["push", &id, "--encrypt", "--key-file", key]);
    let elsewhere = format!("file://{}", one.path("elsewhere").display());
    std::fs::create_dir(one.path("elsewhere")).unwrap();
    machines.ok(one, &["remote", "copy", &elsewhere, "--key-file", key]);
    let open = machines.run(two, &["pull", &id, "--remote", &elsewhere]);
    assert!(open.err.contains("sealed with a key"), "{open:?}");
    machines.ok(two, &["pull", &id, "--remote", &elsewhere, "--key-file", key]);
    // Or with another key, for others.
    let theirs = one.write("theirs.key", format!("{}\n", "ab".repeat(32)));
    let theirs = theirs.to_str().unwrap();
    let third = format!("file://{}", one.path("third").display());
    std::fs::create_dir(one.path("third")).unwrap();
    machines.ok(one, &["remote", "copy", &third, "--key-file", key, "--to-key-file", theirs]);
    let wrong = machines.run(two, &["remote", "verify", "--remote", &third, "--key-file", key]);
    assert!(wrong.err.contains("another key"), "{wrong:?}");
    machines.ok(two, &["remote", "verify", "--remote", &third, "--key-file", theirs]);
}

#[test]
fn b2_push_without_arguments_sends_every_session_that_the_remote_lacks() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let ids: Vec<String> = (0..4).map(|number| one.conversation(&format!("main:cli:{number}"), &["hello"])).collect();
    let said = machines.ok(one, &["push"]);
    assert!(ids.iter().all(|id| said.out.contains(id)) && said.err.contains("4 sessions"), "{said:?}");
    assert!(machines.ok(one, &["push"]).err.contains("0 sessions"), "what is there is not sent again");
    say(one, &ids[2], "and more");
    let said = machines.ok(one, &["push"]);
    assert!(said.out.contains(&ids[2]) && said.err.contains("1 session,"), "{said:?}");
    // What was deleted there is not brought back.
    machines.ok(one, &["remote", "rm", &ids[0]]);
    machines.ok(one, &["push"]);
    let listed = machines.ok(two, &["remote", "ls"]).out;
    assert!(!listed.contains(&ids[0]) && listed.lines().count() == 3, "{listed}");
}

#[test]
fn s1_what_was_sent_in_plain_is_refused_and_named_until_it_is_migrated() {
    let machines = Machines::new();
    let Machines { one, two, .. } = &machines;
    let id = one.conversation("main:cli:ann", &["remember the pelican"]);
    machines.ok(one, &["push", &id]);
    let key = one.path("remote.key");
    let key = key.to_str().unwrap();
    std::fs::write(key, "ab".repeat(32)).unwrap();
    for command in [&["pull", &id][..], &["pull", "main:cli:ann"], &["sync"], &["remote", "ls"], &["remote", "verify"]]
    {
        let said = machines.run(two, &[command, &["--key-file", key]].concat());
        assert_eq!(said.code, 4, "{command:?}: {said:?}");
        assert!(said.err.contains("is not sealed") && said.err.contains("remote migrate"), "{command:?}: {said:?}");
    }
    assert_ne!(two.run(&["show", &id]).code, 0, "nothing of it came");
    let shown = machines.ok(one, &["remote", "migrate", "--dry-run", "--key-file", key]);
    assert!(shown.out.contains(&id) && shown.out.contains("same as local"), "{shown:?}");
    let asked = machines.run(one, &["remote", "migrate", "--key-file", key]);
    assert_eq!(asked.code, 2, "{asked:?}");
    let done = machines.ok(one, &["--json", "remote", "migrate", "--yes", "--key-file", key]);
    assert!(done.out.contains("\"dry_run\":false") && !done.out.contains("\"sealed\":0"), "{done:?}");
    let again = machines.ok(one, &["remote", "migrate", "--yes", "--key-file", key]);
    assert!(again.err.contains("nothing lies in plain"), "{again:?}");
    machines.ok(two, &["pull", "main:cli:ann", "--key-file", key]);
    assert_eq!(std::fs::read(one.transcript(&id)).unwrap(), std::fs::read(two.transcript(&id)).unwrap());
    say(one, &id, "and the heron");
    machines.ok(one, &["push", "--key-file", key]);
    machines.ok(one, &["remote", "verify", "--key-file", key]);
}

#[test]
fn s15_a_cut_tail_is_told_by_every_command_and_a_person_decides() {
    let machines = Machines::new();
    let Machines { one, two, place } = &machines;
    let id = one.conversation("main:cli:ann", &["remember the pelican"]);
    machines.ok(one, &["push", &id]);
    say(one, &id, "and the heron");
    machines.ok(one, &["push", &id]);
    let folder = place.path().join(format!("default/main/{id}/@"));
    let newest = crate::support::files(&folder).remove(0);
    std::fs::remove_file(folder.join(newest)).unwrap();
    for (home, command) in [
        (one, &["pull", &id][..]),
        (one, &["sync"]),
        (one, &["remote", "verify"]),
        (two, &["pull", &id]),
        (two, &["sync"]),
        (two, &["remote", "verify"]),
    ] {
        let said = machines.run(home, command);
        assert_eq!(said.code, 4, "{command:?}: {said:?}");
        assert!(said.err.contains("lost lines"), "{command:?}: {said:?}");
    }
    let fewer = machines.ok(two, &["pull", &id, "--accept-loss"]);
    assert!(fewer.out.contains("lines fetched"), "{fewer:?}");
    machines.ok(one, &["push", &id, "--again"]);
    machines.ok(two, &["pull", &id]);
    assert_eq!(std::fs::read(one.transcript(&id)).unwrap(), std::fs::read(two.transcript(&id)).unwrap());
    machines.ok(one, &["remote", "verify"]);
    // One that is gone altogether is missed as well.
    std::fs::remove_dir_all(place.path().join(format!("default/main/{id}"))).unwrap();
    let said = machines.run(one, &["remote", "verify"]);
    assert!(said.code == 4 && said.err.contains("is not there any more"), "{said:?}");
}

/// A service that refuses every request with words that a terminal would obey.
fn hostile_service() -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
                head.push(byte[0]);
            }
            let body = r#"{"message":"no \u001b]0;pwned\u0007 \u009b2J \u202e \u200b way"}"#;
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nx-amzn-ErrorType: ValidationException\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            // Who asked may have gone.
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    address
}

#[test]
fn s13_no_command_lets_the_words_of_a_remote_steer_the_terminal() {
    let address = hostile_service();
    let home = Home::new();
    home.conversation("main:cli:ann", &["hello"]);
    let mut told = 0;
    for command in [
        &["push"][..],
        &["pull", "main:cli:ann"],
        &["pull"],
        &["sync"],
        &["remote", "ls"],
        &["remote", "stat", "main:cli:ann"],
        &["remote", "verify"],
        &["chat", "-p", "hello"],
        &["claude", "save"],
    ] {
        for more in [&[][..], &["--json"], &["--log", "debug"], &["--json", "--log", "debug"]] {
            let output = home
                .command()
                .env("UNFORGET_REMOTE", "agentcore://notes-0123456789")
                .env("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", format!("http://{address}"))
                .envs([("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "key"), ("AWS_REGION", "us-east-1")])
                .env("HOME", home.path("person"))
                .args(command)
                .args(more)
                .output();
            let said = crate::scene::said(output.unwrap());
            let text = said.out + &said.err;
            // JSON may hold characters that leave no mark, which steer nothing.
            let steers = ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}'];
            assert!(!text.contains(steers), "{command:?} {more:?}: {text:?}");
            told += usize::from(text.contains("pwned"));
        }
    }
    assert!(told > 10, "the words reach a person, and are only shown: {told}");
}
