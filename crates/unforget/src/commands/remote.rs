//! `remote`, and what it shares with `push`, `pull` and `sync`: how a remote is named, opened and spoken of.
//!
//! The library knows no environment: what the usual variables say is handed to it here. An address may hold a password, so it is only
//! ever shown without one.

use std::io::Write as _;
use std::path::Path;

use secrecy::ExposeSecret as _;
use unforget_core::directory::Entry;
use unforget_core::encode;
use unforget_core::key::Key as SessionKey;
use unforget_core::layout::AgentDir;
use unforget_core::medium::{Medium as _, Os, Stat, create_durable, read_small};
use unforget_core::stamp::{SessionId, SharedSource};
use unforget_core::summary::{Row, State};
use unforget_remote::guarded::{Guarded, is_encrypted};
use unforget_remote::sync::{self, Bookmarks, Native, Outbox};
use unforget_remote::uplink::{Lead, Uplink};
use unforget_remote::{Address, Key, Observed, Remote, Sealing, Stream};

use crate::cli::{self, RemoteCommand};
use crate::commands::Context;
use crate::config::{self, Config, file, flags::Flags};
use crate::failure::{Failure, Outcome, Result};
use crate::home::split_path;

pub(crate) mod carry;
mod look;
mod migrate;
mod mounted;

/// A key is shorter than this.
const MAX_KEY_FILE: u64 = 4096;

/// What AWS's own tools write beside an agent.
#[cfg(feature = "agentcore")]
const AGENTCORE_FILE: &str = ".bedrock_agentcore.yaml";
#[cfg(feature = "agentcore")]
const MAX_AWS_FILE: u64 = 1 << 20;

/// A remote that is open, and what is known of it here.
pub(crate) struct Place {
    pub(crate) address: Address,
    /// It gets no line before it is known that nothing goes in plain where others encrypt.
    pub(crate) remote: Guarded,
    pub(crate) tenant: String,
    /// What encrypts and decrypts lines.
    pub(crate) key: Option<Key>,
    pub(crate) bookmarks: Bookmarks,
    pub(crate) outbox: Outbox,
    clock: SharedSource,
}

pub(crate) fn run(context: &Context, args: &cli::Remote) -> Result<Outcome> {
    match &args.command {
        RemoteCommand::Ls(there) => look::list(context, there),
        RemoteCommand::Stat(streams) => look::stat(context, streams),
        RemoteCommand::Rm(streams) => look::remove(context, streams),
        RemoteCommand::Verify(there) => look::verify(context, there),
        RemoteCommand::Copy(copy) => look::copy(context, copy),
        RemoteCommand::Migrate(migrate) => migrate::run(context, migrate),
    }
}

/// Runs what waits for a network.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

impl Place {
    /// Opens the remote that is named, or set.
    pub(crate) fn open(context: &Context, there: &cli::There) -> Result<Self> {
        Self::find(context, there, &config::load(&Flags::default())?)?.ok_or_else(|| {
            Failure::usage("no remote is named")
                .hint("`--remote URL`, UNFORGET_REMOTE, or once and for all `unforget config set remote URL`")
                .hint("an URL is file:///directory, postgres://user@host/database, s3://bucket/prefix or agentcore://memory-id")
        })
    }

    /// The same; none if no remote is named or set.
    pub(crate) fn find(context: &Context, there: &cli::There, config: &Config) -> Result<Option<Self>> {
        let url = there.url.clone().or_else(|| config.remote.as_ref().map(|url| url.expose_secret().to_owned()));
        let Some(url) = url else { return Ok(None) };
        let address = Address::parse(&url)?;
        let tenant = there.tenant.clone().unwrap_or_else(|| config.tenant.clone());
        let key_file = match (there.key_file.clone().or_else(|| config.remote_key.clone()), there.encrypt) {
            (None, true) => {
                Some(file::place(|name| std::env::var(name).ok())?.with_file_name(crate::secrets::REMOTE_KEY))
            }
            (path, _) => path,
        };
        let key = match key_file {
            Some(path) => {
                if there.encrypt
                    && !path.exists()
                    && wait(async { Ok(is_encrypted(open(&address, None)?.as_ref(), &tenant).await?) })?
                {
                    return Err(Failure::new(format!("{address} is sealed with a key that is not here")).hint(format!(
                        "copy the key file of the machine that began it (`remote.key` beside its configuration) to {}",
                        path.display()
                    )));
                }
                Some(key(&path, there.encrypt)?)
            }
            None => None,
        };
        let remote = Guarded::new(Observed::new(open(&address, key.clone())?), &tenant, key.is_some());
        let medium = context.store.medium().clone();
        let name = known_as(&address, &tenant);
        Ok(Some(Self {
            bookmarks: Bookmarks::new(medium.clone(), &name),
            outbox: Outbox::new(medium, &name),
            clock: context.store.source().clone(),
            tenant,
            key,
            remote,
            address,
        }))
    }

