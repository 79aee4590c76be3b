use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

fn finds(query: &str, text: &str) -> bool {
    Query::parse(query).unwrap().matches(&Words::of(text))
}

fn tokens(query: &str) -> Vec<(Vec<String>, bool)> {
    let query = Query::parse(query).unwrap();
    query.wanted().iter().map(|term| (term.tokens.clone(), term.is_prefix)).collect()
}

#[test]
fn words_must_all_be_there_in_any_order() {
    assert!(finds("beta alpha", "Alpha and Beta"));
    assert!(!finds("beta gamma", "Alpha and Beta"));
    assert!(finds("beta OR gamma", "Alpha and Beta"));
    assert!(finds("(beta OR gamma) AND alpha", "Alpha and Beta"));
    assert!(finds("x y OR alpha", "Alpha and Beta"), "AND binds before OR");
    assert!(!finds("alpha -beta", "Alpha and Beta") && finds("alpha -gamma", "Alpha and Beta"));
    assert!(!finds("alpha NOT beta", "Alpha and Beta") && finds("alpha -(beta gamma)", "Alpha and Beta"));
}

#[test]
fn a_phrase_is_a_row_of_words() {
    assert!(finds("\"alpha and\"", "Alpha and Beta"));
    assert!(!finds("\"alpha beta\"", "Alpha and Beta"));
    assert!(finds("\"and be\"*", "Alpha and Beta") && !finds("\"and be\"", "Alpha and Beta"));
    assert!(finds("al*", "Alpha") && !finds("al", "Alpha"));
}

#[test]
fn what_people_type_finds_something_sensible() {
    for (query, text) in [
        ("foo.bar()", "call foo.bar() now"),
        ("f(x)", "y = f(x)"),
        ("(f(x))", "y = f(x)"),
        ("C++", "written in C++"),
        ("/etc/nginx/nginx.conf", "edit /etc/nginx/nginx.conf"),
        ("a:b", "key a:b"),
        ("std::fs::read", "use std::fs::read;"),
        ("{\"name\":", "{\"name\": 1}"),
        ("key=\"value\"", "key=\"value\""),
        ("--force", "push --force"),
        ("foo )", "foo"),
        ("( foo", "foo"),
        ("foo AND", "foo"),
        ("OR foo", "foo"),
        ("foo OR", "foo"),
        ("NOT NOT foo", "foo"),
        ("or", "this or that"),
        ("AND", "this and that"),
        ("OR OR", "this or that"),
        ("- foo", "foo"),
        ("5\"", "a 5\" disk"),
        ("foo*bar", "foo bar"),
        ("🎉", "done 🎉"),
        ("e.g. it's", "e.g. it's"),
        ("()foo", "foo"),
    ] {
        assert!(finds(query, text), "{query}");
    }
}

#[test]
fn what_asks_for_nothing_is_refused() {
    for query in ["", "  ", "++", "\"\"", "*", "()", "-", "__"] {
        assert!(Query::parse(query).unwrap_err().what.contains("nothing to search for"), "{query}");
    }
    for query in ["-foo", "NOT foo", "a OR -b", "-(a b)"] {
        assert!(Query::parse(query).unwrap_err().what.contains("only says what must not"), "{query}");
    }
    let unbalanced = Query::parse("say \"hello").unwrap_err();
    assert_eq!((unbalanced.at, unbalanced.what.contains("quotation mark")), (4, true));
    assert!(Query::parse(&"(".repeat(100)).is_err() && Query::parse(&format!("{}x", "(".repeat(17))).is_err());
    assert!(Query::parse(&"a ".repeat(65)).is_err() && Query::parse(&"a".repeat(5000)).is_err());
}

