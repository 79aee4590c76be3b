//! Usage: a ledger that was fed in pieces is the one that was fed at once, and all transcripts are counted.

use proptest::prelude::*;
use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::scan::scan;
use unforget_core::store::{Reach, collect};
use unforget_core::usage::Ledger;

use crate::support::{crash_store, disk_store};

fn feed(ledger: &mut Ledger, bytes: &[u8], range: std::ops::Range<usize>) {
    scan(bytes).records[range].iter().for_each(|record| ledger.feed(record));
}

fn line() -> impl Strategy<Value = String> {
    let ts = prop_oneof![
        2 => Just(String::new()),
        6 => (0..72u32).prop_map(|hour| format!(",\"ts\":\"2026-01-{:02}T{:02}:30:00.000Z\"", 1 + hour / 24, hour % 24)),
    ];
    let model = prop_oneof![Just(String::new()), "[ab]".prop_map(|name| format!(",\"model\":\"{name}\""))];
    let body = prop_oneof![
        (model.clone(), any::<u32>(), any::<u64>()).prop_map(|(model, input, output)| format!(
            "\"type\":\"turn\",\"state\":\"done\"{model},\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}}"
        )),
        model.prop_map(|model| format!("\"type\":\"context\"{model}")),
        Just("\"type\":\"user\",\"content\":\"hi\"".to_owned()),
        Just("\"type\":\"tool_use\",\"tool_use_id\":\"t\",\"name\":\"x\",\"input\":{}".to_owned()),
        Just("\"type\":\"session\",\"origin\":{\"copied\":5}".to_owned()),
    ];
    (body, ts, 0..20u64).prop_map(|(body, ts, n)| format!("{{\"v\":1,\"n\":{n},{body}{ts}}}\n"))
}

proptest! {
    #[test]
    fn feeding_in_pieces_is_feeding_at_once(lines in prop::collection::vec(line(), 0..40), at in any::<prop::sample::Index>()) {
        let text = lines.concat();
        let count = scan(text.as_bytes()).records.len();
        let cut = at.index(count + 1);
        let mut whole = Ledger::default();
        feed(&mut whole, text.as_bytes(), 0..count);
        let mut first = Ledger::default();
        feed(&mut first, text.as_bytes(), 0..cut);
        let mut second = Ledger::after(first.carry().clone());
        feed(&mut second, text.as_bytes(), cut..count);
        prop_assert_eq!(second.carry(), whole.carry());
        let mut sum = Ledger::after(second.carry().clone());
        sum.merge(&second);
        sum.merge(&first);
        prop_assert_eq!(sum, whole);
    }
}

const CALL: &str = r#"{"type":"turn","state":"done","model":"m","usage":{"input_tokens":3,"output_tokens":4}}"#;

#[test]
fn sessions_in_the_trash_count_and_one_that_cannot_be_read_is_told_of() {
    let (medium, store) = crash_store();
    for peer in ["a", "b"] {
        let mut session = store.create(&Key::new("main", "cli", None, peer).unwrap(), None).unwrap();
        session.append(&[Draft::user("hello there"), Draft::from_json(CALL).unwrap()]).unwrap();
    }
    store.delete(&store.list().unwrap().entries[0]).unwrap();
    medium.write_file("agents/main/sessions/broken.jsonl", b"\x1f\x8bgzip").unwrap();
    let mut found = Vec::new();
    let visit = |facts: unforget_core::store::Facts, ledger: Ledger| {
        found.push((facts.key.unwrap(), facts.trashed, ledger.total().calls, ledger.total().tokens.total()));
    };
    let unread = collect(&store, Reach::All, |_| {}, visit).unwrap();
    found.sort();
    assert_eq!(found, [("main:cli:a".to_owned(), false, 1, 7), ("main:cli:b".to_owned(), true, 1, 7)]);
    assert!(unread.len() == 1 && unread[0].1.contains("gzip"), "{unread:?}");
}

#[test]
fn what_was_not_touched_since_is_not_read() {
    let (_home, store) = disk_store();
    store.create(&Key::default(), None).unwrap();
    let count = |reach| {
        let mut count = 0;
        collect(&store, reach, |_| {}, |_, _| count += 1).unwrap();
        count
    };
    assert_eq!((count(Reach::All), count(Reach::TouchedSince(0)), count(Reach::TouchedSince(i64::MAX))), (1, 1, 0));
}
