//! Each thing that the built-in model can do, on histories that are rebuilt from records as in a real turn.

use proptest::prelude::*;
use unforget_core::history::{self, Limits};
use unforget_core::scan;

use super::*;

mod work;

const TOOLS: &str = r#"[
    {"name":"read_file","input_schema":{"type":"object","properties":{"path":{}}}},
    {"name":"write_file","input_schema":{"type":"object","properties":{"path":{},"content":{}}}},
    {"name":"edit_file","input_schema":{"type":"object","properties":{"file_path":{},"old_string":{},"new_string":{}}}},
    {"name":"list_directory","input_schema":{"type":"object","properties":{"directory":{}}}},
    {"name":"bash","input_schema":{"type":"object","properties":{"command":{}}}},
    {"name":"get_current_time","input_schema":{"type":"object","properties":{}}}]"#;

/// The history of records, as it would be sent.
fn rebuilt(records: &[Value]) -> History<'static> {
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let scanned = scan::scan(text.as_bytes());
    history::rebuild_all(&scanned.records, &Limits::default()).into_owned()
}

fn user(text: &str) -> Value {
    json!({"type": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"type": "assistant", "content": [{"type": "text", "text": text}]})
}

fn context(system: &str, tools: &str) -> Value {
    json!({"type": "context", "system": system, "tools": serde_json::from_str::<Value>(tools).unwrap()})
}

fn reply(records: &[Value]) -> Reply {
    answer(&Conversation::of(&rebuilt(records)))
}

/// What is said to the last of these words, the others having been answered.
fn said(words: &[&str]) -> String {
    let mut records = vec![context("You are helpful.", TOOLS)];
    for (i, text) in words.iter().enumerate() {
        records.push(user(text));
        if i + 1 < words.len() {
            records.push(assistant("Yes."));
        }
    }
    let reply = reply(&records);
    assert_eq!(reply.calls, [], "{words:?}");
    reply.text
}

/// The calls for a request, each as its name and its arguments.
fn called(request: &str) -> Vec<(String, Value)> {
    let reply = reply(&[context("You are helpful.", TOOLS), user(request)]);
    reply.calls.into_iter().map(|call| (call.name, call.input)).collect()
}

fn ask(history: &History<'static>, window: u64, max_tokens: u32) -> (Result<(), ModelError>, Vec<Event>) {
    let request = Request { history, max_tokens, thinking: Thinking::Default };
    let mut events = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut sink = |event| events.push(event);
    let ended = runtime.block_on(Offline::new(window).respond(&request, &mut sink));
    (ended, events)
}

#[test]
fn it_remembers_what_was_said_first_and_last() {
    let words = ["The server is on port 8080", "Why is it slow?", "what did I say first?"];
    assert!(said(&words).contains("> The server is on port 8080"));
    assert!(said(&["a b", "Why is it slow?", "What was my last question?"]).contains("> Why is it slow?"));
    assert!(said(&["what did I say first"]).contains("This is the first thing you say here."));
}

#[test]
fn it_is_asked_for_first_and_last_in_other_languages() {
    for question in ["我最先说了什么？", "私は最初に何と言いましたか？", "내가 처음에 뭐라고 했지?"]
    {
        assert!(said(&["alpha", "beta", question]).contains("> alpha"), "{question}");
    }
    for question in ["我上一个问题是什么？", "さっき何を聞きましたか", "마지막으로 뭐라고 했지?"]
    {
        assert!(said(&["alpha", "beta", question]).contains("> beta"), "{question}");
    }
}

#[test]
fn it_knows_a_name_that_was_said() {
    for (introduction, name) in [
        ("Hi, my name is Ada Lovelace and I need help.", "Ada Lovelace"),
        ("I am Grace.", "Grace"),
        ("i’m tired. Call me Bo", "Bo"),
        ("你好，我叫小明。", "小明"),
        ("私の名前は花子です。", "花子"),
        ("제 이름은 민수입니다.", "민수"),
    ] {
        let answer = said(&[introduction, "ok", "What is my name?"]);
        assert!(answer.contains(&format!("**{name}**")), "{introduction}: {answer}");
    }
    assert!(said(&["my name is Ada", "I am hungry", "who am I?"]).contains("**Ada**"), "not everything is a name");
    assert!(said(&["what's my name?"]).contains("not told me"));
    assert!(said(&["我叫小明", "我叫什么名字？"]).contains("**小明**"));
}

#[test]
fn a_question_in_a_pasted_text_is_none() {
    let paste = "The first message is lost. I am The One. ".repeat(20);
    assert!(said(&["one", &paste]).contains("did not understand"));
    assert!(said(&["one", &format!("{paste}\nwhat did I say first?")]).contains("> one"));
}

