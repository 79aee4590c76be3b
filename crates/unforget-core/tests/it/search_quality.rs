//! What people look for, in the languages they write, and what they must find: one table for every way to search.

use std::collections::HashMap;

use unforget_core::directory::Directory;
use unforget_core::json::quote;
use unforget_core::record::Draft;
use unforget_core::search::{self, Answer, Filter, Query, SearchQuery};

use crate::support::disk_store;

/// The conversations that are searched: a name, and the records from number 1 on.
fn corpus() -> Vec<(&'static str, Vec<Draft>)> {
    let says = |text: &str| Draft::assistant(None, &quote(text));
    vec![
        (
            "net",
            vec![
                Draft::user("The server fails with connection refused (ECONNREFUSED) after the TLS handshake timeout."),
                Draft::tool_use(
                    None,
                    "t1",
                    "bash",
                    r#"{"command":"curl -v https://api.example.com/v1/messages","timeout":30}"#,
                ),
                Draft::tool_result(
                    "t1",
                    &quote("curl: (7) Failed to connect to api.example.com port 443: Connection refused"),
                ),
                says(
                    "The connection is refused by the firewall. Set retry_count and MAX_RETRIES in src/net/http_client.rs.",
                ),
            ],
        ),
        (
            "code",
            vec![
                Draft::user("Why does parseRecord() return None for session_id in XMLHttpRequest handlers?"),
                Draft::tool_use(None, "t2", "read_file", r#"{"path":"crates/core/src/record/parse.rs","offset":120}"#),
                Draft::tool_result(
                    "t2",
                    &quote(
                        "pub fn parse_record(line: &str) -> Result<Record, ParseError> {\n    let session_id = header.id?;\n    std::fs::read_to_string(path)\n}",
                    ),
                ),
                says(
                    "`parse_record` drops the error: use `?` with `std::fs::read_to_string`. In C++ you would throw; on GitHub Actions it fails.",
                ),
            ],
        ),
        (
            "zh",
            vec![
                Draft::user("会话持久化怎么实现？重启之后上下文会丢失吗？"),
                says("不会。每条记录都写入日志文件，用Python3写的脚本也能读取 JSON。"),
                Draft::user("上海的服务器超时了，错误码是 504。"),
            ],
        ),
        (
            "ja",
            vec![
                Draft::user("東京都庁の住所を検索してください。カタカナのガイドもお願いします。"),
                says("東京都新宿区西新宿2-8-1です。ｶﾞｲﾄﾞはこちら。"),
                Draft::user("京都へ行きたい。データベースのインデックスは？"),
            ],
        ),
        (
            "ko",
            vec![
                Draft::user("한국어 검색 기능을 추가해 주세요. 데이터베이스 오류가 납니다."),
                says("형태소 분석 없이 부분 문자열로 검색합니다."),
            ],
        ),
        (
            "eu",
            vec![
                Draft::user("Crème brûlée für Zürich: die Größe der Straße, naïve façade."),
                says("Готово: ёлка и Москва. Ελληνικά: Αθήνα."),
                Draft::user("ＦＵＬＬＷＩＤＴＨ ｔｅｘｔ ａｎｄ emoji 🎉 done"),
            ],
        ),
        (
            "mix",
            vec![
                Draft::user("用 Rust 重写 session_store，支持 CJK 検索 and 한글 검색"),
                Draft::title("Rust 重写计划"),
                Draft::label(Some(1), "before-rewrite"),
                Draft::compaction("The team decided to use SQLite FTS5 for the 全文检索 index.", None),
            ],
        ),
    ]
}

/// A query and the records that it finds.
const TABLE: [(&str, &str); 86] = [
    // English
    ("connection refused", "net1 net3 net4"),
    ("\"connection refused\"", "net1 net3"),
    ("refused connection", "net1 net3 net4"),
    ("\"refused connection\"", ""),
    ("timeout", "net1 net2"),
    ("TIMEOUT", "net1 net2"),
    ("time*", "net1 net2"),
    ("time", ""),
    ("timeout OR firewall", "net1 net2 net4"),
    ("connection -firewall", "net1 net3"),
    ("connection NOT (firewall OR curl)", "net1"),
    ("(tls OR firewall) connection", "net1 net4"),
    ("firewall nosuchword", ""),
    ("\"tls handshake time\"*", "net1"),
    ("fails", "net1 code4"),
    ("decided", "mix4"),
    // Code, paths, commands
    ("session_id", "code1 code3"),
    ("SESSION_ID", "code1 code3"),
    ("session", "code1 code3 mix1"),
    ("session id", "code1 code3"),
    ("\"session id\"", "code1 code3"),
    ("session_*", "code1 code3 mix1"),
    ("parseRecord", "code1"),
    ("parserecord", "code1"),
    ("parse_record", "code3 code4"),
    ("parse record", "code1 code2 code3 code4"),
    ("parse_record()", "code3 code4"),
    ("ParseError", "code3"),
    ("error", "code3 code4"),
    ("XMLHttpRequest", "code1"),
    ("xml http request", "code1"),
    ("http", "net4 code1"),
    ("https", "net2"),
    ("std::fs::read_to_string", "code3 code4"),
    ("std::fs", "code3 code4"),
    ("fs::std", ""),
    ("read_to_string(path)", "code3"),
    ("C++", "code4"),
    ("\"github actions\"", "code4"),
    ("hub", "code4"),
    ("src/net/http_client.rs", "net4"),
    ("record/parse.rs", "code2"),
    ("crates/core", "code2"),
    ("api.example.com", "net2 net3"),
    ("https://api.example.com/v1/messages", "net2"),
    ("MAX_RETRIES", "net4"),
    ("retries", "net4"),
    ("read_file", "code2"),
    ("bash", "net2"),
    ("command curl", "net2"),
    ("443", "net3"),
    ("120", "code2"),
    ("Result<Record, ParseError>", "code3"),
    ("before-rewrite", "mix3"),
    // Chinese
    ("会话", "zh1"),
    ("持久化", "zh1"),
    ("会话持久化", "zh1"),
    ("久化会话", ""),
    ("上下文", "zh1"),
    ("上海", "zh3"),
    ("上", "zh1 zh3"),
    ("服务器 超时", "zh3"),
    ("\"超时了，错误\"", "zh3"),
    ("记录 -日志", ""),
    ("日志文件", "zh2"),
    ("检索", "mix4"),
    ("全文检索", "mix4"),
    ("重写", "mix1 mix2"),
    ("错误码 504", "zh3"),
    // Japanese
    ("東京", "ja1 ja2"),
    ("京都", "ja1 ja2 ja3"),
    ("東京都庁", "ja1"),
    ("ガイド", "ja1 ja2"),
    ("ｶﾞｲﾄﾞ", "ja1 ja2"),
    ("カイト", ""),
    ("データベース", "ja3"),
    ("検索", "ja1 mix1"),
    // Korean
    ("검색", "ko1 ko2 mix1"),
    ("데이터베이스 오류", "ko1"),
    ("한국어", "ko1"),
    ("한글", "mix1"),
    // Other scripts, accents, width, mixed
    ("creme brulee strasse", "eu1"),
    ("ЕЛКА москва", "eu2"),
    ("αθηνα", "eu2"),
    ("fullwidth 🎉", "eu3"),
    ("python3写 json", "zh2"),
];

pub(crate) fn filled(store: &Directory) -> HashMap<String, &'static str> {
    let mut names = HashMap::new();
    for (name, drafts) in corpus() {
        let mut session = store.create(&format!("main:cli:{name}").parse().unwrap(), None).unwrap();
        session.append(&drafts).unwrap();
        names.insert(session.id().to_string(), name);
    }
    names
}

