//! The database, put to the suite and to attacks; always a real server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what sets the scene of a test may fail as loudly as the test"
)]

mod failures;
mod proxy;
mod races;

use bytes::Bytes;
use tokio_postgres::NoTls;
use unforget_core::frontier::Frontier;
use unforget_remote::postgres::{Limits, Postgres};
use unforget_remote::{Error, Key, Packed, Prefix, Remote as _, Stream, conformance};

use proxy::{Fate, Proxy};
use unforget_testkit::servers::postgres::shared;

const SECRET: [u8; 32] = [9; 32];
const TABLES: [&str; 4] = ["streams", "segments", "kept", "kept_for"];

fn open(url: &str) -> Packed<Postgres> {
    Postgres::open(url, Limits::default()).unwrap().remote()
}

fn client(schema: &str) -> Packed<Postgres> {
    open(&shared().url(schema))
}

fn stream(session: &str) -> Stream {
    Stream::new("tenant", "main", session).unwrap()
}

fn lines<L: AsRef<[u8]>>(lines: &[L]) -> Vec<Bytes> {
    lines.iter().map(|line| Bytes::copy_from_slice(line.as_ref())).collect()
}

/// A line that is kept apart.
fn large(letter: &str) -> String {
    letter.repeat(100 << 10)
}

