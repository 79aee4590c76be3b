//! A real server of a test's own, and a real pooler before it; both end when the test does, however it does.
//!
//! A shell stands between the test and the server. It reads from a pipe that only the test holds, so it learns of the test's end also where that was
//! killed, stops the server and removes its directory.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// How often a server that was killed is started again while what is left of it still goes away.
const STARTS: usize = 100;
const PORT: u16 = 5432;
const POOLER_PORT: u16 = 6432;
const START: &str = r#"
"$1/pg_ctl" -D "$2/data" -w -t 120 -l "$2/log" start >/dev/null || cat "$2/log" >&2
echo ready
cat >/dev/null
"$1/pg_ctl" -D "$2/data" -m immediate stop >/dev/null 2>&1
rm -rf "$2"
"#;
const POOL: &str = r#"
"$1" "$2/pooler/conf" >"$2/pooler/log" 2>&1 &
for _ in $(seq 600); do [ -S "$2/pooler/.s.PGSQL.6432" ] && break; sleep 0.05; done
echo ready
cat >/dev/null
kill -9 $!
"#;

/// What is so about a server beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Fast, and not safe from a power cut.
    Usual,
    /// As safe as one in earnest.
    Safe,
    /// Reached by network, with a certificate for `localhost`.
    Encrypted,
}

/// A server, with its directory.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    pub dir: PathBuf,
    pub port: u16,
    _guards: Vec<Child>,
}

/// The server that most tests share.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(Kind::Usual))
}

impl Server {
    pub fn start(kind: Kind) -> Self {
        let programs = programs();
        // Of the server's owner, who also removes it.
        let made = run(as_owner(Path::new("mktemp")).args(["-d", "/tmp/unforget-pg-XXXXXX"]));
        let dir = PathBuf::from(made.trim());
        let data = dir.join("data");
        let make = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"];
        run(as_owner(&programs.join("initdb")).args(make).arg(&data));
        let mut settings = format!("unix_socket_directories = '{}'\nmax_connections = 200\n", dir.display());
        let mut port = PORT;
        match kind {
            Kind::Usual => settings.push_str("listen_addresses = ''\nfsync = off\n"),
            Kind::Safe => settings.push_str("listen_addresses = ''\n"),
            Kind::Encrypted => {
                certificate(&dir);
                port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
                settings.push_str(&format!(
                    "listen_addresses = 'localhost'\nfsync = off\nssl = on\nssl_cert_file = '{0}/leaf.pem'\nssl_key_file = '{0}/leaf.key'\n",
                    dir.display()
                ));
            }
        }
        settings.push_str(&format!("port = {port}\n"));
        let access = "local all guarded scram-sha-256\nlocal all all trust\n\
                      host all all 127.0.0.1/32 trust\nhost all all ::1/128 trust\n";
        append(&data.join("postgresql.conf"), &settings);
        std::fs::write(data.join("pg_hba.conf"), access).unwrap();
        let guard = guarded(&[START, &programs.display().to_string(), &dir.display().to_string()]);
        Self { programs, dir, port, _guards: vec![guard] }
    }

    /// The URL of a schema.
    pub fn url(&self, schema: &str) -> String {
        self.url_as("postgres", &format!("schema={schema}"))
    }

    /// The URL for somebody, with options.
    pub fn url_as(&self, user: &str, options: &str) -> String {
        url(&self.dir, self.port, user, options)
    }

    /// Kills the server and everything that belongs to it, as a power cut would.
    pub fn kill(&self) {
        let said = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        let main = said.lines().next().unwrap().to_owned();
        let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children")).unwrap_or_default();
        let mut all = vec![main];
        all.extend(children.split_whitespace().map(str::to_owned));
        // Some may be gone already.
        Command::new("kill").arg("-9").args(all).stderr(Stdio::null()).status().unwrap();
    }

    /// Starts it again after it was killed.
    pub fn revive(&self) {
        for _ in 0..STARTS {
            let mut command = as_owner(&self.programs.join("pg_ctl"));
            command.arg("-D").arg(self.dir.join("data")).args(["-w", "-t", "120", "-l"]).arg(self.dir.join("log"));
            if command.arg("start").stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success() {
                return;
            }
        }
        panic!("the server does not come back: {}", std::fs::read_to_string(self.dir.join("log")).unwrap());
    }
}

/// A pooler in transaction mode before the shared server.
pub fn pooler() -> PathBuf {
    static POOLER: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let (dir, _) = POOLER.get_or_init(|| {
        let server = shared();
        let dir = server.dir.join("pooler");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];
        let program = program.iter().find(|path| Path::new(path).exists());
        let program = program.expect("pgbouncer is needed: `apt-get install pgbouncer`, or `cargo xtask test`");
        // Fewer connections to the server than clients have to the pooler, so that they change hands all the time.
        let settings = format!(
            "[databases]\npostgres = host={} port={PORT} dbname=postgres user=postgres\n\
             [pgbouncer]\nlisten_port = {POOLER_PORT}\nunix_socket_dir = {}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n",
            server.dir.display(),
            dir.display()
        );
        std::fs::write(dir.join("conf"), settings).unwrap();
        let guard = guarded(&[POOL, program, &server.dir.display().to_string()]);
        (dir, guard)
    });
    dir.clone()
}

/// The URL of a schema through the pooler.
pub fn pooled_url(schema: &str) -> String {
    url(&pooler(), POOLER_PORT, "postgres", &format!("schema={schema}"))
}

/// The URL of a socket in a directory.
pub fn url(dir: &Path, port: u16, user: &str, options: &str) -> String {
    let host = dir.display().to_string().replace('/', "%2F");
    format!("postgres://{user}@{host}:{port}/postgres?{options}")
}

/// Where the server's programs are.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut installed: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    installed.sort();
    places.extend(installed.into_iter().rev());
    let found = places.into_iter().find(|place| place.join("initdb").exists() && place.join("pg_ctl").exists());
    found.expect("a PostgreSQL server is needed: `apt-get install postgresql`, or `cargo xtask test`")
}

/// A command as somebody who may run a server: root may not.
fn as_owner(program: &Path) -> Command {
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/tmp");
    command
}

/// Runs a shell that outlives nothing; returns when it says that it is ready.
fn guarded(arguments: &[&str]) -> Child {
    let mut command = as_owner(Path::new("sh"));
    command.arg("-c").arg(arguments[0]).arg("guard").args(&arguments[1..]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    child
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn append(path: &Path, text: &str) {
    let before = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, before + text).unwrap();
}

/// A root of its own, and a certificate of it for `localhost`, which the server's owner can read and nobody else.
fn certificate(dir: &Path) {
    std::fs::write(dir.join("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    let make = "set -e; cd \"$1\"; \
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout root.key -out root.pem -days 2 -subj /CN=root; \
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout leaf.key -out leaf.csr -subj /CN=localhost; \
        openssl x509 -req -in leaf.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile extensions -out leaf.pem; \
        chmod 600 leaf.key";
    run(as_owner(Path::new("sh")).arg("-c").arg(make).arg("make").arg(dir));
}
