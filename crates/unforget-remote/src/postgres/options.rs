//! What a URL says: where the database is, as whom, in which schema, and how its server is trusted.
//!
//! The client library reads most of it; what it does not know is taken out before. No message here repeats a part of the URL, since any
//! part may turn out to be a piece of a password that was not escaped.

use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use url::form_urlencoded;

use crate::error::{Error, Result};

/// The schema where none is named.
const SCHEMA: &str = "unforget";
/// The longest name that the server does not cut off.
const MAX_IDENTIFIER: usize = 63;
/// What the server's lists call this program.
const APPLICATION: &str = "unforget";

/// Which servers are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any: the connection is encrypted, but with whom is not asked.
    Anybody,
    /// One whose certificate leads to a root that the system trusts, and has the server's name.
    System,
    /// One whose certificate leads to a root in this file, and has the server's name.
    Roots(PathBuf),
}

/// What a URL says.
pub(super) struct Options {
    pub(super) config: Config,
    pub(super) schema: String,
    pub(super) trust: Trust,
    /// Where it is, without any secret.
    pub(super) name: String,
}

impl Options {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let wrong = |reason: &str| Error::Invalid(format!("the URL of the database {reason}"));
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut mode, mut roots) = (SCHEMA.to_owned(), None, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "schema" => schema = decoded(value),
                "sslmode" => mode = Some(decoded(value)),
                "sslrootcert" => roots = Some(decoded(value)),
                _ => rest.push(pair),
            }
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if schema.is_empty() || schema.len() > MAX_IDENTIFIER || !schema.bytes().all(is_plain) {
            return Err(wrong("names a schema with other characters than letters, digits and `_`, or too many"));
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            // The library names options, never values; an unknown option's name could be half a password.
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let known = cause.strip_prefix("invalid value for option").map(|option| format!(" (its{option})"));
            wrong(&format!(
                "cannot be read{}; special characters in a password are written like %40",
                known.unwrap_or_default()
            ))
        })?;
        if config.get_hosts().is_empty() {
            return Err(wrong("names no host"));
        }
        let roots = match roots.as_deref() {
            None => None,
            Some("system") => Some(Trust::System),
            Some(file) => Some(Trust::Roots(PathBuf::from(file))),
        };
        // As the protocol's own clients have it: a root that is named is also asked for.
        let (mode, trust) = match mode.as_deref() {
            Some("disable") => (SslMode::Disable, Trust::Anybody),
            Some("prefer") => (SslMode::Prefer, Trust::Anybody),
            // A server on this machine may do without; one elsewhere never gets a password before it has proved who it is.
            None if roots.is_none() && is_local(&config) => (SslMode::Prefer, Trust::Anybody),
            None => (SslMode::Require, roots.unwrap_or(Trust::System)),
            Some("require") => (SslMode::Require, roots.unwrap_or(Trust::Anybody)),
            Some("verify-full") => (SslMode::Require, roots.unwrap_or(Trust::System)),
            Some(_) => return Err(wrong("has an sslmode that is none of disable, prefer, require and verify-full")),
        };
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION);
        }
        let name = name_of(&config);
        Ok(Self { config, schema, trust, name })
    }
}

/// Whether every host is a socket or a loopback address.
fn is_local(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(is_local) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// Where a database is, from the parts that hold no secret.
fn name_of(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(number, host)| {
            let ports = config.get_ports();
            let port = ports.get(number).or_else(|| ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(host) => format!("{host}:{port}"),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        })
        .collect();
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or("postgres");
    format!("the database `{database}` at {}", hosts.join(","))
}

fn decoded(value: &str) -> String {
    // A plus is a plus here.
    let value = value.replace('+', "%2B");
    form_urlencoded::parse(value.as_bytes()).next().map(|(value, _)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let options = Options::parse("postgres://me:p%40ss@host:5433/db?schema=mine&sslmode=verify-full").unwrap();
        assert_eq!(options.name, "the database `db` at host:5433");
        assert_eq!((options.schema.as_str(), options.trust), ("mine", Trust::System));
        assert_eq!(options.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(options.config.get_password(), Some(&b"p@ss"[..]));
        let options = Options::parse("postgresql://me@/db?host=%2Ftmp%2Fx&port=7&connect_timeout=3").unwrap();
        assert_eq!(options.name, "the database `db` at /tmp/x:7");
        assert_eq!((options.schema.as_str(), options.trust), ("unforget", Trust::Anybody));
        assert_eq!(options.config.get_ssl_mode(), SslMode::Prefer);
        let options = Options::parse("postgres://me@h/db?sslmode=require&sslrootcert=%2Fa+b%20c.pem").unwrap();
        assert_eq!(options.trust, Trust::Roots(PathBuf::from("/a+b c.pem")));
    }

    #[test]
    fn s12_a_server_elsewhere_is_encrypted_and_proved_unless_the_url_says_otherwise() {
        let read = |host: &str, query: &str| {
            let options = Options::parse(&format!("postgres://me:pw@{host}/db?{query}")).unwrap();
            (options.config.get_ssl_mode(), options.trust)
        };
        for host in ["db.example.com", "10.0.0.7", "[2001:db8::1]", "localhost.example.com", "127.0.0.1,db.example.com"]
        {
            assert_eq!(read(host, ""), (SslMode::Require, Trust::System), "{host}");
        }
        assert_eq!(read("localhost", "hostaddr=10.0.0.7").0, SslMode::Require);
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "%2Ftmp%2Fx"] {
            assert_eq!(read(host, ""), (SslMode::Prefer, Trust::Anybody), "{host}");
        }
        let roots = Trust::Roots(PathBuf::from("/a.pem"));
        assert_eq!(read("localhost", "sslrootcert=/a.pem"), (SslMode::Require, roots.clone()));
        assert_eq!(read("db.example.com", "sslrootcert=/a.pem"), (SslMode::Require, roots));
        // What the address says is obeyed.
        assert_eq!(read("db.example.com", "sslmode=disable").0, SslMode::Disable);
        assert_eq!(read("db.example.com", "sslmode=prefer").0, SslMode::Prefer);
        assert_eq!(read("db.example.com", "sslmode=require"), (SslMode::Require, Trust::Anybody));
    }

    #[test]
    fn a_url_that_is_wrong_is_refused_without_being_repeated() {
        for url in [
            "postgres://me:s3cret@host/db?schema=a;drop",
            "postgres://me:s3cret@host/db?schema=",
            "postgres://me:s3cret@host/db?sslmode=verify-ca",
            "postgres://me:s3cret@host/db?sslmode=s3cret",
            "postgres://me:s3cret@host:port/db",
            "postgres://me:a#s3cret@host:x/db",
            "postgres://me@host/db?s3cret=1",
            "postgres:///db?password=s3cret",
            "s3cret",
            "",
        ] {
            match Options::parse(url) {
                Ok(options) => panic!("{url} became {}", options.name),
                Err(error) => assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}"),
            }
        }
        // The library takes these.
        for url in ["postgres://me:a/s3cret@host/db", "postgres://me:a?s3cret@host/db"] {
            assert_eq!(Options::parse(url).unwrap().name, "the database `db` at host:5432");
        }
    }
}
