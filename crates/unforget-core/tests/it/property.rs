//! Facts that hold for every input.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;
use unforget_core::directory::{Directory, OnMissing};
use unforget_core::encode;
use unforget_core::frontier::Frontier;
use unforget_core::history::{Limits, rebuild_all};
use unforget_core::json;
use unforget_core::key::{Key, PeerKind};
use unforget_core::lines;
use unforget_core::reader::LogReader;
use unforget_core::recent::{End, Recent};
use unforget_core::record::{Draft, Record};
use unforget_core::scan::{Scanner, scan};
use unforget_core::session::Session;
use unforget_core::summary::Fold;
use unforget_testkit::crash::CrashMedium;
use unforget_testkit::generate::{self, Dice};

use crate::support::{accepted, assert_accepted, crash_store, history};

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_records_give_a_history_that_the_api_accepts(seed: u64, lines in 1_usize..40) {
        let bytes = generate::soup(seed, lines);
        assert_accepted(&history(&bytes), &format!("seed {seed}, {lines} lines"));
    }

    #[test]
    fn any_bytes_give_a_history_that_the_api_accepts(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        assert_accepted(&history(&bytes), "random bytes");
    }

    #[test]
    fn any_token_budget_gives_a_history_that_the_api_accepts(seed: u64, lines in 1_usize..60, budget in 0_u64..400) {
        let bytes = generate::soup(seed, lines);
        let reader = reader(&bytes);
        let recent = Recent::read(&reader, &Limits::tokens(budget)).unwrap();
        let (records, _) = recent.scan();
        let history = unforget_core::history::rebuild(&recent.path(&records), &Limits::tokens(budget));
        assert_accepted(&history, &format!("seed {seed}, {lines} lines, budget {budget}"));
    }

    #[test]
    fn every_byte_is_in_a_record_or_in_the_report(seed: u64, lines in 1_usize..30) {
        let bytes = generate::soup(seed, lines);
        let scanned = scan(&bytes);
        let mut covered = vec![false; bytes.len()];
        let mut cover = |from: u64, len: usize| {
            let from = usize::try_from(from).unwrap();
            covered[from..from + len].fill(true);
        };
        for record in &scanned.records {
            cover(record.offset, record.raw.len());
        }
        for note in &scanned.report.notes {
            cover(note.offset, usize::try_from(note.len).unwrap());
        }
        let missed = |at: &usize| !covered[*at] && !matches!(bytes[*at], b'\n' | b'\r' | b' ' | b'\t' | 0x0b | 0x0c);
        prop_assert_eq!((0..bytes.len()).find(missed), None, "seed {} lines {}", seed, lines);
    }

    #[test]
    fn reading_forward_backward_and_from_memory_gives_the_same_lines(seed: u64, lines in 0_usize..30) {
        let bytes = generate::soup(seed, lines);
        let reader = reader(&bytes);
        let whole: Vec<(u64, Vec<u8>, bool)> =
            lines::split(&bytes, 0).map(|line| (line.offset, line.bytes.to_vec(), line.terminated)).collect();
        let mut forward = Vec::new();
        let mut lines = reader.forward(0);
        while let Some(line) = lines.next().unwrap() {
            forward.push((line.offset, line.bytes.to_vec(), line.terminated));
        }
        let mut backward = Vec::new();
        let mut lines = reader.backward();
        while let Some(line) = lines.next().unwrap() {
            backward.push((line.offset, line.bytes.to_vec(), line.terminated));
        }
        backward.reverse();
        prop_assert_eq!(&forward, &whole);
        prop_assert_eq!(&backward, &whole);
    }

    #[test]
    fn a_fold_that_is_carried_on_equals_one_over_everything(seed: u64, lines in 1_usize..40, cut in 0_usize..40) {
        let bytes = generate::soup(seed, lines);
        let row = |parts: &[&[u8]]| {
            let mut scanner = Scanner::default();
            let mut fold = Fold::default();
            let mut frontier = Frontier::default();
            let mut base = 0;
            for part in parts {
                for line in lines::split(part, base) {
                    frontier = if line.terminated { frontier.after(line.bytes) } else { frontier };
                    scanner.feed(&line, |record| fold.feed(&record));
                }
                base += part.len() as u64;
            }
            (fold.finish("id", 0, 0, scanner.report.damage_count()), frontier, scanner.next_number())
        };
        let ends: Vec<usize> = memchr_all(&bytes);
        let at = ends.get(cut).map_or(0, |end| end + 1);
        prop_assert_eq!(row(&[&bytes]), row(&[&bytes[..at], &bytes[at..]]));
    }

    #[test]
    fn different_keys_have_different_texts_and_names(parts in proptest::collection::vec("[a-zA-Z:%/._~ \\u{e9}\\u{4e2d}-]{1,8}", 6)) {
        let kinds = [None, Some(PeerKind::Direct), Some(PeerKind::Thread)];
        let a = Key::new(&parts[0], &parts[1], kinds[parts[0].len() % 3], &parts[2]).unwrap();
        let b = Key::new(&parts[3], &parts[4], kinds[parts[3].len() % 3], &parts[5]).unwrap();
        prop_assert_eq!(a.to_string().parse::<Key>().unwrap(), a.clone());
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
        prop_assert_eq!(a == b, encode::identifier(&a.to_string(), 100) == encode::identifier(&b.to_string(), 100));
        let (name_a, name_b) = (encode::file_name(a.agent()), encode::file_name(b.agent()));
        prop_assert_eq!(a.agent() == b.agent(), name_a.to_lowercase() == name_b.to_lowercase());
        prop_assert_eq!(encode::decode_file_name(&name_a), Some(a.agent().to_owned()));
        prop_assert!(name_a.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"%_-~".contains(&byte)));
    }
}

