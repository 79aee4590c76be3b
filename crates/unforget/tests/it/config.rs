//! Settings from end to end: the list, the file, and what is said when it is wrong.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{Home, Said};

/// Runs a command with a file of settings in the home, and with these variables.
fn run(home: &Home, variables: &[(&str, &str)], args: &[&str]) -> Said {
    let output = home
        .command()
        .env("XDG_CONFIG_HOME", home.path("settings"))
        .env("HOME", home.folder.path())
        .envs(variables.iter().copied())
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

fn setting(said: &Said, name: &str) -> Value {
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let mut lines = said.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.find(|line| line["name"] == name).unwrap()
}

#[test]
fn every_value_is_listed_with_where_it_came_from() {
    let home = Home::new();
    home.write("settings/unforget/config.toml", "max_steps = 7\nallow = [\"bash\"]\n");
    let variables = [("MODEL_ID", "claude-opus-5[1m]"), ("ANTHROPIC_API_KEY", "sk-secret")];
    let said = run(&home, &variables, &["config", "--titles", "model"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(!said.out.contains("sk-secret"), "{said:?}");
    let row = |name: &str| -> Vec<String> {
        let line = said.out.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(row("model"), ["model", "claude-opus-5[1m]", "$MODEL_ID"]);
    assert_eq!(row("api_key"), ["api_key", "set", "$ANTHROPIC_API_KEY"]);
    assert_eq!(row("max_steps"), ["max_steps", "7", "file, line 1"]);
    assert_eq!(row("titles"), ["titles", "model", "--titles"]);
    assert_eq!(row("window"), ["window", "1000000", "default"]);
    let table = said.out.lines().take_while(|line| !line.is_empty());
    assert!(table.clone().count() > 10 && table.clone().all(|line| line.chars().count() <= 80), "{said:?}");
    assert!(said.out.contains(&home.path("settings/unforget/config.toml").display().to_string()), "{said:?}");
    let json = run(&home, &variables, &["config", "--json"]);
    assert_eq!(setting(&json, "model")["variable"], "MODEL_ID");
    assert_eq!(setting(&json, "allow")["line"], 2);
    assert_eq!((&setting(&json, "api_key")["value"], json.out.contains("sk-secret")), (&"set".into(), false));
}

#[test]
fn a_long_value_and_a_long_path_stay_in_their_columns() {
    let home = Home::new();
    let said =
        run(&home, &[("UNFORGET_SYSTEM", &"many words ".repeat(40))], &["config", "--workspace", &"x/".repeat(90)]);
    let table = said.out.lines().take_while(|line| !line.is_empty());
    assert!(table.clone().count() > 10 && table.clone().all(|line| line.chars().count() <= 80), "{said:?}");
    assert!(said.out.contains("(not there yet)") && said.code == 0, "{said:?}");
}

#[test]
fn set_and_unset_change_one_line_and_keep_the_rest() {
    let home = Home::new();
    let path =
        home.write("settings/unforget/config.toml", "# mine\nmodel = \"old\" # why\n\n# limits\nmax_steps = 7\n");
    let said = run(&home, &[], &["config", "set", "model", "new"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert_eq!(run(&home, &[], &["config", "set", "allow", "bash,edit_file"]).code, 0);
    assert_eq!(run(&home, &[], &["config", "set", "compact_at", "0.5"]).code, 0);
    assert_eq!(run(&home, &[], &["config", "unset", "max_steps"]).code, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        "# mine\nmodel = \"new\" # why\n\n# limits\nallow = [\"bash\", \"edit_file\"]\ncompact_at = 0.5\n"
    );
    let text = "# about a\nmax_steps = 1\n# about b\nmax_tokens = 2 # two\n\n# the end\n";
    std::fs::write(&path, text).unwrap();
    assert_eq!(run(&home, &[], &["config", "unset", "max_steps"]).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# about a\n# about b\nmax_tokens = 2 # two\n\n# the end\n");
    assert_eq!(run(&home, &[], &["config", "unset", "max_tokens"]).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# about a\n# about b\n\n# the end\n");
    assert!(run(&home, &[], &["config", "unset", "max_tokens"]).out.contains("was not set"));
    std::fs::write(&path, "allow = [\"bash\"]\n").unwrap();
    assert_eq!(run(&home, &[], &["config", "set", "allow", "bash, edit_file"]).code, 0);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let json = run(&home, &[], &["config", "--json"]);
    assert_eq!(setting(&json, "allow")["value"], "bash, edit_file");
    assert_eq!(crate::support::files(&home.path("settings")), ["unforget/config.toml"], "nothing is left beside it");
}

#[test]
fn set_creates_the_file_and_follows_a_link() {
    let home = Home::new();
    assert_eq!(run(&home, &[], &["config", "set", "max_tokens", "5000"]).code, 0);
    let path = home.path("settings/unforget/config.toml");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "max_tokens = 5000\n");
    let linked = home.path("linked.toml");
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    let variables = [("UNFORGET_CONFIG", linked.to_str().unwrap())];
    assert_eq!(run(&home, &variables, &["config", "set", "max_tokens", "6000"]).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "max_tokens = 6000\n");
    assert!(linked.is_symlink());
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let home = Home::new();
    let path = home.write("settings/unforget/config.toml", "\nmax_steps = \"many\"\n");
    let said = run(&home, &[], &["config"]);
    let told = format!("{}, line 2: `max_steps` must be a whole number from 1 to 10000", path.display());
    assert!(said.code == 2 && said.err.contains(&told) && said.err.contains("hint: "), "{said:?}");
    assert_eq!(run(&home, &[], &["config", "set", "max_steps", "9"]).code, 0, "a wrong value can be put right");
    home.write("settings/unforget/config.toml", "modle = 1\n");
    let said = run(&home, &[], &["config"]);
    assert!(
        said.code == 0 && said.err.contains("line 1: there is no setting `modle`; did you mean `model`?"),
        "{said:?}"
    );
    home.write("settings/unforget/config.toml", "model = \n");
    let said = run(&home, &[], &["config"]);
    assert!(said.code == 2 && said.err.contains("config.toml, line 1: "), "{said:?}");
    for args in [["config", "set", "modle", "x"], ["config", "set", "max_steps", "x"]] {
        let said = run(&home, &[], &args);
        assert!(said.code == 2 && said.err.contains("hint: "), "{args:?}: {said:?}");
    }
    let said = run(&home, &[("UNFORGET_CONFIG", home.folder.path().to_str().unwrap())], &["config"]);
    assert!(said.code == 2 && said.err.contains("cannot read"), "{said:?}");
}

#[test]
fn other_commands_do_not_care_for_settings() {
    let home = Home::new();
    home.write("settings/unforget/config.toml", "model = \n");
    assert_eq!(run(&home, &[], &["sessions"]).code, 0);
}

#[test]
fn b9_an_address_that_is_none_is_refused_with_what_would_be_one() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let output = home.command().env("UNFORGET_CONFIG", home.path("config.toml")).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    for wrong in ["foo", "https://example.org", "s3://", "ftp://host/x"] {
        let (code, _, err) = run(&["config", "set", "remote", wrong]);
        assert!(code == 2 && err.contains("file:///directory") && err.contains("s3://bucket/prefix"), "{wrong}: {err}");
    }
    assert!(!home.path("config.toml").exists());
}

#[test]
fn b11_what_was_set_is_told_and_no_secret() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let output = home.command().env("UNFORGET_CONFIG", home.path("config.toml")).args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = run(&["config", "set", "remote", "postgres://ada:SECRET@db.example/notes"]);
    assert!(code == 0 && out.starts_with("set remote to postgres://") && !out.contains("SECRET"), "{out}");
    let (_, out) = run(&["config", "set", "api_key", "SECRET"]);
    assert!(out.starts_with("set api_key in ") && out.ends_with("its value is never shown\n"), "{out}");
}

#[test]
fn b11_an_error_of_a_remote_is_told_once_and_readable() {
    let home = Home::new();
    let said = home.run(&["pull", "--remote", &format!("file://{}", home.path("nowhere").display())]);
    assert!(said.code != 0 && said.err.contains("error:") && !said.err.contains("WARN"), "{}", said.err);
}
