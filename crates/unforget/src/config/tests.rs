//! Which source wins, and what is said about values that cannot be.

use super::*;

fn file(text: &str) -> File {
    File::parse(Path::new("/etc/config.toml"), text).unwrap()
}

fn load_all(flags: Flags, environment: &[(&str, &str)], text: &str) -> Result<Config> {
    let environment =
        |name: &str| environment.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned());
    Config::load(&flags, environment, &file(text))
}

fn origin(config: &Config, name: &str) -> Origin {
    Values(&config.chosen).origin(name)
}

fn message(result: Result<Config>) -> String {
    format!("{:?}", result.unwrap_err())
}

#[test]
fn every_default_is_a_value_of_its_setting() {
    for setting in &SETTINGS {
        if let Some(text) = setting.default {
            assert!(setting.kind.read(text).is_ok(), "{}", setting.name);
        }
    }
    let config = load_all(Flags::default(), &[], "").unwrap();
    assert_eq!((config.max_tokens, config.window, config.max_steps, config.tool_output), (8096, 200_000, 100, 16_384));
    assert_eq!(
        (config.key.to_string().as_str(), config.titles, config.thinking),
        ("main:cli:user", Titles::Local, Thinking::Default)
    );
    assert!(config.allow.is_empty() && config.api_key.is_none() && config.keep_tokens.is_none());
    assert!(config.chosen.iter().all(|found| found.origin == Origin::Default));
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let text = "# mine\nmax_tokens = 3\nmodel = 'from-file'\n";
    let from_file = load_all(Flags::default(), &[("MODEL_ID", "")], text).unwrap();
    assert_eq!(from_file.model, "from-file", "an empty variable says nothing");
    assert_eq!(origin(&from_file, "model"), Origin::File("/etc/config.toml".into(), 3));
    let variable = [("MODEL_ID", "from-environment")];
    let from_environment = load_all(Flags::default(), &variable, text).unwrap();
    assert_eq!(from_environment.model, "from-environment");
    assert_eq!(origin(&from_environment, "model"), Origin::Environment("MODEL_ID"));
    let from_flag = load_all(Flags::default().with("model", "from-flag"), &variable, text).unwrap();
    assert_eq!((from_flag.model.as_str(), from_flag.max_tokens), ("from-flag", 3));
    assert_eq!(origin(&from_flag, "model"), Origin::Flag("--model"));
}

#[test]
fn every_kind_of_value_can_stand_in_a_file() {
    let config = load_all(
        Flags::default(),
        &[("HOME", "/home/me")],
        "base_url = 'http://127.0.0.1:9/'\nthinking = 4096\ncompact_at = 0.5\nkeep_tokens = 0\nallow = ['bash', 'edit_file']\n\
         workspace = '~/work'\nkey = 'peer'\nsystem_file = 'prompt.md'\ntitles = 'model'\napi_key = 'sk-1'\n",
    )
    .unwrap();
    assert_eq!((config.base_url.as_str(), config.thinking), ("http://127.0.0.1:9", Thinking::Budget(4096)));
    assert_eq!((config.compact_at, config.keep_tokens, config.titles), (0.5, Some(0), Titles::Model));
    assert_eq!(config.allow, ["bash", "edit_file"]);
    assert_eq!(config.workspace, Path::new("/home/me/work"));
    assert_eq!(config.system_file.as_deref(), Some(Path::new("/etc/prompt.md")), "beside the file that names it");
    assert_eq!(config.key.to_string(), "main:cli:peer");
    assert!(!format!("{config:?}").contains("sk-1"), "a key is never shown");
}

#[test]
fn the_window_follows_the_model_unless_it_is_said() {
    let window = |environment: &[(&str, &str)]| load_all(Flags::default(), environment, "").unwrap().window;
    assert_eq!(window(&[("MODEL_ID", "claude-opus-5[1m]")]), 1_000_000);
    assert_eq!(window(&[("MODEL_ID", "claude-opus-5")]), 200_000);
    assert_eq!(window(&[("MODEL_ID", "claude-opus-5[1m]"), ("UNFORGET_WINDOW", "32_000")]), 32_000);
}

#[test]
fn a_wrong_value_is_told_with_its_place_and_what_would_be_right() {
    for (text, told) in [
        ("\nmax_tokens = 'many'", "line 2: `max_tokens` must be a whole number from 1 to 1000000"),
        ("max_tokens = 0", "line 1: `max_tokens` must be a whole number"),
        ("compact_at = 2.0", "`compact_at` must be a number from 0.05 to 0.99"),
        ("titles = 'robot'", "`titles` must be \\\"local\\\" or \\\"model\\\""),
        ("thinking = 5", "or a whole number of at least 1024"),
        ("allow = 'bash'", "`allow` must be a list of names"),
        ("allow = [1]", "`allow` must be a list of names"),
        ("base_url = 'example.org'", "`base_url` must be an address that begins with https://"),
        ("model = ''", "`model` must be a text with something in it"),
        ("[model]\nx = 1", "line 1: `model` must be a text"),
        ("window = 5000", "`max_tokens` is 8096 and `window` only 5000"),
        ("system = 'a'\nsystem_file = 'b'", "line 2: `system_file` and `system` are both set"),
    ] {
        let said = message(load_all(Flags::default(), &[], text));
        assert!(said.contains(told) && said.contains("code: 2"), "{text}: {said}");
    }
    let said = message(load_all(Flags::default(), &[("UNFORGET_MAX_STEPS", "-1")], ""));
    assert!(said.contains("the environment variable UNFORGET_MAX_STEPS: `max_steps` must be"), "{said}");
    let said = message(load_all(Flags::default().with("thinking", "hard"), &[], ""));
    assert!(said.contains("the flag --thinking: `thinking` must be"), "{said}");
}

#[test]
fn a_file_that_is_no_toml_is_told_with_its_line() {
    let error = File::parse(Path::new("c.toml"), "model = 'a'\nmax_tokens 5\n").unwrap_err();
    assert!(format!("{error:?}").contains("c.toml, line 2: "), "{error:?}");
}

#[test]
fn an_unknown_name_is_noted_with_the_nearest_known_one() {
    let config = load_all(Flags::default(), &[], "modle = 'x'\nmax-tokens = 5\nzebra = 1\n").unwrap();
    assert_eq!(
        config.notes,
        [
            "/etc/config.toml, line 1: there is no setting `modle`; did you mean `model`?",
            "/etc/config.toml, line 2: there is no setting `max-tokens`; did you mean `max_tokens`?",
            "/etc/config.toml, line 3: there is no setting `zebra`",
        ]
    );
}

#[test]
fn of_two_system_prompts_the_one_from_the_higher_source_counts() {
    let config = load_all(Flags::default().with("system", "short"), &[], "system_file = 'long.md'").unwrap();
    assert_eq!((config.system.as_deref(), config.system_file), (Some("short"), None));
}
