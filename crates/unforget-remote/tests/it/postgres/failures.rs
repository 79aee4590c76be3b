//! What a database refuses, and what it cannot be asked: never "not there".

use std::time::Duration;

use unforget_core::frontier::Frontier;
use unforget_remote::postgres::{Limits, Postgres};
use unforget_remote::{Error, Remote as _, conformance};

use super::{bare, client, lines, open, stream};
use unforget_testkit::servers::postgres::{Kind, Server, shared};

/// Puts a question that a new session would begin with.
async fn ask(url: &str) -> Error {
    open(url).frontier(&stream("any")).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_refused_and_never_shown() {
    let make = "DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN PASSWORD 'r1ght' SUPERUSER";
    bare().await.batch_execute(make).await.unwrap();
    for (password, is_right) in [("r1ght", true), ("wr0ng", false), ("", false)] {
        let user = if password.is_empty() { "guarded".to_owned() } else { format!("guarded:{password}") };
        let url = shared().url_as(&user, "schema=guarded");
        let remote = open(&url);
        let error = remote.frontier(&stream("any")).await.unwrap_err();
        match error {
            Error::NotFound { .. } => assert!(is_right),
            Error::Denied { .. } => assert!(!is_right),
            _ => panic!("{error}"),
        }
        for text in [format!("{error} {error:?} {remote:?}"), format!("{:?}", remote.shelf())] {
            assert!(password.is_empty() || !text.contains(password), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_make_tables_is_refused_and_who_may_only_use_them_is_not() {
    bare().await.batch_execute("DROP ROLE IF EXISTS modest; CREATE ROLE modest LOGIN").await.unwrap();
    let error = ask(&shared().url_as("modest", "schema=modest_1")).await;
    assert!(matches!(&error, Error::Denied { reason, .. } if reason.contains("42501")), "{error}");
    client("modest_2").append(&stream("any"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    let error = ask(&shared().url_as("modest", "schema=modest_2")).await;
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let grant = "GRANT USAGE ON SCHEMA modest_2 TO modest; \
                 GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA modest_2 TO modest";
    bare().await.batch_execute(grant).await.unwrap();
    let remote = open(&shared().url_as("modest", "schema=modest_2"));
    let end = remote.frontier(&stream("any")).await.unwrap();
    remote.append(&stream("any"), &end, &lines(&["two".to_owned(), super::large("z")])).await.unwrap();
    assert_eq!(conformance::read_all(&remote, &stream("any"), 0).await.len(), 3);
    remote.delete(&stream("any")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_a_refusal() {
    let url = shared().url("any").replace("/postgres?", "/nowhere?");
    let error = ask(&url).await;
    assert!(matches!(error, Error::Denied { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_a_server_that_is_down_could_not_be_asked() {
    let empty = tempfile::tempdir().unwrap();
    let error = ask(&unforget_testkit::servers::postgres::url(empty.path(), 5432, "postgres", "schema=any")).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // Nobody listens at the first port.
    let error = ask("postgres://me:s3cret@127.0.0.1:1/db").await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_gone_are_damage_and_not_an_empty_place() {
    let remote = client("dropped");
    remote.append(&stream("any"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    bare().await.batch_execute("DROP SCHEMA dropped CASCADE").await.unwrap();
    let error = remote.frontier(&stream("any")).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_newer_program_are_left_alone() {
    client("newer").append(&stream("any"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    bare().await.batch_execute("INSERT INTO newer.versions VALUES (2)").await.unwrap();
    let error = ask(&shared().url("newer")).await;
    assert!(matches!(&error, Error::Invalid(reason) if reason.contains("version 2")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_the_server_ended_are_replaced() {
    let remote = open(&shared().url_as("postgres", "schema=ended&application_name=ended"));
    let mut end = Frontier::default();
    for turn in 0..4 {
        end = remote.append(&stream("any"), &end, &lines(&[format!("{turn}")])).await.unwrap();
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'ended'";
        assert!(bare().await.query_one(ended, &[]).await.unwrap().get::<_, i64>(0) > 0);
    }
    assert_eq!(conformance::read_all(&remote, &stream("any"), 0).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_waits_too_long_is_given_up() {
    client("waits").append(&stream("any"), &Frontier::default(), &lines(&["one"])).await.unwrap();
    let limits = Limits { statement: Duration::from_secs(3), ..Limits::default() };
    let url = shared().url_as("postgres", "schema=waits&application_name=waits");
    let remote = Postgres::open(&url, limits).unwrap().remote();
    let end = remote.frontier(&stream("any")).await.unwrap();
    let holder = bare().await;
    holder.batch_execute("BEGIN; SELECT * FROM waits.streams FOR UPDATE").await.unwrap();
    let error = remote.append(&stream("any"), &end, &lines(&["two"])).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    // Whether the one that was given up came through or not, it is there once.
    let next = remote.append(&stream("any"), &end, &lines(&["two"])).await.unwrap();
    assert_eq!((next.lines, conformance::read_all(&remote, &stream("any"), 0).await.len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_trusted_as_far_as_was_asked_for() {
    let server = Server::start(Kind::Encrypted);
    let url = |host: &str, options: &str| format!("postgres://postgres@{host}:{}/postgres?{options}", server.port);
    let root = format!("sslrootcert={}", server.dir.join("root.pem").display());
    for options in ["sslmode=disable", "sslmode=prefer", "sslmode=require", "", &format!("sslmode=verify-full&{root}")]
    {
        let remote = open(&url("localhost", options));
        let answer = remote.frontier(&stream("any")).await;
        assert!(matches!(answer, Err(Error::NotFound { .. })), "{options}: {answer:?}");
    }
    // Its name is not this one.
    for mode in ["verify-full", "require"] {
        let error = ask(&url("127.0.0.1", &format!("sslmode={mode}&{root}"))).await;
        assert!(matches!(error, Error::Denied { .. }), "{mode}: {error}");
    }
    // Its root is not one that the system knows, if the system knows any.
    match Postgres::open(&url("localhost", "sslmode=verify-full"), Limits::default()) {
        Ok(shelf) => {
            let answer = shelf.remote().frontier(&stream("any")).await;
            assert!(matches!(answer, Err(Error::Denied { .. })), "{answer:?}");
        }
        Err(error) => assert!(matches!(error, Error::Invalid(_)), "{error}"),
    }
    let missing = Postgres::open(&url("localhost", "sslmode=verify-full&sslrootcert=/nowhere.pem"), Limits::default());
    assert!(matches!(missing, Err(Error::Invalid(_))), "{missing:?}");
    // It is encrypted, or it is refused.
    let unencrypted = shared().url_as("postgres", "sslmode=require&schema=any");
    let error = ask(&unencrypted).await;
    assert!(matches!(error, Error::Denied { .. }), "{error}");
}
