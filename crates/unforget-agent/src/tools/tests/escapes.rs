//! Every way out of the workspace that is known, and into the store.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use unforget_core::stamp::System;

use super::super::place::PathError;
use super::{Call, Commands, Scene, Secrets, Toolbox, Workspace, standard};

/// Reads, lists, writes and edits the path; nothing of it may work or tell anything.
async fn is_refused(scene: &Scene, path: &str) {
    for (tool, input) in [
        ("read_file", json!({"path": path})),
        ("list_directory", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "EVIL"})),
        ("edit_file", json!({"path": path, "old_string": "SECRET", "new_string": "EVIL"})),
    ] {
        let text = scene.failed(tool, input).await;
        assert!(!text.contains("SECRET"), "{tool} {path}: {text}");
    }
    untouched(scene);
}

fn untouched(scene: &Scene) {
    for (path, text) in [
        ("store/agents/transcript.jsonl", "SECRET transcript"),
        ("../workspace-evil/secret", "SECRET beside"),
        ("../outside/secret", "SECRET outside"),
    ] {
        assert_eq!(scene.read(path), text);
    }
    assert_eq!(scene.names("store"), ["agents"]);
    assert_eq!(scene.names("store/agents"), ["transcript.jsonl"]);
    assert_eq!(scene.names("../outside"), ["secret"]);
    assert_eq!(scene.names(".."), ["outside", "workspace", "workspace-evil"]);
}

#[test]
fn a_private_file_is_out_of_reach_by_any_name_and_before_it_exists() {
    let scene = Scene::new();
    scene.write(".config/settings", "key = SECRET");
    std::fs::hard_link(scene.path(".config/settings"), scene.path("other")).unwrap();
    symlink(".config/settings", scene.path("link")).unwrap();
    let private = |name: &str| scene.workspace().hiding(Secrets::default().and(scene.path(name))).unwrap();
    for name in [".config/settings", "other", "link", ".config/../link"] {
        assert!(matches!(private(".config/settings").place(name), Err(PathError::Private)), "{name}");
    }
    assert!(private(".config/settings").place(".config/others").is_ok());
    assert!(matches!(private(".config/later").place(".config/later"), Err(PathError::Private)));
}

#[tokio::test]
async fn s5_no_tool_reaches_into_a_secret_folder_by_any_way() {
    let scene = Scene::new();
    scene.write("home/.ssh/id_ed25519", "SECRET key");
    scene.write("home/.aws/credentials", "SECRET key");
    scene.write("home/.config/unforget/remote.key", "SECRET key");
    scene.write("elsewhere/vault/token", "SECRET key");
    scene.write("home/project/file", "text");
    symlink("../.ssh", scene.path("home/project/link")).unwrap();
    symlink("../.ssh/id_ed25519", scene.path("home/project/deep")).unwrap();
    // The listed folder may itself be a link, as in a folder of dotfiles.
    symlink("../elsewhere/vault", scene.path("home/.vault")).unwrap();
    let home = scene.path("home");
    let secrets = Secrets::known(|name| (name == "HOME").then(|| home.clone().into())).and(home.join(".vault"));
    let toolbox = |workspace: Workspace| {
        let workspace = workspace.hiding(secrets.clone()).unwrap();
        Toolbox::new(standard(workspace, Commands::default(), Arc::new(System)))
    };
    let toolbox = toolbox(scene.workspace());
    for path in [
        "home/.ssh/id_ed25519",
        "home/.aws/credentials",
        "home/.config/unforget/remote.key",
        "home/project/link/id_ed25519",
        "home/project/deep",
        "home/project/../.ssh/id_ed25519",
        "home/.vault/token",
        "elsewhere/vault/token",
        "home/.ssh/new",
        "home/.kube/config",
        "home/.npmrc",
    ] {
        for (tool, input) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "EVIL"})),
            ("edit_file", json!({"path": path, "old_string": "SECRET", "new_string": "EVIL"})),
        ] {
            let call = Call { id: String::new(), name: tool.to_owned(), input: input.to_string() };
            let output = toolbox.run(&call, &tokio_util::sync::CancellationToken::new()).await;
            assert!(output.is_error && !output.text.contains("SECRET"), "{tool} {path}: {}", output.text);
        }
    }
    let list = |path: &str| {
        let input = json!({"path": path}).to_string();
        let call = Call { id: String::new(), name: "list_directory".to_owned(), input };
        let toolbox = &toolbox;
        async move { toolbox.run(&call, &tokio_util::sync::CancellationToken::new()).await }
    };
    for path in ["home/.ssh", "home/project/link", "elsewhere/vault"] {
        assert!(list(path).await.is_error, "{path}");
    }
    assert!(!list("home").await.text.contains(".ssh"));
    assert!(!scene.path("home/.kube").exists() && !scene.path("home/.npmrc").exists());
    assert_eq!(scene.names("home/.ssh"), ["id_ed25519"]);
    let inside = Workspace::open(&scene.path("home/.ssh"), &scene.store()).unwrap().hiding(secrets).unwrap_err();
    assert!(inside.to_string().contains("tools never see"), "{inside}");
}

