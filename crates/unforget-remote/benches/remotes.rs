//! What a remote costs beside the barest thing that its server can do.
//!
//! - **Push**: a turn (6 lines, about 4 kB) of a session that grows, against one request that stores the same bytes: an `INSERT`, a `PUT`, a `CreateEvent`, a file that is written
//!   and synced. At two lengths of the session: what is sent must not depend on it.
//! - **Pull**: a session of 100 MB onto a disk, against the same bytes fetched in pieces of 4 MiB, written and synced.
//! - **Bytes**: what the remote keeps, against the bytes of the transcript, sent whole and turn by turn.
//!
//! ```text
//! cargo bench -p unforget-remote --all-features                 everything
//! cargo bench -p unforget-remote --all-features -- --quick      fewer rounds, 10 MB
//! ```
//!
//! Ours and the bare thing take turns in one run; the ratio is what can be compared between machines. Nothing here is a test. The S3 is
//! moto's, a test server: its own time hides most of ours. AgentCore is the stand-in, on the same machine.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the bare limits are plain operations, the table is the product, and a failure ends the run"
)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutPayload};
use tempfile::TempDir;
use tokio_postgres::NoTls;
use unforget_core::layout::AgentDir;
use unforget_core::medium::Os;
use unforget_core::stamp::SessionId;
use unforget_remote::agentcore::{AgentCore, Settings as MemorySettings, Texts};
use unforget_remote::file::Folder;
use unforget_remote::postgres::{Limits, Postgres};
use unforget_remote::s3::{Bucket, Settings};
use unforget_remote::sync::{self, Bookmarks, Link, Plain};
use unforget_remote::{BoxFuture, Remote, Stream};
use unforget_testkit::agentcore::{FakeMemory, Options};
use unforget_testkit::corpus::{Corpus, Plan};
use unforget_testkit::servers::moto::Moto;
use unforget_testkit::servers::postgres::{Kind, Server};

/// How much a bare download fetches at a time.
const PIECE: usize = 4 << 20;
const BUCKET: &str = "bench";

/// A server, our way to it, and the bare one.
struct Contest {
    name: &'static str,
    remote: Box<dyn Remote>,
    bare: Box<dyn Bare>,
}

/// The least that a server can be asked.
trait Bare {
    /// Stores some bytes.
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, ()>;
    /// Stores pieces under a name, to be fetched.
    fn lay_down(&self, pieces: Vec<Vec<u8>>) -> BoxFuture<'_, ()>;
    /// Fetches them.
    fn fetch<'a>(&'a self, each: &'a mut (dyn FnMut(&[u8]) + Send)) -> BoxFuture<'a, ()>;
    /// How many bytes our side has there by now, as far as that can be told.
    fn kept(&self) -> BoxFuture<'_, Option<u64>>;
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, bytes) = if quick { (40, 10 << 20) } else { (200, 100 << 20) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(Kind::Safe);
        let memory = FakeMemory::start(Options::default()).unwrap();
        let contests = [directory(folder.path()), database(&server).await, bucket().await, events(&memory)];
        println!("one turn of about 4 kB, {rounds} rounds, medians");
        println!("{:<12} {:>8} {:>11} {:>11} {:>7}", "", "lines", "push", "bare", "ratio");
        for contest in &contests {
            push(contest, rounds).await;
        }
        println!("\na session of {} MB, 3 rounds, medians", bytes >> 20);
        println!("{:<12} {:>11} {:>11} {:>7}", "", "pull", "bare", "ratio");
        for contest in &contests[..3] {
            pull(contest, bytes).await;
        }
        println!("\nbytes kept there, of bytes in the transcript");
        for contest in &contests {
            kept(contest).await;
        }
    });
}

/// A transcript that another machine can go on with.
struct Transcript {
    folder: TempDir,
    local: Plain,
    stream: Stream,
    bookmarks: Bookmarks,
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

impl Transcript {
    fn new() -> Self {
        let id = SessionId::parse(&format!("bench-{}", NUMBER.fetch_add(1, Ordering::Relaxed))).unwrap();
        Self::of(&id)
    }

