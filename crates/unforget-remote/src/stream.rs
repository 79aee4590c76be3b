//! Names: whose, of what, which session, which part of it.
//!
//! A name is data: any text without control characters, never a path. How it is spelled in a bucket, a directory or a table is for
//! each backend to say.

use crate::error::{Error, Result};

/// The longest part of a name, in bytes.
pub(crate) const MAX_PART: usize = 512;

/// One sequence of lines on a remote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    tenant: String,
    place: String,
    session: String,
    side: String,
}

impl Stream {
    /// The main stream of a session, which belongs to an agent or a project of a tenant.
    pub fn new(tenant: &str, place: &str, session: &str) -> Result<Self> {
        for (part, what) in [(tenant, "tenant"), (place, "agent or project"), (session, "session")] {
            check(part, what)?;
        }
        Ok(Self {
            tenant: tenant.to_owned(),
            place: place.to_owned(),
            session: session.to_owned(),
            side: String::new(),
        })
    }

    /// A side stream of the same session, such as a sub-agent's.
    pub fn side_stream(&self, side: &str) -> Result<Self> {
        check(side, "side stream")?;
        Ok(Self { side: side.to_owned(), ..self.clone() })
    }

    /// Whose it is. Nothing is ever shared between two tenants.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The agent or project.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The side stream; empty for the main one.
    pub fn side(&self) -> &str {
        &self.side
    }

    /// All parts, from the widest to the narrowest.
    pub fn parts(&self) -> [&str; 4] {
        [&self.tenant, &self.place, &self.session, &self.side]
    }

    /// A stream of these parts.
    pub(crate) fn of(parts: [&str; 4]) -> Result<Self> {
        let [tenant, place, session, side] = parts;
        let main = Self::new(tenant, place, session)?;
        if side.is_empty() { Ok(main) } else { main.side_stream(side) }
    }
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}/{}/{}", self.tenant, self.place, self.session)?;
        if !self.side.is_empty() {
            write!(f, "/{}", self.side)?;
        }
        f.write_str("`")
    }
}

fn check(part: &str, what: &str) -> Result<()> {
    let reason = if part.is_empty() {
        "is empty".to_owned()
    } else if part.len() > MAX_PART {
        format!("is longer than {MAX_PART} bytes")
    } else if part.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Invalid(format!("the name of the {what} {reason}")))
}

/// Which streams to list: all of a tenant, of a place, or of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    tenant: String,
    place: Option<String>,
    session: Option<String>,
}

impl Prefix {
    /// All streams of a tenant.
    pub fn tenant(tenant: &str) -> Result<Self> {
        check(tenant, "tenant")?;
        Ok(Self { tenant: tenant.to_owned(), place: None, session: None })
    }

    /// Those of one agent or project.
    pub fn place(self, place: &str) -> Result<Self> {
        check(place, "agent or project")?;
        Ok(Self { place: Some(place.to_owned()), ..self })
    }

    /// Those of one session of that agent or project.
    pub fn session(self, session: &str) -> Result<Self> {
        check(session, "session")?;
        if self.place.is_none() {
            return Err(Error::Invalid("a session is listed within an agent or project".to_owned()));
        }
        Ok(Self { session: Some(session.to_owned()), ..self })
    }

    /// The parts that are fixed.
    pub fn parts(&self) -> Vec<&str> {
        [Some(&self.tenant), self.place.as_ref(), self.session.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect()
    }

    /// Whether a stream is among those.
    pub fn matches(&self, stream: &Stream) -> bool {
        self.parts().into_iter().zip(stream.parts()).all(|(wanted, part)| wanted == part)
    }
}
