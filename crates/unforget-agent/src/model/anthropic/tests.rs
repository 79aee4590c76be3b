//! The client against a server that says what a test tells it to, byte by byte.

use unforget_core::history::{History, Message, Role};

use super::super::retry::{Jitter, Retry};
use super::super::{Delta, Limit, Thinking};
use super::*;

mod server;

use server::{Reply, Server, Then, reply};

const KEY: &str = "sk-ant-secret-1";

fn json_reply(status: &str, headers: &[&str], body: &str) -> Reply {
    reply(status, &[headers, &["content-type: application/json"]].concat(), body)
}

fn error(status: &str, headers: &[&str], kind: &str, message: &str) -> Reply {
    let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#);
    json_reply(status, headers, &body)
}

fn stream(datas: &[&str]) -> Reply {
    let name = |data: &str| serde_json::from_str::<serde_json::Value>(data).unwrap()["type"].clone();
    let events: Vec<String> =
        datas.iter().map(|data| format!("event: {}\ndata: {data}\n\n", name(data).as_str().unwrap())).collect();
    reply("200 OK", &["content-type: text/event-stream; charset=utf-8"], &events.concat())
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":3,"output_tokens":1}}}"#;
const BLOCK: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const HELLO: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"日本"}}"#;
const BLOCK_STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const DONE: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;
const OVERLOADED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
const ANSWER: [&str; 6] = [START, BLOCK, HELLO, BLOCK_STOP, DONE, STOP];

