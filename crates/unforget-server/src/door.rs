//! The door: which requests come in at all, before anybody asks who sent them, and what every answer carries.
//!
//! A server on one's own machine is within reach of every page that its owner's browser shows. Such a page can send requests, open WebSockets and,
//! by having its own name lead to 127.0.0.1 (DNS rebinding), read the answers as if they were its own. Three things keep it out:
//!
//! * `Host` must be a name that this server goes by, on every request. A page that rebinds its name sends that name. That `Origin` and
//!   `Host` agree proves nothing, because then both are the page's.
//! * `Origin`, which a browser sets and no page can change, must be one that is allowed wherever there is one: also for a WebSocket, which a
//!   browser opens across origins without asking. `null` is no origin: any page can have it.
//! * What a browser calls `cross-site` is refused, unless its origin is allowed, or somebody follows a link to the page itself ([`PAGE`]), which holds
//!   nobody's data and cannot be framed.
//!
//! No answer says that everybody may read it (`Access-Control-Allow-Origin: *`); an origin that is allowed is named, and no other.
//!
//! A page that is allowed is still not the page that this server serves. Only the latter has the host and port of the request itself as its origin
//! ([`Passed::is_own`]); only from there a cookie counts (`identity::cookie`). And no page from elsewhere can send the header that says
//! so: the answer to a browser that asks first names two headers, and that one is not among them.
//!
//! A token in an address is refused whatever it is worth, because addresses are kept in histories and logs; [`logged`] is what may be
//! written down of one.
//!
//! Both are looked at in every mode, for the runtime's calls as well. Where a platform sends names that nobody can know before, as AgentCore Runtime may,
//! somebody has to say so (`--allow-host '*'`, [`Door::any_host`]); no flag implies it, and `Origin` is looked at all the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use reqwest::Url;

use crate::error::{Code, Problem, Result};

/// The header in which a browser says where a request comes from, as seen from where it goes.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Where the page is.
pub const PAGE: &str = "/";

/// What a token is called in an address.
const IN_ADDRESS: [&str; 8] =
    ["token", "access_token", "id_token", "api_key", "apikey", "api-key", "authorization", "bearer"];

/// What pages of an allowed origin may do, and how long a browser remembers that, in seconds.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type");
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// What every answer carries, unless a handler set it.
const ADORNMENTS: [(HeaderName, HeaderValue); 5] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin")),
];

/// Which requests come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// Where it listens.
    port: u16,
    hosts: Hosts,
    origins: Vec<Origin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    These(Vec<Host>),
}

/// A name that a server goes by. Where no port is said, any will do: what keeps a stranger's page out is the name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Host {
    name: String,
    port: Option<u16>,
}

/// Where a page comes from, in the one way in which a browser writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin(String);

/// A request that came in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// The allowed origin that it is from.
    origin: Option<HeaderValue>,
    is_own: bool,
    is_preflight: bool,
}

impl Passed {
    /// Whether a page says that it sent it, and that page has the host and port that the request is for: it is the one that this server serves.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Whether a page that this server does not serve says that it sent it.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_some() && !self.is_own
    }

    /// Whether the page that sent it came over TLS.
    pub fn is_secure(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.as_bytes().to_ascii_lowercase().starts_with(b"https:"))
    }

    /// Whether a browser asks only whether it may ask. The answer is 204 and what [`adorn`] adds, and no handler has to hear of it.
    pub fn is_preflight(&self) -> bool {
        self.is_preflight
    }
}

impl Door {
    /// The door of a server at that address: for requests to this machine by its usual names, or to the very address.
    pub fn new(address: SocketAddr) -> Self {
        let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut names = vec!["localhost".to_owned()];
        names.extend(here.iter().map(|address| shown(*address)));
        let own = shown(address.ip());
        if !address.ip().is_unspecified() && !names.contains(&own) {
            names.push(own);
        }
        let port = address.port();
        let origins = names.iter().filter_map(|name| Origin::parse(&format!("http://{name}:{port}"))).collect();
        let hosts = names.into_iter().map(|name| Host { name, port: Some(port) }).collect();
        Self { port, hosts: Hosts::These(hosts), origins }
    }

