"""One run of the store's process: its pipes, and the threads that read them.

It passes on lines, and tells when there will be no more. What lines mean, it does not know. The pipes are used without buffers of Python's, so that a
process that is forked from this one can let go of them without touching a lock that somebody else held.
"""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator

from ._program import Program
from .errors import ProgramMissing

logger = logging.getLogger("unforget")

_CHUNK = 1 << 20
# How many lines of what the process said to people are kept, to be told if it cannot be started.
_KEPT_WORDS = 20
# The machine has too little of something at this moment: processes, memory, files. That says nothing about the program.
_EXHAUSTED = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class CannotStart(Exception):
    """The machine cannot start a process now."""


class Child:
    """A process that was started."""

    def __init__(self, program: Program, take_line: Callable[[Child, bytes], None], take_end: Callable[[Child], None]):
        try:
            # A session of its own: an interrupt from the keyboard is for the agent, which may still have something to save.
            self._process = subprocess.Popen(
                program.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=program.environment(),
                start_new_session=True,
            )
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise CannotStart(f"{program.binary} cannot be started now: {error}") from error
            raise ProgramMissing(f"{program.binary} cannot be started: {error}", "program") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._files = [self._process.stdin, self._process.stdout, self._process.stderr]
        self._input, self._output, self._words_output = (file.fileno() for file in self._files)
        self._words: deque[str] = deque(maxlen=_KEPT_WORDS)
        # Set by whoever takes the end, so that it happens together with what the end means to them.
        self.ended = threading.Event()
        self._take_line, self._take_end = take_line, take_end
        self._threads = [
            threading.Thread(target=self._listen, name="unforget-answers", daemon=True),
            threading.Thread(target=self._overhear, name="unforget-words", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Writes a line; raises `OSError` if nobody reads any more."""
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._input, rest) :]

    def finish(self, seconds: float) -> int:
        """Says that nothing more comes, and waits for the end of the process, but not for ever."""
        self._files[0].close()
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = self.kill()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        for file in self._files:
            file.close()
        return status

    def kill(self) -> int:
        """Ends the process at once."""
        self._process.kill()
        return self._process.wait()

    def words(self) -> str:
        """What the process said to people last."""
        self._threads[1].join(1)
        return "\n".join(self._words).strip()

    def abandon(self) -> None:
        """Lets go of the pipes in a process that was forked from the one which this is the child of."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for file in self._files:
            if not file.closed:
                os.dup2(nowhere, file.fileno(), inheritable=False)
        os.close(nowhere)
        # It is not this process's to wait for.
        self._process.returncode = 0

    def _listen(self) -> None:
        try:
            for line in _lines(self._output):
                self._take_line(self, line)
        finally:
            self._take_end(self)

    def _overhear(self) -> None:
        for line in _lines(self._words_output):
            words = line.decode(errors="replace").rstrip()
            if words:
                self._words.append(words)
                logger.warning("%s", words)


def _lines(descriptor: int) -> Iterator[bytes]:
    """The lines of a pipe, of any length; what is not ended is not a line."""
    pieces: list[bytes] = []
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except OSError:
            return
        if not chunk:
            return
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            pieces.append(line)
            yield b"".join(pieces)
            pieces.clear()
        if rest:
            pieces.append(rest)
