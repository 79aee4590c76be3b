//! What a person or a test writes into a text to make the server do something: `[[bash:ls]]`.
//!
//! A directive begins with `[[` and a word, and ends with `]]`; in a run of closing brackets the last two count, so
//! that arguments may end with one. What the tools are called depends on the client, so calls are made for the tools
//! that the request declares.

use serde_json::{Value, json};

const OPEN: &str = "[[";
const CLOSE: &str = "]]";

/// A word and its argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) argument: String,
}

impl Directive {
    /// The two halves of an argument; the second is empty if there is no bar.
    pub(super) fn halves(&self) -> (&str, &str) {
        self.argument.split_once('|').unwrap_or((&self.argument, ""))
    }
}

/// Finds the directives of a text, in order.
pub(super) fn parse(text: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(OPEN) {
        rest = after;
        let Some(end) = after.find(CLOSE) else { break };
        let (inner, closing) = after.split_at(end);
        let extra = closing.bytes().take_while(|&byte| byte == b']').count() - CLOSE.len();
        let inner = after.get(..inner.len() + extra).unwrap_or(inner);
        let (name, argument) = inner.split_once(':').unwrap_or((inner, ""));
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()) {
            found.push(Directive { name: name.to_owned(), argument: argument.to_owned() });
            rest = after.get(inner.len() + CLOSE.len()..).unwrap_or_default();
        }
    }
    found
}

/// The tools that a request declares.
pub(super) struct Tools<'a>(Vec<&'a str>);

impl<'a> Tools<'a> {
    pub(super) fn of(body: &'a Value) -> Self {
        let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        Self(tools.filter_map(|tool| tool.get("name").and_then(Value::as_str)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A call that runs a command.
    pub(super) fn bash(&self, command: &str) -> Value {
        if self.declares("Bash") {
            call("Bash", json!({"command": command, "description": "Runs a command"}))
        } else {
            call("bash", json!({"command": command}))
        }
    }

    /// A call that reads a file.
    pub(super) fn read(&self, path: &str) -> Value {
        if self.declares("Read") {
            call("Read", json!({"file_path": path}))
        } else {
            call("read_file", json!({"path": path}))
        }
    }

    /// A call that writes a file.
    pub(super) fn write(&self, path: &str, content: &str) -> Value {
        if self.declares("Write") {
            call("Write", json!({"file_path": path, "content": content}))
        } else {
            call("write_file", json!({"path": path, "content": content}))
        }
    }

    /// A call that hands a prompt to an agent below this one, in the foreground.
    pub(super) fn agent(&self, prompt: &str) -> Value {
        let name = if self.declares("Agent") { "Agent" } else { "Task" };
        let kind = "general-purpose";
        let input = json!({"description": "Asks an agent", "prompt": prompt, "subagent_type": kind});
        let mut call = call(name, input);
        // Only the newer tool runs in the background unless told otherwise.
        if name == "Agent" {
            call["input"]["run_in_background"] = json!(false);
        }
        call
    }

    fn declares(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// A call without an id.
pub(super) fn call(name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "name": name, "input": input})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        parse(text).into_iter().map(|directive| (directive.name, directive.argument)).collect()
    }

    #[test]
    fn directives_are_found_in_any_text() {
        for (text, wanted) in [
            ("nothing", &[] as &[(&str, &str)]),
            ("[[recall]]", &[("recall", "")]),
            ("do [[think]] and [[bash:echo a:b]] now", &[("think", ""), ("bash", "echo a:b")]),
            ("[[tool:x|[1]]]", &[("tool", "x|[1]")]),
            ("[[ -f x ]] [[read:y]]", &[("read", "y")]),
            ("[[bash:never", &[]),
            ("[[agent:do [[bash:ls]]]]", &[("agent", "do [[bash:ls]]")]),
        ] {
            let wanted: Vec<_> = wanted.iter().map(|(name, rest)| ((*name).to_owned(), (*rest).to_owned())).collect();
            assert_eq!(parsed(text), wanted, "{text}");
        }
    }

    #[test]
    fn tools_are_called_as_the_request_declares_them() {
        let cli = json!({"tools": [{"name": "Bash"}, {"name": "Read"}, {"name": "Write"}]});
        let tools = Tools::of(&cli);
        assert_eq!(tools.bash("ls")["name"], "Bash");
        assert_eq!(tools.read("a"), call("Read", json!({"file_path": "a"})));
        assert_eq!(tools.write("a", "b"), call("Write", json!({"file_path": "a", "content": "b"})));
        assert_eq!(tools.agent("look")["name"], "Task");
        let newer = json!({"tools": [{"name": "Agent"}]});
        assert_eq!(Tools::of(&newer).agent("look")["name"], "Agent");
        let other = Tools::of(&Value::Null);
        assert_eq!(other.bash("ls"), call("bash", json!({"command": "ls"})));
        assert_eq!(other.read("a"), call("read_file", json!({"path": "a"})));
        assert_eq!(other.write("a", "b"), call("write_file", json!({"path": "a", "content": "b"})));
    }
}
