//! Tools: which are called, with what, and what is said about their results.

use super::*;

#[test]
fn it_calls_the_tools_that_are_asked_for() {
    let call = |name: &str, input: Value| (name.to_owned(), input);
    for (request, calls) in [
        ("read Cargo.toml", vec![call("read_file", json!({"path": "Cargo.toml"}))]),
        ("Please show me the file `src/main.rs`.", vec![call("read_file", json!({"path": "src/main.rs"}))]),
        (
            "read a.txt and b.txt",
            vec![call("read_file", json!({"path": "a.txt"})), call("read_file", json!({"path": "b.txt"}))],
        ),
        ("My name is Ada. Read a.txt", vec![call("read_file", json!({"path": "a.txt"}))]),
        ("list files", vec![call("list_directory", json!({"directory": "."}))]),
        ("ls", vec![call("list_directory", json!({"directory": "."}))]),
        ("ls -l ..", vec![call("list_directory", json!({"directory": ".."}))]),
        ("What files are in crates?", vec![call("list_directory", json!({"directory": "crates"}))]),
        ("ls src", vec![call("list_directory", json!({"directory": "src"}))]),
        ("List the files in crates/core, please", vec![call("list_directory", json!({"directory": "crates/core"}))]),
        ("what time is it?", vec![call("get_current_time", json!({}))]),
        ("现在几点？", vec![call("get_current_time", json!({}))]),
        ("run `cargo --version`", vec![call("bash", json!({"command": "cargo --version"}))]),
        ("run ls -l", vec![call("bash", json!({"command": "ls -l"}))]),
        ("run `a` and `b | c`", vec![call("bash", json!({"command": "a"})), call("bash", json!({"command": "b | c"}))]),
        (
            "write hello.txt: Hello and goodbye",
            vec![call("write_file", json!({"path": "hello.txt", "content": "Hello and goodbye"}))],
        ),
        (
            "write \"one two\" to notes/a.md",
            vec![call("write_file", json!({"path": "notes/a.md", "content": "one two"}))],
        ),
        ("create a file a.txt with x, y", vec![call("write_file", json!({"path": "a.txt", "content": "x, y"}))]),
        (
            "replace `port = 1` with `port = 2` in config.toml",
            vec![call(
                "edit_file",
                json!({"file_path": "config.toml", "old_string": "port = 1", "new_string": "port = 2"}),
            )],
        ),
        (
            "edit a.txt: replace cat with dog",
            vec![call("edit_file", json!({"file_path": "a.txt", "old_string": "cat", "new_string": "dog"}))],
        ),
        (
            "list files and tell me the time, then read README.md",
            vec![
                call("list_directory", json!({"directory": "."})),
                call("get_current_time", json!({})),
                call("read_file", json!({"path": "README.md"})),
            ],
        ),
    ] {
        assert_eq!(called(request), calls, "{request}");
    }
}

#[test]
fn what_only_sounds_like_work_is_none() {
    for request in
        ["read my mind", "run the tests", "list your reasons", "write me a poem", "lsof", "Show me how", "in time"]
    {
        assert_eq!(called(request), [], "{request}");
    }
}

#[test]
fn a_tool_that_is_not_declared_is_not_called() {
    let only_read = r#"[{"name":"Read","input_schema":{"properties":{"file_path":{}}}}]"#;
    let reply = reply(&[context("x", only_read), user("read a.txt and run ls")]);
    assert_eq!(reply.calls, [Call { name: "Read".to_owned(), input: json!({"file_path": "a.txt"}) }]);
    assert!(reply.text.contains("no tool `bash`"), "{}", reply.text);
}

#[test]
fn it_says_what_came_back() {
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "tool_use_id": id, "name": name, "input": input});
    let result = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "output": text});
    let long: String = (0..40).map(|n| format!("line {n}\n")).collect();
    let text = reply(&[
        context("x", TOOLS),
        user("read a.txt and run things"),
        call("t1", "read_file", json!({"path": "a.txt"})),
        call("t2", "bash", json!({"command": "make"})),
        call("t3", "get_current_time", json!({})),
        result("t1", &long),
        json!({"type": "tool_result", "tool_use_id": "t2", "output": "```\nno rule", "is_error": true}),
        result("t3", ""),
    ])
    .text;
    assert!(text.contains("`read_file` of `a.txt` gave back (40 lines; the first 12):\n\n```\nline 0\n"), "{text}");
    assert!(text.contains("line 11\n```") && !text.contains("line 12"), "{text}");
    assert!(text.contains("`bash` of `make` did not work (2 lines):\n\n````\n```\nno rule\n````"), "{text}");
    assert!(text.contains("`get_current_time` worked, and gave nothing back."), "{text}");
}

#[test]
fn words_after_results_are_the_request() {
    let text = reply(&[
        context("x", TOOLS),
        user("read a.txt"),
        json!({"type": "tool_use", "tool_use_id": "t1", "name": "read_file", "input": {"path": "a.txt"}}),
        json!({"type": "tool_result", "tool_use_id": "t1", "output": "content"}),
        user("what did I say first?"),
    ])
    .text;
    assert!(text.contains("> read a.txt"), "{text}");
}
