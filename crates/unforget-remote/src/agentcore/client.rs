//! The API of AgentCore Memory, as far as it is needed.
//!
//! One method for each operation, and one place where an answer becomes an error of ours. What the service may mean by a refusal is decided here
//! and nowhere else: too many requests, a conflict of its own and its breakdowns pass; a wrong key, a wrong clock and a missing memory do not, and are never taken for
//! a missing stream. An answer that is not the service's (a proxy's page, say) counts as none.
//!
//! A request is signed with its path encoded twice, as this service wants it and S3 does not. The signer at hand encodes once, so it is
//! shown a path that is encoded already.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner};
use reqsign_command_execute_tokio::TokioCommandExecute;
use reqsign_core::{Context, Signer, StaticEnv};
use reqsign_file_read_tokio::TokioFileRead;
use reqsign_http_send_reqwest::ReqwestHttpSend;
use serde::Serialize;
use serde::de::DeserializeOwned;
use unforget_core::encode;

use super::names::Place;
use super::pace::{Clock, Kind, Pace};
use super::settings::Settings;
use super::wire::{
    Actors, CreateEvent, Deleted, ERROR_TYPE, Event, Events, Failure, ListEvents, ListNames, OneEvent, SERVICE,
    Sessions, TOKEN_MISMATCH,
};
use crate::error::{Error, Result};
use crate::segment;

/// How long a connection, and how long a whole request may take: an event of ten megabytes on a slow line takes a while.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(180);
/// How long credentials may take that are asked for on the network.
const CREDENTIALS: Duration = Duration::from_secs(10);
const CREDENTIALS_CONNECT: Duration = Duration::from_secs(2);
/// The longest answer that is read: an event, which the service says has ten megabytes at the most, and what is around it, or a page of
/// them without payloads.
const MAX_ANSWER: usize = 12 << 20;
/// How many values an answer may have: a page of events has some thousands. Each takes more memory than its bytes.
const MAX_VALUES: usize = 1 << 16;
/// How much of a message is shown.
const MAX_MESSAGE: usize = 500;

/// What became of a new event.
#[derive(Debug)]
pub(super) enum Created {
    /// It has this id.
    Event(String),
    /// The token was used for another one.
    Other,
}

/// A client of one memory.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    /// Holds the credentials until they end, or the service says that they have.
    signer: Mutex<Signer<Credential>>,
    endpoint: String,
    memory: String,
    place: String,
    pub(super) pace: Pace,
}

/// What the service said no to.
struct Refusal {
    status: StatusCode,
    name: String,
    failure: Failure,
    wait: Option<Duration>,
}