    fn of(id: &SessionId) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let medium = Arc::new(Os::new(folder.path()));
        let local = Plain::new(medium.clone(), Path::new("session.jsonl"), &AgentDir::of("main"), id);
        let stream = Stream::new("bench", "main", id.as_str()).unwrap();
        Self { folder, local, stream, bookmarks: Bookmarks::new(medium, "there") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("session.jsonl")
    }

    fn add(&self, bytes: &[u8]) {
        OpenOptions::new().create(true).append(true).open(self.path()).unwrap().write_all(bytes).unwrap();
    }

    fn link<'a>(&'a self, remote: &'a dyn Remote) -> Link<'a> {
        Link { local: &self.local, remote, stream: &self.stream, bookmarks: &self.bookmarks }
    }
}

/// Lines of generated conversations, so many bytes of them.
fn text(bytes: usize) -> Vec<u8> {
    let plan = Plan { seed: 7, sessions: 1, bytes: 1 };
    let records = bytes as u64 / 1000 + 100;
    let mut text = Corpus::default().long_session(&plan, &plan.session(0), records).into_bytes();
    assert!(text.len() >= bytes, "records are smaller than they are said to be");
    text.truncate(bytes);
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').unwrap() + 1);
    text
}

/// Six lines, about 4 kB, different each time.
fn turns(count: usize) -> Vec<Vec<u8>> {
    let text = text(count * 4096 + 65_536);
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() < 2000).collect();
    (0..count).map(|turn| (0..6).flat_map(|line| lines[(turn * 6 + line) % lines.len()].to_vec()).collect()).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

async fn push(contest: &Contest, rounds: usize) {
    for before in [0, 2 << 20] {
        let session = Transcript::new();
        if before > 0 {
            session.add(&text(before));
            sync::push(&session.link(contest.remote.as_ref()), &mut |_| {}).await.unwrap();
        }
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let mut lines = 0;
        for turn in turns(rounds) {
            session.add(&turn);
            let begin = Instant::now();
            lines = sync::push(&session.link(contest.remote.as_ref()), &mut |_| {}).await.unwrap().at.lines;
            ours.push(begin.elapsed());
            let begin = Instant::now();
            contest.bare.put(turn).await;
            bare.push(begin.elapsed());
        }
        let (ours, bare) = (median(ours), median(bare));
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!("{:<12} {lines:>8} {:>11} {:>11} {ratio:>6.2}x", contest.name, ms(ours), ms(bare));
    }
}

async fn pull(contest: &Contest, bytes: usize) {
    let session = Transcript::new();
    let text = text(bytes);
    session.add(&text);
    sync::push(&session.link(contest.remote.as_ref()), &mut |_| {}).await.unwrap();
    contest.bare.lay_down(text.chunks(PIECE).map(<[u8]>::to_vec).collect()).await;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let other = Transcript::of(sync::Local::id(&session.local));
        let begin = Instant::now();
        sync::pull(&other.link(contest.remote.as_ref()), &mut |_| {}).await.unwrap();
        ours.push(begin.elapsed());
        assert_eq!(std::fs::metadata(other.path()).unwrap().len(), text.len() as u64);
        let mut file = File::create(other.folder.path().join("bare")).unwrap();
        let begin = Instant::now();
        contest.bare.fetch(&mut |piece| file.write_all(piece).unwrap()).await;
        file.sync_data().unwrap();
        bare.push(begin.elapsed());
    }
    let (ours, bare) = (median(ours), median(bare));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("{:<12} {:>11} {:>11} {ratio:>6.2}x", contest.name, ms(ours), ms(bare));
}

