//! What is posted: the text of a request.
//!
//! It is put together from the texts of the history and never goes through a tree of values, which would change numbers
//! and the order of members, and with them what the server remembers and the signatures of thinking. The messages come
//! last: a longer conversation only adds to the text.
//!
//! This module knows neither keys nor addresses.

use unforget_core::json;
use unforget_core::report::visible;

use super::refusal::Refusal;
use super::{ModelError, Request, Thinking, cache};

/// The body that asks for an answer.
pub(super) fn of_question(model: &str, request: &Request<'_>) -> Result<String, Refusal> {
    if let Thinking::Budget(budget) = request.thinking
        && budget >= request.max_tokens
    {
        // The server would refuse it as well, and in words that name no setting.
        let message =
            format!("a thinking budget of {budget} does not fit into {} tokens of answer", request.max_tokens);
        return Err(Refusal::last(ModelError::Rejected { status: 400, message }));
    }
    let text = write(model, request, &format!(",\"max_tokens\":{},\"stream\":true", request.max_tokens));
    // The history leaves such records out; what other callers put together is looked at all the same.
    if let Some(twice) = json::duplicate(&text) {
        let message = format!("it has the member `{}` twice in one object, so it was not sent", visible(&twice.name));
        return Err(Refusal::last(ModelError::Rejected { status: 400, message }));
    }
    Ok(text)
}

/// The body that asks how many tokens a request has.
pub(super) fn of_count(model: &str, request: &Request<'_>) -> String {
    write(model, request, "")
}

fn write(model: &str, request: &Request<'_>, limits: &str) -> String {
    let marked = cache::mark(request.history);
    let thinking = match request.thinking {
        Thinking::Default => String::new(),
        Thinking::Adaptive => r#","thinking":{"type":"adaptive"}"#.to_owned(),
        Thinking::Budget(budget) => format!(r#","thinking":{{"type":"enabled","budget_tokens":{budget}}}"#),
    };
    let mut out = format!("{{\"model\":{}{limits}{thinking}", json::quote(model));
    for (name, value) in [("system", marked.system), ("tools", marked.tools)] {
        if let Some(value) = value {
            out.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    out.push_str(",\"messages\":");
    out.push_str(&marked.messages);
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use unforget_core::history::{History, Message, Role};
    use unforget_testkit::rules;

    use super::*;

    fn history() -> History<'static> {
        let block = r#"{"type":"text", "text":"1.0 \u00e9", "citations":null}"#;
        History {
            messages: vec![Message { role: Role::User, blocks: vec![block.into()] }],
            system: Some(r#""be \u0062rief""#.into()),
            tools: Some(r#"[{"name":"a","input_schema":{"type":"object","maximum":1.50}}]"#.into()),
            ..History::default()
        }
    }

    #[test]
    fn the_texts_of_the_history_are_sent_as_they_are() {
        let history = history();
        let request = Request { history: &history, max_tokens: 4096, thinking: Thinking::Adaptive };
        let mark = r#""cache_control":{"type":"ephemeral"}"#;
        let parts = format!(
            r#""thinking":{{"type":"adaptive"}},"system":[{{"type":"text","text":"be \u0062rief",{mark}}}],"tools":[{{"name":"a","input_schema":{{"type":"object","maximum":1.50}},{mark}}}],"messages":[{{"role":"user","content":[{{"type":"text", "text":"1.0 \u00e9", "citations":null,{mark}}}]}}]}}"#
        );
        let question = of_question("claude-opus-5", &request).unwrap();
        assert_eq!(question, format!(r#"{{"model":"claude-opus-5","max_tokens":4096,"stream":true,{parts}"#));
        assert_eq!(of_count("claude-opus-5", &request), format!(r#"{{"model":"claude-opus-5",{parts}"#));
    }

    #[test]
    fn every_way_to_think_obeys_the_rules_of_its_models() {
        let history = history();
        for (model, thinking) in [
            ("claude-opus-5", Thinking::Default),
            ("claude-opus-5", Thinking::Adaptive),
            ("claude-sonnet-4-5", Thinking::Budget(2048)),
        ] {
            let request = Request { history: &history, max_tokens: 4096, thinking };
            let server = rules::Server { model, ..Default::default() };
            assert_eq!(rules::check(of_question(model, &request).unwrap().as_bytes(), &server), Ok(()));
        }
        let request = Request { history: &history, max_tokens: 4096, thinking: Thinking::Budget(2048) };
        let question = of_question("m", &request).unwrap();
        assert!(question.contains(r#","thinking":{"type":"enabled","budget_tokens":2048},"#), "{question}");
    }

    #[test]
    fn a_budget_that_leaves_no_room_for_an_answer_is_refused() {
        let history = history();
        let ask = |budget| {
            let request = Request { history: &history, max_tokens: 2048, thinking: Thinking::Budget(budget) };
            of_question("m", &request).is_ok()
        };
        assert_eq!([ask(2047), ask(2048), ask(4096)], [true, false, false]);
    }
}
