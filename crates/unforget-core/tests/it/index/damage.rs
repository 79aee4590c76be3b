//! The cases of class index with a database in place of a file of JSON, and every other way to break one.

use std::path::Path;

use unforget_core::directory::Entry;
use unforget_core::doctor::{self, Mode};
use unforget_core::listing::ListQuery;

use super::{Scene, names};

/// A way to break an index, and whether that makes it of no use.
pub(super) type Harm = (&'static str, fn(&Path), bool);

fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    let mut whole = std::fs::read(path).unwrap();
    let end = whole.len().min(at + bytes.len());
    whole[at.min(end)..end].copy_from_slice(&bytes[..end - at.min(end)]);
    std::fs::write(path, whole).unwrap();
}

pub(super) fn sql(path: &Path, text: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(text).unwrap();
}

pub(super) const HARMS: [Harm; 22] = [
    ("X01 0 bytes", |path| std::fs::write(path, b"").unwrap(), false),
    ("X02 cut in the middle", |path| cut(path, 2), true),
    ("cut to one page", |path| shorten(path, 4096), true),
    ("cut within the first page", |path| shorten(path, 1000), true),
    ("text in its place", |path| std::fs::write(path, "not a database\n".repeat(500)).unwrap(), true),
    ("NUL bytes", |path| std::fs::write(path, vec![0; 40960]).unwrap(), true),
    ("another magic", |path| overwrite(path, 0, b"SQLite format 9"), true),
    ("another page size", |path| overwrite(path, 16, &[0x20, 0x00]), true),
    ("a page of noise", |path| overwrite(path, 4096, &[0xa5; 4096]), true),
    ("pages of noise behind the first", |path| overwrite(path, 4096, &[0x5a; 65536]), true),
    ("an older version", |path| sql(path, "PRAGMA user_version = 0"), true),
    ("another program's", |path| sql(path, "PRAGMA application_id = 1; DROP TABLE folds"), true),
    ("a table less", |path| sql(path, "DROP TABLE sessions"), true),
    ("a column less", |path| sql(path, "ALTER TABLE sessions DROP COLUMN crc"), true),
    ("no marks", |path| sql(path, "DROP TABLE dirty"), true),
    ("rows that were edited", |path| sql(path, "UPDATE sessions SET row = replace(row, 'pples', 'les')"), true),
    ("columns that were edited", |path| sql(path, "UPDATE sessions SET key = 'main:cli:eve'"), true),
    ("rows of the wrong type", |path| sql(path, "UPDATE sessions SET row = x'00ff'"), true),
    ("rows that are gone", |path| sql(path, "DELETE FROM sessions; UPDATE dirs SET stamp = NULL"), false),
    ("folds that are gone", |path| sql(path, "DELETE FROM folds; UPDATE sessions SET modified_ns = 1"), false),
    ("folds that are nonsense", |path| sql(path, "UPDATE folds SET fold = '[]', tail = x'00', scanned = 5"), false),
    ("X03 a row without a file", |path| sql(path, PHANTOM), false),
];

/// A row whose file never was: what the index says of itself is not believed.
const PHANTOM: &str = "INSERT INTO dirty VALUES ('main', '01900000-0000-7000-8000-999999999999', 'token')";

fn shorten(path: &Path, len: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn cut(path: &Path, part: u64) {
    shorten(path, std::fs::metadata(path).unwrap().len() / part);
}

/// Everything in one file, as after a clean end.
pub(super) fn settle(scene: &Scene) {
    let path = scene.home.join("index.sqlite");
    sql(&path, "PRAGMA wal_checkpoint(TRUNCATE)");
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.row.id.as_str()).collect()
}

#[test]
fn whatever_happens_to_the_index_no_answer_changes() {
    for (what, harm, is_of_no_use) in HARMS {
        let scene = Scene::new();
        scene.fill();
        let before = scene.same();
        settle(&scene);
        harm(&scene.home.join("index.sqlite"));
        let notes = scene.notes();
        assert_eq!(!notes.unusable.is_empty(), is_of_no_use, "{what}: {notes:?}");
        assert_eq!(ids(&scene.same()), ids(&before), "{what}");
        assert_eq!(scene.same(), before, "{what}");
        let aside = names(&scene.home).into_iter().filter(|name| name.starts_with("index.sqlite.bad-")).count();
        assert_eq!(aside > 0, is_of_no_use, "{what}: it is kept");
        assert_eq!(scene.notes().unusable, [], "{what}: it is told once");
        assert_eq!(scene.reads(), 0, "{what}: the index works again");
    }
}

