//! A bucket on a real S3 implementation, and behind a proxy that plays the faults of others.

mod proxy;

use bytes::Bytes;
use proxy::{Instead, Proxy, Seen};
use unforget_core::frontier::Frontier;
use unforget_remote::s3::{Bucket, Settings};
use unforget_remote::{Error, Key, Patience, Remote, Stream, conformance};
use unforget_testkit::servers::moto::Moto;

fn settings(port: u16, bucket: &str) -> Settings {
    let options = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "s3cret"), ("PATH", "is not for us")];
    Settings {
        bucket: bucket.to_owned(),
        prefix: "some/prefix".to_owned(),
        region: Some("us-east-1".to_owned()),
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..Settings::default()
    }
}

/// A proxy before a new bucket.
async fn bucket(name: &str) -> (Proxy, Bucket) {
    let server = tokio::task::spawn_blocking(Moto::open).await.unwrap();
    let name_there = name.to_owned();
    tokio::task::spawn_blocking(move || server.make(&name_there)).await.unwrap();
    let proxy = Proxy::start(server.port).await;
    let bucket = Bucket::open(&settings(proxy.port, name)).unwrap();
    (proxy, bucket)
}

fn stream(session: &str) -> Stream {
    Stream::new("tenant", "main", session).unwrap()
}