    /// What the remote is called in a home.
    pub(crate) fn known_as(&self) -> String {
        known_as(&self.address, &self.tenant)
    }

    /// What sends and fetches sessions.
    pub(crate) fn uplink(&self) -> Uplink<'_> {
        Uplink {
            remote: &self.remote,
            tenant: &self.tenant,
            bookmarks: &self.bookmarks,
            outbox: &self.outbox,
            clock: self.clock.as_ref(),
        }
    }

    /// What a session of an agent is called there.
    pub(crate) fn stream(&self, dir: &AgentDir, id: &SessionId) -> unforget_remote::Result<Stream> {
        let agent = dir.agent().unwrap_or_else(|| dir.as_str().to_owned());
        Stream::new(&self.tenant, &agent, id.as_str())
    }

    /// A session as it is here, and what it is called there.
    pub(crate) fn of_entry(&self, context: &Context, entry: &Entry) -> Result<(Native, Stream)> {
        if entry.row.state == State::Mismatch {
            return Err(Failure::new(format!("`{}` says that it is another session", entry.row.id))
                .hint("`unforget doctor` tells what is wrong with it; it is not sent"));
        }
        let id = SessionId::parse(&entry.row.id).ok_or_else(|| Failure::new(format!("`{}` is no id", entry.row.id)))?;
        Ok((Native::new(&context.store, &entry.dir, &id), self.stream(&entry.dir, &id)?))
    }

    /// The session that a name means: one that is here, or an id or a key that the remote knows.
    pub(crate) async fn named(&self, context: &Context, name: &str) -> Result<(Native, Stream)> {
        let found = match context.resolve(name) {
            Ok(entry) => return self.of_entry(context, &entry),
            Err(failure) => failure,
        };
        if let Some(id) = SessionId::parse(name) {
            for stream in self.sessions().await? {
                if stream.session() == id.as_str() {
                    let dir = AgentDir::of(stream.place());
                    return Ok((Native::new(&context.store, &dir, &id), stream));
                }
            }
            return Err(found);
        }
        let Ok(key) = name.parse::<SessionKey>() else { return Err(found) };
        match sync::find_by_key(&self.remote, &self.tenant, &key).await? {
            Some(pointer) => {
                let dir = AgentDir::of(key.agent());
                let stream = self.stream(&dir, &pointer.session)?;
                Ok((Native::new(&context.store, &dir, &pointer.session), stream))
            }
            None => Err(found),
        }
    }

    /// The main streams of all sessions that are there.
    pub(crate) async fn sessions(&self) -> Result<Vec<Stream>> {
        Ok(self
            .streams()
            .await?
            .into_iter()
            .filter(|stream| sync::is_session(stream) && stream.side().is_empty())
            .collect())
    }

    /// All streams that are there.
    pub(crate) async fn streams(&self) -> Result<Vec<Stream>> {
        let prefix = unforget_remote::Prefix::tenant(&self.tenant)?;
        Ok(unforget_remote::every_stream(&self.remote, &prefix).await?)
    }
}

/// Where the key of a session leads, by its row.
pub(crate) fn lead_of(row: &Row) -> Lead {
    let key = row.key.as_deref().and_then(|key| key.parse::<SessionKey>().ok());
    match (key, row.created_ms) {
        (Some(key), Some(created_ms)) => Lead::Created { key, created_ms },
        _ => Lead::Nowhere,
    }
}

/// What a remote is called in a home: what one tenant has there, another has not.
fn known_as(address: &Address, tenant: &str) -> String {
    format!("{}-{}", address.name(), &encode::sha256_hex(tenant.as_bytes())[..8])
}

/// Opens a remote.
pub(crate) fn open(address: &Address, key: Option<Key>) -> Result<Box<dyn Remote>> {
    open_sealing(address, key.into())
}

