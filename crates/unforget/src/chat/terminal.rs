//! A turn on a person's screen: words as they stream, what the tools do, and the questions before them.
//!
//! Everything that comes from a model or a tool is made safe on its way (`markdown` and `screen` do that). While nothing is to be
//! seen a spinner tells what is being waited for.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::{BoxFuture, Delta, Event};
use unforget_agent::tools::{Call, OUTSIDE, Output, is_allowed_by, is_outside};
use unforget_core::json;

use super::approval::{BAR, Sheet};
use super::signals::Busy;
use crate::editor::{self, Editor};
use crate::markdown::{self, Renderer};
use crate::screen;

/// Columns of a tool's line.
const CALL_COLUMNS: usize = 78;
/// A tool that ran longer says how long.
const LONG: Duration = Duration::from_secs(1);
/// What may be answered to a question.
const QUESTION: &str = "Allow? [y]es, [n]o, [a]lways (until you quit), or say why not: ";
/// The same if not all of the call is shown.
const QUESTION_FOLDED: &str = "Allow? [y]es, [n]o, [v]iew all, [a]lways (until you quit), or why not: ";

/// What a person allowed for as long as the program runs.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    /// By the settings.
    pub(crate) by_setting: BTreeSet<String>,
    /// By the answer `always`.
    pub(crate) always: BTreeSet<String>,
}

impl Allowed {
    pub(crate) fn standing(&self, call: &Call) -> Option<Answer> {
        let all = |set: &BTreeSet<String>| is_allowed_by(call, set.iter());
        if all(&self.by_setting) {
            return Some(Answer::Allowed { by: "setting" });
        }
        all(&self.always).then_some(Answer::Allowed { by: "always" })
    }
}

/// The host of a turn in a terminal.
pub(crate) struct Terminal<'a> {
    editor: Option<&'a mut Editor>,
    allowed: &'a mut Allowed,
    abort: CancellationToken,
    busy: Busy,
    renderer: Option<Renderer>,
    spinner: Option<ProgressBar>,
    /// Whether the guard has told already how its work is undone.
    told_undo: bool,
    /// Whether words of the model stand on the current line.
    speaking: bool,
    /// Why the screen cannot be written to, if it cannot.
    pub(crate) broken: Option<std::io::Error>,
}

impl<'a> Terminal<'a> {
    /// Without an editor nobody is there to be asked.
    pub(crate) fn new(
        editor: Option<&'a mut Editor>,
        allowed: &'a mut Allowed,
        abort: CancellationToken,
        busy: &Busy,
    ) -> Self {
        let busy = busy.clone();
        Self {
            editor,
            allowed,
            abort,
            busy,
            renderer: None,
            spinner: None,
            told_undo: false,
            speaking: false,
            broken: None,
        }
    }

    fn print(&mut self, text: &str) {
        let mut out = anstream::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Nobody reads any more; the turn goes on into the log.
            self.broken.get_or_insert(error);
        }
    }

    fn line(&mut self, text: &str) {
        self.quiet();
        self.end_speech();
        self.print(&format!("{text}\n"));
    }

    fn wait_for(&mut self, what: &str) {
        self.quiet();
        let bar = ProgressBar::new_spinner().with_message(screen::fit(&screen::one_line(what), CALL_COLUMNS - 10));
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        self.spinner = Some(bar);
    }

    fn quiet(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    fn say(&mut self, text: &str) {
        self.quiet();
        if !self.speaking {
            self.speaking = true;
            self.print("\n");
        }
        let renderer = self.renderer.get_or_insert_with(|| Renderer::new(width(), style()));
        let shown = renderer.feed(text);
        self.print(&shown);
    }

    /// Ends what the model is saying, so that something else can be shown.
    pub(crate) fn end_speech(&mut self) {
        self.quiet();
        if let Some(mut renderer) = self.renderer.take() {
            let rest = renderer.finish();
            self.print(&rest);
        }
        if std::mem::take(&mut self.speaking) {
            self.print("\n");
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Delta { delta: Delta::Text(text), .. } => self.say(text),
            Event::BlockStarted { block, .. } => {
                let members = json::members(block).unwrap_or_default();
                let text = |name| json::member(&members, name).and_then(json::string);
                match text("type").as_deref() {
                    Some("text") => {
                        if let Some(text) = text("text").filter(|text| !text.is_empty()) {
                            self.say(&text);
                        }
                    }
                    Some("thinking" | "redacted_thinking") => self.wait_for("thinking"),
                    Some("tool_use") => {
                        self.end_speech();
                        let name = text("name").unwrap_or_default().into_owned();
                        self.wait_for(&format!("writing the call of {name}"));
                    }
                    _ => {}
                }
            }
            Event::Retrying { attempt, of, wait, why } => {
                let yellow = AnsiColor::Yellow.on_default();
                let seconds = wait.as_secs_f64();
                let why = screen::one_line(why);
                self.line(&format!("  {yellow}[retry {attempt} of {of} in {seconds:.1} s] {why}{yellow:#}"));
                self.wait_for("waiting");
            }
            _ => {}
        }
    }
}

