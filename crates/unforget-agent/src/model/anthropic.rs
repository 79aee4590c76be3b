//! The Messages API over HTTP.
//!
//! [`Anthropic`] owns the connection, the key and the clock of a call: what is sent where, how long is waited, and when
//! it is tried again. What a body, an event or an error means is said by its neighbours, which are pure. Nothing is kept
//! from one call to the next.
//!
//! Three things must not happen here. The key must not get out: it is in no `Debug`, it is taken out of every error,
//! and redirects are not followed, because they would carry it to another host. Nobody may wait forever: connecting, the
//! first byte and each byte after it have their limits, while a whole answer may take as long as it grows. And nobody
//! may see two answers: once a piece was handed over, a request is not sent again.

use std::fmt;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response};
use tokio::time::{sleep, timeout};
use unforget_core::json;

use super::refusal::{self, Refusal};
use super::retry::Waits;
use super::sse::{self, Decoder};
use super::wire::Answer;
use super::{BoxFuture, Event, Model, ModelError, Request, Sink, body};

mod options;

pub use options::{BASE_URL, Credential, Options};

const USER_AGENT: &str = concat!("unforget/", env!("CARGO_PKG_VERSION"));

/// How much is read of an error, in bytes.
const MAX_ERROR: usize = 64 * 1024;
/// How long an answer may be with all that is around it, in bytes.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// How slow a line may be that a request is sent on, in bytes a second.
const SLOWEST_LINE: u64 = 32 * 1024;
/// How often a count is asked for again. It only helps a decision, which can be made without it.
const COUNT_RETRIES: u32 = 1;
/// The shortest key that is looked for in errors; less is no key, but may be part of any word.
const MIN_KEY: usize = 8;

/// A model behind the Messages API.
#[derive(Clone)]
pub struct Anthropic {
    client: Client,
    base: String,
    options: Options,
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anthropic").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Anthropic {
    /// Prepares for asking, without a word to the server yet.
    pub fn new(options: Options) -> Result<Self, ModelError> {
        let base = options.base()?;
        let mut client = Client::builder()
            .default_headers(options.credential.headers()?)
            .user_agent(USER_AGENT)
            .connect_timeout(options.connect_timeout)
            .redirect(reqwest::redirect::Policy::none());
        if options::is_here(&base) {
            // A proxy would look for the server on its own machine.
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| ModelError::Unreachable { message: describe(error) })?;
        Ok(Self { client, base: base.as_str().trim_end_matches('/').to_owned(), options })
    }

    fn post(&self, path: &str, body: String) -> Result<reqwest::Request, ModelError> {
        let request = self.client.post(format!("{}{path}", self.base)).body(body).build();
        request.map_err(|error| ModelError::Unreachable { message: describe(error) })
    }

    async fn answer(&self, request: &Request<'_>, sink: &mut (dyn FnMut(Event) + Send)) -> Result<(), ModelError> {
        let body = body::of_question(&self.options.model, request).map_err(|refusal| refusal.error)?;
        let post = self.post("/v1/messages", body)?;
        let mut waits = Waits::new(&self.options.retry, u32::MAX);
        loop {
            let mut answer = Answer::default();
            let Err(refusal) = self.ask(&post, &mut answer, sink).await else { return Ok(()) };
            let refusal = self.conceal(refusal);
            if answer.has_shown() {
                return Err(refusal.error);
            }
            let why = refusal.error.to_string();
            let wait = waits.next(refusal)?;
            sink(Event::Retrying { attempt: wait.attempt, of: wait.of, wait: wait.time, why });
            sleep(wait.time).await;
        }
    }

    async fn tokens(&self, request: &Request<'_>) -> Result<u64, ModelError> {
        let post = self.post("/v1/messages/count_tokens", body::of_count(&self.options.model, request))?;
        let mut waits = Waits::new(&self.options.retry, COUNT_RETRIES);
        loop {
            let refusal = match self.count_once(&post).await {
                Ok(tokens) => return Ok(tokens),
                Err(refusal) => self.conceal(refusal),
            };
            sleep(waits.next(refusal)?.time).await;
        }
    }

    async fn ask(
        &self,
        post: &reqwest::Request,
        answer: &mut Answer,
        sink: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), Refusal> {
        let mut response = self.send(post).await?;
        let content = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let content = String::from_utf8_lossy(content).to_ascii_lowercase();
        if content.starts_with("text/event-stream") || content.is_empty() {
            return self.follow(&mut response, answer, sink).await;
        }
        let whole = self.whole(&mut response).await?;
        if !content.starts_with("application/json") {
            return Err(Refusal::protocol(format!("{}: {}", refusal::quote(&content), refusal::quote(&whole))));
        }
        answer.take_whole(&whole)?.into_iter().for_each(sink);
        Ok(())
    }