async fn kept(contest: &Contest) {
    let whole = Transcript::new();
    whole.add(&text(8 << 20));
    let Some(before) = contest.bare.kept().await else { return };
    sync::push(&whole.link(contest.remote.as_ref()), &mut |_| {}).await.unwrap();
    let at_once = contest.bare.kept().await.unwrap() - before;
    let piecemeal = Transcript::new();
    let turns = turns(200);
    let before = contest.bare.kept().await.unwrap();
    for turn in &turns {
        piecemeal.add(turn);
        sync::push(&piecemeal.link(contest.remote.as_ref()), &mut |_| {}).await.unwrap();
    }
    let by_turns = contest.bare.kept().await.unwrap() - before;
    while !contest.remote.compact(&piecemeal.stream).await.unwrap().is_done {}
    let merged = contest.bare.kept().await.unwrap().saturating_sub(before);
    let len = |transcript: &Transcript| std::fs::metadata(transcript.path()).unwrap().len();
    let part = |bytes: u64, of: u64| format!("{:.0} %", bytes as f64 * 100.0 / of as f64);
    println!(
        "{:<12} sent whole {:>5}, turn by turn {:>5}, put together {:>5}",
        contest.name,
        part(at_once, len(&whole)),
        part(by_turns, len(&piecemeal)),
        part(merged, len(&piecemeal))
    );
}

struct BareDirectory {
    folder: PathBuf,
    ours: PathBuf,
    number: AtomicU64,
}

fn directory(folder: &Path) -> Contest {
    let (ours, bare) = (folder.join("ours"), folder.join("bare"));
    std::fs::create_dir(&bare).unwrap();
    std::fs::create_dir(&ours).unwrap();
    let remote = Folder::new(Arc::new(Os::new(&ours))).remote();
    let bare = BareDirectory { folder: bare, ours, number: AtomicU64::new(0) };
    Contest { name: "directory", remote: Box::new(remote), bare: Box::new(bare) }
}

fn weight(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| if entry.path().is_dir() { weight(&entry.path()) } else { entry.metadata().unwrap().len() })
        .sum()
}

impl Bare for BareDirectory {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        let path = self.folder.join(self.number.fetch_add(1, Ordering::Relaxed).to_string());
        let mut file = File::create(path).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        File::open(&self.folder).unwrap().sync_all().unwrap();
        Box::pin(std::future::ready(()))
    }

    fn lay_down(&self, pieces: Vec<Vec<u8>>) -> BoxFuture<'_, ()> {
        std::fs::write(self.folder.join("whole"), pieces.concat()).unwrap();
        Box::pin(std::future::ready(()))
    }

    fn fetch<'a>(&'a self, each: &'a mut (dyn FnMut(&[u8]) + Send)) -> BoxFuture<'a, ()> {
        std::fs::read(self.folder.join("whole")).unwrap().chunks(PIECE).for_each(each);
        Box::pin(std::future::ready(()))
    }

    fn kept(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(Some(weight(&self.ours))))
    }
}

struct BareDatabase(tokio_postgres::Client);

async fn database(server: &Server) -> Contest {
    let (client, connection) =
        tokio_postgres::connect(&server.url_as("postgres", "sslmode=disable"), NoTls).await.unwrap();
    tokio::spawn(connection);
    let tables = "CREATE TABLE bare (n bigserial PRIMARY KEY, data bytea); CREATE TABLE whole (n bigserial PRIMARY KEY, data bytea)";
    client.batch_execute(tables).await.unwrap();
    let remote = Postgres::open(&server.url("ours"), Limits::default()).unwrap().remote();
    Contest { name: "postgres", remote: Box::new(remote), bare: Box::new(BareDatabase(client)) }
}

impl Bare for BareDatabase {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.0.execute("INSERT INTO bare (data) VALUES ($1)", &[&bytes]).await.unwrap();
        })
    }

    fn lay_down(&self, pieces: Vec<Vec<u8>>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for piece in pieces {
                self.0.execute("INSERT INTO whole (data) VALUES ($1)", &[&piece]).await.unwrap();
            }
        })
    }

    fn fetch<'a>(&'a self, each: &'a mut (dyn FnMut(&[u8]) + Send)) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let count: i64 = self.0.query_one("SELECT max(n) FROM whole", &[]).await.unwrap().get(0);
            for n in 1..=count {
                each(self.0.query_one("SELECT data FROM whole WHERE n = $1", &[&n]).await.unwrap().get(0));
            }
        })
    }

    fn kept(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            let sql = "SELECT coalesce(sum(pg_total_relation_size(format('ours.%I', tablename)::regclass)), 0)::bigint
                FROM pg_tables WHERE schemaname = 'ours'";
            let bytes: i64 = self.0.query_one(sql, &[]).await.unwrap().get(0);
            u64::try_from(bytes).ok()
        })
    }
}

