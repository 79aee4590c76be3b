//! The scan beside everything that can be in its way: trash, branches, payloads, damage, files that go away.

use std::os::unix::fs::PermissionsExt as _;

use unforget_core::directory::{Directory, Listing};
use unforget_core::json::quote;
use unforget_core::record::Draft;
use unforget_core::retention::Pattern;
use unforget_core::search::{self, Answer, Filter, Hit, Query, Role, SearchQuery, Trash};
use unforget_core::session::Session;

use crate::support::{crash_store, disk_store};

fn find_with(store: &Directory, text: &str, filter: Filter) -> Answer {
    let request = SearchQuery { query: Query::parse(text).unwrap(), filter, limit: 100 };
    let places = search::places(store, &request.filter).unwrap();
    search::scan(store, &places, &request).answer(request.limit)
}

fn find(store: &Directory, text: &str) -> Vec<Hit> {
    find_with(store, text, Filter::default()).hits
}

fn numbers(hits: &[Hit]) -> Vec<u64> {
    let mut numbers: Vec<u64> = hits.iter().map(|hit| hit.n).collect();
    numbers.sort_unstable();
    numbers
}

fn session(store: &Directory, key: &str, drafts: &[Draft]) -> Session {
    let mut session = store.create(&key.parse().unwrap(), None).unwrap();
    session.append(drafts).unwrap();
    session
}

