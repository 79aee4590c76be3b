//! Many at once: who makes the tables, who writes, who deletes, and a server that dies under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_remote::{Error, Remote as _, conformance};

use super::{TABLES, bare, client, count, large, lines, open, stream};
use unforget_testkit::servers::postgres::{Kind, Server, pooled_url, shared};

#[tokio::test(flavor = "multi_thread")]
async fn many_machines_make_the_tables_at_once() {
    for round in 0..6 {
        let schema = format!("made_{round}");
        let makers = (0..8).map(|maker| {
            let url = if maker % 2 == 0 { shared().url(&schema) } else { pooled_url(&schema) };
            tokio::spawn(async move {
                let end = open(&url).append(&stream(&format!("{maker}")), &Frontier::default(), &lines(&["x"])).await;
                end.map(|end| end.lines)
            })
        });
        for maker in makers.collect::<Vec<_>>() {
            assert_eq!(maker.await.unwrap().unwrap(), 1);
        }
        assert_eq!(count(&schema, "versions").await, 1);
        assert_eq!(count(&schema, "streams").await, 8);
    }
}

/// Goes on from wherever the stream is, and says where that led.
async fn write_on(remote: &dyn unforget_remote::Remote, session: &str, batch: &[Bytes]) -> Result<(), Error> {
    let at = match remote.frontier(&stream(session)).await {
        Err(Error::NotFound { .. }) => Frontier::default(),
        at => at?,
    };
    match remote.append(&stream(session), &at, batch).await {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_and_deletions_at_once_never_leave_a_hole() {
    const ROUNDS: u64 = 60;
    let is_over = Arc::new(AtomicBool::new(false));
    let deleted = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for writer in 0..4_u64 {
        let is_over = is_over.clone();
        tasks.push(tokio::spawn(async move {
            let remote = client("holes");
            let mut turn = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                turn += 1;
                // The same few large lines in both streams, so that each is claimed and given up all the time.
                let batch = lines(&[format!("{writer} {turn}"), large(["p", "q", "r"][(turn % 3) as usize])]);
                write_on(&remote, ["one", "two"][(turn % 2) as usize], &batch).await.unwrap();
            }
        }));
    }
    for session in ["one", "two"] {
        let (is_over, deleted) = (is_over.clone(), deleted.clone());
        tasks.push(tokio::spawn(async move {
            let remote = client("holes");
            for _ in 0..ROUNDS {
                // Whatever is there is whole, at any moment.
                match remote.read(&stream(session), 0).await {
                    Ok(page) => assert!(!page.lines.is_empty()),
                    Err(Error::NotFound { .. }) => {}
                    // Deleted between two questions: of the stream's lines, or of one and its large line.
                    Err(error) => panic!("{error}"),
                }
                remote.delete(&stream(session)).await.unwrap();
                deleted.fetch_add(1, Ordering::Relaxed);
            }
            is_over.store(true, Ordering::Relaxed);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(deleted.load(Ordering::Relaxed) >= ROUNDS);
    let holes = "SELECT count(*) FROM holes.segments AS one WHERE first_line > 0 AND NOT EXISTS (\
                 SELECT 1 FROM holes.segments AS before WHERE before.life = one.life AND before.end_line = one.first_line)";
    let unclaimed = "SELECT count(*) FROM holes.kept WHERE NOT EXISTS (\
                     SELECT 1 FROM holes.kept_for WHERE kept_for.name = kept.name)";
    for question in [holes, unclaimed] {
        assert_eq!(bare().await.query_one(question, &[]).await.unwrap().get::<_, i64>(0), 0, "{question}");
    }
    let remote = client("holes");
    for session in ["one", "two"] {
        if remote.frontier(&stream(session)).await.is_ok() {
            conformance::read_all(&remote, &stream(session), 0).await;
        }
        remote.delete(&stream(session)).await.unwrap();
    }
    for table in TABLES {
        assert_eq!(count("holes", table).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_what_was_acknowledged_is_there_after_the_server_was_killed() {
    let server = Arc::new(Server::start(Kind::Safe));
    let remote = open(&server.url("killed"));
    let mut end = Frontier::default();
    let mut written = Vec::new();
    for life in 0..3_u64 {
        let reached = Arc::new(tokio::sync::Notify::new());
        let killer = {
            let (server, reached) = (server.clone(), reached.clone());
            tokio::spawn(async move {
                reached.notified().await;
                tokio::task::spawn_blocking(move || server.kill()).await.unwrap();
            })
        };
        // Until an append fails, which the killed server sees to.
        let mut turn = 0_u64;
        let (batch, error) = loop {
            let batch = lines(&[format!("{life} {turn}"), format!("{turn}").repeat(50)]);
            match remote.append(&stream("killed"), &end, &batch).await {
                Ok(next) => end = next,
                Err(error) => break (batch, error),
            }
            written.extend(batch);
            turn += 1;
            if turn == 20 + 7 * life {
                reached.notify_one();
            }
        };
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        killer.await.unwrap();
        // Down is not empty.
        let other = open(&server.url("killed"));
        let answer = other.frontier(&stream("killed")).await;
        assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
        tokio::task::block_in_place(|| server.revive());
        let found = conformance::read_all(&other, &stream("killed"), 0).await;
        assert!(found.starts_with(&written), "{} acknowledged, {} found", written.len(), found.len());
        assert!(found.len() <= written.len() + batch.len());
        // The one in doubt is repeated by the client that saw the server die, and is there once.
        end = remote.append(&stream("killed"), &end, &batch).await.unwrap();
        written.extend(batch);
        assert_eq!(conformance::read_all(&other, &stream("killed"), 0).await, written);
    }
}