impl Host for Terminal<'_> {
    fn tell(&mut self, notice: Notice<'_>) {
        let dim = Style::new().dimmed();
        match notice {
            Notice::Asking => self.wait_for("waiting for the model"),
            Notice::Model(event) => self.event(event),
            Notice::ToolStarted(call) => {
                let shown = shown_call(call);
                self.line(&format!("  {dim}[tool] {shown}{dim:#}"));
                self.wait_for(&shown);
            }
            Notice::ToolEnded { output, took, .. } => {
                self.quiet();
                let result = shown_output(output);
                let time = if took >= LONG { format!(" ({:.1} s)", took.as_secs_f64()) } else { String::new() };
                let style = if output.is_error { AnsiColor::Yellow.on_default() } else { dim };
                self.line(&format!("  {style}       {result}{time}{style:#}"));
            }
            Notice::Guard(line) => {
                let blue = AnsiColor::Blue.on_default();
                let line = screen::one_line(line);
                self.line(&format!("  {blue}[guard] {line}{blue:#}"));
                if line.contains("->") && !std::mem::replace(&mut self.told_undo, true) {
                    self.line(&format!("  {blue}        /undo-compact undoes it, /context shows the window{blue:#}"));
                }
            }
            Notice::Saved { .. } => self.quiet(),
            _ => {}
        }
    }

    fn standing(&self, call: &Call) -> Option<Answer> {
        let nobody = self.editor.is_none();
        self.allowed.standing(call).or_else(|| {
            let reason = "nobody is there to allow it; the program can be started with `--allow`".to_owned();
            nobody.then_some(Answer::Denied { by: "setting", reason: Some(reason) })
        })
    }

    fn approve<'c>(&'c mut self, call: &'c Call) -> BoxFuture<'c, Answer> {
        self.quiet();
        self.end_speech();
        let sheet = Sheet::new(call, screen::columns().unwrap_or(80), screen::lines().unwrap_or(24));
        let answer = self.ask(call, &sheet);
        Box::pin(std::future::ready(answer))
    }
}

impl Terminal<'_> {
    /// Shows the header and as much of a call as fits on the screen with the question.
    fn show(&mut self, sheet: &Sheet) {
        let (bold, bar) = (Style::new().bold(), AnsiColor::Yellow.on_default());
        self.line(&format!("{bar}{BAR}{bar:#} {bold}{}{bold:#}", sheet.header()));
        for row in sheet.shown() {
            self.line(&format!("{bar}{BAR}{bar:#} {row}"));
        }
    }

    /// Shows all of a call, a page at a time.
    fn show_all(&mut self, sheet: &Sheet) {
        let (bar, pages) = (AnsiColor::Yellow.on_default(), sheet.pages());
        for (number, page) in pages.iter().enumerate() {
            for row in *page {
                self.line(&format!("{bar}{BAR}{bar:#} {row}"));
            }
            let Some(editor) = self.editor.as_deref_mut() else { return };
            let more = format!("{BAR} Page {} of {}; Enter goes on, q goes back: ", number + 1, pages.len());
            if !matches!(editor.ask(&more), Ok(editor::Input::Line(line)) if line.trim().is_empty()) {
                return;
            }
        }
    }

    /// Asks until there is an answer. The thread waits, and nothing else is to be done meanwhile.
    fn ask(&mut self, call: &Call, sheet: &Sheet) -> Answer {
        let denied = |reason: Option<String>| Answer::Denied { by: "person", reason };
        let busy = self.busy.clone();
        let _waiting = busy.wait();
        let question = format!("{BAR} {}", if sheet.is_folded() { QUESTION_FOLDED } else { QUESTION });
        self.show(sheet);
        loop {
            let Some(editor) = self.editor.as_deref_mut() else { return denied(None) };
            match editor.ask(&question) {
                Ok(editor::Input::Line(line)) => match line.trim().to_lowercase().as_str() {
                    "y" | "yes" => return Answer::Allowed { by: "person" },
                    "a" | "always" => {
                        let name = if is_outside(call) { OUTSIDE } else { call.name.as_str() };
                        self.allowed.always.insert(name.to_owned());
                        return Answer::Allowed { by: "person" };
                    }
                    "n" | "no" => return denied(None),
                    "v" | "view" => {
                        self.show_all(sheet);
                        self.show(sheet);
                    }
                    "" => {}
                    // Anything else is an answer to the model: why not, or what else.
                    other if other.len() > 1 => return denied(Some(line.trim().to_owned())),
                    _ => {}
                },
                Ok(editor::Input::Interrupted) => {
                    self.abort.cancel();
                    return denied(None);
                }
                Ok(editor::Input::End) | Err(_) => return denied(None),
            }
        }
    }
}

/// `bash: cargo test`, on one line.
pub(crate) fn shown_call(call: &Call) -> String {
    let members = json::members(&call.input).unwrap_or_default();
    let known = ["command", "path", "file_path", "directory", "tool_use_id"];
    let main = known.iter().find_map(|name| json::member(&members, name).and_then(json::string));
    let text = match main {
        Some(main) => format!("{}: {main}", call.name),
        None if members.is_empty() => call.name.clone(),
        None => format!("{}({})", call.name, call.input),
    };
    screen::fit(&screen::one_line(&text), CALL_COLUMNS - 9)
}

/// The first line of what came back, and how much there is.
fn shown_output(output: &Output) -> String {
    let lines = output.text.lines().count();
    let first = screen::one_line(output.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)"));
    let last = output.text.lines().next_back().map(screen::one_line).unwrap_or_default();
    let more = match lines {
        0 | 1 => String::new(),
        // How it ended is what counts of a command that failed.
        _ if output.is_error && last.starts_with('[') => format!(" {}", screen::fit(&last, 30)),
        _ => format!(" ({lines} lines)"),
    };
    format!("{}{more}", screen::fit(&first, CALL_COLUMNS - 40))
}

/// Columns for the model's words.
pub(crate) fn width() -> usize {
    const WIDEST: usize = 100;
    screen::columns().unwrap_or(80).clamp(20, WIDEST)
}

/// How the model's words are shown where stdout leads.
pub(crate) fn style() -> markdown::Style {
    match anstream::stdout().current_choice() {
        anstream::ColorChoice::Never => markdown::Style::Plain,
        _ => markdown::Style::Coloured,
    }
}
