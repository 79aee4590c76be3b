"""The program `unforget`: where it is, and how a store of it is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .errors import ProgramMissing

NAME = "unforget.exe" if sys.platform == "win32" else "unforget"
VARIABLE = "UNFORGET_BIN"
# How long a program may take to say its version.
_VERSION_SECONDS = 30.0


@dataclass(frozen=True)
class Program:
    """A store as a child process; two that are equal can share one process."""

    binary: str
    home: str | None = None
    # May hold a password, so it is neither shown nor an argument, which everybody on the machine could read. False is none, whatever is set elsewhere.
    remote: str | Literal[False] | None = field(default=None, repr=False)
    tenant: str | None = None
    ack: str | None = None

    def command(self) -> list[str]:
        """The command line."""
        command = [self.binary, "store", "--stdio"]
        for name, value in [("--home", self.home), ("--tenant", self.tenant), ("--ack", self.ack)]:
            if value is not None:
                command.append(f"{name}={value}")
        if self.remote is False:
            command.append("--no-remote")
        return command

    def environment(self) -> dict[str, str]:
        """The environment: this process's, and where the remote is."""
        environment = dict(os.environ)
        if self.remote:
            environment["UNFORGET_REMOTE"] = self.remote
        return environment

    def place(self) -> str:
        """The folder of the store, in words."""
        return "its usual folder" if self.home is None else repr(self.home)

    def is_another(self) -> bool:
        """Whether the program says that it is another one than `unforget`; one that cannot be asked now says nothing."""
        try:
            done = subprocess.run(
                [self.binary, "--version"],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_VERSION_SECONDS,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return not done.stdout.startswith(b"unforget ")


def find(binary: str | os.PathLike[str] | None = None) -> str:
    """Finds the program: as given, as `UNFORGET_BIN` says, beside this Python, or on the `PATH`."""
    for source, given in [("binary", binary), (VARIABLE, os.environ.get(VARIABLE) or None)]:
        if given is not None:
            found = shutil.which(os.path.expanduser(given))
            if found is None:
                raise ProgramMissing(
                    f"{source} says {os.fspath(given)!r}, which is no program that can be run", "program"
                )
            return os.path.abspath(found)
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), os.path.join(sys.prefix, "bin")]
    for folder in folders:
        candidate = Path(folder) / NAME
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which(NAME)
    if found is None:
        raise ProgramMissing(
            f"the program {NAME!r} is neither beside this Python nor on the PATH; install it, or set {VARIABLE}",
            "program",
        )
    return os.path.abspath(found)