/// Asks every question of the table, in the way that is handed in.
pub(crate) fn ask_all(store: &Directory, names: &HashMap<String, &'static str>, find: impl Fn(&SearchQuery) -> Answer) {
    let order: Vec<&str> = corpus().into_iter().map(|(name, _)| name).collect();
    let mut wrong = Vec::new();
    for (text, expected) in TABLE {
        let query = Query::parse(text).unwrap();
        let answer = find(&SearchQuery { query: query.clone(), filter: Filter::default(), limit: 100 });
        let place = |name: &str| order.iter().position(|known| *known == name);
        let mut found: Vec<(Option<usize>, u64, String)> = answer
            .hits
            .iter()
            .map(|hit| (names[hit.place.id.as_str()], hit.n))
            .map(|(name, n)| (place(name), n, format!("{name}{n}")))
            .collect();
        found.sort();
        let found = found.into_iter().map(|(_, _, name)| name).collect::<Vec<_>>().join(" ");
        if found != expected {
            wrong.push(format!("{text}: expected [{expected}], found [{found}]"));
        }
        for hit in &answer.hits {
            let snippet = search::snippet(store, hit, &query, 60).unwrap().unwrap();
            if snippet.marks.is_empty() {
                wrong.push(format!("{text}: nothing is marked in `{}`", snippet.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scan_finds_what_people_look_for() {
    let (_home, store) = disk_store();
    let names = filled(&store);
    ask_all(&store, &names, |request| {
        let places = search::places(&store, &request.filter).unwrap();
        search::scan(&store, &places, request).answer(request.limit)
    });
}
