//! How commands run: which variables of the environment they get, and in which sandbox.
//!
//! The environment of a person's shell is full of keys, and nobody can list them all. So a command gets only what is on
//! a list: what programs need to find their way about, and nothing that opens a door. A setting adds names to it.

use std::ffi::OsString;

use serde_json::Value;

use super::Call;
use super::sandbox::Sandbox;

/// The variables that every command gets, if they are set.
const PASSED: [&str; 50] = [
    "CC",
    "CARGO_HOME",
    "CI",
    "CLICOLOR",
    "COLORTERM",
    "COLUMNS",
    "CXX",
    "FORCE_COLOR",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "HOME",
    "HOSTNAME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LINES",
    "LOGNAME",
    "LS_COLORS",
    "MAKEFLAGS",
    "MANPATH",
    "NODE_PATH",
    "NO_COLOR",
    "NVM_BIN",
    "NVM_DIR",
    "PATH",
    "PKG_CONFIG_PATH",
    "PYENV_ROOT",
    "PYTHONPATH",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TERMINFO",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];
/// What the names of the variables of a locale begin with.
const LOCALE: &str = "LC_";

/// How commands run.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// Names that a setting adds; one that ends in `*` stands for all that begin so.
    environment: Vec<String>,
    pub(super) sandbox: Option<Sandbox>,
}

/// The name that allows commands outside the sandbox in advance; `all` does not.
pub const OUTSIDE: &str = "bash_outside";

/// Whether a call wants to run a command outside the sandbox.
pub fn is_outside(call: &Call) -> bool {
    let wants =
        |input: Value| input.get("outside").is_some_and(|outside| outside != &Value::Bool(false) && !outside.is_null());
    call.name == "bash" && serde_json::from_str(&call.input).is_ok_and(wants)
}

/// Whether one of these names allows a call in advance.
pub fn is_allowed_by<'n>(call: &Call, mut names: impl Iterator<Item = &'n String>) -> bool {
    let is_outside = is_outside(call);
    names.any(|name| if is_outside { name == OUTSIDE } else { *name == call.name || name == "all" })
}

impl Commands {
    /// Commands that get these variables, too.
    pub fn new(environment: &[String]) -> Self {
        Self { environment: environment.to_vec(), sandbox: None }
    }

    /// The same in a sandbox.
    #[must_use]
    pub fn confined(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// What a command gets of these variables.
    pub(super) fn environment(
        &self,
        all: impl Iterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (OsString, OsString)> {
        all.filter(|(name, _)| name.to_str().is_some_and(|name| self.passes(name)))
    }

    fn passes(&self, name: &str) -> bool {
        let is_added = |added: &String| match added.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == added,
        };
        PASSED.contains(&name) || name.starts_with(LOCALE) || self.environment.iter().any(is_added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_only_its_own_name_allows_a_command_outside_the_sandbox() {
        let call = |input: &str| Call { id: String::new(), name: "bash".to_owned(), input: input.to_owned() };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let outside = call(r#"{"command":"ls","outside":true}"#);
        for (list, inside, beyond) in [
            (names(&["bash"]), true, false),
            (names(&["all"]), true, false),
            (names(&["bash_outside"]), false, true),
            (names(&["all", "bash_outside"]), true, true),
        ] {
            assert_eq!(is_allowed_by(&call(r#"{"command":"ls"}"#), list.iter()), inside, "{list:?}");
            assert_eq!(is_allowed_by(&call(r#"{"command":"ls","outside":false}"#), list.iter()), inside, "{list:?}");
            assert_eq!(is_allowed_by(&outside, list.iter()), beyond, "{list:?}");
        }
    }

    #[test]
    fn s6_a_command_gets_what_is_on_the_list_and_what_a_setting_adds() {
        let all = [
            "PATH",
            "HOME",
            "LC_ALL",
            "UNFORGET_REMOTE",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "SSH_AUTH_SOCK",
            "PROJECT_STAGE",
            "PROJECT_HOST",
            "DATABASE_URL",
        ];
        let passed = |commands: &Commands| {
            let names = commands.environment(all.iter().map(|name| (name.into(), "value".into())));
            names.map(|(name, _)| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(passed(&Commands::default()), ["PATH", "HOME", "LC_ALL"]);
        let added = Commands::new(&["PROJECT_*".to_owned(), "DATABASE_URL".to_owned()]);
        assert_eq!(passed(&added), ["PATH", "HOME", "LC_ALL", "PROJECT_STAGE", "PROJECT_HOST", "DATABASE_URL"]);
    }
}
