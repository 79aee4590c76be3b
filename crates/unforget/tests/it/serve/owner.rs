//! The owner's doors from outside: what a start prints, the links, the browser that is opened, and tokens that a running server takes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;

use unforget_testkit::serving::until;

use super::{PATIENCE, SERVE, serve};
use crate::scene::Scene;

/// Kills what was started when the test ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Sends one request, whose head has more lines; its status, its head and its body. The status of a closed connection is 0.
pub(crate) fn ask(url: &str, line: &str, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    drop(stream.write_all(request.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), answer)
}

/// Exchanges the code of a link for a cookie, as the page does.
pub(crate) fn follow(url: &str, code: &str) -> (u16, String) {
    let host = url.strip_prefix("http://").unwrap();
    let head = format!("Host: {host}\r\nOrigin: {url}\r\nContent-Type: application/json\r\n");
    ask(url, "POST /v1/login", &head, &format!("{{\"link\":\"{code}\"}}"))
}

#[test]
fn s4_a_start_prints_a_link_that_works_once_and_where_programs_come_in() {
    let scene = Scene::offline();
    let mut child = Started(scene.command(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.by_ref().take(5).collect();
    let url = said[0].strip_prefix("serving ").unwrap().split(' ').next().unwrap();
    assert!(said[0].contains(" for its owner; "), "{said:?}");
    let link = said[1].strip_prefix("open ").unwrap();
    let code = link.strip_prefix(&format!("{url}/#link=")).unwrap();
    assert!(said[2].contains("once, within 15 minutes"), "{said:?}");
    let file = said[3].strip_prefix("programs send the token in ").unwrap();
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(said[4].contains("server/owner.sock"), "{said:?}");
    assert_eq!((follow(url, code).0, follow(url, code).0), (200, 401));
    // Another link for the server that runs, and for none that does not.
    let printed = scene.run(&["serve", "--link"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let other = printed.out.trim_end().strip_prefix(&format!("{url}/#link=")).unwrap().to_owned();
    assert!(follow(url, &other).1.contains("HttpOnly; SameSite=Strict"));
    drop(child);
    let printed = scene.run(&["serve", "--link"]);
    assert_eq!((printed.code, printed.out.as_str()), (1, ""), "{printed:?}");
    assert!(printed.err.contains("no server answers") && printed.err.contains("`unforget serve`"), "{printed:?}");
}

#[test]
fn s4_a_browser_is_shown_a_file_and_no_argument_has_the_link() {
    let scene = Scene::offline();
    let (browser, seen) = (scene.home.path("browser"), scene.home.path("seen"));
    let script =
        format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {0}.new\ncat \"$1\" >> {0}.new\nmv {0}.new {0}\n", seen.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o700)).unwrap();
    let scene = scene.with("BROWSER", browser.to_str().unwrap());
    let server = serve(&scene, &["--open"]);
    assert!(until(PATIENCE, || seen.exists()));
    let text = std::fs::read_to_string(&seen).unwrap();
    let (argument, page) = text.split_once('\n').unwrap();
    let file = scene.home.path("home/server/open.html");
    assert_eq!(argument, file.to_str().unwrap());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let code = page.split("#link=").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(follow(&server.url, code).0, 200);
}

#[test]
fn b11_a_token_is_taken_at_once_by_a_server_that_runs() {
    let scene = Scene::offline();
    let add = |name: &str| {
        let said = scene.run(&["token", "add", name]);
        assert_eq!(said.code, 0, "{said:?}");
        said.out.trim_end().to_owned()
    };
    let me = |url: &str, token: &str| {
        let host = url.strip_prefix("http://").unwrap();
        ask(url, "GET /v1/me", &format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n"), "")
    };
    let first = add("ada");
    let server = serve(&scene, &[]);
    for name in ["bob", "eve", "mallory", "trent"] {
        // The server has just looked.
        assert_eq!(me(&server.url, &first).0, 200);
        let token = add(name);
        let (status, answer) = me(&server.url, &token);
        assert!(status == 200 && answer.contains(&format!("\"actor\":\"{name}\"")), "{answer}");
    }
}

#[test]
fn s8_any_host_is_for_a_runtime_that_was_named() {
    let scene = Scene::offline();
    let said = scene.run(&[&SERVE[..], &["--allow-host", "*"]].concat());
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("any host"), "{said:?}");
    let check = scene.run(&["serve", "--check", "--listen", "0.0.0.0:8080", "--trust-runtime-headers"]);
    let line = check.out.lines().find(|line| line.contains("0.0.0.0:8080")).unwrap();
    assert!(!line.trim_start().starts_with("ok"), "{line}");
    assert!(check.out.contains("goes by localhost:8080"), "{check:?}");
}
