//! Secrets that look like secrets, made unreadable in what is shown.
//!
//! A transcript keeps every byte, and a search finds a record by a key that was pasted into it. What is shown of it on the way
//! (a snippet, on a screen that someone shares) has only the first characters and the length. The shapes are those that
//! issuers publish, and assignments whose name says what the value is: rather a secret too few than half of a page
//! masked for nothing. Nothing here touches a log.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// What stands in place of the rest of a secret, up to its length.
pub const MARK: &str = "…[masked ";
/// How many characters of a secret stay.
const KEPT: usize = 4;
/// Compiled, the shapes take less than this.
const MAX_PROGRAM: usize = 8 << 20;

/// What secrets look like: the first group is what is masked.
const SHAPES: [&str; 37] = [
    // Anthropic, OpenAI and others that took the form over.
    r"\b(sk-ant-[A-Za-z0-9_-]{16,})",
    r"\b(sk-(?:proj-|svcacct-|admin-|or-v1-|lf-)?[A-Za-z0-9_-]{20,})",
    r"\b((?:xai|pplx|tvly|nvapi)-[A-Za-z0-9_-]{20,})",
    r"\b((?:gsk|hf|r8|lin_api|dckr_pat|rubygems|figd)_[A-Za-z0-9_-]{20,})",
    // AWS, Google, Azure, Cloudflare's neighbours.
    r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b",
    r"\b(AIza[0-9A-Za-z_-]{30,})",
    r"\b(ya29\.[0-9A-Za-z_-]{20,})",
    r"\b(GOCSPX-[A-Za-z0-9_-]{20,})",
    r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/=]{40,})",
    r"[?&]sig=([A-Za-z0-9%+/=]{30,})",
    r"\b(do[opr]_v1_[a-f0-9]{40,})",
    r"\b(dapi[a-f0-9]{32})\b",
    r"\b(hv[bs]\.[A-Za-z0-9_-]{20,})",
    // Forges, package registries.
    r"\b(gh[pousr]_[A-Za-z0-9]{30,})",
    r"\b(github_pat_[A-Za-z0-9_]{30,})",
    r"\b(gl(?:pat|ptt|dt|rt|cbt|soat|agent)-[A-Za-z0-9_-]{20,})",
    r"\b(npm_[A-Za-z0-9]{36})\b",
    r"\b(pypi-[A-Za-z0-9_-]{30,})",
    r"\b(ATATT[A-Za-z0-9_=-]{40,})",
    // Messengers, mail, payments, shops.
    r"\b(xox[abeoprs]-[A-Za-z0-9-]{10,})",
    r"\b(xapp-[0-9]-[A-Za-z0-9-]{10,})",
    r"hooks\.slack\.com/services/([A-Za-z0-9/]{20,})",
    r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{32,})",
    r"\b([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
    r"\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
    r"\b((?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,})",
    r"\b(whsec_[A-Za-z0-9+/=]{24,})",
    r"\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b",
    // This program's own: tokens of its server, and the key that seals a remote.
    r"\b(uft_[A-Za-z0-9_-]{20,})",
    r"(?i:remote|seal|encryption)[ ._-]?(?i:key)\b[^A-Za-z0-9]{1,16}([0-9a-fA-F]{64})\b",
    // Forms that many use.
    r"\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----((?:[^-]|-[^-]){16,})",
    r"\b(AGE-SECRET-KEY-1[0-9A-Z]{50,})",
    r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^[:space:]/:@]{0,64}:([^[:space:]/@]{3,})@",
    r"(?i:\bbearer[[:space:]]+|\bauthorization:[[:space:]]*basic[[:space:]]+)([A-Za-z0-9._~+/=-]{16,})",
    r#"--(?i:password|passwd|token|secret|api-?key)[[:space:]]+([^[:space:]"'`,;<>(){}\[\]$]{8,})"#,
    // An assignment whose name says what it is; the value must look like one, see `is_value`.
    ASSIGNMENT,
];
const ASSIGNMENT: &str = r#"(?i:passwor[dt]|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret|credentials?)["']?[[:space:]]*[:=]>?[[:space:]]*["']?([^[:space:]"'`,;<>(){}\[\]]{8,64})"#;

