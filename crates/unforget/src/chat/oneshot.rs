//! One prompt, one answer: for scripts and pipes.
//!
//! The answer goes to stdout and nothing else does; what the tools do and what the guard did goes to stderr. With `--json` everything is an
//! event, one object a line. Exit codes: 0 answered, 1 failed, 3 the session is busy, 130 aborted.

use std::io::{IsTerminal as _, Read as _, Write as _};

use tokio_util::sync::CancellationToken;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::{BoxFuture, Delta, Event};
use unforget_agent::tools::Call;
use unforget_agent::turn::{Input, State};
use unforget_core::json::quote;

use super::terminal::{Allowed, shown_call, style, width};
use super::{Chat, Delivery, GOODBYE, Hurried, TurnEnd, courier, drive};
use crate::cli;
use crate::config::Ack;
use crate::failure::{Failure, Outcome, Result};
use crate::markdown::Renderer;
use crate::screen;

/// The most that is read from stdin.
const MAX_STDIN: u64 = 8 * 1024 * 1024;

/// The prompt of the command line, with what stdin has behind it; none if there is no `-p`.
pub(crate) fn prompt(args: &cli::Chat) -> Result<Option<String>> {
    let Some(prompt) = &args.prompt else { return Ok(None) };
    let mut prompt = prompt.clone();
    let stdin = std::io::stdin();
    if prompt == "-" || !stdin.is_terminal() {
        let mut bytes = Vec::new();
        stdin.lock().take(MAX_STDIN + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_STDIN {
            return Err(Failure::usage("stdin has more than 8 MB")
                .hint("put it into a file and let the model read parts of it"));
        }
        let text = String::from_utf8(bytes).map_err(|_| Failure::usage("stdin is not UTF-8 text"))?;
        if prompt == "-" {
            prompt = text;
        } else if !text.trim().is_empty() {
            prompt = format!("{prompt}\n\n{text}");
        }
    }
    match prompt.trim() {
        "" => Err(Failure::usage("the prompt is empty")),
        _ => Ok(Some(prompt)),
    }
}

pub(crate) fn run(chat: &mut Chat<'_>, prompt: &str) -> Result<Outcome> {
    let abort = CancellationToken::new();
    let json = chat.context.json;
    let mut host = Plain::new(json, std::mem::take(&mut chat.allowed));
    if json {
        let (id, key) = (quote(chat.session.id().as_str()), quote(&chat.session.key().to_string()));
        host.event(&format!(
            "{{\"event\":\"session\",\"id\":{id},\"key\":{key},\"model\":{}}}",
            quote(chat.model.name())
        ));
    }
    let agent = unforget_agent::guard::Agent { model: chat.model.as_ref(), settings: &chat.settings };
    let input = Input::Words(prompt);
    chat.expect()?;
    let running = chat.busy.begin();
    let mut hurried = Hurried { host: &mut host, courier: chat.courier.as_ref() };
    let ended = drive(&chat.runtime, &mut chat.session, input, &agent, &chat.tools, &mut hurried, &abort);
    drop(running);
    host.finish();
    if let Some(error) = host.broken.take() {
        return Err(error.into());
    }
    let delivered = tell_delivery(chat, &mut host);
    let ended = match ended {
        Ok(TurnEnd::Ended(ended) | TurnEnd::Quit(Some(ended))) => ended,
        Ok(TurnEnd::Quit(None)) => return Ok(Outcome::Aborted),
        Err(failure) => {
            if json {
                host.event(&format!("{{\"event\":\"error\",\"message\":{}}}", quote(failure.message())));
            }
            return Err(failure);
        }
    };
    let state = match ended.state {
        State::Done => "done",
        State::Aborted => "aborted",
        State::OutOfSteps => "out_of_steps",
    };
    if json {
        host.event(&format!(
            "{{\"event\":\"end\",\"state\":\"{state}\",\"stop_reason\":{},\"usage\":{},\"n\":{},\"text\":{}}}",
            ended.stop_reason.as_deref().map_or("null".to_owned(), quote),
            on_one_line(ended.usage.as_deref().unwrap_or("null")),
            ended.n,
            quote(&ended.text)
        ));
        if let Some(error) = host.broken.take() {
            return Err(error.into());
        }
    }
    delivered?;
    match ended.state {
        State::Done => Ok(Outcome::Done),
        State::Aborted => Ok(Outcome::Aborted),
        State::OutOfSteps => Err(Failure::new("the model called tools more often than `max_steps` allows")
            .hint("`unforget chat -p \"go on\"` continues; `--max-steps` allows more")),
    }
}

/// Says whether the words are where they should be; an error if only that counts as saved and they are not.
fn tell_delivery(chat: &Chat<'_>, host: &mut Plain) -> Result<()> {
    let Some((courier, _)) = &chat.courier else { return Ok(()) };
    let address = &courier.place().address;
    let delivery = chat.deliver(GOODBYE)?;
    if host.json {
        let (state, message) = match &delivery {
            Delivery::There => ("there", None),
            Delivery::Waiting(why) => ("waiting", Some(courier::not_yet(why.as_deref(), address))),
        };
        let message = message.as_deref().map_or("null".to_owned(), quote);
        host.event(&format!("{{\"event\":\"remote\",\"state\":\"{state}\",\"message\":{message}}}"));
    }
    match delivery {
        Delivery::Waiting(why) if chat.config.ack == Ack::Remote => {
            Err(courier::not_acknowledged(why.as_deref(), address))
        }
        Delivery::Waiting(why) if !host.json => {
            host.note(&format!("note: {}", courier::not_yet(why.as_deref(), address)));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// JSON text on one line. Inside strings a line feed is always escaped, so every raw one is between tokens.
fn on_one_line(raw: &str) -> String {
    raw.replace(['\n', '\r'], " ")
}

/// A host without a person.
struct Plain {
    json: bool,
    allowed: Allowed,
    renderer: Option<Renderer>,
    wrote: bool,
    broken: Option<std::io::Error>,
}

impl Plain {
    fn new(json: bool, allowed: Allowed) -> Self {
        // A pipe gets the model's text as it is; a terminal gets it rendered.
        let renderer = (std::io::stdout().is_terminal() && !json).then(|| Renderer::new(width(), style()));
        Self { json, allowed, renderer, wrote: false, broken: None }
    }

    fn print(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            self.broken.get_or_insert(error);
        }
    }

    fn event(&mut self, line: &str) {
        self.print(&format!("{line}\n"));
    }

    fn note(&mut self, text: &str) {
        if let Err(error) = writeln!(anstream::stderr(), "{}", screen::one_line(text)) {
            self.broken.get_or_insert(error);
        }
    }

    fn say(&mut self, text: &str) {
        self.wrote = true;
        let shown = match &mut self.renderer {
            Some(renderer) => renderer.feed(text),
            None => text.to_owned(),
        };
        self.print(&shown);
    }

    fn finish(&mut self) {
        if let Some(renderer) = &mut self.renderer {
            let rest = renderer.finish();
            self.print(&rest);
        }
        if std::mem::take(&mut self.wrote) && !self.json {
            self.print("\n");
        }
    }
}

impl Host for Plain {
    fn tell(&mut self, notice: Notice<'_>) {
        match (notice, self.json) {
            (Notice::Model(Event::Delta { delta: Delta::Text(text), .. }), false) => self.say(text),
            (Notice::Model(Event::Delta { delta: Delta::Text(text), .. }), true) => {
                self.event(&format!("{{\"event\":\"text\",\"text\":{}}}", quote(text)));
            }
            (Notice::Model(Event::Delta { delta: Delta::Thinking(text), .. }), true) => {
                self.event(&format!("{{\"event\":\"thinking\",\"text\":{}}}", quote(text)));
            }
            (Notice::Model(Event::Retrying { attempt, of, wait, why }), json) => {
                let ms = wait.as_millis();
                match json {
                    true => self.event(&format!(
                        "{{\"event\":\"retry\",\"attempt\":{attempt},\"of\":{of},\"wait_ms\":{ms},\"message\":{}}}",
                        quote(why)
                    )),
                    false => self.note(&format!("retry {attempt} of {of} in {ms} ms: {why}")),
                }
            }
            (Notice::ToolStarted(call), true) => self.event(&format!(
                "{{\"event\":\"tool_call\",\"id\":{},\"name\":{},\"input\":{}}}",
                quote(&call.id),
                quote(&call.name),
                on_one_line(&call.input)
            )),
            (Notice::ToolStarted(call), false) => {
                if std::mem::take(&mut self.wrote) {
                    self.print("\n");
                }
                self.note(&format!("[tool] {}", shown_call(call)));
            }
            (Notice::ToolEnded { call, output, took }, true) => self.event(&format!(
                "{{\"event\":\"tool_result\",\"id\":{},\"is_error\":{},\"ms\":{},\"text\":{}}}",
                quote(&call.id),
                output.is_error,
                took.as_millis(),
                quote(&output.text)
            )),
            (Notice::ToolEnded { output, .. }, false) if output.is_error => {
                if std::mem::take(&mut self.wrote) {
                    self.print("\n");
                }
                self.note(&format!("[tool] failed: {}", screen::fit(&screen::one_line(&output.text), 100)));
            }
            (Notice::Guard(line), true) => {
                self.event(&format!("{{\"event\":\"guard\",\"message\":{}}}", quote(line)));
            }
            (Notice::Guard(line), false) => self.note(&format!("[guard] {line}")),
            (Notice::Saved { n }, true) => self.event(&format!("{{\"event\":\"saved\",\"n\":{n}}}")),
            _ => {}
        }
    }

    fn standing(&self, call: &Call) -> Option<Answer> {
        let reason = "nobody is there to allow it; the program can be started with `--allow`".to_owned();
        Some(self.allowed.standing(call).unwrap_or(Answer::Denied { by: "setting", reason: Some(reason) }))
    }

    fn approve<'a>(&'a mut self, _: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Denied { by: "setting", reason: None }))
    }
}
