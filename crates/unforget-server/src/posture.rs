//! How a server stands: what is safe about the way it was started, what is worth knowing, and what must not be.
//!
//! Everything that makes a server unsafe is in its surroundings (an address, a flag, the permissions of a folder), and each of them is harmless by
//! itself. Here they are looked at together, before the first connection. A [`Level::Danger`] means that the server does not start: a server that
//! is open to everybody works just as well as one that is not, and so nobody would notice. `unforget serve --check` prints all of it.
//!
//! Nothing here changes anything: what to do about it is said, and done by a person.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;
use unforget_core::medium::{FileKind, Medium, Stat};

use crate::door::Door;
use crate::identity::Identity;
use crate::identity::owner::{self, Owner, Trust};
use crate::limits::Limits;
use crate::peers;
use crate::serve::owner_socket::{self, SOCKET_FILE};

/// How many files of the home are looked at.
const MAX_FILES: usize = 100_000;
/// The folder that tools work in: what is in there has the permissions that they gave it.
const WORK: &str = "work";
/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;
/// Permission bit of everybody to write.
const WORLD_WRITES: u32 = 0o002;
/// Permission bits to pass through a folder.
const PASS: u32 = 0o011;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It is as it should be.
    Ok,
    /// It may be as it should be, and somebody should know.
    Note,
    /// The server does not start.
    Danger,
}

impl Level {
    /// The name, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Danger => "danger",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What is so.
    pub what: String,
    /// Why that matters; empty if it is as it should be.
    pub why: String,
    /// What to do about it; empty if nothing has to be done.
    pub fix: String,
}

/// What a server is about to be started with.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// How people are recognised.
    pub identity: &'a Identity,
    /// Which requests come in.
    pub door: &'a Door,
    /// How much of everything.
    pub limits: &'a Limits,
    /// The home.
    pub home: &'a dyn Medium,
    /// The remote, without its password.
    pub remote: Option<&'a str>,
    /// Where the other servers of the cluster reach this one, if it has the cluster's key.
    pub cluster: Option<&'a str>,
}

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posture {
    /// Everything that was found, in the order in which it was looked at.
    pub findings: Vec<Finding>,
}

impl Posture {
    /// Looks at everything.
    pub fn look(facts: &Facts<'_>) -> Self {
        let mut posture = Self { findings: Vec::new() };
        posture.look_at_address(facts);
        posture.look_at_identity(facts);
        posture.look_at_door(facts);
        posture.look_at_home(facts.home);
        posture.look_at_remote(facts);
        posture.look_at_cluster(facts);
        posture.look_at_limits(facts.limits);
        posture
    }

