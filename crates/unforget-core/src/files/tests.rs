use super::*;
use crate::encode::sha256_hex;
use crate::record::{Draft, Envelope};

const ROOT: &str = "/work";

fn kept(text: &str) -> Content {
    Seen::Bytes(text.as_bytes().to_vec()).content()
}

/// A reference as the writer leaves it in a line.
fn reference(content: Option<&str>) -> String {
    match content {
        None => "null".to_owned(),
        Some(text) => {
            let payload = json::quote(text);
            format!("{{\"sha256\":\"{}\",\"bytes\":{}}}", sha256_hex(payload.as_bytes()), payload.len())
        }
    }
}

fn line(n: u64, draft: &Draft, blobs: &[&str]) -> String {
    let blobs: Vec<String> = blobs.iter().map(|pointer| (*pointer).to_owned()).collect();
    draft.encode(Envelope { n, parent: Some(n.saturating_sub(1)), now_ms: 0, previous_crc: 0 }, &blobs)
}

fn change(n: u64, path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let draft = Draft::new("file").text("path", path).text("root", ROOT).text("tool_use_id", &format!("call-{n}"));
    let draft = draft.raw("before", &reference(before)).raw("after", &reference(after));
    line(n, &draft, &["/before", "/after"])
}

/// The result of the call that announced the change in record `n`.
fn result(n: u64) -> String {
    line(n + 1, &Draft::tool_result(&format!("call-{n}"), "\"done\""), &[])
}

fn folded(lines: &[String]) -> Files {
    let mut files = Files::default();
    for record in &crate::scan::scan(lines.concat().as_bytes()).records {
        files.feed(record);
    }
    files
}

fn at(files: &Files, path: &str, n: u64) -> Content {
    files.of(ROOT).find(|(found, _)| *found == path).map(|(_, changes)| changes.at(n)).unwrap()
}

fn step(files: &Files, n: u64, disk: Content) -> Step {
    let disk = BTreeMap::from([("a".to_owned(), Found::Content(disk))]);
    files.plan(ROOT, n, &disk).steps.remove(0)
}

#[test]
fn a_file_is_at_each_record_what_the_last_change_made_of_it() {
    let lines = [
        change(2, "a", None, Some("one")),
        result(2),
        change(5, "a", Some("one"), Some("two")),
        result(5),
        change(8, "a", Some("two"), None),
        result(8),
    ];
    let files = folded(&lines);
    let states: Vec<Content> = [0, 2, 4, 5, 7, 8, 99].into_iter().map(|n| at(&files, "a", n)).collect();
    let wanted =
        [Content::Absent, kept("one"), kept("one"), kept("two"), kept("two"), Content::Absent, Content::Absent];
    assert_eq!(states, wanted);
}

#[test]
fn what_a_rewind_left_on_the_disk_is_still_there() {
    // The second change hangs on a record before the first one.
    let lines = [
        change(2, "a", None, Some("one")),
        line(3, &Draft::head(Some(1), "rewind"), &[]),
        change(4, "b", None, Some("two")),
    ];
    let files = folded(&lines);
    assert_eq!((at(&files, "a", 4), at(&files, "b", 4)), (kept("one"), kept("two")));
}

#[test]
fn a_change_by_hand_before_the_next_one_is_not_what_was_there_at_the_record() {
    let lines = [change(2, "a", None, Some("one")), result(2), change(5, "a", Some("by hand"), Some("two")), result(5)];
    assert_eq!(at(&folded(&lines), "a", 3), kept("one"));
}

#[test]
fn a_change_that_a_crash_prevented_was_never_there() {
    let unknown = line(3, &Draft::tool_result("call-2", "\"?\"").raw("repair", "true"), &[]);
    let lines =
        [change(2, "a", Some("old"), Some("new")), unknown, change(5, "a", Some("old"), Some("other")), result(5)];
    assert_eq!(at(&folded(&lines), "a", 4), kept("old"));
    // One that was made and taken back by hand was there.
    let lines = [change(2, "a", Some("old"), Some("new")), result(2), change(5, "a", Some("old"), Some("other"))];
    assert_eq!(at(&folded(&lines), "a", 4), kept("new"));
}

