use std::sync::Mutex;

use unforget_core::stamp::System;

use super::*;
use crate::entries::Settings;

/// What is written, for whoever looks afterwards.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The answers to requests in a home.
fn ask_in(home: &std::path::Path, requests: &str) -> Vec<String> {
    ask_at(home, None, requests)
}

fn ask_at(home: &std::path::Path, there: Option<Settings>, requests: &str) -> Vec<String> {
    let there = there.map(|settings| (settings, "memory:".to_owned()));
    let tenant = there.as_ref().map_or("default", |(settings, _)| settings.tenant.as_str()).to_owned();
    ask_of(Pipe::new(home.to_path_buf(), &tenant, Arc::new(System), there), requests)
}

fn ask_of(pipe: Pipe, requests: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let heard = Heard::default();
    run(&runtime, pipe, requests.as_bytes(), heard.clone()).unwrap();
    let heard = heard.0.lock().unwrap().clone();
    String::from_utf8(heard).unwrap().lines().map(str::to_owned).collect()
}

fn ask(requests: &str) -> Vec<String> {
    ask_in(tempfile::tempdir().unwrap().path(), requests)
}

const KEY: &str = r#""key":{"project_key":"p","session_id":"s"}"#;

#[test]
fn requests_without_an_id_are_answered_in_order_and_bytes_are_kept() {
    let requests = format!(
        "{{\"op\":\"load\",{KEY}}}\n\
         {{\"op\":\"append\",{KEY},\"entries\":[{{\"type\":\"x\", \"b\":1.0,\"a\":\"\\u00e4\"}},{{\"type\":\"y\"}}]}}\n\
         {{\"op\":\"load\",{KEY}}}\n\
         {{\"op\":\"list_sessions\",\"project_key\":\"other\"}}\n\
         {{\"op\":\"delete\",{KEY}}}\n\
         {{\"op\":\"load\",{KEY}}}"
    );
    let want = [
        r#"{"ok":null}"#,
        r#"{"ok":null,"durability":"disk"}"#,
        r#"{"ok":[{"type":"x", "b":1.0,"a":"\u00e4"},{"type":"y"}]}"#,
        r#"{"ok":[]}"#,
        r#"{"ok":null}"#,
        r#"{"ok":null}"#,
    ];
    assert_eq!(ask(&requests), want);
}

#[test]
fn requests_about_one_session_keep_their_order_among_many() {
    let mut requests = String::new();
    for n in 0..300 {
        requests.push_str(&format!(
            "{{\"id\":{n},\"op\":\"append\",\"key\":{{\"project_key\":\"p\",\"session_id\":\"{}\"}},\"entries\":[{{\"n\":{n}}}]}}\n",
            n % 3
        ));
    }
    let home = tempfile::tempdir().unwrap();
    let mut answers = ask_in(home.path(), &requests);
    let mut want: Vec<String> =
        (0..300).map(|n| format!("{{\"id\":{n},\"ok\":null,\"durability\":\"disk\"}}")).collect();
    answers.sort();
    want.sort();
    assert_eq!(answers, want);
    let loads =
        (0..3).map(|s| format!("{{\"op\":\"load\",\"key\":{{\"project_key\":\"p\",\"session_id\":\"{s}\"}}}}\n"));
    for (s, answer) in ask_in(home.path(), &loads.collect::<String>()).iter().enumerate() {
        let all: Vec<String> = (0..100).map(|n| format!("{{\"n\":{}}}", n * 3 + s)).collect();
        assert_eq!(*answer, format!("{{\"ok\":[{}]}}", all.join(",")));
    }
}

