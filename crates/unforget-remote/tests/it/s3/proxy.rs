//! A proxy before a real S3 implementation that counts, refuses and tampers on request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request that was seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) bytes: usize,
}

/// What to answer instead of asking the server, to the next requests of a method.
#[derive(Debug, Clone)]
pub(super) struct Instead {
    pub(super) method: &'static str,
    pub(super) status: &'static str,
    pub(super) code: &'static str,
    /// Whether the server is asked all the same, and its answer thrown away.
    pub(super) is_done: bool,
}

/// A proxy. Requests pass one at a time: this server looks first and writes then, which is not how S3 does it.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    instead: Arc<Mutex<VecDeque<Instead>>>,
    hides: Arc<Mutex<Option<&'static str>>>,
    one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

impl Proxy {
    pub(super) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            seen: Arc::default(),
            instead: Arc::default(),
            hides: Arc::default(),
            one_at_a_time: Arc::default(),
        };
        let served = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = served.clone();
                tokio::spawn(async move { proxy.serve(client, to).await });
            }
        });
        proxy
    }

    /// What was seen since the last time.
    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    pub(super) fn answer(&self, instead: Instead, times: usize) {
        self.instead.lock().unwrap().extend(std::iter::repeat_n(instead, times));
    }

    /// Keeps a header from the server.
    pub(super) fn hide(&self, header: &'static str) {
        *self.hides.lock().unwrap() = Some(header);
    }

    /// Serves one request; a client that goes away is none of the proxy's business.
    async fn serve(&self, mut client: TcpStream, to: u16) -> Option<()> {
        let mut request = Vec::new();
        let head_len = loop {
            if let Some(at) = request.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if client.read_buf(&mut request).await.ok()? == 0 {
                return None;
            }
        };
        let head = String::from_utf8(request[..head_len].to_vec()).ok()?;
        let value = |name: &str| {
            let mut headers = head.lines().filter_map(|line| line.split_once(':'));
            headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
        };
        let len = value("content-length").map_or(0, |len| len.parse::<usize>().unwrap());
        while request.len() < head_len + len {
            if client.read_buf(&mut request).await.ok()? == 0 {
                return None;
            }
        }
        let mut words = head.split(' ').map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        self.seen.lock().unwrap().push(Seen { method: method.clone(), target, bytes: request.len() });
        let instead = self.instead.lock().unwrap().pop_front_if(|instead| instead.method == method);
        if instead.as_ref().is_none_or(|instead| instead.is_done) {
            let hidden = *self.hides.lock().unwrap();
            let is_passed = |line: &&str| {
                let name = line.split(':').next().unwrap_or_default();
                !name.eq_ignore_ascii_case("connection")
                    && !hidden.is_some_and(|hidden| name.eq_ignore_ascii_case(hidden))
            };
            let lines: Vec<&str> = head.trim_end().lines().filter(is_passed).collect();
            let passed = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
            let one = self.one_at_a_time.lock().await;
            let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            server.write_all(passed.as_bytes()).await.unwrap();
            server.write_all(&request[head_len..]).await.unwrap();
            let mut answer = Vec::new();
            server.read_to_end(&mut answer).await.unwrap();
            drop(one);
            if instead.is_none() {
                client.write_all(&answer).await.ok()?;
            }
        }
        if let Some(Instead { status, code, .. }) = instead {
            let body = format!("<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>");
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            client.write_all(format!("{head}{body}").as_bytes()).await.ok()?;
        }
        client.shutdown().await.ok()
    }
}
