//! Who is writing a session now.
//!
//! Every running Claude Code keeps a file `sessions/<pid>.json` in its directory: its process, the session, when it began. It is removed
//! at a normal end and stays behind after a kill, and nobody tidies it up, so that the file alone says nothing: the process has to be
//! asked for. That is the caller's part, because only the caller may look at processes; what is needed for it is in [`Writer`].
//!
//! A process number alone is not enough either. Numbers are used again, so that the file also has the time when the process began
//! ([`Writer::process_start`], as Linux tells it in field 22 of `/proc/<pid>/stat`), and the file may be of another machine or container
//! that shares the directory ([`Writer::process_domain`]), where the number means somebody else.
//!
//! Beside each file lies one with a secret of the process, `<pid>.<digest>.key`. It is never opened here.

use std::path::{Path, PathBuf};

use unforget_core::json;
use unforget_core::medium::FileKind;

use crate::error::{Error, IoContext as _, Result, if_there};
use crate::id::SessionId;
use crate::place::ConfigDir;

/// The directory that holds one file per process.
const PROCESSES: &str = "sessions";
/// How many files of processes are looked at.
const MAX_PROCESSES: usize = 10_000;
/// The longest file of a process; real ones have less than one kilobyte.
const MAX_LEN: u64 = 256 * 1024;

/// A process that said that it has a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Its number.
    pub pid: u32,
    /// The session that it has.
    pub session: SessionId,
    /// When the process began, in the system's own words.
    pub process_start: Option<String>,
    /// Where its number counts, such as `linux:<machine>:pid:[<namespace>]`; older versions do not say.
    pub process_domain: Option<String>,
    /// The version of Claude Code.
    pub version: Option<String>,
    /// The directory it works in.
    pub cwd: Option<String>,
    /// When it took the session, in milliseconds since the epoch.
    pub started_ms: Option<u64>,
    /// What it says that it is doing, such as `busy` or `idle`.
    pub status: Option<String>,
}

/// Who has a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    /// Processes that have it and are alive, by number.
    pub writers: Vec<Writer>,
    /// Files that could not be understood: whose they are is not known. One that is just being written is whole a moment later.
    pub unreadable: Vec<PathBuf>,
}

/// Who has a session, of those that `is_alive` says are running.
pub fn live(config: &ConfigDir, id: &SessionId, is_alive: &dyn Fn(&Writer) -> bool) -> Result<Live> {
    let within = Path::new(PROCESSES);
    let entries = if_there(config.medium().list(within)).context("list", within)?.unwrap_or_default();
    if entries.len() > MAX_PROCESSES {
        return Err(Error::TooMany { what: "files of processes", path: within.to_path_buf(), limit: MAX_PROCESSES });
    }
    let (mut live, mut bytes) = (Live::default(), Vec::new());
    for (name, kind) in entries {
        let is_process = name.strip_suffix(".json").is_some_and(|stem| stem.parse::<u32>().is_ok());
        if !is_process {
            continue;
        }
        let path = within.join(name);
        // It may have ended since the names were read.
        let read = match kind {
            FileKind::File => {
                if_there(config.medium().read_whole(&path, MAX_LEN, &mut bytes)).context("read", &path)?
            }
            FileKind::Directory | FileKind::Other => Some(false),
        };
        match read {
            None => {}
            Some(true) => match parse(&bytes) {
                Some(writer) if writer.session == *id && is_alive(&writer) => live.writers.push(writer),
                Some(_) => {}
                None => live.unreadable.push(path),
            },
            Some(false) => live.unreadable.push(path),
        }
    }
    live.writers.sort_by_key(|writer| writer.pid);
    live.unreadable.sort();
    Ok(live)
}