#[test]
fn identifiers_are_found_whole_by_parts_and_in_any_spelling() {
    let text = "let session_id = parseRecord(GitHub Actions);";
    for query in [
        "session_id",
        "session",
        "SESSION_ID",
        "parserecord",
        "parseRecord",
        "record",
        "\"session id\"",
        "\"github actions\"",
        "\"GitHub Actions\"",
        "hub",
        "\"session_id parserecord\"",
        "pars*",
    ] {
        assert!(finds(query, text), "{query}");
    }
    for query in ["sessionid", "\"hub actions\"", "\"id parse\"", "\"record git\"", "arse"] {
        assert!(!finds(query, text), "{query}");
    }
}

#[test]
fn scripts_without_blanks_are_found_by_any_piece() {
    for query in ["東", "京", "都", "東京", "京都", "東京都", "\"東京都 に\"", "都*"] {
        assert!(finds(query, "東京都 に 行く"), "{query}");
    }
    for query in ["東都", "都に", "北京", "東京に"] {
        assert!(!finds(query, "東京都 に 行く"), "{query}");
    }
    assert!(finds("Python3写", "我用Python3写代码") && finds("用Python3", "我用Python3写代码"));
    assert!(!finds("我Python3", "我用Python3写代码"));
    assert_eq!(tokens("型"), [(vec!["型".to_owned()], true)]);
    assert_eq!(tokens("ABC東京"), [(vec!["abc".to_owned(), "東京".to_owned()], false)]);
}

#[test]
fn what_must_not_stand_in_a_row_is_left_out_later() {
    let expression = |query: &str| Query::parse(query).unwrap().fts5().unwrap();
    assert_eq!(expression("a.b c"), "((\"a\" AND \"b\") AND \"c\")");
    assert_eq!(expression("a -\"b c\""), "\"a\"");
    assert_eq!(expression("a -d -\"b c\""), "(\"a\" NOT \"d\")");
    assert_eq!(expression("a -(b -\"c d\")"), "(\"a\" NOT (\"b\" NOT (\"c\" AND \"d\")))");
    assert_eq!(expression("a -(\"b c\" OR d)"), "(\"a\" NOT \"d\")");
    assert_eq!(expression("\"a b\"*"), "(\"a\" AND \"b\" *)");
    assert_eq!(expression("\"of the road\""), "(\"of\" AND \"the\" AND \"road\" AND \"of\u{2063}the\")");
    assert_eq!(
        expression("\"end of the\"*"),
        "(\"end\" AND \"of\" AND \"the\" *)",
        "the last one may go on as another"
    );
    let exact: Vec<bool> = ["a b", "a*", "東京", "parse_record", "\"a b\"", "a -b.c", "東京都"]
        .map(|q| Query::parse(q).unwrap().is_exact())
        .into();
    assert_eq!(exact, [true, true, true, true, false, false, false]);
}

/// What an FTS5 table of these tokens finds.
fn indexed(texts: &[String], queries: &[Query]) -> Vec<Vec<i64>> {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE VIRTUAL TABLE t USING fts5(x, content='', detail=none, tokenize=\"ascii tokenchars '_'\")",
        )
        .unwrap();
    for (row, text) in texts.iter().enumerate() {
        let row = i64::try_from(row).unwrap();
        connection.execute("INSERT INTO t(rowid, x) VALUES (?1, ?2)", (row, Words::of(text).indexed())).unwrap();
    }
    let find = |query: &Query| {
        let mut found = connection.prepare("SELECT rowid FROM t WHERE t MATCH ?1 ORDER BY rowid").unwrap();
        let rows = found.query_map([query.fts5().unwrap()], |row| row.get(0)).unwrap();
        rows.map(|row| row.unwrap()).collect()
    };
    queries.iter().map(find).collect()
}

fn scanned(texts: &[String], queries: &[Query]) -> Vec<Vec<i64>> {
    let words: Vec<Words> = texts.iter().map(|text| Words::of(text)).collect();
    let rows =
        |query: &Query| words.iter().zip(0..).filter(|(words, _)| query.matches(words)).map(|(_, row)| row).collect();
    queries.iter().map(rows).collect()
}