#[tokio::test]
async fn s5_the_environment_of_a_process_is_not_a_file_to_read() {
    let scene = Scene::new();
    let workspace = Workspace::open(std::path::Path::new("/"), &scene.store()).unwrap();
    let toolbox = Toolbox::new(standard(workspace, Commands::default(), Arc::new(System)));
    for path in ["proc/self/environ", "/proc/self/environ", "proc/thread-self/environ", "tmp/../proc/self/environ"] {
        let call = Call { id: String::new(), name: "read_file".to_owned(), input: json!({"path": path}).to_string() };
        let output = toolbox.run(&call, &tokio_util::sync::CancellationToken::new()).await;
        assert!(output.is_error && output.text.contains("tools never see"), "{path}: {}", output.text);
    }
}

#[tokio::test]
async fn paths_out_of_the_workspace_are_refused() {
    let scene = Scene::new();
    scene.write("folder/file", "");
    let root = scene.root();
    let root = root.to_str().unwrap();
    for path in [
        "../outside/secret",
        "../workspace-evil/secret",
        "folder/../../outside/secret",
        "..//outside/./secret",
        "../new/file",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        &format!("{root}-evil/secret"),
        &format!("{root}/../outside/secret"),
        &format!("/proc/self/root{root}/../outside/secret"),
    ] {
        is_refused(&scene, path).await;
    }
    let text = scene.failed("read_file", json!({"path": "../outside/secret"})).await;
    assert!(text.contains("it leads out of the workspace"), "{text}");
}

#[tokio::test]
async fn an_absolute_path_inside_is_as_good_as_a_relative_one() {
    let scene = Scene::new();
    scene.write("folder/file", "text\n");
    let text = scene.ok("read_file", json!({"path": scene.path("folder/../folder/file")})).await;
    assert_eq!(text, "text\n[line 1 of 1]");
    // Also by the name that the workspace was opened by.
    let name = scene.root().with_file_name("name");
    symlink(scene.root(), &name).unwrap();
    let workspace = Workspace::open(&name, &scene.store()).unwrap();
    assert!(workspace.place(name.join("folder/file").to_str().unwrap()).is_ok());
}

#[tokio::test]
async fn links_out_of_the_workspace_are_refused() {
    let scene = Scene::new();
    symlink("../outside", scene.path("folder")).unwrap();
    symlink("../outside/secret", scene.path("file")).unwrap();
    symlink(scene.path("../outside/secret"), scene.path("absolute")).unwrap();
    symlink("../outside/new", scene.path("dangling")).unwrap();
    symlink("file", scene.path("twice")).unwrap();
    symlink("circle", scene.path("circle")).unwrap();
    for path in ["folder/secret", "folder/new", "folder/new/file", "file", "absolute", "dangling", "twice", "circle"] {
        is_refused(&scene, path).await;
    }
}

#[tokio::test]
async fn the_store_is_out_of_reach() {
    let scene = Scene::new();
    scene.write("folder/file", "");
    symlink("store", scene.path("link")).unwrap();
    symlink("../store/agents", scene.path("folder/link")).unwrap();
    symlink("store/agents/transcript.jsonl", scene.path("file")).unwrap();
    for path in [
        "store",
        "store/agents",
        "store/agents/transcript.jsonl",
        "store/new",
        "store/new/file",
        "folder/../store/agents/transcript.jsonl",
        "link",
        "link/agents/transcript.jsonl",
        "folder/link/transcript.jsonl",
        "folder/link/new",
        "file",
        scene.path("store/agents/transcript.jsonl").to_str().unwrap(),
    ] {
        is_refused(&scene, path).await;
    }
    let text = scene.failed("read_file", json!({"path": "file"})).await;
    assert!(text.contains("out of reach"), "{text}");
    assert!(!scene.ok("list_directory", json!({})).await.contains("[dir]  store"));
}

