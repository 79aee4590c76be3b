//! Images: too large, too many, and too heavy for a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use unforget_core::history::{Limits, RepairKind};
use unforget_core::record::Draft;

use super::{after_power_loss, history_of_lines, repairs, restored, sent, session_with, text, user, words};
use crate::support::{self, assert_accepted};

#[test]
fn c29_an_image_of_more_than_8000_pixels_is_replaced_by_a_note() {
    let history = history_of_content(&[image(8001, 20), image(20, 9000), image(8000, 8000)]);
    let why = |pixels: u32| format!("{pixels} pixels wide or high, over the limit of 8000");
    assert_eq!(
        sent(&history),
        json!([user(json!([
            text(&format!("[image not sent: {}]", why(8001))),
            text(&format!("[image not sent: {}]", why(9000))),
            image(8000, 8000),
        ]))])
    );
    let replaced = |pixels| (0, RepairKind::ImageReplaced(why(pixels)));
    assert_eq!(repairs(&history), [replaced(8001), replaced(9000)]);
}

#[test]
fn c29_an_image_in_a_tool_result_is_measured_too() {
    let output = json!([text("a screenshot"), image(9000, 20)]);
    let history = history_of_lines(&[
        r#"{"type":"user","content":"look"}"#,
        r#"{"type":"tool_use","tool_use_id":"a","name":"screenshot","input":{}}"#,
        &json!({"type": "tool_result", "tool_use_id": "a", "output": output}).to_string(),
    ]);
    let note = "[image not sent: 9000 pixels wide or high, over the limit of 8000]";
    assert_eq!(sent(&history)[2]["content"][0]["content"], json!([text("a screenshot"), text(note)]));
}

#[test]
fn c30_twenty_images_may_be_large() {
    let mut images = vec![image(2001, 10)];
    images.extend((0..19).map(|_| image(10, 10)));
    let history = history_of_content(&images);
    assert_eq!(sent(&history), json!([user(json!(images))]));
    assert_eq!(repairs(&history), []);
}

#[test]
fn c30_with_the_21st_image_those_over_2000_pixels_become_notes() {
    let mut images = vec![image(2001, 10), image(2000, 2000)];
    images.extend((0..19).map(|_| image(10, 10)));
    let history = history_of_content(&images);
    let why = "over 2000 pixels in a conversation with more than 20 images";
    images[0] = text(&format!("[image not sent: {why}]"));
    assert_eq!(sent(&history), json!([user(json!(images))]));
    assert_eq!(repairs(&history), [(0, RepairKind::ImageReplaced(why.to_owned()))]);
}

#[test]
fn c30_of_more_than_100_images_the_oldest_become_notes() {
    let mut images: Vec<Value> = (1..=101).map(|side| image(side, 1)).collect();
    let history = history_of_content(&images);
    let why = "one of the oldest of more than 100 images";
    for image in &mut images[..20] {
        *image = text(&format!("[image not sent: {why}]"));
    }
    assert_eq!(sent(&history), json!([user(json!(images))]));
    assert_eq!(repairs(&history), vec![(0, RepairKind::ImageReplaced(why.to_owned())); 20]);
}

#[test]
fn c31_large_images_leave_the_line_and_come_back_byte_for_byte() {
    let (medium, store) = support::crash_store();
    // Spelled as no serializer would, to see that nothing spells it anew.
    let large = heavy_image(1).to_string().replacen("{\"", "{ \"", 1);
    let drafts = [
        Draft::new("user").raw("content", &format!("[{{\"type\":\"text\",\"text\":\"look\"}},{large}]")),
        Draft::tool_use(Some("m1"), "a", "screenshot", "{}"),
        Draft::tool_result("a", &format!("[{large}]")),
        Draft::assistant(Some("m2"), &words("nice")),
    ];
    let session = session_with(&store, &drafts);
    let live = session.history(&Limits::default()).unwrap().history;
    let (medium, store) = {
        let path = session.path().to_owned();
        let lines = medium.read(&path).unwrap();
        let longest = lines.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
        assert!(longest < 1000, "a line of {longest} bytes");
        after_power_loss(&medium)
    };
    let history = restored(&store).history;
    assert_eq!(history, live);
    assert_eq!(history.messages[0].blocks[1], large.as_str());
    assert!(history.messages[2].blocks[0].contains(&large));
    assert_eq!(repairs(&history), []);
    assert_accepted(&history, "images from blobs");
    let blobs = medium.paths().into_iter().filter(|path| path.starts_with("blobs/")).count();
    assert_eq!(blobs, 1, "the same image is stored once");
}

#[test]
fn c31_a_lost_image_is_a_note_in_its_place_and_damage_in_the_report() {
    let (medium, store) = support::crash_store();
    let content = format!("[{{\"type\":\"text\",\"text\":\"look\"}},{}]", heavy_image(2));
    drop(session_with(&store, &[Draft::new("user").raw("content", &content)]));
    let blob = medium.paths().into_iter().find(|path| path.starts_with("blobs/")).unwrap();
    medium.write_file(blob, b"not what was stored").unwrap();
    let restored = restored(&store);
    assert_accepted(&restored.history, "lost image");
    assert_eq!(sent(&restored.history)[0]["content"][0], text("look"));
    let note = sent(&restored.history)[0]["content"][1]["text"].as_str().unwrap().to_owned();
    assert!(note.starts_with("[a payload is missing here: "), "{note}");
    let damage: Vec<&str> = restored.report.notes.iter().map(|note| note.kind.name()).collect();
    assert_eq!(damage, ["blob_unreadable"]);
}

/// An image block with the head of a real PNG.
pub(super) fn image(width: u32, height: u32) -> Value {
    block(&png(width, height))
}

/// An image of half a megabyte.
fn heavy_image(seed: u8) -> Value {
    let mut bytes = png(1000, 1000);
    bytes.resize(500_000, seed);
    block(&bytes)
}

fn block(bytes: &[u8]) -> Value {
    let source = json!({"type": "base64", "media_type": "image/png", "data": STANDARD.encode(bytes)});
    json!({"type": "image", "source": source})
}

/// Signature and IHDR chunk of a PNG: all that tells its size.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    // Eight bits of grey, no interlacing, and a checksum that nobody looks at.
    bytes.extend(b"\x08\0\0\0\0\0\0\0\0");
    bytes
}

fn history_of_content(blocks: &[Value]) -> unforget_core::history::History<'static> {
    history_of_lines(&[&json!({"type": "user", "content": blocks}).to_string()])
}
