//! The key of a cluster on the command line, and servers with TLS between them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use unforget_testkit::serving::tls::{Certificate, TlsProxy};
use unforget_testkit::serving::{Server, plant_cluster_key};

use super::{Person, serve, session};
use crate::scene::Scene;

fn check(scene: &Scene, key: &str, more: &[&str]) -> (i32, Value, String) {
    let arguments = ["serve", "--check", "--json", "--cluster-key", key];
    let said = scene.run(&[&arguments[..], more].concat());
    (said.code, serde_json::from_str(&said.out).unwrap_or_default(), said.err)
}

#[test]
fn s17_servers_on_several_machines_do_not_start_without_tls_between_them() {
    let scene = Scene::offline();
    let key = plant_cluster_key(&scene.home.path("home")).unwrap();
    let (key, remote) = (key.to_str().unwrap(), format!("file://{}", scene.home.path("remote").display()));
    std::fs::create_dir_all(scene.home.path("remote")).unwrap();
    let level = |address: &str| {
        let (code, answer, said) = check(&scene, key, &["--remote", &remote, "--advertise", address]);
        let found = answer["findings"].as_array().unwrap_or_else(|| panic!("{said}")).iter();
        let about = found.filter(|finding| finding["what"].as_str().unwrap().contains("other servers of the cluster"));
        (code, about.map(|finding| finding["level"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(level("http://10.0.0.7:8080"), (1, vec!["danger".to_owned()]));
    assert_eq!(level("http://node-7:8080"), (1, vec!["danger".to_owned()]));
    assert_eq!(level("https://node-7"), (0, vec!["ok".to_owned()]));
    assert_eq!(level("http://127.0.0.1:8080"), (0, vec!["ok".to_owned()]));
}

#[test]
fn s2_a_key_that_is_none_is_refused_with_a_command_that_makes_one() {
    let scene = Scene::offline();
    let remote = format!("file://{}", scene.home.path("remote").display());
    std::fs::create_dir_all(scene.home.path("remote")).unwrap();
    let key = scene.home.path("cluster.key");
    let shown = key.to_str().unwrap();
    let (code, _, said) = check(&scene, shown, &["--remote", &remote]);
    assert!(code == 2 && said.contains("there is no cluster key") && said.contains("openssl rand -hex 32"), "{said}");
    std::fs::write(&key, "x".repeat(64)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, said) = check(&scene, shown, &["--remote", &remote]);
    assert!(code == 2 && said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (code, _, said) = check(&scene, shown, &[]);
    assert!(code == 2 && said.contains("needs a remote"), "{said}");
    assert_eq!(check(&scene, shown, &["--remote", &remote]).0, 0);
}

#[test]
fn s17_servers_forward_to_each_other_over_tls() {
    let first = Scene::online();
    let trusted = first.home.path("certificate.pem");
    let certificate = Certificate::new(&trusted).unwrap();
    let trusted = trusted.to_str().unwrap();
    let api = first.api().url();
    let second = Scene::offline().with("ANTHROPIC_BASE_URL", &api);
    let scenes = [first, second.with("ANTHROPIC_API_KEY", crate::scene::SECRET)]
        .map(|scene| scene.with("SSL_CERT_FILE", trusted));
    let remote = scenes[0].home.path("remote");
    std::fs::create_dir_all(&remote).unwrap();
    let remote = format!("file://{}", remote.display());
    let start = |scene: &Scene| -> Server {
        let proxy = TlsProxy::new(&certificate).unwrap();
        let key = plant_cluster_key(&scene.home.path("home")).unwrap();
        let more = ["--remote", &remote, "--advertise", &proxy.url, "--cluster-key", key.to_str().unwrap()];
        let server = serve(scene, &[&more[..], &["--limit", "lease=600"]].concat());
        proxy.lead_to(&server.url).unwrap();
        server
    };
    let servers = scenes.each_ref().map(start);
    let mut watcher = Person::at(&servers[0].url);
    watcher.prompt(None, "c0", "hello");
    let id = session(&watcher.until_type("done"));
    let mut person = Person::at(&servers[1].url);
    person.prompt(Some(&id), "c1", "hello again");
    assert_eq!(person.answer("c1")["state"], "done");
    assert_eq!(watcher.answer("c1")["text"], "ECHO(3 messages): hello again");
}
