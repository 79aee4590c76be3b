//! The container: what the Dockerfile starts is something that starts.

use std::process::Command;

/// The arguments of an instruction that is written as a list.
fn list(dockerfile: &str, instruction: &str) -> Vec<String> {
    let line = dockerfile.lines().find_map(|line| line.strip_prefix(instruction)).unwrap();
    serde_json::from_str(line.trim()).unwrap()
}

#[test]
fn the_image_starts_a_server_that_may_listen_to_everybody_and_not_as_root() {
    let dockerfile = include_str!("../../../../Dockerfile");
    let entry = list(dockerfile, "ENTRYPOINT ");
    assert_eq!(entry, ["/usr/local/bin/unforget"]);
    assert!(dockerfile.contains("\nUSER nonroot\n") && dockerfile.contains("\nEXPOSE 8080\n"));
    let arguments = list(dockerfile, "CMD ");
    // An image without a shell offers no commands, and what an instruction refers to was declared in its stage.
    assert!(dockerfile.contains("distroless") && !arguments.contains(&"--share-commands".to_owned()));
    let build = dockerfile.split("\nFROM ").nth(1).unwrap();
    assert!(build.find("ARG TARGETARCH").unwrap() < build.find("${TARGETARCH}").unwrap());
    let home = tempfile::tempdir().unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_unforget"));
    check.arg("--home").arg(home.path()).args(&arguments).arg("--check").env("XDG_CONFIG_HOME", home.path());
    let output = check.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("0.0.0.0:8080"), "{said}");
    // The same without anybody who says who is calling is refused.
    let arguments = arguments.iter().filter(|argument| *argument != "--trust-runtime-headers");
    let mut open = Command::new(env!("CARGO_BIN_EXE_unforget"));
    open.arg("--home").arg(home.path()).args(arguments).env("XDG_CONFIG_HOME", home.path());
    let output = open.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