struct BareBucket(AmazonS3, AtomicU64);

async fn bucket() -> Contest {
    let server = Moto::open();
    server.make(BUCKET);
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let bare = AmazonS3Builder::new()
        .with_bucket_name(BUCKET)
        .with_region("us-east-1")
        .with_endpoint(&endpoint)
        .with_allow_http(true)
        .with_access_key_id("key")
        .with_secret_access_key("s3cret")
        .build()
        .unwrap();
    let options = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "s3cret")];
    let settings = Settings {
        bucket: BUCKET.to_owned(),
        prefix: "ours".to_owned(),
        region: Some("us-east-1".to_owned()),
        endpoint: Some(endpoint),
        options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..Settings::default()
    };
    let remote = Bucket::open(&settings).unwrap().remote();
    Contest { name: "s3 (moto)", remote: Box::new(remote), bare: Box::new(BareBucket(bare, AtomicU64::new(0))) }
}

impl Bare for BareBucket {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let path = format!("bare/{}", self.1.fetch_add(1, Ordering::Relaxed)).into();
            self.0.put(&path, PutPayload::from(bytes)).await.unwrap();
        })
    }

    fn lay_down(&self, pieces: Vec<Vec<u8>>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.0.put(&"whole".into(), PutPayload::from(pieces.concat())).await.unwrap();
        })
    }

    fn fetch<'a>(&'a self, each: &'a mut (dyn FnMut(&[u8]) + Send)) -> BoxFuture<'a, ()> {
        Box::pin(async move { each(&self.0.get(&"whole".into()).await.unwrap().bytes().await.unwrap()) })
    }

    fn kept(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            let listed = self.0.list_with_delimiter(Some(&"ours".into())).await.unwrap();
            let mut bytes: u64 = listed.objects.iter().map(|object| object.size).sum();
            let mut folders = listed.common_prefixes;
            while let Some(folder) = folders.pop() {
                let listed = self.0.list_with_delimiter(Some(&folder)).await.unwrap();
                bytes += listed.objects.iter().map(|object| object.size).sum::<u64>();
                folders.extend(listed.common_prefixes);
            }
            Some(bytes)
        })
    }
}

struct BareEvents {
    client: reqwest::Client,
    url: String,
    number: AtomicU64,
}

fn events(server: &FakeMemory) -> Contest {
    let memory = server.memory("notes", 30);
    let values = [
        ("AWS_ACCESS_KEY_ID", "key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "s3cret".to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ("AWS_REGION", "eu-central-1".to_owned()),
        ("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", server.url()),
    ];
    let environment = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let settings = MemorySettings::find(Some(&memory), environment, None, Texts::default()).unwrap();
    let remote = AgentCore::new(&MemorySettings { rates: None, ..settings }).unwrap().remote();
    let url = format!("{}/memories/{memory}/events", server.url());
    let bare = BareEvents { client: reqwest::Client::new(), url, number: AtomicU64::new(0) };
    Contest { name: "agentcore", remote: Box::new(remote), bare: Box::new(bare) }
}

impl Bare for BareEvents {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let body = serde_json::json!({
                "actorId": "bare",
                "sessionId": "bare",
                "eventTimestamp": 1_790_000_000 + number,
                "clientToken": format!("bare-{number}"),
                "payload": [{ "blob": String::from_utf8(bytes).unwrap() }],
            });
            let request = self.client.post(&self.url).header("content-type", "application/json");
            let answer = request.body(body.to_string()).send().await.unwrap();
            let status = answer.status();
            assert!(status.is_success(), "{status}: {}", answer.text().await.unwrap());
        })
    }

    fn lay_down(&self, _: Vec<Vec<u8>>) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn fetch<'a>(&'a self, _: &'a mut (dyn FnMut(&[u8]) + Send)) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn kept(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(None))
    }
}