#[tokio::test]
async fn a_store_that_was_moved_or_put_back_stays_out_of_reach() {
    let scene = Scene::new();
    let toolbox = scene.toolbox();
    std::fs::rename(scene.store(), scene.path("moved")).unwrap();
    scene.write("store/agents/transcript.jsonl", "SECRET copy");
    for path in ["store/agents/transcript.jsonl", "moved/agents/transcript.jsonl"] {
        let call = Call { id: String::new(), name: "read_file".to_owned(), input: json!({"path": path}).to_string() };
        let output = toolbox.run(&call, &tokio_util::sync::CancellationToken::new()).await;
        assert!(output.is_error && output.text.contains("out of reach"), "{path}: {}", output.text);
    }
}

#[tokio::test]
async fn links_of_proc_are_not_followed() {
    let scene = Scene::new();
    // With the whole system as the workspace nothing is outside, and the links of /proc still lead astray.
    let workspace = Workspace::open(std::path::Path::new("/"), &scene.store()).unwrap();
    let toolbox = Toolbox::new(standard(workspace, Commands::default(), Arc::new(System)));
    let secret = scene.path("../outside/secret").canonicalize().unwrap();
    let secret = secret.to_str().unwrap();
    let read = |path: String| {
        let input = json!({"path": path}).to_string();
        let call = Call { id: String::new(), name: "read_file".to_owned(), input };
        let toolbox = &toolbox;
        async move { toolbox.run(&call, &tokio_util::sync::CancellationToken::new()).await }
    };
    assert!(!read(secret.to_owned()).await.is_error);
    for path in
        [format!("/proc/self/root{secret}"), format!("/proc/self/cwd/../..{secret}"), "/proc/self/exe".to_owned()]
    {
        let output = read(path.clone()).await;
        assert!(output.is_error && !output.text.contains("SECRET"), "{path}: {}", output.text);
    }
    let store = scene.store().canonicalize().unwrap().join("agents/transcript.jsonl");
    assert!(read(store.to_str().unwrap().to_owned()).await.text.contains("out of reach"));
}

#[tokio::test]
async fn only_regular_files_are_opened() {
    let scene = Scene::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scene.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _listener = UnixListener::bind(scene.path("socket")).unwrap();
    for (path, kind) in [("fifo", "FIFO"), ("socket", "socket")] {
        for (tool, input) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": ""})),
            ("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"})),
        ] {
            let text = scene.failed(tool, input).await;
            assert!(text.contains(&format!("it is a {kind}")), "{tool} {path}: {text}");
        }
    }
    assert_eq!(scene.ok("list_directory", json!({})).await, "[other] fifo  (FIFO)\n[other] socket  (socket)");
    let devices = Workspace::open(std::path::Path::new("/dev"), &scene.store()).unwrap();
    let error = devices.place("zero").unwrap().open().unwrap_err();
    assert_eq!(error.to_string(), "it is a device; only regular files can be read and written");
}

/// A thread swaps a folder for a link while reads run; what is read never comes from where the link leads.
///
/// The race goes on until enough reads met the folder and enough the link: on a busy machine one of the two threads may
/// stand still for thousands of the other's rounds.
fn race(scene: &Scene, target: &str, file: &str) {
    const ENOUGH: usize = 500;
    const ROUNDS: usize = 10_000_000;
    scene.write(&format!("folder/{file}"), "inside");
    symlink(target, scene.path("other")).unwrap();
    let (workspace, done) = (scene.workspace(), AtomicBool::new(false));
    let (mut inside, mut refused, mut escaped) = (0, 0, None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (folder, other) = (scene.path("folder"), scene.path("other"));
            // Bounded by the reads: each swap is one system call.
            while !done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &folder, rustix::fs::CWD, &other, flags).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            match workspace.place(&format!("folder/{file}")).and_then(|place| place.open()) {
                Ok((file, _)) => match std::io::read_to_string(file) {
                    Ok(text) if text == "inside" => inside += 1,
                    // Told outside, so that the other thread is stopped first.
                    other => escaped = Some(other),
                },
                Err(_) => refused += 1,
            }
            if escaped.is_some() || inside >= ENOUGH && refused >= ENOUGH {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(escaped.is_none(), "read through the link: {escaped:?}");
    assert!(inside > 0 && refused > 0, "the race was not run: {inside} reads, {refused} refusals");
}

#[test]
fn a_folder_swapped_for_a_link_leads_nowhere() {
    race(&Scene::new(), "../outside", "secret");
}

#[test]
fn a_folder_swapped_for_a_link_does_not_lead_into_the_store() {
    race(&Scene::new(), "store/agents", "transcript.jsonl");
}
