"""A machine on which the real SDK and the real command line run, offline, with a fake Messages API.

What is sent is recorded on the way, byte for byte, by a proxy: to tell whether two requests are the same, bytes have to be looked at.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import claude_agent_sdk
import pytest

FAKE_API = os.environ.get("UNFORGET_FAKE_API")
CLAUDE = os.environ.get("CLAUDE_BIN") or str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")
_QUIET = (
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)


@dataclass
class Sent:
    """A request of a conversation."""

    session: str | None
    agent: str | None
    body: bytes

    def part(self, name: str) -> str:
        """A member of the body, as it was written: neither its order nor its spelling is touched."""
        text = self.body.decode()
        decoder = json.JSONDecoder()
        at = text.index("{") + 1
        while True:
            at = re.compile(r"[\s,]*").match(text, at).end()  # type: ignore[union-attr]
            member, at = decoder.raw_decode(text, at)
            start = re.compile(r"\s*:\s*").match(text, at).end()  # type: ignore[union-attr]
            _, at = decoder.raw_decode(text, start)
            if member == name:
                return text[start:at]

    def has_tools(self) -> bool:
        return bool(json.loads(self.body).get("tools"))


@dataclass
class Machine:
    """Where agents run."""

    folder: Path
    url: str
    sent: list[Sent] = field(default_factory=list)

    def environment(self, config: str = "config") -> dict[str, str]:
        """What the command line needs to find the API, and to leave the developer's own things alone."""
        for name in ("home", config):
            (self.folder / name).mkdir(exist_ok=True)
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-offline-dummy",
            "CLAUDE_CONFIG_DIR": str(self.folder / config),
            "HOME": str(self.folder / "home"),
            **dict.fromkeys(_QUIET, "1"),
        }

    def cwd(self, name: str) -> Path:
        """A folder to work in."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder.resolve()

    def conversation(self, session: str | None = None) -> list[Sent]:
        """The requests of the main conversation of a session, or of all."""
        return [one for one in self.sent if one.agent is None and one.has_tools() and session in (None, one.session)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine with a fake API, if `UNFORGET_FAKE_API` says where that program is."""
    if not FAKE_API or not Path(CLAUDE).exists():
        pytest.skip("needs UNFORGET_FAKE_API and the command line of Claude Code")
    api = subprocess.Popen([FAKE_API, "--pace", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert api.stdout is not None
        target = urlsplit(api.stdout.readline().strip())
        machine = Machine(tmp_path / "machine", "")
        machine.folder.mkdir()
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), _recorder(machine, target.hostname or "", target.port or 80))
        machine.url = f"http://127.0.0.1:{proxy.server_address[1]}"
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield machine
        proxy.shutdown()
        proxy.server_close()
    finally:
        api.kill()
        api.communicate()


def _recorder(machine: Machine, host: str, port: int) -> type[BaseHTTPRequestHandler]:
    class Recorder(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(host, port, timeout=60)
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")
            }
            connection.request(self.command, self.path, body, {**headers, "Connection": "close"})
            response = connection.getresponse()
            answer = response.read()
            if self.command == "POST" and self.path.split("?")[0] == "/v1/messages" and response.status == 200:
                session, agent = (self.headers.get(f"x-claude-code-{name}-id") for name in ("session", "agent"))
                machine.sent.append(Sent(session, agent, body))
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_HEAD = do_POST = _pass_on

        def log_message(self, *arguments: Any) -> None:
            pass

    return Recorder