    /// Whether the server must not start.
    pub fn is_dangerous(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Danger)
    }

    /// For people: a line each, and what to do below it.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Finding { level, what, why, fix } in &self.findings {
            let mut line = |begin: &str, words: &str| {
                if !words.is_empty() {
                    text.push_str(&format!("{begin:<8}{words}\n"));
                }
            };
            line(&format!("{}:", level.name()), what);
            line("", why);
            line("  fix:", fix);
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> serde_json::Value {
        let finding = |Finding { level, what, why, fix }: &Finding| json!({ "level": level.name(), "what": what, "why": why, "fix": fix });
        json!({ "dangerous": self.is_dangerous(), "findings": self.findings.iter().map(finding).collect::<Vec<_>>() })
    }

    fn add(&mut self, level: Level, what: impl Into<String>, why: &str, fix: impl Into<String>) {
        self.findings.push(Finding { level, what: what.into(), why: why.to_owned(), fix: fix.into() });
    }

    fn ok(&mut self, what: impl Into<String>) {
        self.add(Level::Ok, what, "", "");
    }

    fn look_at_address(&mut self, facts: &Facts<'_>) {
        let (address, ip) = (facts.address, facts.address.ip());
        let listens = format!("listens at {address}");
        let trusts = facts.identity.ways().trust_runtime_headers;
        if ip.is_loopback() {
            return self.ok(format!("{listens}: every user of this machine reaches it, and no other machine does"));
        }
        if !facts.identity.is_shared() {
            return self.add(
                Level::Danger,
                format!("{listens} for its owner alone"),
                "the owner's token and all conversations would cross the network without TLS",
                "listen at 127.0.0.1, or give tokens out: `unforget token add ACTOR` and `--tokens`",
            );
        }
        if !trusts {
            return self.add(
                Level::Note,
                format!("{listens}, without TLS"),
                "tokens and conversations can be read on their way, unless something before it ends TLS",
                "put a reverse proxy with a certificate before it, and let only that one reach this port",
            );
        }
        self.add(
            Level::Note,
            format!("{listens} and trusts the runtime's headers"),
            "everybody who reaches this port can say to be any user; inside AgentCore Runtime only the runtime reaches it",
            "leave `--trust-runtime-headers` out everywhere else, and give tokens out or name an issuer",
        );
    }

    fn look_at_identity(&mut self, facts: &Facts<'_>) {
        let ways = facts.identity.ways();
        if let Some(owner) = &ways.owner {
            self.look_at_owner(facts.home, owner);
        } else if !facts.identity.is_shared() {
            self.add(Level::Danger, "there is no way to log in", "nobody could use the server", "");
        }
        if let Some(tokens) = &ways.tokens {
            let place = tokens.place().display().to_string();
            match tokens.stat() {
                Ok(Some(stat)) if stat.mode & OTHERS != 0 => self.add(
                    Level::Danger,
                    format!("the file with the tokens is open to others: {place} ({:04o})", stat.mode),
                    "whoever can write it can make themselves a token, and be anybody",
                    format!("chmod 600 {place}"),
                ),
                Ok(_) => match tokens.list() {
                    Ok(listed) if listed.is_empty() => self.add(
                        Level::Note,
                        format!("there is no token in {place}"),
                        "nobody can come in with one",
                        "`unforget token add ACTOR` makes one; the server need not be started again",
                    ),
                    Ok(listed) => self.ok(format!("takes {} tokens of its own, from {place}", listed.len())),
                    Err(error) => self.add(
                        Level::Danger,
                        format!("the tokens cannot be read: {error}"),
                        "nobody could come in with one",
                        "",
                    ),
                },
                Err(error) => self.add(
                    Level::Danger,
                    format!("the tokens cannot be looked at: {error}"),
                    "who may write them is not known",
                    "",
                ),
            }
        }
        if let Some(jwt) = &ways.jwt {
            let terms = jwt.terms();
            let (issuer, audiences, claim) = (&terms.issuer, terms.audiences.join(", "), &terms.claim);
            self.ok(format!(
                "takes tokens of {issuer} for {audiences}, whose `{claim}` is the actor; keys from {}",
                jwt.keys_from()
            ));
        }
        if ways.trust_runtime_headers {
            self.add(
                Level::Note,
                format!("believes {} in who somebody is", crate::identity::runtime::USER_ID),
                "whoever may invoke the runtime for a user may name any user, and so may whoever reaches this server otherwise",
                "only inside AgentCore Runtime; give InvokeAgentRuntimeForUser to nothing but the backend that knows its users",
            );
        }
    }

    /// How the owner of a server for oneself logs in, and whether only the owner can.
    fn look_at_owner(&mut self, home: &dyn Medium, owner: &Owner) {
        let place = owner.place().display().to_string();
        self.ok("is for its owner alone: a browser logs in by a link that works once (printed at the start; `unforget serve --link` prints another)");
        match owner::trust(home) {
            Ok(Trust::Sound | Trust::Missing) => {
                self.ok(format!("programs log in with the token in {place}, which only its owner can read"));
            }
            Ok(Trust::Exposed) => self.add(
                Level::Note,
                format!("others could open the owner's token: {place}"),
                "somebody may have read it; the server makes a new one when it starts, and every program and browser logs in again",
                "",
            ),
            Ok(Trust::Foreign(_) | Trust::Odd) => self.add(
                Level::Danger,
                format!("the owner's token is no file of this user: {place}"),
                "another user may know it",
                format!("rm {place}"),
            ),
            Err(error) => self.add(
                Level::Danger,
                format!("the owner's token cannot be looked at: {place}: {error}"),
                "who may read it is not known",
                "",
            ),
        }
        let socket = home.root().join(SOCKET_FILE);
        let shown = socket.display();
        match socket.as_os_str().len() <= owner_socket::MAX_PATH {
            true => self.ok(format!("programs of the owner need no token at the socket {shown}")),
            false => self.add(
                Level::Note,
                format!("there is no socket for the owner: {shown} is too long for one"),
                "programs use the token, and `unforget serve --link` does not reach the server",
                "use a home with a shorter path: `--home DIR`",
            ),
        }
    }

    fn look_at_door(&mut self, facts: &Facts<'_>) {
        match facts.door.hosts() {
            Some(hosts) => self.ok(format!("goes by {}", hosts.join(", "))),
            None if facts.identity.ways().trust_runtime_headers => self.add(
                Level::Note,
                "takes requests for any host (`--allow-host '*'`)",
                "where a browser reaches this port, a page could have its name lead here and say to be any user (DNS rebinding)",
                "only inside AgentCore Runtime; elsewhere say what it goes by: `--allow-host NAME`",
            ),
            None => self.add(
                Level::Danger,
                "takes requests for any host",
                "a page in somebody's browser could have its name lead here and read all answers (DNS rebinding)",
                "say what it goes by: `--allow-host NAME`",
            ),
        }
        self.ok(format!("may be used by pages from {}", facts.door.origins().join(", ")));
    }

    fn look_at_home(&mut self, home: &dyn Medium) {
        let place = home.root().display().to_string();
        let stat = match home.stat(Path::new("")) {
            Ok(stat) => stat,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.ok(format!("the home is not there yet, and will be for its owner only: {place}"));
            }
            Err(error) => {
                let what = format!("the home cannot be looked at: {place}: {error}");
                return self.add(Level::Danger, what, "who may read and write it is not known", "");
            }
        };
        let fix = format!("chmod -R go-rwx {place}");
        if stat.mode & WORLD_WRITES != 0 {
            return self.add(
                Level::Danger,
                format!("everybody on this machine may write into the home: {place} ({:04o})", stat.mode),
                "somebody else could put their own conversations in the place of yours",
                fix,
            );
        }
        let Open { first, count, is_writable, is_complete } = match look_through(home) {
            Ok(open) => open,
            Err(error) => {
                return self.add(Level::Note, format!("the home cannot be looked through: {error}"), "", "");
            }
        };
        let is_closed = stat.mode & PASS == 0;
        match first {
            Some((path, mode)) => {
                let shown = home.root().join(path).display().to_string();
                let what =
                    format!("{count} files and folders in the home are open to others, first {shown} ({mode:04o})");
                let (level, why) = match (is_closed, is_writable) {
                    (true, _) => (Level::Note, "the folder around them keeps others out, and nothing else does"),
                    (false, true) => (Level::Danger, "somebody else on this machine could change conversations"),
                    (false, false) => (Level::Note, "others on this machine may be able to read conversations"),
                };
                self.add(level, what, why, fix.clone());
            }
            None if stat.mode & OTHERS == 0 => self.ok(format!("only its owner gets into the home: {place}")),
            None => {}
        }
        if stat.mode & OTHERS != 0 {
            self.add(
                Level::Note,
                format!("others may look into the home: {place} ({:04o})", stat.mode),
                "they see which conversations there are",
                fix,
            );
        }
        if !is_complete {
            self.add(Level::Note, format!("only {MAX_FILES} files of the home were looked at"), "", "");
        }
    }

    fn look_at_remote(&mut self, facts: &Facts<'_>) {
        match facts.remote {
            Some(remote) => self.ok(format!("conversations are copied to {remote}")),
            None if facts.identity.ways().trust_runtime_headers => self.add(
                Level::Note,
                "there is no remote",
                "the disk of a runtime goes away with it, and every conversation on it",
                "`--remote URL`",
            ),
            None => self.ok("conversations are on this machine only: there is no remote"),
        }
    }

    /// Whether other servers forward requests to this one, and whether anybody reads them on their way.
    fn look_at_cluster(&mut self, facts: &Facts<'_>) {
        let Some(address) = facts.cluster else {
            if facts.remote.is_some() {
                self.ok("knows no other server: it refuses a session that another one serves (`--cluster-key FILE` forwards)");
            }
            return;
        };
        let reached = format!("other servers of the cluster reach it at {address}");
        match peers::is_private(address) {
            true => self.ok(reached),
            false => self.add(
                Level::Danger,
                format!("{reached}, without TLS"),
                "prompts and answers that servers forward could be read and changed on the network between them",
                "put a reverse proxy with a certificate before it and name that one: `--advertise https://NAME`",
            ),
        }
    }

    fn look_at_limits(&mut self, limits: &Limits) {
        let bounds: Vec<String> = limits.list().iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.ok(format!("has bounds (`--limit NAME=VALUE`; times in seconds): {}", bounds.join(" ")));
    }
}