fn half() -> Vec<Event> {
    vec![
        Event::Started {
            id: "msg_1".to_owned(),
            model: "claude-x".to_owned(),
            usage: r#"{"input_tokens":3,"output_tokens":1}"#.to_owned(),
        },
        Event::BlockStarted { index: 0, block: r#"{"type":"text","text":""}"#.to_owned() },
        Event::Delta { index: 0, delta: Delta::Text("日本".to_owned()) },
    ]
}

fn whole() -> Vec<Event> {
    let usage = r#"{"input_tokens":3,"output_tokens":5}"#.to_owned();
    let end = [Event::BlockEnded { index: 0 }, Event::Ended { stop_reason: Some("end_turn".to_owned()), usage }];
    [half(), end.to_vec()].concat()
}

fn retrying(attempt: u32, wait_ms: u64, why: &str) -> Event {
    Event::Retrying { attempt, of: 2, wait: Duration::from_millis(wait_ms), why: why.to_owned() }
}

fn options(url: &str) -> Options {
    Options {
        base_url: url.to_owned(),
        retry: Retry { times: 2, first_wait: Duration::from_millis(1), jitter: Jitter::None },
        ..Options::new(Credential::Key(KEY.into()), "claude-x", 200_000)
    }
}

fn history() -> History<'static> {
    let block = r#"{"type":"text","text":"hi"}"#;
    History { messages: vec![Message { role: Role::User, blocks: vec![block.into()] }], ..History::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn ask_with(options: Options) -> (Vec<Event>, Result<(), ModelError>) {
    let history = history();
    let request = Request { history: &history, max_tokens: 64, thinking: Thinking::Default };
    let client = Anthropic::new(options).unwrap();
    let mut events = Vec::new();
    let result = runtime().block_on(client.respond(&request, &mut |event| events.push(event)));
    (events, result)
}

/// Asks a server that replies so; the number of requests is that of the replies.
fn ask(replies: Vec<Reply>) -> (Vec<Event>, Result<(), ModelError>) {
    let count = replies.len();
    let server = Server::start(replies);
    let answer = ask_with(options(&server.url));
    assert_eq!(server.requests().len(), count);
    answer
}

fn unavailable(message: &str) -> ModelError {
    ModelError::Unavailable { message: message.to_owned() }
}

const BUSY: &str = "the API is not available: Overloaded";

#[test]
fn an_answer_is_streamed() {
    let server = Server::start(vec![stream(&ANSWER)]);
    assert_eq!(ask_with(options(&format!("{}/v1/", server.url))), (whole(), Ok(())));
    let requests = server.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().filter(|line| !line.starts_with("host:")).collect();
    lines.sort_unstable();
    let agent = format!("user-agent: {USER_AGENT}");
    assert_eq!(
        lines,
        [
            "POST /v1/messages HTTP/1.1",
            "accept: text/event-stream, application/json",
            "anthropic-version: 2023-06-01",
            &format!("content-length: {}", body.len()),
            "content-type: application/json",
            &agent,
            &format!("x-api-key: {KEY}"),
        ]
    );
    assert_eq!(
        body,
        r#"{"model":"claude-x","max_tokens":64,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}"#
    );
}

#[test]
fn an_answer_may_come_byte_by_byte() {
    let mut reply = stream(&ANSWER);
    reply.chunks = reply.chunks.concat().chunks(1).map(<[u8]>::to_vec).collect();
    assert_eq!(ask(vec![reply]), (whole(), Ok(())));
}

#[test]
fn an_answer_may_come_in_one_piece() {
    let body = r#"{"id":"msg_1","model":"claude-x","content":[{"type":"text","text":"日本"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5}}"#;
    let (events, result) = ask(vec![json_reply("200 OK", &[], body)]);
    assert_eq!((&events[1..], result), (&whole()[1..], Ok(())));
}

#[test]
fn a_busy_server_is_asked_again() {
    let busy = || error("529 Overloaded", &[], "overloaded_error", "Overloaded");
    let (events, result) = ask(vec![busy(), busy(), stream(&ANSWER)]);
    assert_eq!(events, [vec![retrying(1, 1, BUSY), retrying(2, 2, BUSY)], whole()].concat());
    assert_eq!(result, Ok(()));
}

#[test]
fn a_server_that_stays_busy_is_given_up() {
    let busy = || error("529 Overloaded", &[], "overloaded_error", "Overloaded");
    let (events, result) = ask(vec![busy(), busy(), busy()]);
    assert_eq!(events, [retrying(1, 1, BUSY), retrying(2, 2, BUSY)]);
    assert_eq!(result, Err(unavailable("Overloaded")));
}

#[test]
fn a_named_time_is_announced_before_it_is_waited() {
    let server = Server::start(vec![error("429 Slow", &["retry-after: 30"], "rate_limit_error", "slow down")]);
    let history = history();
    let request = Request { history: &history, max_tokens: 64, thinking: Thinking::Default };
    let client = Anthropic::new(options(&server.url)).unwrap();
    let announced = runtime().block_on(async {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let mut sink = move |event| sender.send(event).unwrap();
        // Dropping the call ends the wait.
        tokio::select! {
            result = client.respond(&request, &mut sink) => panic!("it did not wait: {result:?}"),
            event = receiver.recv() => event,
        }
    });
    assert_eq!(announced, Some(retrying(1, 30_000, "the API's rate limit is reached: slow down")));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_wait_of_an_hour_is_told_and_not_waited() {
    let (events, result) = ask(vec![error("429 Slow", &["retry-after: 3600"], "rate_limit_error", "slow down")]);
    let message = "slow down (the server asks to wait 3600 s)".to_owned();
    assert_eq!(events, []);
    assert_eq!(result, Err(ModelError::RateLimited { message, retry_after: Some(Duration::from_secs(3600)) }));
}

#[test]
fn a_spend_cap_is_not_asked_again() {
    let (events, result) = ask(vec![error("429 Spent", &[], "rate_limit_error", "spent")]);
    assert_eq!(events, []);
    assert_eq!(result, Err(ModelError::RateLimited { message: "spent".to_owned(), retry_after: None }));
}

#[test]
fn an_error_before_the_answer_is_tried_again() {
    for first in [vec![OVERLOADED], vec![START, r#"{"type":"ping"}"#, OVERLOADED]] {
        let (events, result) = ask(vec![stream(&first), stream(&ANSWER)]);
        assert_eq!(events, [vec![retrying(1, 1, BUSY)], whole()].concat());
        assert_eq!(result, Ok(()));
    }
}

#[test]
fn an_error_within_the_answer_is_not_tried_again() {
    let (events, result) = ask(vec![stream(&[START, BLOCK, HELLO, OVERLOADED])]);
    assert_eq!((events, result), (half(), Err(unavailable("Overloaded"))));
}

#[test]
fn an_answer_that_breaks_off_is_cut() {
    let cut = Err(ModelError::Cut { message: "the connection ended before the answer did".to_owned() });
    assert_eq!(ask(vec![stream(&[START, BLOCK, HELLO])]), (half(), cut.clone()));

    let mut torn = stream(&[START, BLOCK, HELLO, BLOCK_STOP]);
    let body = torn.chunks.last_mut().unwrap();
    body.truncate(body.len() - 9);
    assert_eq!(ask(vec![torn]), (half(), cut));

    let mut short = stream(&[START, BLOCK, HELLO]);
    short.chunks[0] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 5000\r\n\r\n".to_vec();
    let (events, result) = ask(vec![short]);
    assert_eq!(events, half());
    assert!(matches!(result, Err(ModelError::Cut { .. })), "{result:?}");
}

#[test]
fn a_last_event_without_a_blank_line_counts() {
    let mut reply = stream(&ANSWER);
    let body = reply.chunks.last_mut().unwrap();
    body.truncate(body.len() - 2);
    assert_eq!(ask(vec![reply]), (whole(), Ok(())));
}

#[test]
fn a_connection_that_breaks_before_the_answer_is_tried_again() {
    let nothing = Reply { chunks: vec![], then: Then::Close };
    let (events, result) = ask(vec![nothing, stream(&[START]), stream(&ANSWER)]);
    assert!(matches!(&events[0], Event::Retrying { attempt: 1, why, .. } if why.contains("cannot be reached")));
    assert!(matches!(&events[1], Event::Retrying { attempt: 2, why, .. } if why.contains("broke off")));
    assert_eq!((&events[2..], result), (whole().as_slice(), Ok(())));
}

#[test]
fn a_server_that_is_not_there_cannot_be_reached() {
    // Nobody listens at the first port.
    let free = "127.0.0.1:1";
    let (events, result) = ask_with(options(&format!("http://{free}")));
    assert_eq!(events.len(), 2);
    let error = result.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("refused") && !error.to_string().contains(free), "{error}");
}

#[test]
fn silence_ends_an_answer() {
    let silent = |mut reply: Reply| {
        reply.then = Then::Silence;
        reply
    };
    let patient = |url: &str, ms: u64| Options { idle_timeout: Duration::from_millis(ms), ..options(url) };
    let cut = |time: &str| Err(ModelError::Cut { message: format!("nothing came for {time}") });

    // Long enough for a machine that stands still before the first word.
    let server = Server::start(vec![silent(stream(&[START, BLOCK, HELLO]))]);
    assert_eq!(ask_with(patient(&server.url, 5000)), (half(), cut("5 s")));
    assert_eq!(server.requests().len(), 1);

    // Before the answer it is tried again, whether there was a response or none at all.
    let nothing = Reply { chunks: vec![], then: Then::Silence };
    let server = Server::start(vec![nothing, silent(stream(&[])), silent(stream(&[START]))]);
    let (events, result) = ask_with(patient(&server.url, 400));
    let why = "the answer broke off: nothing came for 1 s";
    assert_eq!((events, result), (vec![retrying(1, 1, why), retrying(2, 2, why)], cut("1 s")));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_wrong_key_is_denied_and_stays_secret() {
    let (events, result) =
        ask(vec![error("401 Unauthorized", &[], "authentication_error", &format!("invalid key {KEY}"))]);
    assert_eq!(events, []);
    assert_eq!(result, Err(ModelError::Denied { message: "invalid key [key]".to_owned() }));

    // Also where the error is announced, and where it is no error of the API.
    let page = || reply("502 Bad Gateway", &["content-type: text/html"], &format!("<p>x-api-key:\n{KEY}</p>"));
    let (events, result) = ask(vec![page(), page(), page()]);
    assert!(!format!("{events:?} {result:?}").contains(KEY));
    assert_eq!(result, Err(unavailable("HTTP 502: <p>x-api-key: [key]</p>")));

    // Also where a long page is cut in the middle of it.
    let before = "x".repeat(200 - (KEY.len() - 1));
    let page = || reply("502 Bad Gateway", &["content-type: text/html"], &format!("{before}{KEY}"));
    let (_, result) = ask(vec![page(), page(), page()]);
    assert_eq!(result, Err(unavailable(&format!("HTTP 502: {before}[key]…"))));
}

#[test]
fn the_key_is_in_no_debug() {
    for credential in [Credential::Key(KEY.into()), Credential::Bearer(KEY.into())] {
        let options = Options { credential, ..options("http://localhost") };
        let client = Anthropic::new(options.clone()).unwrap();
        let shown = format!("{options:?} {:?} {client:?} {:?}", options.credential, client.client);
        assert!(shown.contains("claude-x") && !shown.contains(KEY), "{shown}");
    }
}

#[test]
fn a_redirect_does_not_carry_the_key_away() {
    let server = Server::start(vec![]);
    let location = format!("location: {}/v1/messages", server.url);
    let (_, result) = ask(vec![reply("307 Elsewhere", &[&location], "")]);
    assert_eq!(result, Err(ModelError::Rejected { status: 307, message: "HTTP 307 without a body".to_owned() }));
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn a_page_instead_of_an_answer_is_not_understood() {
    let (events, result) = ask(vec![reply("200 OK", &["content-type: text/html"], "<h1>Log in\nfirst</h1>")]);
    assert_eq!(events, []);
    assert_eq!(result, Err(ModelError::Protocol { message: "text/html: <h1>Log in first</h1>".to_owned() }));
}

#[test]
fn an_overflow_is_told_at_once() {
    let message = "prompt is too long: 216327 tokens > 200000 maximum";
    let (events, result) = ask(vec![error("400 Bad Request", &[], "invalid_request_error", message)]);
    assert_eq!(events, []);
    assert_eq!(result, Err(ModelError::Overflow { limit: Limit::Tokens, message: message.to_owned() }));
}

#[test]
fn a_budget_that_does_not_fit_is_refused_before_anything_is_sent() {
    let history = history();
    let request = Request { history: &history, max_tokens: 64, thinking: Thinking::Budget(64) };
    let client = Anthropic::new(options("http://localhost:1")).unwrap();
    let result = runtime().block_on(client.respond(&request, &mut |event| panic!("{event:?}")));
    assert!(matches!(result, Err(ModelError::Rejected { status: 400, .. })), "{result:?}");
}

fn count(replies: Vec<Reply>) -> (Result<u64, ModelError>, Vec<String>) {
    let server = Server::start(replies);
    let history = history();
    let request = Request { history: &history, max_tokens: 64, thinking: Thinking::Adaptive };
    let client = Anthropic::new(options(&server.url)).unwrap();
    let result = runtime().block_on(client.count(&request));
    (result, server.requests())
}

#[test]
fn tokens_are_counted() {
    let (result, requests) = count(vec![json_reply("200 OK", &[], r#"{"input_tokens":2095}"#)]);
    assert_eq!(result, Ok(2095));
    assert!(requests[0].starts_with("POST /v1/messages/count_tokens HTTP/1.1\r\n"));
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(!body.contains("max_tokens") && !body.contains("stream"), "{body}");
}

#[test]
fn a_count_is_asked_for_twice_at_most() {
    let busy = || error("529 Overloaded", &[], "overloaded_error", "Overloaded");
    let (result, _) = count(vec![busy(), json_reply("200 OK", &[], r#"{"input_tokens":7}"#)]);
    assert_eq!(result, Ok(7));
    let (result, requests) = count(vec![busy(), busy()]);
    assert_eq!((result, requests.len()), (Err(unavailable("Overloaded")), 2));
    let (result, _) = count(vec![json_reply("200 OK", &[], r#"{"tokens":7}"#)]);
    assert_eq!(result, Err(ModelError::Protocol { message: r#"this is not a count: {"tokens":7}"#.to_owned() }));
}
