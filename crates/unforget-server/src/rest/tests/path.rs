//! The way to a point: its runs, its compactions, and what stands beside it.

use unforget_core::key::Key;
use unforget_core::medium::{Os, replace_durable};
use unforget_core::record::Draft;
use unforget_core::scan::scan;
use unforget_core::session::Session;

use super::*;

/// A session that is written here and not by an agent.
pub(super) fn written(server: &Server) -> Session {
    let key: Key = "main:web:ada".parse().unwrap();
    server.realm.store().create(&key, None).unwrap()
}

/// Puts other bytes into the place of a transcript.
pub(super) fn put(server: &Server, agent: &str, id: &str, bytes: &[u8]) {
    let folder = server.realm.root().join("agents").join(agent).join("sessions");
    unforget_core::medium::Medium::create_dir(&Os::new(folder.clone()), "".as_ref()).unwrap();
    replace_durable(&Os::new(folder), format!("{id}.jsonl").as_ref(), bytes).unwrap();
}

fn numbers(value: &Value) -> Vec<u64> {
    let runs = value["ranges"].as_array().unwrap();
    runs.iter().flat_map(|run| run[0].as_u64().unwrap()..=run[1].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_is_that_of_the_history() {
    let server = Server::new().await;
    let mut session = written(&server);
    let id = session.id().to_string();
    let one = session.append(&[Draft::user("one"), Draft::assistant(None, "\"1\"")]).unwrap().end - 1;
    session.append(&[Draft::label(Some(one), "here")]).unwrap();
    session.append(&[Draft::user("two"), Draft::title("Two")]).unwrap();
    session.append(&[Draft::assistant(None, "\"2\"")]).unwrap();
    let aside = session.append(&[Draft::user("three")]).unwrap().start;
    session.append(&[Draft::head(Some(one), "rewind")]).unwrap();
    let cut = Draft::compaction("all of it", Some(one)).raw("before", "900").raw("after", "30").text("by", "model");
    let cut = session.append(&[cut]).unwrap().start;
    session.append(&[Draft::undo(cut), Draft::user("four")]).unwrap();
    let again = session.append(&[Draft::compaction("again", None).text("by", "somebody")]).unwrap().start;
    let head = session.append(&[Draft::user("five")]).unwrap().start;
    let bytes = session.reader().unwrap().read_all().unwrap();
    drop(session);

    let way = server.get(&format!("/sessions/{id}/path")).await.is(200);
    let scanned = scan(&bytes);
    // All steps but those that were left behind; what a summary replaces is on the way all the same.
    let steps = scanned.records.iter().filter(|record| record.is_step() && !(one + 1..cut).contains(&record.n));
    let want: Vec<u64> = steps.map(|record| record.n).collect();
    assert_eq!(numbers(&way), want);
    assert_eq!((&way["at"], &way["head"], &way["last"]), (&json!(head), &json!(head), &json!(head)));
    assert_eq!(
        way["compactions"],
        json!([
            { "n": cut, "first_kept": one, "before": 900, "after": 30, "by": "model", "undone": true },
            { "n": again, "first_kept": null, "before": null, "after": null, "by": null, "undone": false },
        ])
    );
    let notes = scanned.records.iter().filter(|record| ["label", "title", "head"].contains(&record.kind()));
    assert_eq!(way["notes"], json!(notes.map(|record| record.n).collect::<Vec<_>>()));
    assert_eq!(way["damage"], json!([]));

    let there = server.get(&format!("/sessions/{id}/path?at={aside}")).await.is(200);
    assert_eq!((&there["at"], &there["head"], &there["compactions"]), (&json!(aside), &json!(head), &json!([])));
    assert!(!numbers(&there).contains(&cut) && numbers(&there).contains(&aside), "{there}");
    let here = server.get(&format!("/sessions/{id}/path?at=here")).await.is(200);
    assert_eq!((&here["at"], &here["ranges"]), (&json!(one), &json!([[0, one]])));
    for wrong in ["at=99", "at=nowhere", "at=3", "to=1", "at=-1"] {
        server.get(&format!("/sessions/{id}/path?{wrong}")).await.fails(400, "invalid");
    }
    let long = "0".repeat(201);
    server.get(&format!("/sessions/{id}/path?at={long}")).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_has_the_numbers_that_records_tells() {
    let server = Server::new().await;
    let mut session = written(&server);
    let id = session.id().to_string();
    session.append(&(0..6).map(|n| Draft::user(&format!("words {n}"))).collect::<Vec<_>>()).unwrap();
    let whole = String::from_utf8(session.reader().unwrap().read_all().unwrap()).unwrap();
    drop(session);
    let mut lines: Vec<&str> = whole.lines().collect();
    lines[2] = "{ broken";
    lines.remove(5);
    let text = format!("{}\n{{\"v\":1,\"n\":7,\"ty", lines.join("\n"));
    put(&server, "main", &id, text.as_bytes());

    let way = server.get(&format!("/sessions/{id}/path")).await.is(200);
    let told: Vec<(u64, &str)> = way["damage"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["n"].as_u64().unwrap(), it["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(2, "malformed"), (2, "gap"), (5, "gap"), (6, "checksum_mismatch"), (7, "torn")], "{way}");
    assert_eq!(numbers(&way), [0, 1, 3, 4, 6]);
    assert_eq!((&way["head"], &way["last"]), (&json!(6), &json!(6)));
    let records = server.get(&format!("/sessions/{id}/records")).await.is(200);
    let damaged = records["records"].as_array().unwrap().iter().find(|line| line["damage"].is_object()).unwrap();
    assert_eq!((&damaged["n"], &damaged["damage"]["offset"]), (&json!(2), &way["damage"][0]["offset"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_another_program_are_one_row() {
    let server = Server::new().await;
    let id = uuid::Uuid::now_v7().to_string();
    let line = |n: u64, parent: &str| {
        format!(
            r#"{{"parentUuid":{parent},"sessionId":"{id}","type":"user","uuid":"u{n}","timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":"words {n}"}}}}"#
        )
    };
    let text = format!("{}\nno record\n{}\n{}\n", line(0, "null"), line(1, "\"u0\""), line(2, "\"u0\""));
    put(&server, "claude", &id, text.as_bytes());
    let way = server.get(&format!("/sessions/{id}/path")).await.is(200);
    assert_eq!((&way["ranges"], &way["head"], &way["last"]), (&json!([[0, 3]]), &json!(3), &json!(3)));
    assert_eq!((&way["damage"][0]["n"], &way["compactions"], &way["notes"]), (&json!(1), &json!([]), &json!([])));
    let part = server.get(&format!("/sessions/{id}/path?at=2")).await.is(200);
    assert_eq!((&part["ranges"], &part["at"]), (&json!([[0, 2]]), &json!(2)));
    for wrong in ["at=4", "at=main"] {
        server.get(&format!("/sessions/{id}/path?{wrong}")).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_which_everything_was_taken_back_has_no_way() {
    let server = Server::new().await;
    let mut session = written(&server);
    session.append(&[Draft::user("one"), Draft::head(None, "undo")]).unwrap();
    let way = server.get(&format!("/sessions/{}/path", session.id())).await.is(200);
    assert_eq!((&way["at"], &way["head"], &way["ranges"]), (&Value::Null, &Value::Null, &json!([])));
    assert_eq!(way["last"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_drawn_from_the_newest_turns() {
    let server = Server::new().await;
    let mut session = written(&server);
    let id = session.id().to_string();
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    session.append(&[Draft::user(secret), Draft::assistant(None, "\"1\"")]).unwrap();
    session.append(&[Draft::head(Some(0), "rewind"), Draft::user("again"), Draft::compaction("short", None)]).unwrap();
    let tree = server.get(&format!("/sessions/{id}/tree")).await;
    assert!(!tree.text().contains(secret));
    let tree = tree.is(200);
    let turns = tree["turns"].as_array().unwrap();
    assert_eq!((&turns[0]["n"], &turns[0]["parent"]), (&json!(1), &Value::Null));
    assert_eq!((&turns[1]["n"], &turns[1]["parent"], &turns[1]["words"]), (&json!(4), &Value::Null, &json!("again")));
    assert!(turns[1]["ms"].is_i64());
    assert_eq!((&tree["compactions"], &tree["more"]), (&json!([5]), &json!(false)));
    session.append(&(0..2000).map(|_| Draft::user("x")).collect::<Vec<_>>()).unwrap();
    let tree = server.get(&format!("/sessions/{id}/tree")).await.is(200);
    assert_eq!((tree["turns"].as_array().unwrap().len(), &tree["more"]), (2000, &json!(true)));
    assert_eq!((&tree["turns"][0]["n"], &tree["turns"][0]["parent"]), (&json!(6), &json!(4)));
}
