//! Rollouts of Codex.
//!
//! A rollout is a list: what was said and called are `response_item` lines; `event_msg` lines say much of it
//! again for the screen and are taken only for what nobody else says (tokens, an abort, a rollback). A rollback takes the last
//! turns of the user out of the conversation: here the head moves back and they stay as a branch. The texts that Codex puts
//! before the user's words by itself (environment, instructions) are counted, not taken over.

use std::borrow::Cow;

use crate::import::content::{self, Usage};
use crate::import::conversion::Conversion;
use crate::import::object::Object;
use crate::json;
use crate::record::Draft;
use crate::session::block_draft;

/// How texts begin that Codex writes in the user's name.
const BY_CODEX: [&str; 8] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<collaboration_mode>",
    "<skills_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
];
/// Events that say again what a `response_item` says, or that something began or ended.
const SAID_TWICE: [&str; 11] = [
    "user_message",
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "context_compacted",
    "task_started",
    "turn_started",
    "exec_command_end",
    "patch_apply_end",
    "web_search_end",
];
/// What stands for a search that ran elsewhere.
const ELSEWHERE: &str = "[it ran at the provider, and what it found was not saved]";
/// What stands for a summary that only the provider can read.
const UNREADABLE: &str = "[The conversation before this was compacted by Codex; its summary is encrypted.]";

/// What is known of the rollout so far.
#[derive(Debug, Default)]
pub(super) struct Codex {
    has_header: bool,
    model: Option<String>,
    /// Counts the answers: everything that the model says until someone else does.
    answer: u64,
    speaks: Speaker,
    /// The record before each turn of the user that is still in the conversation.
    turns: Vec<u64>,
    /// JSON text of the tokens counted so far: the same count is often written twice.
    counted: Option<String>,
    /// Whether something was said since the last `turn` record.
    open: bool,
    /// Whether the last thing that the model said was a call.
    calls: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    #[default]
    User,
    Model,
    Tool,
}

impl Codex {
    /// Takes the next line.
    pub(super) fn take(&mut self, line: &Object<'_>, out: &mut Conversion) {
        out.at_time(line.time_ms("timestamp"));
        let kind = line.text("type");
        let Some(payload) = line.object("payload") else {
            // Before 2025-09 the items were not wrapped, and the header had no type.
            return match kind.as_deref() {
                None if line.has("instructions") => self.header(line, line.time_ms("timestamp"), out),
                None => out.leave_out("line without a type"),
                Some(kind) => self.item(kind, line, out),
            };
        };
        match kind.as_deref() {
            Some("session_meta") => self.header(&payload, line.time_ms("timestamp"), out),
            Some("response_item") => self.item(&payload.text("type").unwrap_or_default(), &payload, out),
            Some("turn_context") => self.model = payload.text("model").map(Cow::into_owned).or(self.model.take()),
            Some("compacted") => compacted(&payload, out),
            Some("event_msg") => self.event(&payload, out),
            other => out.leave_out(&format!("line of type {}", other.unwrap_or("none"))),
        }
    }

    fn header(&mut self, meta: &Object<'_>, time_ms: Option<i64>, out: &mut Conversion) {
        if std::mem::replace(&mut self.has_header, true) {
            return out.leave_out("another session header");
        }
        out.about.id = meta.text("id").map(Cow::into_owned);
        out.about.folder = meta.text("cwd").map(Cow::into_owned);
        out.about.created_ms = meta.time_ms("timestamp").or(time_ms);
    }

    /// The name of the answer that the model is giving.
    fn msg(&mut self) -> String {
        if self.speaks != Speaker::Model {
            self.answer += 1;
            self.speaks = Speaker::Model;
        }
        self.open = true;
        format!("codex-{}", self.answer)
    }

    fn say(&mut self, block: &str, out: &mut Conversion) {
        let msg = self.msg();
        let draft = block_draft(&msg, block);
        self.calls = draft.kind() == "tool_use";
        out.push(match &self.model {
            Some(model) if draft.kind() == "assistant" => draft.text("model", model),
            _ => draft,
        });
    }

    fn call(&mut self, id: &str, name: &str, input: &str, out: &mut Conversion) {
        let (id, name) = (json::quote(id), json::quote(name));
        self.say(&format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}"), out);
    }