#[test]
fn h7_an_index_of_a_newer_version_is_left_alone() {
    let scene = Scene::new();
    scene.fill();
    let before = scene.same();
    settle(&scene);
    let path = scene.home.join("index.sqlite");
    sql(&path, "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)");
    let bytes = std::fs::read(&path).unwrap();
    for _ in 0..2 {
        let notes = scene.notes();
        assert_eq!(notes.unusable, []);
        let [(file, why)] = &notes.newer[..] else { panic!("{notes:?}") };
        assert!(file == Path::new("index.sqlite") && why.contains("version 99"), "{notes:?}");
        assert_eq!(scene.same(), before, "the files answer");
    }
    // Writers and the doctor leave it, too.
    let closed = scene.talk("main:cli:ann", "elderberries").close();
    assert!(closed.is_err_and(|why| why.to_string().contains("99")));
    assert_eq!(scene.same().len(), before.len() + 1);
    let told = doctor::examine(scene.catalog().directory(), scene.catalog().index(), Mode::Fix, |_| {}).unwrap();
    assert_eq!(told.open().count(), 0, "{told:?}");
    assert!(told.oddities().any(|finding| finding.problem.contains("version 99")), "{told:?}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(!names(&scene.home).iter().any(|name| name.contains(".bad-")), "{:?}", names(&scene.home));
}

/// How many bits are changed somewhere, one at a time.
const FLIPS: usize = 200;
/// The tables and indexes that a list is made of.
const OF_A_LIST: &str = "'sessions', 'by_updated', 'proofs', 'dirs'";

/// The places of the bytes of some pages that say something.
fn bytes_of_a_list(path: &Path, whole: &[u8]) -> Vec<usize> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let size: u32 = connection.query_row("PRAGMA page_size", (), |row| row.get(0)).unwrap();
    let size = size as usize;
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'";
    let rows: u32 = connection.query_row(sql, (), |row| row.get(0)).unwrap();
    let sql = format!("SELECT rootpage FROM sqlite_schema WHERE name IN ({OF_A_LIST})");
    let mut statement = connection.prepare(&sql).unwrap();
    let roots: Vec<u32> = statement.query_map((), |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(roots.len(), 4);
    let bytes = roots.into_iter().flat_map(|root| (root as usize - 1) * size..root as usize * size);
    let random = |at: usize| at.wrapping_mul(2_654_435_761) >> 16;
    // Rows have checksums of their own and many bytes: some of them are enough.
    let is_chosen = |at: &usize| whole[*at] != 0 && (at / size + 1 != rows as usize || random(*at).is_multiple_of(16));
    bytes.filter(is_chosen).collect()
}

#[test]
fn a_bit_changed_anywhere_in_the_index_changes_no_list() {
    let scene = Scene::new();
    scene.fill();
    // Directories that did not change: the index answers alone.
    for agent in ["main", "work"] {
        let folder = std::fs::File::open(scene.home.join("agents").join(agent).join("sessions")).unwrap();
        folder.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let before = scene.same();
    settle(&scene);
    let path = scene.home.join("index.sqlite");
    let whole = std::fs::read(&path).unwrap();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let anywhere: Vec<usize> = (0..FLIPS).map(|_| usize::try_from(next() % whole.len() as u64).unwrap()).collect();
    for at in bytes_of_a_list(&path, &whole).into_iter().chain(anywhere) {
        let mut changed = whole.clone();
        let bit = next() >> 60 & 7;
        changed[at] ^= 1 << bit;
        for name in ["index.sqlite-wal", "index.sqlite-shm"] {
            if scene.home.join(name).exists() {
                std::fs::remove_file(scene.home.join(name)).unwrap();
            }
        }
        std::fs::write(&path, &changed).unwrap();
        std::fs::write(scene.home.join("catalog.lock"), "clean\n").unwrap();
        let entries = scene.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap().0.value.entries;
        assert_eq!(ids(&entries), ids(&before), "bit {bit} of byte {at}");
        assert_eq!(entries, before, "bit {bit} of byte {at}");
    }
}

#[test]
fn an_index_that_someone_locked_is_done_without() {
    let scene = Scene::new();
    scene.fill();
    let before = scene.same();
    let other = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE dirs SET changed = 1").unwrap();
    let page = || scene.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap().0.value.entries;
    assert_eq!(page(), before);
    let mut session = scene.catalog().directory().open(&before[0]).unwrap();
    session.save_turn("nothing waits for it", "[]").unwrap();
    assert_eq!(page()[0].row.turns, 2);
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    drop(session);
    assert_eq!(scene.same()[0].row.turns, 2, "what could not be marked was found");
    assert_eq!(scene.reads(), 0);
}

#[test]
fn a_link_or_a_folder_in_its_place_is_not_followed() {
    let scene = Scene::new();
    scene.fill();
    let before = scene.same();
    settle(&scene);
    let path = scene.home.join("index.sqlite");
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        if scene.home.join(name).exists() {
            std::fs::remove_file(scene.home.join(name)).unwrap();
        }
    }
    let elsewhere = scene.home.join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(scene.same(), before);
    assert!(!elsewhere.exists());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(scene.same(), before);
}

#[test]
fn the_index_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    scene.fill();
    scene.same();
    let _open = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    for name in names(&scene.home).into_iter().filter(|name| name.starts_with("index.")) {
        let mode = std::fs::metadata(scene.home.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
