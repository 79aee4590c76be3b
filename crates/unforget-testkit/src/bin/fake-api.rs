//! A Messages API to try things with: no account, no network, no cost.
//!
//! It prints what to put into the environment of a client and serves until it is ended. Each request is a line on
//! stderr; with `--log`, also a JSON line in a file, with its body but without its key.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use unforget_testkit::api::{FakeApi, Log, Options, Recorded};

const USAGE: &str = "\
usage: fake-api [--port N] [--window N] [--model NAME] [--pace MILLISECONDS] [--log FILE]

  --port N             listen on this port of 127.0.0.1 (default: any free one)
  --window N           context window in tokens (default: 200000)
  --model NAME         the model whose rules apply (default: claude-opus-5)
  --pace MILLISECONDS  wait this long between two pieces of a stream (default: 10)
  --log FILE           append every request to this file, as JSON lines
";
const DEFAULT_PACE: Duration = Duration::from_millis(10);

/// What a person may say to it.
const SAY: &str = "
say: [[bash:ls -l]]  [[read:PATH]]  [[write:PATH|TEXT]]  [[parallel:CMD||CMD]]  [[chain:3|CMD]]
     [[think]]  [[recall]]  [[long:500]]; anything else is echoed

";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // If stderr is gone, the exit code has to do.
            drop(writeln!(io::stderr(), "fake-api: {problem}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut options = Options { pace: DEFAULT_PACE, ..Options::default() };
    let mut file = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--port" => options.port = Some(number(&value()?)?),
            "--window" => options.window = number(&value()?)?,
            "--model" => options.model = value()?,
            "--pace" => options.pace = Duration::from_millis(number(&value()?)?),
            "--log" => file = Some(open(&value()?)?),
            "--help" | "-h" => return say(USAGE),
            _ => return Err(format!("what is {name}?\n\n{USAGE}")),
        }
    }
    options.log = Some(log(file));
    let api = FakeApi::start(options).map_err(|error| error.to_string())?;
    let url = api.url();
    say(&format!("{url}\nexport ANTHROPIC_BASE_URL={url}\nexport ANTHROPIC_API_KEY=sk-ant-fake\n"))?;
    say(SAY)?;
    api.serve();
    Ok(())
}

fn number<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "this is a tool beside the product, whose `medium` has no plain files")]
fn open(path: &str) -> Result<File, String> {
    std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(|error| format!("{path}: {error}"))
}

fn say(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}

fn log(file: Option<File>) -> Log {
    let file = file.map(Mutex::new);
    Box::new(move |request| {
        let status = request.status.unwrap_or_default();
        let refusal = request.refusal.as_ref().map(|refusal| format!(": {}", refusal.message)).unwrap_or_default();
        let (method, path, length) = (&request.method, &request.path, request.body.len());
        // A server goes on without its log.
        drop(writeln!(io::stderr(), "{} {method} {path} {length} bytes: {status}{refusal}", request.number));
        if let Some(file) = &file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            drop(writeln!(file, "{}", line(request)));
        }
    })
}

fn line(request: &Recorded) -> String {
    let is_secret = |name: &str| matches!(name, "authorization" | "x-api-key");
    let headers: Vec<_> = request.headers.iter().filter(|(name, _)| !is_secret(name)).collect();
    let line = json!({
        "number": request.number,
        "method": request.method,
        "path": request.path,
        "status": request.status,
        "refusal": request.refusal.as_ref().map(|refusal| refusal.message.as_str()),
        "headers": headers,
        "body": request.json(),
    });
    line.to_string()
}