    fn item(&mut self, kind: &str, item: &Object<'_>, out: &mut Conversion) {
        let call_id = item.text("call_id").or_else(|| item.text("id"));
        match (kind, call_id) {
            ("message", _) => self.message(item, out),
            ("reasoning", _) => match thought(item) {
                Some(words) => {
                    let block = format!("{{\"type\":\"thinking\",\"thinking\":{}}}", json::quote(&words));
                    self.say(&block, out);
                }
                None => out.leave_out("reasoning that is encrypted"),
            },
            ("function_call", Some(id)) => {
                let name = item.text("name").unwrap_or(Cow::Borrowed("function"));
                let input = content::arguments(item.raw("arguments").unwrap_or("{}"), "arguments");
                self.call(&id, &name, &input, out);
            }
            ("custom_tool_call", Some(id)) => {
                let name = item.text("name").unwrap_or(Cow::Borrowed("custom"));
                let input = content::arguments(item.raw("input").unwrap_or("{}"), "input");
                self.call(&id, &name, &input, out);
            }
            ("local_shell_call", Some(id)) => {
                let input = content::arguments(item.raw("action").unwrap_or("{}"), "action");
                self.call(&id, "local_shell", &input, out);
            }
            ("function_call_output" | "custom_tool_call_output" | "local_shell_call_output", Some(id)) => {
                self.speaks = Speaker::Tool;
                out.push(output(&id, item.raw("output").unwrap_or("\"\"")));
            }
            ("web_search_call" | "image_generation_call" | "tool_search_call", id) => {
                let id = id.map_or_else(|| format!("{kind}-{}", out.next()), Cow::into_owned);
                let input = content::arguments(item.raw("action").unwrap_or("{}"), "action");
                self.call(&id, kind.trim_end_matches("_call"), &input, out);
                self.speaks = Speaker::Tool;
                out.push(Draft::tool_result(&id, &json::quote(ELSEWHERE)));
            }
            ("", _) => out.leave_out("item without a type"),
            (other, _) => out.leave_out(&format!("item of type {other}")),
        }
    }

    fn message(&mut self, item: &Object<'_>, out: &mut Conversion) {
        let role = item.text("role").unwrap_or_default();
        let mut blocks = Vec::new();
        for part in item.objects("content") {
            match part.text("type").as_deref() {
                Some("input_text" | "output_text" | "text") => {
                    let Some(raw) = part.raw("text").filter(|raw| raw.starts_with('"')) else { continue };
                    if role == "user" && is_by_codex(raw) {
                        out.leave_out("text that Codex puts before the user's words");
                    } else {
                        blocks.push(content::text(raw));
                    }
                }
                Some("input_image") => blocks.extend(part.text("image_url").map(|address| content::image_at(&address))),
                other => out.leave_out(&format!("content of type {}", other.unwrap_or("none"))),
            }
        }
        match role.as_ref() {
            "user" if blocks.is_empty() => {}
            "user" => {
                self.speaks = Speaker::User;
                self.turns.push(out.head());
                out.push(Draft::new("user").raw("content", &content::joined(&blocks)));
            }
            "assistant" => blocks.iter().for_each(|block| self.say(block, out)),
            other => out.leave_out(&format!("message of role {other}")),
        }
    }

    fn event(&mut self, event: &Object<'_>, out: &mut Conversion) {
        match event.text("type").as_deref() {
            Some("token_count") => self.tokens(event, out),
            Some("task_complete" | "turn_complete") => {
                if self.open {
                    self.turn("done", None, out);
                }
            }
            Some("turn_aborted") => self.turn("aborted", None, out),
            Some("thread_rolled_back") => {
                let turns = event.number("num_turns").and_then(|turns| usize::try_from(turns).ok()).unwrap_or(0);
                let left = self.turns.len().saturating_sub(turns);
                if let Some(before) = self.turns.get(left).copied() {
                    self.turns.truncate(left);
                    self.speaks = Speaker::User;
                    out.go_to(before);
                }
            }
            Some("thread_name_updated") => match event.text("thread_name").filter(|name| !name.trim().is_empty()) {
                Some(name) => out.push(Draft::title(&name)),
                None => out.leave_out("name of a thread that is empty"),
            },
            Some("error" | "stream_error") => {
                out.push(Draft::new("error").text("message", &event.text("message").unwrap_or_default()));
            }
            Some(kind) if SAID_TWICE.contains(&kind) => {}
            other => out.leave_out(&format!("event of type {}", other.unwrap_or("none"))),
        }
    }