    /// Hands over what a stream says until the answer is complete.
    async fn follow(
        &self,
        response: &mut Response,
        answer: &mut Answer,
        sink: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), Refusal> {
        let mut decoder = Decoder::default();
        let mut room = MAX_ANSWER;
        while let Some(bytes) = self.chunk(response).await? {
            let too_long = |limit: usize| Refusal::protocol(format!("more than {limit} bytes"));
            room = room.checked_sub(bytes.len()).ok_or_else(|| too_long(MAX_ANSWER))?;
            for message in decoder.push(&bytes).map_err(|_| too_long(sse::MAX_EVENT))? {
                answer.take(&message)?.into_iter().for_each(&mut *sink);
                if answer.has_ended() {
                    return Ok(());
                }
            }
        }
        if let Some(message) = decoder.finish() {
            match answer.take(&message) {
                Ok(events) => events.into_iter().for_each(sink),
                // Half an event, as the end of the connection left it.
                Err(Refusal { error: ModelError::Protocol { .. }, .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        if answer.has_ended() { Ok(()) } else { Err(Refusal::cut("the connection ended before the answer did")) }
    }

    async fn count_once(&self, post: &reqwest::Request) -> Result<u64, Refusal> {
        let body = self.whole(&mut self.send(post).await?).await?;
        let members = json::members(body.trim()).unwrap_or_default();
        let tokens = json::member(&members, "input_tokens").and_then(json::number);
        tokens.ok_or_else(|| Refusal::protocol(format!("this is not a count: {}", refusal::quote(&body))))
    }

    /// Sends a request and waits for the beginning of a response, which is no error.
    async fn send(&self, post: &reqwest::Request) -> Result<Response, Refusal> {
        let copy = post.try_clone().ok_or_else(|| Refusal::protocol("the request cannot be sent twice"))?;
        let size = post.body().and_then(reqwest::Body::as_bytes).map_or(0, <[u8]>::len);
        let sending = Duration::from_secs(u64::try_from(size).unwrap_or(u64::MAX) / SLOWEST_LINE);
        let patience = self.options.idle_timeout + sending;
        let mut response = match timeout(patience, self.client.execute(copy)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Refusal::passing(ModelError::Unreachable { message: describe(error) })),
            Err(_) => return Err(silence(patience)),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        // What can be had of the error is enough: that it broke off is of no interest.
        let (said, _) = self.read(&mut response, MAX_ERROR).await;
        let now = self.options.clock.now_ms();
        Err(refusal::of_response(response.status().as_u16(), response.headers(), &said, now))
    }

    async fn whole(&self, response: &mut Response) -> Result<String, Refusal> {
        let (text, end) = self.read(response, MAX_ANSWER).await;
        end.map(|()| text)
    }

    /// What a response says, as far as it comes and up to a limit, and how it ended.
    async fn read(&self, response: &mut Response, limit: usize) -> (String, Result<(), Refusal>) {
        let mut bytes = Vec::new();
        let end = loop {
            match self.chunk(response).await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= limit => bytes.extend_from_slice(&chunk),
                Ok(_) => break Ok(()),
                Err(refusal) => break Err(refusal),
            }
        };
        (String::from_utf8_lossy(&bytes).into_owned(), end)
    }

    async fn chunk(&self, response: &mut Response) -> Result<Option<impl std::ops::Deref<Target = [u8]>>, Refusal> {
        match timeout(self.options.idle_timeout, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(Refusal::cut(describe(error))),
            Err(_) => Err(silence(self.options.idle_timeout)),
        }
    }

    /// Takes the key out of an error, if a server or a proxy has put it there.
    fn conceal(&self, mut refusal: Refusal) -> Refusal {
        let key = self.options.credential.secret();
        let message = refusal.error.message_mut();
        if key.len() >= MIN_KEY && message.contains(key) {
            *message = message.replace(key, "[key]");
        }
        // A long message was cut, perhaps in the middle of it.
        if let Some(cut) = message.strip_suffix('…') {
            let ends_with = |len: &usize| key.get(..*len).is_some_and(|part| cut.ends_with(part));
            if let Some(len) = (MIN_KEY..key.len()).rev().find(ends_with) {
                *message = format!("{}[key]…", &cut[..cut.len() - len]);
            }
        }
        refusal
    }
}

impl Model for Anthropic {
    fn name(&self) -> &str {
        &self.options.model
    }

    fn window(&self) -> u64 {
        self.options.window
    }

    fn respond<'a>(&'a self, request: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(self.answer(request, sink))
    }

    fn count<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(self.tokens(request))
    }
}

fn silence(patience: Duration) -> Refusal {
    Refusal::cut(format!("nothing came for {} s", patience.as_secs_f64().ceil()))
}

/// What went wrong on the way, without the address, which the person knows.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(next) = cause {
        text.push_str(if text.is_empty() { "" } else { ": " });
        text.push_str(&next.to_string());
        cause = next.source();
    }
    if text.is_empty() { refusal::quote(&error.to_string()) } else { refusal::quote(&text) }
}

#[cfg(test)]
mod tests;