#[test]
fn a_plan_says_what_each_file_needs() {
    let lines = [change(2, "a", None, Some("one")), result(2), change(5, "a", Some("one"), Some("two")), result(5)];
    let files = folded(&lines);
    let told = |n, disk| {
        let step = step(&files, n, disk);
        (step.action, step.standing)
    };
    assert_eq!(told(1, kept("two")), (Action::Delete, Standing::Clear));
    assert_eq!(told(3, kept("two")), (Action::Change, Standing::Clear));
    assert_eq!(told(5, kept("two")), (Action::Nothing, Standing::Clear));
    assert_eq!(told(3, kept("by hand")), (Action::Change, Standing::Conflict));
    assert_eq!(told(3, Content::Absent), (Action::Create, Standing::Conflict));
    // As it was, whoever made it so.
    assert_eq!(told(3, kept("one")), (Action::Nothing, Standing::Clear));
    // Taken back by hand is changed by something else, unless the last change may never have been made.
    assert_eq!(told(1, kept("one")).1, Standing::Conflict);
    let announced = folded(&lines[..3]);
    assert_eq!(step(&announced, 1, kept("one")).standing, Standing::Clear);
}

#[test]
fn what_could_not_be_given_back_or_saved_first_is_not_touched() {
    let large = "{\"not_kept\":\"too large\",\"bytes\":99}";
    let draft = Draft::new("file").text("path", "a").text("root", ROOT);
    let lost = line(2, &draft.clone().raw("before", large).raw("after", &reference(Some("x"))), &["/after"]);
    let files = folded(&[lost]);
    assert_eq!(at(&files, "a", 1), Content::NotKept { bytes: 99 });
    assert!(matches!(step(&files, 1, kept("x")).standing, Standing::Blocked(_)));
    let files = folded(&[change(2, "a", Some("x"), Some("y"))]);
    assert!(matches!(step(&files, 1, Content::NotKept { bytes: 7 }).standing, Standing::Blocked(_)));
    assert!(matches!(step(&files, 1, Content::Unknown).standing, Standing::Blocked(_)));
    // A reference that the writer did not list, and a member that is not there.
    let forged = line(2, &draft.raw("before", &reference(Some("x"))), &[]);
    let files = folded(&[forged]);
    assert_eq!((at(&files, "a", 1), at(&files, "a", 2)), (Content::Unknown, Content::Unknown));
    assert!(matches!(step(&files, 1, kept("y")).standing, Standing::Blocked(_)));
}

#[test]
fn folders_that_were_made_for_files_go_with_them() {
    let made = |n: u64, path: &str, folders: &str| {
        let draft = Draft::new("file").text("path", path).text("root", ROOT).raw("folders", folders);
        line(n, &draft.raw("before", "null").raw("after", &reference(Some("x"))), &["/after"])
    };
    let files = folded(&[made(2, "old/new/deep/a", "2"), made(3, "old/new/b", "0"), made(4, "c", "9")]);
    assert_eq!(files.plan(ROOT, 1, &BTreeMap::new()).folders, ["old/new/deep", "old/new"]);
    assert!(files.plan(ROOT, 2, &BTreeMap::new()).folders.is_empty());
}

#[test]
fn files_that_were_restored_elsewhere_have_their_history_there() {
    let draft = Draft::new("file").text("path", "a").text("root", "/copy").text("from", ROOT);
    let moved = line(6, &draft.raw("before", "null").raw("after", &reference(Some("one"))), &["/after"]);
    let files = folded(&[change(2, "a", None, Some("one")), change(4, "a", Some("one"), Some("two")), moved]);
    let (_, changes) = files.of("/copy").next().unwrap();
    assert_eq!([changes.at(3), changes.at(5), changes.at(6)], [kept("one"), kept("two"), kept("one")]);
    assert_eq!(files.last_root(), Some("/copy"));
}

#[test]
fn any_bytes_come_back_as_they_were() {
    for content in
        [&b""[..], b"text\r\n\x1b[31m\0", "\u{202e}\u{feff}記".as_bytes(), b"\xff\xfe\0binary", b"{\"base64\":\"\"}"]
    {
        let seen = Seen::of(content.to_vec());
        assert_eq!(bytes(seen.to_json().as_bytes()).unwrap(), content);
    }
    for payload in ["null", "1", "{}", "{\"base64\":\"?\"}", "\"", ""] {
        assert_eq!(bytes(payload.as_bytes()), None, "{payload}");
    }
    assert_eq!(Seen::of(vec![0; MAX_KEPT as usize + 1]), Seen::too_large(MAX_KEPT + 1));
}