fn memchr_all(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect()
}

fn reader(bytes: &[u8]) -> LogReader {
    let medium = CrashMedium::new();
    medium.write_file(Path::new("x.jsonl"), bytes).unwrap();
    // Bytes that begin like a compressed file are refused, which is another test's business.
    LogReader::open(&medium, Path::new("x.jsonl")).unwrap()
}

/// A transcript cut at every byte: all complete lines are there, the history is valid, and a writer goes on.
#[test]
fn a_transcript_cut_at_every_byte_recovers_every_complete_line() {
    let bytes = generate::transcript(7, "01900000-0000-7000-8000-000000000000", 12_000);
    let complete: Vec<usize> = memchr_all(&bytes);
    for cut in 0..=bytes.len() {
        let part = &bytes[..cut];
        let lines = complete.iter().filter(|end| **end < cut).count();
        let scanned = scan(part);
        // A line that lacks only its line feed counts as well.
        let whole_tail = usize::from(complete.contains(&cut));
        assert_eq!(scanned.records.len(), lines + whole_tail, "cut at {cut}");
        let torn = cut > 0 && bytes[cut - 1] != b'\n' && whole_tail == 0;
        assert_eq!(scanned.report.damage_count(), u64::from(torn), "cut at {cut}: {:?}", scanned.report);
        assert!(accepted(&rebuild_all(&scanned.records, &Limits::default())).is_ok(), "cut at {cut}");
        let end = End::of(&reader(part)).unwrap();
        assert_eq!(end.next, (lines + whole_tail) as u64, "cut at {cut}");
    }
}

/// Any single byte changed: the checksum notices, or the line is reported as damaged.
#[test]
fn a_changed_byte_never_goes_unnoticed() {
    let bytes = generate::transcript(9, "01900000-0000-7000-8000-000000000000", 6_000);
    assert_eq!(scan(&bytes).report.damage_count(), 0);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x01;
        // A line feed that became a blank glues two lines together, and both are still read whole.
        let harmless = bytes[at] == b'\n' && scan(&changed).records.len() == scan(&bytes).records.len();
        assert!(harmless || scan(&changed).report.damage_count() > 0, "byte {at} ({:?})", char::from(bytes[at]));
    }
}

/// One random step of an agent's life.
fn live(dice: &mut Dice, session: &mut Session, turn: usize) {
    match dice.below(6) {
        0 => {
            session.append(&[Draft::user(&generate::prose(dice, 5))]).unwrap();
        }
        1 => {
            let text = format!("[{{\"type\":\"text\",\"text\":{}}}]", json::quote(&generate::prose(dice, 5)));
            session.append(&[Draft::assistant(Some(&format!("m{turn}")), &text)]).unwrap();
        }
        2 => {
            let id = format!("toolu_{turn}");
            session.append(&[Draft::tool_use(Some(&format!("m{turn}")), &id, "t", "{}")]).unwrap();
            if dice.one_in(2) {
                session.append(&[Draft::tool_result(&id, "\"ok\"")]).unwrap();
            }
        }
        _ => {
            for draft in generate::turn(dice, turn) {
                session.append(&[draft]).unwrap();
            }
        }
    }
}

