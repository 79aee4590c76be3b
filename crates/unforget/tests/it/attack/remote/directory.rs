//! The directory.

use std::sync::Arc;

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::medium::Os;
use unforget_remote::{Remote, lease};

use super::*;

/// A directory with a session, and what an operator has to attack it with.
struct Folder {
    ground: Ground,
    /// The remote as it was before the last words.
    older: tempfile::TempDir,
    place: tempfile::TempDir,
    /// The same session with forged words, in plain.
    forged: tempfile::TempDir,
}

/// An attack, and who has to refuse it.
type Row = (&'static str, fn(&Folder, &Path), &'static [&'static str]);

impl std::ops::Deref for Folder {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

fn at(place: &Path) -> Site {
    Site::new(format!("file://{}", place.display()), Vec::new(), ())
}

impl Folder {
    fn new(is_sealed: bool) -> Self {
        let writer = Home::new();
        let [older, place, forged] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let key = is_sealed.then(|| writer.write("remote.key", "ab".repeat(32)));
        let id = writer.conversation(KEY, &["one"]);
        for word in ["two", "three"] {
            send(&writer, &at(place.path()), key.as_deref(), &id);
            copy(place.path(), older.path());
            say(&writer, &id, word);
        }
        send(&writer, &at(place.path()), key.as_deref(), &id);
        send(&forger(&writer, &id), &at(forged.path()), None, &id);
        let url = at(place.path()).url;
        Self { ground: Ground { writer, id, key, url }, older, place, forged }
    }

    /// A copy of the remote that an attack has changed.
    fn site(&self, attack: impl Fn(&Self, &Path)) -> Site {
        let remote = tempfile::tempdir().unwrap();
        copy(self.place.path(), remote.path());
        attack(self, remote.path());
        Site::new(at(remote.path()).url, Vec::new(), remote)
    }

    fn session(&self) -> String {
        format!("default/main/{}", self.id)
    }

    /// The segments of the session, the newest first.
    fn segments(&self, remote: &Path) -> Vec<PathBuf> {
        let folder = remote.join(self.session()).join("@");
        files(&folder).into_iter().map(|name| folder.join(name)).collect()
    }

    fn attacks(&self, rows: &[Row]) -> Vec<Attack<'_>> {
        let attack = |(name, attack, refuse): &Row| {
            let (name, attack, refuse) = (*name, *attack, *refuse);
            Attack { name, refuse, site: Box::new(move || self.site(attack)) }
        };
        rows.iter().map(attack).collect()
    }

    fn put_to(&self, suite: &str, rows: &[Row]) {
        self.ground.put_to(suite, || self.site(|_, _| ()), &self.attacks(rows));
    }

    fn put_to_server(&self, suite: &str, rows: &[Row]) {
        self.ground.put_to_server(suite, &self.attacks(rows));
    }
}

/// Puts a folder of one remote in the place of another's.
fn swap(from: &Path, to: &Path, folder: &str) {
    if to.join(folder).exists() {
        std::fs::remove_dir_all(to.join(folder)).unwrap();
    }
    std::fs::create_dir_all(to.join(folder)).unwrap();
    copy(&from.join(folder), &to.join(folder));
}

fn plainly(place: &Path) -> impl Remote + use<> {
    unforget_remote::file::Folder::new(Arc::new(Os::new(place))).remote()
}

fn plain_session(ground: &Folder, remote: &Path) {
    swap(ground.forged.path(), remote, &ground.session());
}

fn plain_everything(ground: &Folder, remote: &Path) {
    std::fs::remove_dir_all(remote.join("default")).unwrap();
    copy(ground.forged.path(), remote);
}

fn plain_pointer(ground: &Folder, remote: &Path) {
    swap(ground.forged.path(), remote, "default/main/%40key");
}

fn plain_tail(ground: &Folder, remote: &Path) {
    // The operator knows the words, and so the digest: the forged lines go on from the genuine ones.
    let (from, to) = (ground.segments(ground.forged.path()), ground.segments(remote));
    let newest = from.first().unwrap();
    std::fs::copy(newest, to[0].parent().unwrap().join(newest.file_name().unwrap())).unwrap();
}

fn plain_lease(ground: &Folder, remote: &Path) {
    let (remote, stream) = (plainly(remote), ground.stream());
    wait(lease::acquire(&remote, &stream, FORGED, 1, Duration::from_secs(1 << 40))).unwrap();
}

fn plain_mark(_: &Folder, remote: &Path) {
    let mark = Stream::new("default", "@unforget", "@sealed").unwrap();
    wait(plainly(remote).delete(&mark)).unwrap();
    let line = Bytes::from(format!("{{\"sealed\":\"{FORGED}\"}}"));
    wait(plainly(remote).append(&mark, &Frontier::default(), &[line])).unwrap();
}

fn cut_tail(ground: &Folder, remote: &Path) {
    std::fs::remove_file(&ground.segments(remote)[0]).unwrap();
}

fn gap(ground: &Folder, remote: &Path) {
    std::fs::remove_file(&ground.segments(remote)[1]).unwrap();
}

fn replay(ground: &Folder, remote: &Path) {
    swap(ground.older.path(), remote, &format!("{}/@", ground.session()));
}

fn another_position(ground: &Folder, remote: &Path) {
    let segments = ground.segments(remote);
    std::fs::copy(&segments[1], &segments[0]).unwrap();
}

fn another_session(ground: &Folder, remote: &Path) {
    let other = Home::new();
    let id = other.conversation(KEY, &[FORGED]);
    send(&other, &at(remote), ground.key.as_deref(), &id);
    std::fs::remove_dir_all(remote.join(ground.session())).unwrap();
    std::fs::create_dir_all(remote.join(ground.session())).unwrap();
    copy(&remote.join(format!("default/main/{id}")), &remote.join(ground.session()));
    // What is left is the session under another's name.
    std::fs::remove_dir_all(remote.join(format!("default/main/{id}"))).unwrap();
    swap(ground.place.path(), remote, "default/main/%40key");
}

fn changed_byte(ground: &Folder, remote: &Path) {
    let path = &ground.segments(remote)[0];
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Against a reader with the key.
const SEALED: [Row; 12] = [
    ("plain for sealed", plain_session, ALL),
    ("plain for everything", plain_everything, ALL),
    ("plain tail", plain_tail, READERS),
    ("forged pointer", plain_pointer, BY_KEY),
    ("forged lease", plain_lease, VERIFY),
    ("forged mark", plain_mark, VERIFY),
    ("cut tail", cut_tail, READERS),
    ("gap", gap, READERS),
    ("replay", replay, READERS),
    ("another position", another_position, ALL),
    ("another session", another_session, ALL),
    ("changed byte", changed_byte, READERS),
];

#[test]
fn s1_a_hostile_directory_with_a_key() {
    Folder::new(true).put_to("remote-directory-sealed", &SEALED);
}

#[test]
fn s1_a_hostile_directory_with_a_key_against_a_server() {
    Folder::new(true).put_to_server("server-directory-sealed", &SEALED);
}

/// Puts one segment in the place of all of a session's.
fn alone(ground: &Folder, remote: &Path, bytes: &[u8]) {
    for path in ground.segments(remote) {
        std::fs::remove_file(path).unwrap();
    }
    let first = remote.join(ground.session()).join("@").join(format!("{0:016x}{0:016x}", u64::MAX));
    std::fs::write(first, bytes).unwrap();
}

fn bomb_that_claims(ground: &Folder, remote: &Path) {
    alone(ground, remote, &segment(&ground.id, (1, 4 << 30), &frames(4096)));
}

fn bomb_that_hides(ground: &Folder, remote: &Path) {
    alone(ground, remote, &segment(&ground.id, (1, 20 << 20), &frames(4096)));
}

fn bomb_of_tiny_lines(ground: &Folder, remote: &Path) {
    // Every two zeros are an empty line.
    alone(ground, remote, &segment(&ground.id, (12 << 20, 12 << 20), &frames(24)));
}

fn object_of_gigabytes(ground: &Folder, remote: &Path) {
    let path = &ground.segments(remote)[0];
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(8 << 30).unwrap();
}

fn bad_names(ground: &Folder, remote: &Path) {
    let tenant = remote.join("default/main");
    for name in ["%2E%2E%2F%2E%2E%2Fevil", "%1B%5D0%3Bpwned%07", "..", "%00", "con", "-rf", &"a".repeat(200)] {
        let folder = if name == ".." { tenant.join("%2E%2E") } else { tenant.join(name) };
        std::fs::create_dir_all(folder.join("@")).unwrap();
        let object = segment(&format!("{ESCAPE}/../../{FORGED}"), (1, 10), b"no body");
        std::fs::write(folder.join("@").join(format!("{0:016x}{0:016x}", u64::MAX)), object).unwrap();
    }
    std::fs::write(tenant.join(format!("{ESCAPE}{}", ground.id)), FORGED).unwrap();
    std::fs::create_dir_all(tenant.join(ESCAPE).join("@")).unwrap();
}

/// As much as a segment may have, of what does not compress, and none of it what was written.
fn largest(ground: &Folder, remote: &Path) {
    // No witness tells before it was read.
    let sides: Vec<_> = std::fs::read_dir(remote.join(ground.session())).unwrap().flatten().collect();
    for side in sides.into_iter().filter(|side| side.file_name() != "@") {
        std::fs::remove_dir_all(side.path()).unwrap();
    }
    alone(ground, remote, &segment(&ground.id, (1, 29 << 20), &noise(29 << 20)));
}

/// Against a reader without a key.
const PLAIN: [Row; 10] = [
    ("bomb that claims", bomb_that_claims, ALL),
    ("bomb that hides", bomb_that_hides, READERS),
    ("bomb of tiny lines", bomb_of_tiny_lines, ALL),
    ("largest segment", largest, READERS),
    ("object of gigabytes", object_of_gigabytes, READERS),
    ("cut tail", cut_tail, READERS),
    ("gap", gap, READERS),
    ("replay", replay, READERS),
    ("changed byte", changed_byte, READERS),
    ("bad names", bad_names, NOBODY),
];

#[test]
fn s7_a_hostile_directory_without_a_key() {
    Folder::new(false).put_to("remote-directory-plain", &PLAIN);
}

#[test]
fn s7_a_hostile_directory_without_a_key_against_a_server() {
    Folder::new(false).put_to_server("server-directory-plain", &PLAIN);
}
