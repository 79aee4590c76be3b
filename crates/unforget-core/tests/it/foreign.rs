//! Sessions of pi, OpenClaw and Codex: what they become, and that nothing that comes in can do harm.

use std::path::Path;

use proptest::prelude::*;
use unforget_core::directory::Directory;
use unforget_core::history::Limits;
use unforget_core::import::{self, Candidate, Format, Outcome};
use unforget_core::medium::Os;
use unforget_core::record::{Body, Record};
use unforget_core::scan::scan;
use unforget_core::usage::{Tokens, of_call};

use crate::support::{accepted, assert_accepted, disk_store, history};

const PI: &str = include_str!("../fixtures/pi-v3/branches.jsonl");
const PI_DAMAGED: &str = include_str!("../fixtures/pi-v3/damaged.jsonl");
const PI_FIRST: &str = include_str!("../fixtures/pi-v3/version-1.jsonl");
const CODEX: &str = include_str!("../fixtures/codex/rollout.jsonl");
const CODEX_BARE: &str = include_str!("../fixtures/codex/bare.jsonl");
const CODEX_DAMAGED: &str = include_str!("../fixtures/codex/damaged.jsonl");

/// A store, and a folder that files come from.
struct Scene {
    folder: tempfile::TempDir,
    store: Directory,
}