/// All shapes at once; none if they could not be compiled, which a test would notice.
static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // Word boundaries of ASCII: a secret has nothing else.
    let shapes = SHAPES.join("|").replace(r"\b", r"(?-u:\b)");
    regex::RegexBuilder::new(&shapes).size_limit(MAX_PROGRAM).build().ok()
});

/// The text with everything in it masked that looks like a secret.
pub fn mask(text: &str) -> Cow<'_, str> {
    let Some(secrets) = SECRETS.as_ref() else { return Cow::Borrowed(text) };
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = secrets.captures_at(text, at) {
        let group = found.iter().enumerate().skip(1).find_map(|(number, group)| Some((number, group?)));
        let whole = found.get(0).map_or(text.len(), |whole| whole.end());
        let Some((number, secret)) = group else { break };
        if number == SHAPES.len() && !is_value(secret.as_str()) {
            // What was taken for a value may hold a secret of its own.
            at = secret.start().max(at + 1);
            continue;
        }
        let end = if number == SHAPES.len() { end_of_value(text, secret.end()) } else { secret.end() };
        at = whole.max(end).max(at + 1);
        out.push_str(&text[copied..secret.start()]);
        out.push_str(&masked(&text[secret.start()..end]));
        copied = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Where a value ends whose beginning was found. The shape takes a bounded part of it, because what turns out to be no value is
/// looked through again: `token=token=token=…` would be read to its end once for each of them.
fn end_of_value(text: &str, from: usize) -> usize {
    let ends = |c: char| c.is_whitespace() || "\"'`,;<>(){}[]".contains(c);
    text[from..].find(ends).map_or(text.len(), |at| from + at)
}

fn masked(secret: &str) -> String {
    let kept: String = secret.chars().take(KEPT).collect();
    format!("{kept}{MARK}{}]", secret.chars().count())
}

/// Whether what is assigned is a value and no word, type or call.
fn is_value(text: &str) -> bool {
    let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
    has(char::is_ascii_digit) && has(char::is_ascii_alphabetic) && !text.contains("::") && !text.contains(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_of_names_is_read_in_a_time_that_grows_with_its_length() {
        let begin = std::time::Instant::now();
        let row = "token=".repeat(100_000);
        assert_eq!(mask(&row), row);
        assert!(begin.elapsed() < std::time::Duration::from_secs(120), "{:?}", begin.elapsed());
        let long = format!("password={} next", "a1".repeat(500));
        assert_eq!(mask(&long), "password=a1a1…[masked 1000] next");
    }

    #[test]
    fn s14_the_tokens_and_keys_of_this_program_are_masked() {
        let (token, key) = ("uft_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V", "0123456789abcdef".repeat(4));
        for text in [
            format!("the token is {token}."),
            format!("$ cat ~/.config/unforget/remote.key\n{key}\n"),
            format!("UNFORGET_REMOTE_KEY={key}"),
            format!("remote_key: \"{key}\""),
            format!("the remote key ({key})"),
        ] {
            let masked = mask(&text);
            assert!(masked.contains(MARK) && !masked.contains(token) && !masked.contains(&key), "{masked}");
        }
        // Checksums look the same and are no secrets.
        let sum = format!("sha256 {key}");
        assert_eq!(mask(&sum), sum);
    }

    #[test]
    fn secrets_of_all_shapes_are_masked() {
        let long = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
        let hex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let samples = [
            format!("sk-ant-api03-{long}"),
            format!("sk-proj-{long}"),
            format!("xai-{long}"),
            format!("hf_{long}"),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("AIza{}", &long[..35]),
            format!("ya29.{long}"),
            format!("GOCSPX-{long}"),
            format!("AccountKey={long}=="),
            format!("https://x/y?sig={long}"),
            format!("dop_v1_{hex}"),
            format!("dapi{}", &hex[..32]),
            format!("hvs.{long}"),
            format!("ghp_{long}"),
            format!("github_pat_{long}"),
            format!("glpat-{long}"),
            format!("npm_{}", &long[..36]),
            format!("pypi-{long}"),
            format!("ATATT{long}"),
            format!("xoxb-1234-{long}"),
            format!("xapp-1-{long}"),
            format!("https://hooks.slack.com/services/T000/B000/{long}"),
            format!("123456789:AA{}", &long[..33]),
            format!("M{}.{}.{}", &long[..23], &long[..6], &long[..27]),
            format!("SG.{}.{long}", &long[..22]),
            format!("sk_live_{long}"),
            format!("whsec_{long}"),
            format!("shpat_{}", &hex[..32]),
            format!("eyJ{long}.eyJ{long}.{long}"),
            format!("-----BEGIN RSA PRIVATE KEY-----\n{long}\n{long}\n-----END RSA PRIVATE KEY-----"),
            format!("AGE-SECRET-KEY-1{}", long.to_uppercase().repeat(2)),
            format!("postgres://ada:{long}@db/x"),
            format!("Authorization: Bearer {long}"),
            format!("password={long}"),
            format!("\"api_key\": \"{long}\""),
            format!("--token {long}"),
            "PASSWORD='hunter2hunter2'".to_owned(),
        ];
        for sample in samples {
            let text = format!("before {sample} after");
            let shown = mask(&text);
            assert!(
                shown.contains(MARK) && !shown.contains(&long[6..20]) && !shown.contains(&hex[8..20]),
                "{sample}: {shown}"
            );
            assert!(shown.starts_with("before ") && shown.ends_with(" after"), "{shown}");
        }
        assert!(SECRETS.is_some());
    }

    #[test]
    fn the_beginning_and_the_length_stay() {
        let secret = format!("sk-ant-api03-{}", "x".repeat(38));
        assert_eq!(mask(&format!("key {secret}!")), "key sk-a…[masked 51]!");
        assert_eq!(mask("db: postgres://ada:s3cret@host/x"), "db: postgres://ada:s3cr…[masked 6]@host/x");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "the token: a word of a text",
            "password: Option<String>, token: SecretString",
            "let token = tokens::estimate(text);",
            "a password must have twelve characters",
            "https://example.com:8080/path?x=1@y",
            "commit 2eb3f01a9d3b4c5d6e7f8091a2b3c4d5e6f70819",
            "019b1a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b",
            "task-oriented risk-averse disk-space-management-in-general",
            "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ",
            "会话持久化 sk-",
        ] {
            assert_eq!(mask(text), text);
        }
    }

    /// What hides secrets in a browser is held to the same cases.
    #[test]
    fn the_page_hides_what_is_masked_here() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("../../../web/units/secrets.json")).unwrap();
        // Written in pieces, so that no file looks as if it held somebody's key.
        let whole = |parts: &serde_json::Value| -> String {
            parts.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect()
        };
        for case in cases.as_array().unwrap() {
            let text = whole(&case["text"]);
            let secrets = case["secrets"].as_array().unwrap().iter().map(whole);
            let wanted = secrets.fold(text.clone(), |text, secret| text.replacen(&secret, &masked(&secret), 1));
            assert_eq!(mask(&text), wanted);
        }
    }

    #[test]
    fn masking_twice_changes_nothing_more() {
        let once = mask("token=abc123def456 and Bearer abcdefghijklmnop1234").into_owned();
        assert_eq!(mask(&once), once);
        assert!(!once.contains("def456") && !once.contains("mnop1234"), "{once}");
    }
}
