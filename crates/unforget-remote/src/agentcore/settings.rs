//! Which memory, where, and as whom.
//!
//! Everything is handed in: the environment, the home directory and the text of the deployment's own settings (`.bedrock_agentcore.yaml`), which name the memory in two
//! spellings, depending on who wrote them. Of that file a few keys are wanted, so it is read by lines; what cannot be read is passed over, and
//! then the memory has to be named elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::pace::Rates;
use crate::error::{Error, Result};

/// What is needed to reach a memory.
#[derive(Clone)]
pub struct Settings {
    /// The memory's id, or its ARN.
    pub memory: String,
    /// The region.
    pub region: String,
    /// Where the service is, if not where AWS has it.
    pub endpoint: Option<String>,
    /// The environment that credentials are looked for in.
    pub environment: HashMap<String, String>,
    /// The directory that has `.aws` in it.
    pub home: Option<PathBuf>,
    /// How many requests a second are made at the most; none for any number.
    pub rates: Option<Rates>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment has keys in it, and an address may.
        f.debug_struct("Settings").field("memory", &self.memory).field("region", &self.region).finish_non_exhaustive()
    }
}

/// What is in files that others wrote.
#[derive(Debug, Clone, Copy, Default)]
pub struct Texts<'a> {
    /// `.bedrock_agentcore.yaml`.
    pub deployment: Option<&'a str>,
    /// `~/.aws/config`, or what `AWS_CONFIG_FILE` names.
    pub config: Option<&'a str>,
}

/// The region of a profile.
fn region_of(config: &str, profile: &str) -> Option<String> {
    let mut is_ours = false;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let name = section.trim().strip_prefix("profile ").unwrap_or(section).trim();
            is_ours = name == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_ours)
            && name.trim() == "region"
        {
            return Some(value.split(['#', ';']).next().unwrap_or_default().trim().to_owned());
        }
    }
    None
}

/// What a deployment's settings say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Deployment {
    memory: Option<String>,
    region: Option<String>,
}

