//! Faults of keys: texts that would be paths, collide, or name someone else's session.

use std::collections::BTreeSet;

use unforget_core::directory::{Directory, OnMissing};
use unforget_core::encode;
use unforget_core::key::Key;
use unforget_core::stamp::{Source as _, System};

use crate::support::{crash_store, disk_store};

/// Keys that file systems, backends and careless programs stumble over.
const ODD: [&str; 24] = [
    "../../escape",
    "..",
    ".",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "CON",
    "con",
    "con.jsonl",
    "nul",
    "COM1",
    "aux.",
    "a.",
    "a ",
    " ",
    "~",
    "%2e%2e",
    "日本語",
    "a\nb",
    "a:b",
    "-rf",
    "*",
    "\u{202e}evil",
    "a_b",
];

#[test]
fn k01_a_key_that_looks_like_a_path_stays_inside_the_store() {
    let (home, store) = disk_store();
    for agent in ["../../escape", "..", "../x", "/tmp/escape", "a/../../../b"] {
        save(&store, &Key::new(agent, agent, None, agent).unwrap());
    }
    let outside: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside, ["home"]);
    let agents = std::fs::read_dir(home.path().join("home/agents")).unwrap();
    assert_eq!(agents.count(), 5, "one folder an agent");
    assert_eq!(std::fs::read_dir(home.path().join("home")).unwrap().count(), 1);
}