impl Client {
    pub(super) fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let place = format!("the AgentCore memory `{}`", settings.memory);
        let failed = |error: reqwest::Error| Error::Invalid(format!("cannot make a client for HTTP: {error}"));
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            // A signature is for one host only.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(failed)?;
        let short = reqwest::Client::builder()
            .connect_timeout(CREDENTIALS_CONNECT)
            .timeout(CREDENTIALS)
            .build()
            .map_err(failed)?;
        let context = Context::new()
            .with_env(StaticEnv { home_dir: settings.home.clone(), envs: settings.environment.clone() })
            .with_file_read(TokioFileRead)
            .with_http_send(ReqwestHttpSend::new(short))
            .with_command_execute(TokioCommandExecute);
        let signer =
            Signer::new(context, DefaultCredentialProvider::new(), RequestSigner::new(SERVICE, &settings.region));
        let memory = encoded(&settings.memory);
        let pace = Pace::new(settings.rates, clock);
        let signer = Mutex::new(signer);
        Ok(Self { http, signer, endpoint: settings.endpoint()?, memory, place, pace })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) async fn create(&self, request: &CreateEvent) -> Result<Created> {
        let path = format!("/memories/{}/events", self.memory);
        let of = format!("{} {}", request.actor_id, request.session_id.as_deref().unwrap_or_default());
        match self.ask::<OneEvent>(Method::POST, path, Some(request), Kind::Create, &of).await? {
            Ok(created) => Ok(Created::Event(created.event.event_id)),
            Err(refusal) if refusal.failure.reason.as_deref() == Some(TOKEN_MISMATCH) => Ok(Created::Other),
            Err(refusal) => Err(self.error(&refusal)),
        }
    }

    /// An event; none if there is none.
    pub(super) async fn get(&self, place: &Place, id: &str) -> Result<Option<Event>> {
        let path = format!("{}/events/{}", self.session(place), encoded(id));
        match self.ask::<OneEvent>(Method::GET, path, None::<&()>, Kind::Get, "").await? {
            Ok(found) => Ok(Some(found.event)),
            Err(refusal) if refusal.is_missing_inside(&self.memory) => Ok(None),
            Err(refusal) => Err(self.error(&refusal)),
        }
    }

    /// A page of events, newest first, as they are: never filtered.
    pub(super) async fn list(&self, place: &Place, size: u32, next: Option<String>) -> Result<Events> {
        let is_first = next.is_none();
        let request =
            ListEvents { include_payloads: Some(false), filter: None, max_results: Some(size), next_token: next };
        let of = format!("{} {}", place.actor, place.session);
        match self.ask::<Events>(Method::POST, self.session(place), Some(&request), Kind::List, &of).await? {
            Ok(events) => Ok(events),
            // Nobody knows what the service says of a session that never was; a memory that is not there it names.
            Err(refusal) if is_first && refusal.is_missing_inside(&self.memory) => {
                Ok(Events { events: Vec::new(), next_token: None })
            }
            Err(refusal) => Err(self.page_error(&refusal, is_first)),
        }
    }

    /// Deletes an event; it is no error if there is none.
    pub(super) async fn delete(&self, place: &Place, id: &str) -> Result<()> {
        let path = format!("{}/events/{}", self.session(place), encoded(id));
        let of = format!("{} {}", place.actor, place.session);
        match self.ask::<Deleted>(Method::DELETE, path, None::<&()>, Kind::Delete, &of).await? {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.is_missing_inside(&self.memory) => Ok(()),
            Err(refusal) => Err(self.error(&refusal)),
        }
    }

    pub(super) async fn sessions(&self, actor: &str, next: Option<String>) -> Result<Sessions> {
        let path = format!("/memories/{}/actor/{}/sessions", self.memory, encoded(actor));
        let is_first = next.is_none();
        let request = ListNames { max_results: Some(100), next_token: next, filter: None };
        match self.ask::<Sessions>(Method::POST, path, Some(&request), Kind::Sessions, "").await? {
            Ok(sessions) => Ok(sessions),
            Err(refusal) if is_first && refusal.is_missing_inside(&self.memory) => {
                Ok(Sessions { session_summaries: Vec::new(), next_token: None })
            }
            Err(refusal) => Err(self.page_error(&refusal, is_first)),
        }
    }

    pub(super) async fn actors(&self, next: Option<String>) -> Result<Actors> {
        let path = format!("/memories/{}/actors", self.memory);
        let is_first = next.is_none();
        let request = ListNames { max_results: Some(100), next_token: next, filter: None };
        let answer = self.ask::<Actors>(Method::POST, path, Some(&request), Kind::Actors, "").await?;
        answer.map_err(|refusal| self.page_error(&refusal, is_first))
    }

    /// Where a list goes on; a page that leads to itself is no end.
    pub(super) fn next_page(&self, asked: Option<&str>, next: Option<String>) -> Result<Option<String>> {
        if next.is_some() && next.as_deref() == asked {
            return Err(self.endless());
        }
        Ok(next)
    }

    /// A list with more pages than there can be. It is not asked for again: it would be as long.
    pub(super) fn endless(&self) -> Error {
        self.damaged("one of its lists does not end".to_owned())
    }

    fn damaged(&self, reason: String) -> Error {
        Error::Corrupt { what: self.place.clone(), reason }
    }

    /// What a page that was refused means. Behind the first page it is neither the end of the list nor a deletion, whatever the service says: its own token is
    /// too old, and the list has to be read again from its beginning.
    fn page_error(&self, refusal: &Refusal, is_first: bool) -> Error {
        match self.error(refusal) {
            error @ (Error::Invalid(_) | Error::Denied { .. }) if !is_first && refusal.is_about_the_request() => {
                self.unavailable(format!("it refuses to go on with its own list: {error}"))
            }
            error => error,
        }
    }

    fn session(&self, place: &Place) -> String {
        format!("/memories/{}/actor/{}/sessions/{}", self.memory, encoded(&place.actor), encoded(&place.session))
    }

    fn unavailable(&self, reason: impl Into<String>) -> Error {
        Error::Unavailable { place: self.place.clone(), reason: reason.into(), wait: None }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Option<&(impl Serialize + Sync)>,
        kind: Kind,
        of: &str,
    ) -> Result<Result<T, Refusal>> {
        let busy = |wait: Duration| Error::Unavailable {
            place: self.place.clone(),
            reason: format!("requests wait for {} s already", wait.as_secs()),
            wait: Some(wait),
        };
        self.pace.turn(kind, of).await.map_err(busy)?;
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(|error| Error::Invalid(error.to_string()))?,
            None => Vec::new(),
        };
        let answer = self.ask_once(method.clone(), &path, body.clone()).await?;
        match answer {
            Err(refusal) if refusal.is_expired() => {
                // Files, containers and instances have new ones by now.
                let mut signer = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
                *signer = signer.clone().with_credential_provider(DefaultCredentialProvider::new());
            }
            answer => return Ok(answer),
        }
        self.ask_once(method, &path, body).await
    }

    async fn ask_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Result<T, Refusal>> {
        let request = self.signed(method, path, body).await?;
        // The address is left out of messages: it may hold a password, and is known anyway.
        let lost = |error: reqwest::Error| self.unavailable(told(&error.without_url()));
        let mut response = self.http.execute(request).await.map_err(lost)?;
        let status = response.status();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let name = header(ERROR_TYPE);
        let wait = header(RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let long = || self.damaged(format!("it answered with more than {MAX_ANSWER} bytes"));
        let told = response.content_length().map_or(Ok(0), usize::try_from).map_err(|_| long())?;
        if told > MAX_ANSWER {
            return Err(long());
        }
        let (mut bytes, mut values) = (segment::room_for(told), 0);
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(long());
            }
            // What opens and separates values also stands in texts, but not often in those of this program.
            values += chunk.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
            if values > MAX_VALUES {
                return Err(self.damaged(format!("it answered with more than {MAX_VALUES} values")));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            let read = serde_json::from_slice(&bytes);
            return read.map(Ok).map_err(|error| {
                let kind = if error.is_data() { "JSON of another shape" } else { "something that is no JSON" };
                self.unavailable(format!("it answered with {kind} (line {}, column {})", error.line(), error.column()))
            });
        }
        let failure: Failure = serde_json::from_slice(&bytes).unwrap_or_default();
        let name = name.or_else(|| failure.kind.clone()).unwrap_or_default();
        // `Name:http://…` and `prefix#Name` are older spellings.
        let name = name.split(':').next().unwrap_or_default().rsplit('#').next().unwrap_or_default().to_owned();
        Ok(Err(Refusal { status, name, failure, wait }))
    }

    async fn signed(&self, method: Method, path: &str, body: Vec<u8>) -> Result<reqwest::Request> {
        let wrong = |error: String| Error::Invalid(format!("cannot make a request to {}: {error}", self.place));
        let twice = format!("{}{}", self.endpoint, path.replace('%', "%25"));
        let mut head = Request::builder().method(method.clone()).uri(twice);
        if !body.is_empty() {
            head = head.header(CONTENT_TYPE, "application/json");
        }
        let head = head.header("x-amz-content-sha256", encode::sha256_hex(&body));
        let (mut parts, ()) = head.body(()).map_err(|error| wrong(error.to_string()))?.into_parts();
        let signer = self.signer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = signer.sign(&mut parts, None).await {
            let reason = format!("there are no credentials: {error}");
            return Err(if error.is_retryable() {
                self.unavailable(reason)
            } else {
                Error::Denied { place: self.place.clone(), reason }
            });
        }
        // The connection names its host itself.
        parts.headers.remove(HOST);
        let address = format!("{}{path}", self.endpoint);
        let address = url::Url::parse(&address).map_err(|error| wrong(error.to_string()))?;
        let mut request = reqwest::Request::new(method, address);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Bytes::from(body).into());
        Ok(request)
    }

    fn error(&self, refusal: &Refusal) -> Error {
        let place = self.place.clone();
        let message: String = refusal.failure.message.chars().take(MAX_MESSAGE).collect();
        let said = match (refusal.name.as_str(), message.as_str()) {
            ("", "") => refusal.status.to_string(),
            ("", message) => format!("{}: {message}", refusal.status),
            (name, message) => format!("{name}: {message}"),
        };
        match refusal.status.as_u16() {
            _ if refusal.is_about_the_clock() => {
                let reason = format!("{said} (the clock of this machine is wrong, or that of the service)");
                Error::Denied { place, reason }
            }
            408 | 409 | 425 | 429 | 500.. => Error::Unavailable { place, reason: said, wait: refusal.wait },
            401..=403 => Error::Denied { place, reason: said },
            404 => Error::Denied { place, reason: format!("{said} (is it another region's, or another account's?)") },
            // A proxy may answer with a redirection or with nonsense.
            ..=399 => Error::Unavailable { place, reason: said, wait: None },
            _ if refusal.name == "ThrottlingException" => {
                Error::Unavailable { place, reason: said, wait: refusal.wait }
            }
            _ if refusal.name.contains("Token") || refusal.name.contains("Signature") => {
                Error::Denied { place, reason: said }
            }
            _ => Error::Invalid(format!("{place} refuses: {said}")),
        }
    }
}