impl Scene {
    fn new() -> Self {
        let (folder, store) = disk_store();
        std::fs::create_dir(folder.path().join("from")).unwrap();
        Self { folder, store }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.path().join("from").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn medium(&self, below: &str) -> Os {
        Os::new(self.folder.path().join("from").join(below))
    }

    fn import(&self, bytes: &[u8]) -> unforget_core::Result<Outcome> {
        self.write("session.jsonl", bytes);
        let medium = self.medium("");
        let listing = self.store.list()?;
        let search = import::find(&medium, Some(Path::new("session.jsonl")))?;
        import::import(&self.store, &listing, &medium, &search.candidates[0])
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        let listing = self.store.list().unwrap();
        listing.entries.iter().map(|entry| self.store.read(entry).unwrap().read_all().unwrap()).collect()
    }
}

fn imported(outcome: Outcome) -> (String, String, Vec<String>, Vec<String>) {
    match outcome {
        Outcome::Imported { id, key, left_out, damage, .. } => (id.to_string(), key, left_out, damage),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_of_pi_keeps_its_branches_calls_compaction_title_label_and_tokens() {
    let scene = Scene::new();
    let (_, key, left_out, damage) = imported(scene.import(PI.as_bytes()).unwrap());
    assert_eq!((key.as_str(), damage.as_slice()), ("main:pi:clock", [].as_slice()));
    assert_eq!(
        left_out,
        [
            "1 × command that was kept out of the conversation",
            "1 × entry of type custom",
            "1 × entry of type model_change",
            "1 × entry of type thinking_level_change"
        ]
    );
    let bytes = scene.bytes().remove(0);
    let scanned = scan(&bytes);
    assert_eq!(scanned.report.damage_count(), 0);
    let kinds: Vec<&str> = scanned.records.iter().map(Record::kind).collect();
    assert_eq!(
        kinds.join(" "),
        "session user assistant assistant tool_use turn tool_result assistant turn label title user assistant turn head \
         user user assistant tool_use turn tool_result assistant error turn user user compaction user assistant turn"
    );
    assert!(
        scanned
            .records
            .iter()
            .any(|record| matches!(&record.body, Body::Label { to: Some(1), name } if name == "first question"))
    );
    assert!(scanned.records.iter().any(|record| matches!(record.body, Body::Compaction { first_kept: Some(17), .. })));
    let mut tokens = Tokens::default();
    scanned.records.iter().filter_map(of_call).for_each(|call| tokens += call);
    assert_eq!(tokens, Tokens { input: 60, output: 120, cache_write: 1800, cache_read: 7200, ..Tokens::default() });
    let history = history(&bytes);
    assert_accepted(&history, "pi");
    let sent = history.to_json();
    assert!(!sent.contains("utcnow()") && sent.contains("With datetime.now(UTC) then."), "{sent}");
    let row = &scene.store.list().unwrap().entries[0].row;
    assert_eq!((row.title.as_deref(), row.model.as_deref()), (Some("The clock"), Some("claude-sonnet-4-5")));
    assert!(scene.store.blobs().get(row.origin.as_deref().unwrap()).unwrap() == PI.as_bytes(), "the original is kept");
}

#[test]
fn a_rollout_of_codex_keeps_calls_images_a_rollback_and_counts_tokens_once() {
    let scene = Scene::new();
    let (_, key, left_out, _) = imported(scene.import(CODEX.as_bytes()).unwrap());
    assert_eq!(key, "main:codex:harbour");
    assert_eq!(
        left_out,
        [
            "1 × item of type ghost_snapshot",
            "1 × message of role developer",
            "2 × text that Codex puts before the user's words"
        ]
    );
    let bytes = scene.bytes().remove(0);
    let scanned = scan(&bytes);
    let kinds: Vec<&str> = scanned.records.iter().map(Record::kind).collect();
    assert_eq!(
        kinds.join(" "),
        "session user assistant tool_use turn tool_result assistant turn user tool_use tool_result turn head user \
         tool_use tool_result tool_use tool_result tool_use tool_result assistant compaction user assistant"
    );
    let mut tokens = Tokens::default();
    scanned.records.iter().filter_map(of_call).for_each(|call| tokens += call);
    assert_eq!(tokens, Tokens { input: 300, output: 60, cache_write: 0, cache_read: 1800, ..Tokens::default() });
    // Without the compaction, the whole conversation is sent, but not what was rolled back.
    let before: String =
        String::from_utf8(bytes.clone()).unwrap().lines().take(21).map(|line| format!("{line}\n")).collect();
    let history = history(before.as_bytes());
    assert_accepted(&history, "codex");
    let sent = history.to_json();
    assert!(sent.contains("Greet them instead.") && !sent.contains("Sink them."), "{sent}");
    assert!(sent.contains("\"command\":[\"echo\",\"ahoy\"]") && sent.contains("\"is_error\":true"), "{sent}");
    assert_eq!(sent.matches("\"media_type\":\"image/png\"").count(), 2, "{sent}");
}

#[test]
fn older_forms_are_read_too() {
    let scene = Scene::new();
    let (_, key, ..) = imported(scene.import(PI_FIRST.as_bytes()).unwrap());
    assert_eq!(key, "main:pi:old");
    assert_eq!(history(&scene.bytes()[0]).messages.len(), 2);
    let scene = Scene::new();
    imported(scene.import(CODEX_BARE.as_bytes()).unwrap());
    let sent = history(&scene.bytes()[0]).to_json();
    assert!(sent.contains("[\"expr\",\"2\",\"+\",\"2\"]") && sent.contains("Four."), "{sent}");
}

#[test]
fn damaged_lines_are_told_with_their_places_and_the_rest_is_taken() {
    for (text, places) in [(PI_DAMAGED, 3), (CODEX_DAMAGED, 1)] {
        let scene = Scene::new();
        let (_, _, left_out, damage) = imported(scene.import(text.as_bytes()).unwrap());
        assert_eq!(damage.len(), places, "{damage:?}");
        assert!(!left_out.is_empty());
        assert_accepted(&history(&scene.bytes()[0]), "damaged");
    }
}

#[test]
fn a_signature_of_another_provider_is_not_sent_as_one() {
    let scene = Scene::new();
    imported(scene.import(PI_DAMAGED.as_bytes()).unwrap());
    let bytes = scene.bytes().remove(0);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("\"thinking\":\"hm\"") && !text.contains("signature"), "{text}");
}

#[test]
fn the_same_file_is_known_and_one_that_has_grown_is_carried_on() {
    for text in [PI, CODEX, CODEX_DAMAGED] {
        let lines: Vec<&str> = text.lines().collect();
        for cut in [lines.len() / 2, lines.len() - 1] {
            let scene = Scene::new();
            let whole = |count: usize| lines[..count].join("\n") + "\n";
            let (id, ..) = imported(scene.import(whole(cut).as_bytes()).unwrap());
            assert_eq!(scene.import(whole(cut).as_bytes()).unwrap(), Outcome::Known { id: id.clone() });
            let grown = scene.import(text.as_bytes()).unwrap();
            assert!(matches!(&grown, Outcome::Updated { id: same, .. } if same.as_str() == id), "{grown:?}");
            assert_eq!(scene.import(text.as_bytes()).unwrap(), Outcome::Known { id: id.clone() });
            let sessions = scene.bytes();
            assert_eq!(sessions.len(), 1);
            assert_eq!(scan(&sessions[0]).report.damage_count(), 0);
            let other = Scene::new();
            imported(other.import(text.as_bytes()).unwrap());
            assert_eq!(history(&sessions[0]).to_json(), history(&other.bytes()[0]).to_json(), "as if imported at once");
            let hash = unforget_core::encode::sha256_hex(text.as_bytes());
            assert!(scene.store.blobs().get(&hash).is_ok(), "the new original is kept too");
        }
    }
}

#[test]
fn a_file_that_grew_twice_is_carried_on_twice() {
    let scene = Scene::new();
    let lines: Vec<&str> = PI.lines().collect();
    for count in [5, 12, lines.len()] {
        scene.import((lines[..count].join("\n") + "\n").as_bytes()).unwrap();
    }
    let sessions = scene.bytes();
    assert_eq!(sessions.len(), 1);
    let headers = scan(&sessions[0]).records.iter().filter(|record| matches!(record.body, Body::Session(_))).count();
    assert_eq!(headers, 3, "one for every original");
}

#[test]
fn a_session_that_went_on_here_is_left_alone_when_its_file_grows() {
    let scene = Scene::new();
    let half: String = PI.lines().take(8).map(|line| format!("{line}\n")).collect();
    let (id, ..) = imported(scene.import(half.as_bytes()).unwrap());
    let entry = scene.store.list().unwrap().entries.remove(0);
    scene.store.open(&entry).unwrap().save_turn("said here", "[]").unwrap();
    let (second, ..) = imported(scene.import(PI.as_bytes()).unwrap());
    assert_ne!(id, second);
    let first = scene.store.list().unwrap().entries.into_iter().find(|entry| entry.row.id == id).unwrap();
    let bytes = scene.store.read(&first).unwrap().read_all().unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("said here"));
}

#[test]
fn a_key_that_someone_gives_wins_and_makes_a_session_of_its_own() {
    let scene = Scene::new();
    imported(scene.import(PI.as_bytes()).unwrap());
    let medium = scene.medium("");
    let under = |key: &str| Candidate {
        path: "session.jsonl".into(),
        under: Some(key.parse().unwrap()),
        ..Candidate::default()
    };
    let import =
        |candidate: &Candidate| import::import(&scene.store, &scene.store.list().unwrap(), &medium, candidate).unwrap();
    let (id, key, ..) = imported(import(&under("main:cli:ada")));
    assert_eq!(key, "main:cli:ada");
    assert_eq!(import(&under("main:cli:ada")), Outcome::Known { id });
}

#[test]
fn folders_of_every_program_are_found_from_above_and_below() {
    let scene = Scene::new();
    scene.write(".pi/agent/sessions/--home-ada-clock--/2025-12-01_a.jsonl", PI.as_bytes());
    scene.write(".codex/sessions/2025/12/02/rollout-x.jsonl", CODEX.as_bytes());
    scene.write(".codex/history.jsonl", b"{\"text\":\"not a session\"}\n");
    scene.write(".openclaw/agents/work/sessions/0aa1.jsonl", PI_FIRST.as_bytes());
    scene.write(".openclaw/agents/work/sessions/0aa1.checkpoint.7.jsonl", PI_FIRST.as_bytes());
    scene.write(
        ".openclaw/agents/work/sessions/sessions.json",
        br#"{"agent:work:telegram:direct:42":{"sessionId":"0aa1","updatedAt":1}}"#,
    );
    let found = |below: &str| {
        let search = import::find(&scene.medium(below), None).unwrap();
        search.candidates.into_iter().map(|found| (found.format, found.guessed_key)).collect::<Vec<_>>()
    };
    let openclaw = (Some(Format::OpenClaw), Some("agent:work:telegram:direct:42".to_owned()));
    let (pi, codex) = ((Some(Format::Pi), None), (Some(Format::Codex), None));
    assert_eq!(found(""), [codex.clone(), openclaw.clone(), pi.clone()]);
    for below in [".pi", ".pi/agent", ".pi/agent/sessions", ".pi/agent/sessions/--home-ada-clock--"] {
        assert_eq!(found(below), std::slice::from_ref(&pi), "{below}");
    }
    for below in [".codex", ".codex/sessions", ".codex/sessions/2025", ".codex/sessions/2025/12/02"] {
        assert_eq!(found(below), std::slice::from_ref(&codex), "{below}");
    }
    for below in [".openclaw", ".openclaw/agents/work", ".openclaw/agents/work/sessions"] {
        assert_eq!(found(below), std::slice::from_ref(&openclaw), "{below}");
    }
    let single = import::find(&scene.medium(".openclaw/agents/work/sessions"), Some(Path::new("0aa1.jsonl"))).unwrap();
    assert_eq!(single.candidates[0].guessed_key.as_deref(), Some("agent:work:telegram:direct:42"));
}

/// Lines of the fixtures in any order, cut anywhere, with any bytes between.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&str> =
        [PI, PI_DAMAGED, PI_FIRST, CODEX, CODEX_BARE, CODEX_DAMAGED].iter().flat_map(|text| text.lines()).collect();
    let line = prop_oneof![
        8 => proptest::sample::select(lines.clone()).prop_map(|line| line.as_bytes().to_vec()),
        1 => (proptest::sample::select(lines), any::<proptest::sample::Index>(), any::<u8>()).prop_map(|(line, at, byte)| {
            let mut bytes = line.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let first = prop_oneof![Just(PI.lines().next().unwrap()), Just(CODEX.lines().next().unwrap())];
    (first, proptest::collection::vec(line, 0..40)).prop_map(|(first, lines)| {
        let mut bytes = first.as_bytes().to_vec();
        for line in lines {
            bytes.push(b'\n');
            bytes.extend(line);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_bytes_become_a_valid_session_or_a_refusal(bytes in anything()) {
        let scene = Scene::new();
        if let Ok(Outcome::Imported { .. }) = scene.import(&bytes) {
            let stored = scene.bytes().remove(0);
            let scanned = scan(&stored);
            prop_assert_eq!(scanned.report.damage_count(), 0);
            let history = history(&stored);
            prop_assert!(accepted(&history).is_ok(), "{:?}", accepted(&history));
            // Read from the end, as a resumed session is, it says the same.
            let entry = scene.store.list().unwrap().entries.remove(0);
            let restored = scene.store.history(&entry, &Limits::default()).unwrap();
            prop_assert_eq!(restored.history.to_json(), history.to_json());
            let again = scene.import(&bytes).unwrap();
            prop_assert!(matches!(again, Outcome::Known { .. }), "{:?}", again);
        }
    }
}