#[test]
fn it_finds_what_was_said_about_something() {
    let words =
        ["The staging database is called heron.", "Lunch is at noon.", "What did I say about the staging database?"];
    let answer = said(&words);
    assert!(answer.contains("> The staging database is called heron.") && !answer.contains("Lunch"), "{answer}");
    assert!(said(&["My favourite colour is teal", "what is my favourite colour?"]).contains("teal"));
    assert!(said(&["x", "what did I say about whales?"]).contains("nothing about **whales**"));
}

#[test]
fn it_counts_and_repeats() {
    assert!(said(&["one", "two", "how many messages are there?"]).contains("**5** messages, and **3**"));
    let all = said(&["one thing", "two things", "repeat everything"]);
    assert!(all.contains("1. one thing\n2. two things"), "{all}");
}

#[test]
fn a_summary_block_is_memory_too() {
    let summary =
        "First request: paint the shed\nLast request: and the fence\nName: Ada\nAlso said: the shed key is 4711";
    let records = |question: &str| {
        vec![
            user("paint the shed"),
            assistant("Yes."),
            json!({"type": "compaction", "summary": summary}),
            user(question),
        ]
    };
    assert!(reply(&records("what did I say first?")).text.contains("> paint the shed"));
    assert!(reply(&records("what was my last question?")).text.contains("> and the fence"));
    assert!(reply(&records("what is my name?")).text.contains("**Ada**"));
    assert!(reply(&records("what did I say about the key?")).text.contains("4711"));
    assert!(reply(&records("repeat everything")).text.contains("paint the shed"));
}

const SUMMARISE: &str = "Write a summary of the conversation.";

#[test]
fn a_summary_keeps_what_is_asked_for_later() {
    let text = "user: My name is Ada, please fix src/main.rs\nassistant: I changed port 8080 in `config.toml`.\n\
                user: also the docs\nassistant: Done.\nTODO: write the tests\nuser: and deploy it at 09:30 today, with care and with a plan\n\
                assistant: That will be done, and everything else that was asked for, with care and with a plan.";
    let summary = reply(&[json!({"type": "context", "system": SUMMARISE}), user(text)]).text;
    for line in [
        "First request: My name is Ada, please fix src/main.rs",
        "Last request: and deploy it at 09:30 today",
        "Name: Ada",
        "Files: src/main.rs, config.toml",
        "Numbers: 8080, 09:30",
        "Open: TODO: write the tests",
        "Also said: also the docs",
    ] {
        assert!(summary.contains(line), "{line}: {summary}");
    }
    let messages = [
        json!({"type": "context", "system": SUMMARISE}),
        user("paint the shed in green, twice, before the rain comes again"),
        assistant(&"Yes. ".repeat(99)),
        user("Summarise the conversation above."),
    ];
    assert_eq!(reply(&messages).text, "First request: paint the shed in green, twice, before the rain comes again");
}

#[test]
fn a_summary_of_a_summary_keeps_the_first_request() {
    let system = json!({"type": "context", "system": SUMMARISE});
    let first =
        "First request: paint the shed\nLast request: buy brushes\nName: Ada\nFiles: shed.md\nOpen: TODO: the door";
    let records = [
        user("x"),
        json!({"type": "compaction", "summary": first}),
        system,
        user("now the roof of it"),
        assistant(&"Yes. ".repeat(50)),
        user("Summarise."),
    ];
    let second = reply(&records).text;
    for line in [
        "First request: paint the shed",
        "Last request: now the roof of it",
        "Name: Ada",
        "Files: shed.md",
        "TODO: the door",
    ] {
        assert!(second.contains(line), "{line}: {second}");
    }
}

#[test]
fn a_title_is_a_few_words() {
    let system = json!({"type": "context", "system": "Give this conversation a title of a few words."});
    assert_eq!(
        reply(&[
            system.clone(),
            user("Hi!"),
            assistant("Hi."),
            user("Please fix the parser."),
            assistant("Yes."),
            user("Title, please")
        ])
        .text,
        "Fix the parser"
    );
    assert_eq!(reply(&[system, user("hi")]).text, NO_TITLE);
}

const NO_TITLE: &str = "Conversation";

#[test]
fn it_is_honest_about_what_it_is() {
    let text = said(&["Prove the Riemann hypothesis"]);
    assert!(text.starts_with("I am only a small built-in model and did not understand that."), "{text}");
    assert!(text.contains("- **Remember**") && text.contains("`ANTHROPIC_API_KEY`"), "{text}");
    assert!(said(&["hello"]).contains("built in"));
    assert!(said(&["remember that the key is under the mat"]).contains("> the key is under the mat"));
}

