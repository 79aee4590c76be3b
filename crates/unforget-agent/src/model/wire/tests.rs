use super::super::ModelError;
use super::super::refusal::Again;
use super::*;

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":12,"cache_read_input_tokens":900,"cache_creation":{"ephemeral_5m_input_tokens":3},"output_tokens":1,"service_tier":"standard"}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn tell(answer: &mut Answer, data: &str) -> Result<Vec<Event>, Refusal> {
    answer.take(&Message { name: String::new(), data: data.to_owned() })
}

/// What the events say behind a `message_start`, without the beginning.
fn said(datas: &[&str]) -> Vec<Event> {
    let mut answer = Answer::default();
    let mut events = Vec::new();
    for data in [START].iter().chain(datas) {
        events.extend(tell(&mut answer, data).unwrap());
    }
    assert!(events.is_empty() || matches!(events.remove(0), Event::Started { .. }));
    events
}

fn begins() -> Event {
    Event::Started {
        id: "msg_1".to_owned(),
        model: "claude-x".to_owned(),
        usage: r#"{"input_tokens":12,"cache_read_input_tokens":900,"cache_creation":{"ephemeral_5m_input_tokens":3},"output_tokens":1,"service_tier":"standard"}"#.to_owned(),
    }
}

#[test]
fn the_beginning_is_held_back_until_something_follows() {
    let mut answer = Answer::default();
    assert_eq!(tell(&mut answer, START), Ok(vec![]));
    assert_eq!(tell(&mut answer, r#"{"type":"ping"}"#), Ok(vec![]));
    assert!(!answer.has_shown());
    let block = r#"{"type":"text","text":""}"#;
    let data = format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#);
    let started = Event::BlockStarted { index: 0, block: block.to_owned() };
    assert_eq!(tell(&mut answer, &data), Ok(vec![begins(), started]));
    assert!(answer.has_shown() && !answer.has_ended());
}

#[test]
fn every_kind_of_delta_is_told() {
    let unknown = r#"{"type":"citations_delta", "citation":{"n":1.50}}"#;
    for (raw, want) in [
        (r#"{"type":"text_delta","text":"日\n\u00e9"}"#, Delta::Text("日\né".to_owned())),
        (r#"{"type":"thinking_delta","thinking":"hm"}"#, Delta::Thinking("hm".to_owned())),
        (r#"{"type":"signature_delta","signature":"c2ln"}"#, Delta::Signature("c2ln".to_owned())),
        (r#"{"type":"input_json_delta","partial_json":"{\"a\": 1.0"}"#, Delta::Input("{\"a\": 1.0".to_owned())),
        (unknown, Delta::Other(unknown.to_owned())),
        (r#"{"type":"text_delta"}"#, Delta::Other(r#"{"type":"text_delta"}"#.to_owned())),
    ] {
        let data = format!(r#"{{"type":"content_block_delta","index":3,"delta":{raw}}}"#);
        assert_eq!(said(&[&data]), [Event::Delta { index: 3, delta: want }]);
    }
}

#[test]
fn what_is_not_known_is_tolerated() {
    let block = r#"{"type":"brand_new","payload":[1.0,{"b":1,"a":2}]}"#;
    let data = format!(r#"{{"index":0,"content_block":{block},"type":"content_block_start","more":true}}"#);
    assert_eq!(
        said(&[r#"{"type":"brand_new_event","x":[]}"#, &data, r#"{"type":"content_block_stop","index":0}"#]),
        [Event::BlockStarted { index: 0, block: block.to_owned() }, Event::BlockEnded { index: 0 }]
    );
}

#[test]
fn usage_grows_over_the_beginning_and_keeps_what_it_said() {
    let events = said(&[
        r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":20}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":0,"cache_read_input_tokens":null,"cache_creation":{"ephemeral_5m_input_tokens":4},"output_tokens":42,"server_tool_use":{"web_search_requests":1}}}"#,
        STOP,
    ]);
    let usage = r#"{"input_tokens":12,"cache_read_input_tokens":900,"cache_creation":{"ephemeral_5m_input_tokens":4},"output_tokens":42,"service_tier":"standard","server_tool_use":{"web_search_requests":1}}"#;
    assert_eq!(events, [Event::Ended { stop_reason: Some("end_turn".to_owned()), usage: usage.to_owned() }]);
}

#[test]
fn an_error_event_is_the_error_that_it_names() {
    let mut answer = Answer::default();
    tell(&mut answer, START).unwrap();
    let data = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let refusal = tell(&mut answer, data).unwrap_err();
    assert_eq!(refusal, Refusal::passing(ModelError::Unavailable { message: "Overloaded".to_owned() }));
    assert!(!answer.has_shown());
}

#[test]
fn the_name_of_an_event_stands_in_for_its_type() {
    let message =
        Message { name: "error".to_owned(), data: r#"{"error":{"type":"api_error","message":"x"}}"#.to_owned() };
    assert_eq!(Answer::default().take(&message).unwrap_err().again, Again::Later);
}

#[test]
fn what_cannot_be_understood_is_an_error() {
    for (begun, data) in [
        (true, "not json"),
        (true, r#"{"type":"content_block_start","index":0}"#),
        (true, r#"{"type":"content_block_start","content_block":{}}"#),
        (true, r#"{"type":"content_block_delta","index":-1,"delta":{}}"#),
        (true, r#"{"type":"message_delta","delta":7}"#),
        (true, r#"{"type":"error"}"#),
        (false, r#"{"type":"message_start"}"#),
        (false, r#"{"type":"content_block_stop","index":0}"#),
        (false, STOP),
    ] {
        let mut answer = Answer::default();
        if begun {
            tell(&mut answer, START).unwrap();
        }
        let refusal = tell(&mut answer, data).unwrap_err();
        assert!(matches!(refusal.error, ModelError::Protocol { .. }), "{data}: {refusal:?}");
        assert_eq!(refusal.again, Again::Never);
        assert!(!answer.has_ended() && !answer.has_shown());
    }
}

#[test]
fn an_answer_in_one_piece_is_told_like_a_streamed_one() {
    let whole = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"redacted_thinking","data":"xx"},{"type":"text","text":"hi","citations":null},{"type":"tool_use","id":"t","name":"read","input":{"b":1.0,"a":2}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":9}}"#;
    let mut answer = Answer::default();
    let events = answer.take_whole(whole).unwrap();
    let usage = r#"{"input_tokens":3,"output_tokens":9}"#.to_owned();
    let start = |index, block: &str| Event::BlockStarted { index, block: block.to_owned() };
    let more = |index, delta| Event::Delta { index, delta };
    let end = |index| Event::BlockEnded { index };
    assert_eq!(
        events,
        [
            Event::Started { id: "msg_1".to_owned(), model: "claude-x".to_owned(), usage: usage.clone() },
            start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
            more(0, Delta::Thinking("hm".to_owned())),
            more(0, Delta::Signature("c2ln".to_owned())),
            end(0),
            start(1, r#"{"type":"redacted_thinking","data":"xx"}"#),
            end(1),
            start(2, r#"{"type":"text","text":"","citations":null}"#),
            more(2, Delta::Text("hi".to_owned())),
            end(2),
            start(3, r#"{"type":"tool_use","id":"t","name":"read","input":{}}"#),
            more(3, Delta::Input(r#"{"b":1.0,"a":2}"#.to_owned())),
            end(3),
            Event::Ended { stop_reason: Some("tool_use".to_owned()), usage },
        ]
    );
    assert!(answer.has_ended() && answer.has_shown());
}

#[test]
fn a_body_that_is_no_answer_is_an_error() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let refusal = Answer::default().take_whole(error).unwrap_err();
    assert_eq!(refusal.error, ModelError::Unavailable { message: "Overloaded".to_owned() });
    for body in ["", "[]", "{}", r#"{"content":"x"}"#] {
        let refusal = Answer::default().take_whole(body).unwrap_err();
        assert!(matches!(refusal.error, ModelError::Protocol { .. }), "{body}");
    }
}
