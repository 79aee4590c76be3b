//! Bundles: what goes in comes out, and what was changed on the way does not.

use std::path::Path;

use unforget_core::bundle::{Contents, pack};
use unforget_core::directory::Directory;
use unforget_core::import::{self, Candidate, Outcome};
use unforget_core::json;
use unforget_core::key::Key;
use unforget_core::medium::Os;
use unforget_core::record::{Body, Draft};
use unforget_core::scan::scan;

use crate::support::{disk_store, history};

const BLOCK: usize = 512;

/// A session with a payload, and its bundle.
fn packed() -> (tempfile::TempDir, Directory, Vec<u8>) {
    let (folder, store) = disk_store();
    let mut session = store.create(&"main:cli:ada".parse().unwrap(), Some("work")).unwrap();
    session.append(&[Draft::user("hello"), Draft::user(&"long ".repeat(100_000)), Draft::title("A title")]).unwrap();
    drop(session);
    let bundle = bundle_of(&store);
    (folder, store, bundle)
}

fn bundle_of(store: &Directory) -> Vec<u8> {
    let entry = store.list().unwrap().entries.remove(0);
    let reader = store.read(&entry).unwrap();
    let mut out = Vec::new();
    pack(&Contents::Stored(&reader), &mut |hash| store.blobs().get(hash), &mut out).unwrap();
    out
}

/// Imports bytes into a store, under a key or not.
fn take(store: &Directory, bytes: &[u8], under: Option<&str>) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.unforget"), bytes).unwrap();
    let under: Option<Key> = under.map(|key| key.parse().unwrap());
    let candidate = Candidate { path: "x.unforget".into(), under, ..Candidate::default() };
    import::import(store, &store.list().unwrap(), &Os::new(folder.path()), &candidate).unwrap()
}

fn transcript(store: &Directory, id: &str) -> Vec<u8> {
    let entry = store.list().unwrap().entries.into_iter().find(|entry| entry.row.id == id).unwrap();
    store.read(&entry).unwrap().read_all().unwrap()
}

#[test]
fn a_bundle_becomes_the_same_session_elsewhere_byte_for_byte() {
    let (_first, from, bundle) = packed();
    let (_second, to) = disk_store();
    let Outcome::Imported { id, key, records, damage, .. } = take(&to, &bundle, None) else { panic!() };
    assert_eq!((key.as_str(), records, damage.len()), ("main:cli:ada", 4, 0));
    assert_eq!(transcript(&to, id.as_str()), transcript(&from, id.as_str()));
    let entry = to.list().unwrap().entries.remove(0);
    let sent = to.history(&entry, &unforget_core::history::Limits::default()).unwrap().history.to_json();
    assert!(sent.contains("long long"), "the payload came along");
    assert_eq!(take(&to, &bundle, None), Outcome::Known { id: id.to_string() });
}

#[test]
fn a_newer_bundle_carries_the_session_on() {
    let (_first, from, bundle) = packed();
    let (_second, to) = disk_store();
    take(&to, &bundle, None);
    let entry = from.list().unwrap().entries.remove(0);
    from.open(&entry).unwrap().append(&[Draft::user("more")]).unwrap();
    let grown = take(&to, &bundle_of(&from), None);
    assert!(matches!(grown, Outcome::Updated { added: 1, .. }), "{grown:?}");
}

#[test]
fn under_another_key_it_is_a_session_of_its_own_that_says_where_it_comes_from() {
    let (_first, from, bundle) = packed();
    let old = from.list().unwrap().entries.remove(0).row.id;
    let (_second, to) = disk_store();
    take(&to, &bundle, None);
    // The ids of these tests count up in every store.
    to.source().new_id(0);
    let Outcome::Imported { id, key, .. } = take(&to, &bundle, Some("main:cli:bob")) else { panic!() };
    assert_eq!(key, "main:cli:bob");
    let bytes = transcript(&to, id.as_str());
    let scanned = scan(&bytes);
    assert_eq!((scanned.records.len(), scanned.report.damage_count()), (4, 0));
    let Body::Session(header) = &scanned.records[0].body else { panic!() };
    let origin = json::members(header.origin.unwrap()).unwrap();
    assert_eq!(json::member(&origin, "id").and_then(json::string).as_deref(), Some(old.as_str()));
    assert_eq!(json::member(&origin, "copied"), Some("4"));
    assert_eq!((header.key.as_deref(), header.label.as_deref()), (Some("main:cli:bob"), Some("work")));
    assert_eq!(history(&bytes).to_json(), history(&transcript(&from, &old)).to_json());
    assert_eq!(take(&to, &bundle, Some("main:cli:bob")), Outcome::Known { id: id.to_string() });
}

