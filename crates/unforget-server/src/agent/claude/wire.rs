//! What Claude Code says on its standard output and is told on its standard input: `stream-json`, one object per line.
//!
//! Only what a turn needs is understood; the rest is [`Said::Other`], because every release adds something. What comes from an agent below
//! the main one names the call that started it, and its words are not the conversation's.

use std::time::Duration;

use serde_json::{Value, json};
use unforget_agent::tools::{Call, Output};

use super::id::PromptId;

/// The model of what the program says in the model's place.
pub(super) const SYNTHETIC: &str = "<synthetic>";

/// Something that Claude Code said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// A turn begins, in this session.
    Began {
        /// The session's id.
        session: String,
    },
    /// A request leaves.
    Asking,
    /// The model could not be asked; it is tried again.
    Retrying { attempt: u32, of: u32, wait: Duration, why: String },
    /// The conversation was made smaller.
    Compacted,
    /// An event of the Messages API, as it came.
    Stream(Value),
    /// A message that is in the transcript, or will be in a moment.
    Message(Message),
    /// Whether a call may run.
    Ask { request: String, call: Call, input: Value },
    /// Something else is asked that nobody here can answer.
    Request { request: String, subtype: String },
    /// A question is withdrawn.
    Withdrawn { request: String },
    /// What became of a prompt: `queued`, `started`, `completed`, `cancelled`.
    Lifecycle { prompt: String, state: String },
    /// The turn has ended.
    Verdict(Verdict),
    /// Something that is not needed here.
    Other,
}

/// A message of the conversation, or of an agent below it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Message {
    /// The line's name in the transcript.
    pub(super) uuid: Option<String>,
    /// Whether an agent below the main one says it.
    pub(super) is_below: bool,
    /// Calls of tools.
    pub(super) calls: Vec<Call>,
    /// Results, with the calls' ids.
    pub(super) results: Vec<(String, Output)>,
    /// What the model said, if it did.
    pub(super) answer: Option<Whole>,
}

/// A part of an answer as it is when it is complete. What was not streamed is heard only here.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Whole {
    /// The answer's id.
    pub(super) id: String,
    /// The model.
    pub(super) model: String,
    /// Its blocks.
    pub(super) blocks: Vec<Value>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Verdict {
    /// `success` or what kind of error.
    pub(super) subtype: String,
    pub(super) is_error: bool,
    /// What was said last, or the error for people.
    pub(super) text: String,
    pub(super) stop_reason: Option<String>,
    /// JSON text.
    pub(super) usage: Option<String>,
    /// The HTTP status of the API's refusal.
    pub(super) status: Option<u64>,
    pub(super) session: Option<String>,
    /// The prompts that it is about; older versions do not say.
    pub(super) prompts: Vec<String>,
}

/// Understands a line; none if it is no object.
pub(super) fn parse(line: &[u8]) -> Option<Said> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let kind = value.as_object()?.get("type").and_then(Value::as_str).unwrap_or_default();
    Some(match kind {
        "system" => system(&value),
        "stream_event" if value["parent_tool_use_id"].is_null() => Said::Stream(value["event"].clone()),
        "assistant" | "user" => Said::Message(message(&value)),
        "control_request" => request(&value),
        "control_cancel_request" => Said::Withdrawn { request: text(&value["request_id"]) },
        "command_lifecycle" => Said::Lifecycle { prompt: text(&value["command_uuid"]), state: text(&value["state"]) },
        "result" => Said::Verdict(verdict(&value)),
        _ => Said::Other,
    })
}

fn system(value: &Value) -> Said {
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
    match value["subtype"].as_str() {
        Some("init") => Said::Began { session: text(&value["session_id"]) },
        Some("status") if value["status"] == "requesting" => Said::Asking,
        Some("api_retry") => {
            let why = match value["error_status"].as_u64() {
                Some(status) => format!("the API answered {status}"),
                None => "the API cannot be reached".to_owned(),
            };
            let wait = Duration::from_millis(number("retry_delay_ms"));
            Said::Retrying { attempt: small("attempt"), of: small("max_retries"), wait, why }
        }
        Some("compact_boundary") => Said::Compacted,
        _ => Said::Other,
    }
}

fn message(value: &Value) -> Message {
    let mut message = Message {
        uuid: value["uuid"].as_str().map(str::to_owned),
        is_below: !value["parent_tool_use_id"].is_null(),
        ..Message::default()
    };
    let said = &value["message"];
    let blocks = said["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    if value["type"] == "assistant" && said["model"] != SYNTHETIC {
        message.answer = Some(Whole { id: text(&said["id"]), model: text(&said["model"]), blocks: blocks.to_vec() });
    }
    for block in blocks {
        match block["type"].as_str() {
            Some("tool_use") => message.calls.push(Call {
                id: text(&block["id"]),
                name: text(&block["name"]),
                input: block["input"].to_string(),
            }),
            Some("tool_result") => {
                let output = Output { text: words(&block["content"]), is_error: block["is_error"] == true };
                message.results.push((text(&block["tool_use_id"]), output));
            }
            _ => {}
        }
    }
    message
}