    /// Also for requests to another name: `example.org`, or `example.org:8443` for that port only; and for the page that this server shows there: behind
    /// TLS at the usual port or the one that is named, without at the port that it listens on.
    pub fn allow_host(mut self, text: &str) -> unforget_core::Result<Self> {
        let host = Host::parse(text).ok_or_else(|| {
            let like = "it looks like `example.org` or `example.org:8443`";
            unforget_core::Error::Invalid(format!("`{text}` is no host: {like}"))
        })?;
        let listening = host.port.or(Some(self.port));
        for (scheme, port) in [("https", host.port), ("http", host.port), ("http", listening)] {
            let place = Host { name: host.name.clone(), port };
            let origin = Origin::parse(&format!("{scheme}://{}", place.to_text()));
            self.origins.extend(origin.filter(|origin| !self.origins.contains(origin)));
        }
        if let Hosts::These(hosts) = &mut self.hosts
            && !hosts.contains(&host)
        {
            hosts.push(host);
        }
        Ok(self)
    }

    /// Also for pages from elsewhere: `https://example.org`.
    pub fn allow_origin(mut self, text: &str) -> unforget_core::Result<Self> {
        let origin = Origin::parse(text.strip_suffix('/').unwrap_or(text)).ok_or_else(|| {
            let like = "it looks like `https://example.org` or `http://localhost:3000`; there is none for everybody";
            unforget_core::Error::Invalid(format!("`{text}` is no origin: {like}"))
        })?;
        if !self.origins.contains(&origin) {
            self.origins.push(origin);
        }
        Ok(self)
    }

    /// For requests to any name, or none. Only where no browser can reach the port, as in AgentCore Runtime.
    pub fn any_host(mut self) -> Self {
        self.hosts = Hosts::Any;
        self
    }

    /// The names that it is for; none if any.
    pub fn hosts(&self) -> Option<Vec<String>> {
        match &self.hosts {
            Hosts::Any => None,
            Hosts::These(hosts) => Some(hosts.iter().map(Host::to_text).collect()),
        }
    }

    /// The pages that it is for.
    pub fn origins(&self) -> Vec<String> {
        self.origins.iter().map(|origin| origin.0.clone()).collect()
    }

    /// Whether a request may come in.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Passed> {
        let host = said_host(uri, headers);
        self.check_host(host.as_ref())?;
        let origin = self.check_origin(method, uri, headers)?;
        if has_token(uri) {
            return Err(Problem::invalid(
                "a token must not be in an address, where it ends up in logs: send it as `Authorization: Bearer TOKEN`, \
                 or in the first message of a WebSocket; and give up this one",
            ));
        }
        let is_preflight =
            origin.is_some() && method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let is_own = match (&origin, &host) {
            (Some(origin), Some(host)) => origin.to_str().ok().and_then(Origin::parse).is_some_and(|it| it.is_of(host)),
            _ => false,
        };
        Ok(Passed { origin, is_own, is_preflight })
    }

    fn check_host(&self, said: Option<&Host>) -> Result<()> {
        let Hosts::These(allowed) = &self.hosts else { return Ok(()) };
        match said {
            Some(host) if allowed.iter().any(|allowed| allowed.admits(host)) => Ok(()),
            _ => Err(Problem::new(
                Code::Forbidden,
                "this server does not go by that `Host`; `--allow-host NAME` adds a name",
            )),
        }
    }

    fn check_origin(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Option<HeaderValue>> {
        let mut values = headers.get_all(ORIGIN).iter();
        let (origin, more) = (values.next(), values.next());
        let Some(origin) = origin else {
            // A browser leaves the origin out of some requests, but not where they come from.
            let is_foreign = headers.get_all(SEC_FETCH_SITE).iter().any(|site| site.as_bytes() == b"cross-site");
            return if is_foreign && !is_visit(method, uri, headers) { Err(foreign()) } else { Ok(None) };
        };
        let known = origin.to_str().ok().and_then(Origin::parse);
        match known {
            Some(known) if more.is_none() && self.origins.contains(&known) => Ok(Some(origin.clone())),
            _ => Err(foreign()),
        }
    }
}

/// The one host that a request says it is for.
fn said_host(uri: &Uri, headers: &HeaderMap) -> Option<Host> {
    let mut said = headers.get_all(HOST).iter().map(|value| value.to_str().ok().and_then(Host::parse));
    let (header, more) = (said.next(), said.next());
    if more.is_some() {
        return None;
    }
    // A full address in the first line (or `:authority`) is a second way to say it, and must say the same.
    let line = uri.authority().map(|authority| Host::parse(authority.as_str()));
    match (header, line) {
        (Some(header), Some(line)) if header == line => header,
        (Some(_), Some(_)) | (None, None) => None,
        (Some(host), None) | (None, Some(host)) => host,
    }
}