#[test]
fn every_changed_byte_is_noticed_and_nothing_is_adopted() {
    let (_first, _from, bundle) = packed();
    let manifest_blocks = 2 + manifest_len(&bundle) / BLOCK;
    // Every byte of heads and manifest, and some of the rest.
    let places = (0..manifest_blocks * BLOCK + BLOCK).step_by(7).chain((0..bundle.len()).step_by(9973));
    for at in places {
        let mut changed = bundle.clone();
        changed[at] ^= 0x20;
        let (folder, to) = disk_store();
        let folder_of_blobs = folder.path().join("home/blobs");
        match take(&to, &changed, None) {
            Outcome::Refused { .. } => {
                assert!(to.list().unwrap().entries.is_empty());
                assert!(!folder_of_blobs.exists(), "byte {at}: nothing is adopted before all is proved");
            }
            // What is only for people: the title, the time, blanks, and who the archive says owns a file.
            Outcome::Imported { id, .. } => {
                assert_eq!(scan(&transcript(&to, id.as_str())).report.damage_count(), 0, "byte {at}");
                assert!(at < manifest_blocks * BLOCK + BLOCK, "byte {at} is content");
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

fn manifest_len(bundle: &[u8]) -> usize {
    usize::from_str_radix(std::str::from_utf8(&bundle[124..135]).unwrap(), 8).unwrap()
}

#[test]
fn a_bundle_that_was_cut_is_refused_at_every_length() {
    let (_first, _from, bundle) = packed();
    for len in (0..bundle.len()).step_by(509).chain([bundle.len() - 1, bundle.len() - BLOCK]) {
        let (_second, to) = disk_store();
        let outcome = take(&to, &bundle[..len], None);
        assert!(matches!(outcome, Outcome::Refused { .. } | Outcome::Empty), "{len}: {outcome:?}");
    }
}

#[test]
fn names_that_lead_elsewhere_and_members_of_other_kinds_are_refused() {
    let (_first, _from, bundle) = packed();
    let second = BLOCK + manifest_len(&bundle).div_ceil(BLOCK) * BLOCK;
    for (name, kind, why) in [
        ("../../../etc/passwd", b'0', "it is not in the manifest"),
        ("/etc/passwd", b'0', "it is not in the manifest"),
        ("transcript.jsonl", b'2', "not a plain file"),
        ("manifest.json", b'0', "it is not in the manifest"),
    ] {
        let mut changed = bundle.clone();
        let head = &mut changed[second..second + BLOCK];
        head[..100].fill(0);
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[156] = kind;
        head[148..156].fill(b' ');
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let (_second, to) = disk_store();
        let Outcome::Refused { why: told } = take(&to, &changed, None) else { panic!("{name}") };
        assert!(told.contains(why), "{name}: {told}");
    }
}

#[test]
fn a_bundle_goes_with_the_original_of_an_import() {
    let (folder, store) = disk_store();
    std::fs::write(folder.path().join("s.jsonl"), include_str!("../fixtures/codex/bare.jsonl")).unwrap();
    let medium = Os::new(folder.path());
    let search = import::find(&medium, Some(Path::new("s.jsonl"))).unwrap();
    import::import(&store, &store.list().unwrap(), &medium, &search.candidates[0]).unwrap();
    let bundle = bundle_of(&store);
    let (_second, to) = disk_store();
    take(&to, &bundle, None);
    let origin = to.list().unwrap().entries.remove(0).row.origin.unwrap();
    assert_eq!(to.blobs().get(&origin).unwrap(), include_bytes!("../fixtures/codex/bare.jsonl"));
}