impl Settings {
    /// Finds out which memory is meant: the one that was named, else the environment's, else the deployment's.
    pub fn find(
        memory: Option<&str>,
        environment: HashMap<String, String>,
        home: Option<PathBuf>,
        texts: Texts<'_>,
    ) -> Result<Self> {
        let deployment = texts.deployment.map(Deployment::read).unwrap_or_default();
        let value = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
        let memory = memory.map(str::to_owned).or_else(|| value("BEDROCK_AGENTCORE_MEMORY_ID")).or(deployment.memory);
        let memory = memory.ok_or_else(|| {
            let text = "no memory is named: not in the address (agentcore://ID), not in BEDROCK_AGENTCORE_MEMORY_ID, \
                        not in .bedrock_agentcore.yaml";
            Error::Invalid(text.to_owned())
        })?;
        if !is_memory(&memory) {
            return Err(Error::Invalid(format!("`{memory}` is no memory's id; one looks like notes-a1B2c3D4e5")));
        }
        let of_name = memory.strip_prefix("arn:").and_then(|arn| arn.split(':').nth(2)).map(str::to_owned);
        let region = of_name.or_else(|| value("AWS_REGION")).or_else(|| value("AWS_DEFAULT_REGION"));
        let profile = value("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        let of_profile = || texts.config.and_then(|config| region_of(config, &profile));
        let region = region.or(deployment.region).or_else(of_profile).ok_or_else(|| {
            let text = "no region is named: set AWS_REGION, have one in the profile, or name the memory by its ARN";
            Error::Invalid(text.to_owned())
        })?;
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::Invalid(format!("`{region}` is no region")));
        }
        let is_ignored = value("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(|value| value == "true");
        let endpoint = value("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE").or_else(|| value("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.filter(|_| !is_ignored);
        Ok(Self { memory, region, endpoint, environment, home, rates: Some(Rates::default()) })
    }

    /// Where the service is.
    pub(super) fn endpoint(&self) -> Result<String> {
        let Some(endpoint) = &self.endpoint else {
            let domain = if self.region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            return Ok(format!("https://bedrock-agentcore.{}.{domain}", self.region));
        };
        let wrong = || Error::Invalid("the address of AgentCore's endpoint cannot be read".to_owned());
        let url = Url::parse(endpoint).map_err(|_| wrong())?;
        let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !is_plain {
            return Err(wrong());
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }
}

/// Whether a text is a memory's id or ARN.
fn is_memory(text: &str) -> bool {
    let id = match text.strip_prefix("arn:") {
        Some(arn) => match arn.split(':').collect::<Vec<_>>().as_slice() {
            [_, "bedrock-agentcore", _, _, name] => name.strip_prefix("memory/").unwrap_or_default(),
            _ => "",
        },
        None => text,
    };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let (name, tail) = id.rsplit_once('-').unwrap_or_default();
    id.starts_with(|first: char| first.is_ascii_alphabetic())
        && (1..=100).contains(&name.len())
        && name.bytes().all(is_word)
        && tail.len() == 10
        && tail.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Deployment {
    /// Reads the keys that are wanted: those of the default agent, else the first ones.
    fn read(text: &str) -> Self {
        let entries = entries(text);
        let find = |path: &[&str]| {
            let ends =
                |entry: &&(Vec<String>, String)| entry.0.iter().map(String::as_str).collect::<Vec<_>>().ends_with(path);
            let named = entries.iter().find(|(path, _)| path.len() == 1 && path[0] == "default_agent");
            let of_named = named.and_then(|(_, agent)| {
                entries.iter().filter(ends).find(|(path, _)| path.len() > 2 && path[0] == "agents" && path[1] == *agent)
            });
            of_named.or_else(|| entries.iter().find(ends)).map(|(_, value)| value.clone())
        };
        let memory =
            [&["memory", "memory_id"][..], &["memory", "id"], &["memory", "memory_arn"]].into_iter().find_map(find);
        Self { memory, region: find(&["aws", "region"]).or_else(|| find(&["region"])) }
    }
}

/// The scalars of nested maps with their paths; anything else is passed over.
fn entries(text: &str) -> Vec<(Vec<String>, String)> {
    let mut entries = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start_matches(' ');
        let depth = line.len() - content.len();
        let Some((key, value)) = content.split_once(':').filter(|_| !content.starts_with(['#', '-'])) else { continue };
        path.retain(|(of, _)| *of < depth);
        path.push((depth, scalar(key)));
        let names = || path.iter().map(|(_, name)| name.clone());
        let value = value.trim();
        if let Some(inside) = value.strip_prefix('{').and_then(|value| value.split('}').next()) {
            for (key, value) in inside.split(',').filter_map(|pair| pair.split_once(':')) {
                entries.push((names().chain([scalar(key)]).collect(), scalar(value)));
            }
            continue;
        }
        let value = scalar(value);
        if !value.is_empty() {
            entries.push((names().collect(), value));
        }
    }
    entries.retain(|(_, value)| !matches!(value.as_str(), "" | "null" | "~"));
    entries
}

/// A key or a value without quotes and comments.
fn scalar(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default().to_owned();
        }
    }
    if text.starts_with('#') {
        return String::new();
    }
    text.split(" #").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(values: &[(&str, &str)]) -> HashMap<String, String> {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn both_spellings_of_a_deployment_are_read() {
        let toolkit = "default_agent: two\nagents:\n  one:\n    aws:\n      region: eu-west-1\n    memory:\n      memory_id: one-aaaaaaaaaa\n  \
                       two:\n    aws:\n      region: 'us-west-2'  # home\n    memory:\n      mode: STM_ONLY\n      \
                       memory_id: \"two-bbbbbbbbbb\"\n      event_expiry_days: 30\n";
        let read = Deployment::read(toolkit);
        assert_eq!(
            read,
            Deployment { memory: Some("two-bbbbbbbbbb".to_owned()), region: Some("us-west-2".to_owned()) }
        );
        let plain = "# mine\nmemory:\n  id: plain-cccccccccc\n  retention:\n    eventExpiryInDays: 30\n";
        assert_eq!(Deployment::read(plain).memory.as_deref(), Some("plain-cccccccccc"));
        assert_eq!(
            Deployment::read("memory: {id: flow-dddddddddd, mode: x}").memory.as_deref(),
            Some("flow-dddddddddd")
        );
        assert_eq!(Deployment::read("memory:\n  memory_id: null\n  id:\n"), Deployment::default());
        assert_eq!(Deployment::read("\0: {\n- : : :\n   }{"), Deployment::default());
    }

    #[test]
    fn the_region_of_a_profile_is_the_last_resort() {
        let config = "[default]\nregion = eu-west-3 # here\n\n[profile work]\noutput=json\nregion=us-west-2\n[sso-session x]\nregion = no\n";
        let region = |values: &[(&str, &str)]| {
            let texts = Texts { deployment: None, config: Some(config) };
            Settings::find(Some("a-aaaaaaaaaa"), environment(values), None, texts).map(|found| found.region).ok()
        };
        assert_eq!(region(&[]).as_deref(), Some("eu-west-3"));
        assert_eq!(region(&[("AWS_PROFILE", "work")]).as_deref(), Some("us-west-2"));
        assert_eq!(region(&[("AWS_PROFILE", "work"), ("AWS_REGION", "eu-north-1")]).as_deref(), Some("eu-north-1"));
        assert_eq!(region(&[("AWS_PROFILE", "other")]), None);
    }

    #[test]
    fn what_was_named_comes_before_the_environment_and_that_before_the_deployment() {
        let all = environment(&[("BEDROCK_AGENTCORE_MEMORY_ID", "env-aaaaaaaaaa"), ("AWS_REGION", "eu-west-1")]);
        let texts = Texts {
            deployment: Some("memory:\n  id: file-aaaaaaaaaa\nregion: us-east-2\n"),
            config: Some("[default]\nregion = ap-south-1\n"),
        };
        let find = |memory, environment| {
            let found = Settings::find(memory, environment, None, texts);
            found.map(|found| (found.memory, found.region))
        };
        let pair = |memory: &str, region: &str| (memory.to_owned(), region.to_owned());
        assert_eq!(find(Some("said-aaaaaaaaaa"), all.clone()).unwrap(), pair("said-aaaaaaaaaa", "eu-west-1"));
        assert_eq!(find(None, all).unwrap(), pair("env-aaaaaaaaaa", "eu-west-1"));
        assert_eq!(find(None, HashMap::new()).unwrap(), pair("file-aaaaaaaaaa", "us-east-2"));
        let arn = "arn:aws:bedrock-agentcore:ap-south-1:123456789012:memory/arn-aaaaaaaaaa";
        assert_eq!(find(Some(arn), HashMap::new()).unwrap(), pair(arn, "ap-south-1"));
        assert!(matches!(find(Some("x"), HashMap::new()), Err(Error::Invalid(_))));
        assert!(matches!(Settings::find(None, HashMap::new(), None, Texts::default()), Err(Error::Invalid(_))));
    }

    #[test]
    fn keys_are_never_shown() {
        let values = environment(&[("AWS_SECRET_ACCESS_KEY", "s3cret"), ("AWS_REGION", "eu-west-1")]);
        let settings = Settings::find(Some("a-aaaaaaaaaa"), values, None, Texts::default()).unwrap();
        assert!(!format!("{settings:?}").contains("s3cret"));
        let wrong = Settings { endpoint: Some("http://me:s3cret@host".to_owned()), ..settings };
        assert!(!wrong.endpoint().unwrap_err().to_string().contains("s3cret"));
    }

    #[test]
    fn the_endpoint_is_the_regions_unless_another_is_named() {
        let values = [("AWS_REGION", "eu-west-1"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1/")];
        let find = |values: &[(&str, &str)]| {
            Settings::find(Some("a-aaaaaaaaaa"), environment(values), None, Texts::default())
                .unwrap()
                .endpoint()
                .unwrap()
        };
        assert_eq!(find(&values[..1]), "https://bedrock-agentcore.eu-west-1.amazonaws.com");
        assert_eq!(find(&values), "http://127.0.0.1:1");
        let both = [values[0], values[1], ("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", "http://127.0.0.1:2")];
        assert_eq!(find(&both), "http://127.0.0.1:2");
    }
}
