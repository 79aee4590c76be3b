//! What a turn reads of its transcript, counted by the medium: nothing, however long the session is.

use std::sync::Arc;

use serde_json::json;
use unforget_core::medium::Os;
use unforget_testkit::api::Reply;
use unforget_testkit::counting::{Counting, Reads};
use unforget_testkit::long_past::LongPast;

use crate::support::{Scene, blocks};

#[tokio::test]
async fn a_turn_reads_nothing_of_its_transcript_however_long_that_is() {
    for past in [0, 10 << 20, 1 << 30] {
        let mut scene = Scene::with_window(60_000);
        let session = scene.session.take().unwrap();
        let transcript = session.path().to_owned();
        drop(session);
        let entry = scene.store().list().unwrap().entries.remove(0);
        let counting = Counting::new(LongPast::new(Os::new(&scene.root), &transcript, past).unwrap());
        scene.medium = Arc::new(counting.clone());
        scene.session = Some(scene.store().open(&entry).unwrap());
        assert!(scene.session.as_ref().unwrap().reader().unwrap().len() > past);
        // The first look is part of opening.
        scene.history();
        counting.forget();
        let check = |what: &str| assert_eq!(counting.reads_of(&transcript), Reads::default(), "{past}: {what}");
        scene.says("hello").await;
        check("words");
        scene.says("[[chain:6|echo on]]").await;
        check("calls one after the other");
        scene.says("[[parallel:long 100||cjk 3000||fail]]").await;
        check("calls at once");
        scene.says("[[bash:long 1000]]").await;
        let id = blocks(&scene.last_request(), "tool_result").last().unwrap()["tool_use_id"].clone();
        let call = json!({"type": "tool_use", "name": "read_output", "input": {"tool_use_id": id, "offset": 15_000}});
        scene.api.push(Reply::Blocks { blocks: vec![call], stop_reason: "tool_use".to_owned() });
        scene.says("more").await;
        let piece =
            blocks(&scene.last_request(), "tool_result").last().unwrap()["content"].as_str().unwrap().to_owned();
        assert!(piece.starts_with("[bytes 15000 to "), "{piece}");
        check("a piece of a long output");
        let compacted = scene.of_type("compaction").len();
        for round in 0..6 {
            scene.says(&format!("round {round} [[chain:3|long 300]]")).await;
            scene.says(&"a long story about a door ".repeat(1500)).await;
        }
        assert!(scene.of_type("compaction").len() > compacted && !scene.of_type("trim").is_empty());
        check("turns that make room");
        scene.compact().await.unwrap();
        check("a compaction by hand");
        // What the summary stood for is read again, once.
        assert!(scene.undo().is_some());
        scene.history();
        counting.forget();
        scene.says("and on").await;
        check("a turn behind a compaction that was undone");
        assert_eq!(scene.of_type("context").len() - 1, scene.of_type("compaction").len(), "stated again behind each");
        scene.assert_no_refusal();
    }
}
