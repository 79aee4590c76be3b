//! Addresses: which remote, by a URL.
//!
//! A URL may hold a password, so an address never shows one: not in messages, not in logs, not in
//! `Debug`.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use unforget_core::encode;
use url::Url;

use crate::error::{Error, Result};

/// What an address may look like.
const FORMS: &str =
    "file:///directory, postgres://user@host/database, s3://bucket/prefix, agentcore://memory-id or memory:";

/// Where a remote is.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// In this process, and gone with it.
    Memory,
    /// In a directory.
    Directory(PathBuf),
    /// In a database; the whole URL, with the password if it has one.
    Postgres(String),
    /// In a bucket.
    Bucket {
        /// The bucket.
        bucket: String,
        /// What the names of all objects begin with; may be empty.
        prefix: String,
    },
    /// In AWS AgentCore Memory.
    AgentCore {
        /// The memory's id; without one, the usual places are asked.
        memory: Option<String>,
    },
}

impl Address {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let scheme = text.split(':').next().unwrap_or_default().to_ascii_lowercase();
        // Never the text itself in a message: it may hold a password.
        let wrong = |reason: &str| Error::Invalid(format!("this address of a remote {reason}; one looks like {FORMS}"));
        if scheme == "memory" {
            return Ok(Self::Memory);
        }
        let (plain, _) = one_host(text);
        let url = Url::parse(&plain).map_err(|error| wrong(&format!("cannot be read ({error})")))?;
        let host = url.host_str().unwrap_or_default();
        match scheme.as_str() {
            "file" => match url.to_file_path() {
                Ok(path) if host.is_empty() || host == "localhost" => Ok(Self::Directory(path)),
                _ => Err(wrong("names no directory")),
            },
            "postgres" | "postgresql" => Ok(Self::Postgres(text.to_owned())),
            "s3" if !host.is_empty() => {
                // Buckets of old may have capital letters, which a host's name loses.
                let rest = text.split_once("://").map_or("", |(_, rest)| rest);
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.trim_matches('/').to_owned() })
            }
            "s3" => Err(wrong("names no bucket")),
            "agentcore" => {
                // A memory's id has capital letters, too.
                let memory = text.split_once("://").map_or("", |(_, rest)| rest).trim_matches('/');
                Ok(Self::AgentCore { memory: (!memory.is_empty()).then(|| memory.to_owned()) })
            }
            _ => Err(wrong("is of no kind that is known here")),
        }
    }

    /// The address without its secrets.
    pub fn shown(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Directory(path) => format!("file://{}", path.display()),
            Self::Postgres(text) => {
                let (plain, hosts) = one_host(text);
                let shown = Url::parse(&plain).map_or_else(|_| "postgres://".to_owned(), shown);
                hosts.map_or(shown.clone(), |hosts| with_hosts(&shown, hosts))
            }
            Self::Bucket { bucket, prefix } if prefix.is_empty() => format!("s3://{bucket}"),
            Self::Bucket { bucket, prefix } => format!("s3://{bucket}/{prefix}"),
            Self::AgentCore { memory } => format!("agentcore://{}", memory.as_deref().unwrap_or_default()),
        }
    }

    /// A short name for what is remembered of this remote: the same for the same place, whatever
    /// the password.
    pub fn name(&self) -> String {
        let kind = self.shown().split(':').next().unwrap_or_default().to_owned();
        let digest = encode::hex(&Sha256::digest(self.shown().as_bytes()));
        format!("{kind}-{}", &digest[..16])
    }
}

/// An address of PostgreSQL may name several hosts with a port each, which no other URL does: the
/// URL with the first one alone, and the list of all.
fn one_host(text: &str) -> (String, Option<&str>) {
    let single = (text.to_owned(), None);
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| scheme.starts_with("postgres")) else {
        return single;
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    // A password with characters that should have been escaped is no list of hosts.
    let is_host = |host: &str| {
        let port = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map(|(_, port)| port);
        !host.is_empty() && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match hosts.split_once(',') {
        Some((first, _)) if hosts.split(',').all(is_host) && !path.contains('@') => {
            (format!("{scheme}://{user}{first}{path}"), Some(hosts))
        }
        _ => single,
    }
}

/// A shown address with all of its hosts in the place of the first one.
fn with_hosts(shown: &str, hosts: &str) -> String {
    let Some((scheme, rest)) = shown.split_once("://") else { return shown.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let user = authority.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
    format!("{scheme}://{user}{hosts}{path}")
}

fn shown(mut url: Url) -> String {
    if url.password().is_some() && url.set_password(None).is_err() {
        return format!("{}://", url.scheme());
    }
    // Options may hold a password as well.
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != "password")
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    url.to_string()
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("memory:", "memory:"),
            ("file:///tmp/a%20b", "file:///tmp/a b"),
            ("s3://Bucket", "s3://Bucket"),
            ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
            ("agentcore://Memory_1-AbCdEf1234", "agentcore://Memory_1-AbCdEf1234"),
            ("agentcore://", "agentcore://"),
            ("postgres://me@host:5433/db?sslmode=require", "postgres://me@host:5433/db?sslmode=require"),
            // F7: several servers of one database.
            ("postgres://me:pw@a:5501,b:5502/db", "postgres://me@a:5501,b:5502/db"),
            ("postgres://a,[2001:db8::1]:5502/db?password=pw", "postgres://a,[2001:db8::1]:5502/db"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), shown);
        }
        for wrong in ["", "x", "ftp://host", "file://elsewhere/dir", "s3://", "/tmp/x", "C:\\x"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in [
            "postgres://me:s3cret@host/db",
            "postgresql://me@host/db?password=s3cret&sslmode=require",
            "postgres://me:s3cret@a:1,b:2/db",
            "postgres://me:1,s3cret@host/db",
        ] {
            let address = Address::parse(text).unwrap();
            assert!(!format!("{address} {address:?} {}", address.name()).contains("s3cret"));
            assert!(matches!(address, Address::Postgres(kept) if kept == text));
        }
        for text in
            ["postgrex://me:s3cret@host/db", "postgres://me:1,s3cret/x@host/db", "postgres://me:s3cret,1/x@a,b/db"]
        {
            let told = match Address::parse(text) {
                Ok(address) => address.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(!told.contains("s3cret"), "{told}");
        }
    }

    #[test]
    fn another_password_is_the_same_place() {
        let name = |text| Address::parse(text).unwrap().name();
        assert_eq!(name("postgres://me:a@host/db"), name("postgres://me:b@host/db"));
        assert_ne!(name("postgres://me:a@host/db"), name("postgres://me:a@host/db2"));
    }
}
