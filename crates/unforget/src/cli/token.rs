//! The command line of the tokens that let people into a server.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    ///
    /// Whoever sends it to the server (`Authorization: Bearer TOKEN`) is ACTOR, and has ACTOR's sessions and no others. Only its digest is
    /// kept, so nobody can print it again; lose it, and make another one. A server that runs with tokens takes it at once; one that runs
    /// for its owner alone takes tokens when it is started again. Into a file that only you
    /// can read, for a program:
    ///
    ///   (umask 077; unforget token add ada --label laptop --expires 90d > token)
    Add(TokenAdd),
    /// List the tokens: whose they are, what they are for and how long they hold, but not the tokens themselves
    Ls,
    /// Take a token back; a server that runs refuses it a second later
    Rm(TokenRm),
}

#[derive(Debug, Args)]
pub(crate) struct TokenAdd {
    /// Who sends it: any name; the same name is the same person
    pub(crate) actor: String,
    /// What it is for, to tell it from others
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// How long it holds: `30d`, `12h`, `6mo`, or `never`
    #[arg(long, value_name = "TIME", default_value = "never")]
    pub(crate) expires: String,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRm {
    /// The token's id as `token ls` shows it, or the beginning of it
    pub(crate) id: String,
}
