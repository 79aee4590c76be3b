//! What no tool of this process sees: the program's own keys, tokens, settings and history, and known credentials.
//!
//! `unforget_agent` has the list of what other programs keep; this adds what only the settings and flags of this run
//! tell. Every place that opens a workspace takes its list from here.

use std::path::{Path, PathBuf};

use unforget_agent::tools::Secrets;

use crate::config::Config;
use crate::failure::Result;

/// The key of a sealed remote, beside the settings.
pub(crate) const REMOTE_KEY: &str = "remote.key";

/// The tokens that were given out, beside the settings.
pub(crate) const TOKENS: &str = "tokens.jsonl";

/// The list, with files that flags named.
pub(crate) fn list(config: &Config, named: &[Option<&Path>]) -> Result<Secrets> {
    let beside = |name: &str| config.file.with_file_name(name);
    let own = [config.file.clone(), beside(TOKENS), beside(REMOTE_KEY)];
    let named = named.iter().flatten().map(|path| path.to_path_buf());
    // The history's folder as a whole: the editor writes a new file beside the old one.
    let history = crate::home::history_file().and_then(|file| Some(file.parent()?.to_path_buf()));
    let all: Vec<PathBuf> = own.into_iter().chain(named).chain(config.remote_key.clone()).chain(history).collect();
    let mut secrets = Secrets::known(|name| std::env::var_os(name));
    for path in all {
        secrets = secrets.and(std::path::absolute(path)?);
    }
    Ok(secrets)
}

/// Keeps other processes, those of the tools among them, from reading the key out of this one's memory or environment.
pub(crate) fn keep_to_ourselves() -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(std::io::Error::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::File;
    use crate::config::flags::Flags;

    #[test]
    fn s5_keys_and_tokens_are_on_the_list_wherever_flags_and_settings_put_them() {
        let file = File::parse(Path::new("/settings/config.toml"), "").unwrap();
        let environment = |name: &str| (name == "UNFORGET_REMOTE_KEY").then(|| "/vault/sealing.key".to_owned());
        let config = Config::load(&Flags::default(), environment, &file).unwrap();
        let secrets = list(&config, &[Some(Path::new("given/tokens")), None]).unwrap();
        let given = std::env::current_dir().unwrap().join("given/tokens");
        for path in ["/settings/config.toml", "/settings/tokens.jsonl", "/settings/remote.key", "/vault/sealing.key"] {
            assert!(secrets.paths().contains(&PathBuf::from(path)), "{path}");
        }
        assert!(secrets.paths().contains(&given));
    }
}
