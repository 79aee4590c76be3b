//! The Messages API's own events, which Claude Code passes on, as pieces of an answer.

use serde_json::{Map, Value};
use unforget_agent::model::{Delta, Event};

use super::wire::Whole;

/// Follows one answer after another. The usage of an answer is what its beginning says, with what its end says put over it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    id: String,
    /// How many blocks of an answer that is not streamed were told.
    told: usize,
    is_streamed: bool,
    usage: Map<String, Value>,
    stop_reason: Option<String>,
}

impl Stream {
    /// The piece that an event is; none for those that say nothing, or that are not known.
    pub(super) fn take(&mut self, event: &Value) -> Option<Event> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let index = || event["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        match event["type"].as_str()? {
            "message_start" => {
                let message = &event["message"];
                *self = Self { id: text(&message["id"]), is_streamed: true, ..Self::default() };
                self.merge(&message["usage"]);
                Some(Event::Started { id: self.id.clone(), model: text(&message["model"]), usage: self.usage() })
            }
            "content_block_start" => {
                Some(Event::BlockStarted { index: index()?, block: event["content_block"].to_string() })
            }
            "content_block_delta" => Some(Event::Delta { index: index()?, delta: delta(&event["delta"]) }),
            "content_block_stop" => Some(Event::BlockEnded { index: index()? }),
            "message_delta" => {
                self.stop_reason = event["delta"]["stop_reason"].as_str().map(str::to_owned);
                self.merge(&event["usage"]);
                None
            }
            "message_stop" => Some(Event::Ended { stop_reason: self.stop_reason.take(), usage: self.usage() }),
            _ => None,
        }
    }

    /// The pieces of an answer that came whole, because it could not be streamed; none if they came before.
    pub(super) fn take_whole(&mut self, whole: &Whole) -> Vec<Event> {
        let mut events = Vec::new();
        if self.id != whole.id {
            *self = Self { id: whole.id.clone(), ..Self::default() };
            events.push(Event::Started { id: whole.id.clone(), model: whole.model.clone(), usage: self.usage() });
        }
        if self.is_streamed {
            return events;
        }
        for block in &whole.blocks {
            let index = self.told;
            self.told += 1;
            let text = |name: &str| block[name].as_str().map(str::to_owned);
            let delta = match block["type"].as_str() {
                Some("text") => text("text").map(Delta::Text),
                Some("thinking") => text("thinking").map(Delta::Thinking),
                Some("tool_use") => Some(Delta::Input(block["input"].to_string())),
                _ => None,
            };
            let mut begun = block.clone();
            if let Some(Delta::Text(_) | Delta::Thinking(_)) = delta {
                for name in ["text", "thinking"].into_iter().filter(|name| block[*name].is_string()) {
                    begun[name] = Value::from("");
                }
            } else if delta.is_some() {
                begun["input"] = Value::Object(Map::new());
            }
            events.push(Event::BlockStarted { index, block: begun.to_string() });
            events.extend(delta.map(|delta| Event::Delta { index, delta }));
            events.push(Event::BlockEnded { index });
        }
        events
    }

    fn merge(&mut self, usage: &Value) {
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.usage.insert(name.clone(), value.clone());
        }
    }

    fn usage(&self) -> String {
        Value::Object(self.usage.clone()).to_string()
    }
}

fn delta(delta: &Value) -> Delta {
    let text = |name: &str| delta[name].as_str().map(str::to_owned);
    let known = match delta["type"].as_str() {
        Some("text_delta") => text("text").map(Delta::Text),
        Some("thinking_delta") => text("thinking").map(Delta::Thinking),
        Some("signature_delta") => text("signature").map(Delta::Signature),
        Some("input_json_delta") => text("partial_json").map(Delta::Input),
        _ => None,
    };
    known.unwrap_or_else(|| Delta::Other(delta.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_followed_from_its_beginning_to_its_end() {
        let mut stream = Stream::default();
        let usage = json!({ "input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": null });
        let events = [
            json!({ "type": "message_start", "message": { "id": "m", "model": "c", "usage": usage } }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "ping" }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "hi" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "citations_delta" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 2 } }),
            json!({ "type": "message_stop" }),
        ];
        let heard: Vec<Event> = events.iter().filter_map(|event| stream.take(event)).collect();
        let expected = vec![
            Event::Started {
                id: "m".to_owned(),
                model: "c".to_owned(),
                usage: r#"{"input_tokens":7,"output_tokens":1}"#.to_owned(),
            },
            Event::BlockStarted { index: 0, block: r#"{"text":"","type":"text"}"#.to_owned() },
            Event::Delta { index: 0, delta: Delta::Text("hi".to_owned()) },
            Event::Delta { index: 0, delta: Delta::Other(r#"{"type":"citations_delta"}"#.to_owned()) },
            Event::BlockEnded { index: 0 },
            Event::Ended {
                stop_reason: Some("end_turn".to_owned()),
                usage: r#"{"input_tokens":7,"output_tokens":2}"#.to_owned(),
            },
        ];
        assert_eq!(heard, expected);
    }

    #[test]
    fn an_answer_that_came_whole_is_told_in_the_same_words() {
        let mut stream = Stream::default();
        let whole = |id: &str, block: Value| Whole { id: id.to_owned(), model: "c".to_owned(), blocks: vec![block] };
        let text = whole("m", json!({ "type": "text", "text": "hi" }));
        let call = whole("m", json!({ "type": "tool_use", "id": "t", "name": "Bash", "input": { "command": "ls" } }));
        let heard: Vec<Event> = [text, call].iter().flat_map(|whole| stream.take_whole(whole)).collect();
        let expected = vec![
            Event::Started { id: "m".to_owned(), model: "c".to_owned(), usage: "{}".to_owned() },
            Event::BlockStarted { index: 0, block: r#"{"text":"","type":"text"}"#.to_owned() },
            Event::Delta { index: 0, delta: Delta::Text("hi".to_owned()) },
            Event::BlockEnded { index: 0 },
            Event::BlockStarted {
                index: 1,
                block: r#"{"id":"t","input":{},"name":"Bash","type":"tool_use"}"#.to_owned(),
            },
            Event::Delta { index: 1, delta: Delta::Input(r#"{"command":"ls"}"#.to_owned()) },
            Event::BlockEnded { index: 1 },
        ];
        assert_eq!(heard, expected);
        stream.take(&json!({ "type": "message_start", "message": { "id": "n" } }));
        assert_eq!(stream.take_whole(&whole("n", json!({ "type": "text", "text": "hi" }))), Vec::new());
    }

    #[test]
    fn what_is_malformed_is_passed_over() {
        let mut stream = Stream::default();
        for event in [json!(null), json!({}), json!({ "type": "content_block_stop" }), json!({ "type": 3 })] {
            assert_eq!(stream.take(&event), None, "{event}");
        }
    }
}