/// The words of a result: a text, or the texts among its blocks.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn request(value: &Value) -> Said {
    let (id, request) = (text(&value["request_id"]), &value["request"]);
    let subtype = text(&request["subtype"]);
    if subtype != "can_use_tool" {
        return Said::Request { request: id, subtype };
    }
    // A call without an id has at least its question's.
    let call_id = request["tool_use_id"].as_str().unwrap_or(&id).to_owned();
    let input = request["input"].clone();
    let call = Call { id: call_id, name: text(&request["tool_name"]), input: input.to_string() };
    Said::Ask { request: id, call, input }
}

fn verdict(value: &Value) -> Verdict {
    let errors = || {
        let errors = value["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        errors.collect::<Vec<_>>().join("; ")
    };
    Verdict {
        subtype: text(&value["subtype"]),
        is_error: value["is_error"] == true,
        text: value["result"].as_str().map_or_else(errors, str::to_owned),
        stop_reason: value["stop_reason"].as_str().map(str::to_owned),
        usage: value["usage"].as_object().map(|_| value["usage"].to_string()),
        status: value["api_error_status"].as_u64(),
        session: value["session_id"].as_str().map(str::to_owned),
        prompts: value["user_message_uuids"].as_array().into_iter().flatten().map(text).collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A person's words.
pub(super) fn prompt(id: &PromptId, words: &str) -> Value {
    let message = json!({ "role": "user", "content": words });
    json!({ "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": id.as_str() })
}

/// That a call may run, with these arguments.
pub(super) fn allow(request: &str, input: &Value) -> Value {
    respond(request, json!({ "behavior": "allow", "updatedInput": input }))
}

/// That a call may not run, and what the model is told.
pub(super) fn deny(request: &str, reason: &str) -> Value {
    respond(request, json!({ "behavior": "deny", "message": reason }))
}

fn respond(request: &str, response: Value) -> Value {
    let response = json!({ "subtype": "success", "request_id": request, "response": response });
    json!({ "type": "control_response", "response": response })
}

/// That what was asked is not answered here.
pub(super) fn refuse(request: &str) -> Value {
    let response = json!({ "subtype": "error", "request_id": request, "error": "not supported here" });
    json!({ "type": "control_response", "response": response })
}

/// That the turn is to end.
pub(super) fn interrupt(id: &PromptId) -> Value {
    json!({ "type": "control_request", "request_id": id.as_str(), "request": { "subtype": "interrupt" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Said {
        parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_question_about_a_call_is_understood() {
        let line = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t"}}"#;
        let input = json!({ "command": "ls" });
        let call = Call { id: "t".to_owned(), name: "Bash".to_owned(), input: input.to_string() };
        assert_eq!(said(line), Said::Ask { request: "r".to_owned(), call, input: input.clone() });
        assert_eq!(
            allow("r", &input).to_string(),
            r#"{"response":{"request_id":"r","response":{"behavior":"allow","updatedInput":{"command":"ls"}},"subtype":"success"},"type":"control_response"}"#
        );
    }

    #[test]
    fn results_are_words_whatever_they_are_made_of() {
        let line = r#"{"type":"user","uuid":"u","parent_tool_use_id":null,"message":{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"a","content":"out"},
            {"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"x"},{"type":"image"},{"type":"text","text":"y"}]}]}}"#;
        let results = vec![("a".to_owned(), Output::ok("out")), ("b".to_owned(), Output::failed("x\ny"))];
        let message = Message { uuid: Some("u".to_owned()), results, ..Message::default() };
        assert_eq!(said(line), Said::Message(message));
    }

    #[test]
    fn what_the_program_says_in_the_models_place_is_no_answer() {
        let line = |model: &str| json!({ "type": "assistant", "uuid": "u", "message": { "id": "m", "model": model, "content": [{ "type": "text", "text": "x" }] } });
        let answer = |model: &str| match said(&line(model).to_string()) {
            Said::Message(message) => message.answer.map(|answer| answer.blocks.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!((answer("claude"), answer(SYNTHETIC)), (Some(1), None));
    }

    #[test]
    fn a_verdict_without_a_result_tells_its_errors() {
        let line = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["a","b"],"session_id":"s","user_message_uuids":["p"]}"#;
        let expected = Verdict {
            subtype: "error_during_execution".to_owned(),
            is_error: true,
            text: "a; b".to_owned(),
            session: Some("s".to_owned()),
            prompts: vec!["p".to_owned()],
            ..Verdict::default()
        };
        assert_eq!(said(line), Said::Verdict(expected));
    }

    #[test]
    fn what_is_not_known_is_something_else_and_what_is_no_object_is_nothing() {
        assert_eq!(said(r#"{"type":"prophecy"}"#), Said::Other);
        assert_eq!(said("{}"), Said::Other);
        assert_eq!(said(r#"{"type":"stream_event","parent_tool_use_id":"t","event":{}}"#), Said::Other);
        for line in ["", "nonsense", "[1]", "\"x\"", "{\"type\":"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}
