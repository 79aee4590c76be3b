//! From the pieces of an answer to the records that keep it: a pure fold over events.
//!
//! At any moment, and so also when the stream is cut or the person has heard enough, it can tell what is complete. Text can
//! be kept in half; thinking without its signature and calls without all of their arguments cannot, and are left out. Values
//! that came as text stay the text they were.

use std::borrow::Cow;

use unforget_core::json;
use unforget_core::record::Draft;
use unforget_core::session::block_draft;

use super::{Delta, Event};
use crate::tools::Call;

/// An answer as far as it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assembly {
    id: Option<String>,
    model: Option<String>,
    blocks: Vec<Block>,
    /// Why the model stopped; none while it speaks, or if it did not say.
    pub stop_reason: Option<String>,
    /// JSON text of the usage, as far as it is known.
    pub usage: Option<String>,
    /// Whether the answer is complete.
    pub ended: bool,
}

/// A content block as far as it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Block {
    index: usize,
    /// JSON text of the block as it began.
    start: String,
    text: String,
    thinking: String,
    signature: String,
    input: String,
    citations: Vec<String>,
    ended: bool,
}

impl Assembly {
    /// Takes the next piece.
    pub fn feed(&mut self, event: &Event) {
        match event {
            Event::Retrying { .. } => *self = Self::default(),
            Event::Started { id, model, usage } => {
                self.id = Some(id.clone());
                self.model = Some(model.clone());
                self.usage = Some(usage.clone());
            }
            Event::BlockStarted { index, block } => {
                self.blocks.push(Block { index: *index, start: block.clone(), ..Block::default() });
            }
            Event::Delta { index, delta } => {
                if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.index == *index) {
                    block.add(delta);
                }
            }
            Event::BlockEnded { index } => {
                if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.index == *index) {
                    block.ended = true;
                }
            }
            Event::Ended { stop_reason, usage } => {
                self.stop_reason.clone_from(stop_reason);
                self.usage = Some(usage.clone());
                self.ended = true;
            }
        }
    }

    /// The model that answered.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether anything came that can be kept.
    pub fn is_empty(&self) -> bool {
        self.finished().next().is_none()
    }

    /// The calls whose arguments are complete, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.finished().filter_map(|block| block.call().filter(|call| call.input.starts_with('{'))).collect()
    }

    /// Ids of the calls whose arguments were cut off when the model had no room left.
    pub fn cut_off(&self) -> Vec<String> {
        let calls = self.finished().filter_map(Block::call);
        calls.filter(|call| !call.input.starts_with('{')).map(|call| call.id).collect()
    }

    /// Whether a tool of the server was called: only then may the server be asked to go on behind its own words.
    pub fn waits_for_server(&self) -> bool {
        self.finished().any(|block| block.kind() == "server_tool_use")
    }

    /// The text so far.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(Block::plain_text);
        texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// The records that keep it, one a block; `fallback` names the message if the server did not.
    pub fn drafts(&self, fallback: &str) -> Vec<Draft> {
        let msg = self.id.as_deref().filter(|id| !id.is_empty()).unwrap_or(fallback);
        let whole = self.ended;
        self.finished()
            .map(|block| {
                let draft = match block.call().filter(|call| !call.input.starts_with('{')) {
                    Some(cut_off) => Draft::tool_use(Some(msg), &cut_off.id, &cut_off.name, &cut_off.input),
                    None => block_draft(msg, &block.unambiguous()),
                };
                let draft = match &self.model {
                    Some(model) => draft.text("model", model),
                    None => draft,
                };
                if whole || block.ended { draft } else { draft.raw("interrupted", "true") }
            })
            .collect()
    }

    /// The blocks that can be kept.
    fn finished(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.ended || block.plain_text().is_some_and(|text| !text.trim().is_empty()))
    }
}