#[test]
fn a_hit_says_where_it_is_and_what_it_belongs_to() {
    let (_home, store) = disk_store();
    let call = Draft::tool_use(None, "t", "bash", r#"{"command":"ls needle"}"#);
    let open = session(
        &store,
        "main:cli:ada",
        &[Draft::user("fix the tests"), call, Draft::tool_result("t", &quote("a needle"))],
    );
    let hits = find(&store, "needle");
    assert_eq!(numbers(&hits), [2, 3]);
    let result = hits.iter().find(|hit| hit.n == 3).unwrap();
    assert_eq!((result.role, result.tool.as_deref(), result.len), (Role::ToolResult, Some("bash"), 2));
    assert_eq!((result.key.as_deref(), result.title.as_deref()), (Some("main:cli:ada"), Some("fix the tests")));
    assert_eq!(result.place.id, *open.id());
    let bytes = open.reader().unwrap().read_all().unwrap();
    assert!(bytes[usize::try_from(result.offset).unwrap()..].starts_with(b"{\"v\":1,\"n\":3,"));
    assert!(result.at_ms > 1_767_225_600_000 && !result.is_abandoned && !result.place.is_trashed);
}

#[test]
fn the_trash_and_abandoned_branches_are_found_and_marked() {
    let (_home, store) = disk_store();
    session(&store, "main:cli:a", &[Draft::user("one needle"), Draft::user("two needles needle")])
        .append(&[Draft::head(Some(1), "rewind"), Draft::user("another needle")])
        .unwrap();
    drop(session(&store, "main:cli:b", &[Draft::user("a deleted needle")]));
    let listing = store.list().unwrap();
    store.delete(&store.resolve(&listing, "main:cli:b").unwrap()).unwrap();
    let hits = find(&store, "needle");
    let marks: Vec<(u64, bool, bool)> =
        hits.iter().map(|hit| (hit.n, hit.is_abandoned, hit.place.is_trashed)).collect();
    for expected in [(1, false, false), (2, true, false), (4, false, false), (1, false, true)] {
        assert!(marks.contains(&expected), "{expected:?} in {marks:?}");
    }
    assert_eq!(hits.len(), 4);
    let without = Filter { trash: Trash::LeftOut, ..Filter::default() };
    assert_eq!(numbers(&find_with(&store, "needle", without).hits), [1, 2, 4]);
    for hit in &hits {
        let snippet = search::snippet(&store, hit, &Query::parse("needle").unwrap(), 80).unwrap().unwrap();
        assert!(snippet.text.contains("needle") && !snippet.marks.is_empty());
    }
}

#[test]
fn payloads_elsewhere_are_searched_and_missed_ones_are_no_error() {
    let (home, store) = disk_store();
    let filler = "hay ".repeat(100_000);
    let full = format!("{filler} deepneedle {filler}");
    session(
        &store,
        "main:cli:a",
        &[
            Draft::user(&format!("beginning {filler} farneedle")),
            Draft::tool_use(None, "t", "bash", "{}"),
            Draft::tool_result("t", &quote("hay … hay")).text("full", &full),
        ],
    );
    assert_eq!(numbers(&find(&store, "farneedle")), [1]);
    assert_eq!(numbers(&find(&store, "deepneedle")), [3]);
    assert_eq!(numbers(&find(&store, "beginning farneedle")), [1]);
    let hit = &find(&store, "deepneedle")[0];
    let snippet = search::snippet(&store, hit, &Query::parse("deepneedle").unwrap(), 80).unwrap().unwrap();
    assert!(snippet.text.contains("hay deepneedle hay"), "{}", snippet.text);
    std::fs::remove_dir_all(home.path().join("home/blobs")).unwrap();
    assert!(find(&store, "farneedle").is_empty());
    assert_eq!(numbers(&find(&store, "beginning")), [1], "the line has the beginning");
}

#[test]
fn sessions_that_go_away_or_cannot_be_read_hide_no_other() {
    let (home, store) = disk_store();
    let gone = session(&store, "main:cli:a", &[Draft::user("needle")]).id().clone();
    let closed = session(&store, "main:cli:b", &[Draft::user("needle")]).path().to_path_buf();
    session(&store, "main:cli:c", &[Draft::user("needle")]);
    let request = SearchQuery { query: Query::parse("needle").unwrap(), filter: Filter::default(), limit: 10 };
    let places = search::places(&store, &request.filter).unwrap();
    let file = home.path().join("home/agents/main/sessions").join(format!("{gone}.jsonl"));
    std::fs::remove_file(file).unwrap();
    std::fs::write(home.path().join("home/agents/main/sessions/zipped.jsonl"), b"PK\x03\x04needle").unwrap();
    let closed = home.path().join("home").join(closed);
    std::fs::remove_file(&closed).unwrap();
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let found = search::scan(&store, &places, &request).answer(10);
    assert_eq!(found.hits.len(), 1);
    assert_eq!(found.unreadable.len(), 1, "{:?}", found.unreadable);
    assert_eq!(find(&store, "needle").len(), 1);
}

#[test]
fn damaged_files_and_lines_of_other_programs_are_searched_as_far_as_they_can_be_read() {
    let (home, store) = disk_store();
    let open = session(&store, "main:cli:a", &[Draft::user("first needle")]);
    let file = home.path().join("home").join(open.path());
    drop(open);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(b"\0\0\0garbage \xff needle\n");
    bytes.extend_from_slice(b"{\"type\":\"us{\"type\":\"user\",\"content\":\"glued needle\",\"ts\":1767225601}\n");
    bytes.extend_from_slice(b"{\"type\":\"user\",\"content\":\"n\\u0065edle of python\",\"ts\":1767225602}\n");
    bytes.extend_from_slice(b"{\"type\":\"user\",\"content\":\"torn needle");
    std::fs::write(&file, &bytes).unwrap();
    let hits = find(&store, "needle");
    assert_eq!(hits.len(), 3, "{hits:?}");
    for hit in &hits {
        let snippet = search::snippet(&store, hit, &Query::parse("needle").unwrap(), 80).unwrap().unwrap();
        assert!(snippet.text.ends_with("needle") || snippet.text.ends_with("of python"), "{}", snippet.text);
    }
}

#[test]
fn filters_leave_what_they_name() {
    let (_home, store) = disk_store();
    session(
        &store,
        "main:cli:ada",
        &[Draft::user("needle").dated(Some(1_000_000)), Draft::assistant(None, "\"needle\"")],
    );
    session(&store, "work:web:bo", &[Draft::user("needle"), Draft::title("needle")]);
    session(&store, "agent:work:web:group:all", &[Draft::user("needle")]);
    let count = |filter: Filter| find_with(&store, "needle", filter).hits.len();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(count(Filter::default()), 5);
    assert_eq!(count(Filter { agent: text("work"), ..Filter::default() }), 3);
    assert_eq!(count(Filter { channel: text("cli"), ..Filter::default() }), 2);
    assert_eq!(count(Filter { peer: text("all"), ..Filter::default() }), 1);
    assert_eq!(count(Filter { key: Pattern::parse("work:web:bo").ok(), ..Filter::default() }), 2);
    assert_eq!(count(Filter { roles: vec![Role::Title, Role::Assistant], ..Filter::default() }), 2);
    assert_eq!(count(Filter { until_ms: Some(1_000_000), ..Filter::default() }), 1);
    assert_eq!(count(Filter { since_ms: Some(1_000_001), ..Filter::default() }), 4);
    assert_eq!(count(Filter { tool: text("bash"), ..Filter::default() }), 0);
}

#[test]
fn shares_add_up_to_the_whole() {
    let (_, store) = crash_store();
    for n in 0..30 {
        session(&store, &format!("main:cli:{n}"), &[Draft::user(&format!("needle {n}")), Draft::user("needle again")]);
    }
    let request = SearchQuery { query: Query::parse("needle").unwrap(), filter: Filter::default(), limit: 20 };
    let places = search::places(&store, &request.filter).unwrap();
    let whole = search::scan(&store, &places, &request).answer(request.limit);
    let mut found = search::Found::default();
    for share in places.chunks(7) {
        found.add(search::scan(&store, share, &request));
    }
    assert_eq!(found.answer(request.limit), whole);
    assert!(whole.more && whole.hits.len() == 20);
    let listing: Listing = store.list().unwrap();
    let mut listed: Vec<search::Place> = listing.entries.iter().filter_map(search::Place::of).collect();
    listed.sort_by(|a, b| b.cmp(a));
    assert_eq!(listed, places);
}

#[test]
fn a_long_transcript_is_searched_line_by_line() {
    let (home, store) = disk_store();
    let folder = home.path().join("home/agents/main/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    let hay = "hay ".repeat(50_000);
    let line = |text: &str| format!("{{\"type\":\"user\",\"content\":\"{text} {hay}\",\"ts\":1767225601}}\n");
    let mut text = line("first").repeat(180);
    text.push_str(&line("the needle"));
    assert!(text.len() > 32 << 20);
    std::fs::write(folder.join("long.jsonl"), text).unwrap();
    let hits = find(&store, "needle");
    assert_eq!(numbers(&hits), [180]);
    let snippet = search::snippet(&store, &hits[0], &Query::parse("needle").unwrap(), 40).unwrap().unwrap();
    assert!(snippet.text.starts_with("the needle hay"), "{}", snippet.text);
    assert!(find(&store, "nosuchword").is_empty());
    let many = find_with(&store, "hay", Filter::default());
    assert!(many.more && many.hits.len() == 100);
}

#[test]
fn many_new_hits_hide_no_newer_ones_in_old_sessions() {
    let (home, store) = disk_store();
    // Ids and files in one order, times in another: the oldest file has the newest words, and the second oldest none that count.
    let line = |n: usize, ts: &str| {
        format!("{{\"v\":1,\"n\":{n},\"type\":\"user\",\"ts\":\"{ts}\",\"content\":\"needle {n}\"}}\n")
    };
    let header = "{\"v\":1,\"n\":0,\"type\":\"session\",\"ts\":\"2020-01-01T00:00:00.000Z\",\"key\":\"main:cli:a\"}\n";
    let many = |of: usize, ts: &str| (1..=of).map(|n| line(n, ts)).collect::<String>();
    drop(session(&store, "main:cli:a", &[Draft::user("hay")]));
    let folder = home.path().join("home/agents/main/sessions");
    for (id, body) in [
        ("00000000-0000-7000-8000-000000000009", many(2500, "2026-01-02T00:00:00.000Z")),
        ("00000000-0000-7000-8000-000000000002", many(3, "2026-01-01T00:00:00.000Z")),
        ("00000000-0000-7000-8000-000000000001", many(3, "2026-01-03T00:00:00.000Z")),
    ] {
        std::fs::write(folder.join(format!("{id}.jsonl")), format!("{header}{body}")).unwrap();
    }
    let answer = find_with(&store, "needle", Filter::default());
    assert!(answer.more && answer.hits.len() == 100);
    let newest: Vec<&str> = answer.hits.iter().take(3).map(|hit| hit.place.id.as_str()).collect();
    assert_eq!(newest, ["00000000-0000-7000-8000-000000000001"; 3]);
    assert!(answer.hits.iter().all(|hit| !hit.place.id.as_str().ends_with('2')));
}
