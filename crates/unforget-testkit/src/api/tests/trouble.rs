//! Trouble that a test has planned.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::{MESSAGES, ask, hear, parse, post, say, start, user, with};
use crate::api::{CutIn, Recorded, Reply};

/// Reads until the body so far ends with this, and returns all bytes.
fn read_until(stream: &mut TcpStream, wanted: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while !parse(&bytes).body().ends_with(wanted.as_bytes()) {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "the stream ended");
        bytes.extend_from_slice(&buffer[..length]);
    }
    bytes
}

#[test]
fn planned_errors_come_in_order_and_are_no_refusals() {
    let api = start();
    let error = |status, kind: &str, retry_after| Reply::Error {
        status,
        kind: kind.to_owned(),
        message: "planned".to_owned(),
        retry_after,
    };
    api.push(error(429, "rate_limit_error", Some(7)));
    api.push(error(529, "overloaded_error", None));
    // What the rules refuse uses up nothing.
    assert_eq!(ask(&api, &with(say("hi"), "nonsense", json!(1))).status, 400);
    let first = ask(&api, &say("hi"));
    assert_eq!(first.error(), (429, "rate_limit_error".to_owned(), "planned".to_owned()));
    assert!(first.head.contains("retry-after: 7"));
    let second = ask(&api, &say("hi"));
    assert_eq!(second.status, 529);
    assert!(!second.head.contains("retry-after"));
    assert_eq!(ask(&api, &say("hi")).status, 200);
    assert_eq!((api.refusals().len(), api.planned()), (1, 0));
}

#[test]
fn only_streams_use_up_a_reply_unless_its_condition_says_otherwise() {
    let api = start();
    let raw = |body: &str| Reply::Raw {
        status: 503,
        headers: vec![("x-planned".to_owned(), "yes".to_owned())],
        body: body.as_bytes().to_vec(),
    };
    api.push(raw("stream"));
    api.push_for(|request: &Recorded| request.json()["max_tokens"] == 7, raw("seven"));
    let whole = with(say("hi"), "stream", json!(false));
    assert_eq!(ask(&api, &whole).status, 200);
    let seven = ask(&api, &with(whole, "max_tokens", json!(7)));
    assert_eq!((seven.status, seven.body()), (503, b"seven".to_vec()));
    assert!(seven.head.contains("x-planned: yes"));
    assert_eq!(ask(&api, &say("hi")).body(), b"stream");
}

#[test]
fn an_error_may_come_after_the_status() {
    let api = start();
    let (kind, message) = ("overloaded_error".to_owned(), "Overloaded".to_owned());
    api.push(Reply::ErrorEvent { after_text: "half a".to_owned(), kind, message });
    let heard = ask(&api, &say("hi"));
    assert_eq!((heard.status, heard.text()), (200, "half a".to_owned()));
    assert_eq!(heard.events().last().unwrap()["error"], json!({"type": "overloaded_error", "message": "Overloaded"}));
}

#[test]
fn a_stream_breaks_in_the_middle_of_any_block() {
    let api = start();
    for (block, kind, member) in [
        (CutIn::Text, "text_delta", "text"),
        (CutIn::Thinking, "thinking_delta", "thinking"),
        (CutIn::ToolUse, "input_json_delta", "partial_json"),
    ] {
        let text = "{\"command\": \"echo 途中".to_owned();
        api.push(Reply::Cut { text: text.clone(), block });
        let heard = ask(&api, &say("hi"));
        assert_eq!((heard.status, heard.told(kind, member)), (200, text), "{block:?}");
        assert!(!heard.is_whole, "{block:?}");
        assert_eq!(heard.events().last().unwrap()["type"], "content_block_delta", "{block:?}");
    }
    assert_eq!(api.hang_ups(), 0);
}

