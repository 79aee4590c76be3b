//! An AgentCore Memory to try things with: no account, no network, no cost.
//!
//! It prints what to put into the environment of a client and serves until it is ended. Each request is a line on stderr.

use std::io::{self, Write as _};
use std::process::ExitCode;

use unforget_testkit::agentcore::{FakeMemory, Keys, Options, Rates};

const USAGE: &str = "\
usage: fake-agentcore [--port N] [--memory NAME] [--days N] [--rates] [--key ID SECRET REGION]

  --port N                  listen on this port of 127.0.0.1 (default: any free one)
  --memory NAME             the name of the memory that is there (default: notes)
  --days N                  its events expire after so many days (default: 30)
  --rates                   let through no more requests than the service does
  --key ID SECRET REGION    accept only what is signed with this key (default: nobody looks)
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // If stderr is gone, the exit code has to do.
            drop(writeln!(io::stderr(), "fake-agentcore: {problem}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut options = Options::default();
    let (mut name, mut days) = ("notes".to_owned(), 30);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n\n{USAGE}"));
        let number = |text: String| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
        match argument.as_str() {
            "--port" => options.port = Some(u16::try_from(number(value()?)?).map_err(|error| error.to_string())?),
            "--memory" => name = value()?,
            "--days" => days = number(value()?)?,
            "--rates" => options.rates = Rates::Documented,
            "--key" => options.keys = Some(Keys { access: value()?, secret: value()?, region: value()? }),
            "--help" | "-h" => return say(USAGE),
            _ => return Err(format!("what is {argument}?\n\n{USAGE}")),
        }
    }
    options.log = Some(Box::new(|request| {
        let status = request.status.map_or("cut".to_owned(), |status| status.to_string());
        let error = request.error.as_deref().unwrap_or_default();
        // A server goes on without its log.
        drop(writeln!(io::stderr(), "{} {} {status} {error}", request.method, request.path));
    }));
    let server = FakeMemory::start(options).map_err(|error| error.to_string())?;
    let (url, memory) = (server.url(), server.memory(&name, days));
    say(&format!(
        "{url}\nexport AWS_ENDPOINT_URL_BEDROCK_AGENTCORE={url}\nexport AWS_ENDPOINT_URL_BEDROCK_AGENTCORE_CONTROL={url}\n\
         export AWS_REGION=us-east-1\nexport AWS_ACCESS_KEY_ID=fake\nexport AWS_SECRET_ACCESS_KEY=fake\n\
         export BEDROCK_AGENTCORE_MEMORY_ID={memory}\n"
    ))?;
    server.serve();
    Ok(())
}

fn say(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}