/// The host that a request is for, with its port if it has one; none if it cannot be told, or is an address that a policy has no form for.
pub(crate) fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    said_host(uri, headers).filter(|host| !host.name.starts_with('[')).map(|host| host.to_text())
}

/// Whether somebody opens the page, in a window of its own: by a link, wherever that was.
fn is_visit(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, word: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|value| value.as_bytes() == word.as_bytes()) && values.next().is_none()
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && uri.path() == PAGE && says(&SEC_FETCH_MODE, "navigate") && says(&SEC_FETCH_DEST, "document")
}

fn foreign() -> Problem {
    Problem::new(Code::Forbidden, "pages from elsewhere may not use this server; `--allow-origin ORIGIN` allows one")
}

/// Adds to an answer what every answer carries. An answer to a request that did not come in is one to `Passed::default()`.
pub fn adorn(headers: &mut HeaderMap, passed: &Passed) {
    for (name, value) in ADORNMENTS {
        headers.entry(name).or_insert(value);
    }
    headers.append(VARY, HeaderValue::from_static("origin"));
    // Whatever a handler thinks of it: who may read an answer is said here.
    headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
    if let Some(origin) = &passed.origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
    if passed.is_preflight {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    }
}

/// What may be written down of an address: the path, and nothing behind it.
pub fn logged(uri: &Uri) -> &str {
    uri.path()
}

/// Whether an address holds what is called as a token is.
fn has_token(uri: &Uri) -> bool {
    let Some(query) = uri.query() else { return false };
    // Some servers and proxies take a semicolon for an ampersand.
    let Ok(url) = Url::parse(&format!("http://localhost/?{}", query.replace(';', "&"))) else { return true };
    url.query_pairs().any(|(name, _)| IN_ADDRESS.contains(&name.trim().to_ascii_lowercase().as_str()))
}