fn line(number: usize) -> [Bytes; 1] {
    [Bytes::from(format!(r#"{{"v":1,"n":{number:06},"type":"user","content":"hello"}}"#))]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_every_promise() {
    let (_proxy, bucket) = bucket("plain").await;
    conformance::all(&bucket.remote(), &bucket.remote(), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_the_main_promises_when_sealed() {
    let (_proxy, bucket) = bucket("sealed").await;
    let client = || bucket.remote().sealed(Some(Key::new(&[9; 32])));
    let (first, second) = (client(), client());
    conformance::nothing_is_there_before_something_was_written(&first, "tenant").await;
    conformance::lines_come_back_in_order_and_in_every_byte(&first, &second, "tenant").await;
    conformance::an_append_elsewhere_is_a_conflict_and_changes_nothing(&first, &second, "tenant").await;
    conformance::a_repeated_append_changes_nothing(&first, &second, "tenant").await;
    conformance::of_many_writers_at_one_position_one_wins(&first, &second, "tenant").await;
    conformance::a_line_that_is_repeated_is_kept_for_each_who_wrote_it(&first, &second, "tenant").await;
    conformance::what_is_deleted_is_gone(&first, &second, "tenant").await;
    conformance::a_writer_that_slept_through_a_deletion_is_refused(&first, &second, "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_turn_is_one_request_of_its_own_size() {
    let (proxy, bucket) = bucket("warm").await;
    let (remote, stream) = (bucket.remote(), stream("warm"));
    let mut at = remote.append(&stream, &Frontier::default(), &line(0)).await.unwrap();
    let mut sizes = Vec::new();
    for number in 1..60 {
        proxy.seen();
        at = remote.append(&stream, &at, &line(number)).await.unwrap();
        let seen = proxy.seen();
        assert!(matches!(seen.as_slice(), [Seen { method, .. }] if method == "PUT"), "turn {number}: {seen:?}");
        sizes.push(seen[0].bytes);
    }
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(most - least < 32, "{least} to {most} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merged_stream_is_read_with_few_requests() {
    let (proxy, bucket) = bucket("merged").await;
    let (remote, stream) = (bucket.remote(), stream("merged"));
    let (mut at, mut lines) = (Frontier::default(), Vec::new());
    for number in 0..50 {
        at = remote.append(&stream, &at, &line(number)).await.unwrap();
        lines.extend(line(number));
    }
    proxy.seen();
    assert_eq!(conformance::read_all(&bucket.remote(), &stream, 0).await, lines);
    let before = proxy.seen().len();
    assert!(before <= 50 + 8, "{before} requests for 50 segments");
    assert!(remote.compact(&stream).await.unwrap().is_done);
    proxy.seen();
    assert_eq!(conformance::read_all(&bucket.remote(), &stream, 0).await, lines);
    let after = proxy.seen().len();
    assert!(after <= 3 * 2 + 2 + 8, "{after} requests for three merged segments and two others");
    assert_eq!(conformance::read_all(&bucket.remote(), &stream, 21).await, lines[21..]);
    remote.delete(&stream).await.unwrap();
    assert!(matches!(bucket.remote().frontier(&stream).await, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_for_the_end_does_not_list_the_stream() {
    let (proxy, bucket) = bucket("end").await;
    let (remote, stream) = (bucket.remote(), stream("end"));
    let mut at = Frontier::default();
    for number in 0..20 {
        at = remote.append(&stream, &at, &line(number)).await.unwrap();
    }
    proxy.seen();
    assert_eq!(bucket.remote().frontier(&stream).await.unwrap(), at);
    let seen = proxy.seen();
    assert!(seen.len() == 2 && seen[0].target.contains("max-keys=4"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_a_409_is_tried_again_and_a_412_is_looked_into() {
    let (proxy, bucket) = bucket("r17").await;
    let (remote, stream) = (bucket.remote(), stream("r17"));
    let at = remote.append(&stream, &Frontier::default(), &line(0)).await.unwrap();
    let conflict =
        Instead { method: "PUT", status: "409 Conflict", code: "ConditionalRequestConflict", is_done: false };
    // More often than an append looks for the end.
    proxy.answer(conflict, 4);
    let next = remote.append(&stream, &at, &line(1)).await.unwrap();
    assert_eq!(bucket.remote().frontier(&stream).await.unwrap(), next);
    // Somebody else was faster.
    let late = bucket.remote();
    assert_eq!(late.frontier(&stream).await.unwrap(), next);
    let last = remote.append(&stream, &next, &line(2)).await.unwrap();
    let answer = late.append(&stream, &next, &line(3)).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == last), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_a_turn_whose_answer_got_lost_is_saved_once() {
    let (proxy, bucket) = bucket("r04").await;
    let (remote, stream) = (bucket.remote(), stream("r04"));
    let at = remote.append(&stream, &Frontier::default(), &line(0)).await.unwrap();
    let lost = Instead { method: "PUT", status: "500 Internal Server Error", code: "InternalError", is_done: true };
    proxy.answer(lost, 1);
    let next = remote.append(&stream, &at, &line(1)).await.unwrap();
    assert_eq!(next.lines, 2);
    assert_eq!(conformance::read_all(&bucket.remote(), &stream, 0).await, [line(0), line(1)].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_store_that_is_asked_too_often_is_left_alone_for_a_while() {
    let (proxy, bucket) = bucket("r14").await;
    let stream = stream("r14");
    let busy = Instead { method: "GET", status: "503 Slow Down", code: "SlowDown", is_done: false };
    proxy.answer(busy.clone(), 1);
    let answer = bucket.remote().append(&stream, &Frontier::default(), &line(0)).await;
    assert!(answer.is_ok(), "{answer:?}");
    proxy.answer(busy, 100);
    let once = Patience { attempts: 1, ..Patience::default() };
    let answer = bucket.remote().patient(once).frontier(&stream).await;
    assert!(matches!(answer, Err(Error::Unavailable { wait: Some(_), .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_a_wrong_clock_is_said_to_be_one() {
    let (proxy, bucket) = bucket("r19").await;
    proxy.answer(Instead { method: "GET", status: "403 Forbidden", code: "RequestTimeTooSkewed", is_done: false }, 1);
    let answer = bucket.remote().frontier(&stream("r19")).await;
    assert!(matches!(&answer, Err(Error::Denied { reason, .. }) if reason.contains("clock")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_ignores_the_condition_is_refused() {
    let (proxy, bucket) = bucket("careless").await;
    proxy.hide("if-none-match");
    let answer = bucket.remote().append(&stream("careless"), &Frontier::default(), &line(0)).await;
    assert!(matches!(&answer, Err(Error::Denied { reason, .. }) if reason.contains("overwrites")), "{answer:?}");
    assert!(matches!(bucket.remote().frontier(&stream("careless")).await, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_not_there_is_not_an_empty_one() {
    let (proxy, _) = bucket("there").await;
    let remote = Bucket::open(&settings(proxy.port, "not-there")).unwrap().remote();
    let is_denied = |answer: Option<Error>| {
        assert!(matches!(&answer, Some(Error::Denied { reason, .. }) if reason.contains("NoSuchBucket")), "{answer:?}");
    };
    is_denied(remote.frontier(&stream("x")).await.err());
    is_denied(remote.read(&stream("x"), 0).await.err());
    is_denied(remote.append(&stream("x"), &Frontier::default(), &line(0)).await.err());
    is_denied(remote.delete(&stream("x")).await.err());
    // Also where a single object is asked for, because the stream was seen before.
    let (proxy, bucket) = bucket("vanishing").await;
    let remote = bucket.remote();
    remote.append(&stream("x"), &Frontier::default(), &line(0)).await.unwrap();
    proxy.answer(Instead { method: "GET", status: "404 Not Found", code: "NoSuchBucket", is_done: false }, 1);
    is_denied(remote.read(&stream("x"), 0).await.err());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_denied_and_never_shown() {
    let server = tokio::task::spawn_blocking(Moto::strict).await.unwrap();
    let bucket = Bucket::open(&settings(server.port, "locked")).unwrap();
    let remote = bucket.remote();
    let answer = remote.frontier(&stream("x")).await.unwrap_err();
    assert!(matches!(answer, Error::Denied { .. }), "{answer:?}");
    let shown = format!("{answer} {answer:?} {bucket:?} {:?}", settings(server.port, "locked"));
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// A remote where nobody listens.
async fn down() -> impl Remote {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let once = Patience { attempts: 1, ..Patience::default() };
    Bucket::open(&settings(port, "down")).unwrap().remote().patient(once)
}

#[tokio::test]
async fn r01_a_store_that_is_down_at_a_save_is_unavailable() {
    let answer = down().await.append(&stream("x"), &Frontier::default(), &line(0)).await;
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
}

#[tokio::test]
async fn r02_a_store_that_is_down_at_a_restore_is_not_empty() {
    let remote = down().await;
    for answer in [remote.frontier(&stream("x")).await.err(), remote.read(&stream("x"), 0).await.err()] {
        assert!(matches!(answer, Some(Error::Unavailable { .. })), "{answer:?}");
    }
}

#[test]
fn plain_http_is_only_for_those_who_say_so() {
    let open = |endpoint: &str, options: &[(&str, &str)]| {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let endpoint = Some(endpoint.to_owned());
        Bucket::open(&Settings { bucket: "bucket".to_owned(), endpoint, options, ..Settings::default() })
    };
    assert!(open("http://localhost:1", &[]).is_ok());
    assert!(open("https://localhost:1", &[("AWS_ALLOW_HTTP", "true")]).is_ok());
    let half = open("https://localhost:1", &[("AWS_ACCESS_KEY_ID", "key")]);
    assert!(matches!(half, Err(Error::Invalid(_))), "{half:?}");
    let odd = Bucket::open(&Settings { bucket: "b".to_owned(), prefix: "a//b".to_owned(), ..Settings::default() });
    assert!(matches!(odd, Err(Error::Invalid(_))), "{odd:?}");
}
