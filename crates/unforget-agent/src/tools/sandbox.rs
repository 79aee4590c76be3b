//! The sandbox of commands: what a command may write, and what it may not read.
//!
//! On Linux the kernel's Landlock confines a process and everything that it starts, for good. A command may write in the
//! workspace, in folders for temporary files and to some devices, and may read everything but what is hidden. Landlock
//! knows only what is allowed, so `rules` grants the siblings of whatever leads to something hidden. Names can be
//! listed everywhere; contents cannot.
//!
//! A process confines itself, between its start and the command. As nothing may run between fork and exec here, the
//! program starts itself with a hidden subcommand, which calls [`enter`] and then becomes the shell. A sandbox that cannot be
//! built ends the command; it never runs without one in silence.
//!
//! Root is confined like anybody else: what would let it look into other processes in spite of the sandbox is given up for
//! good on the way in.
//!
//! Not confined: the network, and services behind sockets (D-Bus, docker, an SSH agent) that act on request.

mod rules;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

pub use self::rules::SandboxError;

/// Devices that commands write to.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// What the kernel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It confines commands.
    Full,
    /// It confines commands, but files outside can be emptied (Linux 5.13 to 6.1).
    WithoutTruncation,
    /// It cannot, or this is another system.
    None,
}

impl Support {
    /// What a person has to know about it.
    pub fn told(self) -> &'static str {
        match self {
            Self::Full => "commands run in a sandbox (Landlock)",
            Self::WithoutTruncation => {
                "commands run in a sandbox (Landlock), but this kernel cannot keep them from emptying files outside it"
            }
            Self::None => "commands run without a sandbox: this kernel has no Landlock",
        }
    }
}

/// What a command may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Folders and files that it may change.
    pub writable: Vec<PathBuf>,
    /// Files and folders that it may not read, unless they are inside one that it may change.
    pub hidden: Vec<PathBuf>,
}

/// How a command gets into its sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The program that calls [`enter`], and its first arguments.
    pub launcher: Vec<OsString>,
    /// What no command reads.
    pub hidden: Vec<PathBuf>,
    /// Where temporary files go.
    pub temporary: Vec<PathBuf>,
}

impl Sandbox {
    /// What a command in this workspace may do.
    pub(super) fn policy(&self, workspace: &Path) -> Policy {
        let devices = DEVICES.iter().map(PathBuf::from);
        let writable = std::iter::once(workspace.to_path_buf()).chain(self.temporary.iter().cloned()).chain(devices);
        Policy { writable: writable.collect(), hidden: self.hidden.clone() }
    }

    /// The program and its arguments that run a command in this workspace.
    pub(super) fn command_line(&self, workspace: &Path, command: &str) -> io::Result<(OsString, Vec<OsString>)> {
        let mut launcher = self.launcher.iter().cloned();
        let program = launcher.next().ok_or_else(|| io::Error::other("the sandbox has no launcher"))?;
        let mut arguments: Vec<OsString> = launcher.collect();
        let policy = self.policy(workspace);
        for (flag, paths) in [("--writable", policy.writable), ("--hidden", policy.hidden)] {
            arguments.extend(paths.into_iter().flat_map(|path| [OsString::from(flag), path.into_os_string()]));
        }
        arguments.extend(["--".into(), command.into()]);
        Ok((program, arguments))
    }
}

/// Confines this process and everything that it starts.
#[cfg(target_os = "linux")]
pub fn enter(policy: &Policy) -> Result<(), SandboxError> {
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
        RulesetCreatedAttr as _, RulesetStatus, Scope,
    };
    let kernel = |error: &dyn std::fmt::Display| SandboxError::Kernel(error.to_string());
    let write = AccessFs::from_all(ABI::V3);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)
        .and_then(|ruleset| ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .and_then(landlock::Ruleset::create)
        .map_err(|error| kernel(&error))?;
    for rule in rules::of(policy)? {
        let access = match rule.grant {
            rules::Grant::Names => AccessFs::ReadDir.into(),
            rules::Grant::Read => AccessFs::from_read(ABI::V3),
            rules::Grant::Write => write,
        };
        let access = if rule.is_folder { access } else { access & AccessFs::from_file(ABI::V3) };
        // What was there a moment ago and is gone needs no rule.
        let Ok(path) = PathFd::new(&rule.path) else { continue };
        ruleset = ruleset.add_rule(PathBeneath::new(path, access)).map_err(|error| kernel(&error))?;
    }
    give_up_capabilities().map_err(|error| kernel(&error))?;
    let status = ruleset.restrict_self().map_err(|error| kernel(&error))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(SandboxError::Kernel(Support::None.told().to_owned())),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Keeps only those of root's capabilities that are about its own files and processes. They do not come back with the next
/// program, because a confined process never gets new privileges.
#[cfg(target_os = "linux")]
fn give_up_capabilities() -> rustix::io::Result<()> {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::NET_BIND_SERVICE;
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable &= kept;
    set_capabilities(None, sets)
}

/// Confines nothing: there is no Landlock here.
#[cfg(not(target_os = "linux"))]
pub fn enter(_policy: &Policy) -> Result<(), SandboxError> {
    Err(SandboxError::Kernel(Support::None.told().to_owned()))
}

/// What the kernel can do.
#[cfg(target_os = "linux")]
pub fn support() -> Support {
    use landlock::{ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _};
    let can = |abi: ABI| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        ruleset.handle_access(AccessFs::from_all(abi)).and_then(landlock::Ruleset::create).is_ok()
    };
    match (can(ABI::V3), can(ABI::V1)) {
        (true, _) => Support::Full,
        (false, true) => Support::WithoutTruncation,
        (false, false) => Support::None,
    }
}

/// What the kernel can do.
#[cfg(not(target_os = "linux"))]
pub fn support() -> Support {
    Support::None
}
