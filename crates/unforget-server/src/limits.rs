//! How much of everything: nothing that a stranger can send, open or leave open is without a bound.
//!
//! Each number is what one server gives; `unforget serve --check` prints them. What is over a bound is refused with a
//! [`Problem`] that names it, before it was read into memory.

use std::time::Duration;

use unforget_core::json;

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
    /// Prompts of one actor in a minute.
    pub prompts_per_minute: u32,
    /// Sessions that one actor may begin in a minute.
    pub new_sessions_per_minute: u32,
    /// Sessions that one connection may begin without a prompt.
    pub unused_sessions: usize,
    /// Transcripts that one actor may have on the disk; the owner's have no bound.
    pub stored_sessions: u64,
    /// Bytes that one actor may have on the disk; the owner's have no bound.
    pub disk: u64,
    /// Frames of one actor's WebSockets in a second.
    pub frames_per_second: u32,
    /// Pings and pongs of one actor's WebSockets in a second.
    pub pings_per_second: u32,
    /// Entries of one request to append them.
    pub entries: usize,
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
    /// How many values JSON that comes in may have.
    pub values: usize,
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
            "prompts_per_minute" => self.prompts_per_minute = number(value)?,
            "new_sessions_per_minute" => self.new_sessions_per_minute = number(value)?,
            "unused_sessions" => self.unused_sessions = number(value)?,
            "stored_sessions" => self.stored_sessions = number(value)?,
            "disk" => self.disk = number(value)?,
            "frames_per_second" => self.frames_per_second = number(value)?,
            "pings_per_second" => self.pings_per_second = number(value)?,
            "entries" => self.entries = number(value)?,
            "queue" => self.queue = number(value)?,
            "prompt" => self.prompt = number(value)?,
            "frame" => self.frame = number(value)?,
            "message" => self.message = number(value)?,
            "body" => self.body = number(value)?,
            "fragments" => self.fragments = number(value)?,
            "handshake_bytes" => self.handshake_bytes = number(value)?,
            "in_flight" => self.in_flight = number(value)?,
            "depth" => self.depth = number(value)?,
            "values" => self.values = number(value)?,
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

    /// Sees whether JSON text may be read into a tree: a short text of many values, or of many levels, becomes a large one.
    pub fn check_json(&self, text: &str) -> crate::error::Result<()> {
        let (depth, values) = (self.depth, self.values);
        if json::deeper_than(text, depth) {
            return Err(Problem::invalid(format!("the JSON is nested deeper than {depth} levels (`depth`)")));
        }
        if has_more_values(text, values) {
            let message = format!("the JSON has more than {values} values (`values`)");
            return Err(Problem::new(Code::TooLarge, message));
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
            ("prompts_per_minute", u64::from(self.prompts_per_minute)),
            ("new_sessions_per_minute", u64::from(self.new_sessions_per_minute)),
            ("unused_sessions", number(self.unused_sessions)),
            ("stored_sessions", self.stored_sessions),
            ("disk", self.disk),
            ("frames_per_second", u64::from(self.frames_per_second)),
            ("pings_per_second", u64::from(self.pings_per_second)),
            ("entries", number(self.entries)),
            ("queue", number(self.queue)),
            ("prompt", number(self.prompt)),
            ("frame", number(self.frame)),
            ("message", number(self.message)),
            ("body", number(self.body)),
            ("fragments", number(self.fragments)),
            ("handshake_bytes", number(self.handshake_bytes)),
            ("in_flight", number(self.in_flight)),
            ("depth", number(self.depth)),
            ("values", number(self.values)),
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

/// Whether JSON text has more values than that: each but the first of a list or an object stands behind a comma.
fn has_more_values(text: &str, most: usize) -> bool {
    let (mut values, mut is_in_string, mut is_escaped) = (1_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b',' | b'[' | b'{' if !is_in_string => values += 1,
            _ => {}
        }
        if values > most {
            return true;
        }
    }
    false
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
            prompts_per_minute: 6000,
            new_sessions_per_minute: 6000,
            unused_sessions: 16,
            stored_sessions: 100_000,
            disk: 16 << 30,
            frames_per_second: 5000,
            pings_per_second: 200,
            entries: 100_000,
            queue: 16,
            prompt: 1 << 20,
            frame: 1 << 20,
            message: 8 << 20,
            body: 100 << 20,
            fragments: 1024,
            handshake_bytes: 16 << 10,
            in_flight: 256 << 20,
            depth: 64,
            values: 20_000,
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

    #[test]
    fn s9_json_of_many_values_is_refused_before_it_is_parsed() {
        let limits = Limits { values: 4, ..Limits::default() };
        for fine in ["1", "[1,2,3]", r#"{"a":",,,,[[[\",,,"}"#, r#"{"a":[1]}"#] {
            limits.check_json(fine).unwrap();
        }
        for many in ["[1,2,3,4]", "[[[[", r#"{"a":"","b":[[0]]}"#] {
            assert_eq!(limits.check_json(many).unwrap_err().code, Code::TooLarge, "{many}");
        }
        assert_eq!(limits.check_json(&"[".repeat(65)).unwrap_err().code, Code::Invalid);
    }
}
