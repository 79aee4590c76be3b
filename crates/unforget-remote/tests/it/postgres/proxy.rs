//! Somebody between a client and the server who counts what goes by and cuts the line at the worst moment.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use unforget_testkit::servers::postgres as server;

/// What becomes of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes through.
    Answered,
    /// The server does what it was asked for, and nobody learns of it.
    AnswerLost,
    /// The server never hears of it.
    QuestionLost,
}

/// What goes by.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// The sizes of all questions so far, in bytes; a question is what is sent before an answer is waited for.
    pub(crate) questions: Vec<usize>,
    /// What becomes of the next ones; those without a fate go through.
    pub(crate) fates: VecDeque<Fate>,
}

/// A socket that leads to the server.
#[derive(Debug)]
pub(crate) struct Proxy {
    dir: tempfile::TempDir,
    pub(crate) traffic: Arc<Mutex<Traffic>>,
}

impl Proxy {
    pub(crate) fn start(server: &server::Server) -> Self {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        let traffic = Arc::new(Mutex::new(Traffic::default()));
        let target = server.dir.join(format!(".s.PGSQL.{}", server.port));
        let of_all = traffic.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (target, traffic) = (target.clone(), of_all.clone());
                // A line that is cut ends in an error on both sides, which is what is wanted.
                tokio::spawn(async move { pass(client, &target, &traffic).await.ok() });
            }
        });
        Self { dir, traffic }
    }

    pub(crate) fn url(&self, schema: &str) -> String {
        server::url(self.dir.path(), 5432, "postgres", &format!("sslmode=disable&schema={schema}"))
    }

    /// The sizes of the questions since the last time.
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.traffic.lock().unwrap().questions)
    }

    pub(crate) fn next(&self, fates: &[Fate]) {
        self.traffic.lock().unwrap().fates = fates.iter().copied().collect();
    }

    pub(crate) fn fates_left(&self) -> usize {
        self.traffic.lock().unwrap().fates.len()
    }
}

async fn pass(mut client: UnixStream, target: &Path, traffic: &Mutex<Traffic>) -> std::io::Result<()> {
    let mut server = UnixStream::connect(target).await?;
    // The first message has no type.
    let mut length = [0; 4];
    client.read_exact(&mut length).await?;
    let mut hello = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut hello).await?;
    server.write_all(&length).await?;
    server.write_all(&hello).await?;
    client.write_all(&until(&mut server, b"Z").await?).await?;
    loop {
        let question = until(&mut client, b"SQX").await?;
        let fate = {
            let mut traffic = traffic.lock().unwrap();
            traffic.questions.push(question.len());
            traffic.fates.pop_front().unwrap_or(Fate::Answered)
        };
        if fate == Fate::QuestionLost {
            return Ok(());
        }
        server.write_all(&question).await?;
        let answer = until(&mut server, b"Z").await?;
        if fate == Fate::AnswerLost {
            return Ok(());
        }
        client.write_all(&answer).await?;
    }
}

/// Messages up to one of a type that ends them.
async fn until(stream: &mut UnixStream, ends: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).await?;
        let rest = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let start = all.len() + head.len();
        all.extend_from_slice(&head);
        all.resize(start + rest, 0);
        stream.read_exact(&mut all[start..]).await?;
        if ends.contains(&head[0]) {
            return Ok(all);
        }
    }
}