#[test]
fn sqlite_changes_no_token() {
    let text = "Hello session_id Größe 東京都 ガス 한국어 🎉 __init__ ภาษาไทย हिन्दी Ａｂ１ Ёлка x86_64";
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE VIRTUAL TABLE t USING fts5(x, tokenize=\"ascii tokenchars '_'\");
             CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)",
        )
        .unwrap();
    let words = Words::of(text);
    connection.execute("INSERT INTO t(x) VALUES (?1)", [words.joined()]).unwrap();
    let mut kept = connection.prepare("SELECT term FROM v ORDER BY offset").unwrap();
    let kept: Vec<String> = kept.query_map([], |row| row.get(0)).unwrap().map(|term| term.unwrap()).collect();
    assert_eq!(kept.join(" "), words.joined());
    assert_eq!(kept.len(), words.len());
}

/// Pieces of which texts and queries are made, so that they often have something in common.
const ATOMS: [&str; 24] = [
    "a", "b", "ab", "A", "é", "e", "a_b", "aB", "abC", "東", "京", "東京", "ガ", "ｶﾞ", "가", "🎉", "_", "1", "Ж",
    "e\u{301}", "x-y", "ss", "of", "the",
];

fn atom() -> impl Strategy<Value = &'static str> + Clone {
    proptest::sample::select(&ATOMS[..])
}

fn text() -> impl Strategy<Value = String> {
    let gap = proptest::sample::select(&["", " ", " ", ". ", "\n"][..]);
    proptest::collection::vec((atom(), gap), 0..12).prop_map(|parts| parts.iter().flat_map(|(a, b)| [*a, *b]).collect())
}

fn query() -> impl Strategy<Value = String> {
    let word = proptest::collection::vec(atom(), 1..4).prop_map(|atoms| atoms.concat());
    let leaf = prop_oneof![
        4 => word.clone(),
        1 => word.clone().prop_map(|word| format!("{word}*")),
        2 => proptest::collection::vec(atom(), 1..4).prop_map(|atoms| format!("\"{}\"", atoms.join(" "))),
        1 => proptest::collection::vec(atom(), 1..3).prop_map(|atoms| format!("\"{}\"*", atoms.join(" "))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.prop_map(|a| format!("NOT {a}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn sqlite_finds_what_memory_finds_and_nothing_else_where_order_is_of_no_matter(
        texts in proptest::collection::vec(text(), 1..12),
        queries in proptest::collection::vec(query(), 1..12),
    ) {
        let queries: Vec<Query> = queries.iter().filter_map(|query| Query::parse(query).ok()).collect();
        let found = indexed(&texts, &queries).into_iter().zip(scanned(&texts, &queries));
        for (query, (indexed, scanned)) in queries.iter().zip(found) {
            if query.is_exact() {
                prop_assert_eq!(indexed, scanned);
            } else {
                prop_assert!(scanned.iter().all(|row| indexed.contains(row)), "{:?}", query);
            }
        }
    }

    #[test]
    fn any_text_is_cut_and_any_query_is_read(text in "\\PC*", query in "\\PC*") {
        let words = Words::of(&text);
        prop_assert_eq!(words.joined().split(' ').filter(|token| !token.is_empty()).count(), words.len());
        if let Ok(query) = Query::parse(&query) {
            query.matches(&words);
            prop_assert!(query.fts5().is_some());
        }
    }

    #[test]
    fn any_piece_of_a_dense_text_finds_it(text in "[一-龥ぁ-んァ-ヶ가-힣]{1,20}", from in 0_usize..20, len in 1_usize..8) {
        let piece: String = text.chars().skip(from).take(len).collect();
        prop_assume!(!piece.is_empty());
        let among_others = format!("x {text} y");
        prop_assert!(finds(&piece, &among_others));
        let other = format!("{piece}犬犬");
        prop_assert_eq!(finds(&other, &text), text.contains(&other));
    }
}