#[test]
fn k01_a_path_that_leaves_the_store_is_refused_by_the_medium_itself() {
    use unforget_core::medium::{Access, Medium as _, Os};
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("home")).unwrap();
    std::fs::write(home.path().join("secret"), b"secret").unwrap();
    let medium = Os::new(home.path().join("home"));
    for path in ["../secret", "a/../../secret", home.path().join("secret").to_str().unwrap()] {
        assert!(medium.open(path.as_ref(), Access::Read).is_err(), "{path}");
        assert!(medium.create_dir(path.as_ref()).is_err(), "{path}");
        assert!(medium.remove(path.as_ref()).is_err(), "{path}");
    }
    assert_eq!(std::fs::read(home.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn k02_a_slash_in_a_key_is_data() {
    let (_home, store) = disk_store();
    let key: Key = "a/b:c/d:e/f".parse().unwrap();
    save(&store, &key);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!(entry.row.key.as_deref(), Some("a/b:c/d:e/f"));
    assert_eq!((entry.dir.as_str(), entry.dir.agent().as_deref()), ("a%2fb", Some("a/b")));
    store.load(&key, OnMissing::Fail).unwrap();
}

#[test]
fn k03_a_nul_in_a_key_is_refused_and_leaves_nothing_behind() {
    let (medium, store) = crash_store();
    for text in ["n\0ul", "main:cli:n\0ul", "n\0ul:cli:user", "main:cli:n%00ul"] {
        let error = text.parse::<Key>().unwrap_err();
        assert!(error.to_string().contains("NUL"), "{error}");
    }
    assert!(Key::new("main", "\0", None, "user").is_err());
    assert_eq!((medium.paths(), store.list().unwrap().entries), (Vec::new(), Vec::new()));
}

#[test]
fn k04_a_long_key_is_stored_under_a_short_file_name() {
    let (home, store) = disk_store();
    let long = "x".repeat(300);
    let key = Key::new(&long, &long, None, &long).unwrap();
    save(&store, &key);
    let entry = store.list().unwrap().entries.remove(0);
    assert_eq!(entry.row.key, Some(key.to_string()));
    assert_eq!(entry.dir.as_str().len(), 65, "a mark and a hash");
    store.load(&key, OnMissing::Fail).unwrap();
    assert!(home.path().join("home").join(store.path(&entry).unwrap()).exists());
}

#[test]
fn k04_a_key_beyond_the_limit_is_refused() {
    assert!(Key::new("main", "cli", None, &"x".repeat(2048)).is_err());
    assert!(Key::new("main", "cli", None, &"x".repeat(2000)).is_ok());
}

#[test]
fn k06_keys_that_differ_in_case_are_two_sessions_where_case_is_ignored_too() {
    let (_home, store) = disk_store();
    let (upper, lower): (Key, Key) = ("MAIN:cli:user".parse().unwrap(), "main:cli:user".parse().unwrap());
    save(&store, &upper);
    save(&store, &lower);
    let listing = store.list().unwrap();
    let folders: BTreeSet<String> = listing.entries.iter().map(|entry| entry.dir.as_str().to_lowercase()).collect();
    assert_eq!((listing.entries.len(), folders.len()), (2, 2));
    let ids = [upper, lower].map(|key| store.load(&key, OnMissing::Fail).unwrap().id().clone());
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn k06_file_names_are_lower_case_and_no_two_texts_share_one() {
    let long = "x".repeat(300);
    let texts: BTreeSet<String> = ODD
        .iter()
        .flat_map(|text| [(*text).to_owned(), text.to_uppercase(), text.to_lowercase(), format!("{text}{long}")])
        .collect();
    let names: BTreeSet<String> = texts.iter().map(|text| encode::file_name(text)).collect();
    assert_eq!(names.len(), texts.len());
    for name in names {
        let safe = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'%' | b'~'));
        assert!(safe && name.len() <= 100, "{name}");
    }
}

#[test]
fn k08_an_empty_key_is_refused() {
    for text in ["", "::", "main::user", ":cli:user", "main:cli:", "agent:main:cli:direct:"] {
        assert!(text.parse::<Key>().is_err(), "{text:?}");
    }
}

#[test]
fn k08_every_odd_key_gets_a_session_of_its_own_and_finds_it_again() {
    let (_home, store) = disk_store();
    for odd in ODD {
        save(&store, &Key::new(odd, "cli", None, odd).unwrap());
    }
    assert_eq!(store.list().unwrap().entries.len(), ODD.len());
    for odd in ODD {
        let key = Key::new(odd, "cli", None, odd).unwrap();
        let session = store.load(&key, OnMissing::Fail).unwrap();
        assert_eq!(session.key(), &key);
        assert_eq!(key.to_string().parse::<Key>().unwrap(), key, "its text leads back to it");
    }
}

#[test]
fn k08_names_that_windows_reserves_are_never_file_names() {
    for text in ["CON", "con", "nul", "aux", "prn", "com1", "lpt9", "COM1"] {
        let name = encode::file_name(text);
        assert!(name.starts_with(['~', '%']), "{text}: {name}");
    }
    for text in ["a.", "a ", ".", ".."] {
        assert!(!encode::file_name(text).ends_with(['.', ' ']), "{text:?}");
    }
}

#[test]
fn k09_names_that_begin_alike_do_not_collide() {
    let begin = "acme-corp-".repeat(30);
    let texts = ["acme-corp-prod", "acme-corp-staging", &format!("{begin}prod"), &format!("{begin}staging")];
    let names: BTreeSet<String> = texts.iter().map(|text| encode::file_name(text)).collect();
    assert_eq!(names.len(), texts.len());
    assert_eq!(encode::file_name("acme-corp-prod"), "acme-corp-prod", "what fits is spelled out");
    for max in [64, 100, 255] {
        let ids: BTreeSet<String> = texts.iter().map(|text| encode::identifier(text, max)).collect();
        assert_eq!(ids.len(), texts.len(), "{max}");
    }
}

#[test]
fn k11_every_key_has_an_identifier_that_a_backend_accepts() {
    for max in [64, 100, 255] {
        for text in texts() {
            let id = encode::identifier(&text, max);
            let begins = id.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
            let safe = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            assert!(begins && safe && id.len() <= max, "{text:?} is {id:?}");
        }
    }
}

#[test]
fn k11_no_two_keys_have_the_same_identifier_where_case_is_ignored_either() {
    let texts: BTreeSet<String> = texts().into_iter().collect();
    for max in [64, 100, 255] {
        let ids: BTreeSet<String> = texts.iter().map(|text| encode::identifier(text, max).to_lowercase()).collect();
        assert_eq!(ids.len(), texts.len(), "{max}");
    }
}

#[test]
fn k11_a_text_that_looks_like_anothers_identifier_is_told_apart_from_it() {
    for (text, alike) in [("a:b", "a_3ab"), ("a_b", "a_5fb"), ("A", "_41"), ("日", "_e6_97_a5")] {
        assert_ne!(encode::identifier(text, 100), encode::identifier(alike, 100), "{text} and {alike}");
        assert_ne!(encode::file_name(text), encode::file_name(&alike.replace('_', "%")), "{text} and {alike}");
    }
    let hashed = encode::identifier(&"x".repeat(300), 100);
    assert_ne!(encode::identifier(hashed.trim_start_matches("h-"), 100), hashed);
    assert_ne!(encode::identifier(&hashed, 100), hashed);
}

#[test]
fn k12_session_ids_are_random_uuids_and_never_repeat() {
    let mut seen = BTreeSet::new();
    let mut bits = [0_u32; 128];
    for _ in 0..10_000 {
        // All at the same time, so that only what is random tells them apart.
        let id = System.new_id(1_767_225_600_000);
        let hex: String = id.as_str().chars().filter(|character| *character != '-').collect();
        let number = u128::from_str_radix(&hex, 16).unwrap();
        assert_eq!((id.as_str().len(), hex.len(), &hex[12..13]), (36, 32, "7"), "{id}");
        assert!(matches!(&hex[16..17], "8" | "9" | "a" | "b"), "{id}");
        for (place, count) in bits.iter_mut().enumerate() {
            *count += u32::from(number >> place & 1 == 1);
        }
        assert!(seen.insert(id));
    }
    // A fair bit is set in half of ten thousand; eight standard deviations are 400.
    let random = bits.iter().filter(|count| (4600..=5400).contains(*count)).count();
    assert_eq!(random, 74);
}

fn save(store: &Directory, key: &Key) {
    store.load(key, OnMissing::Create).unwrap().save_turn("hello", "[]").unwrap();
}

fn texts() -> Vec<String> {
    let long = "long ".repeat(100);
    ODD.iter()
        .flat_map(|text| [format!("main:cli:{text}"), (*text).to_owned(), format!("{text}{long}"), text.to_uppercase()])
        .collect()
}