impl Refusal {
    /// Whether it is something within a memory that is missing, and not the memory: "not there" needs proof.
    fn is_missing_inside(&self, memory: &str) -> bool {
        // The id may have any word in it.
        let message = self.failure.message.replace(memory, "").to_ascii_lowercase();
        let is_inside = ["event", "session", "actor"].iter().any(|word| message.contains(word));
        self.status == StatusCode::NOT_FOUND && self.name == "ResourceNotFoundException" && is_inside
    }

    /// Whether this request was refused, and not this caller.
    fn is_about_the_request(&self) -> bool {
        let is_caller = self.name.contains("Token") || self.name.contains("Signature") || self.is_about_the_clock();
        matches!(self.status.as_u16(), 400 | 404) && !is_caller
    }

    /// Whether the credentials have ended.
    fn is_expired(&self) -> bool {
        matches!(self.name.as_str(), "ExpiredTokenException" | "ExpiredToken")
    }

    fn is_about_the_clock(&self) -> bool {
        let message = &self.failure.message;
        let is_skewed = message.contains("Signature expired") || message.contains("Signature not yet current");
        is_skewed || matches!(self.name.as_str(), "RequestTimeTooSkewed" | "RequestExpired")
    }
}

/// A part of a path.
pub(super) fn encoded(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// An error and what caused it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