fn shown(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

impl Host {
    /// Reads `name`, `name:port`, `[address]` or `[address]:port`, strictly: what is not understood is refused and not guessed at.
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(inner) => {
                let (address, rest) = inner.split_once(']')?;
                (format!("[{}]", address.parse::<Ipv6Addr>().ok()?), rest)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                (text[..end].to_ascii_lowercase(), &text[end..])
            }
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if name.is_empty() || (!name.starts_with('[') && !name.bytes().all(is_name)) {
            return None;
        }
        let port = match rest.strip_prefix(':') {
            Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse().ok()?)
            }
            None if rest.is_empty() => None,
            _ => return None,
        };
        Some(Self { name, port })
    }

    /// Whether a request for that host is for this one.
    fn admits(&self, said: &Self) -> bool {
        self.name == said.name && (self.port.is_none() || said.port.is_none() || self.port == said.port)
    }

    fn to_text(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, host) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => return None,
        };
        let mut host = Host::parse(host)?;
        if host.port == usual {
            host.port = None;
        }
        Some(Self(format!("{scheme}://{}", host.to_text())))
    }

    /// Whether this is where a request to that host goes, whichever way it is made.
    fn is_of(&self, host: &Host) -> bool {
        let scheme = self.0.split(':').next().unwrap_or_default();
        Self::parse(&format!("{scheme}://{}", host.to_text())).as_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door::new("127.0.0.1:7878".parse().unwrap())
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    fn check(door: &Door, uri: &str, pairs: &[(&'static str, &str)]) -> Result<Passed> {
        door.check(&Method::POST, &uri.parse().unwrap(), &headers(pairs))
    }

    fn code(result: Result<Passed>) -> Option<Code> {
        result.err().map(|problem| problem.code)
    }

    #[test]
    fn z05_only_the_names_of_this_server_come_in() {
        for host in ["localhost:7878", "LOCALHOST:7878", "localhost", "127.0.0.1:7878", "[::1]:7878", "[0:0::1]"] {
            assert_eq!(check(&door(), "/", &[("host", host)]), Ok(Passed::default()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7878",
            "localhost.evil.example:7878",
            "localhost:7879",
            "localhost.:7878",
            "localhost:",
            "localhost:7878:7878",
            "localhost:+7878",
            "evil@localhost:7878",
            "localhost:7878@evil.example",
            "127.0.0.2:7878",
            "127.1:7878",
            "2130706433",
            "0.0.0.0:7878",
            "[::]:7878",
            "::1",
            "[::1",
            "[localhost]",
            "",
            " localhost",
            "localhost, evil.example",
            "l\u{f6}calhost",
        ] {
            assert_eq!(code(check(&door(), "/", &[("host", host)])), Some(Code::Forbidden), "{host}");
        }
    }

    #[test]
    fn z05_a_request_without_a_host_or_with_several_is_refused() {
        assert_eq!(code(check(&door(), "/", &[])), Some(Code::Forbidden));
        let twice = [("host", "localhost:7878"), ("host", "localhost:7878")];
        assert_eq!(code(check(&door(), "/", &twice)), Some(Code::Forbidden));
        let other = [("host", "localhost:7878"), ("host", "evil.example")];
        assert_eq!(code(check(&door(), "/", &other)), Some(Code::Forbidden));
    }

    #[test]
    fn z05_a_full_address_and_the_host_must_agree() {
        let here = "http://localhost:7878/";
        assert_eq!(check(&door(), here, &[("host", "localhost:7878")]), Ok(Passed::default()));
        assert_eq!(check(&door(), here, &[]), Ok(Passed::default()));
        assert_eq!(code(check(&door(), here, &[("host", "evil.example")])), Some(Code::Forbidden));
        assert_eq!(code(check(&door(), here, &[("host", "127.0.0.1:7878")])), Some(Code::Forbidden));
        for line in ["http://evil.example/", "http://user@localhost:7878/"] {
            assert_eq!(code(check(&door(), line, &[("host", "localhost:7878")])), Some(Code::Forbidden), "{line}");
            assert_eq!(code(check(&door(), line, &[])), Some(Code::Forbidden), "{line}");
        }
        // Two that cannot be read are not two that agree.
        let unreadable = [("host", "user@localhost:7878")];
        assert_eq!(code(check(&door(), "http://user@localhost:7878/", &unreadable)), Some(Code::Forbidden));
    }

    #[test]
    fn z05_a_page_that_rebinds_its_name_is_refused_though_origin_and_host_agree() {
        let rebound = [("host", "evil.example:7878"), ("origin", "http://evil.example:7878")];
        assert_eq!(code(check(&door(), "/", &rebound)), Some(Code::Forbidden));
    }

    #[test]
    fn a_name_that_is_allowed_allows_the_page_that_is_shown_there_and_no_other_of_that_machine() {
        let door = door().allow_host("Example.org").unwrap().allow_host("other.example:8443").unwrap();
        let from = |origin: &str| code(check(&door, "/", &[("host", "example.org"), ("origin", origin)]));
        for own in
            ["https://example.org", "http://example.org:7878", "http://example.org", "https://other.example:8443"]
        {
            assert_eq!(from(own), None, "{own}");
        }
        for foreign in ["http://example.org:3000", "https://example.org:8443", "https://other.example", "null"] {
            assert_eq!(from(foreign), Some(Code::Forbidden), "{foreign}");
        }
    }

    #[test]
    fn more_names_are_allowed_by_saying_so() {
        let door = door().allow_host("Example.org").unwrap().allow_host("other.example:8443").unwrap();
        for host in ["example.org", "example.org:443", "other.example:8443", "other.example", "localhost:7878"] {
            assert_eq!(check(&door, "/", &[("host", host)]), Ok(Passed::default()), "{host}");
        }
        for host in ["sub.example.org", "other.example:8444"] {
            assert_eq!(code(check(&door, "/", &[("host", host)])), Some(Code::Forbidden), "{host}");
        }
        for bad in ["", "*", "*.example.org", "https://example.org", "a b", "example.org:port", "example.org:99999"] {
            door.clone().allow_host(bad).unwrap_err();
        }
        let own = Door::new("192.0.2.7:80".parse().unwrap());
        assert_eq!(check(&own, "/", &[("host", "192.0.2.7")]), Ok(Passed::default()));
        assert_eq!(code(check(&own, "/", &[("host", "192.0.2.8")])), Some(Code::Forbidden));
    }

    #[test]
    fn in_a_runtime_any_host_comes_in_but_not_any_page() {
        let door = door().any_host();
        assert_eq!(check(&door, "/", &[]), Ok(Passed::default()));
        assert_eq!(check(&door, "/", &[("host", "whatever")]), Ok(Passed::default()));
        assert_eq!(code(check(&door, "/", &[("origin", "https://evil.example")])), Some(Code::Forbidden));
        assert_eq!(door.hosts(), None);
    }

    #[test]
    fn z04_a_page_from_elsewhere_is_refused_whatever_it_does() {
        let host = ("host", "localhost:7878");
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://localhost",
            "http://localhost:7879",
            "https://localhost:7878",
            "http://localhost:7878.evil.example",
            "http://localhost:7878/",
            "http://evil.example#http://localhost:7878",
            "http://user@localhost:7878",
            "file://",
            "chrome-extension://abc",
            "http://localhost:7878 http://evil.example",
        ] {
            for method in [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS, Method::DELETE] {
                let refused = door().check(&method, &"/".parse().unwrap(), &headers(&[host, ("origin", origin)]));
                assert_eq!(code(refused), Some(Code::Forbidden), "{method} {origin}");
            }
        }
        let several = [host, ("origin", "http://localhost:7878"), ("origin", "http://evil.example")];
        assert_eq!(code(check(&door(), "/", &several)), Some(Code::Forbidden));
        assert_eq!(code(check(&door(), "/", &[host, ("sec-fetch-site", "cross-site")])), Some(Code::Forbidden));
        for site in ["same-origin", "none", "same-site"] {
            assert_eq!(check(&door(), "/", &[host, ("sec-fetch-site", site)]), Ok(Passed::default()));
        }
    }

    #[test]
    fn z04_a_link_from_elsewhere_leads_to_the_page_and_to_nothing_else() {
        let link = |method: Method, uri: &str, mode: &str, dest: &str| {
            let site = [("host", "localhost:7878"), ("sec-fetch-site", "cross-site")];
            let said = headers(&[site[0], site[1], ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]);
            code(door().check(&method, &uri.parse().unwrap(), &said))
        };
        assert_eq!(link(Method::GET, "/", "navigate", "document"), None);
        assert_eq!(link(Method::GET, "/?a=b", "navigate", "document"), None);
        for (method, uri, mode, dest) in [
            (Method::POST, "/", "navigate", "document"),
            (Method::GET, "/v1/sessions", "navigate", "document"),
            (Method::GET, "/", "navigate", "iframe"),
            (Method::GET, "/", "no-cors", "document"),
            (Method::GET, "/", "no-cors", "script"),
        ] {
            assert_eq!(link(method.clone(), uri, mode, dest), Some(Code::Forbidden), "{method} {uri} {mode} {dest}");
        }
        let named = [("host", "localhost:7878"), ("origin", "https://evil.example"), ("sec-fetch-mode", "navigate")];
        let refused = door().check(&Method::GET, &"/".parse().unwrap(), &headers(&named));
        assert_eq!(code(refused), Some(Code::Forbidden));
    }

    #[test]
    fn z04_a_page_is_our_own_if_it_comes_from_where_the_request_goes() {
        let door = door().allow_host("app.example").unwrap();
        let origins =
            ["https://app.example", "http://app.example:8080", "https://other.example", "http://localhost:3000"];
        let door = origins.iter().fold(door, |door, origin| door.allow_origin(origin).unwrap());
        let own = |host: &str, origin: &str| {
            let passed = check(&door, "/", &[("host", host), ("origin", origin)]).unwrap();
            assert_ne!(passed.is_own(), passed.is_foreign());
            passed.is_own()
        };
        for (host, origin) in [
            ("localhost:7878", "http://localhost:7878"),
            ("LOCALHOST:7878", "http://localhost:7878"),
            ("[::1]:7878", "http://[::1]:7878"),
            ("app.example", "https://app.example"),
            ("app.example:443", "https://app.example"),
            ("app.example", "https://app.example:443"),
            ("app.example:8080", "http://app.example:8080"),
        ] {
            assert!(own(host, origin), "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:7878", "http://127.0.0.1:7878"),
            ("localhost:7878", "http://localhost:3000"),
            ("localhost", "http://localhost:7878"),
            ("app.example", "https://other.example"),
            ("app.example", "http://app.example:8080"),
            ("app.example:80", "https://app.example"),
        ] {
            assert!(!own(host, origin), "{host} {origin}");
        }
        let nobody = check(&door, "/", &[("host", "localhost:7878")]).unwrap();
        assert!(!nobody.is_own() && !nobody.is_foreign() && !nobody.is_secure());
        let secure = |host, origin| check(&door, "/", &[("host", host), ("origin", origin)]).unwrap().is_secure();
        assert!(secure("app.example", "https://app.example") && secure("app.example", "HTTPS://app.example"));
        assert!(!secure("localhost:7878", "http://localhost:7878"));
        // A request that names two hosts, in a runtime that looks at none, has no page of its own.
        let twice = [("host", "localhost:7878"), ("host", "a.example"), ("origin", "http://localhost:7878")];
        assert!(!check(&door.any_host(), "/", &twice).unwrap().is_own());
    }

    #[test]
    fn z04_an_allowed_page_is_named_and_nobody_else() {
        let door = door().allow_origin("https://App.example:443/").unwrap();
        for bad in ["*", "null", "", "app.example", "https://", "https://app.example/path", "https://*.example"] {
            door.clone().allow_origin(bad).unwrap_err();
        }
        let host = ("host", "localhost:7878");
        let origin = "https://app.example";
        let own = [host, ("origin", origin), ("sec-fetch-site", "cross-site")];
        let passed = check(&door, "/", &own).unwrap();
        assert!(!passed.is_preflight());
        let mut answer = headers(&[("access-control-allow-origin", "*"), ("vary", "accept")]);
        adorn(&mut answer, &passed);
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_ORIGIN], origin);
        assert_eq!(answer.get_all(VARY).iter().collect::<Vec<_>>(), ["accept", "origin"]);
        assert!(!answer.contains_key("access-control-allow-credentials"));
        let mut answer = headers(&[("access-control-allow-origin", "*")]);
        adorn(&mut answer, &check(&door, "/", &[host]).unwrap());
        assert!(!answer.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    }

    #[test]
    fn a_browser_that_asks_first_is_told_what_is_allowed() {
        let asks = [
            ("host", "localhost:7878"),
            ("origin", "http://127.0.0.1:7878"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "x-unforget-page"),
        ];
        let uri = "/".parse().unwrap();
        let passed = door().check(&Method::OPTIONS, &uri, &headers(&asks)).unwrap();
        assert!(passed.is_preflight());
        let mut answer = HeaderMap::new();
        adorn(&mut answer, &passed);
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_ORIGIN], "http://127.0.0.1:7878");
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_HEADERS], "authorization, content-type");
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_METHODS], "GET, POST, PUT, PATCH, DELETE");
        let plain = door().check(&Method::OPTIONS, &uri, &headers(&asks[..2])).unwrap();
        assert!(!plain.is_preflight());
    }

    #[test]
    fn every_answer_says_what_a_browser_must_not_do_with_it() {
        let mut answer = headers(&[("content-security-policy", "default-src 'self'")]);
        adorn(&mut answer, &Passed::default());
        let all: Vec<_> = ADORNMENTS.iter().map(|(name, _)| answer[name].to_str().unwrap().to_owned()).collect();
        assert_eq!(all, ["nosniff", "no-referrer", "no-store", "default-src 'self'", "same-origin"]);
        let mut answer = HeaderMap::new();
        adorn(&mut answer, &Passed::default());
        assert_eq!(answer[CONTENT_SECURITY_POLICY], "default-src 'none'; frame-ancestors 'none'");
    }

    #[test]
    fn z06_a_token_in_an_address_is_refused_and_not_repeated() {
        let host = [("host", "localhost:7878")];
        for query in [
            "token=SECRET",
            "a=b&access_token=SECRET",
            "a=b;access_token=SECRET",
            "API_KEY=SECRET",
            "api%5Fkey=SECRET",
            "%74oken=SECRET",
            "Authorization=Bearer%20SECRET",
            "token",
            "+token=SECRET",
        ] {
            let uri: Uri = format!("/ws?{query}").parse().unwrap();
            let problem = door().check(&Method::GET, &uri, &headers(&host)).unwrap_err();
            assert_eq!(problem.code, Code::Invalid, "{query}");
            assert!(problem.message.contains("Authorization: Bearer") && !problem.message.contains("SECRET"));
            assert_eq!(logged(&uri), "/ws");
        }
        for query in ["", "tokens=5", "q=token", "after=token%3D5"] {
            assert_eq!(check(&door(), &format!("/ws?{query}"), &host), Ok(Passed::default()), "{query}");
        }
    }
}
