//! How the owner of a server comes in: what is printed at the start, the browser that is opened, and a new link for a server that runs.
//!
//! A link goes to the terminal and into a file that only the owner can read, and nowhere else. A browser is not given the link itself but
//! the name of that file, which leads it on: the arguments of a program are for every user of the machine to see, and the first one who
//! opens a link is let in.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use unforget_core::medium::{self, Medium as _, Os};
use unforget_server::identity::owner::{LINK_MS, NewLink, Owner};
use unforget_server::serve::owner_socket::SOCKET_FILE;
use unforget_server::serve::{OwnerSocket, Server};

use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};

/// The file that leads a browser to the page.
const OPEN_FILE: &str = "server/open.html";
/// How long a server may take to make a link.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024;
/// What opens a page.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// What a server says when it has started.
pub(super) struct Started<'a> {
    pub(super) address: SocketAddr,
    /// None if the server is for others.
    pub(super) token_file: Option<&'a Path>,
    pub(super) owner_socket: Option<&'a OwnerSocket>,
    pub(super) link: Option<&'a NewLink>,
}

impl Started<'_> {
    pub(super) fn tell(&self, context: &Context, agents: &str) -> Result<()> {
        let Self { address, token_file, owner_socket, link } = self;
        let socket = owner_socket.map(OwnerSocket::place);
        if context.json {
            let mut line = json!({ "listening": format!("http://{address}") });
            let shown = |path: &Path| Value::from(path.display().to_string());
            let members = [
                ("token_file", token_file.map(shown)),
                ("socket", socket.map(shown)),
                ("link", link.map(|link| link.url.expose_secret().into())),
            ];
            for (name, value) in members {
                if let Some(value) = value {
                    line[name] = value;
                }
            }
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}")?;
            out.flush()?;
            return Ok(());
        }
        let who = if token_file.is_some() { "its owner" } else { "everybody with a token" };
        context.tell(&format!("serving http://{address} for {who}; agents: {agents}; Ctrl-C stops"))?;
        if let Some(link) = link {
            let minutes = LINK_MS / 60_000;
            let url = link.url.expose_secret();
            context.tell(&format!(
                "open {url}\n  in a browser: once, within {minutes} minutes; `unforget serve --link` prints another link"
            ))?;
        }
        if let Some(file) = token_file {
            context.tell(&format!("programs send the token in {}", file.display()))?;
        }
        if let Some(socket) = socket {
            context.tell(&format!("  or connect to {}, without a token", socket.display()))?;
        }
        Ok(())
    }
}

/// Listens at the owner's socket; goes on without one where the system has no room for its path.
pub(super) fn listen(
    context: &Context,
    runtime: &tokio::runtime::Runtime,
    server: &Server,
) -> Result<Option<OwnerSocket>> {
    let _entered = runtime.enter();
    match server.owner_socket() {
        Ok(socket) => Ok(Some(socket)),
        Err(error) => {
            let place = context.home.join(SOCKET_FILE);
            context.tell(&format!("note: there is no socket at {}: {error}", place.display()))?;
            Ok(None)
        }
    }
}

/// Prints a new link to the server that runs on this home.
pub(super) fn print_link(context: &Context, is_opened: bool) -> Result<Outcome> {
    let place = context.home.join(SOCKET_FILE);
    // Where the kernel marks all programs as confined, the socket alone does not do.
    let token = Owner::saved(&Os::new(context.home.clone()))?;
    let answer = ask(&place, token.as_ref()).map_err(|error| {
        let failure = Failure::new(format!("no server answers at {}: {error}", place.display()));
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => failure
                .hint("`unforget serve` starts one")
                .hint("`unforget --home DIR serve --link` asks one that runs on another home"),
            _ => failure,
        }
    })?;
    let (url, expires) = read(&answer)?;
    let mut out = anstream::stdout().lock();
    match context.json {
        true => writeln!(out, "{}", json!({ "link": url, "expires": expires }))?,
        false => writeln!(out, "{url}")?,
    }
    if is_opened {
        open_browser(context, &url)?;
    }
    Ok(Outcome::Done)
}

/// Asks for a new link. The old version of HTTP keeps its answer in one piece.
fn ask(place: &Path, token: Option<&SecretString>) -> std::io::Result<Vec<u8>> {
    let shown = token.map(|token| format!("Authorization: Bearer {}\r\n", token.expose_secret())).unwrap_or_default();
    let head = format!("POST /v1/links HTTP/1.0\r\nHost: localhost\r\n{shown}Content-Length: 0\r\n\r\n");
    let mut stream = UnixStream::connect(place)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The link in an answer, and until when it works.
fn read(answer: &[u8]) -> Result<(String, String)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let member = |name: &str| body[name].as_str().map(str::to_owned);
    match (head.split(' ').nth(1), member("url"), member("expires")) {
        (Some("201"), Some(url), Some(expires)) => Ok((url, expires)),
        _ => {
            let why = body["error"]["message"].as_str().unwrap_or("its answer is not understood");
            Err(Failure::new(format!("the server made no link: {why}")))
        }
    }
}

/// Has the browser open the page by a link.
pub(super) fn open_browser(context: &Context, url: &str) -> Result<()> {
    let home = Os::new(context.home.clone());
    // A link has letters, digits and a few signs that mean nothing in HTML.
    let text = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><title>unforget</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">unforget</a>\n"
    );
    medium::replace_durable(&home, Path::new(OPEN_FILE), text.as_bytes())?;
    let place = std::path::absolute(context.home.join(OPEN_FILE))?;
    let program = std::env::var_os("BROWSER").filter(|name| !name.is_empty()).unwrap_or_else(|| OPENER.into());
    let mut command = Command::new(&program);
    command.arg(&place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => {
            // It is waited for, so that it is not left as a zombie; how it ends is its own business.
            std::thread::spawn(move || child.wait().is_ok());
            Ok(())
        }
        Err(error) => {
            let program = program.display();
            context.tell(&format!("note: `{program}` cannot be started: {error}; open the link yourself"))
        }
    }
}

/// Removes the file that led a browser to the page.
pub(super) fn forget_browser(context: &Context) {
    match Os::new(context.home.clone()).remove(Path::new(OPEN_FILE)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, file = OPEN_FILE, "the file with the browser's link is left behind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_link_says_why() {
        let good = b"HTTP/1.0 201 Created\r\na: b\r\n\r\n{\"url\":\"http://x/#link=y\",\"expires\":\"z\"}";
        assert_eq!(read(good).unwrap(), ("http://x/#link=y".to_owned(), "z".to_owned()));
        for wrong in [b"".as_slice(), b"HTTP/1.0 201 Created\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n{}", b"\xff\xff"] {
            assert!(read(wrong).is_err());
        }
        let refused = b"HTTP/1.0 403 Forbidden\r\n\r\n{\"error\":{\"code\":\"forbidden\",\"message\":\"not you\"}}";
        assert!(format!("{:?}", read(refused)).contains("not you"));
    }
}