#[test]
fn a_stalled_stream_goes_on_when_released() {
    let api = start();
    api.push(Reply::Stall { text: "w".to_owned() });
    let mut stream = post(&api, MESSAGES, &say("hi"));
    assert_eq!(api.wait_for_requests(1).len(), 1);
    // One character is one delta.
    let mut bytes = read_until(&mut stream, "\"content_block_delta\"}\n\n");
    api.release();
    stream.read_to_end(&mut bytes).unwrap();
    let heard = parse(&bytes);
    assert!(heard.is_whole);
    assert_eq!((heard.text(), heard.stop_reason()), ("w".to_owned(), json!("end_turn")));
}

#[test]
fn a_client_that_goes_away_is_noticed() {
    let api = start();
    api.push(Reply::Stall { text: String::new() });
    api.push(Reply::Silence);
    let mut stream = post(&api, MESSAGES, &say("hi"));
    read_until(&mut stream, "ping\"}\n\n");
    assert_eq!(api.hang_ups(), 0);
    drop(stream);
    assert_eq!(api.wait_for_hang_ups(1), 1);
    let silent = post(&api, MESSAGES, &say("hi"));
    assert_eq!(api.wait_for_requests(2).len(), 2);
    drop(silent);
    assert_eq!(api.wait_for_hang_ups(2), 2);
}

#[test]
fn silence_ends_with_an_ordinary_answer() {
    let api = start();
    api.push(Reply::Silence);
    let stream = post(&api, MESSAGES, &say("hi"));
    let waiting = api.wait_for_requests(1);
    assert_eq!(waiting[0].status, None);
    api.release();
    assert_eq!(hear(stream).text(), "ECHO(1 messages): hi");
    assert_eq!(api.messages()[0].status, Some(200));
}

#[test]
fn planned_blocks_get_what_they_lack() {
    let api = start();
    let citation = json!({"type": "char_location", "cited_text": "x"});
    let blocks = vec![
        json!({"type": "thinking", "thinking": "hm"}),
        json!({"type": "text", "text": "see", "citations": [citation]}),
        json!({"type": "redacted_thinking", "data": "xyz"}),
        json!({"type": "tool_use", "name": "bash", "input": {"command": "ls"}}),
    ];
    api.push(Reply::Blocks { blocks, stop_reason: "tool_use".to_owned() });
    let heard = ask(&api, &say("hi"));
    assert!(!heard.told("signature_delta", "signature").is_empty());
    assert!(heard.events().iter().any(|event| event["delta"]["citation"] == citation));
    let started = heard.started_blocks();
    assert_eq!(started[2], json!({"type": "redacted_thinking", "data": "xyz"}));
    assert!(started[3]["id"].as_str().unwrap().starts_with("toolu_"));
    assert_eq!(heard.input(), json!({"command": "ls"}));
}

#[test]
fn arguments_may_end_too_early() {
    let api = start();
    api.push(Reply::CutInput { name: "bash".to_owned(), input: "{\"command\": \"ec".to_owned() });
    let heard = ask(&api, &say("hi"));
    assert_eq!(heard.told("input_json_delta", "partial_json"), "{\"command\": \"ec");
    assert_eq!(heard.stop_reason(), "max_tokens");
    assert!(heard.is_whole);
}

#[test]
fn connections_are_kept_for_several_requests() {
    let api = start();
    let mut stream = TcpStream::connect(("127.0.0.1", api.port())).unwrap();
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let body = with(super::request(&[user(json!("hi"))]), "stream", json!(false)).to_string();
    for _ in 0..2 {
        let head = format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\n{}{}", super::KEY, super::VERSION);
        stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
        read_until(&mut stream, "}}");
    }
    assert_eq!(api.messages().len(), 2);
}

#[test]
fn a_dropped_server_is_gone() {
    let api = start();
    api.push(Reply::Stall { text: String::new() });
    let port = api.port();
    let mut stream = post(&api, MESSAGES, &say("hi"));
    read_until(&mut stream, "ping\"}\n\n");
    drop(api);
    let mut rest = Vec::new();
    // Whether the end comes with an error depends on what is on its way.
    drop(stream.read_to_end(&mut rest));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