/// What a process says of itself; `None` if that cannot be understood.
pub fn parse(bytes: &[u8]) -> Option<Writer> {
    let members = json::members(std::str::from_utf8(bytes).ok()?.trim_ascii())?;
    let text = |name| Some(json::string(json::member(&members, name)?)?.into_owned());
    let number = |name| json::number(json::member(&members, name)?);
    Some(Writer {
        pid: u32::try_from(number("pid")?).ok()?,
        session: SessionId::parse(&text("sessionId")?)?,
        process_start: text("procStart"),
        process_domain: text("pidDomain"),
        version: text("version"),
        cwd: text("cwd"),
        started_ms: number("startedAt"),
        status: text("status"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unforget_core::medium::{Medium as _, Os, create_durable};

    use super::*;

    const ID: &str = "11111111-1111-4111-8111-111111111111";
    const OTHER: &str = "22222222-2222-4222-8222-222222222222";

    /// As 2.1.325 writes it.
    fn said(pid: u32, id: &str) -> String {
        format!(
            r#"{{"pid":{pid},"sessionId":"{id}","cwd":"/home/ada/app","startedAt":1794836608291,"procStart":"6036513","version":"2.1.325","peerProtocol":1,"peerFeatures":["notify_idle"],"kind":"interactive","entrypoint":"sdk-cli","pidDomain":"linux:3d12:pid:[4026531836]","messagingSocketPath":"/tmp/cc-socks/{pid}.sock","name":"app-4f","status":"busy","updatedAt":1794836608259}}"#
        )
    }

    fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, ConfigDir) {
        let root = tempfile::tempdir().unwrap();
        let medium = Os::new(root.path());
        medium.create_dir(Path::new(PROCESSES)).unwrap();
        for (name, text) in files {
            create_durable(&medium, &Path::new(PROCESSES).join(name), text.as_bytes()).unwrap();
        }
        (root, ConfigDir::new(Arc::new(medium)))
    }

    #[test]
    fn the_living_that_have_the_session_are_told() {
        let (_root, config) = place(&[
            ("7.json", &said(7, ID)),
            ("8.json", &said(8, ID)),
            ("9.json", &said(9, OTHER)),
            ("7.d20e97.key", "{\"peerToken\":\"secret\"}"),
        ]);
        let id = SessionId::parse(ID).unwrap();
        let live = live(&config, &id, &|writer| writer.pid != 8).unwrap();
        let writer = Writer {
            pid: 7,
            session: id,
            process_start: Some("6036513".to_owned()),
            process_domain: Some("linux:3d12:pid:[4026531836]".to_owned()),
            version: Some("2.1.325".to_owned()),
            cwd: Some("/home/ada/app".to_owned()),
            started_ms: Some(1_794_836_608_291),
            status: Some("busy".to_owned()),
        };
        assert_eq!(live, Live { writers: vec![writer], unreadable: Vec::new() });
    }

    #[test]
    fn what_an_older_version_does_not_say_is_not_made_up() {
        let text = format!(r#"{{"pid":3,"sessionId":"{ID}","procStart":"6040258","version":"2.1.197"}}"#);
        let writer = parse(text.as_bytes()).unwrap();
        assert_eq!((writer.process_domain, writer.status, writer.started_ms), (None, None, None));
        assert_eq!(writer.process_start.as_deref(), Some("6040258"));
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_told() {
        let (_root, config) = place(&[("7.json", "{\"pid\":7,\"sess"), ("8.json", ""), ("9.json", "{\"pid\":9}")]);
        let live = live(&config, &SessionId::parse(ID).unwrap(), &|_| true).unwrap();
        let unreadable: Vec<String> = live.unreadable.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            (live.writers, unreadable.join(" ").as_str()),
            (Vec::new(), "sessions/7.json sessions/8.json sessions/9.json")
        );
    }

    #[test]
    fn without_files_of_processes_nobody_has_it() {
        let root = tempfile::tempdir().unwrap();
        let config = ConfigDir::new(Arc::new(Os::new(root.path())));
        assert_eq!(live(&config, &SessionId::parse(ID).unwrap(), &|_| true).unwrap(), Live::default());
    }
}