#[test]
fn what_cannot_be_asked_is_refused_by_its_name() {
    let cases = [
        ("{", "invalid"),
        ("[]", "invalid"),
        (r#"{"op":"fly"}"#, "invalid"),
        (r#"{"op":"hello","protocol":2}"#, "invalid"),
        (r#"{"op":"load","key":{"project_key":"p"}}"#, "invalid"),
        (r#"{"op":"load","key":{"project_key":"p","session_id":"s"},"more":1}"#, "invalid"),
        (r#"{"op":"load","key":{"project_key":"p","session_id":"a\nb"}}"#, "invalid"),
        (r#"{"op":"append","key":{"project_key":"p","session_id":"s"},"entries":[1]}"#, "invalid"),
        (r#"{"op":"list_subkeys","key":{"project_key":"p","session_id":"s","subpath":"x"}}"#, "invalid"),
        (r#"{"op":"history","key":"main:cli:nobody"}"#, "not_found"),
        (r#"{"op":"history"}"#, "invalid"),
        (r#"{"op":"add","key":"main:api:x","messages":[]}"#, "invalid"),
    ];
    for (request, code) in cases {
        let answers = ask(request);
        assert!(
            answers.len() == 1
                && answers[0].starts_with("{\"err\":")
                && answers[0].ends_with(&format!("\"code\":\"{code}\"}}")),
            "{request}: {answers:?}"
        );
    }
    assert!(ask("{\"id\":\"a\",\"op\":\"fly\"}")[0].starts_with("{\"id\":\"a\",\"err\":"));
    assert!(ask("{\"id\":[],\"op\":\"hello\"}")[0].starts_with("{\"err\":"));
}

#[test]
fn conversations_are_added_to_found_and_read() {
    let home = tempfile::tempdir().unwrap();
    let add = r#"{"op":"add","key":"main:api:ada","client_id":"c1","messages":[{"role":"user","content":"the word is zebra"},{"role":"assistant","content":[{"type":"text","text":"noted"}]}]}"#;
    let answers = ask_in(home.path(), &format!("{add}\n{add}\n"));
    assert!(answers[0].contains("\"n\":3"), "{answers:?}");
    // The same name is the same messages.
    assert_eq!(answers[0], answers[1]);
    let answers = ask_in(
        home.path(),
        "{\"op\":\"history\",\"key\":\"main:api:ada\"}\n{\"op\":\"search\",\"q\":\"zebra\"}\n{\"op\":\"sessions\",\"channel\":\"api\"}\n",
    );
    let parsed: Vec<serde_json::Value> = answers.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(parsed[0]["ok"]["messages"].as_array().unwrap().len(), 2);
    assert_eq!(parsed[1]["ok"]["hits"][0]["session"], parsed[0]["ok"]["session_id"]);
    assert_eq!(parsed[2]["ok"]["sessions"][0]["key"], "main:api:ada");
    assert_eq!(parsed[2]["ok"]["sessions"][0]["turns"], 1);
}

#[test]
fn tenants_that_share_a_home_share_nothing_else() {
    let (home, memory) = (tempfile::tempdir().unwrap(), unforget_remote::memory::Memory::default());
    let ask = |tenant: &str, request: &str| {
        let remote = Arc::new(memory.remote());
        let (tenant, known_as) = (tenant.to_owned(), "memory".to_owned());
        let there = Settings { remote, tenant, known_as, source: Arc::new(System), is_awaited: true };
        ask_at(home.path(), Some(there), request)
    };
    let append = format!("{{\"op\":\"append\",{KEY},\"entries\":[{{\"uuid\":\"1\"}}]}}");
    let load = format!("{{\"op\":\"load\",{KEY}}}");
    assert_eq!(ask("alice", &append), [r#"{"ok":null,"durability":"remote"}"#]);
    for stranger in ["bob", "default", "../alice", "-"] {
        assert_eq!(ask(stranger, &load), [r#"{"ok":null}"#], "{stranger}");
    }
    assert_eq!(ask("alice", &load), [r#"{"ok":[{"uuid":"1"}]}"#]);
}

#[test]
fn tenants_share_nothing_without_a_remote_either() {
    let home = tempfile::tempdir().unwrap();
    let ask = |tenant: &str, request: &str| {
        ask_of(Pipe::new(home.path().to_path_buf(), tenant, Arc::new(System), None), request)
    };
    let append = format!("{{\"op\":\"append\",{KEY},\"entries\":[{{\"uuid\":\"1\"}}]}}");
    let load = format!("{{\"op\":\"load\",{KEY}}}");
    assert_eq!(ask("alice", &append), [r#"{"ok":null,"durability":"disk"}"#]);
    for stranger in ["bob", "default", "../alice", "-"] {
        assert_eq!(ask(stranger, &load), [r#"{"ok":null}"#], "{stranger}");
    }
    assert_eq!(ask("alice", &load), [r#"{"ok":[{"uuid":"1"}]}"#]);
}

#[test]
fn a_request_without_an_id_that_is_wrong_is_answered_in_its_place() {
    let append = |n: usize| format!("{{\"op\":\"append\",{KEY},\"entries\":[{{\"n\":{n}}}]}}\n");
    let requests: String = (0..50).map(|n| append(n) + "{\"op\":\"no such thing\"}\nnot even JSON\n").collect();
    let answers = ask(&requests);
    assert_eq!(answers.len(), 150);
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(answer.starts_with("{\"ok\""), at % 3 == 0, "{at}: {answer}");
    }
}

#[test]
fn a_conversation_is_read_while_somebody_writes_it() {
    let home = tempfile::tempdir().unwrap();
    let add = r#"{"op":"add","key":"main:api:ada","messages":[{"role":"user","content":"hello"}]}"#;
    assert!(ask_in(home.path(), add)[0].starts_with("{\"ok\""));
    let realm = crate::realm::Realms::new(home.path().to_path_buf(), Arc::new(System)).of(&crate::ActorId::owner());
    let key = "main:api:ada".parse().unwrap();
    let _writer = realm.store().load(&key, unforget_core::directory::OnMissing::Fail).unwrap();
    let answers = ask_in(home.path(), r#"{"op":"history","key":"main:api:ada"}"#);
    assert!(answers[0].contains("hello"), "{answers:?}");
}

#[test]
fn nothing_is_added_to_a_session_that_somebody_elsewhere_is_writing() {
    let (home, memory) = (tempfile::tempdir().unwrap(), unforget_remote::memory::Memory::default());
    let ask = |request: &str| {
        let remote = Arc::new(memory.remote());
        let (tenant, known_as) = ("default".to_owned(), "memory".to_owned());
        let there = Settings { remote, tenant, known_as, source: Arc::new(System), is_awaited: false };
        ask_at(home.path(), Some(there), request).remove(0)
    };
    let add = r#"{"op":"add","key":"main:api:ada","messages":[{"role":"user","content":"hello"}]}"#;
    let first: serde_json::Value = serde_json::from_str(&ask(add)).unwrap();
    let id = first["ok"]["session_id"].as_str().unwrap();
    let stream = unforget_remote::Stream::new("default", "main", id).unwrap();
    let hold = async {
        let (remote, now_ms) = (memory.remote(), unforget_core::stamp::Source::now_ms(&System));
        unforget_remote::lease::acquire(&remote, &stream, "http://b:1#h#r", now_ms, Duration::from_secs(3600)).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let held = runtime.block_on(hold).unwrap();
    let refused = ask(add);
    assert!(refused.contains("`http://b:1` is writing this session") && refused.contains("busy"), "{refused}");
    let unforget_remote::lease::Acquired::Held(held) = held else { panic!("it is held by nobody else") };
    runtime.block_on(held.release(&memory.remote())).unwrap();
    assert!(ask(add).starts_with("{\"ok\""));
}