/// What in a home is open to others.
#[derive(Default)]
struct Open {
    first: Option<(PathBuf, u32)>,
    count: usize,
    /// Whether everybody may write some of it.
    is_writable: bool,
    is_complete: bool,
}

fn look_through(home: &dyn Medium) -> std::io::Result<Open> {
    let mut open = Open { is_complete: true, ..Open::default() };
    let (mut folders, mut seen) = (vec![PathBuf::new()], 0);
    while let Some(folder) = folders.pop() {
        let mut inside = match home.list_stats(&folder) {
            Ok(inside) => inside,
            // Sessions come and go while a server starts.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        inside.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, stat) in inside {
            seen += 1;
            if seen > MAX_FILES {
                open.is_complete = false;
                return Ok(open);
            }
            let path = folder.join(&name);
            // The permissions of a link mean nothing, and it is never followed.
            if is_open(&stat) {
                open.count += 1;
                open.is_writable |= stat.mode & WORLD_WRITES != 0;
                open.first.get_or_insert_with(|| (path.clone(), stat.mode));
            }
            if stat.kind == FileKind::Directory && name != WORK {
                folders.push(path);
            }
        }
    }
    Ok(open)
}

fn is_open(stat: &Stat) -> bool {
    stat.kind != FileKind::Other && stat.mode & OTHERS != 0
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use unforget_core::medium::Os;
    use unforget_core::stamp::System;

    use super::*;
    use crate::identity::{Jwt, KeysFrom, Terms, Tokens, Ways};

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        mode(folder.path(), 0o700);
        folder
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn file(path: &Path, bits: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
        mode(path, bits);
    }

    fn trusting() -> Ways {
        Ways { trust_runtime_headers: true, ..Ways::default() }
    }

    fn tokens(folder: &Path) -> Ways {
        let tokens = Tokens::load(Arc::new(Os::new(folder)), "tokens.jsonl", Arc::new(System)).unwrap();
        Ways { tokens: Some(tokens), ..Ways::default() }
    }

    /// A server for oneself.
    fn own(home: &Path) -> Ways {
        let owner = Owner::unsaved(&Os::new(home), "http://127.0.0.1:7878").unwrap();
        Ways { owner: Some(owner), ..Ways::default() }
    }

    fn look(address: &str, ways: Ways, home: &Path) -> Posture {
        let limits = Limits::default();
        let (address, identity) = (address.parse().unwrap(), Identity::new(ways, &limits, Arc::new(System)));
        let door = Door::new(address);
        let home = Os::new(home);
        Posture::look(&Facts {
            address,
            identity: &identity,
            door: &door,
            limits: &limits,
            home: &home,
            remote: Some("file:///backup"),
            cluster: None,
        })
    }

    fn worst(posture: &Posture) -> Level {
        posture.findings.iter().map(|finding| finding.level).max().unwrap()
    }

    fn has(posture: &Posture, level: Level, words: &str) -> bool {
        posture.findings.iter().any(|finding| finding.level == level && finding.what.contains(words))
    }

    #[test]
    fn on_this_machine_and_in_a_private_home_everything_is_well() {
        let home = folder();
        file(&home.path().join("agents/main/a.jsonl"), 0o600);
        mode(&home.path().join("agents"), 0o700);
        mode(&home.path().join("agents/main"), 0o700);
        for address in ["127.0.0.1:7878", "[::1]:7878"] {
            let posture = look(address, own(home.path()), home.path());
            assert_eq!(worst(&posture), Level::Ok, "{}", posture.to_text());
            assert!(!posture.is_dangerous());
        }
        let nowhere = home.path().join("not/there");
        assert_eq!(worst(&look("127.0.0.1:1", own(&nowhere), &nowhere)), Level::Ok);
    }

    #[test]
    fn s4_it_is_said_how_the_owner_logs_in_and_who_else_could() {
        let home = folder();
        let posture = look("127.0.0.1:7878", own(home.path()), home.path());
        assert!(has(&posture, Level::Ok, "every user of this machine reaches it"), "{}", posture.to_text());
        assert!(has(&posture, Level::Ok, "by a link that works once"));
        assert!(has(&posture, Level::Ok, "server/owner.token, which only its owner can read"));
        assert!(has(&posture, Level::Ok, "need no token at the socket"));
        assert!(!home.path().join("server").exists(), "looking makes nothing");
        file(&home.path().join("server/owner.token"), 0o644);
        mode(&home.path().join("server"), 0o700);
        assert!(has(&look("127.0.0.1:1", own(home.path()), home.path()), Level::Note, "others could open"));
        std::fs::remove_file(home.path().join("server/owner.token")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.path().join("server/owner.token")).unwrap();
        assert!(has(&look("127.0.0.1:1", own(home.path()), home.path()), Level::Danger, "no file of this user"));
        let long = home.path().join("x".repeat(100));
        assert!(has(&look("127.0.0.1:1", own(&long), &long), Level::Note, "too long"));
        assert!(look("127.0.0.1:1", Ways::default(), home.path()).is_dangerous(), "somebody has to be let in");
    }

    #[test]
    fn beyond_this_machine_somebody_has_to_say_who_they_are() {
        let (home, config) = (folder(), folder());
        for address in ["0.0.0.0:80", "192.0.2.1:80", "[::]:80", "[2001:db8::1]:80"] {
            let posture = look(address, own(home.path()), home.path());
            assert!(posture.is_dangerous(), "{address}");
            assert!(has(&posture, Level::Danger, "for its owner alone"));
            assert!(!look(address, tokens(config.path()), home.path()).is_dangerous());
        }
        let jwt = Jwt::new(
            Terms {
                issuer: "https://id.example".to_owned(),
                audiences: vec!["us".to_owned()],
                claim: "sub".to_owned(),
            },
            KeysFrom::Discovery,
            Arc::new(System),
        );
        let posture = look("0.0.0.0:80", Ways { jwt: Some(jwt.unwrap()), ..Ways::default() }, home.path());
        assert!(!posture.is_dangerous());
        assert!(has(&posture, Level::Note, "without TLS"));
        assert!(has(&posture, Level::Ok, "takes tokens of https://id.example for us"));
    }

    #[test]
    fn trusting_a_runtime_is_told_and_more_so_where_there_is_none() {
        let home = folder();
        let usual = look("0.0.0.0:8080", trusting(), home.path());
        assert!(!usual.is_dangerous());
        assert!(has(&usual, Level::Note, "trusts the runtime's headers"), "0.0.0.0 is not as it should be by itself");
        assert!(has(&usual, Level::Ok, "goes by localhost:8080"), "the headers of a runtime change no host");
        assert!(has(&usual, Level::Note, "believes x-amzn-bedrock-agentcore-runtime-user-id"));
        let odd = look("192.0.2.1:8080", trusting(), home.path());
        assert!(!odd.is_dangerous());
        assert!(has(&odd, Level::Note, "trusts the runtime's headers"));
    }

    #[test]
    fn s8_any_host_is_refused_without_a_runtime_and_told_with_one() {
        let (home, limits) = (folder(), Limits::default());
        let address = "127.0.0.1:80".parse().unwrap();
        let door = Door::new(address).any_host();
        let medium = Os::new(home.path());
        let look = |ways| {
            let identity = Identity::new(ways, &limits, Arc::new(System));
            Posture::look(&Facts {
                address,
                identity: &identity,
                door: &door,
                limits: &limits,
                home: &medium,
                remote: None,
                cluster: None,
            })
        };
        assert!(has(&look(own(home.path())), Level::Danger, "any host"));
        let inside = look(trusting());
        assert!(!inside.is_dangerous() && has(&inside, Level::Note, "any host"));
    }

    #[test]
    fn tokens_that_others_can_read_or_write_are_refused() {
        let (home, config) = (folder(), folder());
        let ways = tokens(config.path());
        assert!(has(&look("127.0.0.1:1", tokens(config.path()), home.path()), Level::Note, "there is no token"));
        ways.tokens.as_ref().unwrap().add("ada", None, None).unwrap();
        assert!(has(&look("127.0.0.1:1", tokens(config.path()), home.path()), Level::Ok, "takes 1 tokens"));
        for bits in [0o640, 0o604, 0o620, 0o602] {
            mode(&config.path().join("tokens.jsonl"), bits);
            let posture = look("127.0.0.1:1", tokens(config.path()), home.path());
            assert!(posture.is_dangerous(), "{bits:o}");
            assert!(has(&posture, Level::Danger, "tokens.jsonl"));
        }
    }

    #[test]
    fn a_home_that_everybody_may_write_is_refused_and_one_to_look_into_is_told() {
        let home = folder();
        file(&home.path().join("a.jsonl"), 0o644);
        let around = |bits| {
            mode(home.path(), bits);
            let posture = look("127.0.0.1:1", own(home.path()), home.path());
            mode(home.path(), 0o700);
            (worst(&posture), posture)
        };
        assert_eq!(around(0o777).0, Level::Danger);
        assert_eq!(around(0o702).0, Level::Danger);
        let (level, posture) = around(0o755);
        assert_eq!(level, Level::Note);
        assert!(has(&posture, Level::Note, "others may look into the home"));
        let (level, posture) = around(0o700);
        assert_eq!(level, Level::Note);
        assert!(has(&posture, Level::Note, "1 files and folders in the home are open to others, first "));
        mode(&home.path().join("a.jsonl"), 0o666);
        assert_eq!(around(0o700).0, Level::Note);
        assert_eq!(around(0o711).0, Level::Danger);
        mode(&home.path().join("a.jsonl"), 0o600);
        assert_eq!(around(0o700).0, Level::Ok);
    }

    #[test]
    fn what_tools_made_in_their_folder_is_theirs() {
        let home = folder();
        file(&home.path().join("work/session/script.sh"), 0o755);
        mode(&home.path().join("work"), 0o700);
        assert_eq!(worst(&look("127.0.0.1:1", own(home.path()), home.path())), Level::Ok);
    }

    #[test]
    fn it_is_told_to_people_and_to_programs() {
        let finding = |level, what: &str, why: &str, fix: &str| Finding {
            level,
            what: what.to_owned(),
            why: why.to_owned(),
            fix: fix.to_owned(),
        };
        let posture = Posture {
            findings: vec![
                finding(Level::Ok, "all is well", "", ""),
                finding(Level::Danger, "it is open", "so", "close it"),
            ],
        };
        assert_eq!(posture.to_text(), "ok:     all is well\ndanger: it is open\n        so\n  fix:  close it\n");
        assert_eq!(
            posture.to_json(),
            json!({ "dangerous": true, "findings": [
                { "level": "ok", "what": "all is well", "why": "", "fix": "" },
                { "level": "danger", "what": "it is open", "why": "so", "fix": "close it" },
            ] })
        );
    }
}
