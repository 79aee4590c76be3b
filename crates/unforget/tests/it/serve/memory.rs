//! What is in a server's memory and environment, the key of the model among it, is nobody else's to read (fault Z18).

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

use unforget_testkit::serving::Server;

use super::SERVE;
use crate::scene::Scene;

/// Somebody who is not root: who may be looked at, is looked at by the owner of its entry in the process table.
const SOMEBODY: u32 = 65534;

#[test]
fn z18_a_server_leaves_no_core_and_shows_its_memory_to_nobody() {
    let scene = Scene::offline();
    let mut command = scene.command(&SERVE);
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    let somebody = match own {
        0 => {
            let home = scene.home.path("");
            let id = Some(SOMEBODY);
            std::os::unix::fs::chown(&home, id, id).unwrap();
            for entry in std::fs::read_dir(&home).unwrap() {
                std::os::unix::fs::chown(entry.unwrap().path(), id, id).unwrap();
            }
            command.uid(SOMEBODY).gid(SOMEBODY);
            SOMEBODY
        }
        own => own,
    };
    let server = Server::start(command.stderr(std::process::Stdio::inherit())).unwrap();
    let process = format!("/proc/{}", server.id());
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    assert_eq!(uid.split_whitespace().next(), Some(somebody.to_string().as_str()));
    // The kernel gives the files of a process that may not be dumped to root, whoever runs it.
    for file in ["environ", "mem", "maps"] {
        assert_eq!(std::fs::metadata(format!("{process}/{file}")).unwrap().uid(), 0, "{file}");
    }
}
