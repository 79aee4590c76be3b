//! The command line of the server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::There;
use crate::config::flags::Flags;

/// `unforget serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; beyond this machine only with tokens, an issuer or the runtime's headers. Without any of these the server is for
    /// its owner alone: a link for the browser, a token in a file and a socket, all of them out of other users' reach
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", env = "UNFORGET_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// Print how the server stands (who gets in, from where, which bounds) and end; 1 if it would not start
    #[arg(long)]
    pub(crate) check: bool,
    /// Open the page in the browser, logged in
    #[arg(long)]
    pub(crate) open: bool,
    /// Print a link that logs a browser in to the server that runs on this home, and end; it works once, for 15 minutes
    #[arg(long, conflicts_with = "check")]
    pub(crate) link: bool,
    /// The agents that answer, the usual one first: `claude` is Claude Code, any other name the built-in one
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// Tokens that were given out with `unforget token add` [default: the file beside the configuration, if there is one]
    #[arg(long, value_name = "FILE", conflicts_with = "no_tokens")]
    pub(crate) tokens: Option<PathBuf>,
    /// Serve the owner alone, whatever tokens were given out
    #[arg(long)]
    pub(crate) no_tokens: bool,
    /// Take tokens that this issuer signed, as OpenID Connect has it
    #[arg(long, value_name = "URL", requires = "audience")]
    pub(crate) issuer: Option<String>,
    /// Whom an issuer's tokens must be for; may be given several times
    #[arg(long, value_name = "NAME", requires = "issuer")]
    pub(crate) audience: Vec<String>,
    /// The issuer's keys: a file or an address of a JWKS [default: as the issuer says]
    #[arg(long, value_name = "FILE|URL", requires = "issuer")]
    pub(crate) jwks: Option<String>,
    /// The claim that names the actor
    #[arg(long, value_name = "NAME", default_value = "sub", requires = "issuer")]
    pub(crate) actor_claim: String,
    /// Believe the headers of AgentCore Runtime that name the user; only where nobody else can send them
    #[arg(long)]
    pub(crate) trust_runtime_headers: bool,
    /// A name that the server is reached by, besides this machine's own; may be given several times. `*` is any name, for
    /// a platform that sends names which you cannot know, as AgentCore Runtime may; it needs `--trust-runtime-headers`
    #[arg(long, value_name = "HOST", env = "UNFORGET_ALLOW_HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// A page that may use the server, as `https://host`; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Do without the page at `/`
    #[arg(long)]
    pub(crate) no_page: bool,
    /// An actor who may read `/metrics`; may be given several times
    #[arg(long, value_name = "ACTOR")]
    pub(crate) operator: Vec<String>,
    /// Let actors other than the owner run commands on this machine: they could read each other's files
    #[arg(long)]
    pub(crate) share_commands: bool,
    /// Where other servers that share the remote reach this one [default: http:// and the address that it listens on]
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// A file with the secret of the cluster, the same at every server: servers that have it forward requests to the one that serves a
    /// session. Beyond this machine they need `--advertise https://NAME`
    #[arg(long, value_name = "FILE", env = "UNFORGET_CLUSTER_KEY")]
    pub(crate) cluster_key: Option<PathBuf>,
    /// A bound, as `--check` lists them: `sockets_per_actor=16`; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) limit: Vec<String>,
    #[command(flatten)]
    pub(crate) there: There,
    /// Do without a remote, whatever is set
    #[arg(long, conflicts_with_all = ["url", "tenant", "key_file", "encrypt"])]
    pub(crate) no_remote: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}