impl Block {
    fn add(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Thinking(text) => self.thinking.push_str(text),
            Delta::Signature(text) => self.signature.push_str(text),
            Delta::Input(text) => self.input.push_str(text),
            Delta::Other(raw) => {
                let members = json::members(raw).unwrap_or_default();
                if let Some(citation) = json::member(&members, "citation") {
                    self.citations.push(citation.to_owned());
                }
            }
        }
    }

    fn member(&self, name: &str) -> Option<String> {
        let members = json::members(&self.start)?;
        json::member(&members, name).map(str::to_owned)
    }

    fn string(&self, name: &str) -> Option<String> {
        self.member(name).and_then(|raw| json::string(&raw).map(std::borrow::Cow::into_owned))
    }

    fn kind(&self) -> String {
        self.string("type").unwrap_or_default()
    }

    fn plain_text(&self) -> Option<String> {
        (self.kind() == "text").then(|| self.string("text").unwrap_or_default() + &self.text)
    }

    /// JSON text of the arguments; if they are not complete, or have one name twice, the text of what came.
    fn arguments(&self) -> String {
        let text = match self.input.trim() {
            "" => Cow::Owned(self.member("input").unwrap_or_else(|| "{}".to_owned())),
            streamed => Cow::Borrowed(streamed),
        };
        match serde_json::from_str::<&serde_json::value::RawValue>(&text) {
            Ok(_) if text.starts_with('{') && !self.is_ambiguous(&text) => text.into_owned(),
            _ => json::quote(&text),
        }
    }

    /// Whether two readers could understand the block or what was streamed of it differently.
    fn is_ambiguous(&self, streamed: &str) -> bool {
        json::duplicate(streamed).is_some() || json::duplicate(&self.start).is_some()
    }

    fn call(&self) -> Option<Call> {
        if self.kind() != "tool_use" {
            return None;
        }
        Some(Call { id: self.string("id")?, name: self.string("name")?, input: self.arguments() })
    }

    /// The block, or the text of one that has a name twice: that is kept for people and sent as words.
    fn unambiguous(&self) -> String {
        let whole = self.json();
        match json::duplicate(&whole) {
            None => whole,
            Some(_) => format!("{{\"type\":\"text\",\"text\":{}}}", json::quote(&whole)),
        }
    }

    /// The block as the API would have sent it whole.
    fn json(&self) -> String {
        let members = json::members(&self.start).unwrap_or_default();
        let citations = format!("[{}]", self.citations.join(","));
        let mut out = String::from("{");
        let mut add = |name: &str, value: &str| {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&json::quote(name));
            out.push(':');
            out.push_str(value);
        };
        let mut signed = false;
        for (name, value) in &members {
            let grown = |more: &str| json::quote(&(json::string(value).unwrap_or_default().into_owned() + more));
            match name.as_ref() {
                "text" if !self.text.is_empty() => add(name, &grown(&self.text)),
                "thinking" if !self.thinking.is_empty() => add(name, &grown(&self.thinking)),
                "signature" => {
                    signed = true;
                    add(name, &grown(&self.signature));
                }
                "input" if !self.input.trim().is_empty() => add(name, &self.arguments()),
                "citations" if !self.citations.is_empty() => {}
                _ => add(name, value),
            }
        }
        if !signed && !self.signature.is_empty() {
            add("signature", &json::quote(&self.signature));
        }
        if !self.citations.is_empty() {
            add("citations", &citations);
        }
        out.push('}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(index: usize, block: &str) -> Event {
        Event::BlockStarted { index, block: block.to_owned() }
    }

    fn delta(index: usize, delta: Delta) -> Event {
        Event::Delta { index, delta }
    }

    fn assembled(events: &[Event]) -> Assembly {
        let mut assembly = Assembly::default();
        let begin = Event::Started { id: "msg_1".into(), model: "m".into(), usage: "{}".into() };
        assembly.feed(&begin);
        for event in events {
            assembly.feed(event);
        }
        assembly
    }

    fn lines(assembly: &Assembly) -> Vec<String> {
        let draft = |draft: &Draft| {
            let members: Vec<String> = draft.members().iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} {}", draft.kind(), members.join(" "))
        };
        assembly.drafts("fallback").iter().map(draft).collect()
    }

    #[test]
    fn a_whole_answer_keeps_every_block_with_the_text_it_came_in() {
        let assembly = assembled(&[
            started(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
            delta(0, Delta::Thinking("hm".into())),
            delta(0, Delta::Signature("c2ln".into())),
            Event::BlockEnded { index: 0 },
            started(1, r#"{"type":"text","text":""}"#),
            delta(1, Delta::Text("日本".into())),
            delta(1, Delta::Text("語 \"x\"".into())),
            Event::BlockEnded { index: 1 },
            started(2, r#"{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}"#),
            delta(2, Delta::Input("{\"b\":1.0,".into())),
            delta(2, Delta::Input("\"a\":2e3}".into())),
            Event::BlockEnded { index: 2 },
            Event::Ended { stop_reason: Some("tool_use".into()), usage: r#"{"output_tokens":3}"#.into() },
        ]);
        assert_eq!(
            lines(&assembly),
            [
                r#"assistant msg="msg_1" content=[{"type":"thinking","thinking":"hm","signature":"c2ln"}] model="m""#,
                r#"assistant msg="msg_1" content=[{"type":"text","text":"日本語 \"x\""}] model="m""#,
                r#"tool_use msg="msg_1" tool_use_id="toolu_1" name="bash" input={"b":1.0,"a":2e3} model="m""#,
            ]
        );
        assert_eq!(assembly.calls().len(), 1);
        assert_eq!(assembly.stop_reason.as_deref(), Some("tool_use"));
    }

    #[test]
    fn of_a_cut_answer_only_text_and_whole_blocks_are_kept() {
        let assembly = assembled(&[
            started(0, r#"{"type":"text","text":""}"#),
            delta(0, Delta::Text("half an ans".into())),
            started(1, r#"{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}"#),
            delta(1, Delta::Input("{\"command\":\"rm".into())),
            started(2, r#"{"type":"thinking","thinking":""}"#),
            delta(2, Delta::Thinking("no signature".into())),
        ]);
        assert_eq!(
            lines(&assembly),
            [r#"assistant msg="msg_1" content=[{"type":"text","text":"half an ans"}] model="m" interrupted=true"#]
        );
        assert!(assembly.calls().is_empty() && assembly.cut_off().is_empty());
    }

    #[test]
    fn arguments_that_ran_out_of_room_are_kept_as_text_and_not_called() {
        let assembly = assembled(&[
            started(0, r#"{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}"#),
            delta(0, Delta::Input("{\"command\":\"rm -r".into())),
            Event::BlockEnded { index: 0 },
            Event::Ended { stop_reason: Some("max_tokens".into()), usage: "{}".into() },
        ]);
        assert!(lines(&assembly)[0].contains(r#"input="{\"command\":\"rm -r""#), "{:?}", lines(&assembly));
        assert_eq!((assembly.calls().len(), assembly.cut_off()), (0, vec!["toolu_1".to_owned()]));
    }

    #[test]
    fn a_retry_begins_anew_and_unknown_blocks_survive() {
        let assembly = assembled(&[
            started(0, r#"{"type":"text","text":"old"}"#),
            Event::Retrying { attempt: 1, of: 2, wait: std::time::Duration::ZERO, why: String::new() },
            started(0, r#"{"type":"future_block","x":1e2}"#),
            Event::BlockEnded { index: 0 },
        ]);
        assert_eq!(lines(&assembly), [r#"assistant msg="fallback" content=[{"type":"future_block","x":1e2}]"#]);
    }
}