fn open_sealing(address: &Address, sealing: Sealing) -> Result<Box<dyn Remote>> {
    match address {
        Address::Memory => Err(Failure::usage("`memory:` is gone when the program ends; it is for tests")),
        Address::Directory(path) => {
            // One that is not mounted must not be taken for an empty one, nor made on the wrong disk.
            Ok(Box::new(mounted::Mounted::new(path, sealing)))
        }
        Address::Postgres(url) => postgres(url, sealing),
        Address::Bucket { bucket, prefix } => s3(bucket, prefix, sealing),
        Address::AgentCore { memory } => agentcore(memory.as_deref(), sealing),
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: &str, sealing: Sealing) -> Result<Box<dyn Remote>> {
    use unforget_remote::postgres::{Limits, Postgres};
    Ok(Box::new(Postgres::open(url, Limits::default())?.remote().sealing(sealing)))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: Sealing) -> Result<Box<dyn Remote>> {
    Err(absent("postgres"))
}

#[cfg(feature = "s3")]
fn s3(bucket: &str, prefix: &str, sealing: Sealing) -> Result<Box<dyn Remote>> {
    use unforget_remote::s3::{Bucket, Settings};
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].iter().find_map(|name| std::env::var(name).ok());
    let settings = Settings {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint,
        options: std::env::vars().filter(|(name, _)| name.starts_with("AWS_")).collect(),
        ..Settings::default()
    };
    Ok(Box::new(Bucket::open(&settings)?.remote().sealing(sealing)))
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str, _: &str, _: Sealing) -> Result<Box<dyn Remote>> {
    Err(absent("s3"))
}

#[cfg(feature = "agentcore")]
fn agentcore(memory: Option<&str>, sealing: Sealing) -> Result<Box<dyn Remote>> {
    use unforget_remote::agentcore::{AgentCore, Settings, Texts};
    let environment: std::collections::HashMap<String, String> = std::env::vars().collect();
    let home = environment.get("HOME").map(std::path::PathBuf::from);
    let text = |path: &Path| {
        let (folder, name) = split_path(path);
        read_small(&Os::new(folder), &name, MAX_AWS_FILE).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    };
    let deployment = text(Path::new(AGENTCORE_FILE));
    let config = environment.get("AWS_CONFIG_FILE").map(std::path::PathBuf::from);
    let config = config.or_else(|| home.as_ref().map(|home| home.join(".aws/config"))).and_then(|path| text(&path));
    let texts = Texts { deployment: deployment.as_deref(), config: config.as_deref() };
    let settings = Settings::find(memory, environment, home, texts)?;
    Ok(Box::new(AgentCore::new(&settings)?.remote().sealing(sealing)))
}

#[cfg(not(feature = "agentcore"))]
fn agentcore(_: Option<&str>, _: Sealing) -> Result<Box<dyn Remote>> {
    Err(absent("agentcore"))
}

#[cfg(not(all(feature = "postgres", feature = "s3", feature = "agentcore")))]
fn absent(feature: &str) -> Failure {
    Failure::usage(format!("this program was built without `{feature}`"))
        .hint(format!("`cargo build --release --features {feature}` builds one that has it"))
}

/// The key in a file; one is made if there is none and it is wanted.
fn key(path: &Path, is_wanted: bool) -> Result<Key> {
    let (folder, name) = split_path(path);
    let medium = Os::new(folder);
    if let Some(reason) = medium.stat(&name).ok().and_then(|stat| distrusted(&stat)) {
        return Err(Failure::new(format!("the key in `{}` {reason}", path.display()))
            .hint("who can write a key can read what it seals, and forge it; use a key that is yours alone"));
    }
    let there = match read_small(&medium, &name, MAX_KEY_FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_wanted => make_key(&medium, &name, path)?,
        Err(error) => {
            return Err(Failure::new(format!("cannot read the key in `{}`: {error}", path.display()))
                .hint("`--encrypt` makes one if there is none"));
        }
    };
    let text = String::from_utf8(there).unwrap_or_default();
    Key::parse(&text).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
}

/// Why a key is none to seal with: another user of this machine chose it, or could have.
fn distrusted(stat: &Stat) -> Option<&'static str> {
    /// Write permission for others than the owner.
    const OTHERS: u32 = 0o022;
    let is_own = stat.uid == rustix::process::geteuid().as_raw() || stat.uid == 0;
    match (is_own, stat.mode & OTHERS) {
        (false, _) => Some("belongs to another user"),
        (true, 0) => None,
        (true, _) => Some("can be written by other users"),
    }
}

fn make_key(medium: &Os, name: &Path, path: &Path) -> Result<Vec<u8>> {
    let text = format!("{}\n", Key::generate()?);
    medium.create_dir(Path::new(""))?;
    create_durable(medium, name, text.as_bytes())?;
    let mut err = anstream::stderr().lock();
    let path = path.display();
    writeln!(err, "made a key in {path}: without it nobody reads what is copied, so keep a copy of it elsewhere")?;
    Ok(text.into_bytes())
}