    fn tokens(&mut self, event: &Object<'_>, out: &mut Conversion) {
        let Some(info) = event.object("info") else { return };
        let total = info.raw("total_token_usage").map(str::to_owned);
        let Some(last) = info.object("last_token_usage").filter(|_| total != self.counted) else { return };
        self.counted = total;
        let number = |name| last.number(name).unwrap_or(0);
        // The cached tokens are counted among the input here, and beside it by the Messages API.
        let (cache_read, cache_write) = (number("cached_input_tokens"), number("cache_write_input_tokens"));
        let usage = Usage {
            input: number("input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
            output: number("output_tokens"),
            cache_read,
            cache_write,
            cost: None,
        };
        let state = if self.calls { "running" } else { "done" };
        self.turn(state, Some(usage), out);
    }

    fn turn(&mut self, state: &str, usage: Option<Usage<'_>>, out: &mut Conversion) {
        self.open = false;
        let mut turn = Draft::turn(state);
        if let Some(usage) = usage {
            turn = turn.raw("usage", &usage.to_json());
        }
        out.push(match &self.model {
            Some(model) => turn.text("model", model),
            None => turn,
        });
    }
}

fn is_by_codex(raw: &str) -> bool {
    json::string(raw).is_some_and(|text| BY_CODEX.iter().any(|start| text.trim_start().starts_with(start)))
}

/// What can be read of a reasoning: its summary, or its text.
fn thought(item: &Object<'_>) -> Option<String> {
    let words = |name| {
        let parts = item.objects(name).into_iter().filter_map(|part| part.text("text").map(Cow::into_owned));
        Some(parts.collect::<Vec<_>>().join("\n\n")).filter(|words| !words.trim().is_empty())
    };
    words("summary").or_else(|| words("content"))
}

/// What came back: text, content items, or an object with both a content and a verdict.
fn output(id: &str, raw: &str) -> Draft {
    if let Some(items) = json::elements(raw) {
        let block = |raw: &&str| {
            let item = Object::parse(raw)?;
            match item.text("type").as_deref()? {
                "input_text" | "output_text" | "text" => item.raw("text").map(content::text),
                "input_image" => item.text("image_url").map(|address| content::image_at(&address)),
                _ => None,
            }
        };
        let blocks: Vec<String> =
            items.iter().map(|raw| block(raw).unwrap_or_else(|| content::text(&json::quote(raw)))).collect();
        return Draft::tool_result(id, &content::joined(&blocks));
    }
    match Object::parse(raw) {
        Some(object) => {
            let draft = Draft::tool_result(id, object.raw("content").unwrap_or(raw));
            if object.raw("success") == Some("false") { draft.raw("is_error", "true") } else { draft }
        }
        None => Draft::tool_result(id, raw),
    }
}

/// Everything before it is replaced by a summary, and by what Codex kept.
fn compacted(payload: &Object<'_>, out: &mut Conversion) {
    let message = payload.text("message").filter(|message| !message.trim().is_empty());
    let mut summary = message.as_deref().unwrap_or(UNREADABLE).to_owned();
    for item in payload.objects("replacement_history") {
        if item.text("type").as_deref() != Some("message") {
            continue;
        }
        let role = item.text("role").unwrap_or_default();
        for part in item.objects("content") {
            let Some(text) = part.text("text") else { continue };
            let again = message.as_deref().is_some_and(|message| text.contains(message));
            let by_codex = BY_CODEX.iter().any(|start| text.trim_start().starts_with(start));
            if !again && !by_codex && matches!(role.as_ref(), "user" | "assistant") {
                summary.push_str(&format!("\n\n[kept, {role}] {text}"));
            }
        }
    }
    out.push(Draft::compaction(&summary, None));
}
