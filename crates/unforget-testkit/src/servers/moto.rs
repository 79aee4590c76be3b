//! A real S3 implementation: moto's server, which `cargo xtask test` installs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The server, and the pipe that it lives as long as.
pub struct Moto {
    pub port: u16,
    _child: Child,
}

/// It ends when this process does, however that ends.
const SCRIPT: &str = "
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from moto.server import main
main(['-H', '127.0.0.1', '-p', '0'])
";

impl Moto {
    fn start(environment: &[(&str, &str)]) -> Self {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/moto");
        assert!(tools.is_dir(), "moto is not installed; `cargo xtask test` does that");
        let mut child = Command::new("python3")
            .args(["-c", SCRIPT])
            .env("PYTHONPATH", tools)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let port = loop {
            let line = lines.next().unwrap_or_else(|| panic!("moto did not start: {said}")).unwrap();
            if let Some((_, port)) = line.split_once("Running on http://127.0.0.1:") {
                break port.trim().parse().unwrap();
            }
            said = said + &line + "\n";
        };
        // A pipe that nobody reads fills up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { port, _child: child }
    }

    /// One that takes any key.
    pub fn open() -> &'static Self {
        static SERVER: OnceLock<Moto> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[]))
    }

    /// One that knows no key.
    pub fn strict() -> &'static Self {
        static SERVER: OnceLock<Moto> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")]))
    }

    /// Makes a bucket.
    pub fn make(&self, bucket: &str) {
        let mut server = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "PUT /{bucket} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x\r\n\r\n"
        );
        server.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        server.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
