//! A command that a tool of the CLI runs, and that ends when the test says so.
//!
//! The command connects to the test and waits for the end of the connection. So the test knows that the tool runs
//! because it has arrived, not because some time has passed, and the command ends with the test even if the CLI was
//! killed above it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::PATIENCE;

/// Where commands arrive.
pub struct Gate {
    port: u16,
    arrivals: Receiver<TcpStream>,
}

/// A command that waits; it goes on when this is dropped.
pub struct Held {
    _connection: TcpStream,
}

impl Gate {
    /// Makes a gate that is closed.
    #[expect(clippy::new_without_default, reason = "it takes a port of the computer")]
    pub fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (send, arrivals) = mpsc::channel();
        thread::spawn(move || {
            // Ends with the first command after the gate is gone, or with the process.
            for connection in listener.incoming().flatten() {
                if send.send(connection).is_err() {
                    break;
                }
            }
        });
        Self { port, arrivals }
    }

    /// The command, for a `[[bash:…]]` directive.
    pub fn command(&self) -> String {
        format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}; cat <&3'", self.port)
    }

    /// Waits until a command has arrived, but not for ever.
    pub fn wait(&self) -> Held {
        let connection = self.arrivals.recv_timeout(PATIENCE);
        let connection = connection.unwrap_or_else(|_| panic!("no command arrived in {PATIENCE:?}"));
        Held { _connection: connection }
    }
}