/// P5: over random sessions with restarts, what was sent is a byte prefix of what is sent next.
#[test]
fn request_n_is_a_prefix_of_request_n_plus_1_across_restarts() {
    for seed in 0..60 {
        let (_, store) = crash_store();
        let mut dice = Dice::new(seed);
        let mut session = store.create(&Key::default(), None).unwrap();
        session.append(&[Draft::new("context").text("system", "be kind").raw("tools", "[]")]).unwrap();
        let mut sent = String::new();
        for turn in 0..25 {
            live(&mut dice, &mut session, turn);
            if dice.one_in(3) {
                drop(session);
                session = store.load(&Key::default(), OnMissing::Fail).unwrap();
            }
            // Before a request, calls without results are settled, as an agent does when it resumes.
            session.settle(&Limits::default()).unwrap();
            session.append(&[Draft::user(&format!("go on {turn}"))]).unwrap();
            let restored = session.history(&Limits::default()).unwrap();
            assert_accepted(&restored.history, &format!("seed {seed}"));
            let request = restored.history.to_request("claude-opus-5", 1024);
            let open = sent.trim_end_matches([']', '}']);
            assert!(request.starts_with(open), "seed {seed}, turn {turn}:\n{sent}\n{request}");
            sent = request;
        }
    }
}

/// A budgeted read from the end gives the same messages as a read of everything, wherever both reach.
#[test]
fn what_a_budget_keeps_is_what_a_full_read_says() {
    for seed in 0..40 {
        let (_, store) = crash_store();
        let mut dice = Dice::new(seed);
        let mut session = store.create(&Key::default(), None).unwrap();
        let mut users = Vec::new();
        for turn in 0..20 {
            let range = session.append(&generate::turn(&mut dice, turn)).unwrap();
            users.push(range.start);
            match dice.below(5) {
                0 => {
                    let to = *users.get(dice.below(users.len())).unwrap();
                    session.append(&[Draft::head(Some(to.saturating_sub(1)), "rewind")]).unwrap();
                }
                1 => {
                    let kept = users.last().copied();
                    session.append(&[Draft::compaction(&format!("summary {turn}"), kept)]).unwrap();
                }
                _ => {}
            }
        }
        let full = session.history(&Limits::default()).unwrap().history;
        let unlimited = session.history(&Limits::tokens(u64::MAX / 4)).unwrap().history;
        assert_eq!(full.messages, unlimited.messages, "seed {seed}");
        for budget in [50, 500, 5_000] {
            let some = session.history(&Limits::tokens(budget)).unwrap().history;
            assert_accepted(&some, &format!("seed {seed}, budget {budget}"));
            let (kept, last) = (some.messages.get(1..).unwrap_or_default(), full.messages.len());
            assert_eq!(some.messages.is_empty(), full.messages.is_empty(), "seed {seed}, budget {budget}");
            assert_eq!(kept, &full.messages[last - kept.len()..], "seed {seed}, budget {budget}");
        }
    }
}

/// The record layer writes what it reads: every draft comes back with the same members.
#[test]
fn drafts_come_back_as_they_went_in() {
    let store: Directory = crash_store().1;
    let mut session = store.create(&Key::default(), None).unwrap();
    let mut dice = Dice::new(3);
    let mut written: HashMap<u64, Draft> = HashMap::new();
    for turn in 0..30 {
        for draft in generate::turn(&mut dice, turn) {
            written.insert(session.append(std::slice::from_ref(&draft)).unwrap().start, draft);
        }
    }
    let bytes = store.read(&store.list().unwrap().entries[0]).unwrap().read_all().unwrap();
    for record in scan(&bytes).records.iter().filter(|record: &&Record<'_>| record.n > 0) {
        let draft = &written[&record.n];
        let members = json::members(record.raw).unwrap();
        assert_eq!(record.kind(), draft.kind());
        for (name, value) in draft.members() {
            assert_eq!(json::member(&members, name), Some(value.as_str()));
        }
    }
}