#[test]
fn events_come_as_from_a_server() {
    let history = rebuilt(&[context("x", TOOLS), user("read a.txt and b.txt")]);
    let (ended, events) = ask(&history, 32_000, 1000);
    assert_eq!(ended, Ok(()));
    let (_, again) = ask(&history, 32_000, 1000);
    assert_eq!(events, again, "the same request, the same answer");
    let Event::Started { id, model, .. } = &events[0] else { panic!("{:?}", events[0]) };
    assert!(id.starts_with("msg_offline_") && id.len() == 28 && model == "offline", "{id}");
    let blocks: Vec<Value> = events
        .iter()
        .filter_map(|event| match event {
            Event::BlockStarted { block, .. } => Some(serde_json::from_str(block).unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(blocks[0], json!({"type": "text", "text": ""}));
    assert_eq!(blocks.len(), 3);
    assert_ne!(blocks[1]["id"], blocks[2]["id"]);
    let input: String = events
        .iter()
        .filter_map(|event| match event {
            Event::Delta { index: 2, delta: Delta::Input(piece) } => Some(piece.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), json!({"path": "b.txt"}));
    let Some(Event::Ended { stop_reason, usage }) = events.last() else { panic!("{events:?}") };
    let usage: Value = serde_json::from_str(usage).unwrap();
    assert_eq!(stop_reason.as_deref(), Some("tool_use"));
    assert!(usage["input_tokens"].as_u64() > Some(0) && usage["output_tokens"].as_u64() > Some(0), "{usage}");
}

#[test]
fn ids_differ_from_request_to_request() {
    let ids = |records: &[Value]| {
        let (_, events) = ask(&rebuilt(records), 32_000, 1000);
        let ids = events.iter().filter_map(|event| match event {
            Event::BlockStarted { block, .. } => {
                serde_json::from_str::<Value>(block).unwrap()["id"].as_str().map(str::to_owned)
            }
            _ => None,
        });
        ids.collect::<Vec<_>>()
    };
    let first = ids(&[context("x", TOOLS), user("read a.txt")]);
    let second = ids(&[context("x", TOOLS), user("read a.txt"), assistant("Done."), user("read a.txt")]);
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
}

#[test]
fn a_request_that_is_too_long_overflows_and_a_long_answer_is_cut() {
    let history = rebuilt(&[user(&"many words ".repeat(500))]);
    let (ended, events) = ask(&history, 1000, 1000);
    assert!(ended.unwrap_err().is_overflow() && events.is_empty());
    let (ended, events) = ask(&history, 32_000, 10);
    assert_eq!(ended, Ok(()));
    let Some(Event::Ended { stop_reason, usage }) = events.last() else { panic!("{events:?}") };
    assert_eq!(stop_reason.as_deref(), Some("max_tokens"));
    assert!(serde_json::from_str::<Value>(usage).unwrap()["output_tokens"].as_u64() <= Some(10), "{usage}");
}

#[test]
fn the_count_is_that_of_everything_that_is_sent() {
    let history = rebuilt(&[context("a system prompt", TOOLS), user("words")]);
    let request = Request { history: &history, max_tokens: 10, thinking: Thinking::Default };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let count = runtime.block_on(Offline::new(32_000).count(&request)).unwrap();
    let parts =
        [history.system.as_deref().unwrap(), history.tools.as_deref().unwrap(), history.messages[0].blocks[0].as_ref()];
    assert_eq!(count, parts.iter().map(|part| tokens::estimate(part.as_bytes())).sum::<u64>());
}

proptest! {
    #[test]
    fn any_words_get_an_answer(words in prop_oneof![
        any::<String>(),
        "(read|write|run|replace|edit|list|in|with|to|and|what did I say about|my name is|i am|a\\.txt|`|\"|:|,| |\\n|你好|我叫){0,12}",
    ]) {
        let reply = reply(&[context("You are helpful.", TOOLS), user(&format!("x{words}"))]);
        prop_assert!(!reply.text.trim().is_empty());
        let reply = super::tests::reply(&[context("You are helpful.", TOOLS), user(&words), assistant("."), user(&words)]);
        prop_assert!(!reply.text.trim().is_empty());
    }

    #[test]
    fn a_summary_is_shorter_than_what_it_stands_for(texts in prop::collection::vec(prop_oneof![
        ".{2,80}",
        "(user|assistant|TODO|First request|Name): [a-z0-9./ ]{1,60}\n",
    ], 1..12)) {
        let mut records = vec![json!({"type": "context", "system": SUMMARISE})];
        for text in &texts {
            records.extend([user(text), assistant("ok")]);
        }
        records.push(user("Summarise."));
        let history = rebuilt(&records);
        let seen = Conversation::of(&history);
        let input: usize = seen.said.iter().map(|said| said.text.len()).sum();
        let summary = answer(&seen).text;
        prop_assert!(summary.len() < input && !summary.is_empty(), "{}: {}", input, summary);
    }
}
