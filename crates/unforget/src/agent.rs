//! What the configuration makes of the agent: its model, the settings of its turns, and what its tools may reach.
//!
//! The chat, the commands that run tools, and the server build their agents from these, so that a
//! setting means the same in each.

use std::path::Path;

use unforget_agent::model::Model;
use unforget_agent::model::anthropic::{Anthropic, Credential, Options};
use unforget_agent::model::offline::Offline;
use unforget_agent::settings::Settings;
use unforget_agent::tools::sandbox::{self, Sandbox, Support};
use unforget_agent::tools::{Commands, Secrets, Workspace};
use unforget_core::medium::{Os, read_small};

use crate::config::{self, Config};
use crate::failure::{Failure, Result};
use crate::home::split_path;
use crate::secrets;

/// The largest system prompt that is read from a file.
const MAX_SYSTEM: u64 = 1024 * 1024;
/// The window of the built-in model, unless a smaller one is set.
const OFFLINE_WINDOW: u64 = 32_000;

/// The model of the configuration: the built-in one if there is no key.
pub(crate) fn model(config: &Config) -> Result<Box<dyn Model>> {
    let Some(key) = config.api_key.clone().filter(|_| config.model != "offline") else {
        return Ok(Box::new(Offline::new(config.window.min(OFFLINE_WINDOW))));
    };
    // The ending only says how large the window is.
    let name = config.model.trim_end_matches(config::LARGE);
    let mut options = Options::new(Credential::Key(key), name, config.window);
    options.base_url.clone_from(&config.base_url);
    let model = Anthropic::new(options).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Box::new(model))
}

/// How turns work.
pub(crate) fn settings(config: &Config) -> Result<Settings> {
    let mut settings = Settings {
        max_tokens: config.max_tokens,
        thinking: config.thinking,
        compact_at: config.compact_at,
        keep_tokens: config.keep_tokens,
        max_steps: config.max_steps,
        tool_output: config.tool_output,
        ..Settings::default()
    };
    if let Some(system) = &config.system {
        settings.system.clone_from(system);
    }
    if let Some(path) = &config.system_file {
        let (folder, file) = split_path(path);
        let medium = Os::new(folder);
        let wrong = |why: String| Failure::usage(format!("the system prompt `{}`: {why}", path.display()));
        let bytes = read_small(&medium, &file, MAX_SYSTEM).map_err(|error| wrong(error.to_string()))?;
        settings.system = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
    }
    Ok(settings)
}

/// How commands run: with a clean environment, and in a sandbox if the kernel has one.
pub(crate) fn commands(home: &Path, config: &Config, secrets: &Secrets) -> Result<Commands> {
    let commands = Commands::new(&config.command_environment);
    if !config.sandbox || sandbox::support() == Support::None {
        return Ok(commands);
    }
    // This program as it runs, also if its file was replaced meanwhile.
    let launcher = vec!["/proc/self/exe".into(), "confined".into()];
    let home = std::path::absolute(home)?;
    let hidden = secrets.paths().iter().cloned().chain([home]).collect();
    let temporary = vec![std::env::temp_dir()];
    Ok(commands.confined(Sandbox { launcher, hidden, temporary }))
}

/// What has to be known about the sandbox before something runs without it, if anything.
pub(crate) fn sandbox_note(config: &Config) -> Option<&'static str> {
    let support = sandbox::support();
    (config.sandbox && support != Support::Full).then(|| support.told())
}

/// A folder for tools, with what is none of their business out of reach.
pub(crate) fn confine(home: &Path, config: &Config, folder: &Path) -> Result<Workspace> {
    let secrets = secrets::list(config, &[])?;
    Workspace::open(folder, home)
        .and_then(|workspace| workspace.hiding(secrets))
        .map_err(|error| Failure::usage(format!("the workspace `{}`: {error}", folder.display())))
}
