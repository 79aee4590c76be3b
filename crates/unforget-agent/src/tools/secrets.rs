//! What tools never see: the one list of keys, tokens, settings and credentials.
//!
//! A model reads whatever its tools read, and a service far away keeps it. So the files that open doors are out of reach of
//! every tool: the program's own keys, tokens, settings and history, and the credentials of the clients that people
//! have on their machines. File tools, the server's tools and the sandbox of commands all take this list.
//!
//! A path of the list is a file or a folder with everything in it, and need not exist. Existing ones are known by device and
//! inode, so that links and `..` make no difference; missing ones are known by their folder and name. What this list
//! does not know is a second hard link to a file *inside* a listed folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::place::{Identity, identity};

/// Credentials below the home directory.
const BELOW_HOME: [&str; 42] = [
    // Shells and version control.
    ".ssh",
    ".gnupg",
    ".netrc",
    "_netrc",
    ".authinfo",
    ".authinfo.gpg",
    ".git-credentials",
    ".password-store",
    // Clouds and clusters.
    ".aws",
    ".azure",
    ".boto",
    ".s3cfg",
    ".kube",
    ".oci",
    ".bluemix",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    ".fly",
    ".databrickscfg",
    ".docker/config.json",
    ".docker/contexts",
    // Packages.
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pip/pip.conf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet/NuGet.Config",
    ".composer/auth.json",
    // Databases, models, keyrings, browsers.
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".mozilla",
];

/// Credentials below the folders of settings (`$XDG_CONFIG_HOME`, `~/.config`).
const BELOW_SETTINGS: [&str; 17] = [
    "unforget",
    "gcloud",
    "gh",
    "glab-cli",
    "hub",
    "git/credentials",
    "pip/pip.conf",
    "pypoetry/auth.toml",
    "uv/credentials",
    "npm/npmrc",
    "containers/auth.json",
    "doctl",
    "hcloud",
    "rclone",
    "op",
    "google-chrome",
    "chromium",
];

/// Credentials below the folders of data (`$XDG_DATA_HOME`, `~/.local/share`).
const BELOW_DATA: [&str; 4] = ["keyrings", "kwalletd", "uv/credentials", "pypoetry/auth.toml"];

/// Variables that name a file or folder with credentials; some name several, as in a path.
const NAMED: [&str; 21] = [
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CONFIG_DIR",
    "BOTO_CONFIG",
    "CLOUDSDK_CONFIG",
    "COMPOSER_AUTH_FILE",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HF_TOKEN_PATH",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_userconfig",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
    "PIP_CONFIG_FILE",
    "REGISTRY_AUTH_FILE",
    "TF_CLI_CONFIG_FILE",
];

/// Folders that a variable may have moved, and the credentials in them.
const MOVED: [(&str, &str); 5] = [
    ("CARGO_HOME", "credentials"),
    ("CARGO_HOME", "credentials.toml"),
    ("CLAUDE_CONFIG_DIR", ".credentials.json"),
    ("CODEX_HOME", "auth.json"),
    ("HF_HOME", "token"),
];

/// Where each process shows its memory and its environment. Commands need it; file tools do not.
const PROCESSES: &str = "/proc";

/// Files and folders that tools never see.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    paths: Vec<PathBuf>,
}

impl Secrets {
    /// The credentials that programs keep for the person with this environment.
    pub fn known(environment: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let path = |name: &str| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut paths = Vec::new();
        if let Some(home) = path("HOME") {
            paths.extend(BELOW_HOME.iter().map(|name| home.join(name)));
            paths.extend(BELOW_SETTINGS.iter().map(|name| home.join(".config").join(name)));
            paths.extend(BELOW_DATA.iter().map(|name| home.join(".local/share").join(name)));
        }
        for (variable, names) in [("XDG_CONFIG_HOME", &BELOW_SETTINGS[..]), ("XDG_DATA_HOME", &BELOW_DATA[..])] {
            paths.extend(path(variable).iter().flat_map(|folder| names.iter().map(|name| folder.join(name))));
        }
        for variable in NAMED {
            paths.extend(environment(variable).iter().flat_map(std::env::split_paths));
        }
        paths.extend(MOVED.iter().filter_map(|(variable, name)| Some(path(variable)?.join(name))));
        paths.into_iter().fold(Self::default(), Self::and)
    }

    /// The same with one more, which need not exist. Only an absolute path names a place.
    #[must_use]
    pub fn and(mut self, path: PathBuf) -> Self {
        // A variable that says `/dev/null` names nothing, and the root cannot be hidden.
        let is_place = path.is_absolute() && path.parent().is_some() && !path.starts_with("/dev");
        if is_place && !self.paths.contains(&path) {
            self.paths.push(path);
        }
        self
    }

    /// The paths, as they were given.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// What the list means on the disk now, for tools that read files themselves.
    pub(super) fn now(&self) -> Known {
        let place = |path: &PathBuf| Some((identity_of(path.parent()?)?, path.file_name()?.to_owned()));
        let processes = identity_of(Path::new(PROCESSES));
        Known {
            identities: self.paths.iter().filter_map(|path| identity_of(path)).chain(processes).collect(),
            places: self.paths.iter().filter_map(place).collect(),
        }
    }
}

fn identity_of(path: &Path) -> Option<Identity> {
    rustix::fs::stat(path).ok().map(|stat| identity(&stat))
}

/// What a list means on the disk at one moment.
#[derive(Debug)]
pub(super) struct Known {
    identities: Vec<Identity>,
    /// Folder and name, for what is not there yet.
    places: Vec<(Identity, std::ffi::OsString)>,
}

impl Known {
    /// Whether this is one of the files or folders.
    pub(super) fn contains(&self, identity: Identity) -> bool {
        self.identities.contains(&identity)
    }

    /// Whether the name in this folder is one of the places.
    pub(super) fn has_place(&self, folder: Identity, name: &OsStr) -> bool {
        self.places.iter().any(|(in_folder, is_called)| *in_folder == folder && is_called == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_the_list_follows_the_variables_that_move_credentials() {
        let environment = |name: &str| {
            let value = match name {
                "HOME" => "/home/ada",
                "XDG_CONFIG_HOME" => "/settings",
                "KUBECONFIG" => "/clusters/one:/clusters/two",
                "CARGO_HOME" => "/cargo",
                "PIP_CONFIG_FILE" => "/dev/null",
                "NETRC" => "relative",
                _ => return None,
            };
            Some(value.into())
        };
        let secrets = Secrets::known(environment);
        let has = |path: &str| secrets.paths().contains(&PathBuf::from(path));
        for path in [
            "/home/ada/.ssh",
            "/home/ada/.aws",
            "/home/ada/.config/unforget",
            "/settings/unforget",
            "/settings/gcloud",
            "/clusters/one",
            "/clusters/two",
            "/cargo/credentials.toml",
        ] {
            assert!(has(path), "{path}");
        }
        assert!(secrets.paths().iter().all(|path| path.is_absolute() && !path.starts_with("/dev")));
        assert!(!has("/") && !has("/home/ada"));
    }
}
