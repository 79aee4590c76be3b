//! The tools as a model meets them: a call in, an output out.
#![allow(clippy::disallowed_methods, reason = "tests set scenes with plain files")]

mod commands;
mod escapes;
mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use unforget_core::stamp::System;

use super::{Call, Commands, Output, Secrets, Toolbox, Workspace, standard};

/// A workspace with the store inside it, and something outside that nobody may reach.
pub(super) struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("workspace/store/agents/transcript.jsonl", "SECRET transcript"),
            ("workspace-evil/secret", "SECRET beside"),
            ("outside/secret", "SECRET outside"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { folder }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    pub(super) fn store(&self) -> PathBuf {
        self.path("store")
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        std::fs::write(self.path(path), text).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(super) fn workspace(&self) -> Workspace {
        Workspace::open(&self.root(), &self.store()).unwrap()
    }

    fn toolbox(&self) -> Toolbox {
        Toolbox::new(standard(self.workspace(), Commands::default(), Arc::new(System)))
    }

    async fn run(&self, name: &str, input: Value) -> Output {
        self.run_until(name, input, &CancellationToken::new()).await
    }

    async fn run_until(&self, name: &str, input: Value, abort: &CancellationToken) -> Output {
        let call = Call { id: "call".to_owned(), name: name.to_owned(), input: input.to_string() };
        self.toolbox().run(&call, abort).await
    }

    async fn ok(&self, name: &str, input: Value) -> String {
        let output = self.run(name, input).await;
        assert!(!output.is_error, "{}", output.text);
        output.text
    }

    async fn failed(&self, name: &str, input: Value) -> String {
        let output = self.run(name, input).await;
        assert!(output.is_error, "{}", output.text);
        output.text
    }
}

#[test]
fn tools_that_change_something_ask_first() {
    let toolbox = Scene::new().toolbox();
    let asking: Vec<(&str, bool)> = toolbox.tools.iter().map(|tool| (tool.name(), tool.asks_first())).collect();
    let expected = [
        ("read_file", false),
        ("write_file", true),
        ("edit_file", true),
        ("list_directory", false),
        ("bash", true),
        ("get_current_time", false),
    ];
    assert_eq!(asking, expected);
}

#[test]
fn every_schema_is_closed_and_requires_what_it_describes() {
    let toolbox = Scene::new().toolbox();
    let definitions: Value = serde_json::from_str(toolbox.definitions()).unwrap();
    for definition in definitions.as_array().unwrap() {
        let schema = &definition["input_schema"];
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&Value::from("object"), &Value::from(false)));
        let properties = schema["properties"].as_object().unwrap();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        assert!(required.iter().all(|name| properties.contains_key(name.as_str().unwrap())), "{schema}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let scene = Scene::new();
    for (tool, input, named) in [
        ("read_file", r#"{}"#, "`path`"),
        ("read_file", r#"{"path":"a","limit":"x"}"#, "`limit`"),
        ("write_file", r#"{"path":"a"}"#, "`content`"),
        ("edit_file", r#"{"path":"a","old_string":"x"}"#, "`new_string`"),
        ("edit_file", r#"{"path":"a","old_string":"","new_string":""}"#, "`old_string`"),
        ("edit_file", r#"{"path":"a","old_string":"x","new_string":"x"}"#, "the same"),
        ("list_directory", r#"{"folder":"a"}"#, "`folder`"),
        ("bash", r#"{"command":" "}"#, "`command`"),
        ("bash", r#"{"command":"true","timeout":-1}"#, "`timeout`"),
        ("get_current_time", r#"{"zone":"x"}"#, "`zone`"),
    ] {
        let text = scene.failed(tool, serde_json::from_str(input).unwrap()).await;
        assert!(text.contains(named), "{tool} {input}: {text}");
    }
    assert!(!scene.path("a").exists());
}

/// Whether a process still runs; one that ended and was not reaped by its parent does not.
fn runs(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")) else { return false };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}
