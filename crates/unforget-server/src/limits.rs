//! How much of everything: nothing that a stranger can send, open or leave open is without a bound.
//!
//! Each number is what one server gives; `unforget serve --check` prints them. What is over a bound is refused with a
//! [`Problem`] that names it, before it was read into memory.

use std::time::Duration;

use crate::error::{Code, Problem};

/// The longest frame that AgentCore Runtime lets through, which is also the longest that is sent.
pub const FRAME_OUT: usize = 64 * 1024;

/// The bounds of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
    /// WebSockets of one actor.
    pub sockets_per_actor: usize,
    /// Live sessions in all.
    pub sessions: usize,
    /// Live sessions of one actor.
    pub sessions_per_actor: usize,
    /// Prompts of one actor that are accepted and not answered.
    pub prompts_per_actor: usize,
    /// Prompts that wait in one session.
    pub queue: usize,
    /// Bytes of a prompt.
    pub prompt: usize,
    /// Bytes of a frame that comes in.
    pub frame: usize,
    /// Bytes of a message that comes in, in however many frames.
    pub message: usize,
    /// Bytes of the body of a request.
    pub body: usize,
    /// Frames of a message that comes in.
    pub fragments: usize,
    /// Bytes of a request's head, and of a body or of a WebSocket's frames before the client has said who it is.
    pub handshake_bytes: usize,
    /// Bytes that clients have sent and that are still held, in all.
    pub in_flight: usize,
    /// How deep JSON that comes in may be nested.
    pub depth: usize,
    /// How long a client may take to send its request's head, and to say who it is.
    pub handshake: Duration,
    /// How long a client may take to send a request's body.
    pub body_time: Duration,
    /// How long a WebSocket may be silent before it is asked for a sign of life, and again before it is closed.
    pub silence: Duration,
    /// How long one frame may take to be sent; who does not read is dropped.
    pub send: Duration,
    /// Events that a viewer may be behind before it is dropped.
    pub events: usize,
    /// How long a session stays open for writing after its last turn.
    pub linger: Duration,
    /// How long a session stays with a server that gives no sign of life, where several share a remote.
    pub lease: Duration,
    /// How long a question to a person stays open.
    pub question: Duration,
    /// How long a shutdown may take.
    pub shutdown: Duration,
    /// Wrong tokens from one address in a minute before only a right one from there is heard.
    pub wrong_tokens: u32,
}

impl Limits {
    /// Sets a bound by its name: a number, or of a time its seconds.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
            value.parse().map_err(|_| "the value must be a whole number".to_owned())
        }
        let time = || number(value).map(Duration::from_secs);
        match name {
            "connections" => self.connections = number(value)?,
            "connections_per_address" => self.connections_per_address = number(value)?,
            "sockets_per_actor" => self.sockets_per_actor = number(value)?,
            "sessions" => self.sessions = number(value)?,
            "sessions_per_actor" => self.sessions_per_actor = number(value)?,
            "prompts_per_actor" => self.prompts_per_actor = number(value)?,
            "queue" => self.queue = number(value)?,
            "prompt" => self.prompt = number(value)?,
            "frame" => self.frame = number(value)?,
            "message" => self.message = number(value)?,
            "body" => self.body = number(value)?,
            "fragments" => self.fragments = number(value)?,
            "handshake_bytes" => self.handshake_bytes = number(value)?,
            "in_flight" => self.in_flight = number(value)?,
            "depth" => self.depth = number(value)?,
            "handshake" => self.handshake = time()?,
            "body_time" => self.body_time = time()?,
            "silence" => self.silence = time()?,
            "send" => self.send = time()?,
            "events" => self.events = number::<usize>(value)?.max(1),
            "linger" => self.linger = time()?,
            "lease" => self.lease = time()?.max(Duration::from_secs(1)),
            "question" => self.question = time()?,
            "shutdown" => self.shutdown = time()?,
            "wrong_tokens" => self.wrong_tokens = number(value)?,
            _ => return Err("there is no such bound; `unforget serve --check` lists them".to_owned()),
        }
        Ok(())
    }
}

impl Limits {
    /// Sees whether words may be a prompt.
    pub fn check_prompt(&self, text: &str) -> crate::error::Result<()> {
        if text.trim().is_empty() {
            return Err(Problem::invalid("the prompt is empty"));
        }
        if text.len() > self.prompt {
            let most = self.prompt;
            return Err(Problem::new(Code::TooLarge, format!("the prompt has more than {most} bytes")));
        }
        Ok(())
    }

    /// All bounds, as [`set`](Self::set) takes them: numbers, and times in seconds.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        vec![
            ("connections", number(self.connections)),
            ("connections_per_address", number(self.connections_per_address)),
            ("sockets_per_actor", number(self.sockets_per_actor)),
            ("sessions", number(self.sessions)),
            ("sessions_per_actor", number(self.sessions_per_actor)),
            ("prompts_per_actor", number(self.prompts_per_actor)),
            ("queue", number(self.queue)),
            ("prompt", number(self.prompt)),
            ("frame", number(self.frame)),
            ("message", number(self.message)),
            ("body", number(self.body)),
            ("fragments", number(self.fragments)),
            ("handshake_bytes", number(self.handshake_bytes)),
            ("in_flight", number(self.in_flight)),
            ("depth", number(self.depth)),
            ("handshake", self.handshake.as_secs()),
            ("body_time", self.body_time.as_secs()),
            ("silence", self.silence.as_secs()),
            ("send", self.send.as_secs()),
            ("events", number(self.events)),
            ("linger", self.linger.as_secs()),
            ("lease", self.lease.as_secs()),
            ("question", self.question.as_secs()),
            ("shutdown", self.shutdown.as_secs()),
            ("wrong_tokens", u64::from(self.wrong_tokens)),
        ]
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_per_address: 2048,
            sockets_per_actor: 2048,
            sessions: 8192,
            sessions_per_actor: 2048,
            prompts_per_actor: 2048,
            queue: 16,
            prompt: 1 << 20,
            frame: 1 << 20,
            message: 8 << 20,
            body: 100 << 20,
            fragments: 1024,
            handshake_bytes: 16 << 10,
            in_flight: 256 << 20,
            depth: 64,
            handshake: Duration::from_secs(5),
            body_time: Duration::from_secs(60),
            silence: Duration::from_secs(60),
            send: Duration::from_secs(20),
            events: 1024,
            linger: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            question: Duration::from_secs(15 * 60),
            shutdown: Duration::from_secs(14),
            wrong_tokens: 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_listed_and_can_be_set_by_that_name() {
        let fields = format!("{:?}", Limits::default());
        let mut limits = Limits::default();
        for (name, value) in Limits::default().list() {
            assert!(fields.contains(&format!("{name}: ")), "{name}");
            limits.set(name, &(value + 1).to_string()).unwrap();
        }
        assert_eq!(fields.matches(": ").count(), limits.list().len());
        for ((name, before), (_, after)) in Limits::default().list().iter().zip(limits.list()) {
            assert_eq!(before + 1, after, "{name}");
        }
        assert!(limits.set("nothing", "1").is_err() && limits.set("queue", "-1").is_err());
    }
}