/// A connection without anything of ours.
async fn bare() -> tokio_postgres::Client {
    let url = shared().url_as("postgres", "sslmode=disable");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn count(schema: &str, table: &str) -> i64 {
    bare().await.query_one(&format!("SELECT count(*) FROM {schema}.{table}"), &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_keeps_every_promise() {
    conformance::all(&client("plain"), &client("plain"), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_keeps_every_promise_when_sealed() {
    let client = || client("sealed").sealed(Some(Key::new(&SECRET)));
    conformance::all(&client(), &client(), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_keeps_every_promise_through_a_pooler() {
    let url = unforget_testkit::servers::postgres::pooled_url("pooled");
    conformance::all(&open(&url), &open(&url), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_no_byte_is_changed_that_a_json_column_would_change() {
    let remote = client("r15");
    let odd = lines(&[
        r#"{"z":1,"a":2,"a":3}"#,
        r#"{"nul":"\u0000"}"#,
        r#"{"lone":"\ud800"}"#,
        r#"{ "spaces" :  1.0e+0, "big": 123456789012345678901234567890 }"#,
        "\u{0}",
        "not json",
    ]);
    let end = remote.append(&stream("odd"), &Frontier::default(), &odd).await.unwrap();
    assert_eq!(end.lines, 6);
    assert_eq!(conformance::read_all(&client("r15"), &stream("odd"), 0).await, odd);
    // The server itself says that it would not have: this is why lines are bytes.
    let json = bare().await.query_one(r#"SELECT '{"z":1,"a":2,"a":3}'::jsonb::text"#, &[]).await.unwrap();
    assert_eq!(json.get::<_, String>(0), r#"{"a": 3, "z": 1}"#);
    assert!(bare().await.query_one(r#"SELECT '{"nul":"\u0000"}'::jsonb::text"#, &[]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_one_round_trip_of_the_same_size_however_long_the_stream_is() {
    let proxy = Proxy::start(shared());
    let remote = open(&proxy.url("trips"));
    let mut end = Frontier::default();
    let mut sizes = Vec::new();
    for number in 0..200 {
        let line = lines(&[format!("{{\"number\":{:03}}}", number % 10)]);
        end = remote.append(&stream("long"), &end, &line).await.unwrap();
        let questions = proxy.take();
        if number > 0 {
            assert_eq!(questions.len(), 1, "append {number}");
            sizes.push(questions[0]);
        }
    }
    assert_eq!(sizes.iter().min(), sizes.iter().max());
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_an_append_whose_answer_was_lost_is_there_once() {
    let proxy = Proxy::start(shared());
    let remote = open(&proxy.url("lost"));
    let (mut end, mut written) = (Frontier::default(), Vec::new());
    // The tables are there, and a connection is.
    end = remote.append(&stream("lost"), &end, &lines(&["warm"])).await.unwrap();
    written.extend(lines(&["warm"]));
    for fates in [
        &[Fate::AnswerLost][..],
        &[Fate::QuestionLost],
        &[Fate::AnswerLost, Fate::AnswerLost],
        &[Fate::QuestionLost, Fate::AnswerLost, Fate::AnswerLost],
        &[Fate::AnswerLost, Fate::QuestionLost, Fate::AnswerLost, Fate::QuestionLost],
    ] {
        proxy.next(fates);
        let batch = lines(&[format!("{fates:?}"), "second".to_owned()]);
        end = remote.append(&stream("lost"), &end, &batch).await.unwrap();
        assert_eq!(proxy.fates_left(), 0);
        written.extend(batch);
    }
    // A large line is asked for, kept, and referred to.
    for (letter, answered) in [("k", 0), ("l", 1), ("m", 2)] {
        let mut fates = vec![Fate::Answered; answered];
        fates.push(Fate::AnswerLost);
        proxy.next(&fates);
        let batch = lines(&[large(letter)]);
        end = remote.append(&stream("lost"), &end, &batch).await.unwrap();
        assert_eq!(proxy.fates_left(), 0);
        written.extend(batch);
    }
    assert_eq!(end.lines, written.len() as u64);
    assert_eq!(conformance::read_all(&client("lost"), &stream("lost"), 0).await, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_a_first_append_and_a_deletion_whose_answers_were_lost_are_done_once() {
    let proxy = Proxy::start(shared());
    let remote = open(&proxy.url("lost_first"));
    assert!(matches!(remote.frontier(&stream("new")).await, Err(Error::NotFound { .. })));
    // The end of the stream is asked for, then it begins.
    proxy.next(&[Fate::Answered, Fate::AnswerLost]);
    let end = remote.append(&stream("new"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    assert_eq!((end.lines, proxy.fates_left()), (1, 0));
    assert_eq!(conformance::read_all(&remote, &stream("new"), 0).await, lines(&["one"]));
    // A deletion is eight questions, and the last one is whether all of it is done.
    for lost in 0..8 {
        remote.append(&stream("gone"), &Frontier::default(), &lines(&["one".to_owned(), large("y")])).await.unwrap();
        let mut fates = vec![Fate::Answered; lost];
        fates.push(Fate::AnswerLost);
        proxy.next(&fates);
        remote.delete(&stream("gone")).await.unwrap();
        assert_eq!(proxy.fates_left(), 0);
        assert!(matches!(remote.frontier(&stream("gone")).await, Err(Error::NotFound { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_leaves_no_row_behind() {
    let remote = client("rows");
    let batch = lines(&[large("a"), "small".to_owned(), large("b")]);
    for session in ["one", "two"] {
        remote.append(&stream(session), &Frontier::default(), &batch).await.unwrap();
    }
    assert_eq!((count("rows", "kept").await, count("rows", "kept_for").await), (2, 4), "each line is kept once");
    remote.delete(&stream("one")).await.unwrap();
    assert_eq!((count("rows", "kept").await, count("rows", "kept_for").await), (2, 2));
    remote.delete(&stream("two")).await.unwrap();
    for table in TABLES {
        assert_eq!(count("rows", table).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_kept_already_is_not_sent_again() {
    let proxy = Proxy::start(shared());
    let remote = open(&proxy.url("again"));
    let noise: String = (0_u64..40_000).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    remote.append(&stream("one"), &Frontier::default(), &lines(&[&noise])).await.unwrap();
    let first: usize = proxy.take().iter().sum();
    remote.append(&stream("two"), &Frontier::default(), &lines(&[&noise])).await.unwrap();
    let second: usize = proxy.take().iter().sum();
    assert!(first > 200_000 && second < 5_000, "{first} bytes, then {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_lists_go_on_where_a_page_ends() {
    let remote = client("list");
    remote.append(&stream("one"), &Frontier::default(), &lines(&["x"])).await.unwrap();
    let bare = bare().await;
    let fill = "INSERT INTO list.streams SELECT n, 'many', 'pl''ace & ü=' || n / 700, 'session ' || n, '' FROM generate_series(1, $1::bigint) n \
                ON CONFLICT DO NOTHING";
    let hold =
        "INSERT INTO list.segments SELECT n, 0, 1, '', '' FROM generate_series(1, $1::bigint) n ON CONFLICT DO NOTHING";
    for (amount, pages) in [(999_i64, 1), (1_000, 1), (1_001, 2), (2_000, 2), (2_001, 3)] {
        bare.execute(fill, &[&amount]).await.unwrap();
        bare.execute(hold, &[&amount]).await.unwrap();
        let (mut seen, mut cursor, mut read) = (std::collections::BTreeSet::new(), None, 0);
        loop {
            let page = remote.list(&Prefix::tenant("many").unwrap(), cursor.as_deref()).await.unwrap();
            read += 1;
            for stream in page.streams {
                assert!(seen.insert(stream));
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((seen.len() as i64, read), (amount, pages));
    }
    for wrong in ["", "x", "place=a", "side=a&session=b&place=c"] {
        let answer = remote.list(&Prefix::tenant("many").unwrap(), Some(wrong)).await;
        assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_bytes_that_were_changed_are_refused() {
    let remote = client("changed");
    let end = remote.append(&stream("one"), &Frontier::default(), &lines(&["one", "two"])).await.unwrap();
    remote.append(&stream("one"), &end, &lines(&["three"])).await.unwrap();
    let bare = bare().await;
    for change in [
        "UPDATE changed.segments SET body = set_byte(body, length(body) - 1, 0) WHERE first_line = 0",
        "UPDATE changed.segments SET head = set_byte(head, length(head) - 1, 0)",
        "UPDATE changed.segments SET head = '', body = ''",
        "UPDATE changed.segments SET end_line = -1",
        "UPDATE changed.segments SET end_line = 7",
        "DELETE FROM changed.segments WHERE first_line = 0",
    ] {
        bare.batch_execute(&format!(
            "DROP TABLE IF EXISTS copy; CREATE TEMPORARY TABLE copy AS SELECT * FROM changed.segments; {change}"
        ))
        .await
        .unwrap();
        let answer = remote.read(&stream("one"), 0).await;
        let last = remote.frontier(&stream("one")).await;
        let is_corrupt = |error: Option<&Error>| matches!(error, Some(Error::Corrupt { .. }));
        assert!(is_corrupt(answer.as_ref().err()) || is_corrupt(last.as_ref().err()), "{change}: {answer:?} {last:?}");
        assert!(!matches!(answer, Ok(page) if page.lines != lines(&["one", "two"])), "{change}");
        bare.batch_execute("DELETE FROM changed.segments; INSERT INTO changed.segments SELECT * FROM copy")
            .await
            .unwrap();
    }
    assert_eq!(conformance::read_all(&remote, &stream("one"), 0).await.len(), 3);
}
